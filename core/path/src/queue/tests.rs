use paceline_cc::{Codepoint, Nanos, Rate};

use super::*;
use crate::link::Link;
use crate::row::Path;
use crate::schedule::Schedule;

const SIZE: u32 = 1000;

fn packet(at: Time, ecn: Codepoint) -> Packet<u64> {
    let mut packet = Packet::new(3, SIZE, ecn, at.as_nanos());
    packet.entered = at;
    packet
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A queue with its counters.
struct Rig {
    queue: Box<dyn Queue<u64>>,
    ledger: Ledger<u64>,
}

impl Rig {
    fn new(queue: impl Queue<u64> + 'static) -> Self {
        Self { queue: Box::new(queue), ledger: Ledger::default() }
    }

    fn push(&mut self, at: Time, ecn: Codepoint) {
        self.queue.push(at, packet(at, ecn), &mut self.ledger);
    }

    fn pop(&mut self, now: Time) -> Option<Packet<u64>> {
        self.queue.pop(now, &mut self.ledger)
    }
}

#[test]
fn drop_tail_and_drop_head_keep_the_old_and_the_new() {
    let mut tail = Rig::new(DropTail::new(QueueBound::bytes(2500)));
    let mut head = Rig::new(DropHead::new(QueueBound::packets(2)));
    for milli in 0..5 {
        tail.push(ms(milli), Codepoint::NotEct);
        head.push(ms(milli), Codepoint::NotEct);
    }
    let left = |rig: &mut Rig| -> Vec<u64> {
        std::iter::from_fn(|| rig.pop(ms(9))).map(|packet| packet.body / 1_000_000).collect()
    };
    assert_eq!((left(&mut tail), left(&mut head)), (vec![0, 1], vec![3, 4]));
    for rig in [tail, head] {
        assert_eq!(
            (rig.ledger.stats.full.packets, rig.ledger.stats.full.bytes, rig.ledger.stats.queued.packets),
            (3, 3000, 0)
        );
        assert_eq!(rig.ledger.stats.flows[&3].dropped.packets, 3);
        assert_eq!(rig.ledger.stats.flows.get(&0), None);
    }
    // Larger than the whole queue: dropped, and nothing else for longer than that.
    let mut head = Rig::new(DropHead::new(QueueBound::bytes(999)));
    head.push(ms(0), Codepoint::NotEct);
    assert_eq!((head.ledger.stats.full.packets, head.ledger.stats.queued.packets), (1, 0));
}

/// Takes a packet each millisecond out of a standing queue of 50 ms; the times of its drops or marks.
fn codel_events(ecn: Codepoint) -> Vec<u64> {
    let mut rig = Rig::new(CoDel::new(codel::TARGET, codel::INTERVAL, QueueBound::NONE));
    (0..60).for_each(|milli| rig.push(ms(milli), ecn));
    let mut events = Vec::new();
    for milli in 50..600 {
        // As many in as out, so that the queue stands at 50 ms.
        while rig.ledger.stats.queued.packets < 60 {
            rig.push(ms(milli - 50), ecn);
        }
        let before = rig.ledger.stats.aqm.packets + rig.ledger.stats.marked.packets;
        let popped = rig.pop(ms(milli)).expect("a standing queue");
        if rig.ledger.stats.aqm.packets + rig.ledger.stats.marked.packets > before {
            events.push(milli);
            assert_eq!(popped.ecn == Codepoint::Ce, ecn == Codepoint::Ect0);
        }
    }
    assert_eq!(rig.ledger.stats.aqm.packets == 0, ecn == Codepoint::Ect0);
    events
}

#[test]
fn codel_drops_by_the_control_law() {
    // Above target since 50: first drop an interval later, at 150; then after 100/sqrt(n) ms:
    // 250, 320.7, 378.4, 428.4, 473.2, 514.0, 551.8, 587.1.
    let expected = [150, 250, 321, 379, 429, 474, 514, 552, 588];
    assert_eq!(codel_events(Codepoint::NotEct), expected);
    assert_eq!(codel_events(Codepoint::Ect0), expected);
}

#[test]
fn codel_leaves_short_queues_alone() {
    let mut rig = Rig::new(CoDel::new(codel::TARGET, codel::INTERVAL, QueueBound::NONE));
    for milli in 0..1000 {
        // Every packet waits 4 ms.
        rig.push(ms(milli), Codepoint::NotEct);
        if milli >= 4 {
            rig.pop(ms(milli));
        }
    }
    // A single packet, however long it waits, is below the size of one packet.
    let mut alone = Rig::new(CoDel::new(codel::TARGET, codel::INTERVAL, QueueBound::NONE));
    for milli in (0..1000).step_by(50) {
        alone.push(ms(milli), Codepoint::NotEct);
        assert!(alone.pop(ms(milli + 49)).is_some());
    }
    assert_eq!((rig.ledger.stats.aqm.packets, alone.ledger.stats.aqm.packets), (0, 0));
}

#[test]
fn codel_resumes_at_the_rate_where_it_stopped() {
    let mut rig = Rig::new(CoDel::new(codel::TARGET, codel::INTERVAL, QueueBound::NONE));
    let mut drops = Vec::new();
    for milli in 50..1200 {
        while rig.ledger.stats.queued.packets < 60 {
            // The queue drains for a moment at 600.
            let wait = if milli == 600 { 1 } else { 50 };
            rig.push(ms(milli - wait), Codepoint::NotEct);
        }
        if milli == 600 {
            while rig.ledger.stats.queued.packets > 0 {
                rig.pop(ms(milli));
            }
            continue;
        }
        let before = rig.ledger.stats.aqm.packets;
        rig.pop(ms(milli));
        if rig.ledger.stats.aqm.packets > before {
            drops.push(milli);
        }
    }
    // Nine drops by 588, so count 9, grown by 8 since dropping began: it goes on from 8 instead of 1.
    let resumed: Vec<u64> = drops.into_iter().filter(|milli| *milli > 600).take(4).collect();
    // 601 + 100; then 100/sqrt(8) = 35.4, 100/sqrt(9) = 33.3, 100/sqrt(10) = 31.6 ms.
    assert_eq!(resumed, [701, 737, 770, 802]);
}

#[test]
fn pie_raises_its_probability_as_computed_by_hand() {
    let mut pie = Pie::new(pie::TARGET, pie::UPDATE, pie::BURST, QueueBound::NONE, 1);
    let mut ledger = Ledger::default();
    for _ in 0..100 {
        pie.push(Time::ZERO, packet(Time::ZERO, Codepoint::NotEct), &mut ledger);
    }
    // Two updates at delay 0 (probability 0), then a packet that waited 30 ms.
    let wait = |pie: &mut Pie<u64>, ledger: &mut Ledger<u64>, milli: u64| {
        pie.pop(ms(milli), ledger).expect("waiting");
        pie.probability()
    };
    assert_eq!(wait(&mut pie, &mut ledger, 30), 0.0);
    // At 45: (0.125 (0.030 - 0.015) + 1.25 (0.030 - 0)) / 2048; the packet popped then waited 45 ms.
    let first = (0.125 * 0.015 + 1.25 * 0.030) / 2048.0;
    assert!((wait(&mut pie, &mut ledger, 45) - first).abs() < 1e-12);
    // At 60: below 0.0001, so a 128th of 0.125 (0.045 - 0.015) + 1.25 (0.045 - 0.030).
    let second = first + (0.125 * 0.030 + 1.25 * 0.015) / 128.0;
    assert!((wait(&mut pie, &mut ledger, 60) - second).abs() < 1e-12);
}

#[test]
fn pie_lets_a_burst_pass() {
    let mut rig = Rig::new(Pie::new(pie::TARGET, pie::UPDATE, pie::BURST, QueueBound::NONE, 1));
    // Twice as much comes as goes: in 150 ms the delay grows to 75 ms, without a drop.
    for milli in 0..150 {
        rig.push(ms(milli), Codepoint::NotEct);
        rig.push(ms(milli), Codepoint::NotEct);
        rig.pop(ms(milli));
    }
    assert_eq!(rig.ledger.stats.aqm.packets, 0);
}

#[test]
fn red_averages_as_the_paper_says() {
    // A burst of L packets into an empty queue: mean L + 1 + ((1 - w)^(L + 1) - 1) / w (section VI of the paper).
    let mut red = Red::new(RedParams::default(), Nanos::from_millis(1), QueueBound::NONE, 1);
    let mut ledger = Ledger::default();
    for _ in 0..=50 {
        red.push(Time::ZERO, packet(Time::ZERO, Codepoint::NotEct), &mut ledger);
    }
    let expected = 51.0 + (libm::pow(0.998, 51.0) - 1.0) / 0.002;
    assert!((red.mean() - expected).abs() < 1e-9, "{} {expected}", red.mean());
    // Empty for 100 packet times: each takes off its weight.
    while red.pop(ms(10), &mut ledger).is_some() {}
    red.push(ms(110), packet(ms(110), Codepoint::NotEct), &mut ledger);
    assert!((red.mean() - expected * libm::pow(0.998, 100.0)).abs() < 1e-9);
}

#[test]
fn red_spreads_its_drops_uniformly() {
    let params = RedParams { weight: 1.0, ..RedParams::default() };
    let mut rig = Rig::new(Red::new(params, Nanos::from_millis(1), QueueBound::NONE, 1));
    let mut gaps = Vec::new();
    let mut gap = 0;
    for step in 0..100_000 {
        while rig.ledger.stats.queued.packets > 10 {
            rig.pop(ms(step));
        }
        let (aqm, full) = (rig.ledger.stats.aqm.packets, rig.ledger.stats.queued.packets == 10);
        rig.push(ms(step), Codepoint::NotEct);
        gap += 1;
        if rig.ledger.stats.aqm.packets > aqm {
            if full {
                gaps.push(gap);
            }
            gap = 0;
        }
    }
    // Mean queue 10: p = 0.1 (10 - 5) / (15 - 5) = 0.05, so by the counting of figure 2 uniform over 1 to 19.
    let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
    assert!((mean - 10.0).abs() < 0.3, "{mean}");
    assert!(gaps.iter().skip(1).all(|gap| *gap <= 19), "{:?}", gaps.iter().max());
}

#[test]
fn red_drops_everything_above_twice_the_threshold() {
    let params = RedParams { weight: 1.0, probability: 0.0, ..RedParams::default() };
    let mut rig = Rig::new(Red::new(params, Nanos::from_millis(1), QueueBound::NONE, 1));
    // probability 0 up to 15, rising to 1 at 30.
    for _ in 0..2000 {
        rig.push(ms(1), Codepoint::Ect0);
    }
    assert!(rig.ledger.stats.queued.packets == 30, "{:?}", rig.ledger.stats.queued);
    assert!(rig.ledger.stats.marked.packets > 0 && rig.ledger.stats.aqm.packets == 1970);
}

#[test]
fn step_marks_above_its_threshold() {
    let run = |threshold, ecn| {
        let mut rig = Rig::new(Step::new(threshold, QueueBound::packets(5)));
        (0..7).for_each(|milli| rig.push(ms(milli), ecn));
        let left = std::iter::from_fn(|| rig.pop(ms(10))).map(|packet| packet.ecn == Codepoint::Ce).collect();
        (left, rig.ledger.stats.full.packets)
    };
    let marks: (Vec<bool>, u64) = run(Threshold::Packets(2), Codepoint::Ect0);
    // The first three find 0, 1, 2 waiting; the fourth 3, which is above 2.
    assert_eq!(marks, (vec![false, false, false, true, true], 2));
    assert_eq!(run(Threshold::Bytes(2999), Codepoint::Ect1), marks);
    // Waited 10, 9, 8, 7, 6 ms.
    let marks = run(Threshold::Wait(Nanos::from_millis(8)), Codepoint::Ect0);
    assert_eq!(marks, (vec![true, true, false, false, false], 2));
    let none = run(Threshold::Packets(0), Codepoint::NotEct);
    assert_eq!(none, (vec![false; 5], 2));
}

#[test]
fn a_limit_needs_no_key() {
    let same = |short: &str, long: &str| assert_eq!(short.parse::<QueueSpec>(), long.parse::<QueueSpec>(), "{short}");
    same("droptail:2MB", "droptail:bytes=2MB");
    same("drophead:100packets", "drophead:packets=100");
    same("droptail:1.5bdp", "droptail:bdp=1.5");
    same("codel:50packets,target=10ms", "codel:target=10ms,limit=50packets");
    assert!("droptail:2MB".parse::<QueueSpec>().is_ok());
    // 1000 is packets to some and bytes to others.
    for queue in
        ["droptail:", "drophead:", "codel:limit=", "pie:limit=", "red:limit=", "step:threshold=", "dualpi2:limit="]
    {
        let error = format!("{queue}1000").parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.ends_with("=1000 is not clear without a unit; write 1000packets or 1000B"), "{error}");
    }
    // What is written says its unit too.
    for text in
        ["droptail:bytes=1500B", "codel:target=5ms,interval=100ms,limit=1500B", "step:threshold=1500B,limit=9kB"]
    {
        assert_eq!(text.parse::<QueueSpec>().unwrap().to_string(), text);
    }
    for wrong in ["droptail:much", "droptail:0MB", "droptail:2MB,3MB", "droptail:2MB,packets=3", "infinite:2MB"] {
        assert!(wrong.parse::<QueueSpec>().is_err(), "{wrong}");
    }
}

