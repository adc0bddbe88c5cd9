//! One connection of a qlog as a trajectory, step by step.

use std::collections::VecDeque;

use super::event::Step;
use crate::trajectory::{FlowPhase, MOST_POINTS, Origin, Trajectory, TrajectoryPoint, median};

/// Bytes of a full packet where no packet was logged (QUIC's smallest, RFC 9000 section 14.1).
const SMALLEST: f64 = 1200.0;
/// Where every round trip is below this share of the time that packets were in flight, the log is in seconds (our choice: those are a
/// thousandth; what waits for a delayed acknowledgement, or is lost, is not ten times as long in the median).
const SECONDS: f64 = 0.1;
/// Fewest packets by which the unit is judged (our choice: a first window).
const FEWEST: usize = 10;
/// Above this many times its pace nothing is delivered: the pace is in bytes (our choice: between 1 and 8, evenly).
const BYTES: f64 = 2.8;
/// Least seconds between two points where nothing changes (our choice: below every round trip here).
const SPACING: f64 = 0.001;
/// Most changes of state that are kept (our choice).
const MOST_STATES: usize = 100_000;
/// What is said of a log in seconds.
const NOTE: &str = "its round trips are in seconds, by its time stamps; qlog has milliseconds: converted";
/// What is said of a log with a pace in bytes.
const PACE_NOTE: &str = "its pacing rate is in bytes per second, by what was delivered; qlog has bits: converted";

/// What is known of a connection so far, in bytes.
#[derive(Default)]
pub(super) struct Course {
    /// The clock of its first event, in ms.
    begun: Option<f64>,
    now: TrajectoryPoint,
    /// What came last, when, and what had been sent and not lost then; until something more is said of the sender.
    heard: Option<(f64, f64)>,
    /// The last step was a packet that left, at this time.
    left: Option<f64>,
    /// What is in flight is said when packets leave, and not only when some are acknowledged.
    said_at_sending: bool,
    /// Largest bytes of a packet, as the sender counts them.
    datagram: Option<f64>,
    sent: f64,
    lost: f64,
    largest: f64,
    points: Vec<TrajectoryPoint>,
    losses: Vec<f64>,
    states: Vec<(f64, String)>,
    /// Packets in flight in the order of sending: what had been sent with each, and when.
    flying: VecDeque<(f64, f64)>,
    /// Milliseconds that packets were in flight, by their time stamps.
    flights: Vec<f64>,
    /// Round trips are those of samples.
    sampled: bool,
    /// The longest round trip, as it is written.
    longest: f64,
}

impl Course {
    /// How much it says of a window.
    pub(super) fn points(&self) -> usize {
        self.points.len()
    }

    /// Something happened at this time, whatever it was.
    pub(super) fn begin(&mut self, clock: f64) {
        self.begun =
            Some(self.begun.map_or(clock, |begun| if self.points.is_empty() { begun.min(clock) } else { begun }));
    }

    /// The next step, at this time in ms. At most `room` more is remembered.
    pub(super) fn take(&mut self, clock: f64, step: Step, room: &mut usize) {
        let begun = *self.begun.get_or_insert(clock);
        if *room == 0 || self.points.len() >= MOST_POINTS {
            return;
        }
        let before = self.remembered();
        if self.heard.is_some_and(|(at, _)| (clock - begun) / 1e3 > at) {
            self.unchanged();
        }
        self.now.t = ((clock - begun) / 1e3).max(self.now.t);
        let left = self.left.take();
        match step {
            Step::Heard => self.heard = Some((self.now.t, self.sent - self.lost)),
            Step::Sent { length, payload } => {
                // A packet that is longer than what the sender counts in has headers that it does not count.
                let above = |length: &f64| self.datagram.is_none_or(|datagram| *length <= datagram);
                let length = length.filter(above).or(payload.filter(above)).or(length);
                self.sent += length.unwrap_or(SMALLEST);
                self.largest = self.largest.max(length.unwrap_or(0.0));
                if self.flying.len() < MOST_POINTS {
                    self.flying.push_back((self.sent, self.now.t));
                }
                self.left = Some(self.now.t);
            }
            Step::Lost { packets, bytes } => self.lose(packets, bytes.unwrap_or(packets * self.largest.max(SMALLEST))),
            Step::Datagram(bytes) => self.datagram = Some(bytes),
            Step::State(name) => {
                self.now.phase = match name.as_str() {
                    // neqo has a `recovery_start` besides.
                    name if name.starts_with("recovery") => FlowPhase::Repairing,
                    // picoquic writes the number of a state of the controller's own.
                    number if number.bytes().all(|digit| digit.is_ascii_digit()) => FlowPhase::Unknown,
                    _ => FlowPhase::Open,
                };
                if self.states.len() < MOST_STATES && self.states.last().is_none_or(|(_, last)| *last != name) {
                    self.states.push((self.now.t, name));
                }
                self.push();
            }
            Step::Metrics { window, in_flight, latest, smoothed, pacing } => {
                // Only what changed is said: a newer smoothed one says nothing of the latest.
                self.sampled |= latest.is_some();
                let rtt = latest.filter(|rtt| *rtt > 0.0).or(smoothed.filter(|_| !self.sampled));
                self.heard = None;
                self.said_at_sending |= left == Some(self.now.t);
                self.now.window = window.unwrap_or(self.now.window);
                self.now.in_flight = in_flight.unwrap_or(self.now.in_flight);
                self.now.rtt_ms = rtt.or(self.now.rtt_ms);
                self.longest = self.longest.max(rtt.unwrap_or(0.0));
                self.land();
                self.now.pacing_mbps = pacing.map(|bits| bits / 1e6).or(self.now.pacing_mbps);
                self.push();
            }
        }
        *room = room.saturating_sub(self.remembered().saturating_sub(before));
    }

