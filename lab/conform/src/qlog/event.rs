//! An event of a qlog: what is read of it, whatever the draft calls it.

use std::borrow::Cow;
use std::fmt;

use paceline_cc::foreign::printable;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Most of a time in ms, of bytes and of a rate (our choice).
const MOST: f64 = 1e15;

/// The keys of a JSON object with their values as they are written. A key that stands twice counts as it stands last; `null` is as
/// if the key were not there.
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn of(text: &'a RawValue) -> serde_json::Result<Self> {
        serde_json::from_str(text.get())
    }

    pub(super) fn raw(&self, key: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().rev().find(|(name, _)| name == key)?.1;
        (found.get() != "null").then_some(found)
    }

    pub(super) fn text(&self, key: &str) -> serde_json::Result<Option<Cow<'a, str>>> {
        let text = |raw: &'a RawValue| serde_json::from_str::<Text<'a>>(raw.get());
        Ok(self.raw(key).map(text).transpose()?.map(|text| text.0))
    }

    /// A text, or a number as it is written.
    pub(super) fn word(&self, key: &str) -> Option<Cow<'a, str>> {
        self.text(key).ok().flatten().or_else(|| self.raw(key).map(|raw| Cow::Borrowed(raw.get())))
    }

    /// The object below a key, or the first of a list of them; nothing of what is neither, as drafts differ in it.
    fn inner(&self, key: &str) -> serde_json::Result<Option<Self>> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        let first = match raw.get().as_bytes().first() {
            Some(b'{') => Some(raw),
            Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(raw.get())?.first().copied(),
            _ => None,
        };
        first.filter(|raw| raw.get().starts_with('{')).map(Self::of).transpose()
    }

    /// The first of these keys that is there; nothing of what is too large for it.
    fn number(&self, keys: &[&str]) -> serde_json::Result<Option<f64>> {
        let Some((key, raw)) = keys.iter().find_map(|key| Some((key, self.raw(key)?))) else { return Ok(None) };
        let value = number(key, raw)?;
        if value < 0.0 {
            return Err(wrong(key, raw, "below 0"));
        }
        Ok((value < MOST).then_some(value))
    }
}

fn wrong(key: &str, raw: &RawValue, how: &str) -> serde_json::Error {
    serde_json::Error::custom(format!("{key} {} is {how}", printable(raw.get(), 40)))
}

/// A number, also within quotes, as the drafts allow it for those of 64 bits: decimal digits, with a fraction where there is one.
fn number(key: &str, raw: &RawValue) -> serde_json::Result<f64> {
    let text = raw.get();
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let digits = quoted.is_none_or(|text| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
    let value = quoted.unwrap_or(text).parse().ok().filter(|value: &f64| digits && value.is_finite());
    value.ok_or_else(|| wrong(key, raw, "not a number"))
}

/// A text that is borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Text(key), value)) = map.next_entry()? {
                    fields.push((key, value));
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Keys)
    }
}

/// Something that happened; times in milliseconds.
pub(super) struct Event<'a> {
    /// When, or how long after the event before.
    pub time: f64,
    /// Which of both, where the event itself says so.
    pub delta: Option<bool>,
    /// Of which connection, where the event itself says so.
    pub group: Option<Cow<'a, str>>,
    /// Namespace (category before) and type, with a colon between them.
    pub name: Cow<'a, str>,
    /// What it says of the sender.
    pub meaning: Meaning,
}

/// What an event says of a sender.
pub(super) enum Meaning {
    /// This.
    Step(Step),
    /// Nothing that is needed here.
    Nothing,
    /// Not known here.
    Unknown,
}

/// What a sender did or says of itself, in bytes, milliseconds, bits per second.
pub(super) enum Step {
    /// A packet left.
    Sent { length: Option<f64>, payload: Option<f64> },
    /// A packet came.
    Heard,
    /// Packets are lost.
    Lost { packets: f64, bytes: Option<f64> },
    /// The name of its state: that of the drafts where it is one of theirs, else as it is written.
    State(String),
    /// What is not said stays as it is.
    Metrics {
        window: Option<f64>,
        in_flight: Option<f64>,
        /// 0 before the first sample (ngtcp2).
        latest: Option<f64>,
        smoothed: Option<f64>,
        pacing: Option<f64>,
    },
    /// What a full packet has.
    Datagram(f64),
}

