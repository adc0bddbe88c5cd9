//! What figures count: every packet once, and losses where they happened.

use crate::common::bulk;
use paceline_cc::{Bytes, Nanos, Rate};
use paceline_experiment::{Config, Flow, Outcome, Seed, Topology, Via, Workload};
use paceline_path::{Direction, Path};

fn run(down: &Direction, flow: Flow, seconds: u64) -> Outcome {
    let delay = Nanos::from_millis(10);
    let build = |direction: &Direction| -> Path<_> {
        direction.build(1, delay + delay, &|name: &str| Err(name.to_owned())).unwrap()
    };
    let up = build(&Direction { delay, ..Direction::default() });
    let (seed, duration, down) = (Seed(1), Nanos::from_secs(seconds), build(down));
    let topology = Topology::dumbbell(down, up);
    paceline_sim::run(
        Config { seed, duration, topology, flows: vec![flow], cross: Vec::new(), sample_every: None },
        None,
    )
}

fn link() -> Direction {
    Direction {
        rate: Some(Rate::from_mbps(10.0)),
        queue: Some("droptail:bdp=1".parse().unwrap()),
        delay: Nanos::from_millis(10),
        ..Direction::default()
    }
}

/// CUBIC overflows the queue, and every packet that passes arrives twice, or one in ten: no more arrives than the link
/// carries, and what the queue drops is lost.
#[test]
fn copies_are_in_no_figure() {
    for duplicate in [0.0, 0.1, 1.0] {
        let down = Direction { duplicate: Some(duplicate), ..link() };
        let outcome = run(&down, bulk("cubic", Via::tcp(None)), 20);
        let flow = &outcome.flows[0];
        let capacity = outcome.hops[0].capacity_bytes.unwrap();
        assert!(flow.wire_bytes_arrived <= capacity, "{duplicate}: {} of {capacity}", flow.wire_bytes_arrived);
        assert!(flow.wire_bytes_arrived as f64 > 0.9 * capacity as f64, "{duplicate}: {}", flow.wire_bytes_arrived);
        assert!(flow.packets_dropped > 0 && flow.packets_dropped == outcome.hops[0].stats.full.packets, "{duplicate}");
        assert_eq!(flow.delay.count(), flow.packets_arrived, "{duplicate}");
    }
}

#[test]
#[should_panic(expected = "flow 0 sends without end over a path without a link")]
fn a_flow_without_end_needs_a_link() {
    run(&Direction::default(), bulk("fixed:window=20", Via::tcp(None)), 1);
}

#[test]
fn a_flow_with_an_end_needs_none() {
    let flow = Flow { workload: Workload::Bytes(Bytes(1_000_000)), ..bulk("cubic", Via::tcp(None)) };
    let outcome = run(&Direction::default(), flow, 1);
    assert_eq!(outcome.flows[0].completions.len(), 1);
}
