//! Framed mode: chunks travel in frames that the receiver acknowledges itself, for controllers with a receiver half and for
//! kernels that report nothing ([`crate::frame`]). The peer reads with a [`Reader`](crate::frame::Reader), or is an engine too.
//!
//! What differs from queue mode: an acknowledgement says how long it waited at the receiver, which is subtracted from the RTT; a
//! chunk is copied once more, behind its head; what the peer sends has to be read through [`Socket::recv`](crate::Socket::recv).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use paceline_cc::Time;
use paceline_transport::{Arrived, Delivered, Took};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::clock;
use crate::frame::{Ack, Connection, MAX_PAYLOAD, News, Violation};
use crate::link::{LOOK, Link};

/// Bytes that one read asks for (our choice: on the stack).
const READ: usize = 16 * 1024;
/// Bytes of the peer's that wait for the application at most; beyond, nothing is read, which stops the peer (our choice).
const INBOX: usize = 1 << 20;

/// What framed mode needs.
pub(crate) struct Framed {
    connection: Connection,
    /// Frames that TCP has not taken.
    wire: VecDeque<u8>,
    /// The frame that is being written.
    frame: Vec<u8>,
    /// What the peer has sent and the application has not read.
    inbox: VecDeque<u8>,
    /// The peer sends no more, and so acknowledges no more: what is left goes as fast as TCP takes it.
    ended: bool,
    /// We send no more, acknowledgements included.
    shut: bool,
    /// How the peer broke the format.
    broken: Option<Violation>,
}

impl Default for Framed {
    /// Nothing has been sent.
    fn default() -> Self {
        Self {
            connection: Connection::new(None),
            wire: VecDeque::new(),
            frame: Vec::new(),
            inbox: VecDeque::new(),
            ended: false,
            shut: false,
            broken: None,
        }
    }
}

impl Framed {
    /// Hands to TCP what the controller permits, and acknowledgements that are due; `all` when nothing more will be written.
    pub(crate) fn pump(&mut self, link: &mut Link, fd: &OwnedFd, all: bool) -> Result<(), Errno> {
        link.above.tick(link.local(clock::now()));
        loop {
            let now = link.local(clock::now());
            if !self.flush(fd)? {
                link.blocked = true;
                link.above.blocked(now);
                link.look_at = link.look_at.min(now + link.patience());
                return Ok(());
            }
            if self.ended {
                match link.queue.len().min(MAX_PAYLOAD as usize) as u32 {
                    0 => return Ok(()),
                    bytes => self.hand_over(link, now, bytes)?,
                }
                continue;
            }
            let chunk = link.above.poll(now).filter(|bytes| !link.waits_for_more(now, *bytes, all));
            if let Some(bytes) = chunk {
                self.hand_over(link, now, bytes.min(MAX_PAYLOAD))?;
            } else if let Some(note) = link.above.poll_empty(now) {
                self.put(0, note).map_err(|_| Errno::OVERFLOW)?;
            } else if !self.acknowledge() {
                return Ok(());
            }
        }
    }

    fn hand_over(&mut self, link: &mut Link, now: Time, bytes: u32) -> Result<(), Errno> {
        link.fill_until = None;
        if link.above.in_flight() == 0 {
            link.look_at = now + link.patience();
        }
        let position = link.above.next();
        link.above.handed(now, bytes, link.held_since.is_some());
        self.put(bytes, link.above.note_at(position)).map_err(|_| Errno::OVERFLOW)?;
        let (pieces, count) = link.queue.front(bytes as usize);
        pieces[..count].iter().for_each(|piece| self.wire.extend(piece.iter()));
        link.queue.consume(bytes as usize);
        link.note_progress(now);
        Ok(())
    }

    /// Puts the head of a frame on the wire.
    fn put(&mut self, bytes: u32, note: u64) -> Result<(), Violation> {
        self.frame.clear();
        self.connection.data(bytes, note, &mut self.frame)?;
        self.wire.extend(&self.frame);
        Ok(())
    }

    /// Puts an acknowledgement on the wire, if one is due.
    fn acknowledge(&mut self) -> bool {
        if self.shut {
            return false;
        }
        self.frame.clear();
        let due = self.connection.ack(clock::now(), &mut self.frame);
        self.wire.extend(&self.frame);
        due
    }

