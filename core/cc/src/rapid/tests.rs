use super::*;
use crate::controller::{Cause, Controller, Loss, Lost, Phase, Recovery, Timeout};
use crate::registry::Spec;
use crate::testing::{fill, packets};

const MSS: u64 = 1448;
const RTT: Nanos = Nanos::from_millis(100);

/// A controller and the flight of its first loss, packet by packet.
struct Flow {
    controller: Box<dyn Controller>,
    now: Time,
    window: f64,
}

fn acked(number: u64, sent_at: Time) -> Acked {
    Acked {
        seq: number * MSS,
        bytes: MSS as u32,
        sent_at,
        tag: 0,
        retransmitted: false,
        app_limited: false,
        ce: false,
        received_at: None,
    }
}

fn ack<'a>(now: Time, rtt: Nanos, packets: &'a [Acked], phase: Phase) -> Ack<'a> {
    let bytes = packets.iter().map(|packet| u64::from(packet.bytes)).sum();
    Ack { packets, bytes, phase, min_rtt: RTT, ..crate::testing::ack(now, rtt, packets.len() as u32) }
}

/// The window in packets, with its fraction.
fn cwnd(controller: &dyn Controller) -> f64 {
    let mut cwnd = 0.0;
    controller.describe(&mut |name, value| {
        if name == "cwnd_packets" {
            cwnd = value;
        }
    });
    cwnd
}

impl Flow {
    /// Acknowledged by twos at the smallest RTT until the window has `window` packets or more.
    fn grown(spec: &str, window: u64) -> Self {
        let mut controller = spec.parse::<Spec>().unwrap().build(&Env::default());
        let mut now = Time::from_millis(1_000);
        while packets(controller.as_ref()) < window {
            let pair = [acked(0, now), acked(1, now)];
            fill(controller.as_mut(), now);
            controller.on_ack(&ack(now, RTT, &pair, Phase::Open));
            now += Nanos::from_micros(100);
        }
        let window = cwnd(controller.as_ref());
        Self { controller, now, window }
    }

    fn lose(&mut self, lost: u64, new_episode: bool) {
        let packet = Lost { seq: 0, bytes: MSS as u32, sent_at: self.now, tag: 0, cause: Cause::Unknown };
        let (packets, bytes) = (vec![packet; lost as usize], lost * MSS);
        let prior_in_flight = (self.window * MSS as f64) as u64;
        let in_flight = prior_in_flight - bytes;
        let now = self.now;
        self.controller.on_loss(&Loss { now, packets: &packets, bytes, prior_in_flight, in_flight, new_episode });
    }

    /// One packet is acknowledged, `lost` are found to be so by the same acknowledgement.
    fn acknowledge(&mut self, sent_at: Time, lost: u64) {
        self.now += Nanos::from_micros(100);
        if lost > 0 {
            self.lose(lost, false);
        }
        let lost_bytes = lost * MSS;
        let packets = [acked(0, sent_at)];
        self.controller.on_ack(&Ack { lost_bytes, ..ack(self.now, RTT, &packets, Phase::Recovery) });
    }
}

/// What is left after a flight of which a share `p` is lost, over what was delivered; and of what was delivered the share after which
/// the silence ends.
fn after_losing(spec: &str, p: f64) -> (f64, f64) {
    let mut flow = Flow::grown(&format!("{spec}:start=rapid"), 3_000);
    let (total, began) = (flow.window as u64, flow.now);
    let lost = (p * flow.window) as u64;
    flow.lose(1.min(lost), true);
    if lost == 0 {
        panic!("use a mark");
    }
    assert_eq!(flow.controller.permit().recovery, Recovery::Controller);
    let delivered = total - lost;
    let (mut left, mut in_flight, mut silence) = (lost - 1, total - 1, None);
    for number in 1..=delivered {
        let due = (lost * number / delivered).saturating_sub(lost - left);
        left -= due;
        flow.acknowledge(began, due);
        in_flight -= 1 + due;
        if in_flight as f64 <= cwnd(flow.controller.as_ref()) {
            silence = silence.or(Some(number as f64 / delivered as f64));
        }
    }
    flow.acknowledge(flow.now, 0);
    assert_eq!(flow.controller.permit().recovery, Recovery::Prr, "it is over");
    (cwnd(flow.controller.as_ref()) / delivered as f64, silence.unwrap())
}

