//! The scored page: for each controller its rules with what was measured, and the trajectories with where they depart.

use minijinja::context;
use minijinja::value::Serde;
use paceline_report::chart::thinned;
use paceline_report::plot::{Fit, Places, Plot};
use paceline_report::svg::{Anchor, Rect, Scale, Svg, short};
use paceline_report::{PageError, SCRIPT, STYLE, palette};
use serde::Serialize;

use crate::rule::{RuleVerdict, TrajectorySpan};
use crate::suite::{JudgedRule, Score};
use crate::trajectory::{TrajectoryPoint, quantile};

/// Name of the page in its folder.
pub const PAGE: &str = "conformance.html";
/// Width of a picture in its own units.
const WIDTH: f64 = 1080.0;
/// Room for the names beside the plots.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 14.0;
/// Heights: of the window, of what else is drawn, of a rule's bar.
const TALL: f64 = 210.0;
const LOW: f64 = 90.0;
const BAR: f64 = 18.0;
/// Most points of a curve in the page (our choice: the teeth of a window over a minute stay).
const POINTS: usize = 2000;
/// What this page has beyond the style of all.
const MORE: &str = "svg .holds { fill: var(--good); fill-opacity: .75; } svg .departs { fill: var(--bad); } svg .mark { fill: var(--bad); \
    fill-opacity: .13; } .holds-word { color: var(--good); font-weight: 600; } .departs-word { color: var(--bad); font-weight: 700; } \
    .rules td { white-space: normal; text-align: left; vertical-align: top; } .rules th { text-align: left; } \
    .rules td:nth-child(3), .rules td:nth-child(4) { white-space: nowrap; }";

#[derive(Serialize)]
struct Section<'a> {
    name: &'a str,
    score: String,
    origin: &'a str,
    notes: Vec<&'a str>,
    rows: Vec<Row<'a>>,
    figures: Vec<Figure>,
}

#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    says: &'a str,
    source: &'a str,
    measures: &'a str,
    measured: String,
    expected: String,
    tolerance: &'a str,
    word: &'static str,
    class: String,
    why: String,
}

#[derive(Serialize)]
struct Figure {
    title: String,
    svg: String,
}

/// The page as HTML that opens offline.
///
/// # Errors
/// When it cannot be put together.
pub fn page(scores: &[Score], command: &str) -> Result<String, PageError> {
    let sections: Vec<Section<'_>> = scores.iter().map(section).collect();
    Ok(paceline_report::html(
        include_str!("conform.html"),
        context! {
            version => env!("CARGO_PKG_VERSION"),
            style => format!("{STYLE}{MORE}"),
            script => SCRIPT,
            title => "Conformance",
            command => command,
            sections => Serde(sections),
        },
    )?)
}

/// `5 of 6 rules hold`, and how many could not be seen.
pub fn score_text(score: &Score) -> String {
    let (holds, seen, all) = score.counts();
    let unseen = all - seen;
    let rest = if unseen == 0 { String::new() } else { format!(", {unseen} not seen") };
    format!("{holds} of {seen} rules hold{rest}")
}

/// From where to where a figure may lie, in words.
pub fn expected((low, high): (f64, f64)) -> String {
    if low == high { short(low) } else { format!("{} to {}", figure(low), figure(high)) }
}

/// A figure to three digits.
pub fn figure(value: f64) -> String {
    let value = if value.abs() < 5e-4 { 0.0 } else { value };
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn section(score: &Score) -> Section<'_> {
    Section {
        name: &score.name,
        score: score_text(score),
        origin: score.origin,
        notes: score.notes(),
        rows: score.judged.iter().map(row).collect(),
        figures: (0..score.trajectories.len()).filter_map(|index| draw(score, index)).collect(),
    }
}

fn row(judged: &JudgedRule) -> Row<'_> {
    let rule = judged.rule;
    let why = match &judged.verdict {
        RuleVerdict::Holds(_) => String::new(),
        RuleVerdict::Departs { by, .. } if *by < 1e3 => format!("{:.1} % beyond the bound", 100.0 * by),
        RuleVerdict::Departs { .. } => String::new(),
        RuleVerdict::NotSeen(why) => why.clone(),
    };
    let word = judged.verdict.word();
    Row {
        id: rule.id,
        says: rule.says,
        source: rule.source,
        measures: rule.measures,
        measured: judged.verdict.seen().map_or_else(|| "\u{2013}".to_owned(), |seen| figure(seen.value)),
        expected: expected(rule.expect),
        tolerance: rule.tolerance,
        word,
        class: format!("{}-word", word.replace(' ', "-")),
        why,
    }
}

