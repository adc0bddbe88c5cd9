use paceline_cc::{Bytes, Nanos, Rate, Time};
use paceline_experiment::{Config, Cut, Flow, Poisson, RunFailure, Seed, Topology, Via, Workload};
use paceline_path::queue::{QueueBound, QueueSpec};
use paceline_path::{Direction, Path};

use super::World;
use crate::body::Body;
use crate::live::SPARE;

/// 100 000 flows of a packet or two, one after the other beside one that does not end, over a queue that drops.
#[test]
fn tables_are_as_long_as_there_are_flows_alive() {
    let rtt = Nanos::from_millis(2);
    let limit = QueueBound { packets: Some(20), ..QueueBound::NONE };
    let delay = Nanos::from_millis(1);
    let down = Direction {
        rate: Some(Rate::from_mbps(400.0)),
        queue: Some(QueueSpec::DropTail { limit }),
        delay,
        ..Direction::default()
    };
    let up = Direction { delay, ..Direction::default() };
    let path = |direction: Direction, seed| -> Path<Body> { direction.build(seed, rtt, &|_| Err("no trace")).unwrap() };
    let [long, short] = ["fixed:window=10", "reno"].map(|text| Flow::bulk(text.parse().unwrap(), Via::tcp(None)));
    let family = Poisson {
        mean_gap: Nanos::from_micros(100),
        alpha: 1.2,
        min: Bytes(1_000),
        max: Bytes(20_000),
        scale: None,
        cut: Cut::Truncate,
        count: Some(100_000),
    };
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_secs(20),
        topology: Topology::dumbbell(path(down, 1), path(up, 2)),
        flows: vec![long, Flow { workload: Workload::Poisson(family), ..short }],
        cross: Vec::new(),
        sample_every: None,
    };
    let mut world = World::new(config, None);
    let (mut most, mut drops) = (0, 0);
    for until in (1..=20_000).map(Time::from_millis) {
        world.run_until(until);
        let alive = world.live.numbers().len();
        most = most.max(alive);
        assert!(world.live.places() <= 3 * alive + SPARE, "{} places for {alive} at {until}", world.live.places());
        drops = drops.max(world.hops.known_flows());
        assert!(world.hops.known_flows() <= alive, "{} flows at the hops", world.hops.known_flows());
    }
    assert_eq!(world.live.next_number(), 100_001);
    assert!((2..2_000).contains(&most) && drops > 1, "{most} alive, drops of {drops}");
    assert!(!world.has_ended(0), "the first of all is alive");
}

#[test]
fn a_flow_over_a_datapath_of_the_real_world_ends_the_run() {
    let direction = Direction { rate: Some(Rate::from_mbps(10.0)), ..Direction::default() };
    let path = |seed| -> Path<Body> { direction.build(seed, Nanos::ZERO, &|_| Err("no trace")).unwrap() };
    let controller = || "cubic".parse().unwrap();
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_secs(2),
        topology: Topology::dumbbell(path(1), path(2)),
        flows: vec![
            Flow::bulk(controller(), Via::tcp(None)),
            Flow { start: Time::from_millis(1_000), ..Flow::bulk(controller(), Via::quic()) },
        ],
        cross: Vec::new(),
        sample_every: None,
    };
    let mut world = World::new(config, None);
    assert!(!world.run_until(Time::from_millis(999)) && world.run_until(Time::from_millis(1_000)));
    let outcome = world.finish();
    assert!(outcome.flows[0].packets_arrived > 0 && outcome.flows[1].packets_entered == 0);
    assert!(matches!(outcome.failure, Some(RunFailure::NotSimulated(refused)) if refused.datapath == "quic"));
}
