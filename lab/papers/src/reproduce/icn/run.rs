//! What is kept of a run, and how claims and tables are made of it.

use paceline_cc::Distribution;
use paceline_experiment::Series;
use paceline_lab::stats::Median;
use paceline_report::chart::{ChartRow, Panel, PlotAxis, PlotLine, Sheet};
use paceline_report::svg::short;

use super::super::bench::{Bench, Finished, Setup};
use super::super::{Cell, Claim, Drawing, Findings, PaperSettings, ReproduceError, Table};
use paceline_lab::run::World;

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
        let rate = |flow: &paceline_experiment::FlowOutcome| {
            let seconds = flow.end.since(flow.start).as_secs_f64();
            if seconds > 0.0 { flow.bytes_ready as f64 * 8e-6 / seconds } else { 0.0 }
        };
        let capacity = run.outcome.hops.iter().filter_map(|hop| hop.capacity_bytes).min();
        let arrived: u64 = flows.iter().map(|flow| flow.wire_bytes_arrived).sum();
        let quantile = |of: &Distribution, q: f64| of.quantile_ms(q).unwrap_or(f64::NAN);
        let (first, of) = (run.flow(0), &run.flow(0).rtt);
        let (entered, dropped) =
            flows.iter().fold((0, 0), |sum, flow| (sum.0 + flow.packets_entered, sum.1 + flow.packets_dropped));
        Self {
            mbps: flows.iter().map(rate).collect(),
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
pub(super) struct Ran {
    pub(super) setups: Vec<Setup>,
    pub(super) runs: Vec<Vec<Run>>,
    /// The same in the simulator, where these are of real time.
    simulated: Option<Vec<Vec<Run>>>,
}

/// Real against simulated (goal of ours).
const AGREE: f64 = 0.1;

impl Ran {
    pub(super) fn conduct(bench: &Bench<'_>, setups: Vec<Setup>) -> Result<Self, ReproduceError> {
        let runs = bench.run(&setups, |_, run| Run::of(run))?;
        let simulated = if bench.is_real() {
            let settings = PaperSettings { world: World::Sim, threads: 0, ..bench.settings.clone() };
            let bench = Bench { settings: &settings, ..*bench };
            Some(bench.run(&setups, |_, run| Run::of(run))?)
        } else {
            None
        };
        Ok(Self { setups, runs, simulated })
    }

    pub(super) fn median(&self, setup: usize, figure: impl Fn(&Run) -> f64) -> Median {
        let values: Vec<f64> = self.runs[setup].iter().map(figure).collect();
        Median::of(&values).unwrap_or(Median { median: f64::NAN, q25: f64::NAN, q75: f64::NAN, interval: None })
    }

    /// The same without its spread.
    pub(super) fn value(&self, setup: usize, figure: impl Fn(&Run) -> f64) -> f64 {
        self.median(setup, figure).median
    }

    pub(super) fn cell(&self, setup: usize, name: impl Into<String>, mut ours: String, holds: bool) -> Cell {
        if self.runs[setup].iter().any(|run| !run.trusted) {
            ours.push_str(" (the emulator was late: not to be trusted)");
        }
        Cell { setup: name.into(), ours, holds, command: self.setups[setup].command() }
    }
}

impl Ran {
    /// What was found; of real time also how far it is from the simulator.
    pub(super) fn found(&self, mut findings: Findings) -> Findings {
        let Some(simulated) = &self.simulated else { return findings };
        let of = |runs: &[Run], figure: &dyn Fn(&Run) -> f64| typical(runs, figure);
        let cell = |setup: usize| {
            let (real, simulated) = (of(&self.runs[setup], &Run::all), of(&simulated[setup], &Run::all));
            let ours = format!("{} Mbit/s, simulated {}", short(real), short(simulated));
            self.cell(setup, self.setups[setup].name(), ours, (real / simulated - 1.0).abs() <= AGREE)
        };
        let text = "throughput in real time is that of the simulator, within 10 % (goal of ours)";
        findings.claims.push(claim(text, super::OURS, "", (0..self.setups.len()).map(cell).collect()));
        let row = |setup: usize| {
            let figures: [&dyn Fn(&Run) -> f64; 3] = [&Run::all, &|run| run.rtt[0], &|run| run.rtt[1]];
            let both = |figure: &&dyn Fn(&Run) -> f64| {
                [&simulated[setup], &self.runs[setup]].map(|runs| (short(of(runs, figure)), String::new()))
            };
            (self.setups[setup].name(), figures.iter().flat_map(both).collect())
        };
        let columns = ["Mbit/s", "real", "RTT p50, ms", "real", "RTT p95, ms", "real"].map(str::to_owned).to_vec();
        findings.tables.push(Table {
            title: "Simulated and real".to_owned(),
            note: "Medians over runs.".to_owned(),
            columns,
            rows: (0..self.setups.len()).map(row).collect(),
        });
        findings
    }
}

/// Instead of an experiment in virtual time where real time is asked for.
pub(super) fn virtual_only(bench: &Bench<'_>) -> Option<Findings> {
    let setup = "This runs in virtual time alone; leave --real out.".to_owned();
    bench.is_real().then(|| Findings { setup: vec![setup], ..Findings::default() })
}

/// A claim of these cells, which says what the first that misses found, or the last.
pub(super) fn claim(text: &str, who: &str, paper: &str, cells: Vec<Cell>) -> Claim {
    let telling = cells.iter().find(|cell| !cell.holds).or(cells.last());
    let ours = telling.map_or_else(String::new, |cell| format!("{}: {}", cell.setup, cell.ours));
    Claim::new(text, who, paper).got(ours, cells)
}

/// The command that runs an experiment in virtual time alone.
pub(super) fn alone(figure: &str) -> String {
    format!("paceline reproduce icn --figure {figure}")
}

/// Seeds of an experiment in virtual time: as many as are asked for, or `usual`.
pub(super) fn seeds(bench: &Bench<'_>, usual: u32) -> impl Iterator<Item = u64> + use<> {
    let (first, runs) = (bench.settings.seed.unwrap_or(1), bench.settings.runs.unwrap_or(usual));
    (0..u64::from(runs.max(1))).map(move |run| first.wrapping_add(run.wrapping_mul(0x9e37_79b9)))
}

/// The median of a figure over runs.
pub(super) fn typical<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let values: Vec<f64> = runs.iter().map(figure).collect();
    Median::of(&values).map_or(f64::NAN, |median| median.median)
}

