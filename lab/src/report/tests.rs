use std::collections::BTreeMap;

use paceline_cc::Nanos;
use paceline_sim::{FlowSeries, Series};

use super::*;
use crate::race::Run;
use crate::record::{FlowRecord, Parts, Span, Split};
use crate::stats::Summary;

/// A number between 0 and 1 that wobbles, the same every time.
fn wobble(i: usize, salt: usize) -> f64 {
    (((i * 7919 + salt * 104_729) % 1009) as f64) / 1009.0
}

/// A race of made-up contestants: name, share of the capacity used, typical queueing delay in ms.
pub(super) fn race(contestants: &[(&str, f64, f64)], runs: u32) -> Race {
    let mut all = Vec::new();
    for (index, (name, share, queue)) in contestants.iter().enumerate() {
        let (controller, via) = name.split_once('@').unwrap();
        for run in 1..=runs {
            let factor = 1.0 + 0.2 * (wobble(run as usize, index) - 0.5);
            let quantiles: Vec<f64> = (0..=100).map(|i| queue * factor * (0.02 * f64::from(i)).powi(3) / 1.5).collect();
            all.push(Run {
                contestant: index,
                record: record(controller, via, run, 9.0 * share * factor.min(1.0), &quantiles),
                series: (run == 1).then(|| series(*share, *queue, index)),
                delay_quantiles_ms: quantiles.iter().map(|q| q + 21.0).collect(),
                queue_quantiles_ms: quantiles,
            });
        }
    }
    Race {
        name: "cellular".to_owned(),
        title: "One flow on a cellular link".to_owned(),
        scenario: "duration = \"60s\"\n".to_owned(),
        effective: "duration = \"60s\"\nseed = 1\n".to_owned(),
        seed: 1,
        version: "0.1.0".to_owned(),
        summaries: Summary::all(all.iter().map(|run| &run.record)),
        runs: all,
    }
}

fn record(controller: &str, via: &str, run: u32, mbps: f64, queue: &[f64]) -> Record {
    let span = |add: f64| {
        let at = |i: usize| crate::record::rounded(queue[i] + add);
        Some(Span { min: at(0), mean: at(62), p50: at(50), p95: at(95), p99: at(99), max: at(100) })
    };
    let parts = |queue_ms: f64| Some(Parts { propagation_ms: 20.0, queue_ms, transmission_ms: 1.2 });
    let split = Split { down: parts(queue[62]), up: parts(0.4) };
    let flow = FlowRecord {
        controller: controller.to_owned(),
        via: via.to_owned(),
        direction: "down".to_owned(),
        start_s: 0.0,
        end_s: 60.0,
        throughput_mbps: mbps,
        goodput_mbps: mbps * 0.96,
        delay_ms: span(21.0),
        queue_ms: span(0.0),
        rtt_ms: span(42.0),
        loss: 0.001,
        packets: 45_000,
        retransmits: 45,
        timeouts: 0,
        ecn_marks: 0,
        fct_ms: None,
        completions: None,
        limited_below: None,
        split,
    };
    Record {
        scenario: "cellular".to_owned(),
        trace: Some("synthetic-a.down".to_owned()),
        world: "sim".to_owned(),
        controller: controller.to_owned(),
        via: via.to_owned(),
        seed: 1,
        run,
        seconds: 60.0,
        throughput_mbps: mbps,
        goodput_mbps: mbps * 0.96,
        utilization: Some(mbps / 9.2),
        delay_ms: span(21.0),
        queue_ms: span(0.0),
        rtt_ms: span(42.0),
        loss: 0.001,
        retransmits: 45,
        timeouts: 0,
        ecn_marks: 0,
        fct_ms: None,
        completions: None,
        jain: None,
        split,
        drawn: BTreeMap::new(),
        flows: vec![flow],
        version: "0.1.0".to_owned(),
        cost: None,
    }
}

fn series(share: f64, queue: f64, salt: usize) -> Series {
    let steps = 600;
    let capacity: Vec<f64> =
        (0..steps).map(|i| (9.0 + 7.0 * (i as f64 / 60.0).sin() + 6.0 * (wobble(i, 3) - 0.5)).max(0.0)).collect();
    let saw = |i: usize| 0.4 + 0.6 * ((i + 31 * salt) % 150) as f64 / 150.0;
    let outage = |i: usize| (300..312).contains(&i);
    let of = |value: &dyn Fn(usize) -> f64| (0..steps).map(value).collect::<Vec<_>>();
    let gaps = |value: &dyn Fn(usize) -> f64| (0..steps).map(|i| (!outage(i)).then(|| value(i))).collect::<Vec<_>>();
    let mbps = of(&|i| if outage(i) { 0.0 } else { capacity[i] * (share * (0.85 + 0.2 * wobble(i, salt))).min(1.0) });
    let waiting = gaps(&|i| queue * saw(i) * (0.8 + 0.4 * wobble(i, salt + 9)));
    let flow = FlowSeries {
        index: 0,
        throughput_mbps: mbps,
        queue_max_ms: waiting.clone(),
        queue_ms: waiting,
        window_packets: of(&|i| 20.0 + queue * saw(i)),
        in_flight_packets: of(&|i| 18.0 + queue * saw(i) * 0.95),
        srtt_ms: gaps(&|i| 42.0 + queue * saw(i)),
        variables: BTreeMap::from([
            ("min_rtt_ms", gaps(&|_| 42.0)),
            ("ssthresh_packets", gaps(&|i| 15.0 + queue * saw(i / 150 * 150))),
            ("mode", gaps(&|i| (i / 200) as f64)),
        ]),
    };
    Series { step: Nanos::from_secs_f64(0.1), queue_bytes: vec![0; steps], capacity_mbps: capacity, flows: vec![flow] }
}

pub(super) const ELEVEN: [(&str, f64, f64); 11] = [
    ("reno@tcp", 0.97, 1500.0),
    ("cubic@tcp", 0.98, 2300.0),
    ("bbr@tcp", 0.93, 140.0),
    ("dctcp@tcp", 0.975, 1500.0),
    ("copa@udp", 0.66, 30.0),
    ("verus@udp", 0.90, 240.0),
    ("sprout@udp", 0.50, 22.0),
    ("sprout-ewma@udp", 0.85, 130.0),
    ("copa@alcc", 0.64, 34.0),
    ("verus@alcc", 0.89, 250.0),
    ("sprout@alcc", 0.48, 25.0),
];
