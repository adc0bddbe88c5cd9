//! Heat maps over two keys: one for each contestant, and for each combination of the other keys.

use paceline_lab::numbers::short;
use paceline_lab::sweep::Cell;

use super::figure::{Metric, Panel};
use super::grid::{Axis, Others};
use super::scale::{Colour, Range};
use super::{Contestant, Swept};
use crate::svg::{Anchor, Rect, Svg, escape, n, text_width};

/// Width of a map, in pixels of a page where it stands beside others, and of one that stands alone.
const SMALL: f64 = 360.0;
const BROAD: f64 = 1080.0;
/// Most columns of a small map (our choice: a number of four signs still fits into its cells).
const COLUMNS: usize = 9;
/// Height of a cell.
const CELL: f64 = 30.0;
/// Room above for the name, beside for labels, below for labels and the key.
const HEAD: f64 = 26.0;
const RIGHT: f64 = 6.0;
const FOOT: f64 = 40.0;
/// Size of text in cells, as the style has it.
const TEXT: f64 = 12.0;

/// Whether a map over this key needs the page's width.
pub(super) fn is_broad(x: &Axis) -> bool {
    x.labels.len() > COLUMNS
}

/// Contestant by contestant within each combination of the other keys.
pub(super) fn panels(
    metric: &Metric,
    (x, y, others): (&Axis, &Axis, &[Others]),
    range: &Range,
    swept: Swept<'_>,
    contestants: &[Contestant],
) -> Vec<Panel> {
    let map = |others: &Others, contestant: &Contestant| {
        let map = Map { metric, x, y, others, range, swept, contestant };
        Panel { class: format!("k k{}", contestant.number), svg: map.draw() }
    };
    others.iter().flat_map(|others| contestants.iter().map(move |contestant| map(others, contestant))).collect()
}

struct Map<'a> {
    metric: &'a Metric,
    x: &'a Axis,
    y: &'a Axis,
    others: &'a Others,
    range: &'a Range,
    swept: Swept<'a>,
    contestant: &'a Contestant,
}