/// The states of the drafts (draft-ietf-quic-qlog-quic-events section 7.3, RFC 9002 section 7.3).
const STATES: [&str; 4] = ["slow_start", "recovery", "congestion_avoidance", "application_limited"];

/// Namespaces of which nothing is needed: of the drafts, those before them, and ours.
const PASSED: [&str; 11] = [
    "http3",
    "http",
    "h3",
    "qpack",
    "security",
    "connectivity",
    "loglevel",
    "generic",
    "info",
    "simulation",
    "paceline",
];
/// Events of `quic`, and of `transport` and `recovery` before, of which nothing is needed.
const NEEDLESS: &str = "\
    server_listening connection_started connection_closed connection_id_updated connection_state_updated tuple_assigned \
    mtu_updated version_information alpn_information parameters_restored packet_dropped packet_buffered \
    packets_acked datagrams_sent datagrams_received datagram_dropped stream_state_updated frames_processed \
    stream_data_moved datagram_data_moved connection_data_blocked_updated stream_data_blocked_updated \
    datagram_data_blocked_updated migration_state_updated path_assigned key_updated key_retired key_discarded \
    timer_updated loss_timer_updated loss_timer_set loss_timer_fired marked_for_retransmit ecn_state_updated data_moved \
    datagram_sent datagram_received parameters_negotiated version_negotiation udp_datagrams_sent udp_datagrams_received";

impl Meaning {
    /// Of an event with this name; its data in milliseconds by `unit`.
    fn of(name: &str, data: Option<&RawValue>, unit: f64) -> serde_json::Result<Self> {
        let Some((namespace, kind)) = name.split_once(':') else { return Ok(Self::Unknown) };
        let fields = || Ok(data.map(Fields::of).transpose()?.unwrap_or_else(|| Fields(Vec::new())));
        let step = match (namespace, kind) {
            ("transport" | "quic", "packet_sent") => sent(&fields()?)?,
            ("transport" | "quic", "packet_received") => Step::Heard,
            ("recovery" | "quic", "packet_lost") => {
                let (length, payload) = lengths(&fields()?)?;
                Step::Lost { packets: 1.0, bytes: length.or(payload) }
            }
            // mvfst tells of all at once.
            ("loss", "packets_lost") => {
                let fields = fields()?;
                let packets = fields.number(&["lost_packets"])?.unwrap_or(0.0);
                Step::Lost { packets, bytes: fields.number(&["lost_bytes"])? }
            }
            ("recovery" | "quic", "congestion_state_updated") => match fields()?.word("new") {
                Some(new) => Step::State(state(&new)),
                None => return Ok(Self::Nothing),
            },
            ("recovery" | "quic", "metrics_updated" | "recovery_metrics_updated")
            // mvfst's.
            | ("recovery" | "metric_update", "metric_update" | "congestion_metric_update") => metrics(&fields()?, unit)?,
            ("recovery" | "quic" | "transport", "parameters_set" | "recovery_parameters_set") => {
                match fields()?.number(&["max_datagram_size"])? {
                    Some(bytes) if bytes > 0.0 => Step::Datagram(bytes),
                    _ => return Ok(Self::Nothing),
                }
            }
            ("quic" | "transport" | "recovery", kind) if NEEDLESS.split(' ').any(|known| known == kind) => return Ok(Self::Nothing),
            (namespace, _) if PASSED.contains(&namespace) => return Ok(Self::Nothing),
            _ => return Ok(Self::Unknown),
        };
        Ok(Self::Step(step))
    }
}

/// Bytes of a packet, and of its payload, under the names of the drafts.
fn lengths(fields: &Fields<'_>) -> serde_json::Result<(Option<f64>, Option<f64>)> {
    let (raw, header) = (fields.inner("raw")?, fields.inner("header")?);
    let within = |inner: &Option<Fields<'_>>, keys: &[&str]| match inner {
        Some(inner) => inner.number(keys),
        None => Ok(None),
    };
    let length = within(&raw, &["length"])?
        .or(within(&header, &["length", "packet_size"])?)
        .or(fields.number(&["packet_size"])?);
    Ok((length, within(&raw, &["payload_length"])?))
}

