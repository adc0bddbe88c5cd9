//! One session over one socket: segments in, segments out.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use paceline_cc::{Codepoint, Time};
use paceline_transport::{AckSegment, Segment};

use paceline_linux::clock::Clock;
use paceline_remembered::Place;

use super::seal::{Rejected, Session};
use super::socket::{Datagram, Offload, SessionSocket};
use super::wire::{self, Beyond, PacketHeader, PacketKind, control::Close};

/// Bytes that wait for one call at most.
const MOST_BYTES: usize = 65_000;

/// What a peer that may speak said.
pub enum Incoming<'a> {
    /// A packet of data; the flag is its CE mark.
    Data(Segment, &'a [u8], bool),
    /// An acknowledgement.
    Ack(AckSegment),
    /// The session is over.
    Close(Close),
}

/// Packets that were not let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Of another session, or no packets of ours at all.
    pub foreign: u64,
    /// They were not written with the key.
    pub forged: u64,
    /// Seen before.
    pub replayed: u64,
    /// By the peer, and malformed all the same.
    pub malformed: u64,
}

/// A datagram that came before there was a channel.
pub(super) struct Early {
    pub(super) at: Time,
    pub(super) ce: bool,
    pub(super) bytes: Vec<u8>,
}

/// A session with one peer.
pub struct Channel {
    socket: SessionSocket,
    peer: SocketAddr,
    session: Session,
    strays: Strays,
    /// Packets that wait to leave in one call: all of `size` bytes but the last.
    out: Vec<u8>,
    size: usize,
    ecn: Codepoint,
    /// The last one is shorter: nothing may follow it.
    closed: bool,
    lost_in_sending: u64,
    /// What is repeated for a peer that did not receive it the first time.
    welcome: Vec<u8>,
    early: Vec<Early>,
}

impl Channel {
    /// A session over `socket`, which is bound, with the end at `peer`.
    ///
    /// # Errors
    /// What the system says when an option of the socket cannot be set.
    pub fn new(socket: UdpSocket, peer: SocketAddr, session: Session, offload: Offload) -> io::Result<Self> {
        Ok(Self::over(SessionSocket::new(socket, offload)?, peer, session))
    }

    pub(super) fn over(socket: SessionSocket, peer: SocketAddr, session: Session) -> Self {
        Self {
            socket,
            peer,
            session,
            strays: Strays::default(),
            out: Vec::with_capacity(MOST_BYTES + 2048),
            size: 0,
            ecn: Codepoint::NotEct,
            closed: false,
            lost_in_sending: 0,
            welcome: Vec::new(),
            early: Vec::new(),
        }
    }

    /// The packet that answers a client which asks again.
    pub(super) fn welcomes_with(self, welcome: Vec<u8>) -> Self {
        Self { welcome, ..self }
    }

    /// What is to be taken in first.
    pub(super) fn begins_with(self, early: Vec<Early>) -> Self {
        Self { early, ..self }
    }

    /// Packets that were not let in.
    pub fn strays(&self) -> Strays {
        self.strays
    }

    /// Datagrams that the kernel refused to send: they count as lost on the path.
    pub fn lost_in_sending(&self) -> u64 {
        self.lost_in_sending
    }

    /// Where it goes, as what was learnt of the path is remembered.
    ///
    /// # Errors
    /// The system's, when the socket has no address.
    pub fn place(&self) -> io::Result<Place> {
        Ok(Place::new(self.peer.ip(), self.socket.local_addr()?.ip()))
    }

    /// The other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Puts a packet of data into the batch; `fill` writes the payload.
    ///
    /// # Errors
    /// [`Beyond`] when the session has lasted too long.
    pub fn push_data(&mut self, segment: &Segment, fill: impl FnOnce(&mut [u8])) -> Result<(), Beyond> {
        let codepoint = Codepoint::from(segment.ecn);
        self.push(PacketKind::Data, wire::data_flags(segment), codepoint, |out| {
            wire::write_data(out, segment)?;
            let from = out.len();
            out.resize(from + segment.bytes as usize, 0);
            fill(&mut out[from..]);
            Ok(())
        })
    }

    /// Puts an acknowledgement into the batch.
    ///
    /// # Errors
    /// [`Beyond`] when the session has lasted too long.
    pub fn push_ack(&mut self, segment: &AckSegment) -> Result<(), Beyond> {
        self.push(PacketKind::Ack, wire::ack_flags(segment), Codepoint::NotEct, |out| wire::write_ack(out, segment))
    }

    /// Puts the end of the session into the batch.
    ///
    /// # Errors
    /// [`Beyond`] when the session has lasted too long.
    pub fn push_close(&mut self, close: &Close) -> Result<(), Beyond> {
        self.push(PacketKind::Close, 0, Codepoint::NotEct, |out| close.write(out))
    }

