//! The simulator against the real world: the same scenarios with the same seeds in both.
//!
//! Throughput and the median and 95th percentile of the queueing delay, medians over runs. A datagram flow runs the
//! very code that the simulator runs, so what is left between the two is the host; a kernel flow is another
//! implementation.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use paceline_experiment::Via;
use paceline_path::Trace;

use super::{NamedTrace, ValidateError};
use crate::claim::{Claim, ClaimError, Expected};
use paceline_lab::journal::Journal;
use paceline_lab::numbers::spread;
use paceline_lab::race::{Job, RaceError, Settings, race_watched};
use paceline_lab::real;
use paceline_lab::record::Record;
use paceline_lab::run::{RunError, World};
use paceline_lab::runner::{Attempt, Failure, Progress, Runner, Task, TaskLabel};
use paceline_lab::scenario::{Options, Scenario, Source};
use paceline_lab::stats::Median;

/// How far datagram flows may be apart.
const UDP: f64 = 0.10;
/// How far kernel flows may be from simulated ones.
const KERNEL: f64 = 0.15;
/// Delays closer than this agree: an opportunity of a delivery trace comes in whole milliseconds.
const CLOSE_MS: f64 = 1.0;

/// What the section's rows are.
pub(super) const INTRO: &str = "\
    Each row ran in both worlds with the same seeds, in the simulator with hosts that keep time as Linux hosts do (`timers = \"host\"`) and, for\n\
    `@tcp`, which is the kernel's own in the real world, a handshake. Throughput in Mbit/s, median and 95th percentile of the queueing\n\
    delay in ms, medians over runs (in brackets the 95 % interval with six runs or more, else the quartiles), have to agree within 10 %\n\
    (`@udp`) and 15 % (`@tcp`); delays that differ by less than 1 ms agree. Programs of `@udp` wait for a processor on a busy machine, and\n\
    fall behind the simulator there.\n\
    \n";

/// How the two worlds are compared.
#[derive(Debug, Default)]
pub struct RealSettings {
    /// Runs of each contestant, in each world.
    pub runs: u32,
    /// Seconds of a run, instead of the scenario's.
    pub seconds: Option<f64>,
    /// Only these contestants, where they run; everybody when `None`.
    pub contestants: Option<Vec<String>>,
    /// Leave the shipped scenarios out.
    pub traces_only: bool,
    /// Real runs at once; 0 for one after the other.
    pub threads: usize,
    /// Runs in the real world that it holds are not run again, and each that is over stands in it at once.
    pub journal: Option<Journal>,
}

/// A scenario that is run in both worlds.
struct Case {
    heading: String,
    source: Box<dyn Fn(Options) -> Source>,
    contestants: &'static str,
    /// Seconds of a run, instead of the scenario's.
    seconds: Option<f64>,
}

/// Seconds of a run over a path that does not change: there is nothing more to see (our choice: a page takes hours as
/// it is).
const STEADY: f64 = 20.0;

macro_rules! shipped {
    ($heading:literal, $file:literal, $contestants:literal, $seconds:expr) => {
        Case {
            heading: $heading.to_owned(),
            source: Box::new(|options| Source::from_text($file, include_str!(concat!("../../../../", $file)), options)),
            contestants: $contestants,
            seconds: $seconds,
        }
    };
}

pub(super) const EVERYONE: &str = "cubic@tcp,bbr@tcp,reno@tcp,copa@udp,verus@udp,sprout@udp,bbr@udp";

