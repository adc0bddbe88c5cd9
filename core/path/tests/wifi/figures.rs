//! The figures of the model that the element implements, with the tolerance of each. `paceline validate` has the whole tables.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Rate, Time};

use crate::wifi::rig::{DOWN, FULL, REQUEST, Rig, UP};

/// Saturated, without losses: within 2 %.
#[test]
fn saturated_throughput_is_that_of_the_arithmetic() {
    for (wifi, mbps) in [
        ("phy = 'ht20-1ss-mcs7-lgi', ppdu = '10ms'", 60.5),
        ("phy = 'ht20-1ss-mcs7-lgi', mpdus = 1", 30.8),
        // ns-3's regression bounds: 51 to 52, 58 to 59.
        ("phy = 'ht20-1ss-mcs7-lgi', mpdus = 1, amsdu = '7935B'", 51.5),
        ("phy = 'ht20-1ss-mcs7-lgi', ampdu = '32767B', amsdu = '3839B'", 58.5),
        ("phy = 'ht40-1ss-mcs7'", 135.4),
        ("phy = 'vht80-2ss-mcs9', ampdu = '65535B'", 615.0),
        ("phy = 'vht80-1ss-mcs9'", 372.0),
        ("phy = 'vht80-2ss-mcs9'", 675.0),
        ("phy = 'ht40-2ss-mcs7'", 256.0),
    ] {
        let mut rig = Rig::new(wifi, 1);
        let ours = rig.saturated(4, None);
        assert!((ours / mbps - 1.0).abs() < 0.02, "{wifi}: {ours:.1}, not {mbps}");
        // What the direction is reckoned by counts the headers too.
        let nominal = rig.paths[DOWN].schedule().map(|schedule| schedule.mean_rate().as_mbps()).unwrap();
        assert!((ours * 1500.0 / 1472.0 / nominal - 1.0).abs() < 0.01, "{wifi}: {ours:.1}, {nominal:.1}");
    }
}

/// Hand calculation: 64 x 1472 x 8 bits in 43 + 67.5 + 44 + 254 x 3.6 + 16 + 32 µs, less 10 % or a hold of the window.
#[test]
fn lost_frames_cost_their_share_and_a_strict_window_more() {
    let loss = |keys: &str| Rig::new(&format!("phy = 'vht80-2ss-mcs9', per = 0.1{keys}"), 1).saturated(8, None);
    let (count, sequence) = (loss(""), loss(", window = 'sequence'"));
    assert!((count / 607.0 - 1.0).abs() < 0.02, "{count}");
    assert!(sequence < 0.9 * count && sequence > 0.7 * count, "{sequence}");
}

#[test]
fn competitors_take_a_fair_share_and_collisions_more() {
    let mut rig = Rig::new("phy = 'vht80-2ss-mcs9', competitors = 2", 1);
    let ours = rig.saturated(20, None);
    assert!((ours / 212.0 - 1.0).abs() < 0.03, "{ours}");
    assert!(rig.air(DOWN).collisions > 500, "{:?}", rig.air(DOWN));
    // With requests to send a collision costs little, and a frame is not sent in vain.
    let mut rig = Rig::new("phy = 'vht80-2ss-mcs9', competitors = 2, rts = true", 1);
    assert!(rig.saturated(20, None) > ours && rig.air(DOWN).collisions == 0);
    // A competitor at a fifth of the rate takes most of the time (the anomaly of Heusse et al., INFOCOM 2003).
    let slow = "phy = 'vht80-2ss-mcs9', competitors = 1, competitor_phy = 'ht20-2ss-mcs7'";
    let slow = Rig::new(slow, 1).saturated(20, None);
    assert!(slow < 0.75 * ours, "{slow}");
}

#[test]
fn requests_steal_air_time() {
    let with = |phy: &str, count| Rig::new(&format!("phy = '{phy}'"), 1).saturated(10, Some(count));
    for (phy, rows) in [
        ("vht80-2ss-mcs9", [(1, 508.0), (2, 567.0), (5, 586.0), (64, 593.0)]),
        ("ht20-2ss-mcs7", [(1, 108.0), (2, 116.0), (5, 119.0), (64, 121.0)]),
    ] {
        for (count, mbps) in rows {
            let ours = with(phy, count);
            assert!((ours / mbps - 1.0).abs() < 0.03, "{phy}, {count}: {ours:.1}, not {mbps}");
        }
    }
}

