//! SEARCH: slow start that ends when delivery falls behind what was sent a round trip before (draft-chung-ccwg-search-09).
//!
//! What was sent in a span of time one RTT ago is held against what is delivered in a span of that length now. While nothing is
//! full the two are equal. The span is long, so that an RTT that swings, as over radio and satellites, is not taken for a queue.
//! Spans are made of bins; between two bins of what was sent the place is interpolated.
//!
//! What differs from the draft, and why:
//! - It interpolates towards the bin before: towards the one after, as written, looks at what was sent too late (neqo says so).
//! - After the exit the queue drains, a packet for each three that are delivered, as in the authors' Linux code 4.0
//!   (`search_drain=off`: the window stays, as in neqo).
//! - A window of time in which the application sent less than it might is not judged (`search_guard=off`: it is): bins with few
//!   packets make the interpolation find a lag that is not there.

use crate::controller::{Ack, Env, Restart};
use crate::entry::{Kind, ON_OFF, Param, Params, StartUpEntry};
use crate::units::{Nanos, Time};
use crate::window::{INITIAL_WINDOW, SlowStart, StartUp, Window};

/// The span in first RTTs (section 3.1), as a fraction.
const SPAN: (u64, u64) = (7, 2);
/// Bins of a span.
const BINS: u64 = 10;
/// Bins kept: more than a span and the longest way back.
const KEPT: usize = 64;
/// Bins of which what was delivered is about a path's product: a first RTT, rounded up.
const RTT_BINS: u64 = 3;
/// Packets delivered for each that may leave while the queue drains (the authors' Linux code 4.0).
const DRAIN_EVERY: f64 = 3.0;

/// What the parameters set.
#[derive(Clone, Copy, Debug)]
struct Config {
    /// Share of what was sent whose lack ends the start-up.
    threshold: f64,
    /// Bins that the RTT may be long before nothing is judged any more, beside a span.
    extra: u64,
    drain: bool,
    guard: bool,
}

/// Counts of bytes at the ends of the last bins.
#[derive(Clone, Copy, Debug)]
struct Bins {
    /// Length of one.
    length: Nanos,
    /// When the present one ends.
    end: Time,
    index: u64,
    delivered: [u64; KEPT],
    sent: [u64; KEPT],
    /// The last one with a packet that the application limited.
    limited: Option<u64>,
}

impl Bins {
    fn new(ack: &Ack<'_>, first_rtt: Nanos) -> Self {
        let length = first_rtt.mul_div(SPAN.0, SPAN.1 * BINS).max(Nanos::from_nanos(1));
        let (delivered, sent) = ([ack.delivered; KEPT], [ack.next; KEPT]);
        Self { length, end: ack.now + length, index: 0, delivered, sent, limited: None }
    }

    /// Bins that have ended by `now`.
    fn passed(&self, now: Time) -> u64 {
        if now <= self.end { 0 } else { (now - self.end).as_nanos() / self.length.as_nanos() + 1 }
    }

    /// `passed` bins have ended, the last one with this acknowledgement.
    fn advance(&mut self, passed: u64, ack: &Ack<'_>) {
        let before = slot(self.index);
        for skipped in 1..passed {
            let to = slot(self.index + skipped);
            self.delivered[to] = self.delivered[before];
            self.sent[to] = self.sent[before];
        }
        self.index += passed;
        self.delivered[slot(self.index)] = ack.delivered;
        self.sent[slot(self.index)] = ack.next;
        self.end += Nanos::from_nanos(self.length.as_nanos().saturating_mul(passed));
    }

    /// The share of what was sent a round trip of `rtt` ago that is not delivered now; `None` where too little is known.
    fn lag(&self, rtt: Nanos, extra: u64) -> Option<f64> {
        let back = rtt.as_nanos() / self.length.as_nanos();
        let part = (rtt.as_nanos() % self.length.as_nanos()) as f64 / self.length.as_nanos() as f64;
        let then = self.index.checked_sub(back).filter(|&then| then > BINS && back < extra)?;
        let over = |counts: &[u64; KEPT], end: u64| counts[slot(end)].saturating_sub(counts[slot(end - BINS)]) as f64;
        let sent = (1.0 - part) * over(&self.sent, then) + part * over(&self.sent, then - 1);
        let delivered = over(&self.delivered, self.index);
        (sent > 0.0).then(|| (sent - delivered).max(0.0) / sent)
    }

    /// Whether the application limited what the span, and the one a round trip ago, are judged by.
    fn was_limited(&self, rtt: Nanos) -> bool {
        let back = rtt.as_nanos() / self.length.as_nanos();
        self.limited.is_some_and(|limited| self.index.saturating_sub(limited) <= BINS + back)
    }

