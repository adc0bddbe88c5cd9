//! What is kept of a run, and how claims and tables are made of it.

use crate::reproduce::prelude::*;
use paceline_cc::Distribution;
use paceline_experiment::Series;
use paceline_lab::stats::Median;

/// A run; of several flows by flow.
pub(super) struct Run {
    /// Mbit/s of payload over the time for which each flow ran.
    pub(super) mbps: Vec<f64>,
    /// Of the bytes that the bottleneck could carry, the share that arrived.
    pub(super) used: f64,
    /// 50th, 95th and 99th percentile and the least of the first flow's RTT, ms.
    pub(super) rtt: [f64; 4],
    /// Packets of data that were dropped, of all flows, in per cent.
    pub(super) dropped: f64,
    /// Packets of the first flow's receiving end for one of data: requests or acknowledgements.
    pub(super) upward: f64,
    pub(super) series: Series,
    /// It shows the path: the emulator kept time.
    trusted: bool,
}

impl Run {
    pub(super) fn of(run: &Finished<'_>) -> Self {
        let flows = &run.outcome.flows;

        let capacity = run.outcome.hops.iter().filter_map(|hop| hop.capacity_bytes).min();
        let arrived: u64 = flows.iter().map(|flow| flow.wire_bytes_arrived).sum();
        let quantile = |of: &Distribution, q: f64| of.quantile_ms(q).unwrap_or(f64::NAN);
        let (first, of) = (run.flow(0), &run.flow(0).rtt);
        let (entered, dropped) =
            flows.iter().fold((0, 0), |sum, flow| (sum.0 + flow.packets_entered, sum.1 + flow.packets_dropped));
        Self {
            mbps: run.mbps(|flow| flow.bytes_ready),
            used: capacity.map_or(f64::NAN, |bytes| arrived as f64 / bytes as f64),
            rtt: [quantile(of, 0.5), quantile(of, 0.95), quantile(of, 0.99), of.min_ms().unwrap_or(f64::NAN)],
            dropped: 100.0 * dropped as f64 / entered.max(1) as f64,
            upward: first.ack_split.count as f64 / first.packets_arrived.max(1) as f64,
            series: run.series().clone(),
            trusted: run.trusted,
        }
    }

    pub(super) fn all(&self) -> f64 {
        self.mbps.iter().sum()
    }

    /// Each flow's mean Mbit/s on the wire in a span of seconds, and the sum over the capacity.
    pub(super) fn between(&self, from: f64, to: f64) -> (Vec<f64>, f64) {
        let step = self.series.step.as_secs_f64();
        let span = |values: &[f64]| -> f64 {
            let cut = |at: f64| ((at / step).round() as usize).min(values.len());
            let part = &values[cut(from)..cut(to)];
            part.iter().sum::<f64>() / part.len().max(1) as f64
        };
        let rates: Vec<f64> = self.series.flows.iter().map(|flow| span(&flow.throughput_mbps)).collect();
        let share = rates.iter().sum::<f64>() / span(&self.series.capacity_mbps).max(f64::MIN_POSITIVE);
        (rates, share)
    }
}

/// Setups and their runs.
pub(super) struct Ran<'a> {
    pub(super) setups: &'a [Setup],
    pub(super) runs: Vec<Vec<Run>>,
}

/// Real against simulated (goals of ours): shares, and what delays may differ by at least, ms.
const AGREE: f64 = 0.1;
const SLACK_MS: f64 = 1.0;

