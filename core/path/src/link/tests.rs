use super::*;
use crate::queue::{DropTail, QueueBound};
use crate::row::Path;
use crate::trace::Trace;
use paceline_cc::{Bytes, Codepoint};
use std::sync::Arc;

fn packet(size: u32, body: u32) -> Packet<u32> {
    Packet::new(0, size, Codepoint::NotEct, body)
}

fn path(schedule: Schedule, limit: QueueBound) -> Path<u32> {
    Path::new().link(Link::new(schedule, Box::new(DropTail::new(limit))))
}

/// Pops everything; (body, departure in microseconds).
fn drain(path: &mut Path<u32>) -> Vec<(u32, u64)> {
    let mut left = Vec::new();
    while path.next() != Time::NEVER {
        let now = path.next();
        while let Some(packet) = path.pop(now) {
            assert!(packet.entered <= now);
            left.push((packet.body, packet.entered.as_nanos() / 1000));
        }
    }
    left
}

#[test]
fn a_rate_link_serves_one_after_the_other() {
    // 12 Mbit/s: 1500 bytes take 1 ms.
    let mut path = path(Schedule::constant(Rate::from_mbps(12.0)), QueueBound::packets(2));
    for body in 0..4 {
        path.push(Time::from_millis(5), packet(1500, body));
    }
    // One in service, two wait, the fourth finds the queue full.
    assert_eq!(path.queued(Time::from_millis(5)).packets, 2);
    let first = path.pop(Time::from_millis(6)).expect("served");
    assert_eq!(first.delay.transmission, Nanos::from_millis(1));
    assert_eq!(first.delay.queue, Nanos::ZERO);
    let second = path.pop(Time::from_millis(7)).expect("served");
    assert_eq!(second.delay.queue, Nanos::from_millis(1));
    assert_eq!(drain(&mut path), [(2, 8_000)]);
    let stats = path.stats(Time::from_millis(10)).expect("a link").clone();
    assert_eq!((stats.arrived.packets, stats.full.packets, stats.delivered.bytes), (4, 1, 4500));
    assert_eq!(stats.flows[&0].dropped.packets, 1);
    assert_eq!(stats.busy, Nanos::from_millis(3));
    // Two wait for 1 ms, then one for 1 ms.
    assert_eq!(stats.queued_packet_ns, 3_000_000);
    assert_eq!(stats.queued_byte_ns, 1500 * 3_000_000);
    // Little: 1 + 2 + 3 ms in the link.
    assert_eq!(stats.inside_packet_ns(), 6_000_000);
}

#[test]
fn a_departure_makes_room_for_an_arrival_at_the_same_time() {
    let mut path = path(Schedule::constant(Rate::from_mbps(12.0)), QueueBound::packets(1));
    path.push(Time::ZERO, packet(1500, 0));
    path.push(Time::ZERO, packet(1500, 1));
    path.push(Time::from_millis(1), packet(1500, 2));
    assert_eq!(drain(&mut path), [(0, 1_000), (1, 2_000), (2, 3_000)]);
}

#[test]
fn a_trace_link_follows_mahimahi() {
    let trace = Trace::from_millis("t", vec![2, 2, 5, 10]).expect("valid");
    let mut path = path(Schedule::from_trace(Arc::new(trace)), QueueBound::NONE);
    // Misses the opportunities at 2 ms: the one at 5 ms carries three small packets and 600 of 1500 bytes.
    path.push(Time::from_millis(2), packet(300, 0));
    path.push(Time::from_millis(3), packet(300, 1));
    path.push(Time::from_millis(3), packet(300, 2));
    path.push(Time::from_millis(3), packet(1500, 3));
    // 600 at 5, 900 at 10 with 600 of this one, 300 at 12.
    path.push(Time::from_millis(4), packet(900, 4));
    // Shares the first opportunity at 12 ms of the second lap.
    path.push(Time::from_millis(11), packet(1000, 5));
    // 200 at 12 (first), 300 of the next.
    path.push(Time::from_millis(11), packet(500, 6));
    let left = drain(&mut path);
    let expected = [(0, 5_000), (1, 5_000), (2, 5_000), (3, 10_000), (4, 12_000), (5, 12_000), (6, 12_000)];
    assert_eq!(left, expected);
    // What the second opportunity at 12 ms had left is lost.
    path.push(Time::from_millis(12), packet(1, 7));
    assert_eq!(drain(&mut path), [(7, 15_000)]);
}

