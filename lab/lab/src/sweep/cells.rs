//! What a sweep says: medians cell by cell, for terminals, tables and scripts.

use std::fmt::Write;

use serde_json::{Map, Value as Json, json};

use super::{Point, Sweep};
use crate::numbers::plain;
use crate::stats::Median;

/// Columns of records that the table shows, with its headers; those that no cell has are left out.
pub(super) const FIGURES: [(&str, &str); 7] = [
    ("throughput_mbps", "Mbit/s"),
    ("own_throughput_mbps", "own Mbit/s"),
    ("delay_ms_p95", "delay p95 ms"),
    ("queue_ms_p95", "queue p95 ms"),
    ("loss", "loss"),
    ("fct_ms_p50", "completion p50 ms"),
    ("jain", "Jain"),
];

impl Sweep {
    /// The columns of which numbers are kept: the stop's metric is the last.
    pub fn figures(&self) -> impl Iterator<Item = &str> {
        let last = self.stop.as_ref().map(|stop| stop.metric.as_str());
        FIGURES.iter().map(|(name, _)| *name).chain(last)
    }
}

/// One contestant in one cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Who.
    pub contestant: String,
    /// Number of the cell.
    pub cell: usize,
    /// Its values, as people write them, in the order of the axes.
    pub values: Vec<String>,
    /// Runs that were made.
    pub runs: usize,
    /// Of these, how many failed.
    pub failed: usize,
    /// Column and median of each figure ([`Sweep::figures`]).
    pub medians: Vec<(String, Option<Median>)>,
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Which: with its seed.
    pub point: Point,
    /// What happened.
    pub problem: String,
}

/// One cell from what is known of its runs.
pub(super) fn cell_of<'a>(
    sweep: &Sweep,
    contestant: usize,
    cell: usize,
    runs: impl Iterator<Item = &'a super::chunk::Known>,
) -> Cell {
    let results: Vec<_> = runs.collect();
    let median = |index: usize| {
        let values: Vec<f64> =
            results.iter().filter_map(|known| known.as_ref().ok()?.get(index).copied().flatten()).collect();
        Median::of(&values)
    };
    let medians = sweep.figures().enumerate().map(|(index, name)| (name.to_owned(), median(index)));
    Cell {
        contestant: sweep.contestants[contestant].clone(),
        cell,
        values: sweep.axes.iter().zip(sweep.values(cell)).map(|(axis, value)| axis.text(value)).collect(),
        runs: results.len(),
        failed: results.iter().filter(|known| known.is_err()).count(),
        medians: medians.collect(),
    }
}

/// Medians in a table: cell by cell, in each every contestant. At most this many rows.
pub fn cells_table(sweep: &Sweep, cells: &[Cell], most: usize) -> String {
    let mut order: Vec<&Cell> = cells.iter().collect();
    order.sort_by_key(|cell| cell.cell);
    let header =
        |name: &str| FIGURES.iter().find(|(known, _)| *known == name).map_or(name, |(_, header)| header).to_owned();
    let shown: Vec<(usize, String)> = sweep
        .figures()
        .enumerate()
        .filter(|(index, _)| cells.iter().any(|cell| cell.medians[*index].1.is_some()))
        .filter(|(index, name)| sweep.figures().position(|other| other == *name) == Some(*index))
        .map(|(index, name)| (index, header(name)))
        .collect();
    let mut head: Vec<String> = sweep.axes.iter().map(|axis| axis.key.clone()).collect();
    let left = head.len() + 1;
    head.push("contestant".to_owned());
    head.extend(shown.iter().map(|(_, name)| name.clone()));
    head.push("runs".to_owned());
    let mut rows = vec![head];
    for cell in order.iter().take(most) {
        let mut row = cell.values.clone();
        row.push(cell.contestant.clone());
        row.extend(
            shown
                .iter()
                .map(|(index, _)| cell.medians[*index].1.map_or_else(|| "-".to_owned(), |median| plain(median.median))),
        );
        let failed = if cell.failed > 0 { format!(" ({} failed)", cell.failed) } else { String::new() };
        row.push(format!("{}{failed}", cell.runs));
        rows.push(row);
    }
    let columns = rows[0].len();
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let _ =
                if column < left { write!(line, "{gap}{cell:width$}") } else { write!(line, "{gap}{cell:>width$}") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if order.len() > most {
        let _ = writeln!(text, "and {} more rows: all are in _cells.csv", order.len() - most);
    }
    text
}

/// All medians with their 95 % intervals, as CSV.
pub fn cells_csv(sweep: &Sweep, cells: &[Cell]) -> String {
    let mut head: Vec<String> = vec!["cell".to_owned()];
    head.extend(sweep.axes.iter().map(|axis| format!("grid.{}", axis.key)));
    head.extend(["contestant", "runs", "failed"].map(str::to_owned));
    head.extend(sweep.figures().flat_map(|name| ["", "_low", "_high"].map(|end| format!("{name}{end}"))));
    let mut out = csv::Writer::from_writer(Vec::new());
    let _ = out.write_record(&head);
    for cell in cells {
        let mut row = vec![cell.cell.to_string()];
        row.extend(cell.values.iter().cloned());
        row.extend([cell.contestant.clone(), cell.runs.to_string(), cell.failed.to_string()]);
        for (_, median) in &cell.medians {
            let text = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
            let interval = median.and_then(|median| median.interval);
            row.extend([
                text(median.map(|median| median.median)),
                text(interval.map(|(low, _)| low)),
                text(interval.map(|(_, high)| high)),
            ]);
        }
        let _ = out.write_record(&row);
    }
    String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// All medians, a JSON object a line.
pub fn cells_json(sweep: &Sweep, cells: &[Cell]) -> String {
    let mut text = String::new();
    for cell in cells {
        let grid = sweep.axes.iter().zip(&cell.values).map(|(axis, value)| (axis.key.clone(), json!(value)));
        let medians = cell.medians.iter().filter_map(|(name, median)| {
            let median = (*median)?;
            let interval = median.interval.map(|(low, high)| json!([low, high]));
            Some((name.clone(), json!({ "median": median.median, "interval": interval })))
        });
        let line = json!({
            "cell": cell.cell,
            "grid": Json::Object(grid.collect::<Map<_, _>>()),
            "contestant": cell.contestant,
            "runs": cell.runs,
            "failed": cell.failed,
            "medians": Json::Object(medians.collect::<Map<_, _>>()),
        });
        let _ = writeln!(text, "{line}");
    }
    text
}

/// What failed, a line each, with what shows it again; at most this many.
pub fn failed_lines(failures: &[Failed], most: usize) -> Vec<String> {
    let mut lines: Vec<String> = failures
        .iter()
        .take(most)
        .map(|Failed { point, problem }| {
            let set = point.set.join(" ");
            let at = if set.is_empty() { String::new() } else { format!(" at {set}") };
            format!("{} failed{at} in run {}, seed {}: {problem}", point.contestant, point.run, point.seed)
        })
        .collect();
    if failures.len() > most {
        lines.push(format!("and {} more failed: the column failure of the results says why", failures.len() - most));
    }
    lines
}
