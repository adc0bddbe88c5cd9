//! One key of a grid with its values.

use serde::{Deserialize, Serialize};
use toml::Value as Toml;

use crate::record::fields::Value;
use crate::scenario::places::printable;

/// One key of a grid with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The key as `--set` takes it, such as `down.delay`.
    pub key: String,
    /// Its values.
    pub values: Vec<Toml>,
}

impl Axis {
    /// The value of this number as people write it: texts without quotes.
    pub fn text(&self, index: usize) -> String {
        match self.values.get(index) {
            Some(Toml::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }

    /// The value of this number as it is written, cut where it is long.
    pub(super) fn shown(&self, index: usize) -> String {
        self.values.get(index).map_or_else(String::new, |value| printable(&value.to_string(), 60))
    }

    /// As `--set` takes it: `KEY=VALUE`, the value in TOML, so that a text stays a text.
    pub(super) fn setting(&self, index: usize) -> String {
        let value = self.values.get(index).map(ToString::to_string).unwrap_or_default();
        format!("{}={value}", self.key)
    }

    /// As a column of results: numbers where all values are numbers.
    pub(super) fn column(&self, index: usize) -> Value {
        let number = |value: &Toml| match value {
            Toml::Integer(whole) => Some(*whole as f64),
            Toml::Float(number) => Some(*number),
            _ => None,
        };
        match self.values.get(index) {
            Some(value) if self.values.iter().all(|value| number(value).is_some()) => Value::Number(number(value)),
            Some(_) => Value::Text(Some(self.text(index))),
            None => Value::Text(None),
        }
    }
}
