//! Receiver-driven flows in a closed loop (Liu, Zeng, Han and Sun 2021): requests one way, data the other. Figures that are not the
//! paper's say where they come from.

use crate::common::{Dumbbell, jain, share};
use paceline_cc::{Bytes, Nanos, Rate, Time};
use paceline_experiment::icn::Asking;
use paceline_experiment::{Config, Flow, FlowOutcome, Outcome, Poisson, Seed, Timing, Topology, Via, Workload};
use paceline_icn::flow::Aggregation;
use paceline_path::queue::QueueBound;
use paceline_path::{Direction, Path, QueueSpec, Schedule, build_link};
use paceline_sim::Body;

/// Bytes of a unit's packet: payload, head, UDP and IPv4.
const UNIT: u64 = 1400;

fn asks(controller: &str) -> Flow {
    asks_so(controller, Asking::default())
}

fn asks_so(controller: &str, asking: Asking) -> Flow {
    Flow::bulk(controller.parse().unwrap(), Via::icn(asking))
}

fn direction(text: &str) -> Direction {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A dumbbell of these directions.
fn run(down: &str, flows: Vec<Flow>, seed: u64, seconds: u64) -> Outcome {
    let build = |text: &str, seed: u64| -> Path<Body> {
        direction(text).build(seed, Nanos::from_millis(20), &|name: &str| Err(name.to_owned())).unwrap()
    };
    let topology = Topology::dumbbell(build(down, seed), build("delay = '10ms'", seed + 1));
    let (duration, cross) = (Nanos::from_secs(seconds), Vec::new());
    paceline_sim::run(Config { seed: Seed(seed), duration, topology, flows, cross, sample_every: None }, None)
}

/// A station on Wi-Fi, from the keys of `wifi`, behind a wire of 1 Gbit/s and this delay each way: mean throughput over all but the first
/// fifth, Mbit/s of payload, and the outcome.
fn over_wifi(wifi: &str, wire: &str, flow: Flow, seed: u64, seconds: u64) -> (f64, Outcome) {
    let mut graph = paceline_experiment::Graph::default();
    graph.link("wire", ["server", "ap"]).unwrap();
    graph.link("radio", ["ap", "sta"]).unwrap();
    let queue = "queue = 'droptail:packets=1000'";
    let wire = direction(&format!("rate = '1 Gbit/s'\ndelay = '{wire}'\n{queue}"));
    let radio = direction(&format!("wifi = {{ {wifi} }}\n{queue}"));
    let link = |both: &Direction, seed: u64| -> [Path<Body>; 2] {
        build_link([both, both], [seed, seed + 1], Nanos::from_millis(1), &|name: &str| Err(name.to_owned())).unwrap()
    };
    let paths = [link(&wire, 10 * seed), link(&radio, 10 * seed + 2)].into_iter().flatten().collect();
    let topology = Topology::new(graph, paths);
    let way = paceline_experiment::Way {
        from: topology.graph().node("server").unwrap(),
        to: topology.graph().node("sta").unwrap(),
    };
    let flow = Flow { way, ..flow };
    let (wire_bytes, payload) = (flow.packet_bytes(), flow.mss);
    let outcome = paceline_sim::run(
        Config {
            seed: Seed(seed),
            duration: Nanos::from_secs(seconds),
            topology,
            flows: vec![flow],
            cross: Vec::new(),
            sample_every: Some(Nanos::from_millis(10)),
        },
        None,
    );
    let rates = &outcome.series.as_ref().unwrap().flows[0].throughput_mbps;
    let late = &rates[rates.len() / 5..];
    let mbps = late.iter().sum::<f64>() / late.len() as f64 * f64::from(payload) / f64::from(wire_bytes);
    (mbps, outcome)
}

/// Mean shares of the flows in a span.
fn shares(outcome: &Outcome, flows: usize, from_ms: usize, to_ms: usize) -> Vec<f64> {
    (0..flows).map(|flow| share(outcome, flow, from_ms, to_ms)).collect()
}

fn once(flow: &FlowOutcome) {
    assert_eq!(flow.sender.retransmits, 0, "{:?}", flow.sender);
    assert_eq!(flow.packets_entered, flow.sender.packets_sent);
}

/// Property 1: each unit is asked for once and comes once, the last with what is left of the object.
#[test]
fn without_losses_each_unit_travels_once() {
    let bytes = 1_000 * UNIT + 7;
    for controller in ["bbr", "cubic", "copa", "reno"] {
        let flow = Flow { workload: Workload::Bytes(Bytes(bytes)), ..asks(controller) };
        let outcome = run("rate = '50 Mbit/s'\ndelay = '10ms'", vec![flow], 1, 20);
        let flow = &outcome.flows[0];
        once(flow);
        assert_eq!((flow.bytes_ready, flow.packets_entered, flow.completions.len()), (bytes, 1_001, 1), "{controller}");
        assert_eq!(flow.wire_bytes_arrived, bytes + 1_001 * 58, "{controller}: 30 bytes of head, 28 of UDP and IP");
        // Requests come as one packet each.
        assert!(flow.ack_split.count < 1_001, "{controller}: {} requests", flow.ack_split.count);
        assert!(flow.delay.min_ms().unwrap() >= 10.0 && flow.rtt.min_ms().unwrap() >= 20.0, "{controller}");
    }
}

/// Property 5: what is asked for in a second is the rate, whatever hosts do to timers.
#[test]
fn requests_are_paced_at_the_rate() {
    for timers in [Timing::Exact, Timing::Overhead, Timing::Host] {
        for aggregation in [Aggregation::One, Aggregation::Paper, Aggregation::Fixed(64)] {
            let asking = Asking { aggregation, ..Asking::default() };
            let flow = Flow { timers, ..asks_so("fixed:window=100000,rate=40", asking) };
            let outcome = run("rate = '1 Gbit/s'\ndelay = '10ms'", vec![flow], 1, 11);
            let payload = outcome.flows[0].sender.packets_sent as f64 * UNIT as f64;
            let mbps = payload * 8e-6 / 11.0;
            assert!((mbps / 40.0 - 1.0).abs() < 0.01, "{timers:?}, {aggregation:?}: {mbps} Mbit/s");
        }
    }
}

/// Property 8, with the bound: 100 Mbit/s, 20 ms. The queue holds 2 BDP: our choice, that of the shared link elsewhere.
#[test]
fn four_flows_share_a_link() {
    let mut dumbbell = Dumbbell::new(100.0, 20, vec![asks("bbr"); 4]);
    dumbbell.limit = QueueBound { bytes: Some(500_000), ..QueueBound::NONE };
    let outcome = dumbbell.run(30);
    let got = shares(&outcome, 4, 20_000, 30_000);
    assert!(jain(&got) >= 0.98, "{got:?}");
    let all: f64 = shares(&outcome, 4, 5_000, 30_000).iter().sum();
    assert!(all >= 0.95, "{all}");
}

/// Figure 8: four that begin a second apart, 30 s after the last. With 4 packets in ProbeRTT every 10 s the index is 0.6 to 0.9.
#[test]
fn flows_that_begin_apart_share_within_half_a_minute() {
    for apart in [1_000, 1_013, 1_029] {
        let start = |index: u64| Flow { start: Time::from_millis(index * apart), ..asks("bbr") };
        let mut dumbbell = Dumbbell::new(100.0, 20, (0..4).map(start).collect());
        dumbbell.limit = QueueBound { bytes: Some(500_000), ..QueueBound::NONE };
        let outcome = dumbbell.run(33);
        let got = shares(&outcome, 4, 20_000, 33_000);
        assert!(jain(&got) >= 0.95, "{apart} ms: {got:?}");
        assert!(got.iter().sum::<f64>() >= 0.95, "{apart} ms: {got:?}");
    }
}

/// Property 9, figure 7b: 5 ms; a second after a step of at most 2.5 times, 90 % of the capacity.
#[test]
fn a_step_of_the_capacity_is_filled_within_a_second() {
    let step = |at: u64, mbps: f64| (Time::from_millis(1000 * at), Rate::from_mbps(mbps));
    let steps = [step(0, 200.0), step(6, 500.0), step(12, 800.0), step(18, 1000.0), step(24, 500.0), step(30, 200.0)];
    let mut dumbbell = Dumbbell::new(200.0, 5, vec![asks("bbr")]);
    dumbbell.schedule = Schedule::steps(&steps, None);
    dumbbell.limit = QueueBound { packets: Some(1000), ..QueueBound::NONE };
    let outcome = dumbbell.run(36);
    for at in [6, 12, 18, 24, 30] {
        let used = share(&outcome, 0, at * 1000 + 1000, at * 1000 + 2000);
        assert!(used >= 0.9, "in the second from 1 s after {at} s: {used}");
    }
}

/// W1 and W2 (wifi-path.md, section 4): the closed loop of an event model reached 545 and of the paper's rule 555 Mbit/s in W1.
#[test]
fn wifi_is_filled_without_filling_its_queue() {
    for (wire, least, most) in [("0.5ms", 545.0, 15.0), ("2.5ms", 545.0, 25.0)] {
        let (mbps, outcome) = over_wifi("phy = 'vht80-2ss-mcs9'", wire, asks("bbr"), 1, 10);
        assert!(mbps >= least, "{wire}: {mbps} Mbit/s");
        let rtt = outcome.flows[0].rtt.quantile_ms(0.99).unwrap();
        assert!(rtt < most, "{wire}: {rtt} ms");
        assert_eq!(outcome.flows[0].packets_dropped, 0, "{wire}");
    }
}

/// Beside a station that always sends: at least what the ceiling of the same model reached (its row "at least 2 BDP + 192 units",
/// "x3 rule"), in the mean of three seeds, less 7 %: seeds differ by 5 % there, and ProbeRTT takes 200 ms of 5 s, where that model has 10.
#[test]
fn beside_a_saturated_station_the_ceiling_is_enough() {
    for (phy, least) in [("vht80-2ss-mcs9", 259.0), ("vht80-1ss-mcs9", 139.0), ("ht20-2ss-mcs7", 51.0)] {
        let run = |seed| {
            let (mbps, outcome) = over_wifi(&format!("phy = '{phy}', competitors = 1"), "0.5ms", asks("bbr"), seed, 20);
            assert_eq!(outcome.flows[0].packets_dropped, 0, "{phy}");
            mbps
        };
        let got: Vec<f64> = (1..=3).map(run).collect();
        assert!(got.iter().sum::<f64>() / 3.0 >= 0.93 * least, "{phy}: {got:?} Mbit/s");
    }
}

/// Random loss, of data alone: every byte arrives, and little more than what was lost is asked for again.
#[test]
fn what_is_lost_is_asked_for_again() {
    for controller in ["bbr", "cubic", "copa"] {
        let bytes = 20_000 * UNIT;
        let flow = Flow { workload: Workload::Bytes(Bytes(bytes)), ..asks(controller) };
        let outcome = run("rate = '50 Mbit/s'\ndelay = '10ms'\nloss = 0.01", vec![flow], 1, 120);
        let flow = &outcome.flows[0];
        assert_eq!((flow.bytes_ready, flow.completions.len()), (bytes, 1), "{controller}");
        let (again, lost) = (flow.sender.retransmits, flow.packets_dropped);
        assert!(again >= lost && again <= lost + lost / 4 + 10, "{controller}: {again} for {lost}");
    }
}

/// Units that overtake others by up to 2 ms, where 6 units take 1.4 ms on the link: some are asked for twice, and the flow learns.
#[test]
fn reordering_costs_little() {
    let bytes = 20_000 * UNIT;
    let flow = Flow { workload: Workload::Bytes(Bytes(bytes)), ..asks("bbr") };
    let down = "rate = '50 Mbit/s'\ndelay = '10ms'\nreorder = { share = 0.01, delay = '2ms' }";
    let outcome = run(down, vec![flow], 1, 60);
    let flow = &outcome.flows[0];
    assert_eq!((flow.bytes_ready, flow.completions.len()), (bytes, 1));
    assert!(flow.sender.retransmits < 200, "1 % of the units: {}", flow.sender.retransmits);
    let took = flow.completions[0].1.as_secs_f64();
    assert!(took < bytes as f64 * 8e-6 / 50.0 * 1.15, "{took} s");
}

/// A queue of a tenth of the BDP: the controller's business alone, and nothing stalls.
#[test]
fn small_buffers_do_not_stall() {
    for (controller, least) in [("bbr", 0.75), ("cubic", 0.5), ("copa", 0.6)] {
        let mut dumbbell = Dumbbell::new(100.0, 20, vec![asks(controller)]);
        dumbbell.limit = QueueBound { bytes: Some(25_000), ..QueueBound::NONE };
        let used = share(&dumbbell.run(20), 0, 5_000, 20_000);
        assert!(used >= least, "{controller}: {used}");
    }
}

/// Transfers that come at random beside a flow without end all come to their end.
#[test]
fn transfers_that_come_at_random_end() {
    let family = Poisson {
        mean_gap: Nanos::from_millis(100),
        alpha: 1.2,
        min: Bytes(5_000),
        max: Bytes(1_000_000),
        scale: None,
        cut: paceline_experiment::Cut::Truncate,
        count: Some(200),
    };
    let web = Flow { workload: Workload::Poisson(family), ..asks("bbr") };
    let bulk = Flow { start: Time::from_millis(1), ..asks("bbr") };
    let outcome = run("rate = '50 Mbit/s'\ndelay = '10ms'\nqueue = 'droptail:bdp=2'", vec![web, bulk], 7, 60);
    assert_eq!(outcome.flows[0].fct.count(), 200);
    assert!(outcome.flows[0].fct.min_ms().unwrap() >= 20.0);
}

/// Beside CUBIC over TCP in a queue of 2 BDP neither starves: at least 35 % of the link each (our choice), as beside BBR over TCP: where
/// inequality 9 does not hold the window is the ceiling.
#[test]
fn beside_cubic_neither_starves() {
    let mut dumbbell = Dumbbell::new(50.0, 20, vec![asks("bbr"), Flow::bulk("cubic".parse().unwrap(), Via::tcp(None))]);
    dumbbell.queue = Some("droptail:bdp=2".parse::<QueueSpec>().unwrap());
    let outcome = dumbbell.run(60);
    let got = shares(&outcome, 2, 20_000, 60_000);
    assert!(got.iter().all(|share| *share >= 0.35), "{got:?}");
    assert!(got.iter().sum::<f64>() >= 0.95, "{got:?}");
}

/// An application that wants a packet at a time gets it at that rate, and one that falls silent is asked nothing for.
#[test]
fn an_application_s_credit_bounds_what_is_asked_for() {
    let steady = Flow { workload: Workload::Rate(Rate::from_mbps(4.0)), ..asks("bbr") };
    let outcome = run("rate = '50 Mbit/s'\ndelay = '10ms'", vec![steady], 1, 10);
    let mbps = outcome.flows[0].bytes_ready as f64 * 8e-6 / 10.0;
    assert!((mbps / 4.0 - 1.0).abs() < 0.01, "{mbps} Mbit/s");
    let (on, off) = (Nanos::from_secs(1), Nanos::from_secs(1));
    let turns = paceline_experiment::OnOff { on, off, random: false };
    let flow = Flow { workload: Workload::OnOff(turns), ..asks("cubic") };
    let outcome = run("rate = '50 Mbit/s'\ndelay = '10ms'", vec![flow], 1, 10);
    let mbps = outcome.flows[0].bytes_ready as f64 * 8e-6 / 10.0;
    assert!((15.0..27.0).contains(&mbps), "half of the time: {mbps} Mbit/s");
}

/// Outages of 1 to 30 s, alone and in a row, of a link that keeps what its queue holds: soon after each the flow has its rate again.
#[test]
fn outages_are_passed() {
    let cases: [&[(f64, f64)]; 5] = [
        &[(5.0, 6.0)],
        &[(5.0, 14.5)],
        &[(5.0, 15.0)],
        &[(5.0, 35.0)],
        &[(5.0, 7.0), (8.0, 10.0), (12.0, 21.0), (22.0, 22.5), (26.0, 36.0)],
    ];
    for controller in ["bbr", "cubic", "reno", "copa", "bic", "dctcp", "verus"] {
        for outages in cases {
            let list: Vec<String> = outages.iter().map(|(from, to)| format!("['{from}s', '{to}s']")).collect();
            let list = list.join(", ");
            let down = format!("rate = '20 Mbit/s'\ndelay = '20ms'\nqueue = 'droptail:bdp=2'\noutages = [{list}]");
            let outcome = run(&down, vec![asks(controller)], 1, 46);
            let light = 46.0 - outages.iter().map(|(from, to)| to - from).sum::<f64>();
            let used = outcome.flows[0].bytes_ready as f64 * 8e-6 / light / 20.0;
            assert!(used > 0.75, "{controller}, dark in {list}: {used} of the rest, {:?}", outcome.flows[0].sender);
        }
    }
}
