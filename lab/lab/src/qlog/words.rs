//! What the two forms of a log have of their own.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{About, QlogForm, SCHEMA};

/// Whose log it is, of what.
pub(super) struct Title<'a> {
    /// The contestant.
    pub name: &'a str,
    /// The flow, from 1.
    pub number: usize,
    /// What was run.
    pub about: &'a About,
}

/// The first record.
pub(super) fn header(form: QlogForm, out: &mut impl Write, of: &Title<'_>) -> io::Result<()> {
    let title = json!(format!("{} flow {}", of.name, of.number));
    let (description, number) = (json!(of.about.text), of.number);
    match form {
        // What a file is has to stand in its first 256 bytes (draft-ietf-quic-qlog-main-schema-14 section 3).
        QlogForm::Today => writeln!(
            out,
            "\u{1e}{{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\
                 \"serialization_format\":\"application/qlog+json-seq\",\"title\":{title},\"description\":{description},\
                 \"trace\":{{\"common_fields\":{{\"time_format\":\"relative_to_epoch\",\
                 \"reference_time\":{{\"clock_type\":\"monotonic\",\"epoch\":\"unknown\"}},\"group_id\":\"{number}\"}},\
                 \"vantage_point\":{{\"name\":\"sender\",\"type\":\"server\"}},\
                 \"event_schemas\":[\"urn:ietf:params:qlog:events:quic-13\",\"urn:ietf:params:qlog:events:simulation\",\"{SCHEMA}\"]}}}}"
        ),
        QlogForm::V03 => writeln!(
            out,
            "\u{1e}{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":{title},\"description\":{description},\
                 \"trace\":{{\"vantage_point\":{{\"name\":\"sender\",\"type\":\"server\"}},\"title\":{title},\
                 \"description\":{description},\"common_fields\":{{\"time_format\":\"relative\",\"reference_time\":0.0,\
                 \"protocol_type\":[\"paceline\"]}}}}}}"
        ),
    }
}

/// Data of a stream frame of this length.
pub(super) fn stream(form: QlogForm, out: &mut impl Write, offset: u64, bytes: u32) -> io::Result<()> {
    write!(out, r#""frame_type":"stream","stream_id":0,"offset":{offset},"#)?;
    match form {
        QlogForm::Today => write!(out, r#""raw":{{"length":{bytes}}}"#),
        QlogForm::V03 => write!(out, r#""length":{bytes}"#),
    }
}

/// Packets from one number to another.
pub(super) fn range(form: QlogForm, out: &mut impl Write, from: u64, to: u64) -> io::Result<()> {
    if form == QlogForm::Today && from == to { write!(out, "[{from}]") } else { write!(out, "[{from},{to}]") }
}

/// The largest number that every reader of JSON has exactly (RFC 8259 section 6).
pub(super) const EXACT: u64 = 1 << 53;

/// A number of an event of ours: a text where readers would lose digits.
pub(super) fn whole(value: u64) -> Value {
    if value > EXACT { Value::from(value.to_string()) } else { Value::from(value) }
}
