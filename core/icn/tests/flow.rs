//! One source: the properties of the requester's rules.

use paceline_cc::{Nanos, Time};
use paceline_icn::wire::MissingReason;
use paceline_icn::{Aggregation, FlowConfig, RequestFlow, Supply, UNIT, Units};

use crate::common::{Row, World, controller};

const MS: u64 = 1_000_000;

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Without tail probes, which have tests of their own.
fn config() -> FlowConfig {
    let mut config = FlowConfig::default();
    config.transport.tail_probe = false;
    config
}

#[test]
fn without_loss_each_unit_is_asked_for_once_and_requests_are_full() {
    for (mbps, units) in [(60.0, 5), (200.0, 17), (500.0, 44)] {
        let mut world = World::new(&config(), &format!("fixed:window=100000,rate={mbps}"), 10_001);
        world.rate = paceline_cc::Rate::from_mbps(1000.0);
        world.run(ms(60_000));
        assert!(world.is_done());
        assert_eq!(world.arrivals.len(), 10_001);
        assert_eq!(world.distinct(), 10_001);
        assert_eq!(world.flow.requests(), 10_001_u64.div_ceil(units));
        assert_eq!(world.flow.stats().retransmits, 0);
        assert_eq!(world.flow.stats().bytes_delivered, 10_001 * UNIT as u64);
    }
}

/// A flow that asked for `units` units in one request at 0, and how they arrive.
fn asked(config: &FlowConfig, units: u64) -> (RequestFlow, Row) {
    let mut flow = RequestFlow::new(config, controller("fixed:window=1000"));
    let mut row = Row { next: 0, end: units };
    let mut wanted = 0;
    while let Some(ranges) = flow.poll_request(Time::ZERO, &mut row) {
        wanted += u64::from(ranges.units());
    }
    assert_eq!(wanted, units);
    (flow, row)
}

#[test]
fn a_lost_unit_is_asked_for_again_at_the_sixth_later_arrival() {
    let (mut flow, mut row) = asked(&config(), 40);
    for unit in 1..=5 {
        flow.on_unit(ms(20), unit, UNIT as u32, false, false).expect("asked for");
        assert_eq!(flow.poll_request(ms(20), &mut row), None, "{unit}");
    }
    flow.on_unit(ms(20), 6, UNIT as u32, false, false).expect("asked for");
    let again = flow.poll_request(ms(20), &mut row).expect("the sixth");
    assert_eq!(again.as_slice(), [Units { first: 0, count: 1 }]);
    // Those that were asked for before the repair say nothing of it.
    for unit in 7..40 {
        flow.on_unit(ms(21), unit, UNIT as u32, false, false).expect("asked for");
        assert_eq!(flow.poll_request(ms(21), &mut row), None, "{unit}");
    }
    // Those asked for after it do.
    row.end = 50;
    while flow.poll_request(ms(22), &mut row).is_some() {}
    for unit in 40..45 {
        flow.on_unit(ms(42), unit, UNIT as u32, false, false).expect("asked for");
        assert_eq!(flow.poll_request(ms(42), &mut row), None, "{unit}");
    }
    flow.on_unit(ms(42), 45, UNIT as u32, false, false).expect("asked for");
    assert_eq!(flow.poll_request(ms(42), &mut row).expect("the repair is lost too").iter().next(), Some(0));
    assert_eq!((flow.stats().retransmits, flow.stats().recoveries), (2, 1));
}

#[test]
fn several_gaps_are_one_request() {
    let (mut flow, mut row) = asked(&config(), 40);
    for unit in (0..40).filter(|unit| ![3, 4, 9, 20].contains(unit)) {
        flow.on_unit(ms(20), unit, UNIT as u32, false, false).expect("asked for");
    }
    let again = flow.poll_request(ms(20), &mut row).expect("lost units");
    let gaps = [(3, 2), (9, 1), (20, 1)].map(|(first, count)| Units { first, count });
    assert_eq!(again.as_slice(), gaps);
    assert_eq!(flow.poll_request(ms(20), &mut row), None);
}

