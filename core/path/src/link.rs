//! A link: a queue served by a [`Schedule`].
//!
//! On a trace link the rules are Mahimahi's (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP",
//! USENIX ATC 2015; `link_queue.cc`): an opportunity carries 1500 bytes; small packets share one, a large packet needs
//! several; what an opportunity cannot use is lost. A packet that arrives at the very time of an opportunity misses
//! it. With a second trace a light load is served by that one ([`crate::light`]). Different: time is in nanoseconds, not rounded to milliseconds, because a sender here is not tied to the clock
//! of the emulator.

use paceline_cc::{Nanos, Rate, Time};

use crate::bucket::{Bucket, TokenBucket};
use crate::change::PathChange;
use crate::fate::{DropReason, Ledger};
use crate::light::Opportunities;
use crate::packet::{Element, Packet};
use crate::queue::{Queue, QueueBound};
use crate::schedule::{Schedule, work_of};
use crate::snapshot::{LATELY, Meter, Snapshot};
use crate::stats::{Count, LinkStats};
use crate::trace::OPPORTUNITY;

/// A queue served by a schedule.
pub struct Link<P> {
    schedule: Schedule,
    queue: Box<dyn Queue<P>>,
    /// The queue is limited in time.
    timed: bool,
    server: Server,
    serving: Option<Packet<P>>,
    /// When that went on the wire.
    began: Time,
    /// End of service, or the opportunity to use next.
    due: Time,
    ledger: Ledger<P>,
    meter: Option<Box<Meter>>,
}

/// A limit, with what it says of time in bytes at this rate.
fn in_bytes(limit: QueueBound, rate: Rate) -> QueueBound {
    let by_time = limit.time.map(|time| rate.bytes_in(time));
    QueueBound { bytes: [limit.bytes, by_time].into_iter().flatten().min(), ..limit }
}

enum Server {
    /// Serves at a rate; how long the packet in service is on the wire.
    Rate { sending: Nanos },
    /// Serves as a token bucket permits; what it holds, and how long the packet in service is on the wire.
    Bucket { tokens: TokenBucket, burst: u64, peak: Option<Rate>, sending: Nanos },
    /// Serves at opportunities: what is left of the one in use (0: not begun) and of the packet in service.
    Trace { opportunities: Opportunities, credit: u32, left: u32 },
}

impl<P: Send> Link<P> {
    /// An idle link.
    pub fn new(schedule: Schedule, queue: Box<dyn Queue<P>>) -> Self {
        let server = if schedule.trace().is_some() {
            Server::Trace { opportunities: Opportunities::default(), credit: 0, left: 0 }
        } else {
            Server::Rate { sending: Nanos::ZERO }
        };
        let timed = queue.limit().time.is_some();
        let (began, due) = (Time::ZERO, Time::NEVER);
        Self { schedule, queue, timed, server, serving: None, began, due, ledger: Ledger::default(), meter: None }
    }

    /// An idle link that is shaped by a bucket.
    pub fn shaped(bucket: Bucket, queue: Box<dyn Queue<P>>) -> Self {
        let burst = bucket.burst().0;
        let tokens = TokenBucket::new(bucket.rate, burst);
        let server = Server::Bucket { tokens, burst, peak: bucket.peak, sending: Nanos::ZERO };
        Self { server, ..Self::new(Schedule::constant(bucket.rate), queue) }
    }

    /// What it serves by.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The most that its queue ever holds; one that is limited in time, at the highest rate.
    pub fn limit(&self) -> QueueBound {
        in_bytes(self.queue.most(), self.schedule.peak_rate())
    }

    /// How long what waits takes at the present rate, the rest of the packet in service included.
    fn wait(&self, now: Time) -> Nanos {
        let rest = match (&self.serving, &self.server) {
            (None, _) => 0,
            (Some(_), Server::Trace { left, .. }) => work_of(u64::from(*left)),
            (Some(packet), Server::Bucket { .. }) => work_of(u64::from(packet.size)),
            (Some(packet), Server::Rate { .. }) => {
                let whole = work_of(u64::from(packet.size));
                if self.due == Time::NEVER { whole } else { self.schedule.work_between(now, self.due).min(whole) }
            }
        };
        let work = work_of(self.ledger.stats.queued.bytes) + rest;
        let rate = u128::from(self.schedule.present_rate(now).as_bytes_per_sec()).max(1);
        Nanos::from_nanos(u64::try_from(work / rate).unwrap_or(u64::MAX))
    }

