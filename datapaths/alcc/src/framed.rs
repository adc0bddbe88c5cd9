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
use crate::flow::{Flow, LOOK};
use crate::frame::{Ack, Connection, MAX_PAYLOAD, News, Violation};

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

impl Framed {
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

    /// The peer acknowledges no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
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
}

impl Flow {
    /// Speaks in frames from the first byte on. Chunks are to be counted without their heads: [`Flow::new`] has to be told of
    /// packets that are smaller by [`crate::frame::MAX_HEADER`].
    pub(crate) fn go_framed(&mut self) {
        let (wire, frame, inbox) = (VecDeque::new(), Vec::new(), VecDeque::new());
        let connection = Connection::new(None);
        self.framed =
            Some(Box::new(Framed { connection, wire, frame, inbox, ended: false, shut: false, broken: None }));
    }

    /// Hands to TCP what the controller permits, and acknowledgements that are due.
    pub(crate) fn pump_framed(&mut self, fd: &OwnedFd, all: bool) -> Result<(), Errno> {
        let Some(mut framed) = self.framed.take() else { return Ok(()) };
        let pumped = self.pump_frames(fd, all, &mut framed);
        self.framed = Some(framed);
        if pumped.is_err() {
            self.die();
        }
        pumped
    }

    fn pump_frames(&mut self, fd: &OwnedFd, all: bool, framed: &mut Framed) -> Result<(), Errno> {
        self.above.tick(self.local(clock::now()));
        loop {
            let now = self.local(clock::now());
            if !framed.flush(fd)? {
                self.blocked = true;
                self.above.blocked(now);
                self.look_at = self.look_at.min(now + self.patience());
                return Ok(());
            }
            if framed.ended {
                match self.queue.len().min(MAX_PAYLOAD as usize) as u32 {
                    0 => return Ok(()),
                    bytes => self.hand_over_framed(now, bytes, framed)?,
                }
                continue;
            }
            let chunk = self.above.poll(now).filter(|bytes| !self.waits_for_more(now, *bytes, all));
            if let Some(bytes) = chunk {
                self.hand_over_framed(now, bytes.min(MAX_PAYLOAD), framed)?;
            } else if let Some(note) = self.above.poll_empty(now) {
                framed.put(0, note).map_err(|_| Errno::OVERFLOW)?;
            } else if !framed.acknowledge() {
                return Ok(());
            }
        }
    }

    fn hand_over_framed(&mut self, now: Time, bytes: u32, framed: &mut Framed) -> Result<(), Errno> {
        self.fill_until = None;
        if self.above.in_flight() == 0 {
            self.look_at = now + self.patience();
        }
        let position = self.above.next();
        self.above.handed(now, bytes, self.held_since.is_some());
        framed.put(bytes, self.above.note_at(position)).map_err(|_| Errno::OVERFLOW)?;
        let (pieces, count) = self.queue.front(bytes as usize);
        pieces[..count].iter().for_each(|piece| framed.wire.extend(piece.iter()));
        self.queue.consume(bytes as usize);
        self.note_progress(now);
        Ok(())
    }

    /// The end of our stream has been sent.
    pub(crate) fn shut_frames(&mut self) {
        if let Some(framed) = &mut self.framed {
            framed.shut = true;
        }
    }

    /// Reads what the peer has sent.
    ///
    /// # Errors
    /// `EPROTO` when it broke the format ([`Flow::broken`] says how), or the connection's: it is dead.
    pub(crate) fn read_frames(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        let Some(mut framed) = self.framed.take() else { return Ok(()) };
        let read = self.read_into(fd, &mut framed);
        if framed.broken.is_some() {
            // One reason, and an end: nothing that comes after it can be trusted.
            let _ = shutdown(fd, Shutdown::Both);
        }
        self.framed = Some(framed);
        if read.is_err() {
            self.die();
        }
        read
    }

    fn read_into(&mut self, fd: &OwnedFd, framed: &mut Framed) -> Result<(), Errno> {
        let mut buffer = [0; READ];
        while framed.broken.is_none() && !framed.ended && framed.inbox.len() < INBOX {
            let count = match recv(fd, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, count)) => count.min(READ),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            let (at, mut input) = (clock::now(), &buffer[..count]);
            framed.ended = count == 0;
            let heard = if framed.ended { framed.connection.end() } else { self.hear(at, &mut input, framed, fd) };
            if let Err(violation) = heard {
                framed.broken = Some(violation);
                return Err(Errno::PROTO);
            }
        }
        Ok(())
    }

    fn hear(&mut self, at: Time, input: &mut &[u8], framed: &mut Framed, fd: &OwnedFd) -> Result<(), Violation> {
        while let Some(news) = framed.connection.read(at, input)? {
            match news {
                News::Payload(payload) => framed.inbox.extend(payload),
                News::Acked(ack) => self.take_ack(at, &ack, fd),
            }
        }
        Ok(())
    }

    fn take_ack(&mut self, at: Time, ack: &Ack, fd: &OwnedFd) {
        let now = self.local(at);
        if let Some(blob) = &ack.feedback {
            // It is counted; the controller is as it was.
            let _ = self.above.feedback(now, blob);
        }
        if ack.position <= self.acked {
            return;
        }
        if self.repairing || now - self.looked_at >= LOOK {
            self.look(fd, now);
        }
        self.acked = ack.position;
        self.counters.delivered = ack.position;
        self.counters.marked += u64::from(self.repairing);
        let at = now - ack.delay;
        let delivered =
            Delivered { upto: ack.position, at, repaired: self.repairing, took: Took::Told, arrived: Arrived::Unknown };
        let news = self.above.delivered(now, &delivered);
        self.note_rtt(now, news);
        self.above.set_chunk(self.chunk());
        self.look_at = if self.above.in_flight() == 0 { Time::NEVER } else { now + self.patience() };
    }

    /// Everything that was framed has been taken by TCP.
    pub(crate) fn frames_are_out(&self) -> bool {
        self.framed.as_ref().is_none_or(|framed| framed.wire.is_empty() || self.dead)
    }

    /// When an acknowledgement is due, by the monotonic clock.
    pub(crate) fn acknowledges_at(&self) -> Time {
        match &self.framed {
            Some(framed) if !self.dead && !self.blocked && !framed.shut => framed.connection.next_timeout(),
            _ => Time::NEVER,
        }
    }

    /// How the peer broke the format.
    pub(crate) fn broken(&self) -> Option<Violation> {
        self.framed.as_ref()?.broken
    }

    /// Bytes of the peer's stream for the application: nothing when there are none yet, 0 at the end.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let framed = self.framed.as_mut()?;
        let count = bytes.len().min(framed.inbox.len());
        for (to, from) in bytes.iter_mut().zip(framed.inbox.drain(..count)) {
            *to = from;
        }
        (count > 0 || bytes.is_empty() || framed.ended || self.dead).then_some(count)
    }
}
