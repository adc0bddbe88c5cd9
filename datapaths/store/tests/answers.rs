//! What the program in the kernel answers, and what it leaves to the router: frame by frame (`BPF_PROG_TEST_RUN`).
#![cfg(target_os = "linux")]

mod asking;

use std::sync::atomic::Ordering::Relaxed;

use asking::{Asking, Both, PORT, STORED, name, now, part, started, token, unit};
use paceline_cc::Rate;
use paceline_fixture::frame::set_sums;
use paceline_fixture::until;
use paceline_icn::RouterConfig;
use paceline_icn::scheduler::WIRE_UNIT;
use paceline_icn::wire::{MissingReason, UnitAnswer};
use paceline_store::FrameVerdict;
use proptest::test_runner::{Config, TestRunner};

const V4: &str = "198.51.100.9:40000";
const V6: &str = "[2001:db8:7:1::9]:40000";

/// So slow that nothing fills up while a test runs: a unit in twelve minutes.
const SLOW: Rate = Rate::from_bytes_per_sec(2);

#[test]
fn a_request_is_answered_as_the_router_answers_it() {
    let Some(mut both) = Both::new("a_request_is_answered_as_the_router_answers_it") else { return };
    for from in [V4, V6] {
        for (number, wanted) in [(1, 0), (1, 63), (2, 64), (2, STORED - 1)] {
            let asking = Asking::new(from, number, wanted);
            let answer = both.answer(&asking).expect("the unit is there");
            assert_eq!(both.routed(&asking), [answer], "{from} {number} {wanted}");
        }
    }
    // What stands behind a request in a padded frame does not count.
    let asking = Asking::new(V4, 1, 5);
    let FrameVerdict::Answered(answer) = both.judge(&asking.frame()) else { panic!("the unit is there") };
    for length in [124, 1471, 1472, 1473, 1514] {
        let mut frame = asking.frame();
        frame.resize(length, 0xee);
        assert_eq!(both.judge(&frame), FrameVerdict::Answered(answer.clone()), "{length}");
    }
    let mut seventh = asking;
    seventh.request.hops = 8;
    assert_eq!(both.answer(&seventh), both.answer(&asking));
    let counts = both.kernel.counts().unwrap();
    assert_eq!((counts.answered, counts.missed, counts.bad_tokens), (16, 0, 0));
}

#[test]
fn a_token_that_proves_nothing_gets_no_answer() {
    let Some(both) = Both::new("a_token_that_proves_nothing_gets_no_answer") else { return };
    for from in [V4, V6] {
        let good = Asking::new(from, 1, 3);
        assert!(both.answer(&good).is_some());
        let before = both.kernel.counts().unwrap();
        let mut bad = Vec::new();
        for at in 0..24 {
            let mut forged = good;
            forged.request.token.as_mut().unwrap().0[at] ^= 1;
            // Another version is another form.
            if at > 0 {
                bad.push(forged);
            }
            assert_eq!(both.judge(&forged.frame()), FrameVerdict::Passed, "byte {at} of the token");
        }
        for (host, port) in [(0, 1), (1, 0)] {
            let mut other = good;
            other.ends.from.set_port(good.ends.from.port() + port);
            other.ends.from.set_ip(match other.ends.from.ip() {
                std::net::IpAddr::V4(ip) => (u32::from(ip) + host).to_be_bytes().into(),
                std::net::IpAddr::V6(ip) => (u128::from(ip) + u128::from(host)).to_be_bytes().into(),
            });
            bad.push(other);
        }
        for ago in [-400, 3700, 7300, 100_000_i64] {
            let mut old = good;
            old.request.token = Some(token(good.ends.from, started().saturating_add_signed(-ago)));
            bad.push(old);
        }
        for asking in &bad {
            assert_eq!(both.judge(&asking.frame()), FrameVerdict::Passed, "{asking:?}");
        }
        let counts = both.kernel.counts().unwrap();
        // The first 23 were judged twice.
        assert_eq!(counts.bad_tokens - before.bad_tokens, bad.len() as u64 + 23);
        // The router sees no more than it can bear.
        let bucket = both.kernel.buckets();
        bucket.word(1).store(now().as_nanos() + 60_000_000_000, Relaxed);
        assert!(bad.iter().all(|asking| both.judge(&asking.frame()) == FrameVerdict::Dropped));
        assert!(both.answer(&good).is_some(), "who has proved itself");
        bucket.word(1).store(0, Relaxed);
        assert_eq!(both.judge(&bad[0].frame()), FrameVerdict::Passed);
        assert_eq!(both.kernel.counts().unwrap().dropped, counts.dropped + bad.len() as u64);
    }
}

