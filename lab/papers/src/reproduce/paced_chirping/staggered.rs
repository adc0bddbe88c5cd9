//! Figures 1 and 6: four flows join a bottleneck one after another.

use crate::reproduce::prelude::*;
use paceline_experiment::{FlowSeries, Series};

use super::super::reading::{jain, packets, peak_ms, reached, start_up_end};
use super::{Rival, STAGGERED, all, plain, seconds};
use paceline_report::logs::GREY;

/// Time between two points: short against a round trip.
const STEP: Nanos = Nanos::from_millis(5);
/// Over how long a rate must be held to count as reached, seconds: seven round trips.
const WINDOW: f64 = 0.1;
/// For how long after a start its queue is looked at, seconds.
const AFTER: f64 = 1.0;
const RTT: f64 = 0.015;

/// What is kept of a run.
struct Run {
    /// Largest queueing delay in the start-up of the first flow, ms.
    first_peak_ms: f64,
    /// Largest queueing delay in the second before each later start, and in the second after it, ms.
    peaks_ms: Vec<(f64, f64)>,
    /// From each later start to 80 % of the fair share, seconds.
    times: Vec<Option<f64>>,
    /// Rate of each later flow right after its start-up, as a share of its fair share.
    shares: Vec<f64>,
    jain: f64,
    series: Option<Series>,
}

fn digest(run: &Finished<'_>, mbps: f64, length: f64) -> Run {
    let series = run.series();
    let step = series.step.as_secs_f64();
    let mut kept = Run {
        first_peak_ms: 0.0,
        peaks_ms: Vec::new(),
        times: Vec::new(),
        shares: Vec::new(),
        jain: jain(series, 0.75 * length, length),
        series: (run.number == 1).then(|| series.clone()),
    };
    for (index, flow) in series.flows.iter().enumerate() {
        let start = run.start(index);
        let end = start_up_end(series, flow).unwrap_or(length);
        if index == 0 {
            kept.first_peak_ms = peak_ms(series, start, end + RTT);
            continue;
        }
        let fair = mbps / (index + 1) as f64;
        kept.peaks_ms.push((peak_ms(series, start - AFTER, start), peak_ms(series, start, start + AFTER)));
        kept.times.push(reached(series, flow, start, WINDOW, 0.8 * fair));
        let after = (end / step) as usize..((end + WINDOW) / step) as usize;
        let rates = flow.throughput_mbps.get(after).unwrap_or(&[]);
        kept.shares.push(mean(rates) / fair);
    }
    kept
}

/// A value of each newcomer of each run.
fn newcomers<T: Copy>(runs: &[Run], values: impl Fn(&Run) -> &[T]) -> Vec<T> {
    runs.iter().flat_map(|run| values(run).to_vec()).collect()
}

/// The largest queueing delay in the second after a newcomer's start, ms.
fn most_after(runs: &[Run]) -> f64 {
    most(&newcomers(runs, |run| &run.peaks_ms).into_iter().map(|(_, after)| after).collect::<Vec<_>>())
}

const LENGTH: f64 = 60.0;

/// Figure 1.
pub(super) fn dctcp(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let rival = plain("dctcp");
    let setup = Setup::new(&STAGGERED, &rival.contestant)
        .set("down.rate", "120 Mbit/s")
        .set("down.queue", "step:threshold=2550us")
        .sampled(STEP);
    let runs = bench.run(std::slice::from_ref(&setup), |_, run| digest(run, 120.0, LENGTH))?.remove(0);
    let claim = |claim: &str, paper: &str, ours: String, holds: bool| {
        setup.found((claim, paper), "120 Mbit/s, 15 ms, threshold 0.17 BDP (2.55 ms)", ours, holds)
    };
    let (before, after): (Vec<f64>, Vec<f64>) = newcomers(&runs, |run| &run.peaks_ms).into_iter().unzip();
    let (before, after) = (median(&before), median(&after));
    let time = median_reached(&newcomers(&runs, |run| &run.times));
    let share = median(&newcomers(&runs, |run| &run.shares));
    let claims = vec![
        claim(
            "the largest queue in the second after a newcomer's start is at most 1.2 ms above that of the second \
             before: its initial window of 10 packets is 1 ms (median of newcomers; tolerance ours)",
            "each new flow hardly increases queuing delay at all",
            format!("{} ms before, {} ms after", short(before), short(after)),
            after <= before + 1.2,
        ),
        claim(
            "a newcomer leaves slow start below half its fair share (median rate of the 100 ms that follow; tolerance \
             ours)",
            "each flow exits slow-start very early",
            format!("{} % of the fair share", short(100.0 * share)),
            share <= 0.5,
        ),
        claim(
            "a newcomer needs 1 s or more, 67 round trips, to 80 % of its fair share (median; tolerance ours)",
            "convergence to steady state is very slow",
            seconds(time),
            time.is_none_or(|time| time >= 1.0),
        ),
    ];
    Ok(Findings {
        setup: vec![format!(
            "Four DCTCP flows, one every 10 s, {} runs with starts that differ by up to 0.1 s. A rate counts as reached \
             when the mean over 100 ms is that high.",
            runs.len()
        )],
        claims,
        drawings: drawings(&[(&rival, &runs)], 120.0),
        scenarios: vec![&STAGGERED],
        ..Findings::default()
    })
}

