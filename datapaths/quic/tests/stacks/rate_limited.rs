//! Application-limited flows inside QUIC: no window grows further than its flow has used it, whatever the controller. The bridge is
//! driven by a model of its stack's calls, over a link with a queue: a send call that ends with nothing to send while the window is open
//! makes the flow application-limited until the next one (quinn-proto 0.11.19 and noq-proto 1.4.0, `Connection::poll_transmit`;
//! s2n-quic-transport 0.91.0 says so of the last packet). The model does not pace: those that steer by a rate or by gaps are judged in the
//! simulator.
//!
//! `RATE_LIMITED=2000 cargo test -p paceline-quic rate_limited` runs as many workloads.

use std::collections::VecDeque;
use std::env;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::observe::Observed;
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::start_ups::START_UPS;
use paceline_cc::testing::rate_limited::{Blinded, Findings, RateLimited};
use paceline_cc::{Ability, Controller, Env, Nanos, Rate, Spec, Time};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRng, TestRunner};

use crate::{STACKS, Tested};

pub(crate) const MTU: u16 = 1200;
/// The same, in bytes of a flow.
const PACKET: u64 = MTU as u64;
/// Longest delay of an acknowledgement (RFC 9000, section 18.2).
const ACK_DELAY: Nanos = Nanos::from_millis(25);
/// Packets that may arrive before a hole is taken for a loss (RFC 9002, section 6.1.1).
const DISORDER: u64 = 3;

/// A path and an application that is busy and silent in turn.
#[derive(Clone, Debug)]
struct Case {
    mbps: f64,
    rtt: Nanos,
    queue: Nanos,
    /// Every n-th packet is lost; zero loses none.
    loses: u64,
    ack_every: usize,
    /// What is written at once, and the time until the next.
    turns: Vec<(u64, Nanos)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Flying {
    pub(crate) number: u64,
    pub(crate) sent_at: Time,
}

/// A stack's calls of packets of [`MTU`] bytes.
pub(crate) trait Inside {
    /// Whether a packet may leave beside those in flight.
    fn may_send(&mut self, in_flight: u64) -> bool;
    /// A packet left; nothing waits behind the last.
    fn sent(&mut self, now: Time, packet: Flying, last: bool);
    /// An acknowledgement came: of these, after which so many bytes are in flight.
    fn acked(&mut self, now: Time, packets: &[Flying], in_flight: u64, app_limited: bool);
    /// It showed that these were lost.
    fn lost(&mut self, now: Time, packets: &[Flying]);
    /// When the controller's next tick is due, where a loop runs them.
    fn next_tick(&mut self) -> Option<Time> {
        None
    }
    /// The loop runs those that are due.
    fn tick(&mut self, _now: Time) {}
}

/// The stack, the link, and the receiver.
struct Model {
    case: Case,
    inside: Box<dyn Inside>,
    now: Time,
    unsent: u64,
    app_limited: bool,
    flying: VecDeque<Flying>,
    next: u64,
    link_free: Time,
    arrivals: VecDeque<(Time, u64)>,
    held: Vec<u64>,
    ack_due: Time,
    acks: VecDeque<(Time, Vec<u64>)>,
    /// A probe leaves.
    probe_at: Time,
}

impl Model {
    fn new(case: &Case, inside: Box<dyn Inside>) -> Self {
        Self {
            case: case.clone(),
            inside,
            now: Time::ZERO,
            unsent: 0,
            app_limited: false,
            flying: VecDeque::new(),
            next: 0,
            link_free: Time::ZERO,
            arrivals: VecDeque::new(),
            held: Vec::new(),
            ack_due: Time::NEVER,
            acks: VecDeque::new(),
            probe_at: Time::NEVER,
        }
    }

    fn in_flight(&self) -> u64 {
        self.flying.len() as u64 * PACKET
    }

    fn send(&mut self) {
        let number = self.next;
        self.next += 1;
        let packet = Flying { number, sent_at: self.now };
        self.unsent = self.unsent.saturating_sub(PACKET);
        self.inside.sent(self.now, packet, self.unsent == 0);
        self.flying.push_back(packet);
        self.probe_at = self.now + self.case.rtt.mul_div(3, 1) + self.case.queue + ACK_DELAY;
        let begin = self.link_free.max(self.now);
        let lost = self.case.loses > 0 && number % self.case.loses == self.case.loses - 1;
        if lost || begin - self.now > self.case.queue {
            return;
        }
        self.link_free = begin + Rate::from_mbps(self.case.mbps).time_for(PACKET);
        self.arrivals.push_back((self.link_free + self.case.rtt.mul_div(1, 2), number));
    }

    /// A send call.
    fn transmit(&mut self) {
        loop {
            if self.unsent == 0 {
                self.app_limited = true;
                return;
            }
            self.app_limited = false;
            if !self.inside.may_send(self.in_flight()) {
                return;
            }
            self.send();
        }
    }

    fn arrive(&mut self, number: u64) {
        if self.held.is_empty() {
            self.ack_due = self.now + ACK_DELAY;
        }
        self.held.push(number);
        if self.held.len() >= self.case.ack_every {
            self.acknowledge();
        }
    }

    fn acknowledge(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.acks.push_back((self.now + self.case.rtt.mul_div(1, 2), held));
        self.ack_due = Time::NEVER;
    }

