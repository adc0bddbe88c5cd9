//! What sending and receiving hosts do besides: marks that no one answers yet, a handshake before any data, times of
//! arrival, late timers, and noise against phase effects.

use crate::common::{Dumbbell, bulk, share, variable};
use paceline_cc::{Bytes, Nanos, Time};
use paceline_experiment::{Flow, Handover, Tap, Timing, Via, Workload};
use paceline_path::DelaySplit;
use paceline_path::queue::QueueBound;
use paceline_transport::{AckSegment, Segment, Sender};

/// Compares the window in force with the controller's while marks are not answered.
#[derive(Default)]
struct Windows {
    /// Marked acknowledgements until then.
    marked: u64,
    /// When the start-up was over.
    over: Option<Time>,
}

impl Tap for Windows {
    fn on_ack(&mut self, now: Time, _flow: u32, ack: &AckSegment, sender: &dyn Sender) {
        if !sender.controller().permit().holds_against_marks {
            self.over.get_or_insert(now);
        } else if self.over.is_none() {
            self.marked += u64::from(ack.ece);
            assert_eq!(sender.window(), sender.controller().window(), "at {now}");
        }
    }
}

#[test]
fn marks_do_not_take_the_window_from_a_chirping_start_up() {
    for policy in ["dctcp", "prague"] {
        let mut windows = Windows::default();
        let queue = Some("step:threshold=50us".parse().unwrap());
        let flows = vec![bulk(&format!("{policy}:start=chirp-q"), Via::tcp(None))];
        Dumbbell { queue, ..Dumbbell::new(100.0, 15, flows) }.watch(1, Some(&mut windows));
        assert!(windows.marked > 20, "{policy}: {} marks", windows.marked);
        assert!(windows.over.is_some(), "{policy}: the start-up ends");
    }
}

#[test]
fn a_handshake_takes_a_round_trip_and_counts() {
    let alcc = Via::alcc("cubic".parse().unwrap(), Handover::default());
    for (controller, via) in [
        ("reno", Via::tcp(None)),
        ("cubic", Via::udp()),
        ("copa", alcc),
        ("sprout", Via::udp()),
        ("dctcp:start=chirp-q", Via::tcp(None)),
    ] {
        let plain = Flow { timers: Timing::Exact, ..bulk(controller, via.clone()) };
        let flow = |handshake| Flow { workload: Workload::Bytes(Bytes(10_000)), handshake, ..plain.clone() };
        let run = |handshake| Dumbbell::new(100.0, 20, vec![flow(handshake)]).run(2);
        let (plain, greeted) = (run(false), run(true));
        let longer = greeted.flows[0].completions[0].1 - plain.flows[0].completions[0].1;
        // 52 bytes at 100 Mbit/s and a round trip.
        let exchange = Nanos::from_nanos(20_004_160);
        if ["reno", "cubic"].contains(&controller) {
            assert_eq!(longer, exchange, "{controller}");
        }
        assert!(longer >= exchange && longer < exchange + Nanos::from_millis(20), "{controller}: {longer} longer");
        assert_eq!(greeted.flows[0].packets_entered, plain.flows[0].packets_entered + 1, "{controller}");
    }
}

/// When the packets of each flow left while its start-up paced them by gaps.
#[derive(Default)]
struct Departures {
    times: Vec<Vec<Time>>,
    over: Vec<bool>,
}

impl Tap for Departures {
    fn on_sent(&mut self, now: Time, flow: u32, _segment: &Segment) {
        let flow = flow as usize;
        self.times.resize(self.times.len().max(flow + 1), Vec::new());
        self.over.resize(self.times.len(), false);
        if !self.over[flow] {
            self.times[flow].push(now);
        }
    }

    fn on_ack(&mut self, _now: Time, flow: u32, _ack: &AckSegment, sender: &dyn Sender) {
        self.over[flow as usize] |= !sender.controller().permit().holds_against_marks;
    }
}

/// Departures of two chirping flows over 1 Gbit/s.
fn departures(timers: Timing) -> Vec<Vec<Time>> {
    let mut departures = Departures::default();
    let flow = Flow { timers, handshake: true, ..bulk("dctcp:start=chirp-q,chirp_geometry=3", Via::tcp(None)) };
    Dumbbell::new(1000.0, 5, vec![flow.clone(), flow]).watch(1, Some(&mut departures));
    departures.times
}

fn least_gap(times: &[Time]) -> Nanos {
    times.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap()
}

#[test]
fn a_host_sends_late_and_keeps_packets_apart() {
    let (exact, host) = (departures(Timing::Exact), departures(Timing::Host));
    assert!(least_gap(&exact[0]) < Nanos::from_micros(20), "{}", least_gap(&exact[0]));
    for times in &host {
        assert!(times.len() > 50);
        assert!(least_gap(times) >= Nanos::from_micros(20), "{}", least_gap(times));
    }
    // The handshake and the first packet leave on events, each after up to a packet time of 12 us, and the answer is taken
    // in late twice; the first chirp's other packets leave by timers.
    for (packet, most) in [12, 12 + 100 + 12].into_iter().enumerate() {
        let late = host[0][packet] - exact[0][packet];
        assert!(late > Nanos::ZERO && late <= Nanos::from_micros(most), "packet {packet} is late by {late}");
    }
    for packet in 2..6 {
        let late = (host[0][packet] - host[0][packet - 1]) - (exact[0][packet] - exact[0][packet - 1]);
        assert!(late > Nanos::ZERO && late <= Nanos::from_micros(50), "packet {packet} is late by {late}");
    }
    assert_ne!(host[0], host[1], "each host has its own lateness");
    assert_eq!(host, departures(Timing::Host), "the same seed, the same run");
}