#[test]
fn a_lost_tail_comes_at_the_timeout_and_the_second_expiry_doubles_it() {
    let (mut flow, mut row) = asked(&config(), 10);
    for unit in 0..7 {
        flow.on_unit(ms(20), unit, UNIT as u32, false, false).expect("asked for");
    }
    let first = flow.next_timeout();
    // An RTT of 20 ms and the least margin of 200 ms.
    assert_eq!(first, ms(20 + 220));
    flow.on_timeout(first);
    let again = flow.poll_request(first, &mut row).expect("the tail");
    assert_eq!(again.as_slice(), [Units { first: 7, count: 3 }]);
    let second = flow.next_timeout();
    assert_eq!(second - first, Nanos::from_millis(220));
    flow.on_timeout(second);
    assert!(flow.poll_request(second, &mut row).is_some());
    let third = flow.next_timeout();
    assert_eq!(third - second, Nanos::from_millis(440));
    assert_eq!(flow.stats().timeouts, 2);
}

#[test]
fn a_silent_source_is_given_up() {
    let (mut flow, mut row) = asked(&config(), 10);
    let mut expiries = 0;
    while !flow.has_given_up() {
        let now = flow.next_timeout();
        assert!(now <= ms(30_000));
        flow.on_timeout(now);
        while flow.poll_request(now, &mut row).is_some() {}
        expiries += 1;
    }
    // 1, 2, 4, 8, 16 s, and the silence of 30 s.
    assert_eq!(expiries, 6);
    assert_eq!(flow.next_timeout(), Time::NEVER);
}

#[test]
fn a_lost_tail_is_found_by_a_probe_of_its_last_unit() {
    let (mut flow, mut row) = asked(&FlowConfig::default(), 10);
    for unit in 0..7 {
        flow.on_unit(ms(20), unit, UNIT as u32, false, false).expect("asked for");
    }
    // Two RTTs after the last that came.
    assert_eq!(flow.next_timeout(), ms(60));
    flow.on_timeout(ms(60));
    let probe = flow.poll_request(ms(60), &mut row).expect("a probe");
    assert_eq!(probe.as_slice(), [Units { first: 9, count: 1 }]);
    assert_eq!(flow.poll_request(ms(60), &mut row), None);
    // The timer counts from the probe.
    assert_eq!(flow.next_timeout(), ms(280));
    assert_eq!(flow.on_unit(ms(80), 9, UNIT as u32, false, false).expect("asked for").rtt, None);
    let again = flow.poll_request(ms(80), &mut row).expect("what was asked for before it");
    assert_eq!(again.as_slice(), [Units { first: 7, count: 2 }]);
    let stats = flow.stats();
    assert_eq!((stats.probes, stats.timeouts, stats.recoveries, stats.packets_lost), (1, 0, 1, 2));
}

#[test]
fn a_probe_that_was_early_changes_nothing() {
    let (mut flow, mut row) = asked(&FlowConfig::default(), 10);
    for unit in 0..7 {
        flow.on_unit(ms(20), unit, UNIT as u32, false, false).expect("asked for");
    }
    flow.on_timeout(ms(60));
    assert!(flow.poll_request(ms(60), &mut row).is_some());
    for unit in 7..10 {
        let arrived = flow.on_unit(ms(65), unit, UNIT as u32, false, false).expect("asked for");
        assert!(!arrived.late, "{unit}");
    }
    assert!(flow.on_unit(ms(80), 9, UNIT as u32, false, false).is_none());
    assert!(flow.is_idle() && flow.in_flight() == 0);
    let stats = flow.stats();
    assert_eq!((stats.packets_lost, stats.spurious, stats.recoveries), (0, 0, 0));
    // The units that came late moved the mean.
    assert!(flow.srtt() > Some(Nanos::from_millis(30)), "{:?}", flow.srtt());
}

