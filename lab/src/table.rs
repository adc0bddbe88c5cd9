//! What a race says in a terminal: one row a contestant, and what can't be told apart.

use std::fmt::Write;

use crate::record::Record;
use crate::stats::{MIN_RUNS, Median, Summary, Verdict, pairs};

/// Widest table.
const WIDTH: usize = 100;
/// Most pairs named one by one.
const MOST_PAIRS: usize = 8;

type Cell = fn(&Summary) -> Option<String>;

/// Header in two lines (figure, unit), and the cell.
const COLUMNS: [(&str, &str, Cell); 9] = [
    ("throughput", "Mbit/s", |s| Some(spread(&s.throughput_mbps))),
    ("used", "%", |s| s.utilization.map(|value| plain(value.median * 100.0))),
    ("delay p50", "ms", |s| s.delay_p50_ms.map(|value| plain(value.median))),
    ("delay p95", "ms", |s| s.delay_p95_ms.map(|value| spread(&value))),
    ("queue p95", "ms", |s| s.queue_p95_ms.map(|value| plain(value.median))),
    ("loss", "%", |s| Some(plain(s.loss.median * 100.0))),
    ("resent", "packets", |s| Some(format!("{:.0}", s.retransmits.median))),
    ("completion", "p50 ms", |s| s.fct_p50_ms.map(|value| plain(value.median))),
    ("fairness", "Jain", |s| s.jain.map(|value| format!("{:.3}", value.median))),
];

/// The table, a line each; `bold` makes the header bold by terminal codes.
pub fn table(summaries: &[Summary], bold: bool) -> String {
    let cells = |cell: &Cell| -> Vec<Option<String>> { summaries.iter().map(cell).collect() };
    let columns: Vec<(&str, &str, Vec<Option<String>>)> = COLUMNS
        .iter()
        .map(|(name, unit, cell)| (*name, *unit, cells(cell)))
        .filter(|(_, _, cells)| cells.iter().any(Option::is_some))
        .collect();
    let widths: Vec<usize> = columns
        .iter()
        .map(|(name, unit, cells)| {
            let widest = cells.iter().flatten().map(String::len).max().unwrap_or(0);
            widest.max(name.len()).max(unit.len())
        })
        .collect();
    let room = WIDTH.saturating_sub(widths.iter().map(|width| width + 2).sum()).max(12);
    let longest = summaries.iter().map(|summary| summary.contestant.len()).max().unwrap_or(0);
    let first = longest.max("contestant".len()).min(room);
    let (on, off) = if bold { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let mut text = String::new();
    for head in [0, 1] {
        let mut line = format!("{:first$}", if head == 0 { "contestant" } else { "" });
        for ((name, unit, _), width) in columns.iter().zip(&widths) {
            let _ = write!(line, "  {:>width$}", if head == 0 { name } else { unit });
        }
        let _ = writeln!(text, "{on}{}{off}", line.trim_end());
    }
    for (row, summary) in summaries.iter().enumerate() {
        let mut line = format!("{:first$}", clipped(&summary.contestant, first));
        for ((_, _, cells), width) in columns.iter().zip(&widths) {
            let _ = write!(line, "  {:>width$}", cells[row].as_deref().unwrap_or("-"));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// What the numbers are, and which contestants the runs can't tell apart.
pub fn reading<'a>(records: impl IntoIterator<Item = &'a Record> + Clone) -> String {
    let summaries = Summary::all(records.clone());
    let fewest = summaries.iter().map(|summary| summary.runs).min().unwrap_or(0);
    if fewest < MIN_RUNS {
        let what = if fewest < 2 {
            "One run each".to_owned()
        } else {
            format!("Medians of {fewest} runs each (25 % to 75 % of them)")
        };
        return format!("{what}: too few to tell a difference from chance; --runs {MIN_RUNS} gives 95 % intervals.\n");
    }
    let mut text = format!("Medians of {fewest} runs each (95 % confidence interval from order statistics).\n");
    type Figure = (&'static str, fn(&Record) -> Option<f64>);
    let figures: [Figure; 2] =
        [("throughput", |r| Some(r.throughput_mbps)), ("p95 delay", |r| r.delay_ms.map(|delay| delay.p95))];
    for (name, figure) in figures {
        let same: Vec<String> = pairs(records.clone(), figure)
            .into_iter()
            .filter(|pair| pair.verdict == Verdict::NoDifference)
            .map(|pair| format!("{} and {}", pair.first, pair.second))
            .collect();
        if same.is_empty() {
            continue;
        }
        let _ = write!(text, "No difference found in {name}: {}", same[..same.len().min(MOST_PAIRS)].join("; "));
        if same.len() > MOST_PAIRS {
            let _ = write!(text, "; and {} pairs more", same.len() - MOST_PAIRS);
        }
        text.push_str(".\n");
    }
    text
}

/// The median, and its interval; with fewer runs the quartiles.
fn spread(value: &Median) -> String {
    let (low, high) = value.interval.unwrap_or((value.q25, value.q75));
    let median = plain(value.median);
    let (low, high) = (plain(low), plain(high));
    if low == high { median } else { format!("{median} ({low} to {high})") }
}

/// Three digits, and all before the point.
fn plain(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut clipped: String = text.chars().take(width.saturating_sub(1)).collect();
    clipped.push('…');
    clipped
}