#[test]
fn the_policys_share_of_what_the_path_holds_is_left_for_any_share_of_losses() {
    for (spec, beta) in [("reno", 0.5), ("cubic", 0.7), ("bic", 0.8)] {
        for p in [0.001, 0.1, 0.5, 0.666] {
            let (left, _) = after_losing(spec, p);
            assert!((left - beta).abs() * 3_000.0 * (1.0 - p) <= 1.01, "{spec}, {p}: {left}");
        }
        // More than drop-tail can lose after threefold growth: a third of the share of the window before.
        let (left, _) = after_losing(spec, 0.9);
        assert!((left * 0.1 - beta / 3.0).abs() < 1e-3, "{spec}: {left}");
    }
}

#[test]
fn the_silence_is_as_long_as_the_policys_at_most() {
    for (spec, beta) in [("reno", 0.5), ("cubic", 0.7)] {
        let most = |p: f64| after_losing(spec, p).1;
        assert!((most(0.666) - (1.0 - beta)).abs() < 0.01, "{spec}: {}", most(0.666));
        let least = (1.0 - K) * (1.0 - beta) / (1.0 - K * (1.0 - beta));
        assert!((most(0.001) - least).abs() < 0.01, "{spec}: {}", most(0.001));
        let between: Vec<f64> = [0.001, 0.1, 0.3, 0.5, 0.666].map(most).into();
        assert!(between.is_sorted(), "{spec}: {between:?}");
    }
    assert!(((1.0 - K) * 0.3 / (1.0 - K * 0.3) - 0.125).abs() < 1e-9);
}

#[test]
fn a_mark_alone_leaves_the_share_for_marks() {
    let mut flow = Flow::grown("reno:start=rapid,ecn=on", 3_000);
    let (before, began) = (flow.window, flow.now);
    let first = [acked(0, began)];
    flow.controller.on_ack(&Ack { echo: true, ..ack(flow.now, RTT, &first, Phase::Cwr) });
    assert!((cwnd(flow.controller.as_ref()) - before * 5.0 / 6.0).abs() < 1e-6);
    for _ in 0..before as u64 {
        flow.acknowledge(began, 0);
    }
    flow.acknowledge(flow.now, 0);
    assert!((cwnd(flow.controller.as_ref()) / before - 0.5).abs() < 1e-3);
}

/// Round trips of acknowledgements of two packets, at `rtt`, from `second` on; gives the factor of the last.
fn growth(start: &mut Rapid, window: &mut Window, second: u64, rtt: Nanos, rounds: u64) -> f64 {
    let mut factor = 0.0;
    for round in 0..rounds {
        let (before, begin) = (window.cwnd, Time::from_millis(1_000 * second) + rtt.mul_div(round, 1));
        let pairs = before as u64 / 2;
        for pair in 0..pairs {
            let now = begin + rtt.mul_div(pair, pairs);
            let both = [acked(0, now), acked(1, now)];
            start.on_ack(&ack(now, rtt, &both, Phase::Open), window);
        }
        factor = window.cwnd / before;
    }
    factor
}

fn rapid(params: &str) -> (Rapid, Window) {
    let spec: Spec = format!("reno:start=rapid{params}").parse().unwrap();
    let bound = if params.contains("max") { Bound::Max } else { Bound::Min };
    assert_eq!(spec.params().word("rapid_floor") == "max", bound == Bound::Max);
    let start = Rapid::new(&Env::default(), bound, Box::new(SlowStart::new(&Env::default())));
    (start, Window { cwnd: 20.0, ssthresh: f64::INFINITY })
}

#[test]
fn it_trebles_at_the_floor_and_doubles_above_it() {
    let (mut start, mut window) = rapid("");
    assert!((growth(&mut start, &mut window, 1, RTT, 3) - 3.0).abs() < 1e-9);
    assert!((growth(&mut start, &mut window, 2, RTT + Nanos::from_millis(5), 3) - 2.0).abs() < 1e-9);
}

