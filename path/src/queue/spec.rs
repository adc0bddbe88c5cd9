//! Queues by name: `droptail:bytes=2MB`, `codel:target=5ms,interval=100ms`.

use std::fmt;
use std::str::FromStr;

use paceline_cc::registry::nearest;
use paceline_cc::{Bytes, Nanos, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{DropTail, Queue};
use crate::stats::Count;

/// How much a queue holds; nothing set means without limit.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Limit {
    /// Most bytes.
    pub bytes: Option<u64>,
    /// Most packets.
    pub packets: Option<u64>,
    /// Most bytes as a multiple of the bandwidth-delay product.
    pub bdp: Option<f64>,
}

impl Limit {
    /// At most so many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes: Some(bytes), packets: None, bdp: None }
    }

    /// At most so many packets.
    pub const fn packets(packets: u64) -> Self {
        Self { bytes: None, packets: Some(packets), bdp: None }
    }

    /// No limit.
    pub const NONE: Self = Self { bytes: None, packets: None, bdp: None };

    /// Whether a packet of `size` bytes still fits in.
    pub fn holds(&self, queued: Count, size: u32) -> bool {
        self.bytes.is_none_or(|most| queued.bytes + u64::from(size) <= most)
            && self.packets.is_none_or(|most| queued.packets < most)
    }

    /// The limit in bytes and packets for a link of this mean rate and round trip.
    fn resolved(self, rate: Rate, base_rtt: Nanos) -> Self {
        let product = self.bdp.map(|times| Rate::from_bytes_per_sec(rate.bytes_in(base_rtt)).mul_f64(times));
        let bytes = [self.bytes, product.map(Rate::as_bytes_per_sec)].into_iter().flatten().min();
        Self { bytes, packets: self.packets, bdp: None }
    }
}

/// A queue and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSpec {
    /// First in, first out, dropping what finds it full; without a limit, the infinite queue.
    DropTail {
        /// How much it holds.
        limit: Limit,
    },
}

/// Why a queue could not be made from its text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// No queue has this name.
    #[error("unknown queue '{name}'; {hint}")]
    UnknownQueue {
        /// The name as given.
        name: String,
        /// The nearest names.
        hint: String,
    },
    /// The queue has no such key.
    #[error("queue '{queue}' has no key '{key}'; {hint}")]
    UnknownKey {
        /// The queue.
        queue: String,
        /// The key as given.
        key: String,
        /// The nearest names.
        hint: String,
    },
    /// Not of the form `key=value`.
    #[error("queue '{queue}': '{text}' is not of the form key=value")]
    NotKeyValue {
        /// The queue.
        queue: String,
        /// The text as given.
        text: String,
    },
    /// The same key twice.
    #[error("queue '{queue}': key '{key}' is given twice; keep one")]
    Twice {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
    },
    /// A value that the key does not take.
    #[error("queue '{queue}': {key}={value} is not {wanted}")]
    BadValue {
        /// The queue.
        queue: String,
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What it takes.
        wanted: String,
    },
    /// A queue without the key that says how large it is.
    #[error("queue '{queue}' needs a limit: {wanted}")]
    NoLimit {
        /// The queue.
        queue: String,
        /// What it takes.
        wanted: &'static str,
    },
}

impl QueueSpec {
    /// The queue without a limit.
    pub const INFINITE: Self = Self::DropTail { limit: Limit::NONE };

    /// Makes the queue for a link of this mean rate and round trip.
    pub fn build<P: Send + 'static>(&self, rate: Rate, base_rtt: Nanos, _seed: u64) -> Box<dyn Queue<P>> {
        match *self {
            Self::DropTail { limit } => Box::new(DropTail::new(limit.resolved(rate, base_rtt))),
        }
    }

    /// Whether its size depends on the bandwidth-delay product.
    pub fn needs_bdp(&self) -> bool {
        match self {
            Self::DropTail { limit } => limit.bdp.is_some(),
        }
    }
}

/// The keys given for one queue.
struct Keys<'a> {
    queue: &'a str,
    given: Vec<(&'a str, &'a str)>,
}

