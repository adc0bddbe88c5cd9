//! What `hops` takes of a link beside flows of all kinds: sparse ones, acknowledgements, CUBIC, more than are counted; on a path that
//! becomes longer, and on radios. Where nothing else is said 20 Mbit/s, 20 ms and 60 packets, seed 1, and Mbit/s on the wire.

use std::fs::read;
use std::sync::Arc;

use crate::common::{bulk, jain};
use crate::steering::{COUNTED, LEAN, binned, listening, lossy, mbps, plain, radio};
use crate::topology::{link, run, topology, way};
use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{Config, Flow, Graph, OnOff, Outcome, Seed, Topology, Via, Way, Workload};
use paceline_path::{Direction, Path, Trace, build_link};
use paceline_sim::Body;

/// `count` flows with this work, each 11 ms after the one before.
fn mice(count: u64, of: &Flow, workload: &Workload) -> Vec<Flow> {
    let start = |index| Time::from_millis(11 * index);
    (0..count).map(|index| Flow { start: start(index), workload: workload.clone(), ..of.clone() }).collect()
}

fn keep_alives(count: u64) -> Vec<Flow> {
    mice(count, &bulk("reno", Via::tcp(None)), &Workload::Rate(Rate::from_bytes_per_sec(1_500)))
}

/// What the first `big` flows and all together get from 4 s to 20 s.
fn late(flows: Vec<Flow>, big: usize, seed: u64) -> (Vec<f64>, f64) {
    let scale = |flow: &Flow| f64::from(flow.packet_bytes()) / f64::from(flow.mss);
    let scales: Vec<f64> = flows.iter().map(scale).collect();
    let (_, bins) = binned(radio(20.0, 60, 0.0, seed), flows, seed, 20);
    let rates: Vec<f64> = scales.iter().enumerate().map(|(flow, scale)| bins.mbps(flow, 40, 200) * scale).collect();
    (rates[..big].to_vec(), rates.iter().sum())
}

/// From one to a hundred of 12 kbit/s each: nine tenths of the link are used.
#[test]
fn sparse_flows_cost_nothing() {
    for trace in [LEAN, COUNTED] {
        for count in [1, 2, 3, 5, 6, 8, 10, 13, 21, 34, 50, 75, 100] {
            let flows = [vec![listening("hops", trace)], keep_alives(count)].concat();
            let (big, all) = late(flows, 1, count);
            let rest = 20.0 - 0.0125 * count as f64;
            assert!(all >= 0.9 * 20.0 && big[0] >= 0.9 * rest, "{trace}, {count}: {:.2} of {all:.2}", big[0]);
        }
    }
}

/// What one flow of `name`, and all that go its way, get of a link of this rate, RTT and queue, in the last two thirds of the time.
fn beside(
    name: &str,
    trace: &str,
    (rate, rtt, packets): (f64, u64, u32),
    others: &dyn Fn(&Topology<Body>) -> Vec<Flow>,
) -> (f64, f64) {
    let direction = link(rate, &format!("droptail:packets={packets}"), rtt / 2);
    let topology = topology(&[("radio", ["ap", "sta"], direction)], 1);
    let down = way(&topology, "ap", "sta");
    let flows = [vec![Flow { way: down, ..listening(name, trace) }], others(&topology)].concat();
    let all = flows.clone();
    let seconds = if rtt < 100 { 18 } else { 30 };
    let (_, bins) = binned(topology, flows, 1, seconds as u64);
    let mbps = |(index, flow): (usize, &Flow)| {
        let wire = f64::from(flow.packet_bytes()) / f64::from(flow.mss);
        bins.mbps(index, 10 * seconds / 3, 10 * seconds) * wire
    };
    (mbps((0, &all[0])), all.iter().enumerate().filter(|(_, flow)| flow.way != way_back(down)).map(mbps).sum())
}

fn way_back(way: Way) -> Way {
    Way { from: way.to, to: way.from }
}

fn on_off(on: u64, off: u64, random: bool) -> Workload {
    Workload::OnOff(OnOff { on: Nanos::from_millis(on), off: Nanos::from_millis(off), random })
}