#[test]
fn the_bound_is_that_of_the_draft_or_of_quicly() {
    let over = |bound: Bound, ms| bound.over(Nanos::from_millis(ms)).as_micros();
    assert_eq!([10, 100].map(|ms| over(Bound::Min, ms)), [11_000, 104_000]);
    assert_eq!([10, 100].map(|ms| over(Bound::Max, ms)), [14_000, 109_375]);
    let (mut start, mut window) = rapid(",rapid_floor=max");
    assert!((growth(&mut start, &mut window, 1, RTT + Nanos::from_millis(9), 3) - 3.0).abs() < 1e-9);
}

#[test]
fn the_floor_forgets_what_is_older_than_a_round_trip() {
    let mut floor = Floor::UNKNOWN;
    let at = |ms: u64| Time::from_millis(1_000 + ms);
    floor.sample(at(0), RTT, RTT);
    for ms in (10..70).step_by(10) {
        floor.sample(at(ms), RTT + RTT, RTT);
    }
    assert_eq!(floor.smallest(), RTT);
    for ms in (70..110).step_by(10) {
        floor.sample(at(ms), RTT + RTT, RTT);
    }
    assert_eq!(floor.smallest(), RTT + RTT);
}

#[test]
fn after_a_silence_it_doubles_until_the_floor_is_measured() {
    let (mut start, mut window) = rapid("");
    growth(&mut start, &mut window, 1, RTT, 1);
    let restart = Restart { now: Time::from_millis(5_000), idle: Nanos::from_millis(1), rto: Nanos::from_secs(1) };
    start.on_restart(&restart, &mut window);
    let unmeasured = [acked(0, Time::ZERO)];
    let before = window.cwnd;
    let again = Ack { rtt: None, ..ack(Time::from_millis(5_100), RTT, &unmeasured, Phase::Open) };
    start.on_ack(&again, &mut window);
    assert_eq!(window.cwnd - before, 1.0);
}

#[test]
fn what_the_window_does_not_limit_does_not_grow() {
    let (mut start, mut window) = rapid("");
    let both = [acked(0, Time::ZERO), acked(1, Time::ZERO)];
    start.on_ack(&Ack { window_limited: false, ..ack(Time::from_millis(1_000), RTT, &both, Phase::Open) }, &mut window);
    assert_eq!(window.cwnd, 20.0);
}

#[test]
fn a_packet_that_is_lost_again_lowers_the_window_once() {
    let mut flow = Flow::grown("reno:start=rapid", 1_000);
    let (began, before) = (flow.now, flow.window);
    flow.lose(10, true);
    let lowered = before * 5.0 / 6.0 - 10.0 * 5.0 / 6.0;
    assert!((cwnd(flow.controller.as_ref()) - lowered).abs() < 1e-6);
    // It acknowledges one and shows three more to be lost.
    flow.acknowledge(began, 3);
    let lowered = lowered - 3.0 * 5.0 / 6.0 - 1.0 / 3.0;
    assert!((cwnd(flow.controller.as_ref()) - lowered).abs() < 1e-6);
    // A repair arrives: the first recovery is over, and a repair that is lost is of no further meaning.
    flow.acknowledge(flow.now, 0);
    assert!((cwnd(flow.controller.as_ref()) - lowered).abs() < 1e-6);
    flow.acknowledge(flow.now, 5);
    assert!((cwnd(flow.controller.as_ref()) - lowered).abs() < 1e-6);
}

#[test]
fn the_first_flight_is_paced_over_a_round_trip_that_is_known() {
    let env = Env::default();
    let mut controller = "cubic:start=rapid".parse::<Spec>().unwrap().build(&env);
    let answer =
        Ack { rtt: None, bytes: 0, window_limited: false, ..ack(Time::from_millis(100), RTT, &[], Phase::Open) };
    controller.on_ack(&answer);
    assert_eq!(packets(controller.as_ref()), 20);
    let (mut now, mut last) = (Time::from_millis(100), Time::ZERO);
    for number in 0..20 {
        let Pacing::Rate(rate) = controller.pacing() else { panic!("packet {number} is not paced") };
        assert_eq!(rate, Rate::from_bytes_in(20 * MSS, RTT), "packet {number}");
        let (seq, in_flight) = (number * MSS, (number + 1) * MSS);
        let sent =
            Sent { now, seq, bytes: 1448, in_flight, retransmission: false, app_limited: false, unsent: u64::MAX };
        controller.on_sent(&sent);
        (last, now) = (now, now + rate.time_for(MSS));
    }
    assert!(last - Time::from_millis(100) < RTT);
    assert_eq!(controller.pacing(), Pacing::Free);
    // Without an RTT: ten at once.
    let mut controller = "cubic:start=rapid".parse::<Spec>().unwrap().build(&env);
    let sent =
        Sent { now, seq: 0, bytes: 1448, in_flight: MSS, retransmission: false, app_limited: false, unsent: u64::MAX };
    controller.on_sent(&sent);
    assert_eq!((packets(controller.as_ref()), controller.pacing()), (10, Pacing::Free));
}

