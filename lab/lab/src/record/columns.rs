//! A record as flat columns, for files of tables.

use super::{Record, Span};

/// What a column holds; `None` where JSON has `null` or no field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(Option<String>),
    Count(Option<u64>),
    Number(Option<f64>),
}

impl Value {
    /// Empty where there is none.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone().unwrap_or_default(),
            Self::Count(count) => count.map_or_else(String::new, |count| count.to_string()),
            Self::Number(number) => number.map_or_else(String::new, |number| number.to_string()),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(Some(count))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        Self::Number(number)
    }
}

/// Name and value of every column: the same names, and the same kinds of values, for every record.
pub(super) fn columns(record: &Record) -> Vec<(String, Value)> {
    let mut row: Vec<(String, Value)> = Vec::new();
    let mut put = |name: &str, value: Value| row.push((name.to_owned(), value));
    put("scenario", record.scenario.as_str().into());
    put("trace", Value::Text(record.trace.clone()));
    put("world", record.world.as_str().into());
    put("controller", record.controller.as_str().into());
    put("via", record.via.as_str().into());
    put("seed", record.seed.into());
    put("run", u64::from(record.run).into());
    put("seconds", record.seconds.into());
    put("throughput_mbps", record.throughput_mbps.into());
    put("own_throughput_mbps", record.own_throughput_mbps.into());
    put("goodput_mbps", record.goodput_mbps.into());
    put("utilization", record.utilization.into());
    for (name, span) in [("delay_ms", record.delay_ms), ("queue_ms", record.queue_ms), ("rtt_ms", record.rtt_ms)] {
        put_span(&mut put, name, span);
    }
    put("loss", record.loss.into());
    put("retransmits", record.retransmits.into());
    put("timeouts", record.timeouts.into());
    put("ecn_marks", record.ecn_marks.into());
    put_span(&mut put, "fct_ms", record.fct_ms);
    put("completions", Value::Count(record.completions));
    put("jain", record.jain.into());
    for (name, parts) in [("down", record.split.down), ("up", record.split.up)] {
        put(&format!("{name}_propagation_ms"), parts.map(|parts| parts.propagation_ms).into());
        put(&format!("{name}_queue_ms"), parts.map(|parts| parts.queue_ms).into());
        put(&format!("{name}_transmission_ms"), parts.map(|parts| parts.transmission_ms).into());
    }
    put("flows", (record.flows.len() as u64).into());
    put("version", record.version.as_str().into());
    put("cpu_s", record.cpu_s.into());
    put("wall_s", record.wall_s.into());
    put("peak_mb", record.peak_mb.into());
    let error = record.release_error_us;
    put("release_error_us_p50", error.map(|error| error.p50).into());
    put("release_error_us_p99", error.map(|error| error.p99).into());
    put("release_error_us_max", error.map(|error| error.max).into());
    put("late", Value::Count(record.late));
    put("trusted", Value::Text(record.trusted.map(|trusted| trusted.to_string())));
    row
}

fn put_span(put: &mut impl FnMut(&str, Value), name: &str, span: Option<Span>) {
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
        put(&format!("{name}_{part}"), span.as_ref().map(value).into());
    }
}