/// As many that send as fast as they can for so long, and are silent in between: nine tenths of the link are used, and of them more than
/// CUBIC leaves is theirs.
#[test]
fn flows_that_come_and_go_leave_the_rest() {
    for (count, on, off) in [(10, 20, 1_980), (50, 10, 3_000), (20, 200, 1_800), (5, 500, 500), (100, 20, 4_000)] {
        let flows = |of: Flow| [vec![of], mice(count, &bulk("reno", Via::tcp(None)), &on_off(on, off, true))].concat();
        let (big, all) = late(flows(listening("hops", COUNTED)), 1, 1);
        let (cubic, full) = late(flows(plain()), 1, 1);
        let what = format!("{count}, {on} ms: {:.2} of {all:.2}, CUBIC {:.2} of {full:.2}", big[0], cubic[0]);
        assert!(all >= 0.9 * 20.0 && all - big[0] >= full - cubic[0], "{what}");
    }
}

/// Two that send a piece of 100 ms every two seconds are counted half of the time, and bring a twentieth of the link: nine tenths are used.
#[test]
fn flows_that_come_for_a_moment_are_given_no_share() {
    for path in [(5.0, 10, 33), (10.0, 200, 41), (50.0, 5, 20), (50.0, 200, 416), (200.0, 20, 166)] {
        for trace in [LEAN, COUNTED] {
            let pieces = |_: &Topology<Body>| mice(2, &bulk("reno", Via::tcp(None)), &on_off(100, 2_000, false));
            let (own, all) = beside("hops", trace, path, &pieces);
            assert!(all >= 0.9 * path.0, "{path:?}, {trace}: {own:.2} of {all:.2}");
        }
    }
}

/// Uploads, whose acknowledgements share the queue and take as many of its places as full packets: nine tenths of the link are used, which
/// is more than CUBIC uses there.
#[test]
fn acknowledgements_take_no_share() {
    for (path, ups, every) in [
        ((20.0, 20, 60), 10, 1),
        ((20.0, 20, 60), 3, 1),
        ((20.0, 20, 60), 10, 2),
        ((20.0, 20, 266), 10, 1),
        ((5.0, 60, 50), 5, 1),
        ((100.0, 40, 83), 10, 1),
    ] {
        let uploads = |topology: &Topology<Body>| {
            let up = Flow { way: way(topology, "sta", "ap"), ack_every: every, ..plain() };
            [vec![up; ups], keep_alives(20)].concat()
        };
        let (cubic, _) = beside("cubic", COUNTED, path, &uploads);
        for trace in [LEAN, COUNTED] {
            let (own, all) = beside("hops", trace, path, &uploads);
            let what = format!("{path:?}, {ups} uploads, {every}, {trace}: {own:.2} of {all:.2}, CUBIC {cubic:.2}");
            assert!(all >= 0.9 * path.0 && own >= cubic, "{what}");
        }
    }
}

/// Groups of `hops` among fifty keep-alives, of which half are of `hops` as well.
#[test]
fn among_sparse_flows_they_share_as_without() {
    for count in [2, 4, 8] {
        let sparse = Flow { workload: Workload::Rate(Rate::from_bytes_per_sec(1_500)), ..listening("hops", COUNTED) };
        let flows = [vec![listening("hops", COUNTED); count], vec![sparse; 25], keep_alives(25)].concat();
        let (big, all) = late(flows, count, 1);
        let shares: Vec<f64> = big.clone();
        assert!(jain(&shares) >= 0.98 && all >= 0.9 * 20.0, "{count}: {big:.2?} of {all:.2}");
    }
}

/// Within a fifth of an equal part: one and more flows of CUBIC, with and without sparse ones, RTTs of 10 to 100 ms, queues from half
/// of a path to four. Fifth of 60 s are left out.
#[test]
fn beside_cubic_it_has_its_part() {
    for (cubics, sparse) in [(1, 0), (3, 0), (1, 50), (3, 20)] {
        for (rtt_ms, paths) in [(20, 0.5), (20, 1.0), (20, 4.0), (60, 1.0), (100, 1.0), (100, 2.0)] {
            let packets = (paths * 20e6 * rtt_ms as f64 * 1e-3 / 12_000.0) as u32;
            let direction = link(20.0, &format!("droptail:packets={packets}"), rtt_ms / 2);
            let topology = topology(&[("radio", ["ap", "sta"], direction)], 1);
            let flows = [vec![listening("hops", COUNTED)], vec![plain(); cubics], keep_alives(sparse)].concat();
            let (_, bins) = binned(topology, flows, 1, 60);
            let own = bins.mbps(0, 120, 600) / 0.93;
            let others: f64 = (1..=cubics).map(|flow| bins.mbps(flow, 120, 600) / 0.96).sum();
            let part = own / (own + others) * (cubics + 1) as f64;
            let what =
                format!("{cubics} CUBIC, {sparse} sparse, {rtt_ms} ms, {packets}: {own:.2}, {others:.2}, {part:.2}");
            println!("{what}");
            assert!((0.8..=1.2).contains(&part), "{what}");
        }
    }
}

