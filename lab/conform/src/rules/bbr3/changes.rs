//! Paths whose rate changes, and one that is policed: cases A.15 to A.17.

use super::{CRUISE, DOWN, Found, PAYLOAD, UP, first_loss, goodput, of, one, rounds, state_from};
use crate::cases::{A15, A15_BOUND, A16, A17, A17_LARGE, A17_SMALL};
use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::Trajectory;
use crate::variables::LOST;

const A15_RULE: Rule = of(
    &A15,
    "draft-ietf-ccwg-bbr-06 appendix A.15, section 5.3.3",
    "our choice: thrice what growth by 1.2375 a round takes",
);
const A15_BOUND_RULE: Rule = Rule { rig: Rig::Case(&A15_BOUND), ..A15_RULE };
const A16_RULE: Rule =
    of(&A16, "draft-ietf-ccwg-bbr-06 appendix A.16, section 5.5.10.3", "our choice: two cycles of probing");

const A17_RULE: Rule =
    of(&A17, "draft-ietf-ccwg-bbr-06 appendix A.17, section 5.5.10.3", "our choice: the draft names no figure");
const A17_SMALL_RULE: Rule = Rule { rig: Rig::Case(&A17_SMALL), ..A17_RULE };
const A17_LARGE_RULE: Rule = Rule { rig: Rig::Case(&A17_LARGE), ..A17_RULE };

/// Mbit/s on the wire after the change, and that a policer lets pass.
const MORE: f64 = 100.0;
const LESS: f64 = 10.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "bbr3-a15-rounds",
        says: "ten times the rate is found by UP",
        measures: "rounds from UP to 0.95 of it",
        expect: (10.0, 30.0),
        needs: &["state", "rounds", "max_bw_mbps"],
        measure: |of| {
            let (up, found) = (state_from(of, UP, of.fired(0)?)?, found(of)?);
            one(up.from, found, rounds(of, up.from, found)?)
        },
        ..A15_RULE
    },
    Rule {
        id: "bbr3-a15-bound-growth",
        says: "where inflight_long bounds it, that grows by 1, 2, 4, ... packets a round",
        measures: "median of a round's growth over that of the round before, from 4 packets on",
        expect: (1.5, 2.5),
        tolerance: "what is delivered in a round moves by a packet or two",
        needs: &["state", "rounds", "inflight_long_packets"],
        measure: growth,
        ..A15_BOUND_RULE
    },
    Rule {
        id: "bbr3-a15-bound-rate",
        says: "and ten times the rate is found",
        measures: "seconds from the change",
        expect: (0.0, 8.9),
        needs: &["state", "max_bw_mbps"],
        measure: |of| {
            let (fired, found) = (of.fired(0)?, found(of)?);
            one(fired, found, found - fired)
        },
        ..A15_BOUND_RULE
    },
    Rule {
        id: "bbr3-a15-bound-length",
        says: "in probes of as many rounds as the path's doublings take",
        measures: "rounds in the longest UP after the change",
        expect: (1.0, 25.0),
        needs: &["state", "rounds"],
        measure: |of| {
            let fired = of.fired(0)?;
            let ups = super::states(of).into_iter().filter(|one| one.value == UP && one.from > fired);
            let mut longest = (fired, fired, 0.0);
            for up in ups.filter(|up| up.next == Some(DOWN)) {
                let long = rounds(of, up.from, up.to)?;
                if long > longest.2 {
                    longest = (up.from, up.to, long);
                }
            }
            one(longest.0, longest.1, longest.2)
        },
        ..A15_BOUND_RULE
    },
    Rule {
        id: "bbr3-a16-short",
        says: "a tenth of the rate is followed by the short-term bound",
        measures: "rounds from the first loss to a bw_short of at most twice the rate",
        expect: (0.0, 10.0),
        needs: &["state", "rounds", "bw_short_mbps"],
        measure: |of| {
            let loss = first_loss(of, of.fired(0)?)?;
            let low = |(at, bound): &&(f64, f64)| *at >= loss && *bound > 0.0 && *bound <= 2.0 * PAYLOAD * LESS;
            let at = of.changes("bw_short_mbps").iter().find(low).ok_or("bw_short never came that low")?.0;
            one(loss, at, rounds(of, loss, at)?)
        },
        ..A16_RULE
    },
    Rule {
        id: "bbr3-a16-beta",
        says: "a lossy round leaves 0.7 of the short-term bound at least",
        measures: "smallest share of it that a round left, while it is above twice the rate",
        expect: (0.6999, 0.72),
        needs: &["state", "bw_short_mbps", "max_bw_mbps"],
        measure: |of| {
            let loss = first_loss(of, of.fired(0)?)?;
            let mut found = (loss, loss, f64::INFINITY);
            for (at, bound) in of.changes("bw_short_mbps").iter().filter(|(at, bound)| *at >= loss && *bound > 0.0) {
                let before = of.value_before("bw_short_mbps", *at).filter(|bound| *bound > 0.0);
                let before = before.or(of.value("max_bw_mbps", *at)).unwrap_or(*bound);
                if *bound < found.2 * before && before > 2.0 * PAYLOAD * LESS {
                    found = (loss, *at, bound / before);
                }
            }
            one(found.0, found.1, found.2)
        },
        ..A16_RULE
    },
    Rule {
        id: "bbr3-a16-bandwidth",
        says: "and by the bandwidth after two cycles of probing",
        measures: "seconds from the change to a max_bw of at most 1.05 of the rate",
        expect: (0.0, 12.0),
        tolerance: "our choice: two waits of 2 to 3 s, and a ProbeRTT that begins a wait anew",
        needs: &["state", "max_bw_mbps"],
        measure: |of| {
            let fired = of.fired(0)?;
            let at = forgotten(of)?;
            one(fired, at, at - fired)
        },
        ..A16_RULE
    },
    Rule {
        id: "bbr3-a16-goodput",
        says: "and the path is used then",
        measures: "payload delivered from there on over the link's",
        expect: (0.9, 1.02),
        needs: &["state", "max_bw_mbps"],
        measure: |of| goodput(of, forgotten(of)?, of.end(), LESS),
        ..A16_RULE
    },
    Rule {
        id: "bbr3-a17-bounds",
        says: "a policer's first losses in ProbeBW set the short-term bounds",
        measures: "bounds that are set within three rounds of them",
        expect: (2.0, 2.0),
        needs: &["state", "rounds", "bw_short_mbps", "inflight_short_packets"],
        measure: short_bounds,
        ..A17_RULE
    },
    Rule {
        id: "bbr3-a17-goodput",
        says: "a policer's rate is used",
        measures: "payload delivered in the last 30 s over what it lets pass",
        expect: (0.8, 1.02),
        measure: policed_goodput,
        ..A17_RULE
    },
    Rule {
        id: "bbr3-a17-loss",
        says: "without losing much to it",
        measures: "share of packets lost in the last 30 s",
        expect: (0.0, 0.08),
        needs: &["state", LOST],
        measure: policed_loss,
        ..A17_RULE
    },
    Rule {
        id: "bbr3-a17-small-goodput",
        says: "the same with a burst of 10 packets",
        measures: "payload delivered in the last 30 s over what it lets pass",
        expect: (0.8, 1.02),
        measure: policed_goodput,
        ..A17_SMALL_RULE
    },
    Rule {
        id: "bbr3-a17-small-loss",
        says: "the same with a burst of 10 packets",
        measures: "share of packets lost in the last 30 s",
        expect: (0.0, 0.08),
        needs: &["state", LOST],
        measure: policed_loss,
        ..A17_SMALL_RULE
    },
    Rule {
        id: "bbr3-a17-large-goodput",
        says: "the same with a burst of a second",
        measures: "payload delivered in the last 30 s over what it lets pass",
        expect: (0.8, 1.02),
        measure: policed_goodput,
        ..A17_LARGE_RULE
    },
    Rule {
        id: "bbr3-a17-large-loss",
        says: "the same with a burst of a second",
        measures: "share of packets lost in the last 30 s",
        expect: (0.0, 0.08),
        needs: &["state", LOST],
        measure: policed_loss,
        ..A17_LARGE_RULE
    },
];

