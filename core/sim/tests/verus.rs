//! Verus in a closed loop (Zaki et al., SIGCOMM 2015): one bottleneck, no noise unless said, over datagrams.
//!
//! The paper gives no figures for a constant link. The expected ones are the fixed point of its rules: the target
//! rises by 2 ms an epoch until delays exceed R times the smallest, so that their tail sits at that ratio; tolerance 15 %.

use crate::common::{Dumbbell, RandomLoss, bulk, share, variable};
use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{Flow, FlowOutcome, Handover, Outcome, Via};
use paceline_path::Schedule;
use paceline_path::queue::QueueBound;
use rand::SeedableRng;
use rand_pcg::Pcg64;

fn dumbbell(controller: &str, mbps: f64, rtt: u64) -> Dumbbell {
    Dumbbell::new(mbps, rtt, vec![bulk(controller, Via::udp())])
}

/// A quantile of queueing delay in ms over a span.
fn queue_ms(outcome: &Outcome, from_ms: usize, to_ms: usize, quantile: f64) -> f64 {
    let series = &outcome.series.as_ref().unwrap().flows[0];
    let mut delays: Vec<f64> = series.queue_ms[from_ms..to_ms].iter().filter_map(|value| *value).collect();
    delays.sort_by(f64::total_cmp);
    delays[(quantile * delays.len() as f64) as usize]
}

fn state(outcome: &Outcome, name: &str) -> Vec<f64> {
    variable(&outcome.series.as_ref().unwrap().flows[0], name)
}

#[test]
fn a_constant_link_is_full_and_its_delay_near_the_ratio() {
    for (mbps, rtt, r) in [(12.0, 20, 2), (12.0, 20, 4), (12.0, 20, 6), (5.0, 50, 4), (20.0, 100, 2), (20.0, 100, 4)] {
        let outcome = dumbbell(&format!("verus:r={r}"), mbps, rtt).run(60);
        let used = share(&outcome, 0, 30_000, 60_000);
        assert!(used >= 0.97, "{mbps} Mbit/s, {rtt} ms, R {r}: {used}");
        let d_min = rtt as f64 + 12.0 / mbps;
        let at = |quantile| (d_min + queue_ms(&outcome, 30_000, 60_000, quantile)) / (f64::from(r) * d_min);
        let (median, tail) = (at(0.5), at(0.95));
        assert!((median / 0.88 - 1.0).abs() <= 0.15, "{mbps} Mbit/s, {rtt} ms, R {r}: median {median}");
        assert!((tail / 1.04 - 1.0).abs() <= 0.15, "{mbps} Mbit/s, {rtt} ms, R {r}: tail {tail}");
    }
}

/// Slow start ends at 500 ms, five times the smallest delay: the profile ends below the ratio, and must be extended.
#[test]
fn a_profile_that_ends_below_the_ratio_carries_on() {
    let outcome = dumbbell("verus:r=6", 20.0, 100).run(60);
    assert!(share(&outcome, 0, 30_000, 60_000) >= 0.97);
    let slow = state(&outcome, "slow_start");
    let left = slow.iter().position(|slow| *slow == 0.0).unwrap();
    assert!(slow[left + 1..].iter().all(|slow| *slow == 0.0), "slow start again");
}

#[test]
fn the_target_moves_by_little_and_never_below_the_smallest_delay() {
    let outcome = dumbbell("verus:r=4", 12.0, 20).run(20);
    let (target, smallest) = (state(&outcome, "d_est_ms"), state(&outcome, "d_min_ms"));
    let window = state(&outcome, "cwnd_packets");
    for ms in 5_001..20_000 {
        // An epoch is 5 ms: at most one in a step of 1 ms.
        assert!((target[ms] - target[ms - 1]).abs() <= 2.0 + 1e-9, "{ms} ms: {} to {}", target[ms - 1], target[ms]);
        assert!(target[ms] >= smallest[ms] - 1e-9 && window[ms] >= 1.0);
    }
}

