//! One qlog file for each flow, as its sender saw it; opens in qvis.
//!
//! JSON text sequences (RFC 7464) with the qlog main schema 0.3 (draft-ietf-quic-qlog-main-schema-02) and its events for
//! transport and recovery (draft-ietf-quic-qlog-quic-events-01). What a TCP or datagram flow has no word for is said so:
//!
//! - Packets are numbered in the order of sending, retransmissions anew. Every packet is a `1RTT` one; its data is a
//!   `stream` frame of stream 0, a heartbeat is a `ping`.
//! - An acknowledgement is a received packet with an `ack` frame of the packets that it newly delivered, or of the
//!   largest one so far where it delivered none.
//! - Senders say how many packets they have declared lost, not which: these are the ones sent first among those still
//!   out (RACK, RFC 8985, and time-outs go by the time of sending).
//! - `recovery` lasts until everything sent before it has been acknowledged; `slow_start` while the controller says
//!   that it is starting; all else is `congestion_avoidance`.
//!
//! Events go to the file as they happen: memory does not grow with the length of a run.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use paceline_cc::{Nanos, Pacing, Time};
use paceline_sim::Tap;
use paceline_transport::{AckSegment, Segment, Sender};
use serde_json::json;

use crate::output::{Draft, OutputError};

/// Most flows logged of a world (our choice: each holds a file open).
pub const MAX_FLOWS: usize = 64;

/// A log could not be written.
#[derive(Debug, thiserror::Error)]
#[error("qlog folder {}: {source}; name a folder you can write to", folder.display())]
pub struct QlogError {
    /// The folder.
    pub folder: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

/// Logs the flows of one world; give it to [`paceline_sim::run`], then call [`Qlog::finish`].
#[derive(Debug)]
pub struct Qlog {
    folder: PathBuf,
    name: String,
    description: String,
    flows: Vec<Log>,
    failed: Option<io::Error>,
}

impl Qlog {
    /// Logs into `folder` (made where it is missing) as `NAME-FLOW.sqlog`, flows counted from 1; `name` is the
    /// contestant, `description` says what was run. Of many flows the first [`MAX_FLOWS`] are logged.
    ///
    /// # Errors
    /// [`QlogError`] when the folder cannot be made.
    pub fn new(folder: &Path, name: &str, description: &str) -> Result<Self, QlogError> {
        std::fs::create_dir_all(folder).map_err(|source| QlogError { folder: folder.to_owned(), source })?;
        Ok(Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            flows: Vec::new(),
            failed: None,
        })
    }

    /// Completes the files and gives their paths. Without this call none is left behind.
    ///
    /// # Errors
    /// [`QlogError`] when anything could not be written; the flows already completed stay.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, QlogError> {
        let fail = |source| QlogError { folder: self.folder.clone(), source };
        if let Some(source) = self.failed.take() {
            return Err(fail(source));
        }
        let mut paths = Vec::new();
        for (number, log) in self.flows.into_iter().enumerate() {
            log.file.finish().map_err(|error| fail(error.source))?;
            paths.push(place(&self.folder, &self.name, number));
        }
        Ok(paths)
    }

    fn with(&mut self, flow: u32, event: impl FnOnce(&mut Log) -> io::Result<()>) {
        let flow = flow as usize;
        if self.failed.is_some() || flow >= MAX_FLOWS {
            return;
        }
        while self.flows.len() <= flow {
            let number = self.flows.len();
            let title = format!("{} flow {}", self.name, number + 1);
            match Log::open(&place(&self.folder, &self.name, number), &title, &self.description) {
                Ok(log) => self.flows.push(log),
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            }
        }
        if let Err(error) = event(&mut self.flows[flow]) {
            self.failed = Some(error);
        }
    }
}

impl Tap for Qlog {
    fn on_sent(&mut self, now: Time, flow: u32, segment: &Segment) {
        self.with(flow, |log| log.sent(now, segment));
    }

    fn on_ack(&mut self, now: Time, flow: u32, ack: &AckSegment, sender: &dyn Sender) {
        self.with(flow, |log| {
            log.received(now, ack)?;
            let delivered = !log.acked.is_empty();
            let rtt = delivered.then(|| now - ack.echo_sent_at);
            log.state(now, sender, Some(ack.cumulative), rtt)
        });
    }

    fn on_timer(&mut self, now: Time, flow: u32, sender: &dyn Sender) {
        self.with(flow, |log| log.state(now, sender, None, None));
    }
}

/// The file of a flow, whose contestant's name loses what file systems do not take.
fn place(folder: &Path, name: &str, flow: usize) -> PathBuf {
    let taken = |c: char| if c.is_ascii_alphanumeric() || "@.=_-".contains(c) { c } else { '-' };
    folder.join(format!("{}-{}.sqlog", name.chars().map(taken).collect::<String>(), flow + 1))
}

