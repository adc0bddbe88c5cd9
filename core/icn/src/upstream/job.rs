//! One fetch from the other routers.

use std::collections::BTreeMap;

use bytes::Bytes;
use paceline_cc::{Nanos, Time};

use super::JobId;
use crate::fetch::{Fetch, Output};
use crate::limiter::CountedAddress;
use crate::name::Name;
use crate::ranges::MAX_UNITS;
use crate::shares::Standing;

/// Units that a fetch is ahead of the last one that was asked for, at most (our choice: what a receiver asks for next is there).
const AHEAD: u64 = 512;

/// ... and at the start (our choice: the largest request, so that one that asks for a unit makes a router fetch no more than that). It doubles each time
/// that someone misses what is further on, as Linux's `ondemand_readahead` does.
pub(super) const FIRST_AHEAD: u64 = MAX_UNITS as u64;

/// Units of a fetch that are kept in memory after they came.
const RECENT: usize = 2048;

/// A fetch that no request needed for this long ends.
const IDLE: Nanos = Nanos::from_secs(3);

/// Those who asked for a fetch that are remembered (our choice: who is not among them is served all the same).
const ASKERS: usize = 8;

pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) name: Name,
    pub(super) fetch: Fetch,
    pub(super) hops: u8,
    pub(super) began: Time,
    pub(super) wanted_at: Time,
    /// Who missed something of it lately, and when last.
    pub(super) askers: Vec<(CountedAddress, Time)>,
    /// It was asked for since the router last turned to it.
    pub(super) used: bool,
    /// The first unit that can still come, or is still in memory.
    pub(super) from: u64,
    /// One past the last unit that was asked for.
    pub(super) wanted: u64,
    /// Units that it is ahead of that.
    pub(super) ahead: u64,
    pub(super) furthest: u64,
    pub(super) kept: bool,
    pub(super) manifest: Option<Bytes>,
    pub(super) recent: BTreeMap<u64, Bytes>,
    /// A signed name's record: all of its stored form.
    pub(super) record: bool,
    /// The record's version, once it has come.
    pub(super) version: u64,
    pub(super) done: bool,
}

impl Job {
    pub(super) fn stored_units(&self) -> Option<u64> {
        if self.record { Some(1) } else { self.fetch.manifest().map(|manifest| manifest.layout().stored_units()) }
    }

    /// The last unit that it may be asked for: further ones are for another fetch.
    fn furthest_asked(&self) -> u64 {
        self.wanted.saturating_add(2 * self.ahead)
    }

    /// Whether it is the fetch for who misses `unit`.
    pub(super) fn is_near(&self, unit: u64) -> bool {
        !self.done && (self.from..=self.furthest_asked()).contains(&unit)
    }

    /// Units up to `end` are missed.
    pub(super) fn miss(&mut self, end: u64) {
        if end > self.wanted {
            self.ahead = AHEAD.min(2 * self.ahead);
            self.begin(end);
        }
    }

    /// Units up to `end` are asked for: they come, as far as that is not too far away, and those that it is ahead.
    pub(super) fn begin(&mut self, end: u64) {
        self.wanted = end.min(self.furthest_asked());
        self.fetch.ask_until(self.wanted.saturating_add(self.ahead));
    }

    pub(super) fn is_idle(&self, now: Time) -> bool {
        now >= self.idle_at()
    }

    /// When it is over, unless a request for something of it comes.
    pub(super) fn idle_at(&self) -> Time {
        self.wanted_at + IDLE
    }

    /// A source missed something of it.
    pub(super) fn asked_by(&mut self, source: CountedAddress, now: Time) {
        self.wanted_at = now;
        self.askers.retain(|(other, at)| *other != source && now.since(*at) <= IDLE);
        if self.askers.len() == ASKERS {
            self.askers.remove(0);
        }
        self.askers.push((source, now));
    }

    /// As it stands where another wants its place.
    pub(super) fn standing(&self, now: Time) -> Standing {
        let idle = if self.used { Nanos::ZERO } else { now.since(self.wanted_at) };
        Standing { askers: self.askers.iter().map(|(source, _)| *source).collect(), idle }
    }

    /// Verified units, as far as they may come: what is not taken is not replaced.
    pub(super) fn take(&mut self) -> Vec<(u64, Bytes)> {
        let mut came = Vec::new();
        while self.furthest < self.wanted.saturating_add(self.ahead)
            && let Some(output) = self.fetch.poll_output()
        {
            let (unit, bytes) = match output {
                Output::Unit { unit, bytes } => (unit, bytes),
                Output::Record(record) => {
                    self.record = true;
                    self.version = record.version;
                    (0, Bytes::copy_from_slice(&record.encode()))
                }
                Output::Done => {
                    self.done = true;
                    continue;
                }
                Output::Manifest(_) | Output::Bytes { .. } => continue,
            };
            if unit == 0 {
                self.manifest = Some(bytes.clone());
            }
            self.furthest = self.furthest.max(unit);
            self.recent.insert(unit, bytes.clone());
            if self.recent.len() > RECENT
                && let Some((gone, _)) = self.recent.pop_first()
            {
                self.from = self.from.max(gone + 1);
            }
            came.push((unit, bytes));
        }
        came
    }
}
