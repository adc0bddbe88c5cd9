//! Named content without sockets: properties of names, wire, requester and router.

mod common;
mod flow;
mod integrity;
mod wire;
