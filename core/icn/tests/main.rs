//! Named content without sockets: properties of names, wire, requester and router.

mod integrity;
mod wire;
