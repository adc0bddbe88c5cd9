//! Figures 3b, 9 and 10: on Wi-Fi.

use crate::reproduce::prelude::*;
use paceline_lab::measure::jain;

use super::super::bench::File;
use super::run::{Ran, Run, claim, table};
use super::{BEFORE, OURS, PAPERS, W1, W2, W3, W4, W4_COMPETITOR, W5_FLOWS, W5_STATIONS};

/// Seconds of a run, and how many, unless the command says it: enough for three probes of the least RTT.
const SECONDS: &str = "35";
const RUNS: &str = "3";

/// Asks for one unit at a time, and waits for it: the RTT of an idle path.
pub(super) const IDLE: &str = "fixed:window=1@icn:aggregation=one";

/// BBR of Linux 4.14; in real time by our own sender.
const OLD: &str = "bbr:aggregation=off@tcp";
const OLD_REAL: &str = "bbr:aggregation=off@udp";

/// Who is compared, as tables name them.
pub(super) const NAMES: [(&str, &str); 8] = [
    (OURS, "ours"),
    (PAPERS, "the paper's"),
    (BEFORE, "the paper's before optimisation"),
    (
        "bbr:cwnd_gain=2,probe_gain=1.5,probe_rtt=10,probe_rtt_gain=0,aggregation=off@icn:triple=off,ceiling=window",
        "BBRp 6 by requests",
    ),
    (
        "bbr:cwnd_gain=2,probe_gain=2,probe_rtt=10,probe_rtt_gain=0,aggregation=off@icn:triple=off,ceiling=window",
        "BBRp 8 by requests",
    ),
    (OLD, "TCP BBR of Linux 4.14"),
    ("bbr@tcp", "TCP BBR"),
    ("cubic@tcp", "TCP CUBIC"),
];
const CUBIC: usize = 7;

pub(super) fn setup(file: &'static File, name: &str) -> Setup {
    Setup::new(file, name).set("seconds", SECONDS).set("runs", RUNS)
}

/// Figure 3b.
pub(super) fn rtt(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setups = vec![setup(&W1, OURS).sampled(Nanos::from_millis(100)), setup(&W1, IDLE)];
    Ran::conduct(bench, &setups, |ran| {
        let idle = ran.value(1, |run| run.rtt[0]);
        let found = |run: &Run| {
            let values = run.series.flows.first().and_then(|flow| flow.variables.get("min_rtt_ms"));
            values.and_then(|values| values.iter().rev().find_map(|value| *value)).unwrap_or(f64::NAN)
        };
        let (found, swing) = (ran.value(0, found), ran.value(0, |run| run.rtt[1] / run.rtt[3]));
        let claims = vec![
            claim(
                "the 95th percentile of the RTT is at least twice the least (the bound is ours)",
                OURS,
                "the Round-Trip Time of BBR over Wi-Fi is fluctuating",
                vec![ran.cell(0, "W1", format!("{} times", short(swing)), swing >= 2.0)],
            ),
            claim(
                "the least RTT that BBR knows at the end is that of the idle path, within 25 % (the bound is ours)",
                OURS,
                "BBR can always detect the RTTmin due to its ProbeRTT state",
                vec![ran.cell(
                    0,
                    "W1",
                    format!("{} ms, idle {} ms", short(found), short(idle)),
                    (found / idle - 1.0).abs() <= 0.25,
                )],
            ),
        ];
        Findings {
            setup: vec!["W1: 802.11ac, 866.7 Mbit/s, 1 ms of wire.".to_owned()],
            claims,
            tables: vec![table(ran, "W1", [(0, "ours".to_owned()), (1, "idle".to_owned())].into_iter())],
            scenarios: vec![&W1],
            ..Findings::default()
        }
    })
}

/// Figure 9.
pub(super) fn optimised(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    const WHO: [(&str, &str); 5] = [
        (OURS, "ours"),
        (PAPERS, "the paper's"),
        (BEFORE, "the paper's before optimisation"),
        ("cubic@icn:ceiling=window", "CUBIC by requests: a queue that is never empty"),
        (IDLE, "one unit at a time: idle"),
    ];
    let places = [(&W1, "a: 1 ms of wire"), (&W2, "b: 5 ms of wire")];
    let setups = places.iter().flat_map(|(file, _)| WHO.iter().map(|(name, _)| setup(file, name)));
    let setups: Vec<Setup> = setups.collect();
    Ran::conduct(bench, &setups, |ran| {
        let at = |place: usize, who: usize| place * WHO.len() + who;
        let mbps = |place: usize, who: usize| ran.value(at(place, who), Run::all);
        let saturates = |who: usize| {
            let cell = |place: usize| {
                let (ours, full) = (mbps(place, who), mbps(place, 3));
                let text = format!("{} of {} Mbit/s", short(ours), short(full));
                ran.cell(at(place, who), places[place].1, text, ours >= 0.95 * full)
            };
            (0..2).map(cell).collect::<Vec<_>>()
        };
        let delay = |who: usize, times: f64| {
            let cell = |place: usize| {
                let (ours, idle) =
                    (ran.value(at(place, who), |run| run.rtt[1]), ran.value(at(place, 4), |run| run.rtt[0]));
                let text = format!("{} ms, idle {} ms", short(ours), short(idle));
                ran.cell(at(place, who), places[place].1, text, ours <= times * idle)
            };
            (0..2).map(cell).collect::<Vec<_>>()
        };
        let lacks = |place: usize| mbps(place, 2) / mbps(place, 1);
        let fills =
            "it has at least 95 % of what requests can get from a queue that is never empty (the bound is ours)";
        let quick = "the 95th percentile of the RTT is at most 3 times that of the idle path (the bound is ours)";
        let mut claims = vec![claim(
            "before optimisation a larger share is missing on the short path",
            BEFORE,
            "non-optimized transmission on 7ms link can make better use of Wi-Fi's aggregation",
            vec![ran.cell(
                at(0, 2),
                "1 and 5 ms of wire",
                format!("{} and {} % of the optimised", short(100.0 * lacks(0)), short(100.0 * lacks(1))),
                lacks(0) < lacks(1),
            )],
        )];
        for who in [1, 0] {
            claims.push(claim(
                fills,
                WHO[who].0,
                "can adapt to different Wi-Fi links achieving saturated throughput",
                saturates(who),
            ));
            claims.push(claim(quick, WHO[who].0, "introduces very few extra delays", delay(who, 3.0)));
        }
        let rows =
            (0..ran.setups.len()).map(|at| (at, format!("{}, {}", places[at / WHO.len()].1, WHO[at % WHO.len()].1)));
        Findings {
            setup: vec!["W1 and W2: 802.11ac, 866.7 Mbit/s.".to_owned()],
            claims,
            tables: vec![table(ran, "Wi-Fi", rows)],
            scenarios: vec![&W1, &W2],
            ..Findings::default()
        }
    })
}