#[test]
fn a_token_of_half_an_hour_is_renewed_by_the_router() {
    let Some(mut both) = Both::new("a_token_of_half_an_hour_is_renewed_by_the_router") else { return };
    let mut asking = Asking::new(V4, 1, 3);
    for (ago, answered) in [(1700, true), (1900, false), (3500, false)] {
        asking.request.token = Some(token(asking.ends.from, started() - ago));
        assert_eq!(both.answer(&asking).is_some(), answered, "{ago} s");
        let said = both.routed(&asking);
        let granted = matches!(UnitAnswer::decode(&said[0]), Ok(UnitAnswer::Grant(_)));
        assert_eq!((granted, said.len()), (!answered, 1 + usize::from(!answered)), "{ago} s");
    }
    assert_eq!(both.kernel.counts().unwrap().renewals, 2);
}

#[test]
fn what_is_not_a_request_of_this_form_passes() {
    let Some(both) = Both::new("what_is_not_a_request_of_this_form_passes") else { return };
    for from in [V4, V6] {
        let asking = Asking::new(from, 1, 3);
        let (frame, ipv6) = (asking.frame(), from == V6);
        let passes = |what: &str, frame: &[u8]| assert_eq!(both.judge(frame), FrameVerdict::Passed, "{from}: {what}");
        for length in 14..frame.len() {
            passes("cut off", &frame[..length]);
        }
        let with = |at: usize, bytes: &[u8]| {
            let mut frame = frame.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            set_sums(&mut frame);
            frame
        };
        let tagged = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
        passes("a VLAN", &tagged);
        passes("a group of hosts", &with(0, &[3]));
        for (at, octet) in frame[..6].iter().enumerate() {
            passes("another host of the link", &with(at, &[octet ^ 4]));
        }
        passes("from a group of hosts", &with(6, &[3]));
        passes("from all hosts", &with(6, &[0xff; 6]));
        passes("ARP", &with(12, &[8, 6]));
        if ipv6 {
            passes("TCP", &with(20, &[6]));
            passes("Hop-by-Hop options", &with(20, &[0]));
            passes("a fragment", &with(20, &[44]));
            passes("version 4", &with(14, &[0x40]));
            passes("IPv4's address, mapped", &with(22, &[0; 8]));
        } else {
            passes("TCP", &with(23, &[6]));
            passes("IPv4's options", &with(14, &[0x46]));
            passes("more fragments", &with(20, &[0x20]));
            passes("a later fragment", &with(21, &[1]));
            passes("another length", &with(17, &[110]));
        }
        let udp = if ipv6 { 54 } else { 34 };
        passes("another port", &with(udp + 2, &(PORT + 1).to_be_bytes()));
        passes("another length of UDP", &with(udp + 5, &[90]));
        let message = udp + 8;
        for (what, at, bytes) in [
            ("another version", 0, &[0x21][..]),
            ("data", 0, &[0x12]),
            ("too many hops", 1, &[9]),
            ("another name", 20, &[0xff]),
            ("two ranges", 43, &[2]),
            ("far beyond the end", 44, &[1]),
            ("another unit", 50, &[0xff]),
            ("two units", 53, &[2]),
            ("no unit", 53, &[0]),
            ("another option", 54, &[0x80]),
            ("a token of version 1", 57, &[1]),
        ] {
            passes(what, &with(message + at, bytes));
        }
        let mut elsewhere = asking;
        elsewhere.ends.to.set_ip(if ipv6 { "2001:db8::2" } else { "192.0.2.2" }.parse().unwrap());
        passes("another host's", &elsewhere.frame());
        let mut without = asking;
        without.request.token = None;
        passes("no token", &without.frame());
        without.request.padded = 81;
        passes("no token, but as long", &without.frame());
        assert!(both.answer(&asking).is_some());
    }
    // Of this form, and in no slab.
    for (number, wanted) in [(1, STORED), (1, STORED + 64), (3, 0)] {
        assert_eq!(both.answer(&Asking::new(V4, number, wanted)), None);
    }
}

