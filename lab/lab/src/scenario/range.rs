//! Keys that hold a range: `loss = "0.001..0.01"`, `start = "0ms..100ms"`; and parameters of queues and controllers that
//! do: `queue = "droptail:bytes=1MB..3MB"`.
//!
//! A value is drawn for each run from a stream of the run's seed that the key's place names, so that a range added
//! elsewhere shifts nothing. What comes after sees a scenario without ranges.

use std::collections::BTreeMap;

use paceline_cc::units::{rate_text, span_text};
use paceline_cc::{Bytes, Nanos, Rate};
use paceline_experiment::Seed;
use rand::RngExt;

use super::ScenarioError;
use super::places::Places;
use crate::record::rounded;

/// Tables whose keys may hold ranges; what stands above them is the same for every run.
const TABLES: [&str; 7] = ["down", "up", "links", "telemetry", "flows", "cross", "when"];

/// Keys of these tables whose text has parameters, `name:key=value,key=value`, that may hold ranges.
const WITH_PARAMETERS: [&str; 2] = ["queue", "contestant"];

/// What was drawn for a run.
#[derive(Default)]
pub(super) struct Draws {
    /// By key, for people.
    pub(super) drawn: BTreeMap<String, String>,
    /// What the scenario has in their places, by key: a text with a range, or nothing.
    pub(super) written: BTreeMap<String, Option<String>>,
    /// In TOML, by the first byte of the value with the range: what takes its place.
    pub(super) values: BTreeMap<usize, String>,
}

/// Draws a value for every range.
///
/// # Errors
/// When a range's ends are of different kinds or in the wrong order.
pub(super) fn draw(places: &Places<'_>, seed: Seed) -> Result<Draws, ScenarioError> {
    let Draws { mut drawn, mut written, mut values } = Draws::default();
    for place in places.iter() {
        let top = place.path.split(['.', '[']).next().unwrap_or_default();
        let Some(string) = place.string.as_deref().filter(|string| string.contains("..") && TABLES.contains(&top))
        else {
            continue;
        };
        let mut draw = |path: &str, range: &str| {
            let value = Drawn::of(range).map(|range| range.draw(seed, path)).transpose();
            let value = value.map_err(|error| places.at(&place.path, error.to_string()))?;
            if let Some(value) = &value {
                drawn.insert(path.to_owned(), value.trim_matches('"').to_owned());
            }
            Ok(value)
        };
        let value = if WITH_PARAMETERS.contains(&place.path.rsplit('.').next().unwrap_or_default()) {
            Some(draw_parameters(&place.path, string, draw)?)
        } else {
            draw(&place.path, string)?
        };
        if let Some(value) = value {
            written.insert(place.path.clone(), Some(string.to_owned()));
            values.insert(place.value.start, value);
        }
    }
    Ok(Draws { drawn, written, values })
}

/// The text as a TOML value, with a draw in the place of every parameter's range. The place of a parameter's draw is its
/// key below the text's; `lower` is between them for the TCP under `alcc`.
fn draw_parameters(
    path: &str,
    text: &str,
    mut draw: impl FnMut(&str, &str) -> Result<Option<String>, ScenarioError>,
) -> Result<String, ScenarioError> {
    let mut result = String::new();
    let mut below = "";
    for piece in text.split_inclusive([',', '@']) {
        let body = piece.trim_end_matches([',', '@']);
        let value = match body.split_once('=') {
            Some((key, range)) => {
                let key = key.rsplit(':').next().unwrap_or(key).trim();
                draw(&format!("{path}.{below}{key}"), range)?.map(|value| (body.len() - range.len(), value))
            }
            None => None,
        };
        match value {
            Some((start, value)) => {
                result.push_str(&body[..start]);
                result.push_str(value.trim_matches('"'));
                result.push_str(&piece[body.len()..]);
            }
            None => result.push_str(piece),
        }
        if piece.ends_with('@') {
            below = "lower.";
        }
    }
    Ok(toml::Value::from(result).to_string())
}

/// Why nothing can be drawn from a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum RangeError {
    #[error("the range {low}..{high} runs backwards; write the smaller end first")]
    Backwards { low: String, high: String },
    #[error("{low} and {high} are not of one kind; give both ends of the range the same unit")]
    Unlike { low: String, high: String },
}

