//! A newcomer meets one greedy flow, over step marking and over DualPI2.

use crate::reproduce::prelude::*;
use paceline_experiment::Series;

use super::super::reading::{peak_ms, rate, reached};
use super::{NEWCOMER, Rival, all, legend, seconds};

const STEP: Nanos = Nanos::from_millis(1);
/// Over how long a rate must be held to count as reached, seconds: four round trips.
const WINDOW: f64 = 0.06;
/// Half of the newcomer's fair share of 100 Mbit/s.
const HALF_MBPS: f64 = 25.0;
/// For how long after the start its queue is looked at, seconds.
const AFTER: f64 = 1.0;

/// A bottleneck, the controller of both flows there, and how high the queue may stand.
struct Bottleneck {
    name: &'static str,
    policy: &'static str,
    queue: Option<&'static str>,
    bound_ms: f64,
}

const BOTTLENECKS: [Bottleneck; 2] = [
    Bottleneck { name: "step marking at 1 ms, DCTCP", policy: "dctcp", queue: None, bound_ms: 3.0 },
    Bottleneck { name: "DualPI2, Prague", policy: "prague", queue: Some("dualpi2"), bound_ms: 2.0 },
];

struct Run {
    time: Option<f64>,
    /// Mean rate in the second after that, Mbit/s.
    after_mbps: Option<f64>,
    peak_ms: f64,
    start: f64,
    series: Option<Series>,
}

fn digest(run: &Finished<'_>) -> Run {
    let series = run.series();
    let start = run.start(1);
    let time = reached(series, &series.flows[1], start, WINDOW, HALF_MBPS);
    Run {
        time,
        after_mbps: time.map(|time| rate(series, &series.flows[1], start + time, 1.0)),
        peak_ms: peak_ms(series, start, start + AFTER),
        start,
        series: (run.number == 1).then(|| series.clone()),
    }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let mut findings = Findings { scenarios: vec![&NEWCOMER], ..Findings::default() };
    for bottleneck in &BOTTLENECKS {
        let rivals = all(bottleneck.policy);
        let setup = |rival: &Rival| {
            let setup = Setup::new(&NEWCOMER, &rival.contestant).sampled(STEP);
            match bottleneck.queue {
                None => setup,
                Some(queue) => {
                    setup.set("flows.0.contestant", &format!("{}@tcp", bottleneck.policy)).set("down.queue", queue)
                }
            }
        };
        let setups: Vec<Setup> = rivals.iter().map(setup).collect();
        let results = bench.run(&setups, |_, run| digest(run))?;
        claims(bottleneck, &setups, &results, &mut findings.claims);
        findings.drawings.push(drawing(bottleneck, &rivals, &results));
        if findings.setup.is_empty() {
            findings.setup.push(format!(
                "100 Mbit/s, 15 ms. {} runs in which the newcomer starts at other times within 0.1 s. A rate counts as \
                 reached when the mean over 60 ms, four round trips, is that high.",
                results[0].len()
            ));
        }
    }
    Ok(findings)
}

fn claims(bottleneck: &Bottleneck, setups: &[Setup], results: &[Vec<Run>], claims: &mut Vec<Claim>) {
    let time = |runs: &[Run]| median_reached(&runs.iter().map(|run| run.time).collect::<Vec<_>>());
    let peak = |runs: &[Run]| most(&runs.iter().map(|run| run.peak_ms).collect::<Vec<_>>());
    let slow = time(&results[0]);
    let stated = |time: Option<f64>, runs: &[Run]| {
        let after = median(&runs.iter().filter_map(|run| run.after_mbps).collect::<Vec<_>>());
        format!("{} (then {} Mbit/s over the next second)", seconds(time), short(after))
    };
    for (setup, runs) in setups.iter().zip(results).skip(1) {
        let mut claim = |claim: String, paper: &str, ours: String, holds: bool| {
            claims.push(setup.found((claim, paper), bottleneck.name, ours, holds));
        };
        let own = time(runs);
        claim(
            format!(
                "{}: a newcomer reaches half its fair share at least 3 times sooner than with slow start (median; target of \
                 ours)",
                bottleneck.name
            ),
            "each chirp pushes against pre-existing flows, so that they yield",
            format!("{}, with slow start {}", stated(own, runs), stated(slow, &results[0])),
            own.is_some_and(|own| slow.is_none_or(|slow| 3.0 * own <= slow)),
        );
        let own = peak(runs);
        claim(
            format!(
                "{}: the largest queue in the second after its start stays below {} ms (largest of all runs; target of \
                 ours)",
                bottleneck.name, bottleneck.bound_ms
            ),
            "2 to 3 ms over a typical RTT of 20 ms",
            format!("{} ms, with slow start {} ms", short(own), short(peak(&results[0]))),
            own < bottleneck.bound_ms,
        );
    }
}

fn drawing(bottleneck: &Bottleneck, rivals: &[Rival], results: &[Vec<Run>]) -> Drawing {
    let shown = 1.5;
    let around = |points: Vec<(f64, Option<f64>)>, start: f64| -> Vec<(f64, Option<f64>)> {
        let moved = points.into_iter().map(|(x, y)| (x - start + 0.1, y));
        moved.filter(|(x, _)| (0.0..=shown).contains(x)).collect()
    };
    let (mut rates, mut queues) = (Vec::new(), Vec::new());
    for (rival, runs) in rivals.iter().zip(results) {
        let Some(series) = &runs[0].series else { continue };
        let start = runs[0].start;
        rates.push(PlotLine::new(rival.class, around(curves::rate(series, &series.flows[1], 0.015), start)));
        queues.push(PlotLine::new(rival.class, around(curves::queue(series, 0.005), start)));
    }
    let high = highest(&queues, 3.0);
    let rows = vec![
        ChartRow::single("newcomer, Mbit/s", PlotAxis::linear(100.0), 150.0, rates),
        ChartRow::single("queue, ms", PlotAxis::linear(high * 1.05), 150.0, queues),
    ];
    let x = ("time, s; the newcomer starts at 0.1", PlotAxis::linear(shown));
    let sheet = Sheet::new("Throughput of a newcomer and queueing delay over time", x, rows).legend(legend(rivals));
    let note = "First run. Throughput: means over 15 ms. Queue: largest delay of a packet in each 5 ms.";
    Drawing::new(bottleneck.name, &sheet, note)
}
