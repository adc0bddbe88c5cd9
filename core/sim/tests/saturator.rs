//! Traces that are recorded over known traces: both directions of a path are kept backlogged at once, as `paceline trace record` does.

use std::sync::Arc;

use paceline_cc::{Codepoint, Nanos, Rate, Time};
use paceline_path::{Direction, Packet, Path, Synth, Trace};
use paceline_transport::saturator::{LOWER, Opportunities, Saturator, SaturatorSeen, UPPER};

/// Bytes of a packet of data, and of an acknowledgement, from the IP header on.
const DATA: u32 = 1500;
const ACK: u32 = 74;
/// Acknowledgements are at least so far apart.
const ACKS: Nanos = Nanos::from_millis(10);
const LEAD: Nanos = Nanos::from_secs(5);

#[derive(Clone)]
enum Body {
    Data(u64, Time),
    Ack(SaturatorSeen),
}

/// One end: what it sends, and what it records.
struct End {
    saturator: Saturator,
    record: Opportunities,
    seen: Option<SaturatorSeen>,
    ack_due: Time,
    held: Vec<Nanos>,
}

impl End {
    fn arrives(&mut self, now: Time, packet: Packet<Body>) {
        self.record.on_arrival(now, packet.size);
        match packet.into_body() {
            Body::Data(number, sent_at) => {
                if self.seen.is_none() && self.ack_due <= now {
                    self.ack_due = now;
                }
                if self.seen.is_none_or(|seen| number >= seen.next) {
                    self.seen = Some(SaturatorSeen { next: number + 1, sent_at, received_at: now });
                }
            }
            Body::Ack(seen) => {
                self.saturator.on_ack(now, seen);
                if now > Time::ZERO + LEAD {
                    self.held.extend(self.saturator.held());
                }
            }
        }
    }

    fn sends(&mut self, now: Time, over: bool, path: &mut Path<Body>) {
        if let Some(seen) = self.seen.filter(|_| self.ack_due <= now) {
            path.push(now, Packet::new(0, ACK, Codepoint::NotEct, Body::Ack(seen)));
            (self.seen, self.ack_due) = (None, now + ACKS);
        }
        while !over && let Some(number) = self.saturator.take(now) {
            path.push(now, Packet::new(0, DATA, Codepoint::NotEct, Body::Data(number, now)));
        }
    }

    fn next(&self) -> Time {
        self.saturator.next().min(if self.seen.is_some() { self.ack_due } else { Time::NEVER })
    }
}

/// Records both directions; the traces of down and up, and for how long packets were held upwards.
fn record(down: Direction, up: Direction, trace: &Arc<Trace>, seconds: u64, most: Rate) -> ([Vec<u32>; 2], Vec<Nanos>) {
    let load = |_: &str| Ok::<_, String>(trace.clone());
    let mut paths: [Path<Body>; 2] =
        [down, up].map(|direction| direction.build(1, Nanos::from_millis(40), &load).unwrap());
    let end = |_| End {
        saturator: Saturator::new(Time::ZERO, DATA, most),
        record: Opportunities::new(DATA, LEAD, Nanos::from_secs(seconds)),
        seen: None,
        ack_due: Time::ZERO,
        held: Vec::new(),
    };
    let [mut far, mut near] = [0, 1].map(end);
    let stop = Time::ZERO + LEAD + Nanos::from_secs(seconds + 1);
    let mut now = Time::ZERO;
    while now < stop + Nanos::from_secs(5) {
        while let Some(packet) = paths[0].pop(now) {
            near.arrives(now, packet);
        }
        while let Some(packet) = paths[1].pop(now) {
            far.arrives(now, packet);
        }
        far.sends(now, now >= stop, &mut paths[0]);
        near.sends(now, now >= stop, &mut paths[1]);
        let timers = if now < stop { far.next().min(near.next()) } else { Time::NEVER };
        now = paths[0].next().min(paths[1].next()).min(timers).max(now + Nanos::from_nanos(1));
        paths.iter_mut().for_each(|path| path.advance(now));
    }
    ([near.record.into_millis(), far.record.into_millis()], near.held)
}

