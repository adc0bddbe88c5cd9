//! From what a run left behind to its record, and what it cost.

use std::collections::BTreeSet;
use std::time::Instant;

use paceline_cc::{Distribution, Nanos, Time};
use paceline_experiment::config::{self, DumbbellWay, Workload};
use paceline_experiment::program::ProgramEnd;
use paceline_experiment::{
    Fired, FlowOutcome, Graph, GraphHop, HopOutcome, NamedLosses, Outcome, ProgramOutcome, RouterOutcome, SplitSum,
    StreamOutcome, TelemetryOutcome,
};

use crate::contestant::Contestant;
use crate::record::{
    FiredRecord, FlowRecord, FramesRecord, LinkRecord, NamedRecord, Parts, ProgramEndRecord, ProgramRecord, Record,
    RouterRecord, Span, Split, TelemetryRecord, rounded,
};
use crate::scenario::Plan;
use crate::version::{VERSION, commit};

/// The record of a run; `flows` are those of its world.
pub fn record(plan: &Plan, contestant: &Contestant, flows: &[config::Flow], outcome: &Outcome) -> Record {
    let scenario = &plan.scenario;
    let seconds = scenario.seconds;
    let sum = |count: &dyn Fn(&FlowOutcome) -> u64| outcome.flows.iter().map(count).sum::<u64>();
    let seen = |count: fn(&FlowOutcome) -> Option<u64>| outcome.flows.iter().map(count).sum::<Option<u64>>();
    let entered = sum(&|flow| flow.packets_entered);
    let wire = sum(&|flow| flow.wire_bytes_arrived);
    let ending = flows.iter().any(ends);
    let endless = flows.iter().zip(&outcome.flows).filter(|(flow, _)| !ends(flow));
    let shares: Vec<f64> = endless.map(|(_, flow)| throughput(flow.wire_bytes_arrived, flow)).collect();
    let own = plan.own();
    let streams: Vec<&StreamOutcome> =
        outcome.flows.iter().zip(&own).filter(|(_, own)| **own).flat_map(|(flow, _)| &flow.frames).collect();
    Record {
        scenario: scenario.name.clone(),
        trace: scenario.trace().map(file_name),
        controller: contestant.controller.to_string(),
        via: contestant.via_text(),
        seed: scenario.seed,
        run: plan.number,
        seconds,
        throughput_mbps: rounded(mbps(wire, seconds)),
        own_throughput_mbps: own.contains(&false).then(|| {
            let mine = outcome.flows.iter().zip(&own).filter(|(_, own)| **own);
            rounded(mbps(mine.map(|(flow, _)| flow.wire_bytes_arrived).sum(), seconds))
        }),
        goodput_mbps: seen(FlowOutcome::goodput_bytes).map(|bytes| rounded(mbps(bytes, seconds))),
        utilization: utilization(flows, outcome),
        delay_ms: span(&outcome.delay),
        queue_ms: span(&outcome.queue),
        rtt_ms: span(&outcome.rtt),
        loss: share(sum(&|flow| flow.packets_dropped), entered),
        retransmits: seen(FlowOutcome::retransmits),
        timeouts: seen(FlowOutcome::timeouts),
        policed: policed(&outcome.hops),
        ecn_marks: sum(&|flow| flow.ce_packets),
        fct_ms: completions(flows, outcome).as_ref().and_then(span),
        completions: ending.then(|| sum(&|flow| flow.fct.count())),
        frame_ms: frame_ms(&streams),
        frames_late: streams.iter().filter_map(|stream| stream.late).reduce(|sum, more| sum + more),
        frames_lost: (!streams.is_empty()).then(|| streams.iter().map(|stream| stream.given_up + stream.lost).sum()),
        jain: (shares.len() > 1 && shares.iter().any(|share| *share > 0.0)).then(|| rounded(jain(&shares))),
        telemetry: telemetry(&outcome.flows),
        split: split(&outcome.graph, flows.iter().zip(&outcome.flows)),
        drawn: plan.drawn.clone(),
        flows: flows
            .iter()
            .zip(&outcome.flows)
            .map(|(flow, of)| FlowRecord { share: share_of(flows, flow, of), ..flow_record(&outcome.graph, flow, of) })
            .collect(),
        links: links(outcome, seconds),
        routers: outcome.routers.iter().map(|router| router_record(&outcome.graph, router)).collect(),
        fired: outcome.fired.iter().map(fired).collect(),
        version: VERSION.to_owned(),
        commit: commit().map(str::to_owned),
        ..Record::default()
    }
}

