//! The figures of the page, each with its sentence and what its marks mean.

use serde::Serialize;

use super::data::{Contestant, Data};
use super::panel::Panel;
use super::svg::short;
use super::{bars, hops, overview, reading, time, variables};

/// A figure: panels side by side.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figure {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) panels: Vec<Panel>,
    /// One plot, in a layout for pages and one for phones.
    pub(crate) single: bool,
    /// The vertical axis may be switched between linear and logarithmic; which it is.
    pub(crate) switch: Option<&'static str>,
    /// What below the panels is on the horizontal axis.
    pub(crate) below: &'static str,
    pub(crate) legend: Vec<Key>,
    pub(crate) reading: String,
    pub(crate) note: String,
}

/// An entry of a legend.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Key {
    /// Class of the mark.
    pub(crate) class: &'static str,
    pub(crate) text: &'static str,
}

const fn key(class: &'static str, text: &'static str) -> Key {
    Key { class, text }
}

/// Each own flow of a contestant with several.
const OWN_FLOWS: [Key; time::MOST_FLOWS] =
    [key("f1", "its first flow"), key("f2", "its second"), key("f3", "its third"), key("f4", "its fourth")];

const TIME: &str = "time, s";

/// All that the data allow.
pub(crate) fn figures(data: &Data<'_>) -> Vec<Figure> {
    let mut figures = vec![trade_off(data)];
    if data.has_series() {
        figures.push(throughput(data));
        figures.extend(used(data));
        figures.push(queueing(data));
    }
    figures.extend(delays(data));
    figures.extend(completions(data));
    figures.extend((!data.is_remote()).then(|| split(data)));
    figures.extend(each_hop(data));
    figures
}

fn trade_off(data: &Data<'_>) -> Figure {
    let marks = if data.contestants.iter().any(|c| c.summary.runs > 1) {
        "Cross: median over the runs; ellipse: from the 25th to the 75th percentile of the runs."
    } else {
        "Cross: the one run."
    };
    let what = match overview::Upwards::of(data) {
        overview::Upwards::Used => " Runs have different capacities, so the share that was used is shown.",
        overview::Upwards::Own => " Throughput of the contestant's own flows, which others run beside.",
        overview::Upwards::Throughput => "",
    };
    let note = format!(
        "{marks} The delay axis is inverted, so better is up and to the right.{what} {}",
        overview::starts(data)
    );
    Figure {
        id: "trade-off",
        title: "Throughput against delay",
        panels: overview::trade_off_figure(data),
        single: true,
        reading: reading::trade_off(data),
        note: note.trim_end().to_owned(),
        ..Figure::default()
    }
}

