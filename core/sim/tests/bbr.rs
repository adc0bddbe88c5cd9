//! BBR version 1 in a closed loop (Linux `tcp_bbr.c`): one bottleneck, over the simulated TCP.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::common::{Dumbbell, Policer, RandomLoss, StepDelay, bulk, share, variable};
use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{FlowSeries, Outcome, Via};
use paceline_path::{FilterVerdict, Schedule};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Bandwidth-delay product of 100 Mbit/s and 20 ms in packets.
const BDP: f64 = bdp(20);

/// Bandwidth-delay product of 100 Mbit/s and so many ms in packets.
const fn bdp(rtt: u64) -> f64 {
    100e3 * rtt as f64 / 8.0 / crate::common::WIRE
}

/// Values of the variable `mode`.
const DRAIN: f64 = 1.0;
const PROBE_BW: f64 = 2.0;
const PROBE_RTT: f64 = 3.0;

fn dumbbell() -> Dumbbell {
    Dumbbell::new(100.0, 20, vec![bulk("bbr", Via::tcp(None))])
}

fn flow(outcome: &Outcome) -> &FlowSeries {
    &outcome.series.as_ref().unwrap().flows[0]
}

/// First millisecond from `from` on at which `holds`.
fn first(values: &[f64], from: usize, holds: impl Fn(f64) -> bool) -> usize {
    (from..values.len()).find(|ms| holds(values[*ms])).expect("it happens within the run")
}

/// Milliseconds at which ProbeRTT begins.
fn probe_rtts(mode: &[f64]) -> Vec<usize> {
    (1..mode.len()).filter(|ms| mode[*ms] == PROBE_RTT && mode[*ms - 1] != PROBE_RTT).collect()
}

#[test]
fn startup_fills_the_pipe_and_drain_empties_the_queue() {
    let outcome = dumbbell().run(2);
    let (mode, rounds) = (variable(flow(&outcome), "mode"), variable(flow(&outcome), "rounds"));
    let full = first(&variable(flow(&outcome), "full_reached"), 0, |reached| reached == 1.0);
    // The window doubles four times from 10 to a BDP of 167, then three rounds without growth; the first
    // acknowledgement opens round 1. Nine rounds.
    assert!((6.0..=9.0).contains(&rounds[full]), "{} rounds", rounds[full]);
    // In flight at most 2.887 BDP and three bursts of 23 packets (1/1024 s at 2.887 x 100 Mbit/s): the queue is a BDP less.
    let peak =
        outcome.series.as_ref().unwrap().queue_bytes.iter().max().map(|bytes| *bytes as f64 / crate::common::WIRE);
    assert!(peak.is_some_and(|peak| peak <= 1.9 * BDP + 72.0), "{peak:?} packets");
    let drain = first(&mode, full, |mode| mode == DRAIN);
    let probe = first(&mode, drain, |mode| mode == PROBE_BW);
    assert!(rounds[probe] - rounds[drain] <= 2.0);
}

#[test]
fn in_the_steady_state_the_link_is_busy_and_the_flight_small() {
    // From 0.9 to 1.35 BDP. Linux probes up to 1.25 BDP, three bursts (of 10 packets: 1/1024 s at 1.25 x 100 Mbit/s) and two
    // packets (`bbr_quantization_budget`), which at 20 ms are 1.45 BDP: 1.11 to 1.446 here; 1.00 to 1.32 at 60 ms.
    for (rtt, low, high) in [(20, 1.05, 1.45), (60, 0.9, 1.35)] {
        let outcome = Dumbbell::new(100.0, rtt, vec![bulk("bbr", Via::tcp(None))]).run(60);
        let used = share(&outcome, 0, 4_000, 60_000);
        assert!(used >= 0.97, "{rtt} ms: {used}");
        let (mode, flight) = (variable(flow(&outcome), "mode"), &flow(&outcome).in_flight_packets);
        // From a second (several cycles) after Startup and after each ProbeRTT.
        let steady = (3_000..60_000).filter(|ms| mode[ms - 1_000..=*ms].iter().all(|mode| *mode == PROBE_BW));
        let flights: Vec<f64> = steady.map(|ms| flight[ms] / bdp(rtt)).collect();
        assert!(flights.len() > 40_000, "{rtt} ms: {}", flights.len());
        let (least, most) = flights.iter().fold((f64::MAX, 0.0_f64), |(low, high), x| (low.min(*x), high.max(*x)));
        assert!(least >= low && most <= high, "{rtt} ms: {least} to {most} BDP");
    }
}

#[test]
fn the_bandwidth_follows_the_capacity_down_and_up() {
    let step = |seconds: u64, mbps| (Time::from_millis(1_000 * seconds), Rate::from_mbps(mbps));
    let schedule = Schedule::steps(&[step(0, 100.0), step(22, 50.0), step(28, 100.0)], None);
    let outcome = Dumbbell { schedule, ..dumbbell() }.run(32);
    let (bandwidth, rounds) = (variable(flow(&outcome), "bandwidth_mbps"), variable(flow(&outcome), "rounds"));
    // The payload's share of 50 Mbit/s is 48.3.
    let halved = first(&bandwidth, 22_000, |mbps| mbps < 50.0);
    let took = rounds[halved] - rounds[22_000];
    assert!((8.0..=13.0).contains(&took), "ten rounds, one to begin and one to end in: {took}");
    // 1.25^3.1 = 2: four cycles of eight phases of at most 25 ms.
    let doubled = first(&bandwidth, 28_000, |mbps| mbps > 95.0);
    assert!(doubled - 28_000 <= 4 * 8 * 25, "{} ms", doubled - 28_000);
}