    fn take(&mut self, numbers: &[u64]) {
        let acked: Vec<Flying> = self.flying.iter().filter(|one| numbers.contains(&one.number)).copied().collect();
        self.flying.retain(|one| !numbers.contains(&one.number));
        self.inside.acked(self.now, &acked, self.in_flight(), self.app_limited);
        let newest = numbers.iter().max().copied().unwrap_or(0);
        let lost: Vec<Flying> = self.flying.iter().filter(|one| one.number + DISORDER <= newest).copied().collect();
        self.flying.retain(|one| one.number + DISORDER > newest);
        if !lost.is_empty() {
            self.unsent += lost.len() as u64 * PACKET;
            self.inside.lost(self.now, &lost);
        }
        self.probe_at = if self.flying.is_empty() { Time::NEVER } else { self.now + self.case.rtt.mul_div(3, 1) };
    }

    fn run(mut self) {
        let turns = self.case.turns.clone();
        let (mut turn, mut turn_at) = (turns.iter(), Time::ZERO);
        let end = turns.iter().fold(Time::ZERO, |at, (_, gap)| at + *gap);
        while self.now < end {
            if turn_at <= self.now {
                let Some((bytes, gap)) = turn.next() else { return };
                self.unsent = *bytes;
                turn_at = self.now + *gap;
            }
            while self.arrivals.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, number) = self.arrivals.pop_front().expect("there is one");
                self.arrive(number);
            }
            if self.ack_due <= self.now {
                self.acknowledge();
            }
            while self.acks.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, numbers) = self.acks.pop_front().expect("there is one");
                self.take(&numbers);
            }
            if self.probe_at <= self.now {
                self.send();
            }
            self.transmit();
            let arrival = self.arrivals.front().map_or(Time::NEVER, |(at, _)| *at);
            let ack = self.acks.front().map_or(Time::NEVER, |(at, _)| *at);
            let next = turn_at.min(arrival).min(ack).min(self.ack_due).min(self.probe_at);
            // A window below a packet opens with time.
            self.now = next.max(self.now + Nanos::from_nanos(1)).min(self.now + Nanos::from_millis(5));
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let log = |low: f64, high: f64| (low.ln()..high.ln()).prop_map(f64::exp);
    let path = (log(1.0, 200.0), log(1e-3, 0.3), 0.2..4.0, prop_oneof![Just(0_u64), Just(1000), Just(100)]);
    let turn = (log(1.0, 400.0), log(0.05, 20.0));
    let ack_every = prop_oneof![Just(1_usize), Just(2), Just(16), Just(64)];
    (path, ack_every, prop::collection::vec(turn, 3..30)).prop_map(|((mbps, rtt, bdp, loses), ack_every, turns)| Case {
        mbps,
        rtt: Nanos::from_secs_f64(rtt),
        queue: Nanos::from_secs_f64(rtt * bdp),
        loses,
        ack_every,
        turns: turns
            .into_iter()
            .map(|(packets, gap)| (packets as u64 * PACKET, Nanos::from_secs_f64((gap * rtt).min(2.0))))
            .collect(),
    })
}

/// What a controller does on such paths; the first excess, shrunk.
fn check(tested: &Tested, spec: &Spec, blinded: bool, count: u32) -> Result<(), String> {
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let run = |case: Case| {
        let findings: Arc<Mutex<Findings>> = Arc::default();
        let env = Env::new(u32::from(MTU));
        let controller = spec.build(&env);
        let controller: Box<dyn Controller> = if blinded { Box::new(Blinded(controller)) } else { controller };
        let judge = RateLimited::new(spec, env.mss, Arc::clone(&findings));
        let observed = Observed::wrap(controller, Some(Box::new(judge)));
        Model::new(&case, (tested.inside)(observed)).run();
        let findings = findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.excess.clone().map_or(Ok(()), |excess| Err(TestCaseError::fail(excess)))
    };
    TestRunner::new_with_rng(config, rng)
        .run(&cases(), run)
        .map_err(|error| format!("{spec}@{}: {error}", tested.stack.datapath.name))
}

#[test]
fn no_window_grows_further_than_its_flow_has_used_it() {
    let mut judged = Vec::new();
    for tested in STACKS {
        for entry in CONTROLLERS {
            let start_ups: &[_] = if entry.start.is_some() { START_UPS } else { &[] };
            let with = start_ups.iter().map(|start| format!("{}:start={}", entry.name, start.name));
            let texts = with.chain(entry.start.is_none().then(|| entry.name.to_owned()));
            let paced = |spec: &Spec| spec.needs(Ability::ExactGaps) || !RateLimited::judges_window(spec);
            let fits = |spec: &Spec| !paced(spec) && tested.stack.datapath.carries(spec).is_ok();
            judged.extend(texts.map(|text| text.parse::<Spec>().unwrap()).filter(fits).map(|spec| (tested, spec)));
        }
    }
    let workloads = env::var("RATE_LIMITED").ok().and_then(|text| text.parse().ok()).unwrap_or(800_u32);
    let each = workloads.div_ceil(judged.len() as u32);
    let excesses: Vec<String> =
        judged.iter().filter_map(|(tested, spec)| check(tested, spec, false, each).err()).collect();
    println!("{each} workloads for each of {} controllers", judged.len());
    assert!(excesses.is_empty(), "{}", excesses.join("\n"));
}

#[test]
fn what_grows_further_is_found() {
    for tested in STACKS {
        for name in ["reno", "cubic", "copa"] {
            let found = check(tested, &name.parse().unwrap(), true, 100);
            assert!(found.is_err(), "{name}@{}", tested.stack.datapath.name);
        }
    }
}
