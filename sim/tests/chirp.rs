//! Paced chirping in a closed loop: over an idle link the figures of a noise-free event model of its rules, within 20 %;
//! beside a greedy flow a share soon and little queue.

mod common;

use common::{Dumbbell, WIRE, bulk, share, variable};
use paceline_cc::{Rate, Time};
use paceline_sim::{Flow, Outcome, Via, Workload};

/// The controller's figures when the chirps have met, which ends the search.
struct Exit {
    ms: f64,
    gap_us: f64,
    chirps_a_round: f64,
    packets_sent: f64,
    packets_in_flight: f64,
}

fn run(controller: &str, mbps: f64, rtt: u64) -> Outcome {
    run_flow(bulk(controller, Via::Tcp), mbps, rtt)
}

fn run_flow(flow: Flow, mbps: f64, rtt: u64) -> Outcome {
    Dumbbell::new(mbps, rtt, vec![flow]).run(2)
}

/// The millisecond in which a variable of the controller, once 1, has become 0.
fn end_of(outcome: &Outcome, name: &str) -> usize {
    let values = variable(&outcome.series.as_ref().unwrap().flows[0], name);
    let first = values.iter().position(|value| *value == 1.0).expect("it begins");
    first + values[first..].iter().position(|value| *value == 0.0).expect("it ends")
}

fn exit(outcome: &Outcome) -> Exit {
    let flow = &outcome.series.as_ref().unwrap().flows[0];
    let end = end_of(outcome, "chirping");
    let at = |name: &str| variable(flow, name)[end];
    Exit {
        ms: end as f64,
        gap_us: at("chirp_gap_us"),
        chirps_a_round: at("chirps_a_round"),
        // Two chirps of 5 and of 8 packets, then of 16.
        packets_sent: 26.0 + 16.0 * (at("chirps") - 4.0),
        packets_in_flight: flow.in_flight_packets[end],
    }
}

/// Longest wait while the start-up was in charge, in packets at the rate of the link.
fn peak_queue(outcome: &Outcome, mbps: f64) -> f64 {
    let flow = &outcome.series.as_ref().unwrap().flows[0];
    let longest = flow.queue_max_ms[..=end_of(outcome, "starting")].iter().flatten().copied().fold(0.0, f64::max);
    longest * 1e3 * mbps / 8.0 / WIRE
}

fn near(what: &str, value: f64, want: f64) {
    assert!((value / want - 1.0).abs() < 0.2, "{what}: {value}, not {want}");
}

#[test]
fn an_idle_link_is_found_as_in_the_model() {
    for policy in ["dctcp", "cubic", "prague"] {
        let outcome = run(&format!("{policy}:start=chirp-q"), 100.0, 15);
        let exit = exit(&outcome);
        near("exit, ms", exit.ms, 93.0);
        near("gap, us", exit.gap_us, 132.0);
        assert_eq!(exit.chirps_a_round, 8.0);
        near("packets sent", exit.packets_sent, 335.0);
        near("packets in flight", exit.packets_in_flight, 101.0);
        // The model counts packets: those found, one of them half sent, and the one that arrives.
        let queue = peak_queue(&outcome, 100.0);
        near("packets at the bottleneck", queue.ceil() + 1.0, 4.0);
        assert!(share(&outcome, 0, 150, 1_000) > 0.9, "{policy}: the link is busy from the hand-over on");
        assert_eq!(outcome.flows[0].sender.packets_lost, 0);
    }
}

#[test]
fn the_time_of_the_exit_follows_the_model() {
    for (mbps, rtt, want) in [(120.0, 20, 121.0), (150.0, 15, 91.0), (100.0, 50, 351.0)] {
        near(&format!("{mbps} Mbit/s, {rtt} ms"), exit(&run("dctcp:start=chirp-q", mbps, rtt)).ms, want);
    }
    near("packets sent", exit(&run("dctcp:start=chirp-q", 120.0, 20)).packets_sent, 411.0);
    assert_eq!(exit(&run("dctcp:start=chirp-q", 100.0, 50)).chirps_a_round, 32.0);
}

#[test]
fn shared_acknowledgements_mislead_by_no_more_than_a_fifth_and_the_start_up_still_ends() {
    let flow = Flow { ack_every: 2, ..bulk("dctcp:start=chirp-q", Via::Tcp) };
    let exit = exit(&run_flow(flow, 100.0, 15));
    assert!(exit.gap_us > 0.8 * 120.0, "{} us, the link takes 120", exit.gap_us);
    assert!(exit.ms < 1.5 * 93.0, "{} ms", exit.ms);
}

