use super::*;
use crate::testing::ack;

const RTT: Nanos = Nanos::from_millis(10);

fn cubic() -> Cubic {
    Cubic::new(&Env::default(), Settings::default())
}

fn lose(cubic: &mut Cubic, cwnd: f64) -> Window {
    let window = Window { cwnd, ssthresh: cwnd };
    let target = cubic.reduce(Signal::Loss, Time::ZERO, &window, cwnd);
    Window { cwnd: target, ssthresh: target }
}

/// A round trip of acknowledgements, packet by packet; gives its end.
fn round(cubic: &mut Cubic, window: &mut Window, start: Time, limited: bool) -> Time {
    let packets = window.cwnd as u32;
    for packet in 1..=packets {
        let mut ack = ack(start + RTT.mul_div(u64::from(packet), u64::from(packets)), RTT, 1);
        ack.window_limited = limited;
        cubic.observe(&ack, window);
        if limited {
            cubic.grow(&ack, window);
        }
    }
    start + RTT
}

#[test]
fn the_curve_has_the_numbers_of_its_equations() {
    let mut cubic = cubic();
    let window = lose(&mut cubic, 100.0);
    assert!((window.cwnd - 70.0).abs() < 1e-9);
    let epoch = Epoch::new(Time::ZERO, window.cwnd, cubic.curve.w_max, 0.4);
    assert!((epoch.k - 4.217).abs() < 5e-4);
    for (t, want) in [(0.0, 70.0), (2.0, 95.6), (4.217, 100.0), (6.0, 102.3), (8.0, 121.7)] {
        let at = epoch.at(t, 0.4);
        assert!((at - want).abs() < 0.06, "W({t}) = {at}, not {want}");
    }
}

#[test]
fn the_window_follows_the_curve() {
    let mut cubic = cubic();
    cubic.settings.reno_friendly = false;
    let mut window = lose(&mut cubic, 1000.0);
    let k = libm::cbrt(300.0 / 0.4);
    let mut now = Time::ZERO;
    for (until, want) in [(k / 2.0, 1000.0 - 300.0 / 8.0), (k, 1000.0), (1.5 * k, 1000.0 + 300.0 / 8.0)] {
        while now < Time::from_secs_f64(until) {
            now = round(&mut cubic, &mut window, now, true);
        }
        assert!((window.cwnd - want).abs() < 2.0, "at {now}: {} not {want}", window.cwnd);
    }
}

#[test]
fn fast_convergence_gives_way() {
    let mut cubic = cubic();
    lose(&mut cubic, 100.0);
    lose(&mut cubic, 80.0);
    assert!((cubic.curve.w_max - 68.0).abs() < 1e-9);
    cubic.settings.fast_convergence = false;
    lose(&mut cubic, 60.0);
    assert_eq!(cubic.curve.w_max, 60.0);
}

#[test]
fn a_short_path_is_served_as_by_reno() {
    let mut cubic = cubic();
    let mut window = lose(&mut cubic, 10.0 / 0.7);
    let mut now = Time::ZERO;
    for _ in 0..7 {
        now = round(&mut cubic, &mut window, now, true);
    }
    // alpha = 3 * 0.3 / 1.7 = 0.529 packets a round trip: one in 1.89. A little less, as a round is whole packets.
    let per_round = (window.cwnd - 10.0) / 7.0;
    assert!((0.50..=0.53).contains(&per_round), "{per_round}");
    cubic.settings.reno_friendly = false;
    let before = window.cwnd;
    round(&mut cubic, &mut window, now, true);
    assert!(window.cwnd - before < 0.1);
}

#[test]
fn past_the_prior_window_reno_grows_by_one() {
    let mut cubic = cubic();
    let mut window = lose(&mut cubic, 4.0);
    let mut now = Time::ZERO;
    while window.cwnd < 6.0 {
        now = round(&mut cubic, &mut window, now, true);
    }
    let before = window.cwnd;
    round(&mut cubic, &mut window, now, true);
    assert!((0.8..=1.0).contains(&(window.cwnd - before)));
}

#[test]
fn idle_and_application_limited_time_does_not_count() {
    let mut cubic = cubic();
    let mut window = lose(&mut cubic, 100.0);
    let mut now = round(&mut cubic, &mut window, Time::ZERO, true);
    let start = cubic.curve.epoch.unwrap().start;
    let idle = Nanos::from_secs(100);
    now += idle;
    cubic.on_restart(now, idle);
    assert_eq!(cubic.curve.epoch.unwrap().start, start + idle);
    for _ in 0..50 {
        now = round(&mut cubic, &mut window, now, false);
    }
    assert_eq!(cubic.curve.epoch.unwrap().start, start + idle + RTT.mul_div(50, 1));
    let before = window.cwnd;
    round(&mut cubic, &mut window, now, true);
    assert!(window.cwnd - before < 1.0, "no leap: {before} to {}", window.cwnd);
}

