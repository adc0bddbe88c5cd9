//! The TCP connections over IPv6 of this network namespace: their ends, their cookies, their round trips, their users.
//!
//! Source: sock_diag(7); Linux `include/uapi/linux/{netlink,inet_diag,tcp}.h`.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;

use paceline_cc::Nanos;
use paceline_telemetry::Tuple;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `INET_DIAG_INFO`: the attribute with `struct tcp_info`.
const INFO: u16 = 2;
const TCP: u8 = 6;
const INET6: u8 = 10;
/// Those that may send: `TCP_ESTABLISHED`, `TCP_FIN_WAIT1`, `TCP_CLOSE_WAIT`, `TCP_LAST_ACK`, `TCP_CLOSING`.
const SENDING: u32 = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;
/// Offset of `tcpi_rtt`, in microseconds.
const RTT_AT: usize = 68;
/// Most bytes that the kernel sends at once for a dump (`netlink_dump`: 32 KiB).
const ANSWER: usize = 64 << 10;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) tuple: Tuple,
    pub(super) cookie: u64,
    /// Zero before the first sample.
    pub(super) srtt: Nanos,
    pub(super) user: u32,
}

/// Asks the kernel.
pub(super) struct Sockets {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Sockets {
    pub(super) fn open() -> io::Result<Self> {
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        Ok(Self { socket, buffer: vec![0; ANSWER] })
    }

    /// Up to `most` connections.
    pub(super) fn all(&mut self, most: usize) -> io::Result<Vec<Connection>> {
        let mut request = Vec::with_capacity(HEADER + REQUEST);
        request.extend_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
        request.extend_from_slice(&BY_FAMILY.to_ne_bytes());
        request.extend_from_slice(&DUMP.to_ne_bytes());
        request.extend_from_slice(&[0; 8]);
        request.extend_from_slice(&[INET6, TCP, 1 << (INFO - 1), 0]);
        request.extend_from_slice(&SENDING.to_ne_bytes());
        request.resize(HEADER + REQUEST, 0);
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut all = Vec::new();
        loop {
            let (length, _) = recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::empty())?;
            let mut rest = &self.buffer[..length.min(self.buffer.len())];
            while let (Some(length), Some(kind)) = (word(rest, 0), half(rest, 4)) {
                let length = (length as usize).clamp(HEADER, rest.len());
                let message = &rest[HEADER..length];
                match kind {
                    DONE => return Ok(all),
                    ERROR => {
                        let errno = word(message, 0).map_or(0, u32::cast_signed);
                        return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
                    }
                    BY_FAMILY if all.len() < most => all.extend(read(message)),
                    _ => {}
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads `struct inet_diag_msg` and what follows it.
fn read(message: &[u8]) -> Option<Connection> {
    let port = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(message.get(at..at + 16)?).ok()?));
    let (sport, dport) = (port(4)?, port(6)?);
    let tuple = Tuple { src: address(8)?, dst: address(24)?, sport, dport };
    let cookie = u64::from(word(message, 44)?) | u64::from(word(message, 48)?) << 32;
    // IPv4 on a socket of IPv6 has no headers of ours.
    if message.first() != Some(&INET6) || tuple.dst.to_ipv4_mapped().is_some() {
        return None;
    }
    let micros = attribute(message, INFO).and_then(|info| word(info, RTT_AT)).unwrap_or(0);
    // `idiag_uid`.
    let user = word(message, 64)?;
    Some(Connection { tuple, cookie, srtt: Nanos::from_micros(u64::from(micros)), user })
}

/// The attribute of that kind behind a `struct inet_diag_msg`.
fn attribute(message: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = message.get(MESSAGE..)?;
    while let (Some(length), Some(kind)) = (half(rest, 0), half(rest, 2)) {
        let length = usize::from(length);
        if length < 4 || length > rest.len() {
            return None;
        }
        if kind == wanted {
            return Some(&rest[4..length]);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_found_by_both_of_its_ends() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            eprintln!("skipped: a_connection_is_found_by_both_of_its_ends: there is no IPv6");
            return;
        };
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        let (here, there) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let mut sockets = Sockets::open().unwrap();
        let all = sockets.all(usize::MAX).unwrap();
        let ports = |sport, dport| all.iter().find(|one| (one.tuple.sport, one.tuple.dport) == (sport, dport));
        let (sender, receiver) = (ports(here.port(), there.port()).unwrap(), ports(there.port(), here.port()).unwrap());
        assert_eq!((sender.tuple.src, sender.tuple.dst), (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST));
        assert!(sender.cookie != receiver.cookie && sender.cookie > 0 && sender.srtt > Nanos::ZERO);
        assert_eq!(sender.cookie, rustix::net::sockopt::socket_cookie(&client).unwrap());
        assert_eq!(sender.user, std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()));
        assert_eq!(sockets.all(1).unwrap().len(), 1);
    }

    #[test]
    fn odd_answers_are_no_connections() {
        assert_eq!(read(&[]), None);
        let mut message = [0; MESSAGE + 8];
        assert_eq!(read(&message), None);
        message[0] = INET6;
        assert!(read(&message).is_some_and(|one| one.srtt == Nanos::ZERO));
        assert_eq!(read(&message[..50]), None);
        // An attribute of no length, and one that is longer than what there is.
        assert_eq!(attribute(&message, INFO), None);
        message[MESSAGE] = 200;
        assert_eq!(attribute(&message, INFO), None);
    }
}
