//! Numbers for Prometheus: per process and controller, so that their count does not grow with that of clients.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};
use serde_json::Value;

use super::{Answers, Line, Process};
use crate::figures::{self, FIGURES, Figure, Kind};
use crate::rtts::{BOUNDS, Rtts};

/// What is given of what each socket has, and the quantile that it is.
const STATISTICS: [(&str, f64); 3] = [("median", 0.5), ("p95", 0.95), ("max", 1.0)];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Program {
    program: String,
    pid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Flows {
    #[prometheus(flatten)]
    program: Program,
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limited {
    #[prometheus(flatten)]
    flows: Flows,
    mode: String,
    limited_by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Statistic {
    #[prometheus(flatten)]
    flows: Flows,
    statistic: &'static str,
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
    /// [`STATISTICS`] of the sockets that are open, in seconds.
    Spread(Amounts<Statistic>),
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
                family.get_or_create(&flows.program).inc_by(sum(values));
            }
            Self::Count(family) => {
                family.get_or_create(flows).set(sum(values).cast_signed());
            }
            Self::Rate(family) => {
                let rate = values.filter_map(|value| value.as_f64()).map(per_second).sum();
                family.get_or_create(flows).set(rate);
            }
            Self::Spread(family) => spread(family, flows, values.filter_map(|value| value.as_f64()).collect()),
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
    values.filter_map(|value| value.as_u64()).fold(0, u64::saturating_add)
}

/// Bytes, of Mbit/s.
fn per_second(rate_mbps: f64) -> f64 {
    rate_mbps * 1e6 / 8.0
}

fn spread(family: &Amounts<Statistic>, flows: &Flows, mut millis: Vec<f64>) {
    millis.sort_by(f64::total_cmp);
    for (statistic, quantile) in STATISTICS.iter().filter(|_| !millis.is_empty()) {
        let rank = (quantile * millis.len() as f64).ceil() as usize;
        let labels = Statistic { flows: flows.clone(), statistic };
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

/// What is known of processes and their sockets.
pub fn registry(answers: &Answers) -> Registry {
    let silent = Family::<User, Gauge>::default();
    for (&uid, &count) in &answers.silent {
        silent.get_or_create(&User { uid }).set(count.cast_signed());
    }
    let sockets = Family::<Limited, Gauge>::default();
    let closed = Family::<Program, Counter>::default();
    let offered = FIGURES.iter().filter_map(|figure| Some((figure, figure.metric?, Series::of(figure))));
    let offered: Vec<(&Figure, &str, Series)> = offered.collect();
    let queueing = Amounts::<Statistic>::default();
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
            let flows = Flows { program: program.clone(), controller: alike[0].controller.clone() };
            for line in alike {
                let (mode, limited_by) = (line.mode.clone(), line.limited_by.clone());
                sockets.get_or_create(&Limited { flows: flows.clone(), mode, limited_by }).inc();
            }
            for (figure, _, series) in &offered {
                series.take(figure, &flows, alike);
            }
            let queue = |line: &&Line| Some((line.rtt_ms? - line.min_rtt_ms?).max(0.0));
            spread(&queueing, &flows, alike.iter().filter_map(queue).collect());
        }
    }
    let rtts = Family::<Program, Histogram>::default();
    for process in &answers.processes {
        let program = Program { program: process.program.clone(), pid: process.pid };
        // A process answers once.
        let _ = rtts.get_or_create(&program).0.set(process.rtts);
    }
    let versions: BTreeSet<&str> = answers.processes.iter().map(|process| process.version.as_str()).collect();
    let mut registry = paceline_scrape::registry(versions);
    registry.register("sockets", "Sockets above TCP", sockets);
    registry.register("silent_programs", "Programs that did not answer, and are in none of these numbers", silent);
    registry.register("closed_sockets", "Sockets above TCP that are closed", closed);
    for (figure, name, series) in offered {
        series.register(&mut registry, figure, name);
    }
    registry.register_with_unit("queueing_delay", "Round-trip times less the smallest", Unit::Seconds, queueing);
    registry.register_with_unit("rtt", "Round-trip times of the network, on all sockets so far", Unit::Seconds, rtts);
    registry
}

/// [`Rtts`] of a process, as Prometheus counts them.
#[derive(Clone, Debug, Default)]
struct Histogram(Arc<OnceLock<Rtts>>);

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let rtts = self.0.get().copied().unwrap_or_default();
        let ends = BOUNDS.iter().map(|bound| bound.as_millis_f64() / 1e3).chain([f64::INFINITY]);
        let mut count = 0;
        // Another process said these: their sum must not overflow.
        let take = |(end, of_range): (f64, u64)| {
            let of_range = of_range.min(u64::MAX - count);
            count += of_range;
            (end, of_range)
        };
        let buckets: Vec<(f64, u64)> = ends.zip(rtts.counts).map(take).collect();
        encoder.encode_histogram::<NoLabelSet>(rtts.sum_ns as f64 / 1e9, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

#[cfg(test)]
mod tests {
    use paceline_scrape::{ScrapeFormat, expose};

    use super::*;

    #[test]
    fn each_figure_that_is_offered_is_there_under_its_name() {
        let socket = |bytes| Line { rtt_ms: Some(20.0), queue_bytes: bytes, retransmits: 1, ..Line::default() };
        let process = Process { closed_retransmits: 2, sockets: vec![socket(5), socket(6)], ..Process::default() };
        let text = expose(&registry(&Answers { processes: vec![process], ..Answers::default() }), ScrapeFormat::Text);
        for series in FIGURES.iter().filter_map(Figure::series) {
            assert!(text.lines().any(|line| line.starts_with(&format!("{series}{{"))), "{series} in {text}");
        }
        for row in ["paceline_queue_bytes{", "paceline_retransmits_total{"].into_iter().zip([" 11", " 4"]) {
            assert!(text.lines().any(|line| line.starts_with(row.0) && line.ends_with(row.1)), "{row:?} in {text}");
        }
    }

    #[test]
    fn prometheus_understands_everything_and_dashboards_name_what_there_is() {
        let socket = Line { rtt_ms: Some(20.0), min_rtt_ms: Some(10.0), ..Line::default() };
        let rtts = Rtts { counts: std::array::from_fn(|at| at as u64), sum_ns: 1_500_000_000 };
        let process = Process { rtts, version: "1.2.3".to_owned(), sockets: vec![socket], ..Process::default() };
        let silent = [(7, 1)].into();
        let text =
            expose(&registry(&Answers { processes: vec![process], silent, ..Answers::default() }), ScrapeFormat::Text);
        for line in [
            "paceline_build_info{version=\"1.2.3\"} 1",
            "paceline_rtt_seconds_bucket{le=\"0.002\",program=\"\",pid=\"0\"} 1",
            "paceline_rtt_seconds_bucket{le=\"5.0\",program=\"\",pid=\"0\"} 120",
            "paceline_rtt_seconds_bucket{le=\"+Inf\",program=\"\",pid=\"0\"} 136",
            "paceline_rtt_seconds_count{program=\"\",pid=\"0\"} 136",
            "paceline_rtt_seconds_sum{program=\"\",pid=\"0\"} 1.5",
            "paceline_socket_rtt_seconds{program=\"\",pid=\"0\",controller=\"\",statistic=\"p95\"} 0.02",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        paceline_fixture::promtool_accepts(&text);
        let ours = |name: &str| !name.starts_with("paceline_int_") && !name.starts_with("paceline_icn_");
        paceline_fixture::dashboards_name_what_is_in(&text, ours);
    }

    #[test]
    fn counts_that_a_process_made_up_overflow_nothing() {
        let rtts = Rtts { counts: [u64::MAX / 3; 17], sum_ns: u64::MAX };
        let answers = Answers { processes: vec![Process { rtts, ..Process::default() }], ..Answers::default() };
        let text = expose(&registry(&answers), ScrapeFormat::OpenMetrics);
        assert!(
            text.contains(&format!("paceline_rtt_seconds_count{{program=\"\",pid=\"0\"}} {}\n", u64::MAX)),
            "{text}"
        );
    }

    #[test]
    fn what_closed_sockets_have_counted_stays_counted() {
        let process = Process { closed_delivered_bytes: 1, closed_retransmits: 1, ..Process::default() };
        let counters = FIGURES.iter().filter(|figure| figure.kind == Kind::Counter && figure.metric.is_some());
        assert!(counters.into_iter().all(|figure| of_closed(&process, figure) == 1), "a counter must not fall");
    }
}
