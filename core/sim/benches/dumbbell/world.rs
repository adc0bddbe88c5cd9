//! The dumbbell of `scenarios/dumbbell.toml` for any number of flows: CUBIC over TCP, 10 ms each way, one BDP of
//! drop-tail. Shared by the bench and the example.

use paceline_cc::{Nanos, Rate, Spec};
use paceline_experiment::{Config, Flow, Via};
use paceline_experiment::{Outcome, Seed, Topology};
use paceline_path::Direction;
use paceline_path::queue::{QueueBound, QueueSpec};
use paceline_sim::run;

/// One way.
pub(crate) const DELAY: Nanos = Nanos::from_millis(10);

/// Runs it for `seconds` and answers the data packets that arrived.
pub(crate) fn packets(flows: usize, rate: Rate, seconds: u64) -> u64 {
    let limit = QueueBound { bdp: Some(1.0), ..QueueBound::NONE };
    let down = Direction {
        rate: Some(rate),
        queue: Some(QueueSpec::DropTail { limit }),
        delay: DELAY,
        ..Direction::default()
    };
    let up = Direction { delay: DELAY, ..Direction::default() };
    let controller: Spec = "cubic".parse().expect("cubic is registered");
    let flow = Flow::bulk(controller, Via::tcp(None));
    let no_trace = |name: &str| Err(format!("no trace {name} here"));
    let outcome: Outcome = run(
        Config {
            seed: Seed(1),
            duration: Nanos::from_secs(seconds),
            topology: Topology::dumbbell(
                down.build(1, DELAY + DELAY, &no_trace).expect("a valid direction"),
                up.build(2, DELAY + DELAY, &no_trace).expect("a valid direction"),
            ),
            flows: vec![flow; flows],
            cross: Vec::new(),
            sample_every: None,
        },
        None,
    );
    outcome.flows.iter().map(|flow| flow.packets_arrived).sum()
}
