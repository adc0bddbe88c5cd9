//! paceline's controllers inside noq: `copa@quic/noq`.
//!
//! [`Factory::noq`](crate::Factory::noq) goes into a [`noq_proto::TransportConfig`] as it does into one of quinn. [`Bridge`] is the translation,
//! without clock and sockets. [`NOQ`] moves bytes over noq's state machine in a loop of its own.

mod adapter;
mod bridge;
#[cfg(target_os = "linux")]
mod end;
#[cfg(target_os = "linux")]
mod flow;

pub use adapter::{Adapter, Ticker};
pub use bridge::{Bridge, Report};
#[cfg(target_os = "linux")]
pub use flow::NOQ;
