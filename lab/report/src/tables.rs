//! The page's tables: contestants, flows, runs, links.

use std::collections::BTreeSet;

use paceline_cc::Nanos;
use paceline_lab::numbers::{self, plain};
use paceline_lab::record::{FlowRecord, LinkRecord, Record, RouterRecord};
use paceline_lab::stats::Median;
use serde::Serialize;

use super::data::{Contestant, Data};

/// Flows of a contestant that have a row (our choice: more are not read).
const MOST_FLOWS: usize = 32;
/// A table of at most this many rows is open.
const FEW: usize = 24;

/// A table below the figures.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) note: String,
    pub(crate) open: bool,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A row: whose, and its cells.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) cells: Vec<Cell>,
}

/// A number, below it where it lies, and in a tool tip what it is exactly.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Cell {
    pub(crate) value: String,
    pub(crate) spread: String,
    pub(crate) exact: String,
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self { value, ..Self::default() }
    }
}

impl Row {
    fn new(c: &Contestant<'_>, cells: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        Self { name: c.name().to_owned(), class: c.class(), cells: cells.into_iter().map(Into::into).collect() }
    }
}

/// The same thing in all runs of a contestant, such as its second flow.
struct Repeated<'a, T>(Vec<&'a T>);

impl<T> Repeated<'_, T> {
    /// The median of a number over the runs that have it.
    fn median(&self, value: impl Fn(&T) -> Option<f64>, text: fn(f64) -> String) -> String {
        let values: Vec<f64> = self.0.iter().filter_map(|one| value(one)).collect();
        or_none(Median::of(&values).map(|median| median.median), text)
    }

    /// The same of a count.
    fn count(&self, value: impl Fn(&T) -> u64) -> String {
        self.median(|one| Some(value(one) as f64), whole)
    }
}

/// A row for each thing that the runs of a contestant have several of, up to `most`: its cells are made of its number from 0, the
/// first run's, and all of them.
fn rows<T>(
    data: &Data<'_>,
    of: fn(&Record) -> &[T],
    most: usize,
    cells: impl Fn(&Contestant<'_>, usize, &T, &Repeated<'_, T>) -> Vec<String>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for c in &data.contestants {
        let count = c.records.iter().map(|record| of(record).len()).max().unwrap_or(0);
        for index in 0..count.min(most) {
            let all = Repeated(c.records.iter().filter_map(|record| of(record).get(index)).collect());
            if let Some(first) = all.0.first() {
                rows.push(Row::new(c, cells(c, index, first, &all)));
            }
        }
    }
    rows
}

impl Table {
    /// Open where it has few rows.
    fn new(id: &'static str, title: &'static str, note: String, columns: &[&str], rows: Vec<Row>) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { id, title, note, open: rows.len() <= FEW, columns, rows }
    }
}

impl Cell {
    /// What was drawn; spans of time as people say them.
    fn drawn(exact: &str) -> Self {
        let span = exact.parse().ok().map(|span: Nanos| numbers::span(span.as_millis_f64()));
        match span {
            Some(value) if value != exact => Self { value, exact: exact.to_owned(), ..Self::default() },
            _ => Self::from(exact.to_owned()),
        }
    }
}

/// What is not known.
const NONE: &str = "\u{2013}";

fn or_none(value: Option<f64>, text: fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), text)
}

