//! An application that sends less than the link carries: whether a start-up ends below what it has.

use super::claims::place;
use super::{LIMITED, START_UPS, StartUp, start_up};
use crate::reproduce::prelude::*;
use crate::reproduce::watch::{Beginning, Exit};

/// Bandwidth times round trip in packets of 1500 bytes.
const BDP: f64 = 125.0;
/// The round trip in seconds.
const RTT: f64 = 0.03;
/// SEARCH as its draft has it, which has no rule for applications.
const BARE: StartUp = start_up("search, no guard", "start=search,search_guard=off");
/// What the application does, and what is set for it.
type Pattern = (&'static str, &'static [(&'static str, &'static str)]);
const PATTERNS: [Pattern; 7] = [
    ("1 Mbit/s", &[("flows.0.workload.rate", "1 Mbit/s")]),
    ("4 Mbit/s", &[]),
    ("16 Mbit/s", &[("flows.0.workload.rate", "16 Mbit/s")]),
    ("1 Mbit/s, jitter", &[("flows.0.workload.rate", "1 Mbit/s"), ("down.jitter.max", "20ms")]),
    ("4 Mbit/s, jitter", &[("down.jitter.max", "20ms")]),
    ("16 Mbit/s, jitter", &[("flows.0.workload.rate", "16 Mbit/s"), ("down.jitter.max", "20ms")]),
    ("bursts", &[("flows.0.workload", "{ on_off = { on = \"20ms\", off = \"480ms\", random = true } }")]),
];

/// Whether a start-up ended by its own decision below what the path holds.
fn left_below(beginning: Option<&Beginning>) -> bool {
    let end = beginning.and_then(|beginning| beginning.end);
    end.is_some_and(|end| end.exit == Exit::Decision && (end.window as f64) < BDP * 1448.0)
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let who: Vec<&StartUp> = START_UPS.iter().chain([&BARE]).collect();
    let setup = |who: &StartUp, pattern: &Pattern| {
        let setup = who.informed(Setup::new(&LIMITED, &who.contestant("cubic", "tcp")), 0, BDP, RTT).watched();
        pattern.1.iter().fold(setup, |setup, (key, value)| setup.set(key, value))
    };
    let setups: Vec<Setup> =
        who.iter().flat_map(|who| PATTERNS.iter().map(move |pattern| setup(who, pattern))).collect();
    let left = bench.run(&setups, |_, run| left_below(run.seen.beginnings.first()))?;
    let count = |who: usize, pattern: usize| left[who * PATTERNS.len() + pattern].iter().filter(|left| **left).count();
    let cells = |who: usize, holds: fn(usize) -> bool| {
        let cell = |(at, pattern): (usize, &Pattern)| {
            let (own, runs) = (count(who, at), left[who * PATTERNS.len() + at].len());
            setups[who * PATTERNS.len() + at].cell(pattern.0, format!("{own} of {runs} runs"), holds(own))
        };
        PATTERNS.iter().enumerate().map(cell).collect()
    };
    let (guarded, bare) = (place("search"), who.len() - 1);
    let claims = vec![
        Claim::new(
            "6: SEARCH as the draft has it ends below the capacity where the application limits, in some runs of each",
            setups[bare * PATTERNS.len()].contestant(),
            "Mozilla at IETF 126",
        )
        .got_each(cells(bare, |own| own > 0)),
        Claim::new(
            "6: with the guard of ours, which judges no window in which the application limited, it does not",
            setups[guarded * PATTERNS.len()].contestant(),
            "",
        )
        .got_each(cells(guarded, |own| own == 0)),
    ];
    let row = |(at, who): (usize, &&StartUp)| {
        let cells = (0..PATTERNS.len()).map(|pattern| (count(at, pattern).to_string(), String::new()));
        (who.name.to_owned(), cells.collect())
    };
    Ok(Findings {
        setup: vec![format!(
            "50 Mbit/s, 30 ms, drop-tail of 1 BDP, 20 s, {} runs each: a constant rate, without and with a jitter of 20 ms; 20 ms of sending and 480 \
             of silence (means).",
            left[0].len()
        )],
        claims,
        tables: vec![Table::new(
            "An application that sends less than the link carries",
            "Runs whose start-up ends by its own decision with a window below 1 BDP.",
            PATTERNS.map(|(name, _)| name),
            who.iter().enumerate().map(row),
        )],
        scenarios: vec![&LIMITED],
        ..Findings::default()
    })
}