/// How many of 300 full packets at once a drop-tail queue of 80 ms takes at this time of the schedule.
fn taken(path: &mut Path<u32>, at: Time) -> u64 {
    path.advance(at);
    let before = path.queued(at).packets + u64::from(path.next() != Time::NEVER);
    (0..300).for_each(|body| path.push(at, packet(1000, body)));
    path.queued(at).packets + 1 - before
}

#[test]
fn a_limit_in_time_is_what_waits_at_the_present_rate() {
    let limit = QueueBound { time: Some(Nanos::from_millis(80)), ..QueueBound::NONE };
    let steps = |steps: &[(u64, f64)]| {
        let steps: Vec<_> = steps.iter().map(|(at, mbps)| (Time::from_millis(*at), Rate::from_mbps(*mbps))).collect();
        path(Schedule::steps(&steps, None), limit)
    };
    // 200 kB at 20 Mbit/s, and the packet that finds a little less.
    let constant = || path(Schedule::constant(Rate::from_mbps(20.0)), limit);
    assert_eq!(taken(&mut constant(), Time::ZERO), 200);
    let mut one_short = constant();
    (0..199).for_each(|body| one_short.push(Time::ZERO, packet(1000, body)));
    one_short.push(Time::ZERO, packet(999, 0));
    one_short.push(Time::ZERO, packet(1500, 1));
    assert_eq!((one_short.queued(Time::ZERO).packets, one_short.queued(Time::ZERO).bytes), (200, 198_000 + 999 + 1500));
    // The rest of the packet in service counts: after 0.2 ms half of it is through, so that half a packet is missing.
    let mut later = constant();
    (0..200).for_each(|body| later.push(Time::ZERO, packet(1000, body)));
    later.push(Time::from_nanos(200_000), packet(500, 0));
    later.push(Time::from_nanos(200_000), packet(500, 1));
    assert_eq!(later.queued(Time::from_nanos(200_000)).packets, 200);
    // 100 kB after a step down. What waited before it stays: a packet has left by then, and more than 80 ms wait.
    assert_eq!(taken(&mut steps(&[(0, 20.0), (10, 10.0)]), Time::from_millis(10)), 100);
    let mut full = steps(&[(0, 20.0), (1, 10.0)]);
    assert_eq!((taken(&mut full, Time::ZERO), taken(&mut full, Time::from_millis(2))), (200, 0));
    assert_eq!(full.queued(Time::from_millis(2)).packets, 200 - 3 - 1);
    // At 0 the rate before counts, or the one to come; what waits stays.
    let mut hole = steps(&[(0, 20.0), (10, 0.0), (2000, 20.0)]);
    assert_eq!(taken(&mut hole, Time::from_millis(20)), 200);
    assert_eq!(taken(&mut hole, Time::from_millis(1999)), 0);
    assert_eq!(hole.queued(Time::from_millis(1999)).packets, 199);
    assert_eq!(taken(&mut steps(&[(0, 0.0), (10, 20.0)]), Time::ZERO), 200);
    // In laps of 20 ms, rate 0 from 0 to 10 ms: that of the lap before.
    let lap = [(Time::ZERO, Rate::ZERO), (Time::from_millis(10), Rate::from_mbps(10.0))];
    let mut laps = path(Schedule::steps(&lap, Some(Nanos::from_millis(20))), limit);
    assert_eq!(taken(&mut laps, Time::from_millis(45)), 100);
    // Traces: the mean rate, 12 Mbit/s; all wait for an opportunity.
    let trace = Trace::from_millis("t", (1..=10).collect()).expect("valid");
    let mut traced = path(Schedule::from_trace(Arc::new(trace)), limit);
    (0..300).for_each(|body| traced.push(Time::ZERO, packet(1000, body)));
    assert_eq!(traced.queued(Time::ZERO).packets, 120);
}