impl Ran<'_> {
    /// Runs setups, and tells what `find` finds in them; in real time beside what it finds in the simulator, with how far these are apart.
    pub(super) fn conduct(
        bench: &Bench<'_>,
        setups: &[Setup],
        find: impl Fn(&Ran<'_>) -> Findings,
    ) -> Result<Findings, ReproduceError> {
        let run = |bench: &Bench<'_>| bench.run(setups, |_, run| Run::of(run));
        let ran = Ran { setups, runs: run(bench)? };
        let found = find(&ran);
        if !bench.is_real() {
            return Ok(found);
        }
        let simulated = Ran { setups, runs: bench.simulated(run)? };
        let mut found = beside(found, find(&simulated));
        ran.agree(&simulated, &mut found);
        Ok(found)
    }

    pub(super) fn median(&self, setup: usize, figure: impl Fn(&Run) -> f64) -> Median {
        over(&self.runs[setup], figure)
    }

    /// The same without its spread.
    pub(super) fn value(&self, setup: usize, figure: impl Fn(&Run) -> f64) -> f64 {
        self.median(setup, figure).median
    }

    pub(super) fn cell(&self, setup: usize, name: impl Into<String>, mut ours: String, holds: bool) -> Cell {
        if self.runs[setup].iter().any(|run| !run.trusted) {
            ours.push_str(" (the emulator was late: not to be trusted)");
        }
        self.setups[setup].cell(name, ours, holds)
    }

    /// How far these, of real time, are from the simulator's.
    fn agree(&self, simulated: &Self, findings: &mut Findings) {
        let mut say = |text: &str, unit: &str, figure: fn(&Run) -> f64, slack: f64| {
            let cell = |setup: usize| {
                let (real, simulated) = (self.value(setup, figure), simulated.value(setup, figure));
                let apart = (real - simulated).abs();
                let ours = format!("{} {unit}; simulated {} {unit}", short(real), short(simulated));
                self.cell(setup, self.setups[setup].name(), ours, apart <= AGREE * simulated || apart < slack)
            };
            findings.claims.push(claim(text, super::OURS, "", (0..self.setups.len()).map(cell).collect()));
        };
        say("throughput in real time is that of the simulator, within 10 % (goal of ours)", "Mbit/s", Run::all, 0.0);
        say(
            "the 95th percentile of the RTT in real time is that of the simulator, within 10 % or 1 ms (goal of ours)",
            "ms",
            |run| run.rtt[1],
            SLACK_MS,
        );
        let row = |setup: usize| {
            let both = |(_, figure): Figure| [simulated, self].map(|ran| short(ran.value(setup, figure)));
            let values = FIGURES.into_iter().take(3).flat_map(both);
            (self.setups[setup].name(), values.map(|value| (value, String::new())).collect())
        };
        let columns = ["Mbit/s", "real", "RTT p50, ms", "real", "RTT p95, ms", "real"];
        let rows = (0..self.setups.len()).map(row);
        findings.tables.push(Table::new("Simulated and real", "Medians over runs.", columns, rows));
    }
}

/// What was found in real time, with what the same finds in the simulator in each cell, and its drawings.
pub(super) fn beside(real: Findings, simulated: Findings) -> Findings {
    let both = |(mut claim, other): (Claim, Claim)| {
        let mut cells = std::mem::take(&mut claim.cells);
        for (cell, other) in cells.iter_mut().zip(other.cells) {
            cell.ours.push_str(&format!("; simulated {}", other.ours));
        }
        claim.got_worst(cells)
    };
    let claims = real.claims.into_iter().zip(simulated.claims).map(both).collect();
    let drawn = simulated.drawings.into_iter();
    let drawn = drawn.map(|drawing| Drawing { title: format!("{}, simulated", drawing.title), ..drawing });
    Findings { claims, drawings: real.drawings.into_iter().chain(drawn).collect(), ..real }
}

/// A claim of these cells, which says what the first that misses found, or the last.
pub(super) fn claim(text: &str, who: &str, paper: &str, cells: Vec<Cell>) -> Claim {
    Claim::new(text, who, paper).got_worst(cells)
}

/// A cell of an experiment in virtual time alone.
pub(super) fn cell(figure: &str, setup: impl Into<String>, ours: String, holds: bool) -> Cell {
    Cell::new(setup, ours, holds, format!("paceline reproduce icn --figure {figure}"))
}

/// Seeds of an experiment in virtual time: as many as are asked for, or `usual`.
pub(super) fn seeds(bench: &Bench<'_>, usual: u32) -> impl Iterator<Item = u64> + use<> {
    let (first, runs) = (bench.settings.seed.unwrap_or(1), bench.settings.runs.unwrap_or(usual));
    (0..u64::from(runs.max(1))).map(move |run| first.wrapping_add(run.wrapping_mul(0x9e37_79b9)))
}

/// Throughput, RTT, drops and packets upwards of setups in rows.
pub(super) fn table(ran: &Ran, title: &str, rows: impl Iterator<Item = (usize, String)>) -> Table {
    let row = |(setup, name): (usize, String)| {
        let value = |(_, figure): Figure| {
            let median = ran.median(setup, figure);
            (short(median.median), format!("{}-{}", short(median.q25), short(median.q75)))
        };
        (name, FIGURES.map(value).into())
    };
    let note = "Medians over runs, below them quartiles. Upwards: requests, or acknowledgements, for a packet of data.";
    Table::new(title, note, FIGURES.map(|(name, _)| name), rows.map(row))
}

/// A figure of a run, with its name and unit.
type Figure = (&'static str, fn(&Run) -> f64);

const FIGURES: [Figure; 6] = [
    ("Mbit/s", Run::all),
    ("RTT p50, ms", |run| run.rtt[0]),
    ("RTT p95, ms", |run| run.rtt[1]),
    ("RTT p99, ms", |run| run.rtt[2]),
    ("dropped, %", |run| run.dropped),
    ("upwards", |run| run.upward),
];

/// Rates over time, a line each.
pub(super) fn rates_over_time(title: &str, seconds: f64, mbps: f64, lines: Vec<PlotLine>, note: String) -> Drawing {
    let row = ChartRow::single("Mbit/s", PlotAxis::linear(mbps), 220.0, lines);
    Drawing::new(title, &Sheet::new(title, ("time, s", PlotAxis::linear(seconds)), vec![row]), note)
}
