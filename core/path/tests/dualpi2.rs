//! DualPI2 with load on it: what RFC 9332 says of coupling, overload, and a classic beside a scalable flow.

use std::collections::VecDeque;

use paceline_cc::{Codepoint, Nanos, Time};
use paceline_path::{Direction, LinkStats, Packet, Path};

const SIZE: u32 = 1500;
/// Round trip of the responsive flows without queues.
const RTT: Nanos = Nanos::from_millis(10);

fn path(rate: &str, queue: &str) -> Path<u64> {
    let direction: Direction = toml::from_str(&format!("rate = '{rate}'\nqueue = '{queue}'")).expect("valid");
    direction.build(1, Nanos::from_millis(100), &|name| Err(name.to_owned())).expect("valid")
}

/// Seconds in the queue of the packets of each flow, after a warm-up.
type Waits = [Vec<f64>; 2];

/// Unresponsive flows: every packet of flow `n` has its codepoint and comes this many nanoseconds after the one before.
fn flood(path: &mut Path<u64>, flows: [(Codepoint, u64); 2], seconds: u64) -> (Waits, LinkStats) {
    let mut next = [0, 777];
    let mut waits = Waits::default();
    let end = Time::from_millis(seconds * 1000);
    loop {
        let flow = usize::from(next[1] < next[0]);
        let now = Time::from_nanos(next[flow]);
        while path.next() <= now.min(end) {
            let due = path.next();
            while let Some(packet) = path.pop(due) {
                if due > Time::from_millis(seconds * 500) {
                    waits[packet.flow as usize].push(packet.delay.queue.as_secs_f64());
                }
            }
        }
        if now >= end {
            return (waits, path.stats(end).cloned().expect("a link"));
        }
        path.push(now, Packet::new(flow as u32, SIZE, flows[flow].0, 0));
        next[flow] += flows[flow].1;
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() as f64 * share) as usize]
}

#[test]
fn low_is_marked_by_the_square_root_of_what_classic_drops() {
    // 12 Mbit/s: 1 ms a packet. Classic comes every 1 ms, low every 20: load 1.05 and 1/21 of it to drop from classic,
    // so p_C = 0.05, p' = 0.2236 and p_CL = 2 p' = 0.447 of the low packets. These are alone, and may wait for longer than the step.
    for (spacing, tolerance) in [("even", 0.03), ("random", 0.06)] {
        let mut path = path("12 Mbit/s", &format!("dualpi2:spacing={spacing},th_len=1"));
        let flows = [(Codepoint::NotEct, 1_000_000), (Codepoint::Ect1, 20_000_000)];
        let (waits, stats) = flood(&mut path, flows, 200);
        let drops = stats.flows[&0].dropped.packets as f64 / 200_000.0;
        let marks = stats.flows[&1].marked.packets as f64 / 10_000.0;
        assert!((drops - 0.05).abs() < 0.002, "{drops}");
        assert!((marks / (2.0 * libm::sqrt(0.05)) - 1.0).abs() < tolerance, "{marks}");
        assert_eq!((stats.flows[&1].dropped.packets, stats.full.packets), (0, 0));
        // The classic delay settles at the target; low waits for the packet in service and, when its turn has come, for
        // one of classic.
        assert!((mean(&waits[0]) * 1e3 - 15.0).abs() < 1.0, "{}", mean(&waits[0]));
        assert!(waits[1].iter().all(|wait| *wait <= 0.002));
    }
}

#[test]
fn low_packets_are_dropped_in_overload_and_classic_is_served() {
    // ECT(1) that does not respond at 1.5 times the link, and classic at a tenth of it.
    let mut path = path("12 Mbit/s", "dualpi2");
    let (_, stats) = flood(&mut path, [(Codepoint::NotEct, 10_000_000), (Codepoint::Ect1, 666_667)], 60);
    let (classic, low) =
        (stats.flows[&0].dropped.packets as f64 / 6000.0, stats.flows[&1].dropped.packets as f64 / 9e4);
    // The same probability p_C for both: 1 - 1 / 1.6 = 0.375.
    assert!((low - 0.375).abs() < 0.02, "{low}");
    assert!((classic - 0.375).abs() < 0.03, "{classic}");
    assert_eq!(stats.full.packets, 0);
    // The low packets that passed were marked, but for the first, before the controller got there.
    let passed = 90_000 - stats.flows[&1].dropped.packets;
    assert!(stats.flows[&1].marked.packets as f64 > 0.95 * passed as f64);
}

