//! The way to a forwarder: datagrams, or a stream of packets.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use paceline_cc::{Codepoint, Time};
use paceline_icn::ndn::{MAX_FRAME, frame_length};
use paceline_linux::clock::Clock;
use paceline_udp::Offload;
use paceline_udp::socket::SessionSocket;
use rustix::event::PollFlags;

use super::{Forwarder, Over};
use crate::client::link::connected;

/// A connection has to be there after this long (our choice).
const CONNECT: Duration = Duration::from_secs(5);

/// Bytes that are read from a stream at once (our choice: 7 of the longest packets).
const READ: usize = 64 << 10;

/// Interests that wait for a stream at most, in bytes; more are dropped, as a full queue would.
const WAITING: usize = 256 << 10;

/// A face towards a forwarder.
pub(super) enum Face {
    Datagrams { socket: SessionSocket, to: Forwarder },
    Stream { stream: TcpStream, came: Vec<u8>, buffer: Box<[u8]>, leaves: Vec<u8> },
}

impl Face {
    pub(super) fn new(to: Forwarder, offload: Offload) -> io::Result<Self> {
        match to.over {
            Over::Udp => {
                let (socket, _) = connected(to.address, offload)?;
                Ok(Self::Datagrams { socket, to })
            }
            Over::Tcp => {
                let stream = TcpStream::connect_timeout(&to.address, CONNECT)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok(Self::Stream { stream, came: Vec::new(), buffer: vec![0; READ].into(), leaves: Vec::new() })
            }
        }
    }

    /// Sends a packet, or puts it behind those that wait. What the system has no room for is lost, as on the way.
    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self {
            Self::Datagrams { socket, to } => match socket.send(to.address, Codepoint::NotEct, packet, packet.len()) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
                _ => Ok(()),
            },
            Self::Stream { leaves, .. } => {
                if leaves.len() < WAITING {
                    leaves.extend_from_slice(packet);
                }
                Ok(())
            }
        }
    }

    /// Sends what waits.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Self::Stream { stream, leaves, .. } = self else { return Ok(()) };
        while !leaves.is_empty() {
            match stream.write(leaves) {
                Ok(count) => drop(leaves.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the packets that came; says whether there may be more.
    pub(super) fn receive(&mut self, clock: Clock, mut take: impl FnMut(Time, &[u8])) -> io::Result<bool> {
        match self {
            Self::Datagrams { socket, .. } => {
                let count = socket.receive(clock, |datagram| take(datagram.at, datagram.bytes))?;
                Ok(count > 0)
            }
            Self::Stream { stream, came, buffer, .. } => {
                let count = match stream.read(buffer) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(count) => count,
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                };
                came.extend_from_slice(&buffer[..count]);
                let (now, mut begin) = (clock.now(), 0);
                // A stream whose packets cannot be told apart is of no use any more.
                while let Some(length) = frame_length(&came[begin..]).map_err(io::Error::other)?
                    && let Some(packet) = came.get(begin..begin + length)
                {
                    take(now, packet);
                    begin += length;
                }
                came.drain(..begin);
                debug_assert!(came.len() < MAX_FRAME, "a whole packet is taken");
                Ok(count == READ)
            }
        }
    }

    /// What to wait for.
    pub(super) fn waits_for(&self) -> PollFlags {
        match self {
            Self::Stream { leaves, .. } if !leaves.is_empty() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }
}

impl AsFd for Face {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Datagrams { socket, .. } => socket.as_fd(),
            Self::Stream { stream, .. } => stream.as_fd(),
        }
    }
}