#[test]
fn a_paced_flow_is_paced_at_its_growth() {
    let env = Env { paced: true, ..Env::default() };
    let mut start = Rapid::new(&env, Bound::Min, Box::new(SlowStart::new(&env)));
    let mut window = Window { cwnd: 20.0, ssthresh: f64::INFINITY };
    for (second, rtt, gain) in [(1, RTT, 3), (2, RTT + RTT, 2)] {
        start.first = 0;
        growth(&mut start, &mut window, second, rtt, 2);
        let bytes = (window.cwnd * MSS as f64) as u64 * gain;
        assert_eq!(start.pacing(), Some(Pacing::Rate(Rate::from_bytes_in(bytes, rtt))));
    }
}

#[test]
fn the_next_loss_is_the_policys_and_cubic_aims_at_what_the_path_holds() {
    let mut flow = Flow::grown("cubic:start=rapid", 3_000);
    let began = flow.now;
    flow.lose(1, true);
    for _ in 0..2_000 {
        flow.acknowledge(began, 0);
    }
    flow.acknowledge(flow.now, 0);
    let left = cwnd(flow.controller.as_ref());
    let mut plateau = 0.0;
    flow.controller.describe(&mut |name, value| {
        if name == "w_max_packets" {
            plateau = value;
        }
    });
    assert!((plateau - left / 0.7).abs() < 1e-6, "{plateau} and {left}");
    flow.lose(1, true);
    assert!((cwnd(flow.controller.as_ref()) - 0.7 * left).abs() < 1e-6);
    assert_eq!(flow.controller.permit().recovery, Recovery::Prr);
}

#[test]
fn a_spurious_loss_gives_window_and_growth_back() {
    let mut flow = Flow::grown("reno:start=rapid", 100);
    flow.lose(5, true);
    flow.acknowledge(Time::ZERO, 2);
    flow.controller.on_spurious(flow.now);
    assert_eq!(cwnd(flow.controller.as_ref()), flow.window);
    let both = [acked(0, flow.now), acked(1, flow.now)];
    fill(flow.controller.as_mut(), flow.now);
    flow.controller.on_ack(&ack(flow.now, RTT, &both, Phase::Open));
    assert_eq!(cwnd(flow.controller.as_ref()), flow.window + 4.0);
}

#[test]
fn a_timeout_ends_it_and_is_the_policys() {
    let mut flow = Flow::grown("reno:start=rapid", 100);
    flow.lose(5, true);
    let (now, prior_in_flight) = (flow.now, 100 * MSS);
    flow.controller.on_timeout(&Timeout { now, packets: &[], prior_in_flight, in_flight: 0, count: 1 });
    assert_eq!(packets(flow.controller.as_ref()), 1);
    assert_eq!(flow.controller.permit().recovery, Recovery::Prr);
}

#[test]
fn hystart_plus_plus_may_end_it() {
    let mut controller = "reno:start=rapid,rapid_exit=hystart++".parse::<Spec>().unwrap().build(&Env::default());
    let (mut now, mut una) = (Time::from_millis(1_000), 0);
    for round in 0..20 {
        let rtt = if round < 2 { RTT } else { RTT + Nanos::from_millis(15) };
        let window = packets(controller.as_ref()).min(100);
        for _ in 0..window {
            now += rtt.mul_div(1, window);
            una += MSS;
            let one = [acked(0, now)];
            fill(controller.as_mut(), now);
            controller.on_ack(&Ack { una, next: una + window * MSS, ..ack(now, rtt, &one, Phase::Open) });
        }
    }
    assert!(controller.permit().threshold < u64::MAX, "the RTT rose");
}
