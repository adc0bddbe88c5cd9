//! Short flows beside a bulk flow.

use super::alone::{percentile, size, time};
use super::claims::{CHIRPS, NEAR, graded, millis, place};
use super::{START_UPS, StartUp, WEB};
use crate::reproduce::prelude::*;
use crate::reproduce::watch::Exit;

/// The queues of the bottleneck, and whether senders are paced; as tables name both.
const LOADS: [Load; 4] = [
    Load { name: "droptail:bdp=1", queue: "droptail:bdp=1", paced: false },
    Load { name: "droptail:bdp=1, paced", queue: "droptail:bdp=1", paced: true },
    Load { name: "codel", queue: "codel", paced: false },
    Load { name: "codel, paced", queue: "codel", paced: true },
];
/// Sizes from one to the next have their own percentiles.
const CLASSES: [u64; 4] = [0, 30_000, 300_000, u64::MAX];
/// Bandwidth times round trip in packets of 1500 bytes, of which half is free, and the round trip in seconds.
const BDP: f64 = 125.0;
const RTT: f64 = 0.03;
/// The bulk flow and the family.
const BULK: usize = 0;
const FAMILY: usize = 1;

/// What short flows meet.
struct Load {
    name: &'static str,
    queue: &'static str,
    paced: bool,
}

/// A run of the family.
struct Run {
    completions: Vec<(u64, f64)>,
    /// 99th percentile of the queueing delay of all packets, ms.
    p99_ms: f64,
    /// Its packets that queues dropped, in per cent.
    lost: f64,
    /// Mbit/s of the bulk flow.
    bulk: f64,
    /// Start-ups that a loss ended, that ended by themselves, that never ended.
    exits: [u64; 3],
}

fn digest(run: &Finished<'_>) -> Run {
    let family = run.flow(FAMILY);
    // Flows count in the order in which they start: the bulk flow is the first.
    let family_flows = run.seen.beginnings.iter().skip(FAMILY);
    let mut exits = [0; 3];
    for beginning in family_flows {
        exits[match beginning.end.map(|end| end.exit) {
            Some(Exit::Loss) => 0,
            Some(Exit::Mark | Exit::Decision) => 1,
            None => 2,
        }] += 1;
    }
    Run {
        completions: family.completions.iter().map(|(bytes, took)| (*bytes, took.as_secs_f64())).collect(),
        p99_ms: run.outcome.queue.quantile_ms(0.99).unwrap_or(0.0),
        lost: 100.0 * family.packets_dropped as f64 / family.packets_entered.max(1) as f64,
        bulk: run.mbps(|flow| flow.bytes_ready)[BULK],
        exits,
    }
}

/// A start-up over one queue.
struct Summary {
    runs: Vec<Run>,
}

impl Summary {
    /// A percentile of the completion times of a class of sizes.
    fn time(&self, class: usize, share: f64) -> f64 {
        let within = |bytes: u64| (CLASSES[class]..CLASSES[class + 1]).contains(&bytes);
        let all = self.runs.iter().flat_map(|run| &run.completions);
        percentile(&all.filter(|(bytes, _)| within(*bytes)).map(|(_, took)| *took).collect::<Vec<_>>(), share)
    }

    /// Of all flows.
    fn mean(&self) -> f64 {
        let times = self.runs.iter().flat_map(|run| &run.completions).map(|(_, took)| *took);
        mean(&times.collect::<Vec<_>>())
    }

    /// Per cent of the start-ups that ended which ended by themselves.
    fn decided(&self) -> f64 {
        let sum = |kind: usize| self.runs.iter().map(|run| run.exits[kind]).sum::<u64>() as f64;
        100.0 * sum(1) / (sum(0) + sum(1)).max(1.0)
    }
}

pub(super) fn flows(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let mut all = Vec::new();
    let mut setups_of = Vec::new();
    for load in &LOADS {
        let setup = |who: &StartUp| {
            let setup = Setup::new(&WEB, &who.contestant("cubic", "tcp")).set("down.queue", load.queue).watched();
            let setup = [BULK, FAMILY]
                .into_iter()
                .fold(setup, |setup, flow| setup.set_if(load.paced, &format!("flows.{flow}.paced"), "true"));
            who.informed(setup, FAMILY, BDP / 2.0, RTT)
        };
        let setups: Vec<Setup> = START_UPS.iter().map(setup).collect();
        let runs = bench.run(&setups, |_, run| digest(run))?;
        all.push(runs.into_iter().map(|runs| Summary { runs }).collect::<Vec<_>>());
        setups_of.push(setups);
    }
    let mut claims = exits(&all, &setups_of);
    claims.extend(calm(&all, &setups_of));
    claims.extend(grades(&all, &setups_of));
    Ok(Findings {
        setup: vec![format!(
            "50 Mbit/s, 30 ms, drop-tail of 1 BDP, and CoDel; senders as they are, and paced; {} runs of 30 s. Flows of 4 kB to 4 MB (Pareto, 1.2), one in 100 ms, beside a CUBIC \
             flow that never ends; completion with the handshake.",
            all[0][0].runs.len()
        )],
        claims,
        tables: LOADS.iter().zip(&all).map(|(load, of)| table(load.name, of)).collect(),
        scenarios: vec![&WEB],
        ..Findings::default()
    })
}

