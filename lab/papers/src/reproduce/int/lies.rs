//! Hops that lie: what they leave a plain CUBIC flow, and what a flow has that believes them.

use super::run::Run;
use super::{CHAIN, LOSS, SHARING, percent};
use crate::reproduce::bench::File;
use crate::reproduce::prelude::*;
use paceline_experiment::HopLie;

/// What the last hop says, as a scenario has it.
const LIES: [&str; HopLie::ALL.len()] =
    ["idle", "busy", "each_packet", "each_second", "crowd", "fast", "slow", "open", "shut", "silent"];
/// Who listens to hops. What is claimed is claimed of all but the last, which is as it was published.
const NAMES: [(&str, &str); 6] = [
    ("cubic-l1@tcp", "L1"),
    ("cubic-l1g@tcp", "L1g"),
    ("cubic-l2@tcp", "L2"),
    ("cubic:eq1=2@tcp", "increment 2"),
    ("hops@tcp", "hops"),
    ("hpcc@tcp", "HPCC"),
];
const CLAIMED: usize = NAMES.len() - 1;
/// The least share of a link that a plain CUBIC flow keeps, of what it has beside another one, and of CUBIC's throughput that a flow alone has.
const KEEPS: f64 = 0.45;
const OF_CUBIC: f64 = 0.9;
const HAS: f64 = 0.95;
/// Each run lasts so long, and each condition has so many.
const SECONDS: &str = "30";
const RUNS: &str = "5";

const WORST: &str = "The lie that does most, in %, median; below it its name.";

/// A path, and what it changes of the scenario.
struct Network {
    name: &'static str,
    set: &'static [(&'static str, &'static str)],
}

const RATE: &str = "links.radio2.rate";
const ROOM: &str = "links.radio2.queue";
/// The scenario's own first.
const PATHS: [Network; 7] = [
    Network { name: "20 Mbit/s, 20 ms, 60 packets", set: &[] },
    Network { name: "16 packets", set: &[(ROOM, "droptail:packets=16")] },
    Network { name: "240 packets", set: &[(ROOM, "droptail:packets=240")] },
    Network { name: "5 Mbit/s, 30 packets", set: &[(RATE, "5 Mbit/s"), (ROOM, "droptail:packets=30")] },
    Network {
        name: "100 Mbit/s, 250 packets",
        set: &[(RATE, "100 Mbit/s"), (ROOM, "droptail:packets=250"), ("links.radio1.rate", "1 Gbit/s")],
    },
    Network { name: "100 ms, 160 packets", set: &[("links.wire.delay", "46ms"), (ROOM, "droptail:packets=160")] },
    Network { name: "a lie from 10 s on", set: &[("telemetry.lie_from", "10s")] },
];

/// A question: of which runs, and what a run says.
struct Question {
    /// What is claimed, and of what.
    claim: &'static str,
    title: &'static str,
    note: &'static str,
    file: &'static File,
    loss: f64,
}

static QUESTIONS: [Question; 3] = [
    Question {
        claim: "whatever the last hop says, a plain CUBIC flow beside it keeps 45 % of what both have, or 90 % of what another CUBIC leaves it",
        title: "A plain CUBIC flow beside it",
        note: "Its share of what both have over the whole run, in %; below it the least and the most of the runs.",
        file: &SHARING,
        loss: 0.0,
    },
    Question {
        claim: "whatever the last hop says, a flow alone has 95 % of what CUBIC has",
        title: "Alone",
        note: "Throughput by CUBIC's with the same header, in %; below it the least and the most of the runs.",
        file: &CHAIN,
        loss: 0.0,
    },
    Question {
        claim: "whatever the last hop says, a flow alone has 95 % of what CUBIC has where the radio loses 5 %",
        title: "Alone, 5 % lost by the radio",
        note: "Throughput by CUBIC's with the same header, in %; below it the least and the most of the runs.",
        file: &CHAIN,
        loss: 0.05,
    },
];

impl Question {
    fn setup(&self, path: &Network, name: &str, lie: Option<&str>) -> Setup {
        let base = Setup::new(self.file, name).set("seconds", SECONDS).set("runs", RUNS);
        let base = base.set("telemetry.profile", "C3").set(LOSS, &self.loss.to_string());
        let lying = lie.into_iter().fold(base, |setup, lie| setup.set("telemetry.lie", lie));
        let of_lies = |key: &str| key.starts_with("telemetry.lie");
        let set = path.set.iter().filter(|(key, _)| lie.is_some() || !of_lies(key));
        set.fold(lying, |setup, (key, value)| setup.set(key, value))
    }