    fn remembered(&self) -> usize {
        self.points.len() + self.losses.len() + self.states.len() + self.flying.len() + self.flights.len()
    }

    fn lose(&mut self, packets: f64, bytes: f64) {
        self.lost += bytes;
        let room = MOST_POINTS.saturating_sub(self.losses.len());
        self.losses.extend(std::iter::repeat_n(self.now.t, (packets as usize).min(room)));
    }

    /// Takes packets out of the flight, the oldest first, until it is what the log says.
    fn land(&mut self) {
        let landed = self.sent - self.now.in_flight;
        while let Some((_, at)) = self.flying.pop_front_if(|(sent, _)| *sent <= landed) {
            if self.flights.len() < MOST_POINTS {
                self.flights.push((self.now.t - at) * 1e3);
            }
        }
    }

    /// Whether round trips are in seconds.
    fn in_seconds(&mut self) -> bool {
        let flights = std::mem::take(&mut self.flights);
        let enough = flights.len() >= FEWEST && self.longest > 0.0;
        enough && median(flights).is_some_and(|flight| self.longest < SECONDS * flight)
    }

    /// Whether the pace is in bytes: what was delivered is far above what its median allows.
    fn paces_in_bytes(&self) -> bool {
        let paces: Vec<f64> = self.points.iter().filter_map(|point| point.pacing_mbps).collect();
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return false };
        let delivered = (last.delivered - first.delivered) * 8e-6 / (last.t - first.t).max(1e-9);
        paces.len() >= FEWEST && median(paces).is_some_and(|pace| delivered > BYTES * pace)
    }

    /// Nothing was said of the sender after a packet came: all is as it was before, and what has been sent since is delivered.
    fn unchanged(&mut self) {
        let Some((t, sent)) = self.heard.take() else { return };
        let last = self.points.last().map_or(t, |point| point.t);
        if self.said_at_sending || t - last < SPACING {
            return;
        }
        self.now.delivered = (sent - self.now.in_flight).max(self.now.delivered);
        self.points.push(TrajectoryPoint { t, ..self.now });
    }

    fn push(&mut self) {
        self.now.delivered = (self.sent - self.lost - self.now.in_flight).max(self.now.delivered);
        // Before the first window there is nothing to judge.
        if self.now.window > 0.0 {
            self.points.push(self.now);
        }
    }

    /// All of it, in packets.
    pub(super) fn finish(mut self, name: &str, mut notes: Vec<String>) -> Trajectory {
        let mss = if self.largest > 0.0 { self.largest } else { self.datagram.unwrap_or(SMALLEST) };
        let mut trajectory = Trajectory::new(name, Origin::Qlog, mss);
        let unit = if self.in_seconds() { 1e3 } else { 1.0 };
        if unit > 1.0 {
            notes.push(NOTE.to_owned());
        }
        let bytes = if self.paces_in_bytes() { 8.0 } else { 1.0 };
        if bytes > 1.0 {
            notes.push(PACE_NOTE.to_owned());
        }
        trajectory.notes = notes;
        trajectory.points = self.points;
        for point in &mut trajectory.points {
            point.window /= mss;
            point.in_flight /= mss;
            point.delivered /= mss;
            point.rtt_ms = point.rtt_ms.map(|rtt| rtt * unit);
            point.pacing_mbps = point.pacing_mbps.map(|pace| pace * bytes);
        }
        trajectory.losses = self.losses;
        trajectory.states = self.states;
        trajectory
    }
}
