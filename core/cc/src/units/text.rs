//! Units as people write them: `20ms`, `24 Mbit/s`, `2MB`. Used by scenario files, options and parameters alike.

use crate::foreign::clipped;
use std::fmt;
use std::str::FromStr;

use super::{Bytes, Nanos, Rate};

/// A text is not a number with a known unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {wanted}")]
pub struct UnitError {
    text: String,
    wanted: &'static str,
}

/// A micro has two signs (U+00B5, and U+03BC, the Greek letter); keyboards have the one or the other.
const SPANS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];
/// Those without `/s` are tc(8)'s, and single letters those of `iperf3 -b`. Where tc says `bps` it counts bytes, and everybody else bits, so
/// that these are refused; `Mbps` and `Gbps`, with the capital, are what others write alone.
const RATES: &[(&str, f64)] = &[
    ("bit/s", 0.125),
    ("kbit/s", 125.0),
    ("Mbit/s", 125e3),
    ("Gbit/s", 125e6),
    ("bit", 0.125),
    ("kbit", 125.0),
    ("mbit", 125e3),
    ("gbit", 125e6),
    ("Kbit", 125.0),
    ("Mbit", 125e3),
    ("Gbit", 125e6),
    ("Mbps", 125e3),
    ("Gbps", 125e6),
    ("K", 125.0),
    ("M", 125e3),
    ("G", 125e6),
];
/// What tc and others take for different rates, and why it is refused.
const TWO_RATES: [(&str, &str); 4] = [
    ("mbps", "clear: mbps is megabytes for tc and megabits for others; write 12Mbit/s or 12mbit"),
    ("gbps", "clear: gbps is gigabytes for tc and gigabits for others; write 1Gbit/s or 1gbit"),
    ("kbps", "clear: kbps is kilobytes for tc and kilobits for others; write 512kbit/s or 512kbit"),
    ("bps", "clear: bps is bytes for tc and bits for others; write 9600bit/s or 9600bit"),
];
const SIZES: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// The number in `text` times the factor of its unit; not negative, and small enough for a `u64`.
fn parse(text: &str, units: &[(&str, f64)], wanted: &'static str) -> Result<u64, UnitError> {
    let error = || UnitError { text: clipped(text), wanted };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.parse().map_err(|_| error())?;
    let unit = unit.trim();
    // Where "bit" is spelled out, capitals mean nothing else.
    let same = |name: &str| name == unit || name.contains("bit") && name.eq_ignore_ascii_case(unit);
    let (_, factor) = units.iter().find(|(name, _)| same(name)).ok_or_else(error)?;
    let value = (number * factor).round();
    if !value.is_finite() || value > 9e18 {
        return Err(error());
    }
    Ok(value as u64)
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, SPANS, "a time such as 20ms, 1.5s or 2min").map(Self::from_nanos)
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let small = text.trim().to_ascii_lowercase();
        let two = TWO_RATES.iter().find(|(unit, _)| small.ends_with(unit));
        let wanted = two.map_or("a rate such as 12Mbit/s, 12mbit or 1Gbit/s", |(_, why)| why);
        parse(text, RATES, wanted).map(Self::from_bytes_per_sec)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, SIZES, "a size such as 1500B, 64kB or 2MB").map(Bytes)
    }
}

/// The largest unit that keeps the number whole, so that the text gives the same value again.
fn write_exact(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    for (unit, factor) in units {
        if value.is_multiple_of(*factor) {
            return write!(f, "{}{unit}", value / factor);
        }
    }
    write!(f, "{value}")
}

/// A span as text that parses to the same span: `20ms`.
pub fn span_text(span: Nanos) -> String {
    struct Text(u64);
    impl fmt::Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_exact(f, self.0, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)])
        }
    }
    Text(span.as_nanos()).to_string()
}

/// A rate as text that parses to the same rate: `12Mbit/s`.
pub fn rate_text(rate: Rate) -> String {
    struct Text(u64);
    impl fmt::Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            if self.0.is_multiple_of(125) {
                write_exact(f, self.0 / 125, &[("Gbit/s", 1_000_000), ("Mbit/s", 1_000), ("kbit/s", 1)])
            } else {
                write!(f, "{}bit/s", u128::from(self.0) * 8)
            }
        }
    }
    Text(rate.as_bytes_per_sec()).to_string()
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.0, &[("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_parse() {
        assert_eq!("20ms".parse(), Ok(Nanos::from_millis(20)));
        assert_eq!("1.5 s".parse(), Ok(Nanos::from_millis(1500)));
        assert_eq!("24 Mbit/s".parse(), Ok(Rate::from_mbps(24.0)));
        assert_eq!("24Mbps".parse(), Ok(Rate::from_mbps(24.0)));
        assert_eq!("2MB".parse(), Ok(Bytes(2_000_000)));
        assert_eq!("1500".parse(), Ok(Bytes(1500)));
        for bad in ["", "ms", "-1ms", "1", "1 parsec", "nan s", "99999999999999999999999h", "1..2ms"] {
            assert!(bad.parse::<Nanos>().is_err(), "{bad}");
        }
        for text in ["24mbit", "24 Mbit", "24000kbit", "0.024gbit", "24M", "24 MBit/s", "24MBIT"] {
            assert_eq!(text.parse(), Ok(Rate::from_mbps(24.0)), "{text}");
        }
        for text in ["20us", "20µs", "20μs"] {
            assert_eq!(text.parse(), Ok(Nanos::from_micros(20)), "{text}");
        }
        for text in ["512kbps", "512Kbps", "9600bps", "12mbps", "1gbps", "0bps", "1GBPS"] {
            let error = text.parse::<Rate>().map(drop).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains("is not clear: ")), "{text}: {error:?}");
        }
        let error = "24mbps".parse::<Rate>().unwrap_err().to_string();
        assert!(error.starts_with("'24mbps' is not clear: mbps is megabytes for tc"), "{error}");
        let error = "12 Mb".parse::<Rate>().unwrap_err();
        assert_eq!(error.to_string(), "'12 Mb' is not a rate such as 12Mbit/s, 12mbit or 1Gbit/s");
    }

    #[test]
    fn text_round_trips() {
        for nanos in [0, 1, 999, 1_000, 20_000_000, 1_500_000_000, 60_000_000_000] {
            let span = Nanos::from_nanos(nanos);
            assert_eq!(span_text(span).parse(), Ok(span));
        }
        for bytes in [0, 1, 125, 1_500_000, 125_000_000, 12_345_678] {
            let rate = Rate::from_bytes_per_sec(bytes);
            assert_eq!(rate_text(rate).parse(), Ok(rate));
        }
        assert_eq!(Bytes(2_000_000).to_string(), "2MB");
    }
}