/// Throughput, RTT, drops and packets upwards of setups in rows.
pub(super) fn table(ran: &Ran, title: &str, rows: impl Iterator<Item = (usize, String)>) -> Table {
    let row = |(setup, name): (usize, String)| {
        let of = |figure: &dyn Fn(&Run) -> f64| {
            let median = ran.median(setup, figure);
            (short(median.median), format!("{}-{}", short(median.q25), short(median.q75)))
        };
        let figures = vec![
            of(&Run::all),
            of(&|run| run.rtt[0]),
            of(&|run| run.rtt[1]),
            of(&|run| run.rtt[2]),
            of(&|run| run.dropped),
            of(&|run| run.upward),
        ];
        (name, figures)
    };
    Table {
        title: title.to_owned(),
        note: "Medians over runs, below them quartiles. Upwards: requests, or acknowledgements, for a packet of data."
            .to_owned(),
        columns: ["Mbit/s", "RTT p50, ms", "RTT p95, ms", "RTT p99, ms", "dropped, %", "upwards"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.map(row).collect(),
    }
}

/// Rates over time, a line each.
pub(super) fn rates_over_time(title: &str, seconds: f64, mbps: f64, lines: Vec<PlotLine>, note: String) -> Drawing {
    let sheet = Sheet {
        label: title.to_owned(),
        x_title: "time, s",
        x: PlotAxis::linear(seconds),
        rows: vec![ChartRow {
            y_title: "Mbit/s",
            y: PlotAxis::linear(mbps),
            height: 220.0,
            panels: vec![Panel { lines, ..Panel::default() }],
        }],
        legend: Vec::new(),
    };
    Drawing { title: title.to_owned(), svg: sheet.draw(), note }
}
