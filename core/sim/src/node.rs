//! The nodes of a world by number, and the addresses of those of its graph.

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};

/// Bytes of the headers of IPv4 and UDP.
pub(crate) const UDP_HEADERS: u32 = 28;

/// The address of the graph's node 0; those of the others follow (RFC 1918).
const FIRST: u32 = 0x0a00_0000;

/// A node of a world, by the type that it has.
pub struct NodeId<T> {
    pub(crate) index: u32,
    node: PhantomData<fn() -> T>,
}

impl<T> NodeId<T> {
    pub(crate) const fn new(index: u32) -> Self {
        Self { index, node: PhantomData }
    }
}

impl<T> Clone for NodeId<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for NodeId<T> {}

impl<T> fmt::Debug for NodeId<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({})", self.index)
    }
}

/// The address of a node of the graph, by its number.
pub fn address(node: u32, port: u16) -> SocketAddr {
    (Ipv4Addr::from_bits(FIRST.saturating_add(node)), port).into()
}

/// The number of the graph's node with this address.
pub(crate) fn host(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V4(v4) => v4.ip().to_bits().checked_sub(FIRST),
        SocketAddr::V6(_) => None,
    }
}