fn fired(fired: &Fired) -> FiredRecord {
    let at_s = (fired.at - Time::ZERO).as_secs_f64();
    FiredRecord { when: fired.when, at_s, value: rounded(fired.value) }
}

fn flow_record(graph: &Graph, flow: &config::Flow, outcome: &FlowOutcome) -> FlowRecord {
    let direction = graph.direction(flow.way);
    let node = |node: u32| direction.is_none().then(|| graph.nodes()[node as usize].clone());
    let who = Contestant { controller: flow.controller.clone(), via: flow.via.clone() };
    FlowRecord {
        controller: who.controller.to_string(),
        via: who.via_text(),
        driven_by: None,
        direction,
        from: node(flow.way.from),
        to: node(flow.way.to),
        start_s: rounded(outcome.start.as_secs_f64()),
        end_s: rounded(outcome.end.as_secs_f64()),
        throughput_mbps: rounded(throughput(outcome.wire_bytes_arrived, outcome)),
        goodput_mbps: outcome.goodput_bytes().map(|bytes| rounded(throughput(bytes, outcome))),
        delay_ms: span(&outcome.delay),
        queue_ms: span(&outcome.queue),
        rtt_ms: span(&outcome.rtt),
        loss: share(outcome.packets_dropped, outcome.packets_entered),
        packets: outcome.packets_entered,
        retransmits: outcome.retransmits(),
        timeouts: outcome.timeouts(),
        ecn_marks: outcome.ce_packets,
        fct_ms: if ends(flow) { span(&outcome.fct) } else { None },
        completions: ends(flow).then(|| outcome.fct.count()),
        share: None,
        limited_below: flow.via.lower().map(|_| rounded(outcome.sender.limited_share())),
        telemetry: telemetry(std::slice::from_ref(outcome)),
        program: outcome.program.as_ref().map(program),
        split: split(graph, [(flow, outcome)].into_iter()),
        frames: outcome.frames.iter().map(frames_record).collect(),
    }
}

/// What a flow that ends got of the link while others were there.
fn share_of(flows: &[config::Flow], flow: &config::Flow, outcome: &FlowOutcome) -> Option<f64> {
    let capacity = outcome.capacity_bytes.filter(|_| flows.len() > 1 && matches!(flow.workload, Workload::Bytes(_)))?;
    Some(share(outcome.wire_bytes_arrived, capacity))
}

fn frames_record(stream: &StreamOutcome) -> FramesRecord {
    FramesRecord {
        stream: stream.name.clone(),
        made: stream.made,
        complete: stream.complete,
        late: stream.late,
        given_up: stream.given_up,
        lost: stream.lost,
        frame_ms: span(&stream.delay),
    }
}

/// Over all of these streams; `None` without a complete frame.
fn frame_ms(streams: &[&StreamOutcome]) -> Option<Span> {
    let mut all = Distribution::new(3);
    streams.iter().for_each(|stream| all.add(&stream.delay));
    span(&all)
}

fn program(outcome: &ProgramOutcome) -> ProgramRecord {
    let end = |end: &ProgramEnd| ProgramEndRecord {
        status: end.status,
        signal: end.signal,
        ended_s: rounded(end.ended.as_secs_f64()),
        cpu_s: rounded(end.cpu.as_secs_f64()),
    };
    ProgramRecord {
        version: outcome.version.clone(),
        protocol: outcome.seen.protocol.map(str::to_owned),
        connections: outcome.seen.connections,
        first_data_s: outcome.seen.first_data.map(|at| rounded(at.as_secs_f64())),
        sender: end(&outcome.sender),
        receiver: end(&outcome.receiver),
        figures: outcome.figures.clone(),
        qlog: outcome.qlog.iter().map(|path| path.display().to_string()).collect(),
    }
}