/// The shipped scenarios.
fn shipped() -> Vec<Case> {
    let trace = include_bytes!("../../../../scenarios/traces/lte-like.mahi");
    let cellular = move |options| {
        let source =
            Source::from_text("scenarios/cellular.toml", include_str!("../../../../scenarios/cellular.toml"), options);
        match Trace::read("lte-like.mahi", &trace[..]) {
            Ok(trace) => source.with_trace("traces/lte-like.mahi", Arc::new(trace)),
            Err(_) => source,
        }
    };
    vec![
        Case { heading: "real: cellular".to_owned(), source: Box::new(cellular), contestants: EVERYONE, seconds: None },
        shipped!("real: dumbbell", "scenarios/dumbbell.toml", "cubic@tcp,bbr@tcp,copa@udp,bbr@udp", Some(STEADY)),
        shipped!("real: sharing", "scenarios/sharing.toml", "cubic@tcp,bbr@tcp,reno@tcp,copa@udp", Some(STEADY)),
        shipped!("real: lossy", "scenarios/lossy.toml", "cubic@tcp,bbr@tcp,reno@tcp,copa@udp", Some(STEADY)),
        shipped!("real: l4s", "scenarios/l4s.toml", "cubic@tcp,bbr@tcp", Some(STEADY)),
        shipped!("real: web", "scenarios/web.toml", "cubic@tcp,bbr@tcp,reno@tcp", Some(STEADY)),
        shipped!("real: rate-steps", "scenarios/rate-steps.toml", "cubic@tcp,bbr@tcp,copa@udp", None),
    ]
}

/// The traces that are given, as native implementations met them: `NAME.down` with `NAME.up`, any other both ways.
fn given(traces: &[NamedTrace]) -> Vec<Case> {
    let find = |name: &str| traces.iter().find(|(known, _)| known == name).map(|(_, trace)| Arc::clone(trace));
    let case = |(down, trace): &NamedTrace| {
        let stem = down.strip_suffix(".down").unwrap_or(down);
        if down.strip_suffix(".up").is_some_and(|stem| find(&format!("{stem}.down")).is_some()) {
            return None;
        }
        let up = format!("{stem}.up");
        let (up, up_trace) = find(&up).map_or_else(|| (down.clone(), Arc::clone(trace)), |trace| (up, trace));
        let (down, down_trace) = (down.clone(), Arc::clone(trace));
        let heading = format!("real: {stem}");
        let source = move |options| {
            let quoted = |name: &str| toml::Value::from(name).to_string();
            let text = format!(
                "name = {name}\nseconds = 60\n[down]\ntrace = {name}\ndelay = '20ms'\nqueue = 'droptail:bytes=2MB'\n\
                 [up]\ntrace = {up}\ndelay = '20ms'\nqueue = 'infinite'\n",
                name = quoted(&down),
                up = quoted(&up),
            );
            let source = Source::from_text(&down, &text, options).with_trace(&down, Arc::clone(&down_trace));
            source.with_trace(&up, Arc::clone(&up_trace))
        };
        Some(Case { heading, source: Box::new(source), contestants: EVERYONE, seconds: None })
    };
    traces.iter().filter_map(case).collect()
}

/// Runs every case in both worlds; [`paceline_lab::real::acquire`] comes first. `found` is called after each case with what has been
/// found so far.
///
/// # Errors
/// When the machine cannot run real races at all, when no contestant would run, or as `found` says.
pub fn real<E: From<ValidateError>>(
    traces: &[NamedTrace],
    settings: &RealSettings,
    progress: &dyn Progress,
    mut found: impl FnMut(&[Claim]) -> Result<(), E>,
) -> Result<Vec<Claim>, E> {
    let mut cases = given(traces);
    if !settings.traces_only {
        cases.extend(shipped());
    }
    let rivals: Vec<Vec<Rival>> = cases.iter().map(Rival::of).collect::<Result<_, _>>().map_err(ValidateError::from)?;
    let runs = |wanted: &&String| rivals.iter().flatten().any(|rival| rival.name == **wanted);
    if let Some(wanted) = settings.contestants.iter().flatten().find(|wanted| !runs(wanted)) {
        return Err(ValidateError::NoSuch { wanted: wanted.clone() }.into());
    }
    let wanted = |name: &str| settings.contestants.as_ref().is_none_or(|wanted| wanted.iter().any(|one| one == name));
    let mut claims = Vec::new();
    for (index, (case, rivals)) in cases.iter().zip(&rivals).enumerate() {
        progress.part(&format!("{} ({} of {})", case.heading, index + 1, cases.len()));
        for datapath in [Datapath::Ours, Datapath::Kernel] {
            for rival in rivals.iter().filter(|rival| rival.datapath == datapath && wanted(rival.name)) {
                claims.extend(both(case, rival, settings, progress)?);
            }
        }
        found(&claims)?;
    }
    if claims.is_empty() {
        return Err(ValidateError::NoTrace.into());
    }
    Ok(claims)
}

