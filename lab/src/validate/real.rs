//! The simulator against the real world: the same scenarios with the same seeds in both.
//!
//! Throughput and the median and 95th percentile of the queueing delay, medians over runs. A datagram flow runs the very
//! code that the simulator runs, so what is left between the two is the host; a kernel flow is another implementation.

use std::sync::Arc;

use paceline_path::Trace;

use super::{Check, NamedTrace, native};
use crate::race::{Race, RaceError, Settings, World, race};
use crate::record::Record;
use crate::scenario::{Options, Source};
use crate::stats::Median;
use crate::table::spread;

/// How far datagram flows may be apart.
const UDP: f64 = 0.10;
/// How far kernel flows may be from simulated ones.
const KERNEL: f64 = 0.15;
/// Delays closer than this agree: an opportunity of a delivery trace comes in whole milliseconds.
const CLOSE_MS: f64 = 1.0;

/// What the section's rows are.
pub(super) const INTRO: &str = "\
    Each row ran in both worlds with the same seeds: in virtual time, and in real time through the emulator, one contestant after \
    the other.\nFigures are medians over runs (95 % interval with six runs or more, else the quartiles): throughput in Mbit/s, \
    median and 95th percentile of the\nqueueing delay in ms. `@tcp` is the kernel's own TCP in the real world. Two delays \
    that differ by less than 1 ms agree.\n\
    The endpoints of `@udp` are programs that wait for a processor when others want it; the kernel's flows hardly do. On a machine \
    that others use,\n`@udp` therefore falls behind the simulator, and delays of few milliseconds differ most.\n\n";

/// How the two worlds are compared.
#[derive(Clone, Debug, Default)]
pub struct RealSettings {
    /// Runs of each contestant, in each world.
    pub runs: u32,
    /// Seconds of a run, instead of the scenario's.
    pub seconds: Option<f64>,
}

/// A scenario that is run in both worlds.
struct Case {
    heading: &'static str,
    source: Box<dyn Fn(Options) -> Source>,
    contestants: &'static str,
}

macro_rules! shipped {
    ($heading:literal, $file:literal, $contestants:literal) => {
        Case {
            heading: $heading,
            source: Box::new(|options| Source::from_text($file, include_str!(concat!("../../../", $file)), options)),
            contestants: $contestants,
        }
    };
}

const EVERYONE: &str = "cubic@tcp,bbr@tcp,reno@tcp,copa@udp,verus@udp,sprout@udp,bbr@udp";

/// The shipped scenarios.
fn shipped() -> Vec<Case> {
    let trace = include_bytes!("../../../scenarios/traces/lte-like.mahi");
    let cellular = move |options| {
        let source =
            Source::from_text("scenarios/cellular.toml", include_str!("../../../scenarios/cellular.toml"), options);
        match Trace::read("lte-like.mahi", &trace[..]) {
            Ok(trace) => source.with_trace("traces/lte-like.mahi", Arc::new(trace)),
            Err(_) => source,
        }
    };
    vec![
        Case { heading: "real: cellular", source: Box::new(cellular), contestants: EVERYONE },
        shipped!("real: dumbbell", "scenarios/dumbbell.toml", "cubic@tcp,bbr@tcp,copa@udp,bbr@udp"),
        shipped!("real: sharing", "scenarios/sharing.toml", "cubic@tcp,bbr@tcp,reno@tcp,copa@udp"),
        shipped!("real: lossy", "scenarios/lossy.toml", "cubic@tcp,bbr@tcp,reno@tcp,copa@udp"),
        shipped!("real: l4s", "scenarios/l4s.toml", "cubic@tcp,bbr@tcp"),
        shipped!("real: web", "scenarios/web.toml", "cubic@tcp,bbr@tcp,reno@tcp"),
        shipped!("real: rate-steps", "scenarios/rate-steps.toml", "cubic@tcp,bbr@tcp,copa@udp"),
    ]
}

/// The traces that are given, as native implementations met them.
fn given(traces: &[NamedTrace]) -> Vec<Case> {
    let find = |name: &str| traces.iter().find(|(known, _)| known == name).map(|(_, trace)| Arc::clone(trace));
    let case = |(heading, down, up): (&'static str, &'static str, &'static str)| {
        let (down_trace, up_trace) = (find(down)?, find(up)?);
        let source = move |options| {
            let text = format!(
                "name = '{down}'\nseconds = 60\n[down]\ntrace = '{down}'\ndelay = '20ms'\nqueue = 'droptail:bytes=2MB'\n\
                 [up]\ntrace = '{up}'\ndelay = '20ms'\nqueue = 'infinite'\n"
            );
            let source = Source::from_text(down, &text, options).with_trace(down, Arc::clone(&down_trace));
            source.with_trace(up, Arc::clone(&up_trace))
        };
        Some(Case { heading, source: Box::new(source), contestants: EVERYONE })
    };
    [
        ("real: Verizon-LTE-short", native::VERIZON, native::VERIZON_UP),
        ("real: highwayGold", native::HIGHWAY, native::HIGHWAY),
        ("real: rapidGold", native::RAPID, native::RAPID),
    ]
    .into_iter()
    .filter_map(case)
    .collect()
}

