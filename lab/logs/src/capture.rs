//! Captured packets: throughput of every direction or flow; of TCP round trips, what is in flight and what is sent again.
//!
//! A capture of `paceline emulate` or of a race shows each packet where it entered a link and where it left: packets are known again by
//! their bytes, so that it has one-way delays, and what was dropped on the way. A flow is sent where it enters its first hop, and arrives
//! where it leaves its last. In another capture a packet is seen once.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::net::SocketAddr;

use paceline_cc::{Distribution, Nanos};
use paceline_conform::capture::{
    CapturePlace, CapturedPacket, Copies, NewlyAcked, SegmentMeaning, Tcp, packets, probes,
};
use paceline_conform::read::FileError;
use paceline_report::logs::{CLASSES, Curve, LogChart, LogFigure, PlottedLog};

use crate::bins::{Bins, Grid, Points};

/// Most flows that are looked at (our choice: about 60 MB); what belongs to others counts in the whole alone.
const MOST_FLOWS: usize = 256;
/// Flows that are drawn: those with most bytes (our choice: a colour each).
const DRAWN: usize = 6;
/// What has less than this part of the largest flow's bytes is not drawn (our choice: it cannot be seen beside it).
const SMALL: u64 = 100;
/// Most packets on their way (our choice: about 100 MB).
const MOST_UNDER_WAY: usize = 1 << 20;
/// Most hops of a flow that are looked at (our choice: those of the longest way of a race).
const MOST_HOPS: usize = 64;

/// From whom to whom, by which protocol.
type Key = (SocketAddr, SocketAddr, u8);

#[derive(Default)]
struct Flow {
    /// The hop that it enters first.
    first: Option<u32>,
    /// Those that it left, in the order of its way.
    left: Vec<u32>,
    bytes: u64,
    arrived: Bins,
    tcp: Tcp,
    rtt_ms: Bins,
    in_flight: Bins,
    again: Bins,
}

impl Flow {
    /// Whether a packet that is seen there has just been sent.
    fn is_sent(&mut self, place: CapturePlace) -> bool {
        match place {
            CapturePlace::Anywhere => true,
            CapturePlace::Entered(hop) => *self.first.get_or_insert(hop) == hop,
            CapturePlace::Left(_) | CapturePlace::Dropped(_) => false,
        }
    }

    /// Whether an acknowledgement that is seen there is at the sender.
    fn is_heard(&self, place: CapturePlace) -> bool {
        match place {
            CapturePlace::Anywhere => true,
            CapturePlace::Left(hop) => self.first == Some(hop ^ 1),
            CapturePlace::Entered(_) | CapturePlace::Dropped(_) => false,
        }
    }

    /// Counts what comes out at the end of its way, as far as that is known.
    fn arrive(&mut self, place: CapturePlace, at: u64, bytes: u32) {
        match place {
            CapturePlace::Anywhere => {}
            CapturePlace::Left(hop) => {
                if !self.left.contains(&hop) && self.left.len() < MOST_HOPS {
                    self.left.push(hop);
                    (self.bytes, self.arrived) = Default::default();
                }
                if self.left.last() != Some(&hop) {
                    return;
                }
            }
            CapturePlace::Entered(_) | CapturePlace::Dropped(_) => return,
        }
        self.bytes += u64::from(bytes);
        self.arrived.add(at, f64::from(bytes));
    }
}

/// One direction of an emulated link.
#[derive(Default)]
struct Way {
    entered: Bins,
    left: Bins,
    dropped: Bins,
    delay_ms: Bins,
    delays: Option<Distribution>,
    packets: u64,
    lost: u64,
}

#[derive(Default)]
struct Seen {
    /// When the first packet came, in nanoseconds since 1970.
    begun: Option<i64>,
    end: u64,
    packets: u64,
    all: Bins,
    flows: HashMap<Key, Flow>,
    others: bool,
    /// By hop.
    ways: BTreeMap<u32, Way>,
    /// When a packet entered, by its hop and its bytes; of equal ones the first.
    under_way: HashMap<(u32, u64), u64>,
    lost_sight: bool,
    /// Packets that left and had not entered.
    early: HashSet<(u32, u64)>,
    /// Those that entered then.
    backwards: u64,
    copies: Copies,
    probes: u64,
}

pub(crate) fn read(file: &str, from: impl Read, step: Option<Nanos>) -> Result<PlottedLog, FileError> {
    let mut seen = Seen::default();
    let mut notes = packets(file, from, &mut |packet| {
        seen.take(packet);
        Ok(())
    })?;
    notes.extend(seen.copies.note());
    notes.extend(probes(seen.probes));
    if seen.backwards > 0 {
        notes.push(format!("{} packets left before they entered: their delays are not counted.", seen.backwards));
    }
    Ok(seen.finish(file, notes, step))
}

