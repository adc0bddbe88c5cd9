//! Fairness, which the paper leaves to later: beside CUBIC, among themselves, and with a receiver that lies.

use paceline_report::svg::short;

use super::super::bench::{Bench, Setup};
use super::super::{Cell, Claim, Findings, ReproduceError};
use super::run::{Run, over, stated};
use super::{CHAIN, LOSS, SHARING, percent};

/// Who listens to telemetry.
const NAMES: [&str; 4] = ["cubic-l1@tcp", "cubic-l2@tcp", "cubic-l1g@tcp", "hops@tcp"];
/// Those that grow at losses, and so can find their share again.
const GROWING: [&str; 2] = ["cubic-l1g@tcp", "hops@tcp"];
const LOSSES: [f64; 3] = [0.0, 0.05, 0.2];

/// CUBIC's part of what both have.
fn kept(run: &Run) -> f64 {
    let all: f64 = run.mbps.iter().sum();
    if all > 0.0 { run.mbps.last().copied().unwrap_or(0.0) / all } else { 0.0 }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let mut claims = Vec::new();
    let beside = |name: &str| Setup::new(&SHARING, name);
    for (forged, least, claim, paper) in [
        (
            false,
            0.4,
            "beside it a plain CUBIC flow has 40 % of the throughput of both, or more, and it 40 %",
            "to be explored",
        ),
        (true, 0.2, "when its receiver calls every loss the medium's, a plain CUBIC flow beside it keeps 20 %", ""),
    ] {
        let setups: Vec<Setup> =
            NAMES.iter().map(|name| beside(name).set_if(forged, "telemetry.forge", "medium")).collect();
        let results = bench.run(&setups, |_, run| Run::of(run))?;
        for ((name, setup), runs) in NAMES.iter().zip(&setups).zip(&results) {
            let kept = over(runs, kept);
            let most = if forged { 1.0 } else { 1.0 - least };
            let holds = (least..=most).contains(&kept.median);
            let ours = format!("CUBIC has {}", percent((kept.median * 1e3).round() / 1e3));
            let cell = Cell { setup: "no loss".to_owned(), ours: ours.clone(), holds, command: setup.command() };
            claims.push(Claim::new(format!("{claim} (median; target of ours)"), *name, paper).got(ours, vec![cell]));
        }
    }
    for name in GROWING {
        let setup = |loss: &f64| Setup::new(&CHAIN, name).set("flows.0.count", "4").set(LOSS, &loss.to_string());
        let setups: Vec<Setup> = LOSSES.iter().map(setup).collect();
        let results = bench.run(&setups, |_, run| Run::of(run))?;
        let cell = |((loss, setup), runs): ((&f64, &Setup), &Vec<Run>)| {
            let jain = over(runs, |run| paceline_lab::measure::jain(&run.mbps));
            let ours = format!("Jain's index {}", stated(&jain));
            Cell { setup: percent(*loss), ours, holds: jain.median >= 0.95, command: setup.command() }
        };
        let cells: Vec<Cell> = LOSSES.iter().zip(&setups).zip(&results).map(cell).collect();
        let worst = cells.iter().find(|cell| !cell.holds).or(cells.last());
        let ours = worst.map_or_else(String::new, |cell| format!("{}: {}", cell.setup, cell.ours));
        let claim = format!("four flows share with a Jain's index of {} or more (median; target of ours)", short(0.95));
        claims.push(Claim::new(claim, name, "to be explored").got(ours, cells));
    }
    Ok(Findings {
        setup: vec!["Shares of the throughput over the whole run, the start included.".to_owned()],
        claims,
        scenarios: vec![(SHARING.path, SHARING.text), (CHAIN.path, CHAIN.text)],
        ..Findings::default()
    })
}
