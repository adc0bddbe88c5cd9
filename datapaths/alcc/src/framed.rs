//! Framed mode: chunks travel in frames that the receiver acknowledges itself, for controllers with a receiver half and for
//! kernels that report nothing ([`crate::frame`]). The peer reads with a [`Reader`](crate::frame::Reader), or is an engine too.
//!
//! What differs from queue mode: an acknowledgement says how long it waited at the receiver, which is subtracted from the RTT; a
//! chunk is copied once more, behind its head; what the peer sends has to be read through [`Socket::recv`](crate::Socket::recv).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

use paceline_cc::{Nanos, ReceiverHalf, Time};
use paceline_transport::{ArrivalClock, Delivered, Took};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::clock;
use crate::frame::{Ack, Connection, MAX_PAYLOAD, News, Violation};
use crate::layer::{Below, Framing};
use crate::link::{LOOK, Link};

/// Bytes that one read asks for (our choice: on the stack).
const READ: usize = 16 * 1024;
/// Bytes of the peer's that wait for the application; beyond, nothing is acknowledged nor read, which stops the peer (our
/// choice).
const INBOX: usize = 1 << 20;
/// This many at most while our own data waits for acknowledgements, which come behind the peer's data. Without being
/// acknowledged a peer sends no more than its window (our choice: no path of today has a larger one; it bounds a peer that
/// acknowledges nothing).
const INBOX_UNACKNOWLEDGED: usize = 16 << 20;

/// What framed mode needs.
pub(crate) struct Framed {
    connection: Connection,
    /// Frames that TCP has not taken, and what is below them.
    wire: VecDeque<u8>,
    below: Below,
    /// The frame that is being written.
    frame: Vec<u8>,
    /// What the peer has sent and the application has not read.
    inbox: VecDeque<u8>,
    /// There was no room for what came next.
    stopped: bool,
    /// Where samples of the RTT go.
    rtts: Option<Sender<Nanos>>,
    /// What came before there were frames has been looked at.
    begun: bool,
    /// The peer sends no more, and so acknowledges no more: what is left goes as fast as TCP takes it.
    ended: bool,
    /// We send no more, acknowledgements included.
    shut: bool,
    /// How the peer broke the format.
    broken: Option<Violation>,
}

