//! The driver by itself: what a datapath that keeps its own packets gets out of it.

use std::sync::{Arc, Mutex};

use paceline_cc::observe::{Event, Observed, Observer};
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::{Carrier, Cause, Controller, Env, Hop, Nanos, Spec, Telemetry, Time};
use paceline_transport::{AckProgress, ArrivalClock, Departing, Driver, SenderConfig, SentPacket};

const MSS: u32 = 1000;

/// Writes down each event in a few words.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Observer for Log {
    fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
        let line = match event {
            Event::Sent(sent, _) => format!("sent {}+{} limited {}", sent.seq, sent.bytes, sent.app_limited),
            Event::Acked(ack) => format!(
                "ack {} rtt {:?} of {} una {} limited {}",
                ack.bytes,
                ack.rtt.map(Nanos::as_millis_f64),
                ack.packets.len(),
                ack.una,
                ack.window_limited
            ),
            Event::Lost(loss) => format!("lost {} of {}", loss.bytes, loss.packets.len()),
            Event::Cause { packets, .. } => format!("cause {:?}", packets[0].cause),
            Event::Telemetry(telemetry) => {
                format!("hops {} on {:?}", telemetry.hops.len(), telemetry.packet.map(|packet| packet.seq))
            }
            Event::Restart(restart) => format!("restart after {}", restart.idle.as_millis_f64()),
            Event::AppLimited { in_flight, .. } => format!("dry at {in_flight}"),
            Event::Mss { mss, .. } => format!("mss {mss}"),
            Event::SharedRtt { min, .. } => format!("shared {}", min.as_millis_f64()),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(line);
    }
}

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn driver(spec: &str) -> (Driver, Log) {
    let log = Log::default();
    let spec: Spec = spec.parse().unwrap();
    let controller = spec.build(&Env::new(MSS));
    let observed = Observed::wrap(controller, Some(Box::new(log.clone())));
    (Driver::new(&SenderConfig::new(MSS), observed), log)
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn send(driver: &mut Driver, now: u64, number: u64, in_flight: u64) -> SentPacket {
    let mut packet = SentPacket::new(number * u64::from(MSS), MSS, at(now));
    packet.serial = number + 1;
    driver.sent(at(now), &mut packet, &Departing::new(in_flight, 0, in_flight == u64::from(MSS)));
    packet
}

#[test]
fn a_flow_is_reported_from_its_first_packet_to_a_silence() {
    let (mut driver, log) = driver("fixed:window=4");
    let mut packets: Vec<SentPacket> = (0..3).map(|n| send(&mut driver, n, n, (n + 1) * 1000)).collect();
    // The last is lost; the others come in another order than they left.
    let lost = packets.pop().unwrap();
    packets.reverse();
    let delivery = driver.delivered(at(40), &mut packets, false, &ArrivalClock::Unknown);
    driver.sample(delivery.rtt.unwrap(), 2000, 3000);
    driver.acknowledge(at(40), &delivery, &AckProgress::at(2000, 3000, 1000));
    driver.lose(at(50), &mut [lost.lost()], 1000, 0, true);
    driver.lose(at(50), &mut [], 0, 0, true);
    driver.explain(at(60), &[lost.lost().with_cause(Cause::Medium)]);
    let hops = [Hop::default()];
    let mut telemetry = Telemetry::new(at(61), Cause::Medium, Nanos::from_millis(50), &hops);
    telemetry.packet = Some(Carrier::new(1000, at(1), 0));
    driver.telemetry(&telemetry);
    driver.shared_rtt(at(62), Nanos::from_millis(30));
    driver.run_dry(at(63), 0);
    driver.run_dry(at(64), 0);
    driver.restart(at(1002));
    send(&mut driver, 1002, 3, 1000);
    assert_eq!(
        log.take(),
        [
            "sent 0+1000 limited false",
            "sent 1000+1000 limited false",
            "sent 2000+1000 limited false",
            "ack 2000 rtt Some(39.0) of 2 una 2000 limited false",
            "lost 1000 of 1",
            "cause Medium",
            "hops 1 on Some(1000)",
            "shared 30",
            "dry at 0",
            "restart after 1000",
            "sent 3000+1000 limited true",
        ]
    );
    assert_eq!(driver.bytes_delivered(), 2000);
    assert_eq!(driver.rtt().smoothed(), Some(Nanos::from_millis(39)));
}

#[test]
fn a_loss_has_the_cause_of_the_newest_report_while_that_is_fresh() {
    let (mut driver, log) = causes();
    let report = |driver: &mut Driver, now: u64, verdict: Cause| {
        let fresh_for = Nanos::from_millis(50);
        driver.telemetry(&Telemetry::new(at(now), verdict, fresh_for, &[]));
    };
    let lost = |n: u64| SentPacket::new(n * u64::from(MSS), MSS, at(n)).lost();
    driver.lose(at(9), &mut [lost(0)], 1000, 0, true);
    report(&mut driver, 10, Cause::Medium);
    driver.lose(at(20), &mut [lost(1), lost(2).with_cause(Cause::Policer)], 1000, 0, true);
    driver.timeout(at(59), &mut [lost(3)], 1000, 0, 1);
    driver.lose(at(60), &mut [lost(4)], 1000, 0, true);
    report(&mut driver, 61, Cause::Congestion);
    driver.lose(at(62), &mut [lost(5)], 1000, 0, true);
    report(&mut driver, 63, Cause::Unknown);
    driver.timeout(at(64), &mut [lost(6)], 1000, 0, 1);
    assert_eq!(
        log.take(),
        ["[Unknown]", "[Medium, Policer]", "[Medium]", "[Unknown]", "[Congestion]", "[Unknown]"],
        "unknown before the first report, 50 ms after the last, and where the last says so"
    );
}

/// A driver, and the causes of its losses.
fn causes() -> (Driver, Log) {
    struct Causes(Log);
    impl Observer for Causes {
        fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
            let packets = match event {
                Event::Lost(loss) => loss.packets,
                Event::Timeout(timeout) => timeout.packets,
                _ => return,
            };
            let causes: Vec<Cause> = packets.iter().map(|lost| lost.cause).collect();
            self.0.0.lock().unwrap().push(format!("{causes:?}"));
        }
    }
    let log = Log::default();
    let controller = "reno".parse::<Spec>().unwrap().build(&Env::new(MSS));
    let observed = Observed::wrap(controller, Some(Box::new(Causes(log.clone()))));
    (Driver::new(&SenderConfig::new(MSS), observed), log)
}

