//! Our own paced chirping in a closed loop: the same few packets of queue at any rate, whatever the acknowledgements,
//! losses and order; a newcomer's share soon; what a silence leaves standing; and what a rival keeps.

use crate::common::{Dumbbell, RandomLoss, WIRE, bulk, share, variable};
use paceline_cc::{Bytes, Nanos, Time};
use paceline_experiment::{Flow, OnOff, Outcome, Timing, Via, Workload};
use paceline_path::reorder::{Holding, Reorder};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// A bulk flow over TCP after a handshake.
fn flow(controller: &str) -> Flow {
    Flow { handshake: true, ..bulk(controller, Via::tcp(None)) }
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

/// Mbit/s of a flow that sends for `on` and is silent for `off` ms, over 50 Mbit/s and 40 ms.
fn on_off(controller: &str, queue: &str, on: u64, off: u64) -> f64 {
    let (on, off) = (Nanos::from_millis(on), Nanos::from_millis(off));
    let workload = Workload::OnOff(OnOff { on, off, random: false });
    let queue = Some(queue.parse().unwrap());
    let outcome = Dumbbell { queue, ..Dumbbell::new(50.0, 40, vec![Flow { workload, ..flow(controller) }]) }.run(20);
    outcome.flows[0].bytes_ready as f64 * 8.0 / 20e6
}

#[test]
fn a_silence_leaves_standing_what_was_in_use() {
    for (on, off) in [(50, 500), (100, 1_000), (200, 1_800), (300, 3_700), (500, 500), (2_000, 2_000)] {
        for (policy, queue) in [
            ("cubic", "droptail:bdp=1"),
            ("reno", "codel"),
            ("bic", "droptail:bdp=1"),
            ("dctcp", "step:threshold=1ms"),
            ("prague", "dualpi2"),
        ] {
            let of = |start| on_off(&format!("{policy}:start={start}"), queue, on, off);
            let (chirped, slow) = (of("chirp"), of("slow"));
            assert!(chirped >= 0.95 * slow, "{policy} over {queue}, {on}/{off} ms: {chirped}, with slow start {slow}");
        }
    }
    // Five round trips a burst: the share of time is a tenth, and from the second burst on most of it is used.
    let (chirped, slow) = (on_off("cubic:start=chirp", "droptail:bdp=1", 200, 1_800), 0.1 * 50.0);
    assert!(chirped > 0.8 * slow, "{chirped} of {slow}");
}

/// Mbit/s of a flow and of its rival, a mean over starts within half a second.
fn beside(own: &str, rival: &str, queue: &str, rtt: u64, seconds: u64) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for phase in 0..3 {
        let at = |controller: &str, ms: u64| Flow { start: Time::from_millis(ms % 500), ..flow(controller) };
        let flows = vec![at(own, 11 + 137 * phase), at(rival, 97 + 211 * phase)];
        let queue = Some(queue.parse().unwrap());
        let outcome = Dumbbell { queue, ..Dumbbell::new(100.0, rtt, flows) }.run(seconds);
        let mbps = |flow: usize| outcome.flows[flow].bytes_ready as f64 * 8e-6 / seconds as f64 / 3.0;
        sums = (sums.0 + mbps(0), sums.1 + mbps(1));
    }
    sums
}

#[test]
fn it_hands_over_once_and_a_rival_keeps_its_share() {
    for queue in ["dualpi2", "step:threshold=1ms", "codel"] {
        for policy in ["prague", "dctcp", "cubic"] {
            for (rival, rtt) in [("cubic", 5), ("cubic", 10), ("dctcp", 2), ("prague", 10)] {
                let of = |start| beside(&format!("{policy}:start={start}"), rival, queue, rtt, 12);
                let ((_, slow), (own, chirped)) = (of("slow"), of("chirp"));
                // Where slow start leaves its flow short of half for seconds, the rival keeps its own half.
                let fair = slow.min((own + chirped) / 2.0);
                assert!(
                    chirped >= 0.8 * fair,
                    "{policy} over {queue}, {rtt} ms: {rival} has {chirped} Mbit/s beside {own}, with slow start {slow}"
                );
            }
        }
    }
}

/// Mbit/s of a rival in its first `seconds` over 100 Mbit/s and this RTT, beside a flow that begins `earlier` and a mean over starts within half
/// a second.
fn newcomer_beside(own: &str, rival: &str, queue: &str, rtt: u64, earlier: u64, seconds: u64) -> f64 {
    let phases = [97, 308, 419].map(|phase| {
        let at = 1_000 * earlier + phase;
        let late = Flow { start: Time::from_millis(at), ..flow(rival) };
        let queue = Some(queue.parse().unwrap());
        let outcome = Dumbbell { queue, ..Dumbbell::new(100.0, rtt, vec![flow(own), late]) }.run(earlier + seconds + 1);
        100.0 * share(&outcome, 1, at as usize, at as usize + 1_000 * seconds as usize)
    });
    phases.iter().sum::<f64>() / 3.0
}

/// Where round trips are long, two flows of slow start that leave it early share a link that is half empty for seconds. A start that fills the link
/// leaves a rival what every newcomer has beside a flow that has filled it.
#[test]
fn a_rival_has_what_it_has_beside_slow_start_that_has_converged() {
    for (policy, rival, queue, rtt) in [
        ("prague", "cubic", "dualpi2", 40),
        ("prague", "dctcp", "step:threshold=1ms", 40),
        ("dctcp", "dctcp", "step:threshold=1ms", 40),
        ("dctcp", "dctcp", "step:threshold=1ms", 20),
        ("cubic", "cubic", "codel", 40),
    ] {
        let chirped = newcomer_beside(&format!("{policy}:start=chirp"), rival, queue, rtt, 0, 12);
        let slow = newcomer_beside(&format!("{policy}:start=slow"), rival, queue, rtt, 20, 12);
        println!(
            "{policy} over {queue}, {rtt} ms: {rival} has {chirped:.1} Mbit/s, beside one that was there before {slow:.1}"
        );
        assert!(
            chirped >= 0.8 * slow,
            "{policy} over {queue}, {rtt} ms: {rival} has {chirped:.1} Mbit/s, beside one that was there before {slow:.1}"
        );
    }
}

#[test]
fn it_chirps_again_when_another_flow_has_left_if_asked() {
    let run = |again: &str| {
        let spec = format!("dctcp:start=chirp,chirp_again={again}");
        let leaves = Flow { stop: Some(Time::from_millis(4_000)), ..flow(&spec) };
        let queue = Some("step:threshold=1ms".parse().unwrap());
        let outcome = Dumbbell { queue, ..Dumbbell::new(100.0, 50, vec![flow(&spec), leaves]) }.run(9);
        share(&outcome, 0, 4_500, 9_000)
    };
    let (again, once) = (run("on"), run("off"));
    assert!(again > 0.9 && again > once + 0.1, "{again}, without {once}");
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
