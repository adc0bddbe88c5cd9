//! A qlog of another stack: JSON with traces, and JSON text sequences (also with a text in each line), by the schemas of
//! draft-ietf-quic-qlog-main-schema-09 to -14, of the versions 0.3 and 0.4 before, and of draft-00 to draft-02, whose events are arrays
//! where they have `event_fields`. Three writers are tested: paceline, quinn-proto 0.11.19, whose round trips are in seconds, and
//! picoquic of August 2026; by their forms those of quiche and quic-go.
//!
//! The window, what is in flight, and round trips come from `quic:recovery_metrics_updated`; losses from `quic:packet_lost`; whether
//! they are being repaired from `quic:congestion_state_updated`; the size of packets and what was sent from `quic:packet_sent`; each
//! also under its names before. What is delivered is what was sent and is neither in flight nor lost.
//!
//! qlog has round trips in milliseconds. Time stamps say how long packets were in flight; where every round trip is far below that,
//! the log is one in seconds, and the trajectory has a note of it.

mod event;
mod form;

use std::collections::VecDeque;
use std::io::{BufRead, Read};

use paceline_lab::input::compressed;

use crate::read::FileError;
use crate::trajectory::{FlowPhase, MOST_POINTS, Origin, Trajectory, TrajectoryPoint, median};
use event::Event;
use form::{SEPARATOR, contained, sequence};

/// Bytes of a full packet where no packet was logged (QUIC's smallest, RFC 9000 section 14.1).
const SMALLEST: f64 = 1200.0;
/// Where every round trip is below this share of the time that packets were in flight, the log is in seconds (our choice: those are a
/// thousandth; what waits for a delayed acknowledgement, or is lost, is not ten times as long in the median).
const SECONDS: f64 = 0.1;
/// Fewest packets by which the unit is judged (our choice: a first window).
const FEWEST: usize = 10;
/// What is said of such a log.
const NOTE: &str = "its round trips are in seconds, by its time stamps; qlog has milliseconds: converted";

/// Reads the log of one connection; of several traces in a file the one that says most of a window. A file that is damaged or cut off
/// is read up to there, and has a note of it.
///
/// # Errors
/// [`FileError`] when it is not a qlog of a version that is known here, is damaged at its start or too long, or says nothing of a window.
pub fn read(file: &str, mut from: impl BufRead) -> Result<Trajectory, FileError> {
    let mut head = Vec::new();
    let read = (&mut from).take(8).read_to_end(&mut head);
    read.map_err(|error| FileError::new(file, 0, format!("cannot be read ({error}); name a qlog file")))?;
    if let Some(problem) = compressed(&head) {
        return Err(FileError::new(file, 0, problem));
    }
    let head = head.strip_prefix(&BOM).unwrap_or(&head);
    let whole = head.chain(from);
    let course = match head.first() {
        Some(&SEPARATOR) => sequence(file, whole, SEPARATOR)?,
        _ => contained(file, whole)?,
    };
    course.finish(file)
}

/// The mark that some editors put before UTF-8.
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// What is known so far, in bytes.
#[derive(Default)]
struct Course {
    /// Times are those since the event before.
    delta: bool,
    clock: f64,
    begun: Option<f64>,
    /// Events that are earlier than one before them.
    late: u64,
    now: TrajectoryPoint,
    sent: f64,
    lost: f64,
    largest: f64,
    points: Vec<TrajectoryPoint>,
    losses: Vec<f64>,
    /// Packets in flight in the order of sending: what had been sent with each, and when.
    flying: VecDeque<(f64, f64)>,
    /// Milliseconds that packets were in flight, by their time stamps.
    flights: Vec<f64>,
    /// The longest round trip, as it is written.
    longest: f64,
    /// Why no more was read.
    broken: Option<FileError>,
    notes: Vec<String>,
}

impl Course {
    fn new(delta: bool) -> Self {
        Self { delta, ..Self::default() }
    }

    /// How much it says of a window.
    fn points(&self) -> usize {
        self.points.len()
    }

