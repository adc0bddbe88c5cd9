use super::*;
use crate::controller::{Acked, Cause, Lost};

const MSS: u64 = 1448;

/// A flow fed by hand: each acknowledgement of one packet, at a base and a queueing delay of milliseconds.
struct Flow {
    ledbat: Ledbat,
    now: Time,
    base: f64,
    queue: f64,
    /// What the receiver's clock is ahead, in nanoseconds.
    ahead: u64,
    limited: bool,
}

impl Flow {
    fn new(name: &str, base: f64) -> Self {
        let spec: crate::Spec = name.parse().unwrap();
        let flavour = if name.starts_with("ledbat++") { Flavour::Plus } else { Flavour::Plain };
        Self {
            ledbat: Ledbat::new(&Env::default(), flavour, spec.params()),
            now: Time::from_millis(10_000),
            base,
            queue: 0.0,
            ahead: 0,
            limited: true,
        }
    }

    fn rtt(&self) -> Nanos {
        Nanos::from_millis_f64(self.base + self.queue)
    }

    fn acknowledge(&mut self, packets: f64) {
        self.acknowledge_in(packets, crate::Phase::Open);
    }

    fn acknowledge_in(&mut self, packets: f64, phase: crate::Phase) {
        let sent_at = self.now - self.rtt();
        // Half of the way there, and the queue.
        let one_way = Nanos::from_millis_f64(self.base / 2.0 + self.queue);
        let received_at = Some(sent_at + one_way + Nanos::from_nanos(self.ahead));
        let bytes = (packets * MSS as f64) as u64;
        let acked = Acked {
            seq: 0,
            bytes: bytes as u32,
            sent_at,
            tag: 0,
            retransmitted: false,
            app_limited: false,
            ce: false,
            received_at,
        };
        let rtt = self.rtt();
        crate::testing::fill(&mut self.ledbat, self.now);
        self.ledbat.on_ack(&Ack {
            packets: &[acked],
            bytes,
            min_rtt: Nanos::from_millis_f64(self.base),
            window_limited: self.limited,
            phase,
            ..crate::testing::ack(self.now, rtt, 1)
        });
    }

    /// A round trip: a window is acknowledged, a packet at a time.
    fn round(&mut self) {
        let packets = self.ledbat.window.max(1.0).floor() as u64;
        let gap = self.rtt().mul_div(1, packets);
        for _ in 0..packets {
            self.now += gap;
            self.acknowledge(1.0);
        }
    }

    fn lose(&mut self, sent_at: Time) {
        let lost = [Lost { seq: 0, bytes: MSS as u32, sent_at, tag: 0, cause: Cause::Unknown }];
        self.ledbat.on_loss(&Loss {
            now: self.now,
            packets: &lost,
            bytes: MSS,
            prior_in_flight: MSS,
            in_flight: 0,
            new_episode: true,
        });
    }

    /// In congestion avoidance with this window.
    fn avoiding(name: &str, base: f64, window: f64) -> Self {
        let mut flow = Self::new(name, base);
        flow.acknowledge(1.0);
        flow.ledbat.window = window;
        flow.ledbat.ssthresh = window;
        flow.ledbat.phase = Phase::Avoidance;
        flow
    }
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{value} is not {expected}");
}

#[test]
fn the_gain_goes_with_the_base() {
    for (base, gain) in [
        (5.0, 1.0 / 16.0),
        (30.0, 1.0 / 4.0),
        (60.0, 0.5),
        (120.0, 1.0),
        (200.0, 1.0),
        (7.0, 1.0 / 16.0),
        (15.0, 0.125),
    ] {
        let mut flow = Flow::new("ledbat++", base);
        flow.acknowledge(1.0);
        close(flow.ledbat.gain(), gain);
    }
}

#[test]
fn a_round_of_slow_start_grows_by_the_gain() {
    let mut flow = Flow::new("ledbat++", 60.0);
    flow.ledbat.window = 100.0;
    flow.round();
    // The window is acknowledged once: 100 packets, each of half a packet.
    close(flow.ledbat.window, 150.0);
}

#[test]
fn slow_start_ends_at_three_quarters_of_the_target() {
    for (name, target, share) in [("ledbat++", 60.0, 0.75), ("ledbat", 100.0, 0.5)] {
        let mut flow = Flow::new(name, 40.0);
        flow.acknowledge(1.0);
        flow.queue = share * target - 0.1;
        (0..20).for_each(|_| flow.acknowledge(0.01));
        assert_eq!(flow.ledbat.phase, Phase::Start, "{name}");
        flow.queue = share * target + 0.1;
        (0..20).for_each(|_| flow.acknowledge(0.01));
        assert_ne!(flow.ledbat.phase, Phase::Start, "{name}");
    }
}

