use super::*;
use crate::testing::ack;
use crate::units::Time;

const MSS: u32 = 1448;

fn rounds(release: Release) -> Rounds {
    Rounds::new(&Env::default(), release, &Settings::default())
}

fn window() -> Window {
    Window { cwnd: INITIAL_WINDOW, ssthresh: f64::INFINITY }
}

/// Sends `count` packets as soon as pacing allows; tag and time of each, and the gap asked after it.
fn send(start: &mut Rounds, now: &mut Time, count: u64, unsent: u64) -> Vec<(u64, Time, Option<Pacing>)> {
    let mut window = window();
    (1..=count)
        .map(|packet| {
            let (seq, in_flight) = ((packet - 1) * u64::from(MSS), packet * u64::from(MSS));
            let (now_sent, retransmission, app_limited) = (*now, false, false);
            let sent = Sent { now: *now, seq, bytes: MSS, in_flight, retransmission, app_limited, unsent };
            let tag = start.on_sent(&sent, &mut window);
            assert!(window.cwnd > packet as f64 || tag == 0, "room for the next");
            if let Some(Pacing::Gap(gap)) = start.pacing()
                && gap < Nanos::MAX
            {
                *now += gap;
            }
            (tag, now_sent, start.pacing())
        })
        .collect()
}

/// The gaps asked after each.
fn gaps(sent: &[(u64, Time, Option<Pacing>)]) -> Vec<Nanos> {
    let gap = |pacing| if let Some(Pacing::Gap(gap)) = pacing { gap } else { panic!("no gap") };
    sent.iter().map(|(_, _, pacing)| gap(*pacing)).collect()
}

fn acked((tag, sent_at, _): (u64, Time, Option<Pacing>)) -> Acked {
    Acked { seq: 0, bytes: MSS, sent_at, tag, retransmitted: false, app_limited: false, ce: false, received_at: None }
}

/// An acknowledgement of one packet at `micros`, with an RTT of 15 ms.
fn answer(start: &mut Rounds, packet: (u64, Time, Option<Pacing>), micros: u64) {
    let packets = [acked(packet)];
    let now = Time::from_nanos(micros * 1_000);
    start.on_ack(&Ack { packets: &packets, ..ack(now, Nanos::from_millis(15), 1) }, &mut window());
}

#[test]
fn a_round_waits_for_the_one_before() {
    let mut start = rounds(Release::Rewrite);
    let mut now = Time::ZERO;
    let gaps = gaps(&send(&mut start, &mut now, 10, u64::MAX));
    // 200 µs, twice that at first, 80 µs less from packet to packet, one gap after the chirp; then silence.
    assert_eq!(gaps[..6], [400, 320, 240, 160, 200, 400].map(Nanos::from_micros));
    assert_eq!(gaps[9], Nanos::MAX);
}

#[test]
fn the_first_chirps_are_half_a_known_rtt_apart() {
    let handshake = ack(Time::ZERO, Nanos::from_millis(15), 0);
    for (release, within) in [(Release::Rewrite, [400, 320, 240, 160]), (Release::Paper, [0; 4])] {
        let mut start = rounds(release);
        start.on_ack(&handshake, &mut window());
        let mut now = Time::ZERO;
        let sent = send(&mut start, &mut now, 10, u64::MAX);
        assert_eq!(gaps(&sent)[..4], within.map(Nanos::from_micros), "{release:?}");
        assert_eq!(sent[5].1, Time::from_nanos(7_500_000), "{release:?}");
        assert_eq!(gaps(&sent)[9], Nanos::MAX, "{release:?}");
    }
}

#[test]
fn trains_tell_by_their_arrivals_and_a_marker_begins_the_third_round() {
    let mut start = rounds(Release::Paper);
    let mut now = Time::ZERO;
    let sent = send(&mut start, &mut now, 10, u64::MAX);
    assert_eq!(sent[5].1, Time::from_nanos(200_000), "one gap apart, when no RTT is known");
    answer(&mut start, sent[0], 15_120);
    now = Time::from_nanos(15_120_000);
    let marker = send(&mut start, &mut now, 1, u64::MAX)[0];
    assert_eq!(marker.0, MARKER);
    assert_eq!(marker.2, Some(Pacing::Gap(Nanos::MAX)), "the second round waits for the whole train");
    // One arrival is 3 ms late: it counts in the divisor alone.
    for (index, micros) in [(1, 15_240), (2, 15_360), (3, 18_360), (4, 18_480)] {
        answer(&mut start, sent[index], micros);
    }
    assert_eq!(start.gap, Some(Nanos::from_micros(90)));
    let second = send(&mut start, &mut now, 16, u64::MAX);
    assert_eq!(gaps(&second)[0], Nanos::from_micros(180));
    assert_eq!(gaps(&second)[15], Nanos::MAX, "the third round waits for the marker");
    answer(&mut start, marker, 30_240);
    assert_eq!((start.round_start, start.chirps_allowed()), (4, 2));
    let third = send(&mut start, &mut now, 16, u64::MAX);
    assert!(third.iter().all(|packet| untag(packet.0).is_some_and(|(number, _)| number == 4)));
    // The first packet of the second round changes nothing now, the first of the third begins the fourth.
    answer(&mut start, second[0], 30_600);
    assert_eq!(start.round_start, 4);
    send(&mut start, &mut now, 16, u64::MAX);
    answer(&mut start, third[0], 45_500);
    assert_eq!((start.round_start, start.chirps_allowed(), start.scheduled), (6, 4, 0));
    // What an acknowledgement grants the next ones use.
    for (index, scheduled) in [(1, 1), (2, 2), (3, 2)] {
        answer(&mut start, third[index], 45_500 + 120 * index as u64);
        assert_eq!(start.scheduled, scheduled, "packet {index}");
    }
}

#[test]
fn a_chirp_that_cannot_be_believed_leaves_the_gap() {
    for release in [Release::Paper, Release::Rewrite] {
        for order in [[1, 0, 2, 3, 4], [0, 1, 2, 4, 3]] {
            let mut start = rounds(release);
            let before = start.gap;
            let mut now = Time::ZERO;
            let sent = send(&mut start, &mut now, 10, u64::MAX);
            for (place, index) in order.into_iter().enumerate() {
                answer(&mut start, sent[index], 15_000 + 120 * place as u64);
            }
            assert_eq!((start.gap, start.round_start), (before, 2), "{release:?}");
        }
    }
}

#[test]
fn no_chirp_without_all_its_packets() {
    for release in [Release::Paper, Release::Rewrite] {
        let mut start = rounds(release);
        let few = send(&mut start, &mut Time::default(), 4, 3 * u64::from(MSS));
        assert!(few.iter().all(|(tag, _, pacing)| *tag == 0 && pacing.is_none()), "{release:?}");
        let enough = send(&mut start, &mut Time::default(), 1, 4 * u64::from(MSS));
        assert_eq!(enough[0].0, tag(0, 0), "{release:?}: later there is one");
    }
}

#[test]
fn congestion_ends_it_at_what_is_in_flight() {
    for release in [Release::Paper, Release::Rewrite] {
        let mut start = rounds(release);
        send(&mut start, &mut Time::default(), 8, u64::MAX);
        let mut window = Window { cwnd: 24.0, ssthresh: f64::INFINITY };
        start.on_congestion(Signal::Loss, &mut window);
        assert_eq!(window.cwnd, 8.0);
        start.on_ack(&ack(Time::ZERO, Nanos::from_millis(15), 4), &mut window);
        assert_eq!((start.pacing(), window.cwnd), (None, 12.0), "slow start");
    }
}
