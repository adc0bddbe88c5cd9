//! When a link can carry how much: a constant rate, rate steps, a Markov chain, or a trace, less outages.
//!
//! Work is counted in byte nanoseconds a second (`bytes * 10^9`), so that a packet under way when the rate changes is
//! served exactly.

use std::sync::Arc;

use paceline_cc::{Nanos, Rate, Time};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::light::Light;
use crate::markov::{Markov, Walk};
use crate::trace::{Cursor, OPPORTUNITY, Trace};

const WORK_PER_BYTE: u128 = 1_000_000_000;

/// What it takes to send these bytes.
pub(crate) fn work_of(bytes: u64) -> u128 {
    u128::from(bytes) * WORK_PER_BYTE
}

/// How the rate of a link changes: `schedule = [["0s", "200 Mbit/s"], ["10s", "500 Mbit/s"]]`, or
/// `schedule = { markov = { rates = ["2 Mbit/s", "10 Mbit/s"], hold = "200ms" } }`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Rates {
    /// Rates from given times on; the first from 0.
    Steps(Vec<(Nanos, Rate)>),
    /// At random.
    Markov {
        /// The chain.
        markov: Markov,
    },
}

impl<'de> Deserialize<'de> for Rates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            markov: Markov,
        }

        impl<'de> Visitor<'de> for Either {
            type Value = Rates;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "[[\"0s\", \"2 Mbit/s\"], ...], or { markov = { rates = [\"2 Mbit/s\", ...], hold = \"200ms\" } }",
                )
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Rates, A::Error> {
                Ok(Rates::Steps(Deserialize::deserialize(SeqAccessDeserializer::new(seq))?))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rates, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Rates::Markov { markov: table.markov })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// What a link serves by.
#[derive(Clone, Debug)]
pub struct Schedule {
    service: Service,
    /// Sorted, disjoint.
    outages: Vec<(Time, Time)>,
    /// What a trace link offers under a light load.
    light: Option<Light>,
}

#[derive(Clone, Debug)]
enum Service {
    Constant(Rate),
    Steps(Steps),
    Markov(Markov, Walk),
    Trace(Arc<Trace>),
}

/// Rates from given times on; the first is 0.
#[derive(Clone, Debug)]
struct Steps {
    starts: Vec<u64>,
    rates: Vec<u64>,
    /// Work done by the start of each step.
    done: Vec<u128>,
    lap: Option<u64>,
}

impl Schedule {
    /// One rate for ever.
    pub fn constant(rate: Rate) -> Self {
        Self { service: Service::Constant(rate), outages: Vec::new(), light: None }
    }

    /// Rates from given times on, sorted, the first from 0; with a lap, starting over after that time.
    pub fn steps(steps: &[(Time, Rate)], lap: Option<Nanos>) -> Self {
        let starts: Vec<u64> = steps.iter().map(|(start, _)| start.as_nanos()).collect();
        let rates: Vec<u64> = steps.iter().map(|(_, rate)| rate.as_bytes_per_sec()).collect();
        let mut done = vec![0; starts.len()];
        for index in 1..starts.len() {
            done[index] =
                done[index - 1] + u128::from(rates[index - 1]) * u128::from(starts[index] - starts[index - 1]);
        }
        let lap = lap.map(Nanos::as_nanos);
        Self { service: Service::Steps(Steps { starts, rates, done, lap }), outages: Vec::new(), light: None }
    }

    /// Rates at random, with their seed; a chain that [`crate::Direction::check`] accepts.
    pub fn markov(markov: Markov, seed: u64) -> Self {
        let walk = Walk::new(&markov, seed);
        Self { service: Service::Markov(markov, walk), outages: Vec::new(), light: None }
    }

    /// The delivery opportunities of a trace, lap after lap.
    pub fn from_trace(trace: Arc<Trace>) -> Self {
        Self { service: Service::Trace(trace), outages: Vec::new(), light: None }
    }

    /// The same with spans (from, to) in which the link stands still, sorted and disjoint: a packet on the wire waits
    /// there, opportunities are lost.
    pub fn with_outages(mut self, outages: Vec<(Time, Time)>) -> Self {
        self.outages = outages;
        self
    }

    /// The same serving a light load by another trace, where it serves by a trace.
    pub fn with_light(mut self, light: Light) -> Self {
        self.light = Some(light).filter(|_| self.trace().is_some());
        self
    }

