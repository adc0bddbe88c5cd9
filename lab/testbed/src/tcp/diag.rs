//! What the kernel knows of its TCP flows: `TCP_INFO`, asked for through the socket-diagnosis netlink, which answers for all
//! connections of a namespace in one call.
//!
//! Source: sock_diag(7), Linux `include/uapi/linux/{netlink,inet_diag,tcp}.h`.

use std::io;
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
/// `IPPROTO_TCP`.
const TCP: u8 = 6;

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

impl Diagnosis {
    /// For the namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel has no socket diagnosis.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
        let diagnosis = Self { socket, buffer: vec![0; 64 * 1024] };
        diagnosis.ask(0)?;
        Ok(diagnosis)
    }

    /// Every connection that was opened to the remote port `to`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn of(&mut self, to: u16) -> io::Result<Vec<Info>> {
        while self.receive()?.is_some() {}
        self.ask(to)?;
        let mut found = Vec::new();
        while let Some(bytes) = self.receive()? {
            read(bytes, to, &mut found);
        }
        Ok(found)
    }

    fn ask(&self, to: u16) -> io::Result<()> {
        let mut request = Vec::with_capacity(HEADER + 56);
        request.extend(((HEADER + 56) as u32).to_ne_bytes());
        request.extend(BY_FAMILY.to_ne_bytes());
        request.extend(DUMP.to_ne_bytes());
        request.extend([0; 8]);
        // Family, protocol, which attributes (bit 0 is attribute 1), padding; every state.
        request.extend([AddressFamily::Inet as u8, TCP, 1 << (INFO - 1), 0]);
        request.extend(u32::MAX.to_ne_bytes());
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

/// The connections to port `to` in a batch of netlink messages.
fn read(mut bytes: &[u8], to: u16, found: &mut Vec<Info>) {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        if length < HEADER || length > bytes.len() || ENDS.contains(&kind) {
            return;
        }
        let message = &bytes[HEADER..length];
        if let Some(info) = connection(message, to) {
            found.push(info);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

fn connection(message: &[u8], to: u16) -> Option<Info> {
    let port = |at: usize| message.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let (source, destination) = (port(4)?, port(6)?);
    let mut attributes = message.get(MESSAGE..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        if length < 4 || length > attributes.len() {
            return None;
        }
        if kind == INFO && destination == to {
            return Info::read(source, &attributes[4..length]);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
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
    fn any_bytes_are_read_without_harm() {
        let mut found = Vec::new();
        for length in 0..200_u32 {
            let mut bytes: Vec<u8> = (0..200).map(|byte| byte as u8).collect();
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            bytes[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
            read(&bytes[..length as usize], 7, &mut found);
        }
        assert!(found.is_empty());
    }
}
