//! Startup and Drain: cases A.1 to A.4, A.7 (a), A.12, A.20.

use super::{
    CRUISE, DOWN, DRAIN, Found, PROBE_RTT, STARTUP, before, count, first_loss, losses, of, one, pace_over_bandwidth,
    payload, product, rounds, state, state_from, states, value, within,
};
use crate::cases::{A1, A2, A2_FEW, A4, A4_DRAFT, A7_STARTUP, A12, A20};
use crate::rule::Rule;
use crate::trajectory::{Trajectory, median};

const A1_RULE: Rule = of(
    &A1,
    "draft-ietf-ccwg-bbr-06 appendix A.1, sections 5.3.1.2, 5.3.2",
    "2 % as the draft has it; times by a fluid",
);
const A2_RULE: Rule =
    of(&A2, "draft-ietf-ccwg-bbr-06 appendix A.2, section 5.3.1.3", "a round to find the loss, one for the recovery");
const A3_RULE: Rule = of(&A1, "draft-ietf-ccwg-bbr-06 appendix A.3, section 5.3.2", "exact, but for times");
const A4_RULE: Rule = of(&A4, "draft-ietf-ccwg-bbr-06 appendix A.4, section 5.3.2", "exact, but for times");
const A7_RULE: Rule = of(&A7_STARTUP, "draft-ietf-ccwg-bbr-06 appendix A.7, section 5.3.1.2", "exact");
const A12_RULE: Rule = of(&A12, "draft-ietf-ccwg-bbr-06 appendix A.12, section 5.5.9", "a slot holds 21 packets");
const A20_RULE: Rule =
    of(&A20, "draft-ietf-ccwg-bbr-06 appendix A.20, section 5.3.4", "2 % as the draft has it; times by a fluid");

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "bbr3-a01-bandwidth",
        says: "the bandwidth is found as Startup ends on a plateau",
        measures: "max_bw as Startup ends over the link's payload rate",
        expect: (0.98, 1.02),
        needs: &["state", "max_bw_mbps"],
        measure: |of| {
            let startup = state(of, STARTUP, 0)?;
            one(startup.from, startup.to, value(of, "max_bw_mbps", startup.to)? / payload(of)?)
        },
        ..A1_RULE
    },
    Rule {
        id: "bbr3-a01-plateau",
        says: "Startup ends after three rounds that stayed below 1.25 of the rate before, and Drain follows",
        measures: "rounds without that growth as Startup ended; -1 where it did not find the pipe full",
        expect: (3.0, 3.0),
        needs: &["state", "rounds", "full_count", "full_now", "full_reached"],
        measure: plateau,
        ..A1_RULE
    },
    Rule {
        id: "bbr3-a01-time",
        says: "Startup ends within some round trips of reaching the bandwidth",
        measures: "seconds from the flow's first event to the end of Startup",
        expect: (0.3, 0.8),
        measure: |of| state(of, STARTUP, 0).and_then(|startup| one(startup.from, startup.to, startup.to)),
        ..A1_RULE
    },
    Rule {
        id: "bbr3-a01-pace",
        says: "after Startup the pace falls below that of the plateau, so that the queue drains",
        measures: "lowest pace in the second after one above twice the plateau's, over the plateau's",
        expect: (0.35, 0.6),
        needs: &[],
        measure: fall_of_pace,
        ..A1_RULE
    },
    Rule {
        id: "bbr3-a02-exit",
        says: "losses end a Startup that the application limits",
        measures: "rounds from the first loss to the end of Startup; -1 where Drain does not follow",
        expect: (0.0, 5.0),
        needs: &["state", "rounds"],
        measure: |of| {
            let startup = state(of, STARTUP, 0)?;
            let loss = first_loss(of, of.fired(0)?)?;
            // Drain may end with the acknowledgement that begins it: little is in flight.
            if !matches!(startup.next, Some(DRAIN | DOWN | CRUISE)) {
                return one(loss, startup.to, -1.0);
            }
            one(loss, startup.to, rounds(of, loss, startup.to)?)
        },
        ..A2_RULE
    },
    Rule {
        id: "bbr3-a02-full",
        says: "it then counts the pipe as full, by losses alone",
        measures: "full_now + full_reached - full_count as Startup ends",
        expect: (2.0, 2.0),
        needs: &["state", "full_now", "full_reached", "full_count"],
        measure: |of| {
            let end = state(of, STARTUP, 0)?.to;
            one(end, end, value(of, "full_now", end)? + value(of, "full_reached", end)? - value(of, "full_count", end)?)
        },
        ..A2_RULE
    },
    Rule {
        id: "bbr3-a02-bound",
        says: "inflight_long is then what was delivered in a round, or the bandwidth-delay product",
        measures: "inflight_long over the bandwidth-delay product as Startup ends",
        expect: (0.95, 1.25),
        tolerance: "a delivery may be larger than the product by a burst of acknowledgements",
        needs: &["state", "inflight_long_packets", "bw_mbps", "min_rtt_ms"],
        measure: |of| {
            let end = state(of, STARTUP, 0)?.to;
            let product = product(of, before(of, "bw_mbps", end)?, end)?;
            one(end, end, value(of, "inflight_long_packets", end)? / product)
        },
        ..A2_RULE
    },
    Rule {
        id: "bbr3-a02-few",
        says: "few losses do not end a Startup that the application limits: ProbeRTT interrupts it",
        measures: "number of the state after Startup",
        expect: (PROBE_RTT, PROBE_RTT),
        measure: |of| state(of, STARTUP, 0).and_then(|one| super::one(one.from, one.to, one.next.unwrap_or(-1.0))),
        ..Rule { rig: crate::rig::Rig::Case(&A2_FEW), ..A2_RULE }
    },
    Rule {
        id: "bbr3-a03-gain",
        says: "Drain paces at half the bandwidth",
        measures: "pace over 0.99 of the bandwidth in Drain, farthest from 0.5",
        expect: (0.4995, 0.5005),
        needs: &["state", "pacing_mbps", "bw_mbps"],
        measure: |of| pace_over_bandwidth(of, &state(of, DRAIN, 0)?, 0.5),
        ..A3_RULE
    },
    Rule {
        id: "bbr3-a03-end",
        says: "Drain ends at the first acknowledgement that finds no more in flight than the bandwidth-delay product",
        measures: "acknowledgements that found otherwise",
        expect: (0.0, 0.0),
        needs: &["state", "bw_mbps", "min_rtt_ms"],
        measure: |of| {
            let drain = state(of, DRAIN, 0)?;
            let early = drained_before(of, &drain)?;
            let last = of.between(drain.to, drain.to).first().ok_or("Drain ended without an acknowledgement")?;
            let over = last.in_flight > product(of, before(of, "bw_mbps", drain.to)?, drain.to)? + 1e-6;
            count(drain.from, drain.to, early + usize::from(over))
        },
        ..A3_RULE
    },
    Rule {
        id: "bbr3-a03-rounds",
        says: "Drain takes the rounds that the queue of Startup takes",
        measures: "rounds in Drain",
        expect: (1.0, 3.0),
        needs: &["state", "rounds"],
        measure: |of| {
            state(of, DRAIN, 0).and_then(|drain| one(drain.from, drain.to, rounds(of, drain.from, drain.to)?))
        },
        ..A3_RULE
    },
    Rule {
        id: "bbr3-a04-rounds",
        says: "Drain ends at the fourth round's start after its entry, if the queue is still there",
        measures: "rounds in Drain",
        expect: (4.0, 4.0),
        needs: &["state", "rounds", "bw_mbps", "min_rtt_ms"],
        measure: |of| {
            let drain = state(of, DRAIN, 0)?;
            if drained_before(of, &drain)? > 0 {
                return Err("the queue went before");
            }
            one(drain.from, drain.to, rounds(of, drain.from, drain.to)?)
        },
        ..A4_RULE
    },
    Rule {
        id: "bbr3-a04-time",
        says: "these rounds are those of a path with a queue",
        measures: "seconds in Drain",
        expect: (0.2, 0.9),
        measure: |of| state(of, DRAIN, 0).and_then(|drain| one(drain.from, drain.to, drain.to - drain.from)),
        ..A4_RULE
    },
    Rule {
        id: "bbr3-a04-draft",
        says: "with a tenth less rate, as the draft has it, Drain ends by the fourth round's start too (by in-flight, before it)",
        measures: "rounds in Drain",
        expect: (1.0, 4.0),
        needs: &["state", "rounds"],
        measure: |of| {
            state(of, DRAIN, 0).and_then(|drain| one(drain.from, drain.to, rounds(of, drain.from, drain.to)?))
        },
        ..Rule { rig: crate::rig::Rig::Case(&A4_DRAFT), ..A4_RULE }
    },
    Rule {
        id: "bbr3-a07-startup",
        says: "Startup does not end while the application limits the flow and nothing is lost",
        measures: "changes of state and losses before ProbeRTT is due",
        expect: (0.0, 0.0),
        measure: |of| {
            let end = of.end();
            count(0.0, end, states(of).len().saturating_sub(1) + losses(of, 0.0, end))
        },
        ..A7_RULE
    },
    Rule {
        id: "bbr3-a12-bandwidth",
        says: "acknowledgements in bursts do not raise the bandwidth",
        measures: "largest max_bw over the link's payload rate",
        expect: (0.95, 1.125),
        tolerance: "a sample may have one slot more than the eight of a round trip",
        needs: &["state", "max_bw_mbps"],
        measure: |of| {
            let most = of.changes("max_bw_mbps").iter().map(|(_, value)| *value).fold(0.0, f64::max);
            one(0.0, of.end(), most / payload(of)?)
        },
        ..A12_RULE
    },
    Rule {
        id: "bbr3-a12-extra",
        says: "what a slot acknowledges more than the bandwidth explains is allowed for",
        measures: "extra_acked in packets as Startup ends",
        expect: (10.0, 60.0),
        needs: &["state", "extra_acked_packets"],
        measure: |of| {
            let end = state(of, STARTUP, 0)?.to;
            one(end, end, value(of, "extra_acked_packets", end)?)
        },
        ..A12_RULE
    },
    Rule {
        id: "bbr3-a12-window",
        says: "the window then holds more than twice the bandwidth-delay product",
        measures: "window over the link's bandwidth-delay product as Startup ends",
        expect: (2.0, 4.0),
        needs: &["state", "cwnd_packets"],
        measure: |of| {
            let end = state(of, STARTUP, 0)?.to;
            let product = payload(of)? * 1e3 / 8.0 * of.facts.rtt_ms.ok_or("the round trip is not known")? / of.mss;
            one(end, end, value(of, "cwnd_packets", end)? / product)
        },
        ..A12_RULE
    },
    Rule {
        id: "bbr3-a20-states",
        says: "ProbeRTT interrupts a Startup that the application limits; Startup goes on after it, and Drain follows",
        measures: "states in that order, from the first one on",
        expect: (4.0, 4.0),
        measure: |of| {
            let wanted = [STARTUP, PROBE_RTT, STARTUP, DRAIN];
            let found = states(of);
            let alike = found.iter().zip(wanted).take_while(|(found, wanted)| found.value == *wanted).count();
            count(0.0, of.end(), alike)
        },
        ..A20_RULE
    },
    Rule {
        id: "bbr3-a20-full",
        says: "the pipe does not count as full then",
        measures: "full_reached as ProbeRTT begins",
        expect: (0.0, 0.0),
        needs: &["state", "full_reached"],
        measure: |of| {
            let begins = state(of, PROBE_RTT, 0)?.from;
            one(begins, begins, value(of, "full_reached", begins)?)
        },
        ..A20_RULE
    },
    Rule {
        id: "bbr3-a20-bandwidth",
        says: "the second Startup finds the bandwidth",
        measures: "max_bw as it ends over the link's payload rate",
        expect: (0.98, 1.02),
        needs: &["state", "max_bw_mbps"],
        measure: |of| {
            let startup = state(of, STARTUP, 1)?;
            one(startup.from, startup.to, value(of, "max_bw_mbps", startup.to)? / payload(of)?)
        },
        ..A20_RULE
    },
    Rule {
        id: "bbr3-a20-time",
        says: "within some round trips of the application's leave",
        measures: "seconds from there to Drain",
        expect: (0.1, 2.0),
        measure: |of| {
            let leave = of.fired(0)?;
            let drain = state_from(of, DRAIN, leave)?;
            one(leave, drain.from, drain.from - leave)
        },
        ..A20_RULE
    },
];

