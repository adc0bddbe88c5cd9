//! What keeps Verus from staying at a few packets, and from flooding a short buffer.

use super::*;

/// In slow start, with windows of 1 to `windows` learnt.
fn learning(windows: u64, rtt: Nanos) -> Bench {
    let mut bench = Bench::new();
    for _ in 0..windows {
        let tag = bench.send().tag;
        bench.now += rtt;
        bench.ack(&[bench.packet(tag, rtt)]);
    }
    bench
}

#[test]
fn the_length_of_the_path_does_not_end_slow_start() {
    for (ratio, rtt, end) in [(f64::INFINITY, 600, 1201), (f64::INFINITY, 251, 503), (1.5, 100, 201)] {
        let mut bench = Bench::new();
        bench.verus.config.ss_ratio = ratio;
        for rtt in [rtt, end - 1] {
            let tag = bench.send().tag;
            bench.now += Nanos::from_millis(rtt);
            bench.ack(&[bench.packet(tag, Nanos::from_millis(rtt))]);
            assert!(bench.verus.slow_start, "{rtt} ms");
        }
        bench.now += Nanos::from_millis(end);
        bench.ack(&[bench.packet(3, Nanos::from_millis(end))]);
        assert!(!bench.verus.slow_start, "{end} ms");
    }
}

#[test]
fn with_fewer_than_five_windows_slow_start_begins_again() {
    for (windows, again) in [(2, true), (4, true), (5, false), (9, false)] {
        let mut bench = learning(windows, RTT);
        bench.lose(windows);
        (bench.in_flight, bench.verus.in_flight) = (0, 0);
        assert!(!bench.verus.slow_start);
        bench.epoch();
        assert!(!bench.verus.slow_start, "not before something has come back");
        bench.leave_loss();
        for _ in 0..210 {
            if bench.verus.slow_start {
                break;
            }
            bench.epoch();
        }
        assert_eq!(bench.verus.slow_start, again, "{windows} windows");
        if again {
            assert_eq!(bench.verus.next_tick(), Time::NEVER);
            assert!(bench.allowed() >= 1, "it may send at once");
        }
    }
}

#[test]
fn above_the_profile_the_window_grows_by_what_comes_back() {
    let mut bench = learning(6, Nanos::from_millis(200));
    bench.lose(6);
    bench.now += Nanos::from_millis(250);
    bench.verus.next_epoch = bench.now;
    let mut largest = 0.0f64;
    for _ in 0..8 {
        for _ in 0..40 {
            bench.epoch_with(200.0);
            largest = largest.max(bench.verus.w_bar);
        }
        bench.verus.profile.learn(largest as u64, 200.0, bench.now);
    }
    assert!(largest > 60.0, "eight round trips lead from 6 packets to {largest}");
}

/// In a loss phase that began under a window of 50 packets.
fn reduced() -> Bench {
    let mut bench = Bench::steady(60);
    bench.leave_loss();
    bench.verus.w_bar = 50.0;
    bench.lose(50);
    bench
}

#[test]
fn the_loss_phase_holds_the_target() {
    let mut bench = reduced();
    let (target, window) = (bench.verus.d_est, bench.verus.w_bar);
    assert_eq!(window, 35.0);
    for _ in 0..3 {
        bench.epoch();
        assert_eq!((bench.verus.d_est, bench.verus.w_bar), (target, window));
    }
    bench.leave_loss();
    bench.verus.d_max_avg = Some(30.0);
    bench.epoch();
    assert_eq!(bench.verus.d_est, target + 2.0);
}

#[test]
fn a_packet_from_before_the_reduction_does_not_end_the_loss_phase() {
    let mut bench = reduced();
    bench.now += Nanos::from_millis(10);
    bench.ack(&[bench.packet(1, RTT)]);
    assert!(bench.verus.in_loss, "sent under a small window, but before");
    bench.leave_loss();
    assert!(!bench.verus.in_loss);
}

#[test]
fn many_losses_make_the_profile_forget_and_few_do_not() {
    for (lost, max) in [(8, 60), (40, 39)] {
        let mut bench = Bench::steady(60);
        bench.leave_loss();
        bench.verus.w_bar = 50.0;
        for _ in 0..lost {
            bench.lose(40);
        }
        assert_eq!(bench.verus.profile.max_window(), max, "{lost} lost");
        assert_eq!(bench.verus.w_bar, 28.0);
    }
}

fn sample(packets: u64, app_limited: bool) -> RateSample {
    RateSample {
        delivered: packets * u64::from(MSS),
        interval: RTT,
        prior_delivered: 0,
        app_limited,
        retransmission: false,
    }
}

/// Out of slow start under a window of 50 packets, this many of which were delivered in the last round trip.
fn delivering(packets: u64) -> Bench {
    let mut bench = Bench::steady(60);
    bench.rate = Some(sample(packets, false));
    bench.leave_loss();
    bench.verus.w_bar = 50.0;
    bench
}

#[test]
fn few_losses_leave_what_was_delivered() {
    for (delivered, others, window) in [(48, 0, 48.0), (20, 0, 35.0), (90, 0, 50.0), (48, 60, 35.0)] {
        let mut bench = delivering(delivered);
        for _ in 0..others {
            bench.lose(50);
        }
        bench.leave_loss();
        bench.verus.w_bar = 50.0;
        bench.lose(50);
        assert_eq!(bench.verus.w_bar, window, "{delivered} delivered, {others} lost before");
    }
}

#[test]
fn the_window_is_at_most_twice_what_was_delivered() {
    let mut bench = Bench::steady(60);
    bench.rate = Some(sample(9, false));
    bench.leave_loss();
    (bench.verus.d_est, bench.verus.d_max_avg) = (70.0, Some(30.0));
    bench.epoch();
    assert_eq!(bench.verus.w_bar, 18.0);
    bench.rate = Some(sample(3, true));
    bench.ack(&[bench.packet(1, RTT)]);
    bench.epoch();
    assert_eq!(bench.verus.w_bar, 18.0, "the application's limit is not the path's");
}
