//! Application-limited flows: no window grows further than the flow has used it, whatever the controller, the datapath, the path
//! and the application (draft-ietf-ccwg-ratelimited-increase).
//!
//! `RATE_LIMITED=10000 cargo test -p paceline-sim rate_limited` runs as many workloads; `RATE_LIMITED_FROM=17` begins with another one.

use std::env;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::entry::Params;
use paceline_cc::observe::Observer;
use paceline_cc::registry::{CONTROLLERS, Definition, register};
use paceline_cc::start_ups::START_UPS;
use paceline_cc::testing::rate_limited::{Blinded, Findings, RateLimited};
use paceline_cc::{Controller, Env, Nanos, Rate, Spec};
use paceline_experiment::icn::Asking;
use paceline_experiment::{Config, Flow, OnOff, Seed, Subject, Tap, Topology, Via, Workload};
use paceline_path::queue::QueueBound;
use paceline_path::{Delay, Link, Path, QueueSpec, Schedule};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::common::{Dumbbell, RandomLoss, Tampering, bulk, tampered};

/// Packets of an application in a run, about.
const PACKETS: f64 = 3_000.0;

/// A controller, a path and an application.
#[derive(Debug)]
struct Case {
    number: u64,
    controller: String,
    via: &'static str,
    mbps: f64,
    rtt: Nanos,
    bdp: f64,
    loss: f64,
    ack_every: u32,
    paced: bool,
    workload: Workload,
    seconds: f64,
}

fn via(name: &str) -> Via {
    match name {
        "udp" => Via::udp(),
        "tcp" => Via::tcp(None),
        "alcc" => Via::alcc("cubic".parse().unwrap(), Default::default()),
        "icn" => Via::icn(Asking::default()),
        _ => unreachable!("{name}"),
    }
}

/// Everything of the registry that the simulator can run, with every start-up: but for what does not grow, and for what a receiver offers
/// beside a window of the sender, which is judged under its own name.
fn contestants() -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    for entry in CONTROLLERS.iter().filter(|entry| !matches!(entry.name, "fixed" | "rledbat")) {
        let with = |start: &str| format!("{}:start={start}", entry.name);
        let texts: Vec<String> = match entry.start {
            Some(_) => START_UPS.iter().map(|start| with(start.name)).collect(),
            None => vec![entry.name.to_owned()],
        };
        for text in texts {
            let spec: Spec = text.parse().unwrap();
            for name in ["udp", "tcp", "alcc", "icn"] {
                if via(name).datapath().carries(&spec).is_ok() {
                    all.push((text.clone(), name));
                }
            }
        }
    }
    all
}

fn log_uniform(rng: &mut Pcg64, low: f64, high: f64) -> f64 {
    libm::exp(rng.random_range(libm::log(low)..libm::log(high)))
}

