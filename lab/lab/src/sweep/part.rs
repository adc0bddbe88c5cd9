//! A share of a sweep's runs, for machines that do not know of each other.

use std::fmt;
use std::str::FromStr;

use paceline_cc::foreign::clipped;

/// The `number`th of `of` parts, from 1: one job of an array of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    number: usize,
    of: usize,
}

/// Not a part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a part; write I/N, such as 1/10, with I from 1 to N")]
pub struct NotAPart(String);

impl Part {
    /// Whether this share belongs to it: they are dealt out in turns, so that parts take about as long.
    pub(super) fn has(self, share: usize) -> bool {
        share % self.of == self.number - 1
    }
}

impl FromStr for Part {
    type Err = NotAPart;

    fn from_str(text: &str) -> Result<Self, NotAPart> {
        let read = |text: &str| text.trim().parse::<usize>().ok();
        text.split_once('/')
            .and_then(|(number, of)| Some(Self { number: read(number)?, of: read(of)? }))
            .filter(|part| (1..=part.of).contains(&part.number))
            .ok_or_else(|| NotAPart(clipped(text)))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}
