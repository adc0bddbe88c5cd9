//! Named content on Linux: the store of published objects, a router and a requester over UDP, name resolution, an HTTP gateway.
#![cfg(target_os = "linux")]

use std::io;

pub mod cache;
pub mod client;
pub mod gateway;
mod kept;
pub mod ndn;
pub mod partial;
pub mod resolver;
pub mod router;
pub mod store;

pub use cache::Cache;
pub use partial::Partial;
pub use store::{Store, StoreError, Stored};

/// A call of the system failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct CallFailed {
    /// What was being done, or the option or the address that it was for.
    pub what: String,
    /// The system's words.
    pub source: io::Error,
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> CallFailed {
    move |source| CallFailed { what: what.into(), source }
}