    /// Its counters, with time integrals up to `now`.
    pub fn stats(&mut self, now: Time) -> &LinkStats {
        self.ledger.stats.advance(now, self.serving.is_some());
        &self.ledger.stats
    }

    pub(crate) fn forget(&mut self, flow: u32) {
        self.ledger.stats.flows.remove(&flow);
    }

    /// From now on arrivals are metered, interval by interval.
    pub(crate) fn meter(&mut self, interval: Nanos) {
        self.meter.get_or_insert_with(|| Box::new(Meter::new(interval)));
    }

    /// What it looks like at `now`; it lost nothing by itself.
    pub(crate) fn snapshot(&mut self, now: Time) -> Snapshot {
        let span = self.meter.as_ref().map_or(LATELY, |meter| meter.interval());
        let from = Time::ZERO + now.since(Time::ZERO + span);
        let capacity = Rate::from_bytes_in(self.schedule.capacity(from, from + span), span);
        let recent = self.meter.as_mut().map(|meter| meter.recent(now));
        let stats = self.stats(now);
        let dropped =
            Count { packets: stats.full.packets + stats.aqm.packets, bytes: stats.full.bytes + stats.aqm.bytes };
        let LinkStats { queued, arrived, marked, .. } = *stats;
        let limit = in_bytes(self.queue.limit(), self.schedule.present_rate(now));
        Snapshot {
            at: now,
            queued,
            limit,
            capacity,
            arrived,
            dropped,
            lost: Count::default(),
            policed: None,
            marked,
            recent,
        }
    }

    pub(crate) fn keep_dropped(&mut self) {
        self.ledger.keep_dropped();
    }

    pub(crate) fn has_dropped(&self) -> bool {
        self.ledger.has_dropped()
    }

    pub(crate) fn take_dropped(&mut self) -> impl Iterator<Item = (DropReason, Packet<P>)> {
        self.ledger.take_dropped()
    }

    /// Takes the next packet into service at `now`, when the link serves at a rate.
    #[inline(always)]
    fn start(&mut self, now: Time) {
        self.serving = self.queue.pop(now, &mut self.ledger);
        self.began = now;
        self.due = match (&self.serving, &mut self.server) {
            (Some(packet), Server::Rate { sending }) => {
                let (end, on_wire) = self.schedule.send(now, packet.size);
                *sending = on_wire;
                end
            }
            (Some(packet), Server::Bucket { tokens, peak, sending, .. }) => {
                *sending = peak.map_or(Nanos::ZERO, |peak| peak.time_for(u64::from(packet.size)));
                tokens.ready(now, packet.size).max(now + *sending)
            }
            // Nothing to serve, or nothing yet.
            _ => self.queue.ready_at(),
        };
    }

    /// The rate changes, or the link stands still for a time: with the packet that is on the wire. Answers what was in force.
    pub(crate) fn change(&mut self, now: Time, change: PathChange) -> Option<PathChange> {
        let Server::Rate { sending } = &mut self.server else { return None };
        let before = match change {
            PathChange::Rate(rate) => PathChange::Rate(self.schedule.step(now, |_| rate)?),
            PathChange::RateBy(factor) => PathChange::Rate(self.schedule.step(now, |rate| rate.mul_f64(factor))?),
            PathChange::Outage(span) => {
                if span > Nanos::ZERO {
                    self.schedule.stand_still(now, now + span);
                }
                PathChange::Outage(Nanos::ZERO)
            }
            PathChange::Delay(_) | PathChange::Loss(_) | PathChange::Reorder(_) | PathChange::PolicerRate(_) => {
                return None;
            }
        };
        if let Some(packet) = &self.serving {
            (self.due, *sending) = self.schedule.send(self.began, packet.size);
        }
        Some(before)
    }

