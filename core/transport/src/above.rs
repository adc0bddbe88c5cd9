//! A controller above TCP, the idea of ALCC: an application that hands over less than TCP would take controls the flow.
//!
//! Source: Zaki et al., "ALCC: Migrating Congestion Control to the Application Layer in Cellular Networks", sections 3
//! and 4. What differs: chunks are known by byte offsets of 64 bits, so partial acknowledgements never shift the
//! mapping; one acknowledgement that covers several chunks is one event with several packets.
//!
//! The upper controller sees the time from a chunk's departure to its cumulative acknowledgement; a chunk departs when it
//! is handed over, unless the lower TCP reports when it left. TCP repairs losses and delivers nothing behind a hole, so what
//! was acknowledged cumulatively would stand still for a round trip at each loss, and a controller that answers losses would
//! never learn of one. So the controller is informed of what has [arrived behind a hole](Above::arrived_ahead) and of what
//! TCP [sends again](Above::lost), as it would be natively; the repair itself is not a sample.

mod mode;
mod tcp;

use std::collections::VecDeque;

pub use mode::{Acks, Mode};
use paceline_cc::{BadFeedback, Controller, Lost, Nanos, Rate, Time};

use crate::config::SenderConfig;
use crate::driver::{AckProgress, ArrivalClock, Departing, Driver};
use crate::packet::SentPacket;
use crate::rtt::Rtt;
use crate::scoreboard::Scoreboard;

pub use tcp::sender;

/// Bytes that TCP has taken and not sent, from which on it takes no more (`TCP_NOTSENT_LOWAT`): enough for it to send at every
/// acknowledgement, and little that could not be recalled (our choice).
pub const NOT_SENT: u32 = 32 * 1024;

/// What keeps the next chunk back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Hold {
    /// Nothing: one may be handed over.
    #[default]
    Nothing,
    /// The application has written nothing more.
    Application,
    /// The controller's window is full.
    Window,
    /// Its sending time has not come.
    Pacing,
    /// The layer below took nothing.
    Below,
}

/// What the layer below has got through.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'a> {
    /// Everything below this position has been acknowledged.
    pub upto: u64,
    /// When the acknowledgement arrived.
    pub at: Time,
    /// It waited for a retransmission: its chunks say nothing about the RTT.
    pub repaired: bool,
    /// How long its chunks took.
    pub took: Took,
    /// What the receiver's clock said.
    pub arrived: ArrivalClock<'a>,
}

/// What has arrived behind a hole (RFC 2018).
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// The hole begins here: everything below has arrived.
    pub una: u64,
    /// What has arrived lies below.
    pub upto: u64,
    /// Bytes between the two that have arrived.
    pub bytes: u64,
    /// How long the newest of them took.
    pub took: Took,
}

/// How long a chunk took from its departure to its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub enum Took {
    /// As long as the two times say.
    Reported,
    /// No longer than that, but longer than until `since`, when it was not acknowledged yet; within these bounds, the layer
    /// below's own estimate `rtt`.
    Within {
        /// The look before.
        since: Time,
        /// The estimate.
        rtt: Nanos,
    },
    /// As the layer below says, which knows better than the times do.
    Known(Nanos),
}

impl Took {
    /// When a chunk has to have left that departed at `sent_at` and was acknowledged by `now`.
    fn departure(self, sent_at: Time, now: Time) -> Time {
        match self {
            Self::Reported => sent_at,
            Self::Within { since, rtt } => now - rtt.min(now - sent_at).max(since.min(now) - sent_at),
            Self::Known(rtt) => now - rtt,
        }
    }
}

/// What an acknowledgement said to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckNews {
    /// The RTT of the newest chunk that was sent once, if there was one.
    pub rtt: Option<Nanos>,
}

/// The half above TCP, whichever TCP it is. Sans-IO.
///
/// The driver says what the application [queues](Above::queued), asks what may be [handed over](Above::poll) after
/// every other call and at [`Above::next_wake`], says what [was](Above::handed), and what was
/// [delivered](Above::delivered). Positions count bytes from the first one handed over.
pub struct Above {
    driver: Driver,
    /// Chunks handed over and not yet acknowledged.
    chunks: Scoreboard,
    /// Scratch for one round of losses.
    lost: Vec<Lost>,
    /// The controller's word to its receiver half on each of them.
    notes: VecDeque<u64>,
    /// Bytes of a chunk.
    chunk: u64,
    next: u64,
    end: u64,
    /// Everything below this position is known to have left.
    departed: u64,
    /// Up to this position the controller was informed of what has arrived, holes apart.
    ahead: u64,
    /// Losses below this position belong to an episode of which it was informed.
    episode: u64,
    hold: Hold,
    /// Chunks handed over, and those for which TCP was the limit.
    handed: u64,
    limited: u64,
    /// TCP has refused the next chunk.
    refused: bool,
    bad_feedback: u64,
    rate: Rate,
    /// Time of the controller's last event.
    last_event: Time,
    wake_at: Time,
}

