//! The maps that programs in the kernel share with the agent. They are found by their name among all maps: nothing is pinned, and a
//! program may come and go.

use std::io;
use std::time::Instant;

use paceline_cc::{Nanos, Time};
use paceline_kernel::Records;
use paceline_telemetry::{PathRecord, Tuple};

use crate::flows::{FlowMaps, TrackedFlow};

/// What is older is of a flow that has ended, or whose agent has. Our choice: twenty times as long as a report can count.
const FORGOTTEN: Nanos = Nanos::from_secs(10);

/// A flow that had no header for this long is served again from its next report on. Our choice: four times as long as a report can count, so that
/// ten thousand short flows leave their places soon.
const LATELY: Nanos = Nanos::from_secs(2);

/// What there is on this machine.
#[derive(Default)]
pub(super) struct Maps {
    records: Records,
    sources: Vec<FlowMaps>,
    /// When old records were last looked for.
    swept: Option<Instant>,
}

impl Maps {
    /// Looks again. Maps of programs that are gone are let go.
    pub(super) fn look(&mut self) {
        self.sources = FlowMaps::find();
        // What cannot be had now is looked for again; meanwhile it is among no figures.
        let _ = self.records.refresh();
        if self.swept.is_none_or(|swept| swept.elapsed().as_nanos() > FORGOTTEN.as_nanos().into()) {
            self.swept = Some(Instant::now());
            let _ = self.records.sweep(FORGOTTEN);
        }
    }

    /// How many controllers' maps there are.
    pub(super) fn controllers(&self) -> usize {
        self.records.maps()
    }

    /// Whether a source runs on this machine.
    pub(super) fn has_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// The flows that sources have put headers on lately, or may soon; `None` where there is no source.
    pub(super) fn sent(&self, now: Time) -> Option<Vec<TrackedFlow>> {
        let oldest = now.as_nanos().saturating_sub(LATELY.as_nanos());
        let flows = self.sources.iter().flat_map(|source| source.heard_of_since(oldest));
        (!self.sources.is_empty()).then(|| flows.collect())
    }

    /// The flow of these ends, if a source has put a header on it and it goes on.
    pub(super) fn flow(&self, of: &Tuple) -> Option<TrackedFlow> {
        self.sources.iter().find_map(|source| source.flow(of)).filter(|flow| !flow.ended)
    }

    /// Writes a flow's record for every controller. An error: a map refused it, because it is full.
    pub(super) fn write(&self, cookie: u64, record: &PathRecord) -> io::Result<()> {
        self.records.write(cookie, record)
    }

    /// Says to the flow's source that a report of it came. What reaches an address in one network namespace says nothing of another's.
    pub(super) fn reported(&self, of: &Tuple, at: Time) {
        for source in self.sources.iter().filter(|source| source.flow(of).is_some()) {
            // One that is full goes without.
            let _ = source.reported_at(of, at);
        }
    }

    /// Removes the record of a flow that is gone.
    pub(super) fn remove(&self, cookie: u64) {
        // One that stays is soon too old to count.
        let _ = self.records.remove(cookie);
    }
}
