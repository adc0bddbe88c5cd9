use std::collections::VecDeque;

use super::losses::in_flight_at_loss;
use super::states::AckPhase;
use super::*;
use crate::controller::{Acked, Cause, Lost, RateSample};

const MSS: u64 = 1448;
const PACKETS_A_ROUND: u64 = 20;

/// A path fed by hand: each round sends a flight of equal packets at once and acknowledges them one by one over the RTT.
struct Path {
    bbr: Bbr3,
    now: Time,
    seq: u64,
    delivered: u64,
    /// Packets per second that the samples show.
    rate: f64,
    rtt: Nanos,
    /// Packets in flight as the controller is told, beside the round's own.
    queued: u64,
    phase: Phase,
    app_limited: bool,
    flight: VecDeque<Flying>,
}

/// A packet on its way.
#[derive(Clone, Copy)]
struct Flying {
    seq: u64,
    tag: u64,
    sent_at: Time,
    prior_delivered: u64,
}

impl Path {
    fn new(seed: u64) -> Self {
        Self {
            bbr: Bbr3::new(&Env { seed, ..Env::default() }, 1.0, Constants::default()),
            now: Time::from_millis(1_000),
            seq: 0,
            delivered: 0,
            rate: 10_000.0,
            rtt: Nanos::from_millis(20),
            queued: 0,
            phase: Phase::Open,
            app_limited: false,
            flight: VecDeque::new(),
        }
    }

    /// In ProbeBW's DOWN or CRUISE: 10 000 packets/s and 20 ms, so that a BDP is 200 packets.
    fn probing(seed: u64) -> Self {
        let mut path = Self::new(seed);
        path.until(|bbr| bbr.state.probes_bandwidth());
        path
    }

    fn until(&mut self, reached: impl Fn(&Bbr3) -> bool) {
        for _ in 0..40_000 {
            if reached(&self.bbr) {
                return;
            }
            self.step();
        }
        panic!("still in {:?}", self.bbr.state);
    }

    /// The size of one of the round's packets: a twentieth of a BDP, as if as many packets were acknowledged at once.
    fn bytes(&self) -> u32 {
        (self.rate * self.rtt.as_secs_f64() / PACKETS_A_ROUND as f64 * MSS as f64) as u32
    }

    fn send(&mut self, in_flight: u64) -> Flying {
        let (seq, bytes) = (self.seq, self.bytes());
        self.seq += u64::from(bytes);
        let tag = self
            .bbr
            .on_sent(&Sent {
                now: self.now,
                seq,
                bytes,
                in_flight: in_flight + self.queued * MSS,
                retransmission: false,
                app_limited: self.app_limited,
                unsent: u64::MAX,
            })
            .tag;
        Flying { seq, tag, sent_at: self.now, prior_delivered: self.delivered }
    }

    /// All of the flight, in place of what is on its way.
    fn flight(&mut self) -> Vec<Flying> {
        self.flight.clear();
        self.fill();
        self.flight.drain(..).collect()
    }

    fn acknowledge(&mut self, packet: Flying, left: u64) {
        let bytes = u64::from(self.bytes());
        self.delivered += bytes;
        let in_flight = left + self.queued * MSS;
        let acked = Acked {
            seq: packet.seq,
            bytes: bytes as u32,
            sent_at: packet.sent_at,
            tag: packet.tag,
            retransmitted: false,
            app_limited: self.app_limited,
            ce: false,
            received_at: None,
        };
        self.bbr.on_ack(&Ack {
            now: self.now,
            packets: &[acked],
            bytes,
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            rate: Some(RateSample {
                delivered: (self.rate * self.rtt.as_secs_f64() * MSS as f64) as u64,
                interval: self.rtt,
                prior_delivered: packet.prior_delivered,
                app_limited: self.app_limited,
                retransmission: false,
            }),
            prior_in_flight: in_flight + bytes,
            in_flight,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: self.delivered,
            una: self.delivered,
            next: self.seq,
            phase: self.phase,
            window_limited: true,
        });
        self.check();
    }

    /// What holds after every acknowledgement.
    fn check(&self) {
        let bbr = &self.bbr;
        let gains = match bbr.state {
            State::Startup => (2.77, 2.0),
            State::Drain => (0.5, 2.0),
            State::Down => (0.9, 2.0),
            State::Cruise | State::Refill => (1.0, 2.0),
            State::Up => (1.25, 2.25),
            State::ProbeRtt => (1.0, 0.5),
        };
        assert_eq!((bbr.state.pacing_gain(), bbr.state.cwnd_gain()), gains);
        assert!(bbr.cwnd >= 4.0 * MSS as f64);
        bbr.describe(&mut |name, value| assert!(value.is_finite(), "{name} is {value}"));
        match bbr.state {
            State::Cruise => assert!(bbr.cwnd <= bbr.room()),
            State::Down => assert!(bbr.cwnd <= bbr.inflight_long.max(4.0 * MSS as f64)),
            _ => {}
        }
    }

