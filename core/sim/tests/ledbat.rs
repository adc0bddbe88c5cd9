//! LEDBAT and LEDBAT++ in a closed loop: alone, beside others, and beside themselves. 10 Mbit/s unless said.

use std::collections::VecDeque;

use crate::common::{Dumbbell, RandomLoss, StepDelay, Tampering, bulk, mean, share, tampered, variable};
use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{Flow, Outcome, Via, Workload};
use paceline_path::queue::QueueBound;
use rand::SeedableRng;
use rand_pcg::Pcg64;

fn path(rtt_ms: u64, bdp: f64, flows: Vec<Flow>) -> Dumbbell {
    let packets = (bdp * 10e3 * rtt_ms as f64 / 8.0 / crate::common::WIRE) as u64;
    Dumbbell { limit: QueueBound::packets(packets), ..Dumbbell::new(10.0, rtt_ms, flows) }
}

fn via(name: &str) -> Via {
    if name.starts_with("ledbat++") || !name.starts_with("ledbat") { Via::tcp(None) } else { Via::udp() }
}

fn flow(name: &str, start_s: u64) -> Flow {
    Flow { start: Time::from_millis(1_000 * start_s), ..bulk(name, via(name)) }
}

/// Milliseconds that the queue holds, each millisecond.
fn queue_ms(outcome: &Outcome) -> Vec<f64> {
    outcome.series.as_ref().unwrap().queue_bytes.iter().map(|bytes| *bytes as f64 * 8.0 / 10e3).collect()
}

/// The share of the first flow, and of the second, in the last half minute of a minute and a half.
fn shares(bdp: f64, rtt_ms: u64, flows: Vec<Flow>) -> [f64; 2] {
    let outcome = path(rtt_ms, bdp, flows).run(90);
    [0, 1].map(|flow| share(&outcome, flow, 60_000, 90_000))
}

#[test]
fn alone_they_fill_the_link_and_the_queue_to_their_target() {
    for (name, least, queue) in [("ledbat", 0.99, 90.0..=115.0), ("ledbat++", 0.85, 20.0..=60.0)] {
        let outcome = path(50, 4.0, vec![flow(name, 0)]).run(60);
        let used = share(&outcome, 0, 5_000, 60_000);
        assert!(used >= least, "{name}: {used}");
        let held = mean(&queue_ms(&outcome)[5_000..]);
        assert!(queue.contains(&held), "{name}: {held} ms");
        assert_eq!(outcome.flows[0].packets_dropped, 0, "{name}");
    }
}

/// Of the time between slowdowns; what waits is then at most a sixth above the target.
#[test]
fn between_slowdowns_the_plus_fills_the_link_and_holds_its_target() {
    let outcome = path(50, 4.0, vec![flow("ledbat++", 0)]).run(60);
    let flow = &outcome.series.as_ref().unwrap().flows[0];
    let (phase, queue) = (variable(flow, "phase"), queue_ms(&outcome));
    let steady: Vec<usize> = (5_000..60_000).filter(|ms| phase[*ms] == 1.0).collect();
    let used = mean(&steady.iter().map(|ms| flow.throughput_mbps[*ms]).collect::<Vec<_>>()) / 10.0;
    assert!(used >= 0.95, "{used}");
    let mut waits: Vec<f64> = steady.iter().map(|ms| queue[*ms]).collect();
    waits.sort_by(f64::total_cmp);
    let most = waits[waits.len() * 99 / 100];
    assert!(most <= 70.0, "{most} ms");
}

/// A call of 1 Mbit/s: the background adds to the delay of 99 % of its packets no more than its target, and a tenth.
#[test]
fn a_call_is_delayed_by_little_more_than_the_target() {
    let call = || Flow { workload: Workload::Rate(Rate::from_mbps(1.0)), ..bulk("reno", Via::udp()) };
    let delay = |flows: Vec<Flow>| path(20, 4.0, flows).run(60).flows[0].queue.quantile_ms(0.99).unwrap();
    let (alone, beside) = (delay(vec![call()]), delay(vec![call(), flow("ledbat++", 0)]));
    assert!(beside - alone <= 66.0, "{alone} ms alone, {beside} ms beside it");
}