/// One flow that fills the queue, and one that sends a packet now and then: the latter does not wait behind the former.
#[test]
fn fq_codel_serves_flows_in_turn_and_silent_ones_first() {
    let mut rig = Rig::new(FqCoDel::new(codel::TARGET, codel::INTERVAL, 1500, QueueBound::packets(100)));
    let flow = |flow: u32, number: u64| {
        let mut packet = packet(ms(number), Codepoint::NotEct);
        packet.flow = flow;
        packet
    };
    (0..6).for_each(|number| rig.queue.push(ms(number), flow(5, number), &mut rig.ledger));
    let next = |rig: &mut Rig| rig.pop(ms(6)).map(|packet| (packet.flow, packet.body / 1_000_000));
    // A quantum of 1500 bytes is one packet of 1000 and one more, on credit.
    assert_eq!([next(&mut rig), next(&mut rig)], [Some((5, 0)), Some((5, 1))]);
    rig.queue.push(ms(6), flow(1030, 6), &mut rig.ledger);
    assert_eq!(next(&mut rig), Some((1030, 6)), "silent so far, in queue 6 of 1024");
    rig.queue.push(ms(6), flow(6, 7), &mut rig.ledger);
    let order: Vec<_> = std::iter::from_fn(|| next(&mut rig)).collect();
    assert_eq!(order, [(6, 7), (5, 2), (5, 3), (5, 4), (5, 5)]);
    assert_eq!(rig.ledger.stats.queued, crate::stats::Count::default());
}

