//! Figures 5 to 13, and our own target: does a controller above TCP do what it does native?

mod target;

use crate::reproduce::prelude::*;
use std::path::{Path, PathBuf};

use super::run::{Run, STEP, apart, close, close_ms, distance, quantiles};
use super::{CELLULAR, RAPID};
use paceline_report::chart;

pub(super) use target::conduct as all;

/// How far apart the two may be: the paper's own summary.
const PAPER: f64 = 0.10;
/// The same on the rapidly changing channel.
const PAPER_RAPID: f64 = 0.15;
const PAPER_CLAIM: &str = "10 % (15 % on the rapidly changing channel)";
/// How much of one distribution of delays may lie elsewhere than the other (our reading of "near identical").
const ELSEWHERE: f64 = 0.15;

/// Where they run.
#[derive(Clone)]
struct Link {
    name: String,
    trace: Option<PathBuf>,
    /// What the paper allows there.
    paper: f64,
    /// Key and range by which runs meet it at different places.
    begin: Option<(&'static str, String)>,
}

impl Link {
    fn setup(&self, contestant: &str) -> Setup {
        let setup = match &self.trace {
            Some(trace) => Setup::new(&CELLULAR, contestant).trace(trace),
            None => Setup::new(&RAPID, contestant),
        };
        let setup = self.begin.iter().fold(setup, |setup, (key, range)| setup.set(key, range));
        setup.sampled(STEP)
    }

    fn rapid() -> Self {
        Self { name: "rapidly changing".to_owned(), trace: None, paper: PAPER_RAPID, begin: None }
    }

    fn of(trace: &Path) -> Self {
        let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy().into_owned();
        Self { name, trace: Some(trace.to_owned()), paper: PAPER, begin: None }
    }

    /// The traces that were asked for, or those that are shipped and the rapidly changing channel.
    fn all(bench: &Bench<'_>) -> Vec<Self> {
        if !bench.settings.traces.is_empty() {
            return bench.settings.traces.iter().map(|trace| Self::of(trace)).collect();
        }
        let shipped = SHIPPED_TRACES.iter().map(|(path, _)| Self::of(Path::new(path)));
        shipped.chain([Self::rapid()]).collect()
    }

