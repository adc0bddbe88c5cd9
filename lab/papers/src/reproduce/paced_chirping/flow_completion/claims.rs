//! The claims of figure 5.

use super::super::super::Place;
use super::super::super::grid::Beside;
use super::super::Rival;
use super::{CHIRPING, CUBIC, Condition, DCTCP, LOADS, RTTS_MS, Results};
use crate::reproduce::prelude::*;

/// What we get under one condition.
struct Verdict {
    /// With what it is compared to.
    stated: String,
    /// The figure alone.
    figure: String,
    /// The figure as a share of the bound: above 1 it misses, and the largest is the worst.
    strain: f64,
}

impl Verdict {
    fn holds(&self) -> bool {
        self.strain <= 1.0
    }
}

/// A target of ours at each load, with its grid's title, what the paper says, and how it is judged.
struct Target {
    text: &'static str,
    paper: &'static str,
    judge: fn(&Results, usize) -> Verdict,
}

const TARGETS: [Target; 3] = [
    Target {
        text: "the mean completion time is at most 1.05 times CUBIC's with HyStart (target of ours)",
        paper: "flows that use paced chirping finish as fast as Cubic",
        judge: |one, index| {
            let (own, cubic) = (one.of[index].mean_ms, one.of[CUBIC].mean_ms);
            let stated = format!("{:.2} x ({}, CUBIC {})", own / cubic, ms(own), ms(cubic));
            Verdict { stated, figure: format!("{:.2} x", own / cubic), strain: own / cubic / 1.05 }
        },
    },
    Target {
        text: "the 99th percentile of queueing delay is at most 3 ms (target of ours)",
        paper: "queueing delay nearly as low as DCTCP, far lower than Cubic",
        judge: |one, index| {
            let [own, dctcp] = [index, DCTCP].map(|at| one.of[at].p99_ms);
            let stated = format!("{} (plain DCTCP {})", ms(own), ms(dctcp));
            Verdict { stated, figure: ms(own), strain: own / 3.0 }
        },
    },
    Target {
        text: "the 99th percentile of queueing delay is at most twice DCTCP's (target of ours)",
        paper: "queueing delay nearly as low as DCTCP",
        judge: |one, index| {
            let [own, dctcp] = [index, DCTCP].map(|at| one.of[at].p99_ms);
            let stated = format!("{:.2} x ({}, DCTCP {})", own / dctcp, ms(own), ms(dctcp));
            Verdict { stated, figure: format!("{:.2} x", own / dctcp), strain: own / dctcp / 2.0 }
        },
    },
];

fn ms(value: f64) -> String {
    format!("{} ms", short(value))
}

/// Title of a target's grid.
fn grid(rtt_ms: u32, target: &Target) -> String {
    format!("RTT {rtt_ms} ms, at each load: {}", target.text)
}

/// The verdict on each of the conditions, the worst first.
fn judged(
    results: &[Results],
    which: impl Fn(&Condition) -> bool,
    judge: impl Fn(&Results) -> Verdict,
) -> Vec<(&Results, Verdict)> {
    let these = results.iter().filter(|one| which(&one.condition));
    let mut judged: Vec<_> = these.map(|one| (one, judge(one))).collect();
    judged.sort_by(|a, b| b.1.strain.total_cmp(&a.1.strain));
    judged
}

/// A claim over conditions of which the worst comes first.
fn claim(text: String, paper: &str, rival: &Rival, index: usize, judged: &[(&Results, Verdict)]) -> Claim {
    let cell = |(one, verdict): &(&Results, Verdict)| {
        let ours = format!("{}{}", verdict.stated, one.of[index].caveat());
        one.condition.setup(rival).cell(one.condition.name(), ours, verdict.holds())
    };
    let cells: Vec<Cell> = judged.iter().map(cell).collect();
    Claim::new(text, &rival.contestant, paper).got(summary(&cells), cells)
}

