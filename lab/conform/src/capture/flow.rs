//! Flows of a capture, and what is in flight of one.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use super::packet::{CapturePlace, CapturedPacket};
use super::{Copies, FourTuple, NewlyAcked, SeenSegment, SegmentMeaning, Tcp};
use crate::read::FileError;
use crate::trajectory::{FlowPhase, Origin, Trajectory, TrajectoryPoint};

/// Most segments that are kept (our choice: about 250 MB).
const MOST_SEGMENTS: usize = 6_000_000;
/// Bytes of a full packet where none was larger (RFC 9293 section 3.7.1).
const SMALLEST: f64 = 536.0;

/// The segments of a capture.
#[derive(Default)]
pub(super) struct Flows {
    ends: BTreeMap<(SocketAddr, SocketAddr), u32>,
    segments: Vec<Kept>,
    sent: Vec<u64>,
    /// The hop that each enters first, where links are emulated.
    first: Vec<Option<u32>>,
    copies: Copies,
}

#[derive(Clone, Copy)]
struct Kept {
    at: i64,
    place: CapturePlace,
    flow: u32,
    segment: SeenSegment,
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
        self.segments.push(Kept { at: packet.at, place: packet.place, flow, segment });
        Ok(())
    }

    fn largest(&self) -> Option<FourTuple> {
        let most = self.ends.iter().max_by_key(|(_, flow)| self.sent[**flow as usize])?;
        Some(FourTuple { from: most.0.0, to: most.0.1 })
    }

    pub(super) fn trajectory(mut self, file: &str, wanted: Option<FourTuple>) -> Result<Trajectory, FileError> {
        let Some(largest) = self.largest() else {
            return Err(FileError::new(file, 0, "it has no TCP segments; capture a TCP flow at its sender"));
        };
        let FourTuple { from, to } = wanted.unwrap_or(largest);
        let Some(&flow) = self.ends.get(&(from, to)) else {
            let problem = format!("it has no flow {from}-{to}; the largest of its {} is {largest}", self.ends.len());
            return Err(FileError::new(file, 0, problem));
        };
        let back = self.ends.get(&(to, from)).copied();
        // Those that came too late for their place in the reader's order.
        self.segments.sort_by_key(|kept| kept.at);
        let mut sender = Sender::default();
        for kept in &self.segments {
            match kept.place {
                CapturePlace::Anywhere | CapturePlace::Entered(_) if kept.flow == flow => {
                    sender.sent(kept.at, &kept.segment);
                }
                CapturePlace::Anywhere | CapturePlace::Left(_) if Some(kept.flow) == back => {
                    sender.acknowledged(kept.at, &kept.segment);
                }
                _ => {}
            }
        }
        let mss = if sender.largest > 0.0 { sender.largest } else { SMALLEST };
        let mut trajectory = Trajectory::new(format!("{file} {from}-{to}"), Origin::Packets, mss);
        for mut point in sender.points {
            point.window /= mss;
            point.in_flight /= mss;
            point.delivered /= mss;
            trajectory.push(point);
        }
        trajectory.losses = sender.losses;
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

/// What a sender has in flight, in bytes.
#[derive(Default)]
struct Sender {
    tcp: Tcp,
    /// When it sent its first data, ns.
    begun: Option<i64>,
    largest: f64,
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
        // Captures before segmentation offload have long segments.
        if segment.bytes <= 9000 {
            self.largest = self.largest.max(f64::from(segment.bytes));
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

    fn acknowledged(&mut self, at: i64, segment: &SeenSegment) {
        let Some(NewlyAcked { una, rtt }) = self.tcp.acknowledged(at, segment) else { return };
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
            delivered: una as f64,
            pacing_mbps: None,
            phase: FlowPhase::Unknown,
        });
    }
}

/// Seconds from one time to another, in nanoseconds.
fn seconds(from: i64, to: i64) -> f64 {
    to.saturating_sub(from).max(0) as f64 / 1e9
}
