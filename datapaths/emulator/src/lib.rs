//! The emulator: a [`paceline_path::Path`] that runs against the clock between ports, and the network namespaces around it.
//!
//! On systems other than Linux this crate is empty.
#![cfg(target_os = "linux")]

pub mod accuracy;
pub mod command;
pub mod emulator;
pub mod frame;
pub mod log;
pub mod machine;
pub mod meter;
pub mod port;
pub mod world;

pub use emulator::{
    DirectionReport, DuplexLink, Emulator, EmulatorError, EmulatorReport, EmulatorTap, HopWriter, LinkReport, Passage,
    PathChanger, Setup,
};
pub use frame::{FlowKey, Frame};
pub use port::{PacketSocket, Port, Tun};
pub use world::{Between, EmulatedWorld, Far, Network, Nodes, Site, WorldEnds, WorldError};
