//! The `key=value` pairs of a queue, each checked.

use std::fmt;

use paceline_cc::foreign::clipped;
use paceline_cc::names::nearest;
use paceline_cc::units::span_text;
use paceline_cc::{Bytes, Nanos, Rate};

use super::spec::QueueError;
use super::{DualPi2Params, FqParams, QueueBound, RedParams, Spacing, Threshold};

/// The keys given for one queue.
pub(super) struct Keys<'a> {
    queue: &'a str,
    given: Vec<(&'a str, &'a str)>,
}

/// Bounds of a limit in bandwidth-delay products (our choice: far beyond any use).
const MIN_BDP: f64 = 0.001;
const MAX_BDP: f64 = 1e6;

/// Bounds of DualPI2's parameters (our choice: far beyond any use, and so that an idle queue needs few updates).
const MIN_SPAN: Nanos = Nanos::from_micros(100);
const MAX_SPAN: Nanos = Nanos::from_millis(10_000);
const MIN_ALPHA: f64 = 0.001;
const MAX_GAIN: f64 = 1000.0;
const MIN_COUPLING: f64 = 0.01;
const MAX_COUPLING: f64 = 100.0;
const MAX_TH_LEN: usize = 1000;

impl<'a> Keys<'a> {
    pub(super) fn parse(queue: &'a str, text: &'a str, known: &[&str]) -> Result<Self, QueueError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let queue = queue.to_owned();
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key.trim(), value.trim()),
                // `droptail:2MB`.
                None if given.is_empty() && known.contains(&"limit") && is_amount(part) => ("limit", part.trim()),
                None => return Err(QueueError::NotKeyValue { queue, text: clipped(part) }),
            };
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

    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.given.iter().find(|(given, _)| *given == key).map(|(_, value)| *value)
    }

    fn bad(&self, key: &str, value: &str, wanted: impl fmt::Display) -> QueueError {
        let (queue, key) = (self.queue.to_owned(), key.to_owned());
        QueueError::BadValue { queue, key, value: clipped(value), wanted: wanted.to_string() }
    }

    pub(super) fn bytes(&self, key: &str) -> Result<Option<u64>, QueueError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse() {
            Ok(Bytes(0)) => Err(self.bad(key, text, "a size above 0")),
            Ok(Bytes(bytes)) => Ok(Some(bytes)),
            Err(_) => Err(self.bad(key, text, "a size such as 64kB or 2MB")),
        }
    }

    pub(super) fn packets(&self, key: &str) -> Result<Option<u64>, QueueError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse() {
            Ok(packets) if packets > 0 => Ok(Some(packets)),
            _ => Err(self.bad(key, text, "a whole number of packets above 0")),
        }
    }

    pub(super) fn number(&self, key: &str, min: f64, max: f64) -> Result<Option<f64>, QueueError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(number) if number >= min && number <= max => Ok(Some(number)),
            _ => Err(self.bad(key, text, format_args!("a number from {min} to {max}"))),
        }
    }

    /// A limit as one value with its unit.
    pub(super) fn limit(&self) -> Result<Option<QueueBound>, QueueError> {
        let Some(text) = self.get("limit") else { return Ok(None) };
        let bad = || self.bad("limit", text, "above 0, such as 2MB, 100packets or 1bdp");
        let unknown =
            || self.bad("limit", text, "a number with a unit that is known, such as 64kB, 2MB, 100packets or 1bdp");
        let limit = if text.parse::<f64>().is_ok_and(|number| number > 0.0) {
            return Err(self.bad("limit", text, without_unit(text)));
        } else if let Some(packets) = text.strip_suffix("packets") {
            let number: i64 = packets.trim().parse().map_err(|_| unknown())?;
            // Below 0 as 0, which is refused.
            QueueBound::packets(number.max(0).unsigned_abs())
        } else if let Some(times) = text.strip_suffix("bdp") {
            QueueBound { bdp: Some(times.trim().parse().map_err(|_| unknown())?), ..QueueBound::NONE }
        } else {
            QueueBound::bytes(text.parse::<Bytes>().map_err(|_| unknown())?.0)
        };
        let bdp_fits = limit.bdp.is_none_or(|times| (MIN_BDP..=MAX_BDP).contains(&times));
        if limit.bytes == Some(0) || limit.packets == Some(0) || !bdp_fits {
            return Err(bad());
        }
        Ok(Some(limit))
    }

    pub(super) fn threshold(&self) -> Result<Threshold, QueueError> {
        let wanted = "a time, a size or a number of packets, such as 1ms, 30kB or 20packets";
        let Some(text) = self.get("threshold") else {
            let (queue, key) = (self.queue.to_owned(), "threshold");
            return Err(QueueError::Missing { queue, key, wanted });
        };
        if text.parse::<f64>().is_ok_and(|number| number > 0.0) {
            return Err(self.bad("threshold", text, without_unit(text)));
        }
        if let Some(packets) = text.strip_suffix("packets") {
            let packets = packets.trim().parse().map_err(|_| self.bad("threshold", text, wanted))?;
            return Ok(Threshold::Packets(packets));
        }
        match (text.parse(), text.parse()) {
            (Ok(wait), _) => Ok(Threshold::Wait(wait)),
            (_, Ok(Bytes(bytes))) => Ok(Threshold::Bytes(bytes)),
            _ => Err(self.bad("threshold", text, wanted)),
        }
    }

    pub(super) fn span(&self, key: &str, default: Nanos) -> Result<Nanos, QueueError> {
        let Some(text) = self.get(key) else { return Ok(default) };
        match text.parse() {
            Ok(Nanos::ZERO) => Err(self.bad(key, text, "a time above 0")),
            Ok(span) => Ok(span),
            Err(_) => Err(self.bad(key, text, "a time such as 5ms")),
        }
    }

    /// A time between two bounds.
    fn span_within(&self, key: &str, default: Nanos, min: Nanos, max: Nanos) -> Result<Nanos, QueueError> {
        let Some(text) = self.get(key) else { return Ok(default) };
        match text.parse() {
            Ok(span) if (min..=max).contains(&span) => Ok(span),
            _ => Err(self.bad(key, text, format_args!("a time from {} to {}", span_text(min), span_text(max)))),
        }
    }

    pub(super) fn fq(&self) -> Result<FqParams, QueueError> {
        let default = FqParams::default();
        let flow_limit =
            self.get("flow_limit").map(|text| (text, text.strip_suffix("packets").map(|rest| rest.trim().parse())));
        let flow_limit = match flow_limit {
            None => default.flow_limit,
            Some((_, Some(Ok(packets)))) if packets > 0 => packets,
            Some((text, _)) => {
                return Err(self.bad("flow_limit", text, "a number of packets above 0, such as 100packets"));
            }
        };
        Ok(FqParams {
            quantum: self.bytes("quantum")?.unwrap_or(default.quantum),
            initial_quantum: self.bytes("initial_quantum")?.unwrap_or(default.initial_quantum),
            flow_limit,
            ce_threshold: self.get("ce_threshold").map(|_| self.span("ce_threshold", Nanos::ZERO)).transpose()?,
            maxrate: match self.get("maxrate").map(|text| (text, text.parse())) {
                None => None,
                Some((_, Ok(rate))) if rate > Rate::ZERO => Some(rate),
                Some((text, _)) => return Err(self.bad("maxrate", text, "a rate above 0 such as 10Mbit/s")),
            },
        })
    }

    pub(super) fn dualpi2(&self) -> Result<DualPi2Params, QueueError> {
        let default = DualPi2Params::default();
        let spacing = match self.get("spacing") {
            None => default.spacing,
            Some("even") => Spacing::Even,
            Some("random") => Spacing::Random,
            Some(text) => return Err(self.bad("spacing", text, "even or random")),
        };
        let th_len = match self.get("th_len").map(|text| (text, text.parse())) {
            None => default.th_len,
            Some((_, Ok(packets))) if packets <= MAX_TH_LEN => packets,
            Some((text, _)) => {
                return Err(self.bad("th_len", text, format_args!("a whole number of packets from 0 to {MAX_TH_LEN}")));
            }
        };
        Ok(DualPi2Params {
            target: self.span_within("target", default.target, MIN_SPAN, MAX_SPAN)?,
            tupdate: self.span_within("tupdate", default.tupdate, MIN_SPAN, MAX_SPAN)?,
            alpha: self.number("alpha", MIN_ALPHA, MAX_GAIN)?.unwrap_or(default.alpha),
            beta: self.number("beta", 0.0, MAX_GAIN)?.unwrap_or(default.beta),
            k: self.number("k", MIN_COUPLING, MAX_COUPLING)?.unwrap_or(default.k),
            step: self.span_within("step", default.step, Nanos::ZERO, MAX_SPAN)?,
            range: self.span_within("range", default.range, Nanos::ZERO, MAX_SPAN)?,
            th_len,
            protection: self.number("protection", 0.0, 1.0)?.unwrap_or(default.protection),
            spacing,
        })
    }

    pub(super) fn red(&self) -> Result<RedParams, QueueError> {
        let default = RedParams::default();
        let min = self.number("min", 0.0, 1e9)?.unwrap_or(default.min);
        // Three times `min`: Floyd 1997.
        let max = self.number("max", 0.0, 1e9)?.unwrap_or(3.0 * min);
        let probability = self.number("probability", 0.0, 1.0)?.unwrap_or(default.probability);
        let weight = self.number("weight", 0.0, 1.0)?.unwrap_or(default.weight);
        if max <= min {
            return Err(self.bad("max", &max.to_string(), format_args!("above min={min}")));
        }
        Ok(RedParams { min, max, probability, weight })
    }

    /// The limit of a queue that is nothing else.
    pub(super) fn some_limit(&self) -> Result<QueueBound, QueueError> {
        let (bytes, packets) = (self.bytes("bytes")?, self.packets("packets")?);
        let bdp = self.number("bdp", MIN_BDP, MAX_BDP)?;
        let time = self.get("time").map(|_| self.span("time", Nanos::ZERO)).transpose()?;
        let limit = QueueBound { bytes, packets, bdp, time };
        if let Some(alone) = self.limit()? {
            let text = self.get("limit").unwrap_or_default();
            return if limit == QueueBound::NONE { Ok(alone) } else { Err(self.bad("limit", text, "alone")) };
        }
        if limit == QueueBound::NONE {
            let (queue, key) = (self.queue.to_owned(), "bytes");
            return Err(QueueError::Missing { queue, key, wanted: "such as bytes=2MB, packets=100 or bdp=1" });
        }
        Ok(limit)
    }
}

/// What is wanted in place of a bare number, which could be packets (tc, Mahimahi) or bytes.
fn without_unit(text: &str) -> String {
    let text = clipped(text);
    format!("clear without a unit; write {text}packets or {text}B")
}

/// Whether a text can be a limit without its key: it begins with a digit.
fn is_amount(text: &str) -> bool {
    text.trim_start().starts_with(|c: char| c.is_ascii_digit())
}