/// What telemetry said of the losses of those flows that carry it; `None` where none does.
fn telemetry(flows: &[FlowOutcome]) -> Option<TelemetryRecord> {
    let mut sum: Option<(TelemetryOutcome, NamedLosses)> = None;
    for (flow, carried) in flows.iter().filter_map(|flow| Some((flow, flow.telemetry.as_ref()?))) {
        let (all, sender) = sum.get_or_insert_default();
        *all += carried;
        let stats = &flow.sender;
        sender.medium += stats.lost_by_medium;
        sender.overflow += stats.lost_by_congestion;
        sender.policed += stats.lost_by_policer;
        sender.unknown += stats.lost_unexplained();
    }
    let named = |losses: NamedLosses| {
        let NamedLosses { medium, overflow, policed, unknown } = losses;
        NamedRecord { medium, overflow, policed, unknown }
    };
    sum.map(|(all, sender)| TelemetryRecord {
        reports: all.reports,
        refused: all.refused,
        medium: named(all.medium),
        overflow: named(all.overflow),
        policed: (all.policed.all() > 0).then(|| named(all.policed)),
        sender: named(sender),
    })
}

/// Packets that policers dropped; `None` where there is no policer.
fn policed(hops: &[HopOutcome]) -> Option<u64> {
    hops.iter().filter_map(|hop| hop.policed).map(|policed| policed.packets).reduce(|sum, more| sum + more)
}

/// Whether the flow has a last byte.
fn ends(flow: &config::Flow) -> bool {
    matches!(flow.workload, Workload::Bytes(_) | Workload::Poisson { .. })
}

fn mbps(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / seconds / 125_000.0
}

/// Mbit/s of a flow while it lived.
fn throughput(bytes: u64, flow: &FlowOutcome) -> f64 {
    let life = flow.end - flow.start;
    if life == Nanos::ZERO { 0.0 } else { mbps(bytes, life.as_secs_f64()) }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { rounded(part as f64 / whole as f64) }
}

/// Data delivered over what could have been carried, over the links that are the bottleneck of a flow's way: of a dumbbell over
/// the directions in which data travels. `None` when nothing limits one of the flows.
fn utilization(flows: &[config::Flow], outcome: &Outcome) -> Option<f64> {
    let bottlenecks: Option<BTreeSet<usize>> = flows.iter().map(|flow| outcome.bottleneck(flow.way)).collect();
    let bottlenecks = bottlenecks?;
    let mut delivered = 0;
    for (flow, done) in flows.iter().zip(&outcome.flows) {
        let route = outcome.graph.route(flow.way)?;
        let passed = route.iter().filter(|hop| bottlenecks.contains(&(**hop as usize))).count();
        delivered += passed as u64 * done.wire_bytes_arrived;
    }
    let capacity = bottlenecks.iter().filter_map(|hop| outcome.hops[*hop].capacity_bytes).sum();
    Some(share(delivered, capacity))
}

/// Each direction of each link; none of a dumbbell, whose record has no links.
fn links(outcome: &Outcome, seconds: f64) -> Vec<LinkRecord> {
    if outcome.graph == Graph::dumbbell() {
        return Vec::new();
    }
    let node = |node: u32| outcome.graph.nodes()[node as usize].clone();
    let record = |(hop, done): (&GraphHop, &HopOutcome)| LinkRecord {
        name: hop.name.clone(),
        from: node(hop.from),
        to: node(hop.to),
        utilization: done.capacity_bytes.map(|capacity| share(done.stats.delivered.bytes, capacity)),
        queue_packets: rounded(done.stats.queued_packet_ns as f64 / 1e9 / seconds),
        packets: done.stats.arrived.packets,
        dropped: done.stats.full.packets + done.stats.aqm.packets,
        lost: done.lost.packets,
        policed: policed(std::slice::from_ref(done)),
        ecn_marks: done.stats.marked.packets,
        frames_per_aggregate: done.air.map(|air| rounded(air.frames as f64 / air.aggregates.max(1) as f64)),
        airtime: done.air.map(|air| rounded(air.time.as_secs_f64() / seconds)),
        frames_again: done.air.map(|air| air.again),
        collisions: done.air.map(|air| air.collisions),
    };
    outcome.graph.hops().iter().zip(&outcome.hops).map(record).collect()
}

