//! The figures of a sweep: one for each column of the records that has numbers.

use std::fmt::Write as _;

use paceline_lab::numbers::short;
use paceline_lab::stats::Median;
use paceline_lab::sweep::{Cell, Sweep};
use serde::Serialize;

use super::grid::Layout;
use super::scale::Range;
use super::{Contestant, Swept, heat, lines};

/// What is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

/// Columns that the page knows: title, unit, factor from the column to the unit, what is better.
const KNOWN: [(&str, &str, &str, f64, Better); 7] = [
    ("throughput_mbps", "Throughput", "Mbit/s", 1.0, Better::More),
    ("own_throughput_mbps", "Throughput of the contestant's own flows", "Mbit/s", 1.0, Better::More),
    ("delay_ms_p95", "One-way delay, 95th percentile", "ms", 1.0, Better::Less),
    ("queue_ms_p95", "Queueing delay, 95th percentile", "ms", 1.0, Better::Less),
    ("loss", "Loss", "%", 100.0, Better::Less),
    ("fct_ms_p50", "Completion time, median", "ms", 1.0, Better::Less),
    ("jain", "Jain's index", "", 1.0, Better::More),
];

/// A column of the records over the grid.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    /// Its place among the medians of a cell.
    index: usize,
    pub(super) column: String,
    pub(super) title: String,
    pub(super) unit: &'static str,
    factor: f64,
    better: Option<Better>,
}

/// The columns that some cell has a number of.
pub(super) fn metrics(sweep: &Sweep, cells: &[Cell]) -> Vec<Metric> {
    let names: Vec<&str> = sweep.figures().collect();
    let metric = |(index, name): (usize, &&str)| {
        let known = KNOWN.iter().find(|known| known.0 == *name);
        Metric {
            index,
            column: (*name).to_owned(),
            title: known.map_or_else(|| (*name).to_owned(), |known| known.1.to_owned()),
            unit: known.map_or("", |known| known.2),
            factor: known.map_or(1.0, |known| known.3),
            better: known.map(|known| known.4),
        }
    };
    // The stop's metric may be one of the others.
    let first = |(index, name): &(usize, &&str)| names.iter().position(|other| other == *name) == Some(*index);
    let all = names.iter().enumerate().filter(first).map(metric);
    all.filter(|metric| cells.iter().any(|cell| metric.of(cell).is_some())).collect()
}

impl Metric {
    /// In a cell, in its unit.
    pub(super) fn of(&self, cell: &Cell) -> Option<Median> {
        let (_, median) = cell.medians.get(self.index)?;
        let Median { median, q25, q75, interval } = (*median)?;
        let by = self.factor;
        let interval = interval.map(|(low, high)| (low * by, high * by));
        Some(Median { median: median * by, q25: q25 * by, q75: q75 * by, interval })
    }

    /// `throughput, Mbit/s`, for the head of a table.
    pub(super) fn with_unit(&self) -> String {
        if self.unit.is_empty() { self.title.clone() } else { format!("{}, {}", self.title, self.unit) }
    }

    /// The 95 % interval as text; empty where there is none or it has no width.
    pub(super) fn interval(&self, median: &Median) -> String {
        match median.interval {
            Some((low, high)) if short(low) != short(high) => format!("{} to {}", short(low), short(high)),
            _ => String::new(),
        }
    }

    /// A value with unit and interval, as a sentence has it.
    pub(super) fn said(&self, median: &Median) -> String {
        let interval = self.interval(median);
        let interval = if interval.is_empty() { interval } else { format!(" ({interval})") };
        format!("{} {}", short(median.median), self.unit).trim_end().to_owned() + &interval
    }

    /// The range of all cells.
    pub(super) fn range(&self, cells: &[Cell]) -> Option<Range> {
        Range::of(cells.iter().filter_map(|cell| Some(self.of(cell)?.median)))
    }

    /// A sentence where every cell has the same value: that needs no figure.
    pub(super) fn same_everywhere(&self, cells: &[Cell]) -> Option<String> {
        if self.range(cells).is_some() {
            return None;
        }
        let first = cells.iter().find_map(|cell| self.of(cell))?;
        let all = cells.iter().all(|cell| self.of(cell).is_some());
        let place = if all { "in every cell" } else { "in every cell that has a number" };
        Some(format!("{} {place}: {}.", self.title, format!("{} {}", short(first.median), self.unit).trim_end()))
    }