impl Seen {
    fn take(&mut self, packet: &CapturedPacket) {
        self.packets += 1;
        let at = packet.at.saturating_sub(*self.begun.get_or_insert(packet.at)).max(0) as u64;
        self.end = self.end.max(at);
        let bytes = f64::from(packet.bytes);
        match packet.place {
            CapturePlace::Anywhere if self.copies.is_copy(packet) => return,
            CapturePlace::Anywhere => self.all.add(at, bytes),
            CapturePlace::Entered(hop) => {
                let way = self.ways.entry(hop).or_default();
                way.packets += 1;
                way.entered.add(at, bytes);
                if self.early.remove(&(hop, packet.print)) {
                    self.backwards += 1;
                } else if self.under_way.len() < MOST_UNDER_WAY {
                    self.under_way.entry((hop, packet.print)).or_insert(at);
                } else {
                    self.lost_sight = true;
                }
            }
            CapturePlace::Left(hop) => self.left(hop, at, packet),
            CapturePlace::Dropped(link) => {
                // Which way it went is known by where it entered.
                let hops = [2 * link, 2 * link + 1];
                let entered = hops.into_iter().find(|hop| self.under_way.remove(&(*hop, packet.print)).is_some());
                let way = self.ways.entry(entered.unwrap_or(hops[0])).or_default();
                if entered.is_some() {
                    way.dropped.add(at, 1.0);
                    way.lost += 1;
                }
                return;
            }
        }
        self.flow(at, packet);
    }

    fn left(&mut self, hop: u32, at: u64, packet: &CapturedPacket) {
        let left = self.ways.entry(hop).or_default();
        left.left.add(at, f64::from(packet.bytes));
        match self.under_way.remove(&(hop, packet.print)) {
            Some(entered) => {
                let delay = Nanos::from_nanos(at.saturating_sub(entered));
                left.delay_ms.add(at, delay.as_millis_f64());
                left.delays.get_or_insert_with(|| Distribution::new(3)).record(delay);
            }
            None if self.early.len() < MOST_UNDER_WAY => {
                self.early.insert((hop, packet.print));
            }
            None => {}
        }
    }

    fn flow(&mut self, at: u64, packet: &CapturedPacket) {
        let key = (packet.from, packet.to, packet.protocol);
        let full = self.flows.len() >= MOST_FLOWS;
        let flow = match self.flows.entry(key) {
            Entry::Occupied(flow) => flow.into_mut(),
            Entry::Vacant(_) if full => {
                self.others = true;
                return;
            }
            Entry::Vacant(vacant) => vacant.insert(Flow::default()),
        };
        flow.arrive(packet.place, at, packet.bytes);
        let Some(segment) = packet.segment else { return };
        if flow.is_sent(packet.place) {
            match flow.tcp.sent(packet.at, &segment) {
                SegmentMeaning::Nothing => {}
                SegmentMeaning::New => flow.in_flight.add(at, flow.tcp.in_flight() as f64 / 1e3),
                SegmentMeaning::Again => flow.again.add(at, 1.0),
                SegmentMeaning::Probe => self.probes += 1,
            }
        }
        if let Some(back) = self.flows.get_mut(&(packet.to, packet.from, packet.protocol))
            && back.is_heard(packet.place)
            && let Some(NewlyAcked { rtt: Some(rtt), .. }) = back.tcp.acknowledged(packet.at, &segment, &packet.sacks)
        {
            back.rtt_ms.add(at, rtt as f64 / 1e6);
        }
    }