    fn take(&mut self, event: &Event<'_>) {
        if !event.time.is_finite() || self.points.len() >= MOST_POINTS {
            return;
        }
        self.clock = if event.delta.unwrap_or(self.delta) { self.clock + event.time } else { event.time };
        let begun = *self.begun.get_or_insert(self.clock);
        let t = (self.clock - begun) / 1e3;
        // Threads of a sender may log out of order.
        self.late += u64::from(t < self.now.t);
        self.now.t = t.max(self.now.t);
        let data = &event.data;
        match &*event.name {
            "transport:packet_sent" | "quic:packet_sent" => {
                let length = data.length;
                self.sent += length.unwrap_or(SMALLEST);
                self.largest = self.largest.max(length.unwrap_or(0.0));
                if self.flying.len() < MOST_POINTS {
                    self.flying.push_back((self.sent, self.now.t));
                }
            }
            "recovery:packet_lost" | "quic:packet_lost" => {
                self.lose(1.0, data.length.unwrap_or(self.largest.max(SMALLEST)));
            }
            // mvfst tells of all at once.
            "loss:packets_lost" => {
                if let Some((packets, bytes)) = data.lost {
                    self.lose(packets, bytes);
                }
            }
            "recovery:congestion_state_updated" | "quic:congestion_state_updated" => {
                self.now.phase = match data.new.as_deref().unwrap_or_default() {
                    name if name.eq_ignore_ascii_case("recovery") => FlowPhase::Repairing,
                    // picoquic writes the number of a state of the controller's own.
                    number if number.bytes().all(|digit| digit.is_ascii_digit()) => FlowPhase::Unknown,
                    _ => FlowPhase::Open,
                };
                self.push();
            }
            "recovery:metrics_updated"
            | "recovery:recovery_metrics_updated"
            | "quic:metrics_updated"
            | "quic:recovery_metrics_updated"
            // mvfst's.
            | "recovery:metric_update"
            | "recovery:congestion_metric_update"
            | "metric_update:congestion_metric_update" => {
                self.now.window = data.congestion_window.and_then(sane).unwrap_or(self.now.window);
                self.now.in_flight = data.bytes_in_flight.and_then(sane).unwrap_or(self.now.in_flight);
                let rtt = data.latest_rtt.or(data.smoothed_rtt).and_then(sane).filter(|rtt| *rtt > 0.0);
                self.now.rtt_ms = rtt.or(self.now.rtt_ms);
                self.longest = self.longest.max(rtt.unwrap_or(0.0));
                self.land();
                self.now.pacing_mbps = data.pacing_rate.and_then(sane).map(|bits| bits / 1e6).or(self.now.pacing_mbps);
                self.push();
            }
            _ => {}
        }
    }

    fn lose(&mut self, packets: f64, bytes: f64) {
        self.lost += bytes;
        for _ in 0..packets as usize {
            if self.losses.len() >= MOST_POINTS {
                break;
            }
            self.losses.push(self.now.t);
        }
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

    fn push(&mut self) {
        self.now.delivered = (self.sent - self.lost - self.now.in_flight).max(self.now.delivered);
        // Before the first window there is nothing to judge.
        if self.now.window > 0.0 {
            self.points.push(self.now);
        }
    }

    fn finish(mut self, file: &str) -> Result<Trajectory, FileError> {
        if self.points.is_empty() {
            if let Some(broken) = self.broken {
                return Err(broken);
            }
            let problem = "it says nothing of a congestion window (quic:recovery_metrics_updated, or recovery:metrics_updated before); log those events too";
            return Err(FileError::new(file, 0, problem));
        }
        let mss = if self.largest > 0.0 { self.largest } else { SMALLEST };
        let mut trajectory = Trajectory::new(file, Origin::Qlog, mss);
        let unit = if self.in_seconds() { 1e3 } else { 1.0 };
        trajectory.notes = self.notes;
        if let Some(FileError { problem, .. }) = self.broken {
            let problem = problem.trim_end_matches("; give the whole file");
            trajectory.notes.push(format!("Read up to where {problem}."));
        }
        if self.late > 0 {
            trajectory.notes.push(format!(
                "Its events are not in the order of time ({} stand behind a later one): each of those counts at the time of the one before.",
                self.late
            ));
        }
        if unit > 1.0 {
            trajectory.notes.push(NOTE.to_owned());
        }
        trajectory.points = self.points;
        for point in &mut trajectory.points {
            point.window /= mss;
            point.in_flight /= mss;
            point.delivered /= mss;
            point.rtt_ms = point.rtt_ms.map(|rtt| rtt * unit);
        }
        trajectory.losses = self.losses;
        Ok(trajectory)
    }
}

/// What a length, a rate or a time may be.
fn sane(value: f64) -> Option<f64> {
    (value.is_finite() && (0.0..1e15).contains(&value)).then_some(value)
}
