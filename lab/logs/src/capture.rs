//! Captured packets: throughput of every direction or flow; of TCP round trips, what is in flight and what is sent again.
//!
//! A capture of `paceline emulate` shows each packet where it entered the path and where it left: packets are known again by their
//! bytes, so that it has one-way delays, and what was dropped on the way. In another capture a packet is seen once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use paceline_cc::Nanos;
use paceline_conform::capture::packet;
use paceline_experiment::Distribution;
use paceline_report::logs::{CLASSES, Chart, Curve, Figure, Log};
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::LogError;
use crate::bins::{Bins, Grid};
use crate::tcp::{Sent, Tcp};

/// Most flows that are looked at (our choice: about 60 MB); what belongs to others counts in the whole alone.
const MOST_FLOWS: usize = 256;
/// Flows that are drawn: those with most bytes (our choice: a colour each).
const DRAWN: usize = 6;
/// What has less than this part of the largest flow's bytes is not drawn (our choice: it cannot be seen beside it).
const SMALL: u64 = 100;
/// Most packets on their way (our choice: about 100 MB).
const MOST_UNDER_WAY: usize = 1 << 20;
/// Interfaces of an emulated path.
const NEAR: &str = "near";
const FAR: &str = "far";
const DROPPED: &str = "dropped";

/// Seconds and values of a curve.
type Points = Vec<(f64, Option<f64>)>;
/// From whom to whom, by which protocol.
type Key = (SocketAddr, SocketAddr, u8);

#[derive(Default)]
struct Flow {
    bytes: u64,
    arrived: Bins,
    tcp: Tcp,
    rtt_ms: Bins,
    in_flight: Bins,
    again: Bins,
}

/// One direction of an emulated path.
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
    /// Nanoseconds of the first packet.
    begun: Option<u64>,
    end: u64,
    packets: u64,
    all: Bins,
    flows: HashMap<Key, Flow>,
    others: bool,
    /// Down and up.
    ways: [Way; 2],
    /// When a packet entered, by its way and its bytes; of equal ones the first.
    under_way: HashMap<(usize, u64), u64>,
    lost_sight: bool,
}

/// Where a packet was seen.
#[derive(Clone, Copy)]
enum Place {
    /// Once.
    Anywhere,
    Entered(usize),
    Left(usize),
    Dropped,
}

/// What of an IP header is needed.
struct Header {
    key: Key,
    bytes: u32,
}

pub(crate) fn read(file: &str, mut from: impl BufRead, step: Option<Nanos>) -> Result<Log, LogError> {
    let first = from.fill_buf().map_err(|error| LogError::unreadable(file, &error))?;
    let sections = first.first() == Some(&0x0a);
    let mut seen = Seen::default();
    let (ending, emulated) = if sections { pcapng(from, &mut seen) } else { (pcap(from, &mut seen), false) };
    let mut notes = Vec::new();
    if let Err((number, problem)) = ending {
        if seen.packets == 0 {
            let problem = format!("it is damaged or cut off ({problem}); give the whole file");
            return Err(LogError::new(file, number, problem));
        }
        let problem: String = problem.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect();
        notes.push(format!("It is damaged or cut off at packet {number} ({problem}): drawn up to there."));
    }
    if seen.packets == 0 {
        return Err(LogError::new(file, 0, "it has no IP packets; capture some (tcpdump -s 128 -w FILE)"));
    }
    Ok(seen.finish(file, emulated, notes, step))
}

type Ending = Result<(), (u64, String)>;

fn pcap(from: impl Read, seen: &mut Seen) -> Ending {
    let mut reader = PcapReader::new(from).map_err(|error| (0, error.to_string()))?;
    let link = reader.header().datalink;
    let mut number = 0;
    while let Some(packet) = reader.next_packet() {
        number += 1;
        let packet = packet.map_err(|error| (number, error.to_string()))?;
        let at = u64::try_from(packet.timestamp().as_nanos()).unwrap_or(u64::MAX);
        seen.take(at, link, packet.data(), Place::Anywhere);
    }
    Ok(())
}

/// Also whether it is of an emulated path.
fn pcapng(from: impl Read, seen: &mut Seen) -> (Ending, bool) {
    let mut emulated = false;
    let ending = pcapng_blocks(from, seen, &mut emulated);
    (ending, emulated)
}

