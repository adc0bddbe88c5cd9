//! One qlog file for each flow, as its sender saw it; opens in qvis.
//!
//! JSON text sequences (RFC 7464) with the qlog main schema 0.3 (draft-ietf-quic-qlog-main-schema-02) and its events for
//! transport and recovery (draft-ietf-quic-qlog-quic-events-01). What a TCP or datagram flow has no word for is said so:
//!
//! - Packets are numbered in the order of sending, retransmissions too. Every packet is a `1RTT` one; its data is a
//!   `stream` frame of stream 0, a heartbeat is a `ping`. Lengths are of the payload.
//! - An acknowledgement is a received packet with an `ack` frame of the packets that it newly delivered, or of the
//!   largest one so far where it only carried marks. One without news is not there.
//! - Losses come before the acknowledgement that showed them, as a controller is informed of them.
//! - `recovery` lasts until everything sent before it has been acknowledged; `slow_start` while the controller says
//!   that it is starting; all else is `congestion_avoidance`.
//! - What the hops of the path reported is an event of ours, `paceline:telemetry`: the draft has none.
//! - Of a controller above TCP, packets are TCP's, window and state the controller's own.
//!
//! Events go to the file as they happen: memory does not grow with the length of a run.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Ack, Controller, Hop, Lost, Nanos, Pacing, Rate, Sent, Telemetry, Time};
use paceline_experiment::{Layer, Moment, Subject, Tap};
use serde_json::json;

use crate::flow_logs::{FlowLogError, FlowLogs};
use paceline_files::{Draft, OutputError};

/// The schema of the events of namespace `paceline`, by its URI: a placeholder of a reserved name.
pub const SCHEMA: &str = "https://paceline.example/122026/paceline.html";

/// Logs the flows of one world; give it to [`paceline_sim::run`], then call [`Qlog::finish`].
#[derive(Debug)]
pub struct Qlog {
    logs: FlowLogs<u32, Log>,
    description: String,
}

impl Qlog {
    /// Logs into `folder` (made where it is missing) as `NAME-FLOW.sqlog`, flows counted from 1; `name` is the
    /// contestant, `description` says what was run. Of many flows the first [`crate::flow_logs::MAX_FLOWS`] are logged.
    ///
    /// # Errors
    /// [`FlowLogError`] when the folder cannot be made.
    pub fn new(folder: &Path, name: &str, description: &str) -> Result<Self, FlowLogError> {
        Ok(Self { logs: FlowLogs::new("qlog", folder, name)?, description: description.to_owned() })
    }

    /// Completes the files and gives their paths. Without this call none is left behind.
    ///
    /// # Errors
    /// [`FlowLogError`] when anything could not be written; the flows already completed stay.
    pub fn finish(self) -> Result<Vec<PathBuf>, FlowLogError> {
        self.logs.finish(|log| match (log.failed.take(), log.file.take()) {
            (Some(error), _) => Err(error),
            (None, Some(file)) => file.finish().map_err(|OutputError { source, .. }| source),
            (None, None) => Ok(()),
        })
    }
}

impl Tap for Qlog {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let (name, description) = (self.logs.name().to_owned(), &self.description);
        let open =
            |path: &Path, number: usize| Log::open(path, &format!("{name} flow {number}"), description, of.moment);
        let log = self.logs.log(of.flow, of.flow, ".sqlog", open)?;
        if of.layer == Layer::Above {
            log.lock().unwrap_or_else(PoisonError::into_inner).above = true;
        }
        Some(Box::new(Pen { log, layer: of.layer }))
    }
}

/// What one of a flow's controllers writes its log with.
struct Pen {
    log: Arc<Mutex<Log>>,
    layer: Layer,
}

impl Observer for Pen {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.failed.is_none()
            && let Err(error) = log.write(event, controller, self.layer)
        {
            log.failed = Some(error);
        }
    }
}

/// The controller says that it is starting up.
fn starting(controller: &dyn Controller) -> bool {
    let mut says = false;
    controller.describe(&mut |name, value| says |= matches!(name, "starting" | "slow_start") && value > 0.0);
    says
}

/// What the log last said of a sender, in its units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Metrics {
    window: u64,
    in_flight: u64,
    smoothed_rtt: Option<Nanos>,
    latest_rtt: Option<Nanos>,
    min_rtt: Option<Nanos>,
    pacing_bps: Option<u64>,
}

#[derive(Debug, Default)]
struct Log {
    /// Until it is complete.
    file: Option<Draft>,
    failed: Option<io::Error>,
    /// The log is by the world's clock.
    moment: Moment,
    /// A controller above TCP says what window and state are.
    above: bool,
    sent: u64,
    acks: u64,
    /// Numbers of transmissions, by position and time, until their data is settled.
    numbers: BTreeMap<(u64, Time), u64>,
    largest_acked: Option<u64>,
    marks: u64,
    now: Metrics,
    said: Metrics,
    congestion: Option<&'static str>,
    /// Recovery ends when everything below this has been acknowledged.
    recover: Option<u64>,
    next_position: u64,
    acked: Vec<u64>,
}

