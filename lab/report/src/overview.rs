//! Figures of whole runs: throughput against delay, and distributions.

use paceline_lab::stats::Median;

use super::data::{Contestant, Data};
use super::labels::{self, Candidate, Label};
use super::panel::{LEFT, PAGE, Panel, WIDTH};
use super::plot::{Fit, Places, Plot, exact, near};
use super::svg::{Anchor, Rect, Scale, Svg, escape, n, short, text_width};

/// Size of label text in the style sheet.
pub(crate) const LABEL: f64 = 12.0;

/// Height of a line of names.
const LINE: f64 = 20.0;
/// A name of which more is covered stands below the plot (our choice: a touched letter can still be read).
const COVERED: f64 = 0.2;

/// What the vertical axis of the trade-off shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upwards {
    /// Throughput of the contestants' own flows, which others run beside.
    Own,
    /// Throughput.
    Throughput,
    /// Share of the capacity, where runs have different capacities: throughput would show the link.
    Used,
}

impl Upwards {
    pub(crate) fn of(data: &Data<'_>) -> Self {
        if data.has_rivals() {
            return Self::Own;
        }
        let capacities = data
            .records()
            .filter(|record| record.links.is_empty())
            .map(|record| record.utilization.filter(|used| *used > 0.0).map(|used| record.throughput_mbps / used));
        let all: Option<Vec<f64>> = capacities.collect();
        let Some(all) = all.filter(|all| all.len() > 1) else { return Self::Throughput };
        let (least, most) =
            (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
        // Below a hundredth it makes no difference to the eye.
        if most > 1.01 * least { Self::Used } else { Self::Throughput }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Own => "own throughput, Mbit/s",
            Self::Throughput => "throughput, Mbit/s",
            Self::Used => "used share of the capacity, %",
        }
    }

    fn column(self) -> &'static str {
        match self {
            Self::Own => "own_throughput_mbps",
            Self::Throughput => "throughput_mbps",
            Self::Used => "used_percent",
        }
    }

    fn value(self, c: &Contestant<'_>) -> Median {
        let percent =
            |m: Median| Median { median: 100.0 * m.median, q25: 100.0 * m.q25, q75: 100.0 * m.q75, interval: None };
        match self {
            Self::Used => c.summary.utilization.map_or_else(|| c.throughput(), percent),
            _ => c.throughput(),
        }
    }

    fn unit(self) -> &'static str {
        if self == Self::Used { "% of the capacity" } else { "Mbit/s" }
    }
}

