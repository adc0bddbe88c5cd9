//! Figure 7: two long flows and twelve of 1 MB, one after another, beside UDP.

use crate::reproduce::prelude::*;
use paceline_experiment::Series;

use super::super::reading::{rate, reached};
use super::{MIXED, Rival, all, seconds};

const STEP: Nanos = Nanos::from_millis(5);
/// Over how long a rate must be held to count as reached, seconds: five round trips.
const WINDOW: f64 = 0.1;
/// What the UDP traffic leaves, Mbit/s.
const LEFT_MBPS: f64 = 96.0;
/// Flows of the scenario that have no end; the others have 1 MB.
const LONG: usize = 2;
const LENGTH: f64 = 15.0;

struct Run {
    /// Mean completion time of the flows of 1 MB, ms, and how many completed.
    mean_ms: f64,
    completed: u64,
    /// From the start of each long flow to 80 % of its share.
    times: Vec<Option<f64>>,
    /// Mean rate in the second after that, Mbit/s.
    after_mbps: Vec<Option<f64>>,
    series: Option<Series>,
}

fn digest(run: &Finished<'_>) -> Run {
    let series = run.series();
    let short = || run.outcome.flows[LONG..].iter();
    let times: Vec<f64> = short().flat_map(|flow| &flow.completions).map(|(_, time)| time.as_millis_f64()).collect();
    let time = |index: usize| {
        let fair = LEFT_MBPS / (index + 1) as f64;
        reached(series, &series.flows[index], run.start(index), WINDOW, 0.8 * fair)
    };
    let reached_after: Vec<Option<f64>> = (0..LONG).map(time).collect();
    let after = |index: usize| {
        reached_after[index].map(|time| rate(series, &series.flows[index], run.start(index) + time, 1.0))
    };
    Run {
        mean_ms: mean(&times),
        completed: short().map(|flow| flow.fct.count()).sum(),
        after_mbps: (0..LONG).map(after).collect(),
        times: reached_after,
        series: (run.number == 1).then(|| series.clone()),
    }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let rivals = all("dctcp");
    let setups: Vec<Setup> = rivals.iter().map(|rival| Setup::new(&MIXED, &rival.contestant).sampled(STEP)).collect();
    let results = bench.run(&setups, |_, run| digest(run))?;
    let fct = |runs: &[Run]| typical(runs, |run| run.mean_ms);
    let time = |runs: &[Run], flow: usize| median_reached(&runs.iter().map(|run| run.times[flow]).collect::<Vec<_>>());
    let slow = &results[0];
    let stated = |time: Option<f64>, runs: &[Run], flow: usize| {
        let after = median(&runs.iter().filter_map(|run| run.after_mbps[flow]).collect::<Vec<_>>());
        format!("{} (then {} Mbit/s over the next second)", seconds(time), short(after))
    };
    let mut claims = Vec::new();
    for (setup, runs) in setups.iter().zip(&results).skip(1) {
        let (own, theirs) = (fct(runs), fct(slow));
        let all_done = runs.iter().all(|run| run.completed == 12);
        let each: Vec<f64> = runs.iter().map(|run| run.mean_ms).collect();
        let ours = format!(
            "{} ms ({} to {}), with slow start {} ms",
            short(own),
            short(least(&each)),
            short(most(&each)),
            short(theirs)
        );
        let claim = "the twelve flows of 1 MB take less time with chirping than with slow start, all twelve complete \
                     (median over runs of their mean)";
        let paper = "the smaller flows complete faster";
        let condition = "120 Mbit/s, 20 ms, 24 Mbit/s of UDP";
        claims.push(setup.found((claim, paper), condition, ours, own < theirs && all_done));
        let cells = ["first long flow", "second long flow"].into_iter().enumerate().map(|(flow, name)| {
            let (own, theirs) = (time(runs, flow), time(slow, flow));
            let sooner = own.is_some_and(|own| theirs.is_none_or(|theirs| own < theirs));
            let ours = format!("{}, with slow start {}", stated(own, runs, flow), stated(theirs, slow, flow));
            setup.cell(name, ours, sooner)
        });
        let cells: Vec<_> = cells.collect();
        let ours = cells.iter().map(|cell| cell.ours.as_str()).collect::<Vec<_>>().join("; ");
        let claim = "each long flow reaches 80 % of its share of what UDP leaves sooner than with slow start (median)";
        claims.push(setup.claim(claim, "the long-lived flows accelerate faster").got(ours, cells));
    }
    Ok(Findings {
        setup: vec![format!(
            "{} runs of each with other starts (by up to 0.1 s) and other UDP. A rate counts as reached when the mean over \
             100 ms is that high.",
            slow.len()
        )],
        claims,
        drawings: drawings(&rivals, &results),
        scenarios: vec![&MIXED],
        ..Findings::default()
    })
}

fn drawings(rivals: &[Rival], results: &[Vec<Run>]) -> Vec<Drawing> {
    let names = ["first long flow", "second long flow", "flows of 1 MB"];
    let legend: Vec<(Class, String)> = palette::others().map(Class::from).zip(names.map(str::to_owned)).collect();
    let panel = |(rival, runs): (&Rival, &Vec<Run>)| {
        let series = runs[0].series.as_ref()?;
        let class = |index: usize| legend[index.min(names.len() - 1)].0.clone();
        let line = |(index, flow)| PlotLine::new(class(index), curves::rate(series, flow, 0.05));
        // Short flows first, so that they lie behind.
        let lines = series.flows.iter().enumerate().map(line).rev().collect();
        Some(Panel::new(&rival.name, format!("1 MB in {} ms on average", short(runs[0].mean_ms)), lines))
    };
    let panels: Vec<Panel> = rivals.iter().zip(results).filter_map(panel).collect();
    let row = |panels: &[Panel]| ChartRow {
        y_title: "throughput, Mbit/s",
        y: PlotAxis::linear(125.0),
        height: 150.0,
        panels: panels.to_vec(),
    };
    let rows = panels.chunks(2).map(row).collect();
    let x = ("time, s", PlotAxis::linear(LENGTH));
    let sheet = Sheet::new("Throughput of two long and twelve short flows over time", x, rows).legend(legend);
    let note = "First run; means over 50 ms. The UDP traffic is not shown.";
    vec![Drawing::new("Throughput of each flow", &sheet, note)]
}
