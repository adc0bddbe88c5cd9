//! How one value is written in an event log and read back. A structure's fields are listed once, for both.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::controller::{
    Acked, Carrier, Cause, Ecn, Env, Hop, Lost, Pacing, Phase, RateSample, Recovery, Remembered, Stamp,
};
use crate::foreign::clipped;
use crate::names::nearest;
use crate::units::{Nanos, Rate, Time};

/// What is wrong with a field, and the fix.
#[derive(Debug)]
pub(super) struct FieldError {
    /// Where it is in its line: `packets[3].bytes`.
    pub(super) path: String,
    pub(super) problem: String,
}

impl FieldError {
    pub(super) fn new(path: &str, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: problem.into() }
    }

    /// The same error, seen from the object in which the field at fault is part of `place`.
    pub(super) fn inside(mut self, place: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{place}{dot}{}", self.path);
        self
    }
}

/// A value that does not fit; its field is not known here.
pub(super) fn unfit(value: &Value, wanted: &str) -> FieldError {
    FieldError::new("", format!("{} is not {wanted}; write one", clipped(&value.to_string())))
}

/// An object that is being written. Its closing brace is the caller's.
pub(super) struct Writing<'a> {
    line: &'a mut String,
    comma: bool,
}

impl<'a> Writing<'a> {
    /// A line that holds nothing yet.
    pub(super) fn begin(line: &'a mut String) -> Self {
        line.clear();
        Self::within(line)
    }

    fn within(line: &'a mut String) -> Self {
        line.push('{');
        Self { line, comma: false }
    }

    /// Adds a field, unless it is one that is left out.
    pub(super) fn field<T: Field>(&mut self, name: &str, value: &T) {
        if !value.is_left_out() {
            value.write(self.value(name));
        }
    }

    /// Adds a field that is another than `before`, also one that is left out elsewhere.
    pub(super) fn changed<T: Field + PartialEq>(&mut self, name: &str, value: &T, before: &T) {
        if value != before {
            value.write(self.value(name));
        }
    }

    /// Adds a list, unless it is empty.
    pub(super) fn list<T: Field>(&mut self, name: &str, values: &[T]) {
        if !values.is_empty() {
            write_list(values, self.value(name));
        }
    }

    /// Adds an object.
    pub(super) fn object(&mut self, name: &str, content: impl FnOnce(&mut Writing<'_>)) {
        let line = self.value(name);
        content(&mut Writing::within(line));
        line.push('}');
    }

    /// Adds a number that is finite, or `null`, by any name.
    pub(super) fn number(&mut self, name: &str, number: Option<f64>) {
        let quoted = Value::from(name).to_string();
        let line = self.value(&quoted[1..quoted.len() - 1]);
        line.push_str(&number.map_or_else(|| "null".to_owned(), |number| format!("{number:?}")));
    }

    /// Adds a text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.value(name).push_str(&Value::from(text).to_string());
    }

    /// Where the value of this field goes.
    fn value(&mut self, name: &str) -> &mut String {
        if std::mem::replace(&mut self.comma, true) {
            self.line.push(',');
        }
        self.line.push('"');
        self.line.push_str(name);
        self.line.push_str("\":");
        self.line
    }
}

/// An object that is being read: its fields are taken out one by one.
pub(super) struct Reading {
    fields: Map<String, Value>,
    /// Those that were asked for.
    known: Vec<&'static str>,
}

impl Reading {
    pub(super) fn new(fields: Map<String, Value>) -> Self {
        Self { fields, known: Vec::new() }
    }

    pub(super) fn field<T: Field>(&mut self, name: &'static str) -> Result<T, FieldError> {
        match self.take(name) {
            Some(value) => T::read(value).map_err(|error| error.inside(name)),
            None => T::left_out().ok_or_else(|| missing(name)),
        }
    }

    /// A field that changes `value` where it is there.
    pub(super) fn update<T: Field>(&mut self, name: &'static str, value: &mut T) -> Result<(), FieldError> {
        if let Some(new) = self.take(name) {
            *value = T::read(new).map_err(|error| error.inside(name))?;
        }
        Ok(())
    }

    /// A field that has to be there, whatever its value.
    pub(super) fn required<T: Field>(&mut self, name: &'static str) -> Result<T, FieldError> {
        let value = self.take(name).ok_or_else(|| missing(name))?;
        T::read(value).map_err(|error| error.inside(name))
    }

    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, FieldError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(unfit(&other, "a string").inside(name)),
        }
    }

    /// What `content` reads of an object that may be missing.
    pub(super) fn object<T>(
        &mut self,
        name: &'static str,
        content: impl FnOnce(&mut Reading) -> Result<T, FieldError>,
    ) -> Result<Option<T>, FieldError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read_object(value, content).map(Some).map_err(|error| error.inside(name))
    }

    /// The entries of an object whose names are not known here, `null`s included.
    pub(super) fn map(&mut self, name: &'static str) -> Result<Option<Map<String, Value>>, FieldError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(entries)) => Ok(Some(entries)),
            Some(other) => Err(unfit(&other, "an object").inside(name)),
        }
    }

    /// Nothing is left.
    pub(super) fn finish(self) -> Result<(), FieldError> {
        let Some((name, _)) = self.fields.iter().next() else { return Ok(()) };
        let hint = nearest(name, self.known.iter().copied());
        Err(FieldError::new(
            &clipped(name),
            format!("there is no such field here; take it out, or correct it ({hint})"),
        ))
    }

    fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.fields.remove(name).filter(|value| !value.is_null())
    }
}

