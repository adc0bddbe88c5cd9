//! Figures of whole runs: throughput against delay, delay distributions, where the delay came from.

use std::fmt::Write;

use super::data::{Contestant, Data};
use super::labels::{self, Candidate, Label};
use super::svg::{Anchor, Rect, Scale, Svg, n, nice, short, text_width};

/// Size of label text in the style sheet.
const LABEL: f64 = 12.0;

/// A frame with grid lines, ticks and axis titles.
pub(crate) struct Frame<'a> {
    pub(crate) plot: Rect,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    pub(crate) x_title: &'a str,
    pub(crate) y_title: &'a str,
}

impl Frame<'_> {
    /// Draws it.
    pub(crate) fn draw(&self, svg: &mut Svg) {
        let p = self.plot;
        for tick in self.x.ticks((p.w / 70.0) as usize) {
            let x = self.x.at(tick);
            svg.line(x, p.y, x, p.bottom(), "grid");
            svg.text(x, p.bottom() + 15.0, Anchor::Middle, "tick", &short(tick));
        }
        for tick in self.y.ticks((p.h / 40.0) as usize) {
            let y = self.y.at(tick);
            svg.line(p.x, y, p.right(), y, "grid");
            svg.text(p.x - 6.0, y + 4.0, Anchor::End, "tick", &short(tick));
        }
        svg.rect(p, "frame");
        svg.text(p.x + p.w / 2.0, p.bottom() + 34.0, Anchor::Middle, "axis", self.x_title);
        svg.text_upwards(p.x - 42.0, p.y + p.h / 2.0, "axis", self.y_title);
    }
}

/// Throughput against 95th percentile of one-way delay, the delay axis inverted: better is up and to the right.
pub(crate) fn trade_off(svg: &mut Svg, data: &Data<'_>, plot: Rect) {
    let points: Vec<&Contestant<'_>> = data.contestants.iter().filter(|c| c.summary.delay_p95_ms.is_some()).collect();
    let delay = |c: &Contestant<'_>| c.summary.delay_p95_ms;
    let slowest = points.iter().filter_map(|c| delay(c)).map(|m| m.q75).fold(0.0, f64::max);
    let fastest = points.iter().filter_map(|c| delay(c)).map(|m| m.q25).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|c| c.throughput().q75).fold(0.0, f64::max);
    let x = if slowest > 6.0 * fastest {
        Scale::log_around(fastest, slowest, plot.right(), plot.x)
    } else {
        Scale::linear(0.0, slowest * 1.1, plot.right(), plot.x)
    };
    let y = Scale::linear(0.0, most * 1.12, plot.bottom(), plot.y);
    let x_title = "95th percentile of one-way delay, ms (smaller to the right)";
    let y_title = if data.has_rivals() { "own throughput, Mbit/s" } else { "throughput, Mbit/s" };
    Frame { plot, x, y, x_title, y_title }.draw(svg);
    svg.text(plot.right() - 8.0, plot.y + 18.0, Anchor::End, "hint", "better \u{2197}");
    let mut obstacles = vec![Rect { x: plot.right() - 70.0, y: plot.y, w: 70.0, h: 26.0 }];
    let mut wanted = Vec::new();
    for c in &points {
        let (Some(d), t) = (delay(c), c.throughput()) else { continue };
        let (cx, cy) = (x.at(d.median), y.at(t.median));
        obstacles.push(Rect { x: cx - 6.0, y: cy - 6.0, w: 12.0, h: 12.0 });
        let title = format!(
            "{}: {} Mbit/s ({} to {}), p95 {} ms ({} to {})",
            c.name(),
            short(t.median),
            short(t.q25),
            short(t.q75),
            short(d.median),
            short(d.q25),
            short(d.q75)
        );
        svg.open(&c.class(), &title);
        if c.summary.runs > 1 {
            let (left, right) = (x.at(d.q75), x.at(d.q25));
            let (top, bottom) = (y.at(t.q75), y.at(t.q25));
            let mut markup = String::new();
            let _ = write!(
                markup,
                r#"<ellipse class="blob" cx="{}" cy="{}" rx="{}" ry="{}"/>"#,
                n((left + right) / 2.0),
                n((top + bottom) / 2.0),
                n(((right - left) / 2.0).max(1.0)),
                n(((bottom - top) / 2.0).max(1.0))
            );
            svg.raw(&markup);
        }
        svg.path(&format!("M{0} {1}h12m-6 -6v12", n(cx - 6.0), n(cy)), "cross");
        svg.close();
        let width = text_width(c.name(), LABEL) + 4.0;
        wanted.push(Label { width, height: LABEL + 3.0, candidates: labels::around(cx, cy) });
    }
    let places = labels::place(&wanted, &obstacles, plot);
    for (c, place) in points.iter().zip(&places) {
        let Some(d) = delay(c) else { continue };
        let (cx, cy) = (x.at(d.median), y.at(c.throughput().median));
        svg.open(&c.class(), "");
        if (place.x - cx).hypot(place.y - 4.0 - cy) > 16.0 {
            let toward = place.y - 4.0;
            svg.line(cx, cy, place.x, toward, "leader");
        }
        svg.text(place.x, place.y, place.anchor, "name", c.name());
        svg.close();
    }
}

