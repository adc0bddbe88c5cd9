//! One key of a grid with its values.

use paceline_cc::foreign::printable;
use paceline_cc::{Bytes, Nanos, Rate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Value as Toml;

use crate::record::fields::Value;

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

    /// A column of numbers beside one of texts that are all times, rates or sizes, with its unit at the end of its name.
    pub(super) fn measured(&self, index: usize) -> Option<(String, Value)> {
        let (unit, numbers) = [
            ("ms", self.each(|time: Nanos| time.as_millis_f64())),
            ("mbps", self.each(|rate: Rate| rate.as_mbps())),
            ("bytes", self.each(|Bytes(bytes)| bytes as f64)),
        ]
        .into_iter()
        .find_map(|(unit, numbers)| Some((unit, numbers?)))?;
        Some((format!("{}_{unit}", self.key), Value::Number(numbers.get(index).copied())))
    }

    fn each<T: DeserializeOwned>(&self, number: impl Fn(T) -> f64) -> Option<Vec<f64>> {
        let read = |value: &Toml| value.is_str().then(|| value.clone().try_into().ok()).flatten().map(&number);
        self.values.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(key: &str, values: &[&str]) -> Axis {
        Axis { key: key.to_owned(), values: values.iter().map(|value| Toml::String((*value).to_owned())).collect() }
    }

    #[test]
    fn times_rates_and_sizes_are_numbers_too() {
        let number = |axis: &Axis, index| axis.measured(index).map(|(name, value)| (name, value.text()));
        let of = |key: &str, text: &str| Some((key.to_owned(), text.to_owned()));
        let delay = axis("down.delay", &["5ms", "100us", "2s"]);
        assert_eq!(number(&delay, 1), of("down.delay_ms", "0.1"));
        assert_eq!(number(&delay, 2), of("down.delay_ms", "2000"));
        assert_eq!(number(&axis("down.rate", &["5 Mbit/s", "1 Gbit/s"]), 1), of("down.rate_mbps", "1000"));
        assert_eq!(number(&axis("cross.0.packet", &["1500B", "9kB"]), 1), of("cross.0.packet_bytes", "9000"));
        for mixed in [&["5ms", "fast"][..], &["5ms", "5 Mbit/s"], &["droptail:bdp=1", "codel"]] {
            assert_eq!(axis("down.queue", mixed).measured(0), None, "{mixed:?}");
        }
        let numbers = Axis { key: "down.loss".to_owned(), values: vec![Toml::Float(0.1)] };
        assert_eq!(numbers.measured(0), None, "it is one already");
    }
}