#[test]
fn arrival_times_let_chirps_survive_stretched_acknowledgements() {
    // With one acknowledgement for four packets every full chirp is rejected unless it is informed when they arrived; the
    // estimate stays where the first, quickly acknowledged chirps left it.
    let gap = |arrivals| {
        let flow = Flow { ack_every: 4, arrivals, ..bulk("dctcp:start=chirp-q", Via::tcp(None)) };
        let outcome = Dumbbell::new(100.0, 15, vec![flow]).run(1);
        *variable(&outcome.series.as_ref().unwrap().flows[0], "chirp_gap_us").last().unwrap()
    };
    let (informed, uninformed) = (gap(true), gap(false));
    assert!((informed / 120.0 - 1.0).abs() < 0.2, "{informed} us, the link takes 120");
    assert!(uninformed > 1.4 * 120.0, "{uninformed} us");
}

/// Two flows of Reno over a drop-tail queue, the second with twice the round trip: rate of the first over that of the
/// second.
fn bias(timers: Timing, seed: u64) -> f64 {
    let near = Flow { timers, ..bulk("reno", Via::tcp(None)) };
    let far = Flow { extra_delay: Nanos::from_millis(10), start: Time::from_millis(100 * seed), ..near.clone() };
    let limit = QueueBound { bdp: Some(2.0), ..QueueBound::NONE };
    let outcome = Dumbbell { limit, ..Dumbbell::new(100.0, 20, vec![near, far]) }.run(60);
    share(&outcome, 0, 20_000, 60_000) / share(&outcome, 1, 20_000, 60_000)
}

/// Round trips of 20 ms and 40 ms meet at a full queue in the same order for ever (Floyd and Jacobson 1992), and the flow
/// that ought to be slower wins. With queues the round trips are about 1 : 1.4, so the bias is between that and its square.
#[test]
fn a_packet_time_of_noise_ends_phase_effects() {
    let exact: Vec<f64> = (1..=3).map(|seed| bias(Timing::Exact, seed)).collect();
    assert!(exact.iter().all(|bias| *bias < 1.0), "{exact:?}");
    for timers in [Timing::Overhead, Timing::Host] {
        let noisy: Vec<f64> = (1..=3).map(|seed| bias(timers, seed)).collect();
        let mean = noisy.iter().sum::<f64>() / 3.0;
        assert!(noisy.iter().all(|bias| *bias > 1.0) && (1.2..2.0).contains(&mean), "{timers:?}: {noisy:?}");
    }
    assert_eq!(Flow::bulk("reno".parse().unwrap(), Via::tcp(None)).timers, Timing::Overhead);
}

/// Sees whether packets leave and arrive in order, and how far apart acknowledgements and departures are.
#[derive(Default)]
struct Order {
    departures: Vec<Time>,
    sent: Vec<u64>,
    arrived: Vec<u64>,
    acknowledged: Vec<Time>,
}

impl Tap for Order {
    fn on_sent(&mut self, now: Time, _flow: u32, segment: &Segment) {
        self.sent.push(segment.seq);
        self.departures.push(now);
    }

    fn on_arrival(&mut self, _now: Time, _flow: u32, segment: &Segment, _ce: bool, _delay: &DelaySplit) {
        self.arrived.push(segment.seq);
    }

    fn on_ack(&mut self, now: Time, _flow: u32, _ack: &AckSegment, _sender: &dyn Sender) {
        self.acknowledged.push(now);
    }
}

#[test]
fn hosts_never_reorder_and_lose_nothing() {
    for timers in [Timing::Exact, Timing::Overhead, Timing::Host] {
        for controller in ["reno", "bbr", "copa", "dctcp:start=chirp"] {
            let mut order = Order::default();
            let flow = Flow { timers, extra_delay: Nanos::from_millis(3), ..bulk(controller, Via::tcp(None)) };
            let outcome = Dumbbell::new(50.0, 10, vec![flow]).watch(2, Some(&mut order));
            assert!(order.sent.is_sorted() && order.arrived.is_sorted(), "{controller}, {timers:?}");
            let flow = &outcome.flows[0];
            assert_eq!((flow.packets_dropped, flow.sender.retransmits), (0, 0), "{controller}, {timers:?}");
        }
    }
}

/// 12 Mbit/s, a packet time of 1 ms: what an acknowledgement sets free leaves up to so much later, evenly; paced packets
/// leave on time.
#[test]
fn acknowledgements_have_overhead_and_pacing_has_none() {
    let mut order = Order::default();
    Dumbbell::new(12.0, 40, vec![bulk("fixed:window=20", Via::tcp(None))]).watch(20, Some(&mut order));
    let after = |departure: &Time| {
        *departure - order.acknowledged[order.acknowledged.partition_point(|ack| ack <= departure) - 1]
    };
    let waits: Vec<f64> = order.departures[100..].iter().map(|departure| after(departure).as_millis_f64()).collect();
    let (sum, most) = waits.iter().fold((0.0, 0.0_f64), |(sum, most), wait| (sum + wait, most.max(*wait)));
    let mean = sum / waits.len() as f64;
    assert!(most < 1.0 && (0.4..0.6).contains(&mean), "{mean} ms, at most {most}");

    let mut order = Order::default();
    Dumbbell::new(12.0, 40, vec![bulk("fixed:window=100,rate=6", Via::tcp(None))]).watch(5, Some(&mut order));
    let gaps: Vec<Nanos> = order.departures[100..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap == gaps[0]), "{:?}", &gaps[..5]);
}