/// The controller says that it is starting up.
fn starting(sender: &dyn Sender) -> bool {
    let mut says = false;
    sender.controller().describe(&mut |name, value| says |= matches!(name, "starting" | "slow_start") && value > 0.0);
    says
}

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
struct Out {
    number: u64,
    bytes: u32,
}

/// What a sender last reported, in the units of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Metrics {
    window: u64,
    in_flight: u64,
    smoothed_rtt: Option<Nanos>,
    latest_rtt: Option<Nanos>,
    min_rtt: Option<Nanos>,
    pacing_bps: Option<u64>,
}

#[derive(Debug)]
struct Log {
    file: Draft,
    sent: u64,
    acks: u64,
    /// Latest transmission of the data at each position, until it is acknowledged.
    by_position: BTreeMap<u64, Out>,
    /// Positions of the packets in flight, by number.
    by_number: BTreeMap<u64, u64>,
    largest_acked: Option<u64>,
    /// Acknowledgements name single datagrams: one past the highest byte seen says nothing about those below.
    datagrams: bool,
    lost: u64,
    metrics: Metrics,
    congestion: Option<&'static str>,
    setbacks: u64,
    /// Recovery ends when everything below this has been acknowledged.
    recover: Option<u64>,
    next_position: u64,
    acked: Vec<u64>,
}