fn pcapng_blocks(from: impl Read, seen: &mut Seen, emulated: &mut bool) -> Ending {
    let mut reader = PcapNgReader::new(from).map_err(|error| (0, error.to_string()))?;
    let mut interfaces: Vec<(DataLink, String)> = Vec::new();
    let mut number = 0;
    while let Some(block) = reader.next_block() {
        number += 1;
        let (block, _) = block.map_err(|error| (number, error.to_string()))?;
        match block {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(interface) => {
                let name = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                });
                interfaces.push((interface.linktype, name.unwrap_or_default()));
                let names: Vec<&str> = interfaces.iter().map(|(_, name)| name.as_str()).collect();
                *emulated |= names == [NEAR, FAR, DROPPED];
            }
            Block::EnhancedPacket(packet) => {
                let Some((link, name)) = interfaces.get(packet.interface_id as usize) else { continue };
                // The side of the cooked header is that of the interface: 0 came in, 4 went out.
                let out = packet.data.get(1) == Some(&4);
                let place = match (*emulated, name.as_str(), out) {
                    (true, FAR, false) => Place::Entered(0),
                    (true, NEAR, false) => Place::Entered(1),
                    (true, NEAR, true) => Place::Left(0),
                    (true, FAR, true) => Place::Left(1),
                    (true, DROPPED, _) => Place::Dropped,
                    _ => Place::Anywhere,
                };
                let at = u64::try_from(packet.timestamp.as_nanos()).unwrap_or(u64::MAX);
                seen.take(at, *link, &packet.data, place);
            }
            _ => {}
        }
    }
    Ok(())
}

impl Seen {
    fn take(&mut self, at: u64, link: DataLink, frame: &[u8], place: Place) {
        let Some(ip) = packet::packet(link, frame) else { return };
        let Some(header) = header(ip) else { return };
        self.packets += 1;
        // Captures of several interfaces are not quite in the order of time.
        let at = at.saturating_sub(*self.begun.get_or_insert(at));
        self.end = self.end.max(at);
        let bytes = f64::from(header.bytes);
        let (sent, arrived) = match place {
            Place::Anywhere => (true, true),
            Place::Entered(way) => {
                self.ways[way].packets += 1;
                self.ways[way].entered.add(at, bytes);
                if self.under_way.len() < MOST_UNDER_WAY {
                    self.under_way.entry((way, fingerprint(ip))).or_insert(at);
                } else {
                    self.lost_sight = true;
                }
                (true, false)
            }
            Place::Left(way) => {
                self.ways[way].left.add(at, bytes);
                if let Some(entered) = self.under_way.remove(&(way, fingerprint(ip))) {
                    let delay = Nanos::from_nanos(at.saturating_sub(entered));
                    let way = &mut self.ways[way];
                    way.delay_ms.add(at, delay.as_millis_f64());
                    way.delays.get_or_insert_with(|| Distribution::new(3)).record(delay);
                }
                (false, true)
            }
            Place::Dropped => {
                let print = fingerprint(ip);
                // Which way it went is known by where it entered.
                for way in [0, 1] {
                    if self.under_way.remove(&(way, print)).is_some() {
                        self.ways[way].dropped.add(at, 1.0);
                        self.ways[way].lost += 1;
                        break;
                    }
                }
                return;
            }
        };
        if arrived {
            self.all.add(at, bytes);
        }
        self.flow(at, &header, ip, (sent, arrived));
    }

    fn flow(&mut self, at: u64, header: &Header, ip: &[u8], (sent, arrived): (bool, bool)) {
        let full = self.flows.len() >= MOST_FLOWS;
        let flow = match self.flows.entry(header.key) {
            Entry::Occupied(flow) => flow.into_mut(),
            Entry::Vacant(_) if full => {
                self.others = true;
                return;
            }
            Entry::Vacant(vacant) => vacant.insert(Flow::default()),
        };
        if arrived {
            flow.bytes += u64::from(header.bytes);
            flow.arrived.add(at, f64::from(header.bytes));
        }
        let Some(segment) = packet::internet(ip) else { return };
        if sent {
            match flow.tcp.sent(at, &segment) {
                Sent::Nothing => {}
                Sent::New => flow.in_flight.add(at, flow.tcp.in_flight() as f64 / 1e3),
                Sent::Again => flow.again.add(at, 1.0),
            }
        }
        let (from, to, protocol) = header.key;
        if arrived
            && let Some(back) = self.flows.get_mut(&(to, from, protocol))
            && let Some(rtt) = back.tcp.acknowledged(at, &segment)
        {
            back.rtt_ms.add(at, rtt as f64 / 1e6);
        }
    }