fn missing(name: &str) -> FieldError {
    FieldError::new(name, "it is missing; add it")
}

fn read_object<T>(value: Value, content: impl FnOnce(&mut Reading) -> Result<T, FieldError>) -> Result<T, FieldError> {
    let Value::Object(fields) = value else { return Err(unfit(&value, "an object")) };
    let mut reading = Reading::new(fields);
    let read = content(&mut reading)?;
    reading.finish()?;
    Ok(read)
}

/// A value of a field.
pub(super) trait Field: Sized {
    /// What it is where it is left out; `None` where it must be there.
    fn left_out() -> Option<Self>;
    /// Whether it is that.
    fn is_left_out(&self) -> bool;
    fn write(&self, line: &mut String);
    fn read(value: Value) -> Result<Self, FieldError>;
}

/// Whole numbers: 0 is left out.
macro_rules! whole {
    ($($type:ty)+) => {$(
        impl Field for $type {
            fn left_out() -> Option<Self> {
                Some(0)
            }

            fn is_left_out(&self) -> bool {
                *self == 0
            }

            fn write(&self, line: &mut String) {
                // Writing to a string does not fail.
                let _ = write!(line, "{self}");
            }

            fn read(value: Value) -> Result<Self, FieldError> {
                let number = value.as_u64().and_then(|number| Self::try_from(number).ok());
                number.ok_or_else(|| unfit(&value, &format!("a whole number from 0 to {}", Self::MAX)))
            }
        }
    )+};
}

whole!(u32 u64);

impl Field for bool {
    fn left_out() -> Option<Self> {
        Some(false)
    }

    fn is_left_out(&self) -> bool {
        !self
    }

    fn write(&self, line: &mut String) {
        line.push_str(if *self { "true" } else { "false" });
    }

    fn read(value: Value) -> Result<Self, FieldError> {
        value.as_bool().ok_or_else(|| unfit(&value, "true or false"))
    }
}

/// Written as the 64-bit number that it is exactly. What is not finite is left out: a hop that reports no number reports nothing.
impl Field for Option<f32> {
    fn left_out() -> Option<Self> {
        Some(None)
    }

    fn is_left_out(&self) -> bool {
        !self.is_some_and(f32::is_finite)
    }

    fn write(&self, line: &mut String) {
        let _ = write!(line, "{:?}", f64::from(self.unwrap_or_default()));
    }

    fn read(value: Value) -> Result<Self, FieldError> {
        let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| unfit(&value, "a number of 32 bits"))
    }
}

/// What was not reported is left out; 0 is not.
macro_rules! optional {
    ($($type:ty)+) => {$(
        impl Field for Option<$type> {
            fn left_out() -> Option<Self> {
                Some(None)
            }

            fn is_left_out(&self) -> bool {
                self.is_none()
            }

            fn write(&self, line: &mut String) {
                if let Some(value) = self {
                    value.write(line);
                }
            }

            fn read(value: Value) -> Result<Self, FieldError> {
                <$type>::read(value).map(Some)
            }
        }
    )+};
}

optional!(u32 u64 Time Nanos Rate RateSample Carrier Remembered);

/// Units are the number inside; an instant is never left out.
macro_rules! unit {
    ($($type:ty: $make:path, $number:path, $left_out:expr;)+) => {$(
        impl Field for $type {
            fn left_out() -> Option<Self> {
                $left_out
            }

            fn is_left_out(&self) -> bool {
                Self::left_out() == Some(*self)
            }

            fn write(&self, line: &mut String) {
                $number(*self).write(line);
            }

            fn read(value: Value) -> Result<Self, FieldError> {
                u64::read(value).map($make)
            }
        }
    )+};
}

unit! {
    Time: Time::from_nanos, Time::as_nanos, None;
    Nanos: Nanos::from_nanos, Nanos::as_nanos, Some(Nanos::ZERO);
    Rate: Rate::from_bytes_per_sec, Rate::as_bytes_per_sec, Some(Rate::ZERO);
}

