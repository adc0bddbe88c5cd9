//! Controllers inside stacks of QUIC: each case is written once, and runs for each stack of this build. What one stack alone says or does is in
//! a folder of its own.

mod fork;
mod hostile;
#[cfg(all(feature = "noq", target_os = "linux"))]
mod noq;
mod quinn;
mod rate_limited;
mod refusals;
#[cfg(all(feature = "s2n", target_os = "linux"))]
mod s2n;
mod spy;
mod ticks;
mod transfer;
mod virtual_time;
mod world;

use std::time::Instant;

use paceline_cc::{Controller, Time};
use paceline_quic::{Factory, Stack};

use rate_limited::Inside;
use world::Ends;

/// A stack, and what tests need of it.
struct Tested {
    stack: &'static Stack,
    /// A connection in virtual time, its sender with a controller of this factory.
    ends: fn(Factory, Instant) -> Ends,
    /// Its calls, as a model of it makes them.
    inside: fn(Box<dyn Controller>) -> Box<dyn Inside>,
}

const STACKS: &[Tested] = &[
    Tested { stack: &paceline_quic::QUINN, ends: quinn::ends, inside: quinn::inside },
    #[cfg(all(feature = "noq", target_os = "linux"))]
    Tested { stack: &paceline_quic::noq::NOQ, ends: noq::ends, inside: noq::inside },
    #[cfg(all(feature = "s2n", target_os = "linux"))]
    Tested { stack: &paceline_quic::s2n::S2N, ends: s2n::ends, inside: s2n::inside },
];

impl Tested {
    fn factory(&self, spec: &str) -> Factory {
        self.stack.factory(spec.parse().unwrap(), 1).unwrap()
    }

    fn named(&self, name: &str) -> bool {
        self.stack.name == name
    }
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}
