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

/// Up to 5 ms for each of a hundred packets in a round trip. Where they keep their order each waits for those before it, so that the smallest
/// RTT of a round is seldom the path's: that is taken for a queue, and costs 14 %.
#[test]
fn jitter_in_order_costs_a_seventh_of_the_link() {
    let jitter = Jitter { max: Some(Nanos::from_millis(5)), ..Jitter::default() };
    let distance = Changing::steps(&[(Nanos::ZERO, Nanos::from_millis(20))]);
    let delay = VaryingDelay::new(distance, Changing::steps(&[(Nanos::ZERO, jitter)]), 7);
    let world = Dumbbell { delay: Some(Box::new(delay)), ..Dumbbell::new(30.0, 40, vec![flow("vegas", 0)]) };
    let used = share(&world.run(60), 0, 10_000, 60_000);
    assert!((0.8..0.95).contains(&used), "{used}");
}

/// The second flow takes the first one's queue for the path.
#[test]
fn a_latecomer_has_more_as_is_known_of_vegas() {
    let outcome = Dumbbell::new(10.0, 40, vec![flow("vegas", 0), flow("vegas", 30_000)]).run(120);
    let [first, second] = [0, 1].map(|flow| share(&outcome, flow, 60_000, 120_000));
    assert!((1.1..=3.0).contains(&(second / first)), "{first} and {second}");
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