/// Words; the first of them is left out, unless `required`.
macro_rules! words {
    ($type:ident $left_out:expr; $($variant:ident $word:literal)+) => {
        impl $type {
            /// Its word in an event log.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// What this word stands for in an event log.
            pub fn named(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl Field for $type {
            fn left_out() -> Option<Self> {
                $left_out
            }

            fn is_left_out(&self) -> bool {
                Self::left_out() == Some(*self)
            }

            fn write(&self, line: &mut String) {
                line.extend(["\"", self.name(), "\""]);
            }

            fn read(value: Value) -> Result<Self, FieldError> {
                let named = value.as_str().and_then(Self::named);
                named.ok_or_else(|| unfit(&value, concat!("one of", $(" ", $word),+)))
            }
        }
    };
}

words!(Phase Some(Phase::Open); Open "open" Cwr "cwr" Recovery "recovery" Loss "loss");
words!(Cause Some(Cause::Unknown);
    Unknown "unknown" Congestion "congestion" Aqm "aqm" Policer "policer" Medium "medium" Handover "handover");
words!(Recovery None; Prr "prr" Controller "controller");
words!(Ecn None; Off "off" Classic "classic" Exact "exact" L4s "l4s");

impl Field for Pacing {
    fn left_out() -> Option<Self> {
        None
    }

    fn is_left_out(&self) -> bool {
        false
    }

    fn write(&self, line: &mut String) {
        let _ = match self {
            Self::Free => write!(line, "\"free\""),
            Self::Rate(rate) => write!(line, "{{\"rate\":{}}}", rate.as_bytes_per_sec()),
            Self::Gap(gap) => write!(line, "{{\"gap\":{}}}", gap.as_nanos()),
        };
    }

    fn read(value: Value) -> Result<Self, FieldError> {
        if value.as_str() == Some("free") {
            return Ok(Self::Free);
        }
        let read = |from: &mut Reading| Ok((from.field::<Option<Rate>>("rate")?, from.field::<Option<Nanos>>("gap")?));
        match read_object(value, read) {
            Ok((Some(rate), None)) => Ok(Self::Rate(rate)),
            Ok((None, Some(gap))) => Ok(Self::Gap(gap)),
            _ => Err(FieldError::new("", "it is not \"free\", an object with a rate, or one with a gap; write one")),
        }
    }
}

/// Structures whose fields are listed; `list` is what lies in a list beside them.
pub(super) trait Fields: Sized {
    fn put(&self, to: &mut Writing<'_>);
    fn take(from: &mut Reading) -> Result<Self, FieldError>;
}

macro_rules! fields {
    ($type:ty { $($field:ident)+ } $(list $list:ident)?) => {
        impl Fields for $type {
            fn put(&self, to: &mut Writing<'_>) {
                let Self { $($field,)+ $($list: _)? } = self;
                $(to.field(stringify!($field), $field);)+
            }

            fn take(from: &mut Reading) -> Result<Self, FieldError> {
                Ok(Self { $($field: from.field(stringify!($field))?,)+ $($list: &[])? })
            }
        }
    };
}

pub(super) use fields;

/// The same as objects within a line.
macro_rules! objects {
    ($($type:ident { $($field:ident)+ } left out $left_out:expr, $is_left_out:expr;)+) => {$(
        fields!($type { $($field)+ });

        impl Field for $type {
            fn left_out() -> Option<Self> {
                $left_out
            }

            fn is_left_out(&self) -> bool {
                let test: fn(&Self) -> bool = $is_left_out;
                test(self)
            }

            fn write(&self, line: &mut String) {
                self.put(&mut Writing::within(line));
                line.push('}');
            }

            fn read(value: Value) -> Result<Self, FieldError> {
                read_object(value, Self::take)
            }
        }
    )+};
}

objects! {
    Acked { seq bytes sent_at tag retransmitted app_limited ce received_at } left out None, |_| false;
    Lost { seq bytes sent_at tag cause } left out None, |_| false;
    RateSample { delivered interval prior_delivered app_limited retransmission } left out None, |_| false;
    Hop {
        id arrived_at delay queue_bytes room_packets limit_packets capacity arrival flows drops signal_dbm radio_retry_share
    } left out None, |_| false;
    Carrier { seq sent_at tag } left out None, |_| false;
    Env { mss seed paced remembered } left out None, |_| false;
    Remembered { window min_rtt age } left out None, |_| false;
    Stamp { tag note } left out Some(Self::default()), |stamp| *stamp == Self::default();
}

fn write_list<T: Field>(values: &[T], line: &mut String) {
    line.push('[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        value.write(line);
    }
    line.push(']');
}

impl<T: Field> Field for Vec<T> {
    fn left_out() -> Option<Self> {
        Some(Self::new())
    }

    fn is_left_out(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, line: &mut String) {
        write_list(self, line);
    }

    fn read(value: Value) -> Result<Self, FieldError> {
        let Value::Array(values) = value else { return Err(unfit(&value, "a list")) };
        let read = |(index, value)| T::read(value).map_err(|error| error.inside(&format!("[{index}]")));
        values.into_iter().enumerate().map(read).collect()
    }
}