#[test]
fn another_packet_size_leaves_the_window_its_bytes() {
    for entry in CONTROLLERS {
        for mss in [300, 1000, 1400] {
            let (mut driver, log) = driver(entry.name);
            for n in 0..20 {
                let mut packet = [send(&mut driver, 10 * n, n, 1000)];
                let delivery = driver.delivered(at(10 * n + 9), &mut packet, false, &ArrivalClock::Unknown);
                driver.acknowledge(at(10 * n + 9), &delivery, &AckProgress::at((n + 1) * 1000, (n + 1) * 1000, 0));
            }
            log.take();
            let before = driver.window();
            driver.set_mss(at(300), mss);
            // One that stood at a packet stands at one of the new size.
            let expected = if before > u64::from(MSS) { before.max(u64::from(mss)) } else { u64::from(mss) };
            let window = driver.window();
            assert!(window.abs_diff(expected) <= 2, "{}, {mss} bytes: {before} became {window}", entry.name);
            assert_eq!(log.take().len(), usize::from(mss != MSS), "{}", entry.name);
            assert_eq!(driver.config().mss, mss);
        }
    }
}

#[test]
fn what_leaves_at_one_moment_is_bounded_by_the_batch_interval() {
    // 24 Mbit/s: 3000 bytes a millisecond, and a packet.
    for (interval, most) in [(1, 4_000), (4, 13_000)] {
        let (mut paced, _) = driver("fixed:window=20,rate=24");
        paced.set_batch_interval(Nanos::from_millis(interval));
        let mut left = 0;
        while paced.due() <= at(5_000) && left < 20_000 {
            left += 1000;
            send(&mut paced, 5_000, left / 1000 - 1, left);
        }
        assert!((most - 1_000..=most).contains(&left), "{left} of {most}");
    }
}

#[test]
fn packets_that_leave_together_are_paced_as_one_and_only_the_first_has_an_rtt() {
    // A packet of 1000 bytes each millisecond.
    let (mut driver, log) = driver("fixed:window=100,rate=8");
    let mut packets = Vec::new();
    for number in 0..5_u64 {
        let mut packet = SentPacket::new(number * u64::from(MSS), MSS, at(10));
        packet.serial = number + 1;
        packet.follows = number > 0;
        let load = Departing::new((number + 1) * u64::from(MSS), 0, number == 0);
        if number < 4 {
            driver.sent_ahead(at(10), &mut packet, &load);
        } else {
            driver.sent(at(10), &mut packet, &load);
        }
        packets.push(packet);
    }
    // A millisecond may be made up for, as nothing left before.
    assert_eq!(driver.due(), at(10 - 1 + 5));
    assert_eq!(log.take().iter().filter(|line| line.starts_with("sent")).count(), 5);
    let behind = driver.delivered(at(40), &mut packets[1..].to_vec(), false, &ArrivalClock::Unknown);
    assert_eq!((behind.packets, behind.rtt, driver.rtt().min()), (4, None, Nanos::MAX));
    let first = driver.delivered(at(40), &mut packets[..1].to_vec(), false, &ArrivalClock::Unknown);
    assert_eq!((first.rtt, driver.rtt().min()), (Some(Nanos::from_millis(30)), Nanos::from_millis(30)));
}
