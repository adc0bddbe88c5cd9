//! What the engine's thread and the application share of a socket.

mod lent;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paceline_cc::{Nanos, ReceiverHalf, Time};
use paceline_transport::Hold;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, read, write};
use rustix::net::sockopt::{Timeout, socket_error, socket_timeout};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

use crate::clock;
use crate::descriptors::vacate;
use crate::ends::{Closing, DAY, nanos};
use crate::figures::SocketStats;
use crate::flow::Flow;
use crate::held::{Given, Held};
use crate::options::Mode;
use crate::shared::Shared;
use crate::stamps::Reader;
use crate::stats::{LimitedBy, Totals};
use crate::writes::Writes;

/// What makes an eventfd not ready for writing.
const FULL: u64 = u64::MAX - 1;

/// What the engine and the application share.
pub(crate) struct Inner {
    pub(crate) id: u64,
    pub(crate) held: Held,
    /// The events of it that the engine's thread receives.
    hears: Option<epoll::EventFlags>,
    /// Not ready for writing while the queue is full; where there is none, the socket itself says when to write.
    full: Option<OwnedFd>,
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
    pub(crate) shared: Arc<Shared<Self>>,
    state: Mutex<State>,
    /// The mode is framed.
    framed: bool,
    /// The mode is inline.
    pub(crate) inline: AtomicBool,
    /// In this mode: a reading is due, so that no thread has to ask for one.
    pub(crate) watched: AtomicBool,
    /// In this mode: the program's writes.
    pub(crate) writes: Writes,
    /// The program has closed it, unseen.
    pub(crate) lost: AtomicBool,
    /// The queue is empty, or will never be.
    pub(crate) drained: Condvar,
    /// In framed mode: the peer's bytes have come, or will never.
    arrived: Condvar,
}

pub(crate) struct State {
    pub(crate) flow: Flow,
    /// The eventfd says that the queue is full.
    full: bool,
    /// How the connection failed, until it is reported to the application.
    pub(crate) error: Option<Errno>,
    /// It was.
    told: bool,
    /// Nothing more will be written.
    pub(crate) ended: bool,
    /// The end of the stream has been sent.
    shut: bool,
    /// The application has let go.
    pub(crate) closing: Option<Closing>,
    /// The engine has let go.
    pub(crate) gone: bool,
    /// When the engine will call.
    scheduled: Time,
    /// The first position that threads wait for to be sent.
    pub(crate) awaited: Option<u64>,
    /// It was found, and said, that others had written past the queue.
    pub(crate) bypassed: bool,
}

impl State {
    /// Why nothing can be written; an error of the connection is reported once, unless something `went` before.
    pub(crate) fn failed(&mut self, went: bool) -> Option<Errno> {
        if went {
            self.error.or((self.flow.link.dead || self.ended).then_some(Errno::PIPE))
        } else {
            let error = self.error.take();
            self.told |= error.is_some();
            error.or((self.flow.link.dead || self.ended).then_some(Errno::PIPE))
        }
    }

    /// Nothing waits to be sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.flow.is_empty() || self.gone
    }
}

impl Inner {
    pub(crate) fn new(
        id: u64,
        held: Held,
        full: Option<OwnedFd>,
        ends: (Option<SocketAddr>, Option<SocketAddr>),
        shared: Arc<Shared<Self>>,
        flow: Flow,
        hears: Option<epoll::EventFlags>,
    ) -> Self {
        let (local, peer) = ends;
        let (framed, inline) = (flow.is_framed(), flow.is_inline());
        let writes = Writes::new(held.is_lent());
        let state = State {
            flow,
            full: false,
            error: None,
            told: false,
            ended: false,
            shut: false,
            closing: None,
            gone: false,
            scheduled: Time::NEVER,
            awaited: None,
            bypassed: false,
        };
        Self {
            id,
            held,
            hears,
            full,
            peer,
            local,
            shared,
            state: Mutex::new(state),
            framed,
            inline: AtomicBool::new(inline),
            watched: AtomicBool::new(false),
            writes,
            lost: AtomicBool::new(false),
            drained: Condvar::new(),
            arrived: Condvar::new(),
        }
    }

    pub(crate) fn fd(&self) -> Arc<Given> {
        self.held.fd()
    }

    /// An eventfd that is ready for writing while the queue has room; `None` where there is no queue.
    pub(crate) fn full(&self) -> Option<&OwnedFd> {
        self.full.as_ref()
    }