    /// Two of them.
    fn two(bench: &Bench<'_>) -> Vec<Self> {
        let mut links = Self::all(bench);
        links.truncate(2);
        links
    }
}

/// A contestant over one link.
struct Runs {
    runs: Vec<Run>,
    command: String,
}

/// A figure of a run, and its name with its unit.
type Figure = (&'static str, fn(&Run) -> f64);

/// The native contestant and those above TCP, each over every link.
struct Comparison {
    links: Vec<Link>,
    native: (String, Vec<Runs>),
    above: Vec<(String, Vec<Runs>)>,
}

impl Comparison {
    fn run(bench: &Bench<'_>, controller: &str, above: &[String], links: Vec<Link>) -> Result<Self, ReproduceError> {
        let native = format!("{controller}@udp");
        let names: Vec<&String> = std::iter::once(&native).chain(above).collect();
        let setups: Vec<Setup> = names.iter().flat_map(|name| links.iter().map(move |link| link.setup(name))).collect();
        let mut results = bench.run(&setups, |_, run| Run::of(run))?.into_iter().zip(&setups);
        let mut take = || -> Vec<Runs> {
            let of = |(runs, setup): (Vec<Run>, &Setup)| Runs { runs, command: setup.command() };
            results.by_ref().take(links.len()).map(of).collect()
        };
        let of_native = take();
        let above = above.iter().map(|name| (name.clone(), take())).collect();
        Ok(Self { native: (native, of_native), above, links })
    }

    /// A claim about a contestant above TCP, a cell a link: `judge` gets its runs, the native ones and the link.
    fn claim(
        &self,
        (name, own): &(String, Vec<Runs>),
        (figure, claim, paper): (&str, &str, &str),
        judge: impl Fn(&[Run], &[Run], &Link) -> (String, bool),
    ) -> Claim {
        let cell = |((own, native), link): ((&Runs, &Runs), &Link)| {
            let (ours, holds) = judge(&own.runs, &native.runs, link);
            Cell::new(&link.name, ours, holds, &own.command)
        };
        let cells = own.iter().zip(&self.native.1).zip(&self.links).map(cell).collect();
        Claim::new(claim, name, paper).of(figure).got_each(cells)
    }

    /// Medians of throughput and delays against the native ones.
    fn medians(&self, figure: &str, paper: &str) -> Vec<Claim> {
        type Judged = (&'static str, &'static str, &'static str, fn(&Run) -> f64, fn(f64, f64, f64) -> bool);
        const JUDGED: [Judged; 3] = [
            ("median throughput", "", "Mbit/s", |run| run.mbps, close),
            ("median of the delay", ", or 1 ms", "ms", |run| run.delay(50), close_ms),
            ("95th percentile of the delay", ", or 1 ms", "ms", |run| run.delay(95), close_ms),
        ];
        let of = |own: &(String, Vec<Runs>)| {
            JUDGED.map(|(name, or, unit, of, close)| {
                let claim = format!("{name} within {PAPER_CLAIM} of native{or}");
                self.claim(own, (figure, &claim, paper), |own, native, link| {
                    let (own, native) = (over(own, of), over(native, of));
                    let (a, b) = (own.median, native.median);
                    let text = format!("{} {unit}, native {}, {}", stated(&own), stated(&native), apart(a, b));
                    (text, close(a, b, link.paper))
                })
            })
        };
        self.above.iter().flat_map(of).collect()
    }

    /// The rate of each second, and the distributions of delays.
    fn shapes(&self, rates: &str, delays: &str, paper: &str) -> Vec<Claim> {
        let of = |own: &(String, Vec<Runs>)| {
            let claim = "the rate of a second differs from the native one's by at most 15 % of the mean (median of seconds; \
                         our reading)";
            let rate = self.claim(own, (rates, claim, paper), |own, native, _| {
                let seconds = |runs: &[Run]| runs.iter().flat_map(Run::each_second).collect::<Vec<_>>();
                let (own, native) = (seconds(own), seconds(native));
                let mean = native.iter().sum::<f64>() / native.len().max(1) as f64;
                let apart: Vec<f64> = own.iter().zip(&native).map(|(a, b)| (a - b).abs()).collect();
                let median = median(&apart);
                (format!("{:.1} %", 100.0 * median / mean.max(1e-9)), median <= 0.15 * mean)
            });
            let claim = "at most 15 % of packets have delays that are elsewhere than the native ones (Kolmogorov's distance \
                         of the distributions; our reading)";
            let delay = self.claim(own, (delays, claim, paper), |own, native, _| {
                let apart = distance(&quantiles(own), &quantiles(native));
                (format!("{:.1} %", 100.0 * apart), apart <= ELSEWHERE)
            });
            [rate, delay]
        };
        self.above.iter().flat_map(of).collect()
    }

    /// Every contestant, native first, with its colour.
    fn everyone(&self) -> impl Iterator<Item = (Class, &(String, Vec<Runs>))> {
        let all = || std::iter::once(&self.native).chain(&self.above);
        palette::classes(all().map(|(name, _)| name.as_str())).into_iter().map(Class::from).zip(all())
    }

    fn legend(&self) -> Vec<(Class, String)> {
        self.everyone().map(|(class, (name, _))| (class, name.clone())).collect()
    }

    /// Panels side by side, one a link, with the lines that `line` makes of a contestant's runs there.
    fn panels(&self, line: impl Fn(Class, &[Run]) -> Vec<PlotLine>) -> Vec<Panel> {
        let lines = |at: usize| self.everyone().flat_map(|(class, (_, runs))| line(class, &runs[at].runs)).collect();
        self.links.iter().enumerate().map(|(at, link)| Panel::new(&link.name, "", lines(at))).collect()
    }

    /// The largest of everybody's medians of a percentile of the delay, and 20 ms or more.
    fn longest(&self, percent: usize) -> f64 {
        let all = self.everyone().flat_map(|(_, (_, runs))| runs);
        all.map(|runs| typical(&runs.runs, |run| run.delay(percent))).fold(20.0, f64::max)
    }

    fn instants(&self) -> Drawing {
        let first = |points: &dyn Fn(&Run) -> curves::Points| {
            self.panels(|class, runs| runs.first().map(|run| PlotLine::new(class, points(run))).into_iter().collect())
        };
        let rates = first(&|run| curves::rate(&run.series, run.flow(), 0.5));
        let queues = first(&|run| curves::queue(&run.series, 0.5));
        let end = end(rates.iter().flat_map(|panel| &panel.lines), 1.0);
        let rows = vec![
            ChartRow { y_title: "Mbit/s", y: PlotAxis::linear(highest(&rates)), height: 130.0, panels: rates },
            ChartRow { y_title: "queue, ms", y: PlotAxis::linear(highest(&queues)), height: 130.0, panels: queues },
        ];
        let label = "Throughput and queueing delay over time, native and above TCP";
        let sheet = Sheet::new(label, ("s", PlotAxis::linear(end)), rows).legend(self.legend());
        let note = "First run. Throughput: means over 500 ms. Queue: largest delay of a packet in each 500 ms.";
        Drawing::new("Over time", &sheet, note)
    }

    fn distributions(&self) -> Drawing {
        let panels = self.panels(|class, runs| {
            let points = quantiles(runs).into_iter().zip(0..);
            vec![PlotLine::new(class, points.map(|(ms, percent)| (ms, Some(f64::from(percent)))))]
        });
        let row = ChartRow { y_title: "% of packets", y: PlotAxis::linear(100.0), height: 150.0, panels };
        let x = ("one-way delay, ms", PlotAxis::linear(self.longest(98)));
        let sheet = Sheet::new("Distribution of one-way delays, native and above TCP", x, vec![row]);
        let note =
            "Share of packets below each delay, up to the 98th percentile; the paper draws densities of the same.";
        Drawing::new("Distributions of delay", &sheet.legend(self.legend()), note)
    }

    fn populations(&self) -> Drawing {
        let panels = self.panels(|class, runs| {
            let rate = over(runs, |run| run.mbps);
            let seconds: Vec<f64> = runs.iter().flat_map(Run::each_second).collect();
            let rates = paceline_lab::stats::Median::of(&seconds).unwrap_or(rate);
            let delay = |percent| typical(runs, |run| run.delay(percent));
            let line = |points: [(f64, f64); 3]| PlotLine::dotted(class.clone(), points.map(|(x, y)| (x, Some(y))));
            let (x, y) = (delay(50), rates.median);
            vec![line([(delay(25), y), (x, y), (delay(75), y)]), line([(x, rates.q25), (x, y), (x, rates.q75)])]
        });
        let row = ChartRow { y_title: "Mbit/s", y: PlotAxis::linear(highest(&panels)), height: 150.0, panels };
        let x = ("one-way delay, ms", PlotAxis::linear(1.2 * self.longest(75)));
        let sheet = Sheet::new("Medians and quartiles of throughput and delay, native and above TCP", x, vec![row]);
        let note = "A cross at the medians, as long as from the 25th to the 75th percentile: of packets' delays, and of the rates of \
                    seconds.";
        Drawing::new("Population", &sheet.legend(self.legend()), note)
    }

    fn table(&self) -> Table {
        let figures: [Figure; 4] = [
            ("Mbit/s", |run| run.mbps),
            ("median delay, ms", |run| run.delay(50)),
            ("95 % delay, ms", |run| run.delay(95)),
            ("TCP the limit, %", |run| 100.0 * run.limited),
        ];
        let mut rows = Vec::new();
        for (at, link) in self.links.iter().enumerate() {
            for (_, (name, runs)) in self.everyone() {
                let cells = figures.iter().map(|(_, figure)| {
                    let median = over(&runs[at].runs, figure);
                    let spread = median.interval.map(|(low, high)| format!("{} to {}", short(low), short(high)));
                    (short(median.median), spread.unwrap_or_default())
                });
                rows.push((format!("{}: {name}", link.name), cells.collect()));
            }
        }
        let note = "With six runs or more: 95 % interval of the median.";
        Table::new("Medians over runs", note, figures.map(|(name, _)| name), rows)
    }

    fn findings(
        &self,
        bench: &Bench<'_>,
        claims: Vec<Claim>,
        drawings: Vec<Drawing>,
    ) -> Result<Findings, ReproduceError> {
        let runs = self.native.1.first().map_or(0, |runs| runs.runs.len());
        let said = format!(
            "{} and {}, alone on each link with the same seeds: {} of each, {}.",
            self.native.0,
            self.above.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
            counted(runs, "run"),
            where_it_ran(bench),
        );
        let setup = std::iter::once(said).chain(target::why(bench, self)?).collect();
        Ok(Findings {
            setup,
            claims,
            tables: vec![self.table()],
            drawings,
            scenarios: vec![&CELLULAR, &RAPID],
            ..Findings::default()
        })
    }
}

/// As sentences say it.
pub(super) fn where_it_ran(bench: &Bench<'_>) -> &'static str {
    if bench.is_real() { "real sockets in real time" } else { "in the simulator" }
}

fn highest(panels: &[Panel]) -> f64 {
    chart::highest(panels.iter().flat_map(|panel| &panel.lines), 1.0) * 1.1
}

/// Figures 5 to 7, and 9 to 11: over time, distributions, populations.
fn trio(bench: &Bench<'_>, controller: &str, figures: [&str; 3], paper: &str) -> Result<Findings, ReproduceError> {
    let runs = Comparison::run(bench, controller, &[format!("{controller}@alcc")], Link::all(bench))?;
    let mut claims = runs.shapes(figures[0], figures[1], paper);
    claims.extend(runs.medians(figures[2], paper));
    let drawings = vec![runs.instants(), runs.distributions(), runs.populations()];
    runs.findings(bench, claims, drawings)
}

/// Figures 5 to 7.
pub(super) fn verus(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let paper = "near equal; the delay is at most 15 % higher, on the rapidly changing channel";
    trio(bench, "verus", ["Fig 5", "Fig 6", "Fig 7"], paper)
}

/// Figures 9 to 11.
pub(super) fn copa(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let paper = "near identical; small differences on the highway traces";
    trio(bench, "copa", ["Fig 9", "Fig 10", "Fig 11"], paper)
}

/// Figure 8.
pub(super) fn sprout(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let paper = "they match; slightly higher delay at the 25th and 75th percentile, median close";
    let links = if bench.settings.traces.is_empty() { vec![Link::rapid()] } else { Link::all(bench) };
    let runs = Comparison::run(bench, "sprout", &["sprout@alcc".to_owned()], links)?;
    let mut claims = runs.shapes("Fig 8", "Fig 8", paper);
    claims.extend(runs.medians("Fig 8", paper));
    let drawings = vec![runs.instants(), runs.distributions()];
    runs.findings(bench, claims, drawings)
}

/// TCPs below that both the paper and this machine have, BBR, and the open window, which limits nothing.
fn lowers(bench: &Bench<'_>) -> (Vec<&'static str>, Option<String>) {
    let has = |lower: &&str| is_there(bench, lower);
    let all = ["cubic", "bic", "reno", "bbr", "open"];
    let (there, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(has);
    let missing = (!missing.is_empty()).then(|| format!("Not here: {}.", missing.join(", ")));
    (there, missing)
}

/// Whether this TCP can run below, here.
pub(super) fn is_there(bench: &Bench<'_>, lower: &str) -> bool {
    let known = format!("copa@alcc/{lower}").parse::<paceline_lab::contestant::Contestant>().is_ok();
    let name = if lower == "open" { paceline_cc::datapath::OPEN_WINDOW } else { lower };
    known && (!bench.is_real() || kernel_has(name))
}

#[cfg(target_os = "linux")]
fn kernel_has(name: &str) -> bool {
    paceline_linux::tcp::controllers().iter().any(|known| known == name)
}

#[cfg(not(target_os = "linux"))]
fn kernel_has(_: &str) -> bool {
    false
}

/// Figures 12 and 13.
pub(super) fn above_several(bench: &Bench<'_>, controller: &str, figure: &str) -> Result<Findings, ReproduceError> {
    let (lowers, missing) = lowers(bench);
    let above: Vec<String> = lowers.iter().map(|lower| format!("{controller}@alcc/{lower}")).collect();
    let runs = Comparison::run(bench, controller, &above, Link::two(bench))?;
    let paper = "throughput and delay are independent of the TCP below (CUBIC, BIC, Reno)";
    let claims = runs.medians(figure, paper);
    let drawings = vec![runs.populations(), runs.distributions()];
    let mut findings = runs.findings(bench, claims, drawings)?;
    findings.setup.extend(missing);
    Ok(findings)
}