/// The same where a quarter to two fifths of a path fit into the queue, and, up to 40 ms, for CUBIC that begins when the link has been used for
/// 20 s. Over 100 ms such a CUBIC gets an eighth of 50 Mbit/s, and so does one that begins with `hops`, if its start fills the queue and is cut
/// twice for that: it needs minutes to grow.
#[test]
fn over_short_queues_and_from_newcomers_it_takes_no_more() {
    for (rate, rtt_ms, paths) in
        [(100.0, 40, 0.25), (50.0, 100, 0.25), (100.0, 30, 0.4), (20.0, 100, 0.25), (20.0, 20, 1.0)]
    {
        for (cubics, sparse, begins) in [(1, 0, 0), (2, 0, 0), (1, 20, 0), (1, 0, 20)] {
            let slow = rtt_ms > 40 && cubics == 1 && rate > 20.0;
            if begins > 0 && rtt_ms > 40 {
                continue;
            }
            let packets = (paths * rate * 1e6 * rtt_ms as f64 * 1e-3 / 12_000.0) as u32;
            let direction = link(rate, &format!("droptail:packets={packets}"), rtt_ms / 2);
            let topology = topology(&[("radio", ["ap", "sta"], direction)], 1);
            let cubic = Flow { start: Time::from_millis(1_000 * begins), ..plain() };
            let flows = [vec![listening("hops", COUNTED)], vec![cubic; cubics], keep_alives(sparse)].concat();
            let (_, bins) = binned(topology, flows, 1, 60);
            let own = bins.mbps(0, 300, 600) / 0.93;
            let others: f64 = (1..=cubics).map(|flow| bins.mbps(flow, 300, 600) / 0.96).sum();
            let part = own / (own + others) * (cubics + 1) as f64;
            let what = format!(
                "{rate}, {rtt_ms} ms, {packets}, {cubics} CUBIC from {begins} s: {own:.2}, {others:.2}, {part:.2}"
            );
            println!("{what}");
            assert!((0.8..=if slow { 1.8 } else { 1.2 }).contains(&part), "{what}");
        }
    }
}

/// More flows than are counted, and such that there is less than a packet for each in path and queue: no more is lost than CUBIC loses,
/// and it is shared as well.
#[test]
fn a_crowd_loses_what_cubics_lose() {
    for (rate, packets, flows, seconds) in
        [(100.0, 150, 300, 10), (20.0, 60, 100, 15), (20.0, 60, 60, 15), (50.0, 100, 200, 10), (5.0, 30, 40, 30)]
    {
        let figures = |name: &str| {
            let topology = radio(rate, packets, 0.0, 1);
            let flow = listening(name, COUNTED);
            let flows = (0..flows).map(|index| Flow { start: Time::from_millis(5 * index), ..flow.clone() }).collect();
            let outcome = run(topology, flows, 1, seconds, None);
            let sum = |count: fn(&paceline_experiment::FlowOutcome) -> u64| {
                outcome.flows.iter().map(count).sum::<u64>() as f64
            };
            let shares: Vec<f64> = outcome.flows.iter().map(|flow| flow.bytes_ready as f64).collect();
            (sum(|flow| flow.packets_dropped) / sum(|flow| flow.packets_entered), jain(&shares))
        };
        let (own, cubic) = (figures("hops"), figures("cubic"));
        let what = format!("{rate}, {packets}, {flows}: {own:.3?}, CUBIC {cubic:.3?}");
        println!("{what}");
        assert!(own.0 <= 1.2 * cubic.0 + 0.01 && own.1 >= cubic.1 - 0.1, "{what}");
    }
}

/// 80 ms more from 10 s on, a twentieth lost: the throughput of before is back 30 s later.
#[test]
fn a_path_that_becomes_longer_does_not_end_it() {
    for trace in [LEAN, COUNTED] {
        for longer in [25, 50] {
            let steps = vec![(Nanos::ZERO, Nanos::from_millis(10)), (Nanos::from_secs(10), Nanos::from_millis(longer))];
            let direction = Direction {
                delay_schedule: Some(steps),
                delay: Nanos::ZERO,
                ..lossy(link(20.0, "droptail:packets=60", 0), 0.05)
            };
            let topology = topology(&[("radio", ["ap", "sta"], direction)], 1);
            let (_, bins) = binned(topology, vec![listening("hops", trace)], 1, 60);
            let (before, after) = (bins.mbps(0, 20, 100), bins.mbps(0, 400, 600));
            assert!(before >= 0.8 * 19.0 && after >= 0.9 * before, "{trace}, {longer}: {before:.2}, {after:.2}");
        }
    }
}

