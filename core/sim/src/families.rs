//! What is known of each configured flow, and of each source of cross traffic.

use paceline_cc::{Nanos, Time};
use paceline_experiment::{Application, Arrivals, Cross, Flow, Frames, Gaps, PathMemory, Seed, Topology};

use crate::body::{Body, Label};
use crate::room::Room;

/// A configured flow, or a family of them.
pub(crate) struct Family {
    pub(crate) flow: Flow,
    /// Its way, among the distinct ones.
    pub(crate) way: u32,
    /// What its path holds.
    pub(crate) room: Room,
    /// Where it is a family.
    pub(crate) arrivals: Option<Arrivals>,
    /// Where its application writes in turns.
    pub(crate) application: Option<Application>,
    /// Where it hands over frames.
    pub(crate) frames: Option<Frames>,
    /// What its flows know of the place that they go to.
    pub(crate) memory: PathMemory,
    /// Number of the flow that it has started, where it is not a family.
    pub(crate) number: Option<u32>,
    /// When its application's next turn is.
    pub(crate) turn: Time,
    /// Where its application pauses.
    pub(crate) pause: Option<Pause>,
}

/// An application that pauses.
pub(crate) struct Pause {
    /// Bytes that it had handed over and that had not been sent.
    pub(crate) unsent: u64,
    /// From there to its next turn.
    pub(crate) wait: Nanos,
}

impl Family {
    /// That of this index, in a world that lasts so long.
    pub(crate) fn new(
        index: usize,
        flow: Flow,
        way: u32,
        seed: Seed,
        topology: &Topology<Body>,
        duration: Nanos,
    ) -> Self {
        let application = Application::new(&flow.workload, flow.mss, seed, index);
        Self {
            way,
            room: Room::new(&flow, topology, duration),
            arrivals: Arrivals::new(&flow.workload, seed, index),
            frames: application.as_ref().and_then(Application::frames),
            application,
            memory: PathMemory::of(&flow),
            number: None,
            turn: Time::NEVER,
            pause: None,
            flow,
        }
    }
}

/// A source of cross traffic.
pub(crate) struct Source {
    pub(crate) cross: Cross,
    pub(crate) label: Label,
    pub(crate) gaps: Gaps,
}

impl Source {
    /// That of this index, which is the number of its packets.
    pub(crate) fn new(index: usize, cross: Cross, way: u32, seed: Seed) -> Self {
        let gaps = Gaps::new(&cross, seed, index);
        Self { cross, label: Label { number: index as u32, way, family: None }, gaps }
    }
}
