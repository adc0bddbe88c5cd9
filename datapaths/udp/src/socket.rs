//! A UDP socket with what the datapath needs of the kernel: batches, arrival times, ECN bits, segmentation offload.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use paceline_cc::{Codepoint, Time};
use paceline_linux::clock::{Clock, span, wait};
use paceline_linux::sockopt::{UdpGroSegment, setsockopt};
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags};

/// What the kernel may put together and take apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Packets of one burst leave in one call (`UDP_SEGMENT`).
    pub send: bool,
    /// Packets that arrive together are delivered as one (`UDP_GRO`), with one arrival time for all of them.
    pub receive: bool,
}

impl Offload {
    /// Neither: each packet is a call and has an arrival time of its own.
    pub const NONE: Self = Self { send: false, receive: false };
}

/// Datagrams that leave in one call at most (Linux `UDP_MAX_SEGMENTS` is 64 at least; the sum is below 64 KiB).
const MOST_SEGMENTS: usize = 44;

/// Bytes that the kernel may hold for this socket, each way: 100 ms at 160 Mbit/s (our choice; it grants less when
/// `net.core.rmem_max` is less).
const BUFFER: usize = 2 << 20;

/// Longest datagram without `UDP_GRO`. 2048: more than any that we send.
const PLAIN: usize = 2048;
/// Longest bundle with it.
const BUNDLE: usize = 65_536;

/// A datagram that arrived.
pub struct Datagram<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The local address that it was sent to, where the kernel reports it.
    pub to: Option<std::net::IpAddr>,
    /// When, by the kernel.
    pub at: Time,
    /// It carries a CE mark.
    pub ce: bool,
    /// What it holds.
    pub bytes: &'a mut [u8],
}

/// A socket.
pub struct SessionSocket {
    inner: UdpSocket,
    state: UdpSocketState,
    offload: Offload,
    buffers: Vec<Vec<u8>>,
}

impl SessionSocket {
    /// Takes `inner` over, bound and perhaps connected.
    ///
    /// # Errors
    /// What the system says when an option cannot be set, or there is no memory.
    pub fn new(inner: UdpSocket, offload: Offload) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&inner))?;
        setsockopt(&inner, UdpGroSegment, &offload.receive)?;
        // Best effort: the kernel caps both.
        let _ = state.set_send_buffer_size(UdpSockRef::from(&inner), BUFFER);
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&inner), BUFFER);
        let (count, length) = if offload.receive { (8, BUNDLE) } else { (BATCH_SIZE, PLAIN) };
        let buffers = (0..count).map(|_| zeros(length)).collect::<io::Result<_>>()?;
        Ok(Self { inner, state, offload, buffers })
    }

    /// The address that it is bound to.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// How many datagrams may leave in one call.
    pub fn most_segments(&self) -> usize {
        if self.offload.send { self.state.max_gso_segments().clamp(1, MOST_SEGMENTS) } else { 1 }
    }

    /// Sends `bytes` to `to` in datagrams of `size` bytes, the last perhaps shorter. [`io::ErrorKind::WouldBlock`] waits for
    /// space in the kernel, 10 ms at most.
    ///
    /// # Errors
    /// What the system says.
    pub fn send(&self, to: SocketAddr, ecn: Codepoint, bytes: &[u8], size: usize) -> io::Result<()> {
        let ecn = match ecn {
            Codepoint::NotEct => None,
            Codepoint::Ect0 => Some(EcnCodepoint::Ect0),
            Codepoint::Ect1 => Some(EcnCodepoint::Ect1),
            Codepoint::Ce => Some(EcnCodepoint::Ce),
        };
        let size = size.max(1);
        for part in bytes.chunks(size.saturating_mul(self.most_segments())) {
            let segment_size = (part.len() > size).then_some(size);
            let transmit = Transmit { destination: to, ecn, contents: part, segment_size, src_ip: None };
            match self.send_one(&transmit) {
                // A device that cannot segment: the state records it.
                Err(_) if segment_size.is_some() && self.state.max_gso_segments() == 1 => {
                    for single in part.chunks(size) {
                        self.send_one(&Transmit { contents: single, segment_size: None, ..transmit })?;
                    }
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn send_one(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        match self.state.try_send(UdpSockRef::from(&self.inner), transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&mut [PollFd::new(&self.inner, PollFlags::OUT)], Some(Duration::from_millis(10)))?;
                self.state.try_send(UdpSockRef::from(&self.inner), transmit)
            }
            result => result,
        }
    }

    /// Delivers every datagram of the next batch; says how many there were, 0 when none is there.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::ConnectionRefused`] when the peer's host said that no program listens.
    pub fn receive(&mut self, clock: Clock, mut take: impl FnMut(Datagram<'_>)) -> io::Result<usize> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let got = {
            let mut slices: Vec<IoSliceMut<'_>> =
                self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            match self.state.recv(UdpSockRef::from(&self.inner), &mut slices, &mut metas) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                result => result?,
            }
        };
        let mut count = 0;
        for (buffer, meta) in self.buffers.iter_mut().zip(&metas).take(got) {
            let at = meta.timestamp.map_or_else(|| clock.now(), |stamp| clock.of_kernel(stamp));
            let ce = meta.ecn == Some(EcnCodepoint::Ce);
            let length = meta.len.min(buffer.len());
            for bytes in buffer[..length].chunks_mut(meta.stride.max(1)) {
                count += 1;
                take(Datagram { from: meta.addr, to: meta.dst_ip, at, ce, bytes });
            }
        }
        Ok(count)
    }

    /// Waits for a datagram until `until` ([`Time::NEVER`]: without end); says whether one may be there (or an error is to be
    /// fetched).
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self, clock: Clock, until: Time) -> io::Result<bool> {
        let longest = (until != Time::NEVER).then(|| span(until.since(clock.now())));
        wait(&mut [PollFd::new(&self.inner, PollFlags::IN)], longest)
    }
}

/// A buffer, where there is memory for it.
fn zeros(length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(length)?;
    buffer.resize(length, 0);
    Ok(buffer)
}

impl AsFd for SessionSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use paceline_cc::Nanos;

    use super::*;

    #[test]
    fn a_wait_may_be_without_end_or_nearly() {
        let clock = Clock::new();
        let socket = SessionSocket::new(UdpSocket::bind("127.0.0.1:0").unwrap(), Offload::NONE).unwrap();
        assert!(!socket.wait(clock, Time::ZERO).unwrap(), "nothing has come");
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", socket.local_addr().unwrap()).unwrap();
        for until in [Time::NEVER, Time::NEVER - Nanos::from_nanos(1), Time::ZERO + Nanos::from_nanos(u64::MAX / 2)] {
            assert!(socket.wait(clock, until).unwrap(), "{until:?}");
        }
    }
}
