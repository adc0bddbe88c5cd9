//! What sending and receiving hosts do besides: marks that nobody answers yet, a handshake before any data, times of
//! arrival, late timers.

mod common;

use common::{Dumbbell, bulk, variable};
use paceline_cc::{Nanos, Time};
use paceline_sim::{Flow, Handover, Tap, Timing, Via, Workload};
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
        if !sender.controller().holds_against_marks() {
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
        let flows = vec![bulk(&format!("{policy}:start=chirp-q"), Via::Tcp)];
        Dumbbell { queue, ..Dumbbell::new(100.0, 15, flows) }.watch(1, Some(&mut windows));
        assert!(windows.marked > 20, "{policy}: {} marks", windows.marked);
        assert!(windows.over.is_some(), "{policy}: the start-up ends");
    }
}

#[test]
fn a_handshake_takes_a_round_trip_and_counts() {
    let alcc = Via::Alcc("cubic".parse().unwrap(), Handover::default());
    for (controller, via) in [
        ("reno", Via::Tcp),
        ("cubic", Via::Udp),
        ("copa", alcc),
        ("sprout", Via::Udp),
        ("dctcp:start=chirp-q", Via::Tcp),
    ] {
        let flow = |handshake| Flow { workload: Workload::Bytes(10_000), handshake, ..bulk(controller, via.clone()) };
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
        self.over[flow as usize] |= !sender.controller().holds_against_marks();
    }
}

/// Departures of two chirping flows over 1 Gbit/s.
fn departures(timers: Timing) -> Vec<Vec<Time>> {
    let mut departures = Departures::default();
    let flow = Flow { timers, handshake: true, ..bulk("dctcp:start=chirp-q,chirp_geometry=3", Via::Tcp) };
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
    // The handshake and the first packet leave on events; the first chirp's other packets by timers.
    assert_eq!(host[0][..2], exact[0][..2]);
    for packet in 2..6 {
        let late = (host[0][packet] - host[0][packet - 1]) - (exact[0][packet] - exact[0][packet - 1]);
        assert!(late > Nanos::ZERO && late <= Nanos::from_micros(50), "packet {packet} is late by {late}");
    }
    assert_ne!(host[0], host[1], "each host has its own lateness");
    assert_eq!(host, departures(Timing::Host), "the same seed, the same run");
}

#[test]
fn arrival_times_let_chirps_survive_stretched_acknowledgements() {
    // With one acknowledgement for four packets every full chirp is rejected unless it is told when they arrived; the
    // estimate stays where the first, quickly acknowledged chirps left it.
    let gap = |arrivals| {
        let flow = Flow { ack_every: 4, arrivals, ..bulk("dctcp:start=chirp-q", Via::Tcp) };
        let outcome = Dumbbell::new(100.0, 15, vec![flow]).run(1);
        *variable(&outcome.series.as_ref().unwrap().flows[0], "chirp_gap_us").last().unwrap()
    };
    let (told, untold) = (gap(true), gap(false));
    assert!((told / 120.0 - 1.0).abs() < 0.2, "{told} us, the link takes 120");
    assert!(untold > 1.4 * 120.0, "{untold} us");
}
