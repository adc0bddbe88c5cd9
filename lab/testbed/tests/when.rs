//! What controllers trigger in a race: whichever datapath a controller of ours is on, its state is seen and the path changes.
#![cfg(target_os = "linux")]

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::icn::Asking;
use paceline_experiment::{
    Change, Condition, Config, DrivenBy, Flow, Handover, Hooks, Outcome, Seed, Tap, Topology, Via, When,
};
use paceline_fixture::without_harness;
use paceline_linux::namespace;
use paceline_path::{Direction, PathChange};
use paceline_testbed::race::{self, TestbedError};

const RATE: Rate = Rate::from_bytes_per_sec(1_250_000);
const SECONDS: u64 = 2;

/// From a window above 20 packets on, which slow start has within some round trips, the link has half of its rate.
fn halved() -> When {
    When {
        number: 0,
        is: vec![("cwnd_packets".to_owned(), Condition::Above(20.0))],
        after: Time::ZERO,
        skip: 0,
        times: 1,
        delay: Nanos::ZERO,
        lasts: None,
        set: vec![Change::Path { hop: 0, change: PathChange::RateBy(0.5) }],
    }
}

/// When a tap was told of changes.
#[derive(Default)]
struct Told(Vec<Time>);

impl Tap for Told {
    fn on_when(&mut self, now: Time, when: &When) {
        assert_eq!(*when, halved());
        self.0.push(now);
    }
}

/// Reno over this datapath, beside a flow that triggers nothing.
fn run(via: Via, hooks: Hooks) -> Result<Outcome, TestbedError> {
    let delay = Nanos::from_millis(10);
    let path = |direction: Direction| direction.build(7, delay + delay, &|_| Err("no trace")).unwrap();
    let down = Direction {
        rate: Some(RATE),
        delay,
        queue: Some("droptail:packets=60".parse().unwrap()),
        ..Direction::default()
    };
    let reno = Flow { when: vec![halved()], ..Flow::bulk("reno".parse().unwrap(), via) };
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_secs(SECONDS),
        topology: Topology::dumbbell(path(down), path(Direction { delay, ..Direction::default() })),
        flows: vec![Flow::bulk("copa".parse().unwrap(), Via::udp()), reno],
        cross: Vec::new(),
        sample_every: Some(Nanos::from_millis(100)),
    };
    race::run_with(config, None, hooks).map(|finished| finished.outcome)
}

/// Runs it, and looks at what the change left; false where a module cannot be loaded.
fn changes(via: Via) -> bool {
    let told: Arc<Mutex<Told>> = Arc::default();
    let outcome = match run(via, Hooks { tap: Some(told.clone()), ..Hooks::default() }) {
        Err(TestbedError::Kernel(_)) => return false,
        ended => ended.unwrap(),
    };
    let [fired] = outcome.fired[..] else { panic!("{:?}", outcome.fired) };
    assert!(fired.when == 0 && fired.value > 20.0, "{fired:?}");
    let [at] = told.lock().unwrap().0[..] else { panic!("it acted once") };
    assert!(at >= fired.at);
    // At this very rate until then, and at half of it from then on.
    let bytes = |span: Nanos| 1_250_000.0 * span.as_secs_f64();
    let end = Time::ZERO + Nanos::from_secs(SECONDS);
    let expected = bytes(at - Time::ZERO) + bytes(end - at) / 2.0;
    let capacity = outcome.hops[0].capacity_bytes.unwrap() as f64;
    // The path may have been some packets ahead.
    assert!((capacity - expected).abs() < 20_000.0, "{capacity} rather than {expected}");
    let shown = outcome.series.unwrap().capacity_mbps;
    assert!(shown[0] > 6.0 && (shown[shown.len() - 1] - 5.0).abs() < 0.1, "{shown:?}");
    true
}

fn over_udp() {
    assert!(changes(Via::udp()));
}

fn at_the_receiver() {
    assert!(changes(Via::icn(Asking::default())));
}

fn above_tcp() {
    assert!(changes(Via::alcc("reno".parse().unwrap(), Handover::default())));
}

#[cfg(feature = "quic")]
fn over_quic() {
    assert!(changes(Via::quic()));
}

#[cfg(not(feature = "quic"))]
fn over_quic() {
    eprintln!("skipped: over_quic: it needs the feature quic");
}

fn by_the_agent() {
    if !changes(Via::tcp(Some(DrivenBy::Agent))) {
        eprintln!("skipped: by_the_agent: this kernel takes no module");
    }
}

const TESTS: [(&str, fn()); 5] = [
    ("over_udp", over_udp),
    ("at_the_receiver", at_the_receiver),
    ("above_tcp", above_tcp),
    ("over_quic", over_quic),
    ("by_the_agent", by_the_agent),
];

fn main() -> ExitCode {
    let refused = namespace::acquire().err().map(|reason| reason.to_string());
    without_harness(&TESTS, refused.as_deref())
}
