//! Misund and Briscoe, "Paced Chirping: Rapid flow start with very low queuing delay" (2019).
//!
//! The paper's four figures, then what it leaves open: whether the queue of a start-up depends on the rate, how soon a
//! newcomer has its share, and what delayed acknowledgements, loss, reordering and a cellular link do to a start-up.
//!
//! What differs from the paper, because it does not say it: the times at which flows start, the mean times between
//! arrivals, and which of several readings of the distribution of sizes is meant: `scenarios/paced-chirping/` says what we
//! took.

mod flow_completion;
mod mixed;
mod newcomer;
mod robust;
mod scale;
mod staggered;

use super::bench::{File, file};
use super::{Paper, Runs, experiment};

/// Everything of this paper.
pub(super) const PAPER: Paper = Paper {
    name: "paced-chirping",
    title: "Misund and Briscoe, \"Paced Chirping: Rapid flow start with very low queuing delay\" (2019)",
    about: &[
        "Paced chirping exists in three generations: P is the code behind the paper's figures, Q the authors' rewrite of \
         the same year, R their newest. All three and ours (start=chirp) replace slow start under DCTCP's congestion \
         avoidance and meet the same seeds. A claim of the paper is tested on each.",
        "Figures are of the simulator: no timer of a host is late, so a queue is lower here than on the paper's testbed. \
         Queues are the waiting time of packets at the bottleneck, without their own transmission. Each packet is \
         acknowledged, as in the paper.",
    ],
    rivals: &[(":start=chirp-p@", "P"), (":start=chirp-q@", "Q"), (":start=chirp-r@", "R"), (":start=chirp@", "ours")],
    runs: Runs::Simulated,
    experiments: &[
        experiment("fig1", "Fig 1", "Four DCTCP flows, one after another", staggered::dctcp),
        experiment("fig5", "Fig 5", "Completion times and queueing delay of 1000 flows", flow_completion::conduct),
        experiment("fig6", "Fig 6", "Four flows with paced chirping, one after another", staggered::chirping),
        experiment("fig7", "Fig 7", "Short and long flows beside UDP", mixed::conduct),
        experiment("scale", "Scale", "The queue of a start-up from 10 Mbit/s to 10 Gbit/s", scale::conduct),
        experiment("newcomer", "Newcomer", "A newcomer beside a greedy flow", newcomer::conduct),
        experiment("robust", "Robust", "Delayed acknowledgements, loss, reordering, a cellular link", robust::conduct),
    ],
    page: None,
};

/// The start-ups that chirp: the parameter `start`, how figures name it, and its colour.
const STARTS: &[(&str, &str, &str)] = &[
    ("chirp-p", "P", "c-other-0"),
    ("chirp-q", "Q", "c-other-1"),
    ("chirp-r", "R", "c-other-2"),
    ("chirp", "ours", "c-other-3"),
];

/// Who is compared: as a contestant, as figures name it, and its colour.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rival {
    contestant: String,
    name: String,
    class: &'static str,
}

/// This policy with each start-up that chirps.
fn chirping(policy: &str) -> Vec<Rival> {
    let rival = |(start, name, class): &(&str, &str, &'static str)| Rival {
        contestant: format!("{policy}:start={start}@tcp"),
        name: (*name).to_owned(),
        class,
    };
    STARTS.iter().map(rival).collect()
}

/// This policy with slow start.
fn plain(policy: &str) -> Rival {
    let (name, class) =
        if policy == "dctcp" { ("DCTCP, slow start", "c-dctcp") } else { ("Prague, slow start", "c-prague") };
    Rival { contestant: format!("{policy}@tcp"), name: name.to_owned(), class }
}

/// Colours and names, as legends have them.
fn legend(rivals: &[Rival]) -> impl Iterator<Item = (&'static str, &str)> {
    rivals.iter().map(|rival| (rival.class, rival.name.as_str()))
}

/// The policy with slow start, then with each start-up that chirps.
fn all(policy: &str) -> Vec<Rival> {
    std::iter::once(plain(policy)).chain(chirping(policy)).collect()
}

static STAGGERED: File = file!("paced-chirping/staggered.toml");
static FLOW_COMPLETION: File = file!("paced-chirping/flow-completion.toml");
static MIXED: File = file!("paced-chirping/mixed.toml");
static NEWCOMER: File = file!("paced-chirping/newcomer.toml");
static SCALE: File = file!("paced-chirping/scale.toml");

/// A time in seconds that may never have come.
fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "not within the run".to_owned(), |time| format!("{time:.2} s"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use paceline_lab::scenario::{Options, Source};

    #[test]
    fn the_scenarios_run_as_they_are() {
        for file in [&STAGGERED, &FLOW_COMPLETION, &MIXED, &NEWCOMER, &SCALE] {
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file.path);
            assert_eq!(std::fs::read_to_string(&there).unwrap(), file.text, "{}", file.path);
            let plans = Source::from_text(file.path, file.text, Options::default()).plans();
            assert!(plans.is_ok(), "{}", plans.unwrap_err());
        }
    }
}
