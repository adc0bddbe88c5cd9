//! What an agent counts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paceline_cc::histogram::Histogram;

/// What became of an agent's flows so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentFigures {
    /// Flows that a controller steers now.
    pub steered: u64,
    /// Flows that were left to CUBIC because nothing was chosen for them.
    pub declined: u64,
    /// Flows that were left to CUBIC because the chosen controller needs what a kernel flow does not offer.
    pub refused: u64,
    /// Flows that are CUBIC because all slots were taken, or all of their user. Counts from when the module was first loaded, as the next two do.
    pub no_slot: u64,
    /// Reports for which the ring had no room.
    pub no_room: u64,
    /// Times that a flow became CUBIC because the agent was silent.
    pub lapses: u64,
    /// Reports taken in.
    pub reports: u64,
    /// Reports of the hops of a flow's path that its controller was informed of.
    pub telemetry: u64,
    /// Times that the agent woke up.
    pub wakes: u64,
    /// Time from an event in the kernel until the answer was written: the median.
    pub reaction_p50: Duration,
    /// The same: 99 of 100 came sooner.
    pub reaction_p99: Duration,
}

/// Written by the agent's thread, read by others.
pub(super) struct Counting(Mutex<Counted>);

struct Counted {
    figures: AgentFigures,
    /// In microseconds.
    reactions: Histogram,
}

impl Counting {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Counted { figures: AgentFigures::default(), reactions: Histogram::new(2) }))
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, what: impl FnOnce(&mut AgentFigures)) {
        what(&mut self.counted().figures);
    }

    /// An answer was written `micros` after the event.
    pub(super) fn reacted(&self, micros: u64) {
        self.counted().reactions.record(micros);
    }

    pub(super) fn figures(&self) -> AgentFigures {
        let counted = self.counted();
        // The time that a share of the reactions did not exceed, to a hundredth.
        let quantile = |share| Duration::from_micros(counted.reactions.quantile(share));
        AgentFigures { reaction_p50: quantile(0.5), reaction_p99: quantile(0.99), ..counted.figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_hundredth() {
        let counting = Counting::new();
        assert_eq!(counting.figures().reaction_p50, Duration::ZERO);
        (0..100).for_each(|micros| counting.reacted(micros * 10));
        counting.reacted(1 << 40);
        let figures = counting.figures();
        assert_eq!(figures.reaction_p50, Duration::from_micros(501));
        assert_eq!(figures.reaction_p99, Duration::from_micros(991));
    }
}
