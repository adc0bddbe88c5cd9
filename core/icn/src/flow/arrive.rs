//! Rules B and C: a unit comes, or an answer that it does not.

use paceline_cc::{Ecn, Nanos, Phase, Rate, Time};
use paceline_transport::{AckProgress, Delivery, Marks};

use super::RequestFlow;
use super::board::{Record, State};
use crate::UNIT;
use crate::ranges::Units;
use crate::wire::MissingReason;

/// What a unit that came was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The RTT that the controller learned: of the first unit of a request that was asked for once.
    pub rtt: Option<Nanos>,
    /// It had been taken for lost.
    pub late: bool,
}

/// The longest time for which a busy source holds the flow, whatever it says (our choice: a third of the silence after which the flow gives
/// up).
const LONGEST_HOLD: Nanos = Nanos::from_secs(10);

impl RequestFlow {
    /// A unit came with `bytes` of payload; `None`: it was not asked for, or came before. `ce`: with a congestion mark; `app_limited`: the
    /// source's storage limits it, not the network.
    pub fn on_unit(&mut self, now: Time, unit: u64, bytes: u32, ce: bool, app_limited: bool) -> Option<Arrived> {
        self.silent_since = now;
        self.repeats = 0;
        let Some(number) = self.board.number_of(unit) else {
            self.premature = self.premature.saturating_add(1);
            self.came_twice(unit);
            return None;
        };
        let record = *self.board.get(number)?;
        let prior_in_flight = self.board.in_flight;
        let in_order = number == self.board.first();
        self.board.settle(number);
        if record.path != self.path {
            // Asked for over another path: it says nothing of this one.
            self.settled(now, in_order);
            self.end_phase();
            return Some(Arrived { rtt: None, late: false });
        }
        let mut packet = record.packet;
        packet.bytes = bytes.clamp(1, UNIT as u32);
        let ends = self.take_probe(now, &mut packet);
        packet.follows |= record.overdue;
        let rtt = now - packet.sent_at;
        let early_repair = packet.retransmitted && rtt < self.driver.rtt().min();
        let late = record.state == State::Lost || early_repair;

        let exact = matches!(self.driver.nature().ecn, Ecn::Exact | Ecn::L4s);
        let received = paceline_transport::ArrivalClock::Newest(now);
        let delivery = self.driver.delivered(now, &mut [packet], exact && ce, &received);
        if let Some(sample) = delivery.rate {
            self.arriving = Some(Rate::from_bytes_in(sample.delivered, sample.interval));
        }
        let (una, next) = (self.board.una(), self.board.next());
        if !packet.retransmitted && !record.overdue {
            self.driver.sample(rtt, una, next);
            self.backoff = 0;
            self.premature = 0;
        }
        if let Some(rtt) = delivery.rtt {
            self.mean_rtt.sample(now, rtt, self.driver.rtt().min());
        }
        if ends {
            self.board.answered_last(packet.serial, rtt);
        } else if !early_repair {
            self.board.answered(packet.serial, rtt);
        }
        self.settled(now, in_order);
        if late {
            self.on_late(now, record.overdue);
        }
        self.end_phase();
        let lost_bytes = self.end_probe(now, packet.serial, prior_in_flight) + self.find_losses(now, prior_in_flight);
        let reduces = self.acknowledge(now, &delivery, ce, prior_in_flight, lost_bytes);
        if reduces {
            self.start_reduction();
        }
        self.reduce(delivery.bytes, in_order && lost_bytes == 0);
        if app_limited {
            self.driver.run_dry(now, self.board.in_flight);
        }
        self.driver.refresh();
        self.arm_probe(now);
        Some(Arrived { rtt: delivery.rtt, late })
    }