const LIMIT_KEYS: &str = "bytes=2MB, packets=100 or bdp=1";

impl<'a> Keys<'a> {
    fn parse(queue: &'a str, text: &'a str, known: &[&str]) -> Result<Self, QueueError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let queue = queue.to_owned();
            let Some((key, value)) = part.split_once('=') else {
                return Err(QueueError::NotKeyValue { queue, text: clipped(part) });
            };
            let (key, value) = (key.trim(), value.trim());
            if !known.contains(&key) {
                return Err(QueueError::UnknownKey {
                    queue,
                    key: clipped(key),
                    hint: nearest(key, known.iter().copied()),
                });
            }
            if given.iter().any(|(other, _)| *other == key) {
                return Err(QueueError::Twice { queue, key: key.to_owned() });
            }
            given.push((key, value));
        }
        Ok(Self { queue, given })
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.given.iter().find(|(given, _)| *given == key).map(|(_, value)| *value)
    }

    fn bad(&self, key: &str, value: &str, wanted: impl fmt::Display) -> QueueError {
        let (queue, key) = (self.queue.to_owned(), key.to_owned());
        QueueError::BadValue { queue, key, value: clipped(value), wanted: wanted.to_string() }
    }

    fn bytes(&self, key: &str) -> Result<Option<u64>, QueueError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse() {
            Ok(Bytes(0)) => Err(self.bad(key, text, "a size above 0")),
            Ok(Bytes(bytes)) => Ok(Some(bytes)),
            Err(_) => Err(self.bad(key, text, "a size such as 64kB or 2MB")),
        }
    }

    fn packets(&self, key: &str) -> Result<Option<u64>, QueueError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse() {
            Ok(packets) if packets > 0 => Ok(Some(packets)),
            _ => Err(self.bad(key, text, "a whole number of packets above 0")),
        }
    }

    fn number(&self, key: &str, min: f64, max: f64) -> Result<Option<f64>, QueueError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(number) if number >= min && number <= max => Ok(Some(number)),
            _ => Err(self.bad(key, text, format_args!("a number from {min} to {max}"))),
        }
    }

    fn limit(&self) -> Result<Limit, QueueError> {
        Ok(Limit {
            bytes: self.bytes("bytes")?,
            packets: self.packets("packets")?,
            bdp: self.number("bdp", 0.001, 1e6)?,
        })
    }

    fn some_limit(&self) -> Result<Limit, QueueError> {
        let limit = self.limit()?;
        if limit == Limit::NONE {
            return Err(QueueError::NoLimit { queue: self.queue.to_owned(), wanted: LIMIT_KEYS });
        }
        Ok(limit)
    }
}

impl FromStr for QueueSpec {
    type Err = QueueError;

    fn from_str(text: &str) -> Result<Self, QueueError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        match name {
            "infinite" => Keys::parse(name, rest, &[]).map(|_| Self::INFINITE),
            "droptail" => {
                let keys = Keys::parse(name, rest, &["bytes", "packets", "bdp"])?;
                Ok(Self::DropTail { limit: keys.some_limit()? })
            }
            _ => {
                let names = ["infinite", "droptail"];
                Err(QueueError::UnknownQueue { name: clipped(name), hint: nearest(name, names.into_iter()) })
            }
        }
    }
}

/// The text that gives the same queue again, with every key.
impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropTail { limit: Limit::NONE } => f.write_str("infinite"),
            Self::DropTail { limit } => write!(f, "droptail:{limit}"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.map(|bytes| format!("bytes={}", Bytes(bytes)));
        let packets = self.packets.map(|packets| format!("packets={packets}"));
        let bdp = self.bdp.map(|bdp| format!("bdp={bdp}"));
        let keys: Vec<String> = [bytes, packets, bdp].into_iter().flatten().collect();
        f.write_str(&keys.join(","))
    }
}

impl<'de> Deserialize<'de> for QueueSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for QueueSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// At most 40 characters of a text from outside, so that an error stays one readable line.
fn clipped(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}
