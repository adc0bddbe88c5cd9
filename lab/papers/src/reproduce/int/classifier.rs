//! Which losses were the medium's and which a full queue's, as receivers' hosts name them.

use super::run::{Run, named, right};
use super::{CHAIN, LOSS, percent};
use crate::reproduce::prelude::*;

/// Who sends: it keeps its window at losses of the medium, so that the queue fills and overflows beside them.
const SENDER: &str = "cubic-l1g@tcp";
const LOSSES: [f64; 5] = [0.01, 0.02, 0.05, 0.1, 0.2];
/// Packets that the bottleneck holds.
const QUEUES: [u32; 4] = [16, 60, 120, 250];
/// What packets carry: counters of the flow's own drops with each record, or none, as in the paper's header.
const PROFILES: [(&str, &str); 2] = [("C3", "with counters (C3)"), ("L3", "without (L3)")];
/// Mean length of a burst of losses.
const BURST: f64 = 4.0;

/// Losses at random, or in bursts of [`BURST`] packets on average (Gilbert).
fn loss(share: f64, bursts: bool) -> String {
    let leave = 1.0 / BURST;
    let enter = leave * share / (1.0 - share);
    if bursts { format!("{{ gilbert = {{ enter = {enter:.6}, leave = {leave} }} }}") } else { share.to_string() }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let mut findings = Findings {
        setup: vec![format!(
            "One flow of {SENDER} over the chain, {} to {} % of packets lost by the second radio, at random and in bursts of {BURST} on \
             average, room for {} to {} packets there. The names that the receiver's host gave are held against what the path did.",
            LOSSES[0] * 100.0,
            LOSSES[4] * 100.0,
            QUEUES[0],
            QUEUES[3],
        )],
        scenarios: vec![&CHAIN],
        ..Findings::default()
    };
    for (profile, shown) in PROFILES {
        let mut rows = Vec::new();
        for (bursts, kind) in [(false, "at random"), (true, "in bursts")] {
            let all = QUEUES.iter().flat_map(|queue| LOSSES.iter().map(move |share| (*queue, *share)));
            let conditions: Vec<(u32, f64)> = all.collect();
            let setup = |(queue, share): &(u32, f64)| {
                Setup::new(&CHAIN, SENDER)
                    .set("telemetry.profile", profile)
                    .set("links.radio2.queue", &format!("droptail:packets={queue}"))
                    .set(LOSS, &loss(*share, bursts))
            };
            let setups: Vec<Setup> = conditions.iter().map(setup).collect();
            let results = bench.run(&setups, |_, run| Run::of(run))?;
            let sums: Vec<_> = results.iter().map(|runs| named(runs)).collect();
            for (name, least, overflow) in [("the medium", 0.99, false), ("a full queue", 0.95, true)] {
                let cell =
                    |((condition, setup), sum): ((&(u32, f64), &Setup), &paceline_experiment::TelemetryOutcome)| {
                        let of = if overflow { &sum.overflow } else { &sum.medium };
                        let share = right(if overflow { of.overflow } else { of.medium }, of);
                        let ours = format!("{:.1} % of {}", share * 100.0, of.all());
                        setup.cell(format!("{}, {} packets", percent(condition.1), condition.0), ours, share >= least)
                    };
                let cells: Vec<Cell> = conditions.iter().zip(&setups).zip(&sums).map(cell).collect();
                let mut all = paceline_experiment::TelemetryOutcome::default();
                sums.iter().for_each(|sum| all += sum);
                let of = if overflow { all.overflow } else { all.medium };
                let counts = [of.medium, of.overflow, of.unknown];
                rows.push(plain(format!("{name}, {kind}"), counts.map(|count| count.to_string())));
                // The paper's header cannot know of drops between two packets: a table shows what it makes of them, no claim.
                if profile != "C3" {
                    continue;
                }
                let worst = cells.iter().find(|cell| !cell.holds).or(cells.first());
                let ours = worst.map_or_else(String::new, |cell| format!("{}: {}", cell.setup, cell.ours));
                let claim = format!(
                    "{shown}: of losses by {name}, {kind}, at least {} are named so (target of ours)",
                    percent(least)
                );
                let paper = "medium losses are easily told from overflows, by loss ratio and capacity left";
                findings.claims.push(setups[0].claim(claim, paper).got(ours, cells));
            }
        }
        findings.tables.push(Table::new(
            format!("Losses by cause, and by what they were called: {shown}"),
            "Packets, over all shares of loss and all queues.",
            ["called the medium", "called a full queue", "not named"],
            rows,
        ));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_lose_the_same_share() {
        assert_eq!(loss(0.05, false), "0.05");
        // Of Gilbert's two states the bad one lasts enter / (enter + leave) of the time: 0.0625 / 0.3125.
        assert_eq!(loss(0.2, true), "{ gilbert = { enter = 0.062500, leave = 0.25 } }");
    }
}