#[test]
fn a_probe_that_repaired_a_loss_asks_for_one_reduction() {
    for twice in [false, true] {
        let mut flow = RequestFlow::new(&FlowConfig::default(), controller("reno"));
        let mut row = Row { next: 0, end: 10 };
        while flow.poll_request(Time::ZERO, &mut row).is_some() {}
        for unit in 0..9 {
            flow.on_unit(ms(20), unit, UNIT as u32, false, false).expect("asked for");
        }
        flow.on_timeout(ms(60));
        assert!(flow.poll_request(ms(60), &mut row).is_some());
        flow.on_unit(ms(80), 9, UNIT as u32, false, false).expect("asked for");
        let before = flow.controller().window();
        assert_eq!(flow.stats().packets_lost, 0);
        if twice {
            // The unit itself was late.
            assert!(flow.on_unit(ms(81), 9, UNIT as u32, false, false).is_none());
        }
        row.end = 20;
        while flow.poll_request(ms(90), &mut row).is_some() {}
        flow.on_unit(ms(110), 10, UNIT as u32, false, false).expect("asked for");
        assert_eq!(flow.stats().packets_lost, u64::from(!twice));
        assert_eq!(flow.controller().window() < before, !twice);
    }
}

#[test]
fn there_is_one_probe_at_a_time_and_the_timer_follows_it() {
    let (mut flow, mut row) = asked(&FlowConfig::default(), 10);
    flow.on_unit(ms(20), 0, UNIT as u32, false, false).expect("asked for");
    let mut requests = Vec::new();
    while requests.len() < 4 {
        let now = flow.next_timeout();
        flow.on_timeout(now);
        while let Some(ranges) = flow.poll_request(now, &mut row) {
            requests.push((now, ranges.units()));
        }
    }
    // The probe, and a timeout after it all that is missing, twice.
    assert_eq!(requests, [(ms(60), 1), (ms(280), 9), (ms(500), 9), (ms(940), 9)]);
    assert_eq!((flow.stats().probes, flow.stats().timeouts), (1, 3));
}

#[test]
fn arrivals_out_of_order_leave_the_timer_alone() {
    let (mut flow, _) = asked(&config(), 10);
    flow.on_unit(ms(20), 0, UNIT as u32, false, false).expect("asked for");
    let deadline = flow.next_timeout();
    for unit in 2..7 {
        flow.on_unit(ms(30 + unit), unit, UNIT as u32, false, false).expect("asked for");
        assert_eq!(flow.next_timeout(), deadline);
    }
    flow.on_unit(ms(40), 1, UNIT as u32, false, false).expect("asked for");
    assert!(flow.next_timeout() > deadline);
}

#[test]
fn requests_keep_the_rate() {
    for (mbps, aggregation) in [(1.0, Aggregation::Paper), (83.0, Aggregation::Paper), (700.0, Aggregation::Fixed(64))]
    {
        let config = FlowConfig { aggregation, ..config() };
        let mut world = World::new(&config, &format!("fixed:window=1000000,rate={mbps}"), u64::MAX / UNIT as u64);
        world.rate = paceline_cc::Rate::from_mbps(10_000.0);
        world.run(ms(3000));
        let units: usize = world.requests.iter().filter(|(at, _)| *at >= ms(1000)).map(|(_, units)| units.len()).sum();
        let asked = (units * UNIT * 8) as f64 / 2e6;
        assert!((asked / mbps - 1.0).abs() < 0.01, "{asked} for {mbps}");
    }
}

