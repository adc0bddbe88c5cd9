//! Figures over time: one small panel for each contestant, all with the same axes.

use paceline_experiment::{FlowSeries, Series};

use super::data::{Contestant, Data};
use super::panel::{HIGH, Panel, frame};
use super::plot::{Fit, Places, Plot, near};
use super::steps::Shown;
use super::svg::{Anchor, Rect, Scale, Svg, area, short, trail};

/// Flows drawn one by one; beyond, only their sum is.
pub(crate) const MOST_FLOWS: usize = 4;

/// The share of the capacity is taken over this part of the run (our choice: a curve that can be read), and over a second or more.
const WINDOW: f64 = 1.0 / 60.0;

/// Where the numbers of a series lie: in the middle of each step.
pub(crate) fn middles(series: &Series) -> Places<'static> {
    let step = series.step.as_secs_f64();
    Places::Steps(step / 2.0, step)
}

/// Throughput of flows together, step by step.
pub(crate) fn total_mbps<'s>(flows: impl Iterator<Item = &'s FlowSeries>) -> Vec<f64> {
    let mut total = Vec::new();
    for flow in flows {
        total.resize(total.len().max(flow.throughput_mbps.len()), 0.0);
        total.iter_mut().zip(&flow.throughput_mbps).for_each(|(sum, mbps)| *sum += mbps);
    }
    total
}

/// The flows' queueing delay, step by step: the largest of their means.
fn queue_ms(series: &Series) -> Vec<Option<f64>> {
    let steps = series.flows.iter().map(|f| f.queue_ms.len()).max().unwrap_or(0);
    let at = |i: usize| series.flows.iter().filter_map(move |f| f.queue_ms.get(i).copied().flatten());
    (0..steps).map(|i| at(i).reduce(f64::max)).collect()
}

fn some(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().map(|v| Some(*v)).collect()
}

/// Every run with points, run by run; how many contestants there are, and for how long the longest goes.
fn all_shown<'a>(data: &'a Data<'_>) -> (Vec<(&'a Contestant<'a>, &'a Shown<'a>)>, f64) {
    let mut all: Vec<_> = data.contestants.iter().flat_map(|c| c.shown.iter().map(move |shown| (c, shown))).collect();
    all.sort_by_key(|(_, shown)| shown.record.run);
    let seconds = all.iter().map(|(_, shown)| shown.seconds()).fold(0.0, f64::max);
    (all, seconds)
}

/// What lies below 99.5 % of the values, so that one spike does not flatten the rest; the largest where close to that.
pub(crate) fn ceiling(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let (Some(most), Some(usual)) =
        (values.last().copied(), values.get(values.len().saturating_sub(1 + values.len() / 200)).copied())
    else {
        return 1.0;
    };
    if most > 1.5 * usual && usual > 0.0 { usual * 1.2 } else { most }
}

/// The plot of a panel of this height over time.
pub(crate) fn plot<'a>(high: f64, seconds: f64, y: Scale, fit: Fit, column: &'a str) -> Plot<'a> {
    let rect = frame(high);
    Plot {
        rect,
        x: Scale::linear(0.0, seconds, rect.x, rect.right()),
        y: y.over(rect.bottom(), rect.y),
        fits: [Fit::Fixed, fit],
        columns: ["time_s", column],
        link: "time",
        ticks: [6, if y.is_log() { 5 } else { 4 }],
        labels: [true, true],
    }
}

/// A panel's heading: whose it is, and a word on it.
fn heading(svg: &mut Svg, rect: Rect, name: &str, note: &str) {
    svg.text(rect.x, rect.y - 6.0, Anchor::Start, "name", name);
    svg.text(rect.right(), rect.y - 6.0, Anchor::End, "tick", note);
}

