//! The forms of a qlog file: which versions, one JSON text or a sequence of them, and the headers of its traces.

use std::borrow::Cow;
use std::fmt;
use std::io::{BufRead, Read};

use paceline_cc::foreign::printable;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::event::{Event, Fields, Places, is_delta};
use super::trace::{Said, Trace};
use super::{MOST_RECORD, SEPARATOR};
use crate::read::FileError;

/// Longest file in one piece, bytes: it is in memory as a whole (our choice).
const MOST_CONTAINED: u64 = 256 << 20;
/// Most events (our choice: an hour of a gigabit).
const MOST_EVENTS: u64 = 200_000_000;
/// Most schemas of a trace that are named where they are not known (our choice).
const MOST_SCHEMAS: usize = 4;
/// The versions that are read, where a file names one in place of a schema; those of draft-02 have endings.
const VERSIONS: [&str; 8] = ["0.3", "0.4", "0.3-wd", "qlog-03-WIP", "0.1", "draft-00", "draft-01", "draft-02"];
/// The schemas of today (draft-ietf-quic-qlog-main-schema-14 section 3.1), each with what it says the content is.
const SCHEMAS: [(&str, Content); 2] = [
    ("urn:ietf:params:qlog:file:contained", Content::Contained),
    ("urn:ietf:params:qlog:file:sequential", Content::Sequence),
];
/// What the schemas of events begin with that are known here: those of the drafts.
const EVENT_SCHEMAS: [&str; 3] =
    ["urn:ietf:params:qlog:events:", "urn:ietf:params:qlog:loglevel", "urn:ietf:params:qlog:simulation"];
/// What is said where neither is known.
const READ: &str = "read are file_schema urn:ietf:params:qlog:file:contained and :sequential, and qlog_version 0.3, 0.4 and draft-00 to \
                    draft-02";

/// How the texts of a file follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// All in one.
    Contained,
    /// Each begins with 0x1e (RFC 7464).
    Sequence,
    /// One in each line.
    Lines,
}

impl Content {
    const fn name(self) -> &'static str {
        match self {
            Self::Contained => "one JSON text",
            Self::Sequence => "JSON text sequences",
            Self::Lines => "a JSON text in each line",
        }
    }

    /// What a media type, or a name before, says; in any case of letters.
    fn said(format: &str) -> Option<Self> {
        match format.to_ascii_lowercase().as_str() {
            "application/qlog+json" | "json" => Some(Self::Contained),
            "application/qlog+json-seq" | "json-seq" => Some(Self::Sequence),
            "ndjson" => Some(Self::Lines),
            _ => None,
        }
    }
}

/// The traces of a file.
pub(super) struct Found {
    pub traces: Vec<Trace>,
    pub notes: Vec<String>,
    /// Why no more was read.
    pub broken: Option<FileError>,
}

/// What a file says of itself, and its traces, as far as it goes.
#[derive(Default)]
struct File<'a> {
    schema: Option<String>,
    version: Option<String>,
    /// `serialization_format`, and `qlog_format` before.
    formats: [Option<String>; 2],
    traces: Vec<Header<'a>>,
}

/// A trace: its header, and the events that stand in it.
#[derive(Default)]
struct Header<'a> {
    seen_by: Option<String>,
    time_format: Option<String>,
    time_units: Option<String>,
    group: Option<String>,
    schemas: Vec<String>,
    event_fields: Vec<String>,
    failed: Option<String>,
    events: Vec<&'a RawValue>,
}

