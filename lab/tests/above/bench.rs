//! Contestants of one scenario in real time, all at once.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::thread;

use paceline_cc::Nanos;
use paceline_lab::real;
use paceline_lab::scenario::{Options, Source};
use paceline_sim::{FlowOutcome, FlowSeries, Outcome};

/// One test at a time: real time is shared.
static TURN: Mutex<()> = Mutex::new(());

/// Time between two points of a series: as often as a flow looks at its socket.
const STEP: Nanos = Nanos::from_millis(10);

/// A run of a contestant.
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    seconds: f64,
}

/// Runs every contestant of a scenario once; nothing where this machine does not allow it or could not keep time, which is
/// told.
pub(crate) fn race<const N: usize>(test: &str, scenario: &str) -> Option<[Run; N]> {
    let skipped = |reason: &str| {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
        None
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(reason) = real::acquire() {
        return skipped(&reason);
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/traces");
    let text = scenario.replace("TRACES", folder);
    let plan = Source::from_text("scenario.toml", &text, Options::default()).plans().unwrap().remove(0);
    let contestants = &plan.scenario.contestants;
    if let Err(reason) = real::check(contestants, std::slice::from_ref(&plan)) {
        return skipped(&reason);
    }
    for _attempt in 0..2 {
        let runs: Vec<_> = thread::scope(|scope| {
            let start = |contestant| {
                let plan = &plan;
                scope.spawn(move || real::run(contestant, plan, Some(STEP)))
            };
            let threads: Vec<_> = contestants.iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let runs = match runs.into_iter().collect::<Result<Vec<_>, String>>() {
            Ok(runs) => runs,
            Err(reason) if reason.contains("gives no interface") => return skipped(&reason),
            Err(problem) => panic!("{problem}"),
        };
        if runs.iter().all(|(_, _, host)| host.trusted()) {
            let seconds = plan.scenario.seconds;
            let named = contestants.iter().zip(runs);
            let runs = named.map(|(name, (_, outcome, _))| Run { name: name.to_string(), outcome, seconds });
            return Some(runs.collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{N} contestants")));
        }
    }
    skipped("this machine is too busy: the emulator released packets late, twice")
}

impl Run {
    /// Of the contestant's own flow.
    pub(crate) fn flow(&self) -> &FlowOutcome {
        &self.outcome.flows[0]
    }

    /// Its points over time.
    pub(crate) fn points(&self) -> &FlowSeries {
        &self.outcome.series.as_ref().unwrap().flows[0]
    }

    /// Points of the series in so many seconds.
    pub(crate) fn steps(&self, seconds: f64) -> usize {
        (seconds / STEP.as_secs_f64()) as usize
    }

    /// Mbit/s on the wire over the whole run.
    pub(crate) fn mbps(&self) -> f64 {
        self.flow().wire_bytes_arrived as f64 * 8e-6 / self.seconds
    }

    /// Queueing delay below which this share of packets is, ms.
    pub(crate) fn queue(&self, share: f64) -> f64 {
        self.flow().queue.quantile_ms(share).unwrap()
    }

    /// One-way delay below which this share of packets is, ms.
    pub(crate) fn delay(&self, share: f64) -> f64 {
        self.flow().delay.quantile_ms(share).unwrap()
    }

    /// Share of chunks that were handed over, or refused, while TCP was the limit.
    pub(crate) fn limited(&self) -> f64 {
        (self.flow().sender.limited_below as f64 / self.flow().packets_entered.max(1) as f64).min(1.0)
    }

    /// Mbit/s of each flow over the last two thirds of the run: after the start-up.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let flows = &self.outcome.series.as_ref().unwrap().flows;
        let settled = |flow: &FlowSeries| {
            let points = &flow.throughput_mbps[flow.throughput_mbps.len() / 3..];
            points.iter().sum::<f64>() / points.len() as f64
        };
        flows.iter().map(settled).collect()
    }

    /// What there is to say of it when a bound is missed.
    pub(crate) fn told(&self) -> String {
        format!(
            "{}: {:.2} Mbit/s, queue p50 {:.1} p95 {:.1} ms, delay p50 {:.1} ms, TCP the limit for {:.1} % of chunks, {} sent again",
            self.name,
            self.mbps(),
            self.queue(0.5),
            self.queue(0.95),
            self.delay(0.5),
            100.0 * self.limited(),
            self.flow().sender.retransmits
        )
    }
}

/// What there is to say of several.
pub(crate) fn told(runs: &[Run]) -> String {
    let text = runs.iter().map(Run::told).collect::<Vec<_>>().join("\n");
    // Seen with `--nocapture`.
    println!("{text}");
    text
}