    /// What it offers under a light load.
    pub fn light(&self) -> Option<&Light> {
        self.light.as_ref()
    }

    /// The trace, when it serves by one; under saturation, where it has another.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        match &self.service {
            Service::Trace(trace) => Some(trace),
            _ => None,
        }
    }

    /// Bytes that the link can carry after `from` and by `to`. Exactly additive over adjoining spans.
    pub fn capacity(&self, from: Time, to: Time) -> u64 {
        let bytes = self.work(to).saturating_sub(self.work(from)) / WORK_PER_BYTE;
        let (before, after) = (self.work(from) / WORK_PER_BYTE, self.work(to) / WORK_PER_BYTE);
        debug_assert!(after.saturating_sub(before).abs_diff(bytes) <= 1);
        u64::try_from(after.saturating_sub(before)).unwrap_or(u64::MAX)
    }

    /// The mean rate over a lap without outages, of a Markov chain in the long run; for steps that do not loop, over all
    /// of them but the last, or the rate of a single one.
    pub fn mean_rate(&self) -> Rate {
        match &self.service {
            Service::Constant(rate) => *rate,
            Service::Trace(trace) => trace.mean_rate(),
            Service::Markov(markov, _) => markov.mean_rate(),
            Service::Steps(steps) => match steps.lap.or_else(|| steps.starts.last().copied()) {
                Some(end) if end > 0 => {
                    Rate::from_bytes_per_sec(u64::try_from(steps.work(end) / u128::from(end)).unwrap_or(u64::MAX))
                }
                _ => Rate::from_bytes_per_sec(steps.rates.first().copied().unwrap_or(0)),
            },
        }
    }

    /// The rate at `now` by which a queue that is limited in time counts: the last that was not 0, or the first to come; of random rates
    /// and traces the mean. Outages do not change it.
    pub fn present_rate(&self, now: Time) -> Rate {
        match &self.service {
            Service::Constant(_) | Service::Markov(..) | Service::Trace(_) => self.mean_rate(),
            Service::Steps(steps) => Rate::from_bytes_per_sec(steps.moving_at(now.as_nanos())),
        }
    }

    /// The highest rate by which a queue that is limited in time may count.
    pub fn peak_rate(&self) -> Rate {
        match &self.service {
            Service::Steps(steps) => Rate::from_bytes_per_sec(steps.rates.iter().copied().max().unwrap_or(0)),
            _ => self.mean_rate(),
        }
    }

    /// Work that can be done after `from` and by `to`.
    pub(crate) fn work_between(&self, from: Time, to: Time) -> u128 {
        self.work(to).saturating_sub(self.work(from))
    }

    /// Work that can be done by `to`, outages taken off.
    fn work(&self, to: Time) -> u128 {
        // An opportunity at `to` itself counts.
        let end = if self.trace().is_some() { to + Nanos::from_nanos(1) } else { to };
        let mut work = self.work_before(end);
        for (from, to) in &self.outages {
            work -= self.work_before((*to).min(end)) - self.work_before((*from).min(end));
        }
        work
    }

    fn work_before(&self, end: Time) -> u128 {
        match &self.service {
            Service::Constant(rate) => u128::from(rate.as_bytes_per_sec()) * u128::from(end.as_nanos()),
            Service::Steps(steps) => steps.work(end.as_nanos()),
            Service::Markov(_, walk) => walk.work(end.as_nanos()),
            Service::Trace(trace) => {
                u128::from(trace.opportunities_before(end)) * u128::from(OPPORTUNITY) * WORK_PER_BYTE
            }
        }
    }

    /// When `size` bytes that go on the wire at `start` are through, and for how long of that time the wire was moving.
    #[inline]
    pub(crate) fn send(&mut self, start: Time, size: u32) -> (Time, Nanos) {
        if let (Service::Constant(rate), true) = (&self.service, self.outages.is_empty()) {
            let sending = rate.time_for(u64::from(size));
            return (start + sending, sending);
        }
        self.send_while_rates_change(start, size)
    }

    fn send_while_rates_change(&mut self, start: Time, size: u32) -> (Time, Nanos) {
        let mut work = u128::from(size) * WORK_PER_BYTE;
        let (mut now, mut sending) = (start.as_nanos(), 0);
        loop {
            let (rate, until) = self.rate_at(now);
            let room = u128::from(until - now);
            let rate = u128::from(rate);
            if rate > 0 && work.div_ceil(rate) <= room {
                let last = work.div_ceil(rate) as u64;
                return (Time::from_nanos(now + last), Nanos::from_nanos(sending + last));
            }
            if until == u64::MAX {
                return (Time::NEVER, Nanos::from_nanos(sending));
            }
            work -= rate * room;
            if rate > 0 {
                sending += until - now;
            }
            now = until;
        }
    }

    /// From `now` on the rate is what `to` makes of the one in force, until a later step, if there is one. Answers the one before;
    /// `None` where the link does not serve at steps, or these start over.
    pub(crate) fn step(&mut self, now: Time, to: impl FnOnce(Rate) -> Rate) -> Option<Rate> {
        if let Service::Constant(rate) = self.service {
            self.service = Self::steps(&[(Time::ZERO, rate)], None).service;
        }
        let Service::Steps(steps) = &mut self.service else { return None };
        steps.lap.is_none().then(|| steps.insert(now.as_nanos(), to))
    }

    /// It stands still from one moment to another, both to come, besides when it does already.
    pub(crate) fn stand_still(&mut self, mut from: Time, mut to: Time) {
        self.outages.retain(|(start, end)| {
            let apart = *end < from || *start > to;
            if !apart {
                (from, to) = (from.min(*start), to.max(*end));
            }
            apart
        });
        let index = self.outages.partition_point(|(start, _)| *start < from);
        self.outages.insert(index, (from, to));
    }

    /// The rate at `now` and until when it holds.
    fn rate_at(&mut self, now: u64) -> (u64, u64) {
        let (rate, until) = match &mut self.service {
            Service::Constant(rate) => (rate.as_bytes_per_sec(), u64::MAX),
            Service::Steps(steps) => steps.rate_at(now),
            Service::Markov(_, walk) => walk.rate_at(now),
            Service::Trace(_) => (0, u64::MAX),
        };
        match self.next_outage(now) {
            Some((from, to)) if from.as_nanos() <= now => (0, to.as_nanos()),
            Some((from, _)) => (rate, until.min(from.as_nanos())),
            None => (rate, until),
        }
    }

    /// The outage that holds at `now`, or the next one.
    fn next_outage(&self, now: u64) -> Option<(Time, Time)> {
        let index = self.outages.partition_point(|(_, to)| to.as_nanos() <= now);
        self.outages.get(index).copied()
    }

    /// The opportunity behind the one at `cursor`.
    pub(crate) fn opportunity(&self, cursor: &mut Cursor) -> Time {
        let Service::Trace(trace) = &self.service else { return Time::NEVER };
        self.opportunity_of(trace, cursor)
    }

    /// The same in a trace that it also serves by.
    pub(crate) fn opportunity_of(&self, trace: &Trace, cursor: &mut Cursor) -> Time {
        let at = trace.step(cursor);
        self.past_outages(trace, cursor, at)
    }

    /// The first opportunity after `now`.
    pub(crate) fn opportunity_after(&self, cursor: &mut Cursor, now: Time) -> Time {
        let Service::Trace(trace) = &self.service else { return Time::NEVER };
        self.opportunity_after_of(trace, cursor, now)
    }

    /// The same in a trace that it also serves by.
    pub(crate) fn opportunity_after_of(&self, trace: &Trace, cursor: &mut Cursor, now: Time) -> Time {
        let at = trace.seek(cursor, now);
        self.past_outages(trace, cursor, at)
    }

    fn past_outages(&self, trace: &Trace, cursor: &mut Cursor, mut at: Time) -> Time {
        if self.outages.is_empty() {
            return at;
        }
        while let Some((from, to)) = self.next_outage(at.as_nanos()) {
            if from > at {
                break;
            }
            // An opportunity at the very end of an outage counts.
            at = trace.seek(cursor, to - Nanos::from_nanos(1));
        }
        at
    }
}

