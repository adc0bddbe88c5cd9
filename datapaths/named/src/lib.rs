//! Named content on Linux: the store of published objects, a router and a requester over UDP, name resolution, an HTTP gateway.
#![cfg(target_os = "linux")]

pub mod cache;
pub mod client;
pub mod gateway;
mod kept;
pub mod partial;
pub mod resolver;
pub mod router;
pub mod store;

pub use cache::Cache;
pub use partial::Partial;
pub use store::{Store, StoreError, Stored};