/// Runs every case in both worlds; [`crate::real::acquire`] comes first. `progress` is called after each with the share done.
///
/// # Errors
/// When the machine cannot run the real world at all.
pub fn real(
    traces: &[NamedTrace],
    settings: &RealSettings,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<Check>, RaceError> {
    let mut cases = given(traces);
    cases.extend(shipped());
    let mut checks = Vec::new();
    for (done, case) in cases.iter().enumerate() {
        let source = (case.source)(Options {
            contestants: Some(case.contestants.to_owned()),
            runs: Some(settings.runs),
            seconds: settings.seconds,
            ..Options::default()
        });
        let run = |world| race(&source, &Settings { world, ..Settings::default() });
        let (simulated, raced) = (run(World::Sim)?, run(World::Real)?);
        checks.extend(raced.summaries.iter().map(|who| compare(case.heading, &who.contestant, &simulated, &raced)));
        checks.extend(raced.failures.iter().map(|failure| {
            let setup = format!("{}, run {}", failure.contestant, failure.run);
            Check::new(case.heading, setup, "it runs").got("it failed", false).note(failure.reason.clone())
        }));
        progress((done + 1) as f64 / cases.len() as f64);
    }
    Ok(checks)
}

/// A figure of a run.
type Figure = fn(&Record) -> Option<f64>;

const FIGURES: [(&str, Figure); 3] = [
    ("Mbit/s", |record| record.own_throughput_mbps.or(Some(record.throughput_mbps))),
    ("ms p50", |record| record.queue_ms.map(|queue| queue.p50)),
    ("ms p95", |record| record.queue_ms.map(|queue| queue.p95)),
];

fn compare(heading: &'static str, who: &str, simulated: &Race, raced: &Race) -> Check {
    let tolerance = if who.ends_with("@tcp") { KERNEL } else { UDP };
    let records = |race: &Race| -> Vec<Record> {
        race.runs.iter().map(|run| &run.record).filter(|record| record.contestant() == who).cloned().collect()
    };
    let (ours, theirs) = (records(simulated), records(raced));
    let mut holds = true;
    let mut texts = [Vec::new(), Vec::new()];
    let mut apart = Vec::new();
    for (unit, figure) in FIGURES {
        let median = |records: &[Record]| Median::of(&records.iter().filter_map(figure).collect::<Vec<f64>>());
        let (Some(ours), Some(theirs)) = (median(&ours), median(&theirs)) else { continue };
        texts[0].push(format!("{} {unit}", spread(&ours)));
        texts[1].push(format!("{} {unit}", spread(&theirs)));
        let difference = (ours.median - theirs.median).abs();
        let close = unit.starts_with("ms") && difference < CLOSE_MS;
        if !close && difference > tolerance * theirs.median {
            holds = false;
            apart.push(format!("{unit} {:+.0} %", 100.0 * (ours.median / theirs.median - 1.0)));
        }
    }
    let seconds = theirs.first().map_or(0.0, |record| record.seconds);
    let setup = format!("{who}, {seconds} s, {} runs", theirs.len());
    let [ours, real] = texts.map(|figures| figures.join(", "));
    let says = format!("real: {real}; within {:.0} %", tolerance * 100.0);
    let mut note = apart.join(", ");
    let doubtful = theirs.iter().filter(|record| record.trusted == Some(false)).count();
    if doubtful > 0 {
        let and = if note.is_empty() { "" } else { "; " };
        note.push_str(&format!("{and}in {doubtful} runs the host was late"));
    }
    Check::new(heading, setup, says).got(ours, holds).note(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::Contestant;

    #[test]
    fn every_case_is_a_valid_race() {
        for case in shipped() {
            let source =
                (case.source)(Options { contestants: Some(case.contestants.to_owned()), ..Options::default() });
            let plans = source.plans().unwrap_or_else(|error| panic!("{}: {error}", case.heading));
            let contestants: Vec<Contestant> = plans[0].scenario.contestants.clone();
            if cfg!(target_os = "linux")
                && let Err(problem) = crate::real::check(&contestants, &plans)
            {
                // A kernel may lack a congestion control; nothing else is amiss.
                assert!(problem.contains("this kernel's TCP has no"), "{}: {problem}", case.heading);
            }
        }
    }
}
