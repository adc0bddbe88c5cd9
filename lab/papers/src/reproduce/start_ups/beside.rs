//! A newcomer meets a greedy flow over DualPI2: one of its own kind, or CUBIC.

use super::alone::{Place, Started, agreement};
use super::claims::{self, graded};
use super::measure::{Frame, PACKET, STEP, Start, Starts};
use super::{BESIDE, START_UPS, StartUp, summary};
use crate::reproduce::prelude::*;
use crate::reproduce::reading::rate;

/// Round trip in seconds, and the rate in Mbit/s.
const RTT: f64 = 0.015;
const MBPS: f64 = 100.0;
/// Harm is what the other loses over so many round trips from the start.
const ROUNDS: f64 = 20.0;
/// The flow that starts.
const NEWCOMER: usize = 1;

/// A newcomer, and what it did to the other.
struct Met {
    start: Start,
    /// Share of its rate that the other lost; below 0 where it gained.
    harm: f64,
}

fn meet(run: &Finished<'_>, frame: &Frame) -> Met {
    let (series, start) = (run.series(), run.start(NEWCOMER));
    let span = ROUNDS * RTT;
    let of = |from: f64| rate(series, &series.flows[0], from, span);
    let alone = rate(series, &series.flows[0], start - 1.0, 1.0);
    Met { start: Start::of(run, NEWCOMER, frame), harm: (alone - of(start)) / alone }
}

/// The greedy flow: as places are named, and as a contestant; its own kind without one.
const OTHERS: [(&str, Option<&str>); 2] = [("its own kind", None), ("CUBIC", Some("cubic@tcp"))];

/// Every newcomer, and what the other loses beside each, by who is in front. In real time beside its own kind alone, and sooner: a run takes as
/// long as it says.
fn meetings(bench: &Bench<'_>, real: bool) -> Result<(Vec<Started>, Vec<Vec<f64>>), ReproduceError> {
    let frame = Frame { rtt: RTT, window: 2.0 * RTT, share: 0.5, mbps: None };
    let bdp = MBPS * 1e6 / 8.0 * RTT / PACKET;
    let (others, via) = if real { (&OTHERS[..1], "udp") } else { (&OTHERS[..], "tcp") };
    let (mut started, mut harms) = (Vec::new(), Vec::new());
    for (name, other) in others {
        let setup = |who: &StartUp| {
            let newcomer = who.contestant("prague", via);
            // Of its own kind, but long past its start: with the start-up of the policy.
            let own = if who.spec.contains('=') { format!("prague@{via}") } else { newcomer.clone() };
            let greedy = other.map_or(own, str::to_owned);
            let setup = Setup::new(&BESIDE, &newcomer).set("flows.0.contestant", &greedy);
            let setup = setup.set_if(real, "flows.1.start", "4000ms..4100ms").set_if(real, "seconds", "8");
            let model = real && !bench.is_real();
            let setup = setup.set_if(model, "flows.0.timers", "host").set_if(model, "flows.1.timers", "host");
            who.informed(setup, NEWCOMER, bdp / 2.0, RTT).sampled(STEP).watched().whole()
        };
        let setups: Vec<Setup> = START_UPS.iter().map(setup).collect();
        let runs = bench.run(&setups, |_, run| meet(run, &frame))?;
        let of = |runs: &Vec<Met>| Starts { runs: runs.iter().map(|met| met.start).collect(), rtt: RTT, bdp };
        harms.push(runs.iter().map(|runs| typical(runs, |met| met.harm)).collect::<Vec<f64>>());
        let name = format!("beside {name}");
        let place = Place { name, file: &BESIDE, set: Vec::new(), trace: None, frame, bdp, queue: None };
        started.push(Started { place, setups, of: runs.iter().map(of).collect() });
    }
    Ok((started, harms))
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let real = bench.is_real();
    let (started, harms) = meetings(bench, real)?;
    let percent = |harm: f64| format!("{:.0}", 100.0 * harm);
    let each = |who: usize| harms.iter().map(|harms| percent(harms[who])).collect::<Vec<_>>().join(", ");
    let harmed: Vec<String> = (0..START_UPS.len()).map(each).collect();
    let mut all = claims::chirps_are_calm(&started);
    all.push(claims::resumes_safely(&started, Some(&harms)));
    all.extend(claims::best(&started));
    all.extend(harm(&started, &harms));
    if real {
        all.push(agreement(&started, &bench.simulated(|bench| meetings(bench, real))?.0));
    }
    Ok(Findings {
        setup: vec![
            "100 Mbit/s, 15 ms, DualPI2; the newcomer starts after 10 s within 0.1 s, 10 runs (in real time 4 s). Prague with each start-up, BBR \
             as it is; beside a greedy flow of the same controller, and beside CUBIC. What is free is half. Harm: what the other loses of its \
             rate over 20 RTT from the start, against the second before."
                .to_owned(),
        ],
        claims: all,
        tables: vec![
            summary::table("A newcomer over DualPI2", &started, &[("harm, %", harmed)]),
            summary::each(&started),
        ],
        drawings: started.iter().map(|one| summary::drawing(&one.place.name, one)).collect(),
        whole: true,
        scenarios: vec![&BESIDE],
        ..Findings::default()
    })
}

/// What others lose.
fn harm(started: &[Started], harms: &[Vec<f64>]) -> Vec<Claim> {
    let fair = |who: usize| {
        let cell = |(one, harms): (&Started, &Vec<f64>)| {
            let ours = format!("{:.0} %", 100.0 * harms[who]);
            one.cell(who, ours, harms[who] <= 0.5 * (1.0 + claims::NEAR))
        };
        let cells = started.iter().zip(harms).map(cell).collect();
        let text = "over 20 RTT the other loses at most half of its rate, within 25 %";
        graded("harm", text, started[0].name(who), cells)
    };
    (0..START_UPS.len()).map(fair).collect()
}
