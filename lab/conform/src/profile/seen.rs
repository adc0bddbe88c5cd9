//! What one run shows: figures, a sentence that they support, and a picture.

use paceline_experiment::Series;
use paceline_lab::numbers::{plain, span};
use paceline_lab::record::Run;
use paceline_report::chart::{ChartRow, Class, PlotAxis, PlotLine, Sheet};
use paceline_report::palette;

use super::paths::StandardPath;

/// Steps of the series that make one point of a picture (our choice: about 120 points a curve, a fifth of what the page of a race has).
const JOINED: usize = 5;
/// Shares of the own flow of both flows between which sharing is called even (our choice: RFC 9743 asks for no figure).
const EVEN: (f64, f64) = (0.4, 0.6);
/// New capacity counts as found when this much of it is used (our choice).
const FOUND: f64 = 0.8;
const SO_MUCH: &str = "80 %";

/// What a controller did on a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Throughput of its flow while it was there, Mbit/s.
    pub mbps: f64,
    /// Its share: of what the link could carry, or beside another flow of what both got from 10 s on.
    pub share: f64,
    /// Median queueing delay of its packets, ms.
    pub queue_p50_ms: f64,
    /// 95th percentile of it, ms.
    pub queue_p95_ms: f64,
    /// Share of its packets that were dropped or lost.
    pub loss: f64,
    /// What these figures say, in one sentence.
    pub sentence: String,
    /// Throughput and queueing delay over time, an SVG file.
    pub picture: String,
}

impl Seen {
    /// Reads it from a run with series.
    pub(super) fn of(path: &StandardPath, run: &Run) -> Self {
        let own = run.own.iter().position(|own| *own).unwrap_or(0);
        let flow = run.record.flows.get(own);
        let queue = flow.and_then(|flow| flow.queue_ms);
        let mut seen = Self {
            mbps: flow.map_or(0.0, |flow| flow.throughput_mbps),
            share: run.record.utilization.unwrap_or(0.0),
            queue_p50_ms: queue.map_or(0.0, |queue| queue.p50),
            queue_p95_ms: queue.map_or(0.0, |queue| queue.p95),
            loss: flow.map_or(0.0, |flow| flow.loss),
            sentence: String::new(),
            picture: String::new(),
        };
        let Some(series) = &run.series else { return seen };
        let curves = Curves::of(series, own);
        if path.has_rival() {
            seen.share = curves.share_from(10.0);
        }
        seen.sentence = sentence(path, &seen, &curves);
        seen.picture = curves.draw(&run.record.controller, &format!("{}: {}", run.record.contestant(), path.title));
        seen
    }
}

fn sentence(path: &StandardPath, seen: &Seen, curves: &Curves) -> String {
    let percent = |share: f64| format!("{} %", plain(100.0 * share));
    let wait = format!("its packets wait {} (95th percentile)", span(seen.queue_p95_ms));
    let lost = if seen.loss < 5e-5 { "none is lost".to_owned() } else { format!("{} are lost", percent(seen.loss)) };
    if path.has_rival() {
        let verdict = match seen.share {
            share if share < EVEN.0 => "It gives way to CUBIC",
            share if share > EVEN.1 => "It takes more than CUBIC leaves to itself",
            _ => "It shares evenly with CUBIC",
        };
        return format!("{verdict}: {} of what both get from 10 s on; {wait}.", percent(seen.share));
    }
    let used = match seen.share {
        share if share >= 0.95 => "It fills the link",
        share if share >= 0.8 => "It uses most of the link",
        share if share >= 0.5 => "It leaves much of the link unused",
        _ => "It uses less than half of the link",
    };
    let used = format!("{used} ({})", percent(seen.share));
    match (path.buffer_ms, curves.rises()) {
        (Some(buffer), _) => {
            let of = seen.queue_p95_ms / buffer;
            let of = if of > 0.9 { "all".to_owned() } else { percent(of) };
            format!("{used}; {wait}, {of} of what the buffer holds; {lost}.")
        }
        (None, Some((from, to, found))) => {
            let found = found.map_or_else(
                || format!("does not use {SO_MUCH} of it before the next change"),
                |seconds| format!("uses {} of it after {} s", SO_MUCH, plain(seconds)),
            );
            format!("{used}: when the rate rises from {from} to {to} Mbit/s it {found}; {wait}; {lost}.")
        }
        (None, None) => format!("{used}; {wait}; {lost}."),
    }
}