#[test]
fn fq_codel_takes_room_from_the_longest_flow() {
    let mut rig = Rig::new(FqCoDel::new(codel::TARGET, codel::INTERVAL, 1500, QueueBound::packets(10)));
    for number in 0..14 {
        let mut packet = packet(ms(number), Codepoint::NotEct);
        packet.flow = u32::from(number >= 12);
        rig.queue.push(ms(number), packet, &mut rig.ledger);
    }
    assert_eq!((rig.ledger.stats.full.packets, rig.ledger.stats.queued.packets), (4, 10));
    assert_eq!(rig.ledger.stats.flows[&0].dropped.packets, 4);
    let kept: Vec<_> = std::iter::from_fn(|| rig.pop(ms(14))).map(|packet| packet.body / 1_000_000).collect();
    assert!((4..14).all(|number| kept.contains(&number)), "{kept:?}");
}

/// 4 Mbit/s shared by flows of 1 and 9 Mbit/s, which always has something waiting: 1 and 3.
#[test]
fn fq_gives_a_flow_what_it_asks_for_up_to_its_share() {
    let spec: QueueSpec = "fq".parse().unwrap();
    let queue = spec.build(Rate::from_mbps(4.0), Nanos::from_millis(40), 1);
    let mut path: Path<u32> = Path::new().link(Link::new(Schedule::constant(Rate::from_mbps(4.0)), queue));
    let (mut bytes, second) = ([0_u64; 2], Time::from_millis(10_000));
    let mut take = |path: &mut Path<u32>, now: Time| {
        while let Some(packet) = path.pop(now) {
            bytes[packet.flow as usize] += u64::from(packet.size);
        }
    };
    // 1000 bytes each 8 ms, and each 8/9 ms.
    for step in 0..90_000_u64 {
        let now = Time::from_nanos(step * 8_000_000 / 72);
        take(&mut path, now);
        if step % 72 == 0 {
            path.push(now, Packet::new(0, 1000, Codepoint::NotEct, 0));
        }
        if step % 8 == 0 {
            path.push(now, Packet::new(1, 1000, Codepoint::NotEct, 0));
        }
    }
    take(&mut path, second);
    let mbps = bytes.map(|bytes| bytes as f64 * 8e-6 / 10.0);
    assert!((mbps[0] - 1.0).abs() < 0.01 && (mbps[1] - 3.0).abs() < 0.01, "{mbps:?}");
    // Only its own packets are dropped of the flow that has too many.
    let stats = path.stats(second).unwrap();
    assert_eq!(stats.full.packets, stats.flows[&1].dropped.packets);
    assert!(stats.flows.len() == 1 && stats.full.packets > 1000);
}

