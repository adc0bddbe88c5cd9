//! The scored page: for each controller its rules with what was measured, and the trajectories with where they depart.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use paceline_report::svg::{Anchor, Rect, Scale, Svg, short, trail};
use paceline_report::{ReportError, STYLE};
use serde::Serialize;

use crate::rule::{Span, Verdict};
use crate::suite::{Judged, Score};
use crate::trajectory::{Point, Trajectory, quantile};

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
/// What this page has beyond the style of all.
const MORE: &str = "svg .holds { fill: var(--c2); fill-opacity: .75; } svg .departs { fill: var(--c8); } svg .mark { fill: var(--c8); \
    fill-opacity: .13; } .holds-word { color: var(--c2); font-weight: 600; } .departs-word { color: var(--c8); font-weight: 700; } \
    .rules td { white-space: normal; text-align: left; vertical-align: top; } .rules th { text-align: left; } \
    .rules td:nth-child(3), .rules td:nth-child(4) { white-space: nowrap; }";

#[derive(Serialize)]
struct Section<'a> {
    name: &'a str,
    score: String,
    origin: &'a str,
    notes: Vec<&'static str>,
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
pub fn page(scores: &[Score], command: &str) -> Result<String, ReportError> {
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    env.add_template("conform", include_str!("conform.html"))?;
    let sections: Vec<Section<'_>> = scores.iter().map(section).collect();
    Ok(env.get_template("conform")?.render(context! {
        version => env!("CARGO_PKG_VERSION"),
        style => format!("{STYLE}{MORE}"),
        command => command,
        sections => Serde(sections),
    })?)
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

fn row(judged: &Judged) -> Row<'_> {
    let rule = judged.rule;
    let why = match &judged.verdict {
        Verdict::Holds(_) => String::new(),
        Verdict::Departs { by, .. } if *by < 1e3 => format!("{:.1} % beyond the bound", 100.0 * by),
        Verdict::Departs { .. } => String::new(),
        Verdict::NotSeen(why) => why.clone(),
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
    let trajectory = &score.trajectories[index];
    let rules: Vec<&Judged> = score.judged.iter().filter(|judged| judged.trajectory == index).collect();
    let rig = rules.first()?.rule.rig;
    let end = trajectory.end().max(1e-3);
    let x = Scale::linear(0.0, end, LEFT, WIDTH - RIGHT);
    let mut svg = Svg::default();
    let mut top = 22.0;
    marks(&mut svg, &rules, x, Rect { x: LEFT, y: top, w: WIDTH - LEFT - RIGHT, h: TALL });
    plot(&mut svg, trajectory, x, (top, TALL), "window, packets", |point| Some(point.window));
    top += TALL;
    if trajectory.points.iter().any(|point| point.pacing_mbps.is_some()) {
        top += 16.0;
        plot(&mut svg, trajectory, x, (top, LOW), "pace, Mbit/s", |point| point.pacing_mbps);
        top += LOW;
    }
    if trajectory.points.iter().any(|point| point.rtt_ms.is_some()) {
        top += 16.0;
        plot(&mut svg, trajectory, x, (top, LOW), "RTT, ms", |point| point.rtt_ms);
        top += LOW;
    }
    for tick in x.ticks(12) {
        svg.text(x.at(tick), top + 16.0, Anchor::Middle, "tick", &short(tick));
    }
    svg.text(LEFT + (WIDTH - LEFT - RIGHT) / 2.0, top + 34.0, Anchor::Middle, "axis", "seconds");
    top += 44.0;
    for judged in &rules {
        svg.text(LEFT - 8.0, top + 12.0, Anchor::End, "tick", judged.rule.id);
        bar(&mut svg, judged, x, top);
        top += BAR;
    }
    let on = if score.trajectories.len() > 1 || trajectory.facts.rate_mbps.is_some() {
        format!("On the path \u{201c}{}\u{201d}: {}", rig.name(), rig.about())
    } else {
        trajectory.name.clone()
    };
    let label = format!("Window of {} over time, and where each rule was judged", trajectory.name);
    Some(Figure { title: on, svg: svg.inline(WIDTH, top + 6.0, &label) })
}

/// Whether what was measured in a place is outside of what is expected.
fn is_off(judged: &Judged, span: &Span) -> bool {
    let (low, high) = judged.rule.expect;
    matches!(judged.verdict, Verdict::Departs { .. }) && !(low..=high).contains(&span.value)
}

/// Where a rule departs, behind the window.
fn marks(svg: &mut Svg, rules: &[&Judged], x: Scale, plot: Rect) {
    for judged in rules {
        let Some(seen) = judged.verdict.seen() else { continue };
        for span in seen.spans.iter().filter(|span| is_off(judged, span)) {
            let from = x.at(span.from);
            svg.rect(Rect { x: from, w: (x.at(span.to) - from).max(1.5), ..plot }, "mark");
        }
    }
}

/// Where a rule was judged.
fn bar(svg: &mut Svg, judged: &Judged, x: Scale, top: f64) {
    let Some(seen) = judged.verdict.seen() else {
        svg.text(x.at(0.0) + 4.0, top + 12.0, Anchor::Start, "hint", "not seen");
        return;
    };
    for span in &seen.spans {
        let from = x.at(span.from);
        let class = if is_off(judged, span) { "departs" } else { "holds" };
        svg.rect(Rect { x: from, y: top + 3.0, w: (x.at(span.to) - from - 0.6).max(1.2), h: BAR - 7.0 }, class);
    }
}

fn plot(
    svg: &mut Svg,
    of: &Trajectory,
    x: Scale,
    (top, height): (f64, f64),
    title: &str,
    value: fn(&Point) -> Option<f64>,
) {
    let values: Vec<f64> = of.points.iter().filter_map(value).collect();
    // A start that overshoots must not flatten the rest beyond recognition.
    let (most, usual) = (quantile(values.clone(), 1.0).unwrap_or(1.0), quantile(values, 0.98).unwrap_or(1.0));
    let y = Scale::linear(0.0, most.min(3.0 * usual) * 1.06, top + height, top);
    for tick in x.ticks(12) {
        svg.line(x.at(tick), top, x.at(tick), top + height, "grid");
    }
    for tick in y.ticks((height / 34.0) as usize) {
        svg.line(LEFT, y.at(tick), WIDTH - RIGHT, y.at(tick), "grid");
        svg.text(LEFT - 6.0, y.at(tick) + 4.0, Anchor::End, "tick", &short(tick));
    }
    svg.rect(Rect { x: LEFT, y: top, w: WIDTH - LEFT - RIGHT, h: height }, "frame");
    svg.open("c0 d0", "");
    svg.path(&trail(of.points.iter().map(|point| (x.at(point.t), value(point).map(|at| y.at(at))))), "line thin");
    svg.close();
    svg.text_upwards(LEFT - 62.0, top + height / 2.0, "axis", title);
}
