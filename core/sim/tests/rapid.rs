//! Rapid Start in a closed loop: how soon it fills a path, and what it makes of the first loss. 100 Mbit/s, RTT 60 ms.

use crate::common::{Dumbbell, bulk, share, variable};
use paceline_experiment::{Flow, Outcome, Via};
use paceline_path::queue::QueueBound;

/// Full packets that the path holds without a queue.
const BDP: f64 = 500.0;

fn run(controller: &str, via: Via, queue_bdp: f64) -> Outcome {
    let flow = Flow { handshake: true, ..bulk(controller, via) };
    let limit = QueueBound::packets((queue_bdp * BDP) as u64);
    Dumbbell { limit, ..Dumbbell::new(100.0, 60, vec![flow]) }.run(4)
}

/// When the first recovery ends, in ms.
fn repaired(outcome: &Outcome) -> usize {
    let repairs = variable(&outcome.series.as_ref().unwrap().flows[0], "repairs");
    let began = repairs.iter().position(|repairs| *repairs == 1.0).expect("a loss ends it");
    began + repairs[began..].iter().position(|repairs| *repairs == 0.0).expect("the recovery ends")
}

/// Milliseconds until four fifths of the link are used for two round trips.
fn fills(outcome: &Outcome) -> usize {
    (0..3_000).find(|from| share(outcome, 0, *from, from + 120) > 0.8).expect("the link is filled")
}

#[test]
fn the_first_recovery_leaves_the_policys_share_of_what_the_path_holds() {
    for (policy, beta) in [("reno", 0.5), ("cubic", 0.7)] {
        for via in [Via::tcp(None), Via::udp()] {
            for queue in [0.25, 0.5, 1.0, 2.0, 4.0] {
                let outcome = run(&format!("{policy}:start=rapid"), via.clone(), queue);
                let cwnd = variable(&outcome.series.as_ref().unwrap().flows[0], "cwnd_packets");
                let at = repaired(&outcome);
                let left = cwnd[at] / (BDP * (1.0 + queue));
                assert!((left - beta).abs() < 0.01, "{policy}, a queue of {queue} BDP: {left}");
                let sender = &outcome.flows[0].sender;
                assert!(sender.packets_lost > 1_000 && sender.timeouts == 0, "{policy}, {queue} BDP: {sender:?}");
            }
        }
    }
}

#[test]
fn it_fills_the_path_sooner_than_slow_start() {
    for queue in [0.5, 1.0, 4.0] {
        let [rapid, slow, hystart] = ["rapid", "slow", "rapid,rapid_exit=hystart++"]
            .map(|start| fills(&run(&format!("cubic:start={start}"), Via::tcp(None), queue)));
        // Rounds of a threefold window: log 2 / log 3 of those of slow start, 0.63.
        assert!((rapid as f64) < 0.65 * slow as f64, "{queue} BDP: {rapid} and {slow} ms");
        assert_eq!(hystart, rapid, "{queue} BDP: nothing waits until the link is full");
    }
}
