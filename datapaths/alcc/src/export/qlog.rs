//! One qlog file for each socket.
//!
//! JSON text sequences (RFC 7464) in the forms of a race's log ([`QlogForm`]). What differs from that: TCP's packets are not seen from
//! above it, so there are no events for them; metrics are samples; what limits a flow is an event of our own,
//! `paceline:limited_by`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use paceline_cc::qlog::{QlogForm, SCHEMA};
use serde_json::{Map, Value, json};

use super::{Line, Process};
use crate::descriptors::lift;

/// Time between samples (our choice: a few per round trip of a cellular path).
const STEP: Duration = Duration::from_millis(50);
/// Most files open at a time (our choice); further sockets are not logged.
const OPEN: usize = 256;

/// The logs of this process.
pub(super) struct Logs {
    folder: PathBuf,
    form: QlogForm,
    process: Process,
    start: Instant,
    due: Instant,
    open: BTreeMap<u64, Log>,
}

struct Log {
    file: BufWriter<File>,
    form: QlogForm,
    /// What times count from: those of today's form from the epoch of the clock, those before from the start of the process's logs.
    zero: Duration,
    last: Line,
}

impl Logs {
    /// Logs into a folder, made where it is missing, as `PROGRAM-PID-SOCKET.sqlog`.
    pub(super) fn open(folder: &Path, form: QlogForm, process: &Process) -> io::Result<Self> {
        fs::create_dir_all(folder).map_err(|error| {
            let text = format!("qlog folder {}: {error}; name a folder you can write to", folder.display());
            io::Error::new(error.kind(), text)
        })?;
        let now = Instant::now();
        let (folder, process) = (folder.to_owned(), process.clone());
        Ok(Self { folder, form, process, start: now, due: now, open: BTreeMap::new() })
    }

    /// When the next sample is to be taken.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Takes a sample. A file that cannot be written is given up; the flow goes on.
    pub(super) fn sample(&mut self, lines: &[Line]) {
        let now = Instant::now();
        self.due = now + STEP;
        self.open.retain(|id, log| {
            let open = lines.iter().any(|line| line.id == *id);
            if !open {
                let _ = log.event(now - self.start, log.form.connection_closed(), &Map::new());
                let _ = log.file.flush();
            }
            open
        });
        for line in lines {
            if !self.open.contains_key(&line.id) {
                if self.open.len() >= OPEN {
                    continue;
                }
                let Ok(log) = self.create(line, now) else { continue };
                self.open.insert(line.id, log);
            }
            let Some(log) = self.open.get_mut(&line.id) else { continue };
            let _ = log.update(now - self.start, line);
        }
    }

    fn create(&self, line: &Line, now: Instant) -> io::Result<Log> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let program: String = self.process.program.chars().map(plain).collect();
        let path = self.folder.join(format!("{program}-{}-{}.sqlog", self.process.pid, line.id));
        let peer = line.peer.map_or_else(String::new, |peer| peer.to_string());
        let title = format!("{} {} to {peer}", self.process.program, line.controller);
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(now - self.start);
        let description = format!("above TCP, mode {}, acknowledgements from {}", line.mode, line.acks);
        let vantage_point = json!({ "name": "sender", "type": "server" });
        // Keys stand in the order of the alphabet: what the file is in its first 256 bytes.
        let header = match self.form {
            QlogForm::Today => json!({
                "file_schema": "urn:ietf:params:qlog:file:sequential",
                "serialization_format": "application/qlog+json-seq",
                "title": title,
                "trace": {
                    "vantage_point": vantage_point,
                    "description": description,
                    "common_fields": {
                        "time_format": "relative_to_epoch",
                        "reference_time": { "clock_type": "system", "epoch": "1970-01-01T00:00:00.000Z" },
                    },
                    "event_schemas": ["urn:ietf:params:qlog:events:quic-13", SCHEMA],
                },
            }),
            QlogForm::V03 => json!({
                "qlog_version": "0.3",
                "qlog_format": "JSON-SEQ",
                "title": title,
                "trace": {
                    "vantage_point": vantage_point,
                    "title": title,
                    "description": description,
                    "common_fields": {
                        "time_format": "relative",
                        "reference_time": epoch.as_secs_f64() * 1e3,
                        "protocol_type": ["paceline"],
                    },
                },
            }),
        };
        let file = File::from(lift(File::create_new(path)?.into())?);
        let zero = if self.form == QlogForm::Today { epoch } else { Duration::ZERO };
        let mut log = Log { file: BufWriter::new(file), form: self.form, zero, last: Line::default() };
        writeln!(log.file, "\u{1e}{header}")?;
        log.event(now - self.start, self.form.connection_started(), &started(self.form, line))?;
        Ok(log)
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.sample(&[]);
    }
}

