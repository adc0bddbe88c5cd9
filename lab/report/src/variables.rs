//! Window, smoothed RTT and the controller's own variables over time.

use paceline_cc::labels;
use paceline_experiment::FlowSeries;

use super::data::Contestant;
use super::panel::{Panel, frame};
use super::plot::{Fit, Plot};
use super::steps::{Shown, lived};
use super::svg::{Anchor, Rect, Scale, Svg};
use super::time::{MOST_FLOWS, ceiling, middles, plot};

/// Height of a plot.
const HIGH: f64 = 92.0;
/// Height of a row of states.
const STATE: f64 = 18.0;

/// Variables that say in which state a controller is: names of the states of a number, or of a switch alone.
const STATES: [(&str, &[&str]); 7] = [
    ("mode", labels::MODES),
    ("state", labels::STATES),
    ("competitive", &["competitive"]),
    ("slow_start", &["slow start"]),
    ("starting", &["start-up"]),
    ("chirping", &["chirping"]),
    ("steering", &["steered by hops"]),
];

/// One variable of the flows of a contestant.
struct Variable {
    title: String,
    column: String,
    flows: Vec<(usize, Vec<Option<f64>>)>,
    /// Drawn fainter behind.
    beside: Option<Vec<Option<f64>>>,
}

/// The flows that are drawn.
pub(crate) fn flows<'s>(shown: &'s Shown<'_>) -> &'s [FlowSeries] {
    let flows = &shown.series.flows;
    &flows[..flows.len().min(MOST_FLOWS)]
}

/// Panels of a run of a contestant, each with an axis of its own.
pub(crate) fn variables(c: &Contestant<'_>, shown: &Shown<'_>) -> Vec<Panel> {
    let flows = flows(shown);
    let each = |value: &dyn Fn(&FlowSeries) -> Vec<Option<f64>>| -> Vec<(usize, Vec<Option<f64>>)> {
        flows.iter().map(|flow| (flow.index, value(flow))).collect()
    };
    let some = |values: &[f64]| values.iter().map(|v| Some(*v)).collect::<Vec<_>>();
    let mut names: Vec<&'static str> = flows.iter().flat_map(|f| f.variables.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let values = |flow: &FlowSeries, name: &str| flow.variables.get(name).cloned().unwrap_or_default();
    // Some controllers call their window a variable: the same curve twice.
    names.retain(|name| *name != "cwnd_packets" || !flows.iter().all(|f| alike(f, &values(f, name))));
    let mut all = vec![
        Variable {
            title: "window, packets".to_owned(),
            column: "window_packets".to_owned(),
            flows: each(&|f| some(&f.window_packets)),
            beside: flows.first().filter(|_| flows.len() == 1).map(|f| some(&f.in_flight_packets)),
        },
        Variable {
            title: "smoothed RTT, ms".to_owned(),
            column: "srtt_ms".to_owned(),
            flows: each(&|f| f.srtt_ms.clone()),
            beside: None,
        },
    ];
    let is_state = |name: &str| STATES.iter().any(|(state, _)| *state == name);
    all.extend(names.iter().filter(|name| !is_state(name)).map(|name| Variable {
        title: titled(name),
        column: (*name).to_owned(),
        flows: each(&|f| values(f, name)),
        beside: None,
    }));
    all.retain(|variable| variable.flows.iter().flat_map(|(_, v)| v).any(Option::is_some));
    let mut panels: Vec<Panel> = all.iter().map(|variable| draw(c, shown, variable)).collect();
    panels.extend(flows.iter().filter(|flow| c.owns(flow)).take(1).filter_map(|flow| states(c, shown, flow)));
    panels
}

/// Whether a variable is the window nearly always (in nine of ten steps in which the flow lives and both are known): the same curve
/// to the eye. A variable is known at the end of a step, so it lies between the means of this step and the next, to two packets or 2 %.
fn alike(flow: &FlowSeries, variable: &[Option<f64>]) -> bool {
    let window = &flow.window_packets;
    let known: Vec<usize> = lived(flow).filter(|step| variable.get(*step).copied().flatten().is_some()).collect();
    let close = |step: &&usize| {
        let (now, next) = (window[**step], window.get(**step + 1).copied().unwrap_or(window[**step]));
        let slack = (0.02 * now).max(2.0);
        variable[**step].is_some_and(|value| (now.min(next) - slack..=now.max(next) + slack).contains(&value))
    };
    let alike = known.iter().filter(close).count();
    !known.is_empty() && 10 * alike >= 9 * known.len()
}