impl Framed {
    /// Nothing has been sent.
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            connection: Connection::new(None),
            wire: VecDeque::new(),
            below: Below::new(framing.layer),
            rtts: framing.rtts,
            frame: Vec::new(),
            inbox: VecDeque::new(),
            stopped: false,
            begun: false,
            ended: false,
            shut: false,
            broken: None,
        }
    }

    /// The receiver half of the peer's controller.
    pub(crate) fn set_half(&mut self, half: Box<dyn ReceiverHalf>) {
        self.connection.set_half(half);
    }

    /// Hands to TCP what the controller permits, and acknowledgements that are due; `all` when nothing more will be written.
    pub(crate) fn pump(&mut self, link: &mut Link, fd: &OwnedFd, all: bool) -> Result<(), Errno> {
        self.push(link, fd, all)?;
        // What has left needs acknowledgements, which come behind what there was no room for.
        while self.stopped && self.has_room(link) {
            self.read(link, fd)?;
            self.push(link, fd, all)?;
        }
        Ok(())
    }

    fn push(&mut self, link: &mut Link, fd: &OwnedFd, all: bool) -> Result<(), Errno> {
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
                    0 if all && self.below.end() => {}
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
                if all && link.queue.is_empty() && self.below.end() {
                    continue;
                }
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
        if self.withholds_acks() || self.below.is_ended() {
            return false;
        }
        self.frame.clear();
        let due = self.connection.ack(clock::now(), &mut self.frame);
        self.wire.extend(&self.frame);
        due
    }

    /// Hands frames to TCP; says whether it has taken all.
    fn flush(&mut self, fd: &OwnedFd) -> Result<bool, Errno> {
        let Ok(wire) = self.below.seal(&mut self.wire) else {
            self.broken = Some(Violation::Layer);
            return Err(Errno::PROTO);
        };
        while !wire.is_empty() {
            match send(fd, wire.as_slices().0, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => drop(wire.drain(..taken)),
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
        if !std::mem::replace(&mut self.begun, true) {
            self.take(link, fd, &[], false)?;
        }
        let mut buffer = [0; READ];
        self.stopped = false;
        while self.broken.is_none() && !self.ended {
            if !self.has_room(link) {
                self.stopped = true;
                return Ok(());
            }
            let count = match recv(fd, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, count)) => count.min(READ),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            self.take(link, fd, &buffer[..count], count == 0)?;
        }
        Ok(())
    }

    fn has_room(&self, link: &Link) -> bool {
        let waits_for_acks = link.above.in_flight() > 0 && !link.queue.is_empty();
        self.inbox.len() < if waits_for_acks { INBOX_UNACKNOWLEDGED } else { INBOX }
    }

    fn withholds_acks(&self) -> bool {
        self.shut || self.inbox.len() >= INBOX
    }

    /// Takes what TCP has brought, which may be its end.
    fn take(&mut self, link: &mut Link, fd: &OwnedFd, bytes: &[u8], ended: bool) -> Result<(), Errno> {
        // Without the layer's word another host may have cut the stream: the protocol above knows how long it has to be.
        let mut below = std::mem::take(&mut self.below);
        let heard = below.open(bytes).and_then(|(mut input, last)| {
            self.hear(clock::now(), &mut input, link, fd)?;
            self.ended = ended || last;
            if self.ended { self.connection.end() } else { Ok(()) }
        });
        self.below = below;
        heard.map_err(|violation| {
            self.broken = Some(violation);
            Errno::PROTO
        })
    }

    fn hear(&mut self, at: Time, input: &mut &[u8], link: &mut Link, fd: &OwnedFd) -> Result<(), Violation> {
        while let Some(news) = self.connection.read(at, input)? {
            match news {
                News::Payload(payload) => self.inbox.extend(payload),
                News::Acked(ack) => {
                    if let (Some(rtt), Some(rtts)) = (take_ack(link, at, &ack, fd), &self.rtts) {
                        // Who no longer listens needs none.
                        let _ = rtts.send(rtt);
                    }
                }
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
        // A peer that has ended acknowledges nothing more.
        let unheard = self.ended || link.above.in_flight() == 0;
        link.look_at = if unheard { Time::NEVER } else { now + link.patience() };
    }

    /// When an acknowledgement is due, by the monotonic clock.
    pub(crate) fn next_ack(&self, link: &Link) -> Time {
        if link.blocked || self.withholds_acks() { Time::NEVER } else { self.connection.next_timeout() }
    }

    /// The end of our stream has been sent.
    pub(crate) fn shut(&mut self) {
        self.shut = true;
    }

    /// Everything that was framed has been taken by TCP.
    pub(crate) fn is_out(&self) -> bool {
        self.wire.is_empty() && self.below.is_out()
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

/// Informs the controller; says the RTT, if it is a sample.
fn take_ack(link: &mut Link, at: Time, ack: &Ack, fd: &OwnedFd) -> Option<Nanos> {
    let now = link.local(at);
    if let Some(blob) = &ack.feedback {
        // It is counted; the controller is as it was.
        let _ = link.above.feedback(now, blob);
    }
    if ack.position <= link.acked {
        return None;
    }
    if link.repairing || now - link.looked_at >= LOOK {
        link.look(fd, now);
    }
    link.acked = ack.position;
    link.counters.delivered = ack.position;
    link.counters.marked += u64::from(link.repairing);
    let at = now - ack.delay;
    let delivered = Delivered {
        upto: ack.position,
        at,
        repaired: link.repairing,
        took: Took::Reported,
        arrived: ArrivalClock::Unknown,
    };
    let news = link.above.delivered(now, &delivered);
    link.note_rtt(now, news);
    link.above.set_chunk(link.chunk());
    link.look_at = if link.above.in_flight() == 0 { Time::NEVER } else { now + link.patience() };
    news.and_then(|news| news.rtt)
}
