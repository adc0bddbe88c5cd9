//! Does the queue of a start-up depend on the rate?

use super::super::reading::{packets, peak_ms, start_up_end};
use super::{Rival, SCALE, all, legend};
use crate::reproduce::prelude::*;

/// Rates of the link, Mbit/s.
const RATES: [f64; 7] = [10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0];
const STEP: Nanos = Nanos::from_millis(1);
const RTT: f64 = 0.015;

/// How a start-up went.
#[derive(Clone, Copy)]
pub(super) struct Start {
    /// When it ended, seconds from the flow's start; `None`: not within the run.
    pub(super) end: Option<f64>,
    /// Largest queueing delay until a round trip after its end, ms.
    pub(super) peak_ms: f64,
}

/// Of the first flow of a run.
pub(super) fn start_up(run: &Finished<'_>, rtt: f64) -> Start {
    let series = run.series();
    let start = run.start(0);
    let end = start_up_end(series, &series.flows[0]);
    let length = series.step.as_secs_f64() * series.capacity_mbps.len() as f64;
    Start { end: end.map(|end| end - start), peak_ms: peak_ms(series, start, end.unwrap_or(length) + rtt) }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let rivals = all("dctcp");
    let mut setups = Vec::new();
    for rival in &rivals {
        let at = |mbps: &f64| Setup::new(&SCALE, &rival.contestant).set("down.rate", &format!("{mbps} Mbit/s"));
        setups.extend(RATES.iter().map(|mbps| at(mbps).sampled(STEP)));
    }
    let results = bench.run(&setups, |_, run| start_up(run, RTT))?;
    let per_rival: Vec<Vec<(f64, Start)>> = results
        .chunks(RATES.len())
        .map(|runs| RATES.iter().copied().zip(runs.iter().map(|runs| runs[0])).collect())
        .collect();
    let mut claims = Vec::new();
    for (starts, setups) in per_rival.iter().zip(setups.chunks(RATES.len())).skip(1) {
        let queued: Vec<f64> = starts.iter().map(|(mbps, start)| packets(start.peak_ms, *mbps)).collect();
        let middle = mean(&queued);
        let cell = |(at, (mbps, start)): (usize, &(f64, Start))| {
            let end = start.end.map_or("the run".to_owned(), |end| format!("{} ms", short(end * 1e3)));
            let ours = format!("{} packets, start-up ends after {end}", short(queued[at]));
            let holds = start.end.is_some() && (queued[at] - middle).abs() <= 0.2 * middle;
            setups[at].cell(format!("{mbps} Mbit/s"), ours, holds)
        };
        let cells = starts.iter().enumerate().map(cell).collect();
        let list = queued.iter().map(|packets| short(*packets)).collect::<Vec<_>>().join(", ");
        let claim = "the largest queue of a start-up, in packets, is the same from 10 Mbit/s to 10 Gbit/s: each within 20 % of \
                     their mean (target of ours)";
        let paper =
            "queue delay will not depend on the window: it will remain scale-independent (100 to 150 Mb/s were tried)";
        claims.push(setups[0].claim(claim, paper).got(format!("{list} packets; mean {}", short(middle)), cells));
    }
    Ok(Findings {
        setup: vec![
            "One flow on an idle link, 15 ms. The queue is the longest wait of a packet until a round trip after the \
             start-up ended, in packets of 1500 bytes."
                .to_owned(),
        ],
        claims,
        drawings: vec![drawing(&rivals, &per_rival)],
        scenarios: vec![&SCALE],
        ..Findings::default()
    })
}

fn drawing(rivals: &[Rival], per_rival: &[Vec<(f64, Start)>]) -> Drawing {
    let lines = |value: &dyn Fn(f64, &Start) -> Option<f64>| -> Vec<PlotLine> {
        let line = |(rival, starts): (&Rival, &Vec<(f64, Start)>)| {
            PlotLine::dotted(rival.class, starts.iter().map(|(mbps, start)| (*mbps, value(*mbps, start))))
        };
        rivals.iter().zip(per_rival).map(line).collect()
    };
    let queue = lines(&|mbps, start| Some(packets(start.peak_ms, mbps)));
    let time = lines(&|_, start| start.end.map(|end| end * 1e3));
    let (high, longest) = (highest(&queue, 10.0), highest(&time, 100.0));
    let rows = vec![
        ChartRow::single("largest queue, packets (log)", PlotAxis::log(1.0, high * 1.2), 170.0, queue),
        ChartRow::single("length of the start-up, ms", PlotAxis::linear(longest * 1.05), 170.0, time),
    ];
    let label = "Largest queue and length of a start-up against the rate of the link";
    let x = ("rate of the link, Mbit/s (logarithmic)", PlotAxis::log(RATES[0], RATES[RATES.len() - 1]));
    let sheet = Sheet::new(label, x, rows).legend(legend(rivals));
    let note = "Less than one packet is drawn at 1. A start-up that did not end within the second has no point below.";
    Drawing::new("Queue and length of a start-up", &sheet, note)
}
