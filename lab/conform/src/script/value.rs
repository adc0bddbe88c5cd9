//! What a controller answers, what is expected of it, and how the two are compared.

use std::fmt;

use paceline_cc::names::nearest;
use paceline_cc::observe::Answers;
use paceline_cc::units::{rate_text, span_text};
use paceline_cc::{Bytes, Controller, Nanos, Pacing, Rate, Time};

/// What is asked of a controller: an answer of an event log, or a variable that it describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Window,
    Pacing,
    NextTick,
    Threshold,
    HoldsAgainstMarks,
    /// By its name in records and plots.
    Variable(String),
}

/// The answers of an event log.
pub(super) const ANSWERS: [(&str, Asked); 5] = [
    ("window", Asked::Window),
    ("pacing", Asked::Pacing),
    ("next_tick", Asked::NextTick),
    ("threshold", Asked::Threshold),
    ("holds_against_marks", Asked::HoldsAgainstMarks),
];

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// As the variable's name says.
    Plain,
    Bytes,
    /// Of the size at the time.
    Packets,
    /// Bytes a second.
    Rate,
    /// Nanoseconds.
    Span,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Number(f64, Unit),
    /// What is not a number: `free`, `never`, `unknown`, `true`, `false`.
    Word(&'static str),
}

/// Words that stand for values.
const VALUE_WORDS: [&str; 5] = ["free", "never", "unknown", "true", "false"];

impl Value {
    /// Of a text without white space, or a number and its unit joined.
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Some(word) = VALUE_WORDS.into_iter().find(|word| *word == text) {
            return Some(Self::Word(word));
        }
        let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-'))).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let plain: f64 = number.parse().ok().filter(|number: &f64| number.is_finite())?;
        match unit {
            "" => Some(Self::Number(plain, Unit::Plain)),
            "packet" | "packets" => Some(Self::Number(plain, Unit::Packets)),
            _ => {
                let span = text.parse().map(|span: Nanos| (span.as_nanos(), Unit::Span)).ok();
                let rate = || text.parse().map(|rate: Rate| (rate.as_bytes_per_sec(), Unit::Rate)).ok();
                let size = || text.parse().map(|Bytes(size)| (size, Unit::Bytes)).ok();
                span.or_else(rate).or_else(size).map(|(value, unit)| Self::Number(value as f64, unit))
            }
        }
    }

    /// In bytes, where it is in packets of `mss`.
    pub(super) fn with_mss(self, mss: u32) -> Self {
        match self {
            Self::Number(value, Unit::Packets) => Self::Number(value * f64::from(mss), Unit::Bytes),
            other => other,
        }
    }
}

/// What values of an answer are, in words, for an error.
pub(super) const fn wanted(asked: &Asked) -> &'static str {
    match asked {
        Asked::Window => "a size such as '10 packets' or '14480 B'",
        Asked::Threshold => "a size such as '10 packets' or '14480 B', or 'unknown'",
        Asked::Pacing => "a rate such as 12Mbit/s, a gap such as 2ms, 'free' or 'never'",
        Asked::NextTick => "a time such as 120ms, or 'never'",
        Asked::HoldsAgainstMarks => "'true' or 'false'",
        Asked::Variable(_) => "a plain number: the unit is in the variable's name",
    }
}

/// Whether a value is of those that an answer takes.
pub(super) fn fits(asked: &Asked, value: Value) -> bool {
    let number = |units: &[Unit]| matches!(value, Value::Number(_, unit) if units.contains(&unit));
    let word = |words: &[&str]| matches!(value, Value::Word(word) if words.contains(&word));
    match asked {
        Asked::Window => number(&[Unit::Bytes, Unit::Packets]),
        Asked::Threshold => number(&[Unit::Bytes, Unit::Packets]) || word(&["unknown"]),
        Asked::Pacing => number(&[Unit::Rate, Unit::Span]) || word(&["free", "never"]),
        Asked::NextTick => number(&[Unit::Span]) || word(&["never"]),
        Asked::HoldsAgainstMarks => word(&["true", "false"]),
        Asked::Variable(_) => number(&[Unit::Plain]),
    }
}

impl Asked {
    /// What the controller answers; an error says what it reports instead.
    pub(super) fn of(&self, controller: &dyn Controller) -> Result<Value, Unreported> {
        let answers = Answers::of(controller);
        let bytes = |bytes: u64| Value::Number(bytes as f64, Unit::Bytes);
        Ok(match self {
            Self::Window => bytes(answers.window),
            Self::Threshold if answers.threshold == u64::MAX => Value::Word("unknown"),
            Self::Threshold => bytes(answers.threshold),
            Self::Pacing => match answers.pacing {
                Pacing::Free => Value::Word("free"),
                Pacing::Rate(rate) => Value::Number(rate.as_bytes_per_sec() as f64, Unit::Rate),
                Pacing::Gap(Nanos::MAX) => Value::Word("never"),
                Pacing::Gap(gap) => Value::Number(gap.as_nanos() as f64, Unit::Span),
            },
            Self::NextTick if answers.next_tick == Time::NEVER => Value::Word("never"),
            Self::NextTick => Value::Number(answers.next_tick.as_nanos() as f64, Unit::Span),
            Self::HoldsAgainstMarks => Value::Word(if answers.holds_against_marks { "true" } else { "false" }),
            Self::Variable(name) => {
                let (mut found, mut all) = (None, Vec::new());
                controller.describe(&mut |known, value| {
                    all.push(known);
                    if known == name {
                        found = Some(value);
                    }
                });
                let Some(value) = found else {
                    return Err(Unreported(nearest(name, all.into_iter().chain(ANSWERS.map(|(name, _)| name)))));
                };
                Value::Number(value, Unit::Plain)
            }
        })
    }
}