#[test]
fn a_snapshot_shows_a_limit_in_time_in_bytes() {
    let limit = QueueBound { time: Some(Nanos::from_millis(80)), ..QueueBound::NONE };
    let steps = [(Time::ZERO, Rate::from_mbps(24.0)), (Time::from_millis(10), Rate::from_mbps(12.0))];
    let mut path = path(Schedule::steps(&steps, None), limit);
    let packets = |path: &mut Path<u32>, at: u64| path.snapshot(Time::from_millis(at)).and_then(|s| s.limit_packets());
    assert_eq!((packets(&mut path, 0), packets(&mut path, 10)), (Some(160), Some(80)));
    assert_eq!(path.room(1500), Some(240_000));
}

fn shaped(burst: u64, peak: Option<f64>) -> Path<u32> {
    let (rate, peak) = (Rate::from_mbps(12.0), peak.map(Rate::from_mbps));
    let bucket = Bucket { rate, burst: Some(Bytes(burst)), peak };
    Path::new().link(Link::shaped(bucket, Box::new(DropTail::new(QueueBound::NONE))))
}

#[test]
fn a_bucket_lets_a_burst_pass_and_then_its_rate() {
    // Idle for 1 s, then ten: four at once, the others a millisecond apart.
    let mut path = shaped(6000, None);
    (0..10).for_each(|body| path.push(Time::from_millis(1000), packet(1500, body)));
    let left: Vec<u64> = drain(&mut path).into_iter().map(|(_, at)| at - 1_000_000).collect();
    assert_eq!(left, [0, 0, 0, 0, 1000, 2000, 3000, 4000, 5000, 6000]);
    // At 48 Mbit/s a packet takes 0.25 ms while credit lasts, and meanwhile earns a quarter of one.
    let mut path = shaped(3000, Some(48.0));
    (0..5).for_each(|body| path.push(Time::ZERO, packet(1500, body)));
    let first = path.pop(Time::from_millis(1)).expect("served");
    assert_eq!((first.delay.transmission, first.delay.queue), (Nanos::from_micros(250), Nanos::ZERO));
    assert_eq!(drain(&mut path), [(1, 500), (2, 1250), (3, 2250), (4, 3250)]);
    // What is longer than the bucket never passes.
    let mut path = shaped(1500, None);
    path.push(Time::ZERO, packet(1501, 0));
    assert_eq!((path.next(), path.stats(Time::ZERO).expect("a link").full.packets), (Time::NEVER, 1));
}

/// Of packets that come by chance no more passes in any time than a burst and what was earned meanwhile.
#[test]
fn in_any_time_at_most_a_burst_and_the_rate_leave_a_bucket() {
    for peak in [None, Some(48.0)] {
        let mut path = shaped(6000, peak);
        let mut stream = crate::random::Stream::new(7, crate::random::Purpose::Loss);
        let (mut now, mut sizes) = (Time::ZERO, Vec::new());
        for body in 0..600 {
            now += Nanos::from_millis(1).mul_f64(2.0 * stream.exponential());
            sizes.push(40 + (stream.unit() * 1460.0) as u32);
            path.push(now, packet(sizes[body as usize], body));
        }
        let left = drain(&mut path);
        assert_eq!(left.len(), 600);
        for first in 0..left.len() {
            let mut bytes = 0;
            for (body, at) in &left[first..] {
                bytes += u64::from(sizes[*body as usize]);
                // 12 Mbit/s are 1.5 bytes a microsecond; times are rounded to one.
                let earned = 3 * (at - left[first].1 + 1) / 2 + 1;
                assert!(bytes <= 6000 + earned, "{peak:?}: {bytes} bytes from {} to {at} us", left[first].1);
            }
        }
    }
}

#[test]
fn a_bucket_of_one_packet_whose_peak_is_its_rate_is_that_rate() {
    let mut pair = [shaped(1500, Some(12.0)), path(Schedule::constant(Rate::from_mbps(12.0)), QueueBound::NONE)];
    let mut stream = crate::random::Stream::new(3, crate::random::Purpose::Loss);
    let mut now = Time::ZERO;
    for body in 0..2000 {
        now += Nanos::from_millis(1).mul_f64(stream.exponential());
        let size = 40 + (stream.unit() * 1460.0) as u32;
        pair.iter_mut().for_each(|path| path.push(now, packet(size, body)));
    }
    let [bucket, rate] = pair.map(|mut path| drain(&mut path));
    assert_eq!(bucket.len(), rate.len());
    // Within the time of a packet.
    assert!(bucket.iter().zip(&rate).all(|(one, other)| one.0 == other.0 && one.1.abs_diff(other.1) <= 1000));
}
