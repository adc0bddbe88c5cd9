//! A queue between senders with windows and a receiver with a sink, with the truth about each lost packet.
//!
//! Flow 0 carries telemetry, or all of them do. Each sender grows its window, halves nothing on losses by the medium, and takes 0.7 of it once a round trip
//! on a drop. Losses by the medium are behind the queue, as on air, in bursts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use paceline_cc::Time;
use paceline_telemetry::{Edge, FlowSink, JudgedGap, NodeRecord, QueueMeter, QueueMoment, SinkConfig, Trail};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Packets that the queue holds.
    pub(crate) buffer: u32,
    /// Share of packets that the medium loses.
    pub(crate) loss: f64,
    /// Mean length of a burst of such losses.
    pub(crate) burst: f64,
    /// Flows, the one with telemetry included.
    pub(crate) flows: u32,
    pub(crate) counters: Counters,
    /// All flows carry telemetry to one host.
    pub(crate) shown: bool,
    /// Senders send buffers of segmentation offload, which the queue takes or drops whole.
    pub(crate) whole: bool,
    /// The senders take a drop for a drop and do nothing on other losses; else any loss is one.
    pub(crate) knows: bool,
    pub(crate) seed: u64,
}

/// Which counters of drops the hop writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counters {
    /// The flow's own.
    Own,
    /// All flows', into each n-th packet or buffer.
    All(u32),
    /// None.
    None,
    /// None; what waits is written, and not the room.
    Octets,
}

/// Lost packets: by truth, named so or otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Matrix {
    pub(crate) medium: Row,
    pub(crate) queue: Row,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) all: u32,
    pub(crate) right: u32,
    pub(crate) unknown: u32,
}

impl Row {
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.right) / f64::from(self.all.max(1))
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.right += other.right;
        self.unknown += other.unknown;
    }
}

