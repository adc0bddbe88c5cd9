//! Each stack in virtual time: what a controller gets out of it, without a machine's noise.

use std::sync::{Arc, Mutex};

use paceline_cc::event_log::{Log, Reader, replay};
use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Env, Nanos};

use crate::world::{Figures, Passed, Way, over_udp};
use crate::{STACKS, Tested, at};

/// Mbit/s of the constant path; of them, headers of QUIC, UDP and IP taken off.
pub(crate) const RATE: u32 = 24;
const FULL: f64 = RATE as f64 * 1420.0 / 1480.0;
/// From when on a flow of the constant path is judged, and how long it runs.
pub(crate) const START: u64 = 5_000;
pub(crate) const LASTING: u64 = 20_000;

fn over_constant(tested: &Tested, spec: &str) -> (Passed, Figures) {
    let passed = tested.run(tested.factory(spec), Way::Constant(RATE), Nanos::from_millis(LASTING));
    let figures = passed.figures(at(START)..at(LASTING));
    println!("{spec}@{}: {figures:?}", tested.stack.datapath.name);
    (passed, figures)
}

/// The controller fills the link, with a queue of at most so many ms in the median and at the 95th percentile.
fn fills(spec: &str, share: f64, p50: f64, p95: f64) {
    for tested in STACKS {
        let (passed, figures) = over_constant(tested, spec);
        let goodput = passed.goodput(at(START)..at(LASTING));
        // 20 ms, and 0.5 ms on the wire.
        let (queue_p50, queue_p95) = (figures.p50 - 20.5, figures.p95 - 20.5);
        let name = tested.stack.name;
        assert!(goodput > share * FULL, "{name}: {goodput} Mbit/s of {FULL}, {figures:?}");
        assert!(queue_p50 < p50 && queue_p95 < p95, "{name}: {figures:?}");
    }
}

#[test]
fn copa_fills_the_link_with_a_short_queue() {
    fills("copa", 0.95, 10.0, 10.0);
}

#[test]
fn copa_begins_without_a_long_queue() {
    for tested in STACKS {
        let passed = tested.run(tested.factory("copa"), Way::Constant(RATE), Nanos::from_millis(START));
        let figures = passed.figures(at(0)..at(START));
        println!("{}: {figures:?}", tested.stack.name);
        // A start that doubles each round trip and leaves evenly overshoots by less than a round trip.
        assert!(figures.most - 20.5 < 40.5, "{}: {figures:?}", tested.stack.name);
    }
}

#[test]
fn bbr_fills_the_link_and_does_not_stand_at_its_window() {
    fills("bbr", 0.95, 20.0, f64::MAX);
}

#[test]
fn verus_fills_the_link() {
    fills("verus", 0.9, f64::MAX, f64::MAX);
}

#[test]
fn a_fixed_rate_is_kept_without_a_queue() {
    for tested in STACKS {
        let (passed, figures) = over_constant(tested, "fixed:window=1000,rate=12");
        let goodput = passed.goodput(at(START)..at(LASTING));
        let off = goodput / (12.0 * 1420.0 / 1452.0) - 1.0;
        // A window that stands for a rate loses what it could not use in time.
        let most = if tested.named("quinn") { 0.04 } else { 0.02 };
        assert!(off.abs() < most && figures.p95 - 20.5 < 10.0, "{}: {goodput} Mbit/s, {figures:?}", tested.stack.name);
    }
}

#[test]
fn a_stack_is_woken_up_by_packets_and_hardly_otherwise() {
    for tested in STACKS {
        let passed = tested.run(tested.factory("copa"), Way::Constant(RATE), Nanos::from_millis(START));
        let each = passed.turns as f64 / passed.left.len() as f64;
        println!("{}: {each} turns a packet", tested.stack.name);
        // It leaves, passes the link, arrives, and its acknowledgement does.
        assert!(each < 3.0, "{}: {each} turns a packet", tested.stack.name);
    }
}

/// How far a flow may be from the one over datagrams: throughput, median and 95th percentile of the delay.
pub(crate) struct Bounds {
    mbps: f64,
    p50: f64,
    p95: f64,
}

impl Bounds {
    pub(crate) fn check(&self, what: &str, flow: &Figures, udp: &Figures) {
        println!("{what}: {flow:?}, over datagrams {udp:?}");
        let off = |a: f64, b: f64| (a / b - 1.0).abs();
        assert!(off(flow.mbps, udp.mbps) < self.mbps, "{what}: {flow:?}, over datagrams {udp:?}");
        assert!(off(flow.p50, udp.p50) < self.p50, "{what}: {flow:?}, over datagrams {udp:?}");
        assert!(off(flow.p95, udp.p95) < self.p95, "{what}: {flow:?}, over datagrams {udp:?}");
    }
}

