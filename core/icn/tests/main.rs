//! Named content without sockets: properties of names, wire, requester and router.

mod integrity;
mod common;
mod flow;
mod wire;