/// The two ends of a range.
enum Drawn {
    Integer(i64, i64),
    Number(f64, f64),
    Span(Nanos, Nanos),
    Rate(Rate, Rate),
    Size(Bytes, Bytes),
    /// Of a queue's unit that no other key has.
    Unit(Box<Drawn>, &'static str),
    Unlike(String, String),
}

impl Drawn {
    /// `None` when the text is not a range.
    fn of(text: &str) -> Option<Self> {
        let (low, high) = text.split_once("..")?;
        Self::parse(low.trim(), high.trim())
    }

    /// `None` when the ends are not quantities: a text that happens to hold two dots.
    fn parse(low: &str, high: &str) -> Option<Self> {
        if let (Ok(low), Ok(high)) = (low.parse(), high.parse()) {
            return Some(Self::Integer(low, high));
        }
        if let (Ok(low), Ok(high)) = (low.parse::<f64>(), high.parse::<f64>()) {
            return (low.is_finite() && high.is_finite()).then_some(Self::Number(low, high));
        }
        if let (Ok(low), Ok(high)) = (low.parse(), high.parse()) {
            return Some(Self::Span(low, high));
        }
        if let (Ok(low), Ok(high)) = (low.parse(), high.parse()) {
            return Some(Self::Rate(low, high));
        }
        if let (Ok(low), Ok(high)) = (low.parse(), high.parse()) {
            return Some(Self::Size(low, high));
        }
        for unit in ["packets", "bdp"] {
            if let (Some(low), Some(high)) = (low.strip_suffix(unit), high.strip_suffix(unit)) {
                let number = Self::parse(low.trim_end(), high.trim_end());
                return number
                    .filter(|number| matches!(number, Self::Integer(..) | Self::Number(..)))
                    .map(|number| Self::Unit(Box::new(number), unit));
            }
        }
        let quantity = |text: &str| {
            let number = text.parse::<f64>().is_ok();
            number || text.parse::<Nanos>().is_ok() || text.parse::<Rate>().is_ok() || text.parse::<Bytes>().is_ok()
        };
        (quantity(low) && quantity(high)).then(|| Self::Unlike(low.to_owned(), high.to_owned()))
    }

    /// A TOML value, evenly distributed between the ends, both included.
    fn draw(self, seed: Seed, path: &str) -> Result<String, RangeError> {
        let mut random = seed.stream(&format!("range {path}"));
        let backwards = |low: String, high: String| RangeError::Backwards { low, high };
        let mut between = |low: u64, high: u64| (low <= high).then(|| random.random_range(low..=high));
        match self {
            Self::Integer(low, high) => {
                let span = high.checked_sub(low).and_then(|span| u64::try_from(span).ok());
                let offset = span.and_then(|span| between(0, span)).and_then(|offset| i64::try_from(offset).ok());
                match offset.and_then(|offset| low.checked_add(offset)) {
                    Some(value) => Ok(value.to_string()),
                    None => Err(backwards(low.to_string(), high.to_string())),
                }
            }
            Self::Number(low, high) if low > high => Err(backwards(low.to_string(), high.to_string())),
            Self::Number(low, high) => {
                let value = rounded(low + (high - low) * random.random::<f64>()).clamp(low, high);
                Ok(format!("{value:?}"))
            }
            Self::Span(low, high) => between(low.as_nanos(), high.as_nanos())
                .map(|value| format!("\"{}\"", span_text(Nanos::from_nanos(value))))
                .ok_or_else(|| backwards(span_text(low), span_text(high))),
            Self::Rate(low, high) => between(low.as_bytes_per_sec(), high.as_bytes_per_sec())
                .map(|value| format!("\"{}\"", rate_text(Rate::from_bytes_per_sec(value))))
                .ok_or_else(|| backwards(rate_text(low), rate_text(high))),
            Self::Size(low, high) => between(low.0, high.0)
                .map(|value| format!("\"{}\"", Bytes(value)))
                .ok_or_else(|| backwards(low.to_string(), high.to_string())),
            Self::Unit(number, unit) => Ok(format!("\"{}{unit}\"", number.draw(seed, path)?)),
            Self::Unlike(low, high) => Err(RangeError::Unlike { low, high }),
        }
    }
}