/// From the moment at which the link halves, acknowledgements of the packets then in the queue come at half the rate:
/// their delay grows from the first one on, and the target falls with the epoch that sees it.
#[test]
fn half_the_capacity_lowers_the_window_within_two_epochs() {
    let halved = 20_000;
    let mut dumbbell = dumbbell("verus:r=4", 12.0, 20);
    let steps = [(0, 12.0), (halved, 6.0), (halved + 2_000, 12.0)];
    let steps = steps.map(|(ms, mbps)| (Time::from_millis(ms), Rate::from_mbps(mbps)));
    dumbbell.schedule = Schedule::steps(&steps, None);
    let outcome = dumbbell.run(30);
    let target = state(&outcome, "d_est_ms");
    // The first late packet is acknowledged 20 ms and one transmission later; two epochs, and one of phase.
    let seen = halved as usize + 22;
    let falls = (seen..seen + 15).any(|ms| target[ms] < target[ms - 1]);
    assert!(falls, "{:?}", &target[seen - 5..seen + 20]);
    assert!(target[halved as usize + 1_000] < target[seen], "and goes on falling");
    let used = share(&outcome, 0, 20_000, 22_000);
    assert!(used >= 0.9, "{used}");
    assert!(share(&outcome, 0, 25_000, 30_000) >= 0.9, "it takes the capacity again");
}

#[test]
fn silence_lowers_the_target_in_every_epoch() {
    let mut dumbbell = dumbbell("verus:r=4", 12.0, 20);
    let (from, to) = (20_000u64, 20_300u64);
    dumbbell.schedule = dumbbell.schedule.with_outages(vec![(Time::from_millis(from), Time::from_millis(to))]);
    let outcome = dumbbell.run(30);
    let target = state(&outcome, "d_est_ms");
    // The silence exceeds the largest delay before it (84 ms) at the latest 110 ms after its beginning.
    for ms in (from as usize + 130..to as usize).step_by(5) {
        assert!(target[ms] < target[ms - 5] || target[ms] <= 22.0, "{ms} ms: {} to {}", target[ms - 5], target[ms]);
    }
    assert!(share(&outcome, 0, 25_000, 30_000) >= 0.9, "it recovers");
}

#[test]
fn random_loss_does_not_starve_it() {
    for (mbps, rtt, probability, least) in
        [(12.0, 20, 0.001, 0.98), (12.0, 20, 0.01, 0.97), (24.0, 40, 0.01, 0.9), (50.0, 100, 0.001, 0.97)]
    {
        let mut dumbbell = dumbbell("verus", mbps, rtt);
        dumbbell.before = Some(Box::new(RandomLoss { probability, rng: Pcg64::seed_from_u64(5) }));
        let used = share(&dumbbell.run(60), 0, 10_000, 60_000);
        assert!(used >= least, "{mbps} Mbit/s, {rtt} ms, {probability}: {used}");
    }
}

/// Least share of the link in any five seconds from one second on.
fn least_share(outcome: &Outcome, from_ms: usize, to_ms: usize) -> f64 {
    (from_ms..=to_ms - 5_000).step_by(1_000).map(|ms| share(outcome, 0, ms, ms + 5_000)).fold(f64::INFINITY, f64::min)
}

/// The link is silent from the moment on at which so many round trips of slow start have passed, until the timeout.
#[test]
fn a_time_out_in_slow_start_does_not_lock_it_at_a_few_packets() {
    for via in [Via::udp(), Via::tcp(None)] {
        for (rtt, within) in [(20, 10), (41, 10), (100, 10), (200, 10), (300, 10), (450, 10), (600, 12)] {
            for round in [1, 2, 3] {
                let mut dumbbell = Dumbbell::new(8.0, rtt, vec![bulk("verus", via.clone())]);
                let from = rtt / 2 + rtt * round + 1;
                let to = from + 3_000;
                let outage = (Time::from_millis(from), Time::from_millis(to));
                dumbbell.schedule = dumbbell.schedule.with_outages(vec![outage]);
                let outcome = dumbbell.run(40);
                assert!(outcome.flows[0].sender.timeouts > 0, "{via:?}, {rtt} ms, round {round}: no timeout");
                let used = least_share(&outcome, to as usize + within * 1_000, 40_000);
                assert!(used >= 0.9, "{via:?}, {rtt} ms, round {round}: {used}");
            }
        }
    }
}

