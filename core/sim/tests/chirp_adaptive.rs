//! Our own paced chirping in a closed loop: the same few packets of queue at any rate, whatever the acknowledgements,
//! losses and order; a newcomer's share soon; again after a silence and after another flow has left.

use crate::common::{Dumbbell, RandomLoss, WIRE, bulk, share, variable};
use paceline_cc::{Bytes, Nanos, Time};
use paceline_experiment::{Flow, OnOff, Outcome, Timing, Via, Workload};
use paceline_path::reorder::{Holding, Reorder};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// A bulk flow over TCP after a handshake.
fn flow(controller: &str) -> Flow {
    Flow { handshake: true, ..bulk(controller, Via::Tcp(None)) }
}

/// Milliseconds until the start-up has handed over.
fn end(outcome: &Outcome, flow: usize) -> f64 {
    let starting = variable(&outcome.series.as_ref().unwrap().flows[flow], "starting");
    starting.iter().position(|value| *value == 0.0).unwrap_or(starting.len()) as f64
}

/// Longest wait in packets at `mbps` until the start-up has handed over.
fn peak(outcome: &Outcome, mbps: f64) -> f64 {
    let waits = &outcome.series.as_ref().unwrap().flows[0].queue_max_ms;
    let until = (end(outcome, 0) as usize).min(waits.len() - 1);
    waits[..=until].iter().flatten().copied().fold(0.0, f64::max) * 1e3 * mbps / 8.0 / WIRE
}

#[test]
fn the_queue_of_a_start_is_the_same_at_any_rate() {
    for policy in ["dctcp", "prague", "cubic"] {
        for mbps in [10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0] {
            let outcome = Dumbbell::new(mbps, 15, vec![flow(&format!("{policy}:start=chirp"))]).run(1);
            // The opening bursts: four of five packets wait.
            let peak = peak(&outcome, mbps);
            assert!((peak / 4.0 - 1.0).abs() < 0.2, "{policy}, {mbps} Mbit/s: {peak} packets");
            assert!(end(&outcome, 0) < 20.0 * 15.0, "{policy}, {mbps} Mbit/s: {} ms", end(&outcome, 0));
            let used = share(&outcome, 0, 400, 1_000);
            assert!(used > 0.9, "{policy}, {mbps} Mbit/s: {used} used");
        }
    }
}

#[test]
fn delayed_and_stretched_acknowledgements_a_host_s_timers_and_no_handshake_change_little() {
    let plain = || flow("dctcp:start=chirp");
    let run = |flow| Dumbbell::new(100.0, 15, vec![flow]).run(2);
    let clean = run(plain());
    for (what, flow) in [
        ("2:1", Flow { ack_every: 2, ..plain() }),
        ("4:1", Flow { ack_every: 4, ..plain() }),
        ("8:1", Flow { ack_every: 8, ..plain() }),
        ("4:1 with arrivals", Flow { ack_every: 4, arrivals: true, ..plain() }),
        ("a host's timers", Flow { timers: Timing::Host, ..plain() }),
        ("no handshake", Flow { handshake: false, ..plain() }),
    ] {
        let outcome = run(flow);
        let (ratio, queue) = (end(&outcome, 0) / end(&clean, 0), peak(&outcome, 100.0) / peak(&clean, 100.0));
        assert!(ratio < 1.4, "{what}: ends after {ratio} of the clean time");
        assert!(queue < 3.0, "{what}: {queue} of the clean queue");
    }
}

#[test]
fn loss_and_disorder_end_it_early_or_not_at_all() {
    let clean = Dumbbell::new(100.0, 15, vec![flow("cubic:start=chirp")]).run(2);
    let lossy = RandomLoss { probability: 0.01, rng: Pcg64::seed_from_u64(3) };
    let lossy = Dumbbell { before: Some(Box::new(lossy)), ..Dumbbell::new(100.0, 15, vec![flow("cubic:start=chirp")]) };
    let reorder = Reorder { share: 0.05, delay: Nanos::from_micros(500) };
    let holding = Dumbbell {
        delay: Some(Box::new(Holding::new(reorder, 3))),
        // The delay behind the bottleneck is replaced, so all of the RTT is on the way back.
        ..Dumbbell::new(100.0, 30, vec![flow("cubic:start=chirp")])
    };
    for (what, world) in [("1 % loss", lossy), ("5 % reordering", holding)] {
        let outcome = world.run(2);
        let (ratio, queue) = (end(&outcome, 0) / end(&clean, 0), peak(&outcome, 100.0) / peak(&clean, 100.0));
        assert!(ratio < 1.4, "{what}: ends after {ratio} of the clean time");
        assert!(queue < 3.0, "{what}: {queue} of the clean queue");
        assert!(outcome.flows[0].bytes_ready > 1_000_000, "{what}: stalls");
    }
}