/// The axes of the trade-off: delay from the right to the left, and upwards.
fn trade_off_axes(points: &[(&Contestant<'_>, Median, Median)]) -> (Scale, Scale) {
    let over = |value: &dyn Fn(&(&Contestant<'_>, Median, Median)) -> f64, most: bool| {
        let all = points.iter().map(value);
        if most { all.fold(0.0, f64::max) } else { all.fold(f64::INFINITY, f64::min) }
    };
    let (slowest, fastest) = (over(&|p| p.1.q75, true), over(&|p| p.1.q25, false));
    let (most, least) = (over(&|p| p.2.q75, true), over(&|p| p.2.q25, false));
    let x = if slowest > 6.0 * fastest {
        Scale::log_around(fastest, slowest, 1.0, 0.0)
    } else {
        let (low, high) = near(fastest, slowest);
        Scale::linear(low, high, 1.0, 0.0)
    };
    let (low, high) = near(least, most);
    (x, Scale::linear(low, high, 0.0, 1.0))
}

/// Where the axes of the trade-off start, in a sentence, unless at zero.
pub(crate) fn starts(data: &Data<'_>) -> String {
    let (x, y) = trade_off_axes(&trade_off_points(data));
    let mut starts = Vec::new();
    if y.low() > 0.0 {
        starts.push(format!("The vertical axis starts at {}, not at 0.", short(y.low())));
    }
    if x.low() > 0.0 && !x.is_log() {
        starts.push(format!("The delay axis starts at {} ms.", short(x.low())));
    }
    starts.join(" ")
}

fn trade_off_points<'a>(data: &'a Data<'_>) -> Vec<(&'a Contestant<'a>, Median, Median)> {
    let upwards = Upwards::of(data);
    data.contestants.iter().filter_map(|c| Some((c, c.delay_p95_ms()?, upwards.value(c)))).collect()
}

/// Throughput against 95th percentile of one-way delay, the delay axis inverted: better is up and to the right. Names for which there is
/// no room stand below; the answer is how much height these take.
pub(crate) fn trade_off(svg: &mut Svg, data: &Data<'_>, rect: Rect) -> f64 {
    let points = trade_off_points(data);
    let (upwards, (x, y)) = (Upwards::of(data), trade_off_axes(&points));
    let (x, y) = (x.over(rect.right(), rect.x), y.over(rect.bottom(), rect.y));
    let plot = Plot {
        rect,
        x,
        y,
        fits: [Fit::Near, Fit::Near],
        columns: [if data.is_remote() { "rtt_p95_ms" } else { "delay_p95_ms" }, upwards.column()],
        link: "",
        ticks: [(rect.w / 70.0) as usize, (rect.h / 40.0) as usize],
        labels: [true, true],
    };
    plot.open(svg);
    let delay = if data.is_remote() { "round trip" } else { "one-way delay" };
    let title = format!("95th percentile of {delay}, ms (smaller to the right)");
    axis_titles(svg, rect, &title, upwards.title());
    svg.text(rect.right() - 8.0, rect.y + 18.0, Anchor::End, "hint", "better \u{2197}");
    let mut obstacles = vec![Rect { x: rect.right() - 70.0, y: rect.y, w: 70.0, h: 26.0 }];
    let mut wanted = Vec::new();
    for (c, d, t) in &points {
        let (cx, cy) = (x.at(d.median), y.at(t.median));
        obstacles.push(Rect { x: cx - 6.0, y: cy - 6.0, w: 12.0, h: 12.0 });
        let over = |m: &Median| {
            let (low, high) = (short(m.q25), short(m.q75));
            if c.summary.runs > 1 && low != high { format!(" ({low} to {high})") } else { String::new() }
        };
        let title = format!(
            "{}: {} {}{}, p95 {} ms{}",
            c.name(),
            short(t.median),
            upwards.unit(),
            over(t),
            short(d.median),
            over(d)
        );
        svg.raw(&format!(
            r#"<g class="{} point" data-name="{}" data-at="{} {}" data-span="{} {} {} {}"><title>{}</title>"#,
            c.class(),
            escape(c.name()),
            exact(d.median),
            exact(t.median),
            exact(d.q25),
            exact(d.q75),
            exact(t.q25),
            exact(t.q75),
            escape(&title)
        ));
        if c.summary.runs > 1 {
            let (left, right) = (x.at(d.q75), x.at(d.q25));
            let (top, bottom) = (y.at(t.q75), y.at(t.q25));
            obstacles.push(Rect { x: left, y: top, w: right - left, h: bottom - top });
            svg.raw(&format!(
                r#"<ellipse class="blob" cx="{}" cy="{}" rx="{}" ry="{}"/>"#,
                n((left + right) / 2.0),
                n((top + bottom) / 2.0),
                n(((right - left) / 2.0).max(1.0)),
                n(((bottom - top) / 2.0).max(1.0))
            ));
        }
        svg.path(&format!("M{0} {1}h12m-6 -6v12", n(cx - 6.0), n(cy)), "cross");
        svg.close();
        let width = text_width(c.name(), LABEL) + 4.0;
        wanted.push(Label { width, height: LABEL + 3.0, candidates: labels::around(cx, cy) });
    }
    let places = labels::place(&wanted, &obstacles, rect);
    let mut below = Vec::new();
    for ((c, d, t), place) in points.iter().zip(&places) {
        if place.covered > COVERED {
            below.push(*c);
            continue;
        }
        let place = place.at;
        let (cx, cy) = (x.at(d.median), y.at(t.median));
        svg.raw(&format!(r#"<g class="{} tag" data-name="{}">"#, c.class(), escape(c.name())));
        if (place.x - cx).hypot(place.y - 4.0 - cy) > 16.0 {
            let toward = place.y - 4.0;
            svg.line(cx, cy, place.x, toward, "leader");
        }
        svg.text(place.x, place.y, place.anchor, "name", c.name());
        svg.close();
    }
    plot.close(svg);
    names_below(svg, &below, rect)
}

/// Names with their marks in lines below a plot and the title of its axis; how much height they take.
fn names_below(svg: &mut Svg, names: &[&Contestant<'_>], rect: Rect) -> f64 {
    let (mut x, mut lines) = (rect.x, usize::from(!names.is_empty()));
    for c in names {
        let width = text_width(c.name(), LABEL) + 30.0;
        if x + width > rect.right() && x > rect.x {
            (x, lines) = (rect.x, lines + 1);
        }
        let y = rect.bottom() + 34.0 + LINE * lines as f64;
        svg.open(&c.class(), "");
        svg.path(&format!("M{} {}h12m-6 -6v12", n(x), n(y - 4.0)), "cross");
        svg.text(x + 17.0, y, Anchor::Start, "name", c.name());
        svg.close();
        x += width;
    }
    LINE * lines as f64
}

fn axis_titles(svg: &mut Svg, rect: Rect, x: &str, y: &str) {
    // A narrow layout has room for what matters.
    let wide = rect.x > 50.0;
    let x = if wide { x } else { x.split(" (").next().unwrap_or(x) };
    svg.text(rect.x + rect.w / 2.0, rect.bottom() + 34.0, Anchor::Middle, "axis", x);
    if wide {
        svg.text_upwards(rect.x - 46.0, rect.y + rect.h / 2.0, "axis", y);
    } else {
        svg.text(rect.x, rect.y - 8.0, Anchor::Start, "axis", y);
    }
}

/// Both layouts of a figure with one plot: for a page, and for a phone. What draws it says how much height it needs beside.
pub(crate) fn layouts(draw: impl Fn(&mut Svg, Rect) -> f64, high: f64, label: &str) -> Vec<Panel> {
    let wide = (PAGE, high, Rect { x: 64.0, y: 12.0, w: 1000.0, h: high - 60.0 }, "wide");
    let narrow = (WIDTH, 340.0, Rect { x: LEFT, y: 24.0, w: WIDTH - LEFT - 10.0, h: 272.0 }, "narrow");
    let panel = |(width, height, rect, class)| {
        let mut svg = Svg::default();
        let more = draw(&mut svg, rect);
        Panel::plain(svg.inline(width, height + more, label), class)
    };
    [wide, narrow].map(panel).into()
}

/// The figure of the page.
pub(crate) fn trade_off_figure(data: &Data<'_>) -> Vec<Panel> {
    layouts(
        |svg, rect| trade_off(svg, data, rect),
        460.0,
        if data.is_remote() {
            "Throughput against 95th percentile of the round trip for each contestant"
        } else {
            "Throughput against 95th percentile of one-way delay for each contestant"
        },
    )
}

/// Quantiles of a contestant.
pub(crate) type Values = for<'a, 'b> fn(&'a Contestant<'b>) -> &'a [f64];

/// Cumulative distributions: for each contestant the values at the shares 0, 0.01, ... 1.
pub(crate) fn distribution(data: &Data<'_>, values: Values, titles: [&str; 2], column: &str) -> Vec<Panel> {
    let curves: Vec<&Contestant<'_>> = data.contestants.iter().filter(|c| values(c).len() > 1).collect();
    let low = curves.iter().map(|c| values(c)[0]).fold(f64::INFINITY, f64::min);
    let high = curves.iter().filter_map(|c| values(c).last()).copied().fold(0.0, f64::max);
    let draw = |svg: &mut Svg, rect: Rect| {
        let x = Scale::log_around(low, high, rect.x, rect.right());
        let y = Scale::linear(0.0, 100.0, rect.bottom(), rect.y);
        let plot = Plot {
            rect,
            x,
            y,
            fits: [Fit::Near, Fit::Fixed],
            columns: [column, "share_percent"],
            link: column,
            ticks: [(rect.w / 70.0) as usize, (rect.h / 40.0) as usize],
            labels: [true, true],
        };
        plot.open(svg);
        axis_titles(svg, rect, titles[0], titles[1]);
        let mut obstacles = Vec::new();
        let mut wanted = Vec::new();
        let all_places: Vec<_> = curves.iter().map(|c| quantile_places(values(c), x, y)).collect();
        for (curve, (c, places)) in curves.iter().zip(&all_places).enumerate() {
            let last = (places.len() - 1) as f64;
            let shares: Vec<Option<f64>> = (0..places.len()).map(|i| Some(100.0 * i as f64 / last)).collect();
            svg.open(&c.class(), "");
            plot.curve(svg, "line", c.name(), Places::Points(values(c)), &shares, false);
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
            let candidates = candidates.filter(|c| c.y > rect.y + 14.0).collect();
            wanted.push(Label { width: text_width(c.name(), LABEL) + 6.0, height: LABEL + 2.0, candidates });
        }
        let chosen = labels::place(&wanted, &obstacles, rect);
        for ((c, place), places) in curves.iter().zip(&chosen).zip(&all_places) {
            let place = place.at;
            // The point of the curve that it stands at, so that it can move with it.
            let beside = |at: &(f64, f64)| (at.1 - (place.y - 4.0)).abs();
            let index =
                (0..places.len()).min_by(|a, b| beside(&places[*a]).total_cmp(&beside(&places[*b]))).unwrap_or(0);
            svg.raw(&format!(
                r#"<g class="{} tag" data-name="{}" data-stands="{index}">"#,
                c.class(),
                escape(c.name())
            ));
            svg.text(place.x, place.y, place.anchor, "name", c.name());
            svg.close();
        }
        plot.close(svg);
        0.0
    };
    layouts(draw, 400.0, &format!("Cumulative distribution of {}", titles[0]))
}

fn quantile_places(quantiles: &[f64], x: Scale, y: Scale) -> Vec<(f64, f64)> {
    let last = (quantiles.len() - 1) as f64;
    quantiles.iter().enumerate().map(|(i, ms)| (x.at(*ms), y.at(100.0 * i as f64 / last))).collect()
}
