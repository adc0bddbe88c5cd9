//! Figures over time: one small panel for each contestant, all with the same axes.

use paceline_experiment::{FlowSeries, Series};

use super::data::{Contestant, Data};
use super::svg::{Anchor, Rect, Scale, Svg, area, short, trail};

/// Width of a figure.
const WIDTH: f64 = 1080.0;

/// Flows drawn one by one; beyond, only their sum is.
const MOST_FLOWS: usize = 4;

/// Several panels in rows with shared axes.
pub(crate) struct Grid {
    columns: usize,
    rows: usize,
    panel_height: f64,
    seconds: f64,
}

/// Room around panels.
const LEFT: f64 = 62.0;
const GAP: f64 = 14.0;
const HEAD: f64 = 20.0;
const FOOT: f64 = 40.0;

impl Grid {
    fn new(panels: usize, columns: usize, panel_height: f64, seconds: f64) -> Self {
        let columns = columns.min(panels).max(1);
        Self { columns, rows: panels.div_ceil(columns), panel_height, seconds }
    }

    fn plot(&self, index: usize) -> Rect {
        let w = (WIDTH - LEFT - 10.0 - GAP * (self.columns - 1) as f64) / self.columns as f64;
        let (column, row) = ((index % self.columns) as f64, (index / self.columns) as f64);
        let h = self.panel_height;
        Rect { x: LEFT + column * (w + GAP), y: HEAD + row * (h + HEAD + 6.0), w, h }
    }

    fn height(&self) -> f64 {
        self.rows as f64 * (self.panel_height + HEAD + 6.0) + FOOT
    }

    fn x(&self, plot: Rect) -> Scale {
        Scale::linear(0.0, self.seconds, plot.x, plot.right())
    }

    /// Grid lines and ticks of one panel: labels of `y` in the first column, of `x` in the last panel of a column.
    fn axes(&self, svg: &mut Svg, index: usize, panels: usize, y: Scale) {
        let plot = self.plot(index);
        time_axis(svg, plot, self.x(plot), index + self.columns >= panels);
        value_axis(svg, plot, y, index.is_multiple_of(self.columns));
    }

    fn titles(&self, svg: &mut Svg, y_title: &str) {
        let middle = HEAD + (self.height() - FOOT - HEAD) / 2.0;
        svg.text_upwards(16.0, middle, "axis", y_title);
        svg.text(LEFT + (WIDTH - LEFT) / 2.0, self.height() - 4.0, Anchor::Middle, "axis", "time, s");
    }
}

fn time_axis(svg: &mut Svg, plot: Rect, x: Scale, labelled: bool) {
    for tick in x.ticks((plot.w / 50.0).min(8.0) as usize) {
        svg.line(x.at(tick), plot.y, x.at(tick), plot.bottom(), "grid");
        if labelled {
            // The last label stays inside its panel, away from the next one's first.
            let anchor = if x.at(tick) > plot.right() - 6.0 { Anchor::End } else { Anchor::Middle };
            svg.text(x.at(tick), plot.bottom() + 15.0, anchor, "tick", &short(tick));
        }
    }
}

fn value_axis(svg: &mut Svg, plot: Rect, y: Scale, labelled: bool) {
    for tick in y.ticks(if y.is_log() { 5 } else { (plot.h / 26.0) as usize }) {
        let at = y.at(tick);
        svg.line(plot.x, at, plot.right(), at, "grid");
        if labelled {
            let text = if y.is_log() && tick <= y.low() { format!("\u{2264}{}", short(tick)) } else { short(tick) };
            svg.text(plot.x - 6.0, at + 4.0, Anchor::End, "tick", &text);
        }
    }
    svg.rect(plot, "frame");
}

/// Middles of the steps of a series, in seconds.
fn times(series: &Series) -> impl Iterator<Item = f64> + Clone {
    let step = series.step.as_secs_f64();
    (0..u32::MAX).map(move |i| (f64::from(i) + 0.5) * step)
}

/// Places of values over time.
fn places<'a>(
    series: &'a Series,
    values: impl Iterator<Item = Option<f64>> + 'a,
    x: Scale,
    y: Scale,
) -> impl Iterator<Item = (f64, Option<f64>)> + 'a {
    times(series).zip(values).map(move |(t, value)| (x.at(t), value.map(|v| y.at(v))))
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

