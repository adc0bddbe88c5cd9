//! Contestants of one scenario in real time.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::Nanos;
use paceline_experiment::{FlowOutcome, FlowSeries, Outcome};
use paceline_lab::contestant::Contestant;
use paceline_lab::real;
use paceline_lab::run::{self, Observers, World};
use paceline_lab::scenario::{Options, Plan, Source};
use paceline_testbed::prefer;

/// One test at a time: real time is shared.
static TURN: Mutex<()> = Mutex::new(());

/// Time between two points of a series: as often as a flow looks at its socket.
const STEP: Nanos = Nanos::from_millis(10);

/// How many run at once: a processor of the smallest machine for each emulator.
const AT_ONCE: usize = 2;

/// A run of a contestant.
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    seconds: f64,
}

/// Runs every contestant of a scenario once, [`AT_ONCE`] at a time; nothing where this machine does not allow it or could not keep time, which is
/// told.
pub(crate) fn race<const N: usize>(test: &str, scenario: &str) -> Option<[Run; N]> {
    let skipped = |reason: &str| {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
        None
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(reason) = real::acquire() {
        return skipped(&reason.to_string());
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/traces");
    let text = scenario.replace("TRACES", folder);
    let plan = Source::from_text("scenario.toml", &text, Options::default()).plans().unwrap().remove(0);
    let contestants = &plan.scenario.contestants;
    if let Err(reason) = real::check(contestants, std::slice::from_ref(&plan)) {
        return skipped(&reason.to_string());
    }
    let mut all = Vec::new();
    for few in contestants.chunks(AT_ONCE) {
        match trusted(few, &plan).or_else(|_| trusted(few, &plan)) {
            Ok(runs) => all.extend(runs),
            Err(reason) => return skipped(&reason),
        }
    }
    Some(all.try_into().unwrap_or_else(|_| panic!("{N} contestants")))
}

/// Runs some contestants at once; the error is why they tell nothing.
fn trusted(contestants: &[Contestant], plan: &Plan) -> Result<Vec<Run>, String> {
    let over = AtomicBool::new(false);
    let (results, punctual) = thread::scope(|scope| {
        let metronome = scope.spawn(|| punctual(&over));
        let observers = || Observers { sample_every: Some(STEP), ..Observers::default() };
        let start = |contestant| scope.spawn(move || run::run(plan, contestant, World::Real, &observers()));
        let threads: Vec<_> = contestants.iter().map(start).collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        (results, metronome.join().unwrap())
    });
    let mut runs = Vec::new();
    for (name, result) in contestants.iter().zip(results) {
        let ended = match result {
            Ok(ended) => ended,
            Err(reason) if reason.to_string().contains("gives no interface") => return Err(reason.to_string()),
            Err(problem) => panic!("{name}: {problem}"),
        };
        if !ended.trusted() {
            return Err("this machine is too busy: the emulator released packets late, twice".to_owned());
        }
        runs.push(Run { name: name.to_string(), outcome: ended.outcome, seconds: plan.scenario.seconds });
    }
    if punctual { Ok(runs) } else { Err("this machine is too busy: its threads wake up late, twice".to_owned()) }
}

/// Whether a thread with an endpoint's priority wakes up on time until it is over: hardly ever more than 5 ms late, a quarter of the
/// shortest RTT here. The emulator, which has a higher one, can be on time while the endpoints wait for a processor.
fn punctual(over: &AtomicBool) -> bool {
    const NAP: Duration = Duration::from_millis(2);
    const LATE: Duration = Duration::from_millis(5);
    prefer();
    let (mut naps, mut late) = (0_u32, 0);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        thread::sleep(NAP);
        naps += 1;
        late += u32::from(began.elapsed() > NAP + LATE);
    }
    println!("{late} of {naps} wake-ups were late");
    late * 100 <= naps
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

    /// Points of the series in this many seconds.
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

    /// Share of chunks for which TCP was the limit.
    pub(crate) fn limited(&self) -> f64 {
        self.flow().sender.limited_share()
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
