//! The page of an evaluation: the clauses with their verdicts, then a section for each question with its figures and its answer.

use minijinja::context;
use minijinja::value::Serde;
use paceline_report::chart::{ChartRow, PlotAxis, PlotLine, Sheet};
use paceline_report::svg::nice;
use paceline_report::{PageError, SCRIPT, STYLE, palette};
use serde::Serialize;

use super::answers::short;
use super::{AnswerChart, AnswerLine, Answered, Check, ClauseRow, ClauseVerdict, Evaluation};

/// Name of the page in its folder.
pub const PAGE: &str = "evaluation.html";
/// Height of a panel.
const HEIGHT: f64 = 190.0;
/// What this page has beyond the style of all.
const MORE: &str = include_str!("evaluate.css");

#[derive(Serialize)]
struct Section<'a> {
    #[serde(flatten)]
    of: &'a Answered,
    figures: Vec<Figure>,
}

/// A picture, or bars.
#[derive(Serialize)]
struct Figure {
    svg: Option<String>,
    y: &'static str,
    bars: Vec<Bars>,
    key: Vec<(String, String)>,
    maps: Vec<Map>,
    /// There is nothing to draw.
    all_zero: bool,
}

/// A line of a figure over rates, round trips and buffers.
#[derive(Serialize)]
struct Map {
    name: String,
    class: String,
    /// Milliseconds of round trip.
    head: Vec<String>,
    rows: Vec<MapRow>,
}

#[derive(Serialize)]
struct MapRow {
    name: String,
    /// What stands in a cell, and how dark it is in percent.
    cells: Vec<(String, f64)>,
}

/// What is compared in one condition.
#[derive(Serialize)]
struct Bars {
    name: &'static str,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Bar {
    class: String,
    /// Percent of the longest.
    width: f64,
    text: String,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    row: &'a ClauseRow,
    class: &'static str,
    not_met: bool,
    lines: Vec<Line<'a>>,
}

/// A check as the table has it.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    check: &'a Check,
    class: &'static str,
    own: &'a str,
    beside: &'a str,
    /// Its question has a section on the page.
    asked: bool,
}

/// How many clauses have a verdict.
#[derive(Serialize)]
struct Count {
    word: &'static str,
    class: &'static str,
    clauses: usize,
}

/// The page as HTML that opens offline.
///
/// # Errors
/// When it cannot be put together.
pub fn page(evaluation: &Evaluation, command: &str) -> Result<String, PageError> {
    let Evaluation { name, effort, clauses, answers } = evaluation;
    let sections: Vec<Section<'_>> =
        answers.iter().map(|of| Section { of, figures: of.charts.iter().map(draw).collect() }).collect();
    let rows: Vec<Row<'_>> = clauses.iter().map(|clause| row(clause, answers)).collect();
    Ok(paceline_report::html(
        include_str!("evaluate.html"),
        context! {
            version => env!("CARGO_PKG_VERSION"),
            style => format!("{STYLE}{MORE}"),
            script => SCRIPT,
            title => format!("{name} evaluated"),
            name => name,
            effort => effort,
            command => command,
            counts => Serde(counts(clauses)),
            rows => Serde(rows),
            sections => Serde(sections),
        },
    )?)
}

fn counts(clauses: &[ClauseRow]) -> Vec<Count> {
    let mut counts: Vec<Count> = Vec::new();
    for row in clauses {
        let (word, class) = (row.verdict.word(), class(&row.verdict));
        match counts.iter_mut().find(|count| count.word == word) {
            Some(count) => count.clauses += 1,
            None => counts.push(Count { word, class, clauses: 1 }),
        }
    }
    counts.sort_by_key(|count| std::cmp::Reverse(count.clauses));
    counts
}

/// The class of its colour.
fn class(verdict: &ClauseVerdict) -> &'static str {
    match verdict {
        ClauseVerdict::Met | ClauseVerdict::Better | ClauseVerdict::Stated => "good",
        ClauseVerdict::NotMet | ClauseVerdict::NotStated => "bad",
        ClauseVerdict::Worse => "worse",
        ClauseVerdict::Like => "like",
        ClauseVerdict::DoesNotApply(_) | ClauseVerdict::NotAsked(_) => "none",
    }
}

fn row<'a>(row: &'a ClauseRow, answers: &[Answered]) -> Row<'a> {
    let line = |check: &'a Check| {
        let [own, beside] = &check.said;
        let asked = answers.iter().any(|answer| answer.id == check.question);
        Line { check, class: class(&check.verdict), own, beside, asked }
    };
    let lines = row.checks.iter().filter(|check| !check.question.is_empty()).map(line).collect();
    Row { row, class: class(&row.verdict), not_met: row.verdict == ClauseVerdict::NotMet, lines }
}

