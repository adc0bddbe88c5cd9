//! What sending and receiving hosts do besides: marks that nobody answers yet, a handshake before any data.

mod common;

use common::{Dumbbell, bulk};
use paceline_cc::{Nanos, Time};
use paceline_sim::{Flow, Tap, Via, Workload};
use paceline_transport::{AckSegment, Sender};

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
    let alcc = Via::Alcc("cubic".parse().unwrap());
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
