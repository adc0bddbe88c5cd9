//! The header `Range` (RFC 9110 section 14.2).

use std::ops::Range;

/// What a request wants of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of it. Several ranges at once count as this, which the RFC allows.
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// Nothing that is there.
    Nothing,
}

/// What `header` wants of an object of `length` bytes. What is not a range of bytes is ignored, as the RFC says.
pub(super) fn asked(header: &str, length: u64) -> Asked {
    let Some((unit, set)) = header.split_once('=') else { return Asked::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Asked::Whole;
    }
    let set = set.trim();
    let Some((first, last)) = set.split_once('-').filter(|_| !set.contains(',')) else { return Asked::Whole };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(first) || !digits(last) {
        return Asked::Whole;
    }
    // A number that is too large lies behind every end.
    let number = |text: &str| text.parse().unwrap_or(u64::MAX);
    let range = match (first, last) {
        ("", "") => return Asked::Whole,
        // The end of nothing is all of it.
        ("", count) if length == 0 && number(count) > 0 => return Asked::Whole,
        ("", count) => length.saturating_sub(number(count))..length,
        (first, "") => number(first)..length,
        (first, last) if number(first) > number(last) => return Asked::Whole,
        (first, last) => number(first)..number(last).saturating_add(1).min(length),
    };
    if range.is_empty() { Asked::Nothing } else { Asked::Part(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_the_rfc_has_them() {
        for (header, expected) in [
            ("bytes=0-0", Asked::Part(0..1)),
            ("bytes=0-99", Asked::Part(0..10)),
            ("bytes=3-", Asked::Part(3..10)),
            ("Bytes=3-", Asked::Part(3..10)),
            ("bytes=-4", Asked::Part(6..10)),
            ("bytes=-40", Asked::Part(0..10)),
            ("bytes=9-9", Asked::Part(9..10)),
            ("bytes=10-", Asked::Nothing),
            ("bytes=-0", Asked::Nothing),
            ("bytes=99999999999999999999999-", Asked::Nothing),
            ("bytes=0-99999999999999999999999", Asked::Part(0..10)),
            ("bytes=5-4", Asked::Whole),
            ("bytes=0-1,4-5", Asked::Whole),
            ("bytes=-", Asked::Whole),
            ("bytes=a-b", Asked::Whole),
            ("lines=1-2", Asked::Whole),
        ] {
            assert_eq!(asked(header, 10), expected, "{header}");
        }
        assert_eq!((asked("bytes=0-", 0), asked("bytes=-0", 0)), (Asked::Nothing, Asked::Nothing));
        assert_eq!(asked("bytes=-5", 0), Asked::Whole);
    }
}
