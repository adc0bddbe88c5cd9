//! The page of a sweep: a heat map of each figure and contestant over two keys of the grid, curves with intervals over one key,
//! what failed, and every median as a table. With the feature `parquet`.

mod figure;
mod grid;
mod heat;
mod lines;
mod scale;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use minijinja::context;
use minijinja::value::Serde;
use paceline_lab::numbers::short;
use paceline_lab::sweep::{Cell, Failed, Sweep, cells_csv};
use paceline_lab::version;
use serde::Serialize;

use crate::data::Styles;
use crate::{PAGE, PageError, SCRIPT, STYLE, store};
use figure::{Figure, Metric};
use grid::Layout;

/// Name of the table of medians beside the page.
pub const TABLE: &str = "cells.csv";

/// What only this page has.
const OWN_STYLE: &str = include_str!("sweep/sweep.css");
const OWN_SCRIPT: &str = include_str!("sweep/cells.js");

/// Most rows of the table of medians, and of failures, on the page (our choice: what one looks through; the files have all).
const ROWS: usize = 600;
const FAILURES: usize = 200;

/// A sweep with what came out of it.
#[derive(Clone, Copy, Debug)]
pub struct Swept<'a> {
    /// What was swept.
    pub sweep: &'a Sweep,
    /// Every cell of every contestant.
    pub cells: &'a [Cell],
    /// The runs that failed.
    pub failures: &'a [Failed],
    /// The command that gives the same page again.
    pub command: &'a str,
}

/// How a contestant appears: its name and CSS classes.
#[derive(Clone, Debug, Serialize)]
struct Contestant {
    name: String,
    number: usize,
    /// Of its colour and dash.
    look: String,
}

impl Contestant {
    /// CSS classes of its marks: number (for the switches), colour and dash.
    fn class(&self) -> String {
        format!("k k{} {}", self.number, self.look)
    }
}

#[derive(Serialize)]
struct Failure {
    contestant: String,
    values: String,
    run: u32,
    seed: u64,
    problem: String,
}

/// Writes the page and [`TABLE`] into a folder, made where it is missing, and gives the page's path.
///
/// # Errors
/// [`PageError`] when the folder cannot be written to.
pub fn write(swept: Swept<'_>, folder: &Path) -> Result<PathBuf, PageError> {
    let page = page(swept)?;
    store(folder, TABLE, &cells_csv(swept.sweep, swept.cells))?;
    store(folder, PAGE, &page)
}

/// The page as HTML that opens offline.
///
/// # Errors
/// When the page cannot be put together.
pub fn page(swept: Swept<'_>) -> Result<String, PageError> {
    let Swept { sweep, cells, failures, command } = swept;
    let contestants = contestants(sweep);
    let layout = Layout::of(sweep);
    let metrics = figure::metrics(sweep, cells);
    let figures: Vec<Figure> =
        metrics.iter().filter_map(|metric| figure::draw(metric, &layout, swept, &contestants)).collect();
    let same: Vec<String> = metrics.iter().filter_map(|metric| metric.same_everywhere(cells)).collect();
    let failed: Vec<Failure> = failures.iter().take(FAILURES).map(failure).collect();
    Ok(crate::html(
        include_str!("sweep/sweep.html"),
        context! {
            title => sweep.title.as_str(),
            version => version::build(),
            style => format!("{STYLE}{OWN_STYLE}"),
            script => format!("{SCRIPT}{OWN_SCRIPT}"),
            facts => facts(sweep, cells),
            chips => Serde(&contestants),
            kind => layout.kind(),
            figures => Serde(figures),
            same => same,
            head => head(sweep, &metrics),
            rows => Serde(rows(sweep, cells, &metrics)),
            more => (cells.len() > ROWS).then(|| cells.len() - ROWS),
            table => TABLE,
            csv => encoded(&cells_csv(sweep, cells)),
            failures => Serde(failed),
            failed => failures.len(),
            command => command,
            scenario => sweep.scenario(),
        },
    )?)
}

fn contestants(sweep: &Sweep) -> Vec<Contestant> {
    let mut styles = Styles::default();
    let one = |name: &String| {
        let (controller, via) = name.split_once('@').unwrap_or((name, ""));
        let style = styles.named(name, controller, via);
        Contestant { name: name.clone(), number: style.number, look: format!("c-{} {}", style.colour, style.dash) }
    };
    sweep.contestants.iter().map(one).collect()
}

fn facts(sweep: &Sweep, cells: &[Cell]) -> String {
    let axes: Vec<String> = sweep.axes.iter().map(|axis| format!("{} ({})", axis.key, axis.values.len())).collect();
    let least = cells.iter().map(|cell| cell.runs).min().unwrap_or(0);
    let most = cells.iter().map(|cell| cell.runs).max().unwrap_or(0);
    let runs = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let all: usize = cells.iter().map(|cell| cell.runs).sum();
    let failed: usize = cells.iter().map(|cell| cell.failed).sum();
    let mut facts = vec![format!("{} contestants", sweep.contestants.len())];
    if !axes.is_empty() {
        facts.push(format!("{} cells: {}", sweep.cells(), axes.join(" \u{d7} ")));
    }
    facts.push(format!("{runs} runs of each in a cell"));
    facts.push(format!("{all} runs{}", if failed > 0 { format!(", {failed} failed") } else { String::new() }));
    facts.push(format!("paceline {}", version::build()));
    facts.join(" \u{b7} ")
}

fn failure(failed: &Failed) -> Failure {
    Failure {
        contestant: failed.point.contestant.clone(),
        values: failed.point.set.join(" "),
        run: failed.point.run,
        seed: failed.point.seed,
        problem: failed.problem.clone(),
    }
}

/// Columns of the table of medians.
fn head(sweep: &Sweep, metrics: &[Metric]) -> Vec<String> {
    let axes = sweep.axes.iter().map(|axis| axis.key.clone());
    let metrics = metrics.iter().map(Metric::with_unit);
    axes.chain(["contestant".to_owned()]).chain(metrics).chain(["runs".to_owned()]).collect()
}

#[derive(Serialize)]
struct Row {
    class: String,
    left: Vec<String>,
    right: Vec<(String, String)>,
}

/// The table of medians, cell by cell, and in each every contestant.
fn rows(sweep: &Sweep, cells: &[Cell], metrics: &[Metric]) -> Vec<Row> {
    let mut order: Vec<&Cell> = cells.iter().collect();
    order.sort_by_key(|cell| cell.cell);
    let row = |cell: &&Cell| {
        let mut left = cell.values.clone();
        left.push(cell.contestant.clone());
        let mut right: Vec<(String, String)> = metrics
            .iter()
            .map(|metric| match metric.of(cell) {
                None => ("\u{2013}".to_owned(), String::new()),
                Some(median) => (short(median.median), metric.interval(&median)),
            })
            .collect();
        let failed = if cell.failed > 0 { format!("{} failed", cell.failed) } else { String::new() };
        right.push((cell.runs.to_string(), failed));
        let number = sweep.contestants.iter().position(|name| *name == cell.contestant).unwrap_or(0);
        Row { class: format!("k k{number}"), left, right }
    };
    order.iter().take(ROWS).map(row).collect()
}

/// A text as part of a `data:` address (RFC 2397): what is not a letter, digit or one of `-._~` as `%XX`.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
