//! LEDBAT and LEDBAT++ in a closed loop: alone, beside others, and beside themselves. 10 Mbit/s unless said.

use crate::common::{Dumbbell, bulk, mean, share, variable};
use paceline_cc::Time;
use paceline_experiment::{Flow, Outcome, Via};
use paceline_path::queue::QueueBound;

fn path(rtt_ms: u64, bdp: f64, flows: Vec<Flow>) -> Dumbbell {
    let packets = (bdp * 10e3 * rtt_ms as f64 / 8.0 / crate::common::WIRE) as u64;
    Dumbbell { limit: QueueBound::packets(packets), ..Dumbbell::new(10.0, rtt_ms, flows) }
}

fn via(name: &str) -> Via {
    if name.starts_with("ledbat++") || !name.starts_with("ledbat") { Via::tcp(None) } else { Via::udp() }
}

fn flow(name: &str, start_s: u64) -> Flow {
    Flow { start: Time::from_millis(1_000 * start_s), ..bulk(name, via(name)) }
}

/// Milliseconds that the queue holds, each millisecond.
fn queue_ms(outcome: &Outcome) -> Vec<f64> {
    outcome.series.as_ref().unwrap().queue_bytes.iter().map(|bytes| *bytes as f64 * 8.0 / 10e3).collect()
}

/// The share of the first flow, and of the second, in the last half minute of a minute and a half.
fn shares(bdp: f64, rtt_ms: u64, flows: Vec<Flow>) -> [f64; 2] {
    let outcome = path(rtt_ms, bdp, flows).run(90);
    [0, 1].map(|flow| share(&outcome, flow, 60_000, 90_000))
}

#[test]
fn alone_they_fill_the_link_and_the_queue_to_their_target() {
    for (name, least, queue) in [("ledbat", 0.99, 90.0..=115.0), ("ledbat++", 0.85, 20.0..=60.0)] {
        let outcome = path(50, 4.0, vec![flow(name, 0)]).run(60);
        let used = share(&outcome, 0, 5_000, 60_000);
        assert!(used >= least, "{name}: {used}");
        let held = mean(&queue_ms(&outcome)[5_000..]);
        assert!(queue.contains(&held), "{name}: {held} ms");
    }
}

#[test]
fn a_tenth_of_the_time_goes_into_slowdowns_that_empty_the_queue() {
    let outcome = path(50, 4.0, vec![flow("ledbat++", 0)]).run(60);
    let phase = variable(&outcome.series.as_ref().unwrap().flows[0], "phase");
    let slow = phase[5_000..].iter().filter(|phase| **phase >= 2.0).count() as f64 / 55_000.0;
    assert!((0.05..=0.1).contains(&slow), "{slow}");
    let queue = queue_ms(&outcome);
    let mut emptied = 0;
    for ms in 5_001..60_000 {
        if phase[ms] == 2.0 && phase[ms - 1] != 2.0 {
            let held = phase[ms..].iter().take_while(|phase| **phase == 2.0).count();
            assert!(queue[ms..ms + held].iter().any(|queue| *queue < 1.2), "at {ms} ms");
            emptied += 1;
        }
    }
    assert!(emptied >= 3, "{emptied}");
}

/// Beside Reno over a queue of a BDP LEDBAT has half of the link, and beside all LEDBAT++ less than a third.
#[test]
fn the_plus_gives_way_where_ledbat_does_not() {
    for other in ["reno", "cubic"] {
        for bdp in [1.0, 4.0] {
            let [plus, _] = shares(bdp, 20, vec![flow("ledbat++", 0), flow(other, 0)]);
            assert!((0.02..=0.33).contains(&plus), "beside {other}, {bdp} BDP: {plus}");
        }
    }
    let [plain, _] = shares(1.0, 20, vec![flow("ledbat", 0), flow("reno", 0)]);
    assert!(plain >= 0.4, "{plain}");
}

/// The second flow finds the first one's queue on the path. LEDBAT keeps it for the path, and takes four fifths; LEDBAT++ finds out.
#[test]
fn a_latecomer_takes_no_more_than_its_part() {
    for bdp in [4.0, 10.0] {
        let late = |name| shares(bdp, 50, vec![flow(name, 0), flow(name, 20)]);
        let [first, second] = late("ledbat++");
        assert!((0.4..=0.6).contains(&(second / (first + second))), "{bdp} BDP: {first} and {second}");
        let [first, second] = late("ledbat");
        assert!(second / (first + second) >= 0.6, "LEDBAT's known failure, {bdp} BDP: {first} and {second}");
    }
}
