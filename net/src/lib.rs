//! paceline on Linux, in real time: network namespaces, the emulator that runs a [`paceline_path::Path`] against the clock,
//! datagram endpoints over real sockets, and flows of the kernel's own TCP.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]

pub mod udp;
