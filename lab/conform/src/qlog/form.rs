//! The forms of a qlog file: which versions, one JSON text or a sequence of them, and its traces.

use std::borrow::Cow;
use std::fmt;
use std::io::{BufRead, Read};

use paceline_cc::foreign::printable;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Course;
use super::event::{Event, Fields, Places};
use crate::read::FileError;

/// Longest file in one piece, bytes: it is in memory as a whole (our choice).
const MOST_CONTAINED: u64 = 256 << 20;
/// Longest record of a sequence, bytes (our choice: an event of some thousand ranges).
const MOST_RECORD: u64 = 1 << 20;
/// Most events (our choice: an hour of a gigabit).
const MOST_EVENTS: u64 = 200_000_000;
/// The versions that are read, where a file names one in place of a schema; those of draft-02 have endings.
const VERSIONS: [&str; 8] = ["0.3", "0.4", "0.3-wd", "qlog-03-WIP", "0.1", "draft-00", "draft-01", "draft-02"];
/// The schemas of today (draft-ietf-quic-qlog-main-schema-14 section 3.1): traces in one text, or a sequence.
const SCHEMAS: [&str; 2] = ["urn:ietf:params:qlog:file:contained", "urn:ietf:params:qlog:file:sequential"];
/// What is said where neither is known.
const READ: &str = "read are file_schema urn:ietf:params:qlog:file:contained and :sequential, and qlog_version 0.3, 0.4 and draft-00 to \
                    draft-02";
/// What begins a record (RFC 7464).
pub(super) const SEPARATOR: u8 = 0x1e;

/// What a file says of itself, and its traces, as far as it goes.
#[derive(Default)]
struct File<'a> {
    schema: Option<String>,
    version: Option<String>,
    traces: Vec<Trace<'a>>,
}

#[derive(Default)]
struct Trace<'a> {
    /// The vantage point: a client, a server.
    seen_by: Option<String>,
    time_format: Option<String>,
    time_units: Option<String>,
    event_fields: Vec<String>,
    events: Vec<&'a RawValue>,
}

impl File<'_> {
    /// Whether it names a schema or a version that is read; a schema goes before a version beside it.
    fn check(&self, file: &str) -> Result<(), FileError> {
        let known = |version: &str| VERSIONS.contains(&version) || version.starts_with("draft-02");
        let (key, found) = match (&self.schema, &self.version) {
            (Some(schema), _) if SCHEMAS.contains(&schema.as_str()) => return Ok(()),
            (_, Some(version)) if known(version) => return Ok(()),
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
}

/// Reads a file in one piece; of several traces the one that says most of a window.
pub(super) fn contained(file: &str, from: impl BufRead) -> Result<Course, FileError> {
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
    let end = whole.is_ok().then(|| json.end());
    // A text in each line, whatever it says of itself: the first has no events, and there is a second.
    if end.as_ref().is_some_and(Result::is_err) && found.traces.iter().all(|trace| trace.events.is_empty()) {
        return sequence(file, &text[..], b'\n');
    }
    let broken = match whole.and_then(|()| end.unwrap_or(Ok(()))) {
        Ok(()) => None,
        Err(error) => {
            let problem = format!("it is not a qlog, or damaged or cut off ({error}); give the whole file");
            let error = FileError::new(file, error.line() as u64, problem);
            if found.traces.iter().all(|trace| trace.events.is_empty()) {
                return Err(error);
            }
            Some(error)
        }
    };
    let (all, mut best): (usize, Option<Course>) = (found.traces.len(), None);
    for (number, trace) in found.traces.iter().enumerate() {
        let mut course = trace.read(file)?;
        if all > 1 {
            let by = trace.seen_by.as_deref().map_or_else(String::new, |by| format!(" (by the {by})"));
            course
                .notes
                .push(format!("Of its {all} traces number {}{by} is read, which says most of a window.", number + 1));
        }
        if best.as_ref().is_none_or(|best| course.points() > best.points()) {
            best = Some(course);
        }
    }
    let mut course = best.ok_or_else(|| FileError::new(file, 0, "it has no traces; give a log of a connection"))?;
    course.broken = broken;
    Ok(course)
}

impl Trace<'_> {
    /// Where the parts of events stand, in the versions whose events are arrays.
    fn places(&self, file: &str) -> Result<Option<Places>, FileError> {
        if self.event_fields.is_empty() {
            return Ok(None);
        }
        let places = Places::of(&self.event_fields, self.time_units.as_deref());
        let problem = "its event_fields lack a time, category, event or data; give a log as its writer made it";
        places.map(Some).ok_or_else(|| FileError::new(file, 1, problem))
    }

    /// Nothing has happened yet.
    fn course(&self) -> Course {
        let by_field = self.event_fields.iter().any(|field| field.eq_ignore_ascii_case("delta_time"));
        Course::new(by_field || self.time_format.as_deref().is_some_and(is_delta))
    }

    fn read(&self, file: &str) -> Result<Course, FileError> {
        let (places, mut course) = (self.places(file)?, self.course());
        for (number, text) in self.events.iter().enumerate() {
            let read = event(text, places.as_ref()).map_err(|error| {
                let problem =
                    format!("event {number} is not as the version has it ({error}); give a log as its writer made it");
                FileError::new(file, 0, problem)
            })?;
            if let Some(event) = read {
                course.take(&event);
            }
        }
        Ok(course)
    }
}

