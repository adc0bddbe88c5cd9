//! Records as text: JSON Lines and CSV.

use std::io::{self, BufRead, Write};

use super::{Record, Span};

/// Why a file of records could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{file}: cannot be read ({source}); name a file of records, as race --json writes")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A line is no record.
    #[error("{file}:{line}: not a record ({problem}); give files that race --json wrote")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What was wrong.
        problem: String,
    },
    /// No record at all.
    #[error("{file}: no record in it; give a file that race --json wrote")]
    Empty {
        /// The file.
        file: String,
    },
}

/// Writes one JSON object a line.
///
/// # Errors
/// When the writer fails.
pub fn write_json<'a>(records: impl IntoIterator<Item = &'a Record>, out: &mut dyn Write) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *out, record)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads what [`write_json`] wrote; unknown fields are passed over, so that newer records can be read. `file` is for
/// error messages.
///
/// # Errors
/// When a line is no record, or there is none.
pub fn read_json(file: &str, input: impl BufRead) -> Result<Vec<Record>, ReadError> {
    let mut records = Vec::new();
    for (index, line) in input.lines().enumerate() {
        let line = line.map_err(|source| ReadError::Read { file: file.to_owned(), source })?;
        if line.trim().is_empty() {
            continue;
        }
        let record = serde_json::from_str(&line).map_err(|error| ReadError::Line {
            file: file.to_owned(),
            line: index + 1,
            problem: error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect(),
        })?;
        records.push(record);
    }
    if records.is_empty() {
        return Err(ReadError::Empty { file: file.to_owned() });
    }
    Ok(records)
}

/// Writes one row a run, without the flows: their number instead. Empty where JSON has `null` or no field.
///
/// # Errors
/// When the writer fails.
pub fn write_csv<'a>(records: impl IntoIterator<Item = &'a Record>, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let mut headed = false;
    for record in records {
        let row = columns(record);
        if !headed {
            writer.write_record(row.iter().map(|(name, _)| name))?;
            headed = true;
        }
        writer.write_record(row.iter().map(|(_, value)| value))?;
    }
    writer.flush()
}

/// Name and value of every column, the same names for every record.
pub(super) fn columns(record: &Record) -> Vec<(String, String)> {
    let mut row: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: String| row.push((name.to_owned(), value));
    put("scenario", record.scenario.clone());
    put("trace", record.trace.clone().unwrap_or_default());
    put("world", record.world.clone());
    put("controller", record.controller.clone());
    put("via", record.via.clone());
    put("seed", record.seed.to_string());
    put("run", record.run.to_string());
    put("seconds", record.seconds.to_string());
    put("throughput_mbps", record.throughput_mbps.to_string());
    put("own_throughput_mbps", or_empty(record.own_throughput_mbps));
    put("goodput_mbps", record.goodput_mbps.to_string());
    put("utilization", or_empty(record.utilization));
    for (name, span) in [("delay_ms", record.delay_ms), ("queue_ms", record.queue_ms), ("rtt_ms", record.rtt_ms)] {
        put_span(&mut put, name, span);
    }
    put("loss", record.loss.to_string());
    put("retransmits", record.retransmits.to_string());
    put("timeouts", record.timeouts.to_string());
    put("ecn_marks", record.ecn_marks.to_string());
    put_span(&mut put, "fct_ms", record.fct_ms);
    put("completions", or_empty(record.completions));
    put("jain", or_empty(record.jain));
    for (name, parts) in [("down", record.split.down), ("up", record.split.up)] {
        put(&format!("{name}_propagation_ms"), or_empty(parts.map(|parts| parts.propagation_ms)));
        put(&format!("{name}_queue_ms"), or_empty(parts.map(|parts| parts.queue_ms)));
        put(&format!("{name}_transmission_ms"), or_empty(parts.map(|parts| parts.transmission_ms)));
    }
    put("flows", record.flows.len().to_string());
    put("version", record.version.clone());
    put("cpu_s", or_empty(record.cpu_s));
    put("wall_s", or_empty(record.wall_s));
    put("peak_mb", or_empty(record.peak_mb));
    row
}

fn put_span(put: &mut impl FnMut(&str, String), name: &str, span: Option<Span>) {
    type Part = (&'static str, fn(&Span) -> f64);
    const PARTS: [Part; 6] = [
        ("min", |span| span.min),
        ("mean", |span| span.mean),
        ("p50", |span| span.p50),
        ("p95", |span| span.p95),
        ("p99", |span| span.p99),
        ("max", |span| span.max),
    ];
    for (part, value) in PARTS {
        put(&format!("{name}_{part}"), or_empty(span.as_ref().map(value)));
    }
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