impl Steps {
    fn index(&self, at: u64) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// Another rate from `now` on; answers the one that was in force.
    fn insert(&mut self, now: u64, to: impl FnOnce(Rate) -> Rate) -> Rate {
        let done = self.work(now);
        let mut index = self.index(now);
        let before = Rate::from_bytes_per_sec(self.rates[index]);
        if self.starts[index] < now {
            index += 1;
            self.starts.insert(index, now);
            self.rates.insert(index, 0);
            self.done.insert(index, done);
        }
        self.rates[index] = to(before).as_bytes_per_sec();
        for next in index + 1..self.starts.len() {
            let span = self.starts[next] - self.starts[next - 1];
            self.done[next] = self.done[next - 1] + u128::from(self.rates[next - 1]) * u128::from(span);
        }
        before
    }

    fn rate_at(&self, now: u64) -> (u64, u64) {
        let at = self.lap.map_or(now, |lap| now % lap);
        let index = self.index(at);
        let end = self.starts.get(index + 1).copied().or(self.lap);
        (self.rates[index], end.map_or(u64::MAX, |end| now.saturating_add(end - at)))
    }

    /// The rate in force at `now`; where it is 0 the last before it that is not, or the first behind it.
    fn moving_at(&self, now: u64) -> u64 {
        let here = self.index(self.lap.map_or(now, |lap| now % lap));
        let moving = |index: &usize| self.rates[*index] > 0;
        let before = (0..=here).rev().find(moving);
        // In a lap the steps behind are those of the lap before.
        let behind = |index: &usize| moving(index) && *index > here;
        let mut all = 0..self.rates.len();
        let around = if self.lap.is_some_and(|lap| now >= lap) { all.rev().find(behind) } else { all.find(behind) };
        before.or(around).map_or(0, |index| self.rates[index])
    }

