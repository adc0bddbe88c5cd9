//! Vegas in a closed loop: its own packets in the queue, alone, in company, with a base RTT that is wrong, and beside CUBIC. 10 Mbit/s
//! and 40 ms unless said.

use crate::common::{Dumbbell, WIRE, bulk, share, waiting};
use paceline_cc::{Nanos, Time};
use paceline_experiment::{Flow, Via};
use paceline_path::queue::QueueBound;
use paceline_path::{Changing, Jitter, QueueSpec, VaryingDelay};

fn flow(name: &str, start_ms: u64) -> Flow {
    Flow { start: Time::from_millis(start_ms), ..bulk(name, Via::tcp(None)) }
}

/// The second flow begins when the first one's packets have left the queue, and before their answers bring more: both know the path.
#[test]
fn each_flow_keeps_a_few_packets_in_the_queue() {
    for (count, packets) in [(1, 1.5..=5.5), (2, 3.0..=10.0)] {
        let outcome = Dumbbell::new(10.0, 40, (0..count).map(|index| flow("vegas", 20 * index)).collect()).run(60);
        let held = waiting(&outcome, 30_000, 60_000);
        assert!(packets.contains(&held), "{count} flows: {held}");
        let used: f64 = (0..count as usize).map(|flow| share(&outcome, flow, 10_000, 60_000)).sum();
        assert!(used >= 0.99, "{count} flows: {used}");
    }
}

/// So it is with a hundred of them, a millisecond apart, over a link that is idle as the last begins.
#[test]
fn a_hundred_keep_a_hundred_times_as_much() {
    let outcome = Dumbbell::new(1000.0, 40, (0..100).map(|index| flow("vegas", index)).collect()).run(12);
    let held = waiting(&outcome, 8_000, 12_000);
    assert!((150.0..=500.0).contains(&held), "{held}");
}

/// Up to 5 ms for each of a hundred packets in a round trip. Packets 5 ms apart have delays of their own, of which the smallest of a round is
/// about the path's. Where they come closer and keep their order each waits for those before it, so that it seldom is: that is taken for a
/// queue, and costs 14 %.
#[test]
fn jitter_costs_little_unless_packets_wait_for_each_other() {
    let used = |mbps: f64, rtt_ms: u64| {
        let jitter = Jitter { max: Some(Nanos::from_millis(5)), ..Jitter::default() };
        let distance = Changing::steps(&[(Nanos::ZERO, Nanos::from_millis(rtt_ms / 2))]);
        let delay = VaryingDelay::new(distance, Changing::steps(&[(Nanos::ZERO, jitter)]), 7);
        let world = Dumbbell { delay: Some(Box::new(delay)), ..Dumbbell::new(mbps, rtt_ms, vec![flow("vegas", 0)]) };
        share(&world.run(120), 0, 60_000, 120_000)
    };
    let (apart, close) = (used(2.4, 500), used(30.0, 40));
    assert!(apart >= 0.95 && (0.8..0.95).contains(&close), "{apart} and {close}");
}

/// Brakmo and Peterson claim 37 to 71 % more throughput and a fifth to a half of the losses, of Reno as it was in 1995. Of today's it is
/// 15 % and a thirtieth with a buffer of a quarter of a path, and nothing but fewer losses with one of a path.
#[test]
fn it_has_no_less_than_reno_and_loses_less() {
    for (bdp, most) in [(0.25, 1), (0.5, 3), (1.0, 6)] {
        let run = |name: &str| {
            let limit = QueueBound::packets((bdp * 10e3 * 40.0 / 8.0 / WIRE) as u64);
            let outcome = Dumbbell { limit, ..Dumbbell::new(10.0, 40, vec![flow(name, 0)]) }.run(60);
            (share(&outcome, 0, 0, 60_000), outcome.flows[0].packets_dropped)
        };
        let (own, reno) = (run("vegas"), run("reno"));
        assert!(own.0 >= reno.0 && 10 * own.1 <= most * reno.1, "{bdp} BDP: {own:?}, Reno {reno:?}");
    }
}

/// The second flow takes the first one's queue for the path.
#[test]
fn a_latecomer_has_more_as_is_known_of_vegas() {
    let outcome = Dumbbell::new(10.0, 40, vec![flow("vegas", 0), flow("vegas", 30_000)]).run(120);
    let [first, second] = [0, 1].map(|flow| share(&outcome, flow, 60_000, 120_000));
    assert!((1.2..=3.0).contains(&(second / first)), "{first} and {second}");
}

/// In a queue for each CoDel must not mind its few packets: at 50 Mbit/s they wait for less than its target.
#[test]
fn beside_cubic_it_has_little_where_they_share_a_queue() {
    let flows = || vec![flow("vegas", 0), flow("cubic", 0)];
    let packets = (10e3 * 40.0 / 8.0 / WIRE) as u64;
    let outcome = Dumbbell { limit: QueueBound::packets(packets), ..Dumbbell::new(10.0, 40, flows()) }.run(90);
    let own = share(&outcome, 0, 30_000, 90_000);
    assert!(own < 0.25, "one queue: {own}");
    let queue: QueueSpec = "fq_codel".parse().unwrap();
    let outcome = Dumbbell { queue: Some(queue), ..Dumbbell::new(50.0, 40, flows()) }.run(60);
    let own = share(&outcome, 0, 20_000, 60_000);
    assert!(own > 0.45, "a queue each: {own}");
}