/// A window of packets and its response: by a factor to drops, or DCTCP's (RFC 8257) with a mean over 16 rounds.
struct Flow {
    /// What a classic flow multiplies its window by; a scalable one has none.
    factor: Option<f64>,
    window: f64,
    sent: u64,
    acked: u64,
    /// DCTCP's mean share of marks.
    alpha: f64,
    /// First packet of the next round; a response per round.
    round: u64,
    marks: f64,
    acks: f64,
    /// Responded since the round began.
    cut: bool,
}

impl Flow {
    fn new(factor: Option<f64>) -> Self {
        let alpha = 1.0;
        Self { factor, window: 10.0, sent: 0, acked: 0, alpha, round: 0, marks: 0.0, acks: 0.0, cut: false }
    }

    fn congestion(&mut self) {
        if !self.cut {
            self.cut = true;
            self.window = (self.window * self.factor.unwrap_or(1.0 - self.alpha / 2.0)).max(2.0);
        }
    }

    /// Packet `number` is acknowledged; gaps before it are losses.
    fn ack(&mut self, number: u64, marked: bool) {
        if number >= self.round {
            if self.acks > 0.0 {
                self.alpha += (self.marks / self.acks - self.alpha) / 16.0;
            }
            (self.round, self.marks, self.acks, self.cut) = (self.sent, 0.0, 0.0, false);
        }
        self.acks += 1.0;
        self.marks += f64::from(u8::from(marked));
        if marked || number > self.acked {
            self.congestion();
        } else {
            self.window += 1.0 / self.window;
        }
        self.acked = number + 1;
    }
}

/// A classic flow of this factor and a scalable one for 50 s after 10 s, over 40 Mbit/s and 10 ms.
fn share(factor: f64) -> Waits {
    let mut path = path("40 Mbit/s", "dualpi2");
    let mut flows = [Flow::new(Some(factor)), Flow::new(None)];
    let mut acks: VecDeque<(Time, usize, u64, bool)> = VecDeque::new();
    let (warm, end) = (Time::from_millis(10_000), Time::from_millis(60_000));
    let mut waits = Waits::default();
    let mut now = Time::ZERO;
    while now < end {
        for (index, flow) in flows.iter_mut().enumerate() {
            while ((flow.sent - flow.acked) as f64) < flow.window {
                let ecn = if flow.factor.is_none() { Codepoint::Ect1 } else { Codepoint::NotEct };
                path.push(now, Packet::new(index as u32, SIZE, ecn, flow.sent));
                flow.sent += 1;
            }
        }
        now = acks.front().map_or(path.next(), |(at, ..)| path.next().min(*at));
        while let Some(packet) = path.pop(now) {
            let index = packet.flow as usize;
            acks.push_back((now + RTT, index, packet.body, packet.ecn == Codepoint::Ce));
            if now > warm {
                waits[index].push(packet.delay.queue.as_secs_f64());
            }
        }
        while acks.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, index, number, marked)) = acks.pop_front() else { break };
            flows[index].ack(number, marked);
        }
    }
    waits
}

#[test]
fn a_classic_and_a_scalable_flow_share_the_link_as_their_laws_say() {
    // Windows of c / sqrt(p_C) and 2 / p_CL = 1 / p', so that rates are as RTT_C / (c RTT_L). Reno has a factor of 1/2
    // and c = 1.22; CUBIC as Reno without its slower increase 0.7 and 1.68 (c = sqrt((1 + factor) / (2 - 2 factor))).
    for (factor, c) in [(0.5, 1.22), (0.7, 1.68)] {
        let [classic, mut low] = share(factor);
        let ratio = low.len() as f64 / classic.len() as f64;
        let round = |waits: &[f64]| RTT.as_secs_f64() + 0.0003 + mean(waits);
        let expected = round(&classic) / round(&low) / c;
        assert!((ratio / expected - 1.0).abs() < 0.1, "{ratio} {expected}");
        // 40 Mbit/s carry 166 667 packets in 50 s.
        let used = (low.len() + classic.len()) as f64 / 166_667.0;
        assert!(used > 0.99, "{used}");
        let slow = quantile(&mut low, 0.99);
        assert!(slow < 0.002, "{slow}");
        assert!((mean(&classic) * 1e3 - 15.0).abs() < 2.0, "{}", mean(&classic));
    }
}
