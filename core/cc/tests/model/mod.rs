//! Every registered controller, with its defaults and with random parameters, through random sequences of events.
//!
//! The events come from a small [`datapath`] that keeps the promises of `controller.rs`; [`hostile`] keeps none. More
//! cases: `PROPTEST_CASES=5000`; other ones: `PROPTEST_RNG_SEED=7`.

mod datapath;
mod hostile;
mod operations;
mod report;
mod telemetry;

use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, Mutex};

use paceline_cc::Spec;
use paceline_cc::controller::{Controller, Env};
use paceline_cc::entry::Entry;
use paceline_cc::event_log::{Log, Reader, replay};
use paceline_cc::observe::Observed;
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::units::{Nanos, Time};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestError, TestRunner};

use datapath::{Datapath, World};
use operations::{Operation, any_spec, described, operation, remembered, run, world};

/// A window above this is not a window: a petabyte (our choice).
const SANE_WINDOW: u64 = 1 << 50;
/// A flow with nothing in flight sends again within this (our choice: an RTT of 1000 s, and a thousand of them).
const PATIENCE: Nanos = Nanos::from_secs(1_000_000);

/// A controller of the registry by its name.
struct Named(&'static Entry);

impl Display for Named {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

fn named() -> impl Iterator<Item = Named> {
    CONTROLLERS.iter().map(Named)
}

/// Every controller with its defaults, and with each of its start-ups.
fn defaults() -> Vec<Spec> {
    let parse = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut specs = Vec::new();
    for entry in CONTROLLERS {
        specs.push(parse(entry.name));
        if let Some(start) = &entry.start {
            let others = start.among.iter().map(|start_up| start_up.name).filter(|name| *name != start.param.default);
            specs.extend(others.map(|name| parse(&format!("{}:start={name}", entry.name))));
        }
    }
    specs
}

/// What holds after every event.
fn check(controller: &dyn Controller, mss: u32) {
    let (window, _, variables) = described(controller);
    assert!(window >= u64::from(mss), "a window of {window} bytes is less than a packet of {mss}");
    assert!(!variables.is_empty(), "nothing is described");
    for (index, (name, value)) in variables.iter().enumerate() {
        assert!(value.is_finite(), "{name} = {value}");
        assert!(variables[..index].iter().all(|(other, _)| other != name), "{name} is described twice");
    }
    assert!(controller.nature().heartbeat.is_none_or(|span| span > Nanos::ZERO), "a heartbeat without a pause");
}

/// With nothing in flight, the flow sends a packet sooner or later.
fn sends_again(flow: &mut Datapath, mss: u32) {
    assert_eq!(flow.in_flight, 0);
    let until = flow.now + PATIENCE;
    for _ in 0..100_000 {
        if flow.send(1, mss, Nanos::ZERO) == 1 {
            return;
        }
        let wake = flow.gate().min(flow.controller.next_tick());
        assert!(wake < Time::NEVER, "held without a tick to come and with nothing in flight");
        assert!(wake <= until, "the next packet or tick comes at {wake}, and it is {}", flow.now);
        flow.advance_to(wake);
    }
    panic!("ticks without end and no packet");
}

/// Everything is lost, again and again; then the path is good again.
fn recovers(flow: &mut Datapath, mss: u32) {
    let flying = flow.flying(0, usize::MAX);
    flow.lose(&flying);
    for _ in 0..4 {
        sends_again(flow, mss);
        check(flow.controller.as_ref(), mss);
        flow.advance_to(flow.now + Nanos::from_secs(1));
        flow.time_out();
        check(flow.controller.as_ref(), mss);
        assert_eq!(flow.in_flight, 0);
    }
    for _ in 0..10 {
        sends_again(flow, mss);
        flow.advance_to(flow.now + Nanos::from_millis(50));
        flow.deliver(&flow.flying(0, usize::MAX), 0, 0);
        check(flow.controller.as_ref(), mss);
    }
}

fn play(spec: &Spec, world: World, operations: &[Operation]) {
    let mut mss = world.env.mss;
    let mut flow = Datapath::new(spec, world);
    check(flow.controller.as_ref(), mss);
    for operation in operations {
        run(&mut flow, &mut mss, operation);
        check(flow.controller.as_ref(), mss);
        let window = flow.controller.window();
        assert!(window <= SANE_WINDOW, "after {operation:?}: a window of {window} bytes");
    }
    recovers(&mut flow, mss);
}

/// Runs `test` for every one of `all` on random values of its `strategy`, the same ones each time, and then names all
/// that failed with their shortest failing input.
fn for_every<T: Display, S: Strategy>(
    all: impl IntoIterator<Item = T>,
    cases: u32,
    strategy: impl Fn(&T) -> S,
    test: impl Fn(&T, S::Value),
) {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(1);
    }
    let mut failures = Vec::new();
    for one in all {
        let result = TestRunner::new(config.clone()).run(&strategy(&one), |value| {
            test(&one, value);
            Ok(())
        });
        match result {
            Ok(()) => {}
            Err(TestError::Fail(reason, value)) => failures.push(format!("{one}: {reason}\n  on {value:?}")),
            Err(TestError::Abort(reason)) => failures.push(format!("{one}: gave up: {reason}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn defaults_survive_any_sequence_of_events() {
    let sequences = |_: &Spec| (world(), prop::collection::vec(operation(), 1..80));
    for_every(defaults(), 64, sequences, |spec, (world, operations)| play(spec, world, &operations));
}

#[test]
fn any_parameters_survive_any_sequence_of_events() {
    let sequences = |named: &Named| (any_spec(named.0), world(), prop::collection::vec(operation(), 1..50));
    for_every(named(), 64, sequences, |_, (spec, world, operations)| play(&spec, world, &operations));
}

/// Window controllers with each of their start-ups.
fn window_controllers() -> impl Iterator<Item = Spec> {
    defaults().into_iter().filter(|spec| spec.start_up().is_some())
}

/// A flow of datagrams or a stream after some rounds of 20 ms, each of a full window.
fn settled(spec: &Spec, reliable: bool, rounds: u32) -> Datapath {
    let world = World { env: Env::default(), start: Time::ZERO, origin: 0, reliable, handshake: None };
    let mut flow = Datapath::new(spec, world);
    run(&mut flow, &mut 1448, &Operation::Rounds { rtt: Nanos::from_millis(20), rounds, ce: 0 });
    flow
}

#[test]
fn a_window_grows_again_after_a_time_out() {
    for spec in window_controllers() {
        let mut flow = settled(&spec, true, 10);
        let before = flow.controller.window();
        flow.send(10, 1448, Nanos::from_millis(20));
        flow.time_out();
        run(&mut flow, &mut 1448, &Operation::Rounds { rtt: Nanos::from_millis(20), rounds: 60, ce: 0 });
        let after = flow.controller.window();
        assert!(after >= before.min(14_480) / 2, "{spec}: {before} bytes, and {after} after a timeout");
    }
}

/// Rounds of 20 ms over a link that takes 200 µs for a packet.
fn rounds(flow: &mut Datapath, rounds: u32) {
    for _ in 0..rounds {
        flow.send(100, 1448, Nanos::from_millis(20));
        flow.advance_to(flow.now + Nanos::from_millis(20));
        for packet in flow.flying(0, usize::MAX) {
            flow.advance_to(flow.now + Nanos::from_micros(200));
            flow.deliver(&[packet], 0, 0);
        }
    }
}

#[test]
fn a_loss_that_never_was_changes_no_later_reduction() {
    for spec in window_controllers() {
        let reduced = |spurious: bool| {
            let mut flow = settled(&spec, true, 0);
            let lose = |flow: &mut Datapath| {
                flow.send(100, 1448, Nanos::from_millis(20));
                flow.lose(&flow.flying(0, 1));
            };
            // The start-up ends early, and the policy grows past what it found.
            rounds(&mut flow, 2);
            lose(&mut flow);
            rounds(&mut flow, 200);
            if spurious {
                lose(&mut flow);
                flow.controller.on_spurious(flow.now);
                rounds(&mut flow, 2);
            }
            let before = flow.controller.window();
            lose(&mut flow);
            flow.controller.window() as f64 / before as f64
        };
        let (plain, after) = (reduced(false), reduced(true));
        assert!((plain - after).abs() < 0.05, "{spec}: to {plain} of the window, and to {after} after it");
    }
}

#[test]
fn marks_before_any_rtt_is_known_hold_no_flow() {
    for spec in window_controllers() {
        let mut flow = settled(&spec, true, 0);
        flow.send(3, 1448, Nanos::from_millis(100));
        flow.time_out();
        run(&mut flow, &mut 1448, &Operation::Rounds { rtt: Nanos::ZERO, rounds: 3, ce: 1 });
        recovers(&mut flow, 1448);
    }
}

#[test]
fn timeouts_in_a_row_hold_no_flow() {
    for spec in window_controllers() {
        let mut flow = settled(&spec, false, 10);
        for _ in 0..4 {
            sends_again(&mut flow, 1448);
            flow.send(64, 1448, Nanos::from_millis(100));
            flow.time_out();
            sends_again(&mut flow, 1448);
            flow.time_out();
            // The application falls silent for long enough to make the window stale.
            flow.advance_to(flow.now + Nanos::from_secs(1));
        }
    }
}

#[test]
fn ten_days_without_a_loss() {
    for spec in defaults() {
        let world = World { env: Env::default(), start: Time::ZERO, origin: 0, reliable: true, handshake: None };
        let mss = world.env.mss;
        let mut flow = Datapath::new(&spec, world);
        // Sparse days: a round, then minutes in which the flow waits for an acknowledgement or is idle.
        for round in 0..2_400 {
            flow.send(20, mss, Nanos::from_millis(50));
            let pause = if round % 3 == 0 { Nanos::from_secs(360) } else { Nanos::from_millis(50) };
            flow.advance_to(flow.now + pause);
            for pair in flow.flying(0, usize::MAX).chunks(2) {
                flow.deliver(pair, 0, 0);
            }
            flow.advance_to(flow.now + Nanos::from_secs(360) - pause);
            check(flow.controller.as_ref(), mss);
            assert!(flow.controller.window() <= SANE_WINDOW, "{spec}");
        }
        assert!(flow.now >= Time::from_secs_f64(864_000.0));
        recovers(&mut flow, mss);
    }
}

#[test]
fn the_answer_to_a_handshake_opens_no_window_and_ends_no_start_up() {
    for spec in defaults() {
        let world = |handshake| World { env: Env::default(), start: Time::ZERO, origin: 0, reliable: true, handshake };
        let plain = Datapath::new(&spec, world(None));
        let greeted = Datapath::new(&spec, world(Some(Nanos::from_millis(15))));
        assert_eq!(greeted.controller.window(), plain.controller.window(), "{spec}");
        let state = |flow: &Datapath| {
            let (_, _, mut variables) = described(flow.controller.as_ref());
            variables.retain(|(name, _)| ["starting", "alpha", "css_round", "slow_start"].contains(name));
            variables
        };
        assert_eq!(state(&greeted), state(&plain), "{spec}");
    }
}

#[test]
fn the_same_events_give_the_same_answers() {
    let sequences = |_: &Spec| (world(), prop::collection::vec(operation(), 1..40));
    for_every(defaults(), 16, sequences, |spec, (world, operations)| {
        let mut flows = [(); 2].map(|()| (Datapath::new(spec, world), world.env.mss));
        for operation in &operations {
            for (flow, mss) in &mut flows {
                run(flow, mss, operation);
            }
            let [(one, _), (other, _)] = &flows;
            assert_eq!(described(one.controller.as_ref()), described(other.controller.as_ref()));
        }
    });
}

/// A controller that is made of `spec` and whose log goes to memory.
fn log(spec: &Spec, env: &Env) -> Arc<Mutex<Log<Vec<u8>>>> {
    Arc::new(Mutex::new(Log::new(Vec::new(), spec, env, "model").expect("memory takes it")))
}

/// What was logged, read from its text and fed to a new controller, gives the same answers.
fn replays(spec: &Spec, env: &Env, log: Arc<Mutex<Log<Vec<u8>>>>) {
    let log = Arc::into_inner(log).expect("the flow is over").into_inner().expect("no panic");
    let written = log.finish().expect("memory takes it");
    let mut reader = Reader::new("model", written.as_slice()).expect("a header");
    assert_eq!(reader.header().controller.parse::<Spec>().as_ref(), Ok(spec));
    let mut fresh = spec.build(env);
    let events = replay(&mut reader, fresh.as_mut()).unwrap_or_else(|error| panic!("{spec}: {error}"));
    assert_eq!(events + 1, written.iter().filter(|byte| **byte == b'\n').count() as u64);
}

#[test]
fn what_is_recorded_is_replayed_bit_by_bit() {
    let sequences = |named: &Named| (any_spec(named.0), world(), prop::collection::vec(operation(), 1..40));
    for_every(named(), 48, sequences, |_, (spec, world, operations)| {
        let (log, mut mss) = (log(&spec, &world.env), world.env.mss);
        let mut flow = Datapath::observed(&spec, world, Some(Box::new(log.clone())));
        for operation in &operations {
            run(&mut flow, &mut mss, operation);
        }
        recovers(&mut flow, mss);
        drop(flow);
        replays(&spec, &world.env, log);
    });
}

#[test]
fn hostile_events_are_replayed_bit_by_bit() {
    let sequences = |named: &Named| (any_spec(named.0), prop::collection::vec(hostile::event(), 1..60));
    for_every(named(), 32, sequences, |_, (spec, events)| {
        let (env, mut now) = (Env::default().with_remembered(remembered(u64::MAX)), Time::ZERO);
        let log = log(&spec, &env);
        let mut controller = Observed::wrap(spec.build(&env), Some(Box::new(log.clone())));
        for event in &events {
            hostile::feed(controller.as_mut(), event, &mut now);
        }
        drop(controller);
        replays(&spec, &env, log);
    });
}

#[test]
fn hostile_events_do_not_panic() {
    let sequences = |named: &Named| (any_spec(named.0), prop::collection::vec(hostile::event(), 1..60));
    for_every(named(), 64, sequences, |_, (spec, events)| {
        let env = Env::default().with_remembered(remembered(u64::MAX));
        let mut controller = spec.build(&env);
        let mut now = Time::ZERO;
        for event in &events {
            hostile::feed(controller.as_mut(), event, &mut now);
            check(controller.as_ref(), env.mss);
        }
    });
}
