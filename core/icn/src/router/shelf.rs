//! What a router asks of those around it: storage, sockets, other routers.

use std::net::SocketAddr;

use paceline_cc::Nanos;

use crate::name::Name;
use crate::ranges::{Ranges, Units};

/// What storage says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is here, or a part of it.
    Here {
        /// Units of its stored form, where they are known.
        stored_units: Option<u64>,
        /// All of it.
        whole: bool,
    },
    /// It is not here.
    Elsewhere,
    /// It changed since it was stored: what is there now is something else.
    Changed,
}

/// The storage of a router.
pub trait Shelf {
    /// Whether an object is here.
    fn find(&mut self, name: &Name) -> Found;
    /// How many of these units are here, counted from the first until one is not.
    fn has(&mut self, name: &Name, units: Units) -> u32;
}

/// Units to send now: read them and send them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// To whom.
    pub to: SocketAddr,
    /// The nonce of the request.
    pub nonce: u64,
    /// The object.
    pub name: Name,
    /// The units.
    pub units: Units,
    /// How long the request waited.
    pub waited: Nanos,
    /// Units of the stored form, where they are known.
    pub stored_units: Option<u64>,
    /// It waited for storage, not for the network.
    pub app_limited: bool,
}

/// Units that are to be fetched from upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The object.
    pub name: Name,
    /// The units.
    pub ranges: Ranges,
    /// Who asked.
    pub from: SocketAddr,
    /// The nonce of the request.
    pub nonce: u64,
    /// Routers that the request went through before this one.
    pub hops: u8,
}
