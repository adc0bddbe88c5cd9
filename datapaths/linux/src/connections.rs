//! The TCP connections of the calling thread's network namespace, all of them in one answer of the kernel.
//!
//! Source: sock_diag(7); Linux `include/uapi/linux/{sock_diag,inet_diag}.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::sys::socket::AddressFamily;

use crate::layout::{u32_at, u64_at};
use crate::netlink::{Netlink, Protocol, attribute, text};
use crate::tcp::TcpInfo;

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// `INET_DIAG_INFO`: the attribute with `struct tcp_info`.
const INFO: u16 = 2;
/// `INET_DIAG_CONG`: the attribute with the congestion control's name.
const CONG: u16 = 4;
/// `INET_DIAG_CGROUP_ID`: the attribute with the number of the socket's cgroup.
const CGROUP: u16 = 21;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// Connections in every state.
const ALL: u32 = u32::MAX;
/// Those that may have something to send or to repair: `TCP_ESTABLISHED`, `TCP_FIN_WAIT1`, `TCP_CLOSE_WAIT`, `TCP_LAST_ACK`,
/// `TCP_CLOSING`.
const SENDING: u32 = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;

/// Asks the kernel about the connections of one namespace.
#[derive(Debug)]
pub struct Diagnosis {
    netlink: Netlink,
}

/// A connection, as the kernel sees its sending side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Its number, which no other socket of this boot has (`SO_COOKIE`).
    pub cookie: u64,
    /// The user who opened it.
    pub user: u32,
    /// The number of its socket's cgroup, which its folder's inode has; `None` before Linux 5.9, or without cgroups.
    pub cgroup: Option<u64>,
    /// Its congestion control.
    pub controller: String,
    /// What else the kernel knows.
    pub info: TcpInfo,
}

impl Diagnosis {
    /// For the namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel has no socket diagnosis (`CONFIG_INET_DIAG`).
    pub fn open() -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open(Protocol::NetlinkSockDiag)? })
    }

    /// Every connection that was opened to the remote port `to`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn to(&mut self, to: u16) -> io::Result<Vec<Connection>> {
        self.both(to, ALL)
    }

    /// Every connection, over IPv4 and IPv6, that has begun and may still send or repair something.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn all(&mut self) -> io::Result<Vec<Connection>> {
        self.both(0, SENDING)
    }

    /// Hands `take` each of them that sends packets of IPv6.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn over_ipv6(&mut self, mut take: impl FnMut(&Connection)) -> io::Result<()> {
        // A socket of IPv6 may be connected to an address of IPv4.
        self.dump(AddressFamily::Inet6, 0, SENDING, |one| {
            if one.remote.is_ipv6() {
                take(&one);
            }
        })
    }

    /// Hands `take` the connections of sockets of one family in these states; those to one remote port, if that is not 0.
    fn dump(
        &mut self,
        family: AddressFamily,
        to: u16,
        states: u32,
        mut take: impl FnMut(Connection),
    ) -> io::Result<()> {
        // Which attributes: bit 0 is attribute 1.
        let mut request = vec![family as u8, TCP, 1 << (INFO - 1) | 1 << (CONG - 1), 0];
        request.extend(states.to_ne_bytes());
        request.extend([0, 0]);
        request.extend(to.to_be_bytes());
        request.resize(REQUEST, 0);
        self.netlink.dump(BY_FAMILY, &request, |message| {
            if let Some(one) = Connection::read(message) {
                take(one);
            }
        })
    }

    /// The same over both families, all at once.
    fn both(&mut self, to: u16, states: u32) -> io::Result<Vec<Connection>> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            self.dump(family, to, states, |one| found.push(one))?;
        }
        Ok(found)
    }
}

impl Connection {
    /// Reads `struct inet_diag_msg` and the attributes behind it. A socket that never was connected has no `struct tcp_info`.
    fn read(message: &[u8]) -> Option<Self> {
        let attributes = message.get(MESSAGE..)?;
        Some(Self {
            local: SocketAddr::new(address(message, 8)?, port(message, 4)?),
            remote: SocketAddr::new(address(message, 24)?, port(message, 6)?),
            cookie: u64::from(u32_at(message, 44)?) | u64::from(u32_at(message, 48)?) << 32,
            user: u32_at(message, 64)?,
            cgroup: attribute(attributes, CGROUP).and_then(|value| u64_at(value, 0)),
            controller: text(attribute(attributes, CONG)?),
            info: TcpInfo::read(attribute(attributes, INFO)?)?,
        })
    }
}

/// A port, as the network writes it.
fn port(message: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?))
}

/// An address; one of IPv4 on a socket of IPv6 as what it is.
fn address(message: &[u8], at: usize) -> Option<IpAddr> {
    let bytes: [u8; 16] = *message.get(at..)?.first_chunk()?;
    if message.first() == Some(&(AddressFamily::Inet as u8)) {
        let [a, b, c, d, ..] = bytes;
        return Some(Ipv4Addr::new(a, b, c, d).into());
    }
    Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;

    use paceline_cc::Nanos;

    use super::*;
    use crate::netlink::to_attribute;
    use crate::tcp::Recovery;

    #[test]
    fn a_connection_of_our_own_is_found_by_its_remote_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let found = Diagnosis::open().unwrap().to(to).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].local, stream.local_addr().unwrap());
        assert!(found[0].info.cwnd >= 2 && found[0].info.mss > 500, "{found:?}");
    }

    #[test]
    fn both_ends_are_there_with_their_controller() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else {
                eprintln!("skipped: both_ends_are_there_with_their_controller: {any}: there is no such address");
                continue;
            };
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            socket2::SockRef::from(&client).set_tcp_congestion(b"reno").unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
            let (near, far) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let mut diagnosis = Diagnosis::open().unwrap();
            let found = diagnosis.all().unwrap();
            let of = |local, remote| found.iter().find(|one| (one.local, one.remote) == (local, remote)).unwrap();
            let (sender, receiver) = (of(near, far), of(far, near));
            assert_eq!((sender.controller.as_str(), sender.info.recovery), ("reno", Recovery::Open));
            assert!(sender.info.is_connected() && sender.info.cwnd >= 2 && sender.info.rtt > Nanos::ZERO, "{found:?}");
            assert_eq!(sender.cookie, rustix::net::sockopt::socket_cookie(&client).unwrap());
            assert!(sender.cookie != receiver.cookie && receiver.cookie > 0);
            assert_eq!(sender.user, std::fs::metadata("/proc/self").unwrap().uid());
            // One that listens is not connected.
            assert!(!found.iter().any(|one| one.remote.port() == 0), "{found:?}");
            let mut is_over_ipv6 = false;
            diagnosis.over_ipv6(|one| is_over_ipv6 |= one.cookie == sender.cookie).unwrap();
            assert_eq!(is_over_ipv6, near.is_ipv6());
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let attributes = [to_attribute(INFO, &[1; 104]), to_attribute(CONG, b"reno\0")].concat();
        let message = [&[AddressFamily::Inet6 as u8; MESSAGE][..], &attributes].concat();
        assert_eq!(Connection::read(&message).unwrap().controller, "reno");
        for length in 0..MESSAGE + 4 + 104 {
            assert_eq!(Connection::read(&message[..length]), None, "{length}");
        }
    }
}
