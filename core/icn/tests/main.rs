//! Named content without sockets: properties of names, wire, requester and router.

mod common;
mod failing;
mod fetch;
mod flow;
mod hostile;
mod integrity;
mod large;
mod ndn;
mod outage;
mod race;
mod records;
mod released;
mod resume;
mod rough;
mod router;
mod sources;
mod wire;
