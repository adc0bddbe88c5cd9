//! The fields of a record, each defined once: JSON and the columns of CSV and Parquet follow from its name and shape, the page of
//! records from its unit and what it is.

use serde_json::Value as Json;

use super::Record;

/// A field of a record, of one of its flows, or of one of its links.
pub struct Field {
    /// Its key in JSON.
    pub name: &'static str,
    /// Its unit; empty without one.
    pub unit: &'static str,
    /// What it holds.
    pub shape: Shape,
    /// What it is, in Markdown.
    pub what: &'static str,
}

/// What a field holds, and so which columns it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A text.
    Text,
    /// True or false.
    Flag,
    /// A whole number.
    Count,
    /// Any number.
    Number,
    /// A [`Span`](super::Span): a column for each part.
    Span,
    /// A [`ReleaseError`](super::ReleaseError): a column for each part.
    Late,
    /// A [`Split`](super::Split): a column for each part of each direction.
    Split,
    /// A [`TelemetryRecord`](super::TelemetryRecord): a column for each number.
    Telemetry,
    /// A list; in a column its length.
    List,
    /// In JSON alone.
    Nested,
}

/// The fields of a [`Record`], in their order.
pub const RECORD: &[Field] = &[
    field("scenario", "", Shape::Text, "name of the scenario"),
    field(
        "trace",
        "",
        Shape::Text,
        "file name of the downward trace, with links of the first link that has one; `null` without one",
    ),
    field(
        "world",
        "",
        Shape::Text,
        "`sim`: virtual time; `real`: sockets and kernel flows in real time ([real-races.md](real-races.md))",
    ),
    field("controller", "", Shape::Text, "controller, with the parameters that differ from their defaults"),
    field(
        "via",
        "",
        Shape::Text,
        "datapath: `udp`, `tcp`, `alcc` (above CUBIC), `alcc/LOWER`, with options `alcc:mode=inline/LOWER`, `tcp:driven_by=agent`, \
         `quic`",
    ),
    field(
        "driven_by",
        "",
        Shape::Text,
        "real race, `tcp`: who ran the controller: `kernel` (a congestion control of its own), `module` (ours, by eBPF), \
         `agent` ([kernel.md](kernel.md)); of the contestant's own flows, where it is the same for all",
    ),
    field("seed", "", Shape::Count, "seed of the race"),
    field("run", "", Shape::Count, "number of the run, from 1; with `seed` it determines everything random"),
    field("seconds", "s", Shape::Number, "length of the run, start-up included"),
    field(
        "throughput_mbps",
        "Mbit/s",
        Shape::Number,
        "data that arrived, from the IP header on, over `seconds`; all flows with a controller",
    ),
    field(
        "own_throughput_mbps",
        "Mbit/s",
        Shape::Number,
        "throughput of the contestant's own flows; only where others run beside them",
    ),
    field(
        "goodput_mbps",
        "Mbit/s",
        Shape::Number,
        "payload that reached applications: in order for TCP, each byte once for datagrams",
    ),
    field(
        "utilization",
        "0..1",
        Shape::Number,
        "data that arrived over what the path could have carried in `seconds`, in the directions in which data \
         travels; `null` where nothing limits one of them. With links: over those that are the slowest link on \
         the way of a flow, the data that crossed each over what each could have carried",
    ),
    field(
        "delay_ms",
        "ms",
        Shape::Span,
        "one-way delay of data packets that arrived, path and queue: `min`, `mean`, `p50`, `p95`, `p99`, `max`; \
         `null` when none arrived",
    ),
    field("queue_ms", "ms", Shape::Span, "the same for what queues added"),
    field("rtt_ms", "ms", Shape::Span, "the same for the senders' RTT samples"),
    field("loss", "0..1", Shape::Number, "data packets dropped on the path over those that entered it"),
    field("retransmits", "packets", Shape::Count, "retransmissions"),
    field("timeouts", "", Shape::Count, "retransmission timeouts"),
    field("ecn_marks", "packets", Shape::Count, "data packets that arrived with a CE mark"),
    field(
        "fct_ms",
        "ms",
        Shape::Span,
        "completion times of flows that ended, as a distribution; only where flows end. If flows of several kinds \
         end: over the first 20000 of each",
    ),
    field("completions", "flows", Shape::Count, "how many ended with all their bytes delivered; only where flows end"),
    field(
        "jain",
        "0..1",
        Shape::Number,
        "Jain's index of the throughputs of flows without an end of their own; only if there are several, and \
         data arrived",
    ),
    field(
        "telemetry",
        "packets",
        Shape::Telemetry,
        "with [telemetry](scenarios.md#telemetry-hops-that-report): `reports` that reached senders, and those `refused`; lost packets by \
         their true cause, `medium` and `overflow` (of queues), each by the reason that its receiver gave: `medium`, `overflow`, \
         `unknown`; and by what `sender` knew as it declared a packet lost",
    ),
    field(
        "split",
        "ms",
        Shape::Split,
        "mean one-way delay by its causes: `down` and `up`, each with `propagation_ms`, `queue_ms`, \
         `transmission_ms`, over data and acknowledgements; `null` without packets. With links `down` is of data \
         and `up` of acknowledgements, over their whole way",
    ),
    field("drawn", "", Shape::Nested, "values drawn for keys that hold a range, by key; only if there are such keys"),
    field("flows", "", Shape::List, "one object for each flow, see below"),
    field(
        "links",
        "",
        Shape::Nested,
        "one object for each direction of each link, see below; only where the scenario has \
         [links](scenarios.md#links-more-than-two-ends)",
    ),
    field("version", "", Shape::Text, "version of paceline"),
    field(
        "commit",
        "",
        Shape::Text,
        "commit that it was built from; `+changed.DIGEST` behind it when its sources were changed since, and left out when \
         they were built without their history",
    ),
    field(
        "cpu_s",
        "s",
        Shape::Number,
        "simulator, with `--measure`: CPU time of the thread that ran it; real race: of the endpoints of the \
         contestant's own flows",
    ),
    field("wall_s", "s", Shape::Number, "with `--measure`: wall-clock time"),
    field(
        "peak_mb",
        "MB",
        Shape::Number,
        "with `--measure`: largest resident memory of the process so far, all threads",
    ),
    field(
        "release_error_us",
        "us",
        Shape::Late,
        "real race: how late the emulator released packets: `p50`, `p99`, `max`",
    ),
    field("late", "packets", Shape::Count, "real race: released more than 1 ms late"),
    field(
        "trusted",
        "",
        Shape::Flag,
        "real race: `false` when more than one packet in a hundred was late, or the kernel lost packets outside \
         the path",
    ),
];

