//! A flow whose packets have numbers and whose datapath finds their losses: QUIC of others, and protocols of one's own.
//!
//! Sans-IO. The datapath says which packets left, arrived and were lost; [`Numbered`] keeps them until then and makes the calls of
//! [`Driver`] that a controller lives on, in its order. Numbers go up in the order of departure and may leave gaps. What else is decided
//! here:
//!
//! - A packet has a position, as if its bytes were of one stream: content that is sent again is a new packet (RFC 9002).
//! - A loss or a mark asks for one reduction in an episode, which lasts until something sent after its start was delivered (RFC 9002
//!   section 7.3.2). The reduced window counts at once: no proportional rate reduction.
//! - An RTT sample is taken only where the newest packet ever delivered is among the news (RFC 9002 section 5.1).
//! - Losses count before what was delivered with them ([`paceline_cc::Controller`], order of calls).
//! - A mark means the loss of one packet to a controller that does not use ECN (RFC 3168 section 5 asks for the same answer): stacks of
//!   others send ECT(0) whatever the controller.

mod flight;

use paceline_cc::{BadFeedback, Controller, Ecn, Lost, Nanos, Phase, Telemetry, Time};

use crate::config::SenderConfig;
use crate::counted::FlowLimit;
use crate::driver::{AckProgress, ArrivalClock, Delivery, Departing, Driver, Marks};
use crate::packet::{SentPacket, State};
use crate::rtt::Rtt;
use flight::Flight;

/// How long a packet without an end is kept once a later one was acknowledged, in RTTs, where the datapath
/// [counts what is in flight](NumberedNews::in_flight) (our choice: RFC 9002 declares it lost after 9/8).
const KEPT: u64 = 4;

/// A controller, its measurements and the packets on their way. Sans-IO.
pub struct Numbered {
    driver: Driver,
    flight: Flight,
    /// Position of the next packet.
    next: u64,
    /// Number of the newest packet.
    last: Option<u64>,
    /// The newest packet ever delivered.
    front: Option<SentPacket>,
    /// Position of the next packet as the last episode began.
    episode: Option<u64>,
    phase: Phase,
    /// The last episode answered losses, and was not undone.
    may_undo: bool,
    /// Persistent congestions in a row.
    timeouts: u32,
    /// Lost bytes that no acknowledgement has reported.
    lost_bytes: u64,
    /// Scratch for one acknowledgement.
    fresh: Vec<Fresh>,
    lost: Vec<Lost>,
}

/// A packet that an acknowledgement delivered.
struct Fresh {
    packet: SentPacket,
    ce: bool,
    received_at: Option<Time>,
}

/// One number of an acknowledgement; a bare number is one of which nothing else is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NumberedAck {
    /// The packet.
    pub number: u64,
    /// It arrived with a congestion mark.
    pub ce: bool,
    /// When it arrived, by the receiver's clock.
    pub received_at: Option<Time>,
}

impl NumberedAck {
    /// The packet, whether it arrived with a mark, and when, where that is known.
    pub const fn new(number: u64, ce: bool, received_at: Option<Time>) -> Self {
        Self { number, ce, received_at }
    }
}

impl From<u64> for NumberedAck {
    fn from(number: u64) -> Self {
        Self::new(number, false, None)
    }
}

/// What an acknowledgement says besides what it delivered.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NumberedNews<'a> {
    /// Numbers of packets that were found lost by it.
    pub lost: &'a [u64],
    /// Everything sent within the persistent congestion period was lost (RFC 9002 section 7.6).
    pub persistent: bool,
    /// How many packets arrived with a congestion mark, where this is known of none by itself ([`NumberedAck::ce`]): the newest stand for them.
    pub ce_packets: u32,
    /// Bytes in flight as the datapath counts them, after what was delivered and before what was lost, where it has packets of whose end it
    /// does not report (acknowledgements alone, MTU probes). They are forgotten after a while, at once where this is zero.
    pub in_flight: Option<u64>,
    /// RTT of the newest packet, where the datapath measured it better than it knows when packets leave: this then says when that one left.
    pub rtt: Option<Nanos>,
}

impl<'a> NumberedNews<'a> {
    /// The same with [`lost`](NumberedNews::lost).
    #[must_use]
    pub const fn with_lost(self, lost: &'a [u64]) -> Self {
        Self { lost, ..self }
    }

    /// The same with [`ce_packets`](NumberedNews::ce_packets).
    #[must_use]
    pub const fn with_ce_packets(self, ce_packets: u32) -> Self {
        Self { ce_packets, ..self }
    }

    /// The same with [`in_flight`](NumberedNews::in_flight).
    #[must_use]
    pub const fn with_in_flight(self, in_flight: Option<u64>) -> Self {
        Self { in_flight, ..self }
    }

