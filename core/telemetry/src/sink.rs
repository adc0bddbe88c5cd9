//! One flow at its receiving host: what came, what is missing and why, and reports of it.
//!
//! A packet that is missing when a later one comes is judged at once, as far as records and counters allow, and that verdict is
//! in the next report, which leaves at once too: the sender will miss the packet three packets later. It is counted
//! (`exp`, `lost_q`, ...) when it can be taken for lost and not late: three packets and [`GUARD`] behind, with what was learned meanwhile.

mod delay;
mod gaps;
mod sequence;
#[cfg(test)]
mod tests;

use paceline_cc::{Cause, Nanos, Time};

use crate::classify::LossSplit;
use crate::report::{FlowReport, HopReport, NodeReport, Tuple};
use crate::trail::Trail;
use crate::wire::{Edge, MAX_HOPS, NodeRecord, PathWord, TelemetryHeader};

use delay::Delays;
use gaps::{Came, Gaps};
use sequence::{Place, Sequence, WINDOW};

/// A report at least this often while packets come (our choice: half of a short round trip).
pub const INTERVAL: Nanos = Nanos::from_millis(10);
/// Packets after which a report is due before [`INTERVAL`] is over (our choice).
pub const PACKETS: u32 = 32;
/// Most reports a second (our choice: twice what [`INTERVAL`] gives), and how many may follow each other at once.
pub const MOST_REPORTS: u64 = 200;
const BURST: u64 = 10;
/// A missing packet is not merely late when it is this old, and three later ones have come (our choice, with RFC 5681's
/// three duplicates).
pub const GUARD: Nanos = Nanos::from_millis(10);
const REORDERED: u64 = 3;
/// A missing packet that too few came after, or whose queue's counter has not come since, is lost after this time (our choice: half the
/// smallest retransmission timeout of Linux).
const PATIENCE: Nanos = Nanos::from_millis(100);
/// Round trip of a flow that does not say its own (our choice: a short one with its queue).
const ROUND: Nanos = Nanos::from_millis(50);
/// Share of the missing packets that must be the medium's for that verdict (our choice).
const MOSTLY: (u32, u32) = (4, 5);
/// Time constant of a flow's or a host's own rate, which is compared with that of hops.
pub(crate) const RATE_SPAN: f64 = 0.1;

/// Which flow, and what is known of the clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SinkConfig {
    /// The flow's number: a keyed hash of the tuple.
    pub flow: u32,
    /// The flow.
    pub tuple: Tuple,
    /// Sender and receiver have one clock: delays are delays, not differences.
    pub synced: bool,
}

/// Consecutive missing packets that were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedGap {
    /// Number of the first.
    pub first: u32,
    /// Numbers in it; late packets may have come of some.
    pub numbers: u32,
    /// Why those were lost that have not come.
    pub split: LossSplit,
}

/// One flow at its receiver.
#[derive(Clone, Debug)]
pub struct FlowSink {
    config: SinkConfig,
    interval: Nanos,
    sequence: Sequence,
    gaps: Gaps,
    delays: Delays,
    /// The newest packet's, and when it was sent.
    records: Vec<NodeRecord>,
    complete: bool,
    /// The newest word of each signal, and the hop that they last told of.
    words: [Option<PathWord>; 3],
    marked: Option<HopReport>,
    sent_us: u32,
    hop_limit: Option<u8>,
    cwnd: Option<u32>,
    round: Nanos,
    /// The flow's rate in packets a second, by the sender's clock.
    own_pps: f64,
    /// Packets in the largest buffers that it has sent.
    buffer: u8,
    /// Packets without a header since the last with one, where they are counted.
    bare: Option<u64>,
    /// Newest time at which a queue was full, or a policer dropped.
    congested: Option<Time>,
    rseq: u64,
    /// When the last report left, and when the next is due.
    last: Time,
    due: Time,
    /// Reports may leave when this is at most [`BURST`] reports ahead: one report's time later with each.
    spent: Time,
    since: Window,
}

/// What has been counted since the last report.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    packets: u32,
    expected: u32,
    received: u32,
    late: u32,
    lost: LossSplit,
}

impl FlowSink {
    /// Of a flow whose first packet comes about `now`, by the sink's clock. Reports are numbered from the microseconds of that
    /// clock on, so that those of a sink that was started again are newer than those before.
    pub fn new(config: SinkConfig, now: Time) -> Self {
        Self {
            config,
            interval: INTERVAL,
            sequence: Sequence::default(),
            gaps: Gaps::default(),
            delays: Delays::new(config.synced),
            records: Vec::new(),
            complete: true,
            words: [None; 3],
            marked: None,
            sent_us: 0,
            hop_limit: None,
            cwnd: None,
            round: ROUND,
            own_pps: 0.0,
            buffer: 1,
            bare: None,
            congested: None,
            rseq: now.as_nanos() / 1000,
            last: now,
            due: Time::NEVER,
            spent: now,
            since: Window::default(),
        }
    }

