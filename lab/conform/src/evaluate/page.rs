//! The page of an evaluation: a section for each question with its figures and its answer.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use paceline_report::chart::{Axis, Line as Curve, Panel, Row, Sheet};
use paceline_report::svg::nice;
use paceline_report::{ReportError, SCRIPT, STYLE};
use serde::Serialize;

use super::{Answered, Chart};

/// Name of the page in its folder.
pub const PAGE: &str = "evaluation.html";
/// Colours and dashes of lines, in their order: the contestant first.
const CLASSES: [&str; 5] = ["c0 d0", "c2 d1", "c8 d2", "c1 d3", "c3 d1"];
/// Height of a panel.
const HEIGHT: f64 = 190.0;

#[derive(Serialize)]
struct Section<'a> {
    id: &'a str,
    question: &'a str,
    source: &'a str,
    setup: &'a str,
    answer: &'a str,
    figures: Vec<String>,
    failures: &'a [String],
}

/// The page as HTML that opens offline.
///
/// # Errors
/// When it cannot be put together.
pub fn page(name: &str, answered: &[Answered], effort: &str, command: &str) -> Result<String, ReportError> {
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    env.add_template("evaluate", include_str!("evaluate.html"))?;
    let sections: Vec<Section<'_>> = answered.iter().map(section).collect();
    Ok(env.get_template("evaluate")?.render(context! {
        version => env!("CARGO_PKG_VERSION"),
        style => STYLE,
        script => SCRIPT,
        name => name,
        effort => effort,
        command => command,
        sections => Serde(sections),
    })?)
}

fn section(of: &Answered) -> Section<'_> {
    let Answered { id, question, source, setup, answer, charts, failures } = of;
    Section { id, question, source, setup, answer, figures: charts.iter().map(draw).collect(), failures }
}

fn draw(chart: &Chart) -> String {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let low = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let high = points().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
    let most = points().filter_map(|(_, y)| *y).fold(0.0, f64::max);
    let x = if chart.log { Axis::log(low.min(high) * 0.8, high * 1.25) } else { Axis::linear(nice(high * 1.05)) };
    let y = Axis::linear(chart.top.map_or_else(|| nice((most * 1.05).max(1e-3)), |top| top.max(most) * 1.04));
    let class = |index: usize| CLASSES[index % CLASSES.len()];
    let lines = chart.lines.iter().enumerate();
    let curve =
        |(index, line): (usize, &super::Line)| Curve { class: class(index), points: line.points.clone(), dots: true };
    let sheet = Sheet {
        label: format!("{} by {}", chart.y, chart.x),
        x_title: chart.x,
        x,
        rows: vec![Row {
            y_title: chart.y,
            y,
            height: HEIGHT,
            panels: vec![Panel { lines: lines.clone().map(curve).collect(), ..Panel::default() }],
        }],
        legend: lines.map(|(index, line)| (class(index), line.name.clone())).collect(),
    };
    sheet.draw()
}
