//! Copa in a closed loop (Arun and Balakrishnan, NSDI 2018): constant link, one bottleneck, no noise, over datagrams.
//!
//! Where a figure is not the paper's, it comes from the theory of section 2 (the queue swings between 0 and 2.5/delta
//! packets, so that on average 1.25/delta wait); tolerances stand beside each figure.

mod common;

use common::{Dumbbell, Policer, RandomLoss, bulk, jain, share, variable, waiting};
use paceline_cc::{Nanos, Rate, Time};
use paceline_path::queue::Limit;
use paceline_sim::{Flow, Outcome, Via};
use rand::SeedableRng;
use rand_pcg::Pcg64;

fn copa(controller: &str) -> Flow {
    bulk(controller, Via::Udp)
}

fn shares(outcome: &Outcome, flows: usize, from_ms: usize, to_ms: usize) -> Vec<f64> {
    (0..flows).map(|flow| share(outcome, flow, from_ms, to_ms)).collect()
}

/// Time in ms at which the flow left slow start.
fn left_slow_start(outcome: &Outcome) -> usize {
    let series = &outcome.series.as_ref().unwrap().flows[0];
    let window = variable(series, "cwnd_packets");
    let slow = variable(series, "slow_start");
    (0..slow.len()).find(|ms| slow[*ms] == 0.0 && window[*ms] > 0.0).unwrap()
}

#[test]
fn one_flow_fills_the_link_and_keeps_five_quarters_over_delta_waiting() {
    for (mbps, rtt) in [(12.0, 20), (12.0, 40), (100.0, 20)] {
        let outcome = Dumbbell::new(mbps, rtt, vec![copa("copa")]).run(60);
        let used = share(&outcome, 0, 20_000, 60_000);
        assert!(used >= 0.99, "{mbps} Mbit/s, {rtt} ms: {used}");
        let waiting = waiting(&outcome, 20_000, 60_000);
        assert!((2.2..=3.3).contains(&waiting), "{mbps} Mbit/s, {rtt} ms: {waiting} packets");
    }
}