    /// The same with a report at least every `interval` while packets come, in place of [`INTERVAL`].
    #[must_use]
    pub fn every(self, interval: Nanos) -> Self {
        Self { interval, ..self }
    }

    /// A packet with `header` came, or `wire_packets` of a buffer that share it. One without the edge-to-edge option says nothing. `trail`: that of
    /// all flows of this host, or of this one.
    pub fn header(&mut self, now: Time, header: &TelemetryHeader, wire_packets: u8, trail: &mut Trail) {
        if let Some(word) = header.word {
            self.words[word.signal as usize] = Some(word);
        }
        if let Some(edge) = &header.edge {
            self.take(now, edge, wire_packets, (&header.records, !header.overflow), trail);
        }
    }

    /// As [`FlowSink::header`], for a header in which each hop found room.
    pub fn arrive(&mut self, now: Time, edge: &Edge, wire_packets: u8, records: &[NodeRecord], trail: &mut Trail) {
        self.take(now, edge, wire_packets, (records, true), trail);
    }

    /// Packets of the flow come with this hop limit.
    pub fn comes_with(&mut self, hop_limit: u8) {
        self.hop_limit = Some(hop_limit);
    }

    /// This many packets of the flow came without a header, of a source that numbers them too ([`Edge::sampled`]). Say it before the next
    /// header; a sink that does not count them takes them all for come.
    pub fn passed(&mut self, packets: u32) {
        *self.bare.get_or_insert(0) += u64::from(packets);
    }

    /// Numbers from `next` to before `first` are of packets that have no header, or are missing. Which have come is not known, so the
    /// first are taken for it. Answers the first that is missing.
    fn without_header(&mut self, next: u64, first: u64) -> u64 {
        let came = self.bare.take().unwrap_or(first - next);
        let end = first.min(next + came);
        for number in next..end {
            while number >= self.sequence.counted() + WINDOW {
                self.count();
            }
            self.sequence.mark(number, 1, 1);
        }
        // More than there is room for have come after headers that were sent behind them.
        let late = self.sequence.fill(came - (end - next));
        self.since.late = self.since.late.saturating_add(late.min(u64::from(u32::MAX)) as u32);
        end
    }

    fn take(
        &mut self,
        now: Time,
        edge: &Edge,
        wire: u8,
        (records, complete): (&[NodeRecord], bool),
        trail: &mut Trail,
    ) {
        let (segs, wire) = (edge.segs.max(1), wire.max(1));
        let records = &records[..records.len().min(MAX_HOPS)];
        self.since.packets = self.since.packets.saturating_add(u32::from(wire));
        self.due = self.due.min(now + self.interval);
        if self.since.packets >= PACKETS {
            self.due = self.due.min(now);
        }
        let first = match self.sequence.place(edge.seq, segs) {
            Place::Start => {
                self.gaps.restart();
                self.delays.restart();
                (self.own_pps, self.sent_us, self.buffer, self.bare) = (0.0, edge.sent_us, 1, None);
                self.sequence.start(edge.seq)
            }
            Place::At(first) => first,
            Place::Behind => {
                self.since.late = self.since.late.saturating_add(u32::from(wire));
                return;
            }
        };
        let next = self.sequence.hi().map_or(first, |hi| hi + 1);
        let newer = first >= next;
        if newer {
            let waited = f64::from(edge.sent_us.wrapping_sub(self.sent_us)) / 1e6;
            let sent = first + u64::from(segs) - next;
            self.own_pps = self.own_pps * libm::exp(-waited / RATE_SPAN) + sent as f64 / RATE_SPAN;
            self.buffer = self.buffer.max(segs);
            let complete = complete && self.complete;
            let came = Came {
                now,
                flow: self.config.flow,
                sent,
                waited,
                own_pps: self.own_pps,
                complete,
                buffer: self.buffer.into(),
            };
            let missing = if edge.sampled { self.without_header(next, first) } else { next };
            if first > missing {
                self.gaps.open(missing..first, &self.records, records, &came, trail);
                self.due = self.due.min(now);
            }
            self.gaps.counters(records, &came, trail);
        }
        while first + u64::from(segs) > self.sequence.counted() + WINDOW || self.gaps.too_many() {
            self.count();
        }
        let extra = self.sequence.mark(first, segs, wire);
        self.since.late = self.since.late.saturating_add(extra);
        if newer {
            self.delays.arrived(now, edge.sent_us);
            self.records.clear();
            self.records.extend_from_slice(records);
            (self.complete, self.sent_us, self.cwnd) = (complete, edge.sent_us, edge.cwnd);
            if let Some(long) = edge.long.filter(|long| long.srtt_64us > 0) {
                self.round = Nanos::from_micros(64 * u64::from(long.srtt_64us));
            }
        }
    }

