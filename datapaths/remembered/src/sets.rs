//! The sets of a store, and its text.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use paceline_cc::{Nanos, Remembered};

use crate::Place;

/// How a store begins.
pub const FIRST_LINE: &str = "paceline remembers 1";
/// Most places (our choice: a line takes up to 150 bytes).
pub const MOST: usize = 1024;
/// For how long a set is kept: no start-up makes use of an older one ([`paceline_cc::resume`]).
pub const LONGEST: Nanos = Nanos::from_secs(86_400);

/// Largest window and RTT that are believed (our choice: 1 TiB, an hour).
const WIDEST: u64 = 1 << 40;
const SLOWEST: Nanos = Nanos::from_secs(3_600);
/// What a line of a place has.
const LINE: &str = "'REMOTE LOCAL WINDOW_BYTES RTT_NS UNIX_MS'";

/// What is known of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    window: u64,
    min_rtt: Nanos,
    /// When it was measured, in ms since 1970.
    at: u64,
}

impl Set {
    /// That of a flow which ends at `now`; `None` for what no path has.
    pub(crate) fn new(remembered: &Remembered, now: u64) -> Option<Self> {
        let set = Self {
            window: remembered.window,
            min_rtt: remembered.min_rtt,
            at: now.checked_sub(remembered.age.as_nanos() / 1_000_000)?,
        };
        set.is_possible().then_some(set)
    }

    fn is_possible(&self) -> bool {
        (1..=WIDEST).contains(&self.window) && self.min_rtt > Nanos::ZERO && self.min_rtt <= SLOWEST
    }

    /// For a flow that begins at `now`; `None` where it is too old, or the clock was set back since.
    pub(crate) fn at_time(&self, now: u64) -> Option<Remembered> {
        let age = Nanos::from_nanos(now.checked_sub(self.at)?.saturating_mul(1_000_000));
        (age <= LONGEST).then_some(Remembered::new(self.window, self.min_rtt, age))
    }
}

/// A line that does not belong into a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    pub(crate) line: usize,
    pub(crate) wanted: &'static str,
}

/// All sets of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sets(BTreeMap<Place, Set>);

impl Sets {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, BadLine> {
        let first = BadLine { line: 1, wanted: "'paceline remembers 1'" };
        let text = std::str::from_utf8(text).map_err(|error| BadLine {
            line: 1 + text[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count(),
            wanted: "text in UTF-8",
        })?;
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(first);
        }
        let mut sets = BTreeMap::new();
        for (index, line) in lines.enumerate() {
            let bad = BadLine { line: index + 2, wanted: LINE };
            let (place, set) = place_and_set(line).ok_or(bad)?;
            if sets.insert(place, set).is_some() {
                return Err(BadLine { wanted: "another place", ..bad });
            }
        }
        Ok(Self(sets))
    }

    pub(crate) fn take(&mut self, place: Place) -> Option<Set> {
        self.0.remove(&place)
    }

    /// Puts one in, and what is too old or too much out.
    pub(crate) fn put(&mut self, place: Place, set: Set, now: u64) {
        self.0.retain(|_, set| set.at_time(now).is_some());
        self.0.insert(place, set);
        while self.0.len() > MOST {
            let oldest = self.0.iter().min_by_key(|(_, set)| set.at).map(|(place, _)| *place);
            oldest.map(|place| self.0.remove(&place));
        }
    }
}

fn place_and_set(line: &str) -> Option<(Place, Set)> {
    let mut words = line.split(' ');
    let mut address = || words.next()?.parse::<IpAddr>().ok();
    let place = Place::new(address()?, address()?);
    let mut number = || words.next()?.parse::<u64>().ok();
    let set = Set { window: number()?, min_rtt: Nanos::from_nanos(number()?), at: number()? };
    (words.next().is_none() && set.is_possible()).then_some((place, set))
}

impl fmt::Display for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}")?;
        for (Place { remote, local }, Set { window, min_rtt, at }) in &self.0 {
            writeln!(f, "{remote} {local} {window} {} {at}", min_rtt.as_nanos())?;
        }
        Ok(())
    }
}