    /// Who is best in how many cells, and in how many of them by more than the intervals; `None` where that says nothing.
    fn reading(&self, sweep: &Sweep, cells: &[Cell]) -> Option<String> {
        let better = self.better?;
        let contestants = &sweep.contestants;
        if contestants.len() < 2 {
            return None;
        }
        let mut wins = vec![(0, 0); contestants.len()];
        let (mut compared, mut ties) = (0, 0);
        for number in 0..sweep.cells() {
            let mut here: Vec<(usize, Median)> = cells
                .iter()
                .filter(|cell| cell.cell == number)
                .filter_map(|cell| {
                    Some((contestants.iter().position(|name| *name == cell.contestant)?, self.of(cell)?))
                })
                .collect();
            let order = |a: f64, b: f64| if better == Better::More { b.total_cmp(&a) } else { a.total_cmp(&b) };
            here.sort_by(|a, b| order(a.1.median, b.1.median));
            let [(best, first), (_, second), ..] = here[..] else { continue };
            compared += 1;
            if short(first.median) == short(second.median) {
                ties += 1;
                continue;
            }
            wins[best].0 += 1;
            // Apart from all others, not from the second alone: its interval may be the shorter one.
            let apart = |other: &(usize, Median)| match (first.interval, other.1.interval) {
                (Some(a), Some(b)) if better == Better::More => a.0 > b.1,
                (Some(a), Some(b)) => a.1 < b.0,
                _ => false,
            };
            wins[best].1 += usize::from(here[1..].iter().all(apart));
        }
        if compared == 0 {
            return None;
        }
        let mut order: Vec<usize> = (0..contestants.len()).filter(|index| wins[*index].0 > 0).collect();
        order.sort_by_key(|index| std::cmp::Reverse(wins[*index]));
        let intervals = cells.iter().filter_map(|cell| self.of(cell)).any(|median| median.interval.is_some());
        let mut text = format!("{}: ", if better == Better::More { "Most" } else { "Least" });
        for (place, index) in order.iter().enumerate() {
            let (won, apart) = wins[*index];
            let gap = if place == 0 { "" } else { "; " };
            let sure = match apart {
                // Too few runs for intervals.
                _ if !intervals => String::new(),
                0 => ", in none of these by more than the intervals".to_owned(),
                _ if won == 1 => ", by more than the intervals".to_owned(),
                _ if apart == won => ", in all of these by more than the intervals".to_owned(),
                _ => format!(", in {apart} of these by more than the intervals"),
            };
            let _ = write!(text, "{gap}{} in {won} of {compared} cells{sure}", contestants[*index]);
        }
        if ties > 0 {
            let gap = if order.is_empty() { "" } else { "; " };
            let _ = write!(text, "{gap}the first two are the same in {ties}");
        }
        Some(text + if intervals { "." } else { ". Fewer than six runs give no interval." })
    }
}

/// A figure on the page.
#[derive(Serialize)]
pub(super) struct Figure {
    id: String,
    title: String,
    reading: Option<String>,
    /// Whether maps have so many columns that each stands alone.
    broad: bool,
    /// The scale of colours.
    scale: Option<String>,
    panels: Vec<Panel>,
    /// Its numbers.
    csv: String,
}

/// A picture of a figure.
#[derive(Serialize)]
pub(super) struct Panel {
    pub(super) class: String,
    pub(super) svg: String,
}

/// The figure of a column; `None` where there is nothing to see.
pub(super) fn draw(metric: &Metric, layout: &Layout, swept: Swept<'_>, contestants: &[Contestant]) -> Option<Figure> {
    let range = metric.range(swept.cells)?;
    let (panels, scale, broad) = match layout {
        Layout::Cell => return None,
        Layout::Curves(axis) => (lines::panels(metric, axis, swept, contestants), None, false),
        Layout::Maps(x, y, others) => {
            let broad = heat::is_broad(x);
            let panels = heat::panels(metric, (x, y, others), &range, swept, contestants);
            (panels, Some(heat::scale(metric, &range)), broad)
        }
    };
    Some(Figure {
        id: metric.column.replace('_', "-"),
        title: metric.title.clone(),
        reading: metric.reading(swept.sweep, swept.cells),
        broad,
        scale,
        panels,
        csv: csv(metric, swept),
    })
}

/// Key by key, contestant, median and interval.
fn csv(metric: &Metric, swept: Swept<'_>) -> String {
    let quoted = |text: &str| {
        if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
    };
    let mut head: Vec<String> = swept.sweep.axes.iter().map(|axis| quoted(&format!("grid.{}", axis.key))).collect();
    let name = if metric.factor == 1.0 { metric.column.clone() } else { format!("{}_percent", metric.column) };
    head.extend(["contestant".to_owned(), name.clone(), format!("{name}_low"), format!("{name}_high")]);
    head.extend(["runs".to_owned(), "failed".to_owned()]);
    let mut text = head.join(",") + "\n";
    for cell in swept.cells {
        let mut row: Vec<String> = cell.values.iter().map(|value| quoted(value)).collect();
        row.push(quoted(&cell.contestant));
        let median = metric.of(cell);
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let interval = median.and_then(|median| median.interval);
        row.push(number(median.map(|median| median.median)));
        row.extend([number(interval.map(|(low, _)| low)), number(interval.map(|(_, high)| high))]);
        row.extend([cell.runs.to_string(), cell.failed.to_string()]);
        text += &(row.join(",") + "\n");
    }
    text
}
