//! What holds for any Wi-Fi link: nothing is lost unnoticed, order is kept, time may be taken in any steps, a seed says all.

use std::iter;

use paceline_cc::{Codepoint, Nanos, Time};
use paceline_path::{Direction, DropReason, DroppedPacket, Media, Packet, Path, Seat, WifiRole, build_link};
use proptest::prelude::*;

use crate::wifi::rig::{DOWN, FULL, Rig, UP, direction};

fn links() -> impl Strategy<Value = String> {
    let phys = prop::sample::select(vec!["vht80-2ss-mcs9", "ht20-1ss-mcs7-lgi", "vht20-1ss-mcs4", "ht40-2ss-mcs6"]);
    let losses = prop::sample::select(vec![
        "",
        ", per = 0.3",
        ", per = 0.7, retries = 1",
        ", per = { gilbert = { enter = 0.05, leave = 0.2 } }, retries = 0",
        ", per = 0.3, window = 'sequence', mpdus = 8",
    ]);
    let others = prop::sample::select(vec![
        "",
        ", competitors = 2",
        ", competitors = 1, rts = true, ccmp = true",
        ", interference = 0.4",
        ", competitors = 1, interference = 0.2, interference_on = '200us'",
    ]);
    let forms = prop::sample::select(vec!["", ", amsdu = '7935B'", ", mpdus = 1", ", ampdu = '8kB', ppdu = '1ms'"]);
    let queues = prop::sample::select(vec![
        "",
        "queue = 'droptail:packets=20'\n",
        "queue = 'codel:target=1ms,interval=5ms,limit=50packets'\n",
        "queue = 'pie:target=1ms,update=1ms,burst=2ms,limit=50packets'\n",
        "queue = 'fq_codel:target=1ms,interval=5ms,limit=30packets'\n",
        "outages = [['5ms', '60ms'], ['80ms', '81ms']]\n",
        "delay = '3ms'\nloss = 0.1\nqueue = 'drophead:20kB'\n",
    ]);
    (phys, losses, others, forms, queues).prop_map(|(phy, loss, other, form, queue)| {
        // The last of equal keys is refused by TOML: `mpdus` comes once.
        let form = if loss.contains("mpdus") { "" } else { form };
        format!("{queue}wifi = {{ phy = '{phy}'{loss}{other}{form} }}")
    })
}

/// Gap before each packet in microseconds, its direction and its size.
fn arrivals() -> impl Strategy<Value = Vec<(u64, usize, u32)>> {
    let gap = prop_oneof![4 => Just(0), 4 => 0u64..500, 1 => 0u64..30_000];
    prop::collection::vec((gap, 0usize..2, prop_oneof![40u32..4000, Just(1500)]), 1..300)
}

/// What came out of each direction, when; and what was dropped, when and why.
type Fates = [(Vec<(u32, Time)>, Vec<(u32, Time, DropReason)>); 2];

fn both(text: &str, seed: u64) -> [Path<u32>; 2] {
    let both = direction(text);
    let load = |name: &str| Err(name.to_owned());
    let paths = build_link([&both, &both], [seed, !seed], Nanos::from_millis(10), &load).expect("valid");
    paths.map(Path::keeping_dropped)
}