impl Log {
    fn open(path: &Path, title: &str, description: &str, moment: Moment) -> io::Result<Self> {
        let mut file = Draft::regular(path).map_err(|OutputError { source, .. }| source)?;
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
        Ok(Self { moment, file: Some(file), ..Self::default() })
    }

    /// Writes what an event says: of packets on the path, and of the state of the controller that decides.
    fn write(&mut self, event: &Event<'_>, controller: &dyn Controller, layer: Layer) -> io::Result<()> {
        let now = event.now();
        if layer == Layer::Packets {
            match event {
                Event::Sent(sent, _) => self.packet_sent(sent)?,
                Event::Acked(ack) => self.packet_received(ack)?,
                Event::Lost(loss) => self.packets_lost(now, loss.packets)?,
                Event::Timeout(timeout) => self.packets_lost(now, timeout.packets)?,
                _ => {}
            }
        }
        if (layer == Layer::Above) != self.above {
            return Ok(());
        }
        match event {
            Event::Sent(sent, _) => {
                self.next_position = self.next_position.max(sent.seq + u64::from(sent.bytes));
                self.now.in_flight = sent.in_flight;
                return Ok(());
            }
            Event::Acked(ack) => self.learn(ack),
            Event::Lost(loss) => {
                self.now.in_flight = loss.in_flight;
                if loss.new_episode {
                    self.recover = Some(self.next_position);
                }
            }
            Event::Timeout(timeout) => {
                self.now.in_flight = timeout.in_flight;
                self.recover = Some(self.next_position);
            }
            Event::Spurious(_) => self.recover = None,
            Event::Telemetry(telemetry) => self.telemetry(telemetry)?,
            _ => {}
        }
        self.now.window = controller.window();
        self.now.pacing_bps = match controller.pacing() {
            Pacing::Rate(rate) => Some((rate.as_mbps() * 1e6) as u64),
            Pacing::Free | Pacing::Gap(_) => None,
        };
        self.congestion_state(now, controller)?;
        self.metrics(now)
    }

    fn file(&mut self) -> io::Result<&mut Draft> {
        self.file.as_mut().ok_or_else(|| io::Error::other("an event after the end of the log"))
    }

    /// Starts an event; its data and two closing braces follow.
    fn event(&mut self, now: Time, name: &str) -> io::Result<&mut Draft> {
        let at = self.moment.in_world(now).as_millis_f64();
        let file = self.file()?;
        write!(file, "\u{1e}{{\"time\":{at:.3},\"name\":\"{name}\",\"data\":{{")?;
        Ok(file)
    }