    /// The next packet of the flight arrives, and makes room for another.
    fn step(&mut self) {
        self.step_after(0);
    }

    fn round(&mut self) {
        (0..PACKETS_A_ROUND).for_each(|_| self.step());
    }

    /// A round of the present flight, of which the packets with these indices are lost: the acknowledgement of the one after them
    /// shows it.
    fn round_losing(&mut self, lost: &[usize]) {
        self.fill();
        let mut index = 0;
        while index < PACKETS_A_ROUND as usize {
            let gone = (index..).take_while(|index| lost.contains(index)).count();
            self.step_after(gone);
            index += gone + 1;
        }
    }

    fn fill(&mut self) {
        let window = (self.bbr.window() / u64::from(self.bytes())).clamp(1, PACKETS_A_ROUND);
        let room = if self.bbr.state == State::ProbeRtt { window } else { PACKETS_A_ROUND };
        while (self.flight.len() as u64) < room {
            let packet = self.send((self.flight.len() as u64 + 1) * u64::from(self.bytes()));
            self.flight.push_back(packet);
        }
    }

    /// The next `lost` packets are lost, and the one after them arrives.
    fn step_after(&mut self, lost: usize) {
        self.fill();
        self.now += self.rtt.mul_div(1 + lost as u64, PACKETS_A_ROUND);
        let gone: Vec<Flying> = self.flight.drain(..lost).collect();
        let packet = self.flight.pop_front().expect("the flight is not empty");
        let left = self.flight.len() as u64 * u64::from(self.bytes());
        if lost > 0 {
            self.lose(&gone, left, self.phase == Phase::Open);
            self.phase = Phase::Recovery;
        }
        self.acknowledge(packet, left);
    }

    fn lose(&mut self, packets: &[Flying], in_flight: u64, new_episode: bool) {
        let bytes = self.bytes();
        let packets: Vec<Lost> = packets
            .iter()
            .map(|packet| Lost {
                seq: packet.seq,
                bytes,
                sent_at: packet.sent_at,
                tag: packet.tag,
                cause: Cause::Unknown,
            })
            .collect();
        let lost = u64::from(bytes) * packets.len() as u64;
        self.bbr.on_loss(&Loss {
            now: self.now,
            packets: &packets,
            bytes: lost,
            prior_in_flight: in_flight + lost,
            in_flight,
            new_episode,
        });
    }