impl Above {
    /// A flow that has handed over nothing. A chunk is one [`SenderConfig::mss`].
    pub fn new(config: &SenderConfig, controller: Box<dyn Controller>) -> Self {
        Self {
            driver: Driver::new(config, controller),
            chunks: Scoreboard::new(config.mss),
            lost: Vec::new(),
            notes: VecDeque::new(),
            chunk: u64::from(config.mss),
            next: 0,
            end: 0,
            departed: 0,
            ahead: 0,
            episode: 0,
            hold: Hold::Application,
            handed: 0,
            limited: 0,
            refused: false,
            bad_feedback: 0,
            rate: Rate::ZERO,
            last_event: Time::ZERO,
            wake_at: Time::NEVER,
        }
    }

    /// From now on a chunk has up to `packets` full packets. Never less than one.
    pub fn set_chunk(&mut self, packets: u32) {
        self.chunk = u64::from(self.driver.config.mss) * u64::from(packets.max(1));
    }

    /// From now on it is asked once in `interval` ([`Driver::set_batch_interval`]).
    pub fn set_batch_interval(&mut self, interval: Nanos) {
        self.driver.set_batch_interval(interval);
    }

    /// The application queues `bytes` more. [`u64::MAX`] means "never runs out". A controller that holds the flow is
    /// asked again.
    pub fn queued(&mut self, bytes: u64) {
        self.end = self.end.saturating_add(bytes);
        self.driver.refresh();
    }

    /// The application takes back everything that has not been handed over; the answer is how many bytes that were.
    pub fn cut(&mut self) -> u64 {
        let unsent = self.end - self.next;
        self.end = self.next;
        unsent
    }

    /// Bytes that may be handed over now, as one chunk; when none, [`Above::held_by`] and [`Above::next_wake`] say why and
    /// until when.
    pub fn poll(&mut self, now: Time) -> Option<u32> {
        self.wake_at = Time::NEVER;
        let mss = u64::from(self.driver.config.mss);
        let window = self.driver.window();
        let in_flight = self.in_flight();
        // A chunk of several packets shrinks to what the window has room for, but not below one.
        let fits = window.saturating_sub(in_flight) / mss * mss;
        let bytes = (self.end - self.next).min(self.chunk.min(fits.max(mss)));
        if bytes == 0 {
            self.hold = Hold::Application;
            if in_flight + mss <= window {
                self.driver.run_dry(now, in_flight);
                self.chunks.end_burst(false);
            }
            return None;
        }
        if in_flight + bytes > window {
            self.hold = Hold::Window;
            self.chunks.end_burst(true);
            return None;
        }
        if self.driver.due() > now {
            self.hold = Hold::Pacing;
            self.wake_at = self.driver.due();
            return None;
        }
        self.hold = Hold::Nothing;
        Some(bytes as u32)
    }

    /// The first `bytes` that [`Above::poll`] permitted were handed over; `below` when TCP still held back earlier ones, so
    /// that it is the limit.
    pub fn handed(&mut self, now: Time, bytes: u32, below: bool) {
        let now = self.advance(now);
        let first = self.chunks.is_empty();
        if first {
            self.driver.restart(now);
        }
        self.handed += 1;
        self.limited += u64::from(below || std::mem::take(&mut self.refused));
        let mut chunk = SentPacket::new(self.next, bytes, now);
        let bytes = u64::from(bytes);
        let (in_flight, unsent) = (self.in_flight() + bytes, self.end - self.next - bytes);
        let note = self.driver.sent(now, &mut chunk, &Departing { in_flight, unsent, first });
        self.chunks.push(chunk);
        self.notes.push_back(note);
        self.next += bytes;
    }

