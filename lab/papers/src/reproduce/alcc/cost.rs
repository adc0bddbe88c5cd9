//! Figure 14: processor time, native and above TCP.

use super::CELLULAR;
use super::fidelity::where_it_ran;
use super::run::{Run, STEP};
use crate::reproduce::prelude::*;

/// Who is compared with native Copa: the client/server variant, the server alone, and the server alone without a queue.
const ABOVE: [(&str, &str); 3] = [
    ("copa@alcc:mode=framed", "without the kernel's help, both ends changed: 11 % more"),
    ("copa@alcc:mode=queue", "with the kernel's help, the server alone changed: about twice as much"),
    ("copa@alcc:mode=inline", "not in the paper"),
];
/// What our own goal allows above native.
const GOAL: f64 = 1.0;

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if !bench.is_real() {
        return Ok(Findings::none("The simulator has no processor time of endpoints: this figure needs a real race."));
    }
    let default = std::path::PathBuf::from(SHIPPED_TRACES[0].0);
    let trace = bench.settings.traces.first().unwrap_or(&default);
    let names = || std::iter::once("copa@udp").chain(ABOVE.iter().map(|(name, _)| *name));
    let setups: Vec<Setup> = names().map(|name| Setup::new(&CELLULAR, name).trace(trace).sampled(STEP)).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    // A share of a core at the same throughput: what a bit costs.
    let cost = |run: &Run| 1e3 * run.cpu.unwrap_or(0.0) / run.mbps.max(1e-6);
    let native = over(&results[0], cost);
    let claims = ABOVE.iter().zip(&results[1..]).zip(&setups[1..]).map(|(((_, paper), runs), setup)| {
        let own = over(runs, cost);
        let ours = format!(
            "{} ms a Gbit, native {}: {:.2} times",
            stated(&own),
            stated(&native),
            own.median / native.median.max(1e-9)
        );
        let holds = own.median <= GOAL * native.median;
        let claim = "processor time of both ends for a bit is at most that of native Copa (goal of ours)";
        setup.found((claim, paper), trace.display().to_string(), ours, holds)
    });
    let claims = claims.collect();
    let row = |(name, runs): (&str, &Vec<Run>)| {
        let figures: [&dyn Fn(&Run) -> f64; 3] = [&|run| run.mbps, &|run| 100.0 * run.cpu.unwrap_or(0.0), &cost];
        plain(name, figures.map(|figure| short(typical(runs, figure))))
    };
    Ok(Findings {
        setup: vec![format!(
            "Copa over {}, {} of each, {}. Processor time is that of the threads that send and receive, with their \
             system calls; what the kernel does for TCP elsewhere (timers, softirq) is in none of them.",
            trace.display(),
            counted(results[0].len(), "run"),
            where_it_ran(bench),
        )],
        claims,
        tables: vec![Table::new(
            "Processor time",
            "Medians over runs.",
            ["Mbit/s", "% of a core", "ms a Gbit"],
            names().zip(&results).map(row),
        )],
        scenarios: vec![&CELLULAR],
        ..Findings::default()
    })
}
