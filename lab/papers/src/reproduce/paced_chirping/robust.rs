//! What delayed acknowledgements, loss, reordering and a cellular link do to a start-up.

use crate::reproduce::prelude::*;
use std::path::{Path, PathBuf};

use super::super::bench::{SHIPPED_TRACE, mean_rate};
use super::super::reading::longest_silence;
use super::scale::{Start, start_up};
use super::{Rival, SCALE, all, legend};

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
            peak_ms: typical(runs, |run| run.start.peak_ms),
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
    for (own, setups) in summaries.chunks(CONDITIONS.len()).zip(setups.chunks(CONDITIONS.len())).skip(1) {
        claims.extend(of_rival(own, setups));
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
        scenarios: vec![&SCALE],
        ..Findings::default()
    })
}

fn of_rival(own: &[Summary], setups: &[Setup]) -> [Claim; 3] {
    let time = |end: Option<f64>| end.map_or("not within the run".to_owned(), |end| format!("{} ms", short(end * 1e3)));
    let claim = |text: &str, all: bool, judge: &dyn Fn(&Summary, &Summary) -> (String, bool)| {
        let conditions = CONDITIONS.iter().enumerate().filter(|(_, condition)| all || !condition.is_clean());
        let cell = |(at, condition): (usize, &Condition)| {
            let (ours, holds) = judge(&own[at], &own[condition.clean]);
            setups[at].cell(condition.name, ours, holds)
        };
        let future = "left open: delayed acknowledgements, loss, reordering, links of variable rate";
        setups[0].claim(text, future).got_each(conditions.map(cell).collect())
    };
    [
        claim(
            "the start-up ends within 1.3 times the time of the clean case (medians; target of ours)",
            false,
            &|own, clean| {
                let soon = own.end.zip(clean.end).is_some_and(|(own, clean)| own <= 1.3 * clean);
                (format!("{}, clean {}", time(own.end), time(clean.end)), soon)
            },
        ),
        claim(
            "the start-up's largest queue is at most 3 times that of the clean case (medians; target of ours)",
            false,
            &|own, clean| {
                let ours = format!("{} ms, clean {} ms", short(own.peak_ms), short(clean.peak_ms));
                (ours, own.peak_ms <= 3.0 * clean.peak_ms)
            },
        ),
        claim(
            "it never stalls: from its first data to its third second no 250 ms pass in which the link could carry, nothing \
             waits and nothing arrives (longest of all runs; target of ours)",
            true,
            &|own, _| (format!("{} ms", short(own.silence * 1e3)), own.silence < STALL),
        ),
    ]
}

fn drawing(rivals: &[Rival], summaries: &[Summary]) -> Drawing {
    let lines = |value: &dyn Fn(&Summary) -> Option<f64>| -> Vec<PlotLine> {
        let of = |(rival, own): (&Rival, &[Summary])| {
            PlotLine::dotted(rival.class, (1..).zip(own).map(|(at, one)| (f64::from(at), value(one))))
        };
        rivals.iter().zip(summaries.chunks(CONDITIONS.len())).map(of).collect()
    };
    let (times, peaks) = (lines(&|one| one.end.map(|end| end * 1e3)), lines(&|one| Some(one.peak_ms)));
    let row = |title, least, lines| {
        let most = highest(&lines, 10.0) * 1.2;
        ChartRow::single(title, PlotAxis::log(least, most), 130.0, lines)
    };
    let rows = vec![row("start-up, ms (log)", 10.0, times), row("largest queue, ms (log)", 0.5, peaks)];
    let title = "Length and largest queue of a start-up under each condition";
    let sheet = Sheet::new(title, ("condition", PlotAxis::linear(CONDITIONS.len() as f64 + 0.5)), rows);
    let named = CONDITIONS.iter().enumerate().map(|(at, condition)| format!("{}: {}", at + 1, condition.name));
    let note = format!("Medians. Conditions: {}.", named.collect::<Vec<_>>().join("; "));
    Drawing::new(title, &sheet.legend(legend(rivals)), note)
}
