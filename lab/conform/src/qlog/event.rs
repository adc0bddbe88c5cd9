//! An event of a qlog: what is read of it, whatever the draft calls it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::form::is_delta;
use super::sane;

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

    pub(super) fn inner(&self, key: &str) -> serde_json::Result<Option<Self>> {
        self.raw(key).map(Self::of).transpose()
    }

    /// The first of these keys that is there.
    fn number(&self, keys: &[&str]) -> serde_json::Result<Option<f64>> {
        keys.iter().find_map(|key| self.raw(key)).map(number).transpose()
    }
}

/// A number, also within quotes, as drafts before 0.3 have those of 64 bits.
fn number(raw: &RawValue) -> serde_json::Result<f64> {
    let text = raw.get();
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => quoted.trim().parse().map_err(|_| serde_json::Error::custom(format!("{text} is not a number"))),
        None => serde_json::from_str(text),
    }
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
    /// Category and type, with a colon between them.
    pub name: Cow<'a, str>,
    /// What is known of it.
    pub data: Data<'a>,
}

/// The fields that are read, of all events together.
#[derive(Default)]
pub(super) struct Data<'a> {
    pub congestion_window: Option<f64>,
    pub bytes_in_flight: Option<f64>,
    pub latest_rtt: Option<f64>,
    pub smoothed_rtt: Option<f64>,
    pub pacing_rate: Option<f64>,
    pub new: Option<Cow<'a, str>>,
    /// Bytes of a packet.
    pub length: Option<f64>,
    /// Packets that one event says, where it says how many; and their bytes together.
    pub lost: Option<(f64, f64)>,
}

impl<'a> Data<'a> {
    fn of(fields: &Fields<'a>) -> serde_json::Result<Self> {
        let (raw, header) = (fields.inner("raw")?, fields.inner("header")?);
        let within = |inner: &Option<Fields<'a>>, keys: &[&str]| match inner {
            Some(inner) => inner.number(keys),
            None => Ok(None),
        };
        // Under the names of the drafts.
        let length = within(&raw, &["length"])?
            .or(within(&header, &["length", "packet_size"])?)
            .or(fields.number(&["packet_size"])?)
            .or(within(&raw, &["payload_length"])?);
        let lost = fields.number(&["lost_packets"])?.zip(fields.number(&["lost_bytes"])?);
        Ok(Self {
            congestion_window: fields.number(&["congestion_window", "cwnd", "current_cwnd"])?,
            bytes_in_flight: fields.number(&["bytes_in_flight"])?,
            latest_rtt: fields.number(&["latest_rtt"])?,
            smoothed_rtt: fields.number(&["smoothed_rtt"])?,
            pacing_rate: fields.number(&["pacing_rate"])?,
            // A number in some logs.
            new: fields.raw("new").map(|new| Cow::Borrowed(new.get().trim_matches('"'))),
            length: length.and_then(sane),
            lost: lost.filter(|(packets, bytes)| sane(*packets).and(sane(*bytes)).is_some()),
        })
    }
}

impl<'a> Event<'a> {
    /// Of an object; nothing where it has no name.
    pub(super) fn of(text: &'a RawValue) -> serde_json::Result<Option<Self>> {
        Self::of_fields(&Fields::of(text)?)
    }

    pub(super) fn of_fields(fields: &Fields<'a>) -> serde_json::Result<Option<Self>> {
        let Some(name) = fields.text("name")? else { return Ok(None) };
        let time = fields.number(&["time"])?.ok_or_else(|| serde_json::Error::missing_field("time"))?;
        let data = fields.inner("data")?.map(|data| Data::of(&data)).transpose()?.unwrap_or_default();
        let delta = fields.text("time_format")?.map(|format| is_delta(&format));
        Ok(Some(Self { time, delta, name, data }))
    }
}

/// Where the parts of an event stand in an array, and how many milliseconds the unit of its times is.
pub(super) struct Places {
    time: usize,
    category: usize,
    event: usize,
    data: usize,
    unit: f64,
}

impl Places {
    /// By the names of the parts, in small letters or capitals.
    pub(super) fn of(names: &[String], units: Option<&str>) -> Option<Self> {
        let at = |known: &[&str]| names.iter().position(|name| known.contains(&name.to_ascii_lowercase().as_str()));
        Some(Self {
            time: at(&["relative_time", "delta_time", "time"])?,
            category: at(&["category"])?,
            event: at(&["event", "event_type"])?,
            data: at(&["data"])?,
            unit: if units == Some("us") { 1e-3 } else { 1.0 },
        })
    }

    /// The event that an array says; an error where it does not say one.
    pub(super) fn event<'a>(&self, text: &'a RawValue) -> serde_json::Result<Event<'a>> {
        let parts: Vec<&'a RawValue> = serde_json::from_str(text.get())?;
        let missing = serde_json::Error::missing_field;
        let part = |at: usize, name| parts.get(at).copied().ok_or_else(|| missing(name));
        let time = number(part(self.time, "time")?)?;
        let Text(category) = serde_json::from_str(part(self.category, "category")?.get())?;
        let Text(event) = serde_json::from_str(part(self.event, "event")?.get())?;
        let data = part(self.data, "data")?;
        let mut data = if data.get() == "null" { Data::default() } else { Data::of(&Fields::of(data)?)? };
        for rtt in [&mut data.latest_rtt, &mut data.smoothed_rtt].into_iter().flatten() {
            *rtt *= self.unit;
        }
        Ok(Event { time: time * self.unit, delta: None, name: Cow::Owned(format!("{category}:{event}")), data })
    }
}