/// Pushes the arrivals; takes packets out late by up to `late` of each direction, though never after the next arrival.
fn run(text: &str, seed: u64, arrivals: &[(u64, usize, u32)], late: [Nanos; 2]) -> Fates {
    let mut paths = both(text, seed);
    let mut fates = Fates::default();
    let mut now = Time::ZERO;
    let end = Time::from_millis(100_000);
    let take = |paths: &mut [Path<u32>; 2], fates: &mut Fates, until: Time| {
        let mut calls = 0;
        loop {
            let due = |way: usize| match paths[way].next() {
                Time::NEVER => Time::NEVER,
                next => next + late[way],
            };
            let way = usize::from(due(UP) < due(DOWN));
            let at = due(way);
            if at == Time::NEVER || at > until {
                return;
            }
            while let Some(packet) = paths[way].pop(at) {
                let delay = packet.delay.propagation + packet.delay.queue + packet.delay.transmission;
                assert!(packet.entered <= at && delay <= packet.entered - Time::ZERO, "{delay}");
                fates[way].0.push((packet.body, packet.entered));
            }
            assert!(paths[way].next() + late[way] > at, "no progress");
            calls += 1;
            assert!(calls < 1_000_000);
        }
    };
    for (number, (gap, way, size)) in (0..).zip(arrivals) {
        let at = now + Nanos::from_micros(*gap);
        take(&mut paths, &mut fates, at);
        now = at;
        let ecn = [Codepoint::NotEct, Codepoint::Ect0][number as usize % 2];
        paths[*way].push(now, Packet::new(number % 3, *size, ecn, number));
    }
    take(&mut paths, &mut fates, end);
    for (way, path) in paths.iter_mut().enumerate() {
        assert_eq!(path.next(), Time::NEVER, "something is left");
        let drops: Vec<DroppedPacket<u32>> = iter::from_fn(|| path.pop_dropped()).collect();
        assert!(drops.is_sorted_by_key(|drop| drop.at));
        let pushed = arrivals.iter().filter(|(_, to, _)| *to == way).count();
        let stats = path.stats(end).cloned().unwrap();
        let count = |reason| drops.iter().filter(|drop| drop.reason == reason).count() as u64;
        assert_eq!(pushed, fates[way].0.len() + drops.len());
        assert_eq!(count(DropReason::Full) + count(DropReason::Early), stats.full.packets + stats.aqm.packets);
        assert_eq!((count(DropReason::Lost), stats.queued.packets), (path.lost().packets, 0));
        assert_eq!(stats.arrived.packets, pushed as u64);
        assert!(fates[way].0.is_sorted_by_key(|(_, at)| *at));
        for flow in 0..3 {
            let of = fates[way].0.iter().filter(|(number, _)| number % 3 == flow);
            assert!(of.map(|(number, _)| number).is_sorted(), "each flow keeps its order");
        }
        fates[way].1 = drops.iter().map(|drop| (drop.packet.body, drop.at, drop.reason)).collect();
    }
    fates
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_conserved_in_order_and_a_late_look_sees_the_same(
        text in links(),
        arrivals in arrivals(),
        seed in 0u64..1_000_000,
        late in (0u64..5_000, 0u64..5_000),
    ) {
        let late = [late.0, late.1].map(Nanos::from_micros);
        let exact = run(&text, seed, &arrivals, [Nanos::ZERO; 2]);
        prop_assert_eq!(&exact, &run(&text, seed, &arrivals, [Nanos::ZERO; 2]));
        prop_assert_eq!(&exact, &run(&text, seed, &arrivals, late));
    }
}

#[test]
fn another_seed_is_another_run() {
    let arrivals: Vec<(u64, usize, u32)> = (0..100).map(|number| (100, number % 2, 1500)).collect();
    let text = "wifi = { phy = 'vht80-2ss-mcs9' }";
    assert_ne!(run(text, 1, &arrivals, [Nanos::ZERO; 2]), run(text, 2, &arrivals, [Nanos::ZERO; 2]));
}

#[test]
fn an_hour_of_silence_passes_at_once_and_a_channel_is_never_looked_at_in_vain() {
    let mut rig = Rig::new("phy = 'vht80-2ss-mcs9', competitors = 4, interference = 0.3", 1);
    rig.push(DOWN, FULL, 0);
    assert!(rig.pop(Time::from_millis(1000)).is_some() && rig.pop(Time::from_millis(1000)).is_none());
    assert_eq!(rig.paths[DOWN].next(), Time::NEVER);
    for hour in 1..200 {
        rig.pop(Time::ZERO + Nanos::from_secs(3600 * hour));
        rig.push(UP, FULL, 0);
    }
    assert_eq!(rig.pop(Time::NEVER).map(|(way, _)| way), Some(UP));
}

