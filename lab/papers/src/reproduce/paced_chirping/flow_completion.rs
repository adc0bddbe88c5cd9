//! Figure 5: completion times and queueing delay of 1000 flows.

mod claims;
mod figures;

use super::{FLOW_COMPLETION, Rival, chirping, plain};
use crate::reproduce::prelude::*;

/// The flows of the experiment among the scenario's: the first is the greedy one.
const FAMILY: usize = 1;
const FLOWS: u64 = 1000;
/// Flows of this many bytes or more are long.
const LONG: u64 = 100_000;

/// How sizes are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Truncated,
    Clamped,
}

impl Reading {
    fn name(self) -> &'static str {
        match self {
            Self::Truncated => "sizes truncated",
            Self::Clamped => "sizes clamped",
        }
    }

    /// Mean size in bytes.
    fn mean(self) -> f64 {
        match self {
            Self::Truncated => 70_711.0,
            Self::Clamped => 133_264.0,
        }
    }
}

const READINGS: [Reading; 2] = [Reading::Truncated, Reading::Clamped];
const RTTS_MS: [u32; 2] = [15, 50];
/// Offered load, per cent.
const LOADS: [u32; 4] = [10, 20, 40, 80];

/// One condition of the figure.
#[derive(Clone, Copy)]
struct Condition {
    reading: Reading,
    rtt_ms: u32,
    load: u32,
    greedy: bool,
}

impl Condition {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for reading in READINGS {
            for rtt_ms in RTTS_MS {
                for greedy in [false, true] {
                    all.extend(LOADS.map(|load| Self { reading, rtt_ms, load, greedy }));
                }
            }
        }
        all
    }

    fn name(&self) -> String {
        let greedy = if self.greedy { "with" } else { "no" };
        format!("{} ms, {} % load, {greedy} greedy flow, {}", self.rtt_ms, self.load, self.reading.name())
    }

    /// Without the RTT.
    fn short_name(&self) -> String {
        let greedy = if self.greedy { ", greedy flow" } else { "" };
        format!("{} %, {}{greedy}", self.load, self.reading.name().trim_start_matches("sizes "))
    }

    /// Mean time between arrivals, ms: the payload alone makes the load.
    fn gap_ms(&self) -> f64 {
        self.reading.mean() * 8.0 / (f64::from(self.load) / 100.0 * 100e6) * 1e3
    }

    fn setup(&self, rival: &Rival) -> Setup {
        // Time for all to arrive, and for the last to complete beside a greedy flow.
        let seconds = (3.0 + self.gap_ms() * 1.05 + 20.0).ceil();
        let sizes = "flows.1.workload.poisson";
        let delay = format!("{}us", self.rtt_ms * 500);
        Setup::new(&FLOW_COMPLETION, &rival.contestant)
            .set("seconds", &seconds.to_string())
            .set("down.delay", &delay)
            .set("up.delay", &delay)
            .set(&format!("{sizes}.mean_gap"), &format!("{:.2}ms", self.gap_ms()))
            .set_if(self.reading == Reading::Clamped, &format!("{sizes}.scale"), "900B")
            .set_if(self.reading == Reading::Clamped, &format!("{sizes}.cut"), "clamp")
            .set_if(self.greedy, "flows.0.start", "0s")
            .set_if(rival.contestant.starts_with("cubic"), "down.queue", "droptail:bdp=1")
    }
}

/// What is kept of a run.
struct Run {
    /// Sizes in bytes and completion times in ms.
    completions: Vec<(u64, f64)>,
    p99_ms: f64,
    /// Queueing delay of the flows' packets at the shares 0, 0.01 ... 1.
    quantiles_ms: Vec<f64>,
}

fn digest(run: &Finished<'_>) -> Run {
    let family = run.flow(FAMILY);
    let quantile = |share: f64| family.queue.quantile_ms(share).unwrap_or(0.0);
    Run {
        completions: family.completions.iter().map(|(bytes, time)| (*bytes, time.as_millis_f64())).collect(),
        p99_ms: quantile(0.99),
        quantiles_ms: (0..=100).map(|percent| quantile(f64::from(percent) / 100.0)).collect(),
    }
}

/// A contestant under one condition, over its runs.
struct Summary {
    /// Mean completion time over all flows of all runs, ms, and that of the long ones.
    mean_ms: f64,
    long_ms: f64,
    /// Median over the runs of the 99th percentile of queueing delay, ms.
    p99_ms: f64,
    /// As that, the median.
    p50_ms: f64,
    /// Flows that did not complete.
    unfinished: u64,
    runs: Vec<Run>,
}

impl Summary {
    fn of(runs: Vec<Run>) -> Self {
        let times = |least: u64| -> Vec<f64> {
            let all = runs.iter().flat_map(|run| &run.completions);
            all.filter(|(bytes, _)| *bytes >= least).map(|(_, time)| *time).collect()
        };
        Self {
            mean_ms: mean(&times(0)),
            long_ms: mean(&times(LONG)),
            p99_ms: typical(&runs, |run| run.p99_ms),
            p50_ms: median(&runs.iter().filter_map(|run| run.quantiles_ms.get(50).copied()).collect::<Vec<_>>()),
            unfinished: runs.iter().map(|run| FLOWS.saturating_sub(run.completions.len() as u64)).sum(),
            runs,
        }
    }

