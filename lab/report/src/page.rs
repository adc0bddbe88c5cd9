//! The page around figures and tables.

use minijinja::context;
use minijinja::value::Serde;
use paceline_lab::record::Record;
use paceline_lab::run::World;
use paceline_lab::table;
use paceline_lab::version;
use serde::Serialize;

use super::data::Data;
use super::figures::{self, Figure, Variables};
use super::svg::short;
use super::tables::{self, Table};
use super::{PageError, SCRIPT, STYLE};

#[derive(Serialize)]
struct Section<'a> {
    /// Before ids of headings, where a page has several sections.
    prefix: String,
    title: &'a str,
    facts: Vec<String>,
    contestants: Table,
    remarks: Vec<Remark>,
    runs_shown: Vec<u32>,
    figures: Vec<Figure>,
    variables: Vec<Variables>,
    tables: Vec<Table>,
    missing: Option<&'static str>,
    command: Option<&'a str>,
    origin: String,
    effective: Option<&'a str>,
    written: Option<&'a str>,
}

#[derive(Serialize)]
struct Remark {
    text: String,
    class: &'static str,
}

#[derive(Serialize)]
struct Chip<'a> {
    name: &'a str,
    number: usize,
    class: String,
}

pub(crate) fn render(sections: &[&Data<'_>]) -> Result<String, PageError> {
    let Some(first) = sections.first().and_then(|data| data.first()) else { return Err(PageError::Empty) };
    let mut chips: Vec<Chip<'_>> = Vec::new();
    for c in sections.iter().flat_map(|data| &data.contestants) {
        if chips.iter().all(|chip| chip.number != c.style.number) {
            chips.push(Chip { name: c.name(), number: c.style.number, class: c.class() });
        }
    }
    let titles: Vec<&str> = sections.iter().map(|data| data.title.as_str()).collect();
    let shown: Vec<_> = sections.iter().enumerate().map(|(index, data)| section(index, data)).collect();
    let page = crate::html(
        include_str!("report.html"),
        context! {
            title => titles.join(", "),
            version => version::named(&first.version, first.commit.as_deref()),
            style => STYLE,
            script => SCRIPT,
            chips => Serde(&chips),
            sections => Serde(shown),
        },
    )?;
    Ok(page)
}

/// What a page of a race between two hosts lacks.
const FAR: &str = "The two hosts have no clock in common, so one-way delay and its parts are not known: delay is the round trip, and queueing \
                   what it is above the shortest of the race, of both directions. What links did is not known either.";

fn section<'a>(index: usize, data: &'a Data<'_>) -> Section<'a> {
    let remarks = table::reading(data.records()) + &table::timekeeping(data.records());
    Section {
        prefix: if index == 0 { String::new() } else { format!("{}-", index + 1) },
        title: &data.title,
        facts: facts(data),
        contestants: tables::contestants(data),
        remarks: remarks.lines().map(remark).collect(),
        runs_shown: data.runs_shown(),
        figures: figures::figures(data),
        variables: figures::variables(data),
        tables: [tables::flows(data), tables::links(data), tables::routers(data), tables::runs(data)]
            .into_iter()
            .flatten()
            .collect(),
        missing: (!data.has_series()).then_some(if data.is_remote() {
            FAR
        } else {
            "Throughput and queueing delay over time, the delay distribution, and the controllers' variables are not \
             in the records. To see them, run the race again with --report: the same scenario and seed give the same \
             race."
        }),
        command: data.command,
        origin: origin(data),
        effective: data.effective,
        written: data.written,
    }
}

/// A line below the table; the verdict on the host's timekeeping stands out.
fn remark(text: &str) -> Remark {
    let class = if text.starts_with("NOT to be trusted") {
        "reading bad"
    } else if text.starts_with("Trusted") {
        "reading good"
    } else {
        "reading"
    };
    Remark { text: text.to_owned(), class }
}

fn facts(data: &Data<'_>) -> Vec<String> {
    let Some(first) = data.first() else { return Vec::new() };
    let runs = data.contestants.iter().map(|c| c.summary.runs).max().unwrap_or(0);
    let mut facts = vec![
        format!("scenario {}", first.scenario),
        first.trace.as_ref().map_or_else(|| "no trace".to_owned(), |trace| format!("trace {trace}")),
        format!("{} s", short(first.seconds)),
        if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") },
        data.seeds_text(),
        match first.world {
            World::Sim => "virtual time",
            World::Real => "real time",
        }
        .to_owned(),
    ];
    facts.extend(capacity(data.records()));
    facts
}

/// What the path could carry on average in each run, from the smallest to the largest; nothing where there are several links,
/// each with a capacity of its own.
pub(crate) fn capacity<'a>(records: impl Iterator<Item = &'a Record>) -> Option<String> {
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
        let fixed = match first.world {
            World::Sim => " Scenario, seed and version determine every number on this page.",
            World::Real if first.clock.is_some() => " The network between two hosts: another run gives other numbers.",
            World::Real => " Real sockets and kernel flows behind an emulated path: another run gives other numbers.",
        };
        let build = version::named(&first.version, first.commit.as_deref());
        format!("paceline {build}, {}.{fixed}", data.seeds_text())
    })
}
