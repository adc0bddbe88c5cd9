//! The examples of draft-ietf-ccwg-ratelimited-increase-10, and ours, event by event. Packets of 1000 bytes.

use paceline_cc::controller::{Loss, Lost, Sent};
use paceline_cc::testing::ack;
use paceline_cc::{Controller, Env, Nanos, Phase, Spec, Time};

const MSS: u64 = 1_000;
const RTT: Nanos = Nanos::from_millis(100);

/// A flow whose rounds are sent whole, and then acknowledged packet by packet as if the window had limited all of them.
struct Flow {
    controller: Box<dyn Controller>,
    now: Time,
}

impl Flow {
    fn new(spec: &str) -> Self {
        let env = Env::new(MSS as u32);
        Self { controller: spec.parse::<Spec>().unwrap().build(&env), now: Time::from_millis(1_000) }
    }

    fn send(&mut self, packets: u64) {
        for number in 1..=packets {
            let mut sent = Sent::new(self.now, 0, MSS as u32);
            sent.in_flight = number * MSS;
            self.controller.on_sent(&sent);
        }
    }

    /// The window in packets after each acknowledgement of so many packets in flight.
    fn acknowledge(&mut self, packets: u64) -> Vec<u64> {
        self.now += RTT;
        let window = |left: u64| {
            let in_flight = left * MSS;
            let mut ack = ack(self.now, RTT, 1);
            ack.bytes = MSS;
            ack.in_flight = in_flight;
            self.controller.on_ack(&ack);
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
        let lost = [Lost::new(0, MSS as u32, self.now)];
        let mut loss = Loss::new(self.now, &lost);
        loss.prior_in_flight = packets * MSS;
        loss.in_flight = (packets - 1) * MSS;
        self.controller.on_loss(&loss);
        self.now += RTT;
        let mut after = ack(self.now, RTT, 1);
        after.in_flight = (packets - 2) * MSS;
        after.phase = Phase::Recovery;
        self.controller.on_ack(&after);
        after = ack(self.now, RTT, 1);
        after.window_limited = false;
        self.controller.on_ack(&after);
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

/// RFC 7661 would have halved it meanwhile. What has been carried stays permitted, and no more.
#[test]
fn a_window_unused_for_a_minute_permits_what_its_largest_flight_did() {
    let mut flow = Flow::new("reno");
    flow.round(10);
    for _ in 0..600 {
        flow.round(1);
    }
    assert_eq!(flow.controller.window() / MSS, 20, "a minute of single packets");
    assert_eq!(flow.round(20).last(), Some(&40));
}
