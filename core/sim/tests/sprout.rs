//! Sprout in a closed loop (Winstein, Sivaraman, Balakrishnan, NSDI 2013): one bottleneck, feedback every tick.
//!
//! Expected queues are those of the forecast: what the link is believed to deliver with 95 % certainty within 100 ms
//! is in the network; tolerance 20 %. Rates are such that ticks and packets do not lock into one phase.

use std::sync::Arc;

use crate::common::{Dumbbell, RandomLoss, bulk, share, variable};
use paceline_cc::{Rate, Time};
use paceline_experiment::{Outcome, Via};
use paceline_path::{Schedule, Synth, Trace};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// A link of so many full packets a second.
fn dumbbell(controller: &str, packets: f64, rtt: u64) -> Dumbbell {
    Dumbbell::new(packets * 0.012, rtt, vec![bulk(controller, Via::udp())])
}

fn queue_ms(outcome: &Outcome, from_ms: usize, to_ms: usize, quantile: f64) -> f64 {
    let series = &outcome.series.as_ref().unwrap().flows[0];
    let mut delays: Vec<f64> = series.queue_ms[from_ms..to_ms].iter().filter_map(|value| *value).collect();
    delays.sort_by(f64::total_cmp);
    delays[(quantile * delays.len() as f64) as usize]
}

#[test]
fn a_short_path_is_full_with_a_cautious_queue() {
    for (packets, rtt, tail) in
        [(300.0, 20, 44.0), (500.0, 20, 54.0), (800.0, 20, 62.0), (500.0, 40, 34.0), (800.0, 40, 42.0)]
    {
        let outcome = dumbbell("sprout:idle=exact", packets, rtt).run(30);
        let used = share(&outcome, 0, 10_000, 30_000);
        assert!(used >= 0.98, "{packets}/s, {rtt} ms: {used}");
        let got = queue_ms(&outcome, 10_000, 30_000, 0.95);
        assert!((got / tail - 1.0).abs() <= 0.2, "{packets}/s, {rtt} ms: {got} is not {tail}");
    }
}

#[test]
fn the_average_fills_its_hundred_milliseconds() {
    for packets in [100.0, 300.0, 500.0, 800.0] {
        let outcome = dumbbell("sprout-ewma", packets, 20).run(30);
        assert!(share(&outcome, 0, 10_000, 30_000) >= 0.98);
        let got = queue_ms(&outcome, 10_000, 30_000, 0.95);
        assert!((got / 78.0 - 1.0).abs() <= 0.2, "{packets}/s: {got}");
    }
}

/// The look-ahead holds the whole loop: the price of its caution. As published, at the end of each tick, and by default.
#[test]
fn a_long_path_costs_throughput_unless_it_looks_further_ahead() {
    for (packets, rtt, published, default) in [
        (300.0, 60, 0.30, 0.58),
        (500.0, 60, 0.50, 0.72),
        (800.0, 60, 0.72, 0.85),
        (300.0, 80, 0.27, 0.47),
        (500.0, 80, 0.38, 0.56),
        (800.0, 80, 0.43, 0.59),
    ] {
        let used = |controller| share(&dumbbell(controller, packets, rtt).run(30), 0, 10_000, 30_000);
        for (controller, expected) in [("sprout:idle=exact,feedback=0", published), ("sprout", default)] {
            let got = used(controller);
            assert!((got / expected - 1.0).abs() <= 0.2, "{controller}, {packets}/s, {rtt} ms: {got}, not {expected}");
        }
        let further = used("sprout:feedback=0,lookahead=7");
        assert!(further >= 0.9, "{packets}/s, {rtt} ms: {further}");
    }
}

/// Links that follow the model by which it forecasts: what is foreseen with 95 % certainty leaves the queue within 100 ms, and a
/// tenth more for the tick in which that is found out.
#[test]
fn a_link_of_its_own_model_is_used_and_its_queue_is_bounded() {
    for (mbps, seed) in [(3.0, 1), (3.0, 2), (3.0, 3), (6.0, 1), (6.0, 2)] {
        let synth = Synth { mean: Rate::from_mbps(mbps), seed, ..Synth::default() };
        let mut dumbbell = dumbbell("sprout", 500.0, 20);
        dumbbell.schedule = Schedule::from_trace(Arc::new(synth.trace("own").unwrap()));
        let outcome = dumbbell.run(60);
        let (used, queue) = (share(&outcome, 0, 0, 60_000), queue_ms(&outcome, 0, 60_000, 0.95));
        assert!(used >= 0.9, "{mbps} Mbit/s, seed {seed}: {used}");
        assert!(queue <= 110.0, "{mbps} Mbit/s, seed {seed}: {queue} ms");
    }
}