/// Throughput of each contestant, filled, below the capacity; what runs beside it is grey.
pub(crate) fn throughput(data: &Data<'_>) -> Vec<Panel> {
    let (all, seconds) = all_shown(data);
    let totals: Vec<Vec<f64>> = all.iter().map(|(c, s)| total_mbps(c.own_flows(s))).collect();
    let capacity = all.iter().flat_map(|(_, s)| s.series.capacity_mbps.iter());
    let top = ceiling(capacity.chain(totals.iter().flatten()).copied()) * 1.05;
    let draw = |((c, shown), total): (&(&Contestant<'_>, &Shown<'_>), &Vec<f64>)| {
        let (series, places) = (&shown.series, middles(&shown.series));
        let plot = plot(HIGH, seconds, Scale::linear(0.0, top, 0.0, 1.0), Fit::Zero, "throughput_mbps");
        let mut svg = Svg::default();
        plot.open(&mut svg);
        if !shown.cross_mbps.is_empty() {
            hatch(&mut svg, &plot, shown);
        }
        svg.open(&c.class(), "");
        plot.curve(&mut svg, "line thin", c.name(), places, &some(total), true);
        if (2..=MOST_FLOWS).contains(&c.own_flows(shown).count()) {
            for (index, flow) in c.own_flows(shown).enumerate() {
                let name = format!("{}, flow {}", c.name(), flow.index + 1);
                let class = format!("line thin part f{}", index + 1);
                plot.curve(&mut svg, &class, &name, places, &some(&flow.throughput_mbps), false);
            }
        }
        svg.close();
        let record = shown.record;
        let own = record.own_throughput_mbps.unwrap_or(record.throughput_mbps);
        let mut note = format!("{} Mbit/s", short(own));
        if c.rivals(shown).next().is_some() {
            let name = format!("beside {}", c.name());
            plot.curve(&mut svg, "rival", &name, places, &some(&total_mbps(c.rivals(shown))), false);
            note.push_str(&format!(", beside it {}", short((record.throughput_mbps - own).max(0.0))));
        }
        if series.capacity_mbps.iter().any(|mbps| *mbps > 0.0) {
            plot.curve(&mut svg, "limit", "capacity", places, &some(&series.capacity_mbps), false);
        }
        plot.close(&mut svg);
        heading(&mut svg, plot.rect, c.name(), &note);
        Panel::of(c, shown, &svg, HIGH, &format!("Throughput of {} over time", c.name()))
    };
    all.iter().zip(&totals).map(draw).collect()
}

