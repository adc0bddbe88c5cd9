//! Curves with intervals over one key.

use paceline_lab::numbers::short;
use paceline_lab::sweep::Cell;

use super::figure::{Metric, Panel};
use super::grid::Axis;
use super::scale::Range;
use super::{Contestant, Swept};
use crate::plot::near;
use crate::svg::{Anchor, Rect, Scale, Svg, escape, n, text_width};

/// Width and height of the plot on a wide page and on a narrow one.
const SIZES: [(&str, f64, f64); 2] = [("wide", 1080.0, 340.0), ("narrow", 380.0, 260.0)];
/// Room around the plot.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const HEAD: f64 = 12.0;
/// How far marks of contestants with the same value of the key stand from each other, so that intervals can be seen.
const APART: f64 = 4.0;
/// From how many times the smallest number of the key on its axis has equal steps for equal factors (our choice).
const LOG_FROM: f64 = 8.0;

/// The same picture for wide and for narrow pages.
pub(super) fn panels(metric: &Metric, axis: &Axis, swept: Swept<'_>, contestants: &[Contestant]) -> Vec<Panel> {
    let panel = |(class, width, height): (&str, f64, f64)| Panel {
        class: class.to_owned(),
        svg: draw(metric, axis, swept, contestants, (width, height)),
    };
    SIZES.map(panel).into()
}

/// Where the values of the key lie.
fn places(axis: &Axis, plot: Rect) -> Vec<f64> {
    const INSET: f64 = 30.0;
    let (from, to) = (plot.x + INSET, plot.right() - INSET);
    let count = axis.labels.len().max(2);
    match axis.numbers.as_deref() {
        Some([low, .., high]) => {
            let log = *low > 0.0 && high / low >= LOG_FROM;
            let scale = if log { Scale::log(*low, *high, from, to) } else { Scale::linear(*low, *high, from, to) };
            axis.numbers.iter().flatten().map(|number| scale.at(*number)).collect()
        }
        _ => (0..count).map(|i| from + (to - from) * i as f64 / (count - 1) as f64).collect(),
    }
}

fn draw(
    metric: &Metric,
    axis: &Axis,
    swept: Swept<'_>,
    contestants: &[Contestant],
    (width, height): (f64, f64),
) -> String {
    let plot = Rect { x: LEFT, y: HEAD, w: width - LEFT - RIGHT, h: height };
    let ends = |cell: &Cell| {
        let median = metric.of(cell)?;
        let (low, high) = median.interval.unwrap_or((median.median, median.median));
        Some([low, median.median, high])
    };
    let all: Vec<f64> = swept.cells.iter().filter_map(ends).flatten().collect();
    let range = Range::of(all.iter().copied());
    let (low, high) = range.map_or((0.0, 1.0), |range| (range.low, range.high));
    let log = range.is_some_and(|range| range.log);
    let y = if log {
        Scale::log_around(low, high, plot.bottom(), plot.y)
    } else {
        let (low, high) = near(low, high);
        Scale::linear(low, high, plot.bottom(), plot.y)
    };
    let mut svg = Svg::default();
    let want = (height / 40.0) as usize;
    for tick in y.ticks(want) {
        svg.line(plot.x, y.at(tick), plot.right(), y.at(tick), "grid");
        svg.text(plot.x - 6.0, y.at(tick) + 4.0, Anchor::End, "tick", &y.label(tick, want));
    }
    let places = places(axis, plot);
    let mut free = f64::NEG_INFINITY;
    for (place, label) in places.iter().zip(&axis.labels) {
        svg.line(*place, plot.y, *place, plot.bottom(), "grid");
        let half = 0.85 * text_width(label, 11.0) / 2.0;
        if place - half > free {
            svg.text(*place, plot.bottom() + 16.0, Anchor::Middle, "tick", label);
            free = place + half + 4.0;
        }
    }
    svg.rect(plot, "frame");
    for (number, contestant) in contestants.iter().enumerate() {
        let shift = (number as f64 - (contestants.len() as f64 - 1.0) / 2.0) * APART;
        svg.open(&contestant.class(), "");
        let mut d = String::new();
        let mut marks = String::new();
        for (index, place) in places.iter().enumerate() {
            let Some(cell) = cell(swept, axis, contestant, index) else { continue };
            let Some(median) = metric.of(cell) else {
                continue;
            };
            let (cx, cy) = (place + shift, y.at(median.median));
            d.push_str(&format!("{}{} {}", if d.is_empty() { "M" } else { "L" }, n(cx), n(cy)));
            if let Some((low, high)) = median.interval {
                let (top, bottom) = (n(y.at(high)), n(y.at(low)));
                marks.push_str(&format!(
                    r#"<path class="interval" d="M{x} {top}V{bottom}M{l} {top}h6M{l} {bottom}h6"/>"#,
                    x = n(cx),
                    l = n(cx - 3.0)
                ));
            }
            let runs = if cell.runs == 1 { "1 run".to_owned() } else { format!("{} runs", cell.runs) };
            let failed = if cell.failed > 0 { format!(", {} of them failed", cell.failed) } else { String::new() };
            let key = &swept.sweep.axes[axis.number];
            let tip = format!(
                "{}\n{} = {}\n{}\n{runs}{failed}",
                contestant.name,
                key.key,
                key.text(index),
                metric.said(&median)
            );
            marks.push_str(&format!(
                r#"<g data-tip="{}"><circle class="touch" cx="{x}" cy="{y}" r="10"/><circle class="dot" cx="{x}" cy="{y}" r="3.6"/></g>"#,
                escape(&tip),
                x = n(cx),
                y = n(cy)
            ));
        }
        svg.path(&d, "line");
        svg.raw(&marks);
        svg.close();
    }
    svg.text(plot.x + plot.w / 2.0, plot.bottom() + 36.0, Anchor::Middle, "axis", &axis.title);
    svg.text_upwards(16.0, plot.y + plot.h / 2.0, "axis", &metric.with_unit());
    let label = format!("{} over {}, from {} to {}", metric.title, axis.title, short(low), short(high));
    svg.inline(width, plot.bottom() + 44.0, &label)
}

fn cell<'a>(swept: Swept<'a>, axis: &Axis, contestant: &Contestant, index: usize) -> Option<&'a Cell> {
    let here = |cell: &&Cell| {
        cell.contestant == contestant.name && swept.sweep.values(cell.cell).get(axis.number) == Some(&index)
    };
    swept.cells.iter().find(here)
}
