//! What truly became of packets that telemetry found missing, held against what their receiver called it.

use std::collections::BTreeMap;

use paceline_cc::Cause;
use paceline_path::DropReason;
use paceline_telemetry::sink::JudgedGap;

use crate::telemetry::TelemetryOutcome;

/// A loss that the sink has not named when this many packets have left after it, it will not name (our choice: several windows).
const FORGOTTEN_AFTER: u32 = 1 << 16;

/// The losses of a flow whose packets are numbered, until its sink has named them.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// By number: why.
    lost: BTreeMap<u32, Cause>,
    outcome: TelemetryOutcome,
}

impl Truth {
    /// The path dropped the packet with this number.
    pub fn dropped(&mut self, number: u32, reason: DropReason) {
        let cause = match reason {
            DropReason::Full => Cause::Congestion,
            DropReason::Early => Cause::Aqm,
            DropReason::Lost => Cause::Medium,
            DropReason::Policed => Cause::Policer,
        };
        self.lost.insert(number, cause);
        while self.lost.first_key_value().is_some_and(|(first, _)| first.saturating_add(FORGOTTEN_AFTER) < number) {
            self.forget();
        }
    }

    /// The sink has made something of missing packets.
    pub fn judged(&mut self, judged: &JudgedGap) {
        let JudgedGap { first, numbers, split } = judged;
        let mut truth = [0; 3];
        let numbers = *first..first.saturating_add(*numbers);
        while let Some((number, cause)) = self.lost.range(numbers.clone()).next() {
            truth[class(*cause)] += 1;
            let number = *number;
            self.lost.remove(&number);
        }
        self.outcome.count(truth, [split.medium, split.queue, split.policed].map(u64::from));
    }

    /// Gives up the first loss that the sink has not named.
    fn forget(&mut self) -> bool {
        let first = self.lost.pop_first();
        if let Some((_, cause)) = first {
            let mut truth = [0; 3];
            truth[class(cause)] = 1;
            self.outcome.count(truth, [0; 3]);
        }
        first.is_some()
    }

    /// What became of all: what was never named stays unknown.
    pub fn finish(mut self) -> TelemetryOutcome {
        while self.forget() {}
        self.outcome
    }
}

/// The place of a cause among those that [`TelemetryOutcome::count`] tells apart.
fn class(cause: Cause) -> usize {
    match cause {
        Cause::Medium => 0,
        Cause::Policer => 2,
        _ => 1,
    }
}
