use super::*;
use crate::controller::{Carrier, Hop};
use crate::registry::Spec;
use crate::testing::{ack, fill};

const BASE: Nanos = Nanos::from_millis(20);
const MSS: u64 = 1448;
/// 100 Mbit/s.
const CAPACITY: Rate = Rate::from_bytes_per_sec(12_500_000);
/// Bytes of half a path.
const HALF: u64 = 125_000;

/// A flow of which a test says everything.
struct Bench {
    controller: Hpcc,
    now: Time,
    next: u64,
}

fn bench(max_stage: f64, flows: f64) -> Bench {
    let env = Env::default();
    let params: Spec = "hpcc".parse().unwrap();
    let cubic =
        WindowController::new(&env, start_up(params.params(), &env), Cubic::new(&env, Settings::of(params.params())));
    let tuning = Tuning { eta: 0.95, max_stage, flows, ramp: 2.0, base: BASE };
    let mut bench = Bench { controller: Hpcc::new(&env, cubic, tuning), now: Time::from_millis(1_000), next: 0 };
    bench.acknowledge();
    bench
}

fn hop(queue: u64) -> Hop {
    Hop { id: 1, queue_bytes: Some(queue), capacity: Some(CAPACITY), flows: Some(1), ..Hop::default() }
}

impl Bench {
    /// All that was sent has arrived, at the link's rate, and as much is on its way.
    fn acknowledge(&mut self) {
        let rate = crate::RateSample {
            delivered: (CAPACITY.as_bytes_per_sec() as f64 / 50.0 / (1.0 + OVERHEAD / MSS as f64)).round() as u64,
            interval: BASE,
            prior_delivered: 0,
            app_limited: false,
            retransmission: false,
        };
        let una = self.next;
        self.next += 100 * MSS;
        fill(&mut self.controller, self.now);
        let acked = ack(self.now, BASE, 10);
        self.controller.on_ack(&Ack { rate: Some(rate), una, next: self.next, ..acked });
    }

    /// A report after `ms`, of a packet sent at this position.
    fn report(&mut self, ms: u64, seq: Option<u64>, hops: &[Hop]) {
        self.now += Nanos::from_millis(ms);
        fill(&mut self.controller, self.now);
        let packet = seq.map(|seq| Carrier { seq, sent_at: self.now - BASE, tag: 0 });
        self.controller.on_telemetry(&Telemetry {
            now: self.now,
            packet,
            verdict: Cause::Unknown,
            fresh_for: Nanos::from_millis(500),
            hops,
        });
    }

    /// It steers, with this window as reference and nothing of a start left.
    fn steering(mut self, window: f64) -> Self {
        self.report(20, None, &[hop(0)]);
        self.report(20, None, &[hop(0)]);
        let hpcc = &mut self.controller;
        assert!(hpcc.steering);
        (hpcc.starting, hpcc.stage, hpcc.window, hpcc.reference) = (false, 0.0, window, window);
        hpcc.restart_reference(self.now);
        self
    }

    /// The additive step in packets.
    fn step(&self) -> f64 {
        250_000.0 / (MSS as f64 + OVERHEAD) * 0.05 / self.controller.tuning.flows
    }
}

fn near(value: f64, wanted: f64) {
    assert!((value / wanted - 1.0).abs() < 1e-3, "{value} and not {wanted}");
}

#[test]
fn the_window_follows_the_fullest_link() {
    // One flow of which the link's rate arrives: u is 1 without a queue.
    let mut bench = bench(5.0, 16.0).steering(100.0);
    let step = bench.step();
    bench.report(20, None, &[hop(0)]);
    near(bench.controller.newest, 1.0);
    near(bench.controller.window, 95.0 + step);
    // Half a path waits, twice.
    let mut bench = self::bench(5.0, 16.0).steering(100.0);
    bench.report(20, None, &[hop(HALF)]);
    (bench.controller.window, bench.controller.reference) = (100.0, 100.0);
    bench.report(20, None, &[hop(HALF)]);
    near(bench.controller.newest, 1.5);
    near(bench.controller.window, 63.333 + step);
    // What has gone is not held against the flow, and the fullest of two links counts.
    bench.report(20, None, &[hop(1_000_000)]);
    bench.report(20, None, &[hop(0)]);
    near(bench.controller.newest, 1.0);
    let other = Hop { id: 2, ..hop(HALF) };
    bench.report(20, None, &[hop(0), other]);
    bench.report(20, None, &[hop(0), other]);
    near(bench.controller.newest, 1.5);
}