    /// A node reported: the limits of its queues, the rates of their links, and what it has policed.
    pub fn node(&mut self, report: &NodeReport) {
        for hop in &report.hops {
            self.gaps.reported(report.node, hop);
        }
    }

    /// Counts the next number, and the whole gap that it begins.
    fn count(&mut self) {
        if self.sequence.count() {
            self.since.expected += 1;
            self.since.received += 1;
        } else {
            self.gaps.missed();
        }
        if let Some(split) = self.gaps.close(self.sequence.counted()) {
            let LossSplit { queue, policed, medium, unknown } = split;
            self.since.expected += queue + policed + medium + unknown;
            self.since.lost.add(split);
        }
    }

    /// Counts what is old enough.
    fn settle(&mut self, now: Time) {
        let Some(hi) = self.sequence.hi() else { return };
        while self.sequence.counted() <= hi {
            match self.gaps.front() {
                Some(gap) if gap.first <= self.sequence.counted() => {
                    if now < gap.mature(hi) {
                        return;
                    }
                    let end = gap.end;
                    while self.sequence.counted() < end {
                        self.count();
                    }
                }
                _ => self.count(),
            }
        }
    }

    /// The report that is due at `now`, if one is. Ask after each arrival and at [`FlowSink::next_timeout`].
    pub fn poll(&mut self, now: Time) -> Option<FlowReport> {
        if now < self.next_timeout() {
            return None;
        }
        self.gaps.closed.clear();
        let tally = self.gaps.tally();
        self.settle(now);
        let one = Nanos::from_nanos(1_000_000_000 / MOST_REPORTS);
        self.spent = self.spent.max(now) + one;
        if tally.queue > 0 || tally.policed > 0 {
            self.congested = Some(now);
        }
        self.gaps.learn(self.since.received, self.since.lost.medium);
        let report = self.report(now, self.verdict(now, tally));
        (self.due, self.last, self.since) = (Time::NEVER, now, Window::default());
        Some(report)
    }

    /// Why packets are missing that were not judged so before.
    fn verdict(&self, now: Time, tally: LossSplit) -> Cause {
        let LossSplit { queue, policed, medium, unknown } = tally;
        let all = [queue, policed, medium, unknown].map(u64::from).iter().sum::<u64>();
        let mostly = u64::from(medium) * u64::from(MOSTLY.1) >= all * u64::from(MOSTLY.0);
        let quiet = self.congested.is_none_or(|at| now.since(at) > self.round);
        match tally {
            _ if all == 0 => Cause::Unknown,
            LossSplit { queue: 1.., .. } => Cause::Congestion,
            LossSplit { policed: 1.., .. } => Cause::Policer,
            _ if mostly && quiet => Cause::Medium,
            _ => Cause::Unknown,
        }
    }

    fn report(&mut self, now: Time, verdict: Cause) -> FlowReport {
        let Window { expected, received, late, lost, .. } = self.since;
        let delay = self.delays.take();
        self.marked = HopReport::of_words(&self.words, self.marked.as_ref());
        let of_records = self.records.iter().map(|record| self.gaps.hop(record));
        let hops: Vec<HopReport> = of_records.chain(self.marked.filter(|_| self.records.is_empty())).collect();
        let fills = hops.iter().enumerate().filter_map(|(index, hop)| Some((index as u8, hop.time_to_fill()?)));
        let bottleneck = fills.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index);
        self.rseq += 1;
        FlowReport {
            flow: self.config.flow,
            tuple: self.config.tuple,
            rseq: self.rseq,
            t_sink_ns: now.as_nanos(),
            win_us: now.since(self.last).as_micros(),
            hi: self.sequence.hi().unwrap_or(0) as u32,
            exp: expected,
            rcv: received,
            late,
            lost_q: lost.queue,
            lost_p: lost.policed,
            lost_m: lost.medium,
            lost_u: lost.unknown,
            verdict,
            lat_us: delay.latency,
            ahead_us: delay.ahead,
            hl: self.hop_limit,
            jit_us: delay.jitter,
            jit_max_us: delay.worst,
            cwnd_echo: self.cwnd,
            hops,
            bottleneck,
            ..FlowReport::default()
        }
    }

    /// What was counted as lost in the last report, gap by gap; of a thousand and more, the first.
    pub fn judged(&self) -> &[JudgedGap] {
        &self.gaps.closed
    }

    /// When a report is due without another packet; [`Time::NEVER`]: not before one comes.
    pub fn next_timeout(&self) -> Time {
        let hi = self.sequence.hi().unwrap_or(0);
        let mature = self.gaps.front().map_or(Time::NEVER, |gap| gap.mature(hi));
        match self.due.min(mature) {
            Time::NEVER => Time::NEVER,
            due => due.max(self.spent - Nanos::from_nanos((BURST - 1) * 1_000_000_000 / MOST_REPORTS)),
        }
    }
}
