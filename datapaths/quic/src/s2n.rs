//! paceline's controllers inside s2n-quic: `copa@quic/s2n`.
//!
//! [`Factory::s2n`](crate::Factory::s2n) goes into a builder of s2n-quic by `with_congestion_controller`. [`Bridge`] is the translation, without
//! clock and sockets. [`Machine`] is an endpoint of s2n-quic without them, which a loop of one's own turns; [`Io`] is ours, in a thread, where
//! packets leave when they are due and not at the next millisecond. [`S2N`] moves bytes over the same loop on the calling thread.

mod adapter;
mod bridge;
#[cfg(target_os = "linux")]
mod end;
#[cfg(target_os = "linux")]
mod flow;
mod machine;

pub use adapter::{Adapter, Watch};
pub use bridge::{Bridge, PacketCounts};
#[cfg(target_os = "linux")]
pub use end::Io;
#[cfg(target_os = "linux")]
pub use flow::S2N;
pub use machine::{Captured, Machine, Outgoing};
