//! A question of ours: who asks for data beside a TCP flow behind the same access point.

use super::run::{Ran, Run, claim, table};
use super::{BESIDE, OURS, PAPERS};
use crate::reproduce::prelude::*;

const WHO: [&str; 4] = [OURS, PAPERS, "bbr@tcp", "cubic@tcp"];
const RIVALS: [(&str, &str); 2] = [("cubic@tcp", "CUBIC"), ("bbr@tcp", "BBR")];
/// Share of what both have that each keeps (our choice: less is starved).
const LEAST: f64 = 0.2;

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup = |rival: &str, who: &str| Setup::new(&BESIDE, who).set("flows.1.contestant", rival);
    let setups = RIVALS.iter().flat_map(|(rival, _)| WHO.iter().map(move |who| setup(rival, who)));
    let setups: Vec<Setup> = setups.collect();
    Ran::conduct(bench, &setups, |ran| {
        let part = |run: &Run| run.mbps[0] / run.all();
        let claims = WHO.iter().take(3).enumerate().map(|(who, name)| {
            let cell = |rival: usize| {
                let at = rival * WHO.len() + who;
                let own = ran.value(at, part);
                let text = format!("it has {} % of both", short((own * 1000.0).round() / 10.0));
                ran.cell(at, format!("beside TCP {}", RIVALS[rival].1), text, (LEAST..=1.0 - LEAST).contains(&own))
            };
            let text = "of two flows to one station neither has less than a fifth of what both have (target of ours)";
            claim(text, name, "", (0..RIVALS.len()).map(cell).collect())
        });
        let rows = (0..ran.setups.len())
            .map(|at| (at, format!("{} beside TCP {}", WHO[at % WHO.len()], RIVALS[at / WHO.len()].1)));
        Findings {
            setup: vec![
                "W1: both flows go to one station, through one queue of 1000 packets. Throughput is of both."
                    .to_owned(),
            ],
            claims: claims.collect(),
            tables: vec![table(ran, "Two flows", rows)],
            scenarios: vec![&BESIDE],
            ..Findings::default()
        }
    })
}
