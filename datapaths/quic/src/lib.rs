//! paceline's controllers inside QUIC: `copa@quic` is [`paceline_cc::copa`] as a congestion controller of `quinn`.
//!
//! [`Factory`] makes any expressible controller of the registry from its text and goes into a
//! [`quinn::TransportConfig`]; what quinn cannot express is refused there with the reason ([`paceline_cc::Misfit`]). [`Bridge`] is
//! the translation itself, without clock and sockets. A [`Stack`] moves bytes with it, each end on the calling thread and within a deadline:
//! [`QUINN`], or another of [`STACKS`].
//!
//! docs/design/quic.md says what is lost on the way.

mod adapter;
mod batches;
mod bridge;
mod factory;
mod flow;
#[cfg(feature = "noq")]
pub mod noq;
#[cfg(feature = "s2n")]
pub mod s2n;
#[cfg(all(target_os = "linux", any(feature = "noq", feature = "s2n")))]
mod socket;
mod stack;
mod ticks;

pub use adapter::Adapter;
pub use bridge::Bridge;
pub use factory::{Factory, Recording, RttSample};
pub use flow::QUINN;
pub use stack::{Error, Identity, MTU, Received, Sending, Sent, Stack};

/// Those of this build.
pub const STACKS: &[&Stack] = &[
    &QUINN,
    #[cfg(all(feature = "noq", target_os = "linux"))]
    &noq::NOQ,
    #[cfg(all(feature = "s2n", target_os = "linux"))]
    &s2n::S2N,
];