fn percent(share: f64) -> String {
    plain(100.0 * share)
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// A column of the table of contestants.
struct Column {
    title: &'static str,
    text: fn(f64) -> String,
    value: fn(&Contestant<'_>) -> Option<Median>,
}

/// The contestants: medians with their intervals, in the columns that have something to show.
pub(crate) fn contestants(data: &Data<'_>) -> Table {
    let column = |title, text: fn(f64) -> String, value| Column { title, text, value };
    let mut columns = vec![
        column("throughput, Mbit/s", plain, (|c| Some(c.summary.throughput_mbps)) as fn(&Contestant<'_>) -> _),
        column("own, Mbit/s", plain, |c| c.summary.own_throughput_mbps),
        column("used, %", percent, |c| c.summary.utilization),
        column("delay p50, ms", plain, |c| c.summary.delay_p50_ms),
        column("delay p95, ms", plain, |c| c.summary.delay_p95_ms),
        column("round trip p50, ms", plain, |c| c.summary.rtt_p50_ms),
        column("round trip p95, ms", plain, |c| c.summary.rtt_p95_ms),
        column("queue p95, ms", plain, |c| c.summary.queue_p95_ms),
        column("loss, %", percent, |c| Some(c.summary.loss)),
        column("resent, packets", whole, |c| c.summary.retransmits),
        column("completion p50, ms", plain, |c| c.summary.fct_p50_ms),
        column("fairness, Jain", |j| format!("{j:.3}"), |c| c.summary.jain),
        column("CPU, % of a core", percent, |c| c.summary.cpu),
    ];
    columns.retain(|column| data.contestants.iter().any(|c| (column.value)(c).is_some()));
    let timed = data.contestants.iter().any(|c| c.summary.trusted.is_some());
    let row = |c: &Contestant<'_>| {
        let mut cells: Vec<Cell> = columns.iter().map(|column| cell(column, c)).collect();
        if timed {
            let runs = c.summary.runs;
            let text = c.summary.trusted.map_or_else(|| NONE.to_owned(), |trusted| format!("{trusted} of {runs} runs"));
            cells.push(Cell::from(text));
        }
        Row::new(c, cells)
    };
    let rows = data.contestants.iter().map(row).collect();
    let mut columns: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    if timed {
        columns.push("trusted".to_owned());
    }
    Table { id: "contestants", title: "The contestants", note: String::new(), open: true, columns, rows }
}

fn cell(column: &Column, contestant: &Contestant<'_>) -> Cell {
    let Some(median) = (column.value)(contestant) else { return Cell::from(NONE.to_owned()) };
    let (low, high) = median.interval.unwrap_or((median.q25, median.q75));
    let (value, low, high) = ((column.text)(median.median), (column.text)(low), (column.text)(high));
    let spread = if low == high { String::new() } else { format!("{low} to {high}") };
    Cell { value, spread, ..Cell::default() }
}

/// Each flow: medians over the runs. Nothing where every contestant has one flow.
pub(crate) fn flows(data: &Data<'_>) -> Option<Table> {
    let most = data.records().map(|record| record.flows.len()).max().unwrap_or(0);
    if most < 2 {
        return None;
    }
    let ending = data.records().flat_map(|r| &r.flows).any(|flow| flow.fct_ms.is_some());
    let mut columns = vec![
        "flow",
        "of",
        "way",
        "from, s",
        "to, s",
        "throughput, Mbit/s",
        "delay p50, ms",
        "delay p95, ms",
        "loss, %",
    ];
    columns.push("resent, packets");
    if ending {
        columns.extend(["completed", "completion p50, ms"]);
    }
    let cells = |c: &Contestant<'_>, index: usize, first: &FlowRecord, all: &Repeated<'_, FlowRecord>| {
        let beside = if c.own.get(index).copied().unwrap_or(true) { "" } else { " (beside it)" };
        let mut cells = vec![
            format!("{}{beside}", index + 1),
            format!("{}@{}", first.controller, first.via),
            way(first),
            all.median(|f| Some(f.start_s), plain),
            all.median(|f| Some(f.end_s), plain),
            all.median(|f| Some(f.throughput_mbps), plain),
            all.median(|f| f.delay_ms.map(|d| d.p50), plain),
            all.median(|f| f.delay_ms.map(|d| d.p95), plain),
            all.median(|f| Some(f.loss), percent),
            all.median(|f| f.retransmits.map(|packets| packets as f64), whole),
        ];
        if ending {
            cells.push(all.median(|f| f.completions.map(|n| n as f64), whole));
            cells.push(all.median(|f| f.fct_ms.map(|d| d.p50), plain));
        }
        cells
    };
    let rows = rows(data, |record| &record.flows, MOST_FLOWS, cells);
    let cut = if most > MOST_FLOWS { format!(" The first {MOST_FLOWS} of each contestant.") } else { String::new() };
    let note = format!("Medians over the runs; throughput while the flow lived.{cut}");
    Some(Table::new("flows", "Every flow", note, &columns, rows))
}

fn way(flow: &FlowRecord) -> String {
    match (&flow.from, &flow.to, &flow.direction) {
        (Some(from), Some(to), _) => format!("{from} to {to}"),
        (_, _, Some(direction)) => direction.name().to_owned(),
        _ => NONE.to_owned(),
    }
}

/// Each run, with what was drawn for it.
pub(crate) fn runs(data: &Data<'_>) -> Option<Table> {
    if data.contestants.iter().all(|c| c.records.len() < 2) {
        return None;
    }
    let drawn: BTreeSet<&String> = data.records().flat_map(|record| record.drawn.keys()).collect();
    type Value = (&'static str, fn(&Record) -> Option<String>);
    let several_seeds = data.seeds().len() > 1;
    let mut shown: Vec<Value> = vec![
        ("seed", |r| Some(r.seed.to_string())),
        ("throughput, Mbit/s", |r| Some(plain(r.throughput_mbps))),
        ("own, Mbit/s", |r| r.own_throughput_mbps.map(plain)),
        ("used, %", |r| r.utilization.map(percent)),
        ("delay p50, ms", |r| r.delay_ms.map(|d| plain(d.p50))),
        ("delay p95, ms", |r| r.delay_ms.map(|d| plain(d.p95))),
        ("queue p95, ms", |r| r.queue_ms.map(|d| plain(d.p95))),
        ("loss, %", |r| Some(percent(r.loss))),
        ("resent, packets", |r| r.retransmits.map(|packets| packets.to_string())),
        ("completion p50, ms", |r| r.fct_ms.map(|d| plain(d.p50))),
        ("trusted", |r| r.trusted.map(|yes| if yes { "yes" } else { "NO" }.to_owned())),
    ];
    shown.retain(|(title, value)| match *title {
        "seed" => several_seeds,
        _ => data.records().any(|record| value(record).is_some()),
    });
    let columns = std::iter::once("run".to_owned()).chain(shown.iter().map(|(title, _)| (*title).to_owned()));
    let columns: Vec<String> = columns.chain(drawn.iter().map(|key| (*key).clone())).collect();
    let row = |c: &Contestant<'_>, record: &Record| {
        let mut cells = vec![Cell::from(record.run.to_string())];
        cells.extend(shown.iter().map(|(_, value)| Cell::from(value(record).unwrap_or_else(|| NONE.to_owned()))));
        cells.extend(drawn.iter().map(|key| Cell::drawn(record.drawn.get(*key).map_or(NONE, String::as_str))));
        Row::new(c, cells)
    };
    let rows = data.contestants.iter().flat_map(|c| c.records.iter().map(move |record| row(c, record))).collect();
    let note = if drawn.is_empty() { "" } else { "The last columns are what seed and number of the run drew." };
    Some(Table { id: "runs", title: "Every run", note: note.to_owned(), open: false, columns, rows })
}

/// Each direction of each link: medians over the runs.
pub(crate) fn links(data: &Data<'_>) -> Option<Table> {
    let columns = ["link", "from", "to", "used, %", "queue, packets", "packets", "dropped", "lost", "marked"];
    let cells = |_: &Contestant<'_>, _: usize, first: &LinkRecord, all: &Repeated<'_, LinkRecord>| {
        vec![
            first.name.clone(),
            first.from.clone(),
            first.to.clone(),
            all.median(|l| l.utilization, percent),
            all.median(|l| Some(l.queue_packets), plain),
            all.count(|l| l.packets),
            all.count(|l| l.dropped),
            all.count(|l| l.lost),
            all.count(|l| l.ecn_marks),
        ]
    };
    let rows = rows(data, |record| &record.links, usize::MAX, cells);
    let note = "Medians over the runs; each direction of a link has a row.".to_owned();
    (!rows.is_empty()).then(|| Table::new("links", "Every link", note, &columns, rows))
}

/// Each content router: medians over the runs.
pub(crate) fn routers(data: &Data<'_>) -> Option<Table> {
    let columns = ["router", "requests", "units that it had", "units that it had not", "units sent"];
    let cells = |_: &Contestant<'_>, _: usize, first: &RouterRecord, all: &Repeated<'_, RouterRecord>| {
        let counts =
            [all.count(|r| r.requests), all.count(|r| r.hits), all.count(|r| r.misses), all.count(|r| r.sent_units)];
        std::iter::once(first.node.clone()).chain(counts).collect()
    };
    let rows = rows(data, |record| &record.routers, usize::MAX, cells);
    (!rows.is_empty())
        .then(|| Table::new("routers", "Every content router", "Medians over the runs.".to_owned(), &columns, rows))
}
