//! A network interface of the calling thread's namespace.

use paceline_linux::link::link;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};

use crate::NodeError;

/// Linux include/uapi/linux/if_arp.h.
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_NONE: u16 = 65534;
/// Octets of an Ethernet header.
const ETHERNET: u32 = 14;

/// An interface that a program is attached to.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: i32,
    /// Octets before the IP header.
    pub(crate) l2: u32,
    /// The last three octets of its hardware address, or its number where it has none: a node's default number.
    pub(crate) node: u32,
}

impl Interface {
    /// # Errors
    /// When there is none of this name, or one of a kind that has other headers.
    pub(crate) fn find(name: &str) -> Result<Self, NodeError> {
        let missing = || NodeError::NoInterface { name: name.to_owned() };
        let link = link(name).ok().flatten().ok_or_else(missing)?;
        let l2 = match link.hatype() {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => ETHERNET,
            ARPHRD_RAWIP | ARPHRD_NONE => 0,
            kind => return Err(NodeError::Kind { name: name.to_owned(), kind }),
        };
        let index = i32::try_from(link.ifindex()).map_err(|_| missing())?;
        let node = match link.addr() {
            Some([.., a, b, c]) if [a, b, c] != [0; 3] => u32::from_be_bytes([0, a, b, c]),
            _ => index.unsigned_abs() & 0xff_ffff,
        };
        Ok(Self { name: name.to_owned(), index, l2, node })
    }

    /// # Errors
    /// When the interface is gone, from the network namespace that it was found in; with it went what was attached to it, for good.
    pub(crate) fn ensure(&self, role: &'static str) -> Result<(), NodeError> {
        // `if_indextoname` of nix takes an interface that is gone for one without a name (0.31).
        let any = socket(AddressFamily::UNIX, SocketType::DGRAM, None);
        let there = any.and_then(|any| index_to_name(any, self.index.unsigned_abs()));
        there.map(drop).map_err(|_| NodeError::Gone { name: self.name.clone(), role })
    }
}
