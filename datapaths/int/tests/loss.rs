//! What is missing at the sink is what queue and medium dropped.
#![cfg(target_os = "linux")]

mod nodes;

use std::time::Duration;

use nodes::{Chain, opened, reports_of, run};
use paceline_int::{LossyLink, SinkNode, SinkOptions, SourceNode, SourceOptions, TransitNode, TransitOptions};
use paceline_telemetry::{FlowReport, RecordProfile};

const PORT: u16 = 5202;

struct Losses {
    reports: Vec<FlowReport>,
    /// Headers that left the source, and packets with one.
    headers: u64,
    sent: u64,
    /// Those that the medium lost, and those that the queue dropped.
    medium: u64,
    queue: u64,
    arrived: u64,
}

impl Losses {
    fn sum(&self, of: impl Fn(&FlowReport) -> u32) -> u64 {
        self.reports.iter().map(|report| u64::from(of(report))).sum()
    }
}

/// A transfer over a queue of `limit` octets at 20 Mbit/s and a medium that loses `share`, one packet to a buffer.
fn losses(test: &str, limit: u32, share: f64, octets: usize) -> Option<Losses> {
    let chain = Chain::new(test)?;
    run(&chain.a, "ip link set a0 gso_max_segs 1");
    let queue = format!("tbf rate 20mbit burst 3200 limit {limit}");
    let run = losses_of(test, &chain, (&queue, limit), share, octets, &counted())?;
    assert_eq!(run.headers, run.sent);
    Some(run)
}

fn counted() -> SourceOptions {
    SourceOptions {
        ports: vec![PORT],
        profile: RecordProfile::Counted,
        full_every: 0,
        patience: None,
        ..Default::default()
    }
}

/// A transfer over a queue with its limit in octets and a medium that loses `share`.
fn losses_of(
    test: &str,
    chain: &Chain,
    (queue, limit): (&str, u32),
    share: f64,
    octets: usize,
    options: &SourceOptions,
) -> Option<Losses> {
    run(&chain.r, &format!("tc qdisc add dev r1 root {queue}"));
    let source = opened(test, chain.a.enter(|| SourceNode::open("a0", options)).unwrap())?;
    let transit = chain.r.enter(|| TransitNode::open("r1", &TransitOptions::default())).unwrap().unwrap();
    let medium = chain.b.enter(|| LossyLink::open("b0", share, Some(&transit))).unwrap().unwrap();
    let options = SinkOptions { synced: true, ..SinkOptions::default() };
    let mut sink = chain.b.enter(|| SinkNode::open("b0", &options)).unwrap().unwrap();
    let node = chain
        .r
        .enter(|| {
            let mut transit = transit;
            (transit.report().unwrap(), transit)
        })
        .unwrap();
    assert_eq!(node.0.hops[0].limit_pkts, Some(limit / 1514));
    sink.node(&node.0);
    let reports = reports_of(&mut sink, || chain.transfer(PORT, octets));
    let queue = chain
        .r
        .enter(|| {
            let mut transit = node.1;
            (transit.report().unwrap(), transit)
        })
        .unwrap()
        .0;
    let (sent, taken) = (source.counters(), sink.counters());
    assert_eq!((sent.paused + sent.too_big, taken.ring_full), (0, 0), "{sent:?}");
    let dropped = queue.hops[0].qdrop.unwrap();
    Some(Losses {
        reports,
        headers: sent.inserted,
        sent: sent.packets,
        // What it loses may be a segment without data or of another protocol: what left and did not come is what it lost.
        medium: medium.counters().lost,
        queue: dropped.into(),
        arrived: taken.packets,
    })
}

#[test]
fn every_drop_of_a_full_queue_is_a_gap() {
    let test = "every_drop_of_a_full_queue_is_a_gap";
    let Some(run) = losses(test, 30_000, 0.0, 6 << 20) else { return };
    assert!(run.queue > 0 && run.medium == 0, "{}", run.queue);
    assert_eq!(run.sent - run.arrived, run.queue);
    let (lost, queue) = (run.sum(FlowReport::lost), run.sum(|report| report.lost_q));
    // What is lost behind the last arrival shows no gap.
    assert!(lost <= run.queue && lost + 3 >= run.queue, "{lost} of {}", run.queue);
    assert!(queue * 100 >= lost * 95, "{queue} of {lost}");
    assert_eq!(run.sum(|report| report.lost_m), 0);
}