/// Figures 10 a, b, d and e.
pub(super) fn compared(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let places = [
        (&W1, "802.11ac, 866.7"),
        (&W3, "802.11ac, 433.3 beside a station"),
        (&W4, "802.11n, 144.4"),
        (&W4_COMPETITOR, "802.11n, 144.4 beside a station"),
    ];
    // The kernel's BBR always has its estimator.
    let who = |name: &'static str| if bench.is_real() && name == OLD { OLD_REAL } else { name };
    let setups = places.iter().flat_map(|(file, _)| NAMES.iter().map(|(name, _)| setup(file, who(name))));
    let setups: Vec<Setup> = setups.collect();
    Ran::conduct(bench, &setups, |ran| {
        let at = |place: usize, who: usize| place * NAMES.len() + who;
        let mbps = |place: usize, who: usize| ran.value(at(place, who), Run::all);
        let tail = |place: usize, who: usize| ran.value(at(place, who), |run| run.rtt[1]);
        let cells = |who: usize, judge: &dyn Fn(usize) -> (String, bool)| {
            let cell = |place: usize| {
                let (text, holds) = judge(place);
                ran.cell(at(place, who), places[place].1, text, holds)
            };
            (0..places.len()).map(cell).collect::<Vec<_>>()
        };
        let mut claims = Vec::new();
        for who in [0, 1] {
            let rates = |place: usize| {
                let (own, cubic) = (mbps(place, who), mbps(place, CUBIC));
                (format!("{} Mbit/s, CUBIC {}", short(own), short(cubic)), own >= 0.98 * cubic)
            };
            let tails = |place: usize| {
                let (own, cubic) = (tail(place, who), tail(place, CUBIC));
                (format!("{} ms, CUBIC {}", short(own), short(cubic)), own <= 0.5 * cubic)
            };
            let name = NAMES[who].0;
            claims.push(claim(
                "it has at least 98 % of TCP CUBIC's throughput (the bound is ours)",
                name,
                "the full Wi-Fi bandwidth, even slightly outperforming CUBIC on 802.11ac",
                cells(who, &rates),
            ));
            claims.push(claim(
                "the 95th percentile of its RTT is at most half of CUBIC's (the bound is ours)",
                name,
                "just slight extra delays; CUBIC brings a high delay",
                cells(who, &tails),
            ));
        }
        for (who, (name, _)) in NAMES.iter().enumerate().take(CUBIC).skip(3) {
            let below = |place: usize| {
                let (own, ours) = (mbps(place, who), mbps(place, 1));
                (format!("{} Mbit/s, the paper's {}", short(own), short(ours)), own < ours)
            };
            claims.push(claim("it has less than the paper's", name, "limited by the window", cells(who, &below)));
        }
        let rows = (0..ran.setups.len())
            .map(|at| (at, format!("{}, {}", places[at / NAMES.len()].1, NAMES[at % NAMES.len()].1)));
        Findings {
            setup: vec![
                "W1, W3 and W4: 1 ms of wire; beside a station: one that always has full packets to send.".to_owned(),
            ],
            claims,
            tables: vec![table(ran, "Wi-Fi", rows)],
            scenarios: places.iter().map(|(file, _)| *file).collect(),
            ..Findings::default()
        }
    })
}

/// Figures 10 c and f.
pub(super) fn several(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let places = [(&W5_FLOWS, "four flows to one station"), (&W5_STATIONS, "four stations")];
    let setups: Vec<Setup> = places.iter().map(|(file, _)| setup(file, OURS)).collect();
    Ran::conduct(bench, &setups, |ran| {
        let cell = |place: usize| {
            let jain = ran.value(place, |run| jain(&run.mbps));
            ran.cell(place, places[place].1, short((jain * 1e4).round() / 1e4), jain >= 0.95)
        };
        let text = "Jain's index over the whole run is at least 0.95 (the bound is ours)";
        Findings {
            setup: vec!["W5: 802.11ac, 866.7 Mbit/s, 1 ms of wire.".to_owned()],
            claims: vec![claim(text, OURS, "can fast converge to a fair share soon", (0..2).map(cell).collect())],
            tables: vec![table(ran, "W5", places.iter().enumerate().map(|(at, (_, name))| (at, (*name).to_owned())))],
            scenarios: places.iter().map(|(file, _)| *file).collect(),
            ..Findings::default()
        }
    })
}