/// Contestants with points over time, and for how long these go.
fn with_series<'a>(data: &'a Data<'_>) -> (Vec<(usize, &'a Contestant<'a>, &'a Series)>, f64) {
    let all: Vec<_> =
        data.contestants.iter().enumerate().filter_map(|(i, c)| c.series.map(|series| (i, c, series))).collect();
    let seconds = all.iter().map(|(_, _, s)| s.step.as_secs_f64() * s.capacity_mbps.len() as f64).fold(0.0, f64::max);
    (all, seconds)
}

/// What lies below 99.5 % of the values, so that one spike does not flatten the rest; the largest where close to that.
fn ceiling(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let (Some(most), Some(usual)) =
        (values.last().copied(), values.get(values.len().saturating_sub(1 + values.len() / 200)).copied())
    else {
        return 1.0;
    };
    if most > 1.5 * usual && usual > 0.0 { usual * 1.2 } else { most }
}

/// Throughput of each contestant, filled, over the capacity.
pub(crate) fn throughput(data: &Data<'_>) -> String {
    let (all, seconds) = with_series(data);
    let grid = Grid::new(all.len(), 3, 104.0, seconds);
    let totals: Vec<Vec<f64>> = all.iter().map(|(_, c, s)| total_mbps(c.own_flows(s))).collect();
    let top = ceiling(all.iter().flat_map(|(_, _, s)| s.capacity_mbps.iter()).chain(totals.iter().flatten()).copied());
    let mut svg = Svg::default();
    for (place, ((_, c, series), total)) in all.iter().zip(&totals).enumerate() {
        let plot = grid.plot(place);
        let (x, y) = (grid.x(plot), Scale::linear(0.0, top * 1.05, plot.bottom(), plot.y));
        svg.open(&c.panel_class(), "");
        let capacity = series.capacity_mbps.iter().map(|v| Some(*v));
        svg.path(&area(places(series, capacity, x, y), plot.bottom()), "capacity");
        grid.axes(&mut svg, place, all.len(), y);
        svg.open(&c.class(), "");
        let mbps = || total.iter().map(|v| Some(*v));
        svg.path(&area(places(series, mbps(), x, y), plot.bottom()), "area");
        svg.path(&trail(places(series, mbps(), x, y)), "line thin");
        let (own, rivals) = (c.own_flows(series).count(), c.rivals(series).count());
        if (2..=MOST_FLOWS).contains(&own) {
            for flow in c.own_flows(series) {
                let mbps = flow.throughput_mbps.iter().map(|v| Some(*v));
                svg.path(&trail(places(series, mbps, x, y)), "line thin part");
            }
        }
        let mut note =
            format!("{} Mbit/s", short(c.records[0].own_throughput_mbps.unwrap_or(c.records[0].throughput_mbps)));
        if rivals > 0 {
            let beside = total_mbps(c.rivals(series));
            svg.path(&trail(places(series, beside.into_iter().map(Some), x, y)), "rival");
            let beside = c.records[0].throughput_mbps - c.records[0].own_throughput_mbps.unwrap_or(0.0);
            note.push_str(&format!(", beside it {}", short(beside.max(0.0))));
        }
        svg.text(plot.x, plot.y - 6.0, Anchor::Start, "name", c.name());
        svg.text(plot.right(), plot.y - 6.0, Anchor::End, "tick", &note);
        svg.close();
        svg.close();
    }
    grid.titles(&mut svg, "throughput, Mbit/s");
    svg.inline(WIDTH, grid.height(), "Throughput over time of each contestant over the capacity of the path")
}

/// A scale for queueing delays: logarithmic where they span more than a factor of 50.
fn queue_scale(queues: &[Vec<Option<f64>>], plot: Rect) -> Scale {
    let most = queues.iter().flatten().flatten().copied().fold(0.0, f64::max);
    if most > 50.0 {
        let above = [1.0, 2.0, 5.0, 10.0].map(|m| m * 10f64.powi(most.log10().floor() as i32));
        Scale::log(1.0, above.into_iter().find(|v| *v >= most).unwrap_or(most), plot.bottom(), plot.y)
    } else {
        Scale::linear(0.0, most * 1.05, plot.bottom(), plot.y)
    }
}

