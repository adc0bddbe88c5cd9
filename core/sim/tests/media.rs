//! Flows of frames: how long each takes, which is given up, what is sent again.

use crate::common::{Dumbbell, PeriodicLoss, bulk};
use paceline_cc::{Bytes, Nanos, Rate, Time};
use paceline_experiment::{Flow, MediaRate, Stream, StreamOutcome, Timing, Via, Workload};
use paceline_path::Schedule;

fn stream(name: &str, fps: f64, size: u64, count: u64) -> Stream {
    Stream {
        name: name.to_owned(),
        fps,
        size: Bytes(size),
        count: Some(count),
        group: 0,
        first: None,
        priority: 0,
        datagram: false,
        drop_after: None,
        late_after: None,
        stats_from: Nanos::ZERO,
    }
}

fn flow(controller: &str, via: Via, streams: &[Stream]) -> Flow {
    Flow { workload: Workload::Media(streams.to_vec()), timers: Timing::Exact, ..bulk(controller, via) }
}

fn frames(dumbbell: Dumbbell, seconds: u64) -> Vec<StreamOutcome> {
    dumbbell.run(seconds).flows.remove(0).frames
}

#[test]
fn a_frame_takes_the_path_and_its_transmission() {
    for via in [Via::udp(), Via::tcp(None)] {
        let flow = flow("fixed:window=1000", via, &[stream("video", 30.0, 3750, 100)]);
        let video = frames(Dumbbell::new(100.0, 30, vec![flow]), 4).remove(0);
        assert_eq!((video.made, video.complete, video.given_up, video.lost), (100, 100, 0, 0));
        // Three packets at 12.5 bytes a microsecond; with extremes in nanoseconds.
        let expected = 15.0 + f64::from(3750 + 3 * 52) / 12_500.0;
        let (min, max) = (video.delay.min_ms().unwrap(), video.delay.max_ms().unwrap());
        assert!((min - expected).abs() < 1e-5 && (max - expected).abs() < 1e-5, "{min} to {max}, not {expected}");
    }
}

/// One packet in fifty is lost. Datagrams are gone, everything else arrives: over UDP without what follows waiting for it, over TCP
/// with it.
#[test]
fn what_is_lost_is_sent_again_by_whom_it_has_to_be() {
    let run = |via: Via| {
        let voice = Stream { datagram: true, priority: 1, ..stream("voice", 50.0, 80, 400) };
        let video = Stream { priority: 2, ..stream("video", 30.0, 4000, 240) };
        let loss = PeriodicLoss { period: 50, passed: 0 };
        let before: Option<Box<dyn paceline_path::PathFilter>> = Some(Box::new(loss));
        let flow = flow("cubic", via, &[voice, video]);
        frames(Dumbbell { before, ..Dumbbell::new(20.0, 40, vec![flow]) }, 10)
    };
    let [udp, tcp] = [Via::udp(), Via::tcp(None)].map(run);
    let lost = udp[0].lost;
    assert!((3..=20).contains(&lost), "{lost}");
    assert_eq!((udp[0].complete, udp[1].complete, udp[1].lost), (400 - lost, 240, 0));
    assert_eq!([&tcp[0], &tcp[1]].map(|stream| (stream.complete, stream.lost)), [(400, 0), (240, 0)]);
    // A repair takes a round trip more; the voice waits for it over TCP alone.
    let late = |stream: &StreamOutcome| stream.delay.max_ms().unwrap();
    assert!(late(&udp[1]) > 60.0 && late(&tcp[1]) > 60.0, "{} {}", late(&udp[1]), late(&tcp[1]));
    assert!(late(&udp[0]) < 30.0 && late(&tcp[0]) > 50.0, "{} {}", late(&udp[0]), late(&tcp[0]));
}

#[test]
fn what_is_too_late_is_given_up_and_the_rest_keeps_up() {
    // 2.4 Mbit/s of video behind 1.5 Mbit/s.
    let drop_after = Some(Nanos::from_millis(250));
    let grouped = Stream { group: 30, first: Some(Bytes(30_000)), drop_after, ..stream("video", 30.0, 9000, 300) };
    let voice = Stream { datagram: true, priority: 0, ..stream("voice", 50.0, 80, 500) };
    let flow = flow("fixed:window=10", Via::udp(), &[voice, Stream { priority: 1, ..grouped }]);
    let streams = frames(Dumbbell::new(1.5, 40, vec![flow]), 12);
    let (voice, video) = (&streams[0], &streams[1]);
    assert_eq!((voice.complete, video.complete + video.given_up), (500, 300));
    assert!((60..240).contains(&video.given_up), "{}", video.given_up);
    // Ten packets at most are before the voice, in flight.
    assert!(voice.delay.max_ms().unwrap() < 20.0 + 11.0 * 8.1, "{:?}", voice.delay.max_ms());
    assert!(video.delay.max_ms().unwrap() < 250.0 + 20.0 + 11.0 * 8.1, "{:?}", video.delay.max_ms());
}

/// The link gives 2 Mbit/s, then 0.6: the encoder is near each, and no higher.
#[test]
fn an_encoder_follows_its_controller() {
    let media = MediaRate {
        fps: 30.0,
        least: Rate::from_mbps(0.15),
        most: Rate::from_mbps(4.0),
        every: Nanos::from_secs(1),
        silent: None,
        late_after: Some(Nanos::from_millis(400)),
        stats_from: Nanos::ZERO,
    };
    let flow = Flow { workload: Workload::MediaRate(media), ..bulk("copa", Via::udp()) };
    let steps = [(Time::ZERO, Rate::from_mbps(2.0)), (Time::from_millis(30_000), Rate::from_mbps(0.6))];
    let outcome = Dumbbell { schedule: Schedule::steps(&steps, None), ..Dumbbell::new(2.0, 100, vec![flow]) }.run(60);
    let series = outcome.series.as_ref().unwrap();
    let mean = |from: usize, to: usize| {
        let points = &series.flows[0].throughput_mbps[from * 1000..to * 1000];
        points.iter().sum::<f64>() / points.len() as f64
    };
    let (before, after) = (mean(10, 30), mean(40, 60));
    assert!((1.0..2.0).contains(&before) && (0.3..0.601).contains(&after), "{before} {after}");
    let video = &outcome.flows[0].frames[0];
    let (complete, late) = (video.complete, video.late.unwrap());
    assert!(complete > 1700 && late < 450, "{complete} {late} {:?} ms", video.delay.mean_ms());
}
