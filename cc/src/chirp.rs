//! Paced chirping as a start-up: trains of packets whose gaps shrink find the capacity with a queue of a few packets.
//!
//! Source: Misund and Briscoe, "Paced Chirping: Rapid flow start with very low queuing delay" (2019), and the code
//! released with it. `start=chirp-q` is the code of 2019 ([`rounds`]).
//!
//! Parts: [`geometry`] plans the gaps of a chirp, `flight` keeps what is in flight, [`analysis`] reads the gap of the path
//! from what comes back.

pub mod adaptive;
pub mod analysis;
mod flight;
pub mod geometry;
pub mod rounds;
mod train;

use crate::registry::{Kind, Param, Params};
use geometry::LONGEST;

pub use adaptive::Adaptive;
pub use rounds::Rounds;

/// What a person may choose of a chirping start-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Packets of a full chirp, 2 to [`LONGEST`].
    pub packets: usize,
    /// Growth of the number of chirps from one round to the next, at least 1.
    pub gain: f64,
    /// First gap over average gap, 1 to 3.
    pub geometry: f64,
}

impl Default for Settings {
    /// 16 packets, gain 2, geometry 2: what every result of the paper used.
    fn default() -> Self {
        Self { packets: 16, gain: 2.0, geometry: 2.0 }
    }
}

impl Settings {
    /// The values of [`PACKETS`], [`GAIN`] and [`GEOMETRY`].
    pub fn from_params(params: &Params) -> Self {
        Self {
            packets: params.number(PACKETS.name) as usize,
            gain: params.number(GAIN.name),
            geometry: params.number(GEOMETRY.name),
        }
    }
}

/// The parameter `chirp_packets`.
pub const PACKETS: Param = Param {
    name: "chirp_packets",
    unit: "packets",
    kind: Kind::Number { min: 2.0, max: LONGEST as f64 },
    default: "16",
    source: "both released modules",
};

/// The parameter `chirp_gain`.
pub const GAIN: Param = Param {
    name: "chirp_gain",
    unit: "chirps a round over those of the round before",
    kind: Kind::Number { min: 1.0, max: 4.0 },
    default: "2",
    source: "Paced Chirping section IV",
};

/// The parameter `chirp_geometry`.
pub const GEOMETRY: Param = Param {
    name: "chirp_geometry",
    unit: "first gap over average gap",
    kind: Kind::Number { min: 1.0, max: 3.0 },
    default: "2",
    source: "Paced Chirping section IV",
};
