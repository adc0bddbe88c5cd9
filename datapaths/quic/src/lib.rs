//! paceline's controllers inside QUIC: `copa@quic` is [`paceline_cc::copa`] as a congestion controller of `quinn`.
//!
//! [`Factory`] makes any expressible controller of the registry from its text and goes into a
//! [`quinn::TransportConfig`]; what quinn cannot express is refused there with the reason ([`paceline_cc::Misfit`]). [`Bridge`] is
//! the translation itself, without clock and sockets. [`serve`] and [`send`] move bytes with it, each on the calling
//! thread and within a deadline.
//!
//! docs/design/quic.md says what is lost on the way.

mod adapter;
mod batches;
mod bridge;
mod factory;
mod flow;
#[cfg(feature = "noq")]
pub mod noq;
mod ticks;

pub use adapter::Adapter;
pub use bridge::Bridge;
pub use factory::{Factory, Recording, RttSample};
pub use flow::{Error, Identity, MTU, Received, Sending, Sent, send, serve};