    /// Descriptors that are the engine's.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.held.own_number().into_iter().chain(self.full.as_ref().map(AsRawFd::as_raw_fd))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked held plain values, each of them whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.inline.load(Ordering::Acquire) {
            true => Mode::Inline,
            false if self.framed => Mode::Framed,
            false => Mode::Queue,
        }
    }

    /// Writes to the kernel.
    pub(crate) fn send_inline(&self, bufs: &[IoSlice<'_>], nonblocking: bool) -> io::Result<usize> {
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        let (mut done, mut rest) = (0, bufs.to_vec());
        let mut rest = &mut rest[..];
        let fd = self.fd();
        loop {
            let flags = SendFlags::NOSIGNAL | if nonblocking { SendFlags::DONTWAIT } else { SendFlags::empty() };
            let stop = match sendmsg(&fd, rest, &mut SendAncillaryBuffer::default(), flags) {
                Ok(taken) => {
                    done += taken;
                    if done == total || nonblocking {
                        return Ok(done);
                    }
                    IoSlice::advance_slices(&mut rest, taken);
                    continue;
                }
                // The descriptor itself may be non-blocking though this call is not.
                Err(Errno::AGAIN) if !nonblocking => match self.wait_for(&fd) {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            return if done > 0 { Ok(done) } else { Err(stop.into()) };
        }
    }

    /// The socket has news.
    pub(crate) fn on_events(&self, events: epoll::EventFlags, reader: &mut Reader) {
        let mut state = self.lock();
        if state.gone || self.is_lost(&mut state) {
            return;
        }
        if events.contains(epoll::EventFlags::ERR) {
            state.flow.read_stamps(&self.fd(), reader);
        }
        if events.contains(epoll::EventFlags::OUT) {
            state.flow.link.blocked = false;
        }
        if self.framed {
            self.read_frames(&mut state);
        }
        if events.contains(epoll::EventFlags::HUP) {
            state.flow.look_now(&self.fd());
        }
        self.advance(&mut state);
    }

    /// The time has come for which it was scheduled.
    pub(crate) fn on_timer(&self, reader: &mut Reader) {
        let mut state = self.lock();
        if state.gone || self.is_lost(&mut state) {
            return;
        }
        state.scheduled = Time::NEVER;
        // Before the reading: a thread that writes after it finds no watcher, and waits for the lock.
        self.watched.swap(false, Ordering::AcqRel);
        self.give_up_if_silent(&mut state);
        self.close_if_orphan(&mut state);
        let written = self.writes.forget();
        self.steer(&mut state, |flow, fd| flow.timer(fd, reader, || written || self.writes.now()));
        self.watched.store(state.flow.is_watched(), Ordering::Release);
        self.advance(&mut state);
    }

    /// In framed mode: reads what has come.
    fn read_frames(&self, state: &mut State) {
        if let Err(error) = state.flow.read_frames(&self.fd()) {
            state.error = Some(error);
        }
        self.arrived.notify_all();
    }

    /// In framed mode: looks for what has come.
    pub(crate) fn read_now(&self) {
        let mut state = self.lock();
        self.read_frames(&mut state);
        self.advance(&mut state);
    }

    /// Reads the peer's bytes; waits for some, for `limit` at most.
    pub(crate) fn recv(&self, bytes: &mut [u8], limit: Option<Duration>) -> io::Result<usize> {
        let until = limit.map(|limit| clock::now() + nanos(limit));
        let mut state = self.lock();
        loop {
            if let Some(violation) = state.flow.broken() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, violation));
            }
            if let Some(count) = state.flow.receive(bytes) {
                // There is room again for what was left with TCP.
                self.read_frames(&mut state);
                self.advance(&mut state);
                return Ok(count);
            }
            let left = until.map_or(DAY, |until| Duration::from_nanos((until - clock::now()).as_nanos()).min(DAY));
            if left.is_zero() || !self.framed {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// In framed mode: the receiver half of the peer's controller has become known.
    pub(crate) fn set_half(&self, half: Box<dyn ReceiverHalf>) {
        let mut state = self.lock();
        state.flow.set_half(half);
        self.advance(&mut state);
    }

    /// How the connection failed, as reported to the application.
    pub(crate) fn told(&self, error: Errno) -> io::Error {
        match self.lock().flow.broken().filter(|_| error == Errno::PROTO) {
            Some(violation) => io::Error::new(io::ErrorKind::InvalidData, violation),
            None => error.into(),
        }
    }

    /// How the connection failed, as the kernel alone knows where the engine found no more than that it is over; told once.
    pub(crate) fn untold(&self) -> Option<Errno> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.told, true) {
            return None;
        }
        socket_error(self.fd()).ok()?.err()
    }

    /// The application writes: takes what fits, and sends what is permitted unless the engine is about to.
    pub(crate) fn write(&self, state: &mut State, bufs: &[IoSlice<'_>], skip: usize) -> usize {
        let expected = state.flow.is_expected();
        let taken = state.flow.link.write(bufs, skip);
        if expected {
            self.show_room(state);
        } else {
            self.advance(state);
        }
        taken
    }

    /// After any event: sends what is permitted, and does what waited for that.
    pub(crate) fn advance(&self, state: &mut State) {
        if state.gone {
            return;
        }
        let all = state.ended || state.closing.is_some();
        if let Err(error) = state.flow.pump(&self.fd(), all) {
            state.error = Some(error);
        }
        if !state.flow.is_empty() {
            self.held.hold();
        }
        state.flow.protect(&self.fd());
        if state.flow.link.is_bypassed() && !state.bypassed {
            state.bypassed = true;
            self.reset(state);
            self.shared.bypassed();
        }
        self.show_room(state);
        self.wake_waiting(state);
        if state.is_drained() {
            if state.ended && !state.shut {
                state.shut = true;
                state.flow.shut();
                // It may be over already; then there is nothing to end.
                let _ = shutdown(self.fd(), Shutdown::Write);
            }
            if state.closing.is_some() {
                let fd = self.fd();
                state.flow.let_go(&fd);
                // Other processes may hold the socket; this one receives its events no more.
                self.shared.hear_nothing(&fd);
                self.forget(state);
                return;
            }
            self.held.release();
        }
        let given_up = state.closing.map_or(Time::NEVER, |closing| closing.ends(&state.flow));
        let wake = state.flow.next_wake().min(given_up);
        if wake != state.scheduled {
            self.shared.schedule(self.id, state.scheduled, wake);
            state.scheduled = wake;
        }
    }

    /// The engine has nothing to do with the socket any more.
    fn forget(&self, state: &mut State) {
        state.gone = true;
        self.held.release();
        if let (Given::Own(fd), Some(poller)) = (&*self.fd(), self.shared.polls()) {
            // Others may have the socket still: its connection is over.
            vacate(fd, &poller.wake);
        }
        let link = &state.flow.link;
        let did = Totals {
            sockets: 1,
            delivered: link.above.next().max(link.counters.delivered),
            retransmits: link.info.retransmits.into(),
            bypassed: state.bypassed.into(),
        };
        self.shared.forget(self.id, state.scheduled, &did);
    }

    /// Sets the eventfd by the room in the queue.
    fn show_room(&self, state: &mut State) {
        let Some(full) = &self.full else { return };
        if !state.full && state.flow.link.queue.room() == 0 {
            state.full = write(full, &FULL.to_ne_bytes()).is_ok();
        } else if state.full && (state.flow.link.queue.has_fallen() || state.flow.link.dead) {
            state.full = read(full, &mut [0; 8]).is_err();
        }
    }

    /// It was reported to the application that not all fits: the eventfd will say when there is, even if some has become
    /// free since. Edge-triggered sets wait for it.
    pub(crate) fn refuse(&self, state: &mut State) {
        if let Some(full) = self.full.as_ref().filter(|_| !state.full) {
            state.full = write(full, &FULL.to_ne_bytes()).is_ok();
        }
        self.show_room(state);
    }

    /// Blocks until the queue has room.
    pub(crate) fn wait_for_room(&self) -> Result<(), Errno> {
        match &self.full {
            Some(full) => self.wait_for(full),
            None => self.wait_for(&self.fd()),
        }
    }

    /// Blocks until `what` is ready for writing, at most for the socket's `SO_SNDTIMEO`.
    pub(crate) fn wait_for(&self, what: &OwnedFd) -> Result<(), Errno> {
        let limit = socket_timeout(self.fd(), Timeout::Send)?;
        let limit =
            limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() });
        match poll(&mut [PollFd::new(what, PollFlags::OUT)], limit.as_ref())? {
            0 => Err(Errno::AGAIN),
            _ => Ok(()),
        }
    }

    pub(crate) fn stats(&self) -> SocketStats {
        let state = self.lock();
        let link = &state.flow.link;
        let rtt = link.above.rtt();
        SocketStats {
            id: self.id,
            local: self.local,
            peer: self.peer,
            controller: self.shared.options.controller.to_string(),
            mode: self.mode(),
            acks: state.flow.acks(),
            age: link.age(),
            limited_by: match link.above.held_by() {
                Hold::Nothing => LimitedBy::Nothing,
                Hold::Application => LimitedBy::Application,
                Hold::Window => LimitedBy::Window,
                Hold::Pacing => LimitedBy::Pacing,
                Hold::Below => LimitedBy::LayerBelow,
            },
            rate: link.above.rate(),
            rtt: link.rtt,
            srtt: rtt.smoothed(),
            min_rtt: Some(rtt.min()).filter(|&min| min != Nanos::MAX),
            below: link.below,
            window: link.above.controller().window(),
            lower_window: link.info.window(),
            in_flight: link.above.in_flight(),
            queued: link.queue.len() as u64,
            written: link.counters.written,
            delivered: link.counters.delivered,
            retransmits: link.info.retransmits,
            timeouts: link.counters.timeouts,
            chunks: link.above.chunks(),
            limited_below: link.above.limited_below(),
            stamps_lost: link.counters.stamps_lost,
            marked: link.counters.marked,
            bypassed: state.bypassed,
        }
    }
}