    /// Bytes delivered in about a first RTT.
    fn product(&self) -> u64 {
        let before = self.index.saturating_sub(RTT_BINS);
        self.delivered[slot(self.index)].saturating_sub(self.delivered[slot(before)])
    }
}

fn slot(index: u64) -> usize {
    index as usize % KEPT
}

/// The queue drains.
#[derive(Clone, Copy, Debug)]
struct Drain {
    /// Packets in flight at which it is gone.
    target: f64,
    /// Packets delivered that have let none leave yet.
    credit: f64,
}

/// SEARCH. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Search {
    config: Config,
    slow: SlowStart,
    mss: u32,
    bins: Option<Bins>,
    drain: Option<Drain>,
    lag: f64,
}

impl Search {
    fn new(env: &Env, config: Config) -> Self {
        Self { config, slow: SlowStart::new(env), mss: env.mss, bins: None, drain: None, lag: 0.0 }
    }

    /// Whether this acknowledgement ended a bin in which delivery lags behind.
    fn falls_behind(&mut self, ack: &Ack<'_>, rtt: Nanos) -> bool {
        let config = self.config;
        let bins = self.bins.get_or_insert_with(|| Bins::new(ack, rtt));
        if ack.packets.iter().any(|packet| packet.app_limited) {
            bins.limited = Some(bins.index);
        }
        let passed = bins.passed(ack.now);
        if passed > BINS {
            self.bins = Some(Bins::new(ack, rtt));
            return false;
        }
        if passed == 0 {
            return false;
        }
        bins.advance(passed, ack);
        if config.guard && bins.was_limited(rtt) {
            return false;
        }
        self.lag = bins.lag(rtt, config.extra).unwrap_or(0.0);
        self.lag >= config.threshold
    }

    fn end(&mut self, window: &mut Window) {
        let delivered = self.bins.as_ref().map_or(0, Bins::product);
        let target = (delivered as f64 / f64::from(self.mss)).max(INITIAL_WINDOW).min(window.cwnd);
        if self.config.drain {
            self.drain = Some(Drain { target, credit: 0.0 });
        } else {
            window.ssthresh = window.cwnd;
        }
    }
}