#[test]
fn a_tenth_of_the_time_goes_into_slowdowns_that_empty_the_queue() {
    let outcome = path(50, 4.0, vec![flow("ledbat++", 0)]).run(60);
    let phase = variable(&outcome.series.as_ref().unwrap().flows[0], "phase");
    let slow = phase[5_000..].iter().filter(|phase| **phase >= 2.0).count() as f64 / 55_000.0;
    assert!((0.05..=0.1).contains(&slow), "{slow}");
    let queue = queue_ms(&outcome);
    let mut emptied = 0;
    for ms in 5_001..60_000 {
        if phase[ms] == 2.0 && phase[ms - 1] != 2.0 {
            let held = phase[ms..].iter().take_while(|phase| **phase == 2.0).count();
            assert!(queue[ms..ms + held].iter().any(|queue| *queue < 1.2), "at {ms} ms");
            emptied += 1;
        }
    }
    assert!(emptied >= 3, "{emptied}");
}

/// Beside Reno over a queue of a BDP LEDBAT has half of the link, and beside all LEDBAT++ less than a third; where there is room for its
/// target much less.
#[test]
fn the_plus_gives_way_where_ledbat_does_not() {
    for (other, bdp, most) in [("reno", 1.0, 0.33), ("cubic", 1.0, 0.33), ("reno", 4.0, 0.15), ("cubic", 4.0, 0.15)] {
        let [plus, _] = shares(bdp, 20, vec![flow("ledbat++", 0), flow(other, 0)]);
        assert!((0.01..=most).contains(&plus), "beside {other}, {bdp} BDP: {plus}");
    }
    let [plain, _] = shares(1.0, 20, vec![flow("ledbat", 0), flow("reno", 0)]);
    assert!(plain >= 0.4, "{plain}");
}

/// The second flow finds the first one's queue on the path. LEDBAT keeps it for the path, and takes four fifths; LEDBAT++ finds out.
#[test]
fn a_latecomer_takes_no_more_than_its_part() {
    for bdp in [4.0, 10.0] {
        let late = |name| shares(bdp, 50, vec![flow(name, 0), flow(name, 20)]);
        let [first, second] = late("ledbat++");
        assert!((0.4..=0.6).contains(&(second / (first + second))), "{bdp} BDP: {first} and {second}");
        let [first, second] = late("ledbat");
        assert!(second / (first + second) >= 0.6, "LEDBAT's known failure, {bdp} BDP: {first} and {second}");
    }
}

/// The datapath repairs, and no controller times a retransmission. Losses at random cost LEDBAT as much as they cost Reno; LEDBAT++, which grows
/// by a third of a packet here, has the root of a third of that.
#[test]
fn losses_at_random_bring_no_timeouts_of_its_own() {
    for probability in [0.01, 0.05] {
        let run = |name: &str| {
            let before = Box::new(RandomLoss { probability, rng: Pcg64::seed_from_u64(5) });
            let outcome = Dumbbell { before: Some(before), ..path(50, 4.0, vec![bulk(name, Via::tcp(None))]) }.run(60);
            (share(&outcome, 0, 5_000, 60_000), outcome)
        };
        let (reno, _) = run("reno");
        for (name, least) in [("ledbat", 0.7), ("ledbat++", 0.5)] {
            let (own, outcome) = run(name);
            assert!(own >= least * reno, "{name}, {probability}: {own} beside Reno's {reno}");
            let flow = &outcome.flows[0].sender;
            let (lost, timeouts) = (flow.retransmits as f64, flow.timeouts as f64);
            assert!(timeouts <= 2.0 + lost * 0.02, "{name}, {probability}: {timeouts} timeouts, {lost} losses");
        }
    }
}