/// Queueing delay of each contestant.
pub(crate) fn queueing(data: &Data<'_>) -> String {
    let (all, seconds) = with_series(data);
    let grid = Grid::new(all.len(), 3, 104.0, seconds);
    let queues: Vec<Vec<Option<f64>>> = all.iter().map(|(_, _, s)| queue_ms(s)).collect();
    let scale = queue_scale(&queues, grid.plot(0));
    // The heading says of what.
    let title = if scale.is_log() { "ms (logarithmic)" } else { "ms" };
    let mut svg = Svg::default();
    for (place, ((_, c, series), queue)) in all.iter().zip(&queues).enumerate() {
        let plot = grid.plot(place);
        let (x, y) = (grid.x(plot), scale.over(plot.bottom(), plot.y));
        svg.open(&c.panel_class(), "");
        grid.axes(&mut svg, place, all.len(), y);
        svg.open(&c.class(), "");
        svg.path(&area(places(series, queue.iter().copied(), x, y), plot.bottom()), "area");
        svg.path(&trail(places(series, queue.iter().copied(), x, y)), "line thin");
        svg.text(plot.x, plot.y - 6.0, Anchor::Start, "name", c.name());
        if let Some(span) = c.records[0].queue_ms {
            let note = format!("p50 {}, p95 {} ms", short(span.p50), short(span.p95));
            svg.text(plot.right(), plot.y - 6.0, Anchor::End, "tick", &note);
        }
        svg.close();
        svg.close();
    }
    grid.titles(&mut svg, title);
    svg.inline(WIDTH, grid.height(), "Queueing delay over time of each contestant")
}

/// One variable of the flows of a contestant.
struct Variable<'a> {
    name: String,
    flows: Vec<Vec<Option<f64>>>,
    /// Drawn thinner behind, with its name.
    beside: Option<(&'static str, Vec<Option<f64>>)>,
    series: &'a Series,
}

/// Window, smoothed RTT and the controller's own variables over time, each with an axis of its own.
pub(crate) fn variables(contestant: &Contestant<'_>) -> String {
    let Some(series) = contestant.series else { return String::new() };
    let shown = &series.flows[..series.flows.len().min(MOST_FLOWS)];
    let each = |value: &dyn Fn(&FlowSeries) -> Vec<Option<f64>>| shown.iter().map(value).collect::<Vec<_>>();
    let some = |values: &[f64]| values.iter().map(|v| Some(*v)).collect::<Vec<_>>();
    let mut panels = vec![
        Variable {
            name: "window, packets".to_owned(),
            flows: each(&|f| some(&f.window_packets)),
            beside: shown.first().filter(|_| shown.len() == 1).map(|f| ("in flight", some(&f.in_flight_packets))),
            series,
        },
        Variable { name: "smoothed RTT, ms".to_owned(), flows: each(&|f| f.srtt_ms.clone()), beside: None, series },
    ];
    let mut names: Vec<&'static str> = shown.iter().flat_map(|f| f.variables.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    panels.extend(names.into_iter().map(|name| Variable {
        name: titled(name),
        flows: each(&|f| f.variables.get(name).cloned().unwrap_or_default()),
        beside: None,
        series,
    }));
    panels.retain(|panel| panel.flows.iter().flatten().any(Option::is_some));
    draw_variables(contestant, &panels)
}

fn draw_variables(contestant: &Contestant<'_>, panels: &[Variable<'_>]) -> String {
    let Some(first) = panels.first() else { return String::new() };
    let seconds = first.series.step.as_secs_f64() * first.series.capacity_mbps.len() as f64;
    let (columns, gap, left, high, head) = (3_usize, 52.0, 52.0, 92.0, 22.0);
    let w = (WIDTH - left - 10.0 - gap * (columns - 1) as f64) / columns as f64;
    let rows = panels.len().div_ceil(columns);
    let row = high + head + 24.0;
    let mut svg = Svg::default();
    for (place, panel) in panels.iter().enumerate() {
        let (column, line) = ((place % columns) as f64, (place / columns) as f64);
        let plot = Rect { x: left + column * (w + gap), y: head + line * row, w, h: high };
        let beside = panel.beside.iter().flat_map(|(_, values)| values);
        let values = || panel.flows.iter().flatten().chain(beside.clone()).flatten().copied();
        let low = values().fold(0.0, f64::min);
        let x = Scale::linear(0.0, seconds, plot.x, plot.right());
        let y = Scale::linear(low * 1.05, ceiling(values()) * 1.05, plot.bottom(), plot.y);
        time_axis(&mut svg, plot, x, true);
        value_axis(&mut svg, plot, y, true);
        svg.text(plot.x, plot.y - 6.0, Anchor::Start, "head", &panel.name);
        svg.open(&contestant.class(), "");
        if let Some((name, values)) = &panel.beside {
            svg.path(&trail(places(panel.series, values.iter().copied(), x, y)), "line thin beside");
            let name = format!("faint: {name}");
            svg.text(plot.right(), plot.y - 6.0, Anchor::End, "tick", &name);
        }
        for flow in &panel.flows {
            svg.path(&trail(places(panel.series, flow.iter().copied(), x, y)), "line thin");
        }
        svg.close();
    }
    svg.inline(WIDTH, rows as f64 * row + 4.0, &format!("Variables of {} over time", contestant.name()))
}