/// Which run is shown, for notes.
fn which(data: &Data<'_>) -> &'static str {
    if data.runs_shown().len() > 1 { "One run of each contestant." } else { "First run of each contestant." }
}

fn throughput(data: &Data<'_>) -> Figure {
    let shown = || data.contestants.iter().flat_map(|c| c.shown.iter().map(move |shown| (c, shown)));
    let mut legend = vec![key("own", "its own flows, together")];
    let each = shown().map(|(c, s)| c.own_flows(s).count()).filter(|own| (2..=time::MOST_FLOWS).contains(own)).max();
    legend.extend(OWN_FLOWS.iter().take(each.unwrap_or(0)));
    if data.has_rivals() {
        legend.push(key("rival", "flows beside it, together"));
    }
    if data.has_cross_traffic() {
        legend.push(key("hatched", "cross traffic, on average"));
    }
    if shown().any(|(_, s)| s.series.capacity_mbps.iter().any(|mbps| *mbps > 0.0)) {
        legend.push(key("limit", "what the path could carry"));
    }
    let step = shown().next().map_or(0.0, |(_, s)| s.series.step.as_secs_f64());
    Figure {
        id: "throughput",
        title: "Throughput over time",
        panels: time::throughput(data),
        below: TIME,
        legend,
        reading: reading::throughput(data),
        note: format!("{} Mbit/s in steps of {} s. All panels have the same axes.", which(data), short(step)),
        ..Figure::default()
    }
}

fn used(data: &Data<'_>) -> Option<Figure> {
    let (panels, low) = time::used(data);
    let seconds = data.contestants.iter().flat_map(|c| &c.shown).map(super::steps::Shown::seconds).fold(0.0, f64::max);
    (!panels.is_empty()).then(|| Figure {
        id: "used",
        title: "Which share of the capacity was used",
        panels,
        below: TIME,
        note: format!(
            "{} Percent, by all flows and cross traffic together, over {} s around each moment: what is missing to 100 was left \
             unused.{}",
            which(data),
            short(time::window_s(seconds)),
            if low > 0.0 { format!(" The axis starts at {} %.", short(low)) } else { String::new() }
        ),
        ..Figure::default()
    })
}

fn queueing(data: &Data<'_>) -> Figure {
    let (panels, log) = time::queueing(data);
    Figure {
        id: "queueing",
        title: "Queueing delay over time",
        panels,
        switch: Some(if log { "log" } else { "lin" }),
        below: TIME,
        reading: reading::queueing(data),
        note: format!(
            "{} Milliseconds{}: mean over the packets that arrived in each step. Gaps: nothing arrived. All panels have the same \
             axes.",
            which(data),
            if log { ", on a logarithmic axis" } else { "" }
        ),
        ..Figure::default()
    }
}

fn delays(data: &Data<'_>) -> Option<Figure> {
    let values: overview::Values = |c| &c.delay_quantiles_ms;
    let titles = ["one-way delay, ms (logarithmic)", "share of packets below, %"];
    data.contestants.iter().any(|c| values(c).len() > 1).then(|| Figure {
        id: "delay-distribution",
        title: "Distribution of one-way delay",
        panels: overview::distribution(data, values, titles, "delay_ms"),
        single: true,
        reading: reading::delay_cdf(data),
        note: format!(
            "Share of packets that arrived within the delay{}.",
            mean_of_runs(data, "delay", "packets arrived")
        ),
        ..Figure::default()
    })
}

fn completions(data: &Data<'_>) -> Option<Figure> {
    let values: overview::Values = |c| &c.completion_quantiles_ms;
    let titles = ["completion time, ms (logarithmic)", "share of flows below, %"];
    data.contestants.iter().any(|c| values(c).len() > 1).then(|| Figure {
        id: "completions",
        title: "Distribution of completion times",
        panels: overview::distribution(data, values, titles, "completion_ms"),
        single: true,
        reading: reading::completions(data),
        note: format!(
            "Share of the flows with an end that had delivered all their bytes within the time{}.",
            mean_of_runs(data, "time", "flows ended")
        ),
        ..Figure::default()
    })
}

fn each_hop(data: &Data<'_>) -> Option<Figure> {
    let panels = hops::panels(data);
    (!panels.is_empty()).then(|| Figure {
        id: "hops",
        title: "What happened at each hop",
        panels,
        legend: vec![
            key("queue", "waiting"),
            key("dropped", "dropped by the queue"),
            key("lost", "lost behind it (medium)"),
        ],
        reading: hops::reading(data),
        note: "Medians over the runs, of all packets that came to the hop, other flows' and acknowledgements included. Hops where \
               next to nothing waited or was lost are in the table alone; each panel has its own axis."
            .to_owned(),
        ..Figure::default()
    })
}

fn mean_of_runs(data: &Data<'_>, what: &str, many: &str) -> String {
    if data.contestants.iter().all(|c| c.summary.runs < 2) {
        return String::new();
    }
    format!(
        ": for each share, the mean over the runs of the {what} that each had. Every run weighs the same, however many {many} in it"
    )
}

fn split(data: &Data<'_>) -> Figure {
    let mut note = "Mean over packets, acknowledgements included.".to_owned();
    if let Some(ms) = bars::same_upwards(data) {
        note.push_str(&format!(" Upwards it is {} ms for all contestants.", short(ms)));
    }
    Figure {
        id: "delay-parts",
        title: "Where the delay came from",
        panels: bars::delay_split(data),
        single: true,
        legend: vec![key("propagation", "propagation"), key("queue", "queue"), key("transmission", "transmission")],
        reading: reading::delay_split(data),
        note,
        ..Figure::default()
    }
}

/// The variables of one contestant.
#[derive(Debug, Serialize)]
pub(crate) struct Variables {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) panels: Vec<Panel>,
    /// Where it has several flows.
    pub(crate) legend: Vec<Key>,
    pub(crate) reading: String,
}

/// Of each contestant with points over time.
pub(crate) fn variables(data: &Data<'_>) -> Vec<Variables> {
    let of = |c: &Contestant<'_>| Variables {
        name: c.name().to_owned(),
        class: c.class(),
        panels: c.shown.iter().flat_map(|shown| variables::variables(c, shown)).collect(),
        legend: variables_legend(c),
        reading: reading::variables(c),
    };
    data.contestants.iter().map(of).filter(|v| !v.panels.is_empty()).collect()
}

fn variables_legend(c: &Contestant<'_>) -> Vec<Key> {
    let flows = || c.shown.first().into_iter().flat_map(variables::flows);
    let own = flows().filter(|flow| c.owns(flow)).count();
    let beside = flows().count() > own;
    if !beside && own < 2 {
        return Vec::new();
    }
    OWN_FLOWS.into_iter().take(own).chain(beside.then_some(key("rival", "a flow beside it"))).collect()
}
