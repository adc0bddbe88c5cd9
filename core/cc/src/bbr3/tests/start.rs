use super::*;

#[test]
fn the_first_pacing_rate_is_the_first_window_over_the_smoothed_rtt() {
    for (srtt, expected) in [(20, 2_005_480), (40, 1_002_740), (100, 401_096), (600, 66_849)] {
        let mut bbr = Bbr3::new(&Env::default(), 3.0, Constants::default());
        assert_eq!(bbr.pacing(), Pacing::Rate(Rate::from_bytes_per_sec(40_109_600)));
        let srtt = Nanos::from_millis(srtt);
        bbr.on_ack(&Ack { bytes: 0, ..crate::testing::ack(Time::from_millis(5), srtt, 0) });
        let Pacing::Rate(rate) = bbr.pacing() else { panic!("it always paces") };
        assert!(rate.as_bytes_per_sec().abs_diff(expected) <= 1, "{rate:?}");
        assert_eq!(bbr.window(), 10 * MSS);
    }
}

#[test]
fn a_round_is_a_flight_and_the_first_acknowledgement_begins_one() {
    let mut path = Path::new(1);
    let flight = path.flight();
    path.now += path.rtt;
    path.acknowledge(flight[0], 0);
    assert_eq!(path.bbr.rounds.count, 1);
    for packet in &flight[1..] {
        path.acknowledge(*packet, 0);
        assert_eq!(path.bbr.rounds.count, 1);
    }
    path.round();
    assert_eq!(path.bbr.rounds.count, 2);
}

#[test]
fn nothing_delivered_begins_no_round() {
    let mut path = Path::probing(1);
    let (rounds, bandwidth) = (path.bbr.rounds.count, path.bbr.bandwidth.max());
    for _ in 0..100 {
        path.now += path.rtt;
        let ack = crate::testing::ack(path.now, path.rtt, 1);
        // Marks alone, and a delivery of which no rate could be taken.
        path.bbr.on_ack(&Ack { bytes: 0, ..ack });
        path.bbr.on_ack(&Ack { rate: None, delivered: path.delivered, ..ack });
    }
    assert_eq!((path.bbr.rounds.count, path.bbr.bandwidth.max()), (rounds, bandwidth));
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more() {
    let mut path = Path::new(1);
    path.round();
    for growth in 0..3 {
        assert_eq!((path.bbr.state, path.bbr.full.count), (State::Startup, growth));
        path.round();
    }
    assert_ne!(path.bbr.state, State::Startup);
    assert!(path.bbr.full.reached);
}

#[test]
fn growth_of_seven_percent_a_round_ends_startup_and_of_eight_does_not() {
    for (growth, ends) in [(1.07, true), (1.08, false)] {
        let mut path = Path::new(1);
        for _ in 0..12 {
            path.round();
            path.rate *= growth;
        }
        assert_eq!(path.bbr.full.reached, ends, "{growth}");
    }
}

#[test]
fn rounds_that_the_application_limits_do_not_end_startup() {
    let mut path = Path::new(1);
    path.app_limited = true;
    for _ in 0..100 {
        path.round();
    }
    assert_eq!(path.bbr.state, State::Startup);
    path.app_limited = false;
    path.until(|bbr| bbr.full.reached);
}

/// Without a loss only ProbeRTT interrupts it.
#[test]
fn a_startup_of_an_idle_application_goes_on_after_probe_rtt() {
    let mut path = Path::new(1);
    path.app_limited = true;
    for _ in 0..2 {
        path.until(|bbr| bbr.state == State::ProbeRtt);
        path.until(|bbr| bbr.state != State::ProbeRtt);
        assert_eq!(path.bbr.state, State::Startup);
        assert!(!path.bbr.full.reached);
    }
    path.app_limited = false;
    path.until(|bbr| bbr.full.reached);
    assert_ne!(path.bbr.state, State::Startup);
}

/// Startup with growing rates, then a round that loses these packets.
fn startup_losing(lost: &[usize], phase: Phase) -> State {
    let mut path = Path::new(1);
    for _ in 0..4 {
        path.round();
        path.rate *= 1.5;
    }
    path.round_losing(lost);
    path.phase = phase;
    path.rate *= 1.5;
    path.round();
    path.bbr.state
}

#[test]
fn startup_ends_by_losses_of_six_ranges_unless_a_timeout_repairs() {
    let six = [1, 3, 5, 7, 9, 11];
    assert_ne!(startup_losing(&six, Phase::Recovery), State::Startup);
    assert_eq!(startup_losing(&six[..5], Phase::Recovery), State::Startup);
    // Of datagrams no recovery is reported.
    assert_ne!(startup_losing(&six, Phase::Open), State::Startup);
    assert_eq!(startup_losing(&six, Phase::Loss), State::Startup);
    // Neighbours are one range.
    assert_eq!(startup_losing(&[1, 2, 3, 4, 5, 6, 7, 8], Phase::Recovery), State::Startup);
}

/// The packet that ends the round left after the first of the six losses; in flight were then 19 of the round's packets, and `queued`.
#[test]
fn two_percent_of_what_was_in_flight_are_not_too_much() {
    for (queued, state) in [(2_310, State::Startup), (2_300, State::Drain)] {
        let mut path = Path::new(1);
        path.queued = queued;
        path.round();
        path.round_losing(&[1, 3, 5, 7, 9, 11]);
        path.step();
        assert_eq!(path.bbr.state, State::Startup);
        path.step();
        assert_eq!(path.bbr.state, state, "five of {} packets were lost", queued / 10 + 19);
    }
}

#[test]
fn drain_ends_when_the_queue_is_gone_or_at_the_fourth_round() {
    let mut path = Path::new(1);
    path.queued = 1_000;
    path.until(|bbr| bbr.state == State::Drain);
    let start = path.bbr.rounds.count;
    path.until(|bbr| bbr.state != State::Drain);
    assert_eq!(path.bbr.rounds.count, start + 4);

    let mut path = Path::new(1);
    path.queued = 1_000;
    path.until(|bbr| bbr.state == State::Drain);
    path.queued = 0;
    path.round();
    assert!(path.bbr.state.probes_bandwidth());
}

#[test]
fn a_spurious_end_of_startup_is_undone() {
    let mut path = Path::new(1);
    for _ in 0..4 {
        path.round();
        path.rate *= 1.5;
    }
    path.round_losing(&[1, 3, 5, 7, 9, 11]);
    path.rate *= 1.5;
    path.round();
    assert_ne!(path.bbr.state, State::Startup);
    path.bbr.on_spurious(path.now);
    assert_eq!(path.bbr.state, State::Startup);
    assert!(!path.bbr.full.reached);
}
