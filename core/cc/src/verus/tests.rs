//! Numbers worked by hand from the release's rules.

mod limits;

use super::*;
use crate::controller::{Cause, Lost, Phase, RateSample};

const MSS: u32 = 1448;
const RTT: Nanos = Nanos::from_millis(20);

/// Packets that leave and return by hand.
struct Bench {
    verus: Verus,
    now: Time,
    in_flight: u64,
    next: u64,
    rate: Option<RateSample>,
}

impl Bench {
    fn new() -> Self {
        let config = Config { r: 2.0, ss_exit_ms: 500.0, ss_ratio: f64::INFINITY };
        Self { verus: Verus::new(&Env::default(), config), now: Time::ZERO, in_flight: 0, next: 0, rate: None }
    }

    /// Out of slow start by a loss under a window of `window`, after learning a delay of 20 ms plus 1 ms a packet.
    fn steady(window: u64) -> Self {
        let mut bench = Self::new();
        for w in 1..=window {
            let tag = bench.send().tag;
            bench.now += Nanos::from_millis(20 + w);
            bench.ack(&[bench.packet(tag, Nanos::from_millis(20 + w))]);
        }
        bench.in_flight = 0;
        bench.lose(window);
        assert!(!bench.verus.slow_start && bench.verus.in_loss);
        bench.epoch();
        bench
    }

    fn send(&mut self) -> Stamp {
        self.in_flight += u64::from(MSS);
        let sent = Sent {
            now: self.now,
            seq: self.next,
            bytes: MSS,
            in_flight: self.in_flight,
            retransmission: false,
            app_limited: false,
            unsent: u64::MAX,
        };
        self.next += u64::from(MSS);
        self.verus.on_sent(&sent)
    }

    fn packet(&self, tag: u64, rtt: Nanos) -> Acked {
        Acked {
            seq: 0,
            bytes: MSS,
            sent_at: self.now - rtt,
            tag,
            retransmitted: false,
            app_limited: false,
            ce: false,
            received_at: None,
        }
    }

    fn ack(&mut self, packets: &[Acked]) {
        let bytes = packets.len() as u64 * u64::from(MSS);
        let prior_in_flight = self.in_flight;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.verus.on_ack(&Ack {
            now: self.now,
            packets,
            bytes,
            rtt: None,
            srtt: RTT,
            min_rtt: RTT,
            rate: self.rate,
            prior_in_flight,
            in_flight: self.in_flight,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: 0,
            una: 0,
            next: self.next,
            phase: Phase::Open,
            window_limited: true,
        });
    }

    fn lose(&mut self, tag: u64) {
        let packets = [Lost { seq: 0, bytes: MSS, sent_at: Time::ZERO, tag, cause: Cause::Unknown }];
        self.verus.on_loss(&Loss {
            now: self.now,
            packets: &packets,
            bytes: u64::from(MSS),
            prior_in_flight: self.in_flight,
            in_flight: self.in_flight,
            new_episode: true,
        });
    }

    /// An acknowledgement of a packet that was sent after the reduction.
    fn leave_loss(&mut self) {
        self.now += RTT + EPOCH;
        self.ack(&[self.packet(1, RTT)]);
        self.verus.next_epoch = self.verus.next_epoch.max(self.now);
    }

    fn epoch(&mut self) {
        self.now = self.verus.next_tick();
        self.verus.on_tick(self.now);
    }

    /// An acknowledgement of a packet sent under a window of 1, then the end of the epoch.
    fn epoch_with(&mut self, rtt_ms: f64) {
        self.now += Nanos::from_millis(1);
        self.ack(&[self.packet(1, Nanos::from_millis_f64(rtt_ms))]);
        self.epoch();
    }

    fn allowed(&self) -> u64 {
        self.verus.allowance / u64::from(MSS)
    }
}

#[test]
fn slow_start_sends_two_for_each_acknowledged() {
    let mut bench = Bench::new();
    assert_eq!(bench.verus.window(), u64::from(MSS));
    let tag = bench.send().tag;
    assert_eq!((tag, bench.allowed()), (1, 0));
    bench.now += RTT;
    bench.ack(&[bench.packet(tag, RTT)]);
    assert_eq!(bench.allowed(), 2);
    assert_eq!(bench.send().tag, 2);
    assert_eq!(bench.verus.next_tick(), Time::NEVER);
}