/// One flow from a server over a wire of 1 Gbit/s and `delay` to an access point or a base station, and over its radio.
fn over(radio: &Direction, delay: u64, flow: Flow, seed: u64, seconds: u64) -> Outcome {
    let mut graph = Graph::default();
    graph.link("wire", ["server", "ap"]).unwrap();
    graph.link("radio", ["ap", "sta"]).unwrap();
    let wire = link(1_000.0, "droptail:packets=1000", delay);
    let back =
        if radio.wifi.is_some() { radio.clone() } else { Direction { delay: radio.delay, ..Direction::default() } };
    let load = |name: &str| -> Result<Arc<Trace>, String> {
        let path = format!("{}/../../scenarios/traces/{name}", env!("CARGO_MANIFEST_DIR"));
        Trace::read(name, &read(path).unwrap()[..]).map(Arc::new).map_err(|error| error.to_string())
    };
    let build = |directions: [&Direction; 2], seed: u64| -> [Path<Body>; 2] {
        build_link(directions, [seed, seed + 1], Nanos::from_millis(50), &load).unwrap()
    };
    let paths =
        [build([&wire, &wire], 10 * seed), build([radio, &back], 10 * seed + 2)].into_iter().flatten().collect();
    let topology = Topology::new(graph, paths);
    let flow = Flow { way: Way { ..way(&topology, "server", "sta") }, ..flow };
    let (duration, cross) = (Nanos::from_secs(seconds), Vec::new());
    paceline_sim::run(
        Config { seed: Seed(seed), duration, topology, flows: vec![flow], cross, sample_every: None },
        None,
    )
}

/// Aggregates of a radio that others use too, of which a hop reports what is left: at least two thirds of CUBIC's throughput, with half of
/// its queue or 10 ms at most.
#[test]
fn a_radio_that_takes_aggregates_is_filled() {
    for (phy, competitors, walk) in [
        ("ht20-2ss-mcs7", 1, "walk = { lowest = 1, highest = 7, hold = '500ms' }"),
        ("ht20-2ss-mcs7", 0, ""),
        ("vht80-2ss-mcs9", 1, ""),
        ("vht80-2ss-mcs9", 3, ""),
        ("ht20-2ss-mcs7", 2, ""),
    ] {
        let wifi =
            format!("wifi = {{ phy = '{phy}', competitors = {competitors}, {walk} }}\nqueue = 'droptail:packets=500'");
        let radio: Direction = toml::from_str(&wifi).unwrap_or_else(|error| panic!("{wifi}: {error}"));
        let figures = |flow: &Flow| {
            let outcome = over(&radio, 5, flow.clone(), 1, 20);
            (mbps(&outcome, 20)[0], outcome.flows[0].queue.quantile_ms(0.5).unwrap())
        };
        let ((own, queue), (cubic, full)) = (figures(&listening("hops", "C2")), figures(&listening("cubic", "C2")));
        println!("{wifi}: {own:.1} and {queue:.1} ms, CUBIC {cubic:.1} and {full:.1} ms");
        assert!(
            own >= 0.66 * cubic && queue <= (0.5 * full).max(10.0),
            "{wifi}: {own:.1} and {queue:.1} ms, CUBIC {cubic:.1} and {full:.1} ms"
        );
    }
}

/// Cells, one with outages of seconds: at least what Copa gets over datagrams, at a queue that is half as long again at most.
#[test]
fn a_cell_is_used_as_copa_uses_it_at_least() {
    for name in ["lte-driving.mahi", "lte-like.mahi", "lte-like-light.mahi", "3g-like.mahi"] {
        let radio = Direction { trace: Some(name.to_owned()), ..link(1.0, "droptail:bytes=2MB", 10) };
        let radio = Direction { rate: None, ..radio };
        let figures = |flow: &Flow| {
            let outcome = over(&radio, 10, flow.clone(), 1, 40);
            let queue = |quantile| outcome.flows[0].queue.quantile_ms(quantile).unwrap();
            (mbps(&outcome, 40)[0], queue(0.5), queue(0.95))
        };
        let (own, copa) = (figures(&listening("hops", "C2")), figures(&bulk("copa", Via::udp())));
        println!("{name}: {own:.2?}, Copa {copa:.2?}");
        assert!(own.0 >= copa.0 && own.2 <= 1.5 * copa.2, "{name}: {own:.2?}, Copa {copa:.2?}");
    }
}