fn draw(chart: &AnswerChart) -> Figure {
    // A contestant that is also what others are held against comes twice.
    let again = |(index, line): &(usize, &AnswerLine)| chart.lines[..*index].contains(line);
    let lines: Vec<&AnswerLine> =
        chart.lines.iter().enumerate().filter(|line| !again(line)).map(|(_, line)| line).collect();
    let classes = palette::classes(lines.iter().map(|line| line.name.trim_start_matches("beside ")));
    let values = || lines.iter().flat_map(|line| &line.points).filter_map(|(_, y)| *y);
    let all_zero = values().next().is_some() && values().all(|value| value == 0.0);
    let plain = Figure { svg: None, y: chart.y, all_zero, bars: Vec::new(), key: Vec::new(), maps: Vec::new() };
    if !chart.places.is_empty() {
        let maps = classes.iter().zip(&lines).map(|(class, line)| map(chart, class, line));
        return Figure { maps: maps.collect(), ..plain };
    }
    if chart.names.is_empty() {
        return Figure { svg: Some(sheet(chart, &lines, &classes)), ..plain };
    }
    let most = values().fold(chart.top.unwrap_or(0.0), f64::max).max(1e-9);
    let bar = |class: &String, line: &AnswerLine, place: usize| {
        let value = line.points.iter().find(|(x, _)| *x == place as f64).and_then(|(_, y)| *y);
        let text = value.map_or_else(|| "\u{2013}".to_owned(), short);
        Bar { class: class.clone(), width: value.map_or(0.0, |value| (100.0 * value / most).clamp(0.0, 100.0)), text }
    };
    let is_known = |(index, _): &(usize, &&'static str)| {
        let here = |(x, y): &(f64, Option<f64>)| *x == *index as f64 + 1.0 && y.is_some();
        lines.iter().any(|line| line.points.iter().any(here))
    };
    let bars = |(index, name): (usize, &&'static str)| Bars {
        name,
        bars: classes.iter().zip(&lines).map(|(class, line)| bar(class, line, index + 1)).collect(),
    };
    Figure {
        bars: chart.names.iter().enumerate().filter(is_known).map(bars).collect(),
        key: classes.iter().cloned().zip(lines.iter().map(|line| line.name.clone())).collect(),
        ..plain
    }
}

/// A line as a map: a row for each rate and buffer, a column for each round trip.
fn map(chart: &AnswerChart, class: &str, line: &AnswerLine) -> Map {
    let distinct = |of: &dyn Fn(&[f64; 3]) -> [f64; 2]| {
        let mut values: Vec<[f64; 2]> = Vec::new();
        for value in chart.places.iter().map(of) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        values
    };
    let (rows, columns) = (distinct(&|[mbps, _, bdp]| [*mbps, *bdp]), distinct(&|[_, rtt, _]| [*rtt, 0.0]));
    let most = chart
        .lines
        .iter()
        .flat_map(|line| &line.points)
        .filter_map(|(_, y)| *y)
        .fold(chart.top.unwrap_or(0.0), f64::max);
    let cell = |[mbps, bdp]: [f64; 2], [rtt, _]: [f64; 2]| {
        let index = chart.places.iter().position(|place| *place == [mbps, rtt, bdp]);
        let value =
            index.and_then(|index| line.points.iter().find(|(x, _)| *x == index as f64 + 1.0)).and_then(|(_, y)| *y);
        value.map_or((String::new(), 0.0), |value| (short(value), (60.0 * value / most.max(1e-9)).clamp(0.0, 60.0)))
    };
    Map {
        name: line.name.clone(),
        class: class.to_owned(),
        head: columns.iter().map(|[rtt, _]| format!("{rtt} ms")).collect(),
        rows: rows
            .iter()
            .map(|[mbps, bdp]| MapRow {
                name: format!("{mbps} Mbit/s, {} BDP", short(*bdp)),
                cells: columns.iter().map(|column| cell([*mbps, *bdp], *column)).collect(),
            })
            .collect(),
    }
}

fn sheet(chart: &AnswerChart, lines: &[&AnswerLine], classes: &[String]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let low = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let high = points().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
    let most = points().filter_map(|(_, y)| *y).fold(0.0, f64::max);
    let x =
        if chart.log { PlotAxis::log(low.min(high) * 0.8, high * 1.25) } else { PlotAxis::linear(nice(high * 1.05)) };
    let y = PlotAxis::linear(chart.top.map_or_else(|| nice((most * 1.05).max(1e-3)), |top| top.max(most) * 1.04));
    let all = || classes.iter().cloned().zip(lines);
    let curves = all().map(|(class, line)| PlotLine::dotted(class, line.points.iter().copied())).collect();
    let row = ChartRow::single(chart.y, y, HEIGHT, curves);
    let sheet = Sheet::new(format!("{} by {}", chart.y, chart.x), (chart.x, x), vec![row]);
    sheet.legend(all().map(|(class, line)| (class, &line.name))).draw()
}
