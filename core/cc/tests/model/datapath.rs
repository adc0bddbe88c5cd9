//! A small datapath that keeps the promises of `controller.rs`: what it reports to a controller could have happened.
//!
//! There is no path behind it. The caller decides which packets arrive, which are lost, and when.

use std::collections::BTreeMap;

use paceline_cc::Spec;
use paceline_cc::controller::{
    Ack, Acked, Arrival, Carrier, Cause, Controller, Ecn, Env, Loss, Lost, MAX_FEEDBACK, Pacing, Phase, RateSample,
    ReceiverHalf, Restart, Sent, Stamp, Telemetry, Timeout,
};
use paceline_cc::observe::{Observed, Observer};
use paceline_cc::units::{Nanos, Time};

use super::report::Report;

/// The receiver's clock is ahead of the sender's by this.
const CLOCK_OFFSET: Nanos = Nanos::from_secs(12_345);
/// Ticks that come on time while a span passes; the next one then comes late, at the end of the span.
const TICKS_ON_TIME: u32 = 50;

/// Where a flow begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) env: Env,
    /// The time at the start.
    pub(crate) start: Time,
    /// Position of the first byte; the delivered bytes begin there as well.
    pub(crate) origin: u64,
    /// Lost packets are sent again (a byte stream), or given up (datagrams).
    pub(crate) reliable: bool,
    /// The flow begins with a handshake that takes this long.
    pub(crate) handshake: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    InFlight,
    Lost,
    Delivered,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    bytes: u32,
    stamp: Stamp,
    sent_at: Time,
    state: State,
    retransmitted: bool,
    app_limited: bool,
    window_limited: bool,
    /// The flow's counters when it was sent, for the rate sample.
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
}

impl Packet {
    fn lost(&self, seq: u64, cause: Cause) -> Lost {
        let mut lost = Lost::new(seq, self.bytes, self.sent_at).with_cause(cause);
        lost.tag = self.stamp.tag;
        lost
    }
}

/// A flow: the controller under test and what a datapath knows of its packets.
pub(crate) struct Datapath {
    pub(crate) controller: Box<dyn Controller>,
    receiver: Option<Box<dyn ReceiverHalf>>,
    world: World,
    mss: u32,
    pub(crate) now: Time,
    next: u64,
    /// Packets sent and not yet passed by `una`, by position.
    packets: BTreeMap<u64, Packet>,
    pub(crate) in_flight: u64,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    srtt: Nanos,
    min_rtt: Nanos,
    phase: Phase,
    recovery_point: u64,
    echo_point: Option<u64>,
    timeouts: u32,
    last_sent: Option<(Time, u32)>,
    idle_since: Option<Time>,
    /// Why packets are lost as the newest report has it, and until when it counts.
    verdict: (Cause, Time),
}

impl Datapath {
    /// The path reports its hops.
    pub(crate) fn report(&mut self, report: &Report) {
        self.verdict = (report.verdict, self.now + report.fresh_for);
        let Report { verdict, fresh_for, .. } = *report;
        let mut telemetry = Telemetry::new(self.now, verdict, fresh_for, &report.hops);
        telemetry.packet = report.in_band.then_some(Carrier::new(0, self.now, 0));
        self.controller.on_telemetry(&telemetry);
    }

    /// Why packets are lost now, as far as is known.
    fn cause(&self) -> Cause {
        let (verdict, until) = self.verdict;
        if self.now < until { verdict } else { Cause::Unknown }
    }

