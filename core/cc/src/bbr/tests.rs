use super::modes::CYCLE;
use super::*;
use crate::controller::{Cause, Lost};

const MSS: u64 = 1448;

/// Feeds acknowledgements by hand: ten a round trip, each of a tenth of what the path carries in that time.
struct Trace {
    bbr: Bbr,
    now: Time,
    delivered: u64,
    /// Bytes per second that the samples show.
    rate: u64,
    rtt: Nanos,
    in_flight: u64,
    phase: Phase,
    app_limited: bool,
}

impl Trace {
    fn new(seed: u64) -> Self {
        let config = Config {
            long_term: true,
            aggregation: true,
            cwnd_gain: 2.0,
            probe_gain: 1.25,
            min_rtt_window: Nanos::from_secs(10),
            probe_rtt_gain: 0.0,
        };
        Self {
            bbr: Bbr::new(&Env { seed, ..Env::default() }, config),
            now: Time::from_millis(1_000),
            delivered: 0,
            rate: 10_000 * MSS,
            rtt: Nanos::from_millis(20),
            in_flight: 1_000 * MSS,
            phase: Phase::Open,
            app_limited: false,
        }
    }

    /// In ProbeBW: 10 000 packets/s, 20 ms, so that a BDP is 200 packets.
    fn probing(seed: u64) -> Self {
        let mut trace = Self::new(seed);
        trace.rounds(5);
        trace.in_flight = 100 * MSS;
        trace.rounds(10);
        assert_eq!(trace.bbr.mode, Mode::ProbeBw);
        trace
    }

    /// It sends again after a second of silence.
    fn restart(&mut self) {
        self.bbr.on_restart(&Restart { now: self.now, idle: Nanos::from_secs(1), rto: Nanos::from_millis(220) });
    }

    fn flight(&self) -> u64 {
        Rate::from_bytes_per_sec(self.rate).bytes_in(self.rtt)
    }

    fn ack(&mut self) {
        self.now += self.rtt.mul_div(1, 10);
        let bytes = self.flight() / 10;
        self.delivered += bytes;
        self.bbr.on_ack(&Ack {
            now: self.now,
            packets: &[],
            bytes,
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            rate: Some(RateSample {
                delivered: self.flight(),
                interval: self.rtt,
                prior_delivered: self.delivered.saturating_sub(self.flight()),
                app_limited: self.app_limited,
                retransmission: false,
            }),
            prior_in_flight: self.in_flight + bytes,
            in_flight: self.in_flight,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: self.delivered,
            una: self.delivered,
            next: self.delivered + self.in_flight,
            phase: self.phase,
            window_limited: true,
        });
    }

    fn rounds(&mut self, count: u32) {
        for _ in 0..10 * count {
            self.ack();
        }
    }

    fn lose(&mut self, packets: u64, new_episode: bool) {
        let lost = vec![
            Lost { seq: 0, bytes: MSS as u32, sent_at: self.now, tag: 0, cause: Cause::Unknown };
            packets as usize
        ];
        self.bbr.on_loss(&Loss {
            now: self.now,
            packets: &lost,
            bytes: MSS * packets,
            prior_in_flight: self.in_flight + MSS * packets,
            in_flight: self.in_flight,
            new_episode,
        });
    }
}

#[test]
fn constants_are_those_of_linux() {
    assert_eq!(CYCLE[0] * 256.0, 320.0);
    assert_eq!(CYCLE[1] * 256.0, 192.0);
    assert_eq!((HIGH_GAIN * 256.0, DRAIN_GAIN * 256.0), (739.0, 88.0));
}

#[test]
fn the_first_window_is_paced_as_if_the_rtt_were_a_millisecond() {
    let trace = Trace::new(1);
    let Pacing::Rate(rate) = trace.bbr.pacing() else { panic!("BBR always paces") };
    // 10 x 1448 B x 2.887 x 0.99 in 1 ms.
    assert_eq!(rate.as_bytes_per_sec(), 41_381_690);
    assert_eq!(trace.bbr.window(), 10 * MSS);
}

