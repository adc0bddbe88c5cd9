//! The law on a fluid link with the kernel's pacing above it.

use std::collections::VecDeque;

use super::*;

const MSS: u32 = 1448;
const BURST_BYTES: u64 = 2 * MSS as u64;
/// Steps of a hundredth of the shortest look.
const STEP: Nanos = Nanos::from_micros(50);

/// A sender whose kernel paces by the law, and a link with a queue without end. Times are since its beginning.
struct Model {
    window: u64,
    rtt: Nanos,
    gap: Nanos,
    /// Of the link, in bytes a second.
    capacity: u64,
    now: Nanos,
    look_at: Nanos,
    /// Looks come up to so late, in turn.
    late: Vec<Nanos>,
    looks: usize,
    looked_at: Nanos,
    delivery: Rate,
    /// As set, and as the kernel goes by: a higher one from the next acknowledgement on.
    set: Rate,
    paced: Rate,
    burst_at: Nanos,
    sent: u64,
    left: f64,
    /// What has left the link, and when it is acknowledged.
    acks: VecDeque<(Nanos, u64)>,
    acked: u64,
    /// Acknowledged at the look before.
    seen: u64,
}

impl Model {
    fn new(mbps: f64, rtt: u64, window: u64) -> Self {
        let (capacity, rtt) = (Rate::from_mbps(mbps).as_bytes_per_sec(), Nanos::from_millis(rtt));
        Self {
            window,
            rtt,
            gap: Nanos::from_millis(5).max(rtt.mul_div(1, 16)),
            capacity,
            now: Nanos::ZERO,
            look_at: Nanos::ZERO,
            late: vec![Nanos::ZERO],
            looks: 0,
            looked_at: Nanos::ZERO,
            delivery: Rate::ZERO,
            set: Rate::INFINITY,
            paced: Rate::from_bytes_in(window, rtt),
            burst_at: Nanos::ZERO,
            sent: 0,
            left: 0.0,
            acks: VecDeque::new(),
            acked: 0,
            seen: 0,
        }
    }

    fn flight(&self) -> u64 {
        self.sent - self.acked
    }

    fn look(&mut self) {
        self.delivery = average(self.delivery, self.acked - self.seen, self.now - self.looked_at, self.rtt, MSS);
        (self.seen, self.looked_at) = (self.acked, self.now);
        let law = Law {
            window: self.window,
            flight: self.flight(),
            pacing: Rate::INFINITY,
            delivery: self.delivery,
            usual: Rate::from_bytes_per_sec(self.capacity.max(1_000_000)),
            gap: self.gap,
            rtt: self.rtt,
            mss: MSS,
        };
        self.set = law.rate();
        self.paced = self.paced.min(self.set);
        self.look_at = self.now + self.gap + self.late[self.looks % self.late.len()];
        self.looks += 1;
    }

    /// Runs for `span`; says the smallest and the largest flight.
    fn run(&mut self, span: u64) -> (u64, u64) {
        let until = self.now + Nanos::from_millis(span);
        let (mut least, mut most) = (u64::MAX, 0);
        while self.now < until {
            self.now += STEP;
            while let Some(&(_, upto)) = self.acks.front().filter(|(at, _)| *at <= self.now) {
                self.acked = upto;
                self.paced = self.set;
                self.acks.pop_front();
            }
            if self.now >= self.look_at {
                self.look();
            }
            while self.now >= self.burst_at {
                self.sent += BURST_BYTES;
                self.burst_at = self.now.max(self.burst_at) + self.paced.time_for(BURST_BYTES);
            }
            let before = self.left as u64 / BURST_BYTES;
            self.left = (self.left + self.capacity as f64 * STEP.as_secs_f64()).min(self.sent as f64);
            let after = self.left as u64 / BURST_BYTES;
            if after > before {
                self.acks.push_back((self.now + self.rtt, after * BURST_BYTES));
            }
            least = least.min(self.flight());
            most = most.max(self.flight());
        }
        (least, most)
    }
}