#[test]
fn a_timer_that_fires_late_costs_no_rate_but_the_burst_is_bounded() {
    let mut flow = RequestFlow::new(&config(), controller("fixed:window=1000000,rate=112"));
    let mut row = Row { next: 0, end: u64::MAX / 2 };
    // 10 units a millisecond; the flow is asked every 0.7 ms.
    let mut units = 0;
    for step in 0..2000 {
        let now = Time::from_nanos(step * 7 * MS / 10);
        while let Some(ranges) = flow.poll_request(now, &mut row) {
            units += ranges.units();
        }
    }
    assert!((13_860..=14_140).contains(&units), "{units}");
    // After a silence of 50 ms it catches up by no more than a millisecond.
    let now = Time::from_millis(1450);
    let mut burst = 0;
    while let Some(ranges) = flow.poll_request(now, &mut row) {
        burst += ranges.units();
    }
    assert!(burst <= 30, "{burst}");
}

#[test]
fn first_units_of_requests_alone_give_the_controller_an_rtt() {
    let (mut flow, _) = asked(&config(), 10);
    let arrived = flow.on_unit(ms(20), 0, UNIT as u32, false, false).expect("asked for");
    assert_eq!(arrived.rtt, Some(Nanos::from_millis(20)));
    let arrived = flow.on_unit(ms(19), 1, UNIT as u32, false, false).expect("asked for");
    assert_eq!(arrived.rtt, None);
    assert_eq!(flow.min_rtt(), Nanos::from_millis(20));
}

#[test]
fn no_rtt_is_taken_of_what_was_asked_for_twice() {
    let (mut flow, mut row) = asked(&config(), 10);
    let expiry = flow.next_timeout();
    flow.on_timeout(expiry);
    while flow.poll_request(expiry, &mut row).is_some() {}
    let arrived = flow.on_unit(expiry + Nanos::from_millis(1), 0, UNIT as u32, false, false).expect("asked for");
    assert_eq!(arrived.rtt, None);
    assert_eq!(flow.srtt(), None);
}

#[test]
fn duplicates_and_strangers_are_nothing() {
    let (mut flow, _) = asked(&config(), 10);
    assert!(flow.on_unit(ms(20), 3, UNIT as u32, false, false).is_some());
    assert!(flow.on_unit(ms(20), 3, UNIT as u32, false, false).is_none());
    assert!(flow.on_unit(ms(20), 10, UNIT as u32, false, false).is_none());
    assert!(flow.on_unit(ms(20), u64::MAX, 0, true, true).is_none());
    assert_eq!(flow.on_nack(ms(20), &Units { first: 500, count: u32::MAX }, MissingReason::Busy, Nanos::MAX), 0);
    assert_eq!(flow.stats().bytes_delivered, UNIT as u64);
}

#[test]
fn the_receive_buffer_bounds_what_is_asked_for() {
    let config = FlowConfig { receive_buffer: 20 * UNIT as u64, ..config() };
    let mut flow = RequestFlow::new(&config, controller("fixed:window=1000"));
    let mut row = Row { next: 0, end: 1000 };
    let mut ask = |flow: &mut RequestFlow, now| {
        let mut units = 0;
        while let Some(ranges) = flow.poll_request(now, &mut row) {
            units += ranges.units();
        }
        units
    };
    assert_eq!(ask(&mut flow, Time::ZERO), 20);
    for unit in 1..5 {
        flow.on_unit(ms(20), unit, UNIT as u32, false, false).expect("asked for");
    }
    assert_eq!(ask(&mut flow, ms(20)), 0, "the hole is still there");
    flow.on_unit(ms(20), 0, UNIT as u32, false, false).expect("asked for");
    assert_eq!(ask(&mut flow, ms(20)), 5);
}

#[test]
fn a_busy_source_is_left_alone_and_the_units_count_as_lost() {
    let (mut flow, mut row) = asked(&config(), 10);
    let wait = Nanos::from_millis(7);
    assert_eq!(flow.on_nack(ms(20), &Units { first: 4, count: 64 }, MissingReason::Busy, wait), 6);
    assert_eq!(flow.stats().packets_lost, 6);
    assert_eq!(flow.in_flight(), 4 * UNIT as u64);
    assert_eq!(flow.poll_request(ms(26), &mut row), None);
    assert_eq!(flow.next_timeout(), ms(27));
    assert_eq!(flow.poll_request(ms(27), &mut row).map(|ranges| ranges.units()), Some(6));
}