/// The fields of a [`FlowRecord`](super::FlowRecord) that a record does not have, or that mean something else there.
pub const FLOW: &[Field] = &[
    field("direction", "", Shape::Text, "which way its data travels: `down`, `up`; only without links"),
    field("from", "", Shape::Text, "node that sent its data; only with links"),
    field("to", "", Shape::Text, "node that received its data; only with links"),
    field("start_s", "s", Shape::Number, "when it began"),
    field("end_s", "s", Shape::Number, "when it ended"),
    field("throughput_mbps", "Mbit/s", Shape::Number, "data that arrived, headers included, from its start to its end"),
    field("goodput_mbps", "Mbit/s", Shape::Number, "payload that reached the application, from its start to its end"),
    field("packets", "packets", Shape::Count, "data packets that entered the path"),
    field(
        "limited_below",
        "0..1",
        Shape::Number,
        "share of the chunks passed to the lower TCP for which that TCP was the limit: it held back earlier ones, \
         or had refused this one; only for `alcc`",
    ),
];

/// The fields of a [`LinkRecord`](super::LinkRecord).
pub const LINK: &[Field] = &[
    field(
        "name",
        "",
        Shape::Text,
        "name of the link; with `.back` for the direction from its second node to its first",
    ),
    field("from", "", Shape::Text, "the node that packets come from"),
    field("to", "", Shape::Text, "the node that they go to"),
    field(
        "utilization",
        "0..1",
        Shape::Number,
        "bytes carried over what it could have carried in `seconds`; `null` where nothing limits it",
    ),
    field("queue_packets", "packets", Shape::Number, "that waited, on average over time, without the one in service"),
    field("packets", "packets", Shape::Count, "that arrived at its queue"),
    field("dropped", "packets", Shape::Count, "of these, dropped because the queue was full, or by its AQM"),
    field("lost", "packets", Shape::Count, "lost at random behind the queue, or on the air although sent again"),
    field("ecn_marks", "packets", Shape::Count, "marked \"congestion experienced\" by its AQM"),
    field(
        "frames_per_aggregate",
        "frames",
        Shape::Number,
        "in an aggregate, on average; this and what follows only of Wi-Fi links",
    ),
    field("airtime", "0..1", Shape::Number, "share of `seconds` in which its frames and their answers were on the air"),
    field("frames_again", "frames", Shape::Count, "that had to be sent again"),
    field("collisions", "", Shape::Count, "aggregates that collided with another sender's"),
];

