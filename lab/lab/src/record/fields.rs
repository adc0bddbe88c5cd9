//! The fields of a record, each defined once: JSON and the columns of CSV and Parquet follow from its name and shape, the page of
//! records from its unit and what it is.

use std::collections::BTreeMap;

use paceline_experiment::{DrivenBy, DumbbellWay};
use serde_json::Value as Json;

use super::{
    EndClocks, FiredRecord, FlowRecord, FramesRecord, LinkRecord, ProgramRecord, Record, ReleaseError, RouterRecord,
    Span, Split, TelemetryRecord,
};
use crate::run::World;

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
    /// A [`Span`]: a column for each part.
    Span,
    /// A [`ReleaseError`]: a column for each part.
    Late,
    /// A [`Split`]: a column for each part of each direction.
    Split,
    /// A [`TelemetryRecord`]: a column for each number.
    Telemetry,
    /// A list; in a column its length.
    List,
    /// In JSON alone.
    Nested,
}

/// What a field of this type holds.
pub(super) trait Shaped {
    const SHAPE: Shape;
}

macro_rules! shaped {
    ($($Type:ty => $Shape:ident),* $(,)?) => {
        $(impl Shaped for $Type {
            const SHAPE: Shape = Shape::$Shape;
        })*
    };
}

shaped! {
    String => Text, World => Text, EndClocks => Text, DrivenBy => Text, DumbbellWay => Text, bool => Flag, u32 => Count, u64 => Count, f64 => Number,
    Span => Span, ReleaseError => Late, Split => Split, TelemetryRecord => Telemetry, Vec<FlowRecord> => List,
    Vec<LinkRecord> => Nested, Vec<RouterRecord> => Nested, Vec<FramesRecord> => Nested, Vec<FiredRecord> => Nested,
    ProgramRecord => Nested, BTreeMap<String, String> => Nested,
}

impl<T: Shaped> Shaped for Option<T> {
    const SHAPE: Shape = T::SHAPE;
}

/// A structure of a record, each field described once: `name: Type, "unit", "what it is";`. Its documentation, the table of fields
/// (`FIELDS`) and the columns follow from that. A field without a description has one in another structure; one with `=> "empty"` is
/// left out of JSON where that says so.
macro_rules! described {
    (
        $(#[$about:meta])*
        pub struct $Struct:ident {
            $($(#[$attribute:meta])* $name:ident: $Type:ty $(=> $empty:literal)? $(, $unit:literal, $what:literal)?;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct $Struct {
            $(
                $(#[doc = $what])?
                $(#[$attribute])*
                $(#[serde(default, skip_serializing_if = $empty)])?
                pub $name: $Type,
            )*
        }

        impl $Struct {
            /// What its fields are, in their order; those that mean what they mean in a [`Record`] are left out.
            pub const FIELDS: &[fields::Field] = &[$($(fields::Field {
                name: stringify!($name),
                unit: $unit,
                shape: <$Type as fields::Shaped>::SHAPE,
                what: $what,
            },)?)*];
        }
    };
}
pub(super) use described;

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
    Record::FIELDS.iter().flat_map(|field| field.columns(&json[field.name])).collect()
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
                let named = ["medium", "overflow", "policed", "sender"].into_iter().flat_map(|of| {
                    let parts = ["medium", "overflow", "policed", "unknown"].into_iter();
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

    fn described(fields: &[Field]) -> Vec<&'static str> {
        fields.iter().map(|field| field.name).collect()
    }

    #[test]
    fn every_field_is_described_once() {
        assert_eq!(fields_of::<Record>(), described(Record::FIELDS));
        assert_eq!(fields_of::<LinkRecord>(), described(LinkRecord::FIELDS));
        assert_eq!(fields_of::<RouterRecord>(), described(RouterRecord::FIELDS));
        let known = [described(Record::FIELDS), described(FlowRecord::FIELDS)].concat();
        assert!(fields_of::<FlowRecord>().iter().all(|name| known.contains(name)));
        let known = [described(Record::FIELDS), described(FramesRecord::FIELDS)].concat();
        assert!(fields_of::<FramesRecord>().iter().all(|name| known.contains(name)));
    }
}
