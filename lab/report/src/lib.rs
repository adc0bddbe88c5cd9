//! The report: one HTML file that opens offline, and its leading figure as an SVG file.
//!
//! Everything is drawn here, without scripts; the script only lets the reader hide and point out contestants.

#[macro_use]
pub mod palette;

pub mod chart;
mod data;
mod labels;
pub mod mdi;
mod overview;
mod reading;
pub mod svg;
mod time;

use std::io::Write;
use std::path::{Path, PathBuf};

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use data::{Contestant, Data};
use paceline_lab::output;
use paceline_lab::record::{Record, Run};
use paceline_lab::stats::Median;
use paceline_lab::{numbers::plain, table};
use svg::{Anchor, Rect, Svg, short};

/// Name of the page in the report's folder.
pub const PAGE: &str = "report.html";

/// Name of the leading figure in the report's folder.
pub const FIGURE: &str = "race.svg";

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The folder cannot be made or written to.
    #[error("report folder {}: {source}; name a folder you can write to", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is nothing to show.
    #[error("there are no records to report; give files written by 'paceline race --json FILE'")]
    Empty,
    /// The page could not be put together.
    #[error("the report could not be rendered: {0}")]
    Render(#[from] minijinja::Error),
}

/// A race just run, as a report shows it.
#[derive(Clone, Copy, Debug)]
pub struct Raced<'a> {
    /// One line for people.
    pub title: &'a str,
    /// The scenario as written.
    pub written: &'a str,
    /// The scenario as raced.
    pub effective: &'a str,
    /// The command that gives the same report again.
    pub command: &'a str,
    /// Its runs, by contestant.
    pub runs: &'a [Run],
}

/// Writes the report of a race into a folder, made where it is missing, and gives the page's path.
///
/// Files are complete or absent: each is written under another name and renamed.
///
/// # Errors
/// [`ReportError`] when the folder cannot be written to or the race has no runs.
pub fn write(race: Raced<'_>, folder: &Path) -> Result<PathBuf, ReportError> {
    let data = Data::of_race(race);
    let page = render(&[&data])?;
    store(folder, FIGURE, &leading_figure(&data))?;
    store(folder, PAGE, &page)
}

/// As [`write()`] from records alone: the page says which figures need the race to be run again.
///
/// # Errors
/// As [`write()`].
pub fn write_records(records: &[Record], folder: &Path) -> Result<PathBuf, ReportError> {
    let sections = Data::of_records(records);
    let page = render(&sections.iter().collect::<Vec<_>>())?;
    if let Some(first) = sections.first() {
        store(folder, FIGURE, &leading_figure(first))?;
    }
    store(folder, PAGE, &page)
}

/// Writes a file into a folder, made where it is missing.
pub fn store(folder: &Path, name: &str, text: &str) -> Result<PathBuf, ReportError> {
    let path = folder.join(name);
    let bad = |source| ReportError::Folder { folder: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(bad)?;
    output::write(&path, |draft| draft.write_all(text.as_bytes())).map_err(|error| bad(error.source))?;
    Ok(path)
}

#[derive(Serialize)]
struct Section<'a> {
    title: &'a str,
    facts: Vec<String>,
    columns: Vec<&'static str>,
    rows: Vec<Row<'a>>,
    remarks: Vec<String>,
    figures: Vec<Figure>,
    variables: Vec<Variables<'a>>,
    missing: Option<&'static str>,
    command: Option<&'a str>,
    origin: String,
    effective: Option<&'a str>,
    written: Option<&'a str>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    class: String,
    swatch: String,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    value: String,
    spread: String,
}

#[derive(Serialize)]
struct Figure {
    title: &'static str,
    svg: String,
    reading: String,
    note: &'static str,
    key: bool,
}

#[derive(Serialize)]
struct Variables<'a> {
    name: &'a str,
    class: String,
    swatch: String,
    svg: String,
    reading: String,
}

#[derive(Serialize)]
struct Chip<'a> {
    name: &'a str,
    number: usize,
    class: String,
    swatch: String,
}

/// The style of every page.
pub const STYLE: &str = concat!(palette_style!(), include_str!("report.css"), include_str!("page.css"));

/// The style of a picture in a file of its own.
pub(crate) const PICTURE_STYLE: &str = concat!(palette_style!(), include_str!("report.css"));

