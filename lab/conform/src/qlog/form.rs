//! The forms of a qlog file: which versions, one JSON text or a sequence of them, and what an event looks like in each.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Course, sane};
use crate::read::ReadError;

/// Longest file in one piece, bytes: it is in memory as a whole (our choice).
const MOST_CONTAINED: u64 = 256 << 20;
/// Longest record of a sequence, bytes (our choice: an event of some thousand ranges).
const MOST_RECORD: u64 = 1 << 20;
/// Most events (our choice: an hour of a gigabit).
const MOST_EVENTS: u64 = 200_000_000;
/// The versions whose events are objects.
const VERSIONS: [&str; 2] = ["0.3", "0.4"];
/// The version whose events are arrays: names of their places stand before them, times have a unit of their own.
const ARRAYS: &str = "draft-00";

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(default)]
    qlog_version: Option<String>,
    #[serde(default)]
    file_schema: Option<String>,
    #[serde(borrow, default)]
    trace: Option<Trace<'a>>,
    #[serde(borrow, default)]
    traces: Vec<Trace<'a>>,
}

#[derive(Deserialize)]
struct Trace<'a> {
    #[serde(default)]
    common_fields: Common,
    #[serde(default)]
    configuration: Configuration,
    #[serde(default)]
    event_fields: Vec<String>,
    #[serde(borrow, default)]
    events: Vec<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Common {
    #[serde(default)]
    time_format: Option<String>,
}

#[derive(Deserialize, Default)]
struct Configuration {
    #[serde(default)]
    time_units: Option<String>,
}

/// Something that happened; times in milliseconds.
#[derive(Deserialize)]
pub(super) struct Event {
    /// When, or how long after the event before.
    pub time: f64,
    /// Category and type, with a colon between them.
    pub name: String,
    /// What is known of it.
    #[serde(default)]
    pub data: Data,
}

/// The fields that are read, of all events together.
#[derive(Deserialize, Default)]
pub(super) struct Data {
    #[serde(alias = "cwnd")]
    pub congestion_window: Option<f64>,
    pub bytes_in_flight: Option<f64>,
    pub latest_rtt: Option<f64>,
    pub smoothed_rtt: Option<f64>,
    pub pacing_rate: Option<f64>,
    pub new: Option<serde_json::Value>,
    raw: Option<Raw>,
    header: Option<PacketHeader>,
    packet_size: Option<f64>,
}

#[derive(Deserialize)]
struct Raw {
    length: Option<f64>,
    payload_length: Option<f64>,
}

#[derive(Deserialize)]
struct PacketHeader {
    length: Option<f64>,
    packet_size: Option<f64>,
}

impl Data {
    /// Bytes of a packet, under the names of the drafts.
    pub(super) fn length(&self) -> Option<f64> {
        let raw = self.raw.as_ref();
        let header = self.header.as_ref();
        raw.and_then(|raw| raw.length)
            .or_else(|| header.and_then(|header| header.length.or(header.packet_size)))
            .or(self.packet_size)
            .or_else(|| raw.and_then(|raw| raw.payload_length))
            .and_then(sane)
    }
}

/// Where the parts of an event stand in an array, and how many milliseconds the unit of its times is.
struct Places {
    time: usize,
    category: usize,
    event: usize,
    data: usize,
    unit: f64,
}

impl Places {
    fn of(trace: &Trace<'_>) -> Option<Self> {
        let at = |names: &[&str]| trace.event_fields.iter().position(|field| names.contains(&field.as_str()));
        Some(Self {
            time: at(&["relative_time", "delta_time", "time"])?,
            category: at(&["category"])?,
            event: at(&["event", "event_type"])?,
            data: at(&["data"])?,
            unit: if trace.configuration.time_units.as_deref() == Some("us") { 1e-3 } else { 1.0 },
        })
    }

    /// The event that an array says; its own error where it is none.
    fn event(&self, text: &str) -> serde_json::Result<Event> {
        use serde::de::Error;
        let parts: Vec<&RawValue> = serde_json::from_str(text)?;
        let part = |at: usize, name| parts.get(at).map(|part| part.get()).ok_or_else(|| Error::missing_field(name));
        let time: f64 = serde_json::from_str(part(self.time, "time")?)?;
        let category: Cow<'_, str> = serde_json::from_str(part(self.category, "category")?)?;
        let event: Cow<'_, str> = serde_json::from_str(part(self.event, "event")?)?;
        let mut data: Data = serde_json::from_str(part(self.data, "data")?)?;
        for rtt in [&mut data.latest_rtt, &mut data.smoothed_rtt].into_iter().flatten() {
            *rtt *= self.unit;
        }
        Ok(Event { time: time * self.unit, name: format!("{category}:{event}"), data })
    }
}

