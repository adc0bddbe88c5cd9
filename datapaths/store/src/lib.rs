//! The router's store in the kernel: units of named content that are answered by eBPF at the interface where requests come in (native XDP),
//! before a socket sees them. The program is `src/bpf/store.bpf.c`. Which units are in it, and that they are genuine, is its owner's business
//! ([`KernelStore::insert`]); so are tokens' keys and limits ([`KernelStore::set`], [`KernelStore::buckets`]).
//!
//! A request that does not fit (other forms, other units, no token or an old one, several units) goes on to the socket. What is answered
//! differs from what a router answers by the time that it waited: 0. No firewall, capture or route sees such an answer: it leaves
//! where the request came in, to the address on the link that it came from.
//!
//! Needs Linux 5.18 or newer with BTF, and root. On other systems this crate is empty.
#![cfg(target_os = "linux")]

mod counters;
mod error;
mod load;
mod settings;
mod slabs;
mod store;

pub use counters::KernelStoreCounts;
pub use error::KernelStoreError;
pub use settings::KernelStoreSettings;
pub use store::{FrameVerdict, KernelStore, PART_UNITS};
