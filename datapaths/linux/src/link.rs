//! An interface of the calling thread's namespace as its link layer has it, and the packets that pass it (packet(7)).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{self, AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType};

/// The interface of this name; `None` where there is none.
///
/// # Errors
/// What the system says.
pub fn link(name: &str) -> io::Result<Option<LinkAddr>> {
    let mut found = getifaddrs()?.filter(|found| found.interface_name == name);
    Ok(found.find_map(|found| found.address?.as_link_addr().copied()))
}

/// A socket that does not block for all packets of the interface of this name, and until it was bound of all interfaces.
///
/// # Errors
/// What the system says: there is no such interface, or the process may not open raw sockets.
pub fn packets(name: &str) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
    let link = link(name)?.ok_or_else(|| io::Error::other(format!("there is no interface '{name}' here")))?;
    socket::bind(socket.as_raw_fd(), &link)?;
    Ok(socket)
}