#[test]
fn a_longer_path_is_found_by_probe_rtt_every_ten_seconds() {
    let delay = StepDelay {
        before: Nanos::from_millis(10),
        after: Nanos::from_millis(50),
        at: Time::from_millis(15_000),
        line: VecDeque::new(),
    };
    let outcome = Dumbbell { delay: Some(Box::new(delay)), ..dumbbell() }.run(45);
    let (mode, min_rtt) = (variable(flow(&outcome), "mode"), variable(flow(&outcome), "min_rtt_ms"));
    let probes = probe_rtts(&mode);
    assert!(probes.len() >= 2, "{probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= 10_000), "{probes:?}");
    // What the filter then takes is inflated by the queue of that moment; ProbeRTT empties it.
    let found = first(&min_rtt, 15_000, |rtt| rtt >= 60.0);
    assert!(found - 15_000 <= 10_500, "{} ms", found - 15_000);
    let last = min_rtt[min_rtt.len() - 1];
    assert!((60.0..61.0).contains(&last), "{last} ms");
}

#[test]
fn probe_rtt_empties_the_pipe_for_200_ms() {
    let outcome = dumbbell().run(35);
    let mode = variable(flow(&outcome), "mode");
    let flight = &flow(&outcome).in_flight_packets;
    let probes = probe_rtts(&mode);
    assert!(probes.len() >= 3, "{probes:?}");
    for begin in probes {
        let end = first(&mode, begin, |mode| mode != PROBE_RTT);
        let low = flight[begin..end].iter().filter(|packets| **packets <= 4.0).count();
        assert!((199..=250).contains(&low), "{low} ms with at most four packets in flight");
        let window = &flow(&outcome).window_packets;
        assert!(window[end + 1] >= 0.9 * window[begin - 1], "the saved window comes back");
    }
}

#[test]
fn random_loss_hardly_slows_it() {
    let lossless = share(&dumbbell().run(30), 0, 2_000, 30_000);
    for (probability, least) in [(0.01, 0.95), (0.15, 0.70)] {
        let loss = RandomLoss { probability, rng: Pcg64::seed_from_u64(5) };
        let outcome = Dumbbell { before: Some(Box::new(loss)), ..dumbbell() }.run(30);
        // Goodput: a packet sent again counts once.
        let goodput = outcome.flows[0].bytes_ready as f64 * 8.0 / 30.0 / 100e6 * crate::common::WIRE / 1448.0;
        let used = share(&outcome, 0, 2_000, 30_000);
        assert!(used >= least * lossless, "{probability}: {used} of {lossless}, goodput {goodput}");
    }
}

/// 10 Mbit/s with half a second's worth of tokens: less than 1 % is lost while the estimate is believed in. Both of its
/// intervals last about four rounds, which at 20 ms are 70 packets. Two or three more than the tokens came to make it
/// 3.5 % too high there (9.99 instead of 9.65 Mbit/s of payload); the pacing margin takes 1 % of that, and 2.4 % is
/// lost. From 26 ms on the estimate is within 1 %, and next to nothing is.
#[test]
fn a_policer_is_found_and_obeyed() {
    for (rtt, most) in [(20, 0.03), (26, 0.002), (40, 0.002), (100, 0.002)] {
        let log = Arc::default();
        let bucket = 10e6 / 8.0 * 0.5;
        let policer =
            Policer { rate: Rate::from_mbps(10.0), bucket, tokens: bucket, last: Time::ZERO, log: Arc::clone(&log) };
        let world = Dumbbell::new(100.0, rtt, vec![bulk("bbr", Via::tcp(None))]);
        let outcome = Dumbbell { before: Some(Box::new(policer)), ..world }.run(10);
        let (policed, rounds) = (variable(flow(&outcome), "policed"), variable(flow(&outcome), "rounds"));
        let found = first(&policed, 0, |policed| policed == 1.0);
        assert!(rounds[found] <= 40.0, "{rtt} ms: found after {} rounds", rounds[found]);
        // Seen at whole milliseconds, so a round or two may be missing at either end; ProbeRTT's come on top.
        let end = first(&policed, found, |policed| policed == 0.0);
        let kept = rounds[end] - rounds[found];
        assert!((45.0..=60.0).contains(&kept), "{rtt} ms: kept for {kept} rounds");
        // From two rounds after it was found, when what left before has gone.
        let log = log.lock().unwrap();
        let obeying = Time::from_millis((found + 2 * rtt as usize) as u64)..Time::from_millis(end as u64);
        let fates: Vec<FilterVerdict> =
            log.iter().filter(|(at, _)| obeying.contains(at)).map(|(_, verdict)| *verdict).collect();
        let lost = fates.iter().filter(|verdict| **verdict == FilterVerdict::Lose).count() as f64 / fates.len() as f64;
        assert!(lost <= most, "{rtt} ms: {lost} of {} lost", fates.len());
    }
}

/// Over datagrams, which repair nothing, loss must not keep it in packet conservation.
#[test]
fn random_loss_hardly_slows_it_over_datagrams() {
    let loss = RandomLoss { probability: 0.1, rng: Pcg64::seed_from_u64(5) };
    let world = Dumbbell::new(100.0, 20, vec![bulk("bbr", Via::udp())]);
    let used = share(&Dumbbell { before: Some(Box::new(loss)), ..world }.run(30), 0, 2_000, 30_000);
    assert!(used >= 0.8, "{used}");
}
