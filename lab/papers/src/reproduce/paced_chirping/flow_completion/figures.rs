//! The charts of figure 5: completion time against size, and the distribution of queueing delay.

use super::super::{Rival, legend};
use super::{LOADS, READINGS, RTTS_MS, Results, Summary};
use crate::reproduce::prelude::*;

/// Bins of sizes a decade (our choice: a bin of the largest sizes still holds some flows of each run).
const BINS: f64 = 3.0;
/// Fewest flows of a bin that is drawn.
const FEWEST: usize = 5;

/// Two for each reading and RTT.
pub(super) fn drawings(rivals: &[Rival], results: &[Results]) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    for reading in READINGS {
        for rtt_ms in RTTS_MS {
            let mine = |one: &&Results| one.condition.reading == reading && one.condition.rtt_ms == rtt_ms;
            let these: Vec<&Results> = results.iter().filter(mine).collect();
            let title = format!("RTT {rtt_ms} ms, {}", reading.name());
            drawings.push(times(&title, rivals, &these));
            drawings.push(queues(&title, rivals, &these));
        }
    }
    drawings
}

/// Points of a contestant.
type Curve<'a> = &'a dyn Fn(&Summary) -> Vec<(f64, Option<f64>)>;

/// A row without a greedy flow, a row with one; a column for each load.
fn sheet(
    rivals: &[Rival],
    results: &[&Results],
    y_title: &'static str,
    y: PlotAxis,
    x: (&'static str, PlotAxis),
    (curve, note): (Curve<'_>, &dyn Fn(&Results) -> String),
) -> Sheet {
    let panel = |one: &&Results| {
        let title = format!("{} % load{}", one.condition.load, if one.condition.greedy { ", greedy flow" } else { "" });
        let lines = rivals.iter().zip(&one.of).map(|(rival, summary)| PlotLine::new(rival.class, curve(summary)));
        Panel::new(title, note(one), lines.collect())
    };
    let row =
        |results: &[&Results]| ChartRow { y_title, y, height: 170.0, panels: results.iter().map(panel).collect() };
    let label = format!("{y_title} against {} under each load, without and with a greedy flow", x.0);
    Sheet::new(label, x, results.chunks(LOADS.len()).map(row).collect()).legend(legend(rivals))
}

fn times(title: &str, rivals: &[Rival], results: &[&Results]) -> Drawing {
    let all = || results.iter().flat_map(|one| &one.of).flat_map(by_size).filter_map(|(_, time)| time);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(1.0, f64::max));
    let sheet = sheet(
        rivals,
        results,
        "completion time, ms (log)",
        PlotAxis::log(low * 0.8, high * 1.2),
        ("size of the flow, kB (logarithmic)", PlotAxis::log(1.0, 5000.0)),
        (&by_size, &|_| String::new()),
    );
    let note = "Means over the flows of a third of a decade of sizes, over all runs.";
    Drawing::new(format!("Completion time against size: {title}"), &sheet, note)
}

/// Mean completion time in ms by size in kB.
fn by_size(summary: &Summary) -> Vec<(f64, Option<f64>)> {
    let mut bins: Vec<Vec<f64>> = vec![Vec::new(); (4.0 * BINS) as usize];
    for (bytes, time) in summary.runs.iter().flat_map(|run| &run.completions) {
        let bin = ((*bytes as f64 / 1e3).log10() * BINS) as usize;
        let last = bins.len() - 1;
        bins[bin.min(last)].push(*time);
    }
    let point = |(bin, times): (usize, &Vec<f64>)| {
        let middle = 10f64.powf((bin as f64 + 0.5) / BINS).min(5000.0);
        (times.len() >= FEWEST).then(|| (middle, Some(mean(times))))
    };
    bins.iter().enumerate().filter_map(point).collect()
}

fn queues(title: &str, rivals: &[Rival], results: &[&Results]) -> Drawing {
    let high = results.iter().flat_map(|one| &one.of).flat_map(cdf).map(|(x, _)| x).fold(1.0, f64::max);
    let note = |one: &Results| {
        let lowest = one.of.iter().map(|summary| summary.p99_ms).fold(f64::INFINITY, f64::min);
        let highest = one.of.iter().map(|summary| summary.p99_ms).fold(0.0, f64::max);
        format!("p99 {} to {} ms", short(lowest), short(highest))
    };
    let sheet = sheet(
        rivals,
        results,
        "packets below, %",
        PlotAxis::linear(100.0),
        ("queueing delay, ms (logarithmic)", PlotAxis::log(0.05, high * 1.1)),
        (&cdf, &note),
    );
    let note = "Share of the 1000 flows' packets that waited no longer; for each share the mean over the runs.";
    Drawing::new(format!("Distribution of queueing delay: {title}"), &sheet, note)
}

/// Shares in per cent by queueing delay in ms.
fn cdf(summary: &Summary) -> Vec<(f64, Option<f64>)> {
    let at = |percent: usize| {
        let delays: Vec<f64> = summary.runs.iter().filter_map(|run| run.quantiles_ms.get(percent).copied()).collect();
        (mean(&delays).max(0.05), Some(percent as f64))
    };
    (0..=100).map(at).collect()
}
