//! ProbeBW's cycle and ProbeRTT on an undisturbed path: cases A.5, A.7 (b), A.8 to A.11, A.13, A.14, A.22.

use super::{
    CRUISE, DOWN, Found, PACED, PROBE_RTT, REFILL, UP, before, count, goodput, losses, of, one, pace_over_bandwidth,
    payload, product, rounds, state, state_from, states, value, within,
};
use crate::cases::{A5, A7_UP, A8_SHALLOW, A9, A10, A11, A13, A14, A21, A22};
use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::{Trajectory, median, quantile};
use crate::variables::{SENT, Spell};

const A5_RULE: Rule =
    of(&A5, "draft-ietf-ccwg-bbr-06 appendix A.5, sections 5.3.1.2, 5.3.3", "exact; the queue by a fluid, 5 %");
const A7_RULE: Rule = of(&A7_UP, "draft-ietf-ccwg-bbr-06 appendix A.7, section 5.3.3", "exact");
const A8_RULE: Rule =
    of(&A5, "draft-ietf-ccwg-bbr-06 appendix A.8, section 5.3.3", "exact; the length by a fluid (8.2 round trips)");
const A9_RULE: Rule = of(&A9, "draft-ietf-ccwg-bbr-06 appendix A.9, section 5.3.3.8", "exact");
const A10_RULE: Rule =
    of(&A10, "draft-ietf-ccwg-bbr-06 appendix A.10, section 5.3.4", "a round trip; those of section 5.3.4.3");
const A11_RULE: Rule = of(&A11, "draft-ietf-ccwg-bbr-06 appendix A.11, section 5.4", "a round trip");
const A13_RULE: Rule = of(
    &A13,
    "draft-ietf-ccwg-bbr-06 appendix A.13, section 5.5.9",
    "our choice: a round trip's acknowledgements come at once",
);
const A14_RULE: Rule =
    of(&A14, "draft-ietf-ccwg-bbr-06 appendix A.14, section 5.6.4.2", "exact for the window; 5 % for rates");