/// A round-trip time beyond the delay that ends slow start (500 ms) is not a queue.
#[test]
fn a_long_path_is_filled() {
    for rtt in [400, 510, 600, 800] {
        let used = least_share(&dumbbell("verus", 10.0, rtt).run(40), 20_000, 40_000);
        assert!(used >= 0.97, "{rtt} ms: {used}");
    }
}

/// Below 5 ms of round trip a window leaves once an epoch, not once a round trip.
#[test]
fn a_short_path_is_filled() {
    for via in [Via::udp(), Via::tcp(None)] {
        for r in [2, 6] {
            for micros in [50, 200, 1_000, 2_000, 4_000] {
                let mut dumbbell = Dumbbell::new(100.0, 0, vec![bulk(&format!("verus:r={r}"), via.clone())]);
                dumbbell.rtt = Nanos::from_micros(micros);
                let used = share(&dumbbell.run(20), 0, 5_000, 20_000);
                assert!(used >= 0.7, "{via:?}, R {r}, {micros} us: {used}");
            }
        }
    }
}

#[test]
fn lost_acknowledgements_do_not_starve_it() {
    for via in [Via::udp(), Via::tcp(None)] {
        for rtt in [20, 100, 600] {
            let mut dumbbell = Dumbbell::new(8.0, rtt, vec![bulk("verus", via.clone())]);
            dumbbell.back = Some(Box::new(RandomLoss { probability: 0.5, rng: Pcg64::seed_from_u64(5) }));
            let used = share(&dumbbell.run(40), 0, 15_000, 40_000);
            assert!(used >= 0.5, "{via:?}, {rtt} ms: {used}");
        }
    }
}

/// A drop-tail buffer below R times the smallest delay never shows Verus the delay that it aims at.
#[test]
fn a_short_buffer_is_not_flooded() {
    let above = Via::alcc("cubic".parse().unwrap(), Handover::default());
    for via in [Via::udp(), Via::tcp(None), above] {
        for flows in [1u64, 10] {
            for quarters in [1, 2, 4, 8, 16, 32] {
                // 20 ms of 20 Mbit/s are 50 kB.
                let flow = |i| Flow { start: Time::from_millis(300 * i), ..bulk("verus", via.clone()) };
                let mut dumbbell = Dumbbell::new(20.0, 20, (0..flows).map(flow).collect());
                dumbbell.limit = QueueBound::bytes(12_500 * quarters);
                let outcome = dumbbell.run(20);
                let sum = |count: fn(&FlowOutcome) -> u64| outcome.flows.iter().map(count).sum::<u64>() as f64;
                let (sent, arrived) = (sum(|flow| flow.sender.packets_sent), sum(|flow| flow.packets_arrived));
                let dropped = sum(|flow| flow.packets_dropped);
                let what = format!("{via:?}, {flows} flows, {quarters} quarters of the BDP");
                assert!(dropped < 0.1 * (dropped + arrived), "{what}: {dropped} of {arrived} lost");
                assert!(sent < 1.5 * arrived, "{what}: {sent} sent for {arrived}");
                let used: f64 = (0..flows as usize).map(|flow| share(&outcome, flow, 10_000, 20_000)).sum();
                let least = if quarters >= 4 { 0.9 } else { 0.5 };
                assert!(used >= least, "{what}: {used} of the link");
            }
        }
    }
}