/// Cumulative distribution of one-way delay.
pub(crate) fn delay_cdf(data: &Data<'_>) -> String {
    let (width, height) = (1080.0, 420.0);
    let plot = Rect { x: 64.0, y: 12.0, w: width - 84.0, h: height - 62.0 };
    let curves: Vec<&Contestant<'_>> = data.contestants.iter().filter(|c| c.delay_quantiles_ms.len() > 1).collect();
    let low = curves.iter().map(|c| c.delay_quantiles_ms[0]).fold(f64::INFINITY, f64::min);
    let high = curves.iter().filter_map(|c| c.delay_quantiles_ms.last()).copied().fold(0.0, f64::max);
    let x = Scale::log_around(low, high, plot.x, plot.right());
    let y = Scale::linear(0.0, 100.0, plot.bottom(), plot.y);
    let mut svg = Svg::default();
    Frame { plot, x, y, x_title: "one-way delay, ms (logarithmic)", y_title: "share of packets below, %" }
        .draw(&mut svg);
    let mut obstacles = Vec::new();
    let mut wanted = Vec::new();
    let all_places: Vec<_> = curves.iter().map(|c| quantile_places(&c.delay_quantiles_ms, x, y)).collect();
    for (curve, (c, places)) in curves.iter().zip(&all_places).enumerate() {
        let d = places.iter().enumerate().fold(String::new(), |mut d, (i, (x, y))| {
            let _ = write!(d, "{}{} {}", if i == 0 { "M" } else { " " }, n(*x), n(*y));
            d
        });
        svg.open(&c.class(), c.name());
        svg.path(&d, "line");
        svg.close();
        obstacles.extend(places.iter().map(|(x, y)| Rect { x: x - 2.0, y: y - 3.0, w: 4.0, h: 6.0 }));
        let candidates = places.iter().enumerate().skip(8).step_by(4).flat_map(|(i, (x, y))| {
            // Best where the curve is far from the others and near the middle.
            let others = all_places.iter().enumerate().filter(|(j, _)| *j != curve).filter_map(|(_, o)| o.get(i));
            let apart = others.map(|(other, _)| (other - x).abs()).fold(f64::INFINITY, f64::min);
            let rank = (i as f64 - 60.0).abs() / 4.0 + 600.0 / (4.0 + apart);
            [(7.0, Anchor::Start, 0.0), (-7.0, Anchor::End, 3.0)].map(|(dx, anchor, extra)| Candidate {
                x: x + dx,
                y: y + 4.0,
                anchor,
                rank: rank + extra,
            })
        });
        let candidates = candidates.filter(|c| c.y > plot.y + 14.0).collect();
        wanted.push(Label { width: text_width(c.name(), LABEL) + 6.0, height: LABEL + 2.0, candidates });
    }
    let chosen = labels::place(&wanted, &obstacles, plot);
    for (c, place) in curves.iter().zip(&chosen) {
        svg.open(&c.class(), "");
        svg.text(place.x, place.y, place.anchor, "name", c.name());
        svg.close();
    }
    svg.inline(width, height, "Cumulative distribution of one-way delay for each contestant")
}

