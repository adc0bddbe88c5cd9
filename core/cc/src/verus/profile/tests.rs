use super::*;
use rand::{RngExt, SeedableRng};

/// The profile of a link with an RTT of 21 ms and one packet a millisecond.
fn link() -> Profile {
    let mut profile = Profile::default();
    for window in 1..=200 {
        profile.learn(window, 21.0f64.max(window as f64), Time::ZERO);
    }
    profile.fit(Time::ZERO);
    profile
}

#[test]
fn a_link_is_learnt() {
    let profile = link();
    assert!((profile.delay_of(150.0, 21.0) - 150.0).abs() < 0.5);
    assert!((profile.delay_of(5.0, 21.0) - 21.0).abs() < 0.5);
    assert!((profile.window_for(100.0) - 100.0).abs() <= 1.0);
    assert_eq!(profile.window_for(1.0), 1.0);
}

#[test]
fn beyond_the_end_the_slope_goes_on_but_not_far() {
    let profile = link();
    assert!((profile.window_for(201.0) - 201.0).abs() <= 1.0);
    assert!((profile.window_for(900.0) - 202.0).abs() <= 1.0);
    assert!((profile.delay_of(210.0, 21.0) - 210.0).abs() < 0.5);
}

/// However steep the curve, one packet more may be tried: a profile of a few windows of a long path must be able to grow.
#[test]
fn beyond_the_end_there_is_room_for_a_packet() {
    for (rtt, top) in [(20.0, 1), (41.0, 4), (200.0, 25), (600.0, 10)] {
        let mut profile = Profile::default();
        for window in 1..=top {
            profile.learn(window, rtt + window as f64 * rtt, Time::ZERO);
        }
        profile.fit(Time::ZERO);
        let over = profile.end() + 0.01;
        assert_eq!(profile.window_for(over), top as f64 + 1.0, "{rtt} ms, {top} packets");
        // Its delay is learnt at once, not with the next fit.
        profile.learn(top + 1, rtt + (top + 1) as f64 * rtt, Time::ZERO);
        assert_eq!(profile.window_for(profile.end() + 0.01), top as f64 + 2.0, "{rtt} ms, {top} packets");
    }
}

#[test]
fn a_flat_curve_allows_as_many_packets_again() {
    let mut profile = Profile::default();
    for window in 1..=10 {
        profile.learn(window, 600.0, Time::ZERO);
    }
    profile.fit(Time::ZERO);
    assert_eq!(profile.window_for(602.1), 20.0);
    assert_eq!(profile.window_for(900.0), 20.0);
}

#[test]
fn lost_windows_are_forgotten_and_tried_again_with_care() {
    let mut profile = link();
    profile.forget_from(120);
    assert_eq!((profile.max_window(), profile.learnt()), (119, 119));
    assert_eq!(profile.window_for(900.0), 119.0);
    for allowed in [126, 140, 168, 224] {
        profile.fit(Time::ZERO);
        assert_eq!(profile.bound, Some(allowed));
        // Until it has been learnt the bound stays.
        profile.fit(Time::ZERO);
        assert_eq!(profile.bound, Some(allowed));
        profile.learn(allowed as u64, allowed as f64, Time::ZERO);
    }
    profile.forget_from(130);
    profile.learn(129, 129.0, Time::ZERO);
    profile.fit(Time::ZERO);
    assert_eq!(profile.bound, Some(137), "a sixteenth again");
    profile.forget_from(15);
    profile.fit(Time::ZERO);
    assert_eq!(profile.bound, Some(15), "a packet at least");
    profile.forget_from(0);
    assert_eq!((profile.max_window(), profile.window_for(900.0)), (1, 1.0));
}

/// A flat end may be learnt while the channel is fast; a flat whole is an empty queue.
#[test]
fn a_flat_end_of_a_rising_curve_is_not_doubled() {
    for (rise, reach) in [(0.0, 100.0), (1.0, 20.0)] {
        let mut profile = Profile::default();
        for window in 1..=100u64 {
            profile.learn(window, 40.0 + rise * window.min(80) as f64, Time::ZERO);
        }
        profile.fit(Time::ZERO);
        let window = profile.window_for(900.0);
        assert!((window - 100.0 - reach).abs() <= 1.0, "rise {rise}: {window}");
    }
}

#[test]
fn without_a_curve_the_points_answer() {
    let mut profile = Profile::default();
    assert_eq!(profile.window_for(50.0), 1.0);
    assert_eq!(profile.delay_of(7.0, 20.0), 20.0);
    profile.learn(1, 20.0, Time::ZERO);
    profile.learn(4, 30.0, Time::ZERO);
    profile.learn(9, 60.0, Time::ZERO);
    assert_eq!(profile.delay_of(7.5, 20.0), 30.0);
    assert_eq!(profile.window_for(45.0), 8.0);
    assert_eq!(profile.window_for(70.0), 9.0);
}

#[test]
fn averages_and_forgets() {
    let mut profile = Profile::default();
    profile.learn(10, 80.0, Time::ZERO);
    profile.learn(10, 160.0, Time::ZERO);
    assert_eq!(profile.delay_of(10.0, 1.0), 90.0);
    profile.learn(5, 40.0, Time::ZERO + Nanos::from_secs(30));
    profile.fit(Time::ZERO + Nanos::from_secs(61));
    assert_eq!(profile.max_window(), 5);
    // Nothing is left to fit: the old curve stays.
    profile.fit(Time::ZERO + Nanos::from_secs(600));
    assert_eq!(profile.max_window(), 5);
}

#[test]
fn what_cannot_be_learnt_is_ignored() {
    let mut profile = Profile::default();
    profile.learn(0, 10.0, Time::ZERO);
    profile.learn(u64::MAX, 10.0, Time::ZERO);
    profile.learn(5, 0.0, Time::ZERO);
    profile.fit(Time::ZERO);
    assert!(!profile.fitted());
    profile.learn(MAX_WINDOW as u64, 10.0, Time::ZERO);
    profile.fit(Time::ZERO);
    assert_eq!(profile.max_window(), MAX_WINDOW);
}

#[test]
fn any_points_give_a_finite_rising_invertible_curve() {
    for seed in 0..200 {
        let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
        let mut profile = Profile::default();
        let top = 1 + random.random_range(1..600u64);
        for _ in 0..random.random_range(1..400) {
            profile.learn(random.random_range(1..=top), random.random_range(0.1..900.0), Time::ZERO);
        }
        let d_min = random.random_range(0.1..50.0);
        profile.fit(Time::ZERO);
        let max = profile.max_window();
        assert!(max >= 1);
        for window in 1..=max {
            assert!(profile.curve[window].is_finite() && profile.curve[window] > profile.curve[window - 1]);
        }
        for window in 1..=max + 1 {
            let back = profile.window_for(profile.delay_of(window as f64, d_min));
            if profile.delay_of(window as f64, d_min) > d_min {
                assert!(back <= window as f64 + 1.0, "seed {seed}: {window} came back as {back}");
            }
            assert!(back >= window as f64 - 1.0, "seed {seed}: {window} came back as {back}");
        }
    }
}
