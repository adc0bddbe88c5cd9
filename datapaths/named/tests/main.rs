//! Named content over sockets.
#![cfg(target_os = "linux")]

mod client;
mod gateway;
mod place;
mod resolver;
mod router;
mod store;
mod upstream;
mod video;
