//! What the sockets of one engine to one place share.
//!
//! Source: the congestion manager that the paper leaves to others (Zaki et al., section 6; RFC 3124). Our choice of the
//! place: a prefix, /24 of IPv4 and /48 of IPv6, since clients behind one access link mostly share it. Sockets tell each
//! other their smallest RTT, so that a late one, which never sees the path without a queue, does not take the queue for
//! distance. With one aggregate window they are one flow to the controller, and each that has something to send may have
//! an equal part of the window in flight.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use paceline_cc::{
    Ack, BadFeedback, Carrier, Controller, Loss, Lost, Nanos, Nature, Pacing, Permit, Remembered, Restart, Sent, Stamp,
    Telemetry, Time, Timeout,
};
use paceline_transport::{AckProgress, ArrivalClock, ArrivalTime, Departing, Driver, SenderConfig, SentPacket};

/// How long a smallest RTT is believed. 10 s: Copa's `RTTmin` (NSDI 2018 section 2.1), BBR's.
const BELIEVED: Nanos = Nanos::from_secs(10);

/// Every group of an engine.
#[derive(Default)]
pub(crate) struct Groups {
    groups: HashMap<IpAddr, Weak<Group>>,
}

/// Sockets to one prefix.
#[derive(Default)]
pub(crate) struct Group {
    shortest: Mutex<Shortest>,
    aggregate: Mutex<Option<Arc<Mutex<Aggregate>>>>,
}

#[derive(Default)]
struct Shortest {
    rtt: Option<(Nanos, Time)>,
    /// Counts the changes, so that each is reported once.
    news: u64,
}

impl Groups {
    /// The group of a peer.
    pub(crate) fn of(&mut self, peer: IpAddr) -> Arc<Group> {
        self.groups.retain(|_, group| group.strong_count() > 0);
        let group = self.groups.entry(prefix(peer)).or_default();
        group.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(Group::default());
            *group = Arc::downgrade(&fresh);
            fresh
        })
    }
}

/// The first address of the prefix.
fn prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            [a, b, c, 0].into()
        }
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !(u128::MAX >> 48)).into(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Plain values, each of them whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    /// A socket reports its newest RTT and gets the smallest of all, unless it has `heard` that before. Without an
    /// RTT it gets nothing yet: a controller without a sample of its own would forget it.
    pub(crate) fn exchange(&self, now: Time, sample: Option<Nanos>, heard: &mut u64) -> Option<Nanos> {
        let sample = sample?;
        let mut shortest = lock(&self.shortest);
        if shortest.rtt.is_none_or(|(rtt, at)| sample < rtt || now - at > BELIEVED) {
            shortest.rtt = Some((sample, now));
            shortest.news += 1;
        }
        let (rtt, _) = shortest.rtt.filter(|_| *heard != shortest.news)?;
        *heard = shortest.news;
        Some(rtt)
    }

    /// A controller for one more socket, which is a part of the group's.
    pub(crate) fn member(&self, make: impl FnOnce() -> Box<dyn Controller>, mss: u32) -> Box<dyn Controller> {
        let aggregate = lock(&self.aggregate)
            .get_or_insert_with(|| {
                Arc::new(Mutex::new(Aggregate {
                    driver: Driver::new(&SenderConfig::new(mss), make()),
                    in_flight: 0,
                    next: 0,
                    serial: 0,
                    active: 0,
                    fresh: Vec::new(),
                    arrivals: Vec::new(),
                    lost: Vec::new(),
                }))
            })
            .clone();
        Box::new(Member { aggregate, mine: 0, active: false, sent: VecDeque::new() })
    }
}

/// All flows of a group as one: positions count the bytes of all in the order in which they leave.
struct Aggregate {
    driver: Driver,
    in_flight: u64,
    next: u64,
    serial: u64,
    /// Members that have something in flight or to send.
    active: u64,
    /// Scratch for one acknowledgement, and for one round of losses.
    fresh: Vec<SentPacket>,
    arrivals: Vec<ArrivalTime>,
    lost: Vec<Lost>,
}