/// Whose packets they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Datapath {
    /// The very code that the simulator runs.
    Ours,
    /// The kernel's TCP.
    Kernel,
}

impl Datapath {
    /// How far its flows may be from simulated ones.
    fn tolerance(self) -> f64 {
        match self {
            Self::Ours => UDP,
            Self::Kernel => KERNEL,
        }
    }
}

/// A contestant of a case.
struct Rival {
    name: &'static str,
    datapath: Datapath,
}

impl Rival {
    /// Those of a case.
    ///
    /// # Errors
    /// When one does not exist.
    fn of(case: &Case) -> Result<Vec<Self>, ClaimError> {
        let rival = |name| {
            let kernel = ClaimError::check(&case.heading, name)?.via == Via::tcp(None);
            Ok(Self { name, datapath: if kernel { Datapath::Kernel } else { Datapath::Ours } })
        };
        case.contestants.split(',').map(rival).collect()
    }
}

/// A contestant of a case in both worlds.
fn both(
    case: &Case,
    rival: &Rival,
    settings: &RealSettings,
    progress: &dyn Progress,
) -> Result<Vec<Claim>, ValidateError> {
    let options = Options {
        contestants: Some(rival.name.to_owned()),
        runs: Some(settings.runs),
        seconds: settings.seconds.or(case.seconds),
        ..Options::default()
    };
    let set = as_on_linux((case.source)(options.clone()).text(), rival.datapath);
    let source = (case.source)(Options { set, ..options });
    let simulated = race_watched(&source, &Settings::default(), progress)?;
    let (records, failures) = raced(&source, settings, progress)?;
    let mut claims = Vec::new();
    if !records.is_empty() {
        let simulated: Vec<&Record> = simulated.runs.iter().map(|run| &run.record).collect();
        claims.push(compare(&case.heading, rival, &simulated, &records.iter().collect::<Vec<_>>()));
    }
    claims.extend(failures.into_iter().map(|failure| {
        let claim = about(&case.heading, rival, format!("run {}", failure.number), "it runs");
        claim.failed("it failed").note(failure.cause.to_string())
    }));
    Ok(claims)
}

/// A run of a contestant in the real world, of which the record is kept.
struct RealRun<'a>(Job<'a>);

impl Task for RealRun<'_> {
    type Output = Record;
    type Error = RunError;

    fn label(&self) -> TaskLabel {
        self.0.label()
    }

    /// The scenario of this run; how many more there are changes nothing in it.
    fn key(&self) -> String {
        Scenario { runs: 1, ..self.0.plan.scenario.clone() }.to_toml()
    }

    fn check(&self) -> Result<(), RunError> {
        real::check(slice::from_ref(self.0.contestant), slice::from_ref(self.0.plan))?;
        Ok(())
    }

    fn lasts(&self) -> Duration {
        self.0.lasts()
    }

    fn run(&self) -> Result<Attempt<Record>, RunError> {
        let Attempt { output, trusted } = self.0.run()?;
        Ok(Attempt { output: output.record, trusted })
    }
}

/// Races one contestant in the real world, or recalls what it did.
fn raced(
    source: &Source,
    settings: &RealSettings,
    progress: &dyn Progress,
) -> Result<(Vec<Record>, Vec<Failure<RunError>>), RaceError> {
    let plans = source.plans()?;
    let world = World::Real;
    let settings_of_runs = Settings { world, ..Settings::default() };
    let mut runs = Vec::new();
    for plan in &plans {
        let contestant = &plan.scenario.contestants[0];
        runs.push(RealRun(Job { contestant, plan, settings: &settings_of_runs, programs: None }));
    }
    let runner = Runner::new(world.threads(settings.threads), progress);
    let (mut records, mut failures) = (Vec::new(), Vec::new());
    for ended in runner.remembering(settings.journal.as_ref()).each(&runs)? {
        match ended {
            Ok(record) => records.push(record),
            Err(failure) => failures.push(failure),
        }
    }
    Ok((records, failures))
}

