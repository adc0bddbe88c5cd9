//! Several flows of a host: what the paper leaves to a congestion manager (its section 6), and the target that we set for it.

use super::fidelity::where_it_ran;
use super::run::{Run, STEP};
use super::{BESIDE_CUBIC, TEN};
use crate::reproduce::prelude::*;
use paceline_lab::measure::jain;

/// Flows of a run.
const FLOWS: usize = 10;
/// Jain's index that ten flows must reach (our target).
const FAIR: f64 = 0.95;
/// Share of a run that is left out at its beginning: until all flows are there and have found their rates (a run of 30 s: the
/// last comes after 4.6 s).
const SETTLE: f64 = 1.0 / 3.0;
/// What the link carries, Mbit/s.
const MBPS: f64 = 40.0;

/// Mbit/s of each flow once it has settled.
fn shares(run: &Run, flows: usize, seconds: f64) -> Vec<f64> {
    (0..flows).map(|flow| run.rate(flow, SETTLE * seconds, seconds)).collect()
}

/// What ten flows got.
fn told_of_ten(runs: &[Run], seconds: f64) -> (f64, String) {
    let index = over(runs, |run| jain(&shares(run, FLOWS, seconds)));
    let all: Vec<f64> = runs.iter().flat_map(|run| shares(run, FLOWS, seconds)).collect();
    (index.median, format!("{}, a flow {} to {} Mbit/s", stated(&index), short(least(&all)), short(most(&all))))
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let seconds = bench.settings.seconds.unwrap_or(30.0);
    // Sockets of a process share their RTT through the engine, which the simulator does not have.
    let ten = ["copa@alcc:share=on", "copa@alcc", "copa@udp", "cubic@tcp"];
    let ten = if bench.is_real() { &ten[..] } else { &ten[1..] };
    let pairs = ["copa@alcc", "copa@udp"];
    let setups: Vec<Setup> = ten
        .iter()
        .map(|name| Setup::new(&TEN, name).sampled(STEP))
        .chain(pairs.iter().map(|name| Setup::new(&BESIDE_CUBIC, name).sampled(STEP)))
        .collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let (of_ten, of_pairs) = results.split_at(ten.len());

    let mut claims = Vec::new();
    let above = ten.iter().zip(of_ten).zip(&setups).filter(|((name, _), _)| name.contains("@alcc"));
    for ((name, runs), setup) in above {
        let (index, ours) = told_of_ten(runs, seconds);
        let whose = if name.contains("share=on") { "of one process" } else { "that know nothing of each other" };
        let text = format!("ten flows {whose} share with a Jain's index of at least {FAIR} (target of ours)");
        let paper = "several flows of a host need a congestion manager for fair sharing, an essential extension";
        claims.push(setup.found((text, paper), "ten flows", ours, index >= FAIR));
    }
    let beside = |runs: &[Run]| {
        let rate = |flow: usize| over(runs, |run| shares(run, 2, seconds)[flow]);
        (rate(0), rate(1))
    };
    let (own, cubic) = beside(&of_pairs[0]);
    let (native, native_cubic) = beside(&of_pairs[1]);
    let ours = format!(
        "CUBIC {} Mbit/s beside {}; beside native Copa {} and {}",
        stated(&cubic),
        stated(&own),
        stated(&native_cubic),
        stated(&native)
    );
    let text =
        "beside Copa above TCP a CUBIC flow gets at least its fair share, half of what both carry (target of ours)";
    let paper = "ALCC-Copa is fair to the competing TCP flow";
    let holds = cubic.median >= (own.median + cubic.median) / 2.0;
    claims.push(setups[ten.len()].found((text, paper), "the whole run", ours, holds));

    let row = |(name, runs): (&&str, &Vec<Run>)| {
        let used = typical(runs, |run| shares(run, FLOWS, seconds).iter().sum::<f64>() / MBPS);
        let delay = typical(runs, |run| run.delay(50));
        let all: Vec<f64> = runs.iter().flat_map(|run| shares(run, FLOWS, seconds)).collect();
        let index = typical(runs, |run| jain(&shares(run, FLOWS, seconds)));
        let values = [format!("{index:.3}"), short(mean(&all)), format!("{:.0} %", 100.0 * used), short(delay)];
        let mut row = plain(*name, values);
        row.1[1].1 = format!("{} to {}", short(least(&all)), short(most(&all)));
        row
    };
    Ok(Findings {
        setup: vec![format!(
            "A link of {MBPS} Mbit/s and 20 ms of RTT with a queue of 200 kB. Ten flows, one more every 500 ms; and one flow beside one \
             of CUBIC. {} of each, {}. Rates are those of the last two thirds of a run.",
            counted(of_ten[0].len(), "run"),
            where_it_ran(bench),
        )],
        claims,
        tables: vec![Table::new(
            "Ten flows",
            "Medians over runs; of a flow's rate the mean, below it the smallest and the largest.",
            ["Jain's index", "a flow, Mbit/s", "of the link", "the first flow's median delay, ms"],
            ten.iter().zip(of_ten).map(row),
        )],
        drawings: vec![drawing(&ten[..2], of_ten, seconds)],
        scenarios: vec![&TEN, &BESIDE_CUBIC],
        ..Findings::default()
    })
}

fn drawing(names: &[&str], results: &[Vec<Run>], seconds: f64) -> Drawing {
    let classes = palette::classes(names.iter().copied());
    let panel = |((name, runs), class): ((&&str, &Vec<Run>), &String)| {
        let lines = runs.first().map(|run| {
            let line = |flow| PlotLine::new(class.clone(), curves::rate(&run.series, flow, 1.0));
            run.series.flows.iter().take(FLOWS).map(line).collect()
        });
        Panel::new(*name, "", lines.unwrap_or_default())
    };
    let panels = names.iter().zip(results).zip(&classes).map(panel).collect();
    let row = ChartRow { y_title: "Mbit/s", y: PlotAxis::linear(0.4 * MBPS), height: 150.0, panels };
    let sheet = Sheet::new("Throughput of ten flows over time", ("s", PlotAxis::linear(seconds)), vec![row]);
    Drawing::new("Ten flows over time", &sheet, "First run, means over 1 s, a line for each flow.")
}
