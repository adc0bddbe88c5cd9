//! The two ends of a flow.

use paceline_cc::observe::{Observed, Observer};
use paceline_cc::{Env, Spec};
use paceline_transport::{AckPolicy, Config, Pace, Receiver, Sender, Steering, above, datagram, stream};

use crate::config::{Flow, Via};
use crate::icn::{Requester, Router};
use crate::tap::Layer;

/// Whether the simulator has the flow's datapath.
///
/// # Errors
/// [`NotSimulated`]: why not, and how to fix it.
pub fn check(flow: &Flow) -> Result<(), NotSimulated> {
    let datapath = flow.via.datapath();
    if datapath.simulated {
        return Ok(());
    }
    Err(NotSimulated { controller: flow.controller.clone(), datapath: datapath.name })
}

/// A flow over a datapath that the simulator does not have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{controller}@{datapath}: the simulator has no datapath '{datapath}'; add --real, or write {controller}@udp")]
pub struct NotSimulated {
    /// The controller.
    pub controller: Spec,
    /// The datapath.
    pub datapath: &'static str,
}

/// The two ends of a flow: which of them has the controller.
pub enum Ends {
    /// The one where data comes from: it sends, and the other acknowledges.
    Push(Box<dyn Sender>, Box<dyn Receiver>),
    /// The one where data goes: it asks, and the other answers.
    Pull(Box<Requester>, Router),
}

impl Ends {
    /// The end that has the controller.
    #[inline]
    pub fn steering(&self) -> &dyn Steering {
        match self {
            Self::Push(sender, _) => sender.as_ref(),
            Self::Pull(requester, _) => requester.as_ref(),
        }
    }

    /// The same.
    #[inline]
    pub fn steering_mut(&mut self) -> &mut dyn Steering {
        match self {
            Self::Push(sender, _) => sender.as_mut(),
            Self::Pull(requester, _) => requester.as_mut(),
        }
    }

    /// The application has `bytes` more bytes to bring over ([`Steering::write`]).
    pub fn write(&mut self, bytes: u64) {
        if let Self::Pull(_, router) = self {
            router.write(bytes);
        }
        self.steering_mut().write(bytes);
    }

    /// Payload bytes ready for the application ([`Receiver::bytes_ready`]).
    #[inline]
    pub fn bytes_ready(&self) -> u64 {
        match self {
            Self::Push(_, receiver) => receiver.bytes_ready(),
            Self::Pull(requester, _) => requester.bytes_ready(),
        }
    }
}

/// The ends of a flow; `observer` is asked who sees the events of each of its controllers.
///
/// # Panics
/// Where [`check`] refuses the flow.
pub fn make(flow: &Flow, env: &Env, mut observer: impl FnMut(&Spec, Layer) -> Option<Box<dyn Observer>>) -> Ends {
    let pace = if flow.paced { Pace::Linux } else { Pace::Off };
    let config = Config { mss: flow.mss, pace, handshake: flow.handshake, ..Config::default() };
    let policy = match flow.ack_every {
        0 | 1 => AckPolicy::immediate(),
        every => AckPolicy { every, max_delay: flow.ack_delay, ..AckPolicy::default() },
    };
    let policy = AckPolicy { arrivals: flow.arrivals, ..policy };
    let mut build = |spec: &Spec, layer| Observed::wrap(spec.build(env), observer(spec, layer));
    let half = flow.controller.build_receiver(env);
    match &flow.via {
        Via::Udp => {
            let receiver = if flow.arrivals { datagram::receiver_with_arrivals } else { datagram::receiver };
            Ends::Push(datagram::sender(&config, build(&flow.controller, Layer::Packets)), receiver(half))
        }
        Via::Tcp(_) => Ends::Push(
            stream::sender(&config, build(&flow.controller, Layer::Packets)),
            stream::receiver(&policy, half),
        ),
        Via::Alcc(lower, _) => {
            let (lower, upper) = (build(lower, Layer::Packets), build(&flow.controller, Layer::Above));
            Ends::Push(above::sender(&config, upper, lower), stream::receiver(&policy, half))
        }
        Via::Icn(asking) => {
            let requester = Requester::new(asking, &config, build(&flow.controller, Layer::Packets), env.seed);
            Ends::Pull(Box::new(requester), Router::default())
        }
        Via::Quic => panic!("a flow over QUIC is refused before it runs"),
    }
}