    /// TCP takes nothing although the controller permits: growth stops as when the application writes too little.
    pub fn blocked(&mut self, now: Time) {
        let now = self.advance(now);
        self.hold = Hold::Below;
        self.refused = true;
        self.driver.run_dry(now, self.in_flight());
        self.chunks.end_burst(false);
    }

    /// TCP's own window is the controller's, and it has more to send: the window limits the flow, whatever room there is at this
    /// moment.
    pub fn filled(&mut self) {
        self.hold = Hold::Window;
        self.chunks.end_burst(true);
    }

    /// The chunk that ends at `upto` left the host at `at`. Says how long it had waited since it was handed over; `None`
    /// for what is not outstanding or had left before (a retransmission).
    pub fn left(&mut self, upto: u64, at: Time) -> Option<Nanos> {
        if upto <= self.departed {
            return None;
        }
        self.departed = upto;
        self.chunks.left(upto, at)
    }

    /// TCP repairs losses, and something has arrived behind them: informs the controller of what is new. Which of the chunks
    /// are holes is not reported, only how much they are: the lowest are taken for them.
    pub fn arrived_ahead(&mut self, now: Time, ahead: &Ahead) -> Option<AckNews> {
        let now = self.advance(now);
        self.driver.arrived(now, ahead.una.saturating_add(ahead.bytes).min(self.next));
        let reported = self.next - self.una() - self.chunks.in_flight;
        let prior = self.in_flight();
        self.chunks.fresh.clear();
        self.chunks.deliver_last(ahead.upto, ahead.bytes.saturating_sub(reported));
        self.ahead = self.ahead.max(self.chunks.fresh.first()?.end());
        for chunk in &mut self.chunks.fresh {
            chunk.sent_at = ahead.took.departure(chunk.sent_at, now);
        }
        Some(self.acknowledge(now, prior, &ArrivalClock::Unknown))
    }

    /// TCP has found `packets` lost and sent them again: informs the controller. Which ones is not known: the oldest
    /// outstanding ones are taken for the first of an episode, later ones for those where the newest arrived.
    pub fn lost(&mut self, now: Time, packets: u32) {
        if packets == 0 {
            return;
        }
        let now = self.advance(now);
        let una = self.una();
        let new_episode = una >= self.episode;
        let position = if new_episode { una } else { self.ahead.max(una) };
        self.lost.clear();
        self.chunks.suspects(position, packets as usize, &mut self.lost);
        if self.lost.is_empty() {
            return;
        }
        if new_episode {
            self.episode = self.next;
        }
        // The repairs have left in place of the lost.
        let in_flight = self.in_flight();
        self.driver.lose(now, &mut self.lost, in_flight, in_flight, new_episode);
        self.driver.refresh();
    }

    /// Informs the controller of what TCP has got through.
    pub fn delivered(&mut self, now: Time, delivered: &Delivered<'_>) -> Option<AckNews> {
        let prior = self.in_flight();
        let first = self.chunks.first_number();
        self.chunks.fresh.clear();
        self.chunks.deliver_below(delivered.upto);
        self.notes.drain(..(self.chunks.first_number() - first) as usize);
        // News of an earlier moment moves the chunks with it, so that their RTT is what it was.
        let now = self.advance(delivered.at.min(now));
        self.driver.arrived(now, delivered.upto.min(self.next));
        if self.chunks.fresh.is_empty() {
            return None;
        }
        let late = now - delivered.at;
        for chunk in &mut self.chunks.fresh {
            chunk.retransmitted |= delivered.repaired;
            chunk.sent_at = delivered.took.departure(chunk.sent_at + late, now);
        }
        Some(self.acknowledge(now, prior, &delivered.arrived))
    }

    /// Informs the controller of the fresh chunks.
    fn acknowledge(&mut self, now: Time, prior_in_flight: u64, arrived: &ArrivalClock<'_>) -> AckNews {
        let delivery = self.driver.delivered(now, &mut self.chunks.fresh, false, arrived);
        if let Some(sample) = delivery.rtt {
            self.driver.sample(sample, self.una(), self.next);
        }
        if let Some(sample) = delivery.rate {
            self.rate = sample.rate();
        }
        if let Some(newest) = delivery.newest {
            // Nothing is found lost here: this only drops the transmissions that are over.
            self.chunks.advance(newest.serial, now - newest.sent_at);
            self.chunks.detect(now, Nanos::MAX, &mut self.lost);
        }
        let progress = AckProgress { prior_in_flight, ..AckProgress::at(self.una(), self.next, self.in_flight()) };
        self.driver.acknowledge(now, &delivery, &progress);
        self.driver.refresh();
        AckNews { rtt: delivery.rtt }
    }

