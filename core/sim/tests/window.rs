//! Reno, CUBIC and DCTCP in a closed loop, over a TCP flow each that the controller drives itself.
//!
//! Figures come from the response functions of RFC 9438 (section 5.1) and RFC 5681, and from the fluid model of DCTCP
//! (Alizadeh et al., SIGCOMM 2010, section 3.3); tolerances stand beside each figure.

use crate::common::{Dumbbell, PeriodicLoss, bulk, jain, mean, share, span, variable};
use paceline_cc::Nanos;
use paceline_experiment::{Flow, OnOff, Outcome, Timing, Via, Workload};
use paceline_path::queue::QueueBound;

fn tcp(controller: &str) -> Flow {
    bulk(controller, Via::tcp(None))
}

/// One flow over 100 Mbit/s and a drop-tail queue of one BDP.
fn one_bdp(controller: &str, rtt: u64, seconds: u64) -> Outcome {
    let limit = QueueBound { bdp: Some(1.0), ..QueueBound::NONE };
    Dumbbell { limit, ..Dumbbell::new(100.0, rtt, vec![tcp(controller)]) }.run(seconds)
}

/// The queueing delays of the packets that arrived in a span, the largest of each millisecond.
fn queue_ms(outcome: &Outcome, from_ms: usize, to_ms: usize) -> Vec<f64> {
    let flow = &outcome.series.as_ref().unwrap().flows[0];
    flow.queue_max_ms[from_ms..to_ms].iter().flatten().copied().collect()
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The controller's own window over time, which recovery does not bend.
fn window(outcome: &Outcome) -> Vec<f64> {
    variable(&outcome.series.as_ref().unwrap().flows[0], "cwnd_packets")
}

/// What is left of the window after each reduction, as a share.
fn reductions(window: &[f64]) -> Vec<f64> {
    window.windows(2).map(|pair| pair[1] / pair[0]).filter(|share| *share < 0.95).collect()
}

#[test]
fn cubic_keeps_a_link_busy_with_one_bdp_of_queue() {
    let outcome = one_bdp("cubic", 50, 60);
    let used = share(&outcome, 0, 5_000, 60_000);
    assert!(used > 0.95, "{used}");
    let largest = max(&queue_ms(&outcome, 5_000, 60_000));
    assert!((45.0..=50.2).contains(&largest), "{largest} ms");
    let left = reductions(&window(&outcome)[5_000..]);
    assert!(left.len() >= 3, "{left:?}");
    assert!(left.iter().all(|share| (share - 0.7).abs() < 0.01), "{left:?}");
    assert_eq!(outcome.flows[0].sender.timeouts, 0);
}

#[test]
fn reno_keeps_a_link_busy_with_one_bdp_of_queue() {
    let outcome = one_bdp("reno", 50, 60);
    let used = share(&outcome, 0, 10_000, 60_000);
    assert!(used > 0.95, "{used}");
    let left = reductions(&window(&outcome)[10_000..]);
    assert!(!left.is_empty() && left.iter().all(|share| (share - 0.5).abs() < 0.02), "{left:?}");
}

#[test]
fn hystart_leaves_before_the_queue_overflows() {
    let lost = |start: &str| {
        let outcome = one_bdp(&format!("cubic:start={start}"), 50, 2);
        assert!(share(&outcome, 0, 1_000, 2_000) > 0.9, "{start}: slow to start");
        outcome.flows[0].sender.packets_lost
    };
    // Slow start doubles a window of two BDP, 833 packets, before it learns of the first loss; a rise of the delay is
    // seen before.
    let (slow, hystart, plus_plus) = (lost("slow"), lost("hystart"), lost("hystart++"));
    assert!(slow > 400, "{slow}");
    assert!(hystart < slow / 5, "{hystart} of {slow}");
    assert!(plus_plus < slow, "{plus_plus} of {slow}");
}

/// Mean window in packets when every `period`-th packet is lost, over a link that is never full.
fn window_under_loss(controller: &str, rtt: u64, period: u64, seconds: u64) -> f64 {
    let loss = PeriodicLoss { period, passed: 0 };
    let world = Dumbbell { before: Some(Box::new(loss)), ..Dumbbell::new(200.0, rtt, vec![tcp(controller)]) };
    let outcome = world.run(seconds);
    let from = seconds as usize * 500;
    mean(&span(&window(&outcome), from, seconds as usize * 1_000))
}

#[test]
fn reno_follows_the_square_root_law() {
    for period in [400, 2_500] {
        let expected = (1.5 * period as f64).sqrt();
        let window = window_under_loss("reno", 100, period, 200);
        assert!((window / expected - 1.0).abs() < 0.1, "loss 1/{period}: {window} packets, not {expected}");
    }
}

#[test]
fn cubic_follows_its_response_function() {
    // RFC 9438, equation 5 with C = 0.4 and beta = 0.7: 1.054 RTT^0.75 / p^0.75. It knows no fast convergence.
    for (rtt, period, expected) in [(100, 10_000, 187.0), (200, 3_000, 128.0)] {
        let window = window_under_loss("cubic:fast_convergence=off", rtt, period, 400);
        assert!((window / expected - 1.0).abs() < 0.12, "{rtt} ms, loss 1/{period}: {window} packets, not {expected}");
    }
}

#[test]
fn cubic_is_reno_on_short_paths() {
    // 10 ms and a loss of 1/1000: the cubic curve alone would give 6 packets.
    let reno = window_under_loss("reno", 10, 1_000, 60);
    let cubic = window_under_loss("cubic", 10, 1_000, 60);
    assert!((0.9..=1.25).contains(&(cubic / reno)), "{cubic} packets, Reno {reno}");
    let alone = window_under_loss("cubic:reno_friendly=off", 10, 1_000, 60);
    assert!(alone < reno / 2.0, "{alone} packets, Reno {reno}");
}

#[test]
fn two_like_flows_share_equally() {
    for controller in ["reno", "cubic"] {
        let limit = QueueBound { bdp: Some(1.0), ..QueueBound::NONE };
        let late = Flow { start: paceline_cc::Time::from_millis(3_000), ..tcp(controller) };
        let outcome = Dumbbell { limit, ..Dumbbell::new(50.0, 20, vec![tcp(controller), late]) }.run(120);
        let shares: Vec<f64> = (0..2).map(|flow| share(&outcome, flow, 40_000, 120_000)).collect();
        assert!(jain(&shares) > 0.95, "{controller}: {shares:?}");
        assert!(shares.iter().sum::<f64>() > 0.95, "{controller}: {shares:?}");
    }
}

fn dctcp(controller: &str, step: &str, seconds: u64) -> Outcome {
    let queue = Some(step.parse().unwrap());
    Dumbbell { queue, ..Dumbbell::new(100.0, 15, vec![tcp(controller)]) }.run(seconds)
}

#[test]
fn dctcp_holds_the_queue_at_the_step_and_the_link_busy() {
    for controller in ["dctcp", "dctcp:arith=linux"] {
        let outcome = dctcp(controller, "step:threshold=1ms", 20);
        let used = share(&outcome, 0, 2_000, 20_000);
        assert!(used > 0.95, "{controller}: {used}");
        let queue = queue_ms(&outcome, 2_000, 20_000);
        assert!((0.4..=1.2).contains(&mean(&queue)), "{controller}: {} ms", mean(&queue));
        assert!(max(&queue) < 2.0, "{controller}: {} ms", max(&queue));
        assert_eq!(outcome.flows[0].sender.packets_lost, 0, "{controller}");
    }
}

#[test]
fn prague_holds_the_queue_at_the_step_and_the_link_busy() {
    let outcome = dctcp("prague", "step:threshold=1ms", 20);
    let used = share(&outcome, 0, 2_000, 20_000);
    assert!(used > 0.95, "{used}");
    let queue = queue_ms(&outcome, 2_000, 20_000);
    assert!(max(&queue) < 1.5, "{} ms", max(&queue));
    assert_eq!(outcome.flows[0].sender.packets_lost, 0);
}

/// A packet takes 1 ms to send, which is the step: by the RFC's exemption of a packet that is alone, marks would come with
/// the packets of two flows that meet, as many to the slow flow as to the fast one.
#[test]
fn two_prague_flows_share_a_link_where_a_packet_takes_as_long_as_the_step() {
    for (th_len, shares) in [(0, 0.97..=1.03), (1, 1.7..=3.0)] {
        let queue = Some(format!("dualpi2:th_len={th_len}").parse().unwrap());
        let outcome = Dumbbell { queue, ..Dumbbell::new(12.0, 100, vec![tcp("prague"), tcp("prague")]) }.run(60);
        let (one, other) = (share(&outcome, 0, 20_000, 60_000), share(&outcome, 1, 20_000, 60_000));
        assert!(shares.contains(&(one.max(other) / one.min(other))), "th_len={th_len}: {one} and {other}");
        assert!(one + other > 0.9, "th_len={th_len}: {one} and {other}");
    }
}

/// What a low-latency packet meets on a slow link is mostly a packet of the other queue on the wire.
#[test]
fn prague_keeps_its_part_of_a_slow_link_beside_cubic() {
    for mbps in [2.0, 4.0, 8.0] {
        for rtt in [10, 50] {
            let queue = Some("dualpi2".parse().unwrap());
            let outcome = Dumbbell { queue, ..Dumbbell::new(mbps, rtt, vec![tcp("prague"), tcp("cubic")]) }.run(60);
            let (own, other) = (share(&outcome, 0, 10_000, 60_000), share(&outcome, 1, 10_000, 60_000));
            assert!(own > 0.35 && other > 0.35, "{mbps} Mbit/s, {rtt} ms: {own} and {other}");
        }
    }
}

/// RFC 5681 section 4.1 in Linux's form: the window halves for each time-out of silence, before the first packet leaves.
#[test]
fn after_a_silence_a_reduced_window_leaves() {
    for controller in ["reno", "cubic", "bic", "dctcp"] {
        let bursts = OnOff { on: Nanos::from_millis(1_500), off: Nanos::from_millis(1_000), random: false };
        let flow = Flow { workload: Workload::OnOff(bursts), ..tcp(controller) };
        let outcome = Dumbbell {
            limit: QueueBound { bdp: Some(1.0), ..QueueBound::NONE },
            ..Dumbbell::new(20.0, 40, vec![flow])
        }
        .run(4);
        let in_flight = &outcome.series.as_ref().unwrap().flows[0].in_flight_packets;
        let most = |from: usize, to: usize| in_flight[from..to].iter().copied().fold(0.0, f64::max);
        assert!(most(1_000, 1_500) > 30.0, "{controller} has little to restart from: {}", most(1_000, 1_500));
        let restarted = most(2_500, 2_535);
        // Three time-outs of a third of a second at least: 134 packets are all that the path holds.
        assert!((1.0..=134.0 / 8.0).contains(&restarted), "{controller}: {restarted} packets");
    }
}

#[test]
fn dctcp_swings_as_its_fluid_model_by_two_cuts() {
    let queue = Some("step:threshold=2.55ms".parse().unwrap());
    let exact = Flow { timers: Timing::Exact, ..tcp("dctcp") };
    let outcome = Dumbbell { queue, ..Dumbbell::new(100.0, 15, vec![exact]) }.run(20);
    // B = C RTT + K = 125 + 21 packets. In the model one cut answers the packets of a round trip that are marked, at once:
    // alpha = sqrt(2/B), and the window swings by sqrt(2B)/2. A cut that is spread over a round trip (PRR) lets marks go on, so
    // that a second one follows, each time, a round trip after the first: the window swings by B alpha, twice as much, and one round
    // trip in B alpha is marked, hence alpha = sqrt(1/B) and a swing of sqrt(B). Between the extremes of 15 s it is 9 % more.
    let b = 146.0_f64;
    let flow = &outcome.series.as_ref().unwrap().flows[0];
    let alpha = mean(&span(&variable(flow, "alpha"), 5_000, 20_000));
    assert!((alpha / (1.0 / b).sqrt() - 1.0).abs() < 0.05, "alpha {alpha}");
    let window = span(&window(&outcome), 5_000, 20_000);
    let swing = max(&window) - window.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((swing / b.sqrt() - 1.0).abs() < 0.15, "the window swings by {swing} packets");
    let cuts: Vec<usize> = (1..window.len()).filter(|ms| window[*ms] < window[*ms - 1] - 1.0).collect();
    let pairs = cuts.windows(2).filter(|pair| pair[1] - pair[0] < 20).count();
    assert!(cuts.len() > 100 && pairs.abs_diff(cuts.len() / 2) <= 1, "{pairs} pairs of {} cuts", cuts.len());
    assert!(share(&outcome, 0, 5_000, 20_000) > 0.999, "the queue never empties");
}
