//! Flows of a capture, and what is in flight of one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use super::packet::{CapturePlace, CapturedPacket, Sacks};
use super::{Copies, FourTuple, NewlyAcked, SeenSegment, SegmentMeaning, Tcp};
use crate::read::FileError;
use crate::trajectory::{FlowPhase, Origin, Trajectory, TrajectoryPoint};

/// Most segments that are kept (our choice: about 250 MB).
const MOST_SEGMENTS: usize = 6_000_000;
/// Bytes of a full packet where none was larger (RFC 9293 section 3.7.1).
const SMALLEST: u32 = 536;
/// Longest packet (our choice: jumbo frames); what is longer a card is to cut, or has put together.
const LONGEST: u32 = 9000;
/// Kinds of sizes from which the size of a full packet is found, and their least share of the bytes (our choice).
const SIZES: usize = 16;
const SHARE: f64 = 0.9;

/// The segments of a capture.
#[derive(Default)]
pub(super) struct Flows {
    ends: BTreeMap<(SocketAddr, SocketAddr), u32>,
    segments: Vec<Kept>,
    sent: Vec<u64>,
    /// The hop that each enters first, where links are emulated.
    first: Vec<Option<u32>>,
    sacks: Vec<Sacks>,
    copies: Copies,
}

#[derive(Clone, Copy)]
struct Kept {
    at: i64,
    place: CapturePlace,
    flow: u32,
    segment: SeenSegment,
    /// Where its SACK blocks are, from 1; 0 of most, which have none.
    sacks: u32,
}

impl Flows {
    /// Keeps what is seen of a segment at the end of a sender: where it enters its first hop, or leaves the other hop of the link
    /// where a sender's segments enter.
    pub(super) fn take(&mut self, file: &str, packet: &CapturedPacket) -> Result<(), FileError> {
        let Some(segment) = packet.segment else { return Ok(()) };
        match packet.place {
            CapturePlace::Dropped(_) => return Ok(()),
            CapturePlace::Anywhere if self.copies.is_copy(packet) => return Ok(()),
            _ => {}
        }
        let next = self.sent.len() as u32;
        let flow = *self.ends.entry((packet.from, packet.to)).or_insert(next);
        if flow == next {
            self.sent.push(0);
            self.first.push(None);
        }
        let back = self.ends.get(&(packet.to, packet.from)).copied();
        match packet.place {
            CapturePlace::Entered(hop) if *self.first[flow as usize].get_or_insert(hop) != hop => return Ok(()),
            CapturePlace::Left(hop) if back.is_none_or(|back| self.first[back as usize] != Some(hop ^ 1)) => {
                return Ok(());
            }
            CapturePlace::Left(_) => {}
            _ => self.sent[flow as usize] += u64::from(segment.bytes),
        }
        if self.segments.len() >= MOST_SEGMENTS {
            let problem =
                "it has more than 6 million TCP segments; cut it (editcap -c), or filter the flow (tcpdump port N)";
            return Err(FileError::new(file, packet.number, problem));
        }
        let mut sacks = 0;
        if packet.sacks != Sacks::default() {
            self.sacks.push(packet.sacks);
            sacks = self.sacks.len() as u32;
        }
        self.segments.push(Kept { at: packet.at, place: packet.place, flow, segment, sacks });
        Ok(())
    }

    /// The flow that sent most, of all or of those between these ends, of which port 0 is any.
    fn largest(&self, wanted: Option<FourTuple>) -> Option<FourTuple> {
        let is = |end: SocketAddr, wanted: SocketAddr| {
            end.ip() == wanted.ip() && (wanted.port() == 0 || end.port() == wanted.port())
        };
        let all = self.ends.iter();
        let these =
            all.filter(|((from, to), _)| wanted.is_none_or(|wanted| is(*from, wanted.from) && is(*to, wanted.to)));
        let ((from, to), _) = these.max_by_key(|(_, flow)| self.sent[**flow as usize])?;
        Some(FourTuple { from: *from, to: *to })
    }

    pub(super) fn trajectory(mut self, file: &str, wanted: Option<FourTuple>) -> Result<Trajectory, FileError> {
        let Some(largest) = self.largest(None) else {
            return Err(FileError::new(file, 0, "it has no TCP segments; capture a TCP flow at its sender"));
        };
        let Some(FourTuple { from, to }) = self.largest(wanted) else {
            let wanted = wanted.unwrap_or(largest);
            let problem = format!("it has no flow {wanted}; the largest of its {} is {largest}", self.ends.len());
            return Err(FileError::new(file, 0, problem));
        };
        let flow = self.ends.get(&(from, to)).copied().unwrap_or_default();
        let back = self.ends.get(&(to, from)).copied();
        // Those that came too late for their place in the reader's order.
        self.segments.sort_by_key(|kept| kept.at);
        let mut sender = Sender::default();
        let (mut sizes, mut opened) = (BTreeMap::new(), false);
        for kept in self.segments.iter().filter(|kept| kept.flow == flow || Some(kept.flow) == back) {
            opened |= kept.segment.syn;
            match kept.place {
                CapturePlace::Anywhere | CapturePlace::Entered(_) if kept.flow == flow => {
                    *sizes.entry(kept.segment.bytes).or_default() += u64::from(kept.segment.bytes);
                    sender.sent(kept.at, &kept.segment);
                }
                CapturePlace::Anywhere | CapturePlace::Left(_) if Some(kept.flow) == back => {
                    let sacks = (kept.sacks as usize).checked_sub(1).map_or(&[][..], |index| &self.sacks[index]);
                    sender.acknowledged(kept.at, &kept.segment, sacks);
                }
                _ => {}
            }
        }
        let mss = f64::from(full(&sizes));
        let mut trajectory = Trajectory::new(format!("{file} {from}-{to}"), Origin::Packets, mss);
        for mut point in sender.points {
            point.window /= mss;
            point.in_flight /= mss;
            point.delivered /= mss;
            trajectory.push(point);
        }
        trajectory.losses = sender.losses;
        trajectory.joined = !opened;
        trajectory.notes.extend(self.copies.note());
        trajectory.notes.extend(probes(sender.probes));
        if trajectory.points.is_empty() {
            let problem = format!("{from}-{to} has no acknowledged data; capture both directions at the sender");
            return Err(FileError::new(file, 0, problem));
        }
        Ok(trajectory)
    }
}

