//! The flows of a sink: each has a [`paceline_telemetry::FlowSink`], and there are only this many.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use paceline_bus::flow_number;
use paceline_cc::{Nanos, Time};
use paceline_telemetry::sink::{JudgedGap, SinkConfig};
use paceline_telemetry::{FlowReport, FlowSink, NodeReport, TelemetryHeader, Trail, Tuple};

/// Judged gaps that are kept to be asked for (our choice: a second of many losses).
const JUDGED_MAX: usize = 4096;
/// How long a flow is kept of which nothing comes (our choice: as long as a source keeps one that sends nothing).
const IDLE: Nanos = Nanos::from_secs(60);
/// Nodes whose reports are kept (our choice: more than any header has room for).
const NODES_MAX: usize = 256;

struct Flow {
    sink: FlowSink,
    /// When a packet came last.
    seen: Time,
    /// As in the table's list.
    due: Time,
}

/// The flows.
pub(crate) struct Table {
    flows: HashMap<Tuple, Flow>,
    due: BTreeSet<(Time, Tuple)>,
    trail: Trail,
    nodes: BTreeMap<u32, NodeReport>,
    most: usize,
    synced: bool,
    /// When those that are silent were last looked for.
    swept: Time,
    /// Flows that made place for others.
    pub(crate) forgotten: u64,
    /// What was judged since someone asked.
    pub(crate) judged: Vec<(Tuple, JudgedGap)>,
}

impl Table {
    pub(crate) fn new(most: usize, synced: bool) -> Self {
        let (flows, due, nodes) = (HashMap::new(), BTreeSet::new(), BTreeMap::new());
        let (trail, judged) = (Trail::default(), Vec::new());
        Self { flows, due, trail, nodes, most: most.max(1), synced, swept: Time::ZERO, forgotten: 0, judged }
    }

    /// A header of a flow came with this hop limit and this many packets, and `bare` without a header since the last one, if the source numbers
    /// them too.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        tuple: Tuple,
        (header, hop_limit): (&TelemetryHeader, u8),
        packets: u16,
        bare: u32,
    ) {
        let Some(edge) = &header.edge else { return };
        if self.flows.len() >= self.most && !self.flows.contains_key(&tuple) {
            self.make_place();
        }
        let synced = self.synced;
        let nodes = &self.nodes;
        let flow = self.flows.entry(tuple).or_insert_with(|| {
            let mut sink = FlowSink::new(SinkConfig { flow: flow_number(&tuple), tuple, synced }, now);
            nodes.values().for_each(|node| sink.node(node));
            Flow { sink, seen: now, due: Time::NEVER }
        });
        flow.seen = now;
        flow.sink.comes_with(hop_limit);
        if edge.sampled {
            flow.sink.passed(bare);
        }
        flow.sink.header(now, header, packets.min(255) as u8, &mut self.trail);
        let due = flow.sink.next_timeout();
        Self::list(&mut self.due, flow, tuple, due);
    }

    fn list(list: &mut BTreeSet<(Time, Tuple)>, flow: &mut Flow, tuple: Tuple, due: Time) {
        if due == flow.due {
            return;
        }
        list.remove(&(flow.due, tuple));
        flow.due = due;
        if due != Time::NEVER {
            list.insert((due, tuple));
        }
    }

    /// When the next report is due; [`Time::NEVER`]: not before a packet comes.
    pub(crate) fn next_timeout(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(due, _)| *due)
    }

    /// The reports that are due at `now`.
    pub(crate) fn poll(&mut self, now: Time, into: &mut Vec<FlowReport>) {
        while let Some((due, tuple)) = self.due.first().copied()
            && due <= now
        {
            let Some(flow) = self.flows.get_mut(&tuple) else {
                self.due.remove(&(due, tuple));
                continue;
            };
            if let Some(report) = flow.sink.poll(now) {
                let room = JUDGED_MAX.saturating_sub(self.judged.len());
                self.judged.extend(flow.sink.judged().iter().take(room).map(|judged| (tuple, *judged)));
                into.push(report);
            }
            // Later than now, or this would not end.
            let due = flow.sink.next_timeout().max(now + Nanos::from_nanos(1));
            Self::list(&mut self.due, flow, tuple, due);
        }
        if now - self.swept >= IDLE {
            self.swept = now;
            let Self { flows, due, .. } = self;
            flows.retain(|tuple, flow| {
                let stays = now - flow.seen < IDLE;
                if !stays {
                    due.remove(&(flow.due, *tuple));
                }
                stays
            });
        }
    }

    /// A node reported.
    pub(crate) fn node(&mut self, report: &NodeReport) {
        if self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(&report.node) {
            return;
        }
        self.nodes.insert(report.node, report.clone());
        self.flows.values_mut().for_each(|flow| flow.sink.node(report));
    }

    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Forgets the eighth that was silent longest, at least one: so each new flow costs little on average.
    fn make_place(&mut self) {
        let mut seen: Vec<(Time, Tuple)> = self.flows.iter().map(|(tuple, flow)| (flow.seen, *tuple)).collect();
        let count = (seen.len() / 8).max(1);
        seen.select_nth_unstable(count - 1);
        for (_, tuple) in &seen[..count] {
            if let Some(flow) = self.flows.remove(tuple) {
                self.due.remove(&(flow.due, *tuple));
                self.forgotten += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_telemetry::{Edge, RecordProfile};

    use super::*;

    fn tuple(port: u16) -> Tuple {
        Tuple { sport: port, ..Tuple::default() }
    }

    fn header(seq: u32) -> TelemetryHeader {
        TelemetryHeader::new(RecordProfile::Lean, 2, Edge { segs: 1, seq, ..Edge::default() })
    }

    #[test]
    fn flows_that_were_silent_longest_make_place() {
        let mut table = Table::new(16, true);
        for port in 0..100 {
            table.arrive(Time::from_nanos(u64::from(port) * 1000), tuple(port), (&header(0), 62), 1, 0);
            assert!(table.len() <= 16);
        }
        assert_eq!(table.forgotten, 100 - table.len() as u64);
        assert!(table.flows.contains_key(&tuple(99)) && table.flows.contains_key(&tuple(90)));
        assert!(!table.flows.contains_key(&tuple(80)));
        assert_eq!(table.due.len(), table.len());
    }

    #[test]
    fn flows_that_are_silent_for_a_minute_are_forgotten() {
        let mut table = Table::new(16, true);
        let mut reports = Vec::new();
        let at = |seconds| Time::ZERO + Nanos::from_secs(seconds);
        table.poll(at(100), &mut reports);
        table.arrive(at(100), tuple(1), (&header(0), 62), 1, 0);
        table.arrive(at(101), tuple(2), (&header(0), 62), 1, 0);
        table.poll(at(160), &mut reports);
        assert_eq!(table.len(), 1);
        table.poll(at(220), &mut reports);
        assert_eq!((table.len(), table.due.len(), table.forgotten), (0, 0, 0));
    }

    #[test]
    fn a_flow_reports_200_times_a_second_and_ten_times_more_at_once() {
        let mut table = Table::new(16, true);
        let mut reports = Vec::new();
        for millis in 0..1000 {
            let now = Time::from_nanos(millis * 1_000_000);
            // Each leaves one out: a gap, which asks for a report at once.
            table.arrive(now, tuple(1), (&header(millis as u32 * 2), 62), 1, 0);
            table.poll(now, &mut reports);
        }
        assert!(reports.len() > 50 && reports.len() <= 211, "{}", reports.len());
        let all = |reports: &[FlowReport]| reports.iter().all(|report| report.flow == flow_number(&tuple(1)));
        assert!(all(&reports));
    }
}