    /// Full packets have another size.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.controller.on_mss(self.now, mss);
    }

    /// A packet that waits for its repair is cut to the size of today.
    fn cut(&mut self, seq: u64) -> u32 {
        let (mss, packet) = (self.mss, self.packets[&seq]);
        if packet.bytes > mss {
            self.packets.insert(seq + u64::from(mss), Packet { bytes: packet.bytes - mss, ..packet });
            self.packets.insert(seq, Packet { bytes: mss, ..packet });
        }
        packet.bytes.min(mss)
    }

    pub(crate) fn new(spec: &Spec, world: World) -> Self {
        Self::observed(spec, world, None)
    }

    /// A flow that is observed.
    pub(crate) fn observed(spec: &Spec, world: World, observer: Option<Box<dyn Observer>>) -> Self {
        let mut flow = Self {
            controller: Observed::wrap(spec.build(&world.env), observer),
            receiver: spec.build_receiver(&world.env),
            world,
            mss: world.env.mss,
            now: world.start,
            next: world.origin,
            packets: BTreeMap::new(),
            in_flight: 0,
            delivered: world.origin,
            delivered_at: world.start,
            first_sent_at: world.start,
            srtt: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            phase: Phase::Open,
            recovery_point: world.origin,
            echo_point: None,
            timeouts: 0,
            last_sent: None,
            idle_since: None,
            verdict: (Cause::Unknown, world.start),
        };
        if let Some(rtt) = world.handshake {
            flow.shake_hands(rtt);
        }
        flow
    }

    /// The answer to a handshake: an RTT and no packets.
    fn shake_hands(&mut self, rtt: Nanos) {
        self.advance_to(self.now + rtt);
        (self.srtt, self.min_rtt) = (rtt, rtt);
        let mut ack = Ack::new(self.now, &[]);
        ack.srtt = rtt;
        ack.min_rtt = rtt;
        ack.delivered = self.delivered;
        ack.una = self.next;
        ack.next = self.next;
        ack.phase = self.phase;
        ack.window_limited = false;
        self.controller.on_ack(&ack);
    }

    /// Everything below has been delivered (or given up).
    fn una(&self) -> u64 {
        self.packets.keys().next().copied().unwrap_or(self.next)
    }

    fn room(&self) -> u64 {
        self.controller.window().saturating_sub(self.in_flight)
    }

    /// When pacing lets the next packet leave.
    pub(crate) fn gate(&self) -> Time {
        let gap = match self.controller.pacing() {
            Pacing::Free => Nanos::ZERO,
            Pacing::Rate(rate) => rate.time_for(self.last_sent.map_or(0, |(_, bytes)| u64::from(bytes))),
            Pacing::Gap(gap) => gap,
        };
        match self.last_sent {
            _ if gap == Nanos::MAX => Time::NEVER,
            Some((at, _)) => (at + gap).max(self.now),
            None => self.now,
        }
    }

    /// Sends up to `count` packets, waiting up to `patience` for pacing; fewer when the window is full.
    pub(crate) fn send(&mut self, count: u64, bytes: u32, patience: Nanos) -> u64 {
        let app_limited = count < self.room() / u64::from(bytes);
        let until = self.now + patience;
        for sent in 0..count {
            if !self.send_one(bytes, app_limited, until) {
                return sent;
            }
        }
        if app_limited {
            self.controller.on_app_limited(self.now, self.in_flight);
        }
        count
    }

    fn send_one(&mut self, bytes: u32, app_limited: bool, until: Time) -> bool {
        while self.gate() > self.now {
            let wake = self.gate().min(self.controller.next_tick());
            if wake > until {
                return false;
            }
            self.advance_to(wake);
        }
        let lost = self.packets.iter().find(|(_, packet)| packet.state == State::Lost).map(|(seq, _)| *seq);
        let (seq, bytes, retransmission) = match lost {
            Some(seq) => (seq, self.cut(seq), true),
            None => (self.next, bytes, false),
        };
        if u64::from(bytes) > self.room() {
            return false;
        }
        if self.packets.is_empty()
            && let Some(since) = self.idle_since
            && since < self.now
        {
            let rto = Nanos::from_millis(200).max(self.srtt + self.srtt);
            self.controller.on_restart(&Restart::new(self.now, self.now - since, rto));
            if u64::from(bytes) > self.room() || self.gate() > self.now {
                return false;
            }
        }
        if self.in_flight == 0 {
            self.first_sent_at = self.now;
            self.delivered_at = self.now;
        }
        self.in_flight += u64::from(bytes);
        let mut packet = Packet {
            bytes,
            stamp: Stamp::default(),
            sent_at: self.now,
            state: State::InFlight,
            retransmitted: retransmission,
            app_limited,
            window_limited: !app_limited,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
        };
        let (now, in_flight) = (self.now, self.in_flight);
        let mut sent = Sent::new(now, seq, bytes);
        sent.in_flight = in_flight;
        sent.retransmission = retransmission;
        sent.app_limited = app_limited;
        packet.stamp = self.controller.on_sent(&sent);
        self.packets.insert(seq, packet);
        self.next = self.next.max(seq + u64::from(bytes));
        self.last_sent = Some((self.now, bytes));
        self.idle_since = None;
        true
    }

    /// Positions of up to `count` packets in flight after the first `skip` of them, in order.
    pub(crate) fn flying(&self, skip: usize, count: usize) -> Vec<u64> {
        let flying = self.packets.iter().filter(|(_, packet)| packet.state == State::InFlight);
        flying.map(|(seq, _)| *seq).skip(skip).take(count).collect()
    }

    /// Packets were found lost.
    pub(crate) fn lose(&mut self, positions: &[u64]) {
        if positions.is_empty() {
            return;
        }
        let (prior_in_flight, cause) = (self.in_flight, self.cause());
        let mut lost = Vec::new();
        for seq in positions {
            let packet = self.packets.get_mut(seq).expect("flying");
            packet.state = State::Lost;
            self.in_flight -= u64::from(packet.bytes);
            lost.push(packet.lost(*seq, cause));
        }
        let new_episode = matches!(self.phase, Phase::Open | Phase::Cwr);
        if new_episode {
            self.phase = Phase::Recovery;
            self.recovery_point = self.next;
        }
        let mut loss = Loss::new(self.now, &lost);
        loss.bytes = prior_in_flight - self.in_flight;
        loss.prior_in_flight = prior_in_flight;
        loss.in_flight = self.in_flight;
        loss.new_episode = new_episode;
        self.controller.on_loss(&loss);
        self.settle();
    }

    /// Packets arrived, were acknowledged together, and `ce` of them carried a mark.
    pub(crate) fn deliver(&mut self, positions: &[u64], lost_bytes: u64, ce: usize) {
        if positions.is_empty() {
            return;
        }
        let ce = if self.controller.nature().ecn == Ecn::Off { 0 } else { ce.min(positions.len()) };
        let prior_in_flight = self.in_flight;
        let mut acked = Vec::new();
        let mut ce_bytes = 0;
        let mut newest: Option<Packet> = None;
        let mut rtt = None;
        for (index, seq) in positions.iter().enumerate() {
            let marked = index < ce;
            let packet = self.packets.get_mut(seq).expect("flying");
            packet.state = State::Delivered;
            let packet = *packet;
            self.in_flight -= u64::from(packet.bytes);
            self.delivered += u64::from(packet.bytes);
            if marked {
                ce_bytes += u64::from(packet.bytes);
            }
            if !packet.retransmitted {
                rtt = Some(self.now - packet.sent_at);
            }
            if newest.is_none_or(|newest| packet.sent_at >= newest.sent_at) {
                newest = Some(packet);
            }
            let mut arrival = Arrival::new(self.now + CLOCK_OFFSET, *seq, packet.bytes);
            arrival.note = packet.stamp.note;
            arrival.ce = marked;
            if let Some(receiver) = &mut self.receiver {
                receiver.on_arrival(&arrival);
            }
            let mut one = Acked::new(*seq, packet.bytes, packet.sent_at);
            one.tag = packet.stamp.tag;
            one.retransmitted = packet.retransmitted;
            one.app_limited = packet.app_limited;
            one.ce = marked;
            one.received_at = Some(arrival.now);
            acked.push(one);
        }
        let newest = newest.expect("not empty");
        if let Some(rtt) = rtt {
            self.min_rtt = self.min_rtt.min(rtt);
            self.srtt = if self.srtt == Nanos::ZERO { rtt } else { self.srtt.mul_div(7, 8) + rtt.mul_div(1, 8) };
        }
        self.timeouts = 0;
        let rate = self.rate_sample(&newest);
        // Strictly past: the last packet of the round trip that the reduction answered says nothing new (Linux holds CWR
        // until something above `high_seq` is acknowledged).
        let echo = ce > 0 && self.echo_point.is_none_or(|point| self.una() > point);
        if echo {
            self.echo_point = Some(self.next);
            if self.phase == Phase::Open {
                self.phase = Phase::Cwr;
                self.recovery_point = self.next;
            }
        }
        self.feedback();
        self.settle();
        let mut ack = Ack::new(self.now, &acked);
        ack.bytes = prior_in_flight - self.in_flight;
        ack.rtt = rtt;
        ack.srtt = self.srtt;
        ack.min_rtt = self.min_rtt;
        ack.rate = rate;
        ack.prior_in_flight = prior_in_flight;
        ack.in_flight = self.in_flight;
        ack.lost_bytes = lost_bytes;
        ack.ce_bytes = ce_bytes;
        ack.ce_packets = ce as u32;
        ack.echo = echo;
        ack.delivered = self.delivered;
        ack.una = self.una();
        ack.next = self.next;
        ack.phase = self.phase;
        ack.window_limited = newest.window_limited;
        self.controller.on_ack(&ack);
    }

    /// Valid as in Linux `tcp_rate_gen`: not over less than the smallest RTT.
    fn rate_sample(&mut self, newest: &Packet) -> Option<RateSample> {
        self.delivered_at = self.now;
        self.first_sent_at = newest.sent_at;
        let interval = (newest.sent_at - newest.first_sent_at).max(self.now - newest.delivered_at);
        if interval == Nanos::ZERO || interval < self.min_rtt {
            return None;
        }
        let mut sample = RateSample::new(self.delivered - newest.delivered, interval);
        sample.prior_delivered = newest.delivered;
        sample.app_limited = newest.app_limited;
        sample.retransmission = newest.retransmitted;
        Some(sample)
    }

    /// Forgets what is settled: passes `una` over it, leaves the phase, notes when the flow fell silent.
    fn settle(&mut self) {
        if !self.world.reliable {
            self.packets.retain(|_, packet| packet.state != State::Lost);
        }
        while let Some(first) = self.packets.first_entry()
            && first.get().state == State::Delivered
        {
            first.remove();
        }
        if self.una() >= self.recovery_point {
            self.phase = Phase::Open;
        }
        if self.packets.is_empty() && self.idle_since.is_none() {
            self.idle_since = Some(self.now);
        }
    }

    /// The retransmission timer fires, if there is anything to fire for.
    pub(crate) fn time_out(&mut self) {
        if self.packets.is_empty() {
            return;
        }
        let (prior_in_flight, cause) = (self.in_flight, self.cause());
        self.in_flight = 0;
        let mut lost = Vec::new();
        for (seq, packet) in self.packets.iter_mut().filter(|(_, packet)| packet.state == State::InFlight) {
            packet.state = State::Lost;
            lost.push(packet.lost(*seq, cause));
        }
        self.timeouts += 1;
        self.phase = Phase::Loss;
        self.recovery_point = self.next;
        let mut timeout = Timeout::new(self.now, &lost);
        timeout.prior_in_flight = prior_in_flight;
        timeout.count = self.timeouts;
        self.controller.on_timeout(&timeout);
        self.settle();
    }

    fn feedback(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        let mut blob = Vec::new();
        if receiver.feedback(self.now + CLOCK_OFFSET, &mut blob) {
            assert!(blob.len() <= MAX_FEEDBACK, "feedback of {} bytes", blob.len());
            self.controller.on_feedback(self.now, &blob).expect("the receiver half's own blob is read");
        }
    }

    /// Time passes; ticks come when due, and late when there are too many.
    pub(crate) fn advance_to(&mut self, until: Time) {
        for _ in 0..TICKS_ON_TIME {
            let mine = self.controller.next_tick();
            let theirs = self.receiver.as_ref().map_or(Time::NEVER, |receiver| receiver.next_tick());
            let theirs = if theirs == Time::NEVER { theirs } else { theirs - CLOCK_OFFSET };
            let due = mine.min(theirs);
            if due > until {
                break;
            }
            self.now = self.now.max(due);
            self.tick();
        }
        self.now = self.now.max(until);
        self.tick();
    }

    fn tick(&mut self) {
        if self.controller.next_tick() <= self.now {
            self.controller.on_tick(self.now);
            let next = self.controller.next_tick();
            assert!(next > self.now, "on_tick at {} asks for the next at {next}", self.now);
        }
        if self.receiver.as_ref().is_some_and(|receiver| receiver.next_tick() <= self.now + CLOCK_OFFSET) {
            self.feedback();
        }
    }
}