fn render(sections: &[&Data<'_>]) -> Result<String, ReportError> {
    let Some(first) = sections.first().and_then(|data| data.first()) else { return Err(ReportError::Empty) };
    let mut chips: Vec<Chip<'_>> = Vec::new();
    for c in sections.iter().flat_map(|data| &data.contestants) {
        if chips.iter().all(|chip| chip.number != c.style.number) {
            chips.push(Chip { name: c.name(), number: c.style.number, class: c.class(), swatch: swatch() });
        }
    }
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    env.add_template("report", include_str!("report.html"))?;
    let page = env.get_template("report")?.render(context! {
        title => format!("{} \u{2013} paceline", sections[0].title),
        version => first.version.as_str(),
        style => STYLE,
        script => include_str!("report.js"),
        chips => Serde(&chips),
        sections => Serde(sections.iter().map(|data| section(data)).collect::<Vec<_>>()),
    })?;
    Ok(page)
}

fn section<'a>(data: &'a Data<'_>) -> Section<'a> {
    Section {
        title: &data.title,
        facts: facts(data),
        columns: columns(data).iter().map(|c| c.title).collect(),
        rows: rows(data),
        remarks: (table::reading(data.records()) + &table::timekeeping(data.records()))
            .lines()
            .map(str::to_owned)
            .collect(),
        figures: figures(data),
        variables: variables(data),
        missing: (!data.has_series()).then_some(
            "Throughput and queueing delay over time, the delay distribution, and the controllers' variables are not \
             in the records. To see them, run the race again with --report: the same scenario and seed give the same \
             race.",
        ),
        command: data.command,
        origin: origin(data),
        effective: data.effective,
        written: data.written,
    }
}

fn facts(data: &Data<'_>) -> Vec<String> {
    let Some(first) = data.first() else { return Vec::new() };
    let runs = data.contestants.iter().map(|c| c.summary.runs).max().unwrap_or(0);
    let mut facts = vec![
        format!("scenario {}", first.scenario),
        first.trace.as_ref().map_or_else(|| "no trace".to_owned(), |trace| format!("trace {trace}")),
        format!("{} s", short(first.seconds)),
        if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") },
        format!("seed {}", first.seed),
        if first.world == "sim" { "virtual time".to_owned() } else { "real time".to_owned() },
    ];
    facts.extend(capacity(data.records()));
    facts
}

/// What the path could carry on average in each run, from the smallest to the largest; nothing where there are several links,
/// each with a capacity of its own.
fn capacity<'a>(records: impl Iterator<Item = &'a Record>) -> Option<String> {
    let share = |record: &'a Record| record.utilization.filter(|used| *used > 0.0 && record.links.is_empty());
    let all: Vec<f64> = records.filter_map(|record| Some(record.throughput_mbps / share(record)?)).collect();
    let (least, most) = (all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?);
    let (least, most) = (short(least), short(most));
    Some(if least == most {
        format!("capacity {least} Mbit/s on average")
    } else {
        format!("capacity {least} to {most} Mbit/s on average, by run")
    })
}

fn origin(data: &Data<'_>) -> String {
    data.first().map_or_else(String::new, |first| {
        let fixed = match first.world.as_str() {
            "sim" => " Scenario, seed and version determine every number on this page.",
            _ => " Real sockets and kernel flows behind an emulated path: another run gives other numbers.",
        };
        format!("paceline {}, seed {}.{fixed}", first.version, first.seed)
    })
}

