//! SEARCH in a closed loop (draft-chung-ccwg-search-09): what it leaves of a queue, and what a queue must hold so that it comes before
//! the losses. 100 Mbit/s, 50 ms.

use crate::common::{Dumbbell, WIRE, bulk, share, variable, waiting};
use paceline_experiment::{Outcome, Via};
use paceline_path::queue::QueueBound;

/// Packets that the path holds.
const PRODUCT: f64 = 100e3 * 50.0 / 8.0 / WIRE;

/// Two seconds: CUBIC, which has seen no loss, then fills the queue.
fn run(bdp: f64) -> Outcome {
    let limit = QueueBound::packets((bdp * PRODUCT) as u64);
    Dumbbell { limit, ..Dumbbell::new(100.0, 50, vec![bulk("cubic:start=search", Via::tcp(None))]) }.run(2)
}

/// The millisecond in which the start-up ended.
fn end(outcome: &Outcome) -> usize {
    let starting = variable(&outcome.series.as_ref().unwrap().flows[0], "starting");
    (1..starting.len()).find(|ms| starting[ms - 1] > 0.0 && starting[*ms] == 0.0).expect("it ends")
}

#[test]
fn a_deep_queue_is_found_and_emptied_without_a_loss() {
    let outcome = run(8.0);
    assert_eq!(outcome.flows[0].packets_dropped, 0);
    let end = end(&outcome);
    let queue = &outcome.series.as_ref().unwrap().queue_bytes;
    let peak = *queue[..end].iter().max().unwrap() as f64 / WIRE / PRODUCT;
    // The RTT that shows a queue of 1.66 products is a round trip old, and windows double in one.
    assert!((1.6..=6.0).contains(&peak), "{peak} products");
    let left = waiting(&outcome, end, end + 50) / PRODUCT;
    assert!(left <= 0.15, "three bins of 0.35 are a twentieth more than the path holds: {left}");
    let used = share(&outcome, 0, end, 2_000);
    assert!(used >= 0.99, "{used}");
}

/// What the draft says of two round trips after capacity holds where the RTT does not grow.
#[test]
fn a_queue_of_a_product_overflows_before_it_leaves() {
    let outcome = run(1.0);
    let end = end(&outcome);
    assert!(outcome.flows[0].packets_dropped > 0);
    let queue = &outcome.series.as_ref().unwrap().queue_bytes;
    assert!(queue[..end].iter().any(|bytes| *bytes as f64 >= 0.97 * PRODUCT * WIRE));
}
