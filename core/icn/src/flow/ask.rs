//! Rule A: when to ask, and for what.

use paceline_cc::{Nanos, Pacing, Phase, Rate, Time};
use paceline_transport::Departing;

use super::{Aggregation, BYTES, RequestFlow, Supply, units_per_request};
use crate::ranges::{MAX_UNITS, Ranges};

/// A small request waits for no longer than this to become a larger one: a tick of the release's kernel.
const TICK: Nanos = Nanos::from_millis(1);

/// Units that are asked for at once when the timer fires (the release: 10).
const URGENT: u32 = 10;

impl RequestFlow {
    /// The request that may leave now: lost units first, then those of `supply`.
    pub fn poll_request(&mut self, now: Time, supply: &mut dyn Supply) -> Option<Ranges> {
        self.wake_at = Time::NEVER;
        if self.gave_up {
            return None;
        }
        if self.held_until > now {
            self.wake_at = self.held_until;
            return None;
        }
        if let Some(ranges) = self.ask_probe(now) {
            return Some(ranges);
        }
        let urgent = self.urgent;
        let mut quota = self.window().saturating_sub(self.board.in_flight) / BYTES;
        if quota == 0 {
            // A window below a unit is kept by its pace.
            if !urgent && self.board.in_flight > 0 {
                self.board.end_burst(true);
                return None;
            }
            quota = 1;
        }
        if self.driver.due() > now && !urgent {
            self.wake_at = self.driver.due();
            return None;
        }
        let wanted = self.wanted();
        let most = u64::from(if urgent { wanted.max(URGENT) } else { wanted }).min(quota) as u32;
        let most = most.min(self.largest_request);
        if quota < wanted.into() && !urgent && self.may_wait(now, quota) {
            return None;
        }
        if let Some(ranges) = self.ask_again(now, most) {
            return Some(ranges);
        }
        self.urgent = false;
        let room = (self.config.receive_buffer / BYTES).max(1).saturating_sub(self.board.span());
        let most = u64::from(most).min(room) as u32;
        let taken = if most > 0 { supply.take(most) } else { None };
        let Some(ranges) = taken else {
            self.driver.run_dry(now, self.board.in_flight);
            self.board.end_burst(false);
            return None;
        };
        self.ask(now, &ranges);
        Some(ranges)
    }

    /// Units of a request, by the rate.
    fn wanted(&self) -> u32 {
        let permit = self.driver.controller().permit();
        let units = match self.config.aggregation {
            Aggregation::One => 1,
            Aggregation::Fixed(units) => units.clamp(1, MAX_UNITS),
            Aggregation::Paper => match permit.pacing {
                Pacing::Gap(_) => return 1,
                Pacing::Rate(rate) => units_per_request(rate),
                Pacing::Free => match self.srtt() {
                    Some(srtt) => units_per_request(Rate::from_bytes_in(permit.window, srtt)),
                    None => MAX_UNITS,
                },
            },
        };
        if self.config.triple && permit.cruises && self.is_contended() {
            units.saturating_mul(3).min(MAX_UNITS)
        } else {
            units
        }
    }

    /// Rule A.5: the window leaves room for a part of a request. It waits for more, but not where the flow would stall for it.
    fn may_wait(&mut self, now: Time, quota: u64) -> bool {
        let Some(last) = self.requested_at.filter(|last| *last + TICK > now) else { return false };
        let Some(srtt) = self.srtt().filter(|_| self.phase == Phase::Open) else { return false };
        let Some(oldest) = self.board.front() else { return false };
        if quota.saturating_mul(BYTES) >= self.window() / 4 || oldest.packet.sent_at + srtt.mul_div(1, 16) > now {
            return false;
        }
        self.wake_at = last + TICK;
        self.board.end_burst(true);
        true
    }

    fn ask(&mut self, now: Time, ranges: &Ranges) {
        let mut first = self.board.is_empty();
        if first {
            self.driver.restart(now);
            self.silent_since = now;
        }
        let last = ranges.units() - 1;
        for (place, unit) in (0..).zip(ranges.iter()) {
            let in_flight = self.board.in_flight + BYTES;
            let packet = self.board.ask(now, unit, self.path);
            packet.follows = place > 0;
            let load = Departing::new(in_flight, u64::MAX, first);
            if place < last {
                self.driver.sent_ahead(now, packet, &load);
            } else {
                self.driver.sent(now, packet, &load);
            }
            first = false;
        }
        self.requested(now, ranges);
        if self.rto_at == Time::NEVER {
            self.arm(now);
        }
    }

    /// Lost units, as many gaps as one request holds.
    fn ask_again(&mut self, now: Time, most: u32) -> Option<Ranges> {
        let (mut number, unit) = self.board.next_waiting()?;
        let mut ranges = Ranges::one(unit);
        let mut repairs_first = false;
        let mut next = None;
        loop {
            self.board.pop_waiting();
            repairs_first |= number == self.board.first();
            if ranges.units() < most
                && let Some((other, unit)) = self.board.next_waiting()
                && ranges.push(unit)
            {
                next = Some(other);
            }
            let in_flight = self.board.in_flight + BYTES;
            let load = Departing::new(in_flight, u64::MAX, false);
            if let Some(packet) = self.board.ask_again(now, number, self.path) {
                if next.is_some() {
                    self.driver.sent_ahead(now, packet, &load);
                } else {
                    self.driver.sent(now, packet, &load);
                }
            }
            match next.take() {
                Some(other) => number = other,
                None => break,
            }
        }
        self.urgent = false;
        self.repeats = self.repeats.saturating_add(u32::from(repairs_first));
        self.stats.retransmits += u64::from(ranges.units());
        self.requested(now, &ranges);
        if repairs_first || self.rto_at == Time::NEVER {
            self.arm(now);
        }
        Some(ranges)
    }

    pub(super) fn requested(&mut self, now: Time, ranges: &Ranges) {
        let bytes = u64::from(ranges.units()) * BYTES;
        self.requests += 1;
        self.requested_at = Some(now);
        self.stats.packets_sent += u64::from(ranges.units());
        self.stats.bytes_sent += bytes;
        if let Some(prr) = &mut self.prr {
            prr.on_sent(bytes as u32);
        }
        self.arm_probe(now);
    }
}
