//! Figure 4: requests at a fixed rate, by how many units one asks for.

use super::REQUESTS;
use super::run::{Ran, Run, claim};
use crate::reproduce::prelude::*;

/// The paper's rates, Mbit/s of payload, and units in a request. A request has 64 at most: its 80 are left out.
const RATES: [u32; 4] = [200, 400, 600, 800];
const UNITS: [u32; 5] = [1, 2, 8, 20, 40];

fn contestant(rate: u32, units: u32) -> String {
    format!("fixed:window=100000,rate={rate}@icn:aggregation={units}")
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let pairs: Vec<(u32, u32)> = RATES.iter().flat_map(|rate| UNITS.iter().map(|units| (*rate, *units))).collect();
    let setup = |&(rate, units): &(u32, u32)| Setup::new(&REQUESTS, &contestant(rate, units));
    let setups: Vec<Setup> = pairs.iter().map(setup).collect();
    Ran::conduct(bench, &setups, |ran| {
        let got = |at: usize| ran.value(at, Run::all);
        let claims = UNITS.iter().enumerate().map(|(column, units)| {
            let cells = RATES.iter().enumerate().map(|(row, rate)| {
                let (at, asked) = (row * UNITS.len() + column, f64::from(*rate));
                let ours = format!("{} of {rate} Mbit/s", short(got(at)));
                ran.cell(at, format!("{rate} Mbit/s"), ours, (got(at) / asked - 1.0).abs() <= 0.01)
            });
            let paper = if *units <= 2 { "falls short, more at higher rates" } else { "meets the rate" };
            let text =
                format!("requests of {units} units bring the rate that they ask for, within 1 % (the bound is ours)");
            claim(&text, &contestant(RATES[0], *units), paper, cells.collect())
        });
        let row = |(row, rate): (usize, &u32)| {
            let values: [String; UNITS.len()] = std::array::from_fn(|column| short(got(row * UNITS.len() + column)));
            plain(format!("{rate} Mbit/s"), values)
        };
        Findings {
            setup: vec![
                "The paper's throughput falls short because its timer counts from when it fired; ours counts from the deadline before. What \
                 small requests cost on the air is in docs/results/wifi.md."
                    .to_owned(),
            ],
            claims: claims.collect(),
            tables: vec![Table::new(
                "Throughput",
                "Mbit/s of payload, by units in a request.",
                UNITS.map(|units| units.to_string()),
                RATES.iter().enumerate().map(row),
            )],
            scenarios: vec![&REQUESTS],
            ..Findings::default()
        }
    })
}
