//! The flow of a script: packets that leave, arrive and are lost as it says. A stream, as over TCP: what is lost leaves again before
//! anything new, and recovery lasts until what was sent before the loss has been delivered.

use std::collections::{BTreeMap, BTreeSet};

use paceline_cc::{Cause, Controller, Ecn, Hop, Lost, Nanos, Phase, Telemetry, Time};
use paceline_transport::{AckProgress, ArrivalClock, Departing, Driver, Marks, SentPacket};

use super::MOST_STEPS;
use super::statement::Which;

/// Why a flow cannot go on as its script says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlowError {
    #[error("packet {0} has not left yet; {1} have")]
    NotSent(u64, u64),
    #[error("packet {0} has arrived already")]
    Arrived(u64),
    #[error("packet {0} is not in flight: it is lost and has not left again")]
    NotInFlight(u64),
    #[error("packet {0} is not lost, so that it does not leave again")]
    NotLost(u64),
    #[error("{0} packets are named, and {1} are in flight")]
    TooFew(u64, u64),
    #[error("no packet is in flight")]
    Idle,
    #[error("packets of this controller are not ECN-capable, so that none is marked; see its parameter ecn")]
    NotCapable,
    #[error("more than {MOST_STEPS} {0}; a script is what a hand writes")]
    TooMuch(&'static str),
    #[error("feedback was {0} by the controller")]
    Feedback(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    InFlight,
    Lost,
    Delivered,
}

/// A flow, its controller and the driver between them.
pub(super) struct Flow {
    driver: Driver,
    /// Every packet as it last left, by its number less one.
    packets: Vec<(SentPacket, Standing)>,
    /// In flight, in the order of departure: serial and index.
    flying: BTreeMap<u64, usize>,
    /// Lost, and to leave again.
    lost: BTreeSet<usize>,
    /// All before this index have been delivered.
    first: usize,
    /// What left since the flow last stopped begins here.
    burst_from: usize,
    /// What was not limited by the window begins here.
    unlimited_from: usize,
    /// Position of the next new byte.
    next: u64,
    departures: u64,
    in_flight: u64,
    phase: Phase,
    recovery_point: u64,
    timeouts: u32,
    ticks: u64,
    pub(super) now: Time,
}

impl Flow {
    pub(super) fn new(mss: u32, controller: Box<dyn Controller>) -> Self {
        let config = paceline_transport::SenderConfig::new(mss);
        Self {
            driver: Driver::new(&config, controller),
            packets: Vec::new(),
            flying: BTreeMap::new(),
            lost: BTreeSet::new(),
            first: 0,
            burst_from: 0,
            unlimited_from: usize::MAX,
            next: 0,
            departures: 0,
            in_flight: 0,
            phase: Phase::Open,
            recovery_point: 0,
            timeouts: 0,
            ticks: 0,
            now: Time::ZERO,
        }
    }

    pub(super) fn controller(&self) -> &dyn Controller {
        self.driver.controller()
    }

    pub(super) fn mss(&self) -> u32 {
        self.driver.config().mss
    }

    /// Time goes on to `at`, and the controller's clock rings meanwhile, at most once an instant.
    pub(super) fn advance(&mut self, at: Time) -> Result<(), FlowError> {
        while self.driver.next_tick() <= at {
            let due = self.driver.next_tick().max(self.now);
            self.ticks += 1;
            if self.ticks > MOST_STEPS {
                return Err(FlowError::TooMuch("ticks of the controller"));
            }
            self.now = due;
            self.driver.tick(due);
            if self.driver.next_tick() <= due {
                break;
            }
        }
        self.now = at;
        Ok(())
    }

    /// Packets that arrive or are lost, as indices.
    pub(super) fn of_flight(&self, which: &Which) -> Result<Vec<usize>, FlowError> {
        let there = self.flying.len() as u64;
        match which {
            Which::All => Ok(self.flying.values().copied().collect()),
            Which::Count(count) if *count > there => Err(FlowError::TooFew(*count, there)),
            Which::Count(count) => Ok(self.flying.values().copied().take(*count as usize).collect()),
            Which::Numbers(_) => self.named(which),
        }
    }

    /// Packets by their numbers, which have left.
    pub(super) fn named(&self, which: &Which) -> Result<Vec<usize>, FlowError> {
        let Which::Numbers(ranges) = which else { return self.of_flight(which) };
        let sent = self.packets.len() as u64;
        let mut all = BTreeSet::new();
        for number in ranges.iter().cloned().flatten() {
            if number > sent {
                return Err(FlowError::NotSent(number, sent));
            }
            all.insert(number as usize - 1);
        }
        Ok(all.into_iter().collect())
    }

    /// How many full packets the window has room for.
    pub(super) fn room(&self) -> u64 {
        self.driver.window().saturating_sub(self.in_flight) / u64::from(self.mss().max(1))
    }

    /// The packet that leaves next leaves: the first of those that are lost, or a new one of `bytes`.
    pub(super) fn send(&mut self, bytes: u32, unsent: u64) -> Result<(), FlowError> {
        if let Some(index) = self.lost.first().copied() {
            return self.send_again(index, unsent);
        }
        let first = self.first == self.packets.len();
        if first {
            self.driver.restart(self.now);
        }
        let packet = SentPacket::new(self.next, bytes, self.now);
        self.next = packet.end();
        self.packets.push((packet, Standing::InFlight));
        self.depart(self.packets.len() - 1, unsent, first)
    }

    /// A packet that is lost leaves again.
    pub(super) fn send_again(&mut self, index: usize, unsent: u64) -> Result<(), FlowError> {
        if !self.lost.remove(&index) {
            return Err(FlowError::NotLost(index as u64 + 1));
        }
        let (packet, standing) = &mut self.packets[index];
        (packet.retransmitted, packet.sent_at, *standing) = (true, self.now, Standing::InFlight);
        self.depart(index, unsent, false)
    }

    fn depart(&mut self, index: usize, unsent: u64, first: bool) -> Result<(), FlowError> {
        self.departures += 1;
        if self.departures > MOST_STEPS {
            return Err(FlowError::TooMuch("packets"));
        }
        let (packet, _) = &mut self.packets[index];
        packet.serial = self.departures;
        self.in_flight += u64::from(packet.bytes);
        self.flying.insert(packet.serial, index);
        self.driver.sent(self.now, packet, &Departing::new(self.in_flight, unsent, first));
        Ok(())
    }

    /// Nothing leaves for now. Where no packet fits into the window, it limited what is on its way.
    pub(super) fn stop(&mut self) {
        if self.room() == 0 {
            self.end_burst(true);
        }
    }

    fn end_burst(&mut self, window_limited: bool) {
        let from = if window_limited { self.burst_from.min(self.unlimited_from) } else { self.burst_from };
        self.unlimited_from = if window_limited { usize::MAX } else { self.unlimited_from.min(self.burst_from) };
        for (packet, _) in self.packets.iter_mut().skip(from) {
            packet.window_limited = window_limited;
        }
        self.burst_from = self.packets.len();
    }

    /// One acknowledgement of these packets. The order of steps is that of Linux `tcp_ack`, as in every stream sender here.
    pub(super) fn acknowledge(
        &mut self,
        indices: &[usize],
        marked: bool,
        received_at: Option<Time>,
    ) -> Result<(), FlowError> {
        let ecn = self.driver.nature().ecn;
        if marked && ecn == Ecn::Off {
            return Err(FlowError::NotCapable);
        }
        let prior_in_flight = self.in_flight;
        let mut fresh = Vec::with_capacity(indices.len());
        for index in indices {
            let (packet, standing) = self.packets[*index];
            if standing == Standing::Delivered {
                return Err(FlowError::Arrived(*index as u64 + 1));
            }
            self.leave_flight(*index, Standing::Delivered);
            self.lost.remove(index);
            fresh.push(packet);
        }
        let prior_una = self.una();
        while self.packets.get(self.first).is_some_and(|(_, standing)| *standing == Standing::Delivered) {
            self.first += 1;
        }
        let exact = matches!(ecn, Ecn::Exact | Ecn::L4s);
        let received = received_at.map_or(ArrivalClock::Unknown, ArrivalClock::Newest);
        let delivery = self.driver.delivered(self.now, &mut fresh, exact && marked, &received);
        if let Some(sample) = delivery.rtt {
            self.driver.sample(sample, self.una(), self.next);
        }
        let over = match self.phase {
            Phase::Open => false,
            Phase::Cwr => self.una() > self.recovery_point || self.controller().permit().holds_against_marks,
            Phase::Recovery | Phase::Loss => self.una() >= self.recovery_point,
        };
        if over {
            self.phase = Phase::Open;
        }
        if self.una() > prior_una {
            self.timeouts = 0;
        }
        let echo = marked && self.phase == Phase::Open;
        if echo && !self.controller().permit().holds_against_marks {
            (self.phase, self.recovery_point) = (Phase::Cwr, self.next);
        }
        let marks = if marked { (delivery.bytes, delivery.packets as u32) } else { (0, 0) };
        let mut progress = AckProgress::at(self.una(), self.next, self.in_flight);
        progress.prior_in_flight = prior_in_flight;
        progress.phase = self.phase;
        progress.marks = Marks::new(marks.0, marks.1, echo);
        self.driver.acknowledge(self.now, &delivery, &progress);
        self.driver.refresh();
        Ok(())
    }

    /// A handshake is answered after `rtt`, before any data.
    pub(super) fn connect(&mut self, rtt: Nanos) {
        self.driver.connected(self.now, rtt, &AckProgress::at(self.next, self.next, self.in_flight));
    }

    /// These packets are found lost, by later ones that arrived.
    pub(super) fn lose(&mut self, indices: &[usize], cause: Cause) -> Result<(), FlowError> {
        let prior_in_flight = self.in_flight;
        let mut lost = self.take_for_lost(indices, cause)?;
        let new_episode = matches!(self.phase, Phase::Open | Phase::Cwr);
        if new_episode {
            (self.phase, self.recovery_point) = (Phase::Recovery, self.next);
        }
        self.driver.lose(self.now, &mut lost, prior_in_flight, self.in_flight, new_episode);
        self.driver.refresh();
        Ok(())
    }

    /// The retransmission timer fires and takes these for lost.
    pub(super) fn time_out(&mut self, indices: &[usize]) -> Result<(), FlowError> {
        if indices.is_empty() && self.lost.is_empty() {
            return Err(FlowError::Idle);
        }
        let prior_in_flight = self.in_flight;
        let mut lost = self.take_for_lost(indices, Cause::Unknown)?;
        (self.phase, self.recovery_point) = (Phase::Loss, self.next);
        self.timeouts = self.timeouts.saturating_add(1);
        self.driver.timeout(self.now, &mut lost, prior_in_flight, self.in_flight, self.timeouts);
        self.driver.refresh();
        Ok(())
    }

    fn take_for_lost(&mut self, indices: &[usize], cause: Cause) -> Result<Vec<Lost>, FlowError> {
        let mut lost = Vec::with_capacity(indices.len());
        for index in indices {
            let (packet, standing) = self.packets[*index];
            match standing {
                Standing::InFlight => {}
                Standing::Lost => return Err(FlowError::NotInFlight(*index as u64 + 1)),
                Standing::Delivered => return Err(FlowError::Arrived(*index as u64 + 1)),
            }
            self.leave_flight(*index, Standing::Lost);
            self.lost.insert(*index);
            lost.push(packet.lost().with_cause(cause));
        }
        Ok(lost)
    }

    fn leave_flight(&mut self, index: usize, to: Standing) {
        let (packet, standing) = &mut self.packets[index];
        *standing = to;
        if self.flying.remove(&packet.serial).is_some() {
            self.in_flight -= u64::from(packet.bytes);
        }
    }

    /// The last reduction answered a spurious loss: what it took for lost is in flight still.
    pub(super) fn spurious(&mut self) {
        for index in std::mem::take(&mut self.lost) {
            let (packet, standing) = &mut self.packets[index];
            *standing = Standing::InFlight;
            self.in_flight += u64::from(packet.bytes);
            self.flying.insert(packet.serial, index);
        }
        self.phase = Phase::Open;
        self.driver.spurious(self.now);
        self.driver.refresh();
    }

    /// Why these were lost has become known.
    pub(super) fn explain(&mut self, indices: &[usize], cause: Cause) {
        let lost: Vec<Lost> = indices.iter().map(|index| self.packets[*index].0.lost().with_cause(cause)).collect();
        self.driver.explain(self.now, &lost);
    }

    pub(super) fn set_mss(&mut self, mss: u32) {
        self.driver.set_mss(self.now, mss);
    }

    /// The application has nothing more to send; nothing happens where the window is full.
    pub(super) fn run_dry(&mut self) {
        if self.room() > 0 {
            self.driver.run_dry(self.now, self.in_flight);
            self.end_burst(false);
        }
    }

    pub(super) fn shared_rtt(&mut self, min: Nanos) {
        self.driver.shared_rtt(self.now, min);
    }

    pub(super) fn report(
        &mut self,
        packet: Option<u64>,
        verdict: Cause,
        fresh_for: Nanos,
        hops: &[Hop],
    ) -> Result<(), FlowError> {
        let carrier = |number: u64| {
            let at = (number as usize).checked_sub(1).and_then(|index| self.packets.get(index));
            let (packet, _) = at.ok_or(FlowError::NotSent(number, self.packets.len() as u64))?;
            Ok(paceline_cc::Carrier::new(packet.seq, packet.sent_at, packet.tag))
        };
        let packet = packet.map(carrier).transpose()?;
        let mut telemetry = Telemetry::new(self.now, verdict, fresh_for, hops);
        telemetry.packet = packet;
        self.driver.telemetry(&telemetry);
        Ok(())
    }

    pub(super) fn feedback(&mut self, blob: &[u8], refused: bool) -> Result<(), FlowError> {
        match (self.driver.feedback(self.now, blob).is_err(), refused) {
            (true, false) => Err(FlowError::Feedback("refused")),
            (false, true) => Err(FlowError::Feedback("taken in, not refused,")),
            _ => Ok(()),
        }
    }

    fn una(&self) -> u64 {
        self.packets.get(self.first).map_or(self.next, |(packet, _)| packet.seq)
    }
}
