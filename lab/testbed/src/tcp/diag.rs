//! What the kernel knows of its TCP flows: `TCP_INFO`, asked for through the socket-diagnosis netlink, which answers for all
//! connections of a namespace in one call.
//!
//! Source: sock_diag(7), Linux `include/uapi/linux/{netlink,inet_diag,tcp}.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use paceline_cc::Nanos;
use paceline_experiment::Sample;
use paceline_transport::SenderStats;

/// Bytes of a netlink header.
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ENDS: [u16; 2] = [2, 3];
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `INET_DIAG_INFO`: the attribute with `struct tcp_info`.
const INFO: u16 = 2;
/// `INET_DIAG_CONG`: the attribute with the congestion control's name.
const CONG: u16 = 4;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `TCP_ESTABLISHED`, `TCP_CLOSE_WAIT`.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;
/// Connections in every state.
const ALL: u32 = u32::MAX;
/// Those that may have something to send or to repair: established, and `TCP_FIN_WAIT1`, `TCP_CLOSE_WAIT`, `TCP_LAST_ACK`,
/// `TCP_CLOSING`.
const SENDING: u32 = 1 << ESTABLISHED | 1 << 4 | 1 << CLOSE_WAIT | 1 << 9 | 1 << 11;

/// Asks the kernel about the connections of one namespace.
pub struct Diagnosis {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// One connection, as the kernel sees its sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Its local port.
    pub port: u16,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Nanos,
    /// Payload bytes of a full packet.
    pub mss: u32,
    /// Congestion window in packets.
    pub window: u32,
    /// Slow-start threshold in packets.
    pub threshold: u32,
    /// Packets in flight.
    pub in_flight: u32,
    /// Pacing rate in bytes a second; all ones: none.
    pub pacing: u64,
    /// Delivery rate in bytes a second.
    pub delivery: u64,
    /// Packets delivered so far.
    pub delivered: u32,
    /// Counters since the connection began.
    pub stats: SenderStats,
}

/// A connection with its two ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Whether it may still send data: it is established, or its other end has closed.
    pub open: bool,
    /// Its congestion control.
    pub controller: String,
    /// How it stands with losses.
    pub recovery: Recovery,
    /// What else the kernel knows.
    pub info: Info,
}

/// How a connection stands with losses. Linux `include/uapi/linux/tcp.h`, `enum tcp_ca_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing is missing.
    Open,
    /// Something came out of order.
    Disorder,
    /// The window shrinks, for a mark of ECN or a full queue of this host.
    Reducing,
    /// Losses are repaired.
    Repairing,
    /// The retransmission timer has fired.
    TimedOut,
}

impl Recovery {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Disorder => "disorder",
            Self::Reducing => "reducing",
            Self::Repairing => "repairing",
            Self::TimedOut => "timed out",
        }
    }

    const fn of(state: u8) -> Self {
        match state {
            1 => Self::Disorder,
            2 => Self::Reducing,
            3 => Self::Repairing,
            4 => Self::TimedOut,
            _ => Self::Open,
        }
    }
}

