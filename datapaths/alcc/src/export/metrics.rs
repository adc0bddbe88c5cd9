//! Numbers for Prometheus: per process and controller, so that their count does not grow with that of clients.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{Answers, Line};

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

/// What is known of processes and their sockets, as OpenMetrics 1.0 has it.
pub fn encode(answers: &Answers) -> String {
    let silent = Family::<User, Gauge>::default();
    for (&uid, &count) in &answers.silent {
        silent.get_or_create(&User { uid }).set(count.cast_signed());
    }
    let sockets = Family::<Limited, Gauge>::default();
    let closed = Family::<Program, Counter>::default();
    let (delivered, retransmits) = (Family::<Program, Counter>::default(), Family::<Program, Counter>::default());
    let (queued, in_flight) = (Family::<Flows, Gauge>::default(), Family::<Flows, Gauge>::default());
    let rate = Amounts::<Flows>::default();
    let (rtt, queueing) = (Amounts::<Quantile>::default(), Amounts::<Quantile>::default());
    for process in &answers.processes {
        let program = Program { program: process.program.clone(), pid: process.pid };
        let all = |closed: u64, of: fn(&Line) -> u64| process.sockets.iter().map(of).fold(closed, u64::saturating_add);
        closed.get_or_create(&program).inc_by(process.closed);
        delivered.get_or_create(&program).inc_by(all(process.closed_delivered_bytes, |line| line.delivered_bytes));
        retransmits.get_or_create(&program).inc_by(all(process.closed_retransmits, |line| line.retransmits.into()));
        let mut lines: Vec<&Line> = process.sockets.iter().collect();
        lines.sort_by(|a, b| a.controller.cmp(&b.controller));
        for alike in lines.chunk_by(|a, b| a.controller == b.controller) {
            let (program, pid, controller) = (&process.program, process.pid, &alike[0].controller);
            let flows = Flows { program: program.clone(), pid, controller: controller.clone() };
            let sum = |of: fn(&Line) -> u64| alike.iter().map(|line| of(line)).fold(0, u64::saturating_add);
            queued.get_or_create(&flows).set(sum(|line| line.queue_bytes).cast_signed());
            in_flight.get_or_create(&flows).set(sum(|line| line.in_flight_bytes).cast_signed());
            rate.get_or_create(&flows).set(alike.iter().map(|line| line.rate_mbps * 1e6 / 8.0).sum());
            for line in alike {
                let (mode, limited_by) = (line.mode.clone(), line.limited_by.clone());
                let Flows { program, pid, controller } = flows.clone();
                sockets.get_or_create(&Limited { program, pid, controller, mode, limited_by }).inc();
            }
            for (family, of) in [
                (&rtt, (|line| line.rtt_ms) as fn(&Line) -> Option<f64>),
                (&queueing, |line| Some((line.rtt_ms? - line.min_rtt_ms?).max(0.0))),
            ] {
                let mut values: Vec<f64> = alike.iter().filter_map(|line| of(line)).collect();
                values.sort_by(f64::total_cmp);
                for quantile in QUANTILES.iter().filter(|_| !values.is_empty()) {
                    let rank = (quantile * values.len() as f64).ceil() as usize;
                    let Flows { program, pid, controller } = flows.clone();
                    let labels = Quantile { program, pid, controller, quantile: quantile.to_string() };
                    family.get_or_create(&labels).set(values[rank.clamp(1, values.len()) - 1] / 1e3);
                }
            }
        }
    }
    let mut registry = Registry::with_prefix("paceline");
    registry.register("sockets", "Sockets above TCP", sockets);
    registry.register("silent_programs", "Programs that did not answer, and are in none of these numbers", silent);
    registry.register("closed_sockets", "Sockets above TCP that are closed", closed);
    registry.register_with_unit("delivered", "Acknowledged, on all sockets so far", Unit::Bytes, delivered);
    registry.register("retransmits", "Segments sent again, on all sockets so far", retransmits);
    registry.register_with_unit("queue", "Taken from the application, not yet handed to TCP", Unit::Bytes, queued);
    registry.register_with_unit("in_flight", "Handed to TCP, not yet acknowledged", Unit::Bytes, in_flight);
    registry.register("delivery_rate_bytes_per_second", "Rate of delivery of all sockets together", rate);
    registry.register_with_unit("rtt", "Round-trip times of the sockets that are open", Unit::Seconds, rtt);
    registry.register_with_unit("queueing_delay", "Round-trip times less the smallest", Unit::Seconds, queueing);
    let mut encoded = String::new();
    // A string takes everything.
    let _ = text::encode(&mut encoded, &registry);
    encoded
}