/// What makes every flow of a scenario start and keep time as on Linux: options to set.
fn as_on_linux(scenario: &str, datapath: Datapath) -> Vec<String> {
    let kernel = datapath == Datapath::Kernel;
    match scenario.lines().filter(|line| line.trim() == "[[flows]]").count() {
        0 => vec![format!("flows=[{{timers='host', handshake={kernel}}}]")],
        flows => (0..flows)
            .flat_map(|flow| [format!("flows.{flow}.timers=host"), format!("flows.{flow}.handshake={kernel}")])
            .collect(),
    }
}

/// A figure of a run.
type Figure = fn(&Record) -> Option<f64>;

const FIGURES: [(&str, Figure); 3] = [
    ("Mbit/s", |record| record.own_throughput_mbps.or(Some(record.throughput_mbps))),
    ("ms p50", |record| record.queue_ms.map(|queue| queue.p50)),
    ("ms p95", |record| record.queue_ms.map(|queue| queue.p95)),
];

fn compare(heading: &str, rival: &Rival, ours: &[&Record], theirs: &[&Record]) -> Claim {
    let tolerance = rival.datapath.tolerance();
    let (mut expected, mut figures) = (Vec::new(), Vec::new());
    let mut texts = [Vec::new(), Vec::new()];
    let mut apart = Vec::new();
    for (unit, figure) in FIGURES {
        let median =
            |records: &[&Record]| Median::of(&records.iter().filter_map(|record| figure(record)).collect::<Vec<f64>>());
        let (Some(ours), Some(theirs)) = (median(ours), median(theirs)) else { continue };
        texts[0].push(spread(&ours));
        texts[1].push(spread(&theirs));
        let slack = if unit.starts_with("ms") { CLOSE_MS } else { 0.0 };
        let near = Expected::Near { value: theirs.median, share: tolerance, slack };
        expected.push(near);
        figures.push(ours.median);
        if !near.holds(ours.median) {
            apart.push(format!("{unit} {:+.0} %", 100.0 * (ours.median / theirs.median - 1.0)));
        }
    }
    let seconds = theirs.first().map_or(0.0, |record| record.seconds);
    let setup = format!("{seconds} s, {} runs", theirs.len());
    let [ours, real] = texts.map(|figures| figures.join(", "));
    let mut note = apart.join(", ");
    let doubtful = theirs.iter().filter(|record| record.trusted == Some(false)).count();
    if doubtful > 0 {
        let and = if note.is_empty() { "" } else { "; " };
        note.push_str(&format!("{and}in {doubtful} runs the host was late"));
    }
    let claim = about(heading, rival, setup, real);
    expected.into_iter().fold(claim, Claim::expect).measured(ours, &figures).note(note)
}

/// A claim about a contestant in both worlds.
fn about(heading: &str, rival: &Rival, setup: impl fmt::Display, claim: impl Into<String>) -> Claim {
    let claim = Claim::on(heading, format!("{}, {setup}", rival.name), claim);
    Claim { contestant: rival.name.to_owned(), world: World::Real, ..claim }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::contestant::Contestant;

    #[test]
    fn every_case_is_a_valid_race() {
        for case in shipped() {
            let source =
                (case.source)(Options { contestants: Some(case.contestants.to_owned()), ..Options::default() });
            let plans = source.plans().unwrap_or_else(|error| panic!("{}: {error}", case.heading));
            let contestants: Vec<Contestant> = plans[0].scenario.contestants.clone();
            if cfg!(target_os = "linux")
                && let Err(problem) = real::check(&contestants, &plans)
            {
                // A kernel may lack a congestion control; nothing else is amiss.
                assert!(problem.to_string().contains("this kernel's TCP has no"), "{}: {problem}", case.heading);
            }
        }
    }
}