impl Diagnosis {
    /// For the namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel has no socket diagnosis.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
        let diagnosis = Self { socket, buffer: vec![0; 64 * 1024] };
        diagnosis.ask(AddressFamily::Inet, 0, ALL)?;
        Ok(diagnosis)
    }

    /// Every connection that was opened to the remote port `to`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn of(&mut self, to: u16) -> io::Result<Vec<Info>> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            self.answers(family, to, ALL, |message| found.extend(to_port(message, to)))?;
        }
        Ok(found)
    }

    /// Every connection of the namespace, over IPv4 and IPv6, that has begun and may still send or repair something.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn all(&mut self) -> io::Result<Vec<Connection>> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            self.answers(family, 0, SENDING, |message| found.extend(Connection::read(message)))?;
        }
        Ok(found)
    }

    /// Hands over what the kernel knows of each connection.
    fn answers(&mut self, family: AddressFamily, to: u16, states: u32, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        while self.receive()?.is_some() {}
        self.ask(family, to, states)?;
        while let Some(bytes) = self.receive()? {
            messages(bytes, &mut take);
        }
        Ok(())
    }

    fn ask(&self, family: AddressFamily, to: u16, states: u32) -> io::Result<()> {
        let mut request = Vec::with_capacity(HEADER + 56);
        request.extend(((HEADER + 56) as u32).to_ne_bytes());
        request.extend(BY_FAMILY.to_ne_bytes());
        request.extend(DUMP.to_ne_bytes());
        request.extend([0; 8]);
        // Family, protocol, which attributes (bit 0 is attribute 1), padding; states.
        request.extend([family as u8, TCP, 1 << (INFO - 1) | 1 << (CONG - 1), 0]);
        request.extend(states.to_ne_bytes());
        request.extend([0, 0]);
        request.extend(to.to_be_bytes());
        request.extend([0; 44]);
        match send(self.socket.as_raw_fd(), &request, MsgFlags::empty()) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
            Ok(length) => Ok(Some(&self.buffer[..length])),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes a batch of netlink messages apart.
fn messages(mut bytes: &[u8], take: &mut impl FnMut(&[u8])) {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        if length < HEADER || length > bytes.len() || ENDS.contains(&kind) {
            return;
        }
        take(&bytes[HEADER..length]);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// What the message says of a connection to port `to`.
fn to_port(message: &[u8], to: u16) -> Option<Info> {
    let info = attribute(message, INFO)?;
    (port(message, 6)? == to).then(|| Info::read(port(message, 4)?, info)).flatten()
}

/// A port, as the network writes it.
fn port(message: &[u8], at: usize) -> Option<u16> {
    message.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The attribute of that kind behind a `struct inet_diag_msg`.
fn attribute(message: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut attributes = message.get(MESSAGE..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        if length < 4 || length > attributes.len() {
            return None;
        }
        if kind == wanted {
            return Some(&attributes[4..length]);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

impl Connection {
    /// Reads `struct inet_diag_msg` and what follows it.
    fn read(message: &[u8]) -> Option<Self> {
        let local = SocketAddr::new(address(message, 8)?, port(message, 4)?);
        let remote = SocketAddr::new(address(message, 24)?, port(message, 6)?);
        let name = attribute(message, CONG)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let info = attribute(message, INFO)?;
        Some(Self {
            local,
            remote,
            open: [ESTABLISHED, CLOSE_WAIT].contains(message.get(1)?),
            controller: String::from_utf8_lossy(name).into_owned(),
            recovery: Recovery::of(*info.get(1)?),
            info: Info::read(local.port(), info)?,
        })
    }
}

/// An address; one of IPv4 on a socket of IPv6 as what it is.
fn address(message: &[u8], at: usize) -> Option<IpAddr> {
    let bytes: [u8; 16] = message.get(at..at + 16)?.try_into().ok()?;
    if message.first() == Some(&(AddressFamily::Inet as u8)) {
        let [a, b, c, d, ..] = bytes;
        return Some(Ipv4Addr::new(a, b, c, d).into());
    }
    Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical())
}

impl Info {
    /// Reads `struct tcp_info`. An older kernel's is shorter: what it lacks is zero.
    fn read(port: u16, info: &[u8]) -> Option<Self> {
        let word = |at| u32_at(info, at).unwrap_or(0);
        let long =
            |at: usize| info.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        u32_at(info, 100)?;
        let (unacked, sacked, lost, resent) = (word(24), word(28), word(32), word(36));
        let stats = SenderStats {
            packets_sent: u64::from(word(156)),
            bytes_sent: long(200),
            retransmits: u64::from(word(100)),
            timeouts: u16_at(info, 240).map_or(0, u64::from),
            bytes_delivered: long(120),
            ce_packets: u64::from(word(196)),
            ..SenderStats::default()
        };
        Some(Self {
            port,
            srtt: Nanos::from_micros(u64::from(word(68))),
            mss: word(16),
            window: word(80),
            threshold: word(76),
            in_flight: (unacked + resent).saturating_sub(sacked + lost),
            pacing: long(104),
            delivery: long(160),
            delivered: word(192),
            stats,
        })
    }

    /// A point of the series.
    pub fn sample(&self) -> Sample {
        let bytes = |packets: u32| u64::from(packets) * u64::from(self.mss);
        let mut variables = vec![("cwnd_packets", f64::from(self.window))];
        // TCP_INFINITE_SSTHRESH: not known yet.
        if self.threshold < 0x7fff_ffff {
            variables.push(("ssthresh_packets", f64::from(self.threshold)));
        }
        if self.pacing < u64::MAX {
            variables.push(("pacing_mbps", self.pacing as f64 * 8e-6));
        }
        variables.push(("delivery_mbps", self.delivery as f64 * 8e-6));
        let srtt = (self.srtt > Nanos::ZERO).then_some(self.srtt);
        Sample { window: bytes(self.window), in_flight: bytes(self.in_flight), srtt, variables }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_our_own_is_found_by_its_remote_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let mut diagnosis = Diagnosis::open().unwrap();
        let found = diagnosis.of(to).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].port, stream.local_addr().unwrap().port());
        assert!(found[0].window >= 2 && found[0].mss > 500, "{found:?}");
        assert_eq!(found[0].sample().window, u64::from(found[0].window) * u64::from(found[0].mss));
    }

    #[test]
    fn both_ends_are_there_with_their_controller() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(any).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            socket2::SockRef::from(&stream).set_tcp_congestion(b"reno").unwrap();
            let (near, far) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            let found = Diagnosis::open().unwrap().all().unwrap();
            let of = |local, remote| found.iter().find(|one| (one.local, one.remote) == (local, remote));
            let sender = of(near, far).unwrap();
            assert_eq!((sender.controller.as_str(), sender.recovery, sender.open), ("reno", Recovery::Open, true));
            assert!(sender.info.window >= 2 && of(far, near).is_some(), "{found:?}");
            // One that listens is not a connection.
            assert!(!found.iter().any(|one| one.remote.port() == 0), "{found:?}");
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let mut found = Vec::new();
        let mut all = Vec::new();
        for length in 0..200_u32 {
            let mut bytes: Vec<u8> = (0..200).map(|byte| byte as u8).collect();
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
            messages(&bytes[..length as usize], &mut |message| {
                found.extend(to_port(message, 7));
                all.extend(Connection::read(message));
            });
        }
        assert!(found.is_empty() && all.is_empty());
    }
}