    /// The same with [`rtt`](NumberedNews::rtt).
    #[must_use]
    pub const fn with_rtt(self, rtt: Option<Nanos>) -> Self {
        Self { rtt, ..self }
    }
}

impl Numbered {
    /// Drives `controller` from the start of a flow.
    pub fn new(config: &SenderConfig, controller: Box<dyn Controller>) -> Self {
        Self {
            driver: Driver::new(config, controller),
            flight: Flight::default(),
            next: 0,
            last: None,
            front: None,
            episode: None,
            phase: Phase::Open,
            may_undo: false,
            timeouts: 0,
            lost_bytes: 0,
            fresh: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// A handshake was answered, `rtt` after it left. Its packets are not those of the flow.
    pub fn connected(&mut self, now: Time, rtt: Nanos) {
        let progress = AckProgress::at(self.una(), self.next, self.flight.bytes());
        self.driver.connected(now, rtt, &progress);
    }

    /// Packet `number` of `bytes` leaves. `unsent`: bytes that the application has written and that have not been sent, [`u64::MAX`]
    /// where this is not known. `limit`: what limits the flow; where it is not known, the window does while more than half of it is in flight.
    /// Answers the note for the controller's receiver half; nothing for a number that is not above all before it, and nothing is done.
    pub fn sent(&mut self, now: Time, number: u64, bytes: u32, unsent: u64, limit: FlowLimit) -> Option<u64> {
        if self.last.is_some_and(|last| number <= last) {
            return None;
        }
        self.last = Some(number);
        let first = self.flight.bytes() == 0;
        if first {
            self.driver.restart(now);
        }
        let mut packet = SentPacket::new(self.next, bytes, now);
        packet.serial = number;
        let in_flight = self.flight.bytes().saturating_add(u64::from(bytes));
        let note = self.driver.sent(now, &mut packet, &Departing { in_flight, unsent, first });
        match limit {
            FlowLimit::Unknown => {}
            FlowLimit::Window => packet.window_limited = true,
            FlowLimit::Application => packet.window_limited = false,
        }
        self.next = packet.end();
        self.flight.push(packet);
        Some(note)
    }

    /// An acknowledgement delivered these packets, in any order; numbers that are not in flight are passed over. Answers the RTT of the
    /// newest, where one was taken.
    pub fn acked<A: Into<NumberedAck>>(
        &mut self,
        now: Time,
        numbers: impl IntoIterator<Item = A>,
        news: &NumberedNews<'_>,
    ) -> Option<Nanos> {
        let prior_in_flight = self.flight.bytes();
        for ack in numbers {
            let NumberedAck { number, ce, received_at } = ack.into();
            if let Some(packet) = self.flight.take(number, State::Delivered) {
                self.fresh.push(Fresh { packet, ce, received_at });
            }
        }
        self.take(now, prior_in_flight, news)
    }

    /// The same where only their sum is known and the number of the newest: the packets before it are taken for the rest, backwards. One of
    /// them that is reported lost later was not: the oldest in flight before the newest takes its place.
    pub fn acked_bytes(&mut self, now: Time, bytes: u64, newest: u64, news: &NumberedNews<'_>) -> Option<Nanos> {
        let prior_in_flight = self.flight.bytes();
        // Those that are known as lost are not among them.
        self.find_lost(news.lost, newest.max(self.newest()));
        let Self { flight, fresh, .. } = self;
        flight.take_bytes(bytes, newest, |packet| fresh.push(Fresh { packet, ce: false, received_at: None }));
        self.take(now, prior_in_flight, &NumberedNews { lost: &[], ..*news })
    }

    /// Packets were found lost otherwise than by an acknowledgement. `persistent`: all that were sent within the persistent congestion
    /// period, or a retransmission timeout, of which the lost packets may not be known.
    pub fn lost(&mut self, now: Time, numbers: &[u64], persistent: bool) {
        let news = NumberedNews { lost: numbers, persistent, ..NumberedNews::default() };
        self.acked(now, [0_u64; 0], &news);
    }

    /// Something was lost of which nothing is known any more: one full packet, for which the newest delivered stands.
    pub fn lost_unknown(&mut self, now: Time) {
        let Some(front) = self.front else { return };
        let starts = self.starts_episode(front.seq);
        if starts {
            self.begin(Phase::Recovery, true);
        }
        self.lose_notional(now, &front, starts);
        self.driver.refresh();
    }

    /// What the last reduction answered was not lost.
    pub fn spurious(&mut self, now: Time) {
        if std::mem::take(&mut self.may_undo) {
            self.phase = Phase::Open;
            self.episode = None;
            self.timeouts = 0;
            self.driver.spurious(now);
            self.driver.refresh();
        }
    }

    /// Packets left the flight of which it will never be known whether they arrived, and which mean nothing (an MTU probe that was lost, a number
    /// space whose keys were dropped).
    pub fn discarded(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.flight.take(*number, State::Lost);
        }
    }

    /// The application has nothing to send although the window is open.
    pub fn run_dry(&mut self, now: Time) {
        self.driver.run_dry(now, self.flight.bytes());
    }

    /// Full packets have `mss` bytes from now on.
    pub fn set_mss(&mut self, now: Time, mss: u32) {
        self.driver.set_mss(now, mss.max(1));
    }

    /// A blob from the controller's receiver half arrived.
    ///
    /// # Errors
    /// [`BadFeedback`] when the controller cannot read it.
    pub fn feedback(&mut self, now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        self.driver.feedback(now, blob)
    }

    /// The hops of the path reported.
    pub fn telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.driver.telemetry(telemetry);
    }