/// The controller reports no such variable at present; what it reports that is called nearly so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no variable of this name at present; {0}")]
pub(super) struct Unreported(String);

/// How the answer stands to what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Their signs.
pub(super) const RELATIONS: [(&str, Relation); 6] = [
    ("=", Relation::Equal),
    ("!=", Relation::Unequal),
    ("<", Relation::Less),
    ("<=", Relation::AtMost),
    (">", Relation::More),
    (">=", Relation::AtLeast),
];

/// Numbers that differ by less than this share are equal: what is written in decimals is not exact in binary.
const ROUNDING: f64 = 1e-9;

impl Relation {
    /// Whether `answered` stands so to `expected`; `slack` is what an equal number may be off by. Values of different kinds are unequal.
    pub(super) fn holds(self, answered: Value, expected: Value, slack: f64) -> bool {
        let (Value::Number(answer, of), Value::Number(expect, than)) = (answered, expected) else {
            return match self {
                Self::Equal => answered == expected,
                Self::Unequal => answered != expected,
                // What has no end is more than any number.
                Self::More | Self::AtLeast => {
                    matches!((answered, expected), (Value::Word("unknown" | "never" | "free"), Value::Number(..)))
                }
                Self::Less | Self::AtMost => false,
            };
        };
        if of != than {
            return self == Self::Unequal;
        }
        let rounding = ROUNDING * expect.abs().max(answer.abs());
        // A window is in whole bytes: of a part of a packet, a part of a byte is missing.
        let whole = if of == Unit::Bytes { 1.0 - ROUNDING } else { 0.0 };
        let equal = (answer - expect).abs() <= slack.max(whole) + rounding;
        match self {
            Self::Equal => equal,
            Self::Unequal => !equal,
            Self::Less => answer < expect && !equal,
            Self::AtMost => answer < expect || equal,
            Self::More => answer > expect && !equal,
            Self::AtLeast => answer > expect || equal,
        }
    }
}

/// A value with its unit, for people.
pub(super) struct Written(pub(super) Value, pub(super) u32);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Word(word) => f.write_str(word),
            Value::Number(value, unit) => match unit {
                Unit::Plain => write!(f, "{value}"),
                Unit::Packets => write!(f, "{value} packets"),
                Unit::Bytes => {
                    let packets = value / f64::from(self.1.max(1));
                    let packets = (packets * 1000.0).round() / 1000.0;
                    write!(f, "{packets} packets ({value} B)")
                }
                Unit::Rate => {
                    let mbps = (value * 8e-3).round() / 1e3;
                    if mbps > 0.0 {
                        write!(f, "{mbps}Mbit/s")
                    } else {
                        f.write_str(&rate_text(Rate::from_bytes_per_sec(value as u64)))
                    }
                }
                Unit::Span => f.write_str(&span_text(Nanos::from_nanos(value as u64))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units() {
        assert_eq!(Value::read("10packets"), Some(Value::Number(10.0, Unit::Packets)));
        assert_eq!(Value::read("14480B"), Some(Value::Number(14480.0, Unit::Bytes)));
        assert_eq!(Value::read("1Mbit/s"), Some(Value::Number(125e3, Unit::Rate)));
        assert_eq!(Value::read("1.5ms"), Some(Value::Number(1.5e6, Unit::Span)));
        assert_eq!(Value::read("-3"), Some(Value::Number(-3.0, Unit::Plain)));
        assert_eq!(Value::read("free"), Some(Value::Word("free")));
        for bad in ["", "packets", "1..2", "--1", "9e9e9", "1 parsec", "-1ms"] {
            assert_eq!(Value::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn relations_have_slack_and_kinds() {
        let bytes = |value| Value::Number(value, Unit::Bytes);
        let rate = Value::Number(100.0, Unit::Rate);
        // 14.5 packets of 1001 bytes are 14514.5 bytes, of which a window has 14514.
        assert!(Relation::Equal.holds(bytes(14514.0), bytes(14514.5), 0.0));
        assert!(Relation::AtLeast.holds(bytes(14514.0), bytes(14514.5), 0.0));
        assert!(!Relation::AtLeast.holds(bytes(14513.0), bytes(14514.5), 0.0));
        assert!(!Relation::Less.holds(bytes(14514.0), bytes(14514.5), 0.0));
        assert!(Relation::Equal.holds(rate, Value::Number(105.0, Unit::Rate), 5.0));
        assert!(!Relation::Equal.holds(rate, bytes(100.0), 5.0) && Relation::Unequal.holds(rate, bytes(100.0), 0.0));
        assert!(Relation::More.holds(Value::Word("unknown"), bytes(9e18), 0.0));
        assert!(!Relation::AtMost.holds(Value::Word("unknown"), bytes(9e18), 0.0));
    }
}
