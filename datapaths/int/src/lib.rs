//! In-band telemetry on Linux. Three roles, each a program on tc (eBPF): the source inserts an IPv6 Hop-by-Hop header into the packets
//! of chosen flows, a transit hop writes what it sees into it, the sink takes it out again and reports what it read.
//!
//! Needs Linux 6.6 or newer with BTF, and root.
//!
//! On other systems this crate is empty.
#![cfg(target_os = "linux")]