/// Rounds without growth as Startup ends.
fn plateau(of: &Trajectory) -> Found {
    let startup = state(of, STARTUP, 0)?;
    let counts = of.changes("full_count").iter().filter(|(at, _)| *at <= startup.to);
    let first = counts.rev().find(|(_, count)| *count == 1.0).ok_or("no round without growth was counted")?.0;
    let flags = [value(of, "full_now", startup.to)?, value(of, "full_reached", startup.to)?];
    if startup.next != Some(DRAIN) || flags != [1.0; 2] {
        return one(first, startup.to, -1.0);
    }
    one(first, startup.to, rounds(of, first, startup.to)? + 1.0)
}

fn fall_of_pace(of: &Trajectory) -> Found {
    let paces =
        |from: f64, to: f64| of.between(from, to).iter().filter_map(|point| Some((point.t, point.pacing_mbps?)));
    let plateau = median(paces(1.0, of.end()).map(|(_, pace)| pace).collect()).ok_or("its pace is not known")?;
    let high = paces(0.0, 1.0).rfind(|(_, pace)| *pace > 2.0 * plateau).ok_or("it never paced at twice the plateau")?.0;
    let low = paces(high, high + 1.0).map(|(_, pace)| pace).fold(f64::INFINITY, f64::min);
    one(high, high + 1.0, low / plateau)
}

/// Acknowledgements within a Drain that found no more in flight than the product.
fn drained_before(of: &Trajectory, drain: &crate::variables::Spell) -> Result<usize, &'static str> {
    let mut found = 0;
    for point in within(of, drain) {
        found += usize::from(point.in_flight <= product(of, before(of, "bw_mbps", point.t)?, point.t)?);
    }
    Ok(found)
}
