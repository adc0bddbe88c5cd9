//! paceline on Linux, in real time: network namespaces, the emulator that runs a [`paceline_path::Path`] against the clock,
//! datagram endpoints over real sockets, and flows of the kernel's own TCP.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

pub mod accuracy;
pub mod clock;
pub mod command;
pub mod emulator;
pub mod frame;
pub mod interface;
pub mod listening;
pub mod log;
pub mod machine;
pub mod namespace;
pub mod port;
pub mod race;
pub mod tcp;
pub mod tunnel;
pub mod udp;
pub mod world;

pub use clock::{Clock, Lateness, Sleeper, Wake};
pub use emulator::{DirectionReport, Emulator, EmulatorError, EmulatorReport, Passage, Scheduling, Setup, Tap};
pub use frame::{FlowKey, Frame};
pub use namespace::{Namespace, NamespaceError, Privilege};
pub use port::{PacketSocket, Port, Tun};
pub use world::{Between, Ends, Far, Site, World, WorldError};