    fn push(
        &mut self,
        kind: PacketKind,
        flags: u8,
        ecn: Codepoint,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), Beyond>,
    ) -> Result<(), Beyond> {
        if self.is_full() || ecn != self.ecn {
            self.flush();
        }
        let from = self.out.len();
        let number = self.session.take_number();
        let header = PacketHeader { kind, flags, session: self.session.id, number };
        if let Err(beyond) = header.write(&mut self.out).and_then(|()| body(&mut self.out)) {
            self.out.truncate(from);
            return Err(beyond);
        }
        self.session.seal(number, &mut self.out, from);
        let size = self.out.len() - from;
        self.ecn = ecn;
        if from == 0 {
            self.size = size;
        } else if size > self.size {
            // It fits no batch of shorter ones.
            let last = self.out.split_off(from);
            self.flush();
            self.out = last;
            self.size = size;
        }
        self.closed = size < self.size || self.out.len() + self.size > MOST_BYTES;
        Ok(())
    }

    /// Whether the batch takes no further packet.
    pub(super) fn is_full(&self) -> bool {
        self.closed || self.out.len() >= self.size * self.socket.most_segments()
    }

    /// Sends what is in the batch. A datagram that the kernel does not take is lost, as one on the path.
    pub fn flush(&mut self) {
        if !self.out.is_empty() {
            if self.socket.send(self.peer, self.ecn, &self.out, self.size).is_err() {
                self.lost_in_sending += self.out.len().div_ceil(self.size) as u64;
            }
            self.out.clear();
        }
        self.size = 0;
        self.closed = false;
    }

    /// Delivers what has arrived; says how many datagrams there were, strays included.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::ConnectionRefused`] when the peer's host said that no program listens.
    pub fn receive(&mut self, clock: Clock, mut take: impl FnMut(Time, Incoming<'_>)) -> io::Result<usize> {
        let Self { socket, session, strays, peer, welcome, .. } = self;
        let mut asked_again = false;
        let mut let_in = |at: Time, bytes: &mut [u8], ce: bool| {
            let length = bytes.len();
            match read(session, bytes, ce) {
                Ok(incoming) => take(at, incoming),
                Err(Stray::Foreign) => strays.foreign += 1,
                Err(Stray::Rejected(Rejected::Forged)) => strays.forged += 1,
                Err(Stray::Rejected(Rejected::Replayed)) => strays.replayed += 1,
                Err(Stray::Malformed) => strays.malformed += 1,
                // Any host may have written it: no answer is longer, as in the handshake.
                Err(Stray::Hello) => asked_again |= length >= welcome.len(),
            }
        };
        let mut count = self.early.len();
        for mut early in self.early.drain(..) {
            let_in(early.at, &mut early.bytes, early.ce);
        }
        let mut heard = |datagram: Datagram<'_>| {
            if datagram.from == *peer {
                let_in(datagram.at, datagram.bytes, datagram.ce);
            }
        };
        count += match socket.receive(clock, &mut heard) {
            // Its last words may wait behind the news that it is gone.
            Err(gone) if gone.kind() == io::ErrorKind::ConnectionRefused => match socket.receive(clock, heard)? {
                0 => return Err(gone),
                got => got,
            },
            got => got?,
        };
        if asked_again && !self.welcome.is_empty() {
            // When it is lost, the peer asks once more.
            let _ = self.socket.send(self.peer, Codepoint::NotEct, &self.welcome, self.welcome.len());
        }
        Ok(count)
    }

    /// As [`SessionSocket::wait`].
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self, clock: Clock, until: Time) -> io::Result<bool> {
        if self.early.is_empty() { self.socket.wait(clock, until) } else { Ok(true) }
    }
}

enum Stray {
    Hello,
    Foreign,
    Rejected(Rejected),
    Malformed,
}

fn read<'a>(session: &mut Session, bytes: &'a mut [u8], ce: bool) -> Result<Incoming<'a>, Stray> {
    let header = PacketHeader::read(bytes).map_err(|_| Stray::Foreign)?;
    if header.kind == PacketKind::Hello {
        return Err(Stray::Hello);
    }
    if header.session != session.id {
        return Err(Stray::Foreign);
    }
    if !matches!(header.kind, PacketKind::Data | PacketKind::Ack | PacketKind::Close) {
        return Err(Stray::Foreign);
    }
    let body = session.open(header.number, bytes).map_err(Stray::Rejected)?;
    let incoming = match header.kind {
        PacketKind::Data => {
            wire::read_data(header.flags, body).map(|(segment, payload)| Incoming::Data(segment, payload, ce))
        }
        PacketKind::Ack => wire::read_ack(header.flags, body).map(Incoming::Ack),
        _ => Close::read(header.flags, body).map(Incoming::Close),
    };
    incoming.map_err(|_| Stray::Malformed)
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
