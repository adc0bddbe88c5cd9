use paceline_cc::Loss;
use proptest::prelude::*;

use super::*;

fn stream(name: &str, fps: f64, size: u64) -> Stream {
    Stream {
        name: name.to_owned(),
        fps,
        size: Bytes(size),
        count: None,
        group: 0,
        first: None,
        priority: 0,
        datagram: false,
        drop_after: None,
        late_after: None,
        stats_from: Nanos::ZERO,
    }
}

fn frames(streams: &[Stream]) -> Frames {
    Frames::new(&Workload::Media(streams.to_vec())).unwrap()
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn written(frames: &Frames, at: Time) -> u64 {
    match frames.turn(at, None) {
        (AppTurn::Write(bytes), _) => bytes,
        other => panic!("{other:?}"),
    }
}

fn counts(outcome: &StreamOutcome) -> [u64; 4] {
    [outcome.made, outcome.complete, outcome.given_up, outcome.lost]
}

/// The sender declares this packet lost.
fn lose(frames: &Frames, seq: u64, bytes: u32) {
    let lost = [Lost::new(seq, bytes, Time::ZERO)];
    let loss = Loss::new(Time::ZERO, &lost);
    let controller = "reno".parse::<paceline_cc::Spec>().unwrap().build(&paceline_cc::Env::default());
    frames.observer().on_event(&Event::Lost(&loss), controller.as_ref());
}

#[test]
fn a_frame_is_as_late_as_the_last_of_its_bytes() {
    let late_after = Some(Nanos::from_millis(30));
    let frames = frames(&[Stream { late_after, count: Some(2), ..stream("video", 10.0, 3000) }]);
    // 3000 bytes each 100 ms.
    assert_eq!(frames.turn(ms(5), None), (AppTurn::Write(3000), Nanos::from_millis(100)));
    frames.sent(0, 2000);
    frames.sent(2000, 1000);
    frames.arrived(ms(20), 2000, 1000);
    frames.arrived(ms(21), 2000, 1000);
    assert_eq!(counts(&frames.outcome()[0]), [1, 0, 0, 0]);
    frames.arrived(ms(40), 0, 2000);
    assert_eq!(written(&frames, ms(105)), 3000);
    frames.sent(3000, 1448);
    frames.sent(4448, 1552);
    frames.ready(ms(110), 5000);
    frames.ready(ms(120), 6000);
    let outcome = frames.outcome().remove(0);
    assert_eq!((counts(&outcome), outcome.late), ([2, 2, 0, 0], Some(1)));
    assert_eq!((outcome.delay.min_ms(), outcome.delay.max_ms()), (Some(15.0), Some(35.0)));
    // Both have been made.
    assert_eq!(written(&frames, ms(205)), 0);
}

#[test]
fn what_matters_more_waits_for_one_packet_at_most() {
    let video = Stream { priority: 4, group: 30, first: Some(Bytes(37_500)), ..stream("video", 30.0, 3750) };
    let frames = frames(&[video, Stream { priority: 2, ..stream("voice", 50.0, 80) }]);
    assert_eq!(written(&frames, ms(0)), 37_580);
    // The voice's first frame was there as the first packet left; its second comes behind one packet.
    frames.sent(0, 1448);
    assert_eq!(written(&frames, ms(20)), 80);
    frames.sent(1448, 1448);
    frames.sent(2896, 1448);
    frames.arrived(ms(25), 1448, 80);
    let voice = |frames: &Frames| frames.outcome().remove(1);
    assert_eq!((counts(&voice(&frames)), voice(&frames).delay.max_ms()), ([2, 1, 0, 0], Some(5.0)));
    frames.arrived(ms(31), 0, 80);
    assert_eq!(voice(&frames).delay.max_ms(), Some(31.0));
}

#[test]
fn a_frame_that_is_too_late_takes_those_up_to_the_next_key_frame_with_it() {
    let drop_after = Some(Nanos::from_millis(250));
    let frames =
        frames(&[Stream { group: 10, first: Some(Bytes(10_000)), drop_after, ..stream("video", 100.0, 1000) }]);
    // A key frame and 24 more in 250 ms, of which 3500 bytes leave.
    let mut handed = written(&frames, ms(0));
    frames.sent(0, 3500);
    handed += (1..25).map(|k| written(&frames, ms(10 * k))).sum::<u64>();
    assert_eq!(handed, 3 * 10_000 + 22 * 1000);
    // Of the first group all that has not left is taken back.
    let (turn, wait) = frames.turn(ms(250), None);
    assert_eq!((turn, wait), (AppTurn::TakeBack(6500 + 9000), Nanos::ZERO));
    assert_eq!(written(&frames, ms(250)), 1000);
    assert_eq!(counts(&frames.outcome()[0]), [26, 0, 10, 0]);
    // What had left of it is of no use.
    frames.arrived(ms(260), 0, 3500);
    frames.sent(3500, 10_000);
    frames.arrived(ms(270), 3500, 10_000);
    assert_eq!(counts(&frames.outcome()[0]), [26, 1, 10, 0]);
    // The rest of the second group, the third and the fourth go at 360, 450 and 550 ms.
    let mut back = 0;
    for k in 26..=60 {
        while let (AppTurn::TakeBack(bytes), _) = frames.turn(ms(10 * k), None) {
            back += bytes;
        }
    }
    assert_eq!(back, 9 * 1000 + 2 * 19_000);
    assert_eq!(counts(&frames.outcome()[0]), [61, 1, 39, 0]);
}

#[test]
fn what_is_lost_is_handed_over_again_unless_it_is_a_datagram() {
    let voice = Stream { datagram: true, priority: 1, ..stream("voice", 50.0, 100) };
    let frames = frames(&[voice, Stream { priority: 2, ..stream("video", 10.0, 2000) }]);
    assert_eq!(written(&frames, ms(0)), 2100);
    frames.sent(0, 1000);
    frames.sent(1000, 1100);
    lose(&frames, 0, 1000);
    // The voice's 100 bytes are gone, the video's 900 are owed, once.
    assert!(frames.is_owed());
    assert_eq!((frames.take_owed(), frames.take_owed()), (900, 0));
    frames.arrived(ms(20), 1000, 1100);
    lose(&frames, 0, 1000);
    assert!(!frames.is_owed());
    frames.sent(2100, 900);
    frames.arrived(ms(50), 2100, 900);
    let outcomes = frames.outcome();
    assert_eq!((counts(&outcomes[0]), counts(&outcomes[1])), ([1, 0, 0, 1], [1, 1, 0, 0]));
    // It was not lost, but late.
    frames.arrived(ms(60), 0, 1000);
    assert_eq!(counts(&frames.outcome()[0]), [1, 1, 0, 0]);
    assert_eq!(frames.outcome()[1].delay.max_ms(), Some(50.0));
}

#[test]
fn an_encoder_follows_and_falls_silent() {
    let media = MediaRate {
        fps: 10.0,
        least: Rate::from_mbps(0.8),
        most: Rate::from_mbps(8.0),
        every: Nanos::from_secs(1),
        silent: Some([Nanos::from_secs(2), Nanos::from_secs(4)]),
        late_after: None,
        stats_from: Nanos::ZERO,
    };
    let frames = Frames::new(&Workload::MediaRate(media)).unwrap();
    let (mut at, mut seq) = (Time::ZERO, 0);
    let mut sizes = Vec::new();
    while at < ms(6_000) {
        let permitted = (at >= ms(500)).then(|| Rate::from_mbps(1.1));
        let (turn, wait) = frames.turn(at, permitted);
        if let AppTurn::Write(bytes @ 1..) = turn {
            sizes.push((at, bytes));
            // Five frames wait through the silence: 62.5 kB, in a second half a Mbit/s.
            if at < ms(1_500) || at >= ms(2_000) {
                frames.sent(seq, bytes);
                seq += bytes;
            }
        }
        at += wait;
    }
    // 0.8 Mbit/s are 10 kB a frame; from the look at 1 s on the step below 1.1 Mbit/s, of 1 Mbit/s.
    let found: Vec<u64> = sizes.iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!(found.len(), 40);
    assert!(found[..10].iter().all(|bytes| *bytes == 10_000) && found[10..20].iter().all(|bytes| *bytes == 12_500));
    assert_eq!((sizes[19].0, sizes[20].0), (ms(1_900), ms(4_000)));
    // What waits is of what the controller permits.
    assert_eq!((found[20], found[30]), (10_000, 10_000));
}

#[test]
fn what_an_application_pauses_comes_later() {
    let frames = frames(&[stream("voice", 50.0, 80)]);
    assert_eq!(written(&frames, ms(0)), 80);
    // Its turn at 20 ms comes at 1020 ms.
    assert_eq!(frames.turn(ms(1_020), None), (AppTurn::Write(80), Nanos::from_millis(20)));
    frames.sent(0, 160);
    frames.arrived(ms(1_025), 0, 160);
    assert_eq!(frames.outcome()[0].delay.min_ms(), Some(5.0));
}

proptest! {
    /// Whatever leaves in whichever packets, is lost, late or given up: what is handed over is what leaves and what is taken back, and
    /// no frame is counted twice.
    #[test]
    fn bytes_and_frames_are_conserved(
        events in prop::collection::vec((0u8..4, 1u64..3000, 0u64..40), 1..300),
        datagram in any::<bool>(),
    ) {
        let drop_after = Some(Nanos::from_millis(120));
        let voice = Stream { datagram, priority: 1, ..stream("voice", 50.0, 80) };
        let video = Stream { drop_after, group: 5, first: Some(Bytes(9000)), ..stream("video", 30.0, 2000) };
        let frames = frames(&[voice, Stream { priority: 2, ..video }]);
        let (mut now, mut turn_at, mut unsent, mut seq) = (Time::ZERO, Time::ZERO, 0_u64, 0_u64);
        let mut packets: Vec<(u64, u64)> = Vec::new();
        for (what, bytes, later) in events {
            now += Nanos::from_millis(later);
            while turn_at <= now {
                let (turn, wait) = frames.turn(turn_at, None);
                match turn {
                    AppTurn::Write(bytes) => unsent += bytes,
                    AppTurn::TakeBack(bytes) => {
                        prop_assert!(bytes <= unsent);
                        unsent -= bytes;
                    }
                    AppTurn::Cut => prop_assert!(false),
                }
                turn_at += wait;
            }
            unsent += frames.take_owed();
            match what {
                0 | 1 if unsent > 0 => {
                    let bytes = bytes.min(unsent);
                    frames.sent(seq, bytes);
                    packets.push((seq, bytes));
                    (seq, unsent) = (seq + bytes, unsent - bytes);
                }
                2 if !packets.is_empty() => {
                    let (seq, bytes) = packets[later as usize % packets.len()];
                    frames.arrived(now, seq, bytes);
                }
                3 if !packets.is_empty() => {
                    let (seq, bytes) = packets[later as usize % packets.len()];
                    lose(&frames, seq, bytes as u32);
                }
                _ => {}
            }
            let waiting: u64 = {
                let state = frames.state();
                let parts = state.streams.iter().flat_map(|open| open.frames.values()).flat_map(|frame| &frame.unsent);
                parts.map(|part| part.end - part.start).sum::<u64>() - state.owed
            };
            prop_assert_eq!(waiting, unsent);
            for outcome in frames.outcome() {
                let [made, complete, given_up, lost] = counts(&outcome);
                prop_assert!(complete + given_up + lost <= made, "{outcome:?}");
                prop_assert_eq!(outcome.delay.count(), complete);
            }
        }
    }
}
