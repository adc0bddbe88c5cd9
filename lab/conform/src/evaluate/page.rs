//! The page of an evaluation: a section for each question with its figures and its answer.

use minijinja::context;
use minijinja::value::Serde;
use paceline_report::chart::{ChartRow, PlotAxis, PlotLine, Sheet};
use paceline_report::svg::nice;
use paceline_report::{PageError, SCRIPT, STYLE, palette};
use serde::Serialize;

use super::{AnswerChart, Answered};

/// Name of the page in its folder.
pub const PAGE: &str = "evaluation.html";
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
pub fn page(name: &str, answered: &[Answered], effort: &str, command: &str) -> Result<String, PageError> {
    let sections: Vec<Section<'_>> = answered.iter().map(section).collect();
    Ok(paceline_report::html(
        include_str!("evaluate.html"),
        context! {
            version => env!("CARGO_PKG_VERSION"),
            style => STYLE,
            script => SCRIPT,
            title => format!("{name} evaluated"),
            name => name,
            effort => effort,
            command => command,
            sections => Serde(sections),
            not_asked => super::not_asked(),
        },
    )?)
}

fn section(of: &Answered) -> Section<'_> {
    let Answered { id, question, source, setup, answer, charts, failures } = of;
    Section { id, question, source, setup, answer, figures: charts.iter().map(draw).collect(), failures }
}

fn draw(chart: &AnswerChart) -> String {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let low = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let high = points().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
    let most = points().filter_map(|(_, y)| *y).fold(0.0, f64::max);
    let x =
        if chart.log { PlotAxis::log(low.min(high) * 0.8, high * 1.25) } else { PlotAxis::linear(nice(high * 1.05)) };
    let y = PlotAxis::linear(chart.top.map_or_else(|| nice((most * 1.05).max(1e-3)), |top| top.max(most) * 1.04));
    // A contestant that is also what others are held against comes twice.
    let again = |(index, line): &(usize, &super::AnswerLine)| chart.lines[..*index].contains(line);
    let lines: Vec<&super::AnswerLine> =
        chart.lines.iter().enumerate().filter(|line| !again(line)).map(|(_, line)| line).collect();
    let classes = palette::classes(lines.iter().map(|line| line.name.trim_start_matches("beside ")));
    let all = || classes.iter().cloned().zip(&lines);
    let curves = all().map(|(class, line)| PlotLine::dotted(class, line.points.iter().copied())).collect();
    let row = ChartRow::single(chart.y, y, HEIGHT, curves);
    let sheet = Sheet::new(format!("{} by {}", chart.y, chart.x), (chart.x, x), vec![row]);
    sheet.legend(all().map(|(class, line)| (class, &line.name))).draw()
}
