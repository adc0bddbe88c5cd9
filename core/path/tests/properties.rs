//! What holds for any path: conservation, order, and the contract of `next` and `pop`.

use std::iter;
use std::sync::Arc;

use paceline_cc::{Bytes, Codepoint, Nanos, Rate, Time};
use paceline_path::{
    Bucket, Direction, DrawSpan, DropReason, DroppedPacket, Gilbert, Jitter, LossModel, Markov, Packet, Path, Policer,
    PolicerAction, PolicerScope, QueueSpec, Rates, Reorder, Schedule, Trace, from_table,
};
use proptest::prelude::*;

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Nanos> {
    range.prop_map(Nanos::from_millis)
}

fn rates() -> impl Strategy<Value = Rate> {
    (10_000u64..50_000_000).prop_map(Rate::from_bytes_per_sec)
}

fn queues() -> impl Strategy<Value = QueueSpec> {
    let texts = [
        "infinite",
        "droptail:bytes=20kB",
        "droptail:packets=7",
        "droptail:bdp=0.5",
        "droptail:time=12ms,packets=30",
        "drophead:bytes=20kB,packets=9",
        "codel:target=1ms,interval=10ms,limit=50packets",
        "fq_codel:target=1ms,interval=10ms,quantum=2kB,limit=20packets",
        "fq_codel:limit=9kB",
        "fq:flow_limit=9packets,ce_threshold=1ms,limit=20packets",
        "pie:target=2ms,update=2ms,burst=5ms,limit=50packets",
        "red:min=2,max=6,weight=0.2,limit=20packets",
        "step:threshold=1ms,limit=15kB",
        "step:threshold=3packets,limit=15kB",
        "dualpi2:target=1ms,tupdate=1ms,alpha=5,beta=50,limit=30kB",
        "dualpi2:target=2ms,tupdate=1ms,beta=30,step=500us,range=1ms,th_len=1,protection=0,spacing=random,limit=50packets",
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| text.parse().expect("valid"))
}

/// Where the link takes its rate from; the trace is called `t`.
fn links() -> impl Strategy<Value = Direction> {
    prop_oneof![
        rates().prop_map(|rate| Direction { rate: Some(rate), ..Direction::default() }),
        (rates(), rates(), millis(1..50)).prop_map(|(first, second, after)| Direction {
            schedule: Some(Rates::Steps(vec![(Nanos::ZERO, first), (after, Rate::ZERO), (after + after, second)])),
            schedule_lap: Some(after.mul_div(4, 1)),
            ..Direction::default()
        }),
        (rates(), rates(), millis(50..200)).prop_map(|(first, second, hold)| {
            let markov = Markov { rates: vec![first, Rate::ZERO, second], hold, next: None };
            Direction { schedule: Some(Rates::Markov { markov }), ..Direction::default() }
        }),
        Just(Direction { trace: Some("t".to_owned()), ..Direction::default() }),
        (rates(), 4_000u64..50_000, prop::option::of(1u64..9)).prop_map(|(rate, burst, times)| {
            let peak = times.map(|times| Rate::from_bytes_per_sec(rate.as_bytes_per_sec() * times));
            Direction { bucket: Some(Bucket { rate, burst: Some(Bytes(burst)), peak }), ..Direction::default() }
        }),
        (1u64..20_000, prop::option::of(millis(0..50))).prop_map(|(below, light_after)| Direction {
            trace: Some("t".to_owned()),
            light_trace: Some("light".to_owned()),
            light_below: Some(Bytes(below)),
            light_after,
            ..Direction::default()
        }),
        Just(Direction::default()),
    ]
}

