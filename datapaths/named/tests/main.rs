//! Named content over sockets.
#![cfg(target_os = "linux")]

mod client;
mod gateway;
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
