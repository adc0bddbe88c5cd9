//! Named content over sockets.
#![cfg(target_os = "linux")]

mod router;
mod store;
mod upstream;