#[test]
fn undo_restores_the_curve() {
    let mut cubic = cubic();
    let mut window = lose(&mut cubic, 100.0);
    round(&mut cubic, &mut window, Time::ZERO, true);
    let (w_max, start) = (cubic.curve.w_max, cubic.curve.epoch.unwrap().start);
    lose(&mut cubic, window.cwnd);
    assert!(cubic.curve.w_max < w_max && cubic.curve.epoch.is_none());
    cubic.undo();
    assert_eq!((cubic.curve.w_max, cubic.curve.epoch.unwrap().start), (w_max, start));
}

#[test]
fn a_time_out_forgets_the_plateau() {
    let mut cubic = cubic();
    lose(&mut cubic, 100.0);
    let window = Window { cwnd: 80.0, ssthresh: 80.0 };
    assert!((cubic.reduce(Signal::Timeout, Time::ZERO, &window, 80.0) - 56.0).abs() < 1e-9);
    cubic.on_timeout();
    assert_eq!(cubic.curve.w_max, 0.0);
}

#[test]
fn the_curve_is_read_one_smallest_rtt_ahead() {
    let growth = |rtt: Nanos| {
        let mut cubic = cubic();
        let mut window = lose(&mut cubic, 1000.0);
        cubic.observe(&ack(Time::ZERO, RTT, 1), &window);
        cubic.grow(&ack(Time::ZERO, RTT, 1), &mut window);
        let (before, late) = (window.cwnd, ack(Time::from_secs_f64(12.0), rtt, 1));
        cubic.observe(&late, &window);
        cubic.grow(&late, &mut window);
        (window.cwnd - before) * before
    };
    // The plateau lies 9.09 s behind the start: W(12.01) - 700 is 310; read 2 s ahead it would be 347.
    assert!((growth(RTT) - 310.0).abs() < 1.0, "{}", growth(RTT));
    assert_eq!(growth(RTT), growth(Nanos::from_secs(2)), "a queue does not count");
}

#[test]
fn a_time_out_forgets_the_smallest_rtt() {
    let mut cubic = cubic();
    let window = lose(&mut cubic, 1000.0);
    cubic.observe(&ack(Time::ZERO, RTT, 1), &window);
    cubic.on_timeout();
    cubic.observe(&ack(Time::ZERO, RTT + RTT, 1), &window);
    assert_eq!(cubic.min_rtt, RTT + RTT);
}

#[test]
fn until_the_first_loss_it_opens_by_a_twentieth() {
    let mut cubic = cubic();
    let mut window = Window { cwnd: 100.0, ssthresh: 100.0 };
    round(&mut cubic, &mut window, Time::ZERO, true);
    assert!((104.8..=105.0).contains(&window.cwnd), "{}", window.cwnd);
}

#[test]
fn ten_days_without_a_loss_stay_finite() {
    let mut cubic = cubic();
    let mut window = lose(&mut cubic, 100.0);
    cubic.grow(&ack(Time::ZERO, RTT, 1), &mut window);
    cubic.grow(&ack(Time::from_secs_f64(864_000.0), RTT, 1), &mut window);
    // At most half a packet for a packet.
    assert!(window.cwnd < 71.0);
}

/// The same numbers as of the kernel's module (`datapaths/kernel/tests/native/cubic.c`): 4 of 7 packets are left, and 4 grow by one in 7
/// acknowledged, as Reno's window with this beta.
#[test]
fn whole_packets_are_counted_as_linux_counts_them() {
    let mut cubic = Cubic::new(&Env::default(), Settings { whole: true, ..Settings::default() });
    for (before, after) in [(7.0, 4.0), (90.0, 63.0), (10.0, 7.0), (3.0, 2.0)] {
        assert_eq!(lose(&mut cubic, before).cwnd, after);
    }
    // Fast convergence: half of 3.4 packets less.
    lose(&mut cubic, 100.0);
    lose(&mut cubic, 5.0);
    assert_eq!(cubic.curve.w_max, 4.0);

    let mut cubic = Cubic::new(&Env::default(), Settings { whole: true, ..Settings::default() });
    lose(&mut cubic, 100.0);
    let mut window = lose(&mut cubic, 7.0);
    let mut sizes = vec![window.cwnd];
    let mut now = Time::from_millis(1_000);
    for _ in 0..40 {
        now = round(&mut cubic, &mut window, now, true);
        sizes.push(window.cwnd);
    }
    assert!(sizes.iter().all(|size| size.fract() == 0.0), "{sizes:?}");
    assert!(sizes.windows(2).all(|pair| pair[1] >= pair[0] && pair[1] <= pair[0] + 1.0), "{sizes:?}");
    assert!(sizes[40] > 8.0, "{sizes:?}");
    // Until the first loss by one for twenty.
    let mut cubic = Cubic::new(&Env::default(), Settings { whole: true, ..Settings::default() });
    let mut window = Window { cwnd: 20.0, ssthresh: 20.0 };
    round(&mut cubic, &mut window, now, true);
    assert_eq!(window.cwnd, 21.0);
}
