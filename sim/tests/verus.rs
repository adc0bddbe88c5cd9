//! Verus in a closed loop (Zaki et al., SIGCOMM 2015): one bottleneck, no noise unless said, over datagrams.
//!
//! The paper gives no figures for a constant link. The expected ones are the fixed point of its rules: the target
//! rises by 2 ms an epoch until delays exceed R times the smallest, so that their tail sits at that ratio; tolerance 15 %.

mod common;

use common::{Dumbbell, RandomLoss, bulk, share, variable};
use paceline_cc::{Rate, Time};
use paceline_path::Schedule;
use paceline_sim::{Outcome, Via};
use rand::SeedableRng;
use rand_pcg::Pcg64;

fn dumbbell(controller: &str, mbps: f64, rtt: u64) -> Dumbbell {
    Dumbbell::new(mbps, rtt, vec![bulk(controller, Via::Udp)])
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
    for (probability, least) in [(0.001, 0.95), (0.01, 0.8)] {
        let mut dumbbell = dumbbell("verus", 12.0, 20);
        dumbbell.before = Some(Box::new(RandomLoss { probability, rng: Pcg64::seed_from_u64(5) }));
        let used = share(&dumbbell.run(60), 0, 10_000, 60_000);
        assert!(used >= least, "{probability}: {used}");
    }
}
