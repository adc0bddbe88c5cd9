//! Flows of a capture, and what is in flight of one.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use pcap_file::DataLink;

use super::FourTuple;
use super::packet::{Segment, segment};
use crate::read::ReadError;
use crate::trajectory::{Origin, Phase, Point, Trajectory};

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
}

#[derive(Clone, Copy)]
struct Kept {
    at: Duration,
    /// Seconds since the first segment.
    t: f64,
    flow: u32,
    seq: u32,
    ack: u32,
    bytes: u32,
    syn: bool,
}

impl Flows {
    pub(super) fn take(
        &mut self,
        file: &str,
        number: u64,
        at: Duration,
        link: DataLink,
        frame: &[u8],
    ) -> Result<(), ReadError> {
        let Some(Segment { from, to, seq, ack, bytes, syn }) = segment(link, frame) else { return Ok(()) };
        if self.segments.len() >= MOST_SEGMENTS {
            let problem =
                "it has more than 6 million TCP segments; cut it (editcap -c), or filter the flow (tcpdump port N)";
            return Err(ReadError::new(file, number, problem));
        }
        let next = self.sent.len() as u32;
        let flow = *self.ends.entry((from, to)).or_insert(next);
        if flow == next {
            self.sent.push(0);
        }
        self.sent[flow as usize] += u64::from(bytes);
        self.segments.push(Kept { at, t: 0.0, flow, seq, ack, bytes, syn });
        Ok(())
    }

    fn largest(&self) -> Option<FourTuple> {
        let most = self.ends.iter().max_by_key(|(_, flow)| self.sent[**flow as usize])?;
        Some(FourTuple { from: most.0.0, to: most.0.1 })
    }

    /// Captures of several interfaces are not in the order of time.
    fn order(&mut self) {
        self.segments.sort_by_key(|segment| segment.at);
        let begun = self.segments.first().map_or(Duration::ZERO, |first| first.at);
        self.segments.iter_mut().for_each(|segment| segment.t = (segment.at - begun).as_secs_f64());
    }

    pub(super) fn trajectory(mut self, file: &str, wanted: Option<FourTuple>) -> Result<Trajectory, ReadError> {
        let Some(largest) = self.largest() else {
            return Err(ReadError::new(file, 0, "it has no TCP segments; capture a TCP flow at its sender"));
        };
        let FourTuple { from, to } = wanted.unwrap_or(largest);
        let Some(&flow) = self.ends.get(&(from, to)) else {
            let problem = format!("it has no flow {from}-{to}; the largest of its {} is {largest}", self.ends.len());
            return Err(ReadError::new(file, 0, problem));
        };
        let back = self.ends.get(&(to, from)).copied();
        self.order();
        let mut sender = Sender::default();
        for segment in &self.segments {
            if segment.flow == flow {
                sender.sent(segment);
            } else if Some(segment.flow) == back {
                sender.acknowledged(segment);
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
        if trajectory.points.is_empty() {
            let problem = format!("{from}-{to} has no acknowledged data; capture both directions at the sender");
            return Err(ReadError::new(file, 0, problem));
        }
        Ok(trajectory)
    }
}

/// What a sender has in flight, in bytes.
#[derive(Default)]
struct Sender {
    first: Option<(u32, f64)>,
    /// Positions after the first byte.
    next: u64,
    una: u64,
    largest: f64,
    /// What is being timed: its end and when it left; none while repairs are under way (Karn).
    timed: Option<(u64, f64)>,
    rtt: Option<f64>,
    /// Flights of the last round trip, falling: the first is the largest.
    flights: VecDeque<(f64, f64)>,
    points: Vec<Point>,
    losses: Vec<f64>,
}

/// Where `value` is after `origin`, near `about`: sequence numbers wrap.
pub fn unwrap(value: u32, origin: u32, about: u64) -> u64 {
    let low = value.wrapping_sub(origin);
    let ahead = low.wrapping_sub(about as u32) as i32;
    about.saturating_add_signed(i64::from(ahead))
}

impl Sender {
    fn sent(&mut self, segment: &Kept) {
        if segment.bytes == 0 || segment.syn {
            return;
        }
        let (origin, _) = *self.first.get_or_insert((segment.seq, segment.t));
        let from = unwrap(segment.seq, origin, self.next);
        let end = from + u64::from(segment.bytes);
        // Captures before segmentation offload have long segments.
        if segment.bytes <= 9000 {
            self.largest = self.largest.max(f64::from(segment.bytes));
        }
        if end <= self.next {
            self.losses.push(segment.t);
            self.timed = None;
        } else {
            self.next = end;
            self.timed = self.timed.or(Some((end, segment.t)));
        }
        self.flight(segment.t);
    }

    fn flight(&mut self, t: f64) -> f64 {
        let now = self.next.saturating_sub(self.una) as f64;
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

    fn acknowledged(&mut self, segment: &Kept) {
        let Some((origin, begun)) = self.first else { return };
        let una = unwrap(segment.ack, origin, self.una).min(self.next);
        if una <= self.una {
            return;
        }
        if let Some((end, at)) = self.timed
            && una >= end
        {
            self.rtt = Some((segment.t - at).max(1e-6));
            self.timed = None;
        }
        let largest = self.flights.front().map_or(0.0, |(_, flight)| *flight);
        self.una = una;
        let in_flight = self.flight(segment.t);
        self.points.push(Point {
            t: (segment.t - begun).max(0.0),
            window: largest,
            in_flight,
            rtt_ms: self.rtt.map(|rtt| rtt * 1e3),
            delivered: una as f64,
            pacing_mbps: None,
            phase: Phase::Unknown,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        let origin = u32::MAX - 10;
        assert_eq!(unwrap(5, origin, 0), 16);
        assert_eq!(unwrap(origin.wrapping_add(100), origin, (1 << 32) + 50), (1 << 32) + 100);
        assert_eq!(unwrap(origin, origin, 3), 0);
    }
}
