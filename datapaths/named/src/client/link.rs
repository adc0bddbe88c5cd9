//! The socket towards one source, which follows this host when its address changes.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use paceline_cc::{Codepoint, Nanos, Time};
use paceline_linux::clock::Clock;
use paceline_udp::Offload;
use paceline_udp::socket::{Datagram, SessionSocket};

use crate::resolver::{any_like, local_address_towards};

/// Between two looks whether this host would now reach the source from another address (our choice: three calls each time, and a
/// hand-off is noticed sooner than a timeout).
const LOOK: Nanos = Nanos::from_millis(200);

/// A socket, connected, so that the kernel takes from the source alone and reports when no program listens there.
pub(super) struct Link {
    pub(super) peer: SocketAddr,
    pub(super) socket: SessionSocket,
    local: SocketAddr,
    offload: Offload,
    looked_at: Time,
    /// The socket failed: it is to be replaced.
    broken: bool,
    /// Times that the peer's host said that no program listens.
    pub(super) refusals: u32,
    /// Times that the socket was replaced.
    pub(super) moves: u32,
}

/// A socket towards `peer`, and the address that it has here.
pub(crate) fn connected(peer: SocketAddr, offload: Offload) -> io::Result<(SessionSocket, SocketAddr)> {
    let socket = UdpSocket::bind(any_like(peer))?;
    socket.connect(peer)?;
    let local = socket.local_addr()?;
    Ok((SessionSocket::new(socket, offload)?, local))
}

impl Link {
    pub(super) fn new(peer: SocketAddr, offload: Offload, now: Time) -> io::Result<Self> {
        let (socket, local) = connected(peer, offload)?;
        Ok(Self { peer, socket, local, offload, looked_at: now, broken: false, refusals: 0, moves: 0 })
    }

    /// Sends a request. One that the system refuses is lost; the timeout asks again.
    pub(super) fn send(&mut self, message: &[u8]) {
        match self.socket.send(self.peer, Codepoint::NotEct, message, message.len()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.refusals += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The address or the interface is gone.
            Err(_) => self.broken = true,
        }
    }

    /// Takes the next batch of datagrams; says how many there were.
    pub(super) fn receive(&mut self, clock: Clock, take: impl FnMut(Datagram<'_>)) -> usize {
        match self.socket.receive(clock, take) {
            Ok(count) => return count,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.refusals += 1,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.broken = true,
        }
        0
    }

    /// Looks, now and then, from where the source would be reached, and takes a new socket when that is another address or the
    /// old one failed; answers whether it did.
    pub(super) fn moves(&mut self, now: Time) -> bool {
        if now.since(self.looked_at) < LOOK {
            return false;
        }
        self.looked_at = now;
        // No way there at the moment: the old socket may still be right when there is one again.
        let Ok(ip) = local_address_towards(self.peer) else { return false };
        if ip == self.local.ip() && !self.broken {
            return false;
        }
        let Ok((socket, local)) = connected(self.peer, self.offload) else { return false };
        (self.socket, self.local, self.broken) = (socket, local, false);
        self.moves += 1;
        true
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Time {
        self.looked_at + LOOK
    }
}