fn directions() -> impl Strategy<Value = Direction> {
    let loss = prop_oneof![
        Just(None),
        (0.0..1.0).prop_map(|rate| Some(LossModel::Rate(rate))),
        (1u32..4, 0u32..9).prop_map(|(burst, every)| Some(LossModel::Burst { burst, every })),
        (0.0..1.0, 0.0..1.0).prop_map(|(enter, leave)| {
            Some(LossModel::Gilbert { gilbert: Gilbert { enter, leave, good: 0.1, bad: 0.9 } })
        }),
    ];
    let jitter = prop_oneof![
        Just(None),
        (millis(1..20), any::<bool>()).prop_map(|(max, reorder)| Some(Jitter {
            max: Some(max),
            reorder,
            ..Jitter::default()
        })),
        (millis(1..20), any::<bool>()).prop_map(|(mean, reorder)| Some(Jitter {
            mean: Some(mean),
            reorder,
            ..Jitter::default()
        })),
        millis(1..20).prop_map(|normal| Some(Jitter { normal: Some(normal), ..Jitter::default() })),
        (millis(1..90), prop::option::of(Just(DrawSpan::Packet))).prop_map(|(wifi, per)| Some(Jitter {
            wifi: Some(wifi),
            per,
            ..Jitter::default()
        })),
    ];
    let outages =
        prop_oneof![Just(vec![]), (millis(0..50), millis(1..50)).prop_map(|(from, span)| vec![(from, from + span)]),];
    let steps = (millis(0..30), millis(1..50), millis(0..30))
        .prop_map(|(first, after, second)| vec![(Nanos::ZERO, first), (after, second)]);
    let duplicate = prop::option::of(0.0..1.0);
    let reorder = prop::option::of((0.0..1.0, millis(1..20)).prop_map(|(share, delay)| Reorder { share, delay }));
    let distance = (millis(0..30), prop::option::of(steps));
    let policer = prop::option::of((rates(), 4_000u64..50_000, any::<bool>()).prop_map(|(rate, burst, apart)| {
        let per = if apart { PolicerScope::Flow } else { PolicerScope::All };
        Policer { rate, burst: Bytes(burst), per, action: PolicerAction::Drop }
    }));
    (links(), (policer, queues()), loss, jitter, outages, (duplicate, reorder), distance).prop_map(
        |(link, (policer, queue), loss, jitter, outages, (duplicate, reorder), (delay, delay_schedule))| {
            let linked = link != Direction::default();
            Direction {
                policer: policer.filter(|_| linked),
                queue: linked.then_some(queue),
                outages: if linked && link.bucket.is_none() { outages } else { Vec::new() },
                loss,
                duplicate,
                reorder,
                delay: if delay_schedule.is_none() { delay } else { Nanos::ZERO },
                delay_schedule,
                jitter,
                ..link
            }
        },
    )
}

fn traces() -> impl Strategy<Value = Trace> {
    prop::collection::vec(0u32..40, 1..60).prop_map(|mut times| {
        times.sort_unstable();
        times.push(40);
        Trace::from_millis("t", times).expect("sorted")
    })
}

/// By name: `t`, and `light`, which has every second opportunity of it.
fn loaded(trace: &Arc<Trace>) -> impl Fn(&str) -> Result<Arc<Trace>, String> + use<> {
    let times = trace.millis().iter().rev().step_by(2).rev().copied().collect();
    let (full, light) = (trace.clone(), Arc::new(Trace::from_millis("light", times).expect("sorted")));
    move |name| Ok(if name == "light" { light.clone() } else { full.clone() })
}

/// Gap before each packet in microseconds, and its size.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let gap = prop_oneof![Just(0), 0u64..2_000, 0u64..100_000];
    prop::collection::vec((gap, prop_oneof![40u32..4000, Just(1500)]), 1..200)
}

