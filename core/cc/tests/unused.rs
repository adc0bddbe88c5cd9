//! The examples of draft-ietf-ccwg-ratelimited-increase-10, and ours, event by event. Packets of 1000 bytes.

use paceline_cc::controller::{Ack, Loss, Lost, Sent};
use paceline_cc::testing::ack;
use paceline_cc::{Cause, Controller, Env, Nanos, Phase, Spec, Time};

const MSS: u64 = 1_000;
const RTT: Nanos = Nanos::from_millis(100);

/// A flow whose rounds are sent whole, and then acknowledged packet by packet as if the window had limited all of them.
struct Flow {
    controller: Box<dyn Controller>,
    now: Time,
}

impl Flow {
    fn new(spec: &str) -> Self {
        let env = Env { mss: MSS as u32, ..Env::default() };
        Self { controller: spec.parse::<Spec>().unwrap().build(&env), now: Time::from_millis(1_000) }
    }

    fn send(&mut self, packets: u64) {
        for sent in 1..=packets {
            self.controller.on_sent(&Sent {
                now: self.now,
                seq: 0,
                bytes: MSS as u32,
                in_flight: sent * MSS,
                retransmission: false,
                app_limited: false,
                unsent: u64::MAX,
            });
        }
    }

    /// The window in packets after each acknowledgement of so many packets in flight.
    fn acknowledge(&mut self, packets: u64) -> Vec<u64> {
        self.now += RTT;
        let window = |left: u64| {
            let in_flight = left * MSS;
            self.controller.on_ack(&Ack { bytes: MSS, in_flight, ..ack(self.now, RTT, 1) });
            self.controller.window() / MSS
        };
        (0..packets).rev().map(window).collect()
    }

    /// Sends so many packets and has all of them acknowledged.
    fn round(&mut self, packets: u64) -> Vec<u64> {
        self.send(packets);
        self.acknowledge(packets)
    }

    /// One of so many packets in flight is lost, and its episode is over.
    fn lose_one_of(&mut self, packets: u64) {
        let lost = Lost { seq: 0, bytes: MSS as u32, sent_at: self.now, tag: 0, cause: Cause::Unknown };
        self.controller.on_loss(&Loss {
            now: self.now,
            packets: &[lost],
            bytes: MSS,
            prior_in_flight: packets * MSS,
            in_flight: (packets - 1) * MSS,
            new_episode: true,
        });
        self.now += RTT;
        let after = ack(self.now, RTT, 1);
        self.controller.on_ack(&Ack { in_flight: (packets - 2) * MSS, phase: Phase::Recovery, ..after });
        self.controller.on_ack(&Ack { in_flight: 0, window_limited: false, ..after });
    }
}

/// Its first example: ten packets, a pause, four packets.
#[test]
fn four_packets_do_not_open_a_window_that_ten_have_filled() {
    let mut flow = Flow::new("reno");
    assert_eq!(flow.round(10).last(), Some(&20));
    assert_eq!(flow.round(4), [20; 4]);
}

/// Its second example.
#[test]
fn slow_start_doubles_the_largest_flight() {
    let mut flow = Flow::new("reno");
    assert_eq!(flow.round(4), [11, 12, 13, 14]);
    assert_eq!(flow.round(8), [15, 16, 17, 18, 19, 20, 20, 20]);
    assert_eq!(flow.round(4), [20; 4]);
    assert_eq!(flow.round(20), (21..=40).collect::<Vec<u64>>());
}

#[test]
fn avoidance_adds_a_packet_to_the_largest_flight() {
    let mut flow = Flow::new("reno:ssthresh=40");
    flow.round(10);
    flow.round(20);
    assert_eq!(flow.round(40).last(), Some(&40));
    for _ in 0..60 {
        let windows = flow.round(25);
        assert!(windows.iter().all(|window| (40..=41).contains(window)), "{windows:?}");
    }
}

#[test]
fn after_a_loss_the_flight_counts_anew() {
    let mut flow = Flow::new("reno:ssthresh=40");
    flow.round(10);
    flow.round(20);
    flow.send(40);
    flow.lose_one_of(15);
    assert_eq!(flow.controller.window() / MSS, 20);
    for _ in 0..40 {
        assert_eq!(flow.round(15).last(), Some(&20));
    }
    // From a flight of twenty on it grows.
    for _ in 0..3 {
        flow.round(20);
    }
    assert_eq!(flow.controller.window() / MSS, 21);
}

/// What was undone has been carried.
#[test]
fn an_undone_reduction_gives_the_flight_back() {
    let mut flow = Flow::new("reno:ssthresh=40");
    flow.round(10);
    flow.round(20);
    flow.send(40);
    flow.lose_one_of(15);
    flow.controller.on_spurious(flow.now);
    assert_eq!(flow.controller.window() / MSS, 40);
    (0..3).for_each(|_| drop(flow.round(15)));
    assert_eq!(flow.controller.window() / MSS, 41, "forty packets have been in flight");
}
