//! What delayed acknowledgements, loss, reordering and a cellular link do to a start-up.

use std::path::{Path, PathBuf};

use paceline_cc::Nanos;

use super::super::bench::{Bench, Finished, SHIPPED_TRACE, Setup, mean_rate};
use super::super::reading::{longest_silence, median, median_reached, most};
use super::super::{Cell, Claim, Drawing, Findings, ReproduceError};
use super::scale::{Start, start_up};
use super::{Rival, SCALE, all};
use paceline_report::chart::{ChartRow, Panel, PlotAxis, PlotLine, Sheet};
use paceline_report::svg::short;

const STEP: Nanos = Nanos::from_millis(1);
/// Longest silence that is not a stall, seconds: a least retransmission timeout (Linux: 200 ms) and a round trip, rounded
/// up.
const STALL: f64 = 0.25;
/// Simulated seconds of a run, and starts of flows that differ by up to this much.
const SECONDS: f64 = 3.0;
const RUNS: &str = "10";

/// A condition: its name, the clean one to compare it with, what it sets.
struct Condition {
    name: &'static str,
    clean: usize,
    set: &'static [(&'static str, &'static str)],
    traced: bool,
}

/// A cellular link has a deep queue that does not mark, and 40 ms.
const CELLULAR: &[(&str, &str)] = &[
    ("down.queue", "droptail:bytes=2MB"),
    ("down.delay", "20ms"),
    ("up.delay", "20ms"),
    ("flows.0.start", "0ms..15000ms"),
    ("seconds", "20"),
];

const CONDITIONS: &[Condition] = &[
    Condition { name: "clean", clean: 0, set: &[], traced: false },
    Condition { name: "delayed acks 2:1", clean: 0, set: &[("flows.0.ack_every", "2")], traced: false },
    Condition { name: "1 % loss", clean: 0, set: &[("down.loss", "0.01")], traced: false },
    Condition {
        name: "5 % reordered by 5 ms",
        clean: 0,
        set: &[("down.reorder.share", "0.05"), ("down.reorder.delay", "5ms")],
        traced: false,
    },
    Condition { name: "constant rate, deep queue", clean: 4, set: CELLULAR, traced: false },
    Condition { name: "cellular trace", clean: 4, set: CELLULAR, traced: true },
];

impl Condition {
    fn setup(&self, rival: &Rival, trace: &Path, mean: &str) -> Setup {
        let mut setup = Setup::new(&SCALE, &rival.contestant).sampled(STEP).set("runs", RUNS);
        if self.set.iter().all(|(key, _)| *key != "seconds") {
            setup = setup.set("flows.0.start", "0ms..20ms").set("seconds", &SECONDS.to_string());
        }
        for (key, value) in self.set {
            setup = setup.set(key, value);
        }
        match (self.traced, CONDITIONS[self.clean].set.is_empty()) {
            (true, _) => setup.trace(trace),
            // The clean case beside the trace has the trace's mean rate.
            (false, false) => setup.set("down.rate", mean),
            (false, true) => setup,
        }
    }

    fn is_clean(&self) -> bool {
        CONDITIONS[self.clean].name == self.name
    }
}

struct Run {
    start: Start,
    silence: f64,
}

fn digest(run: &Finished<'_>) -> Run {
    let series = run.series();
    let start = run.start(0);
    let length = series.step.as_secs_f64() * series.capacity_mbps.len() as f64;
    Run {
        start: start_up(run, 0.04),
        silence: longest_silence(series, &series.flows[0], (start + SECONDS).min(length)),
    }
}

/// The runs of a contestant under one condition.
struct Summary {
    end: Option<f64>,
    peak_ms: f64,
    silence: f64,
}

impl Summary {
    fn of(runs: &[Run]) -> Self {
        Self {
            end: median_reached(&runs.iter().map(|run| run.start.end).collect::<Vec<_>>()),
            peak_ms: median(&runs.iter().map(|run| run.start.peak_ms).collect::<Vec<_>>()),
            silence: most(&runs.iter().map(|run| run.silence).collect::<Vec<_>>()),
        }
    }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let trace = bench.settings.traces.first().cloned().unwrap_or_else(|| PathBuf::from(SHIPPED_TRACE));
    let mean = format!("{:.2} Mbit/s", mean_rate(&trace)?.as_mbps());
    let rivals = all("dctcp");
    let setups: Vec<Setup> = rivals
        .iter()
        .flat_map(|rival| CONDITIONS.iter().map(|condition| condition.setup(rival, &trace, &mean)))
        .collect();
    let results = bench.run(&setups, |_, run| digest(run))?;
    let summaries: Vec<Summary> = results.iter().map(|runs| Summary::of(runs)).collect();
    let mut claims = Vec::new();
    for (index, rival) in rivals.iter().enumerate().skip(1) {
        let at = index * CONDITIONS.len();
        let (own, setups) = (&summaries[at..at + CONDITIONS.len()], &setups[at..at + CONDITIONS.len()]);
        claims.extend(of_rival(rival, own, setups));
    }
    Ok(Findings {
        setup: vec![format!(
            "One flow on an idle link of 100 Mbit/s, 15 ms, step marking at 1 ms; the cellular link ({}) with 40 ms and a \
             deep drop-tail queue, beside a link of its mean rate, {mean}, with the same queue. {} runs of each, which meet other losses \
             and other parts of the trace. The queue is the longest wait of a packet until 40 ms after the start-up ended.",
            trace.display(),
            results[0].len()
        )],
        claims,
        drawings: vec![drawing(&rivals, &summaries)],
        scenarios: vec![(SCALE.path, SCALE.text)],
        ..Findings::default()
    })
}

