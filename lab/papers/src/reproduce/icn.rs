//! Liu, Zeng, Han and Sun, "Toward Information-Centric Networking Receiver-Driven Transmission Mechanism over Wireless Local Area
//! Network" (2021).
//!
//! Most of the paper's results are curves: claims are what its text says of them. Of table 1 the memory is here; the processor
//! time of a server is a bench of its own (`scripts/bench-icn`, `docs/results/icn.md`). Several sources of one object, an address that changes and
//! a cache run in the same simulator, as nodes beside no flow ([`network`]).
//!
//! What the paper does not say and we took: `scenarios/icn`, `scenarios/wifi`.

mod beside;
mod cached;
mod frontier;
mod handoff;
mod network;
mod requests;
mod run;
mod sources;
mod table1;
mod wifi;
mod wired;

use super::bench::{File, file};
use super::{Paper, Runs, experiment};

/// Everything of this paper.
pub(super) const PAPER: Paper = Paper {
    name: "icn",
    title: "Liu, Zeng, Han and Sun, \"Toward Information-Centric Networking Receiver-Driven Transmission Mechanism over Wireless Local \
            Area Network: Implementation and Optimization\"",
    about: &[
        "Where data goes runs BBR and asks for units of 1400 bytes; a router answers and forgets. bbr@icn is ours: requests by equation \
         8, three times as large where inequality 9 holds, a ceiling on what is in flight, the aggregation estimator of a later \
         Linux, and ProbeRTT as of BBRv3.",
        "The paper's own is BBR of Linux 4.14, which has no such estimator, with ProbeRTT and window of its own, and no window at all \
         in ProbeBW (ceiling=unlimited); before its optimisation, with BBR's window and no tripled requests (ceiling=window, \
         triple=off). BBRp raises the gain that probes for bandwidth to 1.5 and 2.",
        "Throughput is of payload, so that headers and requests count against who has them.",
    ],
    rivals: &[("bbr@icn", "ours")],
    runs: Runs::SimulatedFirst,
    experiments: &[
        experiment("fig3b", "Fig 3b", "The round trip of BBR on Wi-Fi", wifi::rtt),
        experiment("fig4", "Fig 4", "Requests at a fixed rate", requests::conduct),
        experiment("fig7a", "Fig 7a", "Bottlenecks of constant rates", wired::rates),
        experiment("fig7b", "Fig 7b", "A bottleneck that changes", wired::steps),
        experiment("fig8", "Fig 8", "Four flows share a bottleneck", wired::sharing),
        experiment("fig9", "Fig 9", "Before and after optimisation on Wi-Fi", wifi::optimised),
        experiment("frontier", "Frontier", "Throughput against delay on Wi-Fi, by window", frontier::conduct),
        experiment("fig10", "Fig 10", "Throughput and delay on Wi-Fi", wifi::compared),
        experiment("fig10cf", "Fig 10 c, f", "Several flows on Wi-Fi", wifi::several),
        experiment("beside", "Beside TCP", "Beside CUBIC and BBR on Wi-Fi", beside::conduct),
        experiment("table1", "Table 1", "What a server needs", table1::conduct),
        experiment("sources", "Several sources", "One object from several sources", sources::conduct),
        experiment("handoff", "Hand-off", "The address changes in the middle of a fetch", handoff::conduct),
        experiment("cache", "Cache", "A router that keeps what is asked for again", cached::conduct),
    ],
    page: None,
};

/// Ours.
const OURS: &str = "bbr@icn";
/// The paper's, after and before its optimisation.
const PAPERS: &str = "bbr:cwnd_gain=2,probe_rtt=10,probe_rtt_gain=0,aggregation=off@icn:ceiling=unlimited";
const BEFORE: &str = "bbr:cwnd_gain=2,probe_rtt=10,probe_rtt_gain=0,aggregation=off@icn:triple=off,ceiling=window";

static REQUESTS: File = file!("icn/requests.toml");
static LINK: File = file!("icn/link.toml");
static STEPS: File = file!("icn/steps.toml");
static SHARE: File = file!("icn/share.toml");
static BESIDE: File = file!("icn/beside.toml");
static USERS: File = file!("icn/users.toml");
static W1: File = file!("wifi/w1.toml");
static W2: File = file!("wifi/w2.toml");
static W3: File = file!("wifi/w3.toml");
static W4: File = file!("wifi/w4.toml");
static W4_COMPETITOR: File = file!("wifi/w4-competitor.toml");
static W5_FLOWS: File = file!("wifi/w5-flows.toml");
static W5_STATIONS: File = file!("wifi/w5-stations.toml");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use paceline_lab::scenario::{Options, Source};

    #[test]
    fn the_scenarios_run_as_they_are() {
        for file in [
            &REQUESTS,
            &LINK,
            &STEPS,
            &SHARE,
            &BESIDE,
            &USERS,
            &W1,
            &W2,
            &W3,
            &W4,
            &W4_COMPETITOR,
            &W5_FLOWS,
            &W5_STATIONS,
        ] {
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file.path);
            assert_eq!(std::fs::read_to_string(&there).unwrap(), file.text, "{}", file.path);
            let plans = Source::from_text(file.path, file.text, Options::default()).plans();
            assert!(plans.is_ok(), "{}", plans.unwrap_err());
        }
    }

    #[test]
    fn several_sources_hold_what_is_claimed_of_them() {
        use paceline_lab::run::World;
        use paceline_lab::runner::Unwatched;

        let settings =
            super::super::PaperSettings { figure: Some("sources".to_owned()), runs: Some(1), ..Default::default() };
        let sections = PAPER.run(&settings, &Unwatched).unwrap();
        let missed: Vec<_> = sections[0].claims().iter().filter(|claim| !claim.holds()).collect();
        assert!(missed.is_empty() && !sections[0].claims().is_empty(), "{missed:?}");
        let real = super::super::PaperSettings { world: World::Real, ..settings };
        assert!(PAPER.run(&real, &Unwatched).unwrap()[0].claims().is_empty(), "it says that it does not run so");
    }

    #[test]
    fn those_who_are_compared_exist() {
        for who in [OURS, PAPERS, BEFORE].into_iter().chain(wifi::NAMES.map(|(name, _)| name)) {
            assert!(crate::claim::ClaimError::check("", who).is_ok(), "{who}");
        }
    }
}
