//! A TCP that steers itself, and the same TCP steered by what its counters say.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use paceline_cc::observe::{Event, Observed, Observer};
use paceline_cc::{Ack, Controller, Env, Loss, Nature, Pacing, Permit, Rate, Recovery, Sent, Spec, Stamp, Timeout};
use proptest::prelude::*;

use super::*;
use crate::endpoint::{Sender, Steering};
use crate::prr::Prr;
use crate::receiver::AckPolicy;
use crate::sender::{Delivery as Kind, FlowSender};
use crate::{AckSegment, Segment, stream};

const MSS: u64 = 1448;

fn controller(spec: &str) -> Box<dyn Controller> {
    spec.parse::<Spec>().unwrap().build(&Env::default())
}

/// Answers as it is bid.
#[derive(Default)]
struct Bidden {
    window: AtomicU64,
    /// [`u64::MAX`]: none.
    rate: AtomicU64,
    glides: bool,
}

struct Steered(Arc<Bidden>);

impl Controller for Steered {
    fn on_sent(&mut self, _sent: &Sent) -> Stamp {
        Stamp::default()
    }

    fn on_ack(&mut self, _ack: &Ack<'_>) {}

    fn on_loss(&mut self, _loss: &Loss<'_>) {}

    fn on_timeout(&mut self, _timeout: &Timeout<'_>) {}

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        let mut permit = Permit::up_to(self.0.window.load(Ordering::Relaxed));
        permit.pacing = match self.0.rate.load(Ordering::Relaxed) {
            u64::MAX => Pacing::Free,
            rate => Pacing::Rate(Rate::from_bytes_per_sec(rate)),
        };
        permit.recovery = if self.0.glides { Recovery::Prr } else { Recovery::Controller };
        permit
    }

    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

/// A TCP whose counters are read after each event, and that does as the controller behind them answers.
struct Agent {
    flow: Counted,
    bidden: Arc<Bidden>,
    /// Reports are at least that far apart.
    interval: Nanos,
    rtt: Option<Samples>,
    departures: Option<(Time, Time)>,
    phase: Phase,
    recoveries: u64,
    reports: u64,
}

/// A flow that has done nothing.
const START: Counters = Counters::start(MSS as u32);

impl Agent {
    fn new(config: &SenderConfig, controller: Box<dyn Controller>, interval: Nanos) -> Self {
        let flow = Counted::new(config, controller, &START);
        let bidden = Arc::new(Bidden { glides: flow.glides(), ..Bidden::default() });
        let phase = Phase::Open;
        let agent = Self { flow, bidden, interval, rtt: None, departures: None, phase, recoveries: 0, reports: 0 };
        agent.answer();
        agent
    }

    fn counters(&mut self, now: Time, sender: &FlowSender) -> Counters {
        let phase = sender.phase;
        if phase != self.phase {
            self.recoveries += u64::from(phase == Phase::Recovery);
            self.phase = phase;
        }
        let stats = sender.stats();
        Counters {
            at: now,
            una: sender.una,
            next: sender.next,
            highest: sender.board.highest().unwrap_or(0).max(sender.una),
            ahead: sender.board.held(),
            in_flight: sender.board.in_flight.div_ceil(MSS) as u32,
            mss: MSS as u32,
            unsent: sender.unsent(),
            lost: stats.packets_lost,
            resent: stats.retransmits,
            marked: 0,
            recoveries: self.recoveries,
            echoes: 0,
            timeouts: stats.timeouts,
            backoff: sender.backoff,
            undone: 0,
            rtt: self.rtt.take(),
            srtt: sender.srtt(),
            departures: self.departures.take(),
            phase,
            limit: if sender.unsent() > 0 { FlowLimit::Window } else { FlowLimit::Application },
        }
    }

    fn look(&mut self, now: Time, sender: &mut FlowSender) {
        let begins = sender.phase != self.phase && sender.phase == Phase::Recovery;
        let urgent = sender.phase != self.phase || sender.stats().packets_lost != self.flow.last().lost;
        if !urgent && now - self.flow.last().at < self.interval {
            return;
        }
        let counters = self.counters(now, sender);
        self.flow.report(&counters);
        self.reports += 1;
        self.answer();
        if begins && self.bidden.glides {
            // The TCP began to glide to the window that it had.
            let mut prr = Prr::start(sender.next - sender.una, self.flow.window());
            prr.on_ack(0, sender.board.in_flight, false, MSS as u32);
            sender.prr = Some(prr);
        }
    }

    fn answer(&self) {
        self.bidden.window.store(self.flow.window(), Ordering::Relaxed);
        let rate = self.flow.pacing().map_or(u64::MAX, Rate::as_bytes_per_sec);
        self.bidden.rate.store(rate, Ordering::Relaxed);
    }
}

/// A bottleneck with a drop-tail queue, and a delay each way. One packet in `lossy` is lost besides; zero: none.
#[derive(Clone, Copy)]
struct Link {
    packet_time: Nanos,
    delay: Nanos,
    room: usize,
    lossy: u64,
}

struct Run {
    sender: FlowSender,
    agent: Option<Agent>,
    delivered: u64,
    /// Mean of the window over time, in packets.
    window: f64,
}

/// Runs a flow of `bytes` for `span`, steered by counters where there is an interval of reports.
fn run(native: Box<dyn Controller>, link: Link, bytes: u64, span: Nanos, interval: Option<Nanos>) -> Run {
    let config = SenderConfig::default();
    let (mut agent, lower) = match interval {
        None => (None, native),
        Some(interval) => {
            let agent = Agent::new(&config, native, interval);
            let steered: Box<dyn Controller> = Box::new(Steered(agent.bidden.clone()));
            (Some(agent), steered)
        }
    };
    let mut sender = FlowSender::new(&config, lower, Kind::Reliable, 0);
    let mut receiver = stream::receiver(&AckPolicy::default(), None);
    let mut data: VecDeque<(Time, Segment)> = VecDeque::new();
    let mut acks: VecDeque<(Time, AckSegment)> = VecDeque::new();
    let (mut now, mut free_at, mut count) = (Time::ZERO, Time::ZERO, 0_u64);
    let end = Time::ZERO + span;
    let (mut area, mut looked) = (0.0, now);
    sender.write(bytes);
    while now < end && !sender.is_idle() {
        while let Some(segment) = sender.poll_transmit(now) {
            count += 1;
            let queued = data.iter().filter(|(at, _)| *at > now + link.delay).count();
            if let Some(agent) = &mut agent {
                agent.departures = Some((agent.departures.map_or(now, |(first, _)| first), now));
            }
            if queued < link.room && !(link.lossy > 0 && count.is_multiple_of(link.lossy)) {
                free_at = free_at.max(now) + link.packet_time;
                data.push_back((free_at + link.delay, segment));
            }
        }
        let at = |time: Option<Time>| time.unwrap_or(Time::NEVER);
        let (next_data, next_ack) = (at(data.front().map(|(at, _)| *at)), at(acks.front().map(|(at, _)| *at)));
        let tick = agent.as_ref().map_or(Time::NEVER, |agent| agent.flow.next_tick());
        let timers = sender.next_timeout().min(receiver.next_timeout()).min(tick);
        now = next_data.min(next_ack).min(timers).max(now);
        area += sender.driver.window() as f64 / MSS as f64 * (now - looked).as_nanos() as f64;
        looked = now;
        if next_data <= now {
            let (_, segment) = data.pop_front().unwrap();
            receiver.on_segment(now, &segment, false);
        } else if next_ack <= now {
            let (_, ack) = acks.pop_front().unwrap();
            let rtt = sender.on_ack(now, &ack);
            if let Some(agent) = &mut agent {
                if let Some(rtt) = rtt {
                    let least = agent.rtt.map_or(rtt, |samples| samples.least.min(rtt));
                    agent.rtt = Some(Samples { newest: rtt, least });
                }
                agent.look(now, &mut sender);
                sender.driver.refresh();
            }
        } else {
            if sender.next_timeout() <= now {
                sender.on_timeout(now);
                if let Some(agent) = &mut agent {
                    agent.look(now, &mut sender);
                    sender.driver.refresh();
                }
            }
            if let Some(agent) = &mut agent {
                agent.flow.tick(now);
                agent.answer();
                sender.driver.refresh();
            }
        }
        while let Some(ack) = receiver.poll_ack(now) {
            acks.push_back((now + link.delay, ack));
        }
    }
    if let Some(agent) = &mut agent {
        let counters = agent.counters(now, &sender);
        agent.flow.report(&counters);
    }
    let delivered = sender.stats().bytes_delivered;
    Run { sender, agent, delivered, window: area / (now - Time::ZERO).as_nanos() as f64 }
}

/// 24 Mbit/s and 40 ms: 83 packets.
const LINK: Link = Link { packet_time: Nanos::from_micros(483), delay: Nanos::from_millis(20), room: 100, lossy: 0 };
const SPAN: Nanos = Nanos::from_secs(20);

#[test]
fn per_ack_a_steered_flow_is_nearly_the_native_one() {
    for spec in ["reno", "cubic", "copa", "bbr", "verus"] {
        for lossy in [0, 211] {
            let link = Link { lossy, ..LINK };
            let native = run(controller(spec), link, u64::MAX, SPAN, None);
            let steered = run(controller(spec), link, u64::MAX, SPAN, Some(Nanos::ZERO));
            let window = steered.window / native.window;
            let delivered = steered.delivered as f64 / native.delivered as f64;
            assert!((0.9..1.1).contains(&window), "{spec} {lossy}: {} of {}", steered.window, native.window);
            assert!((0.95..1.05).contains(&delivered), "{spec} {lossy}: {delivered}");
        }
    }
}

#[test]
fn in_batches_of_a_quarter_of_the_round_trip_it_is_near() {
    for spec in ["cubic", "copa", "bbr", "verus"] {
        let native = run(controller(spec), LINK, u64::MAX, SPAN, None);
        let batch = Nanos::from_millis(1);
        let steered = run(controller(spec), LINK, u64::MAX, SPAN, Some(batch));
        let delivered = steered.delivered as f64 / native.delivered as f64;
        assert!((0.9..1.1).contains(&delivered), "{spec}: {delivered}");
        assert!(
            steered.agent.unwrap().reports <= SPAN.as_nanos() / batch.as_nanos() + steered.sender.stats().packets_lost
        );
    }
}

/// Adds up what a controller is informed of, and finds contradictions.
#[derive(Default)]
struct Ledger {
    sent: u64,
    acked: u64,
    lost: u64,
    /// State of each packet: transmissions less losses; `None` once delivered.
    packets: std::collections::BTreeMap<u64, Option<u32>>,
    last: Time,
}

impl Ledger {
    fn at(&mut self, now: Time) {
        assert!(now >= self.last, "{now} after {}", self.last);
        self.last = now;
    }
}

impl Ledger {
    fn lose(&mut self, now: Time, lost: &[Lost]) {
        self.at(now);
        for lost in lost {
            self.lost += u64::from(lost.bytes);
            let out = self.packets.get_mut(&lost.seq).expect("it was sent").as_mut().expect("not delivered");
            *out = out.checked_sub(1).expect("lost once for each transmission");
        }
    }
}

impl Observer for Ledger {
    fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
        match event {
            Event::Sent(sent, _) => {
                self.at(sent.now);
                if !sent.retransmission {
                    self.sent += u64::from(sent.bytes);
                }
                assert_eq!(sent.retransmission, self.packets.contains_key(&sent.seq), "at {}", sent.seq);
                let out = self.packets.entry(sent.seq).or_insert(Some(0));
                *out.as_mut().expect("not delivered") += 1;
            }
            Event::Acked(ack) => {
                self.at(ack.now);
                assert_eq!(ack.bytes, ack.packets.iter().map(|packet| u64::from(packet.bytes)).sum::<u64>());
                for packet in ack.packets {
                    self.acked += u64::from(packet.bytes);
                    let out = self.packets.insert(packet.seq, None).expect("it was sent");
                    assert!(out.is_some(), "delivered twice");
                }
            }
            Event::Lost(loss) => self.lose(loss.now, loss.packets),
            Event::Timeout(timeout) => self.lose(timeout.now, timeout.packets),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_delivered_or_lost_twice_and_bytes_are_conserved(
        room in 2_usize..120,
        lossy in 0_u64..80,
        packets in 1_u64..3000,
        odd in 0..MSS,
        interval_us in 0_u64..20_000,
    ) {
        let link = Link { room, lossy: if lossy < 3 { 0 } else { lossy }, ..LINK };
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let keeper = Observed::wrap(controller("reno"), Some(Box::new(ledger.clone())));
        let (bytes, interval) = (packets * MSS + odd, Nanos::from_micros(interval_us));
        let steered = run(keeper, link, bytes, Nanos::from_secs(600), Some(interval));
        let ledger = ledger.lock().unwrap();
        prop_assert!(steered.sender.is_idle());
        prop_assert_eq!(ledger.sent, bytes);
        prop_assert_eq!(ledger.acked, bytes);
        prop_assert_eq!(steered.agent.unwrap().flow.bytes_delivered(), bytes);
        prop_assert!(ledger.packets.values().all(Option::is_none));
        let lost = ledger.lost.div_ceil(MSS);
        prop_assert!(lost <= steered.sender.stats().packets_lost, "{} of {}", lost, steered.sender.stats().packets_lost);
        prop_assert!(2 * lost >= steered.sender.stats().packets_lost, "{} of {}", lost, steered.sender.stats().packets_lost);
    }

    #[test]
    fn whatever_the_counters_say_no_step_panics(
        steps in prop::collection::vec(prop::array::uniform8(0_u64..4000), 1..200)
    ) {
        let mut flow = Counted::new(&SenderConfig::default(), controller("cubic"), &START);
        let mut counters = START;
        for [time, una, next, ahead, lost, resent, other, rtt] in steps {
            counters.at += Nanos::from_micros(time);
            counters.next += next * 7;
            counters.una += una * 7;
            counters.highest = counters.una + ahead * 3;
            counters.ahead = ahead as u32 / 100;
            counters.in_flight = other as u32 / 10;
            counters.lost += lost / 1000;
            counters.resent += resent / 1000;
            counters.timeouts += u64::from(other == 7);
            counters.recoveries += u64::from(other < 400);
            counters.undone += u64::from(other < 100);
            counters.rtt = (rtt > 0).then(|| Samples { newest: Nanos::from_micros(rtt), least: Nanos::from_micros(rtt / 2) });
            flow.report(&counters);
            prop_assert!(flow.window() >= MSS);
        }
    }
}

#[test]
fn a_short_silence_of_reports_costs_no_byte() {
    // The whole transfer in one report.
    let flow = &mut Counted::new(&SenderConfig::default(), controller("cubic"), &START);
    let all = Counters {
        at: Time::from_millis(100),
        una: 100 * MSS,
        next: 120 * MSS,
        highest: 110 * MSS,
        ahead: 7,
        in_flight: 11,
        lost: 4,
        resent: 2,
        recoveries: 1,
        phase: Phase::Recovery,
        ..START
    };
    flow.report(&all);
    assert_eq!(flow.bytes_delivered(), 107 * MSS);
    let rest = Counters { at: Time::from_millis(150), una: 120 * MSS, ahead: 0, in_flight: 0, resent: 4, ..all };
    flow.report(&rest);
    assert_eq!(flow.bytes_delivered(), 120 * MSS);
    // What is older, or turns back, is not new.
    flow.report(&all);
    assert_eq!((flow.bytes_delivered(), flow.last().una), (120 * MSS, 120 * MSS));
}

/// Notes when its controller is informed.
struct Times(Arc<Mutex<Vec<Time>>>);

impl Observer for Times {
    fn on_event(&mut self, event: &Event<'_>, _: &dyn Controller) {
        self.0.lock().unwrap().push(event.now());
    }
}

#[test]
fn a_controllers_time_does_not_run_backwards_when_departures_are_reported_after_a_tick() {
    let at = |millis| Time::ZERO + Nanos::from_millis(millis);
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Observed::wrap(controller("verus"), Some(Box::new(Times(times.clone()))));
    let mut flow = Counted::new(&SenderConfig::default(), seen, &START);
    let sent = |now, next, departures| Counters { at: now, next, in_flight: 1, departures, ..START };
    flow.report(&sent(at(1), MSS, Some((at(1), at(1)))));
    flow.tick(at(20));
    // Sent before the tick, known after it: with a report of later, and with one of before.
    flow.report(&sent(at(25), 3 * MSS, Some((at(5), at(22)))));
    flow.tick(at(40));
    flow.report(&sent(at(30), 4 * MSS, Some((at(28), at(29)))));
    flow.tick(at(35));
    // Verus has no tick of its own yet: these are departures.
    assert_eq!(*times.lock().unwrap(), [at(1), at(20), at(22), at(40)]);
}

#[test]
fn a_delivery_behind_holes_is_counted_once() {
    let mut flow = Counted::new(&SenderConfig::default(), controller("fixed:window=100"), &START);
    let mut report = |millis, una: u64, ahead| {
        let (una, next) = (una * MSS, 20 * MSS);
        let highest = if ahead > 0 { next } else { una };
        flow.report(&Counters { at: Time::from_millis(millis), una, next, highest, ahead, ..START });
        flow.bytes_delivered() / MSS
    };
    assert_eq!(report(0, 0, 0), 0);
    // Every fifth is a hole, and one after the other is repaired.
    assert_eq!(report(20, 0, 16), 16);
    let repaired = [(40, 5, 12), (41, 10, 8), (42, 15, 4), (43, 20, 0)];
    assert_eq!(repaired.map(|(millis, una, ahead)| report(millis, una, ahead)), [17, 18, 19, 20]);
}