/// The version of a file, where it is one that is read.
fn check<'a>(file: &str, header: &'a Header<'_>) -> Result<&'a str, ReadError> {
    let version = header.qlog_version.as_deref().or(header.file_schema.as_deref());
    match version {
        Some(version) if VERSIONS.contains(&version) || version == ARRAYS => Ok(version),
        Some(version) => {
            let short: String = version.chars().take(60).collect();
            let problem = format!(
                "it is a qlog of version '{short}'; write one of version 0.3 or 0.4 (JSON or JSON-SEQ), or draft-00"
            );
            Err(ReadError::new(file, 1, problem))
        }
        None => Err(ReadError::new(file, 1, "it has no qlog_version; give a qlog of version 0.3 or 0.4")),
    }
}

/// Reads a file in one piece.
pub(super) fn contained(file: &str, from: impl BufRead, course: &mut Course) -> Result<(), ReadError> {
    let mut text = Vec::new();
    let read = from.take(MOST_CONTAINED + 1).read_to_end(&mut text);
    read.map_err(|error| ReadError::new(file, 0, format!("cannot be read ({error}); name a qlog file")))?;
    if text.len() as u64 > MOST_CONTAINED {
        return Err(ReadError::new(file, 0, "it is longer than 256 MiB; write the log as JSON-SEQ, or a shorter one"));
    }
    let broken = |error: &serde_json::Error| {
        let problem = format!("it is no qlog, or damaged or cut off ({error}); give the whole file");
        ReadError::new(file, error.line() as u64, problem)
    };
    // The version first: a file of another one may have other shapes below.
    #[derive(Deserialize)]
    struct Version {
        qlog_version: Option<String>,
        file_schema: Option<String>,
    }
    let Version { qlog_version, file_schema } = serde_json::from_slice(&text).map_err(|error| broken(&error))?;
    let header = Header { qlog_version, file_schema, trace: None, traces: Vec::new() };
    let arrays = check(file, &header)? == ARRAYS;
    let header: Header<'_> = serde_json::from_slice(&text).map_err(|error| broken(&error))?;
    let Some(trace) = header.traces.into_iter().max_by_key(|trace| trace.events.len()) else {
        return Err(ReadError::new(file, 0, "it has no traces; give a log of a connection"));
    };
    let places = match Places::of(&trace) {
        _ if !arrays => None,
        None => {
            let problem = "its event_fields lack a time, category, event or data; write a qlog of version 0.3 or 0.4";
            return Err(ReadError::new(file, 1, problem));
        }
        places => places,
    };
    course.delta =
        trace.common_fields.is_delta() || arrays && trace.event_fields.iter().any(|field| field == "delta_time");
    for (number, event) in trace.events.iter().enumerate() {
        let read = match &places {
            Some(places) => places.event(event.get()),
            None => serde_json::from_str(event.get()),
        };
        let read = read.map_err(|error| {
            let problem =
                format!("event {number} is not as the version has it ({error}); give a log as its writer made it");
            ReadError::new(file, 0, problem)
        })?;
        course.take(&read);
    }
    Ok(())
}

/// Reads a sequence of JSON texts (RFC 7464).
pub(super) fn sequence(file: &str, mut from: impl BufRead, course: &mut Course) -> Result<(), ReadError> {
    let mut record = Vec::new();
    for number in 0..=MOST_EVENTS {
        record.clear();
        let read = (&mut from).take(MOST_RECORD + 1).read_until(0x1e, &mut record);
        let read =
            read.map_err(|error| ReadError::new(file, number, format!("cannot be read ({error}); name a qlog file")))?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 > MOST_RECORD {
            return Err(ReadError::new(file, number, "a record of it is longer than 1 MiB; give a qlog as JSON-SEQ"));
        }
        let text = record.strip_suffix(b"\x1e").unwrap_or(&record).trim_ascii();
        if text.is_empty() {
            continue;
        }
        let broken = |error: serde_json::Error| {
            let problem = format!("record {number} is damaged or cut off ({error}); give the whole file");
            ReadError::new(file, number, problem)
        };
        if course.headed {
            course.take(&serde_json::from_slice(text).map_err(broken)?);
        } else {
            let header: Header<'_> = serde_json::from_slice(text).map_err(broken)?;
            if check(file, &header)? == ARRAYS {
                return Err(ReadError::new(file, 1, "draft-00 has no sequences; write a qlog of version 0.3 or 0.4"));
            }
            course.headed = true;
            course.delta = header.trace.is_some_and(|trace| trace.common_fields.is_delta());
        }
    }
    Err(ReadError::new(file, MOST_EVENTS, "it has more than 200 million events; give a shorter log"))
}

impl Common {
    fn is_delta(&self) -> bool {
        self.time_format.as_deref() == Some("delta")
    }
}
