//! LEDBAT++ at the receiver (RFC 9840): as a window that is advertised to a sender, and at a requester of named content, which is where
//! data goes. 10 Mbit/s.

use crate::common::{Dumbbell, bulk, mean, share};
use paceline_cc::{Rate, Time};
use paceline_experiment::icn::Asking;
use paceline_experiment::{Flow, Outcome, Via, Workload};
use paceline_path::queue::QueueBound;

fn path(rtt_ms: u64, bdp: f64, flows: Vec<Flow>) -> Dumbbell {
    let packets = (bdp * 10e3 * rtt_ms as f64 / 8.0 / crate::common::WIRE) as u64;
    Dumbbell { limit: QueueBound::packets(packets), ..Dumbbell::new(10.0, rtt_ms, flows) }
}

fn asks(controller: &str) -> Flow {
    Flow::bulk(controller.parse().unwrap(), Via::icn(Asking::default()))
}

fn at(start_s: u64, flow: Flow) -> Flow {
    Flow { start: Time::from_millis(1_000 * start_s), ..flow }
}

fn queue_ms(outcome: &Outcome) -> f64 {
    let bytes = &outcome.series.as_ref().unwrap().queue_bytes[10_000..];
    mean(&bytes.iter().map(|bytes| *bytes as f64 * 8.0 / 10e3).collect::<Vec<_>>())
}

/// Throughput and queue are those of the sender that runs it itself, over Reno and over CUBIC.
#[test]
fn the_window_that_a_receiver_advertises_is_the_one_that_a_sender_would_have() {
    let mut seen = Vec::new();
    for rtt_ms in [10, 20, 50, 100, 150] {
        let run = |name: &str| {
            let outcome = path(rtt_ms, 400.0 / rtt_ms as f64, vec![bulk(name, Via::udp())]).run(60);
            (share(&outcome, 0, 10_000, 60_000), queue_ms(&outcome))
        };
        let sender = run("ledbat++");
        for over in ["rledbat:over=reno", "rledbat:over=cubic"] {
            seen.push((rtt_ms, over, run(over), sender));
        }
    }
    for (rtt_ms, over, (used, queue), (own, held)) in &seen {
        assert!((used / own - 1.0).abs() <= 0.1, "{rtt_ms} ms, {over}: {used} of {own}\n{seen:#?}");
        assert!((queue / held - 1.0).abs() <= 0.1, "{rtt_ms} ms, {over}: {queue} ms, {held} ms\n{seen:#?}");
    }
}

#[test]
fn it_gives_way_to_others() {
    for other in ["reno", "cubic"] {
        for flow in ["rledbat:over=cubic", "rledbat:over=reno"] {
            let outcome = path(20, 4.0, vec![bulk(flow, Via::udp()), bulk(other, Via::tcp(None))]).run(90);
            let own = share(&outcome, 0, 60_000, 90_000);
            assert!((0.01..=0.4).contains(&own), "{flow} beside {other}: {own}");
        }
    }
}

/// A requester that runs LEDBAT++ beside nine that do not has less than 40 % of what it and one of them have. Each unit is asked for once:
/// what is outstanding as its window falls is not withdrawn.
#[test]
fn a_requester_in_the_background_yields_and_withdraws_nothing() {
    let mut flows = vec![asks("ledbat++")];
    flows.extend((0..9).map(|_| asks("cubic")));
    let outcome = path(50, 2.0, flows).run(60);
    let shares: Vec<f64> = (0..10).map(|flow| share(&outcome, flow, 30_000, 60_000)).collect();
    let others = mean(&shares[1..]);
    assert!(shares[0] <= 0.4 * (shares[0] + others), "{shares:?}");

    let alone = path(50, 8.0, vec![asks("ledbat++")]).run(60);
    let flow = &alone.flows[0];
    // What was asked for last is on its way as the run ends.
    let on_its_way = flow.sender.packets_sent - flow.packets_entered;
    assert!(flow.sender.retransmits == 0 && on_its_way < 100, "{on_its_way}, {:?}", flow.sender);
    let used = share(&alone, 0, 10_000, 60_000);
    assert!(used >= 0.85 && queue_ms(&alone) <= 60.0, "{used}, {} ms", queue_ms(&alone));
}

/// What needs less than is advertised has what it would have without.
#[test]
fn a_window_that_is_large_enough_changes_nothing() {
    let video = |name: &str| {
        let flow = Flow { workload: Workload::Rate(Rate::from_mbps(0.5)), ..bulk(name, Via::udp()) };
        let outcome = path(20, 4.0, vec![flow]).run(30);
        (outcome.flows[0].bytes_ready, outcome.flows[0].sender.packets_sent)
    };
    assert_eq!(video("rledbat:over=cubic"), video("cubic"));
}

/// Two requesters, the second 20 s later: both know the path.
#[test]
fn a_later_requester_takes_its_part() {
    let outcome = path(50, 4.0, vec![asks("ledbat++"), at(20, asks("ledbat++"))]).run(90);
    let [first, second] = [0, 1].map(|flow| share(&outcome, flow, 60_000, 90_000));
    assert!((0.4..=0.6).contains(&(second / (first + second))), "{first} and {second}");
}