#[derive(Clone, Debug)]
struct Body {
    number: usize,
    pushed: Time,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_conserved_and_on_time(
        direction in directions(),
        trace in traces(),
        arrivals in arrivals(),
        seed: u64,
        late in millis(0..20),
    ) {
        let trace = Arc::new(trace);
        let load = loaded(&trace);
        let path: Path<Body> = direction.build(seed, Nanos::from_millis(50), &load).expect("valid");
        let mut path = path.keeping_dropped();
        let mut popped: Vec<Packet<Body>> = Vec::new();
        let mut calls = 0;
        let mut clock = Time::ZERO;
        let mut drain = |path: &mut Path<Body>, until: Time| -> Result<(), TestCaseError> {
            while path.next() <= until && path.next() != Time::NEVER {
                // A runner in real time comes late.
                let now = (path.next() + late).min(until).max(clock);
                clock = now;
                while let Some(packet) = path.pop(now) {
                    prop_assert!(packet.entered <= now);
                    popped.push(packet);
                }
                prop_assert!(path.next() > now, "pop made no progress");
                calls += 1;
                prop_assert!(calls < 1_000_000);
            }
            Ok(())
        };
        let mut now = Time::ZERO;
        for (number, (gap, size)) in arrivals.iter().enumerate() {
            now += Nanos::from_micros(*gap);
            drain(&mut path, now)?;
            let ecn = [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce][number % 4];
            path.push(now, Packet::new(number as u32 % 3, *size, ecn, Body { number, pushed: now }));
        }
        drain(&mut path, Time::from_millis(10_000_000))?;
        prop_assert_eq!(path.next(), Time::NEVER);
        let end = Time::from_millis(10_000_000);
        let (lost, copied, policed) = (path.lost(), path.copied(), path.policed().unwrap_or_default());
        let stats = path.stats(end).cloned().unwrap_or_default();
        let dropped = stats.full.packets + stats.aqm.packets;
        prop_assert_eq!(arrivals.len() as u64 + copied.packets, popped.len() as u64 + lost.packets + dropped + policed.packets);
        let fates: Vec<DroppedPacket<Body>> = iter::from_fn(|| path.pop_dropped()).collect();
        let count = |reason| fates.iter().filter(|dropped| dropped.reason == reason).count() as u64;
        let by_reason = [DropReason::Full, DropReason::Early, DropReason::Lost, DropReason::Policed].map(count);
        prop_assert_eq!(by_reason, [stats.full.packets, stats.aqm.packets, lost.packets, policed.packets]);
        prop_assert!(direction.rate.is_none() || stats.arrived.packets + policed.packets == arrivals.len() as u64);
        prop_assert!(fates.is_sorted_by_key(|dropped| dropped.at));
        prop_assert!(fates.iter().all(|dropped| dropped.packet.entered <= dropped.at));
        prop_assert_eq!(stats.queued.packets, 0);
        prop_assert_eq!(stats.arrived.bytes, stats.delivered.bytes + stats.full.bytes + stats.aqm.bytes);
        let by_flow: u64 = stats.flows.values().map(|flow| flow.dropped.packets).sum();
        prop_assert_eq!(by_flow, dropped);
        let marked: u64 = stats.flows.values().map(|flow| flow.marked.packets).sum();
        prop_assert_eq!(marked, stats.marked.packets);
        if let (Some(bucket), None) = (&direction.bucket, direction.duplicate) {
            // Departures from the link: what came behind it is known.
            let behind = |packet: &Packet<Body>| packet.entered - packet.delay.propagation;
            let mut left: Vec<(Time, u128)> = popped.iter().map(|packet| (behind(packet), packet.size.into())).collect();
            left.sort();
            for first in 0..left.len() {
                let mut bytes = 0;
                for last in &left[first..] {
                    bytes += last.1;
                    let earned = u128::from(bucket.rate.as_bytes_per_sec()) * u128::from((last.0 - left[first].0).as_nanos());
                    prop_assert!(bytes * 1_000_000_000 <= u128::from(bucket.burst().0) * 1_000_000_000 + earned);
                }
            }
        }
        for packet in &popped {
            let delay = packet.delay.propagation + packet.delay.queue + packet.delay.transmission;
            prop_assert_eq!(packet.body.pushed + delay, packet.entered);
            prop_assert!(packet.delay.propagation >= direction.delay);
            if let Some(rate) = direction.rate {
                prop_assert_eq!(packet.delay.transmission, rate.time_for(packet.size.into()));
            }
        }
        prop_assert!(popped.windows(2).all(|pair| pair[0].entered <= pair[1].entered));
        if direction.reorder.is_none() && direction.jitter.is_none_or(|jitter| !jitter.reorder) {
            // In order, but that DualPI2 has two queues, and FQ-CoDel one for each flow.
            let (low, classic): (Vec<_>, Vec<_>) = popped.iter().partition(|packet| packet.body.number % 4 >= 2);
            let dual = matches!(direction.queue, Some(QueueSpec::DualPi2 { .. }));
            let whole = if dual { Vec::new() } else { popped.iter().collect() };
            let apart = matches!(direction.queue, Some(QueueSpec::FqCoDel { .. } | QueueSpec::Fq { .. }));
            let flow = |flow| popped.iter().filter(move |packet| packet.flow == flow).collect();
            for queue in if apart { [flow(0), flow(1), flow(2)] } else { [low, classic, whole] } {
                prop_assert!(queue.windows(2).all(|pair| pair[0].body.number <= pair[1].body.number));
            }
        }
        if let Some(schedule) = direction.schedule(seed, &load).expect("valid") {
            prop_assert!(direction.bucket.is_some() || stats.delivered.bytes <= schedule.capacity(Time::ZERO, end));
        }
    }

    #[test]
    fn a_light_trace_that_is_the_trace_changes_nothing(
        trace in traces(),
        arrivals in arrivals(),
        below in 1u64..20_000,
        light_after in prop::option::of(millis(0..50)),
        outage in prop::option::of((0u64..50, 1u64..50)),
    ) {
        let trace = Arc::new(trace);
        let load = |_: &str| Ok::<_, String>(trace.clone());
        let outages = outage.map(|(from, length)| (Nanos::from_millis(from), Nanos::from_millis(from + length)));
        let name = || Some("t".to_owned());
        let plain = Direction { trace: name(), outages: outages.into_iter().collect(), ..Direction::default() };
        let light = Direction { light_trace: name(), light_below: Some(Bytes(below)), light_after, ..plain.clone() };
        let run = |direction: &Direction| {
            let mut path: Path<usize> = direction.build(1, Nanos::from_millis(50), &load).expect("valid");
            let (mut left, mut now) = (Vec::new(), Time::ZERO);
            for (number, (gap, size)) in arrivals.iter().enumerate() {
                now += Nanos::from_micros(*gap);
                while let Some(packet) = path.pop(now) {
                    left.push((packet.body, packet.entered));
                }
                path.push(now, Packet::new(0, *size, Codepoint::NotEct, number));
            }
            while let Some(packet) = path.pop(Time::from_millis(10_000_000)) {
                left.push((packet.body, packet.entered));
            }
            left
        };
        prop_assert_eq!(run(&plain), run(&light));
    }