/// Curves over time, a point for each [`JOINED`] steps.
struct Curves {
    step: f64,
    capacity: Vec<f64>,
    own: Vec<f64>,
    rival: Vec<f64>,
    queue: Vec<Option<f64>>,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl Curves {
    fn of(series: &Series, own: usize) -> Self {
        let joined = |values: &[f64]| values.chunks(JOINED).map(mean).collect::<Vec<f64>>();
        let flow = |own_one: bool| series.flows.iter().find(move |flow| (flow.index == own) == own_one);
        let most = |queue: &[Option<f64>]| queue.iter().copied().flatten().reduce(f64::max);
        Self {
            step: series.step.as_secs_f64() * JOINED as f64,
            capacity: joined(&series.capacity_mbps),
            own: flow(true).map(|flow| joined(&flow.throughput_mbps)).unwrap_or_default(),
            rival: flow(false).map(|flow| joined(&flow.throughput_mbps)).unwrap_or_default(),
            queue: flow(true).map(|flow| flow.queue_ms.chunks(JOINED).map(most).collect()).unwrap_or_default(),
        }
    }

    /// The own flow's share of what both got from then on.
    fn share_from(&self, seconds: f64) -> f64 {
        let from = (seconds / self.step) as usize;
        let sum = |values: &[f64]| values.iter().skip(from).sum::<f64>();
        let (own, rival) = (sum(&self.own), sum(&self.rival));
        if own + rival > 0.0 { own / (own + rival) } else { 0.0 }
    }

    /// Where a constant rate rises for the first time: from, to, and the seconds until this much of it is used. Nothing on a path whose
    /// rate changes all the time.
    fn rises(&self) -> Option<(f64, f64, Option<f64>)> {
        let changes: Vec<usize> =
            (1..self.capacity.len()).filter(|i| self.capacity[*i] != self.capacity[i - 1]).collect();
        if changes.len() > self.capacity.len() / 10 {
            return None;
        }
        // The step in which the rate changes has some of both.
        let at = changes.iter().copied().find(|at| self.capacity[*at] > self.capacity[at - 1])?;
        let level = self.capacity.get(at + 1)?;
        let end = (at + 1..self.capacity.len()).find(|i| self.capacity[*i] < *level).unwrap_or(self.capacity.len());
        let found = (at..end).find(|i| self.own.get(*i).is_some_and(|mbps| *mbps >= FOUND * level));
        Some((self.capacity[at - 1].round(), level.round(), found.map(|i| (i + 1 - at) as f64 * self.step)))
    }

    fn draw(&self, controller: &str, label: &str) -> String {
        let at = |index: usize| (index as f64 + 0.5) * self.step;
        let own = Class::from(format!("{} d0", palette::class(controller)));
        let line = |class: &Class, values: &[f64]| {
            PlotLine::new(class.clone(), values.iter().enumerate().map(|(index, mbps)| (at(index), Some(*mbps))))
        };
        let most = self.capacity.iter().chain(&self.own).copied().fold(1.0, f64::max);
        let longest = self.queue.iter().flatten().copied().fold(1.0, f64::max);
        let (link, rival) = (Class::from("c7 d1"), Class::from("ink d0"));
        let mut lines = vec![line(&link, &self.capacity)];
        let mut legend = vec![(link, "the link".to_owned()), (own.clone(), "the controller".to_owned())];
        if !self.rival.is_empty() {
            lines.push(line(&rival, &self.rival));
            legend.push((rival, "CUBIC beside it".to_owned()));
        }
        lines.push(line(&own, &self.own));
        let waits = PlotLine::new(own, self.queue.iter().enumerate().map(|(index, ms)| (at(index), *ms)));
        let rows = vec![
            ChartRow::single("Mbit/s", PlotAxis::linear(most * 1.1), 150.0, lines),
            ChartRow::single("queue, ms", PlotAxis::linear(longest * 1.1), 90.0, vec![waits]),
        ];
        let label = format!("{label}: throughput and queueing delay over time");
        let x = ("seconds", PlotAxis::linear(self.capacity.len() as f64 * self.step));
        Sheet::new(label, x, rows).legend(legend).file()
    }
}