impl File<'_> {
    /// Whether it names a schema or a version that is read; a schema goes before a version beside it.
    fn check(&self, file: &str) -> Result<(), FileError> {
        let known = |version: &str| VERSIONS.contains(&version) || version.starts_with("draft-02");
        let (key, found) = match (&self.schema, &self.version) {
            (Some(schema), _) if SCHEMAS.iter().any(|(known, _)| known == schema) => return Ok(()),
            (None, Some(version)) if known(version) => return Ok(()),
            (Some(schema), _) => ("file_schema", schema),
            (None, Some(version)) => ("qlog_version", version),
            (None, None) => {
                return Err(FileError::new(file, 1, format!("it has neither file_schema nor qlog_version; {READ}")));
            }
        };
        let short = printable(found, 60);
        Err(FileError::new(file, 1, format!("it is a qlog of {key} '{short}'; {READ}")))
    }

    /// Whether it says of itself what it is.
    fn is_named(&self) -> bool {
        self.schema.is_some() || self.version.is_some()
    }

    /// Where it says of its content what is not so.
    fn contradictions(&self, content: Content) -> Vec<String> {
        let by_schema = SCHEMAS.iter().find(|(schema, _)| self.schema.as_deref() == Some(*schema));
        // What stands beside a schema for older readers says nothing.
        let [today, before] = &self.formats;
        let format = today.as_ref().map(|format| ("serialization_format", format));
        let before = before.as_ref().filter(|_| self.schema.is_none()).map(|format| ("qlog_format", format));
        let mut notes = Vec::new();
        if let Some((key, format)) = format.or(before) {
            let said = Content::said(format);
            if said != Some(content) {
                let name = said.map_or("not known here", Content::name);
                let format = printable(format, 40);
                notes.push(format!(
                    "Its {key} '{format}' is {name}; its content is {}, and read as that.",
                    content.name()
                ));
                return notes;
            }
        }
        // A text in each line is the sequence of before, without its marks.
        let same = |said: Content| (said == Content::Contained) == (content == Content::Contained);
        if let Some((schema, said)) = by_schema.filter(|(_, said)| !same(*said)) {
            notes.push(format!(
                "Its file_schema {schema} is {}; its content is {}, and read as that.",
                said.name(),
                content.name()
            ));
        }
        notes
    }
}

impl Header<'_> {
    /// Where the parts of events stand, in the versions whose events are arrays.
    fn places(&self, file: &str) -> Result<Option<Places>, FileError> {
        if self.event_fields.is_empty() {
            return Ok(None);
        }
        let problem = "its event_fields lack a time, category, event or data; give a log as its writer made it";
        Places::of(&self.event_fields).map(Some).ok_or_else(|| FileError::new(file, 1, problem))
    }

    fn said(&self) -> Said {
        let by_field = self.event_fields.iter().any(|field| field.eq_ignore_ascii_case("delta_time"));
        let known = |schema: &str| {
            EVENT_SCHEMAS.iter().any(|known| schema.starts_with(known)) || schema == paceline_lab::qlog::SCHEMA
        };
        let unknown = self.schemas.iter().filter(|schema| !known(schema)).take(MOST_SCHEMAS);
        Said {
            delta: by_field || self.time_format.as_deref().is_some_and(is_delta),
            unit: if self.time_units.as_deref() == Some("us") { 1e-3 } else { 1.0 },
            group: self.group.clone().unwrap_or_default(),
            seen_by: self.seen_by.clone(),
            schemas: unknown.map(|schema| printable(schema, 80)).collect(),
            failed: self.failed.clone(),
        }
    }
}

/// An event in a text; nothing for other texts.
fn event<'a>(text: &'a RawValue, places: Option<&Places>, unit: f64) -> serde_json::Result<Option<Event<'a>>> {
    match places {
        Some(places) => places.event(text, unit).map(Some),
        None => Event::of(text, unit),
    }
}