/// Those of [`TARGETS`] for each RTT and load, then those for each RTT.
pub(super) fn claims(rivals: &[Rival], results: &[Results]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for rtt_ms in RTTS_MS {
        for (index, rival) in rivals.iter().enumerate().skip(CHIRPING) {
            for target in &TARGETS {
                for load in LOADS {
                    let here = |condition: &Condition| (condition.rtt_ms, condition.load) == (rtt_ms, load);
                    let judged = judged(results, here, |one| (target.judge)(one, index));
                    let text = format!("RTT {rtt_ms} ms, {load} % load: {}", target.text);
                    let figure = judged.first().map(|(_, worst)| worst.figure.clone()).unwrap_or_default();
                    let place = Place { grid: grid(rtt_ms, target), column: format!("{load} %"), figure };
                    let claim = claim(text, target.paper, rival, index, &judged);
                    claims.push(Claim { place: Some(place), ..claim });
                }
            }
        }
        claims.extend(over_all_loads(rivals, results, rtt_ms));
    }
    claims
}

/// What plain DCTCP gets, beside each grid that does not measure by it: its worst, as of the others.
pub(super) fn beside(results: &[Results]) -> Vec<Beside> {
    let of = |rtt_ms: u32, target: &Target| {
        let figure = |load: u32| {
            let here = |condition: &Condition| (condition.rtt_ms, condition.load) == (rtt_ms, load);
            let judged = judged(results, here, |one| (target.judge)(one, DCTCP));
            judged.first().map(|(_, worst)| worst.figure.clone()).unwrap_or_default()
        };
        Beside {
            grid: grid(rtt_ms, target),
            name: "plain DCTCP".to_owned(),
            figures: LOADS.iter().map(|load| figure(*load)).collect(),
        }
    };
    RTTS_MS.iter().flat_map(|rtt_ms| TARGETS[..2].iter().map(move |target| of(*rtt_ms, target))).collect()
}

fn over_all_loads(rivals: &[Rival], results: &[Results], rtt_ms: u32) -> Vec<Claim> {
    let here = |condition: &Condition| condition.rtt_ms == rtt_ms;
    let mut claims = Vec::new();
    let mut add = |index: usize, text: &str, paper: &str, judge: &dyn Fn(&Results) -> (String, f64)| {
        let verdict = |one: &Results| {
            let (stated, strain) = judge(one);
            Verdict { stated, figure: String::new(), strain }
        };
        let judged = judged(results, here, verdict);
        claims.push(claim(format!("RTT {rtt_ms} ms: {text}"), paper, &rivals[index], index, &judged));
    };
    for index in CHIRPING..rivals.len() {
        add(
            index,
            "the median queueing delay is at most half of CUBIC's and 1 ms above DCTCP's (tolerances ours)",
            "queueing delay nearly as low as DCTCP, far lower than Cubic",
            &|one| {
                let [own, cubic, dctcp] = [index, CUBIC, DCTCP].map(|at| one.of[at].p50_ms);
                let stated = format!("{} (CUBIC {}, DCTCP {})", ms(own), ms(cubic), ms(dctcp));
                (stated, (own / (0.5 * cubic)).max(own / (dctcp + 1.0)))
            },
        );
    }
    add(
        DCTCP,
        "flows of 100 kB or more take longer with DCTCP than with CUBIC (on average; boundary ours)",
        "DCTCP exits slow start early, which reduces the FCT performance of longer flows",
        &|one| {
            let (own, cubic) = (one.of[DCTCP].long_ms, one.of[CUBIC].long_ms);
            (format!("{:.2} x ({}, CUBIC {})", own / cubic, ms(own), ms(cubic)), cubic / own)
        },
    );
    add(
        CUBIC,
        "CUBIC's 99th percentile of queueing delay is at least 3 times DCTCP's (factor ours)",
        "Cubic achieves good FCT only at the expense of a significant queue",
        &|one| {
            let (own, dctcp) = (one.of[CUBIC].p99_ms, one.of[DCTCP].p99_ms);
            (format!("{:.1} x ({}, DCTCP {})", own / dctcp, ms(own), ms(dctcp)), 3.0 * dctcp / own)
        },
    );
    add(
        1,
        "CUBIC without HyStart has no lower mean completion time or 99th percentile of queueing delay than with it, within \
         2 % (tolerance ours)",
        "both FCT and queueing delay were slightly worse without it",
        &|one| {
            let (slow, hystart) = (&one.of[1], &one.of[CUBIC]);
            let (time, queue) = (slow.mean_ms / hystart.mean_ms, slow.p99_ms / hystart.p99_ms);
            (format!("{time:.2} x time, {queue:.2} x queue"), 0.98 / time.min(queue))
        },
    );
    claims
}

