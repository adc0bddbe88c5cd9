//! Watching a run packet by packet, for logs. Figures come from [`crate::Outcome`].

use std::sync::{Arc, Mutex};

use paceline_cc::observe::Observer;
use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_path::{DelaySplit, DropReason, Snapshot};
use paceline_transport::{AckSegment, Segment, Sender};

use crate::topology::Graph;
use crate::when::When;

/// Which of a flow's controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The one whose packets are on the path: of `@alcc` that of the lower TCP.
    Packets,
    /// The one above TCP, where there is one: its packets are what it hands over.
    Above,
}

/// One moment by a flow's clock and by the world's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// What the flow's says, by which its controllers are informed.
    pub flow: Time,
    /// What the world's says.
    pub world: Time,
}

impl Moment {
    /// A time of the flow's clock by the world's, not before its zero.
    pub fn in_world(self, at: Time) -> Time {
        if at >= self.flow { self.world + (at - self.flow) } else { self.world - (self.flow - at) }
    }
}

/// A tap that the threads of a world in real time ask.
pub type SharedTap = Arc<Mutex<dyn Tap>>;

/// A controller that is about to start.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Whose: the flows of the world are counted from 0 in the order in which they start, without cross traffic.
    pub flow: u32,
    /// Which of the flow's controllers.
    pub layer: Layer,
    /// The controller.
    pub spec: &'a Spec,
    /// What it is made with.
    pub env: &'a Env,
    /// How the clock of its events stands to the world's.
    pub moment: Moment,
}

/// Where and why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate<'a> {
    /// When.
    pub at: Time,
    /// The hop's name, as in [`Graph::hops`].
    pub hop: &'a str,
    /// Why.
    pub reason: DropReason,
}

/// Sees every packet of every flow, and what its controllers see. All methods do nothing unless overridden. `flow` counts
/// the flows of the world from 0 in the order in which they started, without cross traffic.
pub trait Tap: Send {
    /// Who sees the events of one of a flow's controllers; asked once for each before the flow starts.
    fn observer(&mut self, _of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        None
    }

    /// A data packet left its sender.
    fn on_sent(&mut self, _now: Time, _flow: u32, _segment: &Segment) {}

    /// A data packet reached its receiver.
    fn on_arrival(&mut self, _now: Time, _flow: u32, _segment: &Segment, _ce: bool, _delay: &DelaySplit) {}

    /// A data packet was dropped. In real time those of a family's flows count for its first.
    fn on_dropped(&mut self, _flow: u32, _fate: &Fate<'_>) {}

    /// How often every hop shows a [`Snapshot`] of itself; asked once. Arrival rates and flows are those of this interval.
    fn snapshot_every(&self) -> Option<Nanos> {
        None
    }

    /// Snapshots of all hops, in the order of [`Graph::hops`]; `None` of a hop that nothing limits.
    fn on_snapshot(&mut self, _now: Time, _graph: &Graph, _hops: &[Option<Snapshot>]) {}

    /// A controller triggered changes, which are made now.
    fn on_when(&mut self, _now: Time, _when: &When) {}

    /// An acknowledgement reached its sender, which has digested it.
    fn on_ack(&mut self, _now: Time, _flow: u32, _ack: &AckSegment, _sender: &dyn Sender) {}
}