/// Claim 5.
fn exits(all: &[Vec<Summary>], setups: &[Vec<Setup>]) -> Vec<Claim> {
    const SHARES: [(&str, f64); 3] = [("slow", 0.0), ("hystart++", 2.5), ("search", 12.6)];
    let of = |(name, share): (&str, f64)| {
        let who = place(name);
        let cell = |at: usize| {
            let ours = all[at][who].decided();
            setups[at][who].cell(LOADS[at].name, format!("{} %", short(ours)), (ours - share).abs() <= NEAR * share)
        };
        Claim::new(
            format!("5: of the start-ups with {name} that end, {share} % end by its own decision, within 25 %"),
            setups[0][who].contestant(),
            "Mozilla at IETF 126: classic 0, HyStart++ 2.5, SEARCH 12.6 %",
        )
        .got_each((0..all.len()).map(cell).collect())
    };
    let mut claims: Vec<Claim> = SHARES.map(of).into();
    let (search, slow) = (place("search"), place("slow"));
    let tail = |at: usize, who: usize, share: f64| {
        percentile(&all[at][who].runs.iter().map(|run| run.lost).collect::<Vec<_>>(), share)
    };
    let cell = |at: usize| {
        let (own, other) = (tail(at, search, 0.95), tail(at, slow, 0.95));
        setups[at][search].cell(LOADS[at].name, format!("{} %, classic {} %", short(own), short(other)), own < other)
    };
    claims.push(
        Claim::new(
            "5: the 95th percentile of a run's losses is lower with SEARCH than with slow start",
            setups[0][search].contestant(),
            "Mozilla at IETF 126",
        )
        .got_each((0..all.len()).map(cell).collect()),
    );
    claims
}

/// Claim 13.
fn calm(all: &[Vec<Summary>], setups: &[Vec<Setup>]) -> Vec<Claim> {
    let slow = place("slow");
    let of = |name: &str| {
        let who = place(name);
        let cell = |at: usize| {
            let (own, slow) = (&all[at][who], &all[at][slow]);
            let (p99, other) = (typical(&own.runs, |run| run.p99_ms), typical(&slow.runs, |run| run.p99_ms));
            let ours = format!(
                "mean completion {}, slow start {}; p99 of the queue {}, {}",
                time(own.mean()),
                time(slow.mean()),
                millis(p99),
                millis(other)
            );
            setups[at][who].cell(LOADS[at].name, ours, own.mean() <= (1.0 + NEAR) * slow.mean() && p99 < other)
        };
        Claim::new(
            "13: paced chirping completes as soon as slow start, within 25 %, with less queue",
            setups[0][who].contestant(),
            "Misund and Briscoe (2019)",
        )
        .got_each((0..all.len()).map(cell).collect())
    };
    CHIRPS.map(of).into()
}

/// Of each start-up: is it as good as the best?
fn grades(all: &[Vec<Summary>], setups: &[Vec<Setup>]) -> Vec<Claim> {
    type Respect = (&'static str, &'static str, fn(&Summary) -> f64, fn(f64) -> String);
    const LEAST: [Respect; 3] = [
        ("soon", "the mean completion time is within 25 % of the least", Summary::mean, time),
        (
            "p95",
            "the 95th percentile of flows of 300 kB and more is within 25 % of the least",
            |one| one.time(2, 0.95),
            time,
        ),
        (
            "loss",
            "its loss is within 25 %, or 0.1 % of packets, of the least",
            |one| typical(&one.runs, |run| run.lost),
            share,
        ),
    ];
    let mut claims = Vec::new();
    for who in 0..START_UPS.len() {
        for (column, text, figure, unit) in LEAST {
            let slack = if column == "loss" { 0.1 } else { 0.0 };
            let cell = |at: usize| {
                let least = all[at].iter().map(figure).fold(f64::INFINITY, f64::min);
                let own = figure(&all[at][who]);
                let ours = format!("{}, the best {}", unit(own), unit(least));
                setups[at][who].cell(LOADS[at].name, ours, own <= ((1.0 + NEAR) * least).max(least + slack))
            };
            let cells = (0..all.len()).map(cell).collect();
            claims.push(graded(column, text, START_UPS[who].title(setups[0][who].contestant()), cells));
        }
        let bulk = |at: usize| {
            let of = |who: usize| typical(&all[at][who].runs, |run| run.bulk);
            let most = (0..START_UPS.len()).map(of).fold(0.0, f64::max);
            let ours = format!("{} Mbit/s, the most {}", short(of(who)), short(most));
            setups[at][who].cell(LOADS[at].name, ours, of(who) >= (1.0 - NEAR) * most)
        };
        let text = "the bulk flow keeps what it has beside the kindest, within 25 %";
        let cells = (0..all.len()).map(bulk).collect();
        claims.push(graded("harm", text, START_UPS[who].title(setups[0][who].contestant()), cells));
    }
    claims
}

fn share(percent: f64) -> String {
    format!("{} %", short(percent))
}

fn table(load: &str, of: &[Summary]) -> Table {
    let classes = |class: usize| match class {
        0 => format!("below {}", size(CLASSES[1])),
        2 => format!("from {}", size(CLASSES[2])),
        _ => "between".to_owned(),
    };
    let times = (0..3).map(|class| format!("{}, p50 / p95", classes(class)));
    let columns: Vec<String> =
        times.chain(["queue p99, ms", "lost, %", "bulk, Mbit/s", "own decision, %"].map(str::to_owned)).collect();
    let row = |(who, one): (&StartUp, &Summary)| {
        let times = (0..3).map(|class| format!("{} / {}", time(one.time(class, 0.5)), time(one.time(class, 0.95))));
        let figure = |of: fn(&Run) -> f64| short(typical(&one.runs, of));
        let figures = [figure(|run| run.p99_ms), figure(|run| run.lost), figure(|run| run.bulk), short(one.decided())];
        (who.name.to_owned(), times.chain(figures).map(|value| (value, String::new())).collect())
    };
    let note =
        "Completion over all flows of all runs; the rest medians over runs. Own decision: of the start-ups that ended.";
    Table::new(format!("Short flows over {load}"), note, columns, START_UPS.iter().zip(of).map(row))
}