#[test]
fn too_much_delay_ends_slow_start() {
    for (ratio, rtt) in [(f64::INFINITY, 501), (15.0, 301)] {
        let mut bench = Bench::new();
        bench.verus.config.ss_ratio = ratio;
        let tag = bench.send().tag;
        bench.now += RTT;
        bench.ack(&[bench.packet(tag, RTT)]);
        bench.verus.w_bar = 100.0;
        bench.now += Nanos::from_millis(rtt);
        bench.ack(&[bench.packet(100, Nanos::from_millis(rtt - 1))]);
        assert!(bench.verus.slow_start);
        bench.ack(&[bench.packet(100, Nanos::from_millis(rtt))]);
        assert!(!bench.verus.slow_start && bench.verus.in_loss && bench.verus.exiting);
        assert_eq!(bench.verus.w_bar, 70.0);
        assert_eq!(bench.allowed(), 0);
        assert_eq!(bench.verus.next_tick(), bench.now + EPOCH);
        // The queue of slow start drains: over the ratio, but the target stays.
        let before = bench.verus.d_est;
        bench.epoch();
        assert_eq!(bench.verus.d_est, before);
        bench.leave_loss();
        assert!(!bench.verus.in_loss && !bench.verus.exiting);
        assert_eq!(bench.verus.epoch_max, Some(20.0));
    }
}

#[test]
fn the_target_moves_by_one_or_two() {
    let mut bench = Bench::steady(60);
    bench.verus.in_loss = false;
    bench.verus.d_min = 20.0;
    bench.verus.d_est = 30.0;
    bench.verus.d_max_avg = Some(30.0);
    bench.epoch_with(29.0);
    assert_eq!(bench.verus.d_est, 32.0, "falling delay");
    assert!((bench.verus.d_max_avg.unwrap() - 29.2).abs() < 1e-9);
    bench.epoch_with(29.5);
    assert_eq!(bench.verus.d_est, 31.0, "growing delay");
    bench.epoch_with(50.0);
    assert_eq!(bench.verus.d_est, 30.0, "over the ratio only from the next epoch on");
    bench.epoch_with(30.0);
    assert_eq!(bench.verus.d_est, 28.0, "over the ratio");
    assert!((bench.verus.w_bar - 8.0).abs() <= 1.0, "the profile's window for 28 ms is {}", bench.verus.w_bar);
}

#[test]
fn pinned_at_the_smallest_delay() {
    let mut bench = Bench::steady(60);
    bench.verus.in_loss = false;
    (bench.verus.d_min, bench.verus.d_est, bench.verus.d_max_avg) = (20.0, 20.5, Some(100.0));
    bench.verus.in_flight = 5 * u64::from(MSS);
    bench.in_flight = bench.verus.in_flight + u64::from(MSS);
    bench.epoch_with(100.0);
    assert_eq!((bench.verus.d_est, bench.allowed()), (20.0, 0), "much in flight: wait");
    bench.in_flight = u64::from(MSS);
    bench.epoch_with(100.0);
    assert_eq!((bench.verus.d_min, bench.verus.d_est), (30.0, 30.0), "nothing in flight: the path has changed");
    assert!(bench.allowed() >= 1);
}

#[test]
fn silence_counts_as_delay() {
    let mut bench = Bench::steady(60);
    bench.verus.in_loss = false;
    (bench.verus.d_est, bench.verus.d_max_avg) = (60.0, Some(21.0));
    bench.verus.last_ack_at = bench.now;
    bench.verus.in_flight = 10 * u64::from(MSS);
    let mut before = 60.0;
    for _ in 0..4 {
        bench.epoch();
        assert_eq!(bench.verus.d_est, before + 2.0, "20 ms of silence are no more than the delay");
        before = bench.verus.d_est;
    }
    for _ in 0..20 {
        bench.epoch();
        assert!(bench.verus.d_est < before);
        before = bench.verus.d_est;
    }
}

#[test]
fn the_share_fills_the_window_and_replaces_what_returns() {
    let mut bench = Bench::steady(60);
    // 4 epochs a round trip: 40 + 30 (2 - 4) / 3.
    (bench.verus.w_bar, bench.verus.rtt_avg, bench.verus.in_flight) = (40.0, Some(18.0), 30 * u64::from(MSS));
    assert_eq!(bench.verus.share(), 20.0);
    bench.verus.rtt_avg = Some(4.0);
    assert_eq!(bench.verus.share(), 10.0);
    bench.verus.in_flight = 300 * u64::from(MSS);
    assert_eq!(bench.verus.share(), 0.0);
}

#[test]
fn one_decrease_a_loss_phase_and_no_point_learnt_in_it() {
    let mut bench = Bench::steady(60);
    bench.leave_loss();
    assert!(!bench.verus.in_loss);
    bench.verus.w_bar = 50.0;
    bench.lose(40);
    assert_eq!(bench.verus.w_bar, 28.0);
    assert!((bench.verus.d_est - 48.0).abs() < 1.0);
    bench.lose(40);
    assert_eq!(bench.verus.w_bar, 28.0);
    let before = bench.verus.profile.clone();
    bench.now += Nanos::from_millis(300);
    bench.ack(&[bench.packet(39, Nanos::from_millis(400))]);
    assert!((bench.verus.w_bar - (28.0 + 1.0 / 28.0)).abs() < 1e-9);
    assert_eq!(bench.verus.profile.delay_of(39.0, 1.0), before.delay_of(39.0, 1.0));
    bench.ack(&[bench.packet(28, RTT)]);
    assert!(!bench.verus.in_loss);
}

