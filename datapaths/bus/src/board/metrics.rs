//! Numbers for Prometheus: by sink and path, and by hop, so that their count does not grow with that of flows.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use paceline_scrape::{Numbers, ScrapeFormat, expose};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{Board, BoardFlow};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Way {
    sink: String,
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lost {
    #[prometheus(flatten)]
    way: Way,
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Hop {
    node: u32,
    egress: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    role: &'static str,
    host: String,
}

type Amounts<Labels> = Family<Labels, Gauge<f64, AtomicU64>>;

/// What the board shows when it is asked; it is held while numbers are made of it, and for no client.
pub fn numbers(board: &Arc<Mutex<Board>>) -> Numbers {
    let board = board.clone();
    Box::new(move |format| {
        let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
        board.forget(Instant::now());
        encode(&board, Instant::now(), format)
    })
}

/// A unit that names end in.
fn counted(what: &str) -> Unit {
    Unit::Other(what.to_owned())
}

/// What is known, in a format for Prometheus.
pub fn encode(board: &Board, now: Instant, format: ScrapeFormat) -> String {
    let mut whole = paceline_scrape::registry([env!("CARGO_PKG_VERSION")]);
    let registry = whole.sub_registry_with_prefix("int");
    packets(registry, board);
    flows(registry, board);
    hops(registry, board);
    ends(registry, board, now);
    expose(&whole, format)
}

fn packets(registry: &mut Registry, board: &Board) {
    let expected = Family::<Way, Counter>::default();
    let received = Family::<Way, Counter>::default();
    let reports = Family::<Way, Counter>::default();
    let lost = Family::<Lost, Counter>::default();
    for ((sink, path), (packets, _)) in &board.totals {
        let way = Way { sink: sink.clone(), path: path.clone() };
        expected.get_or_create(&way).inc_by(packets.expected);
        received.get_or_create(&way).inc_by(packets.received);
        reports.get_or_create(&way).inc_by(packets.reports);
        let causes = [
            ("congestion", packets.lost_congestion),
            ("medium", packets.lost_medium),
            ("unknown", packets.lost_unknown),
        ];
        for (cause, count) in causes {
            lost.get_or_create(&Lost { way: way.clone(), cause }).inc_by(count);
        }
    }
    registry.register_with_unit("expected", "Wire packets that were due", counted("packets"), expected);
    registry.register_with_unit("received", "Wire packets that came", counted("packets"), received);
    registry.register_with_unit("lost", "Wire packets that were lost, by cause", counted("packets"), lost);
    registry.register("reports", "Reports of flows", reports);
}

fn flows(registry: &mut Registry, board: &Board) {
    let mut ways: BTreeMap<(String, String), Vec<&BoardFlow>> = BTreeMap::new();
    for flow in board.flows.values() {
        ways.entry((flow.publisher.clone(), flow.path.clone())).or_default().push(flow);
    }
    let count = Family::<Way, Gauge>::default();
    let window = Amounts::<Way>::default();
    let latency = Amounts::<Way>::default();
    let jitter = Amounts::<Way>::default();
    for ((sink, path), flows) in ways {
        let way = Way { sink, path };
        count.get_or_create(&way).set(flows.len() as i64);
        window.get_or_create(&way).set(flows.iter().filter_map(|flow| flow.report.cwnd_echo).map(f64::from).sum());
        let largest = |of: &dyn Fn(&BoardFlow) -> Option<u64>| flows.iter().filter_map(|flow| of(flow)).max();
        if let Some(micros) = largest(&|flow| Some(flow.report.lat_us?.p95)) {
            latency.get_or_create(&way).set(micros as f64 * 1e-6);
        }
        if let Some(micros) = largest(&|flow| Some(flow.report.jit_us)) {
            jitter.get_or_create(&way).set(micros as f64 * 1e-6);
        }
    }
    registry.register("flows", "Flows of the last ten seconds", count);
    registry.register_with_unit("window", "Congestion windows of all flows together", counted("packets"), window);
    let help = "One-way delay, 95th percentile, of the flow where it is largest";
    registry.register_with_unit("latency", help, Unit::Seconds, latency);
    registry.register_with_unit("jitter", "Jitter of the flow where it is largest (RFC 3550)", Unit::Seconds, jitter);
}

fn hops(registry: &mut Registry, board: &Board) {
    let drops = Family::<Hop, Counter>::default();
    let losses = Family::<Hop, Counter>::default();
    let gauges: [(&str, &str, &str, Amounts<Hop>); 8] = [
        ("hop_room", "packets", "Packets for which a hop's queue has room", Family::default()),
        ("hop_limit", "packets", "Packets that a hop's queue holds", Family::default()),
        ("hop_queue", "bytes", "Bytes that wait at a hop", Family::default()),
        ("hop_arrival", "packets_per_second", "Packets a second that come to a hop's queue", Family::default()),
        ("hop", "flows", "Flows that a hop has seen in the last second", Family::default()),
        ("hop_rate", "bytes_per_second", "Data rate of a hop's link", Family::default()),
        ("hop_signal", "dbm", "Signal of a hop's radio", Family::default()),
        ("hop_modulation", "index", "Index of the modulation of a hop's radio", Family::default()),
    ];
    for (&(node, egress), queue) in &board.queues {
        let hop = Hop { node, egress };
        let newest = &queue.newest;
        let values = [
            newest.avail_pkts.map(f64::from),
            newest.limit_pkts.map(f64::from),
            newest.qbytes.map(f64::from),
            newest.rate_pps.map(f64::from),
            newest.flows.map(f64::from),
            newest.rate_100k.map(|rate| f64::from(rate) * 1e5 / 8.0),
            newest.rssi.map(f64::from),
            newest.mcs.map(|mcs| f64::from(mcs & 0x1f)),
        ];
        for ((_, _, _, family), value) in gauges.iter().zip(values) {
            if let Some(value) = value {
                family.get_or_create(&hop).set(value);
            }
        }
        drops.get_or_create(&hop).inc_by(queue.drops);
        losses.get_or_create(&hop).inc_by(queue.link_losses);
    }
    for (name, unit, help, family) in gauges {
        registry.register_with_unit(name, help, counted(unit), family);
    }
    registry.register("hop_drops", "Packets dropped by a hop's queue since its first report", drops);
    registry.register("hop_link_losses", "Frames lost by a hop's link since its first report", losses);
}

fn ends(registry: &mut Registry, board: &Board, now: Instant) {
    let up = Amounts::<End>::default();
    let silent = Amounts::<End>::default();
    let published = Family::<End, Counter>::default();
    let dropped = Family::<End, Counter>::default();
    let refused = Family::<End, Counter>::default();
    for ((role, host), end) in &board.ends {
        let key = End { role: role.into(), host: host.clone() };
        up.get_or_create(&key).set(end.health.up_s as f64);
        silent.get_or_create(&key).set(now.saturating_duration_since(end.heard).as_secs_f64());
        published.get_or_create(&key).inc_by(end.health.published);
        dropped.get_or_create(&key).inc_by(end.health.dropped);
        refused.get_or_create(&key).inc_by(end.health.refused);
    }
    registry.register_with_unit("end_up", "Time since an end of the bus began", Unit::Seconds, up);
    registry.register_with_unit("end_silent", "Time since its last sign of life", Unit::Seconds, silent);
    registry.register("end_published", "Messages that it published", published);
    registry.register("end_dropped", "Messages that it could not pass on", dropped);
    registry.register("end_refused", "Messages that it refused", refused);
}
