use super::super::losses::in_flight_at_loss;
use super::*;

#[test]
fn losses_cross_the_threshold_within_a_packet() {
    for (in_flight, lost, expected) in
        [(100.0, 3.0, 99.0), (120.0, 3.0, 119.388), (40.0, 1.0, 39.796), (200.0, 5.0, 199.0)]
    {
        close(in_flight_at_loss(in_flight, lost, 1.0, 0.02), expected);
    }
}

#[test]
fn a_tag_comes_back_as_it_went() {
    for (app_limited, in_flight, lost) in [(true, 5_000, 7), (false, IN_FLIGHT_MOST, u32::MAX), (false, 0, 0)] {
        let tag = Tag::from(u64::from(Tag { app_limited, in_flight, lost }));
        assert_eq!((tag.app_limited, tag.in_flight, tag.lost), (app_limited, in_flight, lost));
    }
    assert_eq!(Tag::from(u64::from(Tag { app_limited: false, in_flight: 1 << 40, lost: 0 })).in_flight, IN_FLIGHT_MOST);
}

const IN_FLIGHT_MOST: u64 = (1 << 31) - 1;

#[test]
fn short_term_bounds_fall_by_three_tenths_a_lossy_round_and_not_below_what_arrived() {
    for (latest, expected) in [
        (0.1, [0.7, 0.49, 0.343, 0.2401, 0.16807, 0.117649, 0.1]),
        (0.5, [0.7, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
        (0.9, [0.9; 7]),
    ] {
        let mut path = Path::new(1);
        path.bbr.state = State::Cruise;
        path.bbr.bandwidth = Bandwidth { cycles: [100.0; 2], ..Bandwidth::default() };
        for expected in expected {
            path.bbr.losses.in_round = true;
            path.bbr.bandwidth.latest = latest * 100.0;
            path.bbr.adapt_lower_bounds();
            close(path.bbr.bandwidth.short, 100.0 * expected);
        }
    }
}

#[test]
fn searching_states_keep_their_bounds_in_a_lossy_round() {
    for state in [State::Startup, State::Refill, State::Up] {
        let mut path = Path::new(1);
        path.bbr.state = state;
        path.bbr.losses.in_round = true;
        path.bbr.adapt_lower_bounds();
        assert!(path.bbr.bandwidth.short.is_infinite() && path.bbr.inflight_short.is_infinite());
        assert!(!path.bbr.losses.in_round);
    }
}

#[test]
fn the_long_term_bound_rises_by_one_two_four_packets_a_round() {
    let mut path = Path::new(1);
    path.bbr.cwnd = 100.0 * MSS as f64;
    let mut per_packet = Vec::new();
    for _ in 0..9 {
        path.bbr.raise_slope();
        per_packet.push(path.packets(path.bbr.probe.up_per_packet));
    }
    for (value, expected) in per_packet.iter().zip([100.0, 50.0, 25.0, 12.5, 6.25, 3.125, 1.5625, 1.0, 1.0]) {
        close(*value, expected);
    }
}

#[test]
fn the_long_term_bound_rises_only_in_a_probe_that_it_limits() {
    for (queued, rises) in [(0, false), (100, true)] {
        let mut path = Path::probing(1);
        path.until(|bbr| bbr.state == State::Refill);
        let bound = 300.0 * MSS as f64;
        path.bbr.inflight_long = bound;
        path.until(|bbr| bbr.state == State::Up);
        assert_eq!(path.bbr.inflight_long, bound, "REFILL does not raise it");
        path.queued = queued;
        for _ in 0..3 {
            path.round();
        }
        assert_eq!(path.bbr.inflight_long > bound, rises, "{queued}");
        path.queued = 0;
        path.until(|bbr| bbr.state == State::Cruise);
        let bound = path.bbr.inflight_long;
        path.until(|bbr| bbr.state == State::Refill);
        assert_eq!(path.bbr.inflight_long, bound, "nor does CRUISE");
    }
}

/// Beta of the product where the window is larger, else of the window.
#[test]
fn a_cut_leaves_seven_tenths_of_what_the_path_holds() {
    for (cwnd, left) in [(200.0, 105.0), (100.0, 70.0)] {
        let mut path = Path::new(1);
        let mss = MSS as f64;
        path.bbr.cwnd = cwnd * mss;
        path.bbr.min_rtt.value = path.rtt;
        path.bbr.bandwidth.bw = 150.0 * mss / path.rtt.as_secs_f64();
        path.bbr.probe.is_sample = true;
        let tag = Tag { app_limited: false, in_flight: 40 * MSS, lost: 0 }.into();
        let lost = Lost { seq: 0, bytes: MSS as u32, sent_at: path.now, tag, cause: Cause::Unknown };
        path.bbr.lose(&lost);
        close(path.packets(path.bbr.inflight_long), left);
        // Only the first one is answered.
        path.bbr.cwnd = 10.0 * mss;
        path.bbr.lose(&lost);
        close(path.packets(path.bbr.inflight_long), left);
    }
}

#[test]
fn short_term_bounds_end_with_a_refill_and_with_probe_rtt() {
    for end in [State::Refill, State::ProbeRtt] {
        let mut path = Path::probing(1);
        path.until(|bbr| bbr.state == State::Cruise);
        if end == State::ProbeRtt {
            path.until(|bbr| bbr.state == end);
        }
        path.bbr.bandwidth.short = path.bbr.bandwidth.max();
        path.bbr.inflight_short = 1_000.0 * MSS as f64;
        let before = path.bbr.state;
        path.until(|bbr| bbr.state != before);
        assert!(path.bbr.bandwidth.short.is_infinite() && path.bbr.inflight_short.is_infinite());
    }
}

/// In UP, where a round loses its packets from the fourth to the seventh: more than 2 %.
pub(super) fn probe_cut(seed: u64) -> Path {
    let mut path = Path::probing(seed);
    path.until(|bbr| bbr.state == State::Up);
    path.round_losing(&[3, 4, 5, 6]);
    path
}

#[test]
fn a_probe_that_loses_too_much_bounds_what_is_in_flight_once() {
    let path = probe_cut(1);
    let bbr = &path.bbr;
    assert!(bbr.probe.too_high && !bbr.probe.is_sample);
    assert!(!matches!(bbr.state, State::Up));
    // A twentieth of the BDP of 200 packets is lost at once: the threshold lies within it.
    close(path.packets(bbr.inflight_long), in_flight_at_loss(200.0, 10.0, 10.0, 0.02));
}

#[test]
fn packets_that_the_application_limited_do_not_bound_it() {
    let mut path = Path::probing(1);
    path.until(|bbr| bbr.state == State::Up);
    path.app_limited = true;
    path.round();
    path.round_losing(&[3, 4, 5, 6]);
    assert!(path.bbr.probe.too_high && path.bbr.inflight_long.is_infinite());
}

#[test]
fn losses_of_an_acknowledgement_mark_its_own_count_of_what_was_delivered() {
    let mut path = Path::probing(1);
    let flight = path.flight();
    path.now += path.rtt;
    path.lose(&flight[..1], 0, true);
    let before = path.delivered;
    path.acknowledge(flight[1], 0);
    assert_eq!(path.bbr.losses.round_delivered, before + u64::from(path.bytes()));
}

#[test]
fn a_spurious_loss_gives_back_bounds_and_window() {
    for lost in [2, 10, 18] {
        let mut path = Path::probing(1);
        path.until(|bbr| bbr.state == State::Up);
        let (long, cwnd) = (path.bbr.inflight_long, path.bbr.cwnd);
        let indices: Vec<usize> = (1..=lost).collect();
        path.round_losing(&indices);
        assert!(path.bbr.inflight_long.is_finite());
        path.bbr.on_spurious(path.now);
        assert!(path.bbr.inflight_long >= long && path.bbr.cwnd >= cwnd);
        assert_eq!(path.bbr.state, State::Refill);
    }
}

#[test]
fn an_undo_in_probe_rtt_changes_no_state() {
    let mut path = probe_cut(1);
    let cut = path.bbr.inflight_long;
    path.bbr.min_rtt.probed_stamp = path.now - Nanos::from_secs(6);
    path.until(|bbr| bbr.state == State::ProbeRtt);
    path.bbr.on_spurious(path.now);
    assert_eq!(path.bbr.state, State::ProbeRtt);
    assert!(path.bbr.inflight_long > cut, "the bound is what it was");
}

#[test]
fn a_timeout_leaves_a_packet_beside_what_is_in_flight_and_its_end_restores_the_window() {
    let mut path = Path::probing(1);
    path.round();
    let cwnd = path.bbr.cwnd;
    let flight = path.flight();
    let lost = [Lost {
        seq: flight[0].seq,
        bytes: path.bytes(),
        sent_at: path.now,
        tag: flight[0].tag,
        cause: Cause::Unknown,
    }];
    path.now += Nanos::from_secs(1);
    path.bbr.on_timeout(&Timeout { now: path.now, packets: &lost, prior_in_flight: 20, in_flight: 0, count: 1 });
    assert_eq!(path.bbr.window(), MSS);
    path.phase = Phase::Loss;
    path.acknowledge(flight[1], 0);
    assert!(path.bbr.cwnd >= 4.0 * MSS as f64 && path.bbr.cwnd < cwnd);
    path.phase = Phase::Open;
    path.acknowledge(flight[2], 0);
    assert!(path.bbr.cwnd >= cwnd.min(path.bbr.cwnd + 1.0));
    assert!(!path.bbr.losses.episode);
}