    /// The controller learns of an arrival. Answers whether it reduces for a mark.
    fn acknowledge(&mut self, now: Time, delivery: &Delivery, ce: bool, prior_in_flight: u64, lost_bytes: u64) -> bool {
        let marked = ce && self.driver.nature().ecn != Ecn::Off;
        self.stats.ce_packets += u64::from(marked);
        let echo = marked && self.phase == Phase::Open;
        let reduces = echo && !self.driver.controller().permit().holds_against_marks;
        if reduces {
            self.phase = Phase::Cwr;
            self.recovery_point = self.board.next();
        }
        let marks = if marked { Marks::new(delivery.bytes, 1, echo) } else { Marks::default() };
        let mut progress = AckProgress::at(self.board.una(), self.board.next(), self.board.in_flight);
        progress.prior_in_flight = prior_in_flight;
        progress.lost_bytes = lost_bytes;
        progress.phase = self.phase;
        progress.marks = marks;
        self.driver.acknowledge(now, delivery, &progress);
        reduces
    }

    /// Something was settled; where that was the oldest unit, the timer starts again.
    pub(super) fn settled(&mut self, now: Time, in_order: bool) {
        if in_order {
            self.expiries = 0;
            self.arm(now);
        }
    }

    /// The source says that units do not come. Those that it is too busy for are lost, and it is left alone for `retry_after`; those
    /// that it wants a token for wait to be asked for again, which says nothing of congestion; others are waited for no longer. Answers
    /// how many of the units had been asked for.
    pub fn on_nack(&mut self, now: Time, units: &Units, reason: MissingReason, retry_after: Nanos) -> u64 {
        let prior_in_flight = self.board.in_flight;
        let first = self.board.first();
        let mut count = 0;
        self.lost.clear();
        let mut refuse = |flow: &mut Self, number: u64| {
            count += 1;
            match reason {
                MissingReason::Busy | MissingReason::NoToken => flow.board.lose(number, &mut flow.lost),
                MissingReason::NotFound | MissingReason::End | MissingReason::Changed | MissingReason::Loop => {
                    flow.board.settle(number);
                }
            }
        };
        if u64::from(units.count) <= self.board.span() {
            for unit in units.iter() {
                if let Some(number) = self.board.number_of(unit) {
                    refuse(self, number);
                }
            }
        } else {
            for number in first..first + self.board.span() {
                if self.board.get(number).is_some_and(|record| {
                    record.state != State::Settled && (units.first..units.end()).contains(&record.unit)
                }) {
                    refuse(self, number);
                }
            }
        }
        if count == 0 {
            return 0;
        }
        match reason {
            MissingReason::Busy => {
                self.held_until = self.held_until.max(now + retry_after.min(LONGEST_HOLD));
                let lost = self.report_losses(now, prior_in_flight);
                self.reduce(0, lost == 0);
            }
            MissingReason::NoToken => {}
            MissingReason::NotFound | MissingReason::End | MissingReason::Changed | MissingReason::Loop => {
                self.settled(now, self.board.first() != first);
                self.end_phase();
            }
        }
        self.driver.refresh();
        count
    }

    /// Waits no longer for units that were first asked for `older_than` ago or more, and gives back their numbers: another source is to be
    /// asked for them.
    pub fn reclaim(&mut self, older_than: Nanos, now: Time) -> Vec<u64> {
        self.release(now, |record| record.asked_at + older_than <= now)
    }

    /// Waits no longer for anything and gives back all that was asked for: the source is asked no more. Times are not looked at, since
    /// what ends a source is a datagram, whose time may lie before that of the last request.
    pub fn abandon(&mut self, now: Time) -> Vec<u64> {
        self.release(now, |_| true)
    }

    /// Waits no longer for the units of which this holds, and says which they are.
    fn release(&mut self, now: Time, which: impl Fn(&Record) -> bool) -> Vec<u64> {
        let all = self.board.iter().filter(|(_, record)| record.state != State::Settled && which(record));
        let released: Vec<(u64, u64)> = all.map(|(number, record)| (number, record.unit)).collect();
        let first = self.board.first();
        for (number, _) in &released {
            self.board.settle(*number);
        }
        if self.board.first() != first {
            self.end_phase();
            if self.board.is_empty() {
                self.arm(now);
            }
        }
        released.into_iter().map(|(_, unit)| unit).collect()
    }

    /// Waits no longer for a unit, because it came from elsewhere; false where it was not waited for.
    pub fn forget(&mut self, now: Time, unit: u64) -> bool {
        let Some(number) = self.board.number_of(unit) else { return false };
        self.board.settle(number);
        self.end_phase();
        if self.board.is_empty() {
            self.arm(now);
        }
        true
    }
}
