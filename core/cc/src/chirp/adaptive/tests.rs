use super::*;
use crate::testing::ack;
use crate::units::Time;

const RTT: Nanos = Nanos::from_millis(15);
const RTO: Nanos = Nanos::from_millis(215);

/// Has seen an RTT and handed over, with a window of `cwnd` packets.
fn over(cwnd: f64) -> (Adaptive, Window) {
    let mut start = Adaptive::new(&Env::default(), &Settings::default());
    let mut window = Window { cwnd, ssthresh: cwnd };
    start.observe(&ack(Time::from_millis(15), RTT, 1));
    start.on_congestion(Signal::Loss, &mut window);
    (start, Window { cwnd, ssthresh: cwnd })
}

fn restarts(start: &mut Adaptive, window: &mut Window, idle: Nanos) -> bool {
    start.on_restart(&Restart { now: Time::from_millis(1_000_000), idle, rto: RTO }, window)
}

fn deliver(start: &mut Adaptive, packets: usize) {
    let acked = Acked {
        seq: 0,
        bytes: 1448,
        sent_at: Time::ZERO,
        tag: 0,
        retransmitted: false,
        app_limited: false,
        ce: false,
        received_at: None,
    };
    let packets = vec![acked; packets];
    start.observe(&Ack { packets: &packets, ..ack(Time::from_millis(1_000_015), RTT, 1) });
}

#[test]
fn a_window_outlasts_a_silence_and_leaves_over_a_round_trip() {
    let (mut start, mut window) = over(100.0);
    assert!(!restarts(&mut start, &mut window, RTO - Nanos::from_nanos(1)), "less than a timeout");
    assert_eq!(start.pacing(), None);
    assert!(restarts(&mut start, &mut window, RTO));
    assert_eq!((window.cwnd, window.ssthresh), (100.0, 100.0));
    assert_eq!(start.pacing(), Some(Pacing::Gap(Nanos::from_micros(150))));
    assert!(!start.holds_against_marks(), "the policy answers marks");
    deliver(&mut start, 99);
    assert!(start.pacing().is_some());
    deliver(&mut start, 1);
    assert_eq!(start.pacing(), None);
}

#[test]
fn each_five_minutes_halve_it_down_to_an_initial_window() {
    for (seconds, cwnd, left) in
        [(299, 100.0, 100.0), (300, 100.0, 50.0), (600, 100.0, 25.0), (86_400, 100.0, 10.0), (86_400, 7.0, 7.0)]
    {
        let (mut start, mut window) = over(cwnd);
        assert!(restarts(&mut start, &mut window, Nanos::from_secs(seconds)));
        assert_eq!(window.cwnd, left, "{seconds} s");
        assert!(window.ssthresh >= 0.75 * cwnd, "{seconds} s: it may come back at once");
    }
}

#[test]
fn a_load_outlasts_a_silence_while_it_chirps() {
    for (seconds, left) in [(1, 60.0), (300, 30.0), (86_400, 10.0)] {
        let mut start = Adaptive::new(&Env::default(), &Settings::default());
        let mut window = Window { cwnd: 60.0, ssthresh: f64::INFINITY };
        start.observe(&ack(Time::from_millis(15), RTT, 1));
        start.load = 60.0;
        assert!(restarts(&mut start, &mut window, Nanos::from_secs(seconds)));
        assert_eq!((start.stage, start.load), (Stage::Chirping, left), "{seconds} s");
    }
}

#[test]
fn a_spurious_loss_gives_back_the_stage_that_it_ended() {
    let mut start = Adaptive::new(&Env::default(), &Settings::default());
    let mut window = Window { cwnd: 60.0, ssthresh: f64::INFINITY };
    start.gap = Some(Nanos::from_micros(120));
    for stage in [Stage::Chirping, Stage::Transition { gap: Nanos::from_micros(120), left: 30 }] {
        start.stage = stage;
        start.on_congestion(Signal::Loss, &mut window);
        start.on_congestion(Signal::Timeout, &mut window);
        assert_eq!(start.stage, Stage::Over);
        start.on_spurious();
        assert_eq!(start.stage, stage);
    }
}