/// A packet is lost for good when it was sent as often as permitted, and that is what a snapshot and the path report.
#[test]
fn what_was_sent_too_often_is_lost_and_reported() {
    let mut rig = Rig::new("phy = 'vht80-2ss-mcs9', per = 0.5, retries = 2", 1);
    for number in 0..8000 {
        rig.push(DOWN, FULL, number);
        while rig.pop(rig.now + Nanos::from_micros(100)).is_some() {}
    }
    while rig.pop(Time::from_millis(100_000)).is_some() {}
    // 1/8 of the packets: five standard errors.
    let lost = rig.paths[DOWN].lost().packets as f64 / 8000.0;
    assert!((lost - 0.125).abs() < 0.02, "{lost}");
    let snapshot = rig.paths[DOWN].snapshot(rig.now).unwrap();
    assert_eq!((snapshot.lost, snapshot.dropped.packets), (rig.paths[DOWN].lost(), 0));
    assert_eq!((snapshot.arrived.packets, snapshot.queued.packets, snapshot.limit.packets), (8000, 0, Some(1000)));
}

#[test]
fn a_snapshot_s_capacity_is_what_the_others_leave() {
    let capacity = |wifi: &str| {
        let mut rig = Rig::new(wifi, 1);
        rig.saturated(2, None);
        (rig.paths[DOWN].snapshot(rig.now).unwrap().capacity.as_mbps(), rig)
    };
    let (alone, _) = capacity("phy = 'vht80-2ss-mcs9'");
    assert!((alone / (675.0 * 1500.0 / 1472.0) - 1.0).abs() < 0.01, "{alone}");
    let (shared, mut rig) = capacity("phy = 'vht80-2ss-mcs9', competitors = 1");
    let got = rig.saturated(2, None) * 1500.0 / 1472.0;
    assert!((shared / got - 1.0).abs() < 0.25, "{shared} {got}");
    assert!(rig.paths[DOWN].snapshot(rig.now).unwrap().queued.packets > 700);
}

/// Four stations on links of their own share the access point's time: in turn a slow one takes most of it, by time each its share.
#[test]
fn links_of_one_channel_share_the_air_in_turn_or_by_time() {
    let shares = |turns: &str| {
        let mut media = Media::default();
        let load = |name: &str| Err(name.to_owned());
        let mut path = |node: u32, phy: &str| -> Path<u32> {
            let wifi = format!("wifi = {{ phy = '{phy}', channel = 'air', turns = '{turns}' }}");
            let there: Direction = direction(&wifi);
            let seat = Seat { media: &mut media, link: "x", node: 0, role: WifiRole::AccessPoint };
            there.build_in(node.into(), Nanos::ZERO, &load, seat).unwrap()
        };
        let mut paths = [path(1, "vht80-2ss-mcs9"), path(2, "vht80-2ss-mcs9"), path(3, "ht20-1ss-mcs0")];
        let mut now = Time::ZERO;
        for path in &mut paths {
            (0..600).for_each(|_| path.push(now, Packet::new(0, FULL, Codepoint::NotEct, 0)));
        }
        while now < Time::from_millis(4000) {
            now = paths.iter().map(Path::next).min().unwrap();
            for path in &mut paths {
                while path.pop(now).is_some() {
                    path.push(now, Packet::new(0, FULL, Codepoint::NotEct, 0));
                }
            }
        }
        paths.map(|path| path.air().unwrap().time.as_secs_f64() / 4.0)
    };
    let [first, second, slow] = shares("rounds");
    assert!((first - second).abs() < 0.01 && slow > 0.6, "{first} {second} {slow}");
    let by_time = shares("airtime");
    assert!(by_time.iter().all(|share| (share - by_time[0]).abs() < 0.01 && *share > 0.25), "{by_time:?}");
}

