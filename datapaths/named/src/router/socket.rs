//! The router's socket: many requests come in one call of the kernel, many answers leave in one, and those to one receiver in one
//! piece that the kernel or the device takes apart (`UDP_SEGMENT`).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use paceline_icn::UNIT;
use paceline_icn::wire::DATA_HEAD;
use paceline_linux::clock::wait;
use paceline_linux::messages::{Errno, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use paceline_linux::sockopt::{UdpGsoSegment, setsockopt};
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, Type};

/// Bytes of a unit's message: that of the segments.
pub(super) const SEGMENT: usize = DATA_HEAD + UNIT;

/// Segments of one piece at most: 65,507 bytes are the longest datagram of IPv4.
pub(super) const SEGMENTS: usize = 65_507 / SEGMENT;

/// Datagrams that come in one call (our choice: more spare little).
pub(super) const RECEIVED: usize = 64;

/// Longer than every request, so that one that is too long is seen to be.
const LONGEST: usize = 1536;

/// Messages that leave in one call.
const MESSAGES: usize = 128;

/// Bytes that leave in one call: they stay in the processor's second cache (our choice).
const BYTES: usize = 4 * SEGMENTS * SEGMENT;

/// Bytes of requests that the kernel may hold: 100 ms of 20,000 a second (our choice; the kernel counts 768 for a small one, and
/// grants less where `net.core.rmem_max` is less).
const RECEIVE_BUFFER: usize = 4 << 20;

/// Bytes of answers that it may hold (our choice: 20 ms at 1 Gbit/s).
const SEND_BUFFER: usize = 4 << 20;

/// Neither sending nor receiving waits longer, so that a stop is seen.
const PATIENCE: Duration = Duration::from_millis(100);

/// A socket that is bound.
pub(super) struct Socket {
    inner: UdpSocket,
    buffers: Box<[[u8; LONGEST]; RECEIVED]>,
    headers: MultiHeaders<SockaddrStorage>,
}

/// A socket bound to `address`; `shared`: with other sockets of this process.
pub(super) fn bind(address: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(shared)?;
    socket.bind(&address.into())?;
    // Best effort: the kernel caps both.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    let _ = socket.set_send_buffer_size(SEND_BUFFER);
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket.into())
}

impl Socket {
    /// Of the thread that calls.
    pub(super) fn new(inner: UdpSocket) -> Self {
        let buffers = Box::new([[0; LONGEST]; RECEIVED]);
        Self { inner, buffers, headers: MultiHeaders::preallocate(RECEIVED, None) }
    }

