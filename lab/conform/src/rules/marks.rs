//! DCTCP: RFC 8257. Prague: draft-briscoe-iccrg-prague-congestion-control, RFC 9331. Both answer marks in proportion.

use super::{rate_limited, reno};
use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::{Trajectory, median};

const DCTCP: &str = "dctcp";
const PRAGUE: &str = "prague";
/// RTT as which Prague's shorter ones behave, in seconds (draft-briscoe-iccrg-prague-congestion-control section 2.4.4, Linux
/// `tcp_prague.c`).
const TARGET: f64 = 0.025;
/// Round trips until the start-up is forgotten, alpha is what marks made it, and Prague's growth no longer depends on the RTT (its
/// `prague_rtt_transition` is 500; our choice: 100 more).
const FORGOTTEN: f64 = 600.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "dctcp-proportional",
        controller: DCTCP,
        says: "marks take alpha/2 of the window, where alpha is what a sawtooth makes of the marks: about sqrt(2/W)",
        source: "RFC 8257 section 3.3; Alizadeh et al., SIGCOMM 2010, section 3.3, equation 6",
        measures: "share of the window that a reduction takes over sqrt(2/W)/2, median",
        expect: (0.7, 1.4),
        tolerance: "marks that come late, and a cut that falls into two round trips",
        rig: Rig::Marking,
        needs: &[],
        measure: proportional,
    },
    Rule {
        id: "dctcp-increase",
        controller: DCTCP,
        says: "between marks the window grows by one packet in a round trip, as Reno's does",
        source: "RFC 8257 section 3.3 (all else as RFC 5681)",
        measures: "packets a round trip between reductions, median",
        expect: (0.85, 1.1),
        tolerance: "a round trip is that of the sample: one late; none in the round trip of a cut",
        rig: Rig::Marking,
        needs: &[],
        measure: growth,
    },
    Rule {
        id: "dctcp-halving",
        controller: DCTCP,
        says: "a loss halves the window, whatever alpha is",
        source: "RFC 8257 section 3.5",
        ..reno::HALVING
    },
    Rule { id: "dctcp-once", controller: DCTCP, source: "RFC 8257 section 3.5, RFC 6582 section 3.2", ..reno::ONCE },
    rate_limited::DCTCP,
    Rule {
        id: "prague-proportional",
        controller: PRAGUE,
        says: "marks take alpha/2 of the window, where alpha is what a sawtooth makes of the marks: about sqrt(2 a/W) with growth a",
        source: "draft-briscoe-iccrg-prague-congestion-control section 2.4.2, RFC 9331 section 4.3; as DCTCP's, with the growth seen",
        measures: "share of the window that a reduction takes over sqrt(2 a/W)/2, median",
        expect: (0.5, 1.4),
        tolerance: "as DCTCP's; alpha is averaged over 25 ms, so that on a path of 20 ms it is a fifth lower, and its cut too",
        rig: Rig::Marking,
        needs: &[],
        measure: proportional,
    },
    Rule {
        id: "prague-rtt-independence",
        controller: PRAGUE,
        says: "below 25 ms the window grows by (RTT/25 ms)^2 packets in a round trip, so that the rate grows as at 25 ms",
        source: "draft-briscoe-iccrg-prague-congestion-control section 2.4.4, RFC 9331 section 4.3; Linux tcp_prague.c",
        measures: "packets a round trip between reductions over (RTT/25 ms)^2, median",
        expect: (0.75, 1.3),
        tolerance: "the RTT moves by a fifth between reductions, its square by two fifths",
        rig: Rig::Marking,
        needs: &[],
        measure: independence,
    },
    Rule {
        id: "prague-halving",
        controller: PRAGUE,
        says: "a loss halves the window, as Reno's",
        source: "RFC 9331 section 4.3; draft-briscoe-iccrg-prague-congestion-control section 2.4.1",
        ..reno::HALVING
    },
    Rule { id: "prague-once", controller: PRAGUE, source: "RFC 6582 section 3.2", ..reno::ONCE },
    rate_limited::PRAGUE,
];

/// A window below this share of the last peak was cut (our choice: less than half of what marks take of some 200 packets).
const CUT: f64 = 0.98;
/// A window above this share of the lowest grows again (our choice: half a packet of 100).
const GROWS: f64 = 1.005;
const NONE: &str = "too few marks reduced the window, or the flow is too short";

/// A tooth: the window grows from a lowest value, and is cut to the next one, in one round trip or in several.
struct Tooth {
    from: f64,
    peak: f64,
    cut: f64,
    low: f64,
    high: f64,
    next: f64,
}

/// All, once the start-up is forgotten. Marks take less than [`crate::episodes`] sees.
fn teeth(of: &Trajectory) -> Vec<Tooth> {
    let forgotten = FORGOTTEN * of.min_rtt().unwrap_or(f64::INFINITY);
    let mut turns: Vec<(f64, f64)> = Vec::new();
    let Some(mut turn) = of.points.iter().find(|point| point.t >= forgotten).map(|point| (point.t, point.window))
    else {
        return Vec::new();
    };
    let mut rising = false;
    for point in of.between(turn.0, of.end()) {
        let further = if rising { point.window >= turn.1 } else { point.window <= turn.1 };
        let turned = if rising { point.window < CUT * turn.1 } else { point.window > GROWS * turn.1 };
        if turned {
            turns.push(turn);
            rising = !rising;
        }
        if turned || further {
            turn = (point.t, point.window);
        }
    }
    // The first turn is a lowest value, and so is every second one.
    let tooth = |turns: &[(f64, f64)]| match turns {
        [(from, low), (peak, high), (cut, next)] => {
            Some(Tooth { from: *from, peak: *peak, cut: *cut, low: *low, high: *high, next: *next })
        }
        _ => None,
    };
    turns.windows(3).step_by(2).filter_map(tooth).collect()
}

/// Growth of a tooth in packets a round trip, over at least three of them.
fn slope(of: &Trajectory, tooth: &Tooth) -> Option<f64> {
    let rounds = of.rounds(tooth.from, tooth.peak);
    (rounds >= 3.0).then(|| (tooth.high - tooth.low) / rounds)
}

fn growth(of: &Trajectory) -> Result<Seen, &'static str> {
    let span = |tooth: &Tooth| Some(TrajectorySpan { from: tooth.from, to: tooth.peak, value: slope(of, tooth)? });
    Seen::median(teeth(of).iter().filter_map(span).collect()).ok_or(NONE)
}

fn proportional(of: &Trajectory) -> Result<Seen, &'static str> {
    let span = |tooth: &Tooth| {
        let alpha = (2.0 * slope(of, tooth)? / tooth.high).sqrt();
        let value = 2.0 * (1.0 - tooth.next / tooth.high) / alpha.max(1e-9);
        Some(TrajectorySpan { from: tooth.peak, to: tooth.cut, value })
    };
    Seen::median(teeth(of).iter().filter_map(span).collect()).ok_or(NONE)
}

fn independence(of: &Trajectory) -> Result<Seen, &'static str> {
    let span = |tooth: &Tooth| {
        let rtts: Vec<f64> = of.between(tooth.from, tooth.peak).iter().filter_map(|point| point.rtt_ms).collect();
        let share = (median(rtts)? / 1e3 / TARGET).min(1.0).powi(2);
        Some(TrajectorySpan { from: tooth.from, to: tooth.peak, value: slope(of, tooth)? / share.max(1e-9) })
    };
    Seen::median(teeth(of).iter().filter_map(span).collect()).ok_or(NONE)
}