/// Milliseconds until the first 100 ms in which a newcomer beside a greedy flow has half its fair share, and its longest
/// wait in ms.
fn newcomer(policy: &str, start: &str, queue: &str, at: u64) -> (f64, f64) {
    let second = Flow { start: Time::from_millis(at), ..flow(&format!("{policy}:start={start}")) };
    let queue = Some(queue.parse().unwrap());
    let outcome = Dumbbell { queue, ..Dumbbell::new(100.0, 15, vec![flow(policy), second]) }.run(4);
    let at = at as usize;
    let half = (at..3_900).find(|&ms| share(&outcome, 1, ms, ms + 100) > 0.25).unwrap_or(3_900);
    let waits = &outcome.series.as_ref().unwrap().flows[1].queue_max_ms[at..at + 1_000];
    ((half - at) as f64, waits.iter().flatten().copied().fold(0.0, f64::max))
}

#[test]
fn a_newcomer_gets_its_share_three_times_sooner() {
    for (policy, queue) in [("dctcp", "step:threshold=1ms"), ("prague", "dualpi2")] {
        let median = |start| {
            // Over the phases of the greedy flow's sawtooth.
            let mut runs: Vec<_> = (0..9).map(|run| newcomer(policy, start, queue, 1_500 + 17 * run)).collect();
            let mut half: Vec<f64> = runs.iter().map(|(half, _)| *half).collect();
            half.sort_by(f64::total_cmp);
            runs.sort_by(|a, b| a.1.total_cmp(&b.1));
            (half[4], runs[4].1)
        };
        let (slow, _) = median("slow");
        let (chirped, queue) = median("chirp");
        assert!(3.0 * chirped <= slow, "{policy}: {chirped} ms, with slow start {slow} ms");
        assert!(queue < 3.0, "{policy}: {queue} ms");
    }
}

#[test]
fn it_begins_again_after_a_silence() {
    let on_off = Workload::OnOff(OnOff { on: Nanos::from_millis(400), off: Nanos::from_millis(600), random: false });
    let run = |start: &str| {
        let flow = Flow { workload: on_off.clone(), ..flow(&format!("dctcp:start={start}")) };
        let queue = Some("step:threshold=1ms".parse().unwrap());
        Dumbbell { queue, ..Dumbbell::new(100.0, 50, vec![flow]) }.run(3)
    };
    let second = |outcome: &Outcome| share(outcome, 0, 1_000, 1_500);
    let (chirped, slow) = (run("chirp"), run("slow"));
    assert!(second(&chirped) > 1.2 * second(&slow), "{} against {}", second(&chirped), second(&slow));
}

#[test]
fn it_begins_again_when_another_flow_has_left() {
    let run = |start: &str| {
        let leaves = Flow { stop: Some(Time::from_millis(4_000)), ..flow(&format!("dctcp:start={start}")) };
        let queue = Some("step:threshold=1ms".parse().unwrap());
        Dumbbell { queue, ..Dumbbell::new(100.0, 50, vec![flow(&format!("dctcp:start={start}")), leaves]) }.run(9)
    };
    let after = |outcome: &Outcome| share(outcome, 0, 4_500, 9_000);
    let (chirped, slow) = (run("chirp"), run("slow"));
    assert!(after(&chirped) > 0.9, "{}", after(&chirped));
    assert!(after(&chirped) > 2.0 * after(&slow), "{}, with slow start {}", after(&chirped), after(&slow));
    let once = run("chirp,chirp_again=off");
    assert!(after(&chirped) > after(&once) + 0.1, "{}, without {}", after(&chirped), after(&once));
}

#[test]
fn any_amount_of_data_is_delivered() {
    for packets in 1..60u64 {
        let workload = Workload::Bytes(Bytes(packets * 1_448 - 700));
        let outcome = Dumbbell::new(100.0, 15, vec![Flow { workload, ..flow("prague:start=chirp") }]).run(1);
        assert_eq!(outcome.flows[0].completions.len(), 1, "{packets} packets");
        let ms = outcome.flows[0].completions[0].1.as_millis_f64();
        assert!(ms < 15.0 * 6.0, "{packets} packets take {ms} ms");
    }
}
