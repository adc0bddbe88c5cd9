//! `random_events CONTROLLER FIRST COUNT [START-UP ...]` writes event logs (docs/design/event-log.md) of random flows to its
//! standard output, one after the other: those of numbers FIRST to FIRST + COUNT - 1, each always the same. Another
//! implementation of the controller replays them, and must give the same answers (docs/design/java.md).
//!
//! The flows are those of the tests in `core/cc/tests/model`. Of four, one has the default parameters and two have random
//! ones; the fourth has random ones and events that contradict each other. Where start-ups are named, no other one is drawn.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use paceline_cc::event_log::Log;
use paceline_cc::observe::{Observed, Observer};
use paceline_cc::registry::find;
use paceline_cc::units::{Nanos, Time};
use paceline_cc::{Env, Spec};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../tests/model/datapath.rs"]
mod datapath;
#[path = "../tests/model/hostile.rs"]
mod hostile;
#[path = "../tests/model/operations.rs"]
mod operations;
#[path = "../tests/model/report.rs"]
mod report;

use datapath::Datapath;
use operations::{any_spec, operation, run, world};

/// Most operations of one flow, and most contradicting events: as the tests have it.
const OPERATIONS: usize = 50;
const HOSTILE: usize = 60;

fn draw<T: std::fmt::Debug>(runner: &mut TestRunner, strategy: impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).expect("nothing is rejected").current()
}

type Shared = Arc<Mutex<Log<Vec<u8>>>>;

fn log(spec: &Spec, env: &Env, about: &str) -> io::Result<(Shared, Box<dyn Observer>)> {
    let log = Arc::new(Mutex::new(Log::new(Vec::new(), spec, env, about)?));
    Ok((log.clone(), Box::new(log)))
}

/// A flow that keeps the promises of `controller.rs`.
fn flow(runner: &mut TestRunner, spec: &Spec, about: &str) -> io::Result<Shared> {
    let world = draw(runner, world());
    let operations = draw(runner, prop::collection::vec(operation(), 1..OPERATIONS));
    let (log, observer) = log(spec, &world.env, about)?;
    let mut mss = world.env.mss;
    let mut flow = Datapath::observed(spec, world, Some(observer));
    for operation in &operations {
        run(&mut flow, &mut mss, operation);
    }
    // Whatever it was, it ends in a timeout and a new start.
    flow.time_out();
    flow.advance_to(flow.now + Nanos::from_secs(1));
    flow.send(10, mss, Nanos::from_secs(1));
    flow.deliver(&flow.flying(0, usize::MAX), 0, 0);
    Ok(log)
}

/// Events that contradict each other.
fn contradicting(runner: &mut TestRunner, spec: &Spec, about: &str) -> io::Result<Shared> {
    let env = draw(runner, world()).env;
    let events = draw(runner, prop::collection::vec(hostile::event(), 1..HOSTILE));
    let (log, observer) = log(spec, &env, about)?;
    let mut controller = Observed::wrap(spec.build(&env), Some(observer));
    let mut now = Time::ZERO;
    for event in &events {
        hostile::feed(controller.as_mut(), event, &mut now);
    }
    Ok(log)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [controller, first, count, start_ups @ ..] = arguments.as_slice() else {
        return Err("usage: random_events CONTROLLER FIRST COUNT [START-UP ...]".into());
    };
    let default: Spec = controller.parse()?;
    let entry = find(default.entry().name).ok_or("a controller that was parsed has an entry")?;
    let known = |spec: &Spec| {
        let start_up = spec.start_up().map(|start_up| start_up.name);
        start_ups.is_empty() || start_up.is_none_or(|name| start_ups.iter().any(|known| known == name))
    };
    let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
    let mut out = io::stdout().lock();
    for number in first..first.saturating_add(count) {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
        let mut spec = default.clone();
        if !number.is_multiple_of(4) {
            spec = draw(&mut runner, any_spec(entry));
            while !known(&spec) {
                spec = draw(&mut runner, any_spec(entry));
            }
        }
        let about = format!("random_events {controller} {number}");
        let log = if number % 4 == 3 { contradicting } else { flow }(&mut runner, &spec, &about)?;
        let log = Arc::into_inner(log).ok_or("the flow still has its log")?.into_inner()?;
        out.write_all(&log.finish()?)?;
    }
    Ok(out.flush()?)
}