/// A queue counts a buffer of segmentation offload that it drops as one; with small bursts it cuts buffers into packets first.
#[test]
fn drops_of_buffers_are_the_queues() {
    let test = "drops_of_buffers_are_the_queues";
    let lean = SourceOptions { ports: vec![PORT], patience: None, ..Default::default() };
    for (burst, profile, options) in [
        ("100k", "lean", &lean),
        ("10k", "lean", &lean),
        ("100k", "counted", &counted()),
        ("10k", "counted", &counted()),
    ] {
        let Some(chain) = Chain::new(test) else { return };
        let queue = format!("tbf rate 50mbit burst {burst} limit 90000");
        let Some(run) = losses_of(test, &chain, (&queue, 90_000), 0.0, 24 << 20, options) else { return };
        let (lost, queue) = (run.sum(FlowReport::lost), run.sum(|report| report.lost_q));
        let what = format!("{burst}, {profile}: {queue} of {lost}, {} counted", run.queue);
        assert!(lost > 0 && run.headers * 2 < run.sent, "{what}");
        assert!(queue * 100 >= lost * 97, "{what}");
        // In packets, as many as are missing; behind the last arrival nothing is.
        assert!(run.queue >= lost && run.queue <= lost + 64, "{what}");
    }
}

/// Numbers count the packets without a header too, and the sink those of them that come.
#[test]
fn every_loss_of_a_flow_whose_headers_are_sampled_is_counted() {
    let test = "every_loss_of_a_flow_whose_headers_are_sampled_is_counted";
    let sampled = |one_in, every| SourceOptions { one_in, every: Duration::from_millis(every), ..counted() };
    for (what, options) in [("each fourth", sampled(4, 0)), ("each 5 ms", sampled(1, 5))] {
        let Some(chain) = Chain::new(test) else { return };
        run(&chain.a, "ip link set a0 gso_max_segs 1");
        let queue = ("tbf rate 20mbit burst 3200 limit 30000", 30_000);
        let Some(run) = losses_of(test, &chain, queue, 0.01, 6 << 20, &options) else { return };
        let lost = run.sum(FlowReport::lost);
        let (queue, medium) = (run.sum(|report| report.lost_q), run.sum(|report| report.lost_m));
        let what = format!("{what}: {queue} of {}, {medium} of {}, {lost}", run.queue, run.medium);
        assert!(run.queue > 0 && run.medium > 10 && run.sent * 3 < (6 << 20) / 1356, "{what}, {}", run.sent);
        // What is lost behind the last header is not seen, and not in front of the first; handshake and end have no number.
        let gone = run.queue + run.medium;
        assert!(lost <= gone && lost + 20 >= gone, "{what}");
        assert!(queue * 100 >= run.queue * 90 && queue <= run.queue, "{what}");
    }
}

#[test]
fn every_loss_of_the_medium_is_a_gap() {
    let test = "every_loss_of_the_medium_is_a_gap";
    let Some(run) = losses(test, 1_000_000, 0.02, 3 << 20) else { return };
    assert!(run.queue == 0 && run.medium > 10, "{} {}", run.queue, run.medium);
    // Handshake and end have no header, and may be lost too.
    let gone = run.sent - run.arrived;
    assert!(gone <= run.medium && gone + 4 >= run.medium, "{gone} of {}", run.medium);
    let (lost, medium) = (run.sum(FlowReport::lost), run.sum(|report| report.lost_m));
    assert!(lost <= gone && lost + 3 >= gone, "{lost} of {gone}");
    assert!(medium * 100 >= lost * 95, "{medium} of {lost}");
    assert_eq!(run.sum(|report| report.lost_q), 0);
}
