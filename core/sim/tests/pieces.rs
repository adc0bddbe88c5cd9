//! A world that is run piece by piece is the same world.

use paceline_cc::{Nanos, Time};
use paceline_experiment::{Config, Outcome, Seed, Via};
use paceline_sim::World;

use crate::common::bulk;
use crate::topology::{link, topology, way};

fn config() -> Config<paceline_sim::Body> {
    let topology = topology(&[("link", ["a", "b"], link(10.0, "droptail:packets=30", 10))], 1);
    let mut flow = bulk("cubic", Via::tcp(None));
    flow.way = way(&topology, "a", "b");
    Config {
        seed: Seed(1),
        duration: Nanos::from_secs(3),
        topology,
        flows: vec![flow],
        cross: Vec::new(),
        sample_every: Some(Nanos::from_millis(7)),
    }
}

fn figures(outcome: &Outcome) -> String {
    let (flow, series) = (&outcome.flows[0], outcome.series.as_ref().unwrap());
    format!("{} {} {:?} {:?}", outcome.events, flow.wire_bytes_arrived, flow.delay.mean_ms(), series)
}

#[test]
fn pieces_change_nothing() {
    let whole = figures(&paceline_sim::run(config(), None));
    for piece in [Nanos::from_nanos(999_999), Nanos::from_millis(7), Nanos::from_secs(2)] {
        let mut world = World::new(config(), None);
        let mut until = Time::ZERO;
        loop {
            until += piece;
            let over = world.run_until(until);
            assert_eq!(over, until >= Time::ZERO + Nanos::from_secs(3));
            if over {
                break;
            }
        }
        assert_eq!(figures(&world.finish()), whole);
    }
}

#[test]
fn capacity_is_that_of_the_link_that_is_shown() {
    let mut world = World::new(config(), None);
    let at = |millis| Time::ZERO + Nanos::from_millis(millis);
    world.run_until(at(500));
    // 10 Mbit/s for 100 ms.
    assert_eq!(world.capacity(at(400), at(500)), Some(125_000));
}