/// One flow's part.
struct Member {
    aggregate: Arc<Mutex<Aggregate>>,
    mine: u64,
    active: bool,
    /// Its packets in flight as the aggregate knows them, each with its position in this flow.
    sent: VecDeque<(u64, SentPacket)>,
}

fn ask<T>(aggregate: &Mutex<Aggregate>, question: impl FnOnce(&mut Aggregate) -> T) -> T {
    question(&mut lock(aggregate))
}

impl Member {
    fn lead<T>(&self, question: impl FnOnce(&mut Aggregate) -> T) -> T {
        ask(&self.aggregate, question)
    }

    fn set_active(&mut self, active: bool) {
        if active != self.active {
            self.active = active;
            self.lead(|all| all.active = if active { all.active + 1 } else { all.active - 1 });
        }
    }

    /// This flow's part of a window: an equal one, and what the others leave unused.
    fn part(&self, all: &Aggregate, window: u64) -> u64 {
        let equal = window / (all.active + u64::from(!self.active)).max(1);
        let left = (self.mine + window).saturating_sub(all.in_flight);
        equal.max(left).max(u64::from(all.driver.config().mss))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.set_active(false);
        let mine = self.mine;
        self.lead(|all| all.in_flight -= mine);
    }
}

/// As much of a threshold as `part` is of the window; one that is not known is not known in parts.
fn part_of(threshold: u64, part: u64, window: u64) -> u64 {
    if threshold == u64::MAX {
        return threshold;
    }
    let part = u128::from(threshold) * u128::from(part) / u128::from(window.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Where the aggregate has the byte that a member's flow has at `seq`; nothing where it is no longer in flight.
fn position(sent: &VecDeque<(u64, SentPacket)>, seq: u64) -> Option<u64> {
    let after = sent.partition_point(|(from, _)| *from <= seq);
    let (from, packet) = sent.get(after.checked_sub(1)?)?;
    Some(packet.seq.saturating_add(seq - from))
}

/// Translates what a member's datapath declared lost.
fn translate(sent: &VecDeque<(u64, SentPacket)>, lost: &[Lost], into: &mut Vec<Lost>) {
    into.clear();
    into.extend(lost.iter().filter_map(|packet| {
        let mut own = *packet;
        own.seq = position(sent, packet.seq)?;
        Some(own)
    }));
}

/// The controller of a member's flow is its part of the aggregate's: it passes on what it sees, in the aggregate's terms.
impl Controller for Member {
    fn remember(&self, now: Time) -> Option<Remembered> {
        lock(&self.aggregate).driver.controller().remember(now)
    }

    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let bytes = u64::from(sent.bytes);
        if bytes > 0 {
            self.set_active(true);
        }
        self.mine += bytes;
        let mut packet = SentPacket::new(0, sent.bytes, sent.now);
        let note = self.lead(|all| {
            let first = all.in_flight == 0;
            all.in_flight += bytes;
            let load = Departing::new(all.in_flight, sent.unsent, first);
            if bytes == 0 {
                return all.driver.sent_empty(sent.now, all.next, &load);
            }
            packet.seq = all.next;
            all.next += bytes;
            all.serial += 1;
            packet.serial = all.serial;
            all.driver.sent(sent.now, &mut packet, &load)
        });
        if bytes > 0 {
            self.sent.push_back((sent.seq, packet));
        }
        Stamp::new(packet.tag, note)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.mine = self.mine.saturating_sub(ack.bytes);
        let aggregate = self.aggregate.clone();
        let mut guard = lock(&aggregate);
        let all = &mut *guard;
        let prior_in_flight = all.in_flight;
        all.in_flight -= ack.bytes;
        let una = all.next - all.in_flight;
        let mut progress = AckProgress::at(una, all.next, all.in_flight);
        progress.prior_in_flight = prior_in_flight;
        if ack.packets.is_empty() {
            // The answer to a handshake: nothing else above TCP delivers no packet.
            all.driver.connected(ack.now, ack.srtt, &progress);
            return;
        }
        all.fresh.clear();
        all.arrivals.clear();
        for acked in ack.packets {
            // Not always the first: what arrived behind a hole is acknowledged before what is in it.
            let Ok(at) = self.sent.binary_search_by_key(&acked.seq, |(seq, _)| *seq) else { continue };
            let Some((_, mut packet)) = self.sent.remove(at) else { continue };
            packet.bytes = acked.bytes;
            packet.sent_at = acked.sent_at;
            packet.retransmitted = acked.retransmitted;
            all.arrivals.extend(acked.received_at.map(|at| ArrivalTime { seq: packet.seq, at }));
            all.fresh.push(packet);
        }
        let mut delivery = all.driver.delivered(ack.now, &mut all.fresh, false, &ArrivalClock::Each(&all.arrivals));
        if let Some(newest) = &mut delivery.newest {
            // The member knows what ended its bursts.
            newest.window_limited = ack.window_limited;
        }
        if let Some(sample) = delivery.rtt {
            all.driver.sample(sample, una, all.next);
        }
        all.driver.acknowledge(ack.now, &delivery, &progress);
        all.driver.refresh();
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let sent = &self.sent;
        // The repairs have left in place of the lost.
        ask(&self.aggregate, |all| {
            translate(sent, loss.packets, &mut all.lost);
            all.driver.lose(loss.now, &mut all.lost, all.in_flight, all.in_flight, loss.new_episode);
            all.driver.refresh();
        });
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        let sent = &self.sent;
        ask(&self.aggregate, |all| {
            translate(sent, timeout.packets, &mut all.lost);
            all.driver.timeout(timeout.now, &mut all.lost, all.in_flight, all.in_flight, timeout.count);
            all.driver.refresh();
        });
    }

    fn on_spurious(&mut self, now: Time) {
        self.lead(|all| {
            all.driver.spurious(now);
            all.driver.refresh();
        });
    }

    fn on_cause(&mut self, now: Time, packets: &[Lost]) {
        let sent = &self.sent;
        ask(&self.aggregate, |all| {
            translate(sent, packets, &mut all.lost);
            all.driver.explain(now, &all.lost);
        });
    }

    fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        let place = |mut carrier: Carrier| {
            carrier.seq = position(&self.sent, carrier.seq)?;
            Some(carrier)
        };
        let mut own = *telemetry;
        own.packet = telemetry.packet.and_then(place);
        self.lead(|all| all.driver.telemetry(&own));
    }

    fn on_restart(&mut self, restart: &Restart) {
        self.lead(|all| {
            if all.in_flight == 0 {
                all.driver.restart(restart.now);
            }
        });
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        if in_flight == 0 {
            self.set_active(false);
        }
        self.lead(|all| {
            if all.active <= 1 {
                all.driver.run_dry(now, all.in_flight);
            }
        });
    }

    fn on_shared_rtt(&mut self, now: Time, min: Nanos) {
        self.lead(|all| all.driver.shared_rtt(now, min));
    }

    fn on_mss(&mut self, now: Time, mss: u32) {
        self.lead(|all| all.driver.set_mss(now, mss));
    }

    fn on_feedback(&mut self, now: Time, blob: &[u8]) -> Result<(), BadFeedback> {
        self.lead(|all| all.driver.feedback(now, blob))
    }

    fn on_tick(&mut self, now: Time) {
        self.lead(|all| all.driver.tick(now));
    }

    fn nature(&self) -> Nature {
        self.lead(|all| *all.driver.nature())
    }

    fn permit(&self) -> Permit {
        self.lead(|all| {
            let mut permit = all.driver.controller().permit();
            let window = self.part(all, permit.window);
            let active = all.active.max(1);
            permit.pacing = match permit.pacing {
                Pacing::Rate(rate) => Pacing::Rate(rate.mul_f64(1.0 / active as f64)),
                Pacing::Gap(gap) if gap < Nanos::MAX => Pacing::Gap(gap.mul_div(active, 1)),
                answer => answer,
            };
            permit.next_tick = all.driver.next_tick();
            permit.threshold = part_of(permit.threshold, window, permit.window);
            permit.window = window;
            // What leaves changes this flow's part.
            permit.outlasts_departures = false;
            permit
        })
    }

    fn window_set_at(&self) -> Option<String> {
        self.lead(|all| all.driver.controller().window_set_at())
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.lead(|all| all.driver.controller().describe(report));
    }
}

#[cfg(test)]
mod tests;
