//! Datagram endpoints over loopback: real sockets, bounded in time.
#![cfg(target_os = "linux")]

mod endpoints;