const fn field(name: &'static str, unit: &'static str, shape: Shape, what: &'static str) -> Field {
    Field { name, unit, shape, what }
}

/// What a column holds; `None` where JSON has `null` or no field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(Option<String>),
    /// True or false.
    Flag(Option<bool>),
    /// A whole number.
    Count(Option<u64>),
    /// Any number.
    Number(Option<f64>),
}

impl Value {
    /// Empty where there is none.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone().unwrap_or_default(),
            Self::Flag(flag) => flag.map_or_else(String::new, |flag| flag.to_string()),
            Self::Count(count) => count.map_or_else(String::new, |count| count.to_string()),
            Self::Number(number) => number.map_or_else(String::new, |number| number.to_string()),
        }
    }
}

/// The row of a table: the contestant, by its name, then [`columns`].
pub fn row(record: &Record) -> Vec<(String, Value)> {
    with_contestant(Some(record.contestant()), columns(record))
}

/// Names and kinds of the columns of [`row`], for a table without rows.
pub fn head() -> Vec<(String, Value)> {
    with_contestant(None, columns_of(&Json::Null))
}

fn with_contestant(name: Option<String>, columns: Vec<(String, Value)>) -> Vec<(String, Value)> {
    std::iter::once(("contestant".to_owned(), Value::Text(name))).chain(columns).collect()
}

/// Name and value of every column: the same names, and the same kinds of values, for every record.
pub fn columns(record: &Record) -> Vec<(String, Value)> {
    let json = serde_json::to_value(record).expect("a record is JSON");
    columns_of(&json)
}

/// The same of a record in JSON, of which fields may be missing.
pub(crate) fn columns_of(json: &Json) -> Vec<(String, Value)> {
    RECORD.iter().flat_map(|field| field.columns(&json[field.name])).collect()
}

impl Field {
    fn columns(&self, json: &Json) -> Vec<(String, Value)> {
        let number = |json: &Json| Value::Number(json.as_f64());
        let parts = |prefix: &str, json: &Json, parts: &[&str]| {
            parts.iter().map(|part| (format!("{prefix}_{part}"), number(&json[part]))).collect::<Vec<_>>()
        };
        let value = match self.shape {
            Shape::Text => Value::Text(json.as_str().map(str::to_owned)),
            Shape::Flag => Value::Flag(json.as_bool()),
            Shape::Count => Value::Count(json.as_u64()),
            Shape::Number => number(json),
            Shape::List => Value::Count(Some(json.as_array().map_or(0, Vec::len) as u64)),
            Shape::Span => return parts(self.name, json, &["min", "mean", "p50", "p95", "p99", "max"]),
            Shape::Late => return parts(self.name, json, &["p50", "p99", "max"]),
            Shape::Split => {
                let each = |side| parts(side, &json[side], &["propagation_ms", "queue_ms", "transmission_ms"]);
                return [each("down"), each("up")].concat();
            }
            Shape::Telemetry => {
                let reports = ["reports", "refused"].map(|part| (part, &json[part]));
                let count =
                    |(part, json): (&str, &Json)| (format!("{}_{part}", self.name), Value::Count(json.as_u64()));
                let named = ["medium", "overflow", "sender"].into_iter().flat_map(|of| {
                    let parts = ["medium", "overflow", "unknown"].into_iter();
                    parts.map(move |part| (format!("{}_{of}_{part}", self.name), Value::Count(json[of][part].as_u64())))
                });
                return reports.into_iter().map(count).chain(named).collect();
            }
            Shape::Nested => return Vec::new(),
        };
        vec![(self.name.to_owned(), value)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::fields_of;
    use crate::record::{FlowRecord, LinkRecord};

    fn listed(fields: &[Field]) -> Vec<&'static str> {
        fields.iter().map(|field| field.name).collect()
    }

    #[test]
    fn the_tables_have_every_field() {
        assert_eq!(fields_of::<Record>(), listed(RECORD));
        assert_eq!(fields_of::<LinkRecord>(), listed(LINK));
        let shared = listed(RECORD);
        let own: Vec<_> = fields_of::<FlowRecord>().into_iter().filter(|name| !shared.contains(name)).collect();
        let mut table = listed(FLOW);
        table.retain(|name| !shared.contains(name));
        assert_eq!(own, table);
    }
}