impl StartUp for Search {
    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        if let Some(drain) = &mut self.drain {
            drain.credit += ack.packets_of(self.mss);
            let add = (drain.credit / DRAIN_EVERY).floor();
            drain.credit -= DRAIN_EVERY * add;
            let in_flight = ack.in_flight as f64 / f64::from(self.mss);
            window.cwnd = (in_flight + add).max(drain.target).min(window.cwnd);
            if window.cwnd <= drain.target {
                self.drain = None;
                window.ssthresh = window.cwnd;
            }
            return;
        }
        match ack.rtt {
            Some(rtt) if self.falls_behind(ack, rtt) => self.end(window),
            _ => self.slow.on_ack(ack, window),
        }
    }

    fn on_spurious(&mut self) {
        self.bins = None;
        self.drain = None;
    }

    fn on_restart(&mut self, _restart: &Restart, _window: &mut Window) -> bool {
        self.on_spurious();
        false
    }

    fn on_mss(&mut self, mss: u32) {
        self.slow.on_mss(mss);
        self.mss = mss;
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("search_lag", self.lag);
        report("search_drain", f64::from(u8::from(self.drain.is_some())));
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn StartUp> {
    let config = Config {
        threshold: params.number("search_threshold"),
        extra: params.number("search_extra") as u64,
        drain: params.on("search_drain"),
        guard: params.on("search_guard"),
    };
    Box::new(Search::new(env, config))
}

/// `start=search` in the registry.
pub const ENTRY: StartUpEntry = StartUpEntry {
    name: "search",
    summary: "SEARCH: slow start that ends when delivery falls behind what was sent a round trip before",
    source: "draft-chung-ccwg-search-09",
    params: &[
        Param {
            name: "search_threshold",
            unit: "share of what was sent that is not delivered",
            kind: Kind::Number { min: 0.01, max: 0.9 },
            default: "0.26",
            source: "draft-chung-ccwg-search-09 section 3; 0.35 in the authors' Linux code",
        },
        Param {
            name: "search_extra",
            unit: "bins that the RTT may be long",
            kind: Kind::Number { min: 1.0, max: 50.0 },
            default: "15",
            source: "neqo; 40 in the authors' Linux code 4.0",
        },
        Param {
            name: "search_drain",
            unit: "switch: the queue drains after the exit",
            kind: ON_OFF,
            default: "on",
            source: "the authors' Linux code 4.0",
        },
        Param {
            name: "search_guard",
            unit: "switch: what the application limited is not judged",
            kind: ON_OFF,
            default: "on",
            source: "our choice, because the draft has no rule yet and half of such flows would leave",
        },
    ],
    needs: &[],
    holds_against_marks: false,
    make,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Acked;

    const MSS: u64 = 1448;

    /// A queue of endless length behind a link, in packet times, fed by hand: packets leave as the window lets them, a burst for each
    /// acknowledgement.
    struct Link {
        start: Search,
        window: Window,
        now: f64,
        /// RTT without a queue, and the time that a packet takes: in seconds.
        base: f64,
        packet: f64,
        /// Departures that are under way: when acknowledged, and what was sent by then.
        flying: std::collections::VecDeque<(f64, f64)>,
        free_at: f64,
        sent: u64,
        delivered: u64,
        app_limited: bool,
        /// Bytes that the application has had.
        has: u64,
        rtt: f64,
    }

    impl Link {
        fn new(spec: &str, base: f64, packet: f64) -> Self {
            let spec: crate::Spec = format!("reno:start=search{spec}").parse().unwrap();
            let params = spec.params();
            let config = Config {
                threshold: params.number("search_threshold"),
                extra: params.number("search_extra") as u64,
                drain: params.on("search_drain"),
                guard: params.on("search_guard"),
            };
            Self {
                start: Search::new(&Env::default(), config),
                window: Window { cwnd: INITIAL_WINDOW, ssthresh: f64::INFINITY },
                now: 0.0,
                base,
                packet,
                flying: std::collections::VecDeque::new(),
                free_at: 0.0,
                sent: 0,
                delivered: 0,
                app_limited: false,
                has: u64::MAX,
                rtt: base,
            }
        }

        fn fill(&mut self) {
            while (self.flying.len() as f64) < self.window.cwnd.floor() && self.sent < self.has {
                self.free_at = self.free_at.max(self.now) + self.packet;
                self.flying.push_back((self.free_at + self.base, self.now));
                self.sent += MSS;
            }
        }

        /// The next `packets` packets are acknowledged at once.
        fn acknowledge(&mut self, packets: usize) {
            self.fill();
            let packets = packets.min(self.flying.len());
            let (mut at, mut left) = (0.0, 0.0);
            for _ in 0..packets {
                (at, left) = self.flying.pop_front().unwrap();
            }
            self.now = at;
            self.rtt = at - left;
            let bytes = packets as u64 * MSS;
            self.delivered += bytes;
            let rtt = Nanos::from_secs_f64(at - left);
            let acked = Acked {
                seq: 0,
                bytes: bytes as u32,
                sent_at: Time::from_secs_f64(left),
                tag: 0,
                retransmitted: false,
                app_limited: self.app_limited,
                ce: false,
                received_at: None,
            };
            let ack = Ack {
                packets: &[acked],
                bytes,
                delivered: self.delivered,
                una: self.delivered,
                next: self.sent,
                in_flight: self.flying.len() as u64 * MSS,
                ..crate::testing::ack(Time::from_secs_f64(at), rtt, 1)
            };
            self.start.on_ack(&ack, &mut self.window);
        }

        /// What the last RTT shows of the queue, in products.
        fn queue(&self) -> f64 {
            self.rtt / self.base - 1.0
        }
    }

    #[test]
    fn nothing_lags_where_nothing_is_full() {
        for packets in [1, 2, 64] {
            let mut link = Link::new("", 0.1, 0.0);
            for _ in 0..400 {
                link.acknowledge(packets);
                assert!(link.start.lag < 1e-9, "{packets}: {}", link.start.lag);
                link.window.cwnd = link.window.cwnd.min(20_000.0);
            }
            assert!(link.window.starting());
        }
    }

    /// The lag depends on the queue that the RTT shows alone: 0.26 at 1.66 BDP, 0.35 at 2.1 to 2.3, and a bin more. What waits by then
    /// is more than twice that: as much as the window has grown by since.
    #[test]
    fn a_queue_of_one_and_two_thirds_of_a_product_ends_it() {
        for (spec, low, high) in [("", 1.6, 1.95), (",search_threshold=0.35", 2.0, 2.5)] {
            let mut link = Link::new(spec, 0.1, 1e-4);
            let mut at_a_product = None;
            while link.window.starting() && link.start.drain.is_none() {
                link.acknowledge(1);
                assert!(link.queue() < 4.0);
                if link.queue() >= 1.0 {
                    at_a_product.get_or_insert(link.start.lag);
                }
            }
            let lag = at_a_product.unwrap();
            assert!((0.05..=0.12).contains(&lag), "a tenth, or what it was a bin before: {lag}");
            assert!((low..=high).contains(&link.queue()), "{spec}: {}", link.queue());
        }
    }

    #[test]
    fn the_queue_drains_by_two_for_three_to_what_the_path_holds() {
        let mut link = Link::new("", 0.1, 1e-4);
        while link.start.drain.is_none() {
            link.acknowledge(1);
        }
        let (flight, target) = (link.flying.len() as f64, link.start.drain.unwrap().target);
        let mut acknowledged = 0.0;
        while link.window.starting() {
            link.acknowledge(1);
            acknowledged += 1.0;
            assert!(link.window.cwnd >= target);
        }
        assert!((acknowledged - 1.5 * (flight - target)).abs() <= 4.0, "{acknowledged} of {flight} to {target}");
        assert_eq!(link.window.ssthresh, link.window.cwnd);
        // A product of a thousand packets: three bins are 1.05 of it.
        assert!((target - 1_050.0).abs() < 30.0, "{target}");
    }

    #[test]
    fn without_a_drain_the_window_stays() {
        let mut link = Link::new(",search_drain=off", 0.1, 1e-4);
        while link.window.starting() {
            link.acknowledge(1);
        }
        assert!(link.window.cwnd > 2_000.0);
    }

    #[test]
    fn an_rtt_beyond_what_is_kept_is_not_judged() {
        // Bins of 0.35 of the first RTT, fifteen or forty of them.
        for (extra, seen, blind) in [(15, 4.5, 5.8), (40, 13.0, 14.8)] {
            let mut link = Link::new(&format!(",search_threshold=0.9,search_extra={extra}"), 0.1, 1e-4);
            while link.rtt < seen * 0.1 {
                link.acknowledge(1);
            }
            assert!(link.start.lag > 0.3, "{extra}: {}", link.start.lag);
            while link.rtt < blind * 0.1 {
                link.acknowledge(1);
            }
            assert_eq!(link.start.lag, 0.0, "{extra}");
            assert!(link.window.starting());
        }
    }

    #[test]
    fn what_the_application_limits_is_not_judged() {
        let mut link = Link::new("", 0.1, 1e-4);
        link.app_limited = true;
        for _ in 0..12_000 {
            link.acknowledge(1);
            assert!(link.start.drain.is_none());
        }
    }

    /// A satellite whose distance changes: between 400 and 800 ms in a second.
    #[test]
    fn an_rtt_that_swings_below_capacity_does_not_end_it() {
        let mut link = Link::new("", 0.6, 1e-6);
        for number in 0..60_000 {
            link.base = 0.6 + 0.2 * libm::sin(std::f64::consts::PI * link.now);
            link.acknowledge(1);
            link.window.cwnd = link.window.cwnd.min(5_000.0);
            assert!(link.start.drain.is_none(), "the {number}th packet: {}", link.start.lag);
        }
        assert!(link.now > 8.0);
    }

    /// Of flows that send forty bursts of five packets, with these pauses in round trips, how many leave.
    fn left_between_bursts(spec: &str, pause: impl Fn(f64) -> f64) -> usize {
        use rand::{RngExt, SeedableRng};
        let leaves = |seed: u64| {
            let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
            let mut link = Link { app_limited: true, has: 0, ..Link::new(spec, 0.1, 0.0) };
            let mut at = 0.0;
            for _ in 0..40 {
                while link.flying.front().is_some_and(|(due, _)| *due <= at) {
                    link.acknowledge(1);
                }
                (link.now, link.free_at) = (at, at);
                link.has += 5 * MSS;
                link.fill();
                at += link.base * pause(random.random_range(1e-9..1.0));
            }
            link.start.drain.is_some() || !link.window.starting()
        };
        (0..200).filter(|seed| leaves(*seed)).count()
    }

    #[test]
    fn bursts_of_an_application_do_not_end_it() {
        let random = |draw: f64| -libm::log(draw);
        assert_eq!(left_between_bursts("", random), 0);
        // Without the guard few packets in a bin are taken for a lag, unless they come at equal pauses.
        let left = left_between_bursts(",search_guard=off", random);
        assert!(left > 40, "{left}");
        assert_eq!(left_between_bursts(",search_guard=off", |_| 1.0), 0);
    }

    #[test]
    fn a_silence_of_a_span_forgets_everything() {
        let mut link = Link::new("", 0.1, 1e-4);
        for _ in 0..100 {
            link.acknowledge(1);
        }
        let index = link.start.bins.unwrap().index;
        assert!(index > 0);
        for (silence, kept) in [(9.0, true), (12.0, false)] {
            let mut link = Link { flying: link.flying.clone(), start: link.start, ..Link::new("", 0.1, 1e-4) };
            link.now = 10.0;
            link.delivered = 100 * MSS;
            link.sent = 300 * MSS;
            let end = link.start.bins.unwrap().end.as_secs_f64();
            let at = end + (silence - 0.5) * 0.035;
            let ack = Ack {
                delivered: link.delivered,
                next: link.sent,
                ..crate::testing::ack(Time::from_secs_f64(at), Nanos::from_millis(100), 1)
            };
            link.start.on_ack(&ack, &mut link.window);
            assert_eq!(link.start.bins.unwrap().index > index, kept, "{silence} bins");
        }
    }
}