#[test]
fn reports_of_one_round_trip_are_answered_once() {
    let mut bench = bench(5.0, 16.0).steering(100.0);
    let step = bench.step();
    let before = bench.controller.updated;
    for seq in [before - 2 * MSS, before - MSS] {
        bench.report(20, Some(seq), &[hop(0)]);
        near(bench.controller.window, 95.0 + step);
        near(bench.controller.reference, 100.0);
    }
    bench.report(20, Some(before), &[hop(0)]);
    near(bench.controller.reference, 95.0 + step);
    bench.report(20, Some(before - MSS), &[hop(0)]);
    near(bench.controller.window, 0.95 * (95.0 + step) + step);
}

#[test]
fn five_additive_steps_are_followed_by_one_that_follows_the_utilisation() {
    let mut bench = bench(5.0, 16.0).steering(50.0);
    bench.controller.utilisation = 0.5;
    // Half of what the link takes arrives.
    bench.controller.links.deliver(CAPACITY.mul_f64(0.5));
    let step = bench.step();
    for number in 1..=5 {
        bench.report(20, None, &[hop(0)]);
        near(bench.controller.window, 50.0 + f64::from(number) * step);
    }
    let before = bench.controller.window;
    bench.report(20, None, &[hop(0)]);
    near(bench.controller.window, (before * 1.9 + step).min(2.0 * before));
    bench.controller.links.deliver(CAPACITY.mul_f64(0.1));
    bench.controller.stage = 5.0;
    let before = bench.controller.reference;
    bench.report(200, None, &[hop(0)]);
    near(bench.controller.window, 2.0 * before);
}

#[test]
fn a_report_weighs_as_long_as_it_is_of_and_a_round_trip_at_most() {
    for (ms, weight) in [(2, 0.1), (100, 1.0)] {
        let mut bench = bench(5.0, 16.0).steering(100.0);
        bench.controller.utilisation = 0.0;
        bench.report(ms, None, &[hop(0)]);
        near(bench.controller.utilisation, weight);
    }
}

#[test]
fn a_clock_that_stands_or_another_path_skips_one_report() {
    let at = |ms: u64| Hop { arrived_at: Some(Time::from_millis(ms)), ..hop(0) };
    let mut bench = bench(5.0, 16.0).steering(100.0);
    bench.report(20, None, &[at(500)]);
    for hops in [[at(500)], [at(400)], [Hop { id: 9, ..at(420) }]] {
        let before = bench.controller.window;
        bench.report(20, None, &hops);
        assert_eq!(bench.controller.window, before);
        assert!(bench.controller.steering);
    }
    bench.report(20, None, &[Hop { id: 9, ..at(440) }]);
    near(bench.controller.newest, 1.0);
}

#[test]
fn what_a_hop_does_not_say_is_left_to_others_and_then_to_cubic() {
    let silent = Hop { id: 7, ..Hop::default() };
    let mut bench = bench(5.0, 16.0).steering(100.0);
    bench.report(20, None, &[silent, hop(0)]);
    bench.report(20, None, &[silent, hop(0)]);
    near(bench.controller.newest, 1.0);
    for _ in 0..30 {
        bench.report(20, None, &[silent]);
        bench.acknowledge();
    }
    assert!(!bench.controller.steering, "no link for longer than a report counts");
}

#[test]
fn losses_of_the_medium_are_spared_and_others_answered() {
    for (cause, left) in [(Cause::Medium, 100.0), (Cause::Unknown, 70.0), (Cause::Policer, 70.0)] {
        let mut bench = bench(5.0, 16.0).steering(100.0);
        let packets = [Lost { seq: 0, bytes: 1448, sent_at: bench.now, tag: 0, cause }];
        bench.controller.on_loss(&Loss {
            now: bench.now,
            packets: &packets,
            bytes: MSS,
            prior_in_flight: 100 * MSS,
            in_flight: 99 * MSS,
            new_episode: true,
        });
        near(bench.controller.window, left);
    }
}
