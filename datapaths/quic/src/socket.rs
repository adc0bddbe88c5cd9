//! A UDP socket as the loops around a stack use it.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use paceline_linux::clock::wait;
use paceline_linux::sockopt::{UdpGroSegment, setsockopt};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags};

/// Datagrams read in one call, and bytes of each buffer: what `UDP_GRO` puts together.
const BATCH: usize = 8;
const BUNDLE: usize = 65_536;
/// Longest wait for space in the kernel (our choice: as over `udp`).
const FULL: Duration = Duration::from_millis(10);

/// The socket.
pub(crate) struct Wire {
    socket: UdpSocket,
    state: UdpSocketState,
}

/// Where datagrams are read to.
pub(crate) struct Buffers(Vec<Vec<u8>>);

/// A datagram that has come.
pub(crate) struct Datagram<'a> {
    pub(crate) from: SocketAddr,
    /// The local address that it was sent to, where the kernel reports it.
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// When, by the kernel's wall clock.
    #[cfg(feature = "s2n")]
    pub(crate) stamp: Option<Duration>,
    pub(crate) bytes: &'a mut [u8],
}

impl Wire {
    /// Over a bound socket. `apart`: datagrams that arrive together are not put together, so that each has its own time.
    pub(crate) fn new(socket: UdpSocket, apart: bool) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        if apart {
            setsockopt(&socket, UdpGroSegment, &false)?;
        }
        Ok(Self { socket, state })
    }

    /// Sends what finds space in the kernel before long; what does not, or cannot be sent at all, is a lost packet.
    pub(crate) fn launch(&self, datagram: &Transmit<'_>) -> io::Result<()> {
        let send = || self.state.try_send(UdpSockRef::from(&self.socket), datagram);
        if send().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            wait(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(FULL))?;
            let _ = send();
        }
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self((0..BATCH).map(|_| vec![0; BUNDLE]).collect())
    }

    /// Hands on what one call reads; says whether anything was there.
    pub(crate) fn receive(
        &mut self,
        wire: &Wire,
        mut take: impl FnMut(Datagram<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BATCH];
        let mut slices: Vec<IoSliceMut<'_>> = self.0.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let got = match wire.state.recv(UdpSockRef::from(&wire.socket), &mut slices, &mut metas) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // A datagram of ours came to a port where no program listens, or does not any more.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(false),
            got => got?,
        };
        for (buffer, meta) in self.0.iter_mut().zip(&metas).take(got) {
            let length = meta.len.min(buffer.len());
            for bytes in buffer[..length].chunks_mut(meta.stride.max(1)) {
                take(Datagram {
                    from: meta.addr,
                    to: meta.dst_ip,
                    ecn: meta.ecn,
                    #[cfg(feature = "s2n")]
                    stamp: meta.timestamp,
                    bytes,
                })?;
            }
        }
        Ok(got > 0)
    }
}
