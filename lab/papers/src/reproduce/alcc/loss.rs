//! Figure 20: what losses on the path do to a controller above TCP.

use super::CELLULAR;
use super::fidelity::{is_there, where_it_ran};
use super::run::{Run, STEP};
use crate::reproduce::prelude::*;

/// The last, whose TCP limits nothing, is not in the paper and not on every machine.
const NAMES: [&str; 4] = ["verus@udp", "verus@alcc", "cubic@tcp", "verus@alcc/open"];
/// What is lost where: nothing, data, acknowledgements.
const LOSSES: [(&str, Option<&str>); 3] =
    [("no loss", None), ("1 % of data", Some("down.loss")), ("1 % of acknowledgements", Some("up.loss"))];

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let default = std::path::PathBuf::from(SHIPPED_TRACES[0].0);
    let trace = bench.settings.traces.first().unwrap_or(&default);
    let setup = |name: &str, lost: Option<&str>| {
        let setup = Setup::new(&CELLULAR, name).trace(trace).sampled(STEP);
        lost.map_or(setup.clone(), |key| setup.set(key, "0.01"))
    };
    let names = if is_there(bench, "open") { &NAMES[..] } else { &NAMES[..3] };
    let setups: Vec<Setup> = LOSSES.iter().flat_map(|(_, lost)| names.iter().map(|name| setup(name, *lost))).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    // By loss, then by name.
    let rate = |lost: usize, name: usize| over(&results[lost * names.len() + name], |run| run.mbps);
    let [native, above, cubic] = [0, 1, 2].map(|name| [0, 1, 2].map(|lost| rate(lost, name)));
    let claim = |text: &str, name: usize, lost: usize, ours: String, holds: bool| {
        let paper = "ALCC falls to what CUBIC gives; native does not";
        setups[lost * names.len() + name].found((text, paper), LOSSES[lost].0, ours, holds)
    };
    let mut claims = vec![
        claim(
            "with 1 % of data lost, native Verus keeps 90 % of its throughput (tolerance ours)",
            0,
            1,
            format!("{} Mbit/s, without loss {}", stated(&native[1]), stated(&native[0])),
            native[1].median >= 0.9 * native[0].median,
        ),
        claim(
            "with 1 % of data lost, Verus above CUBIC falls below 70 % of native (tolerance ours)",
            1,
            1,
            format!("{} Mbit/s, native {}", stated(&above[1]), stated(&native[1])),
            above[1].median <= 0.7 * native[1].median,
        ),
        claim(
            "with 1 % of data lost, Verus above CUBIC gets what CUBIC gets, within 25 % (tolerance ours)",
            1,
            1,
            format!("{} Mbit/s, CUBIC {}", stated(&above[1]), stated(&cubic[1])),
            (above[1].median - cubic[1].median).abs() <= 0.25 * cubic[1].median,
        ),
        claim(
            "with 1 % of acknowledgements lost, as the authors' script has it, Verus above CUBIC keeps 90 % (tolerance ours)",
            1,
            2,
            format!("{} Mbit/s, without loss {}", stated(&above[2]), stated(&above[0])),
            above[2].median >= 0.9 * above[0].median,
        ),
    ];
    if names.len() > 3 {
        let open = rate(1, 3);
        claims.push(claim(
            "with 1 % of data lost, Verus above the open window gets within 10 % of native (target of ours)",
            3,
            1,
            format!("{} Mbit/s, native {}", stated(&open), stated(&native[1])),
            (open.median - native[1].median).abs() <= 0.1 * native[1].median,
        ));
    }
    let row = |(index, name): (usize, &&str)| {
        let cell = |lost: usize| {
            let runs = &results[lost * names.len() + index];
            (short(typical(runs, |run| run.mbps)), format!("{} ms", short(typical(runs, |run| run.delay(50)))))
        };
        ((*name).to_owned(), (0..LOSSES.len()).map(cell).collect())
    };
    Ok(Findings {
        setup: vec![format!(
            "Verus over {} without loss, with 1 % of data lost, and with 1 % of acknowledgements lost: the authors' script \
             loses what goes up, which is acknowledgements. {} of each, {}.",
            trace.display(),
            counted(results[0].len(), "run"),
            where_it_ran(bench),
        )],
        claims,
        tables: vec![Table::new(
            "Throughput and median delay",
            "Mbit/s, below it ms; medians over runs.",
            LOSSES.map(|(name, _)| name),
            names.iter().enumerate().map(row),
        )],
        scenarios: vec![&CELLULAR],
        ..Findings::default()
    })
}
