use super::*;
use crate::testing::ack;

const MSS: u32 = 1448;
const RTT: Nanos = Nanos::from_millis(15);

fn load(settings: Settings) -> Load {
    Load::new(&Env::default(), &settings)
}

fn window() -> Window {
    Window { cwnd: INITIAL_WINDOW, ssthresh: f64::INFINITY }
}

fn us(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// A packet leaves as the `in_flight`-th with `unsent` bytes behind it; its tag, and the gap asked after it.
fn send(start: &mut Load, now: Time, in_flight: u64, unsent: u64) -> (u64, Option<Pacing>) {
    let in_flight = in_flight * u64::from(MSS);
    let sent = Sent { now, seq: 0, bytes: MSS, in_flight, retransmission: false, app_limited: false, unsent };
    let tag = start.on_sent(&sent, &mut window());
    (tag, start.pacing())
}

fn acked(tag: u64, sent_at: Time) -> Acked {
    Acked { seq: 0, bytes: MSS, sent_at, tag, retransmitted: false, app_limited: false, ce: false, received_at: None }
}

/// Sends the next chirp and acknowledges its packets in `order` by a path of `RTT` that takes `link` for a packet; what
/// all of it did to the window.
fn chirp(start: &mut Load, begin: Time, link: Nanos, order: impl Fn(usize) -> usize) -> Window {
    let mut sent = Vec::new();
    let mut now = begin;
    while sent.is_empty() || start.departing.in_chirp() {
        let (tag, pacing) = send(start, now, sent.len() as u64 + 1, u64::MAX);
        sent.push((tag, now));
        if let Some(Pacing::Gap(gap)) = pacing
            && start.departing.in_chirp()
        {
            now += gap;
        }
    }
    let (mut window, mut free) = (window(), begin);
    for place in 0..sent.len() {
        free = free.max(sent[place].1) + link;
        let (tag, sent_at) = sent[order(place)];
        let packets = [acked(tag, sent_at)];
        let now = free + RTT - link;
        start.on_ack(&Ack { packets: &packets, min_rtt: RTT, ..ack(now, RTT, 1) }, &mut window);
    }
    window
}

#[test]
fn the_first_gaps_follow_from_a_known_rtt() {
    let mut blind = load(Settings::default());
    assert_eq!(blind.pacing(), None);
    assert_eq!(send(&mut blind, Time::ZERO, 1, u64::MAX).1, Some(Pacing::Gap(us(240))));
    let mut informed = load(Settings::default());
    informed.on_ack(&ack(Time::ZERO, Nanos::from_millis(64), 0), &mut window());
    assert_eq!((informed.gap, informed.load), (Nanos::from_millis(1), Nanos::from_millis(4)));
    informed.on_ack(&ack(Time::ZERO, Nanos::from_millis(6_400), 0), &mut window());
    assert_eq!(informed.gap, Nanos::from_millis(1), "at most 1 ms");
}

#[test]
fn a_chirp_and_its_guard_interval_make_the_load() {
    for (gap, load_gap) in [(120, 2_400), (117, 600), (120, 180), (43, 71), (120, 124)] {
        for chirp in [1, 3, 5] {
            let mut start = load(Settings::default());
            (start.gap, start.load, start.next) = (us(gap), us(load_gap), chirp);
            let plan = start.plan();
            let whole = plan.length() + start.guard(&plan);
            let packets = plan.packets() as u64;
            let want = start.load.mul_div(packets, 1);
            let off = whole.max(want) - whole.min(want);
            assert!(off <= Nanos::from_nanos(packets), "{gap}, {load_gap}: {whole}, not {want}");
        }
    }
    let mut start = load(Settings::default());
    (start.gap, start.load, start.next) = (us(120), us(100), 5);
    assert_eq!(start.guard(&start.plan()), us(120), "the load is above what the chirp itself makes");
}

#[test]
fn chirps_turn_flatter_as_the_gaps_meet() {
    let mut start = load(Settings::default());
    start.next = 5;
    let first_over_average = |start: &Load, load_gap| {
        let start = Load { load: us(load_gap), gap: us(120), ..start.clone() };
        start.plan().gap(0).as_nanos() as f64 / 120e3
    };
    assert!((first_over_average(&start, 480) - 2.0).abs() < 1e-3);
    assert!((first_over_average(&start, 180) - 1.5).abs() < 1e-3);
    // Steps of 1024 ns at least.
    assert!((first_over_average(&start, 121) - (1.0 + 15.0 * 1.024 / 120.0)).abs() < 1e-3);
    start.burst = 5.0;
    assert_eq!(start.plan().packets(), 20);
    assert!((first_over_average(&start, 480) - 0.75 * 1.5).abs() < 1e-3, "a bursty link");
    start.burst = 100.0;
    assert_eq!(start.plan().packets(), LONGEST);
}

#[test]
fn only_so_many_packets_in_flight() {
    let mut start = load(Settings::default());
    for packet in 1..=10 {
        let (sent, pacing) = send(&mut start, Time::ZERO, packet, u64::MAX);
        assert_eq!(untag(sent).unwrap().0, 1 + (packet - 1) / 5);
        assert_eq!(pacing == Some(Pacing::Gap(Nanos::MAX)), packet == 10, "packet {packet}");
    }
    start.on_ack(&Ack { in_flight: 9 * u64::from(MSS), ..ack(Time::from_millis(15), RTT, 1) }, &mut window());
    assert!(matches!(start.pacing(), Some(Pacing::Gap(gap)) if gap < RTT), "nine leave room for one more");
}

#[test]
fn estimates_move_the_average_and_the_average_moves_the_load() {
    let mut start = load(Settings::default());
    chirp(&mut start, Time::from_millis(100), us(100), |place| place);
    // Five packets about 120 µs: 240, 180, 120, 60. The first gap that queues at 100 µs is the last.
    assert_eq!(start.gap, us(90));
    assert_eq!(start.load, averaged(LOAD_BLIND, us(90), 2));
    assert_eq!(start.load_window, start.load.times_in(RTT) as f64);
}

#[test]
fn a_chirp_that_cannot_be_believed_counts_as_the_average() {
    let mut start = load(Settings::default());
    let swapped = |place: usize| match place {
        2 => 3,
        3 => 2,
        place => place,
    };
    chirp(&mut start, Time::from_millis(100), us(100), swapped);
    assert_eq!((start.gap, start.analysed), (GAP_BLIND, 1));
}

#[test]
fn bursts_of_the_link_are_counted() {
    let average = us(120);
    let mut flying = Flying::new(5, 16);
    for index in 0..16 {
        // Every fourth packet brings the three before it along.
        let arrival = Time::from_millis(100) + us(600 * (index as u64 / 4));
        let sent_at = Time::from_millis(80) + us(120 * index as u64);
        flying.on_acked(index, &acked(tag(5, index), sent_at), 0, false, arrival, average);
    }
    // 12 close behind another, 3 pauses.
    assert_eq!(flying.burst(), Some(5.0));
    let mut start = load(Settings::default());
    start.on_ack(&ack(Time::ZERO, RTT, 0), &mut window());
    (0..8).for_each(|_| start.learn(&flying, &ack(Time::ZERO, RTT, 1)));
    assert!(start.bursty(), "{}", start.burst);
}

#[test]
fn a_standing_queue_is_believed_at_once() {
    let mut start = load(Settings::default());
    start.on_ack(&ack(Time::ZERO, RTT, 0), &mut window());
    // Each packet waits 5 ms, a third of the RTT, and arrives 400 µs after the one before.
    let begin = Time::from_millis(100);
    let tags: Vec<u64> = (0..5).map(|packet| send(&mut start, begin, packet + 1, u64::MAX).0).collect();
    let before = start.gap;
    for (place, tag) in tags.into_iter().enumerate() {
        let now = begin + RTT + Nanos::from_millis(5) + us(400 * place as u64);
        let packets = [acked(tag, begin)];
        start.on_ack(&Ack { packets: &packets, min_rtt: RTT, ..ack(now, RTT, 1) }, &mut window());
    }
    assert_eq!(start.gap, averaged(before, us(400), 1));
}

#[test]
fn every_exit_has_its_window() {
    let in_flight = |packets: u64| Ack { in_flight: packets * u64::from(MSS), ..ack(Time::ZERO, RTT, 1) };
    let exit = |change: &dyn Fn(&mut Load), answer: Ack<'_>| {
        let (mut start, mut window) = (load(Settings::default()), window());
        (start.srtt, start.min_rtt) = (answer.srtt, answer.min_rtt);
        start.in_flight = answer.in_flight as f64 / f64::from(MSS);
        change(&mut start);
        start.check_exit(&mut window);
        (!start.chirping).then_some((window.cwnd, window.ssthresh))
    };
    assert_eq!(exit(&|_| (), in_flight(50)), None);
    let met = |start: &mut Load| (start.gap, start.load) = (us(120), us(120));
    assert_eq!(exit(&met, in_flight(50)), Some((50.0, 50.0)));
    assert_eq!(exit(&met, in_flight(500)), Some((125.0, 125.0)), "no more than an RTT holds");
    assert_eq!(exit(&met, in_flight(0)), Some((2.0, 2.0)));
    let slow = Ack { srtt: RTT + OVERLOAD, ..in_flight(50) };
    assert_eq!(exit(&|_| (), slow), Some((50.0, 50.0)));
    assert_eq!(exit(&|start| start.analysed = 200, in_flight(50)), Some((50.0, f64::INFINITY)));
    let fast = |start: &mut Load| (start.gap, start.load) = (us(30), us(39));
    assert_eq!(exit(&fast, in_flight(50)), Some((50.0, f64::INFINITY)));
}

#[test]
fn a_loss_ends_it_at_what_is_in_flight() {
    let mut start = load(Settings::default());
    for packet in 1..=8 {
        send(&mut start, Time::ZERO, packet, u64::MAX);
    }
    let mut window = window();
    start.on_congestion(Signal::Loss, &mut window);
    assert_eq!((window.cwnd, start.pacing()), (8.0, None));
    start.on_ack(&ack(Time::ZERO, RTT, 4), &mut window);
    assert_eq!(window.cwnd, 12.0, "slow start");
}

#[test]
fn no_chirp_without_all_its_packets() {
    let mut start = load(Settings::default());
    assert_eq!(send(&mut start, Time::ZERO, 1, 3 * u64::from(MSS)), (0, None));
    assert_eq!(send(&mut start, Time::ZERO, 1, 4 * u64::from(MSS)).0, tag(1, 0), "later there is one");
}
