//! BBR version 3 in a closed loop (draft-ietf-ccwg-bbr-06): one bottleneck, over the simulated TCP unless said.

use crate::common::{Dumbbell, RandomLoss, bulk, jain, share, variable};
use paceline_cc::Time;
use paceline_experiment::icn::Asking;
use paceline_experiment::{Flow, FlowSeries, Outcome, Via};
use paceline_path::queue::QueueBound;
use rand::SeedableRng;
use rand_pcg::Pcg64;

fn flow(outcome: &Outcome) -> &FlowSeries {
    &outcome.series.as_ref().unwrap().flows[0]
}

fn bdp_packets(mbps: f64, rtt_ms: u64) -> f64 {
    mbps * 1e3 * rtt_ms as f64 / 8.0 / crate::common::WIRE
}

fn path(mbps: f64, rtt_ms: u64, bdp: f64, flows: Vec<Flow>) -> Dumbbell {
    let packets = (bdp * bdp_packets(mbps, rtt_ms)) as u64;
    Dumbbell { limit: QueueBound::packets(packets), ..Dumbbell::new(mbps, rtt_ms, flows) }
}

fn one() -> Vec<Flow> {
    vec![bulk("bbr3", Via::tcp(None))]
}

/// Values of the variable `state`.
const DRAIN: f64 = 1.0;
const DOWN: f64 = 2.0;
const CRUISE: f64 = 3.0;
const REFILL: f64 = 4.0;
const UP: f64 = 5.0;
const PROBE_RTT: f64 = 6.0;

/// Each state and the millisecond at which it was first seen.
fn states(outcome: &Outcome) -> Vec<(usize, f64)> {
    let state = variable(flow(outcome), "state");
    let changes = (1..state.len()).filter(|&ms| state[ms] != state[ms - 1]);
    changes.map(|ms| (ms, state[ms])).collect()
}

fn begins(states: &[(usize, f64)], state: f64) -> Vec<usize> {
    states.iter().filter(|(_, value)| *value == state).map(|(ms, _)| *ms).collect()
}

#[test]
fn a_flow_alone_uses_a_deep_queue_s_link_but_for_its_margins() {
    for (mbps, rtt) in [(50.0, 40), (100.0, 20), (10.0, 20), (10.0, 40)] {
        let used = share(&path(mbps, rtt, 4.0, one()).run(30), 0, 2_000, 30_000);
        assert!((0.93..=0.99).contains(&used), "{mbps} Mbit/s, {rtt} ms: {used}");
    }
}

/// A window of what the datapath may hold: three send quanta of TCP's, of two packets each at this rate; over datagrams the smallest there is.
#[test]
fn a_path_of_less_than_a_packet_has_the_window_of_its_datapath() {
    for (via, packets) in [(Via::tcp(None), 6.0), (Via::udp(), 4.0)] {
        let world =
            Dumbbell { limit: QueueBound::packets(50), ..Dumbbell::new(1.0, 1, vec![bulk("bbr3", via.clone())]) };
        let windows = &variable(flow(&world.run(5)), "cwnd_packets")[2_000..4_500];
        let least = windows.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((packets..packets + 0.5).contains(&least), "{}: {least}", via.text());
    }
}

#[test]
fn states_follow_each_other_as_the_draft_draws_them() {
    let ways = [
        (0.0, DRAIN),
        (DRAIN, DOWN),
        (DRAIN, CRUISE),
        (DOWN, CRUISE),
        (DOWN, REFILL),
        (CRUISE, REFILL),
        (REFILL, UP),
        (UP, DOWN),
        (UP, CRUISE),
        (PROBE_RTT, CRUISE),
    ];
    for (mbps, rtt) in [(50.0, 40), (10.0, 20)] {
        let states = states(&path(mbps, rtt, 4.0, one()).run(30));
        let mut before = 0.0;
        for (ms, state) in states {
            assert!(state == PROBE_RTT || ways.contains(&(before, state)), "{before} to {state} at {ms} ms");
            before = state;
        }
    }
}

/// Without a rival UP takes three rounds, which grow as their queue does: 3.8 of the smallest RTT. The queue grows by 0.2375 BDP
/// in the first, and to 0.9 BDP.
#[test]
fn a_probe_of_a_deep_queue_ends_after_three_rounds() {
    for (mbps, rtt) in [(50.0, 40), (100.0, 20)] {
        let outcome = path(mbps, rtt, 4.0, one()).run(12);
        let (states, rtt) = (states(&outcome), rtt as usize);
        let queue = &outcome.series.as_ref().unwrap().queue_bytes;
        let bdp = bdp_packets(mbps, rtt as u64) * crate::common::WIRE;
        for up in begins(&states, UP) {
            let (end, next) = *states.iter().find(|(ms, _)| *ms > up).unwrap();
            assert!(next == DOWN || next == PROBE_RTT, "{next}");
            if next == DOWN {
                assert!((end - up).abs_diff(rtt * 38 / 10) <= rtt / 5, "{} ms", end - up);
                assert!((queue[up + rtt] as f64 / bdp - 0.2375).abs() < 0.04, "{}", queue[up + rtt] as f64 / bdp);
                assert!(queue[up..end].iter().all(|bytes| *bytes as f64 <= 0.95 * bdp));
                // It takes 0.109 BDP out of it in one of the smallest RTT.
                let (left, next) = *states.iter().find(|(ms, _)| *ms > end).unwrap();
                assert!(next == PROBE_RTT || (left - end).abs_diff(rtt * 82 / 10) <= rtt, "{} ms", left - end);
            }
        }
    }
}

