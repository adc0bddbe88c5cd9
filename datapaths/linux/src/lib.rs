//! What every datapath asks of Linux, asked in one place: the clock, the scheduling of a thread, TCP connections, routes, netlink, namespaces.
//!
//! The lowest crate of the datapaths. On systems other than Linux it is empty.
#![cfg(target_os = "linux")]

pub mod clock;
pub mod connections;
#[cfg(feature = "namespaces")]
pub mod interface;
pub mod layout;
pub mod link;
pub mod listening;
#[cfg(feature = "namespaces")]
pub mod memory;
pub mod messages;
#[cfg(feature = "namespaces")]
pub mod namespace;
pub mod netlink;
pub mod release;
pub mod route;
pub mod signals;
pub mod sockopt;
pub mod tcp;
pub mod thread;
#[cfg(feature = "namespaces")]
pub mod user;