fn router_record(graph: &Graph, router: &RouterOutcome) -> RouterRecord {
    let (node, stats) = (graph.nodes()[router.node as usize].clone(), &router.stats);
    RouterRecord {
        node,
        requests: stats.requests,
        hits: stats.hits,
        misses: stats.misses,
        sent_units: stats.sent_units,
    }
}

/// Jain's index: the square of the sum over n times the sum of squares (Jain, Chiu and Hawe, DEC-TR-301, 1984). 1 when
/// none got anything: that is fair.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

fn span(distribution: &Distribution) -> Option<Span> {
    let quantile = |share| distribution.quantile_ms(share).map(rounded);
    Some(Span {
        min: rounded(distribution.min_ms()?),
        mean: rounded(distribution.mean_ms()?),
        p50: quantile(0.50)?,
        p95: quantile(0.95)?,
        p99: quantile(0.99)?,
        max: rounded(distribution.max_ms()?),
    })
}

/// Completion times over all flows that end; `None` where none has an end. Where several kinds of flows end, over those kept one by
/// one.
pub(crate) fn completions(flows: &[config::Flow], outcome: &Outcome) -> Option<Distribution> {
    let mut ending = flows.iter().zip(&outcome.flows).filter(|(flow, _)| ends(flow)).map(|(_, outcome)| outcome);
    let first = ending.next()?;
    let mut rest = ending.peekable();
    if rest.peek().is_none() {
        return Some(first.fct.clone());
    }
    let mut all = Distribution::new(3);
    for (_, time) in first.completions.iter().chain(rest.flat_map(|outcome| &outcome.completions)) {
        all.record(*time);
    }
    Some(all)
}

fn split<'a>(graph: &Graph, flows: impl Iterator<Item = (&'a config::Flow, &'a FlowOutcome)>) -> Split {
    let mut down = SplitSum::default();
    let mut up = SplitSum::default();
    for (flow, outcome) in flows {
        let (data, acks) = match graph.direction(flow.way) {
            Some(DumbbellWay::Up) => (&mut up, &mut down),
            Some(DumbbellWay::Down) | None => (&mut down, &mut up),
        };
        for (sum, part) in [(data, &outcome.data_split), (acks, &outcome.ack_split)] {
            sum.count += part.count;
            sum.propagation += part.propagation;
            sum.queue += part.queue;
            sum.transmission += part.transmission;
        }
    }
    let parts = |sum: &SplitSum| {
        let [propagation_ms, queue_ms, transmission_ms] = sum.mean_ms().map(rounded);
        (sum.count > 0).then_some(Parts { propagation_ms, queue_ms, transmission_ms })
    };
    Split { down: parts(&down), up: parts(&up) }
}

fn file_name(path: &str) -> String {
    let name = std::path::Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What a run costs, from its start on.
pub struct Meter {
    began: Instant,
    cpu: Option<Nanos>,
}

impl Meter {
    /// Starts to measure.
    pub fn start() -> Self {
        Self { began: Instant::now(), cpu: cpu_time() }
    }

    /// Writes the cost so far into the record, where the CPU time of endpoints in real time stays. What the system does not report
    /// stays out.
    pub fn stop(&self, record: &mut Record) {
        record.wall_s = Some(rounded(self.began.elapsed().as_secs_f64()));
        let used = cpu_time().zip(self.cpu).map(|(now, then)| now - then);
        record.cpu_s = record.cpu_s.or_else(|| used.map(|used| rounded(used.as_secs_f64())));
        record.peak_mb = peak_kib().map(|kib| rounded(kib as f64 * 1024.0 / 1e6));
    }
}

/// CPU time of this thread, where the system is Linux.
fn cpu_time() -> Option<Nanos> {
    #[cfg(target_os = "linux")]
    return Some(paceline_linux::thread::cpu_time());
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// Largest resident memory of this process (Linux: `VmHWM`).
fn peak_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_by_hand() {
        assert_eq!(jain(&[1.0, 1.0, 1.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0]), 0.5);
        assert_eq!(jain(&[3.0, 1.0]), 0.8);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
    }
}
