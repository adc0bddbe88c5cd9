//! The controllers for the kernel, in the running kernel: each carries a flow over an emulated path.
#![cfg(target_os = "linux")]

mod path;

use std::io::Write;
use std::time::Duration;

use paceline_kernel::KernelHyStart;
use path::{Link, Outcome, beside, carry, load};
use socket2::Socket;

const SPAN: Duration = Duration::from_secs(5);

fn run(controller: &str, link: &Link) -> Outcome {
    carry(controller, link, SPAN, Duration::ZERO, |_| ())
}

/// The median of the smoothed RTT above the path's, in ms.
fn queue_ms(outcome: &Outcome, link: &Link) -> f64 {
    let mut queues: Vec<f64> = outcome.looks.iter().map(|look| look.rtt.as_millis_f64() - link.rtt_ms as f64).collect();
    queues.sort_unstable_by(f64::total_cmp);
    queues[queues.len() / 2]
}

/// Says what a flow got, in Mbit/s, and its queue in ms.
fn report(controller: &str, outcome: &Outcome, link: &Link) -> (f64, f64) {
    let (mbps, queue) = (outcome.mbps(SPAN), queue_ms(outcome, link));
    let resent = outcome.looks.last().map(|look| look.retransmits);
    let _ = writeln!(std::io::stderr(), "{controller}: {mbps:.2} Mbit/s, queue {queue:.2} ms, resent {resent:?}");
    (mbps, queue)
}

#[test]
fn each_carries_a_flow_through_losses() {
    let link = Link { mbps: 12.0, rtt_ms: 20, queue: "droptail:bytes=60kB", loss: 0.005 };
    let names = ["pl_cubic", "pl_dctcp", "pl_copa"];
    let Some(_held) = load("each_carries_a_flow_through_losses", &names) else { return };
    beside(names, |name| {
        let outcome = run(name, &link);
        let (mbps, _) = report(name, &outcome, &link);
        // Reno's law at this loss and RTT: 1.22 / sqrt(0.005) packets are 17, of which 20 ms carry 10 Mbit/s.
        assert!(mbps > 4.0, "{name}: {mbps} Mbit/s");
        let resent = outcome.looks.last().unwrap().retransmits;
        assert!(resent > 5, "{name}: {resent} packets resent");
    });
}

/// Most throughput in Mbit/s and least queue in ms of up to three runs, until one uses this share of the link: bursts of a busy machine make a queue.
fn best_of_three(name: &str, link: &Link, used: f64) -> (f64, f64) {
    let mut best = (0.0_f64, f64::INFINITY);
    for _ in 0..3 {
        let (mbps, queue) = report(name, &run(name, link), link);
        best = (best.0.max(mbps), best.1.min(queue));
        if best.0 > used * link.mbps * 1448.0 / 1500.0 {
            break;
        }
    }
    best
}

#[test]
fn dctcp_holds_the_queue_at_the_step() {
    let Some(_held) = load("dctcp_holds_the_queue_at_the_step", &["pl_dctcp"]) else { return };
    // A step that a busy machine's bursts seldom reach.
    let link = Link { mbps: 5.0, rtt_ms: 40, queue: "step:threshold=20ms,limit=500packets", loss: 0.0 };
    let both = beside(["pl_dctcp", "reno"], |name| best_of_three(name, &link, 0.9));
    let [(mbps, queue), (_, standing)] = both[..] else { panic!("two") };
    assert!(mbps > 0.9 * link.mbps * 1448.0 / 1500.0, "{mbps} Mbit/s");
    // The step, and the packets of a round trip that follow a mark.
    assert!(queue < 40.0, "{queue} ms");
    // Without ECN the same queue is a plain one of 1.2 s.
    assert!(standing > 5.0 * queue, "{queue} and {standing} ms");
}

#[test]
fn copa_has_a_shorter_queue_than_cubic() {
    let Some(_held) = load("copa_has_a_shorter_queue_than_cubic", &["pl_copa"]) else { return };
    let link = Link { mbps: 20.0, rtt_ms: 40, queue: "droptail:bytes=200kB", loss: 0.0 };
    let both = beside(["pl_copa", "cubic"], |name| best_of_three(name, &link, 0.8));
    let [(mbps, queue), (_, cubics)] = both[..] else { panic!("two") };
    assert!(mbps > 0.8 * link.mbps * 1448.0 / 1500.0, "{mbps} Mbit/s");
    // On a busy machine HyStart ends CUBIC's slow start early, and its queue is a fraction of the buffer.
    assert!(2.0 * queue < cubics, "{queue} and {cubics} ms");
}

/// Whether a flow of pl_cubic never had a threshold: without HyStart it comes from the first loss alone.
fn never(link: &Link, prepare: impl FnOnce(&Socket) + Send) -> bool {
    let outcome = carry("pl_cubic", link, Duration::from_secs(2), Duration::ZERO, prepare);
    outcome.looks.iter().all(|look| look.threshold().is_none())
}

#[test]
fn hystart_is_a_switch() {
    let Some(_held) = load("hystart_is_a_switch", &["pl_cubic"]) else { return };
    // Never full: two seconds of slow start send less than twice the 5 MB that the link carries.
    let link = Link { mbps: 20.0, rtt_ms: 100, queue: "droptail:bytes=50MB", loss: 0.0 };
    let of = |switch: Option<KernelHyStart>| {
        never(&link, move |socket| {
            if let Some(switch) = switch {
                switch.set(socket).unwrap();
            }
        })
    };
    let on = beside([None, Some(KernelHyStart::Off)], of);
    assert_eq!(on, [false, true], "on, as it is by default, and off for one flow");
    KernelHyStart::Off.set_for_all().unwrap();
    let off = beside([None, Some(KernelHyStart::On)], of);
    assert_eq!(off, [true, false], "off for all, and on for one flow");
}