/// Figure 6.
pub(super) fn chirping(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let mbps = 150.0;
    let rivals = all("dctcp");
    let setups: Vec<Setup> =
        rivals.iter().map(|rival| Setup::new(&STAGGERED, &rival.contestant).sampled(STEP)).collect();
    let results = bench.run(&setups, |_, run| digest(run, mbps, LENGTH))?;
    let time = |runs: &[Run]| median_reached(&newcomers(runs, |run| &run.times));
    let (slow, low) = (time(&results[0]), most_after(&results[0]));
    let mut claims = Vec::new();
    for (setup, runs) in setups.iter().zip(&results).skip(1) {
        let mut claim = |claim: &str, paper: &str, ours: String, holds: bool| {
            claims.push(setup.found((claim, paper), "150 Mbit/s, 15 ms, threshold 1 ms", ours, holds));
        };
        let own = time(runs);
        claim(
            "a newcomer reaches 80 % of its fair share at least 3 times sooner than with slow start (median; tolerance \
             ours)",
            "each flow converges to steady state very fast",
            format!("{}, with slow start {}", seconds(own), seconds(slow)),
            own.is_some_and(|own| slow.is_none_or(|slow| 3.0 * own <= slow)),
        );
        let first = most(&runs.iter().map(|run| packets(run.first_peak_ms, mbps)).collect::<Vec<_>>());
        claim(
            "the first flow's start-up queues at most 10 packets: its first two bursts of 5 (reading of the paper)",
            "no noticeable queue except for the first two bursts of 5 packets",
            format!("{} packets", short(first)),
            first <= 10.0,
        );
        let own = most_after(runs);
        claim(
            "the largest queue in the second after a newcomer's start is at most 2 ms above that with slow start \
             (largest of all runs; tolerance ours)",
            "slightly more queue than DCTCP builds",
            format!("{} ms, with slow start {} ms", short(own), short(low)),
            own <= low + 2.0,
        );
        let index = least(&runs.iter().map(|run| run.jain).collect::<Vec<_>>());
        claim(
            "Jain's index of the four over the last quarter of the run is at least 0.98 (smallest of all runs; target of \
             ours)",
            "steady state: equal rates in the figure",
            format!("{index:.3}"),
            index >= 0.98,
        );
    }
    let shown: Vec<(&Rival, &[Run])> = rivals.iter().zip(&results).map(|(rival, runs)| (rival, &**runs)).collect();
    Ok(Findings {
        setup: vec![format!(
            "As figure 1 with 150 Mbit/s and a threshold of 1 ms, for each start-up: {} runs with starts that differ by \
             up to 0.1 s.",
            results[0].len()
        )],
        claims,
        drawings: drawings(&shown, mbps),
        figure: figure(&shown, mbps),
        scenarios: vec![&STAGGERED],
        ..Findings::default()
    })
}

/// Throughput of each flow and the queue over time, in the first run of each.
fn drawings(shown: &[(&Rival, &[Run])], mbps: f64) -> Vec<Drawing> {
    let high = highest(shown);
    let drawing = |shown: &[(&Rival, &[Run])]| {
        let title = shown.iter().map(|(rival, _)| rival.name.as_str()).collect::<Vec<_>>().join("; ");
        let note = "First run. Throughput: means over 200 ms. Queue: largest delay of a packet in each 50 ms.";
        Drawing::new(title, &sheet(shown, mbps, high), note)
    };
    shown.chunks(3).map(drawing).collect()
}

/// Slow start beside ours, with what newcomers get.
fn figure(shown: &[(&Rival, &[Run])], mbps: f64) -> Option<String> {
    let (slow, ours) = (*shown.first()?, *shown.last()?);
    let both = [slow, ours];
    let mut sheet = sheet(&both, mbps, highest(&both));
    let [rates, queues] = sheet.rows.as_mut_slice() else { return None };
    for (panel, (_, runs)) in rates.panels.iter_mut().zip(both) {
        let time = median_reached(&newcomers(runs, |run| &run.times));
        panel.note = format!("80 % of the fair share after {}", seconds(time));
    }
    if let Some(panel) = rates.panels.last_mut() {
        panel.title = "DCTCP, paced chirping".to_owned();
    }
    for (panel, (_, runs)) in queues.panels.iter_mut().zip(both) {
        panel.note = format!("at most {} ms after a flow starts", short(most_after(runs)));
    }
    Some(sheet.file())
}

/// Largest queue of the first runs, ms.
fn highest(shown: &[(&Rival, &[Run])]) -> f64 {
    let firsts = || shown.iter().map(|(_, runs)| &runs[0]);
    let after = firsts().flat_map(|run| &run.peaks_ms).map(|(_, after)| *after);
    after.chain(firsts().map(|run| run.first_peak_ms)).fold(1.0, f64::max)
}

/// A column for each contestant: rates above, the queue below.
fn sheet(shown: &[(&Rival, &[Run])], mbps: f64, high: f64) -> Sheet {
    let names = ["first flow", "second", "third", "fourth"];
    let classes: Vec<Class> = palette::others().map(Class::from).collect();
    let (mut rates, mut queues) = (Vec::new(), Vec::new());
    for (rival, runs) in shown {
        let Some(series) = &runs[0].series else { continue };
        let line = |(flow, class): (&FlowSeries, &Class)| PlotLine::new(class.clone(), curves::rate(series, flow, 0.2));
        let lines = series.flows.iter().zip(&classes).map(line).collect();
        rates.push(Panel::new(&rival.name, format!("Jain {:.3}", runs[0].jain), lines));
        queues.push(Panel::new("", "", vec![PlotLine::new(GREY, curves::queue(series, 0.05))]));
    }
    let rows = vec![
        ChartRow { y_title: "throughput, Mbit/s", y: PlotAxis::linear(mbps * 1.05), height: 170.0, panels: rates },
        ChartRow { y_title: "queue, ms", y: PlotAxis::linear(high * 1.05), height: 90.0, panels: queues },
    ];
    let label = "Throughput of four flows and queueing delay over time";
    Sheet::new(label, ("time, s", PlotAxis::linear(LENGTH)), rows).legend(classes.into_iter().zip(names))
}