fn quantile_places(quantiles: &[f64], x: Scale, y: Scale) -> Vec<(f64, f64)> {
    let last = (quantiles.len() - 1) as f64;
    quantiles.iter().enumerate().map(|(i, ms)| (x.at(*ms), y.at(100.0 * i as f64 / last))).collect()
}

/// Mean one-way delay of each direction by where it came from, as stacked bars.
pub(crate) fn delay_split(data: &Data<'_>) -> String {
    let rows: Vec<_> = data.contestants.iter().map(|c| (c, c.split())).collect();
    let label = rows.iter().map(|(c, _)| text_width(c.name(), LABEL)).fold(60.0, f64::max) + 14.0;
    let (width, row) = (1080.0, 22.0);
    let height = 34.0 + rows.len() as f64 * row + 44.0;
    let gap = 84.0;
    let half = (width - label - gap - 70.0) / 2.0;
    let mut svg = Svg::default();
    for (side, title) in [(0, "down: from the network to the user"), (1, "up: from the user to the network")] {
        let parts = |s: &paceline_lab::record::Split| if side == 0 { s.down } else { s.up };
        let total = |p: paceline_lab::record::Parts| p.propagation_ms + p.queue_ms + p.transmission_ms;
        let most = rows.iter().filter_map(|(_, s)| parts(s)).map(total).fold(0.0, f64::max);
        let left = label + f64::from(side) * (half + gap);
        let step = nice(most.max(1e-3) / 4.0);
        let x = Scale::linear(0.0, (most / step).ceil() * step, left, left + half);
        let bottom = 34.0 + rows.len() as f64 * row;
        svg.text(left, 18.0, Anchor::Start, "head", title);
        for tick in x.ticks(4) {
            svg.line(x.at(tick), 28.0, x.at(tick), bottom, "grid");
            svg.text(x.at(tick), bottom + 15.0, Anchor::Middle, "tick", &short(tick));
        }
        svg.text(left + half / 2.0, bottom + 34.0, Anchor::Middle, "axis", "mean one-way delay, ms");
        for (index, (c, split)) in rows.iter().enumerate() {
            let y = 34.0 + index as f64 * row;
            svg.open(&c.panel_class(), "");
            if side == 0 {
                svg.text(label - 8.0, y + 14.0, Anchor::End, "name", c.name());
            }
            let Some(p) = parts(split) else {
                svg.text(left + 4.0, y + 14.0, Anchor::Start, "tick", "nothing travelled");
                svg.close();
                continue;
            };
            let mut at = 0.0;
            for (ms, class) in
                [(p.propagation_ms, "propagation"), (p.queue_ms, "queue"), (p.transmission_ms, "transmission")]
            {
                svg.open("", &format!("{}: {class} {} ms", c.name(), short(ms)));
                let rect = Rect { x: x.at(at), y: y + 3.0, w: x.at(at + ms) - x.at(at), h: row - 6.0 };
                svg.rect(rect, class);
                svg.close();
                at += ms;
            }
            svg.text(x.at(at) + 6.0, y + 14.0, Anchor::Start, "tick", &short(at));
            svg.close();
        }
    }
    svg.inline(width, height, "Mean one-way delay of each direction: propagation, queue and transmission")
}