    /// Of a run: CUBIC's part of what both have, or of one alone how many times it has what `cubic` has, in Mbit/s.
    fn part(run: &Run, cubic: f64) -> f64 {
        match run.mbps[..] {
            [own, plain] => plain / (own + plain).max(f64::MIN_POSITIVE),
            _ => run.mbps[0] / cubic.max(f64::MIN_POSITIVE),
        }
    }

    /// Runs every lie and everyone on a path, after CUBIC without lies: the least that holds, and answers by name, then by lie.
    fn ask(&self, bench: &Bench<'_>, path: &Network) -> Result<(f64, Vec<Vec<Answer>>), ReproduceError> {
        let all = NAMES.iter().flat_map(|(name, _)| LIES.iter().map(|lie| self.setup(path, name, Some(lie))));
        let setups: Vec<Setup> = std::iter::once(self.setup(path, "cubic@tcp", None)).chain(all).collect();
        let results = bench.run(&setups, |_, run| Run::of(run))?;
        let cubic = typical(&results[0], |run| run.mbps[0]);
        let beside = results[0].first().is_some_and(|run| run.mbps.len() > 1);
        let share = typical(&results[0], |run| Self::part(run, cubic));
        let least = if beside { KEEPS.min(OF_CUBIC * share) } else { HAS };
        let answers = setups.into_iter().zip(&results).skip(1).map(|(setup, runs)| {
            let parts = runs.iter().map(|run| Self::part(run, cubic)).collect();
            Answer { setup, parts }
        });
        let answers: Vec<Answer> = answers.collect();
        Ok((least, answers.chunks(LIES.len()).map(<[Answer]>::to_vec).collect()))
    }
}

/// Parts of the runs of one setup.
#[derive(Clone)]
struct Answer {
    setup: Setup,
    parts: Vec<f64>,
}

impl Answer {
    fn median(&self) -> f64 {
        median(&self.parts)
    }

    /// `46.2`, and its range.
    fn shown(&self) -> (String, String) {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        (percent(self.median()), format!("{}-{}", percent(least(&self.parts)), percent(most(&self.parts))))
    }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let mut findings = Findings {
        setup: vec![format!(
            "What the last hop on the way says of itself is not so; all others say the truth. {RUNS} runs of {SECONDS} s of each, the start \
             included. Without losses by the radio on {} paths, with losses on the first: {}.",
            PATHS.len(),
            PATHS.map(|path| path.name).join("; "),
        )],
        scenarios: vec![&SHARING, &CHAIN],
        ..Findings::default()
    };
    for question in &QUESTIONS {
        let paths = if question.loss > 0.0 { &PATHS[..1] } else { &PATHS[..] };
        let answers: Vec<_> = paths.iter().map(|path| question.ask(bench, path)).collect::<Result<_, _>>()?;
        let columns = NAMES.map(|(_, shown)| shown);
        let rows = (0..LIES.len())
            .map(|lie| (LIES[lie].to_owned(), answers[0].1.iter().map(|by_lie| by_lie[lie].shown()).collect()));
        findings.tables.push(Table::new(
            format!("{}: {}", question.title, PATHS[0].name),
            question.note,
            columns,
            rows,
        ));
        let rows = paths.iter().zip(&answers).map(|(path, (_, answers))| {
            let worst = |by_lie: &Vec<Answer>| {
                let worst = by_lie.iter().zip(LIES).min_by(|one, other| one.0.median().total_cmp(&other.0.median()));
                worst.map(|(answer, lie)| (answer.shown().0, lie.to_owned())).unwrap_or_default()
            };
            (path.name.to_owned(), answers.iter().map(worst).collect())
        });
        findings.tables.push(Table::new(format!("{}: every path", question.title), WORST, columns, rows));
        for (at, (name, _)) in NAMES[..CLAIMED].iter().enumerate() {
            let cells = paths.iter().zip(&answers).flat_map(|(path, (least, answers))| {
                answers[at].iter().zip(LIES).map(|(answer, lie)| {
                    let ours = format!("{} ({})", percent((answer.median() * 1e3).round() / 1e3), answer.shown().1);
                    answer.setup.cell(format!("{lie}, {}", path.name), ours, answer.median() >= *least)
                })
            });
            let setup = question.setup(&PATHS[0], name, None);
            let claim = format!("{} (median; target of ours)", question.claim);
            findings.claims.push(setup.claim(claim, "").got_worst(cells.collect()));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lie_is_told() {
        let names = HopLie::ALL.map(|lie| serde_json::to_value(lie).unwrap().as_str().unwrap().to_owned());
        assert_eq!(names, LIES);
    }
}