fn synth(mean: &str, seconds: u64, outage: Nanos) -> Arc<Trace> {
    let length = Nanos::from_secs(seconds);
    let synth = Synth { mean: mean.parse().unwrap(), length, outage, seed: 3, ..Synth::default() };
    Arc::new(synth.trace("known").unwrap())
}

fn direction(link: &str) -> Direction {
    toml::from_str(&format!("{link}\ndelay = '20ms'\nqueue = 'infinite'")).unwrap()
}

/// Largest difference of two distributions (Kolmogorov and Smirnov).
fn distance(a: &[u32], b: &[u32]) -> f64 {
    let share = |all: &[u32], most: u32| all.iter().filter(|gap| **gap <= most).count() as f64 / all.len() as f64;
    (0..200).map(|gap| (share(a, gap) - share(b, gap)).abs()).fold(0.0, f64::max)
}

fn gaps(millis: &[u32]) -> Vec<u32> {
    millis.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_trace_is_recorded_as_it_is() {
    // The recording begins 5 s and a delay into a lap, and lasts one lap: the same opportunities in another order.
    let (seconds, known) = (60, synth("8 Mbit/s", 60, Nanos::ZERO));
    let ([down, up], held) =
        record(direction("trace = 'known'"), direction("rate = '3 Mbit/s'"), &known, seconds, Rate::from_mbps(100.0));
    let ratio = down.len() as f64 / known.millis().len() as f64;
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
    let apart = distance(&gaps(&down), &gaps(known.millis()));
    assert!(apart < 0.03, "gaps are {apart} apart");
    // Acknowledgements of the other direction share the link, and count.
    let ratio = up.len() as f64 * 12_000.0 / (3e6 * seconds as f64);
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
    // The link upwards is steady, so what waits there is; the other one falls to a twentieth within seconds.
    let within = held.iter().filter(|held| (LOWER..=UPPER).contains(held)).count() as f64;
    assert!(within / held.len() as f64 > 0.98, "{:?} to {:?}", held.iter().min(), held.iter().max());
}

#[test]
fn random_losses_cost_what_was_lost_and_no_more() {
    let known = synth("8 Mbit/s", 60, Nanos::ZERO);
    let lossy = direction("trace = 'known'\nloss = 0.02");
    let ([down, _], _) = record(lossy, direction("rate = '3 Mbit/s'"), &known, 60, Rate::from_mbps(100.0));
    let ratio = down.len() as f64 / known.millis().len() as f64;
    assert!((0.96..1.0).contains(&ratio), "{ratio}");
}

#[test]
fn no_more_is_sent_than_allowed() {
    let known = synth("8 Mbit/s", 10, Nanos::ZERO);
    let fast = || direction("rate = '50 Mbit/s'");
    let ([down, up], _) = record(fast(), fast(), &known, 10, Rate::from_mbps(5.0));
    for millis in [down, up] {
        let mbps = millis.len() as f64 * 12_000.0 / 10.0 / 1e6;
        // Acknowledgements come on top.
        assert!((4.9..5.15).contains(&mbps), "{mbps}");
    }
}

#[test]
fn a_link_that_goes_away_is_asked_once_a_second_and_found_again() {
    let known = synth("8 Mbit/s", 30, Nanos::ZERO);
    let gone = direction("rate = '5 Mbit/s'\noutages = [['12s', '20s']]");
    let ([down, _], _) = record(gone, direction("rate = '3 Mbit/s'"), &known, 30, Rate::from_mbps(100.0));
    let mbps = down.len() as f64 * 12_000.0 / 22.0 / 1e6;
    assert!((4.8..5.1).contains(&mbps), "{mbps}");
    let longest = gaps(&down).into_iter().max().unwrap();
    assert!((7_900..8_200).contains(&longest), "{longest}");

    // No one is there: the first window, then one a second.
    let mut alone = Saturator::new(Time::ZERO, DATA, Rate::from_mbps(100.0));
    for millis in 0..60_000 {
        while alone.take(Time::ZERO + Nanos::from_millis(millis)).is_some() {}
    }
    assert!((78..=80).contains(&alone.sent()), "{}", alone.sent());
}