#[test]
fn what_the_kernel_would_drop_gets_no_answer() {
    let Some(both) = Both::new("what_the_kernel_would_drop_gets_no_answer") else { return };
    for (from, senders) in [
        (V4, ["0.0.0.0:1", "127.0.0.1:1", "224.0.0.5:1", "255.255.255.255:1", "192.0.2.1:1", "198.51.100.9:0"]),
        (V6, ["[::]:1", "[::1]:1", "[ff02::1]:1", "[::ffff:198.51.100.9]:1", "[2001:db8::1]:1", "[2001:db8:7:1::9]:0"]),
    ] {
        // Their tokens are good, as no router ever makes them.
        for sender in senders {
            assert_eq!(both.judge(&Asking::new(sender, 1, 3).frame()), FrameVerdict::Passed, "{sender}");
        }
        let (frame, ipv6) = (Asking::new(from, 1, 3).frame(), from == V6);
        let answered = |frame: &[u8]| matches!(both.judge(frame), FrameVerdict::Answered(_));
        for at in 14..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 1;
            // IPv6 has no sum of class, flow label and hop limit.
            assert_eq!(answered(&changed), ipv6 && matches!(at, 14..18 | 21), "{from}: byte {at}");
        }
        let udp = if ipv6 { 54 } else { 34 };
        let mut without = frame.clone();
        without[udp + 6..udp + 8].fill(0);
        assert_eq!(answered(&without), !ipv6, "{from}: no sum");
        // The last hop looks at no hop limit.
        for hops in [0, 1] {
            let mut last = frame.clone();
            last[if ipv6 { 21 } else { 22 }] = hops;
            set_sums(&mut last);
            assert!(answered(&last), "{from}: {hops} hops");
        }
    }
}

#[test]
fn altered_frames_get_no_other_answer() {
    let Some(both) = Both::new("altered_frames_get_no_other_answer") else { return };
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(2000) });
    let changes = proptest::collection::vec((0..143_usize, proptest::num::u8::ANY), 1..6);
    let altered = |(changes, ipv6): (Vec<(usize, u8)>, bool)| {
        let asking = Asking::new(if ipv6 { V6 } else { V4 }, 1, 3);
        let (plain, mut frame) = (asking.frame(), asking.frame());
        for (at, byte) in changes {
            let at = at % frame.len();
            frame[at] = byte;
        }
        set_sums(&mut frame);
        if let FrameVerdict::Answered(answer) = both.judge(&frame) {
            // The nonce, the unit, and what the token does not cover may be others; the amount may not.
            let app = answer.len() - 1430;
            assert_eq!(app + 81, frame.len());
            let number = u64::from_be_bytes(frame[app + 44..app + 52].try_into().unwrap());
            assert_eq!(frame[app - 8..app - 6], plain[app - 8..app - 6], "the port that proved itself");
            assert_eq!(frame[app + 10..app + 43], plain[app + 10..app + 43], "the name");
            assert_eq!(answer[app + 30..], unit(&name(1), number));
        }
        Ok(())
    };
    runner.run(&(changes, proptest::bool::ANY), altered).unwrap();
}

/// The source's share alone is limited: ten units.
fn ten_units() -> RouterConfig {
    RouterConfig { source_rate: SLOW, source_depth: 10 * WIRE_UNIT, ..RouterConfig::new(Rate::INFINITY) }
}

fn nack(message: &[u8]) -> (MissingReason, u64, u64) {
    let Ok(UnitAnswer::Nack(nack)) = UnitAnswer::decode(message) else { panic!("{message:?}") };
    assert_eq!(nack.units.count, 1);
    (nack.reason, nack.units.first, nack.retry_after.as_nanos())
}