    /// Hands frames to TCP; says whether it has taken all.
    fn flush(&mut self, fd: &OwnedFd) -> Result<bool, Errno> {
        while !self.wire.is_empty() {
            match send(fd, self.wire.as_slices().0, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => drop(self.wire.drain(..taken)),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads what the peer has sent.
    pub(crate) fn read(&mut self, link: &mut Link, fd: &OwnedFd) -> Result<(), Errno> {
        let read = self.read_all(link, fd);
        if self.broken.is_some() {
            // One reason, and an end: nothing that comes after it can be trusted.
            let _ = shutdown(fd, Shutdown::Both);
        }
        read
    }

    fn read_all(&mut self, link: &mut Link, fd: &OwnedFd) -> Result<(), Errno> {
        let mut buffer = [0; READ];
        while self.broken.is_none() && !self.ended && self.inbox.len() < INBOX {
            let count = match recv(fd, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, count)) => count.min(READ),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            let (at, mut input) = (clock::now(), &buffer[..count]);
            self.ended = count == 0;
            let heard = if self.ended { self.connection.end() } else { self.hear(at, &mut input, link, fd) };
            if let Err(violation) = heard {
                self.broken = Some(violation);
                return Err(Errno::PROTO);
            }
        }
        Ok(())
    }

    fn hear(&mut self, at: Time, input: &mut &[u8], link: &mut Link, fd: &OwnedFd) -> Result<(), Violation> {
        while let Some(news) = self.connection.read(at, input)? {
            match news {
                News::Payload(payload) => self.inbox.extend(payload),
                News::Acked(ack) => take_ack(link, at, &ack, fd),
            }
        }
        Ok(())
    }

    /// A time has come: the controller's clock, and the look at what happened without a word.
    pub(crate) fn timer(&mut self, link: &mut Link, fd: &OwnedFd) {
        let now = link.local(clock::now());
        link.above.tick(now);
        if link.look_at > now || link.dead {
            return;
        }
        link.look(fd, now);
        // TCP says that it can take more, unless what it waited for was never needed.
        link.blocked = false;
        // Who has ended acknowledges no more.
        let unheard = self.ended || link.above.in_flight() == 0;
        link.look_at = if unheard { Time::NEVER } else { now + link.patience() };
    }

    /// When an acknowledgement is due, by the monotonic clock.
    pub(crate) fn next_ack(&self, link: &Link) -> Time {
        if link.blocked || self.shut { Time::NEVER } else { self.connection.next_timeout() }
    }

    /// The end of our stream has been sent.
    pub(crate) fn shut(&mut self) {
        self.shut = true;
    }

    /// Everything that was framed has been taken by TCP.
    pub(crate) fn is_out(&self) -> bool {
        self.wire.is_empty()
    }

    /// How the peer broke the format.
    pub(crate) fn broken(&self) -> Option<Violation> {
        self.broken
    }

    /// Bytes of the peer's stream for the application: nothing when there are none yet, 0 at the end.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let count = bytes.len().min(self.inbox.len());
        for (to, from) in bytes.iter_mut().zip(self.inbox.drain(..count)) {
            *to = from;
        }
        (count > 0 || bytes.is_empty() || self.ended).then_some(count)
    }
}

fn take_ack(link: &mut Link, at: Time, ack: &Ack, fd: &OwnedFd) {
    let now = link.local(at);
    if let Some(blob) = &ack.feedback {
        // It is counted; the controller is as it was.
        let _ = link.above.feedback(now, blob);
    }
    if ack.position <= link.acked {
        return;
    }
    if link.repairing || now - link.looked_at >= LOOK {
        link.look(fd, now);
    }
    link.acked = ack.position;
    link.counters.delivered = ack.position;
    link.counters.marked += u64::from(link.repairing);
    let at = now - ack.delay;
    let delivered =
        Delivered { upto: ack.position, at, repaired: link.repairing, took: Took::Reported, arrived: Arrived::Unknown };
    let news = link.above.delivered(now, &delivered);
    link.note_rtt(now, news);
    link.above.set_chunk(link.chunk());
    link.look_at = if link.above.in_flight() == 0 { Time::NEVER } else { now + link.patience() };
}