/// A request of `units` each `units` x 1400 B / rate, answered over 1 ms of wire: frames in an aggregate, and the 50th and 99th percentile
/// of the delay at the access point and on the air, ms.
fn bursts(phy: &str, mbps: f64, units: u32) -> [f64; 3] {
    let mut rig = Rig::new(&format!("phy = '{phy}'"), 1);
    let gap = Rate::from_mbps(mbps).time_for(u64::from(units) * 1400);
    let (mut delays, mut answers) = (Vec::new(), VecDeque::new());
    let mut request = Time::ZERO;
    while request < Time::from_millis(10_000) {
        let next = answers.front().copied().unwrap_or(Time::NEVER).min(request);
        if let Some((way, packet)) = rig.pop(next) {
            match way {
                UP => answers.push_back(rig.now + Nanos::from_millis(1)),
                _ => delays.push(packet.delay.queue + packet.delay.transmission),
            }
        } else if answers.pop_front_if(|at| *at <= next).is_some() {
            (0..units).for_each(|_| rig.push(DOWN, 1428, 0));
        } else {
            rig.push(UP, REQUEST, 0);
            request += gap;
        }
    }
    delays.sort_unstable();
    let air = rig.air(DOWN);
    let percentile = |percent: usize| delays[delays.len() * percent / 100].as_millis_f64();
    [air.frames as f64 / air.aggregates as f64, percentile(50), percentile(99)]
}

/// Frames in an aggregate within 25 %, delays (48 µs later, at the end of the answer) within 40 %, its
/// tail within 50 %.
#[test]
fn bursts_fill_aggregates_and_lower_the_tail_up_to_one_aggregate() {
    let mut tails = Vec::new();
    for (units, published) in
        [(1, [29.0, 1.0, 4.2]), (27, [27.0, 0.6, 0.75]), (64, [64.0, 1.1, 1.15]), (81, [40.0, 1.1, 1.8])]
    {
        let [frames, median, tail] = bursts("vht80-2ss-mcs9", 300.0, units);
        tails.push(tail);
        for ((ours, published), share) in
            [frames, median + 0.048, tail + 0.048].iter().zip(published).zip([0.25, 0.4, 0.5])
        {
            assert!((ours / published - 1.0).abs() < share, "{units}: {frames} {median} {tail}");
        }
    }
    assert!(tails[1] < tails[2] && tails[2] < tails[3] && tails[3] < tails[0], "{tails:?}");
}

/// 50th, 95th and 99th percentile of the delay of a light flow downwards, ms: 1 Mbit/s, evenly spaced and never in step.
fn access(wifi: &str) -> [f64; 3] {
    let mut rig = Rig::new(wifi, 1);
    let mut delays = Vec::new();
    for packet in 0..20_000_u64 {
        let at = Time::from_nanos(packet * 11_776_000 + packet * packet % 7_919 * 100);
        while let Some((_, packet)) = rig.pop(at) {
            delays.push(packet.delay.queue + packet.delay.transmission);
        }
        rig.push(DOWN, FULL, 0);
    }
    delays.sort_unstable();
    [50, 95, 99].map(|percent| delays[delays.len() * percent / 100].as_millis_f64())
}

/// Published to the end of the answer, 48 µs later than ours; within 25 % (idle: 10 %), the tail within 40 %.
#[test]
fn access_delay_grows_a_long_tail_with_each_competitor() {
    for (competitors, published) in
        [(0, [0.22, 0.28, 0.28]), (1, [1.4, 3.8, 7.0]), (2, [2.5, 9.1, 18.0]), (4, [3.6, 20.0, 32.0])]
    {
        let ours = access(&format!("phy = 'vht80-2ss-mcs9', competitors = {competitors}"));
        for (ours, published) in ours.into_iter().zip(published) {
            let tolerance = if competitors == 0 { 0.1 } else { 0.4 };
            assert!(((ours + 0.048) / published - 1.0).abs() < tolerance, "{competitors}: {ours} {published}");
        }
    }
}

#[test]
fn interference_takes_its_share_and_the_walk_its_mean() {
    let alone = Rig::new("phy = 'vht80-1ss-mcs7'", 1).saturated(20, None);
    let disturbed = Rig::new("phy = 'vht80-1ss-mcs7', interference = 0.3", 1).saturated(20, None);
    assert!((disturbed / alone - 0.7).abs() < 0.04, "{disturbed} {alone}");
    let mut rig = Rig::new("phy = 'vht80-1ss-mcs7', walk = { lowest = 4, highest = 9, hold = '100ms' }", 1);
    let walking = rig.saturated(200, None) * 1500.0 / 1472.0;
    let nominal = rig.paths[DOWN].schedule().unwrap().mean_rate().as_mbps();
    assert!((walking / nominal - 1.0).abs() < 0.05, "{walking} {nominal}");
}
