//! Fairness, which the paper leaves to later: beside CUBIC, among themselves, and with a receiver that lies.

use super::run::Run;
use super::{CHAIN, LOSS, SHARING, percent};
use crate::reproduce::prelude::*;

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
        for (setup, runs) in setups.iter().zip(&results) {
            let kept = over(runs, kept);
            let most = if forged { 1.0 } else { 1.0 - least };
            let holds = (least..=most).contains(&kept.median);
            let ours = format!("CUBIC has {}", percent((kept.median * 1e3).round() / 1e3));
            let claim = format!("{claim} (median; target of ours)");
            claims.push(setup.found((claim, paper), "no loss", ours, holds));
        }
    }
    for name in GROWING {
        let setup = |loss: &f64| Setup::new(&CHAIN, name).set("flows.0.count", "4").set(LOSS, &loss.to_string());
        let setups: Vec<Setup> = LOSSES.iter().map(setup).collect();
        let results = bench.run(&setups, |_, run| Run::of(run))?;
        let cell = |((loss, setup), runs): ((&f64, &Setup), &Vec<Run>)| {
            let jain = over(runs, |run| paceline_lab::measure::jain(&run.mbps));
            setup.cell(percent(*loss), format!("Jain's index {}", stated(&jain)), jain.median >= 0.95)
        };
        let cells = LOSSES.iter().zip(&setups).zip(&results).map(cell).collect();
        let claim = "four flows share with a Jain's index of 0.95 or more (median; target of ours)";
        claims.push(setups[0].claim(claim, "to be explored").got_worst(cells));
    }
    Ok(Findings {
        setup: vec!["Shares of the throughput over the whole run, the start included.".to_owned()],
        claims,
        scenarios: vec![&SHARING, &CHAIN],
        ..Findings::default()
    })
}