/// The ends of a connection.
fn started(form: QlogForm, line: &Line) -> Map<String, Value> {
    let mut ends = Map::new();
    for (end, today, before) in [(line.local, "local", "src"), (line.peer, "remote", "dst")] {
        let Some(end) = end else { continue };
        let (address, port) = (json!(end.ip().to_string()), json!(end.port()));
        match form {
            QlogForm::Today => {
                let version = if end.is_ipv4() { "v4" } else { "v6" };
                let endpoint = json!({ format!("ip_{version}"): address, format!("port_{version}"): port });
                ends.insert(today.to_owned(), endpoint);
            }
            QlogForm::V03 => {
                ends.insert(format!("{before}_ip"), address);
                ends.insert(format!("{before}_port"), port);
            }
        }
    }
    ends
}

impl Log {
    fn event(&mut self, at: Duration, name: &str, data: &Map<String, Value>) -> io::Result<()> {
        let time = (self.zero + at).as_secs_f64() * 1e3;
        writeln!(self.file, "\u{1e}{}", json!({ "time": time, "name": name, "data": data }))
    }

    /// Writes what has changed.
    fn update(&mut self, at: Duration, line: &Line) -> io::Result<()> {
        let rate = |line: &Line| json!((line.rate_mbps * 1e6) as u64);
        // Metrics that the drafts do not have.
        let own = |name: &str| if self.form == QlogForm::Today { format!("paceline_{name}") } else { name.to_owned() };
        let mut changed = Map::new();
        for (name, new, old) in [
            // Larger numbers lose digits in JSON readers (RFC 8259 section 6).
            (
                "congestion_window".to_owned(),
                json!(line.window_bytes.min(1 << 53)),
                json!(self.last.window_bytes.min(1 << 53)),
            ),
            ("bytes_in_flight".to_owned(), json!(line.in_flight_bytes), json!(self.last.in_flight_bytes)),
            ("latest_rtt".to_owned(), json!(line.rtt_ms), json!(self.last.rtt_ms)),
            ("smoothed_rtt".to_owned(), json!(line.srtt_ms), json!(self.last.srtt_ms)),
            ("min_rtt".to_owned(), json!(line.min_rtt_ms), json!(self.last.min_rtt_ms)),
            (own("delivery_rate"), rate(line), rate(&self.last)),
            (own("queue_bytes"), json!(line.queue_bytes), json!(self.last.queue_bytes)),
            (own("retransmits"), json!(line.retransmits), json!(self.last.retransmits)),
        ] {
            if new != old && !new.is_null() {
                changed.insert(name, new);
            }
        }
        if !changed.is_empty() {
            self.event(at, self.form.metrics_updated(), &changed)?;
        }
        if line.limited_by != self.last.limited_by {
            let data = [("old", &self.last.limited_by), ("new", &line.limited_by)];
            let data = data.into_iter().filter(|(_, value)| !value.is_empty());
            self.event(at, "paceline:limited_by", &data.map(|(key, value)| (key.to_owned(), json!(value))).collect())?;
        }
        self.last = line.clone();
        Ok(())
    }
}
