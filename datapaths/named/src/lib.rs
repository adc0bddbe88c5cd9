//! Named content on Linux: the store of published objects, a router and a requester over UDP, name resolution, an HTTP gateway.
#![cfg(target_os = "linux")]