fn draw(c: &Contestant<'_>, shown: &Shown<'_>, variable: &Variable) -> Panel {
    let values =
        || variable.flows.iter().flat_map(|(_, v)| v).chain(variable.beside.iter().flatten()).flatten().copied();
    let low = values().fold(0.0, f64::min);
    let y = Scale::linear(low * 1.05, ceiling(values()) * 1.05, 0.0, 1.0);
    let plot = plot(HIGH, shown.seconds(), y, Fit::Zero, &variable.column);
    let places = middles(&shown.series);
    let mut svg = Svg::default();
    plot.open(&mut svg);
    svg.open(&c.class(), "");
    if let Some(beside) = &variable.beside {
        plot.curve(&mut svg, "line thin beside", "in flight", places, beside, false);
    }
    let mut mine = 0;
    for (index, values) in &variable.flows {
        let is_own = c.own.get(*index).copied().unwrap_or(true);
        mine += usize::from(is_own);
        let name = if variable.flows.len() > 1 { format!("flow {}", index + 1) } else { c.name().to_owned() };
        let class = if is_own { format!("line thin f{mine}") } else { "rival".to_owned() };
        plot.curve(&mut svg, &class, &name, places, values, false);
    }
    svg.close();
    plot.close(&mut svg);
    svg.text(plot.rect.x, plot.rect.y - 6.0, Anchor::Start, "head", &variable.title);
    if variable.beside.is_some() {
        svg.text(plot.rect.right(), plot.rect.y - 6.0, Anchor::End, "tick", "faint: in flight");
    }
    Panel::of(c, shown, &svg, HIGH, &format!("{} of {} over time", variable.title, c.name()))
}

/// The states of a flow as bands.
fn states(c: &Contestant<'_>, shown: &Shown<'_>, flow: &FlowSeries) -> Option<Panel> {
    let mut rows: Vec<(&str, Vec<bool>)> = Vec::new();
    for (name, states) in STATES {
        let Some(values) = flow.variables.get(name) else { continue };
        for (number, state) in states.iter().enumerate() {
            let wanted = if states.len() == 1 { 1.0 } else { number as f64 };
            rows.push((state, values.iter().map(|v| v.is_some_and(|v| (v - wanted).abs() < 0.5)).collect()));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let high = rows.len() as f64 * STATE;
    let step = shown.series.step.as_secs_f64();
    let rect = frame(HIGH);
    let rect = Rect { x: rect.x + 40.0, w: rect.w - 40.0, h: high, ..rect };
    let columns = rows.iter().map(|(name, _)| name.replace(' ', "_")).collect::<Vec<_>>().join("|");
    let base = plot(HIGH, shown.seconds(), Scale::linear(0.0, rows.len() as f64, 0.0, 1.0), Fit::Zero, &columns);
    let plot = Plot {
        rect,
        x: base.x.over(rect.x, rect.right()),
        y: base.y.over(rect.bottom(), rect.y),
        fits: [Fit::Fixed, Fit::Fixed],
        ticks: [6, 1],
        labels: [true, false],
        ..base
    };
    let mut svg = Svg::default();
    plot.open(&mut svg);
    svg.open(&c.class(), "");
    for (row, (name, on)) in rows.iter().enumerate() {
        let y = rect.y + row as f64 * STATE;
        let spans = spans(on, step);
        plot.band(&mut svg, "state", name, (y + 3.0, y + STATE - 3.0), &spans);
        svg.text(rect.x - 6.0, y + 13.0, Anchor::End, "tick", name);
    }
    svg.close();
    plot.close(&mut svg);
    svg.text(rect.x, rect.y - 6.0, Anchor::Start, "head", "states");
    Some(Panel::of(c, shown, &svg, high, &format!("States of {} over time", c.name())))
}

/// From when to when a state lasted, in seconds.
fn spans(on: &[bool], step: f64) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for (index, _) in on.iter().enumerate().filter(|(_, on)| **on) {
        let (from, to) = (index as f64 * step, (index + 1) as f64 * step);
        match spans.last_mut() {
            Some(last) if (last.1 - from).abs() < step / 2.0 => last.1 = to,
            _ => spans.push((from, to)),
        }
    }
    spans
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
        .find_map(|(suffix, unit)| name.strip_suffix(suffix).map(|stem| format!("{}, {unit}", stem.replace('_', " "))))
        .unwrap_or_else(|| name.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_last_from_step_to_step() {
        assert_eq!(spans(&[true, true, false, true], 0.5), [(0.0, 1.0), (1.5, 2.0)]);
    }

    #[test]
    fn the_window_is_not_drawn_twice() {
        let flow = FlowSeries { window_packets: vec![0.0, 0.0, 0.0, 10.0, 200.0], ..FlowSeries::default() };
        let alike = |values: [f64; 2]| alike(&flow, &[&[Some(10.0); 3][..], &values.map(Some)].concat());
        assert!(alike([10.4, 200.0]), "before its start a flow has no window");
        assert!(alike([90.0, 200.0]), "a step is a mean, and the variable is known at its end");
        assert!(!alike([220.0, 200.0]) && !alike([10.0, 190.0]));
        assert_eq!(titled("min_rtt_ms"), "min rtt, ms");
    }
}