    #[test]
    fn a_late_or_foreseeing_runner_sees_the_same_as_a_punctual_one(
        direction in directions(),
        trace in traces(),
        arrivals in arrivals(),
        seed: u64,
    ) {
        let trace = Arc::new(trace);
        let run = |step: Option<Nanos>, ahead: Nanos| {
            let load = loaded(&trace);
            let mut path: Path<usize> = direction.build(seed, Nanos::from_millis(50), &load).expect("valid");
            let mut left = Vec::new();
            let mut now = Time::ZERO;
            for (number, (gap, size)) in arrivals.iter().enumerate() {
                now += Nanos::from_micros(*gap);
                if step.is_none() {
                    while path.next() <= now {
                        let due = path.next();
                        left.extend(path.pop(due).map(|packet| (packet.body, packet.entered)));
                    }
                }
                path.push(now, Packet::new(0, *size, Codepoint::NotEct, number));
                while ahead > Nanos::ZERO && let Some(packet) = path.pop_ahead(now, ahead) {
                    assert!(packet.entered <= now + ahead);
                    left.push((packet.body, packet.entered));
                }
            }
            while path.next() != Time::NEVER {
                now = now.max(path.next()) + step.unwrap_or(Nanos::ZERO);
                while let Some(packet) = path.pop(now) {
                    left.push((packet.body, packet.entered));
                }
            }
            left
        };
        let punctual = run(None, Nanos::ZERO);
        prop_assert_eq!(&punctual, &run(Some(Nanos::from_millis(7)), Nanos::ZERO));
        prop_assert_eq!(&punctual, &run(None, Nanos::from_millis(3)));
    }

    #[test]
    fn capacity_is_additive(
        direction in directions(),
        trace in traces(),
        seed: u64,
        mut times in prop::array::uniform3(0u64..1_000_000_000),
    ) {
        times.sort_unstable();
        let trace = Arc::new(trace);
        let load = loaded(&trace);
        let schedule: Option<Schedule> = direction.schedule(seed, &load).expect("valid");
        if let Some(schedule) = schedule {
            let [a, b, c] = times.map(Time::from_nanos);
            prop_assert_eq!(schedule.capacity(a, b) + schedule.capacity(b, c), schedule.capacity(a, c));
        }
    }

    #[test]
    fn the_text_of_a_queue_gives_it_back(queue in queues()) {
        prop_assert_eq!(queue.to_string().parse::<QueueSpec>(), Ok(queue));
    }

    #[test]
    fn a_direction_survives_its_own_text(direction in directions()) {
        let text = toml::to_string(&direction).expect("serialises");
        prop_assert_eq!(toml::from_str::<Direction>(&text).expect("parses"), direction);
    }

    #[test]
    fn parsers_take_anything(bytes in prop::collection::vec(any::<u8>(), 0..300), text in ".{0,80}") {
        let _ = Trace::read("t", bytes.as_slice());
        let _ = from_table("t", bytes.as_slice());
        let _ = text.parse::<QueueSpec>();
        let _ = toml::from_str::<Direction>(&text);
    }

    #[test]
    fn parsers_take_almost_right_texts(
        trace in "([0-9]{1,11}|[ \r\t]|[0-9]{1,3}\r?\n){0,40}",
        queue in "(droptail|red|codel|pie|step|drophead|dualpi2):?((limit|bytes|packets|bdp|min|max|target|alpha|k)=[0-9.a-zA-Z]{0,8},?){0,4}",
    ) {
        if let Ok(trace) = Trace::read("t", trace.as_bytes()) {
            prop_assert!(trace.millis().is_sorted() && trace.lap() > Nanos::ZERO);
            let mut text = Vec::new();
            trace.write(&mut text).expect("a Vec takes it");
            prop_assert_eq!(Trace::read("t", text.as_slice()).expect("its own text"), trace);
        }
        if let Ok(queue) = queue.parse::<QueueSpec>() {
            prop_assert_eq!(queue.to_string().parse::<QueueSpec>(), Ok(queue));
        }
    }
}