    /// Runs the controller's clock, where [`Numbered::next_tick`] has come.
    pub fn tick(&mut self, now: Time) {
        self.driver.tick(now);
    }

    /// When [`Numbered::tick`] wants to be called.
    pub fn next_tick(&self) -> Time {
        self.driver.next_tick()
    }

    /// The earliest time at which pacing lets the next packet go.
    pub fn due(&self) -> Time {
        self.driver.due()
    }

    /// Bytes that may be in flight.
    pub fn window(&self) -> u64 {
        self.driver.window()
    }

    /// Bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.flight.bytes()
    }

    /// A packet of `bytes` may leave.
    pub fn may_send(&self, now: Time, bytes: u32) -> bool {
        now >= self.due() && self.in_flight().saturating_add(u64::from(bytes)) <= self.window()
    }

    /// The oldest packet in flight.
    pub fn oldest(&self) -> Option<u64> {
        self.flight.oldest()
    }

    /// The newest packet in flight up to `number`.
    pub fn newest_up_to(&self, number: u64) -> Option<u64> {
        self.flight.newest_up_to(number)
    }

    /// Where loss recovery stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The RTT estimator.
    pub fn rtt(&self) -> &Rtt {
        self.driver.rtt()
    }

    /// Payload bytes delivered since the start of the flow.
    pub fn bytes_delivered(&self) -> u64 {
        self.driver.bytes_delivered()
    }

    /// The options that it was made with.
    pub fn config(&self) -> &SenderConfig {
        self.driver.config()
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.driver.controller()
    }

    /// News of what is in [`Numbered::fresh`] and perhaps in [`Numbered::lost`].
    fn take(&mut self, now: Time, prior_in_flight: u64, news: &NumberedNews<'_>) -> Option<Nanos> {
        let overtaken = self.front.map_or(Time::ZERO, |front| front.sent_at);
        if let Some(rtt) = news.rtt
            && let Some(newest) = self.fresh.iter_mut().max_by_key(|fresh| fresh.packet.serial)
        {
            newest.packet.sent_at = now - rtt;
        }
        let mut delivery = self.deliver(now, news.ce_packets);
        if let Some(bytes) = news.in_flight {
            let rtt = self.driver.rtt().smoothed().max(delivery.rtt);
            let horizon = rtt.map_or(Time::ZERO, |rtt| overtaken.min(now - rtt.mul_div(KEPT, 1)));
            // No more than ever left.
            self.flight.reconcile(bytes.saturating_sub(bytes_of(&self.lost)).min(self.next), horizon);
        }
        if delivery.newest.is_some_and(|newest| self.starts_episode(newest.seq)) {
            self.phase = Phase::Open;
            self.timeouts = 0;
        }
        self.find_lost(news.lost, self.newest());
        self.lose(now, prior_in_flight, news.persistent);
        let marks = self.answer_marks(now, news.ce_packets, &delivery);
        if delivery.packets > 0 || marks.echo {
            // A flow that ran dry was not limited by its window.
            if let Some(newest) = delivery.newest.as_mut().filter(|_| self.driver.ran_dry) {
                newest.window_limited = false;
            }
            let lost_bytes = std::mem::take(&mut self.lost_bytes);
            let (una, next, in_flight, phase) = (self.una(), self.next, self.flight.bytes(), self.phase);
            let progress = AckProgress { prior_in_flight, in_flight, lost_bytes, una, next, phase, marks };
            self.driver.acknowledge(now, &delivery, &progress);
        }
        self.fresh.clear();
        self.driver.refresh();
        delivery.rtt
    }

    /// The driver takes in the fresh packets. Where it is known of none whether it was marked, the newest stand for those that were.
    fn deliver(&mut self, now: Time, ce_packets: u32) -> Delivery {
        let order = |fresh: &Fresh| fresh.packet.serial;
        if !self.fresh.is_sorted_by_key(order) {
            self.fresh.sort_unstable_by_key(order);
        }
        let front = self.front.map(|front| front.serial);
        let unknown = if self.fresh.iter().any(|fresh| fresh.ce) { 0 } else { ce_packets as usize };
        let unmarked = self.fresh.len().saturating_sub(unknown);
        let mut delivery = self.driver.begin_delivery();
        for (place, Fresh { packet, ce, received_at }) in self.fresh.iter_mut().enumerate() {
            packet.follows |= front.is_some_and(|front| packet.serial < front);
            self.driver.take_in(now, packet, *ce || place >= unmarked, *received_at, &mut delivery);
        }
        self.driver.end_delivery(now, &ArrivalClock::Unknown, &mut delivery);
        if let Some(newest) = delivery.newest.filter(|newest| front.is_none_or(|front| newest.serial > front)) {
            self.front = Some(newest);
        }
        if let Some(rtt) = delivery.rtt {
            self.driver.sample(rtt, self.una(), self.next);
        }
        delivery
    }

    /// Losses among what is in flight, the newest packet delivered being `newest`.
    fn find_lost(&mut self, numbers: &[u64], newest: u64) {
        for number in numbers {
            if let Some(packet) = self.flight.lose(*number, newest) {
                self.lost.push(packet.lost());
            }
        }
    }

    /// Reports the losses that were found.
    fn lose(&mut self, now: Time, prior_in_flight: u64, persistent: bool) {
        if self.lost.is_empty() && !persistent {
            return;
        }
        self.lost.sort_unstable_by_key(|lost| lost.seq);
        self.lost_bytes = self.lost_bytes.saturating_add(bytes_of(&self.lost));
        let in_flight = self.flight.bytes();
        if persistent {
            self.timeouts = self.timeouts.saturating_add(1);
            self.begin(Phase::Loss, true);
            self.driver.timeout(now, &mut self.lost, prior_in_flight, in_flight, self.timeouts);
        } else {
            // Controllers that answer marks exactly answer losses apart (RFC 8257 section 3.5).
            let apart = self.phase == Phase::Cwr && self.driver.nature().ecn != Ecn::Classic;
            let starts = apart || self.lost.last().is_some_and(|lost| self.starts_episode(lost.seq));
            if starts {
                self.begin(Phase::Recovery, true);
            }
            self.driver.lose(now, &mut self.lost, prior_in_flight, in_flight, starts);
        }
        self.lost.clear();
    }

    /// Answers marks where a reduction is due.
    fn answer_marks(&mut self, now: Time, ce_packets: u32, delivery: &Delivery) -> Marks {
        let (mut bytes, mut packets) = (0_u64, 0_u32);
        for fresh in self.fresh.iter().filter(|fresh| fresh.ce) {
            bytes += u64::from(fresh.packet.bytes);
            packets += 1;
        }
        if packets == 0 && ce_packets > 0 {
            let size = delivery.newest.map_or(self.driver.config().mss, |newest| newest.bytes);
            let most = if delivery.packets > 0 { delivery.bytes } else { u64::MAX };
            (bytes, packets) = ((u64::from(size) * u64::from(ce_packets)).min(most), ce_packets);
        }
        let Some(front) = self.front.filter(|_| packets > 0) else { return Marks::default() };
        let due = self.starts_episode(front.seq);
        if self.driver.nature().ecn == Ecn::Off {
            if due {
                self.begin(Phase::Recovery, false);
                self.lose_notional(now, &front, true);
            }
            return Marks::default();
        }
        if due && !self.driver.controller().permit().holds_against_marks {
            self.begin(Phase::Cwr, false);
        }
        Marks { bytes, packets, echo: due }
    }

    /// One full packet stands for what was lost, as if it were the newest delivered.
    fn lose_notional(&mut self, now: Time, front: &SentPacket, starts: bool) {
        let (mss, in_flight) = (self.driver.config().mss, self.flight.bytes());
        let mut lost = front.lost();
        (lost.seq, lost.bytes) = (front.end().saturating_sub(u64::from(mss)), mss);
        self.driver.lose(now, &mut [lost], in_flight, in_flight, starts);
    }

    /// An episode begins.
    fn begin(&mut self, phase: Phase, may_undo: bool) {
        self.phase = phase;
        self.episode = Some(self.next);
        self.may_undo = may_undo;
    }

    /// The packet at `seq` left after the last episode began.
    fn starts_episode(&self, seq: u64) -> bool {
        self.episode.is_none_or(|start| seq >= start)
    }

    /// Number of the newest packet delivered.
    fn newest(&self) -> u64 {
        self.front.map_or(0, |front| front.serial)
    }

    /// Everything below this position was delivered, or something newer was.
    fn una(&self) -> u64 {
        self.front.map_or(0, |front| front.end())
    }
}

fn bytes_of(lost: &[Lost]) -> u64 {
    lost.iter().map(|lost| u64::from(lost.bytes)).sum()
}