/// As many rounds after a probe as the path holds packets, at most 63, or two to three seconds: what comes first.
#[test]
fn probes_are_as_far_apart_as_renos_would_be() {
    for (mbps, rtt, least, most) in
        [(10.0, 20, 16.0, 18.0), (10.0, 40, 32.0, 35.0), (100.0, 20, 61.0, 64.0), (50.0, 40, 40.0, 64.0)]
    {
        let outcome = path(mbps, rtt, 4.0, one()).run(40);
        let (states, rounds) = (states(&outcome), variable(flow(&outcome), "rounds"));
        let mut seen = 0;
        for window in states.windows(4) {
            if let [(_, UP), (down, DOWN), (_, CRUISE), (refill, REFILL)] = *window {
                let apart = rounds[refill] - rounds[down];
                assert!((least..=most).contains(&apart), "{mbps} Mbit/s, {rtt} ms: {apart} rounds");
                assert!(refill - down <= 3_000 + rtt as usize);
                seen += 1;
            }
        }
        assert!(seen >= 2, "{mbps} Mbit/s, {rtt} ms");
    }
}

#[test]
fn probe_rtt_halves_the_flight_every_five_seconds() {
    let outcome = path(50.0, 40, 4.0, one()).run(30);
    let states = states(&outcome);
    let probes = begins(&states, PROBE_RTT);
    assert!(
        probes.len() >= 5 && probes.windows(2).all(|pair| (5_000..=5_600).contains(&(pair[1] - pair[0]))),
        "{probes:?}"
    );
    let flight = &flow(&outcome).in_flight_packets;
    for begin in probes {
        let end = states.iter().find(|(ms, _)| *ms > begin).map_or(30_000, |(ms, _)| *ms);
        let low = flight[begin..end].iter().filter(|packets| **packets <= 0.52 * bdp_packets(50.0, 40)).count();
        assert!((199..=300).contains(&low), "{low} ms with half of the BDP in flight");
    }
}

#[test]
fn two_of_them_share_whatever_the_queue() {
    for bdp in [0.25, 0.5, 1.0, 2.0, 4.0] {
        let flows = vec![bulk("bbr3", Via::tcp(None)); 2];
        let outcome = path(50.0, 40, bdp, flows).run(60);
        let shares = [share(&outcome, 0, 30_000, 60_000), share(&outcome, 1, 30_000, 60_000)];
        assert!(jain(&shares) >= 0.99, "{bdp} BDP: {shares:?}");
    }
}

/// The draft's aim is to coexist with Reno and CUBIC. Measured 0.21 to 0.47 of the link for them, with queues of 0.25 to 4 BDP.
#[test]
fn beside_reno_and_cubic_neither_starves() {
    for bdp in [0.5, 1.0, 2.0, 4.0] {
        for other in ["cubic", "reno"] {
            let flows = vec![bulk("bbr3", Via::tcp(None)), bulk(other, Via::tcp(None))];
            let outcome = path(50.0, 40, bdp, flows).run(60);
            let shares = [share(&outcome, 0, 30_000, 60_000), share(&outcome, 1, 30_000, 60_000)];
            assert!(shares.iter().all(|share| *share >= 0.2), "{bdp} BDP beside {other}: {shares:?}");
        }
    }
}

/// Up to the threshold of 2 % losses do not bound what is in flight for long.
#[test]
fn random_losses_below_the_threshold_leave_most_of_the_link() {
    for (probability, least) in [(0.001, 0.9), (0.01, 0.7)] {
        let loss = RandomLoss { probability, rng: Pcg64::seed_from_u64(5) };
        let world = Dumbbell { before: Some(Box::new(loss)), ..path(50.0, 40, 4.0, one()) };
        let used = share(&world.run(60), 0, 2_000, 60_000);
        assert!(used >= least, "{probability}: {used}");
    }
}

/// Version 1 of BBR needs the ProbeRTT of version 3 for it.
#[test]
fn four_flows_at_receivers_share_within_half_a_minute() {
    let start = |index: u64| Flow {
        start: Time::from_millis(1_000 * index),
        ..Flow::bulk("bbr3".parse().unwrap(), Via::icn(Asking::default()))
    };
    let outcome = path(100.0, 20, 2.0, (0..4).map(start).collect()).run(38);
    let shares: Vec<f64> = (0..4).map(|flow| share(&outcome, flow, 28_000, 38_000)).collect();
    assert!(jain(&shares) >= 0.95, "{shares:?}");
}