    /// Takes what has come; waits for it, 100 ms at most, if `wait`. Says how many there were.
    pub(super) fn receive(&mut self, wait: bool, mut take: impl FnMut(SocketAddr, &[u8])) -> io::Result<usize> {
        let flags = if wait { MsgFlags::MSG_WAITFORONE } else { MsgFlags::MSG_DONTWAIT };
        let mut slices = self.buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        match recvmmsg(self.inner.as_raw_fd(), &mut self.headers, slices.iter_mut(), flags, None) {
            Ok(received) => {
                let mut count = 0;
                for message in received {
                    count += 1;
                    let from = message.address.as_ref().and_then(address);
                    if let (Some(from), Some(bytes)) = (from, message.iovs().next()) {
                        take(from, bytes);
                    }
                }
                Ok(count)
            }
            // An error that a receiver's host reported belongs to no request.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits for a datagram here or at one of the `others`, this long at most.
    pub(super) fn wait<'a>(&'a self, most: Duration, others: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<()> {
        let sockets = std::iter::once(self.inner.as_fd()).chain(others);
        let mut fds: Vec<PollFd<'_>> = sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
        wait(&mut fds, Some(most.min(PATIENCE))).map(drop)
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

/// A part of a message: bytes of the batch's memory, or of that which [`Batch::send`] is given.
#[derive(Clone, Copy)]
struct Piece {
    lent: bool,
    start: usize,
    end: usize,
}

/// A message, or several of one size that leave as one.
struct Message {
    to: SocketAddr,
    /// Which ones of the batch.
    pieces: Range<usize>,
    bytes: usize,
    /// Another segment may follow: the last one has full size.
    open: bool,
    /// Of units.
    units: bool,
}

/// What leaves with the next call.
pub(super) struct Batch {
    bytes: Box<[u8]>,
    used: usize,
    /// Bytes of all messages.
    total: usize,
    pieces: Vec<Piece>,
    messages: Vec<Message>,
    headers: MultiHeaders<SockaddrStorage>,
    /// The kernel takes messages of several segments apart.
    segments: bool,
    /// Messages that the kernel refused.
    pub(super) refused: u64,
}

impl Batch {
    /// For this socket.
    pub(super) fn new(socket: &Socket) -> Self {
        let segments = setsockopt(&socket.inner, UdpGsoSegment, &(SEGMENT as i32)).is_ok();
        Self {
            bytes: vec![0; BYTES].into_boxed_slice(),
            used: 0,
            total: 0,
            pieces: Vec::with_capacity(MESSAGES),
            messages: Vec::with_capacity(MESSAGES),
            headers: MultiHeaders::preallocate(MESSAGES, None),
            segments,
            refused: 0,
        }
    }

    /// Whether a burst of this many units has room.
    pub(super) fn has_room(&self, units: usize) -> bool {
        let messages = if self.segments { 1 } else { units };
        self.total + units * SEGMENT <= BYTES && self.messages.len() + messages <= MESSAGES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a small message; false if there is no room.
    pub(super) fn push(&mut self, to: SocketAddr, message: &[u8]) -> bool {
        if self.total + message.len() > BYTES || self.messages.len() == MESSAGES {
            return false;
        }
        let (start, end) = (self.used, self.used + message.len());
        self.bytes[start..end].copy_from_slice(message);
        self.used = end;
        self.add_message(to, Piece { lent: false, start, end }, false);
        true
    }

    /// Where this many units, for which [`Self::has_room`], can be written for [`Self::add`], each into [`SEGMENT`] bytes with its head.
    pub(super) fn room(&mut self, units: usize) -> &mut [u8] {
        &mut self.bytes[self.used..][..units * SEGMENT]
    }

    /// Adds the units that were written, of this many bytes: the last one may be shorter.
    pub(super) fn add(&mut self, to: SocketAddr, bytes: usize) {
        let (start, end) = (self.used, self.used + bytes);
        self.used = end;
        self.add_units(to, Piece { lent: false, start, end });
    }

    /// Adds units, for which [`Self::has_room`], that stand in this part of what [`Self::send`] will be given.
    pub(super) fn lend(&mut self, to: SocketAddr, part: Range<usize>) {
        self.add_units(to, Piece { lent: true, start: part.start, end: part.end });
    }

    fn add_units(&mut self, to: SocketAddr, piece: Piece) {
        if !self.segments {
            for start in (piece.start..piece.end).step_by(SEGMENT) {
                self.add_message(to, Piece { start, end: piece.end.min(start + SEGMENT), ..piece }, true);
            }
            return;
        }
        let bytes = piece.end - piece.start;
        match self.messages.last_mut() {
            Some(before) if before.open && before.to == to && before.bytes + bytes <= SEGMENTS * SEGMENT => {
                before.bytes += bytes;
                before.open = bytes.is_multiple_of(SEGMENT);
                self.total += bytes;
                match self.pieces.last_mut() {
                    Some(last) if last.lent == piece.lent && last.end == piece.start => last.end = piece.end,
                    _ => {
                        before.pieces.end += 1;
                        self.pieces.push(piece);
                    }
                }
            }
            _ => self.add_message(to, piece, true),
        }
    }

    fn add_message(&mut self, to: SocketAddr, piece: Piece, units: bool) {
        let (bytes, index) = (piece.end - piece.start, self.pieces.len());
        let open = units && self.segments && bytes.is_multiple_of(SEGMENT);
        self.total += bytes;
        self.pieces.push(piece);
        self.messages.push(Message { to, pieces: index..index + 1, bytes, open, units });
    }

    /// Drops all units, and keeps what else there is.
    pub(super) fn drop_units(&mut self) {
        self.messages.retain(|message| !message.units);
        self.total = self.messages.iter().map(|message| message.bytes).sum();
        self.used = self.messages.last().map_or(0, |message| self.pieces[message.pieces.start].end);
    }

    /// Sends everything; `lent`: where what was lent stands. What the kernel does not take is dropped: its receiver asks again.
    pub(super) fn send(&mut self, socket: &Socket, lent: &[u8]) {
        let slice = |piece: &Piece| {
            let memory = if piece.lent { lent } else { &*self.bytes };
            IoSlice::new(&memory[piece.start..piece.end])
        };
        let pieces: Vec<IoSlice<'_>> = self.pieces.iter().map(slice).collect();
        let messages: Vec<&[IoSlice<'_>]> =
            self.messages.iter().map(|message| &pieces[message.pieces.clone()]).collect();
        let addresses: Vec<Option<SockaddrStorage>> =
            self.messages.iter().map(|message| Some(message.to.into())).collect();
        let (mut sent, mut refused, mut segments) = (0, 0, self.segments);
        while sent < messages.len() {
            let (rest, to) = (messages[sent..].iter(), &addresses[sent..]);
            match sendmmsg(socket.inner.as_raw_fd(), &mut self.headers, rest, to, [], MsgFlags::empty()) {
                Ok(results) => sent += results.count().max(1),
                Err(Errno::EINTR) => {}
                // Segments need a device that sums up what it takes apart (EIO, before Linux 6.11), and a way whose packets they are no
                // longer than (EINVAL, since 6.14 EMSGSIZE).
                Err(errno @ (Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE)) if segments => {
                    let apart = if errno == Errno::EIO { sent..messages.len() } else { sent..sent + 1 };
                    let _ = setsockopt(&socket.inner, UdpGsoSegment, &0);
                    for (message, pieces) in self.messages.iter().zip(&messages).take(apart.end).skip(apart.start) {
                        for part in pieces.iter().flat_map(|piece| piece.chunks(SEGMENT)) {
                            refused += u64::from(socket.inner.send_to(part, message.to).is_err());
                        }
                    }
                    sent = apart.end;
                    segments =
                        errno != Errno::EIO && setsockopt(&socket.inner, UdpGsoSegment, &(SEGMENT as i32)).is_ok();
                }
                Err(_) => {
                    refused += 1;
                    sent += 1;
                }
            }
        }
        self.segments = segments;
        self.refused += refused;
        self.messages.clear();
        self.pieces.clear();
        (self.used, self.total) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_leaves_the_others_their_segments() {
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        there.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let socket = Socket::new(bind("127.0.0.1:0".parse().unwrap(), false).unwrap());
        let mut batch = Batch::new(&socket);
        let segments = batch.segments;
        for round in 1..4 {
            batch.push("127.0.0.1:0".parse().unwrap(), b"to no port");
            batch.room(3).fill(7);
            batch.add(there.local_addr().unwrap(), 3 * SEGMENT);
            batch.send(&socket, &[]);
            assert_eq!((batch.refused, batch.segments), (round, segments));
            for _ in 0..3 {
                assert_eq!(there.recv(&mut [0; 2 * SEGMENT]).unwrap(), SEGMENT);
            }
        }
    }
}