    fn work(&self, end: u64) -> u128 {
        let within = |at: u64| {
            let index = self.index(at);
            self.done[index] + u128::from(self.rates[index]) * u128::from(at - self.starts[index])
        };
        match self.lap {
            Some(lap) => u128::from(end / lap) * within(lap) + within(end % lap),
            None => within(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    const SPAN: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn a_packet_under_way_takes_the_new_rate() {
        // 1500 bytes: 1 ms at 12 Mbit/s, 0.5 ms at 24.
        let steps = [(ms(0), Rate::from_mbps(12.0)), (ms(10), Rate::from_mbps(24.0))];
        let mut schedule = Schedule::steps(&steps, Some(SPAN(20)));
        assert_eq!(schedule.send(ms(0), 1500), (ms(1), SPAN(1)));
        let half = Time::from_nanos(9_500_000);
        assert_eq!(schedule.send(half, 1500), (Time::from_nanos(10_250_000), Nanos::from_micros(750)));
        // 30 kB: 10 ms at the one, 7.5 ms at the other.
        assert_eq!(schedule.send(ms(0), 37_500).0, Time::from_nanos(17_500_000));
        // The next lap.
        assert_eq!(schedule.send(ms(20), 1500), (ms(21), SPAN(1)));
        assert_eq!(schedule.capacity(ms(5), ms(35)), 7_500 + 30_000 + 15_000 + 15_000);
    }

    #[test]
    fn an_outage_holds_a_packet_on_the_wire() {
        let mut schedule = Schedule::constant(Rate::from_mbps(12.0)).with_outages(vec![(ms(10), ms(15))]);
        // Half before, half after: 1 ms on the wire, 5 ms standing still.
        let start = Time::from_nanos(9_500_000);
        assert_eq!(schedule.send(start, 1500), (Time::from_nanos(15_500_000), SPAN(1)));
        assert_eq!(schedule.send(ms(12), 1500), (ms(16), SPAN(1)));
        assert_eq!(schedule.send(ms(9), 1500), (ms(10), SPAN(1)));
        assert_eq!(schedule.capacity(ms(0), ms(20)), 15 * 1500);
        let mut never = Schedule::steps(&[(ms(0), Rate::from_mbps(12.0)), (ms(1), Rate::ZERO)], None);
        assert_eq!(never.send(ms(0), 1501).0, Time::NEVER);
    }

    #[test]
    fn opportunities_in_an_outage_are_lost() {
        let trace = Arc::new(Trace::from_millis("t", vec![2, 4, 6, 8]).expect("valid"));
        let schedule = Schedule::from_trace(trace).with_outages(vec![(ms(4), ms(14))]);
        let mut cursor = Cursor::default();
        let first = schedule.opportunity_after(&mut cursor, ms(0));
        let rest: Vec<Time> = (0..3).map(|_| schedule.opportunity(&mut cursor)).collect();
        // 4 is within, 14 is not.
        assert_eq!((first, rest), (ms(2), vec![ms(14), ms(16), ms(18)]));
        assert_eq!(schedule.opportunity_after(&mut cursor, ms(5)), ms(14));
        assert_eq!(schedule.capacity(ms(0), ms(16)), 3 * 1500);
        assert_eq!(schedule.capacity(ms(2), ms(14)), 1500);
    }
}