    /// For how many flows per run it speaks, where not for all.
    fn caveat(&self) -> String {
        match self.unfinished {
            0 => String::new(),
            some => format!(" ({some} of {} flows did not complete)", FLOWS * self.runs.len() as u64),
        }
    }
}

/// All contestants under one condition.
struct Results {
    condition: Condition,
    /// In the order of `rivals`.
    of: Vec<Summary>,
}

/// CUBIC with HyStart, CUBIC without, DCTCP, then those that chirp.
const CUBIC: usize = 0;
const DCTCP: usize = 2;
const CHIRPING: usize = 3;

fn rivals() -> Vec<Rival> {
    let cubic =
        |contestant: &str, name: &str, class| Rival { contestant: contestant.to_owned(), name: name.to_owned(), class };
    let mut rivals = vec![
        cubic("cubic@tcp", "CUBIC, HyStart", "c-cubic"),
        cubic("cubic:start=slow@tcp", "CUBIC, slow start", "c-cubic d1"),
        plain("dctcp"),
    ];
    rivals.extend(chirping("dctcp"));
    rivals
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let (conditions, rivals) = (Condition::all(), rivals());
    let setups: Vec<Setup> =
        conditions.iter().flat_map(|condition| rivals.iter().map(|rival| condition.setup(rival))).collect();
    let mut runs = bench.run(&setups, |_, run| digest(run))?.into_iter();
    let results: Vec<Results> = conditions
        .iter()
        .map(|condition| {
            let of = runs.by_ref().take(rivals.len()).map(Summary::of).collect();
            Results { condition: *condition, of }
        })
        .collect();
    let runs = results[0].of[0].runs.len();
    Ok(Findings {
        setup: vec![
            format!(
                "100 Mbit/s; DCTCP and chirping over step marking at 1 ms, CUBIC over drop-tail of 1 BDP. {runs} runs of \
                 each condition; every contestant meets the same flows. Completion times are means over all flows of all \
                 runs, until the last byte has arrived; queueing delay is that of these flows' packets, its percentile \
                 the median over the runs."
            ),
            "The text of the paper says 15 ms, the caption 50 ms: both are run. Its distribution of sizes has no one \
             meaning: truncated to the range (mean 70.7 kB) and clamped to it with scale 900 B (mean 133 kB) are both run. \
             It does not print the intensities: ours are offered loads of 10, 20, 40 and 80 %."
                .to_owned(),
        ],
        claims: claims::claims(&rivals, &results),
        beside: claims::beside(&results),
        tables: RTTS_MS.map(|rtt_ms| table(&rivals, &results, rtt_ms)).into(),
        drawings: figures::drawings(&rivals, &results),
        scenarios: vec![&FLOW_COMPLETION],
        ..Findings::default()
    })
}

/// The numbers of one RTT.
fn table(rivals: &[Rival], results: &[Results], rtt_ms: u32) -> Table {
    let cell = |summary: &Summary| {
        let spread = |values: Vec<f64>| format!("{} to {}", short(least(&values)), short(most(&values)));
        let means = summary.runs.iter().map(|run| mean(&run.completions.iter().map(|(_, t)| *t).collect::<Vec<_>>()));
        let p99s = summary.runs.iter().map(|run| run.p99_ms);
        (
            format!("{} / {}", short(summary.mean_ms), short(summary.p99_ms)),
            format!("{}{} / {}", spread(means.collect()), summary.caveat(), spread(p99s.collect())),
        )
    };
    let rows = results.iter().filter(|one| one.condition.rtt_ms == rtt_ms);
    Table::new(
        format!("RTT {rtt_ms} ms: mean completion time / 99th percentile of queueing delay, ms"),
        "Over all runs; below it from the run with the least to the one with the most.",
        rivals.iter().map(|rival| &rival.name),
        rows.map(|one| (one.condition.short_name(), one.of.iter().map(cell).collect())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_make_the_loads() {
        let condition = Condition { reading: Reading::Truncated, rtt_ms: 15, load: 40, greedy: false };
        assert!((condition.gap_ms() - 14.14).abs() < 0.01);
        let condition = Condition { reading: Reading::Clamped, load: 80, ..condition };
        assert!((condition.gap_ms() - 13.33).abs() < 0.01);
        assert_eq!(Condition::all().len(), 32);
    }

    #[test]
    fn unfinished_flows_are_told() {
        let run = |count| Run { completions: vec![(1000, 2.0); count], p99_ms: 1.0, quantiles_ms: vec![] };
        assert_eq!(Summary::of(vec![run(1000), run(1000)]).caveat(), "");
        let summary = Summary::of(vec![run(1000), run(990)]);
        assert_eq!(summary.caveat(), " (10 of 2000 flows did not complete)");
        assert_eq!((summary.mean_ms, summary.long_ms), (2.0, 0.0));
    }
}