/// A column of the table.
struct Column {
    title: &'static str,
    text: fn(f64) -> String,
    value: fn(&Contestant<'_>) -> Option<Median>,
}

/// The columns that have something to show.
fn columns(data: &Data<'_>) -> Vec<Column> {
    let column = |title, text: fn(f64) -> String, value| Column { title, text, value };
    let percent = |share| plain(100.0 * share);
    let mut columns = vec![
        column("throughput, Mbit/s", plain, (|c| Some(c.summary.throughput_mbps)) as fn(&Contestant<'_>) -> _),
        column("own, Mbit/s", plain, |c| c.summary.own_throughput_mbps),
        column("used, %", percent, |c| c.summary.utilization),
        column("delay p50, ms", plain, |c| c.summary.delay_p50_ms),
        column("delay p95, ms", plain, |c| c.summary.delay_p95_ms),
        column("queue p95, ms", plain, |c| c.summary.queue_p95_ms),
        column("loss, %", percent, |c| Some(c.summary.loss)),
        column("resent, packets", |n| format!("{n:.0}"), |c| Some(c.summary.retransmits)),
        column("completion p50, ms", plain, |c| c.summary.fct_p50_ms),
        column("fairness, Jain", |j| format!("{j:.3}"), |c| c.summary.jain),
        column("CPU, % of a core", percent, |c| c.summary.cpu),
    ];
    columns.retain(|column| data.contestants.iter().any(|c| (column.value)(c).is_some()));
    columns
}

fn rows<'a>(data: &'a Data<'_>) -> Vec<Row<'a>> {
    let columns = columns(data);
    let row = |c: &'a Contestant<'_>| Row {
        name: c.name(),
        class: c.class(),
        swatch: swatch(),
        cells: columns.iter().map(|column| cell(column, c)).collect(),
    };
    data.contestants.iter().map(row).collect()
}

fn cell(column: &Column, contestant: &Contestant<'_>) -> Cell {
    let Some(median) = (column.value)(contestant) else {
        return Cell { value: "\u{2013}".to_owned(), spread: String::new() };
    };
    let (low, high) = median.interval.unwrap_or((median.q25, median.q75));
    let (value, low, high) = ((column.text)(median.median), (column.text)(low), (column.text)(high));
    let spread = if low == high { String::new() } else { format!("{low} to {high}") };
    Cell { value, spread }
}

/// A dash in the contestant's colour.
fn swatch() -> String {
    r#"<svg class="swatch" viewBox="0 0 22 10" aria-hidden="true"><path class="line" d="M0 5h22"/></svg>"#.to_owned()
}

fn figures(data: &Data<'_>) -> Vec<Figure> {
    let (width, height) = (1080.0, 500.0);
    let plot = Rect { x: 64.0, y: 12.0, w: width - 80.0, h: height - 60.0 };
    let mut svg = Svg::default();
    overview::trade_off(&mut svg, data, plot);
    let mut figures = vec![Figure {
        title: "Throughput against delay",
        svg: svg.inline(width, height, "Throughput against 95th percentile of one-way delay for each contestant"),
        reading: reading::trade_off(data),
        note: if data.contestants.iter().any(|c| c.summary.runs > 1) {
            "Cross: median over the runs; ellipse: from the 25th to the 75th percentile of the runs. The delay axis is \
             inverted, so better is up and to the right."
        } else {
            "Cross: the one run. The delay axis is inverted, so better is up and to the right."
        },
        key: false,
    }];
    if data.has_series() {
        figures.push(Figure {
            title: "Throughput over the capacity",
            svg: time::throughput(data),
            reading: reading::throughput(data),
            note: if data.has_rivals() {
                "First run of each contestant, its own flows in colour; grey and dashed: the flows beside them, together. Grey area: \
                 what the path could carry. All panels have the same axes."
            } else {
                "First run of each contestant. Grey: what the path could carry. All panels have the same axes."
            },
            key: false,
        });
        figures.push(Figure {
            title: "Queueing delay over time",
            svg: time::queueing(data),
            reading: reading::queueing(data),
            note: "First run of each contestant: mean over the packets that arrived in each step. Gaps: nothing \
                   arrived. All panels have the same axes.",
            key: false,
        });
    }
    if data.contestants.iter().any(|c| c.delay_quantiles_ms.len() > 1) {
        figures.push(Figure {
            title: "Distribution of one-way delay",
            svg: overview::delay_cdf(data),
            reading: reading::delay_cdf(data),
            note: if data.contestants.iter().any(|c| c.summary.runs > 1) {
                "Share of packets that arrived within the delay: for each share, the mean over the runs of the delay that \
                 each had. Every run weighs the same, however many packets arrived in it."
            } else {
                "Share of packets that arrived within the delay."
            },
            key: false,
        });
    }
    figures.push(Figure {
        title: "Where the delay came from",
        svg: overview::delay_split(data),
        reading: reading::delay_split(data),
        note: "Mean over packets, acknowledgements included. The two directions have their own axes.",
        key: true,
    });
    figures
}

fn variables<'a>(data: &'a Data<'_>) -> Vec<Variables<'a>> {
    let shown = data.contestants.iter().map(|c| Variables {
        name: c.name(),
        class: c.class(),
        swatch: swatch(),
        svg: time::variables(c),
        reading: reading::variables(c),
    });
    shown.filter(|v| !v.svg.is_empty()).collect()
}

/// Throughput against delay beside the time series of up to three contestants along that trade-off.
fn leading_figure(data: &Data<'_>) -> String {
    let label = format!("{}: throughput against delay", data.title);
    let mut svg = Svg::default();
    let mut by_delay: Vec<(usize, f64)> = data
        .contestants
        .iter()
        .enumerate()
        .filter(|(_, c)| c.series.is_some())
        .filter_map(|(i, c)| c.summary.delay_p95_ms.map(|d| (i, d.median)))
        .collect();
    by_delay.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut chosen: Vec<usize> = match by_delay.as_slice() {
        [] => Vec::new(),
        all => [all[0], all[(all.len() - 1) / 2], all[all.len() - 1]].map(|(i, _)| i).to_vec(),
    };
    chosen.sort_unstable();
    chosen.dedup();
    let width = if chosen.is_empty() { 640.0 } else { 1280.0 };
    svg.text(20.0, 26.0, Anchor::Start, "head", &data.title);
    overview::trade_off(&mut svg, data, Rect { x: 70.0, y: 44.0, w: 550.0, h: 430.0 });
    if !chosen.is_empty() {
        time::pair(&mut svg, data, &chosen, Rect { x: 690.0, y: 60.0, w: 570.0, h: 414.0 });
    }
    svg.standalone(width, 524.0, &label, PICTURE_STYLE)
}

#[cfg(test)]
mod tests;