/// A longer path is taken for a queue, as long as the shorter one is remembered; a shorter one is known at once.
#[test]
fn a_longer_path_is_yielded_to_and_a_shorter_one_known_at_once() {
    let window = |before: u64, after: u64, name: &str| {
        let delay = StepDelay {
            before: Nanos::from_millis(before),
            after: Nanos::from_millis(after),
            at: Time::from_millis(30_000),
            line: VecDeque::new(),
        };
        let outcome = Dumbbell { delay: Some(Box::new(delay)), ..path(50, 4.0, vec![bulk(name, via(name))]) }.run(90);
        let cwnd = variable(&outcome.series.as_ref().unwrap().flows[0], "cwnd_packets");
        (mean(&cwnd[20_000..30_000]), mean(&cwnd[60_000..90_000]))
    };
    for name in ["ledbat", "ledbat++"] {
        // A longer path of the same rate would take a window of 33 packets more.
        let (before, after) = window(25, 65, name);
        assert!(after < before + 20.0, "{name}: {before} packets before, {after} after");
    }
    let (before, after) = window(65, 25, "ledbat++");
    assert!((0.4..0.95).contains(&(after / before)), "{before} packets before, {after} after");
}

/// It begins in the queue of a flow that ends after 10 s, and takes it for the path. After two slowdowns it knows to a fifth how much it adds.
#[test]
fn a_queue_that_it_began_in_is_forgotten() {
    let first = Flow { stop: Some(Time::from_millis(10_000)), ..bulk("fixed:window=80", Via::udp()) };
    let outcome = path(50, 4.0, vec![first, flow("ledbat++", 5)]).run(60);
    let series = &outcome.series.as_ref().unwrap().flows[1];
    let (phase, base) = (variable(series, "phase"), variable(series, "base_ms"));
    assert!(base[9_000] > 75.0, "{} ms", base[9_000]);
    let ramps: Vec<usize> = (10_001..60_000).filter(|ms| phase[*ms] == 1.0 && phase[*ms - 1] == 3.0).collect();
    let queue = queue_ms(&outcome);
    let adds = mean(&queue[ramps[1]..]);
    let believes = mean(&variable(series, "queued_ms")[ramps[1]..]);
    assert!((believes / adds - 1.0).abs() < 0.2, "{believes} ms, and it is {adds} ms");
}

/// 100 ppm are 60 ms in ten minutes: a queue to who trusts the receiver's clock. Round trips know only one clock.
#[test]
fn clocks_that_run_apart_cost_what_trusts_them() {
    let used = |name: &str| {
        let flow = Flow { arrivals: true, ..bulk(&tampered(name, Tampering::Drifts(100.0)), via(name)) };
        let outcome = path(50, 4.0, vec![flow]).run(600);
        (share(&outcome, 0, 500_000, 600_000), mean(&queue_ms(&outcome)[500_000..]))
    };
    let [follows, plus, trusts] = ["ledbat", "ledbat++", "ledbat:skew=off"].map(used);
    assert!(follows.0 >= 0.8 && plus.0 >= 0.8, "{follows:?} {plus:?}");
    // Of a target of 100 ms what the clocks are apart is missing.
    assert!(trusts.1 < follows.1 - 30.0, "{trusts:?}, {follows:?}");
}

/// Fifteen starts beside Reno: who goes by the round trip has less than 40 % in all but one at most.
#[test]
fn the_round_trip_gives_way_whenever_it_begins() {
    let gave_way = |name: &str| {
        let yields = |number: u64| {
            let own = Flow { start: Time::from_millis(137 * number), ..bulk(name, via(name)) };
            let [own, other] = shares(1.0, 20, vec![own, flow("reno", 1)]);
            own / (own + other) < 0.4
        };
        (0..15).filter(|number| yields(*number)).count()
    };
    let (plus, plain) = (gave_way("ledbat++"), gave_way("ledbat"));
    assert!(plus >= 14 && plain < plus, "{plus} and {plain} of 15");
}