#[test]
fn fq_serves_a_new_flow_after_the_packet_in_service_and_keeps_each_to_its_limit() {
    let spec: QueueSpec = "fq:flow_limit=20packets,ce_threshold=15ms".parse().unwrap();
    let queue = spec.build(Rate::from_mbps(12.0), Nanos::from_millis(40), 1);
    // 1500 bytes take 1 ms.
    let mut path: Path<u32> = Path::new().link(Link::new(Schedule::constant(Rate::from_mbps(12.0)), queue));
    (0..30).for_each(|body| path.push(Time::ZERO, Packet::new(0, 1500, Codepoint::Ect0, body)));
    assert_eq!(path.queued(Time::ZERO).packets, 20);
    // Its first round of ten packets is over: the other flow comes ahead of the second.
    let mut left: Vec<u32> = std::iter::from_fn(|| path.pop(Time::from_millis(12))).map(|packet| packet.body).collect();
    path.push(Time::from_millis(12), Packet::new(1, 1500, Codepoint::Ect0, 100));
    let rest: Vec<Packet<u32>> = std::iter::from_fn(|| path.pop(Time::from_millis(99))).collect();
    left.extend(rest.iter().map(|packet| packet.body));
    assert_eq!(left.iter().position(|body| *body == 100), Some(13), "{left:?}");
    let marked = rest.iter().filter(|packet| packet.ecn == Codepoint::Ce).count();
    // Number 14 leaves the queue after 15 ms, behind the new flow's; the last, number 20, after 21.
    assert_eq!(marked, 6);
}