impl Log {
    fn open(path: &Path, title: &str, description: &str) -> io::Result<Self> {
        let mut file = Draft::create(path).map_err(|OutputError { source, .. }| source)?;
        let header = json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": title,
            "description": description,
            "trace": {
                "vantage_point": { "name": "sender", "type": "server" },
                "title": title,
                "description": description,
                "common_fields": { "time_format": "relative", "reference_time": 0.0, "protocol_type": ["paceline"] },
            },
        });
        writeln!(file, "\u{1e}{header}")?;
        Ok(Self {
            file,
            sent: 0,
            acks: 0,
            by_position: BTreeMap::new(),
            by_number: BTreeMap::new(),
            largest_acked: None,
            datagrams: false,
            lost: 0,
            metrics: Metrics::default(),
            congestion: None,
            setbacks: 0,
            recover: None,
            next_position: 0,
            acked: Vec::new(),
        })
    }

    /// Starts an event; its data and two closing braces follow.
    fn event(&mut self, now: Time, name: &str) -> io::Result<()> {
        write!(self.file, "\u{1e}{{\"time\":{:.3},\"name\":\"{name}\",\"data\":{{", now.as_millis_f64())
    }

    fn sent(&mut self, now: Time, segment: &Segment) -> io::Result<()> {
        let number = self.sent;
        self.sent += 1;
        self.event(now, "transport:packet_sent")?;
        write!(
            self.file,
            r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"raw":{{"length":{},"payload_length":{}}},"#,
            segment.wire_bytes(),
            segment.bytes
        )?;
        if segment.bytes == 0 {
            return writeln!(self.file, r#""frames":[{{"frame_type":"ping"}}]}}}}"#);
        }
        self.next_position = self.next_position.max(segment.seq + u64::from(segment.bytes));
        if let Some(old) = self.by_position.insert(segment.seq, Out { number, bytes: segment.bytes }) {
            self.by_number.remove(&old.number);
        }
        self.by_number.insert(number, segment.seq);
        writeln!(
            self.file,
            r#""frames":[{{"frame_type":"stream","stream_id":0,"offset":{},"length":{}}}]}}}}"#,
            segment.seq, segment.bytes
        )
    }

    fn received(&mut self, now: Time, ack: &AckSegment) -> io::Result<()> {
        self.datagrams |= ack.sacks().first().is_some_and(|range| range.end <= ack.cumulative);
        self.acked.clear();
        if !self.datagrams {
            self.take(0, ack.cumulative);
        }
        for range in ack.sacks() {
            self.take(range.start, range.end);
        }
        self.acked.sort_unstable();
        self.largest_acked = self.largest_acked.max(self.acked.last().copied());
        let number = self.acks;
        self.acks += 1;
        self.event(now, "transport:packet_received")?;
        write!(
            self.file,
            r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"raw":{{"length":{}}},"frames":["#,
            ack.wire_bytes()
        )?;
        if let Some(largest) = self.largest_acked {
            write!(self.file, r#"{{"frame_type":"ack","acked_ranges":["#)?;
            if self.acked.is_empty() {
                write!(self.file, "[{largest},{largest}]")?;
            }
            let mut runs = self.acked.chunk_by(|a, b| a + 1 == *b).peekable();
            while let Some(run) = runs.next() {
                let comma = if runs.peek().is_some() { "," } else { "" };
                write!(self.file, "[{},{}]{comma}", run[0], run[run.len() - 1])?;
            }
            write!(self.file, "]")?;
            if ack.ce_packets > 0 {
                write!(self.file, r#","ce":{}"#, ack.ce_packets)?;
            }
            write!(self.file, "}}")?;
        }
        writeln!(self.file, "]}}}}")
    }

    /// Takes the packets off whose data lies between two positions.
    fn take(&mut self, start: u64, end: u64) {
        while let Some((position, out)) =
            self.by_position.range(start..end).find(|(p, out)| *p + u64::from(out.bytes) <= end).map(|(p, o)| (*p, *o))
        {
            self.by_position.remove(&position);
            self.by_number.remove(&out.number);
            self.acked.push(out.number);
        }
    }

    /// What the sender reports after an event: losses, congestion state, metrics.
    fn state(&mut self, now: Time, sender: &dyn Sender, cumulative: Option<u64>, rtt: Option<Nanos>) -> io::Result<()> {
        let stats = sender.stats();
        while self.lost < stats.packets_lost {
            self.lost += 1;
            let Some((number, position)) = self.by_number.pop_first() else { continue };
            if self.datagrams {
                self.by_position.remove(&position);
            }
            self.event(now, "recovery:packet_lost")?;
            writeln!(self.file, r#""header":{{"packet_type":"1RTT","packet_number":{number}}}}}}}"#)?;
        }
        self.congestion_state(now, sender, cumulative)?;
        self.metrics(now, sender, rtt)
    }

    fn congestion_state(&mut self, now: Time, sender: &dyn Sender, cumulative: Option<u64>) -> io::Result<()> {
        let stats = sender.stats();
        if stats.recoveries + stats.timeouts > self.setbacks {
            self.setbacks = stats.recoveries + stats.timeouts;
            self.recover = Some(self.next_position);
        }
        if self.recover.zip(cumulative).is_some_and(|(recover, cumulative)| cumulative >= recover) {
            self.recover = None;
        }
        let state = match self.recover {
            Some(_) => "recovery",
            None if starting(sender) => "slow_start",
            None => "congestion_avoidance",
        };
        if self.congestion == Some(state) {
            return Ok(());
        }
        self.event(now, "recovery:congestion_state_updated")?;
        if let Some(old) = self.congestion.replace(state) {
            write!(self.file, r#""old":"{old}","#)?;
        }
        writeln!(self.file, r#""new":"{state}"}}}}"#)
    }

    fn metrics(&mut self, now: Time, sender: &dyn Sender, rtt: Option<Nanos>) -> io::Result<()> {
        let latest_rtt = rtt.or(self.metrics.latest_rtt);
        let metrics = Metrics {
            window: sender.window(),
            in_flight: sender.in_flight(),
            smoothed_rtt: sender.srtt(),
            latest_rtt,
            min_rtt: latest_rtt.into_iter().chain(self.metrics.min_rtt).min(),
            pacing_bps: match sender.controller().pacing() {
                Pacing::Rate(rate) => Some((rate.as_mbps() * 1e6) as u64),
                Pacing::Free | Pacing::Gap(_) => None,
            },
        };
        let old = std::mem::replace(&mut self.metrics, metrics);
        if old == metrics {
            return Ok(());
        }
        self.event(now, "recovery:metrics_updated")?;
        let mut comma = "";
        for (name, new, old) in [
            // Larger numbers lose digits in JSON readers (RFC 8259 section 6).
            ("congestion_window", Some(metrics.window.min(1 << 53)), Some(old.window.min(1 << 53))),
            ("bytes_in_flight", Some(metrics.in_flight), Some(old.in_flight)),
            ("pacing_rate", metrics.pacing_bps, old.pacing_bps),
        ] {
            if let Some(value) = new.filter(|_| new != old) {
                write!(self.file, r#"{comma}"{name}":{value}"#)?;
                comma = ",";
            }
        }
        for (name, new, old) in [
            ("smoothed_rtt", metrics.smoothed_rtt, old.smoothed_rtt),
            ("latest_rtt", metrics.latest_rtt, old.latest_rtt),
            ("min_rtt", metrics.min_rtt, old.min_rtt),
        ] {
            if let Some(value) = new.filter(|_| new != old) {
                write!(self.file, r#"{comma}"{name}":{:.3}"#, value.as_millis_f64())?;
                comma = ",";
            }
        }
        writeln!(self.file, "}}}}")
    }
}

#[cfg(test)]
mod tests;