#[test]
fn what_cannot_be_is_refused_with_its_field() {
    let refused = |text: &str| {
        let both: Direction = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        both.check().map_err(|error| error.to_string())
    };
    for (text, expected) in [
        ("phy = 'vht80'", "'vht80' is not a Wi-Fi rate: spatial streams are 1ss to 4ss; write such as"),
        ("competitors = 2", "missing field `phy`"),
        ("phy = 'vht80-2ss-mcs9', competitors = -1", "invalid value"),
        ("phy = 'vht80-2ss-mcs9', competitors = 101", "wifi.competitors: 101 are more than 100; give fewer"),
        ("phy = 'vht80-2ss-mcs9', competitor_phy = 'ht20-1ss-mcs0'", "wifi.competitor_phy: there are no competitors"),
        ("phy = 'vht80-2ss-mcs9', interference = 0.95", "wifi.interference: 0.95 is not a share from 0 to 0.9"),
        ("phy = 'vht80-2ss-mcs9', interference = nan", "wifi.interference: NaN is not a share"),
        ("phy = 'vht80-2ss-mcs9', interference_on = '1us'", "wifi.interference_on: it is below 10us"),
        ("phy = 'vht80-2ss-mcs9', per = 1.5", "wifi.per: 1.5 is not a probability"),
        (
            "phy = 'vht80-2ss-mcs9', per = { gilbert = { enter = 2, leave = 0.1 } }",
            "wifi.per.gilbert.enter: 2 is not a probability",
        ),
        ("phy = 'vht80-2ss-mcs9', retries = 1000", "wifi.retries: 1000 are more than 100"),
        ("phy = 'vht80-2ss-mcs9', mpdus = 0", "wifi.mpdus: 0 is not from 1 to 64"),
        ("phy = 'vht80-2ss-mcs9', mpdus = 65", "wifi.mpdus: 65 is not from 1 to 64"),
        ("phy = 'ht20-1ss-mcs7', ampdu = '65536B'", "wifi.ampdu: 65536 bytes are not from 1 to 65535"),
        ("phy = 'ht20-1ss-mcs7', amsdu = '0B'", "wifi.amsdu: 0 bytes are not from 1 to 11424"),
        ("phy = 'ht20-1ss-mcs7', ppdu = '1us'", "wifi.ppdu: it is not from 500us to 10ms"),
        ("phy = 'ht20-1ss-mcs7', ppdu = '1h'", "wifi.ppdu: it is not from 500us to 10ms"),
        ("phy = 'ht20-1ss-mcs7', walk = { lowest = 0, highest = 6 }", "wifi.walk: the MCS of ht20-1ss-mcs7 is not"),
        ("phy = 'ht20-1ss-mcs7', walk = { lowest = 0, highest = 9 }", "wifi.walk: ht20-1ss-mcs7 has no MCS 8"),
        ("phy = 'ht20-1ss-mcs7', walk = { lowest = 7, highest = 7 }", "wifi.walk: the MCS of"),
        ("phy = 'ht20-1ss-mcs7', walk = { lowest = 6, highest = 7, hold = '0s' }", "wifi.walk.hold: it is below 10us"),
        ("phy = 'ht20-1ss-mcs7', channel = 'a b'", "wifi.channel: 'a b' is not a name; use letters"),
        ("phy = 'ht20-1ss-mcs7', stations = 4", "unknown field `stations`"),
    ] {
        let error = refused(&format!("wifi = {{ {text} }}")).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{text}: {error}");
    }
    let both = "rate = '1 Mbit/s'\nwifi = { phy = 'ht20-1ss-mcs7' }";
    assert_eq!(
        refused(both).unwrap_err(),
        "wifi: more than one of rate, schedule, trace and wifi is given; keep one of them"
    );
}

#[test]
fn directions_that_do_not_fit_each_other_are_refused() {
    let load = |name: &str| Err(name.to_owned());
    let refused = |there: &str, back: &str| {
        let (there, back) = (direction(there), direction(back));
        build_link::<(), String>([&there, &back], [1, 2], Nanos::ZERO, &load).err().unwrap().to_string()
    };
    let wifi = |more: &str| format!("wifi = {{ phy = 'ht20-1ss-mcs7'{more} }}");
    assert_eq!(
        refused(&wifi(""), "rate = '1 Mbit/s'"),
        "wifi: one direction of the link has it and the other has not; give it to both, or to none"
    );
    assert_eq!(
        refused(&wifi(", channel = 'a'"), &wifi("")),
        "wifi.channel: it is not the channel of the other direction; write the same in both"
    );
    assert_eq!(
        refused(&wifi(", competitors = 1"), &wifi("")),
        "wifi: directions on one channel differ in competitors, interference, rts or turns; write them alike in all \
         links of the channel"
    );
    let alone = direction(&wifi("")).build::<(), String>(1, Nanos::ZERO, &load).err().unwrap().to_string();
    assert!(alone.starts_with("wifi: one direction alone has no medium"), "{alone}");
}