/// 12 Mbit/s, of which no flow gets more than a third.
#[test]
fn fq_holds_a_flow_to_its_rate_and_no_other() {
    let spec: QueueSpec = "fq:maxrate=4Mbit/s".parse().unwrap();
    assert!(spec.to_string().contains(",maxrate=4Mbit/s,"), "{spec}");
    assert_eq!(spec.to_string().parse::<QueueSpec>().unwrap(), spec);
    for bad in ["0Mbit/s", "fast"] {
        let error = format!("fq:maxrate={bad}").parse::<QueueSpec>().unwrap_err().to_string();
        assert!(error.ends_with("is not a rate above 0 such as 10Mbit/s"), "{error}");
    }
    let trace = crate::trace::Trace::from_millis("t", (1..=10).collect()).unwrap();
    for schedule in [Schedule::constant(Rate::from_mbps(12.0)), Schedule::from_trace(std::sync::Arc::new(trace))] {
        let queue = spec.build(Rate::from_mbps(12.0), Nanos::from_millis(40), 1);
        let mut path: Path<u32> = Path::new().link(Link::new(schedule, queue));
        (0..20).for_each(|body| path.push(Time::ZERO, Packet::new(0, 1500, Codepoint::NotEct, body)));
        let mut left: Vec<(u32, u64)> = Vec::new();
        let mut others = 0..2;
        while path.next() != Time::NEVER {
            let now = path.next();
            // Another flow comes while the first is held: it is served at once.
            if left.len() == 1 {
                let now = now.min(ms(2));
                others.by_ref().for_each(|body| path.push(now, Packet::new(1, 1500, Codepoint::NotEct, body)));
            }
            left.extend(
                std::iter::from_fn(|| path.pop(path.next().min(now)))
                    .map(|packet| (packet.flow, packet.entered.as_nanos() / 1000)),
            );
        }
        let of = |flow: u32| left.iter().filter(|(of, _)| *of == flow).map(|(_, at)| *at).collect::<Vec<_>>();
        let (first, second) = (of(0), of(1));
        assert_eq!((first.len(), second.len()), (20, 2));
        assert!(second[0] <= 3_000 && second[1] - second[0] >= 2_000, "{second:?}");
        // 19 gaps of 3 ms, a packet's time more where the other flow was in the way.
        let took = first[19] - first[0];
        assert!((56_000..=60_000).contains(&took), "{took} {first:?}");
    }
}
