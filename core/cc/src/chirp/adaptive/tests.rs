use super::*;
use crate::testing::ack;
use crate::units::Time;

const RTT: Nanos = Nanos::from_millis(15);
const RTO: Nanos = Nanos::from_millis(215);

/// Has seen an RTT and handed over, with a window of `cwnd` packets.
fn over(cwnd: f64) -> (Adaptive, Window) {
    let mut start = Adaptive::new(&Env::default(), &Settings::default());
    let mut window = Window { cwnd, ssthresh: cwnd };
    start.observe(&ack(Time::from_millis(15), RTT, 1));
    start.on_congestion(Signal::Loss, &mut window);
    (start, Window { cwnd, ssthresh: cwnd })
}

fn restarts(start: &mut Adaptive, window: &mut Window, idle: Nanos) -> bool {
    start.on_restart(&Restart { now: Time::from_millis(1_000_000), idle, rto: RTO }, window)
}

fn deliver(start: &mut Adaptive, packets: usize) {
    let acked = Acked {
        seq: 0,
        bytes: 1448,
        sent_at: Time::ZERO,
        tag: 0,
        retransmitted: false,
        app_limited: false,
        ce: false,
        received_at: None,
    };
    let packets = vec![acked; packets];
    start.observe(&Ack { packets: &packets, ..ack(Time::from_millis(1_000_015), RTT, 1) });
}

#[test]
fn a_window_outlasts_a_silence_and_leaves_over_a_round_trip() {
    let (mut start, mut window) = over(100.0);
    assert!(!restarts(&mut start, &mut window, RTO - Nanos::from_nanos(1)), "less than a timeout");
    assert_eq!(start.pacing(), None);
    assert!(restarts(&mut start, &mut window, RTO));
    assert_eq!((window.cwnd, window.ssthresh), (100.0, 100.0));
    assert_eq!(start.pacing(), Some(Pacing::Gap(Nanos::from_micros(150))));
    assert!(!start.holds_against_marks(), "the policy answers marks");
    deliver(&mut start, 99);
    assert!(start.pacing().is_some());
    deliver(&mut start, 1);
    assert_eq!(start.pacing(), None);
}

#[test]
fn each_five_minutes_halve_it_down_to_an_initial_window() {
    for (seconds, cwnd, left) in
        [(299, 100.0, 100.0), (300, 100.0, 50.0), (600, 100.0, 25.0), (86_400, 100.0, 10.0), (86_400, 7.0, 7.0)]
    {
        let (mut start, mut window) = over(cwnd);
        assert!(restarts(&mut start, &mut window, Nanos::from_secs(seconds)));
        assert_eq!(window.cwnd, left, "{seconds} s");
        assert!(window.ssthresh >= 0.75 * cwnd, "{seconds} s: it may come back at once");
    }
}

#[test]
fn a_load_outlasts_a_silence_while_it_chirps() {
    for (seconds, left) in [(1, 60.0), (300, 30.0), (86_400, 10.0)] {
        let mut start = Adaptive::new(&Env::default(), &Settings::default());
        let mut window = Window { cwnd: 60.0, ssthresh: f64::INFINITY };
        start.observe(&ack(Time::from_millis(15), RTT, 1));
        start.load = 60.0;
        assert!(restarts(&mut start, &mut window, Nanos::from_secs(seconds)));
        assert_eq!((start.stage, start.load), (Stage::Chirping, left), "{seconds} s");
    }
}

#[test]
fn a_spurious_loss_gives_back_the_stage_that_it_ended() {
    let mut start = Adaptive::new(&Env::default(), &Settings::default());
    let mut window = Window { cwnd: 60.0, ssthresh: f64::INFINITY };
    start.gap = Some(Nanos::from_micros(120));
    for stage in [Stage::Chirping, Stage::Transition { gap: Nanos::from_micros(120), left: 30 }] {
        start.stage = stage;
        start.on_congestion(Signal::Loss, &mut window);
        start.on_congestion(Signal::Timeout, &mut window);
        assert_eq!(start.stage, Stage::Over);
        start.on_spurious();
        assert_eq!(start.stage, stage);
    }
}