/// Reads a file in one piece.
pub(super) fn contained(file: &str, from: impl BufRead) -> Result<Found, FileError> {
    let mut text = Vec::new();
    let read = from.take(MOST_CONTAINED + 1).read_to_end(&mut text);
    read.map_err(|error| FileError::new(file, 0, format!("cannot be read ({error}); name a qlog file")))?;
    if text.len() as u64 > MOST_CONTAINED {
        return Err(FileError::new(file, 0, "it is longer than 256 MiB; write the log as JSON-SEQ, or a shorter one"));
    }
    let mut found = File::default();
    let mut json = serde_json::Deserializer::from_slice(&text);
    let whole = FileSeed(&mut found).deserialize(&mut json);
    // A file of another version may have other shapes below.
    if whole.is_ok() || found.is_named() {
        found.check(file)?;
    }
    let broken = whole.and_then(|()| json.end()).err().map(|error| {
        let problem = format!("it is not a qlog, or damaged or cut off ({error}); give the whole file");
        FileError::new(file, error.line() as u64, problem)
    });
    if let Some(broken) = broken {
        if found.traces.iter().all(|trace| trace.events.is_empty()) {
            return Err(broken);
        }
        return traces(file, &text, &found, Some(broken));
    }
    traces(file, &text, &found, None)
}

fn traces(file: &str, text: &[u8], found: &File<'_>, broken: Option<FileError>) -> Result<Found, FileError> {
    let mut read = Vec::new();
    for header in &found.traces {
        let (places, said) = (header.places(file)?, header.said());
        let (mut trace, unit) = (Trace::new(said.clone()), said.unit);
        let (mut line, mut counted) = (1, 0);
        for (number, raw) in header.events.iter().enumerate() {
            // Events borrow from the text.
            let at = (raw.get().as_ptr() as usize).wrapping_sub(text.as_ptr() as usize).clamp(counted, text.len());
            line += newlines(&text[counted..at]);
            counted = at;
            let event = event(raw, places.as_ref(), unit).map_err(|error| {
                let problem =
                    format!("event {number} is not as the version has it ({error}); give a log as its writer made it");
                FileError::new(file, line, problem)
            })?;
            if let Some(event) = event {
                trace.take(file, line, event)?;
            }
        }
        read.push(trace);
    }
    Ok(Found { traces: read, notes: found.contradictions(Content::Contained), broken })
}

fn newlines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Reads a sequence of JSON texts (RFC 7464).
pub(super) fn sequence(file: &str, from: impl BufRead) -> Result<Found, FileError> {
    records(file, from, Content::Sequence)
}

/// Reads a JSON text in each line.
pub(super) fn lines(file: &str, from: impl BufRead) -> Result<Found, FileError> {
    records(file, from, Content::Lines)
}

fn records(file: &str, mut from: impl BufRead, content: Content) -> Result<Found, FileError> {
    let separator = if content == Content::Lines { b'\n' } else { SEPARATOR };
    let (mut record, mut line) = (Vec::new(), 1);
    let mut header: Option<(Trace, Option<Places>, f64, Vec<String>)> = None;
    let mut broken = None;
    for number in 0..=MOST_EVENTS {
        record.clear();
        let read = (&mut from).take(MOST_RECORD + 1).read_until(separator, &mut record);
        let read =
            read.map_err(|error| FileError::new(file, line, format!("cannot be read ({error}); name a qlog file")))?;
        if read == 0 {
            break;
        }
        let begins = line + newlines(&record[..record.len() - record.trim_ascii_start().len()]);
        line += newlines(&record);
        if read as u64 > MOST_RECORD {
            return Err(FileError::new(file, begins, "a record of it is longer than 1 MiB; give a qlog as JSON-SEQ"));
        }
        if number == MOST_EVENTS {
            return Err(FileError::new(file, begins, "it has more than 200 million events; give a shorter log"));
        }
        let text = record.strip_suffix(&[separator]).unwrap_or(&record).trim_ascii();
        if text.is_empty() {
            continue;
        }
        let damaged = |error: serde_json::Error| {
            FileError::new(file, begins, format!("line {begins} is damaged or cut off ({error}); give the whole file"))
        };
        let Some((trace, places, unit, _)) = &mut header else {
            let mut found = File::default();
            let mut json = serde_json::Deserializer::from_slice(text);
            FileSeed(&mut found).deserialize(&mut json).and_then(|()| json.end()).map_err(damaged)?;
            found.check(file)?;
            let notes = found.contradictions(content);
            let trace = found.traces.pop().unwrap_or_default();
            let (places, said) = (trace.places(file)?, trace.said());
            let unit = said.unit;
            header = Some((Trace::new(said), places, unit, notes));
            continue;
        };
        match serde_json::from_slice::<&RawValue>(text).and_then(|text| event(text, places.as_ref(), *unit)) {
            Ok(Some(event)) => trace.take(file, begins, event)?,
            Ok(None) => {}
            Err(error) if error.classify() == Category::Data => {
                let problem =
                    format!("its event is not as the version has it ({error}); give a log as its writer made it");
                return Err(FileError::new(file, begins, problem));
            }
            Err(error) => {
                broken = Some(damaged(error));
                break;
            }
        }
    }
    let Some((trace, _, _, notes)) = header else {
        return Err(FileError::new(file, 0, "it has no records; give a log of a connection"));
    };
    Ok(Found { traces: vec![trace], notes, broken })
}