#[test]
fn the_flight_becomes_the_window_and_the_link_is_used() {
    // From the smallest window of a slow path to a fast one with a queue of half a round trip; looks on time and late.
    for (mbps, rtt, window) in [(12.0, 20, 40_000), (12.0, 100, 200_000), (40.0, 20, 130_000), (1.0, 40, 12_000)] {
        for late in [vec![0], vec![0, 1, 0, 0, 4, 0, 9]] {
            let mut model = Model::new(mbps, rtt, window);
            model.late = late.iter().map(|&late| Nanos::from_millis(late)).collect();
            model.run(20 * rtt);
            let acked = model.acked;
            let (least, most) = model.run(50 * rtt);
            let used = (model.acked - acked) as f64 / (model.capacity as f64 * 0.05 * rtt as f64);
            // What arrives within the longest time without a look, and two bursts.
            let slack = model.capacity * 14 / 1000 + 2 * BURST_BYTES;
            let text = format!("{mbps} Mbit/s, {rtt} ms, late {late:?}: flight {least} to {most}, used {used:.3}");
            assert!(most <= window + slack, "{text}");
            assert!(least + slack >= window, "{text}");
            assert!(used > 0.97, "{text}");
        }
    }
}

#[test]
fn an_outage_lets_out_one_looks_worth_and_a_burst_now_and_then() {
    for (mbps, rtt, window) in [(12.0, 20, 40_000), (5.0, 40, 30_000), (12.0, 100, 200_000)] {
        let mut model = Model::new(mbps, rtt, window);
        model.run(20 * rtt);
        let capacity = std::mem::replace(&mut model.capacity, 0);
        let (_, most) = model.run(1000);
        let look = Rate::from_bytes_per_sec(capacity).bytes_in(model.gap);
        // By the rule window / RTT, corrected by up to a quarter, it were some 25 windows.
        // TCP's own timeout, after which nothing new leaves, is not in the model.
        let bursts = most.saturating_sub(window + look).div_ceil(BURST_BYTES);
        assert!(bursts <= 30, "{mbps} Mbit/s, {rtt} ms: {bursts} bursts");
    }
}

#[test]
fn after_an_outage_the_flow_is_back_within_two_of_its_longest_waits() {
    for (mbps, rtt, window) in [(12.0, 20, 40_000), (5.0, 40, 30_000), (12.0, 100, 200_000)] {
        let mut model = Model::new(mbps, rtt, window);
        model.run(20 * rtt);
        let capacity = std::mem::replace(&mut model.capacity, 0);
        model.run(1000);
        model.capacity = capacity;
        model.run(200 + rtt);
        let (acked, from) = (model.acked, model.now);
        model.run(10 * rtt);
        let used = (model.acked - acked) as f64 / (capacity as f64 * (model.now - from).as_secs_f64());
        assert!(used > 0.9, "{mbps} Mbit/s, {rtt} ms: {used:.3}");
    }
}

#[test]
fn a_window_cut_in_half_is_reached_as_fast_as_the_link_drains() {
    let mut model = Model::new(12.0, 20, 60_000);
    model.run(400);
    model.window = 30_000;
    // 30 kB take 20 ms.
    model.run(35);
    let (least, most) = model.run(200);
    assert!(most <= 30_000 + 4 * BURST_BYTES && least > 15_000, "{least} to {most}");
}

#[test]
fn it_is_never_zero_nor_above_the_pacing_rate() {
    let law = Law {
        window: 30_000,
        flight: 20_000,
        pacing: Rate::from_mbps(3.0),
        delivery: Rate::from_mbps(5.0),
        usual: Rate::ZERO,
        gap: Nanos::from_millis(5),
        rtt: Nanos::from_millis(20),
        mss: MSS,
    };
    assert_eq!(law.rate(), Rate::from_mbps(3.0));
    for window in [0, 1, u64::MAX] {
        for flight in [0, 1, u64::MAX] {
            for delivery in [Rate::ZERO, Rate::from_bytes_per_sec(1), Rate::INFINITY] {
                for pacing in [Rate::ZERO, Rate::INFINITY] {
                    let law = Law { window, flight, delivery, pacing, gap: Nanos::ZERO, rtt: Nanos::ZERO, ..law };
                    assert!(law.rate() > Rate::ZERO, "{law:?}");
                }
            }
        }
    }
}

#[test]
fn the_delivery_rate_falls_with_the_silence() {
    let (look, rtt) = (Nanos::from_millis(5), Nanos::from_millis(40));
    let mut rate = average(Rate::ZERO, 5000, look, rtt, MSS);
    assert_eq!(rate, Rate::from_bytes_per_sec(1_000_000));
    for _ in 0..200 {
        rate = average(rate, 0, look, rtt, MSS);
    }
    // Four bursts in the second.
    let bursts = rate.as_bytes_per_sec() as f64 / BURST_BYTES as f64;
    assert!((3.5..5.0).contains(&bursts), "{bursts}");
    assert_eq!(average(rate, 7, Nanos::ZERO, rtt, MSS), rate);
}
