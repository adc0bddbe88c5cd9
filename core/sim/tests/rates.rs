//! A delivery is counted once: no controller is told a rate that the link does not have, whatever is lost, overtaken or doubled.

use std::sync::{Arc, Mutex};

use crate::common::bulk;
use paceline_cc::observe::{Event, Observer};
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::{Controller, Nanos, Rate, Spec};
use paceline_experiment::{Config, Flow, Handover, Layer, Seed, Subject, Tap, Topology, Via};
use paceline_path::{Direction, LossModel, Reorder};
use paceline_sim::Body;

/// The largest rate that each of a flow's controllers was told, in Mbit/s, and how many.
#[derive(Default)]
struct Largest(f64, u64);

#[derive(Default)]
struct Rates(Vec<(Layer, Arc<Mutex<Largest>>)>);

impl Tap for Rates {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let largest = Arc::default();
        self.0.push((of.layer, Arc::clone(&largest)));
        Some(Box::new(largest))
    }
}

impl Observer for Largest {
    fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
        if let Event::Acked(ack) = event
            && let Some(sample) = ack.rate
        {
            self.0 = self.0.max(sample.rate().as_mbps());
            self.1 += 1;
        }
    }
}

/// What a path does to packets, besides 40 ms and this much queue.
#[derive(Clone, Copy, Debug, Default)]
struct Harm {
    bdp: f64,
    loss: f64,
    reorder: f64,
    duplicate: f64,
}

impl Harm {
    /// What was held back arrives beside what the link carries in the shortest round trip, as a share of that; twice the mean, since
    /// it is drawn.
    fn held(&self) -> f64 {
        2.0 * self.reorder * LATE.as_millis_f64() / (DELAY + DELAY).as_millis_f64()
    }
}

const HARMS: [Harm; 4] = [
    Harm { bdp: 0.1, loss: 0.0, reorder: 0.0, duplicate: 0.0 },
    Harm { bdp: 0.5, loss: 0.0, reorder: 0.0, duplicate: 0.0 },
    Harm { bdp: 1.0, loss: 0.05, reorder: 0.0, duplicate: 0.0 },
    Harm { bdp: 1.0, loss: 0.01, reorder: 0.1, duplicate: 0.1 },
];

const LINK_MBPS: f64 = 20.0;
const SECONDS: u64 = 6;
const DELAY: Nanos = Nanos::from_millis(20);
const LATE: Nanos = Nanos::from_millis(15);

fn told(controller: &str, via: Via, harm: &Harm) -> Rates {
    let delay = DELAY;
    let path = |direction: &Direction| direction.build::<Body, _>(3, DELAY + DELAY, &|_| Err("no trace")).unwrap();
    let up = Direction { delay, ..Direction::default() };
    let down = Direction {
        rate: Some(Rate::from_mbps(LINK_MBPS)),
        queue: Some(format!("droptail:bdp={}", harm.bdp).parse().unwrap()),
        loss: (harm.loss > 0.0).then_some(LossModel::Rate(harm.loss)),
        duplicate: (harm.duplicate > 0.0).then_some(harm.duplicate),
        reorder: (harm.reorder > 0.0).then_some(Reorder { share: harm.reorder, delay: LATE }),
        ..up.clone()
    };
    let mut rates = Rates::default();
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_secs(SECONDS),
        topology: Topology::dumbbell(path(&down), path(&up)),
        flows: vec![Flow { ack_every: 2, ..bulk(controller, via) }],
        cross: Vec::new(),
        sample_every: None,
    };
    paceline_sim::run(config, Some(&mut rates));
    rates
}

/// Payload in the 1500 bytes of a packet: of ICN's units too it is less than that.
const PAYLOAD: f64 = 1448.0 / 1500.0;

#[test]
fn no_controller_is_told_a_rate_above_the_links() {
    let alcc = |lower: &str| Via::alcc(lower.parse().unwrap(), Handover::default());
    let vias = [Via::udp(), Via::tcp(None), alcc("cubic"), alcc("fixed:window=65536"), Via::icn(Default::default())];
    let (mut samples, mut above) = (0, Vec::new());
    for entry in CONTROLLERS {
        let spec: Spec = entry.name.parse().unwrap();
        for via in vias.iter().filter(|via| via.datapath().carries(&spec).is_ok()) {
            for harm in &HARMS {
                for (layer, largest) in told(entry.name, via.clone(), harm).0 {
                    let Largest(mbps, count) = *largest.lock().unwrap();
                    samples += count;
                    if mbps > (1.02 + harm.held()) * LINK_MBPS * PAYLOAD {
                        above.push(format!("{}@{via:?}, {layer:?}, {harm:?}: {mbps:.2} Mbit/s", entry.name));
                    }
                }
            }
        }
    }
    assert!(above.is_empty(), "{}", above.join("\n"));
    assert!(samples > 100_000, "{samples}");
}