#[test]
fn below_the_target_the_window_grows_by_the_gain_and_above_it_falls() {
    let grown = |name: &str, queue: f64| {
        let mut flow = Flow::avoiding(name, 60.0, 100.0);
        flow.ledbat.slowdown = Slowdown::default();
        flow.queue = queue;
        // Old samples leave the filter.
        (0..20).for_each(|_| flow.acknowledge(0.01));
        flow.ledbat.window = 100.0;
        flow.acknowledge(100.0);
        flow.ledbat.window - 100.0
    };
    close(grown("ledbat++", 0.0), 0.5);
    close(grown("ledbat++", 30.0), 0.5);
    // Half above the target: a gain less half the window.
    close(grown("ledbat++", 66.0), 0.5 - 10.0);
    close(grown("ledbat++", 90.0), 0.5 - 50.0);
    close(grown("ledbat++", 600.0), -50.0);
    close(grown("ledbat", 0.0), 1.0);
    close(grown("ledbat", 50.0), 0.5);
    close(grown("ledbat", 100.0), 0.0);
    close(grown("ledbat", 1000.0), -1.0);
}

/// Ten times the target for a round trip, packet by packet.
#[test]
fn a_round_trip_takes_half_of_the_window_at_most() {
    let mut flow = Flow::avoiding("ledbat++", 60.0, 100.0);
    flow.ledbat.slowdown = Slowdown::default();
    flow.queue = 600.0;
    (0..10).for_each(|_| flow.acknowledge(1e-9));
    flow.ledbat.window = 100.0;
    (0..100).for_each(|_| flow.acknowledge(1.0));
    close(flow.ledbat.window, 50.0);
}

#[test]
fn the_window_never_falls_below_two_packets() {
    for name in ["ledbat", "ledbat++"] {
        let mut flow = Flow::avoiding(name, 20.0, 3.0);
        flow.queue = 2_000.0;
        for _ in 0..100 {
            flow.round();
            assert!(flow.ledbat.window >= LEAST, "{name}");
        }
    }
}

/// A difference of the clocks, or a longer path, changes nothing.
#[test]
fn only_the_queue_counts() {
    let windows = |ahead: u64, base: f64| {
        let mut flow = Flow::new("ledbat", base);
        flow.ahead = ahead;
        let mut windows = Vec::new();
        for round in 0..200u64 {
            flow.queue = (round % 37) as f64 * 5.0;
            flow.acknowledge(1.0);
            flow.now += Nanos::from_millis(10);
            windows.push(flow.ledbat.window.to_bits());
        }
        windows
    };
    assert!(windows(0, 40.0) == windows(7_000_000_000, 40.0));
    assert!(windows(0, 40.0) == windows(0, 80.0));
}

#[test]
fn a_slowdown_holds_two_packets_and_ramps_back_whatever_the_delay() {
    let mut flow = Flow::new("ledbat++", 60.0);
    flow.acknowledge(1.0);
    flow.ledbat.window = 64.0;
    flow.queue = 50.0;
    for _ in 0..12 {
        flow.acknowledge(0.01);
    }
    assert_eq!(flow.ledbat.phase, Phase::Avoidance);
    let ended = flow.now;
    while flow.ledbat.phase == Phase::Avoidance {
        flow.round();
    }
    // Two round trips after the first slow start.
    assert!(flow.now - ended >= flow.rtt().mul_div(2, 1));
    let (fell, back) = (flow.now, flow.ledbat.ssthresh);
    assert_eq!(flow.ledbat.window, LEAST);
    flow.queue = 0.0;
    while flow.ledbat.phase == Phase::Held {
        flow.round();
    }
    assert!(flow.now - fell >= Nanos::from_millis(220));
    flow.queue = 500.0;
    while flow.ledbat.phase == Phase::Ramp {
        flow.now += Nanos::from_millis(10);
        flow.acknowledge(1.0);
    }
    close(flow.ledbat.window, back);
    let lasted = flow.now - fell;
    let ended = flow.now;
    flow.queue = 50.0;
    while flow.ledbat.phase == Phase::Avoidance && flow.now - ended < Nanos::from_secs(60) {
        flow.round();
    }
    let pause = (flow.now - ended).as_secs_f64() / lasted.as_secs_f64();
    assert!((9.0..9.5).contains(&pause), "{pause}");
}

