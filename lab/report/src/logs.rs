//! Files with something over time, whatever wrote them, as curves: one page, or one picture.

use minijinja::context;
use minijinja::value::Serde;
use serde::Serialize;

use crate::chart::{ChartRow, Class, Panel, PlotAxis, PlotLine, Sheet};
use crate::{PageError, SCRIPT, STYLE};
use paceline_lab::numbers::short as number;

/// Height of a chart (our choice: five of them fit on a screen).
const HEIGHT: f64 = 130.0;
/// Classes of curves by their places: colours of the style sheet.
pub const CLASSES: [&str; 8] = ["c0 d0", "c8 d0", "c2 d0", "c4 d0", "c6 d0", "c3 d0", "c1 d0", "c9 d0"];
/// Class of what others are held against: grey.
pub const GREY: &str = "c7 d0";

/// A curve; where a value is missing it breaks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// What it is of: a direction, a flow, a contestant.
    pub name: String,
    /// Seconds, and values in the unit of its chart.
    pub points: Vec<(f64, Option<f64>)>,
    /// CSS classes of its colour.
    #[serde(skip)]
    pub class: Class,
}

/// Curves with the same unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogChart {
    /// What is shown, with its unit: `throughput, Mbit/s`.
    pub title: &'static str,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A number of the whole file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogFigure {
    /// What it is of; empty for the file.
    pub of: String,
    /// What it is, with its unit.
    pub what: &'static str,
    /// How much.
    pub value: f64,
}

/// A file as curves.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlottedLog {
    /// The file.
    pub file: String,
    /// What it is, in a few words.
    pub kind: &'static str,
    /// What it says of itself, and what its reader has to say of it: a line each.
    pub notes: Vec<String>,
    /// Seconds from its first to its last event.
    pub seconds: f64,
    /// Seconds that a point of a curve stands for.
    pub step_s: f64,
    /// Numbers of the whole file.
    pub figures: Vec<LogFigure>,
    /// One below the other.
    pub charts: Vec<LogChart>,
}

impl Curve {
    /// A curve through these points.
    pub fn new(name: impl Into<String>, class: impl Into<Class>, points: Vec<(f64, Option<f64>)>) -> Self {
        Self { name: name.into(), points, class: class.into() }
    }
}

impl LogFigure {
    /// A number of this part of the file; of all of it where `of` is empty.
    pub fn new(of: impl Into<String>, what: &'static str, value: f64) -> Self {
        Self { of: of.into(), what, value }
    }
}

/// The picture of files side by side, with the same axes.
pub fn sheet(logs: &[PlottedLog]) -> Sheet {
    let mut titles: Vec<&'static str> = Vec::new();
    let mut legend: Vec<(Class, String)> = Vec::new();
    for chart in logs.iter().flat_map(|log| &log.charts) {
        if !titles.contains(&chart.title) {
            titles.push(chart.title);
        }
        for curve in &chart.curves {
            if !legend.iter().any(|(class, name)| *class == curve.class && *name == curve.name) {
                legend.push((curve.class.clone(), curve.name.clone()));
            }
        }
    }
    let row = |(index, title): (usize, &&'static str)| {
        let most = logs.iter().flat_map(|log| &log.charts).filter(|chart| chart.title == *title).flat_map(values);
        let most = most.fold(0.0, f64::max);
        let panel = |log: &PlottedLog| {
            // The file's name stands once.
            let name = if index == 0 && logs.len() > 1 { &log.file } else { "" };
            let charts = log.charts.iter().filter(|chart| chart.title == *title);
            Panel::new(name, "", charts.flat_map(|chart| &chart.curves).map(line).collect())
        };
        ChartRow {
            y_title: title,
            y: PlotAxis::linear(if most > 0.0 { 1.06 * most } else { 1.0 }),
            height: HEIGHT,
            panels: logs.iter().map(panel).collect(),
        }
    };
    let names: Vec<&str> = logs.iter().map(|log| log.file.as_str()).collect();
    let label = format!("{} over time: {}", names.join(", "), titles.join("; "));
    let seconds = logs.iter().map(|log| log.seconds).fold(1e-3, f64::max);
    let rows = titles.iter().enumerate().map(row).collect();
    Sheet::new(label, ("time, s", PlotAxis::linear(seconds)), rows).legend(legend)
}

fn values(chart: &LogChart) -> impl Iterator<Item = f64> {
    chart.curves.iter().flat_map(|curve| curve.points.iter().filter_map(|(_, value)| *value)).filter(|v| v.is_finite())
}

fn line(curve: &Curve) -> PlotLine {
    // Too few points for a line are dots.
    let dots = curve.points.iter().filter(|(_, value)| value.is_some()).count() <= 12;
    PlotLine { class: curve.class.clone(), points: curve.points.clone(), dots }
}

#[derive(Serialize)]
struct Section<'a> {
    file: &'a str,
    facts: String,
    notes: &'a [String],
    rows: Vec<(String, String)>,
    svg: String,
}

/// The page as HTML that opens offline, a section a file. `command` is what gives it again.
///
/// # Errors
/// When the page cannot be put together.
pub fn page(logs: &[PlottedLog], command: &str) -> Result<String, PageError> {
    let title = match logs {
        [one] => one.file.clone(),
        [first, others @ ..] => format!("{} and {} more", first.file, others.len()),
        [] => return Err(PageError::Empty),
    };
    Ok(crate::html(
        include_str!("logs.html"),
        context! {
            version => env!("CARGO_PKG_VERSION"),
            style => STYLE,
            script => SCRIPT,
            title => title,
            command => command,
            sections => Serde(logs.iter().map(section).collect::<Vec<_>>()),
        },
    )?)
}

fn section(log: &PlottedLog) -> Section<'_> {
    Section {
        file: &log.file,
        facts: format!("{} \u{b7} {} s \u{b7} a point is {} s", log.kind, number(log.seconds), number(log.step_s)),
        notes: &log.notes,
        rows: log.figures.iter().map(|figure| (named(figure), number(figure.value))).collect(),
        svg: sheet(std::slice::from_ref(log)).draw(),
    }
}

fn named(figure: &LogFigure) -> String {
    if figure.of.is_empty() { figure.what.to_owned() } else { format!("{}: {}", figure.of, figure.what) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(file: &str) -> PlottedLog {
        let curve = |name: &str, class: &'static str| Curve {
            name: name.to_owned(),
            points: vec![(0.5, Some(2.0)), (1.5, None)],
            class: class.into(),
        };
        PlottedLog {
            file: file.to_owned(),
            kind: "a log",
            notes: vec!["it is <cut> off".to_owned()],
            seconds: 2.0,
            step_s: 1.0,
            figures: vec![LogFigure { of: "down".to_owned(), what: "throughput, Mbit/s", value: 12.0 }],
            charts: vec![LogChart {
                title: "throughput, Mbit/s",
                curves: vec![curve("down", CLASSES[0]), curve("up", CLASSES[1])],
            }],
        }
    }

    #[test]
    fn a_page_has_every_file_and_every_name_in_a_legend() {
        let page = page(&[log("a<b>.log"), log("c.log")], "paceline plot c.log").unwrap();
        assert!(page.contains("a&lt;b&gt;.log") && page.contains("it is &lt;cut&gt; off") && !page.contains("<b>"));
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("down: throughput, Mbit") && !page.contains("NaN"));
        let both = sheet(&[log("a"), log("b")]);
        assert_eq!((both.rows.len(), both.rows[0].panels.len(), both.legend.len()), (1, 2, 2));
        assert!(super::page(&[], "").is_err());
    }
}
