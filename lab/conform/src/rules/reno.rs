//! Reno: RFC 5681, RFC 9002 section 7.

use super::{rate_limited, start};
use crate::episodes::{Episode, episodes, stretches};
use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::{Trajectory, median};

const WHO: &str = "reno";

/// What Reno, DCTCP and Prague have in common.
pub(super) const HALVING: Rule = Rule {
    id: "reno-halving",
    controller: WHO,
    says: "a loss halves the window",
    source: "RFC 5681 equation 4, RFC 9002 section 7.3.2",
    measures: "window after a reduction over that before, median",
    expect: (0.47, 0.54),
    tolerance: "whole packets of windows of about 80",
    rig: Rig::Middle,
    needs: &[],
    measure: kept,
};

/// What all have in common that answer losses.
pub(super) const ONCE: Rule = Rule {
    id: "reno-once",
    controller: WHO,
    says: "losses of one round trip reduce the window once",
    source: "RFC 6582 section 3.2, RFC 9002 section 7.3.2",
    measures: "share of reductions that keep less than 0.6 of what a reduction keeps",
    expect: (0.0, 0.0),
    tolerance: "none",
    rig: Rig::Middle,
    needs: &[],
    measure: repeated,
};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "reno-slow-start",
        controller: WHO,
        says: "in slow start the window doubles in a round trip",
        source: "RFC 5681 section 3.1, RFC 9002 section 7.3.1",
        measures: "window over that of a round trip before, median",
        expect: (1.45, 2.1),
        tolerance: "at most doubling; 1.5 where every second packet is acknowledged and acknowledgements are counted",
        rig: Rig::Middle,
        needs: &[],
        measure: start::growth,
    },
    HALVING,
    Rule {
        id: "reno-increase",
        controller: WHO,
        says: "in congestion avoidance the window grows by one packet in a round trip",
        source: "RFC 5681 equation 3, RFC 9002 section 7.3.3",
        measures: "packets a round trip between reductions, median",
        expect: (0.85, 1.1),
        tolerance: "a round trip is that of the sample: one late",
        rig: Rig::Middle,
        needs: &[],
        measure: slope,
    },
    ONCE,
    rate_limited::RENO,
];

/// What reductions keep.
pub(super) fn kept(of: &Trajectory) -> Result<Seen, &'static str> {
    let all = episodes(of).into_iter().filter(|episode| !episode.timeout);
    let spans = all.map(|one| TrajectorySpan { from: one.start, to: one.settled, value: one.ratio() }).collect();
    Seen::median(spans).ok_or("no loss reduced the window")
}

/// Reductions that look like two.
pub(super) fn repeated(of: &Trajectory) -> Result<Seen, &'static str> {
    let all: Vec<_> = episodes(of).into_iter().filter(|episode| !episode.timeout).collect();
    let typical = median(all.iter().map(Episode::ratio).collect()).ok_or("no loss reduced the window")?;
    let twice = |ratio: f64| f64::from(u8::from(ratio < 0.6 * typical));
    let spans: Vec<TrajectorySpan> =
        all.iter().map(|one| TrajectorySpan { from: one.start, to: one.settled, value: twice(one.ratio()) }).collect();
    let value = spans.iter().map(|span| span.value).sum::<f64>() / spans.len() as f64;
    Ok(Seen { value, spans })
}

/// Growth between reductions.
fn slope(of: &Trajectory) -> Result<Seen, &'static str> {
    let mut spans = Vec::new();
    for (from, to) in stretches(&episodes(of)) {
        let rounds = of.rounds(from.settled, to.start);
        if rounds >= 5.0 {
            spans.push(TrajectorySpan { from: from.settled, to: to.start, value: (to.before - from.after) / rounds });
        }
    }
    Seen::median(spans).ok_or("no two reductions are five round trips apart")
}