#[test]
fn the_first_rtt_sample_corrects_the_initial_rate() {
    let mut trace = Trace::new(1);
    trace.rate = 100 * MSS;
    trace.ack();
    assert!((trace.bbr.pacing_rate - HIGH_GAIN * 0.99 * 10.0 * MSS as f64 / 0.02).abs() < 1.0);
}

#[test]
fn startup_ends_three_rounds_after_the_last_growth_and_drain_empties_the_queue() {
    let mut trace = Trace::new(1);
    trace.in_flight = 4_000 * MSS;
    for _ in 0..5 {
        trace.rate += trace.rate / 2;
        trace.rounds(1);
        assert!(!trace.bbr.full_reached);
    }
    trace.rounds(2);
    assert_eq!(trace.bbr.mode, Mode::Startup);
    trace.rounds(2);
    assert_eq!((trace.bbr.mode, trace.bbr.pacing_gain), (Mode::Drain, DRAIN_GAIN));
    trace.rounds(3);
    assert_eq!(trace.bbr.mode, Mode::Drain, "the queue still stands");
    trace.in_flight = trace.flight();
    trace.ack();
    assert_eq!(trace.bbr.mode, Mode::ProbeBw);
}

#[test]
fn startup_never_slows_down() {
    let mut trace = Trace::new(1);
    trace.rounds(1);
    let fast = trace.bbr.pacing_rate;
    trace.rate /= 4;
    trace.rounds(1);
    assert_eq!(trace.bbr.pacing_rate, fast);
}

#[test]
fn the_cycle_starts_anywhere_but_below_one() {
    let firsts: Vec<usize> = (0..64)
        .map(|seed| {
            let mut trace = Trace::new(seed);
            trace.bbr.enter_probe_bw(trace.now);
            trace.bbr.cycle
        })
        .collect();
    for phase in 0..8 {
        assert_eq!(firsts.contains(&phase), phase != 1, "phase {phase}");
    }
}

#[test]
fn the_cycle_probes_then_drains_then_cruises() {
    let mut trace = Trace::probing(1);
    let mut seen = Vec::new();
    for _ in 0..2_000 {
        // The probe fills the path, the phase after it finds the flight above a BDP for a whole RTT.
        trace.in_flight = 300 * MSS;
        trace.ack();
        let gain = trace.bbr.pacing_gain;
        if seen.last().is_none_or(|(last, _)| *last != gain) {
            seen.push((gain, 0));
        }
        if let Some((_, count)) = seen.last_mut() {
            *count += 1;
        }
    }
    // Phases last longer than min_rtt: 11 acknowledgements of a tenth each.
    let cycle: Vec<_> = seen.iter().copied().skip_while(|(gain, _)| *gain != 1.25).take(3).collect();
    assert_eq!(cycle, [(1.25, 11), (0.75, 11), (1.0, 66)]);
}

#[test]
fn application_limited_samples_raise_but_do_not_lower_the_bandwidth() {
    let mut trace = Trace::probing(1);
    let before = trace.bbr.bw();
    trace.app_limited = true;
    trace.rate /= 10;
    trace.rounds(3_000);
    assert_eq!(trace.bbr.bw(), before);
    trace.rate *= 20;
    trace.rounds(1);
    assert_eq!(trace.bbr.bw(), 2.0 * before);
}

#[test]
fn the_bandwidth_follows_a_fall_after_ten_rounds() {
    let mut trace = Trace::probing(1);
    let before = trace.bbr.bw();
    trace.rate /= 2;
    // In packet-timed rounds: the smaller flight is what a round now is.
    trace.rounds(9);
    assert_eq!(trace.bbr.bw(), before);
    trace.rounds(4);
    assert_eq!(trace.bbr.bw(), before / 2.0);
}