#[test]
fn an_outage_finds_little_queued_and_ends_soon() {
    let mut dumbbell = dumbbell("sprout", 500.0, 20);
    let (from, to) = (10_000, 12_000);
    dumbbell.schedule = dumbbell.schedule.with_outages(vec![(Time::from_millis(from), Time::from_millis(to))]);
    let outcome = dumbbell.run(20);
    let series = outcome.series.as_ref().unwrap();
    let queued = series.queue_bytes[from as usize..to as usize].iter().max().unwrap() / 1500;
    // 100 ms are 50 packets.
    assert!(queued <= 60, "{queued} packets");
    let room = variable(&series.flows[0], "forecast_100ms_packets");
    let (before, after) = (room[from as usize - 1_900], room[to as usize + 500]);
    assert!(room[to as usize - 1] <= 1.0, "outage foreseen");
    // Half the round trip, the tick with the first packets, three more.
    assert!(room[to as usize + 10 + 4 * 20] >= 3.0, "{}", room[to as usize + 90]);
    assert!(after >= 0.5 * before, "{before} and {after}");
    assert!(share(&outcome, 0, 14_000, 20_000) >= 0.95);
}

#[test]
fn losses_cost_what_they_lose() {
    let mut dumbbell = dumbbell("sprout", 500.0, 20);
    dumbbell.before = Some(Box::new(RandomLoss { probability: 0.1, rng: Pcg64::seed_from_u64(9) }));
    let used = share(&dumbbell.run(30), 0, 10_000, 30_000);
    assert!(used >= 0.85, "{used}");
}

/// 87 packets are on their way at most: the 100 ms of 1000 packets/s that are foreseen, less the first tick.
#[test]
fn faster_links_than_it_believes_in_are_not_filled() {
    let used = |controller: &str| share(&dumbbell(controller, 4000.0, 40).run(20), 0, 10_000, 20_000);
    let ceiling = used("sprout");
    // In a loop of a round trip and one tick; 10 %.
    assert!((ceiling / (87.0 / 0.06 / 4000.0) - 1.0).abs() <= 0.1, "{ceiling}");
    let raised = used("sprout:max=4000");
    assert!(raised >= 0.95, "{raised}");
}

/// Deliveries of a link whose rate wanders as a Brownian motion between 50 and 900 packets a second.
fn wandering(seed: u64, seconds: u32) -> Schedule {
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut rate, mut due, mut times) = (400.0f64, 0.0, Vec::new());
    for ms in 0..1000 * seconds {
        // 200 packets/s per square root of a second, in equal steps up and down.
        rate += if random.random_bool(0.5) { 6.3 } else { -6.3 };
        rate = rate.clamp(50.0, 900.0);
        due += rate / 1000.0 * random.random_range(0.0..2.0);
        while due >= 1.0 {
            times.push(ms + 1);
            due -= 1.0;
        }
    }
    Schedule::from_trace(Arc::new(Trace::from_millis("wandering", times).unwrap()))
}

#[test]
fn the_average_trades_delay_for_throughput_where_the_rate_wanders() {
    for seed in 1..=3 {
        let run = |controller| {
            let mut dumbbell = dumbbell(controller, 400.0, 40);
            dumbbell.schedule = wandering(seed, 60);
            let outcome = dumbbell.run(60);
            (share(&outcome, 0, 0, 60_000), queue_ms(&outcome, 0, 60_000, 0.95))
        };
        let (average, average_queue) = run("sprout-ewma");
        for rule in ["sprout", "sprout:idle=exact"] {
            let (sprout, sprout_queue) = run(rule);
            assert!(
                average > sprout && average_queue > sprout_queue,
                "{rule}, {seed}: {sprout} {sprout_queue}, {average} {average_queue}"
            );
        }
        // The published rule starves here; the default does not.
        let (bound, _) = run("sprout");
        assert!(bound >= 0.8, "{seed}: {bound}");
    }
}