/// Where little waits the base is as good as it gets.
#[test]
fn a_queue_of_less_than_a_tenth_of_the_target_puts_a_slowdown_off() {
    for (queue, falls) in [(5.5, false), (6.5, true)] {
        let mut flow = Flow::avoiding("ledbat++", 60.0, 20.0);
        flow.ledbat.slowdown.after_start(flow.now, Nanos::ZERO);
        flow.queue = queue;
        (0..20).for_each(|_| flow.acknowledge(0.01));
        assert_eq!(flow.ledbat.phase == Phase::Held, falls, "{queue} ms");
    }
}

/// The base and the queue, both in milliseconds, as a slowdown begins and while it lasts; the base after it.
fn remeasured(before: (f64, f64), held: (f64, f64)) -> f64 {
    let mut flow = Flow::avoiding("ledbat++", before.0, 30.0);
    flow.ledbat.slowdown.after_start(flow.now, Nanos::ZERO);
    flow.queue = before.1;
    while flow.ledbat.phase != Phase::Held {
        flow.round();
    }
    (flow.base, flow.queue) = held;
    while flow.ledbat.phase == Phase::Held {
        flow.round();
    }
    1e3 * flow.ledbat.delays.base().unwrap()
}

/// It began in a queue of 40 ms that is its own by then; beside others, who keep 30 ms; on a path that has become longer.
#[test]
fn a_slowdown_forgets_its_own_queue_and_takes_that_of_others_for_a_queue() {
    close(remeasured((60.0, 40.0), (20.0, 0.0)), 20.0);
    close(remeasured((20.0, 40.0), (20.0, 30.0)), 20.0);
    close(remeasured((20.0, 40.0), (50.0, 0.0)), 20.0);
}

#[test]
fn a_longer_path_is_known_after_ten_minutes() {
    for name in ["ledbat:skew=off", "ledbat++"] {
        let mut flow = Flow::avoiding(name, 20.0, 30.0);
        flow.base = 60.0;
        let mut known = |minutes: f64| {
            while flow.now < Time::from_millis(10_000) + Nanos::from_secs_f64(60.0 * minutes) {
                flow.now += Nanos::from_secs(1);
                flow.acknowledge(1e-3);
            }
            flow.ledbat.delays.queued().unwrap()
        };
        let (before, after) = (known(9.0), known(11.0));
        assert!(before > 0.015 && after < 0.001, "{name}: {before} s, then {after} s");
    }
}

#[test]
fn a_loss_halves_once_a_round_trip_and_not_for_packets_from_before() {
    let mut flow = Flow::avoiding("ledbat++", 60.0, 100.0);
    flow.lose(flow.now - Nanos::from_millis(50));
    close(flow.ledbat.window, 50.0);
    let reduced = flow.now;
    flow.now += Nanos::from_millis(40);
    flow.lose(reduced - Nanos::from_millis(1));
    close(flow.ledbat.window, 50.0);
    flow.lose(reduced + Nanos::from_millis(1));
    close(flow.ledbat.window, 25.0);
    flow.ledbat.on_spurious(flow.now);
    close(flow.ledbat.window, 50.0);
}

#[test]
fn a_loss_in_a_slowdown_lowers_what_it_returns_to() {
    let mut flow = Flow::avoiding("ledbat++", 60.0, 100.0);
    flow.ledbat.begin_slowdown(flow.now);
    // Of a packet that left before the window fell, which the fall has answered.
    flow.lose(flow.now - Nanos::from_millis(1));
    close(flow.ledbat.ssthresh, 100.0);
    flow.lose(flow.now + Nanos::from_millis(1));
    close(flow.ledbat.ssthresh, 50.0);
    close(flow.ledbat.window, LEAST);
}

#[test]
fn an_application_that_sends_little_does_not_make_it_grow() {
    for name in ["ledbat", "ledbat++"] {
        let mut flow = Flow::avoiding(name, 60.0, 20.0);
        flow.limited = false;
        (0..50).for_each(|_| flow.round());
        close(flow.ledbat.window, 20.0);
    }
}

#[test]
fn clocks_that_run_apart_are_not_a_queue() {
    for (name, follows) in [("ledbat", true), ("ledbat:skew=off", false)] {
        let mut flow = Flow::avoiding(name, 40.0, 50.0);
        // 100 ppm for five minutes: 30 ms.
        for _ in 0..3_000 {
            flow.now += Nanos::from_millis(100);
            flow.ahead += 10_000;
            flow.acknowledge(1e-3);
        }
        let queued = flow.ledbat.delays.queued().unwrap();
        assert_eq!(queued < 0.001, follows, "{name}: {queued}");
    }
}
