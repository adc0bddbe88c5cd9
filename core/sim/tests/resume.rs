//! Careful Resume in a closed loop, over a satellite's path: 20 Mbit/s, RTT 600 ms, a queue of one product unless said.

use crate::common::{Dumbbell, bulk, share, variable};
use paceline_cc::observe::Observer;
use paceline_cc::{Bytes, Nanos, Remembered};
use paceline_experiment::{Cut, Flow, Outcome, Poisson, Subject, Tap, Via, Workload};
use paceline_path::queue::QueueBound;

/// Bytes of payload that the path holds without a queue.
const PRODUCT: u64 = 1_448_000;

/// What was learnt half a minute before, `factor` of the truth.
fn earlier(factor: f64) -> Option<Remembered> {
    let window = (factor * PRODUCT as f64) as u64;
    Some(Remembered::new(window, Nanos::from_millis(600), Nanos::from_secs(30)))
}

fn flow(controller: &str, via: Via, remembered: Option<Remembered>, workload: Workload) -> Flow {
    Flow { handshake: true, remembered, workload, ..bulk(controller, via) }
}

fn path(flow: Flow) -> Dumbbell {
    Dumbbell { limit: QueueBound::packets(PRODUCT / 1_448), ..Dumbbell::new(20.0, 600, vec![flow]) }
}

/// Seconds that a download takes.
fn takes(controller: &str, remembered: Option<Remembered>, bytes: u64) -> f64 {
    let flow = flow(controller, Via::tcp(None), remembered, Workload::Bytes(Bytes(bytes)));
    path(flow).run(60).flows[0].completions[0].1.as_secs_f64()
}

/// The phases in their order.
fn phases(outcome: &Outcome) -> Vec<u32> {
    let mut phases: Vec<u32> = variable(&outcome.series.as_ref().unwrap().flows[0], "resume_phase")
        .iter()
        .map(|phase| *phase as u32)
        .collect();
    phases.dedup();
    phases
}

#[test]
fn a_short_download_takes_two_thirds_of_the_time_at_most() {
    for bytes in [500_000, 1_000_000, 2_000_000, 5_000_000] {
        let slow = takes("cubic:start=slow", None, bytes);
        let resumed = takes("cubic:start=resume", earlier(1.0), bytes);
        assert!(resumed < 0.65 * slow, "{bytes} bytes: {resumed} and {slow} s");
        assert_eq!(takes("cubic:start=resume", None, bytes), slow, "without anything remembered");
    }
}

#[test]
fn what_was_remembered_too_high_or_too_low_does_no_lasting_harm() {
    for via in [Via::tcp(None), Via::udp()] {
        let run = |factor| path(flow("cubic:start=resume", via.clone(), earlier(factor), Workload::Bulk)).run(30);
        let plain = path(flow("cubic:start=slow", via.clone(), None, Workload::Bulk)).run(30);
        let lost = |outcome: &Outcome| outcome.flows[0].sender.packets_lost;
        for (factor, least) in [(0.25, 0.75), (1.0, 0.99), (4.0, 0.99), (16.0, 0.85)] {
            let outcome = run(factor);
            let used = share(&outcome, 0, 5_000, 30_000);
            assert!(used >= least, "{factor} of the truth: {used} of the link");
            assert_eq!(outcome.flows[0].sender.timeouts, 0, "{factor}");
            let retreats = if factor > 4.0 { vec![1, 2, 3, 4, 0] } else { vec![1, 2, 3, 0] };
            assert_eq!(phases(&outcome), retreats, "{factor}");
        }
        assert!(lost(&run(1.0)) < lost(&plain) / 10, "{} and {}", lost(&run(1.0)), lost(&plain));
    }
}

/// What each flow of a world is given.
#[derive(Default)]
struct Given(Vec<Option<Remembered>>);

impl Tap for Given {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        self.0.push(of.env.remembered);
        None
    }
}

/// What twelve flows of two megabytes to one place are given, so far apart.
fn family(mean_gap: Nanos, remember: bool, remembered: Option<Remembered>) -> Vec<Option<Remembered>> {
    let (min, max) = (Bytes(2_000_000), Bytes(2_000_001));
    let family = Poisson { mean_gap, alpha: 1.2, min, max, scale: None, cut: Cut::Truncate, count: Some(12) };
    let one = flow("reno:start=resume", Via::tcp(None), remembered, Workload::Poisson(family));
    let mut given = Given::default();
    path(Flow { remember, ..one }).watch(150, Some(&mut given));
    given.0
}

#[test]
fn what_a_flow_learns_is_lent_to_the_next_and_to_one_at_a_time() {
    let seldom = family(Nanos::from_secs(10), true, None);
    assert_eq!(seldom[0], None);
    let lent: Vec<_> = seldom.iter().flatten().collect();
    assert!(lent.len() >= 3, "{seldom:?}");
    assert!(lent.iter().all(|lent| lent.window >= 40 * 1_448 && lent.age < Nanos::from_secs(60)), "{seldom:?}");
    // All at once: the first alone has what was known.
    let crowd = family(Nanos::from_millis(100), true, earlier(1.0));
    assert!(crowd[0] == earlier(1.0) && crowd[1..].iter().all(Option::is_none), "{crowd:?}");
    let each = family(Nanos::from_millis(100), false, earlier(1.0));
    assert!(each.len() == 12 && each.iter().all(Option::is_some), "without `remember` each is given it");
}