impl Matrix {
    pub(crate) fn add(&mut self, other: Self) {
        self.medium.add(other.medium);
        self.queue.add(other.queue);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Came,
    Dropped,
    Lost,
}

/// Time, then the order of making.
type Event = Reverse<(u64, u64, usize, u32, Fate)>;

struct Flow {
    window: f64,
    threshold: f64,
    in_flight: u32,
    next: u32,
    /// A reduction is due for packets from this number on.
    recovered: u32,
    round: u64,
    /// Acknowledgements come in groups of this many.
    group: u32,
    held: u32,
}

/// Twenty seconds of `setting`.
pub(crate) fn run(setting: Setting) -> Matrix {
    let mut rng = Pcg64::seed_from_u64(setting.seed);
    let rate = rng.random_range(400.0..4000.0);
    let service = (1e9 / rate) as u64;
    let mut flows: Vec<Flow> = (0..setting.flows)
        .map(|_| Flow {
            window: 10.0,
            threshold: f64::from(setting.buffer),
            in_flight: 0,
            next: 0,
            recovered: 0,
            round: rng.random_range(10..80) * 1_000_000,
            group: match setting.whole {
                true => rng.random_range(2..40),
                false if rng.random_bool(0.5) => 1,
                false => rng.random_range(2..9),
            },
            held: 0,
        })
        .collect();
    let mut events = BinaryHeap::<Event>::new();
    let mut order = 0;
    let mut waiting = VecDeque::<u64>::new();
    let (mut free, mut dropped, mut own, mut bad, mut buffers) = (0u64, 0u64, 0u64, false, 0u32);
    let mut meter = QueueMeter::new(7, Some(1), Some(2));
    let sink = |flow| FlowSink::new(SinkConfig { flow, synced: true, ..SinkConfig::default() }, Time::ZERO);
    let mut host = Host { sinks: (0..setting.flows).map(sink).collect(), trail: Trail::default() };
    let (mut arrivals, mut truth, mut matrix) = (VecDeque::new(), BTreeMap::new(), Matrix::default());
    let back = flows[0].round / 2;
    for flow in 0..flows.len() {
        events.push(Reverse((rng.random_range(0..20_000_000), flow as u64, flow, u32::MAX, Fate::Came)));
    }
    while let Some(Reverse((now, _, index, seq, fate))) = events.pop() {
        if now > 20_000_000_000 {
            break;
        }
        deliver(now, &mut arrivals, &mut host, &mut truth, &mut matrix);
        let flow = &mut flows[index];
        if seq != u32::MAX {
            flow.in_flight -= 1;
            match fate {
                Fate::Came if flow.window < flow.threshold => flow.window += 1.0,
                Fate::Came => flow.window += 2.0 / flow.window,
                Fate::Lost if setting.knows => {}
                _ if seq >= flow.recovered => {
                    flow.window = (0.7 * flow.window).max(2.0);
                    (flow.threshold, flow.recovered) = (flow.window, flow.next);
                }
                _ => {}
            }
            flow.held += 1;
            if flow.held < flow.group && flow.in_flight > 0 {
                continue;
            }
            flow.held = 0;
        }
        while f64::from(flow.in_flight) < flow.window.floor() {
            // Packets of a group leave 10 us after each other.
            let at = now;
            while waiting.front().is_some_and(|gone| *gone <= at) {
                waiting.pop_front();
            }
            let (first, count) =
                (flow.next, if setting.whole { (flow.window as u32 - flow.in_flight).min(40) } else { 1 });
            flow.next += count;
            flow.in_flight += count;
            buffers += u32::from(index == 0);
            // What is in service does not wait.
            let queued = (waiting.len() as u32).saturating_sub(1);
            let time = Time::from_nanos(at);
            (0..count).for_each(|_| meter.arrived(time, index as u64, 1500));
            let fits = queued + count <= setting.buffer;
            let mut came = Vec::new();
            for number in first..first + count {
                let mut fate = Fate::Came;
                let mut leaves = free.max(at) + if rng.random_bool(0.1) { 3 * service } else { service * 7 / 9 };
                if fits {
                    waiting.push_back(leaves);
                    free = leaves;
                    // Gilbert: bad states of mean length `burst`.
                    let enter = setting.loss / (setting.burst * (1.0 - setting.loss));
                    bad = rng.random_bool(if bad { 1.0 - 1.0 / setting.burst } else { enter });
                    if bad {
                        fate = Fate::Lost;
                    }
                } else {
                    leaves = free;
                    fate = Fate::Dropped;
                }
                if fate == Fate::Came {
                    came.push(leaves);
                }
                order += 1;
                events.push(Reverse((leaves + flow.round, order, index, number, fate)));
            }
            if index == 0 || setting.shown {
                let counted = matches!(setting.counters, Counters::All(each) if (buffers - 1).is_multiple_of(each));
                let found = QueueMoment {
                    // The last of a buffer takes its place too.
                    room_packets: (setting.counters != Counters::Octets)
                        .then(|| (setting.buffer - queued).saturating_sub(count - 1)),
                    queue_bytes: Some(1514 * queued),
                    dropped: counted.then_some(dropped),
                    flow_dropped: (setting.counters == Counters::Own).then_some(own),
                    ..QueueMoment::default()
                };
                // As the wire has it.
                let mut record = meter.record(time, 63, &found);
                record.arrival_pps = record
                    .arrival_pps
                    .map(|pps| paceline_telemetry::wire::rate_of(paceline_telemetry::wire::rate_code(pps)));
                let edge = Edge { segs: count as u8, seq: first, sent_us: (at / 1000) as u32, ..Edge::default() };
                arrivals.extend(came.iter().map(|leaves| (leaves + back, index, edge, record)));
            }
            if index == 0 {
                // Packets of a buffer have one number in common: those that are missing are the last of its numbers.
                let fate = if fits { Fate::Lost } else { Fate::Dropped };
                truth.extend((first + came.len() as u32..first + count).map(|number| (number, fate)));
                own += if fits { 0 } else { u64::from(count) };
            }
            dropped += if fits { 0 } else { u64::from(count) };
        }
    }
    matrix
}

/// When, of which flow, and what.
type Arrival = (u64, usize, Edge, NodeRecord);

/// The receiver.
struct Host {
    sinks: Vec<FlowSink>,
    trail: Trail,
}

/// What has reached the receiver by `now`.
fn deliver(
    now: u64,
    arrivals: &mut VecDeque<Arrival>,
    host: &mut Host,
    truth: &mut BTreeMap<u32, Fate>,
    matrix: &mut Matrix,
) {
    let Host { sinks, trail } = host;
    while arrivals.front().is_some_and(|(at, ..)| *at <= now) {
        let Some((at, index, edge, record)) = arrivals.pop_front() else { return };
        let now = Time::from_nanos(at);
        while sinks[0].next_timeout() < now {
            poll(sinks[0].next_timeout(), &mut sinks[0], truth, matrix);
        }
        sinks[index].arrive(now, &edge, 1, &[record], trail);
        if index == 0 {
            poll(now, &mut sinks[0], truth, matrix);
        } else {
            sinks[index].poll(now);
        }
    }
}

fn poll(now: Time, sink: &mut FlowSink, truth: &mut BTreeMap<u32, Fate>, matrix: &mut Matrix) {
    let Some(report) = sink.poll(now) else { return };
    assert_eq!(report.exp, report.rcv + report.lost());
    for JudgedGap { first, numbers, split } in sink.judged() {
        let fates: Vec<Fate> = (*first..first + numbers).map(|seq| truth.remove(&seq).expect("it was lost")).collect();
        let count = |wanted: Fate| fates.iter().filter(|fate| **fate == wanted).count() as u32;
        let (medium, queue) = (count(Fate::Lost), count(Fate::Dropped));
        let unknown = |all: u32| (split.unknown * all).div_ceil(*numbers);
        matrix.add(Matrix {
            medium: Row { all: medium, right: medium.min(split.medium), unknown: unknown(medium) },
            queue: Row { all: queue, right: queue.min(split.queue), unknown: unknown(queue) },
        });
    }
}