    fn finish(&mut self, end: Time, sending: Nanos, mut packet: Packet<P>) -> Packet<P> {
        let inside = end - packet.entered;
        packet.delay.transmission += sending;
        packet.delay.queue += inside - sending;
        self.ledger.stats.delivered.add(packet.size);
        packet
    }

    /// Uses opportunities until one of them completes a packet; `None` when none by `now` does.
    fn use_opportunities(&mut self, now: Time) -> Option<Packet<P>> {
        let Server::Trace { opportunities, credit, left } = &mut self.server else { return None };
        while self.due <= now {
            self.ledger.stats.advance(self.due, self.serving.is_some());
            if *credit == 0 {
                *credit = OPPORTUNITY;
            }
            if self.serving.is_none() {
                self.serving = self.queue.pop(self.due, &mut self.ledger);
                let Some(packet) = &self.serving else {
                    *credit = 0;
                    let waiting = self.ledger.stats.queued.bytes;
                    if waiting > 0 {
                        self.due = opportunities.next(&self.schedule, self.due, waiting);
                        continue;
                    }
                    opportunities.emptied(self.due);
                    self.due = Time::NEVER;
                    return None;
                };
                *left = packet.size;
            }
            let sent = (*left).min(*credit);
            *left -= sent;
            *credit -= sent;
            let end = self.due;
            if *left == 0 {
                if self.ledger.stats.queued.packets == 0 {
                    *credit = 0;
                    opportunities.emptied(end);
                    self.due = Time::NEVER;
                } else if *credit == 0 {
                    let waiting = self.ledger.stats.queued.bytes;
                    self.due = opportunities.next(&self.schedule, end, waiting);
                }
                let packet = self.serving.take()?;
                return Some(self.finish(end, Nanos::ZERO, packet));
            }
            let waiting = self.ledger.stats.queued.bytes + u64::from(*left);
            self.due = opportunities.next(&self.schedule, end, waiting);
        }
        None
    }
}

impl<P: Send> Element<P> for Link<P> {
    #[inline]
    fn push(&mut self, now: Time, mut packet: Packet<P>) {
        self.ledger.stats.advance(now, self.serving.is_some());
        self.ledger.stats.arrived.add(packet.size);
        if let Some(meter) = &mut self.meter {
            meter.arrived(now, &packet);
        }
        packet.entered = now;
        if self.timed {
            self.ledger.wait = self.wait(now);
        }
        if let Server::Bucket { burst, .. } = self.server
            && u64::from(packet.size) > burst
        {
            self.ledger.drop_full(packet);
            return;
        }
        self.queue.push(now, packet, &mut self.ledger);
        let idle = self.serving.is_none() && self.ledger.stats.queued.packets > 0;
        let begins = idle && self.due == Time::NEVER;
        match &mut self.server {
            // It is awaited that the queue serves again what it holds back.
            Server::Rate { .. } | Server::Bucket { .. } if idle => self.start(now),
            Server::Rate { .. } | Server::Bucket { .. } => {}
            Server::Trace { opportunities, left, .. } => {
                let served = if self.serving.is_some() { u64::from(*left) } else { 0 };
                if begins {
                    opportunities.begin(&self.schedule, now);
                }
                let other = opportunities.waiting(&self.schedule, self.ledger.stats.queued.bytes + served);
                // An opportunity of this very moment is still used by those that waited for it.
                if begins || other && self.due > now {
                    self.due = opportunities.after(&self.schedule, now);
                }
            }
        }
    }

    fn next(&self) -> Time {
        self.due
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        if self.due > now {
            return None;
        }
        let sending = match self.server {
            Server::Rate { sending } | Server::Bucket { sending, .. } => sending,
            Server::Trace { .. } => return self.use_opportunities(now),
        };
        let end = self.due;
        self.ledger.stats.advance(end, self.serving.is_some());
        let Some(packet) = self.serving.take() else {
            self.start(end);
            return None;
        };
        if let Server::Bucket { tokens, .. } = &mut self.server {
            tokens.take(end, packet.size);
        }
        let packet = self.finish(end, sending, packet);
        self.start(end);
        Some(packet)
    }
}

#[cfg(test)]
mod tests;