    fn finish(self, file: &str, emulated: bool, mut notes: Vec<String>, step: Option<Nanos>) -> Log {
        let grid = Grid::new(self.end.max(1), step);
        let seconds = grid.seconds().max(1e-3);
        let mut charts = Vec::new();
        let mut figures = Vec::new();
        let mut push = |title, curves: Vec<Curve>| {
            if !curves.is_empty() {
                charts.push(Chart { title, curves });
            }
        };
        let curve =
            |name: &str, class: &'static str, points| Curve { name: name.to_owned(), points, class: class.into() };
        if emulated {
            let ways = || ["down", "up"].into_iter().zip(&self.ways).zip([CLASSES[0], CLASSES[1]]);
            let rates = ways().map(|((name, way), class)| curve(name, class, way.left.rates(grid, 8e-6)));
            push("throughput, Mbit/s", rates.collect());
            let delays = ways().filter(|((_, way), _)| !way.delay_ms.is_empty());
            push(
                "one-way delay, ms",
                delays.map(|((name, way), class)| curve(name, class, way.delay_ms.means(grid))).collect(),
            );
            let dropped = ways().filter(|((_, way), _)| !way.dropped.is_empty());
            push(
                "dropped, packets/s",
                dropped.map(|((name, way), class)| curve(name, class, way.dropped.rates(grid, 1.0))).collect(),
            );
            for ((name, way), _) in ways() {
                let mut figure = |what, value| figures.push(Figure { of: name.to_owned(), what, value });
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
            push("throughput of all packets, Mbit/s", vec![curve("all", CLASSES[7], self.all.rates(grid, 8e-6))]);
            figures.push(Figure {
                of: String::new(),
                what: "throughput, Mbit/s",
                value: self.all.sum() * 8e-6 / seconds,
            });
        }
        figures.push(Figure { of: String::new(), what: "packets in the file", value: self.packets as f64 });
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
            named().filter_map(|(name, flow, class)| Some(curve(&name, class, points(flow, grid)?))).collect::<Vec<_>>()
        };
        push("throughput by flow, Mbit/s", of(|flow, grid| Some(flow.arrived.rates(grid, 8e-6))));
        let rtts = |flow: &Flow, grid| {
            let mut points = flow.rtt_ms.means(grid);
            // One a round trip: what lies between is no gap.
            points.retain(|(_, rtt)| rtt.is_some());
            (!points.is_empty()).then_some(points)
        };
        push("round trip, ms", of(rtts));
        push("in flight, kB", of(|flow, grid| (!flow.in_flight.is_empty()).then(|| flow.in_flight.means(grid))));
        push("sent again, packets/s", of(|flow, grid| (!flow.again.is_empty()).then(|| flow.again.rates(grid, 1.0))));
        for (name, flow, _) in named() {
            figures.push(Figure {
                of: name.clone(),
                what: "throughput, Mbit/s",
                value: flow.bytes as f64 * 8e-6 / seconds,
            });
            if !flow.again.is_empty() {
                figures.push(Figure { of: name, what: "sent again, packets", value: flow.again.sum() });
            }
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
        Log { file, kind, notes, seconds: grid.seconds(), step_s: grid.step_s(), figures, charts }
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

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn header(ip: &[u8]) -> Option<Header> {
    let (from, to, protocol, bytes, payload): (IpAddr, IpAddr, u8, u32, usize) = match ip.first()? >> 4 {
        4 => {
            let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(at..at + 4)?).ok()?));
            let first = u16_at(ip, 6)? & 0x1fff == 0;
            // A later fragment has no ports.
            let payload = if first { usize::from(ip[0] & 15) * 4 } else { usize::MAX };
            (address(12)?.into(), address(16)?.into(), *ip.get(9)?, u32::from(u16_at(ip, 2)?), payload)
        }
        6 => {
            let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(ip.get(at..at + 16)?).ok()?));
            let (mut next, mut at) = (*ip.get(6)?, 40_usize);
            // Hop-by-Hop, routing and destination options.
            while matches!(next, 0 | 43 | 60) {
                let Some((after, length)) = ip.get(at).zip(ip.get(at + 1)) else { break };
                (next, at) = (*after, at + 8 + 8 * usize::from(*length));
            }
            (address(8)?.into(), address(24)?.into(), next, 40 + u32::from(u16_at(ip, 4)?), at)
        }
        _ => return None,
    };
    let has_ports = matches!(protocol, 6 | 17 | 132 | 136) && payload < ip.len();
    let port = |at: usize| if has_ports { u16_at(ip, payload + at).unwrap_or(0) } else { 0 };
    Some(Header { key: (SocketAddr::new(from, port(0)), SocketAddr::new(to, port(2)), protocol), bytes })
}

/// What a path leaves as it is: all but the ECN field and, of IPv4, the checksum over it.
fn fingerprint(ip: &[u8]) -> u64 {
    let mut head = [0; 128];
    let length = ip.len().min(head.len());
    head[..length].copy_from_slice(&ip[..length]);
    if head[0] >> 4 == 4 {
        head[1] = 0;
        head[10] = 0;
        head[11] = 0;
    } else {
        head[0] = 0x60;
        head[1] &= 0x0f;
    }
    let mut hasher = DefaultHasher::new();
    head[..length].hash(&mut hasher);
    hasher.finish()
}