/// Fills what it borrows, so that what stands before the end of a file that is cut off is there.
struct FileSeed<'f, 'a>(&'f mut File<'a>);
struct TracesSeed<'f, 'a>(&'f mut Vec<Header<'a>>);
struct TraceSeed<'f, 'a>(&'f mut Header<'a>);
struct EventsSeed<'f, 'a>(&'f mut Vec<&'a RawValue>);

/// Implements a seed by its visitor, which is the same thing; `null` leaves everything as it is.
macro_rules! seed {
    ($name:ident, $expecting:literal, $visit:item) => {
        impl<'de> DeserializeSeed<'de> for $name<'_, 'de> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
                from.deserialize_any(self)
            }
        }

        impl<'de> Visitor<'de> for $name<'_, 'de> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expecting)
            }

            fn visit_unit<E>(self) -> Result<(), E> {
                Ok(())
            }

            $visit
        }
    };
}

seed!(
    FileSeed,
    "an object",
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "qlog_version" => self.0.version = map.next_value()?,
                // The drafts since July 2024 name a schema instead.
                "file_schema" => self.0.schema = map.next_value()?,
                "serialization_format" => self.0.formats[0] = map.next_value()?,
                "qlog_format" => self.0.formats[1] = map.next_value()?,
                "traces" => map.next_value_seed(TracesSeed(&mut self.0.traces))?,
                "trace" => {
                    let mut trace = Header::default();
                    map.next_value_seed(TraceSeed(&mut trace))?;
                    self.0.traces.push(trace);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
);

seed!(
    TracesSeed,
    "a list of traces",
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        loop {
            // In its place before it is read: it may be cut off.
            self.0.push(Header::default());
            let Some(trace) = self.0.last_mut() else { return Ok(()) };
            if seq.next_element_seed(TraceSeed(trace))?.is_none() {
                self.0.pop();
                return Ok(());
            }
        }
    }
);

seed!(
    TraceSeed,
    "a trace",
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let word = |fields: Option<&Fields<'de>>, key| fields?.word(key).map(Cow::into_owned);
            match key.as_str() {
                "common_fields" => {
                    let fields: Option<Fields<'de>> = map.next_value()?;
                    self.0.time_format = word(fields.as_ref(), "time_format");
                    self.0.group = word(fields.as_ref(), "group_id");
                }
                "configuration" => {
                    self.0.time_units = word(map.next_value::<Option<Fields<'de>>>()?.as_ref(), "time_units");
                }
                "vantage_point" => self.0.seen_by = word(map.next_value::<Option<Fields<'de>>>()?.as_ref(), "type"),
                "event_schemas" => self.0.schemas = map.next_value::<Option<Vec<String>>>()?.unwrap_or_default(),
                "error_description" => self.0.failed = map.next_value()?,
                "event_fields" => self.0.event_fields = map.next_value::<Option<Vec<String>>>()?.unwrap_or_default(),
                "events" => map.next_value_seed(EventsSeed(&mut self.0.events))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
);

seed!(
    EventsSeed,
    "a list of events",
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(event) = seq.next_element()? {
            self.0.push(event);
        }
        Ok(())
    }
);