    fn packet_sent(&mut self, sent: &Sent) -> io::Result<()> {
        let Sent { now, seq, bytes, .. } = *sent;
        let number = self.sent;
        self.sent += 1;
        let file = self.event(now, "transport:packet_sent")?;
        write!(
            file,
            r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"raw":{{"payload_length":{bytes}}},"frames":[{{"#
        )?;
        if bytes == 0 {
            return writeln!(file, r#""frame_type":"ping"}}]}}}}"#);
        }
        writeln!(file, r#""frame_type":"stream","stream_id":0,"offset":{seq},"length":{bytes}}}]}}}}"#)?;
        self.numbers.insert((seq, now), number);
        Ok(())
    }

    /// The transmission of that moment; where it became known later, the first after it.
    fn number(&self, seq: u64, sent_at: Time) -> Option<u64> {
        self.numbers.range((seq, sent_at)..=(seq, Time::NEVER)).next().map(|(_, number)| *number)
    }

    fn packet_received(&mut self, ack: &Ack<'_>) -> io::Result<()> {
        self.acked.clear();
        for packet in ack.packets {
            self.acked.extend(self.number(packet.seq, packet.sent_at));
            while let Some((&at, _)) = self.numbers.range((packet.seq, Time::ZERO)..=(packet.seq, Time::NEVER)).next() {
                self.numbers.remove(&at);
            }
        }
        // Datagrams that were lost are not acknowledged.
        while self.numbers.first_key_value().is_some_and(|((seq, _), _)| *seq < ack.una) {
            self.numbers.pop_first();
        }
        self.acked.sort_unstable();
        self.largest_acked = self.largest_acked.max(self.acked.last().copied());
        self.marks += u64::from(ack.ce_packets);
        let Some(largest) = self.largest_acked.filter(|_| !self.acked.is_empty() || ack.ce_packets > 0) else {
            return Ok(());
        };
        let number = self.acks;
        self.acks += 1;
        let (acked, marks) = (std::mem::take(&mut self.acked), self.marks);
        let file = self.event(ack.now, "transport:packet_received")?;
        write!(
            file,
            r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"frames":[{{"frame_type":"ack","acked_ranges":["#
        )?;
        if acked.is_empty() {
            write!(file, "[{largest},{largest}]")?;
        }
        let mut comma = "";
        for run in acked.chunk_by(|a, b| a + 1 == *b) {
            write!(file, "{comma}[{},{}]", run[0], run[run.len() - 1])?;
            comma = ",";
        }
        write!(file, "]")?;
        if marks > 0 {
            write!(file, r#","ce":{marks}"#)?;
        }
        writeln!(file, "}}]}}}}")?;
        self.acked = acked;
        Ok(())
    }

    fn packets_lost(&mut self, now: Time, packets: &[Lost]) -> io::Result<()> {
        for lost in packets {
            let Some(number) = self.number(lost.seq, lost.sent_at) else { continue };
            let file = self.event(now, "recovery:packet_lost")?;
            writeln!(file, r#""header":{{"packet_type":"1RTT","packet_number":{number}}}}}}}"#)?;
        }
        Ok(())
    }

    fn telemetry(&mut self, telemetry: &Telemetry<'_>) -> io::Result<()> {
        let verdict = telemetry.verdict.name();
        let hops: Vec<serde_json::Value> = telemetry.hops.iter().map(hop).collect();
        let fresh_ms = telemetry.fresh_for.as_nanos() as f64 / 1e6;
        let file = self.event(telemetry.now, "paceline:telemetry")?;
        writeln!(
            file,
            r#""verdict":"{verdict}","fresh_for":{fresh_ms:.3},"hops":{}}}}}"#,
            serde_json::Value::from(hops)
        )
    }

    fn learn(&mut self, ack: &Ack<'_>) {
        self.now.in_flight = ack.in_flight;
        self.now.latest_rtt = ack.rtt.or(self.now.latest_rtt);
        self.now.smoothed_rtt = (ack.srtt > Nanos::ZERO).then_some(ack.srtt);
        self.now.min_rtt = (ack.min_rtt < Nanos::MAX).then_some(ack.min_rtt);
        if self.recover.is_some_and(|recover| ack.una >= recover) {
            self.recover = None;
        }
    }

    fn congestion_state(&mut self, now: Time, controller: &dyn Controller) -> io::Result<()> {
        let state = match self.recover {
            Some(_) => "recovery",
            None if starting(controller) => "slow_start",
            None => "congestion_avoidance",
        };
        if self.congestion == Some(state) {
            return Ok(());
        }
        let old = self.congestion.replace(state);
        let file = self.event(now, "recovery:congestion_state_updated")?;
        if let Some(old) = old {
            write!(file, r#""old":"{old}","#)?;
        }
        writeln!(file, r#""new":"{state}"}}}}"#)
    }

    fn metrics(&mut self, now: Time) -> io::Result<()> {
        let new = self.now;
        let old = std::mem::replace(&mut self.said, new);
        if old == new {
            return Ok(());
        }
        let file = self.event(now, "recovery:metrics_updated")?;
        let mut comma = "";
        for (name, new, old) in [
            // Larger numbers lose digits in JSON readers (RFC 8259 section 6).
            ("congestion_window", Some(new.window.min(1 << 53)), Some(old.window.min(1 << 53))),
            ("bytes_in_flight", Some(new.in_flight), Some(old.in_flight)),
            ("pacing_rate", new.pacing_bps, old.pacing_bps),
        ] {
            if let Some(value) = new.filter(|_| new != old) {
                write!(file, r#"{comma}"{name}":{value}"#)?;
                comma = ",";
            }
        }
        for (name, new, old) in [
            ("smoothed_rtt", new.smoothed_rtt, old.smoothed_rtt),
            ("latest_rtt", new.latest_rtt, old.latest_rtt),
            ("min_rtt", new.min_rtt, old.min_rtt),
        ] {
            if let Some(value) = new.filter(|_| new != old) {
                write!(file, r#"{comma}"{name}":{:.3}"#, value.as_millis_f64())?;
                comma = ",";
            }
        }
        writeln!(file, "}}}}")
    }
}

/// What a hop reported, without what it did not. Rates in bits per second, as qlog has them.
fn hop(hop: &Hop) -> serde_json::Value {
    let bits = |rate: Option<Rate>| rate.map(|rate| rate.as_bytes_per_sec().saturating_mul(8));
    let mut value = json!({
        "id": hop.id,
        "queue_bytes": hop.queue_bytes,
        "room_packets": hop.room_packets,
        "limit_packets": hop.limit_packets,
        "capacity": bits(hop.capacity),
        "arrival": bits(hop.arrival),
        "flows": hop.flows,
        "drops": hop.drops,
    });
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

#[cfg(test)]
mod tests;