const A22_RULE: Rule = of(&A22, "draft-ietf-ccwg-bbr-06 appendix A.22, section 5.3.3", "exact");

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "bbr3-a05-rounds",
        says: "UP ends after three rounds without growth of a quarter",
        measures: "rounds in the first UP; -1 where DOWN does not follow",
        expect: (3.0, 3.0),
        needs: &["state", "rounds"],
        measure: |of| {
            let up = state(of, UP, 0)?;
            let found = if up.next == Some(DOWN) { rounds(of, up.from, up.to)? } else { -1.0 };
            one(up.from, up.to, found)
        },
        ..A5_RULE
    },
    Rule {
        id: "bbr3-a05-loss",
        says: "where the queue holds it, UP loses nothing",
        measures: "losses in the first UP",
        expect: (0.0, 0.0),
        measure: |of| {
            let up = state(of, UP, 0)?;
            count(up.from, up.to, losses(of, up.from, up.to + 0.2))
        },
        ..A5_RULE
    },
    Rule {
        id: "bbr3-a05-queue",
        says: "UP builds the queue that three rounds at 1.25 of the bandwidth build",
        measures: "largest RTT of UP over the smallest of all, less 1",
        expect: (0.5, 0.95),
        measure: |of| {
            let up = state(of, UP, 0)?;
            let smallest = of.min_rtt().ok_or("no round trip is known")?;
            let rtts = of.between(up.from, up.to + 2.0 * smallest).iter().filter_map(|point| point.rtt_ms);
            let largest = rtts.fold(0.0, f64::max) / 1e3;
            one(up.from, up.to, largest / smallest - 1.0)
        },
        ..A5_RULE
    },
    Rule {
        id: "bbr3-a05-bounded",
        says: "while the window reaches inflight_long, rounds without growth do not count",
        measures: "largest full_count in the third UP of a flow with that bound, while the window reaches it",
        expect: (0.0, 0.0),
        needs: &["state", "full_count", "cwnd_packets", "inflight_long_packets"],
        measure: |of| {
            let up = state(of, UP, 2)?;
            let mut most: Option<f64> = None;
            for point in within(of, &up) {
                let reaches =
                    value(of, "cwnd_packets", point.t)? >= value(of, "inflight_long_packets", point.t)? - 1e-6;
                if reaches && value(of, "inflight_long_packets", point.t)? > 0.0 {
                    most = Some(value(of, "full_count", point.t)?.max(most.unwrap_or_default()));
                }
            }
            one(up.from, up.to, most.ok_or("the window never reached the bound")?)
        },
        ..Rule { rig: Rig::Case(&A21), ..A5_RULE }
    },
    Rule {
        id: "bbr3-a05-pace",
        says: "UP paces at 1.25 of the bandwidth",
        measures: "99th percentile of the pace after 1.5 s over the median then",
        expect: (1.2, 1.3),
        tolerance: "4 %",
        needs: &[],
        measure: |of| {
            let paces = |from| of.between(from, of.end()).iter().filter_map(|point| point.pacing_mbps);
            let (base, high) = (median(paces(1.5).collect()), quantile(paces(1.5).collect(), 0.99));
            one(1.5, of.end(), high.zip(base).map(|(high, base)| high / base).ok_or("its pace is not known")?)
        },
        ..A5_RULE
    },
    Rule {
        id: "bbr3-a07-up",
        says: "UP does not end while the application limits the flow and nothing is lost: ProbeRTT interrupts it",
        measures: "number of the state after UP",
        expect: (PROBE_RTT, PROBE_RTT),
        needs: &["state", "rounds"],
        measure: |of| {
            let up = state(of, UP, 0)?;
            let next = up.next.unwrap_or(-1.0);
            if next == PROBE_RTT && rounds(of, up.from, up.to)? < 20.0 {
                return Err("UP lasted fewer than 20 rounds before ProbeRTT");
            }
            one(up.from, up.to, if losses(of, up.from, up.to) > 0 { -1.0 } else { next })
        },
        ..A7_RULE
    },
    Rule {
        id: "bbr3-a08-gain",
        says: "DOWN paces at 0.9 of the bandwidth",
        measures: "pace over 0.99 of the bandwidth in the DOWN after UP, farthest from 0.9",
        expect: (0.8995, 0.9005),
        needs: &["state", "pacing_mbps", "bw_mbps"],
        measure: |of| pace_over_bandwidth(of, &down_after_up(of)?, 0.9),
        ..A8_RULE
    },
    Rule {
        id: "bbr3-a08-end",
        says: "CRUISE follows at the first acknowledgement that finds no more in flight than room and bandwidth-delay product",
        measures: "acknowledgements that found otherwise",
        expect: (0.0, 0.0),
        needs: &["state", "max_bw_mbps", "min_rtt_ms", "inflight_long_packets"],
        measure: end_of_down,
        ..A8_RULE
    },
    Rule {
        id: "bbr3-a08-length",
        says: "DOWN drains what UP has built at a tenth of the bandwidth",
        measures: "smallest round trips in the DOWN after UP",
        expect: (5.0, 11.0),
        measure: |of| {
            let down = down_after_up(of)?;
            one(down.from, down.to, (down.to - down.from) / of.min_rtt().ok_or("no round trip is known")?)
        },
        ..A8_RULE
    },
    Rule {
        id: "bbr3-a08-shallow",
        says: "the same where UP has lost packets, and room is left below inflight_long",
        measures: "acknowledgements that found otherwise",
        expect: (0.0, 0.0),
        needs: &["state", "max_bw_mbps", "min_rtt_ms", "inflight_long_packets"],
        measure: end_of_down,
        ..Rule { rig: Rig::Case(&A8_SHALLOW), ..A8_RULE }
    },
    Rule {
        id: "bbr3-a09-way",
        says: "a DOWN whose queue does not drain ends by time, in REFILL",
        measures: "number of the state after the DOWN after UP",
        expect: (REFILL, REFILL),
        measure: |of| {
            let down = state_from(of, DOWN, of.fired(0)? - 1e-6)?;
            one(down.from, down.to, down.next.unwrap_or(-1.0))
        },
        ..A9_RULE
    },
    Rule {
        id: "bbr3-a09-time",
        says: "that time is the wait for the next probe, or its rounds",
        measures: "seconds in it over probe_wait, or rounds since the last probe over 63, whichever is more",
        expect: (1.0, 1.1),
        tolerance: "an acknowledgement; 10 % for rounds",
        needs: &["state", "probe_wait_ms", "rounds_since_probe"],
        measure: |of| {
            let down = state_from(of, DOWN, of.fired(0)? - 1e-6)?;
            let wait = (down.to - down.from) / (value(of, "probe_wait_ms", down.from)? / 1e3);
            one(down.from, down.to, wait.max(value(of, "rounds_since_probe", down.to)? / 63.0))
        },
        ..A9_RULE
    },
    Rule {
        id: "bbr3-a10-entry",
        says: "ProbeRTT begins 5 s after the RTT was last lower",
        measures: "seconds from there to ProbeRTT",
        expect: (5.0, 5.05),
        needs: &["state", "probe_rtt_delay_ms"],
        measure: |of| {
            let begins = state(of, PROBE_RTT, 0)?.from;
            let earlier = of.changes("probe_rtt_delay_ms").iter().filter(|(at, _)| *at < begins);
            let lower = earlier.map(|(at, _)| *at).next_back().ok_or("no round trip is known")?;
            one(lower, begins, begins - lower)
        },
        ..A10_RULE
    },
    Rule {
        id: "bbr3-a10-window",
        says: "ProbeRTT's window is half the bandwidth-delay product",
        measures: "window over the larger of that half and 4 packets",
        expect: (0.5, 1.001),
        needs: &["state", "cwnd_packets", "bw_mbps", "min_rtt_ms"],
        measure: |of| {
            let probe = state(of, PROBE_RTT, 0)?;
            let half = 0.5 * product(of, value(of, "bw_mbps", probe.from)?, probe.from)?;
            let windows = within(of, &probe).filter_map(|point| of.value("cwnd_packets", point.t));
            one(probe.from, probe.to, windows.fold(0.0, f64::max) / half.max(4.0))
        },
        ..A10_RULE
    },
    Rule {
        id: "bbr3-a10-length",
        says: "ProbeRTT lasts 200 ms and a round at that level, and CRUISE follows",
        measures: "seconds in ProbeRTT; -1 where CRUISE does not follow",
        expect: (0.2, 0.33),
        measure: |of| {
            let probe = state(of, PROBE_RTT, 0)?;
            one(probe.from, probe.to, if probe.next == Some(CRUISE) { probe.to - probe.from } else { -1.0 })
        },
        ..A10_RULE
    },
    Rule {
        id: "bbr3-a10-after",
        says: "the window returns at once",
        measures: "payload delivered in the second after ProbeRTT over the link's",
        expect: (0.9, 1.01),
        measure: |of| {
            let ends = state(of, PROBE_RTT, 0)?.to;
            goodput(of, ends, ends + 1.0, of.facts.rate_mbps.ok_or("the path's rate is not known")?)
        },
        ..A10_RULE
    },
    Rule {
        id: "bbr3-a10-again",
        says: "what is in flight halves for some round trips every 5 s",
        measures: "seconds from one such time to the next",
        expect: (5.0, 5.6),
        tolerance: "ProbeRTT itself lasts 0.2 to 0.4 s",
        needs: &[],
        measure: halvings,
        ..A10_RULE
    },
    Rule {
        id: "bbr3-a11-restart",
        says: "after a silence the flow counts as restarting from its first packet to its first delivery",
        measures: "seconds",
        expect: (0.03, 0.1),
        needs: &["state", "idle_restart"],
        measure: |of| {
            let restart = restart(of)?;
            one(restart.from, restart.to, restart.to - restart.from)
        },
        ..A11_RULE
    },
    Rule {
        id: "bbr3-a11-pace",
        says: "it then paces at the bandwidth that it knows",
        measures: "pace over 0.99 of the bandwidth as it restarts",
        expect: (0.999, 1.001),
        needs: &["state", "idle_restart", "pacing_mbps", "bw_mbps"],
        measure: |of| {
            let at = restart(of)?.from;
            one(at, at, value(of, "pacing_mbps", at)? / PACED / value(of, "bw_mbps", at)?)
        },
        ..A11_RULE
    },
    Rule {
        id: "bbr3-a11-window",
        says: "and with the window from before the silence",
        measures: "window as it restarts over the one as the silence began",
        expect: (0.999, 1.001),
        needs: &["state", "idle_restart", "cwnd_packets"],
        measure: |of| {
            let (silent, at) = (of.fired(0)? + 0.5, restart(of)?.from);
            one(silent, at, value(of, "cwnd_packets", at)? / value(of, "cwnd_packets", silent)?)
        },
        ..A11_RULE
    },
    Rule {
        id: "bbr3-a11-probe-rtt",
        says: "the silence has drained the path, so that no ProbeRTT follows it",
        measures: "ProbeRTTs in the 4.9 s after it",
        expect: (0.0, 0.0),
        needs: &["state", "idle_restart"],
        measure: |of| {
            let at = restart(of)?.from;
            let soon = |one: &&Spell| one.value == PROBE_RTT && (at..at + 4.9).contains(&one.from);
            count(at, (at + 4.9).min(of.end()), states(of).iter().filter(soon).count())
        },
        ..A11_RULE
    },
    Rule {
        id: "bbr3-a13-extra",
        says: "acknowledgements that come in bursts are allowed for",
        measures: "median extra_acked of CRUISE in packets",
        expect: (80.0, 330.0),
        needs: &["state", "extra_acked_packets"],
        measure: |of| {
            let cruise = state_from(of, CRUISE, 1.0)?;
            let times: Vec<f64> = within(of, &cruise).map(|point| point.t).collect();
            let gaps = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            if median(gaps).is_none_or(|gap| gap < 0.01) {
                return Err("acknowledgements do not come in bursts here");
            }
            let extra = within(of, &cruise).filter_map(|point| of.value("extra_acked_packets", point.t));
            one(cruise.from, cruise.to, median(extra.collect()).ok_or("no acknowledgement came in CRUISE")?)
        },
        ..A13_RULE
    },
    Rule {
        id: "bbr3-a13-goodput",
        says: "so that the path is used as well as without them",
        measures: "payload delivered in CRUISE over the link's",
        expect: (0.93, 1.02),
        measure: |of| {
            let cruise = state_from(of, CRUISE, 1.0)?;
            goodput(of, cruise.from, cruise.to, of.facts.rate_mbps.ok_or("the path's rate is not known")?)
        },
        ..A13_RULE
    },
    Rule {
        id: "bbr3-a13-gaps",
        says: "and sending never waits for one",
        measures: "longest time in ms between two packets of CRUISE",
        expect: (0.0, 10.0),
        needs: &["state", SENT],
        measure: |of| {
            let cruise = state_from(of, CRUISE, 1.0)?;
            let sent = of.changes(SENT).iter().map(|(at, _)| *at).filter(|at| (cruise.from..=cruise.to).contains(at));
            let sent: Vec<f64> = sent.collect();
            let longest = sent.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            one(cruise.from, cruise.to, 1e3 * longest)
        },
        ..A13_RULE
    },
    Rule {
        id: "bbr3-a14-window",
        says: "a path that holds less than a packet has a window of a few: its smallest RTT is that of ProbeRTT's 4 packets",
        measures: "median window in packets after 10 s",
        expect: (4.0, 10.0),
        tolerance: "twice those 4, and what bursts add; the 6 of the first 10 s are of no use, since Startup lasts as long",
        needs: &[],
        measure: |of| {
            if of.bandwidth().is_none_or(|mbps| mbps > 0.5) {
                return Err("the path holds more than a packet");
            }
            let windows = of.between(10.0, of.end()).iter().map(|point| point.window).collect();
            one(10.0, of.end(), median(windows).ok_or("it is shorter than 10 s")?)
        },
        ..A14_RULE
    },
    Rule {
        id: "bbr3-a14-least",
        says: "the window never falls below 4 packets",
        measures: "smallest window in packets, a timeout's aside",
        expect: (4.0, 10.0),
        needs: &["state", "cwnd_packets"],
        measure: |of| {
            let open = of.points.iter().filter(|point| point.phase != crate::trajectory::FlowPhase::Repairing);
            let least = open.map(|point| point.window).fold(f64::INFINITY, f64::min);
            one(0.0, of.end(), least)
        },
        ..A14_RULE
    },
    Rule {
        id: "bbr3-a14-goodput",
        says: "and uses the path",
        measures: "payload delivered after 10 s over the link's",
        expect: (0.95, 1.02),
        needs: &[],
        measure: |of| goodput(of, 10.0, of.end(), of.facts.rate_mbps.ok_or("the path's rate is not known")?),
        ..A14_RULE
    },
    Rule {
        id: "bbr3-a22-bandwidth",
        says: "samples of a silent application do not lower the bandwidth",
        measures: "max_bw as UP begins over that as REFILL began",
        expect: (1.0, 1.05),
        needs: &["state", "max_bw_mbps"],
        measure: |of| {
            let refill = state(of, REFILL, 0)?;
            one(refill.from, refill.to, value(of, "max_bw_mbps", refill.to)? / value(of, "max_bw_mbps", refill.from)?)
        },
        ..A22_RULE
    },
    Rule {
        id: "bbr3-a22-way",
        says: "REFILL lasts its round, and UP and DOWN follow as usual",
        measures: "rounds in REFILL; -1 where others follow",
        expect: (1.0, 1.0),
        needs: &["state", "rounds"],
        measure: |of| {
            let refill = state(of, REFILL, 0)?;
            let up = state(of, UP, 0)?;
            let usual = refill.next == Some(UP) && up.next == Some(DOWN) && up.from == refill.to;
            one(refill.from, refill.to, if usual { rounds(of, refill.from, refill.to)? } else { -1.0 })
        },
        ..A22_RULE
    },
    Rule {
        id: "bbr3-a22-baseline",
        says: "UP holds its rounds against the sample that began it",
        measures: "full_bw as UP begins over the link's payload rate",
        expect: (0.0, 0.9),
        tolerance: "our choice: the sample has the silence in it",
        needs: &["state", "full_bw_mbps"],
        measure: |of| {
            let up = state(of, UP, 0)?;
            one(up.from, up.from, value(of, "full_bw_mbps", up.from)? / payload(of)?)
        },
        ..A22_RULE
    },
];

