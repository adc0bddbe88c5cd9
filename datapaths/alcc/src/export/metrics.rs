//! Numbers for Prometheus: per process and controller, so that their count does not grow with that of clients.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{Answers, Line, Process};
use crate::figures::{self, FIGURES, Figure, Kind, Value};

/// As OpenMetrics 1.0 has it.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Quantiles that are given of what each socket has.
const QUANTILES: [f64; 3] = [0.5, 0.95, 1.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Program {
    program: String,
    pid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Flows {
    program: String,
    pid: u32,
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limited {
    program: String,
    pid: u32,
    controller: String,
    mode: String,
    limited_by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Quantile {
    program: String,
    pid: u32,
    controller: String,
    quantile: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct User {
    uid: u32,
}

type Amounts<Labels> = Family<Labels, Gauge<f64, AtomicU64>>;

/// What is offered of one figure.
enum Series {
    /// The sum over all sockets of a process, those that are closed included.
    Total(Family<Program, Counter>),
    /// The sum over the sockets that are open.
    Count(Family<Flows, Gauge>),
    Rate(Amounts<Flows>),
    /// Quantiles of the sockets that are open, in seconds.
    Spread(Amounts<Quantile>),
}

impl Series {
    fn of(figure: &Figure) -> Self {
        match (figure.kind, figure.unit) {
            (Kind::Counter, _) => Self::Total(Family::default()),
            (_, figures::Unit::Milliseconds) => Self::Spread(Family::default()),
            (_, figures::Unit::MegabitsPerSecond) => Self::Rate(Family::default()),
            _ => Self::Count(Family::default()),
        }
    }

    /// Takes the sockets of a process that are alike.
    fn take(&self, figure: &Figure, flows: &Flows, lines: &[&Line]) {
        let values = lines.iter().map(|line| figure.of(line));
        match self {
            Self::Total(family) => {
                let program = Program { program: flows.program.clone(), pid: flows.pid };
                family.get_or_create(&program).inc_by(sum(values));
            }
            Self::Count(family) => {
                family.get_or_create(flows).set(sum(values).cast_signed());
            }
            Self::Rate(family) => {
                let rate = values.filter_map(|value| value.amount()).map(per_second).sum();
                family.get_or_create(flows).set(rate);
            }
            Self::Spread(family) => spread(family, flows, values.filter_map(|value| value.amount()).collect()),
        }
    }

    fn register(self, registry: &mut Registry, figure: &Figure, name: &str) {
        let what = figure.what.trim_end_matches('.');
        match self {
            Self::Total(family) if figure.unit == figures::Unit::Bytes => {
                registry.register_with_unit(name, format!("{what}, on all sockets so far"), Unit::Bytes, family);
            }
            Self::Total(family) => registry.register(name, format!("{what}, on all sockets so far"), family),
            Self::Count(family) => registry.register_with_unit(name, what, Unit::Bytes, family),
            Self::Rate(family) => registry.register(name, format!("{what}, of all sockets together"), family),
            Self::Spread(family) => registry.register_with_unit(name, what, Unit::Seconds, family),
        }
    }
}

fn sum(values: impl Iterator<Item = Value>) -> u64 {
    values.filter_map(|value| value.count()).fold(0, u64::saturating_add)
}

/// Bytes, of Mbit/s.
fn per_second(rate_mbps: f64) -> f64 {
    rate_mbps * 1e6 / 8.0
}

fn spread(family: &Amounts<Quantile>, flows: &Flows, mut millis: Vec<f64>) {
    millis.sort_by(f64::total_cmp);
    for quantile in QUANTILES.iter().filter(|_| !millis.is_empty()) {
        let rank = (quantile * millis.len() as f64).ceil() as usize;
        let Flows { program, pid, controller } = flows.clone();
        let labels = Quantile { program, pid, controller, quantile: quantile.to_string() };
        family.get_or_create(&labels).set(millis[rank.clamp(1, millis.len()) - 1] / 1e3);
    }
}

/// What the sockets that are closed have added to a figure.
fn of_closed(process: &Process, figure: &Figure) -> u64 {
    match figure.name {
        "delivered_bytes" => process.closed_delivered_bytes,
        "retransmits" => process.closed_retransmits,
        _ => 0,
    }
}

/// What is known of processes and their sockets, as OpenMetrics 1.0 has it.
pub fn encode(answers: &Answers) -> String {
    let silent = Family::<User, Gauge>::default();
    for (&uid, &count) in &answers.silent {
        silent.get_or_create(&User { uid }).set(count.cast_signed());
    }
    let sockets = Family::<Limited, Gauge>::default();
    let closed = Family::<Program, Counter>::default();
    let offered = FIGURES.iter().filter_map(|figure| Some((figure, figure.metric?, Series::of(figure))));
    let offered: Vec<(&Figure, &str, Series)> = offered.collect();
    let queueing = Amounts::<Quantile>::default();
    for process in &answers.processes {
        let program = Program { program: process.program.clone(), pid: process.pid };
        closed.get_or_create(&program).inc_by(process.closed);
        for (figure, _, series) in &offered {
            if let Series::Total(family) = series {
                family.get_or_create(&program).inc_by(of_closed(process, figure));
            }
        }
        let mut lines: Vec<&Line> = process.sockets.iter().collect();
        lines.sort_by(|a, b| a.controller.cmp(&b.controller));
        for alike in lines.chunk_by(|a, b| a.controller == b.controller) {
            let (program, pid, controller) = (&process.program, process.pid, &alike[0].controller);
            let flows = Flows { program: program.clone(), pid, controller: controller.clone() };
            for line in alike {
                let (mode, limited_by) = (line.mode.clone(), line.limited_by.clone());
                let Flows { program, pid, controller } = flows.clone();
                sockets.get_or_create(&Limited { program, pid, controller, mode, limited_by }).inc();
            }
            for (figure, _, series) in &offered {
                series.take(figure, &flows, alike);
            }
            let queue = |line: &&Line| Some((line.rtt_ms? - line.min_rtt_ms?).max(0.0));
            spread(&queueing, &flows, alike.iter().filter_map(queue).collect());
        }
    }
    let mut registry = Registry::with_prefix("paceline");
    registry.register("sockets", "Sockets above TCP", sockets);
    registry.register("silent_programs", "Programs that did not answer, and are in none of these numbers", silent);
    registry.register("closed_sockets", "Sockets above TCP that are closed", closed);
    for (figure, name, series) in offered {
        series.register(&mut registry, figure, name);
    }
    registry.register_with_unit("queueing_delay", "Round-trip times less the smallest", Unit::Seconds, queueing);
    let mut encoded = String::new();
    // A string takes everything.
    let _ = text::encode(&mut encoded, &registry);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_that_is_offered_is_there_under_its_name() {
        let socket = |bytes| Line { rtt_ms: Some(20.0), queue_bytes: bytes, retransmits: 1, ..Line::default() };
        let process = Process { closed_retransmits: 2, sockets: vec![socket(5), socket(6)], ..Process::default() };
        let text = encode(&Answers { processes: vec![process], ..Answers::default() });
        for series in FIGURES.iter().filter_map(Figure::series) {
            assert!(text.lines().any(|line| line.starts_with(&format!("{series}{{"))), "{series} in {text}");
        }
        for row in ["paceline_queue_bytes{", "paceline_retransmits_total{"].into_iter().zip([" 11", " 4"]) {
            assert!(text.lines().any(|line| line.starts_with(row.0) && line.ends_with(row.1)), "{row:?} in {text}");
        }
    }

    #[test]
    fn what_closed_sockets_have_counted_stays_counted() {
        let process = Process { closed_delivered_bytes: 1, closed_retransmits: 1, ..Process::default() };
        let counters = FIGURES.iter().filter(|figure| figure.kind == Kind::Counter && figure.metric.is_some());
        assert!(counters.into_iter().all(|figure| of_closed(&process, figure) == 1), "a counter must not fall");
    }
}