    fn finish(self, file: &str, mut notes: Vec<String>, step: Option<Nanos>) -> PlottedLog {
        let emulated = !self.ways.is_empty();
        let grid = Grid::new(self.end.max(1), step);
        let seconds = grid.seconds().max(1e-3);
        let mut charts = Vec::new();
        let mut figures = Vec::new();
        let mut push = |title, curves: Vec<Curve>| {
            if !curves.is_empty() {
                charts.push(LogChart { title, curves });
            }
        };
        if emulated {
            let several = self.ways.keys().any(|hop| *hop > 1);
            let named = |hop: u32| {
                let way = ["down", "up"][(hop % 2) as usize];
                if several { format!("link {} {way}", hop / 2 + 1) } else { way.to_owned() }
            };
            // Of a single link both directions, also where nothing went one way.
            let mut ways = self.ways;
            for hop in 0..if several { 0 } else { 2 } {
                ways.entry(hop).or_default();
            }
            let ways: Vec<(String, Way)> = ways.into_iter().map(|(hop, way)| (named(hop), way)).collect();
            let of = |points: fn(&Way, Grid) -> Option<Points>| {
                let curve = |((name, way), class): (&(String, Way), _)| {
                    Some(Curve::new(name.as_str(), class, points(way, grid)?))
                };
                ways.iter().zip(CLASSES).filter_map(curve).collect::<Vec<_>>()
            };
            push("throughput, Mbit/s", of(|way, grid| Some(way.left.rates(grid, 8e-6))));
            push("one-way delay, ms", of(|way, grid| way.delay_ms.any().map(|delays| delays.means(grid))));
            push("dropped, packets/s", of(|way, grid| way.dropped.any().map(|dropped| dropped.rates(grid, 1.0))));
            for (name, way) in &ways {
                let mut figure = |what, value| figures.push(LogFigure::new(name, what, value));
                figure("entered, Mbit/s", way.entered.sum() * 8e-6 / seconds);
                figure("throughput, Mbit/s", way.left.sum() * 8e-6 / seconds);
                for (what, q) in
                    [("one-way delay p50, ms", 0.5), ("one-way delay p95, ms", 0.95), ("one-way delay p99, ms", 0.99)]
                {
                    if let Some(ms) = way.delays.as_ref().and_then(|delays| delays.quantile_ms(q)) {
                        figure(what, ms);
                    }
                }
                figure("packets", way.packets as f64);
                figure("dropped, packets", way.lost as f64);
            }
        } else {
            push("throughput of all packets, Mbit/s", vec![Curve::new("all", CLASSES[7], self.all.rates(grid, 8e-6))]);
            figures.push(LogFigure::new("", "throughput, Mbit/s", self.all.sum() * 8e-6 / seconds));
        }
        figures.push(LogFigure::new("", "packets in the file", self.packets as f64));
        let mut flows: Vec<(&Key, &Flow)> = self.flows.iter().collect();
        flows.sort_by_key(|(key, flow)| (std::cmp::Reverse(flow.bytes), **key));
        let (all, most) = (flows.len(), flows.first().map_or(0, |(_, flow)| flow.bytes));
        flows.retain(|(_, flow)| flow.bytes >= most / SMALL);
        flows.truncate(DRAWN);
        let left_out = all - flows.len();
        // Colours of flows are not those of directions.
        let named = || {
            flows
                .iter()
                .enumerate()
                .map(|(place, (key, flow))| (name(key), *flow, CLASSES[(place + 2) % CLASSES.len()]))
        };
        let of = |points: fn(&Flow, Grid) -> Option<Points>| {
            let curve = |(name, flow, class)| Some(Curve::new(name, class, points(flow, grid)?));
            named().filter_map(curve).collect::<Vec<_>>()
        };
        push("throughput by flow, Mbit/s", of(|flow, grid| Some(flow.arrived.rates(grid, 8e-6))));
        let rtts = |flow: &Flow, grid| {
            let mut points = flow.rtt_ms.means(grid);
            // One a round trip: what lies between is not a gap.
            points.retain(|(_, rtt)| rtt.is_some());
            (!points.is_empty()).then_some(points)
        };
        push("round trip, ms", of(rtts));
        push("in flight, kB", of(|flow, grid| flow.in_flight.any().map(|bytes| bytes.means(grid))));
        push("sent again, packets/s", of(|flow, grid| flow.again.any().map(|again| again.rates(grid, 1.0))));
        for (name, flow, _) in named() {
            figures.push(LogFigure::new(&name, "throughput, Mbit/s", flow.bytes as f64 * 8e-6 / seconds));
            figures.extend(flow.again.any().map(|again| LogFigure::new(name, "sent again, packets", again.sum())));
        }
        if !emulated && named().any(|(_, flow, _)| !flow.rtt_ms.is_empty()) {
            notes.push(
                "Round trips and what is in flight are those of where it was captured: of the flow at its sender."
                    .to_owned(),
            );
        }
        if left_out > 0 {
            notes.push(format!("The flows with most bytes are drawn; {left_out} smaller ones are not."));
        }
        if self.others {
            notes.push(format!("The first {MOST_FLOWS} flows were looked at; others count in the whole alone."));
        }
        if self.lost_sight {
            notes.push(format!("More than {MOST_UNDER_WAY} packets were under way: not every one has a delay."));
        }
        let kind = if emulated { "packets on an emulated path" } else { "capture" };
        let file = file.to_owned();
        PlottedLog { file, kind, notes, seconds: grid.seconds(), step_s: grid.step_s(), figures, charts }
    }
}

/// `10.0.0.1:443 > 10.0.0.2:50000`, with the protocol where it is not TCP.
fn name((from, to, protocol): &Key) -> String {
    let shown = |end: &SocketAddr| if end.port() == 0 { end.ip().to_string() } else { end.to_string() };
    let protocol = match protocol {
        6 => String::new(),
        17 => " udp".to_owned(),
        1 | 58 => " icmp".to_owned(),
        other => format!(" protocol {other}"),
    };
    format!("{} > {}{protocol}", shown(from), shown(to))
}