/// Of a stack whose controllers know each packet and set a rate.
pub(crate) const CLOSE: Bounds = Bounds { mbps: 0.02, p50: 0.03, p95: 0.10 };
/// Of one whose controllers set only a window: it leaves in bursts.
const WIDE: Bounds = Bounds { mbps: 0.05, p50: 0.15, p95: 0.45 };

fn bounds(tested: &Tested) -> &'static Bounds {
    if tested.named("quinn") { &WIDE } else { &CLOSE }
}

#[test]
fn copa_is_copa_over_datagrams_at_a_constant_rate() {
    let (span, lasting) = (at(START)..at(LASTING), Nanos::from_millis(LASTING));
    let udp = over_udp("copa", Way::Constant(RATE), lasting).figures(span);
    for tested in STACKS {
        bounds(tested).check(tested.stack.name, &over_constant(tested, "copa").1, &udp);
    }
}

/// The whole of the flow, from its start on.
#[test]
fn copa_is_copa_over_datagrams_on_a_cellular_path() {
    let lasting = 60_000;
    for second in [0, 20, 40] {
        let (way, span) = (Way::Cellular(second), at(0)..at(lasting));
        let udp = over_udp("copa", way, Nanos::from_millis(lasting)).figures(span.clone());
        for tested in STACKS {
            let passed = tested.run(tested.factory("copa"), way, Nanos::from_millis(lasting));
            let what = format!("{} from {second} s on", tested.stack.name);
            bounds(tested).check(&what, &passed.figures(span.clone()), &udp);
        }
    }
}

/// The first two seconds, where a packet earlier or later decides how far one start goes: the mean of many.
#[test]
fn copa_begins_as_over_datagrams_on_a_cellular_path() {
    let (span, lasting) = (at(0)..at(2_000), Nanos::from_millis(2_000));
    let mean = |run: &dyn Fn(Way) -> Figures| {
        let starts: Vec<Figures> = (0..54).step_by(2).map(|second| run(Way::Cellular(second))).collect();
        let mean = |of: fn(&Figures) -> f64| starts.iter().map(of).sum::<f64>() / starts.len() as f64;
        (mean(|start| start.mbps), mean(|start| start.p95))
    };
    let udp = mean(&|way| over_udp("copa", way, lasting).figures(span.clone()));
    for tested in STACKS.iter().filter(|tested| !tested.named("quinn")) {
        let own = mean(&|way| tested.run(tested.factory("copa"), way, lasting).figures(span.clone()));
        println!("{}: Mbit/s and p95 {own:?}, over datagrams {udp:?}", tested.stack.name);
        assert!((own.0 / udp.0 - 1.0).abs() < 0.05 && own.1 < 1.1 * udp.1, "{}: {own:?}, {udp:?}", tested.stack.name);
    }
}

#[test]
fn what_a_controller_saw_replays_bit_by_bit() {
    for tested in STACKS {
        for spec in ["copa", "bbr", "cubic", "verus"] {
            replays(tested, spec, Way::Constant(RATE));
        }
    }
}

/// What the controller saw is an event log that replays bit by bit.
pub(crate) fn replays(tested: &Tested, spec: &str, way: Way) {
    let factory = tested.factory(spec);
    let log: Arc<Mutex<Option<Log<Vec<u8>>>>> = Arc::default();
    let (kept, of) = (Arc::clone(&log), factory.spec().clone());
    let observe = move |env: &Env| {
        *kept.lock().unwrap() = Some(Log::new(Vec::new(), &of, env, "quic").unwrap());
        Some(Box::new(Kept(Arc::clone(&kept))) as Box<dyn Observer>)
    };
    let of = factory.spec().clone();
    tested.run(factory.observed(observe), way, Nanos::from_millis(START));
    let written = log.lock().unwrap().take().unwrap().finish().unwrap();
    let mut reader = Reader::new("quic", written.as_slice()).unwrap();
    let mut again = of.build(&reader.header().env.clone());
    let events = replay(&mut reader, again.as_mut()).unwrap();
    assert!(events > 5_000, "{spec}@{}: {events} events", tested.stack.datapath.name);
}

struct Kept(Arc<Mutex<Option<Log<Vec<u8>>>>>);

impl Observer for Kept {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        self.0.lock().unwrap().as_mut().expect("begun").on_event(event, controller);
    }
}
