//! paceline on Linux, in real time: network namespaces, the emulator that runs a [`paceline_path::Path`] against the clock,
//! datagram endpoints over real sockets, and flows of the kernel's own TCP.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

pub mod clock;
pub mod command;
pub mod emulator;
pub mod frame;
pub mod interface;
pub mod listening;
pub mod namespace;
pub mod port;
pub mod world;

pub use clock::{Clock, Lateness, Sleeper};
pub use emulator::{DirectionReport, Emulator, EmulatorError, EmulatorReport, Passage, Scheduling, Setup, Tap};
pub use frame::{FlowKey, Frame};
pub use port::{PacketSocket, Port, Tun};