/// One trajectory with the rules that were judged on it.
fn draw(score: &Score, index: usize) -> Option<Figure> {
    let trajectory = score.trajectories.get(index).filter(|trajectory| trajectory.hidden.is_none())?;
    let rules: Vec<&JudgedRule> = score.judged.iter().filter(|judged| judged.trajectory == index).collect();
    let rig = rules.first()?.rule.rig;
    let label =
        format!("Window of {} over time on the path {}, and where each rule was judged", trajectory.name, rig.name());
    let end = trajectory.end().max(1e-3);
    let class = palette::class(&score.rules_of);
    let frame = |top: f64, h: f64| Rect { x: LEFT, y: top, w: WIDTH - LEFT - RIGHT, h };
    let mut svg = Svg::default();
    let mut top = 22.0;
    let curves: [(&str, &str, f64, Value); 3] = [
        ("window, packets", "window_packets", TALL, |point| Some(point.window)),
        ("pace, Mbit/s", "pace_mbps", LOW, |point| point.pacing_mbps),
        ("RTT, ms", "rtt_ms", LOW, |point| point.rtt_ms),
    ];
    let seen: Vec<_> =
        curves.into_iter().filter(|(.., value)| trajectory.points.iter().any(|point| value(point).is_some())).collect();
    for (index, (title, column, height, value)) in seen.iter().enumerate() {
        let points: Vec<(f64, Option<f64>)> = trajectory.points.iter().map(|point| (point.t, value(point))).collect();
        let rect = frame(top, *height);
        let plot = Plot {
            rect,
            x: Scale::linear(0.0, end, rect.x, rect.right()),
            y: Scale::linear(0.0, upper(&points), rect.bottom(), rect.y),
            fits: [Fit::Fixed, Fit::Zero],
            columns: ["time_s", column],
            link: &label,
            ticks: [12, (height / 34.0) as usize],
            labels: [index + 1 == seen.len(), true],
        };
        plot.open(&mut svg);
        if index == 0 {
            marks(&mut svg, &plot, &rules);
        }
        let (xs, ys) = thinned(&points, POINTS);
        svg.open(&class, "");
        plot.curve(&mut svg, "line fine", &trajectory.name, Places::Points(&xs), &ys, false);
        svg.close();
        plot.close(&mut svg);
        svg.text_upwards(LEFT - 62.0, top + height / 2.0, "axis", title);
        top += height + 16.0;
    }
    svg.text(LEFT + (WIDTH - LEFT - RIGHT) / 2.0, top + 18.0, Anchor::Middle, "axis", "seconds");
    top += 30.0;
    let rect = frame(top, BAR * rules.len() as f64);
    let plot = Plot {
        rect,
        x: Scale::linear(0.0, end, rect.x, rect.right()),
        y: Scale::linear(0.0, 1.0, rect.bottom(), rect.y),
        fits: [Fit::Fixed, Fit::Fixed],
        columns: ["time_s", "rule"],
        link: &label,
        ticks: [12, 1],
        labels: [false, false],
    };
    plot.open(&mut svg);
    for (row, judged) in rules.iter().enumerate() {
        bar(&mut svg, &plot, judged, top + BAR * row as f64);
    }
    plot.close(&mut svg);
    top = rect.bottom();
    let on = if score.trajectories.len() > 1 || trajectory.facts.rate_mbps.is_some() {
        format!("On the path \u{201c}{}\u{201d}: {}", rig.name(), rig.about())
    } else {
        trajectory.name.clone()
    };
    Some(Figure { title: on, svg: svg.inline(WIDTH, top + 6.0, &label) })
}

/// Whether what was measured in a place is outside of what is expected.
fn is_off(judged: &JudgedRule, span: &TrajectorySpan) -> bool {
    let (low, high) = judged.rule.expect;
    matches!(judged.verdict, RuleVerdict::Departs { .. }) && !(low..=high).contains(&span.value)
}

/// A value of a point of a trajectory, where it is known.
type Value = fn(&TrajectoryPoint) -> Option<f64>;

/// The end of the vertical axis: a start that overshoots must not flatten the rest beyond recognition.
fn upper(points: &[(f64, Option<f64>)]) -> f64 {
    let values: Vec<f64> = points.iter().filter_map(|(_, value)| *value).collect();
    let (most, usual) = (quantile(values.clone(), 1.0).unwrap_or(1.0), quantile(values, 0.98).unwrap_or(1.0));
    (most.min(3.0 * usual) * 1.06).max(1e-3)
}

/// Where a rule departs, behind the window.
fn marks(svg: &mut Svg, plot: &Plot<'_>, rules: &[&JudgedRule]) {
    for judged in rules {
        let Some(seen) = judged.verdict.seen() else { continue };
        let off: Vec<(f64, f64)> =
            seen.spans.iter().filter(|span| is_off(judged, span)).map(|span| (span.from, span.to)).collect();
        if !off.is_empty() {
            let name = format!("departs: {}", judged.rule.id);
            plot.band(svg, "mark", &name, (plot.rect.y, plot.rect.bottom()), &off);
        }
    }
}

/// Where a rule was judged.
fn bar(svg: &mut Svg, plot: &Plot<'_>, judged: &JudgedRule, top: f64) {
    svg.text(LEFT - 8.0, top + 12.0, Anchor::End, "tick", judged.rule.id);
    let Some(seen) = judged.verdict.seen() else {
        svg.text(LEFT + 4.0, top + 12.0, Anchor::Start, "hint", "not seen");
        return;
    };
    for (off, class, word) in [(false, "holds", "holds"), (true, "departs", "departs")] {
        let spans = seen.spans.iter().filter(|span| is_off(judged, span) == off);
        let spans: Vec<(f64, f64)> = spans.map(|span| (span.from, span.to)).collect();
        if !spans.is_empty() {
            let name = format!("{word}: {}", judged.rule.id);
            plot.band(svg, class, &name, (top + 3.0, top + BAR - 4.0), &spans);
        }
    }
}