#[test]
fn probe_rtt_keeps_four_packets_for_200_ms_and_gives_the_window_back() {
    let mut trace = Trace::probing(1);
    trace.rounds(1);
    // The RTT rises, so the old minimum expires 10 s after it was last seen.
    let last_seen = trace.bbr.min_rtt_time;
    trace.rtt = Nanos::from_millis(60);
    let mut saved = 0.0;
    while trace.bbr.mode != Mode::ProbeRtt {
        saved = trace.bbr.cwnd;
        trace.ack();
    }
    let entered = trace.now;
    assert!((10.0..10.1).contains(&(entered - last_seen).as_secs_f64()));
    assert_eq!((trace.bbr.min_rtt, trace.bbr.window()), (trace.rtt, 4 * MSS));

    // It counts from the moment at which no more than four packets are in flight.
    trace.rounds(2);
    assert_eq!(trace.bbr.probe_rtt_done, None);
    trace.in_flight = 4 * MSS;
    let small = trace.now;
    let bandwidth = trace.bbr.bw();
    trace.rate = 4 * MSS * 1000 / 60;
    while trace.bbr.mode == Mode::ProbeRtt {
        assert_eq!(trace.bbr.window(), 4 * MSS);
        trace.ack();
    }
    assert!((0.2..0.3).contains(&(trace.now - small).as_secs_f64()));
    assert!(trace.bbr.cwnd >= saved, "{} {saved}", trace.bbr.cwnd);
    assert_eq!(trace.bbr.bw(), bandwidth, "the starved samples do not count");
    assert_eq!(trace.bbr.mode, Mode::ProbeBw);
}

#[test]
fn probe_rtt_may_keep_half_a_bdp_in_flight() {
    let mut trace = Trace::probing(1);
    trace.bbr.config.probe_rtt_gain = 0.5;
    (trace.rtt, trace.in_flight) = (Nanos::from_millis(60), 301 * MSS);
    while trace.bbr.mode != Mode::ProbeRtt {
        trace.ack();
    }
    // 10 000 packets/s and 60 ms.
    assert_eq!(trace.bbr.window(), 300 * MSS);
    assert_eq!(trace.bbr.probe_rtt_done, None);
    trace.in_flight = 300 * MSS;
    trace.ack();
    assert!(trace.bbr.probe_rtt_done.is_some());
}

#[test]
fn the_window_aims_at_two_bdp_and_room_for_bursts() {
    let mut trace = Trace::probing(1);
    trace.rounds(3);
    // 2 x 200 packets, three bursts of 1/1024 s at the pacing rate, the excess of acknowledgements at most 20 packets.
    let excess = trace.bbr.aggregation.allowance(f64::INFINITY);
    let target = trace.bbr.budget(400.0 + excess);
    assert_eq!(trace.bbr.cwnd, target);
    assert!(excess <= 40.0, "{excess}");
    assert!((421.0..=480.0).contains(&target), "{target}");
}

#[test]
fn bursts_of_acknowledgements_are_added_to_the_window() {
    let mut aggregation = Aggregation::default();
    let delivery = |now, round_start| Delivery { now, round_start, acked: 64.0, bandwidth: 6_400.0, cwnd: 1_000.0 };
    for burst in 0..8u64 {
        aggregation.update(&delivery(Time::from_millis(1_000 + 10 * burst), burst.is_multiple_of(4)));
    }
    assert!((64.0..=66.0).contains(&aggregation.allowance(6_400.0)));
    assert_eq!(aggregation.allowance(100.0), 10.0, "at most 100 ms of data");
    // Smooth delivery for ten rounds forgets them.
    for step in 0..4_000u64 {
        let now = Time::from_nanos(1_080_000_000 + step * 1_000_000 * 10 / 64);
        aggregation.update(&Delivery { acked: 1.0, ..delivery(now, step.is_multiple_of(256)) });
    }
    assert!(aggregation.allowance(6_400.0) <= 3.0);
}

#[test]
fn recovery_conserves_packets_for_a_round_and_then_restores() {
    let mut trace = Trace::probing(1);
    let before = trace.bbr.cwnd;
    trace.in_flight = 50 * MSS;
    trace.lose(3, true);
    trace.phase = Phase::Recovery;
    trace.ack();
    assert_eq!(trace.bbr.cwnd, 50.0 + 20.0, "in flight and newly acknowledged");
    trace.phase = Phase::Open;
    trace.ack();
    assert!(trace.bbr.cwnd >= before.min(trace.bbr.budget(400.0)), "{} {before}", trace.bbr.cwnd);

    trace.lose(3, true);
    trace.phase = Phase::Recovery;
    trace.ack();
    assert!(trace.bbr.packet_conservation);
    trace.rounds(2);
    assert!(!trace.bbr.packet_conservation);
    assert!(trace.bbr.cwnd > 70.0 + 20.0, "after a round it grows by what is acknowledged");
}