/// The DOWN after the first UP; the first DOWN follows Drain.
fn down_after_up(of: &Trajectory) -> Result<Spell, &'static str> {
    state_from(of, DOWN, state(of, UP, 0)?.to)
}

fn end_of_down(of: &Trajectory) -> Found {
    let down = down_after_up(of)?;
    if down.next != Some(CRUISE) {
        return Err("CRUISE did not follow");
    }
    let drained = |t: f64, in_flight: f64| {
        let product = product(of, value(of, "max_bw_mbps", t)?, t)?;
        let long = before(of, "inflight_long_packets", t)?;
        let room = if long > 0.0 { (long - (0.15 * long).max(1.0)).max(4.0) } else { f64::INFINITY };
        Ok::<bool, &'static str>(in_flight <= product.min(room))
    };
    let mut otherwise = 0;
    for point in within(of, &down) {
        otherwise += usize::from(drained(point.t, point.in_flight)?);
    }
    let last = of.between(down.to, down.to).first().ok_or("DOWN ended without an acknowledgement")?;
    otherwise += usize::from(!drained(down.to, last.in_flight - 1e-6)?);
    count(down.from, down.to, otherwise)
}

/// From the first packet after the silence to its delivery.
fn restart(of: &Trajectory) -> Result<Spell, &'static str> {
    let silent = of.fired(0)?;
    let found = of.spells("idle_restart").into_iter().find(|one| one.value == 1.0 && one.from > silent);
    found.filter(|one| one.next.is_some()).ok_or("it never restarted from idle")
}

/// Times from one at which half is in flight to the next.
fn halvings(of: &Trajectory) -> Found {
    let flight = |from: f64| of.between(from, of.end()).iter().map(|point| (point.t, point.in_flight));
    let usual = quantile(flight(2.0).map(|(_, packets)| packets).collect(), 0.5).ok_or("it is shorter than 2 s")?;
    let (mut starts, mut low) = (Vec::new(), false);
    for (t, packets) in flight(2.0) {
        let now = if low { packets < 0.8 * usual } else { packets < 0.62 * usual };
        if now && !low {
            starts.push(t);
        }
        low = now;
    }
    let gap = |pair: &[f64]| TrajectorySpan { from: pair[0], to: pair[1], value: pair[1] - pair[0] };
    Seen::median(starts.windows(2).map(gap).collect()).ok_or("what was in flight did not halve twice")
}