#[test]
fn time_outs() {
    let timeout = |now| Timeout { now, packets: &[], prior_in_flight: 3 * u64::from(MSS), in_flight: 0, count: 1 };
    let mut bench = Bench::new();
    let old = bench.send().tag;
    bench.verus.on_timeout(&timeout(Time::from_millis(1000)));
    assert!(bench.verus.slow_start && bench.allowed() == 1, "nothing ever acknowledged: start again");
    bench.ack(&[bench.packet(old, RTT)]);
    assert!(bench.verus.d_min.is_infinite(), "a packet from before the restart teaches nothing");

    let mut bench = Bench::new();
    let tag = bench.send().tag;
    bench.now += RTT;
    bench.ack(&[bench.packet(tag, RTT)]);
    bench.verus.w_bar = 30.0;
    bench.verus.on_timeout(&timeout(bench.now));
    assert!(bench.verus.slow_start && bench.verus.w_bar == 1.0, "start again");
    assert_eq!(bench.verus.profile.learnt(), 0);

    let mut bench = Bench::steady(60);
    bench.verus.d_est = 70.0;
    bench.verus.on_timeout(&timeout(bench.now));
    assert!(bench.verus.in_loss && bench.verus.d_est == bench.verus.d_min);
    assert!(bench.verus.w_bar <= 2.0, "the smallest delay is that of a window of 1 here");
}

#[test]
fn a_cumulative_acknowledgement_is_its_packets_one_by_one() {
    let mut one = Bench::steady(60);
    one.in_flight = 10 * u64::from(MSS);
    let mut many = Bench { verus: one.verus.clone(), ..one };
    one.now += RTT;
    many.now += RTT;
    let packets: Vec<Acked> = (0..8).map(|i| one.packet(45 - 3 * i, Nanos::from_millis(21 + i))).collect();
    for packet in &packets {
        one.ack(std::slice::from_ref(packet));
    }
    many.ack(&packets);
    one.epoch();
    many.epoch();
    assert_eq!(format!("{:?}", one.verus), format!("{:?}", many.verus));
}

#[test]
fn a_late_timer_runs_at_most_four_epochs() {
    for (late, steps) in [(0, 1.0), (5, 2.0), (15, 4.0), (400, 4.0)] {
        let mut bench = Bench::steady(60);
        bench.verus.in_loss = false;
        (bench.verus.d_est, bench.verus.d_max_avg, bench.verus.epoch_max) = (30.0, Some(30.0), Some(29.0));
        let due = bench.verus.next_tick();
        bench.verus.on_tick(due + Nanos::from_millis(late));
        assert_eq!(bench.verus.d_est, 30.0 + 2.0 * steps, "{late} ms late");
        assert_eq!(bench.verus.next_tick(), due + Nanos::from_millis(late + 5), "on its own beat");
    }
}

#[test]
fn a_pause_is_no_delay() {
    let mut bench = Bench::steady(60);
    bench.verus.on_app_limited(bench.now, 0);
    assert_eq!(bench.verus.next_tick(), Time::NEVER);
    bench.now += Nanos::from_secs(30);
    bench.in_flight = 0;
    bench.send();
    assert_eq!(bench.verus.next_tick(), bench.now + EPOCH);
    let before = bench.verus.d_est;
    bench.epoch();
    assert!((bench.verus.d_est - before).abs() <= 2.0);
    assert!(bench.verus.d_max_avg.unwrap() < 1000.0);
}

#[test]
fn an_application_limited_packet_does_not_enter_the_profile() {
    let mut bench = Bench::steady(60);
    bench.leave_loss();
    let before = bench.verus.profile.clone();
    let packet = Acked { app_limited: true, ..bench.packet(50, Nanos::from_millis(10)) };
    bench.ack(&[packet]);
    assert_eq!(bench.verus.d_min, 10.0);
    assert_eq!(format!("{:?}", bench.verus.profile), format!("{before:?}"));
}

#[test]
fn pacing_spreads_an_epoch() {
    let mut bench = Bench::steady(60);
    bench.verus.in_loss = false;
    bench.verus.d_est = 60.0;
    bench.verus.in_flight = 0;
    bench.epoch();
    let Pacing::Rate(rate) = bench.verus.pacing() else { panic!("paced") };
    assert_eq!(rate.time_for(bench.verus.allowance), EPOCH);
    assert_eq!(bench.verus.window(), bench.verus.allowance);
}
