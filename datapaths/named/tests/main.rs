//! Named content over sockets.
#![cfg(target_os = "linux")]

mod client;
mod gateway;
#[cfg(feature = "kernel-store")]
mod kernel_store;
mod moves;
mod ndn;
mod outage;
mod place;
mod resolver;
mod resume;
mod router;
mod signed;
mod store;
mod upstream;
mod video;