/// What is to be said of probes.
pub fn probes(count: u64) -> Option<String> {
    (count > 0)
        .then(|| format!("{count} segments of a byte ask whether the other end takes more: not counted as sent again."))
}

/// Bytes of a full packet, of segments of these sizes with how many bytes they have together: those are the packets that leave, or
/// multiples of them, where a card is to cut them or has put them together.
fn full(sizes: &BTreeMap<u32, u64>) -> u32 {
    let all: u64 = sizes.values().sum();
    let largest = sizes.keys().rev().find(|size| (1..=LONGEST).contains(*size)).copied();
    let mut usual: Vec<u32> = sizes.keys().copied().collect();
    usual.sort_by_key(|size| std::cmp::Reverse(sizes[size]));
    usual.truncate(SIZES);
    let made_of = |size: u32| sizes.iter().filter(|(of, _)| **of % size == 0).map(|(_, bytes)| *bytes).sum::<u64>();
    let pairs: BTreeSet<u32> = usual.iter().flat_map(|one| usual.iter().map(|other| divisor(*one, *other))).collect();
    // The one that explains most, and of those the largest.
    let explained =
        pairs.into_iter().filter(|size| (SMALLEST..=LONGEST).contains(size)).map(|size| (made_of(size), size));
    let best = explained.max().filter(|(bytes, _)| *bytes as f64 >= SHARE * all as f64);
    best.map(|(_, size)| size).or(largest).unwrap_or(SMALLEST)
}

/// The greatest common divisor.
fn divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { divisor(other, one % other) }
}

/// What a sender has in flight, in bytes.
#[derive(Default)]
struct Sender {
    tcp: Tcp,
    /// When it sent its first data, ns.
    begun: Option<i64>,
    rtt: Option<f64>,
    /// Flights of the last round trip, falling: the first is the largest.
    flights: VecDeque<(f64, f64)>,
    points: Vec<TrajectoryPoint>,
    losses: Vec<f64>,
    probes: u64,
}

impl Sender {
    fn sent(&mut self, at: i64, segment: &SeenSegment) {
        let sent = self.tcp.sent(at, segment);
        if sent == SegmentMeaning::Nothing {
            return;
        }
        let t = seconds(*self.begun.get_or_insert(at), at);
        match sent {
            SegmentMeaning::Again => self.losses.push(t),
            SegmentMeaning::Probe => self.probes += 1,
            SegmentMeaning::New | SegmentMeaning::Nothing => {}
        }
        self.flight(t);
    }

    fn flight(&mut self, t: f64) -> f64 {
        let now = self.tcp.in_flight() as f64;
        while self.flights.back().is_some_and(|(_, flight)| *flight <= now) {
            self.flights.pop_back();
        }
        self.flights.push_back((t, now));
        let rtt = self.rtt.unwrap_or(1.0);
        while self.flights.len() > 1 && self.flights.front().is_some_and(|(at, _)| *at < t - rtt) {
            self.flights.pop_front();
        }
        now
    }

    fn acknowledged(&mut self, at: i64, segment: &SeenSegment, sacks: &[(u32, u32)]) {
        let Some(NewlyAcked { arrived, rtt, .. }) = self.tcp.acknowledged(at, segment, sacks) else { return };
        let Some(begun) = self.begun else { return };
        self.rtt = rtt.map(|nanos| (nanos as f64 / 1e9).max(1e-6)).or(self.rtt);
        let largest = self.flights.front().map_or(0.0, |(_, flight)| *flight);
        let t = seconds(begun, at);
        let in_flight = self.flight(t);
        self.points.push(TrajectoryPoint {
            t,
            window: largest,
            in_flight,
            rtt_ms: self.rtt.map(|rtt| rtt * 1e3),
            delivered: self.points.last().map_or(0.0, |last| last.delivered).max(arrived as f64),
            pacing_mbps: None,
            phase: FlowPhase::Unknown,
        });
    }
}

/// Seconds from one time to another, in nanoseconds.
fn seconds(from: i64, to: i64) -> f64 {
    to.saturating_sub(from).max(0) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_packet_is_found_among_what_cards_cut_and_put_together() {
        let of =
            |sizes: &[(u32, u64)]| full(&sizes.iter().map(|(size, count)| (*size, u64::from(*size) * count)).collect());
        for (sizes, size) in [
            (&[(1448, 100), (752, 1)][..], 1448),
            (&[(1448, 5), (2896, 40), (4344, 30), (65_160, 20), (1234, 1)], 1448),
            // None of which is a packet.
            (&[(2896, 40), (4344, 30), (62_264, 20)], 1448),
            (&[(8948, 100), (62_636, 100)], 8948),
            // An application that writes little.
            (&[(100, 50), (300, 70), (1000, 3)], 1000),
            (&[(65_483, 100)], 536),
            (&[(1, 3)], 1),
            (&[], 536),
        ] {
            assert_eq!(of(sizes), size, "{sizes:?}");
        }
    }
}