/// Whether times of this format count from the event before.
pub(super) fn is_delta(format: &str) -> bool {
    matches!(format, "delta" | "relative_to_previous_event")
}

/// An event in a text; nothing for other texts.
fn event<'a>(text: &'a RawValue, places: Option<&Places>) -> serde_json::Result<Option<Event<'a>>> {
    match places {
        Some(places) => places.event(text).map(Some),
        None => Event::of(text),
    }
}

/// Reads a sequence of JSON texts: RFC 7464's, or one in each line.
pub(super) fn sequence(file: &str, mut from: impl BufRead, separator: u8) -> Result<Course, FileError> {
    let mut record = Vec::new();
    let mut course: Option<(Course, Option<Places>)> = None;
    for number in 0..=MOST_EVENTS {
        record.clear();
        let read = (&mut from).take(MOST_RECORD + 1).read_until(separator, &mut record);
        let read =
            read.map_err(|error| FileError::new(file, number, format!("cannot be read ({error}); name a qlog file")))?;
        if read == 0 {
            let course = course.map(|(course, _)| course);
            return course.ok_or_else(|| FileError::new(file, 0, "it has no records; give a log of a connection"));
        }
        if read as u64 > MOST_RECORD {
            return Err(FileError::new(file, number, "a record of it is longer than 1 MiB; give a qlog as JSON-SEQ"));
        }
        let text = record.strip_suffix(&[separator]).unwrap_or(&record).trim_ascii();
        if text.is_empty() {
            continue;
        }
        let broken = |error: serde_json::Error| {
            let problem = format!("record {number} is damaged or cut off ({error}); give the whole file");
            FileError::new(file, number, problem)
        };
        match &mut course {
            Some((course, places)) => {
                match serde_json::from_slice::<&RawValue>(text).and_then(|text| event(text, places.as_ref())) {
                    Ok(Some(event)) => course.take(&event),
                    Ok(None) => {}
                    Err(error) => {
                        course.broken = Some(broken(error));
                        break;
                    }
                }
            }
            None => {
                let mut found = File::default();
                let mut json = serde_json::Deserializer::from_slice(text);
                FileSeed(&mut found).deserialize(&mut json).and_then(|()| json.end()).map_err(broken)?;
                found.check(file)?;
                let trace = found.traces.pop().unwrap_or_default();
                course = Some((trace.course(), trace.places(file)?));
            }
        }
    }
    match course {
        Some((course, _)) if course.broken.is_some() => Ok(course),
        _ => Err(FileError::new(file, MOST_EVENTS, "it has more than 200 million events; give a shorter log")),
    }
}

/// Fills what it borrows, so that what stands before the end of a file that is cut off is there.
struct FileSeed<'f, 'a>(&'f mut File<'a>);
struct TracesSeed<'f, 'a>(&'f mut Vec<Trace<'a>>);
struct TraceSeed<'f, 'a>(&'f mut Trace<'a>);
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
                "traces" => map.next_value_seed(TracesSeed(&mut self.0.traces))?,
                "trace" => {
                    let mut trace = Trace::default();
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
            self.0.push(Trace::default());
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
            let text = |fields: Option<Fields<'de>>, key: &str| match fields.map(|fields| fields.text(key)) {
                Some(Ok(text)) => text.map(Cow::into_owned),
                _ => None,
            };
            match key.as_str() {
                "common_fields" => self.0.time_format = text(map.next_value()?, "time_format"),
                "configuration" => self.0.time_units = text(map.next_value()?, "time_units"),
                "vantage_point" => self.0.seen_by = text(map.next_value()?, "type"),
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
