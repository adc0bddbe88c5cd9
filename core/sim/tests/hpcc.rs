//! HPCC in a closed loop whose hop reports: alone, in company, with newcomers, where the rate changes and where the medium loses.
//! 20 ms, reports with capacities and each 10 ms unless said.

use crate::common::{Tampering, bulk, jain, mean, tampered, variable};
use crate::steering::{COUNTED, binned, listening, radio};
use crate::topology::{link, topology};
use paceline_cc::{Nanos, Rate, Time};
use paceline_experiment::{Config, Flow, Seed, Topology, Via};
use paceline_path::{Direction, Rates};
use paceline_sim::Body;

/// Bytes of a packet on the wire over its payload.
const WIRE: f64 = 1500.0 / 1384.0;

fn flow(start_s: u64) -> Flow {
    Flow { start: Time::from_millis(1_000 * start_s), ..listening("hpcc", COUNTED) }
}

/// 100 Mbit/s and a queue of two paths.
fn path(packets: u32) -> Topology<Body> {
    topology(&[("wire", ["ap", "sta"], link(100.0, &format!("droptail:packets={packets}"), 10))], 1)
}

/// Alone the link is as full as wanted, the queue is empty, and nothing is lost.
#[test]
fn alone_it_uses_eta_of_the_link_without_a_queue() {
    let (outcome, bins) = binned(path(330), vec![flow(0)], 1, 20);
    let used = bins.mbps(0, 20, 200) * WIRE / 100.0;
    assert!((0.92..=0.97).contains(&used), "{used}");
    let queue = outcome.flows[0].queue.quantile_ms(0.5).unwrap();
    assert!(queue < 0.4, "{queue} ms, three packets");
    assert_eq!(outcome.flows[0].packets_dropped, 0);
}

#[test]
fn flows_share_what_they_use() {
    for count in [2, 8, 32] {
        let (_, bins) = binned(path(330), (0..count).map(|_| flow(0)).collect(), 1, 30);
        let rates: Vec<f64> = (0..count).map(|flow| bins.mbps(flow, 100, 300) * WIRE).collect();
        let used = rates.iter().sum::<f64>() / 100.0;
        assert!((0.88..=1.0).contains(&used), "{count}: {used}");
        assert!(jain(&rates) > 0.95, "{count}: {rates:?}");
    }
}

/// The additive steps of all flows wait in the queue: of ten that take themselves for one, ten times as much.
#[test]
fn a_step_for_too_few_flows_makes_a_queue() {
    let queue = |name: &str| {
        let flows = (0..10).map(|_| listening(name, COUNTED)).collect();
        let (outcome, _) = binned(path(330), flows, 1, 20);
        outcome.flows[0].queue.quantile_ms(0.5).unwrap()
    };
    let (right, wrong) = (queue("hpcc:n=10"), queue("hpcc:n=1"));
    assert!(wrong > 2.0 * right + 0.5, "{right} ms and {wrong} ms");
}

/// It is in slow start until its second report: some packets find a queue of about a path, and afterwards there is none.
#[test]
fn a_newcomer_gets_its_share_and_leaves_a_short_queue() {
    let (outcome, bins) = binned(path(330), vec![flow(0), flow(10)], 1, 40);
    let rates = [0, 1].map(|flow| bins.mbps(flow, 200, 400));
    assert!(jain(&rates) > 0.95, "{rates:?}");
    let [most, peak] = [0.99, 1.0].map(|quantile| outcome.flows[1].queue.quantile_ms(quantile).unwrap());
    assert!(most < 1.0 && peak < 25.0, "{most} ms, {peak} ms at most");
}

/// 100, then 20 from 10 s on, then 100 from 20 s on.
#[test]
fn it_follows_a_rate_that_changes() {
    let steps = [(0, 100.0), (10, 20.0), (20, 100.0)];
    let schedule = steps.map(|(at, mbps)| (Nanos::from_secs(at), Rate::from_mbps(mbps))).to_vec();
    let direction = link(100.0, "droptail:packets=330", 10);
    let direction = Direction { rate: None, schedule: Some(Rates::Steps(schedule)), ..direction };
    let (_, bins) = binned(topology(&[("wire", ["ap", "sta"], direction)], 1), vec![flow(0)], 1, 30);
    for (from, to, mbps) in [(20, 100, 100.0), (120, 200, 20.0), (220, 300, 100.0)] {
        let used = bins.mbps(0, from, to) * WIRE / mbps;
        assert!((0.85..=1.0).contains(&used), "from {from} to {to}: {used}");
    }
}

#[test]
fn losses_of_the_medium_cost_what_they_take() {
    let (_, bins) = binned(radio(20.0, 60, 0.05, 1), vec![flow(0)], 1, 20);
    let used = bins.mbps(0, 20, 200) * WIRE / 20.0;
    assert!(used >= 0.95 * 0.95 - 0.05, "{used}");
}

/// Without reports it is CUBIC, and beside CUBIC it keeps its part.
#[test]
fn without_reports_it_is_cubic() {
    let rates = ["hpcc", "cubic"].map(|name| {
        let (_, bins) = binned(radio(20.0, 60, 0.0, 1), vec![bulk(name, Via::tcp(None))], 1, 20);
        bins.mbps(0, 0, 200)
    });
    assert_eq!(rates[0], rates[1]);
}

/// What the newest report says of the link, beside what it did: hops count no bytes that left, and queue, arrivals and flows say as much.
#[test]
fn what_a_link_sent_is_known_without_a_counter() {
    for count in [1, 2, 4, 8] {
        let config = Config {
            seed: Seed(1),
            duration: Nanos::from_secs(30),
            topology: path(330),
            flows: (0..count).map(|_| flow(0)).collect(),
            cross: Vec::new(),
            sample_every: Some(Nanos::from_millis(1)),
        };
        let series = paceline_sim::run(config, None).series.unwrap();
        let sent: f64 = series.flows.iter().map(|flow| mean(&flow.throughput_mbps[10_000..]) / 100.0).sum();
        let queue: Vec<f64> = series.queue_bytes[10_000..].iter().map(|bytes| *bytes as f64).collect();
        // Of a path of 20 ms.
        let full = sent + mean(&queue) / 250_000.0;
        let said = mean(&variable(&series.flows[0], "utilisation_newest")[10_000..]);
        assert!((said - full).abs() < 0.03, "{count} flows: {said}, and it was {full}");
    }
}

/// Reports come beside the packets here. Where each names one, round trips are known by positions and not by time: throughput is the same.
#[test]
fn a_report_need_not_come_with_a_packet() {
    let carried = tampered("hpcc", Tampering::Carried);
    for count in [1, 4] {
        let run = |name: &str| {
            let flows = (0..count).map(|_| listening(name, COUNTED)).collect();
            let (outcome, bins) = binned(path(330), flows, 1, 20);
            let used: f64 = (0..count).map(|flow| bins.mbps(flow, 20, 200)).sum();
            (used, outcome.flows[0].queue.quantile_ms(0.5).unwrap())
        };
        let (beside, with) = (run("hpcc"), run(&carried));
        assert!((with.0 / beside.0 - 1.0).abs() < 0.1, "{count} flows: {beside:?}, {with:?}");
        assert!((with.1 - beside.1).abs() < 0.4, "three packets; {count} flows: {beside:?}, {with:?}");
    }
}