impl Map<'_> {
    fn draw(&self) -> String {
        let (columns, rows) = (self.x.labels.len(), self.y.labels.len());
        let width = if is_broad(self.x) { BROAD } else { SMALL };
        let label = self.y.labels.iter().map(|label| 0.85 * text_width(label, 11.0)).fold(0.0, f64::max);
        let left = (label + 32.0).min(width * 0.42);
        let top = HEAD + if self.others.title.is_empty() { 0.0 } else { 16.0 };
        let w = (width - left - RIGHT) / columns as f64;
        let frame = Rect { x: left, y: top, w: width - left - RIGHT, h: CELL * rows as f64 };
        let mut svg = Svg::default();
        svg.open(&self.contestant.look, "");
        svg.text(left, 14.0, Anchor::Start, "name", &self.contestant.name);
        svg.close();
        if !self.others.title.is_empty() {
            svg.text(left, 31.0, Anchor::Start, "tick", &self.others.title);
        }
        for column in 0..columns {
            for row in 0..rows {
                // The first value is lowest.
                let place =
                    Rect { x: left + column as f64 * w, y: frame.bottom() - (row + 1) as f64 * CELL, w, h: CELL };
                self.draw_cell(&mut svg, column, row, place);
            }
        }
        svg.rect(frame, "frame");
        // Labels that do not fit side by side: every second one, or every third.
        let widest = self.x.labels.iter().map(|label| 0.85 * text_width(label, 11.0)).fold(0.0, f64::max);
        let step = ((widest + 4.0) / w).ceil().max(1.0) as usize;
        for (column, label) in self.x.labels.iter().enumerate().step_by(step) {
            let middle = left + (column as f64 + 0.5) * w;
            svg.text(middle, frame.bottom() + 15.0, Anchor::Middle, "tick", label);
        }
        for (row, label) in self.y.labels.iter().enumerate() {
            svg.text(left - 6.0, frame.bottom() - (row as f64 + 0.5) * CELL + 4.0, Anchor::End, "tick", label);
        }
        svg.text(frame.x + frame.w / 2.0, frame.bottom() + 33.0, Anchor::Middle, "axis", &self.x.title);
        svg.text_upwards(12.0, frame.y + frame.h / 2.0, "axis", &self.y.title);
        let label = format!(
            "{} of {} over {} and {}{}{}",
            self.metric.title,
            self.contestant.name,
            self.x.title,
            self.y.title,
            if self.others.title.is_empty() { "" } else { ", at " },
            self.others.title
        );
        svg.inline(width, frame.bottom() + FOOT, &label)
    }

    fn draw_cell(&self, svg: &mut Svg, column: usize, row: usize, place: Rect) {
        let Some(cell) = self.cell(column, row) else { return };
        let values: Vec<String> = self
            .swept
            .sweep
            .axes
            .iter()
            .map(|axis| axis.key.as_str())
            .zip(&cell.values)
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        let median = self.metric.of(cell);
        let what = match &median {
            Some(median) => self.metric.said(median),
            None if cell.failed > 0 => "no run reached its end".to_owned(),
            None => "no number".to_owned(),
        };
        let failed = if cell.failed > 0 { format!(", {} of them failed", cell.failed) } else { String::new() };
        let runs = if cell.runs == 1 { "1 run".to_owned() } else { format!("{} runs", cell.runs) };
        let tip = format!("{}\n{}\n{what}\n{runs}{failed}", cell.contestant, values.join("\n"));
        svg.raw(&format!(r#"<g class="cell" data-tip="{}">"#, escape(&tip)));
        let middle = (place.x + place.w / 2.0, place.y + place.h / 2.0 + 4.0);
        match median {
            Some(median) => {
                let colour = Colour::at(self.range.share(median.median));
                svg.raw(&format!(
                    r#"<rect x="{}" y="{}" width="{}" height="{}" style="fill:{}"/>"#,
                    n(place.x),
                    n(place.y),
                    n(place.w),
                    n(place.h),
                    colour.hex()
                ));
                let text = short(median.median);
                if 0.85 * text_width(&text, TEXT) <= place.w {
                    svg.text(middle.0, middle.1, Anchor::Middle, colour.text(), &text);
                }
                if cell.failed > 0 {
                    let corner = (place.right() - 1.0, place.y + 1.0);
                    svg.path(&format!("M{} {}h-9l9 9z", n(corner.0), n(corner.1)), &format!("some {}", colour.text()));
                }
            }
            None => {
                svg.rect(place, "none");
                let text = if cell.failed > 0 { "failed" } else { "\u{2013}" };
                let text = if 0.85 * text_width(text, TEXT) <= place.w { text } else { "\u{d7}" };
                svg.text(middle.0, middle.1, Anchor::Middle, "nothing", text);
            }
        }
        svg.close();
    }

    /// The cell at this place: the one whose values are these, and the first of keys with one value.
    fn cell(&self, column: usize, row: usize) -> Option<&Cell> {
        let sweep = self.swept.sweep;
        let mut wanted = vec![0; sweep.axes.len()];
        (wanted[self.x.number], wanted[self.y.number]) = (column, row);
        for (key, value) in &self.others.values {
            wanted[*key] = *value;
        }
        // Of linked keys the first stands for all.
        let same = |values: &[usize]| sweep.together.iter().all(|keys| values[keys[0]] == wanted[keys[0]]);
        let here = |cell: &&Cell| cell.contestant == self.contestant.name && same(&sweep.values(cell.cell));
        self.swept.cells.iter().find(here)
    }
}

/// What the colours mean.
pub(super) fn scale(metric: &Metric, range: &Range) -> String {
    const STEPS: usize = 64;
    let (left, width) = (10.0, SMALL - 60.0);
    let mut svg = Svg::default();
    for step in 0..STEPS {
        let colour = Colour::at((step as f64 + 0.5) / STEPS as f64);
        let (x, w) = (left + width * step as f64 / STEPS as f64, width / STEPS as f64 + 0.5);
        svg.raw(&format!(r#"<rect x="{}" y="4" width="{}" height="12" style="fill:{}"/>"#, n(x), n(w), colour.hex()));
    }
    svg.rect(Rect { x: left, y: 4.0, w: width, h: 12.0 }, "frame");
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let anchor = if share == 0.0 { Anchor::Start } else { Anchor::Middle };
        let x = if share == 0.0 { left } else { left + share * width };
        svg.text(x, 30.0, anchor, "tick", &short(range.value(share)));
    }
    svg.text(left + width + 14.0, 14.0, Anchor::Start, "tick", metric.unit);
    let kind = if range.log { ", equal steps for equal factors" } else { "" };
    let label = format!("Scale: from {} to {} {}{kind}", short(range.low), short(range.high), metric.unit);
    svg.inline(SMALL, 36.0, &label).replacen("<svg ", "<svg class=\"scale\" ", 1)
}