impl Case {
    /// One of all controllers in turn, everything else by chance.
    fn draw(number: u64, among: &[(String, &'static str)]) -> Self {
        let rng = &mut Pcg64::seed_from_u64(number);
        let (controller, via) = &among[number as usize % among.len()];
        let mbps = log_uniform(rng, 1.0, 200.0);
        let rtt = Nanos::from_secs_f64(log_uniform(rng, 1e-3, 0.3));
        let round = rtt.as_secs_f64();
        let (workload, share) = match rng.random_range(0..4) {
            0 => {
                let share = rng.random_range(0.05..1.5);
                (Workload::Rate(Rate::from_mbps(share * mbps)), share)
            }
            // A packet in a tenth of a round trip to three of them.
            1 => {
                let rate = 1448.0 * 8.0 / (round * log_uniform(rng, 0.1, 3.0)) / 1e6;
                (Workload::Rate(Rate::from_mbps(rate)), rate / mbps)
            }
            2 => {
                let [on, off] = [log_uniform(rng, 1e-3, 1.0), log_uniform(rng, 1e-3, 1.0)];
                let [on, off] = [on, off].map(Nanos::from_secs_f64);
                let share = on.as_secs_f64() / (on + off).as_secs_f64();
                (Workload::OnOff(OnOff { on, off, random: rng.random_bool(0.5) }), share)
            }
            // Messages of up to four BDP, and silences of up to some timeouts.
            _ => {
                let on = Nanos::from_secs_f64(round * log_uniform(rng, 0.01, 4.0));
                let off = Nanos::from_secs_f64(round * rng.random_range(0.0..20.0) + 1e-4);
                let share = on.as_secs_f64() / (on + off).as_secs_f64();
                (Workload::OnOff(OnOff { on, off, random: true }), share)
            }
        };
        let sent = mbps * share.min(1.0) * 1e6 / 8.0 / 1500.0;
        Self {
            number,
            controller: controller.clone(),
            via,
            mbps,
            rtt,
            bdp: rng.random_range(0.2..4.0),
            loss: [0.0, 0.0, 0.001, 0.01][rng.random_range(0..4)],
            ack_every: [1, 2, 16, 64][rng.random_range(0..4)],
            paced: rng.random_bool(0.5),
            workload,
            seconds: (PACKETS / sent).clamp(20.0 * round, 20.0).min(20.0),
        }
    }

    fn flow(&self) -> Flow {
        Flow {
            ack_every: self.ack_every,
            paced: self.paced,
            workload: self.workload.clone(),
            ..Flow::bulk(self.controller.parse().unwrap(), via(self.via))
        }
    }

    fn run(&self) -> Findings {
        self.run_with(&|of, findings| RateLimited::new(of.spec, of.env.mss, findings))
    }

    fn run_with(&self, judge: &Judge) -> Findings {
        let half = self.rtt.mul_div(1, 2);
        let rate = Rate::from_mbps(self.mbps);
        let limit = QueueBound { bdp: Some(self.bdp), packets: Some(4), ..QueueBound::NONE };
        let queue = QueueSpec::DropTail { limit }.build(rate, self.rtt, 1);
        let loss = RandomLoss { probability: self.loss, rng: Pcg64::seed_from_u64(self.number) };
        let down = Path::new().filter(loss).link(Link::new(Schedule::constant(rate), queue)).delay(Delay::new(half));
        let findings = Arc::default();
        let mut watch = Watch { findings: Arc::clone(&findings), judge };
        paceline_sim::run(
            Config {
                seed: Seed(self.number),
                duration: Nanos::from_secs_f64(self.seconds),
                topology: Topology::dumbbell(down, Path::new().delay(Delay::new(half))),
                flows: vec![self.flow()],
                cross: Vec::new(),
                sample_every: None,
            },
            Some(&mut watch),
        );
        let findings = findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.clone()
    }
}

/// Holds the controller under test against the rule: that above TCP, where there are two.
struct Watch<'a> {
    findings: Arc<Mutex<Findings>>,
    judge: &'a Judge,
}

type Judge = dyn Fn(&Subject<'_>, Arc<Mutex<Findings>>) -> RateLimited + Sync;

impl Tap for Watch<'_> {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        Some(Box::new((self.judge)(of, Arc::clone(&self.findings))))
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[test]
fn no_window_grows_further_than_its_flow_has_used_it() {
    let among = contestants();
    let count = number("RATE_LIMITED").unwrap_or(400);
    let from = number("RATE_LIMITED_FROM").unwrap_or(0);
    let (mut judged, mut excesses) = (0, Vec::new());
    for number in from..from + count {
        let case = Case::draw(number, &among);
        let findings = case.run();
        judged += findings.judged;
        excesses
            .extend(findings.excess.map(|excess| format!("{}@{}: {excess}\n  {case:?}", case.controller, case.via)));
    }
    println!("{count} workloads, {} of {} contestants, {judged} growths", count.min(among.len() as u64), among.len());
    assert!(excesses.is_empty(), "{} of {count}:\n{}", excesses.len(), excesses.join("\n"));
}

/// What is told that every flight fills its window breaks the rule, and it is seen.
#[test]
fn what_grows_further_is_found() {
    for name in ["reno", "cubic", "copa"] {
        let blinded = format!("blinded-{name}");
        let spec: Spec = name.parse().unwrap();
        let make = move |_: &Params, env: &Env| -> Box<dyn Controller> { Box::new(Blinded(spec.build(env))) };
        register(Definition::new(&blinded, make)).unwrap();
        let judge = |of: &Subject<'_>, findings| RateLimited::new(&name.parse().unwrap(), of.env.mss, findings);
        let mut found = (0..100).map(|number| Case::draw(number, &[(blinded.clone(), "tcp")]).run_with(&judge));
        assert!(found.any(|findings| findings.excess.is_some()), "{name}");
    }
}

/// A bulk flow without pacing fills its window: to the byte it does what it would without the bound. Copa and Prague pace.
#[test]
fn a_flow_that_fills_its_window_is_not_bound() {
    let windows = CONTROLLERS.iter().filter(|entry| RateLimited::judges_window(&entry.name.parse().unwrap()));
    for entry in windows.filter(|entry| !matches!(entry.name, "copa" | "prague" | "rledbat")) {
        let spec: Spec = entry.name.parse().unwrap();
        let via = || if via("tcp").datapath().carries(&spec).is_ok() { via("tcp") } else { via("udp") };
        let course = |name: &str| {
            let limit = QueueBound::packets(50);
            let outcome = Dumbbell { limit, ..Dumbbell::new(12.0, 40, vec![bulk(name, via())]) }.run(30);
            let series = outcome.series.unwrap();
            (series.flows[0].window_packets.clone(), series.queue_bytes, outcome.flows[0].sender.packets_sent)
        };
        let (bound, free) = (course(entry.name), course(&tampered(entry.name, Tampering::Fills)));
        let differs = bound.0.iter().zip(&free.0).position(|(one, other)| one != other);
        assert!(bound == free, "{}: at {differs:?} ms; {} and {} packets", entry.name, bound.2, free.2);
    }
}