/// Cross traffic, taken off the capacity from above.
fn hatch(svg: &mut Svg, plot: &Plot<'_>, shown: &Shown<'_>) {
    let left = |i: usize| shown.series.capacity_mbps[i] - shown.cross_mbps.get(i).copied().unwrap_or(0.0);
    let left: Vec<Option<f64>> = (0..shown.series.capacity_mbps.len()).map(|i| Some(left(i).max(0.0))).collect();
    plot.curve(svg, "cross-edge", "left by cross traffic", middles(&shown.series), &left, false);
    let places = middles(&shown.series);
    let points = |values: &[Option<f64>]| -> Vec<(f64, f64)> {
        let at = |(i, y): (usize, &Option<f64>)| (plot.x.at(places.at(i)), plot.y.at(y.unwrap_or(0.0)));
        values.iter().enumerate().map(at).collect()
    };
    let lower = points(&left);
    let upper = points(&some(&shown.series.capacity_mbps));
    // The script closes it again from the curve before it and the capacity.
    let d: Vec<String> = lower
        .iter()
        .chain(upper.iter().rev())
        .map(|(x, y)| format!("{} {}", super::svg::n(*x), super::svg::n(*y)))
        .collect();
    svg.raw(&format!(r#"<path class="hatched" data-between="" d="M{}Z"/>"#, d.join(" ")));
}

/// Which part of the capacity was used, by all flows together, over a window that moves along; where the axis starts, in percent.
pub(crate) fn used(data: &Data<'_>) -> (Vec<Panel>, f64) {
    let (all, seconds) = all_shown(data);
    let shares: Vec<Vec<Option<f64>>> = all.iter().map(|(_, shown)| used_percent(shown, seconds)).collect();
    let least = shares.iter().flatten().flatten().copied().fold(f64::INFINITY, f64::min);
    if !least.is_finite() {
        return (Vec::new(), 0.0);
    }
    let low = near(least, 100.0).0;
    let draw = |((c, shown), share): (&(&Contestant<'_>, &Shown<'_>), &Vec<Option<f64>>)| {
        let plot = plot(HIGH, seconds, Scale::linear(low, 102.0, 0.0, 1.0), Fit::Near, "used_percent");
        let mut svg = Svg::default();
        plot.open(&mut svg);
        svg.open(&c.class(), "");
        plot.curve(&mut svg, "line thin", c.name(), middles(&shown.series), share, false);
        svg.close();
        plot.close(&mut svg);
        let of = if shown.cross_mbps.is_empty() { "over the run" } else { "without cross traffic" };
        let note = shown.record.utilization.map(|used| format!("{} % {of}", short(100.0 * used)));
        heading(&mut svg, plot.rect, c.name(), &note.unwrap_or_default());
        Panel::of(c, shown, &svg, HIGH, &format!("Used share of the capacity over time, {}", c.name()))
    };
    (all.iter().zip(&shares).map(draw).collect(), low)
}

/// The window in seconds over which the used share is taken.
pub(crate) fn window_s(seconds: f64) -> f64 {
    (seconds * WINDOW).max(1.0)
}

fn used_percent(shown: &Shown<'_>, seconds: f64) -> Vec<Option<f64>> {
    let series = &shown.series;
    let carried = total_mbps(series.flows.iter());
    let half = ((window_s(seconds) / series.step.as_secs_f64() / 2.0).round() as usize).max(1);
    let share = |i: usize| {
        let window = i.saturating_sub(half)..(i + half).min(series.capacity_mbps.len());
        let sum = |values: &[f64]| window.clone().filter_map(|i| values.get(i)).sum::<f64>();
        let (capacity, carried) = (sum(&series.capacity_mbps), sum(&carried) + sum(&shown.cross_mbps));
        (capacity > 0.0).then(|| (100.0 * carried / capacity).min(100.0))
    };
    (0..series.capacity_mbps.len()).map(share).collect()
}

/// A scale for queueing delays: logarithmic where they span more than a factor of 50.
fn queue_scale(queues: &[Vec<Option<f64>>]) -> Scale {
    let most = queues.iter().flatten().flatten().copied().fold(0.0, f64::max);
    if most > 50.0 {
        let above = [1.0, 2.0, 5.0, 10.0].map(|m| m * 10f64.powi(most.log10().floor() as i32));
        Scale::log(1.0, above.into_iter().find(|v| *v >= most).unwrap_or(most), 0.0, 1.0)
    } else {
        Scale::linear(0.0, most * 1.05, 0.0, 1.0)
    }
}

/// Queueing delay of each contestant.
pub(crate) fn queueing(data: &Data<'_>) -> (Vec<Panel>, bool) {
    let (all, seconds) = all_shown(data);
    let queues: Vec<Vec<Option<f64>>> = all.iter().map(|(_, shown)| queue_ms(&shown.series)).collect();
    let scale = queue_scale(&queues);
    let draw = |((c, shown), queue): (&(&Contestant<'_>, &Shown<'_>), &Vec<Option<f64>>)| {
        let plot = plot(HIGH, seconds, scale, Fit::Zero, "queue_ms");
        let mut svg = Svg::default();
        plot.open(&mut svg);
        svg.open(&c.class(), "");
        // A filled area on a logarithmic axis would mean nothing.
        plot.curve(&mut svg, "line thin", c.name(), middles(&shown.series), queue, !scale.is_log());
        svg.close();
        plot.close(&mut svg);
        let note = shown.record.queue_ms.map(|span| format!("p50 {}, p95 {} ms", short(span.p50), short(span.p95)));
        heading(&mut svg, plot.rect, c.name(), &note.unwrap_or_default());
        Panel::of(c, shown, &svg, HIGH, &format!("Queueing delay of {} over time", c.name()))
    };
    (all.iter().zip(&queues).map(draw).collect(), scale.is_log())
}

/// Throughput over the capacity and queueing delay of a few contestants, one above the other, for a small picture.
pub(crate) fn pair(svg: &mut Svg, data: &Data<'_>, chosen: &[usize], plot: Rect) {
    let all: Vec<_> = chosen
        .iter()
        .filter_map(|index| data.contestants.get(*index))
        .filter_map(|c| Some((c, c.shown.first()?)))
        .collect();
    let seconds = all.iter().map(|(_, shown)| shown.seconds()).fold(0.0, f64::max);
    let queues: Vec<Vec<Option<f64>>> = all.iter().map(|(_, shown)| queue_ms(&shown.series)).collect();
    let totals: Vec<Vec<f64>> = all.iter().map(|(c, s)| total_mbps(c.own_flows(s))).collect();
    let capacity = all.iter().flat_map(|(_, s)| s.series.capacity_mbps.iter());
    let top = ceiling(capacity.chain(totals.iter().flatten()).copied()) * 1.05;
    let gap = 40.0;
    let h = (plot.h - gap * (all.len().max(1) - 1) as f64) / all.len().max(1) as f64;
    let w = (plot.w - 70.0) / 2.0;
    let queue_y = queue_scale(&queues);
    for (row, ((c, shown), (total, queue))) in all.iter().zip(totals.iter().zip(&queues)).enumerate() {
        let left = Rect { x: plot.x, y: plot.y + row as f64 * (h + gap), w, h };
        let right = Rect { x: plot.x + w + 70.0, ..left };
        let places = middles(&shown.series);
        let sides = [
            (left, Scale::linear(0.0, top, 0.0, 1.0), some(total), "throughput, Mbit/s"),
            (right, queue_y, queue.clone(), "queueing delay, ms"),
        ];
        for (rect, y, values, title) in sides {
            let (x, y) = (Scale::linear(0.0, seconds, rect.x, rect.right()), y.over(rect.bottom(), rect.y));
            let points = |values: &[Option<f64>]| -> Vec<(f64, Option<f64>)> {
                values.iter().enumerate().map(|(i, v)| (x.at(places.at(i)), v.map(|v| y.at(v)))).collect()
            };
            if rect == left {
                svg.path(&area(points(&some(&shown.series.capacity_mbps)).into_iter(), rect.bottom()), "capacity");
            }
            axes(svg, rect, x, y, row + 1 == all.len());
            svg.text(rect.x, rect.y - 8.0, Anchor::Start, "head", if row == 0 { title } else { "" });
            svg.open(&c.class(), "");
            if !y.is_log() {
                svg.path(&area(points(&values).into_iter(), rect.bottom()), "area");
            }
            svg.path(&trail(points(&values).into_iter()), "line thin");
            svg.text(rect.right(), rect.y - 8.0, Anchor::End, "name", c.name());
            svg.close();
        }
    }
    let foot = plot.bottom() + 34.0;
    svg.text(plot.x + plot.w / 2.0, foot, Anchor::Middle, "axis", "time, s");
}

fn axes(svg: &mut Svg, plot: Rect, x: Scale, y: Scale, labelled: bool) {
    for tick in x.ticks(5) {
        svg.line(x.at(tick), plot.y, x.at(tick), plot.bottom(), "grid");
        if labelled {
            svg.text(x.at(tick), plot.bottom() + 15.0, Anchor::Middle, "tick", &short(tick));
        }
    }
    for tick in y.ticks(if y.is_log() { 5 } else { (plot.h / 26.0) as usize }) {
        svg.line(plot.x, y.at(tick), plot.right(), y.at(tick), "grid");
        let text = if y.is_log() && tick <= y.low() { format!("\u{2264}{}", short(tick)) } else { short(tick) };
        svg.text(plot.x - 6.0, y.at(tick) + 4.0, Anchor::End, "tick", &text);
    }
    svg.rect(plot, "frame");
}