    fn packets(&self, bytes: f64) -> f64 {
        bytes / MSS as f64
    }
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-3 * expected.abs().max(1.0), "{value} is not {expected}");
}

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
fn startup_ends_by_losses_of_six_ranges_in_recovery() {
    let six = [1, 3, 5, 7, 9, 11];
    assert_ne!(startup_losing(&six, Phase::Recovery), State::Startup);
    assert_eq!(startup_losing(&six[..5], Phase::Recovery), State::Startup);
    assert_eq!(startup_losing(&six, Phase::Open), State::Startup);
    // Neighbours are one range.
    assert_eq!(startup_losing(&[1, 2, 3, 4, 5, 6, 7, 8], Phase::Recovery), State::Startup);
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
fn the_cycle_goes_down_cruises_refills_and_goes_up() {
    let mut path = Path::probing(1);
    for state in [State::Cruise, State::Refill, State::Up, State::Down, State::Cruise, State::Refill, State::Up] {
        path.until(|bbr| bbr.state == state);
    }
}

#[test]
fn a_probe_waits_two_to_three_seconds_or_sixty_three_rounds() {
    let mut first_bits = [0u32; 2];
    for seed in 0..64 {
        let mut path = Path::probing(seed);
        path.until(|bbr| bbr.state == State::Up);
        path.until(|bbr| bbr.state == State::Down);
        let (start, wait) = (path.now, path.bbr.probe.wait);
        first_bits[path.bbr.probe.rounds.min(1) as usize] += 1;
        assert!(wait >= Nanos::from_secs(2) && wait < Nanos::from_secs(3));
        path.until(|bbr| bbr.state == State::Refill);
        let rounds = path.rtt.mul_div(64, 1);
        assert!(path.now - start <= rounds && path.now - start >= path.rtt.mul_div(61, 1), "{:?}", path.now - start);
    }
    assert!(first_bits[0] > 16 && first_bits[1] > 16, "{first_bits:?}");
}

#[test]
fn a_small_path_is_probed_after_as_many_rounds_as_it_holds_packets() {
    let mut path = Path::probing(1);
    path.rate = 1_000.0;
    // Two cycles forget the larger rate.
    for _ in 0..3 {
        path.until(|bbr| bbr.state == State::Up);
        path.until(|bbr| bbr.state == State::Down);
    }
    let start = path.bbr.rounds.count;
    path.until(|bbr| bbr.state == State::Refill);
    assert!(path.bbr.rounds.count - start <= 21, "{}", path.bbr.rounds.count - start);
}

#[test]
fn the_bandwidth_forgets_after_two_cycles_and_takes_no_smaller_sample_of_an_idle_application() {
    let mut path = Path::probing(1);
    let full = path.bbr.bandwidth.max();
    path.app_limited = true;
    path.rate = 5_000.0;
    path.round();
    close(path.bbr.bandwidth.max(), full);
    path.rate = 20_000.0;
    path.round();
    close(path.bbr.bandwidth.max(), 2.0 * full);
    path.app_limited = false;
    path.rate = 5_000.0;
    for _ in 0..2 {
        assert!(path.bbr.bandwidth.max() >= 1.9 * full);
        path.until(|bbr| bbr.state == State::Up);
        path.until(|bbr| bbr.probe.ack_phase == AckPhase::Init);
    }
    path.round();
    close(path.bbr.bandwidth.max(), full / 2.0);
}

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

/// In UP, where a round loses its packets from the fourth to the seventh: more than 2 %.
fn probe_cut(seed: u64) -> Path {
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

#[test]
fn probe_rtt_comes_five_seconds_after_the_last_smaller_rtt() {
    let mut path = Path::probing(1);
    let start = path.bbr.min_rtt.probed_stamp;
    path.until(|bbr| bbr.state == State::ProbeRtt);
    let after = path.now - start;
    assert!(after > Nanos::from_secs(5) && after < Nanos::from_millis(5_050), "{after:?}");
    let entered = path.now;
    assert!(path.bbr.cwnd <= path.bbr.bdp(path.bbr.bandwidth.bw, 0.5).max(4.0 * MSS as f64));
    path.until(|bbr| bbr.state != State::ProbeRtt);
    assert!(path.now - entered >= Nanos::from_millis(200));
    assert_eq!(path.bbr.state, State::Cruise);
    let ended = path.now;
    path.until(|bbr| bbr.state == State::ProbeRtt);
    assert!(path.now - ended >= Nanos::from_secs(5));
}

#[test]
fn an_rtt_that_jumps_as_probe_rtt_begins_does_not_double_its_window() {
    let mut path = Path::probing(1);
    path.until(|bbr| bbr.state == State::ProbeRtt);
    let before = path.bbr.probe_rtt_cwnd();
    path.rtt = Nanos::from_millis(200);
    path.round();
    assert!(path.bbr.probe_rtt_cwnd() <= before);
}

#[test]
fn a_silence_longer_than_five_seconds_does_not_begin_probe_rtt() {
    let mut path = Path::probing(1);
    path.now += Nanos::from_secs(8);
    path.bbr.on_app_limited(path.now, 0);
    path.now += Nanos::from_secs(1);
    let flight = path.flight();
    assert!(path.bbr.idle_restart);
    path.now += path.rtt;
    path.acknowledge(flight[0], 0);
    assert!(!path.bbr.idle_restart);
    assert_ne!(path.bbr.state, State::ProbeRtt);
}

#[test]
fn the_quantum_is_a_millisecond_of_the_rate_within_bounds() {
    for (mbps, expected) in [(1.0, 2_896.0), (12.0, 2_896.0), (100.0, 12_500.0), (600.0, 65_536.0)] {
        let mut path = Path::new(1);
        path.bbr.pacing_rate = mbps * 125_000.0;
        close(path.bbr.quantum(), expected);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_differs_only_after_the_first_down() {
    let trace = |seed| {
        let mut path = Path::new(seed);
        let mut states = Vec::new();
        for _ in 0..12_000 {
            path.step();
            states.push((path.bbr.state, path.bbr.cwnd.to_bits(), path.bbr.pacing_rate.to_bits()));
        }
        states
    };
    let (one, again, other) = (trace(1), trace(1), trace(2));
    assert!(one == again);
    let drawn = one.iter().position(|step| step.0.probes_bandwidth()).unwrap();
    assert!(one[..=drawn] == other[..=drawn]);
    assert!(one != other);
}

#[test]
fn only_differences_of_times_count() {
    let states = |start: Time| {
        let mut path = Path { now: start, ..Path::new(3) };
        let mut seen = Vec::new();
        for _ in 0..20_000 {
            path.step();
            seen.push((path.bbr.state, path.bbr.window()));
        }
        seen
    };
    assert!(states(Time::from_millis(1_000)) == states(Time::from_millis(86_400_000)));
}