#[test]
fn an_application_that_sends_little_does_not_stall() {
    let workload = Workload::Rate(Rate::from_mbps(1.0));
    let flow = Flow { workload, ..bulk("dctcp:start=chirp-q", Via::Tcp) };
    let outcome = run_flow(flow, 100.0, 15);
    let sent = outcome.series.as_ref().unwrap().flows[0].throughput_mbps[100..].iter().sum::<f64>() / 1_900.0;
    assert!((0.98..=1.1).contains(&sent), "{sent} Mbit/s");
}

/// Milliseconds until the first 100 ms in which a newcomer beside one greedy flow of `policy` has half its fair share, and
/// the longest wait of one of its packets in ms.
fn newcomer(policy: &str, start: &str) -> (usize, f64) {
    let newcomer = Flow { start: Time::from_millis(1_000), ..bulk(&format!("{policy}:start={start}"), Via::Tcp) };
    let queue = Some("step:threshold=1ms".parse().unwrap());
    let outcome = Dumbbell { queue, ..Dumbbell::new(100.0, 15, vec![bulk(policy, Via::Tcp), newcomer]) }.run(5);
    let half = (1_000..4_900).find(|&ms| share(&outcome, 1, ms, ms + 100) > 0.25).expect("it gets there");
    let waits = &outcome.series.as_ref().unwrap().flows[1].queue_max_ms;
    (half - 1_000, waits.iter().flatten().copied().fold(0.0, f64::max))
}

#[test]
fn a_newcomer_gets_its_share_three_times_sooner() {
    for policy in ["dctcp", "prague"] {
        let (slow, _) = newcomer(policy, "slow");
        let (chirped, queue) = newcomer(policy, "chirp-q");
        assert!(3 * chirped <= slow, "{policy}: {chirped} ms, with slow start {slow} ms");
        assert!(queue < 3.0, "{policy}: {queue} ms");
    }
}

#[test]
fn explore() {
    for (mbps, rtt) in [(100.0, 15), (120.0, 20), (150.0, 15), (100.0, 50), (10.0, 15)] {
        for start in ["chirp-p", "chirp-q", "chirp-r"] {
            for handshake in [false, true] {
                let flow = Flow { handshake, ..bulk(&format!("dctcp:start={start}"), Via::Tcp) };
                let outcome = run_flow(flow, mbps, rtt);
                let flow = &outcome.series.as_ref().unwrap().flows[0];
                let values = variable(flow, "chirping");
                let Some(first) = values.iter().position(|value| *value == 1.0) else { continue };
                let Some(end) = values[first..].iter().position(|value| *value == 0.0) else {
                    eprintln!("{start} {mbps} {rtt} {handshake}: never ends");
                    continue;
                };
                let end = first + end;
                let at = |name: &str| flow.variables.get(name).map_or(-1.0, |v| v[end].unwrap_or(-1.0));
                let chirps = at("chirps");
                let cwnd: Vec<f64> =
                    [0, 20, 60, 200].iter().map(|d| (variable(flow, "cwnd_packets")[end + d]).round()).collect();
                eprintln!(
                    "{start} {mbps} {rtt} hs={handshake}: {end} ms, gap {:.1}, load {:.1}, chirps {chirps}, pkts {}, M {}, in flight {}, peak {:.1}, lost {}, cwnd {cwnd:?}, first 10 {:.2} util {:.2}",
                    at("chirp_gap_us"),
                    at("chirp_load_us"),
                    26.0 + 16.0 * (chirps - 4.0),
                    at("chirps_a_round"),
                    flow.in_flight_packets[end],
                    peak_queue(&outcome, mbps),
                    outcome.flows[0].sender.packets_lost,
                    at("ssthresh_packets"),
                    share(&outcome, 0, end + 50, 1_000)
                );
                if mbps == 100.0 && rtt == 15 && start == "chirp-r" {
                    for ms in (0..end).step_by(5) {
                        let at = |name: &str| variable(flow, name)[ms];
                        eprintln!(
                            "   {ms}: gap {:.1} load {:.1} chirps {} inflight {}",
                            at("chirp_gap_us"),
                            at("chirp_load_us"),
                            at("chirps"),
                            flow.in_flight_packets[ms]
                        );
                    }
                }
            }
        }
    }
}