/// In how many conditions a claim holds, and what we get in the first, which is the worst.
fn summary(cells: &[Cell]) -> String {
    let Some(worst) = cells.first() else { return String::new() };
    let held = cells.iter().filter(|cell| cell.holds).count();
    let of = if worst.holds { format!("all {held}") } else { format!("{held} of {}", cells.len()) };
    format!("in {of} conditions; worst: {}, {}", worst.ours, worst.setup)
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, Run, Summary};
    use super::*;

    fn results(load: u32, p99s: [f64; 4]) -> Results {
        let of = |p99_ms: f64| {
            let run = Run { completions: vec![(1000, 10.0); 1000], p99_ms, quantiles_ms: vec![p99_ms; 101] };
            Summary::of(vec![run])
        };
        let condition = Condition { reading: Reading::Truncated, rtt_ms: 15, load, greedy: false };
        Results { condition, of: p99s.map(of).into() }
    }

    #[test]
    fn the_worst_is_told_also_where_all_hold() {
        let all = [results(10, [9.0, 9.0, 1.5, 2.0]), results(80, [9.0, 9.0, 3.5, 2.9])];
        let text = |all: &[Results], bound_ms: f64| {
            let judge = |one: &Results| {
                let own = one.of[CHIRPING].p99_ms;
                Verdict { stated: ms(own), figure: ms(own), strain: own / bound_ms }
            };
            let rival = &super::super::rivals()[CHIRPING];
            claim("p99".to_owned(), "", rival, CHIRPING, &judged(all, |_| true, judge))
        };
        let held = text(&all, 3.0);
        assert_eq!(held.ours, "in all 2 conditions; worst: 2.9 ms, 15 ms, 80 % load, no greedy flow, sizes truncated");
        assert!(held.holds() && held.command.contains("mean_gap=7.07ms"), "{}", held.command);
        let missed = text(&all, 2.5);
        assert!(!missed.holds() && missed.ours.starts_with("in 1 of 2 conditions; worst: 2.9 ms"), "{}", missed.ours);
    }

    #[test]
    fn a_load_has_claims_of_its_own_with_plain_dctcp_beside() {
        let all = LOADS.map(|load| results(load, [9.0, 9.0, 3.5, f64::from(load) / 20.0]));
        let rivals = &super::super::rivals()[..=CHIRPING];
        let claims = claims(rivals, &all);
        let p99: Vec<_> = claims.iter().filter(|claim| claim.claim.contains("at most 3 ms")).collect();
        assert_eq!(p99[..4].iter().map(|claim| claim.holds()).collect::<Vec<_>>(), [true, true, true, false]);
        assert!(p99[3].ours.contains("4 ms (plain DCTCP 3.5 ms)"), "{}", p99[3].ours);
        let beside = beside(&all);
        assert_eq!(beside[1].figures, ["3.5 ms"; 4]);
        assert!(p99.iter().all(|claim| claim.place.as_ref().is_some_and(|place| place.column.ends_with('%'))));
    }
}
