//! Paced chirping as a start-up: trains of packets whose gaps shrink find the capacity with a queue of a few packets.
//!
//! Source: Misund and Briscoe, "Paced Chirping: Rapid flow start with very low queuing delay" (2019), and the code
//! released with it. Three generations of it and ours are start-ups of every window controller:
//! - `start=chirp-p`, the module of 2018 behind the paper's figures ([`rounds`]);
//! - `start=chirp-q`, its rewrite of 2019 ([`rounds`]);
//! - `start=chirp-r`, the newest kernel branch ([`load`]);
//! - `start=chirp`, ours, which goes past the paper ([`adaptive`]).
//!
//! Parts: [`geometry`] plans the gaps of a chirp, `flight` keeps the chirps of the released generations in flight, `train`
//! those of ours, [`analysis`] reads the gap of the path from what comes back.

pub mod adaptive;
pub mod analysis;
mod flight;
pub mod geometry;
pub mod load;
pub mod rounds;
mod train;

use crate::ability::Ability;
use crate::entry::{Kind, ON_OFF, Param, Params, StartUpEntry};
use geometry::LONGEST;

pub use adaptive::Adaptive;
pub use flight::untag as place;
pub use load::Load;
pub use rounds::{Release, Rounds};

/// What a person may choose of a chirping start-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Packets of a full chirp, 2 to [`LONGEST`]. [`Load`] goes above it where the link sends in bursts.
    pub packets: usize,
    /// Growth from one round trip to the next, at least 1: of the number of chirps, with [`Adaptive`] of the load. Not for
    /// [`Load`], which grows by what it finds alone.
    pub gain: f64,
    /// First gap over average gap, 1 to 3. [`Load`] starts there and goes below it as the chirps close in on the
    /// estimate.
    pub geometry: f64,
    /// [`Adaptive`] takes charge again when marks have vanished.
    pub again: bool,
}

impl Default for Settings {
    /// 16 packets, gain 2, geometry 2: what every result of the paper used.
    fn default() -> Self {
        Self { packets: 16, gain: 2.0, geometry: 2.0, again: false }
    }
}

impl Settings {
    /// The values of the parameters of chirping start-ups.
    pub fn from_params(params: &Params) -> Self {
        Self {
            packets: params.number(PACKETS.name) as usize,
            gain: params.number(GAIN.name),
            geometry: params.number(GEOMETRY.name),
            again: params.on(AGAIN.name),
        }
    }
}

const PACKETS: Param = Param {
    name: "chirp_packets",
    unit: "packets",
    kind: Kind::Number { min: 2.0, max: LONGEST as f64 },
    default: "16",
    source: "both released modules; with chirp-r the least, more where the link sends in bursts",
};

const GAIN: Param = Param {
    name: "chirp_gain",
    unit: "growth a round trip",
    kind: Kind::Number { min: 1.0, max: 4.0 },
    default: "2",
    source: "Paced Chirping section IV; not for chirp-r, which grows by what it finds alone",
};

const GEOMETRY: Param = Param {
    name: "chirp_geometry",
    unit: "first gap over average gap",
    kind: Kind::Number { min: 1.0, max: 3.0 },
    default: "2",
    source: "Paced Chirping section IV; with chirp-r the largest",
};

const AGAIN: Param = Param {
    name: "chirp_again",
    unit: "switch",
    kind: ON_OFF,
    default: "off",
    source: "Paced Chirping section V suggests to chirp again when marks vanish; off, because it takes from flows that cause none",
};

/// `start=chirp` in the registry.
pub const ENTRY: StartUpEntry = StartUpEntry {
    name: "chirp",
    summary: "paced chirping, ours: goes past the paper",
    source: "docs/design/paced-chirping.md, after Misund and Briscoe 2019",
    params: &[PACKETS, GAIN, GEOMETRY, AGAIN],
    needs: &[Ability::ExactGaps],
    holds_against_marks: true,
    make: |params, env| Box::new(Adaptive::new(env, &Settings::from_params(params))),
};

/// `start=chirp-p` in the registry.
pub const PAPER_ENTRY: StartUpEntry = StartUpEntry {
    name: "chirp-p",
    summary: "paced chirping, the module of 2018 behind the paper's figures",
    source: "Misund and Briscoe 2019, and the module of 2018",
    params: &[PACKETS, GAIN, GEOMETRY],
    make: |params, env| Box::new(Rounds::new(env, Release::Paper, &Settings::from_params(params))),
    ..ENTRY
};

/// `start=chirp-q` in the registry.
pub const REWRITE_ENTRY: StartUpEntry = StartUpEntry {
    name: "chirp-q",
    summary: "paced chirping, the authors' rewrite of 2019",
    source: "Misund and Briscoe 2019, and the module of 2019",
    params: &[PACKETS, GAIN, GEOMETRY],
    make: |params, env| Box::new(Rounds::new(env, Release::Rewrite, &Settings::from_params(params))),
    ..ENTRY
};

/// `start=chirp-r` in the registry.
pub const BRANCH_ENTRY: StartUpEntry = StartUpEntry {
    name: "chirp-r",
    summary: "paced chirping, the newest kernel branch: grows by what it finds alone",
    source: "the authors' newest kernel branch",
    params: &[PACKETS, GEOMETRY],
    make: |params, env| Box::new(Load::new(env, &Settings::from_params(params))),
    ..ENTRY
};

#[cfg(test)]
mod tests {
    use crate::Spec;
    use crate::controller::{Ack, Env};
    use crate::start_ups::START_UPS;
    use crate::testing::ack;
    use crate::units::{Nanos, Time};

    #[test]
    fn marks_change_alpha_and_not_the_window() {
        for start in START_UPS.iter().filter(|entry| entry.holds_against_marks).map(|entry| entry.name) {
            for policy in ["dctcp", "prague"] {
                let spec: Spec = format!("{policy}:start={start}").parse().unwrap();
                let mut flow = spec.build(&Env::default());
                let before = (flow.window(), flow.pacing());
                for round in 1..4 {
                    let plain = ack(Time::from_millis(30 * round), Nanos::from_millis(15), 1);
                    flow.on_ack(&Ack { ce_bytes: plain.bytes, ce_packets: 1, echo: true, ..plain });
                }
                assert_eq!(flow.window(), before.0, "{spec}");
                assert!(flow.permit().holds_against_marks, "{spec}");
                let mut alpha = 0.0;
                flow.describe(&mut |name, value| alpha = if name == "alpha" { value } else { alpha });
                assert!(alpha >= 1.0 / 16.0, "{spec}: {alpha}");
            }
        }
    }
}
