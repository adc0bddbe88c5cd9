//! Bhat, Haxhibeqiri, Moerman and Hoebeke, "Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF".
//!
//! The paper's four figures, then what it names as open: which losses are distinguished, and who shares with whom.
//!
//! What differs from the paper, because it does not say it: rates, delays, queues, which link loses, how long flows last, and the units of
//! equation (1). `scenarios/telemetry.toml` says what we took: its chain of two access points, with the second radio as the
//! bottleneck and the lossy link.

mod classifier;
mod lies;
mod relation;
mod run;
mod sharing;
mod start;
mod throughput;

use super::bench::{File, file};
use super::{Paper, Runs, experiment};

/// Everything of this paper.
pub(super) const PAPER: Paper = Paper {
    name: "int",
    title: "Bhat, Haxhibeqiri, Moerman and Hoebeke, \"Adaptive Transport Layer Protocols using In-band Network Telemetry and eBPF\"",
    about: &[
        "Every hop writes what it sees of its queue into the packets of a flow; the receiver's host says which losses were the \
         radio's, and the sender is informed over a bus. L1 (cubic-l1) keeps its window at a loss by the medium, L2 (cubic-l2) takes \
         95 % of it, and ours (cubic-l1g) grows where the hops have room. CUBIC carries the same header and does not listen.",
        "Throughput is of packets on the wire, telemetry included, so that 20 Mbit/s less what the radio loses is the ceiling for \
         everyone.",
    ],
    rivals: &[("cubic-l2@", "L2"), ("cubic-l1@", "L1"), ("cubic-l1g@", "L1g")],
    runs: Runs::SimulatedFirst,
    experiments: &[
        experiment("fig4", "Fig 4", "Losses and the window", relation::losses),
        experiment("fig5", "Fig 5", "The queue and the window", relation::queue),
        experiment("fig6", "Fig 6", "Throughput over a lossy radio", throughput::conduct),
        experiment("fig7", "Fig 7", "Start-up by the room of the hops", start::conduct),
        experiment("classifier", "Classifier", "Which losses were the medium's", classifier::conduct),
        experiment("sharing", "Sharing", "Who shares with whom", sharing::conduct),
        experiment("lies", "Lies", "Hops that say what is not so", lies::conduct),
    ],
    page: None,
};

/// The chain of two access points.
static CHAIN: File = file!("telemetry.toml");
/// Several flows on it.
static SHARING: File = file!("int/sharing.toml");

/// Key of the share of packets that the second radio loses.
const LOSS: &str = "links.radio2.loss";
/// Rate of the second radio, the bottleneck, Mbit/s.
const RATE: f64 = 20.0;
/// Packets that its queue holds.
const QUEUE: f64 = 60.0;
/// Round trip without queues, s: twice 10 ms.
const ROUND: f64 = 0.02;

/// A share as people read it: `0.05` is `5 %`.
fn percent(share: f64) -> String {
    format!("{} %", paceline_report::svg::short(share * 100.0))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use paceline_lab::scenario::{Options, Source};

    #[test]
    fn the_scenarios_run_as_they_are() {
        for file in [&CHAIN, &SHARING] {
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file.path);
            assert_eq!(std::fs::read_to_string(&there).unwrap(), file.text, "{}", file.path);
            let plans = Source::from_text(file.path, file.text, Options::default()).plans();
            assert!(plans.is_ok(), "{}", plans.unwrap_err());
        }
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!([0.0, 0.05, 0.15].map(percent), ["0 %", "5 %", "15 %"]);
    }
}