/// Begins a flow over an idle link on which a packet takes 120 us, and answers it when it has ended its chirps, or sent this many packets. Each packet
/// is acknowledged by itself, but for those `late`, which share the next one's acknowledgement. `short` says of a packet whether it is, from
/// whether a chirp would begin with it and how many such packets came before it.
fn chirped(packets: u64, late: &[u64], short: impl Fn(bool, u32) -> bool) -> Adaptive {
    let env = Env::default();
    let mut start = Adaptive::new(&env, &Settings::default());
    let mut window = Window { cwnd: INITIAL_WINDOW, ssthresh: f64::INFINITY };
    start.observe(&ack(Time::from_millis(15), RTT, 1));
    let (mut now, mut free, mut seq) = (Time::from_millis(15), Time::ZERO, 0);
    let mut flying: VecDeque<(Time, Acked)> = VecDeque::new();
    let mut waiting = Vec::new();
    while seq < packets && start.stage == Stage::Chirping {
        let due = match start.pacing() {
            Some(Pacing::Gap(Nanos::MAX)) => Time::NEVER,
            Some(Pacing::Gap(gap)) => now + gap,
            _ => now,
        };
        let next = flying.front().map_or(Time::NEVER, |(at, _)| *at);
        if due < next {
            now = due;
            let begins = start.bursts == 0 && start.plan.is_none_or(|(shape, gone)| gone >= shape.packets());
            let bytes = if short(begins, start.probes) { 1200 } else { env.mss };
            let in_flight = (flying.len() as u64 + 1) * u64::from(env.mss);
            let sent = Sent { now, seq, bytes, in_flight, retransmission: false, app_limited: false, unsent: u64::MAX };
            let tag = start.on_sent(&sent, &mut window);
            free = free.max(now) + Nanos::from_micros(120);
            let (sent_at, received_at) = (now, None);
            let acked =
                Acked { seq, bytes, sent_at, tag, retransmitted: false, app_limited: false, ce: false, received_at };
            flying.push_back((free + RTT, acked));
            seq += 1;
        } else if let Some((at, acked)) = flying.pop_front() {
            now = at;
            waiting.push(acked);
            if late.contains(&acked.seq) {
                continue;
            }
            let taken = std::mem::take(&mut waiting);
            let in_flight = flying.len() as u64 * u64::from(env.mss);
            let news = Ack { packets: &taken, in_flight, ..ack(now, RTT, taken.len() as u32) };
            start.observe(&news);
            start.on_ack(&news, &mut window);
        } else {
            panic!("{seq} packets: it waits, and nothing is under way");
        }
    }
    start
}

/// It ended where chirps filled the link: 125 packets a round trip.
fn fills(start: &Adaptive) -> bool {
    matches!(start.stage, Stage::Transition { left, .. } if (100..=140).contains(&left))
}

#[test]
fn one_acknowledgement_that_came_late_does_not_end_the_reading() {
    for late in [&[][..], &[6], &[5, 6, 7], &[30, 31, 32, 33, 34, 35, 36]] {
        let start = chirped(5000, late, |_, _| false);
        assert!(fills(&start), "{late:?}: {:?} after {} trains", start.stage, start.next);
    }
    // Where it goes on, a lone one counts for nothing.
    let shared: Vec<u64> = (0..5000).step_by(2).collect();
    let start = chirped(5000, &shared, |_, _| false);
    assert_eq!((start.shared, start.stage == Stage::Chirping), (2, false), "{:?}", start.stage);
}

#[test]
fn a_chirp_does_not_begin_with_what_a_timeout_sends() {
    let start = chirped(5000, &[], |begins, before| begins && before < MOST_PROBES);
    assert!(fills(&start), "{:?} after {} trains", start.stage, start.next);
    // Where all packets are short it ends all the same.
    let start = chirped(5000, &[], |_, _| true);
    assert!(start.stage != Stage::Chirping && !fills(&start), "{:?}", start.stage);
}