#[test]
fn what_does_not_exist_is_waited_for_no_longer() {
    let (mut flow, mut row) = asked(&config(), 10);
    assert_eq!(flow.on_nack(ms(20), &Units { first: 6, count: 4 }, MissingReason::End, Nanos::ZERO), 4);
    assert_eq!(flow.stats().packets_lost, 0);
    for unit in 0..6 {
        flow.on_unit(ms(20), unit, UNIT as u32, false, false).expect("asked for");
    }
    assert!(flow.is_idle() && flow.poll_request(ms(20), &mut row).is_none());
    assert_eq!(flow.in_flight(), 0);
}

#[test]
fn a_token_that_is_wanted_says_nothing_of_congestion() {
    let (mut flow, mut row) = asked(&config(), 10);
    assert_eq!(flow.on_nack(ms(20), &Units { first: 2, count: 8 }, MissingReason::NoToken, Nanos::ZERO), 8);
    assert_eq!((flow.stats().packets_lost, flow.stats().recoveries), (0, 0));
    flow.set_largest_request(2);
    assert_eq!(flow.poll_request(ms(20), &mut row).map(|ranges| ranges.units()), Some(2));
}

#[test]
fn a_new_path_starts_fresh_and_asks_again_at_once() {
    let mut world = World::new(&config(), "bbr", 20_000);
    world.run(ms(800));
    let before = world.flow.stats();
    let outstanding = world.flow.outstanding();
    assert!(outstanding > 0 && before.bytes_delivered > 0);
    world.flow.moved(world.now(), controller("bbr"));
    assert_eq!((world.flow.in_flight(), world.flow.srtt()), (0, None));
    assert_eq!(world.flow.stats().bytes_delivered, before.bytes_delivered);
    let again = world.flow.poll_request(world.now(), &mut world.supply).expect("lost units");
    assert_eq!(u64::from(again.units()), 10.min(outstanding));
    world.run(ms(30_000));
    assert!(world.is_done());
    assert_eq!((world.distinct(), world.flow.stats().timeouts), (20_000, 0));
}

#[test]
fn late_units_are_given_back_and_forgotten() {
    let (mut flow, _) = asked(&config(), 10);
    flow.on_unit(ms(20), 4, UNIT as u32, false, false).expect("asked for");
    assert!(flow.reclaim(Nanos::from_millis(100), ms(99)).is_empty());
    let late = flow.reclaim(Nanos::from_millis(100), ms(100));
    assert_eq!(late, [0, 1, 2, 3, 5, 6, 7, 8, 9]);
    assert!(flow.is_idle() && flow.in_flight() == 0 && flow.next_timeout() == Time::NEVER);
    assert!(flow.on_unit(ms(101), 0, UNIT as u32, false, false).is_none());
}

#[test]
fn a_source_that_is_gone_gives_everything_back_whatever_the_time() {
    let (mut flow, _) = asked(&config(), 10);
    // The datagram that ended it came before the last request left.
    assert_eq!(flow.abandon(Time::ZERO), (0..10).collect::<Vec<_>>());
    assert!(flow.is_idle() && flow.in_flight() == 0 && flow.next_timeout() == Time::NEVER);
}

#[test]
fn supply_without_units_is_an_application_that_does_not_read() {
    struct Dry;
    impl Supply for Dry {
        fn take(&mut self, _: u32) -> Option<paceline_icn::Ranges> {
            None
        }
    }
    let mut flow = RequestFlow::new(&config(), controller("bbr"));
    assert_eq!(flow.poll_request(ms(1), &mut Dry), None);
    assert_eq!(flow.next_timeout(), Time::NEVER);
}