    /// The handshake has been answered, `rtt` after it left.
    pub fn connected(&mut self, now: Time, rtt: Nanos) {
        let now = self.advance(now);
        self.driver.connected(now, rtt, &AckProgress::at(self.next, self.next, 0));
    }

    /// Another flow over the same path measured an RTT of `min`.
    pub fn shared_rtt(&mut self, now: Time, min: Nanos) {
        let now = self.advance(now);
        self.driver.shared_rtt(now, min);
    }

    /// TCP's retransmission timer fired for the `count`th time in a row. What was handed over will arrive nevertheless.
    pub fn timeout(&mut self, now: Time, count: u32) {
        let now = self.advance(now);
        let in_flight = self.in_flight();
        self.driver.timeout(now, &mut [], in_flight, in_flight, count);
        self.driver.refresh();
    }

    /// TCP has undone its last reduction: what it took for lost was only late.
    pub fn spurious(&mut self, now: Time) {
        let now = self.advance(now);
        self.driver.spurious(now);
        self.driver.refresh();
    }

    /// A blob from the controller's receiver half arrived.
    ///
    /// # Errors
    /// [`BadFeedback`] when the controller cannot read it; it is counted.
    pub fn feedback(&mut self, now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        let now = self.advance(now);
        let read = self.driver.feedback(now, blob);
        self.bad_feedback += u64::from(read.is_err());
        read
    }

    /// Runs the controller's clock.
    pub fn tick(&mut self, now: Time) {
        let now = self.advance(now);
        self.driver.tick(now);
    }

    /// A heartbeat is due: the note of the empty chunk that has to leave now.
    pub fn poll_empty(&mut self, now: Time) -> Option<u64> {
        if self.driver.heartbeat_at() > now {
            return None;
        }
        let now = self.advance(now);
        let load = Departing { in_flight: self.in_flight(), unsent: self.end - self.next, first: false };
        Some(self.driver.sent_empty(now, self.next, &load))
    }

    /// The controller's word to its receiver half on the chunk that holds `position`.
    pub fn note_at(&self, position: u64) -> u64 {
        self.notes.get(self.chunks.offset_of(position)).copied().unwrap_or(0)
    }

    /// When it wants to be called: [`Above::tick`], then [`Above::poll`] and [`Above::poll_empty`].
    pub fn next_wake(&self) -> Time {
        self.wake_at.min(self.driver.next_tick()).min(self.driver.heartbeat_at())
    }

    /// What kept the next chunk back when last asked.
    pub fn held_by(&self) -> Hold {
        self.hold
    }

    /// Everything queued has been delivered.
    pub fn is_idle(&self) -> bool {
        self.next == self.end && self.chunks.is_empty()
    }

    /// Bytes handed over that have not arrived, as far as is known. At least a quarter of what is not acknowledged: a repair
    /// takes a round trip and the time of finding it, in which a window and a little pass, and twice as long where the repair
    /// is lost; where it takes longer still, the path is full and the flow has to wait (our choice).
    pub fn in_flight(&self) -> u64 {
        self.chunks.in_flight.max((self.next - self.una()).div_ceil(4))
    }

    /// Bytes queued and not handed over.
    pub fn unsent(&self) -> u64 {
        self.end - self.next
    }

    /// Position of the next byte to be handed over.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Position of the first byte that is not acknowledged.
    pub fn una(&self) -> u64 {
        self.chunks.start().unwrap_or(self.next)
    }

    /// The RTT estimator.
    pub fn rtt(&self) -> &Rtt {
        self.driver.rtt()
    }

    /// The newest delivery-rate sample; [`Rate::ZERO`] before the first.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Chunks handed over.
    pub fn chunks(&self) -> u64 {
        self.handed
    }

    /// Chunks for which TCP was the limit: it held back earlier ones when they were handed over, or had refused them.
    pub fn limited_below(&self) -> u64 {
        self.limited
    }

    /// Feedback blobs that the controller could not read.
    pub fn bad_feedback(&self) -> u64 {
        self.bad_feedback
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.driver.controller()
    }

    /// Time never runs backwards for the controller, though news of an earlier moment may come late.
    fn advance(&mut self, now: Time) -> Time {
        self.last_event = self.last_event.max(now);
        self.last_event
    }
}