#[test]
fn a_time_out_leaves_one_packet_until_the_flight_is_acknowledged() {
    let mut trace = Trace::probing(1);
    let before = trace.bbr.cwnd;
    trace.bbr.on_timeout(&Timeout { now: trace.now, packets: &[], prior_in_flight: 100 * MSS, in_flight: 0, count: 1 });
    assert_eq!(trace.bbr.window(), MSS);
    trace.phase = Phase::Loss;
    trace.ack();
    assert!(trace.bbr.cwnd >= MIN_CWND && trace.bbr.cwnd < before);
    trace.phase = Phase::Open;
    trace.ack();
    assert!(trace.bbr.cwnd >= before.min(trace.bbr.budget(400.0)));
}

#[test]
fn a_time_out_counts_what_is_still_in_flight_neither_as_lost_nor_against_the_next_packet() {
    let mut trace = Trace::probing(1);
    let lost = trace.bbr.lost;
    trace.bbr.on_timeout(&Timeout {
        now: trace.now,
        packets: &[],
        prior_in_flight: 100 * MSS,
        in_flight: 30 * MSS,
        count: 1,
    });
    assert_eq!(trace.bbr.window(), 31 * MSS);
    assert_eq!(trace.bbr.lost - lost, 70 * MSS);
}

#[test]
fn two_lossy_intervals_of_one_rate_reveal_a_policer_for_48_rounds() {
    let mut trace = Trace::probing(1);
    let lossy = |trace: &mut Trace| {
        trace.lose(60, false);
        trace.rounds(1);
    };
    let mut rounds = 0;
    while trace.bbr.long_term.bandwidth().is_none() {
        lossy(&mut trace);
        rounds += 1;
        assert!(rounds < 40);
    }
    let policed = trace.bbr.bw();
    assert!((0.95..1.05).contains(&(policed / trace.rate as f64)), "{policed}");
    for _ in 0..47 {
        lossy(&mut trace);
        assert_eq!(trace.bbr.pacing_gain, 1.0);
    }
    lossy(&mut trace);
    lossy(&mut trace);
    assert_eq!(trace.bbr.long_term.bandwidth(), None);
}

#[test]
fn light_loss_is_no_policer() {
    let mut trace = Trace::probing(1);
    for _ in 0..200 {
        trace.lose(20, false);
        trace.rounds(1);
        assert_eq!(trace.bbr.long_term.bandwidth(), None);
    }
}

#[test]
fn after_an_idle_time_it_paces_at_the_bandwidth() {
    let mut trace = Trace::probing(1);
    while trace.bbr.pacing_gain != 1.25 {
        trace.ack();
    }
    trace.restart();
    assert!(!trace.bbr.idle_restart, "nothing in flight by slow pacing is not idle time");
    trace.bbr.on_app_limited(trace.now, 0);
    trace.restart();
    assert!(trace.bbr.idle_restart);
    assert_eq!(trace.bbr.pacing_rate, 0.99 * trace.bbr.bw());
    trace.ack();
    assert!(!trace.bbr.idle_restart);
}

#[test]
fn the_flight_is_judged_at_the_next_departure() {
    let mut trace = Trace::probing(1);
    trace.bbr.pacing_gain = 1.0;
    assert_eq!(trace.bbr.in_flight_at_departure(trace.now, 50.0), 50.0);
    trace.bbr.departure = trace.now + Nanos::from_millis(1);
    // 10 000 packets/s deliver ten in that millisecond.
    assert_eq!(trace.bbr.in_flight_at_departure(trace.now, 50.0), 40.0);
    trace.bbr.pacing_gain = 1.25;
    let burst = trace.bbr.burst();
    assert_eq!(trace.bbr.in_flight_at_departure(trace.now, 50.0), 40.0 + burst);
}
