//! Races in real time, on Linux: what the simulator does in virtual time, done by sockets, by the kernel's own TCP and by the
//! emulator.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

mod endpoint;
mod numbers;
mod observers;
pub mod race;
pub mod remote;
pub mod tcp;
pub mod tunnel;
mod whens;
mod workload;

pub use endpoint::prefer;
