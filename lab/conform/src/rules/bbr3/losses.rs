//! Losses, and losses that were none: cases A.2's sisters A.6, A.18, A.19, A.21.

use super::{
    CRUISE, DOWN, Found, REFILL, UP, before, count, first_loss, goodput, of, one, product, rounds, state, state_at,
    state_from, states, value, within,
};
use crate::cases::{A6, A18, A19, A19_UP, A21};
use crate::rig::Rig;
use crate::rule::Rule;
use crate::trajectory::Trajectory;
use crate::variables::{LOST, Spell};

const A6_RULE: Rule = of(&A6, "draft-ietf-ccwg-bbr-06 appendix A.6, section 5.5.10.2", "a round to find the loss");
const A18_RULE: Rule = of(&A18, "draft-ietf-ccwg-bbr-06 appendix A.18, section 5.5.11", "exact");
const A19_RULE: Rule = of(&A19, "draft-ietf-ccwg-bbr-06 appendix A.19, section 5.5.11", "exact; goodput is our choice");
const A21_RULE: Rule =
    of(&A21, "draft-ietf-ccwg-bbr-06 appendix A.21, sections 5.3.3.9, 5.5.10.2", "exact, but for a packet");

const BOUNDS: [&str; 3] = ["bw_short_mbps", "inflight_short_packets", "inflight_long_packets"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "bbr3-a06-exit",
        says: "losses end an UP that the application limits",
        measures: "rounds from the first loss to DOWN",
        expect: (0.0, 3.0),
        needs: &["state", "rounds"],
        measure: |of| {
            let up = lossy_up(of, 1)?;
            let loss = first_loss(of, up.from)?;
            // DOWN may end with the acknowledgement that begins it: little is in flight.
            let down = matches!(up.next, Some(DOWN | CRUISE));
            one(loss, up.to, if down { rounds(of, loss, up.to)? } else { -1.0 })
        },
        ..A6_RULE
    },
    Rule {
        id: "bbr3-a06-too-high",
        says: "the probe then counts as too high",
        measures: "too_high as DOWN begins",
        expect: (1.0, 1.0),
        needs: &["state", "too_high"],
        measure: |of| {
            let up = lossy_up(of, 1)?;
            one(up.from, up.to, value(of, "too_high", up.to)?)
        },
        ..A6_RULE
    },
    Rule {
        id: "bbr3-a06-bound",
        says: "packets that the application limited do not move inflight_long (the pseudocode; the case's text says that they do)",
        measures: "inflight_long in packets as DOWN begins less that as UP began",
        expect: (0.0, 0.0),
        needs: &["state", "inflight_long_packets"],
        measure: |of| {
            let up = lossy_up(of, 1)?;
            let bound = |t| value(of, "inflight_long_packets", t);
            one(up.from, up.to, bound(up.to)? - bound(up.from)?)
        },
        ..A6_RULE
    },
    Rule {
        id: "bbr3-a18-bounds",
        says: "what a spurious recovery has cut is given back: no bound is lower than before it",
        measures: "bounds that are, half a second after it",
        expect: (0.0, 0.0),
        needs: &["state", "bw_short_mbps", "inflight_short_packets", "inflight_long_packets"],
        measure: |of| lower_bounds(of, of.fired(0)?, 0.5),
        ..A18_RULE
    },
    Rule {
        id: "bbr3-a18-way",
        says: "if the losses had ended UP, UP comes again after a REFILL",
        measures: "whether both follow UP within half a second, or UP went on",
        expect: (1.0, 1.0),
        measure: |of| {
            let fired = of.fired(0)?;
            let up = state_from(of, UP, fired - 1e-6)?;
            let back =
                |one: &Spell| one.value == REFILL && one.next == Some(UP) && one.from > up.from && one.to < fired + 0.5;
            count(fired, fired + 0.5, usize::from(up.to > fired + 0.1 || states(of).iter().any(back)))
        },
        ..A18_RULE
    },
    Rule {
        id: "bbr3-a18-window",
        says: "and the window is what it was",
        measures: "largest window of the half second after it over that as it began",
        expect: (0.97, 1.3),
        tolerance: "a round's bandwidth; UP's window is larger",
        needs: &["state", "cwnd_packets"],
        measure: |of| {
            let fired = of.fired(0)?;
            let after =
                of.between(fired + 0.1, fired + 0.6).iter().filter_map(|point| of.value("cwnd_packets", point.t));
            one(fired, fired + 0.6, after.fold(0.0, f64::max) / before(of, "cwnd_packets", fired)?)
        },
        ..A18_RULE
    },
    Rule {
        id: "bbr3-a19-window",
        says: "a timeout leaves a packet beside what is in flight",
        measures: "window less what is in flight at the timeout, in packets",
        expect: (0.99, 1.01),
        needs: &["state", "cwnd_packets"],
        measure: |of| {
            let fired = of.fired(0)?;
            let within = of.between(fired, fired + 1.0);
            let least =
                within.iter().min_by(|one, other| one.window.total_cmp(&other.window)).ok_or("nothing came then")?;
            if least.window > 0.5 * before(of, "cwnd_packets", fired)? {
                return Err("there was no timeout");
            }
            one(least.t, least.t, least.window - least.in_flight)
        },
        ..A19_RULE
    },
    Rule {
        id: "bbr3-a19-bounds",
        says: "what a spurious timeout has cut is given back: no bound is lower than before it",
        measures: "bounds that are, half a second after the link moves again",
        expect: (0.0, 0.0),
        needs: &["state", "bw_short_mbps", "inflight_short_packets", "inflight_long_packets"],
        measure: |of| lower_bounds(of, of.fired(0)?, 0.9),
        ..A19_RULE
    },
    Rule {
        id: "bbr3-a19-after",
        says: "and the path is used again",
        measures: "payload delivered in the second from 0.1 s after the link moves again over the link's",
        expect: (0.9, 1.02),
        measure: |of| {
            let moves = of.fired(0)? + 0.4;
            goodput(of, moves + 0.1, moves + 1.1, of.facts.rate_mbps.ok_or("the path's rate is not known")?)
        },
        ..A19_RULE
    },
    Rule {
        id: "bbr3-a19-up",
        says: "a spurious timeout of UP moves no bound either",
        measures: "bounds that are lower, half a second after the link moves again",
        expect: (0.0, 0.0),
        needs: &["state", "bw_short_mbps", "inflight_short_packets", "inflight_long_packets"],
        measure: |of| lower_bounds(of, of.fired(0)?, 0.9),
        ..Rule { rig: Rig::Case(&A19_UP), ..A19_RULE }
    },
    Rule {
        id: "bbr3-a21-cut",
        says: "losses in UP cut inflight_long to what was in flight, and to 0.7 of the window or the bandwidth-delay product at least",
        measures: "inflight_long after the cut over 0.7 of the smaller of both",
        expect: (0.999, 2.5),
        tolerance: "what was in flight may be up to 2.25 products",
        needs: &["state", "inflight_long_packets", "bw_mbps", "min_rtt_ms", "cwnd_packets"],
        measure: |of| {
            let up = lossy_up(of, 0)?;
            let smaller = product(of, before(of, "bw_mbps", up.to)?, up.to)?.min(before(of, "cwnd_packets", up.to)?);
            one(up.from, up.to, value(of, "inflight_long_packets", up.to)? / (0.7 * smaller))
        },
        ..A21_RULE
    },
    Rule {
        id: "bbr3-a21-threshold",
        says: "UP ends as soon as more than 2 % of what was in flight are lost",
        measures: "packets lost from the change to the end of UP over those in flight",
        expect: (0.017, 0.032),
        tolerance: "a packet; what was in flight grows while they are found",
        needs: &["state", LOST],
        measure: |of| {
            let up = lossy_up(of, 0)?;
            let lost = value(of, LOST, up.to)? - of.value(LOST, up.from).unwrap_or_default();
            let flight = of.between(up.from, up.to).iter().map(|point| point.in_flight).fold(0.0, f64::max);
            one(up.from, up.to, lost / flight)
        },
        ..A21_RULE
    },
    Rule {
        id: "bbr3-a21-room",
        says: "CRUISE leaves 0.15 of inflight_long to others",
        measures: "largest window of CRUISE over inflight_long",
        expect: (0.6, 0.851),
        needs: &["state", "cwnd_packets", "inflight_long_packets"],
        measure: |of| {
            let cruise = state_from(of, CRUISE, lossy_up(of, 0)?.to)?;
            let share = |t| Some(of.value("cwnd_packets", t)? / of.value("inflight_long_packets", t)?);
            let shares = within(of, &cruise).filter_map(|point| share(point.t));
            one(cruise.from, cruise.to, shares.fold(0.0, f64::max))
        },
        ..A21_RULE
    },
    Rule {
        id: "bbr3-a21-once",
        says: "one probe cuts once",
        measures: "falls of inflight_long from the first UP's end to the next UP",
        expect: (0.0, 0.0),
        needs: &["state", "inflight_long_packets"],
        measure: |of| {
            let up = lossy_up(of, 0)?;
            let next = state_from(of, UP, up.to)?;
            let changes = of.changes("inflight_long_packets").iter();
            let there: Vec<f64> =
                changes.filter(|(at, _)| (up.to..next.from).contains(at)).map(|(_, bound)| *bound).collect();
            count(up.to, next.from, there.windows(2).filter(|pair| pair[1] < pair[0]).count())
        },
        ..A21_RULE
    },
    Rule {
        id: "bbr3-a21-precaution",
        says: "the next UP ends as soon as what is in flight has reached inflight_long",
        measures: "largest flight that an acknowledgement of the second UP leaves, less inflight_long, in packets",
        expect: (-3.01, 2.01),
        tolerance: "an acknowledgement of two packets, and one to fill",
        needs: &["state", "inflight_long_packets"],
        measure: |of| {
            let up = state_from(of, UP, lossy_up(of, 0)?.to)?;
            let bound = before(of, "inflight_long_packets", up.to)?;
            let flights = of.between(up.from, up.to).iter().map(|point| point.in_flight);
            one(up.from, up.to, flights.fold(0.0, f64::max) - bound)
        },
        ..A21_RULE
    },
    Rule {
        id: "bbr3-a21-again",
        says: "if it loses nothing, REFILL follows after its feedback and not after a wait",
        measures: "rounds in the DOWN after the second UP; -1 where REFILL does not follow",
        expect: (1.0, 2.0),
        needs: &["state", "rounds"],
        measure: |of| {
            let up = state_from(of, UP, lossy_up(of, 0)?.to)?;
            let down = state_at(of, up.to + 1e-9)?;
            let usual = down.value == DOWN && down.next == Some(REFILL);
            one(down.from, down.to, if usual { rounds(of, down.from, down.to)? } else { -1.0 })
        },
        ..A21_RULE
    },
];

/// The UP in which losses began, by the number of what began them.
fn lossy_up(of: &Trajectory, when: u32) -> Result<Spell, &'static str> {
    let fired = of.fired(when)?;
    let up = state(of, UP, 0)?;
    if up.from >= fired - 1e-6 { Ok(up) } else { state_from(of, UP, fired - 1e-6) }
}

/// Bounds that are lower some time after something began than before it; 0 is a bound that is not set.
fn lower_bounds(of: &Trajectory, began: f64, later: f64) -> Found {
    let set = |bound: f64| if bound == 0.0 { f64::INFINITY } else { bound };
    let mut lower = 0;
    for name in BOUNDS {
        let then = set(before(of, name, began)?);
        // REFILL and ProbeRTT take bounds away, and later losses set others.
        let after = set(value(of, name, began + later)?);
        lower += usize::from(after < then - 1e-9);
    }
    count(began, began + later, lower)
}