/// How many short-term bounds are set soon after the first losses outside of a search.
fn short_bounds(of: &Trajectory) -> Found {
    let cruises = super::states(of).into_iter().filter(|one| [DOWN, CRUISE].contains(&one.value));
    let loss = |one: crate::variables::Spell| of.losses.iter().copied().find(|at| *at > one.from && *at < one.to - 0.2);
    let loss = cruises.filter_map(loss).next().ok_or("nothing was lost in DOWN or CRUISE")?;
    let later = loss + 3.0 * of.rtt_at(loss).ok_or("no round trip is known")?;
    let set = |name: &&&str| of.changes(name).iter().any(|(at, bound)| (loss..=later).contains(at) && *bound > 0.0);
    let bounds = ["bw_short_mbps", "inflight_short_packets"];
    let before = |name: &&&str| of.value_before(name, loss).is_some_and(|bound| bound > 0.0);
    one(loss, later, bounds.iter().filter(|name| set(name) || before(name)).count() as f64)
}

fn policed_goodput(of: &Trajectory) -> Found {
    goodput(of, of.end() - 30.0, of.end(), LESS)
}

fn policed_loss(of: &Trajectory) -> Found {
    let (from, to) = (of.end() - 30.0, of.end());
    let lost = of.value(LOST, to).zip(of.value(LOST, from)).map(|(to, from)| to - from).ok_or("nothing was lost")?;
    let delivered = of.mbps(from, to) * (to - from) * 1e6 / 8.0 / of.mss;
    one(from, to, lost / (lost + delivered))
}

/// When the bandwidth of the larger rate was found.
fn found(of: &Trajectory) -> Result<f64, &'static str> {
    let fired = of.fired(0)?;
    let high = |(at, value): &&(f64, f64)| *at > fired && *value >= 0.95 * PAYLOAD * MORE;
    of.changes("max_bw_mbps").iter().find(high).map(|(at, _)| *at).ok_or("it was never found")
}

/// When the larger rate was forgotten.
fn forgotten(of: &Trajectory) -> Result<f64, &'static str> {
    let fired = of.fired(0)?;
    let low = |(at, value): &&(f64, f64)| *at > fired && *value <= 1.05 * PAYLOAD * LESS;
    of.changes("max_bw_mbps").iter().find(low).map(|(at, _)| *at).ok_or("it was never forgotten")
}

/// How the long-term bound grows in the first UP after the change that has four rounds.
fn growth(of: &Trajectory) -> Found {
    let fired = of.fired(0)?;
    let ups = super::states(of).into_iter().filter(|one| one.value == UP && one.from > fired);
    let mut spans = Vec::new();
    for up in ups {
        let starts = of.changes("rounds").iter().map(|(at, _)| *at).filter(|at| (up.from..=up.to).contains(at));
        let bounds: Vec<(f64, f64)> =
            starts.filter_map(|at| Some((at, of.value("inflight_long_packets", at)?))).collect();
        for three in bounds.windows(3) {
            let [one, two, three] = three else { continue };
            let (before, after) = (two.1 - one.1, three.1 - two.1);
            if before >= 4.0 && one.1 > 0.0 {
                spans.push(TrajectorySpan { from: two.0, to: three.0, value: after / before });
            }
        }
    }
    Seen::median(spans).ok_or("no UP had four rounds")
}