/// `min_rtt_ms` as `min_rtt, ms`.
fn titled(name: &str) -> String {
    const UNITS: [(&str, &str); 7] = [
        ("_ms", "ms"),
        ("_mbps", "Mbit/s"),
        ("_bytes", "bytes"),
        ("_packets", "packets"),
        ("_us", "\u{b5}s"),
        ("_s", "s"),
        ("_pps", "packets/s"),
    ];
    UNITS
        .iter()
        .find_map(|(suffix, unit)| name.strip_suffix(suffix).map(|stem| format!("{stem}, {unit}")))
        .unwrap_or_else(|| name.to_owned())
}

/// Throughput over the capacity and queueing delay of a few contestants, one above the other, for a small picture.
pub(crate) fn pair(svg: &mut Svg, data: &Data<'_>, chosen: &[usize], plot: Rect) {
    let (all, seconds) = with_series(data);
    let all: Vec<_> = all.into_iter().filter(|(index, _, _)| chosen.contains(index)).collect();
    let queues: Vec<Vec<Option<f64>>> = all.iter().map(|(_, _, s)| queue_ms(s)).collect();
    let totals: Vec<Vec<f64>> = all.iter().map(|(_, c, s)| total_mbps(c.own_flows(s))).collect();
    let top = ceiling(all.iter().flat_map(|(_, _, s)| s.capacity_mbps.iter()).chain(totals.iter().flatten()).copied());
    let gap = 40.0;
    let h = (plot.h - gap * (all.len().max(1) - 1) as f64) / all.len().max(1) as f64;
    let w = (plot.w - 70.0) / 2.0;
    for (row, ((_, c, series), (total, queue))) in all.iter().zip(totals.iter().zip(&queues)).enumerate() {
        let left = Rect { x: plot.x, y: plot.y + row as f64 * (h + gap), w, h };
        let right = Rect { x: plot.x + w + 70.0, ..left };
        let last = row + 1 == all.len();
        let (x, y) =
            (Scale::linear(0.0, seconds, left.x, left.right()), Scale::linear(0.0, top * 1.05, left.bottom(), left.y));
        let capacity = series.capacity_mbps.iter().map(|v| Some(*v));
        svg.path(&area(places(series, capacity, x, y), left.bottom()), "capacity");
        time_axis(svg, left, x, last);
        value_axis(svg, left, y, true);
        svg.text(left.x, left.y - 8.0, Anchor::Start, "head", if row == 0 { "throughput, Mbit/s" } else { "" });
        svg.text(right.x, right.y - 8.0, Anchor::Start, "head", if row == 0 { "queueing delay, ms" } else { "" });
        svg.open(&c.class(), "");
        let mbps = || total.iter().map(|v| Some(*v));
        svg.path(&area(places(series, mbps(), x, y), left.bottom()), "area");
        svg.path(&trail(places(series, mbps(), x, y)), "line thin");
        svg.text(left.right(), left.y - 8.0, Anchor::End, "name", c.name());
        let (x, y) = (x.over(right.x, right.right()), queue_scale(&queues, right));
        svg.close();
        time_axis(svg, right, x, last);
        value_axis(svg, right, y, true);
        svg.open(&c.class(), "");
        svg.path(&area(places(series, queue.iter().copied(), x, y), right.bottom()), "area");
        svg.path(&trail(places(series, queue.iter().copied(), x, y)), "line thin");
        svg.text(right.right(), right.y - 8.0, Anchor::End, "name", c.name());
        svg.close();
    }
    let foot = plot.bottom() + 34.0;
    svg.text(plot.x + plot.w / 2.0, foot, Anchor::Middle, "axis", "time, s");
}
