//! The two ends of a flow.

use paceline_cc::datapath::PROGRAM;
use paceline_cc::observe::{Observed, Observer};
use paceline_cc::{Controller, Env, ReceiverHalf, Spec};
use paceline_transport::{AckPolicy, PaceStyle, Receiver, Sender, SenderConfig, Steering};

use crate::config::Flow;
use crate::icn::{Requester, Router};
use crate::tap::Layer;

/// Whether the simulator has the flow's datapath.
///
/// # Errors
/// [`NotSimulated`]: why not, and how to fix it.
pub fn check(flow: &Flow) -> Result<(), NotSimulated> {
    if flow.via.row().ends.is_some() { Ok(()) } else { Err(NotSimulated::of(flow)) }
}

/// A flow over a datapath that the simulator does not have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{controller}@{datapath}: {}", way_out(controller, datapath))]
pub struct NotSimulated {
    /// The controller.
    pub controller: Spec,
    /// The datapath.
    pub datapath: &'static str,
}

fn way_out(controller: &Spec, datapath: &str) -> String {
    if datapath == PROGRAM.name {
        return "a program runs in real time only; add --real".to_owned();
    }
    format!("the simulator has no datapath '{datapath}'; add --real, or write {controller}@udp")
}

impl NotSimulated {
    fn of(flow: &Flow) -> Self {
        Self { controller: flow.controller.clone(), datapath: flow.via.datapath().name }
    }
}

/// The two ends of a flow: which of them has the controller.
pub enum FlowEnds {
    /// The one where data comes from: it sends, and the other acknowledges.
    Push(Box<dyn Sender>, Box<dyn Receiver>),
    /// The one where data goes: it asks, and the other answers.
    Pull(Box<Requester>, Router),
}

impl FlowEnds {
    /// The application has `bytes` more bytes to bring over ([`Steering::write`]).
    pub fn write(&mut self, bytes: u64) {
        match self {
            Self::Push(sender, _) => sender.write(bytes),
            Self::Pull(requester, router) => {
                router.write(bytes);
                requester.write(bytes);
            }
        }
    }
}

/// Who sees the events of a controller.
type Observing<'a> = dyn FnMut(&Spec, Layer) -> Option<Box<dyn Observer>> + 'a;

/// What the ends of a flow are made of.
pub struct Making<'a> {
    /// The flow.
    pub flow: &'a Flow,
    /// What its controllers are made with.
    pub env: &'a Env,
    /// Options of the sender.
    pub config: SenderConfig,
    /// When a TCP receiver acknowledges.
    pub policy: AckPolicy,
    observer: &'a mut Observing<'a>,
}

impl Making<'_> {
    /// A controller of the flow, seen by the observer that asked for it.
    pub fn controller(&mut self, spec: &Spec, layer: Layer) -> Box<dyn Controller> {
        let spec = spec.clone().over(self.flow.via.datapath());
        Observed::wrap(spec.build(self.env), (self.observer)(&spec, layer))
    }

    /// The receiver half of its controller, where that has one.
    pub fn half(&self) -> Option<Box<dyn ReceiverHalf>> {
        self.flow.controller.build_receiver(self.env)
    }
}

/// The ends of a flow; `observer` is asked who sees the events of each of its controllers.
///
/// # Errors
/// As [`check`].
pub fn make(
    flow: &Flow,
    env: &Env,
    mut observer: impl FnMut(&Spec, Layer) -> Option<Box<dyn Observer>>,
) -> Result<FlowEnds, NotSimulated> {
    let ends = flow.via.row().ends.ok_or_else(|| NotSimulated::of(flow))?;
    let pace = if flow.paced { PaceStyle::Linux } else { PaceStyle::Off };
    let mut config = SenderConfig::new(flow.mss);
    config.pace = pace;
    config.handshake = flow.handshake;
    let policy = match flow.ack_every {
        0 | 1 => AckPolicy::immediate(),
        every => AckPolicy { every, max_delay: flow.ack_delay, ..AckPolicy::default() },
    };
    let policy = AckPolicy { arrivals: flow.arrivals, ..policy };
    Ok(match (ends(Making { flow, env, config, policy, observer: &mut observer }), flow.receiver) {
        (FlowEnds::Push(sender, receiver), Some(misbehaviour)) => FlowEnds::Push(sender, misbehaviour.of(receiver)),
        (ends, _) => ends,
    })
}