fn of_rival(rival: &Rival, own: &[Summary], setups: &[Setup]) -> Vec<Claim> {
    let time = |end: Option<f64>| end.map_or("not within the run".to_owned(), |end| format!("{} ms", short(end * 1e3)));
    let cells = |judge: &dyn Fn(&Summary, &Summary) -> (String, bool), all: bool| -> Vec<Cell> {
        let conditions = CONDITIONS.iter().enumerate().filter(|(_, condition)| all || !condition.is_clean());
        conditions
            .map(|(at, condition)| {
                let (ours, holds) = judge(&own[at], &own[condition.clean]);
                Cell { setup: condition.name.to_owned(), ours, holds, command: setups[at].command() }
            })
            .collect()
    };
    let stated = |cells: &[Cell]| {
        cells.iter().map(|cell| format!("{}: {}", cell.setup, cell.ours)).collect::<Vec<_>>().join("; ")
    };
    let future = "left open: delayed acknowledgements, loss, reordering, links of variable rate";
    let claim = |text: &str, cells: Vec<Cell>| Claim::new(text, &rival.contestant, future).got(stated(&cells), cells);
    vec![
        claim(
            "the start-up ends within 1.3 times the time of the clean case (medians; target of ours)",
            cells(
                &|own, clean| {
                    let soon = own.end.zip(clean.end).is_some_and(|(own, clean)| own <= 1.3 * clean);
                    (format!("{}, clean {}", time(own.end), time(clean.end)), soon)
                },
                false,
            ),
        ),
        claim(
            "the start-up's largest queue is at most 3 times that of the clean case (medians; target of ours)",
            cells(
                &|own, clean| {
                    let ours = format!("{} ms, clean {} ms", short(own.peak_ms), short(clean.peak_ms));
                    (ours, own.peak_ms <= 3.0 * clean.peak_ms)
                },
                false,
            ),
        ),
        claim(
            "it never stalls: from its first data to its third second no 250 ms pass in which the link could carry, nothing \
             waits and nothing arrives (longest of all runs; target of ours)",
            cells(&|own, _| (format!("{} ms", short(own.silence * 1e3)), own.silence < STALL), true),
        ),
    ]
}

fn drawing(rivals: &[Rival], summaries: &[Summary]) -> Drawing {
    let lines = |value: &dyn Fn(&Summary) -> Option<f64>| -> Vec<PlotLine> {
        let of = |(index, rival): (usize, &Rival)| {
            let own = &summaries[index * CONDITIONS.len()..(index + 1) * CONDITIONS.len()];
            let points = own.iter().enumerate().map(|(at, summary)| (at as f64 + 1.0, value(summary))).collect();
            PlotLine { class: rival.class.into(), points, dots: true }
        };
        rivals.iter().enumerate().map(of).collect()
    };
    let (times, peaks) = (lines(&|one| one.end.map(|end| end * 1e3)), lines(&|one| Some(one.peak_ms)));
    let highest = |lines: &[PlotLine]| {
        lines.iter().flat_map(|line| &line.points).filter_map(|(_, y)| *y).fold(10.0, f64::max) * 1.2
    };
    let row =
        |y_title, y, lines| ChartRow { y_title, y, height: 130.0, panels: vec![Panel { lines, ..Panel::default() }] };
    let (longest, largest) = (highest(&times), highest(&peaks));
    let sheet = Sheet {
        label: "Length and largest queue of a start-up under each condition".to_owned(),
        x_title: "condition",
        x: PlotAxis::linear(CONDITIONS.len() as f64 + 0.5),
        rows: vec![
            row("start-up, ms (log)", PlotAxis::log(10.0, longest), times),
            row("largest queue, ms (log)", PlotAxis::log(0.5, largest), peaks),
        ],
        legend: rivals.iter().map(|rival| (rival.class.into(), rival.name.clone())).collect(),
    };
    let named = CONDITIONS.iter().enumerate().map(|(at, condition)| format!("{}: {}", at + 1, condition.name));
    Drawing {
        title: "Length and largest queue of a start-up under each condition".to_owned(),
        svg: sheet.draw(),
        note: format!("Medians. Conditions: {}.", named.collect::<Vec<_>>().join("; ")),
    }
}