#[test]
fn a_source_has_one_share_over_both_ways() {
    let test = "a_source_has_one_share_over_both_ways";
    for from in [V4, V6] {
        let Some(mut both) = Both::limited(test, ten_units()) else { return };
        let asking = Asking::new(from, 1, 3);
        for turn in 0..10 {
            let answer = if turn % 2 == 0 { both.answer(&asking).unwrap() } else { both.routed(&asking).remove(0) };
            assert!(matches!(UnitAnswer::decode(&answer), Ok(UnitAnswer::Data(..))), "{from}: {turn}");
        }
        let (kernel, router) = (both.answer(&asking).unwrap(), both.routed(&asking).remove(0));
        assert_eq!(kernel.len(), 26);
        assert_eq!(kernel[..22], router[..22]);
        let (kernel, router) = (nack(&kernel), nack(&router));
        assert_eq!((kernel.0, kernel.1), (MissingReason::Busy, 3));
        // The router was asked later, by less than a unit's time.
        assert!(
            kernel.2 >= router.2 && kernel.2 - router.2 < SLOW.time_for(WIRE_UNIT).as_nanos(),
            "{kernel:?} {router:?}"
        );
        let other = Asking::new(if from == V4 { "198.51.100.8:40000" } else { "[2001:db8:7:2::9]:40000" }, 1, 3);
        assert_eq!(both.answer(&other).map(|answer| answer.len()), Some(1430), "another source has its own");
        assert_eq!(both.kernel.counts().unwrap().busy, 1);
    }
}

#[test]
fn a_network_has_an_end_over_both_ways() {
    let Some(mut both) = Both::limited("a_network_has_an_end_over_both_ways", ten_units()) else { return };
    let mut units = 0;
    for network in 0..40 {
        for turn in 0..10 {
            let asking = Asking::new(&format!("[2001:db8:7:{network}::9]:40000"), 1, 3);
            let answer = if turn % 2 == 0 { both.answer(&asking) } else { both.routed(&asking).pop() };
            units += usize::from(answer.unwrap().len() == 1430);
        }
    }
    assert_eq!(units, 160);
}

#[test]
fn the_links_rate_is_one_over_both_ways_and_the_queue_has_the_last_of_it() {
    let test = "the_links_rate_is_one_over_both_ways_and_the_queue_has_the_last_of_it";
    let config = RouterConfig { rate: SLOW, ..RouterConfig::new(Rate::INFINITY) };
    let Some(mut both) = Both::limited(test, config) else { return };
    let asking = Asking::new(V4, 1, 3);
    // Half of 19 units ahead of the rate, and one that leaves at that.
    let answered = (0..40).filter(|_| both.answer(&asking).is_some()).count();
    assert_eq!(answered, 10);
    assert_eq!(both.judge(&asking.frame()), FrameVerdict::Passed, "the queue's turns decide");
    let routed: usize = (0..40).map(|_| both.routed(&asking).len()).sum();
    assert_eq!(routed, 10);
    assert_eq!(both.kernel.counts().unwrap().paced, 31);
}

#[test]
fn what_is_removed_is_not_answered_and_what_is_idle_makes_room() {
    let Some(mut both) = Both::new("what_is_removed_is_not_answered_and_what_is_idle_makes_room") else { return };
    let (used, bytes) = both.kernel.memory();
    assert_eq!((used, bytes), (4 * 90_112, 11 * 90_112));
    both.kernel.remove(&name(1)).unwrap();
    assert_eq!(both.judge(&Asking::new(V4, 1, 3).frame()), FrameVerdict::Passed);
    assert!(!both.kernel.has_any(&name(1)) && both.kernel.has(&name(2), 1));
    both.kernel.remove(&name(2)).unwrap();
    let insert =
        |both: &mut Both, number| both.kernel.insert(&name(number), 0, STORED, &part(&name(number), 0)).unwrap();
    let held = |both: &Both| (10..250).filter(|number| both.kernel.has(&name(*number), 0)).collect::<Vec<u8>>();
    let ask = |both: &Both, number| {
        assert_eq!(both.answer(&Asking::new(V4, number, 63)).unwrap()[30..], unit(&name(number), 63));
    };
    for number in 10..21 {
        assert!(insert(&mut both, number));
    }
    assert!(!insert(&mut both, 20), "it is there");
    assert_eq!(both.kernel.memory(), (bytes, bytes));
    let mut next = 21;
    until("what was asked for a moment ago makes no room", || {
        held(&both).into_iter().for_each(|number| ask(&both, number));
        next += 1;
        !insert(&mut both, next)
    });
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let (all, evicted) = (held(&both), both.kernel.evicted());
    assert_eq!(all.len(), 11);
    all[1..].iter().for_each(|number| ask(&both, *number));
    assert!(insert(&mut both, 240));
    assert_eq!((both.kernel.evicted(), both.kernel.has(&name(all[0]), 0)), (evicted + 1, false));
    ask(&both, 240);
    assert_eq!(both.answer(&Asking::new(V4, all[0], 3)), None);
}