fn sent(fields: &Fields<'_>) -> serde_json::Result<Step> {
    let (length, payload) = lengths(fields)?;
    Ok(Step::Sent { length: length.or(payload), payload })
}

fn metrics(fields: &Fields<'_>, unit: f64) -> serde_json::Result<Step> {
    let (latest, smoothed) = (fields.number(&["latest_rtt"])?, fields.number(&["smoothed_rtt"])?);
    Ok(Step::Metrics {
        window: fields.number(&["congestion_window", "cwnd", "current_cwnd"])?,
        in_flight: fields.number(&["bytes_in_flight"])?,
        latest: latest.map(|rtt| rtt * unit),
        smoothed: smoothed.map(|rtt| rtt * unit).filter(|rtt| *rtt > 0.0),
        pacing: fields.number(&["pacing_rate"])?.filter(|rate| *rate > 0.0),
    })
}

/// The name of a state in the spelling of the drafts: writers have `SlowStart`, "Slow Start", `slow_start`.
fn state(written: &str) -> String {
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let found = plain(written);
    STATES.into_iter().find(|name| plain(name) == found).map_or_else(|| printable(written, 60), str::to_owned)
}

/// Whether times of this format count from the event before.
pub(super) fn is_delta(format: &str) -> bool {
    matches!(format, "delta" | "relative_to_previous_event")
}

fn in_range(time: f64, raw: &RawValue) -> serde_json::Result<f64> {
    if time.abs() < MOST { Ok(time) } else { Err(wrong("time", raw, "too large")) }
}

impl<'a> Event<'a> {
    /// Of an object; nothing where it has no name.
    pub(super) fn of(text: &'a RawValue, unit: f64) -> serde_json::Result<Option<Self>> {
        let fields = Fields::of(text)?;
        let Some(name) = fields.text("name")? else { return Ok(None) };
        let raw = fields.raw("time").ok_or_else(|| serde_json::Error::missing_field("time"))?;
        let time = in_range(number("time", raw)? * unit, raw)?;
        let meaning = Meaning::of(&name, fields.raw("data"), unit)?;
        let delta = fields.text("time_format")?.map(|format| is_delta(&format));
        Ok(Some(Self { time, delta, group: fields.word("group_id"), name, meaning }))
    }
}

/// Where the parts of an event stand in an array.
pub(super) struct Places {
    time: usize,
    category: usize,
    event: usize,
    data: usize,
    group: Option<usize>,
}

impl Places {
    /// By the names of the parts, in small letters or capitals.
    pub(super) fn of(names: &[String]) -> Option<Self> {
        let at = |known: &[&str]| names.iter().position(|name| known.contains(&name.to_ascii_lowercase().as_str()));
        Some(Self {
            time: at(&["relative_time", "delta_time", "time"])?,
            category: at(&["category"])?,
            event: at(&["event", "event_type"])?,
            data: at(&["data"])?,
            group: at(&["group_id"]),
        })
    }

    /// The event that an array says; an error where it does not say one.
    pub(super) fn event<'a>(&self, text: &'a RawValue, unit: f64) -> serde_json::Result<Event<'a>> {
        let parts: Vec<&'a RawValue> = serde_json::from_str(text.get())?;
        let missing = serde_json::Error::missing_field;
        let part = |at: usize, name| parts.get(at).copied().ok_or_else(|| missing(name));
        let raw = part(self.time, "time")?;
        let time = in_range(number("time", raw)? * unit, raw)?;
        let Text(category) = serde_json::from_str(part(self.category, "category")?.get())?;
        let Text(event) = serde_json::from_str(part(self.event, "event")?.get())?;
        let data = part(self.data, "data")?;
        let group = self.group.and_then(|at| parts.get(at)).map(|raw| Cow::Borrowed(raw.get().trim_matches('"')));
        // picoquic had capitals.
        let name = format!("{category}:{event}").to_ascii_lowercase();
        let meaning = Meaning::of(&name, Some(data).filter(|data| data.get() != "null"), unit)?;
        Ok(Event { time, delta: None, group, name: Cow::Owned(name), meaning })
    }
}
