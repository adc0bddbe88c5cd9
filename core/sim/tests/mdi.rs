//! MDI in a closed loop: what its models were not trained on.

use crate::common::{Dumbbell, bulk, share};
use paceline_cc::Time;
use paceline_experiment::{Flow, Outcome, Via};
use paceline_path::queue::QueueBound;

const MODELS: [&str; 3] = ["mdi", "mdi:model=copa", "mdi:model=sprout"];

fn lost(outcome: &Outcome) -> f64 {
    let [dropped, entered] = outcome
        .flows
        .iter()
        .fold([0, 0], |[dropped, entered], flow| [dropped + flow.packets_dropped, entered + flow.packets_entered]);
    dropped as f64 / entered as f64
}

fn over(controller: &str, mbps: f64, rtt: u64, bdp: f64) -> Dumbbell {
    let limit = QueueBound { bdp: Some(bdp), ..QueueBound::NONE };
    Dumbbell { limit, ..Dumbbell::new(mbps, rtt, vec![bulk(controller, Via::udp())]) }
}

/// Models are of a round trip of 40 ms: their time has to go slower here.
#[test]
fn longer_round_trips_are_not_flooded() {
    for model in MODELS {
        // The loss of 2 s is that of the start: one round trip is a sixtieth of the time.
        for (mbps, rtt, least, most) in [(10.0, 200, 0.9, 0.05), (10.0, 600, 0.85, 0.05), (1.0, 2000, 0.8, 0.08)] {
            let outcome = over(model, mbps, rtt, 1.0).run(120);
            let used = share(&outcome, 0, 30_000, 120_000);
            assert!(lost(&outcome) <= most, "{model}, {rtt} ms: {}", lost(&outcome));
            assert!(used >= least, "{model}, {rtt} ms: {used}");
        }
    }
}

#[test]
fn buffers_that_are_too_short_for_the_delay_are_not_flooded() {
    for model in MODELS {
        for bdp in [0.1, 0.5, 1.0] {
            let outcome = over(model, 20.0, 40, bdp).run(40);
            let used = share(&outcome, 0, 10_000, 40_000);
            assert!(lost(&outcome) <= 0.05, "{model}, {bdp} BDP: {}", lost(&outcome));
            assert!(used >= 0.6, "{model}, {bdp} BDP: {used}");
        }
    }
}

#[test]
fn none_of_many_flows_starves() {
    for model in MODELS {
        let flow = |index: u64| Flow { start: Time::from_millis(10 * index), ..bulk(model, Via::udp()) };
        let limit = QueueBound { bdp: Some(1.0), ..QueueBound::NONE };
        let outcome = Dumbbell { limit, ..Dumbbell::new(40.0, 40, (0..200).map(flow).collect()) }.run(40);
        assert!(lost(&outcome) <= 0.1, "{model}: {}", lost(&outcome));
        let least = outcome.flows.iter().map(|flow| flow.bytes_ready).min().unwrap();
        assert!(least > 20_000, "{model}: {least} bytes in 40 s");
    }
}

/// What waited for the end of an outage does not measure the path, and what was lost in it is not a reason to send little after it.
#[test]
fn who_was_there_before_an_outage_is_there_after_it() {
    for via in [Via::udp(), Via::tcp(None)] {
        for (mbps, rtt, from, to) in [(5.0, 200, 3, 33), (5.0, 200, 10, 40), (20.0, 40, 10, 30), (10.0, 100, 5, 20)] {
            let after = |controller: &str| {
                let limit = QueueBound { bdp: Some(1.0), ..QueueBound::NONE };
                let flow = Flow { ack_every: 2, ..bulk(controller, via.clone()) };
                let mut dumbbell = Dumbbell { limit, ..Dumbbell::new(mbps, rtt, vec![flow]) };
                let outages = vec![(Time::from_millis(1_000 * from), Time::from_millis(1_000 * to))];
                dumbbell.schedule = dumbbell.schedule.with_outages(outages);
                let to = 1_000 * to as usize;
                share(&dumbbell.run(to as u64 / 1_000 + 30), 0, to, to + 30_000)
            };
            let (own, reno) = (after("mdi"), after("reno"));
            assert!(own >= 0.8 * reno, "{via:?}, {mbps}, {rtt} ms, dark {from} to {to} s: {own:.2}, Reno {reno:.2}");
        }
    }
}
