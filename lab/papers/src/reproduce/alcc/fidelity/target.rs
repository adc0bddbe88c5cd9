//! Our own target: over every link, Copa, Verus and Sprout above TCP within 5 % of native, and why not where they are
//! not.
//!
//! Native and above TCP meet the same seeds, and so the same place in the trace; what counts is the difference within
//! such a pair.

mod apart;

use crate::reproduce::prelude::*;
use std::fmt::Write;

use super::super::super::PaperSettings;
use super::super::super::bench;
use super::super::run::Run;
use super::{Comparison, Link, Runs, is_there, where_it_ran};
use paceline_lab::run::World;

use apart::{Apart, FIGURES, Figure, JUDGED, Judgement, PAPER, TARGET, Unit, Verdict};

const CONTROLLERS: [&str; 3] = ["copa", "verus", "sprout"];
/// Above the TCP that limits nothing, where this machine has it: the one controller that CUBIC's own window is known to bound.
const OPEN: &str = "verus@alcc/open";

/// A contestant over a link.
struct Row<'a> {
    link: &'a Link,
    controller: &'a str,
    contestant: &'a str,
    runs: &'a Runs,
    /// By [`FIGURES`]; nothing where nothing arrived.
    figures: Vec<Option<Apart>>,
    doubtful: usize,
    /// How far a figure may be from native, %.
    target: f64,
    /// Why figures are outside.
    causes: Vec<String>,
}

impl<'a> Row<'a> {
    fn of(
        controller: &'a str,
        contestant: &'a str,
        (runs, native): (&'a Runs, &'a Runs),
        link: &'a Link,
        target: f64,
    ) -> Self {
        let figures = FIGURES.iter().map(|figure| Apart::of(figure, &runs.runs, &native.runs)).collect();
        let doubtful = runs.runs.iter().chain(&native.runs).filter(|run| !run.trusted).count();
        Self { link, controller, contestant, runs, figures, doubtful, target, causes: Vec::new() }
    }

    fn outside(&self) -> impl Iterator<Item = (usize, &Apart)> {
        let judged = self.figures.iter().take(JUDGED).enumerate();
        judged.filter_map(|(at, apart)| Some((at, apart.as_ref()?))).filter(|(_, apart)| !apart.within(self.target))
    }

    fn judgement(&self) -> Judgement {
        let judged = || self.figures.iter().take(JUDGED).flatten();
        let within = |percent| judged().all(|apart| apart.within(percent));
        let (verdict, sure) = if within(TARGET) {
            (Verdict::Target, judged().all(|apart| apart.sure(TARGET)))
        } else if within(PAPER) {
            (Verdict::Paper, judged().all(|apart| apart.sure(PAPER)))
        } else {
            (Verdict::Outside, judged().any(|apart| apart.surely_outside(PAPER)))
        };
        Judgement { verdict, open: !sure }
    }

    /// Share of chunks for which TCP was the limit, %.
    fn limited(&self) -> f64 {
        typical(&self.runs.runs, |run| 100.0 * run.limited)
    }
}

/// Every link: the traces that were asked for, the shipped ones, and the rapidly changing channel. Each run begins
/// elsewhere in its trace.
fn links(bench: &Bench<'_>) -> Result<Vec<Link>, ReproduceError> {
    let shipped = SHIPPED_TRACES.iter().map(|(path, _)| std::path::PathBuf::from(path));
    let files = bench.settings.traces.iter().cloned().chain(shipped);
    let mut links = Vec::new();
    for file in files {
        let lap = bench::read(&file)?.lap().as_secs_f64();
        links.push(Link { begin: Some(("down.trace_start", format!("0s..{lap}s"))), ..Link::of(&file) });
    }
    // It has no lap: runs meet its steps at other times of theirs.
    links.push(Link { begin: Some(("flows.0.start", "0s..5s".to_owned())), ..Link::rapid() });
    Ok(links)
}

pub(in super::super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let links = links(bench)?;
    let open = is_there(bench, "open");
    let names = |controller: &str| {
        let mut names = vec![format!("{controller}@udp"), format!("{controller}@alcc")];
        names.extend((open && OPEN.starts_with(controller)).then(|| OPEN.to_owned()));
        names
    };
    let everyone: Vec<String> = CONTROLLERS.iter().flat_map(|controller| names(controller)).collect();
    let setups: Vec<Setup> = links.iter().flat_map(|link| everyone.iter().map(|name| link.setup(name))).collect();
    let results = bench.run_on(&setups, |_, run| Run::of(run))?;
    // By contestant, then by link.
    let mut by_name: Vec<(String, Vec<Runs>)> = everyone.iter().map(|name| (name.clone(), Vec::new())).collect();
    for (at, (runs, setup)) in results.into_iter().zip(&setups).enumerate() {
        by_name[at % everyone.len()].1.push(Runs { runs, command: setup.command() });
    }
    let mut by_name = by_name.into_iter();
    let comparisons = CONTROLLERS.map(|controller| {
        let native = by_name.next().unwrap_or_default();
        let above = by_name.by_ref().take(names(controller).len() - 1).collect();
        (controller, Comparison { links: links.clone(), native, above })
    });
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (at, link) in links.iter().enumerate() {
        for (controller, comparison) in &comparisons {
            let native = &comparison.native.1[at];
            for (name, runs) in &comparison.above {
                rows.push(Row::of(controller, name, (&runs[at], native), link, TARGET));
            }
        }
    }
    explain(bench, &mut rows)?;
    let drawings = comparisons.iter().map(|(controller, comparison)| {
        let mut drawing = comparison.distributions();
        drawing.title = format!("{controller}: distributions of delay");
        drawing
    });
    let runs = rows.first().map_or(0, |row| row.runs.runs.len());
    Ok(Findings {
        setup: vec![format!(
            "Above TCP and native, alone on each link with the same seeds, each run from another place of the trace: {runs} runs of \
             each, {}. A difference is the median of those within pairs of runs, with its 95 % interval where there are six or more.",
            where_it_ran(bench)
        )],
        claims: claims(&rows),
        tables: vec![table(&rows)],
        drawings: drawings.collect(),
        scenarios: vec![&super::CELLULAR, &super::RAPID],
        page: Some(("fidelity.md", page(bench, &rows))),
        ..Findings::default()
    })
}

/// Why figures of a comparison are further from native than the paper allows, one line each.
pub(super) fn why(bench: &Bench<'_>, comparison: &Comparison) -> Result<Vec<String>, ReproduceError> {
    let controller = comparison.native.0.split('@').next().unwrap_or_default();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (at, link) in comparison.links.iter().enumerate() {
        let native = &comparison.native.1[at];
        for (name, runs) in &comparison.above {
            rows.push(Row::of(controller, name, (&runs[at], native), link, 100.0 * link.paper));
        }
    }
    explain(bench, &mut rows)?;
    let lines = rows.iter().flat_map(|row| row.causes.iter().map(move |cause| (row, cause)));
    Ok(lines.map(|(row, cause)| format!("{}, {}: {cause}", row.link.name, row.contestant)).collect())
}

/// A claim for each contestant and figure, a cell a link.
fn claims(rows: &[Row<'_>]) -> Vec<Claim> {
    let mut contestants: Vec<&str> = Vec::new();
    for row in rows {
        if !contestants.contains(&row.contestant) {
            contestants.push(row.contestant);
        }
    }
    let claim = |contestant: &str, at: usize, figure: &Figure| {
        let cell = |row: &Row<'_>| {
            let apart = row.figures[at].as_ref()?;
            let (own, native) = (short(apart.above.median), short(apart.native.median));
            let ours = format!("{own} {}, native {native}; within pairs of runs {}", figure.unit, apart.percent());
            Some(Cell::new(&row.link.name, ours, apart.within(TARGET), &row.runs.command))
        };
        let cells = rows.iter().filter(|row| row.contestant == contestant).filter_map(cell).collect();
        let close = if figure.unit == Unit::Delay { ", or 1 ms" } else { "" };
        let text = format!("{} within 5 % of native{close} (target of ours)", figure.name);
        Claim::new(text, contestant, "within 3 to 10 % of native").got_each(cells)
    };
    let of = |contestant: &&str| {
        FIGURES.iter().take(JUDGED).enumerate().map(|(at, figure)| claim(contestant, at, figure)).collect::<Vec<_>>()
    };
    contestants.iter().flat_map(of).collect()
}

fn table(rows: &[Row<'_>]) -> Table {
    let cell = |apart: &Option<Apart>| match apart {
        Some(apart) => (format!("{} / {}", short(apart.native.median), short(apart.above.median)), apart.percent()),
        None => ("nothing arrived".to_owned(), String::new()),
    };
    let row =
        |row: &Row<'_>| (format!("{}: {}", row.link.name, row.contestant), row.figures.iter().map(cell).collect());
    let note = "Medians over runs, below them the difference within pairs of runs, with its 95 % interval.";
    let columns = FIGURES.iter().map(|figure| format!("{}, {}", figure.name, figure.unit));
    Table::new("Native / above TCP", note, columns, rows.iter().map(row))
}

/// What the simulator can remove.
struct Without {
    /// TCP's own window.
    window: bool,
    /// Packets per acknowledgement that are left, and with them the delay of acknowledgements.
    ack_every: &'static str,
    /// How the page says it.
    stated: &'static str,
}

const WITHOUT: [Without; 3] = [
    Without { window: false, ack_every: "1", stated: "with each packet acknowledged" },
    Without { window: true, ack_every: "2", stated: "above a TCP that limits nothing" },
    Without { window: true, ack_every: "1", stated: "with both" },
];

/// Finds out why figures are outside: the same runs in the simulator, as they are, and without what makes the two differ.
fn explain(bench: &Bench<'_>, rows: &mut [Row<'_>]) -> Result<(), ReproduceError> {
    let setup = |row: &Row<'_>, name: String, every: &str| {
        row.link.setup(&name).set("flows.0.timers", "host").set("flows.0.ack_every", every)
    };
    let of = |row: &Row<'_>| {
        let native = setup(row, format!("{}@udp", row.controller), "2");
        let as_it_is = setup(row, row.contestant.to_owned(), "2");
        let without = WITHOUT.iter().map(|without| {
            let name = if without.window { format!("{}@alcc/open", row.controller) } else { row.contestant.to_owned() };
            setup(row, name, without.ack_every)
        });
        [native, as_it_is].into_iter().chain(without).collect::<Vec<_>>()
    };
    let wanted: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].outside().next().is_some()).collect();
    let setups: Vec<Setup> = wanted.iter().flat_map(|at| of(&rows[*at])).collect();
    let settings = PaperSettings { world: World::Sim, journal: None, ..bench.settings.clone() };
    let simulated = Bench { settings: &settings, ..*bench }.run(&setups, |_, run| Run::of(run))?;
    for (at, runs) in wanted.iter().zip(simulated.chunks(2 + WITHOUT.len())) {
        let row = &rows[*at];
        let causes = row.outside().map(|(figure, apart)| {
            let sure = if apart.surely_outside(row.target) { "" } else { ", which may be chance" };
            format!(
                "{} {}{sure}. {}",
                FIGURES[figure].name,
                apart.percent(),
                cause(&FIGURES[figure], apart.percent.median, runs, row.target)
            )
        });
        rows[*at].causes = causes.collect();
    }
    if !bench.is_real() {
        return Ok(());
    }
    let measured: Vec<Vec<String>> = rows.iter().map(|row| without_own_window(row, rows)).collect();
    for (row, measured) in rows.iter_mut().zip(measured) {
        row.causes.iter_mut().zip(&measured).for_each(|(cause, more)| cause.push_str(more));
    }
    Ok(())
}

/// For each figure of a row outside: what the same controller got, measured, above a TCP whose own window limits nothing.
fn without_own_window(row: &Row<'_>, rows: &[Row<'_>]) -> Vec<String> {
    let same = |other: &&Row<'_>| {
        (other.contestant, &other.link.name, other.controller) == (OPEN, &row.link.name, row.controller)
    };
    let open = rows.iter().find(same).filter(|_| row.contestant != OPEN);
    let text = |(figure, apart): (usize, &Apart)| {
        let Some(open) = open.and_then(|open| open.figures[figure].as_ref()) else { return String::new() };
        let verdict = if open.within(row.target) && open.percent.median.abs() <= 0.5 * apart.percent.median.abs() {
            "without the lower TCP's window the difference is gone"
        } else {
            "a difference is left without the lower TCP's window"
        };
        format!(" Measured above the open window {}: {verdict}.", open.percent())
    };
    row.outside().map(text).collect()
}

/// Why a figure is outside, by this many percent, from simulated runs: native, as it is, and without each of [`WITHOUT`].
fn cause(figure: &Figure, outside: f64, runs: &[Vec<Run>], target: f64) -> String {
    let [native, as_it_is, without @ ..] = runs else { return String::new() };
    let apart = |runs: &[Run]| Apart::of(figure, runs, native);
    let Some(simulated) = apart(as_it_is) else { return "In the simulator nothing arrives.".to_owned() };
    let mut text = format!("Simulated {}", simulated.percent());
    let share = simulated.percent.median / outside;
    if share < 0.0 {
        return text + ": in the other direction, so the method does not explain it.";
    }
    if share < 0.5 {
        return text + ": the method explains less than half of it.";
    }
    for (runs, Without { stated, .. }) in without.iter().zip(&WITHOUT) {
        let Some(apart) = apart(runs) else { continue };
        let _ = write!(text, ", {stated} {}", apart.percent());
        if apart.within(target) && apart.percent.median.abs() <= 0.5 * simulated.percent.median.abs() {
            return text + ": in the simulator this is the cause.";
        }
    }
    text + ": neither explains it."
}

/// The judged differences of a row, and what is not plain about its verdict.
fn cell(row: &Row<'_>, judgement: &Judgement) -> String {
    let difference = |apart: &Option<Apart>| match apart {
        Some(apart) => format!("{:+.1}", apart.percent.median),
        None => "nothing arrived".to_owned(),
    };
    let mut said: Vec<String> = row.figures.iter().take(JUDGED).map(difference).collect();
    match judgement {
        Judgement { verdict: Verdict::Target, open: false } => {}
        Judgement { verdict: Verdict::Target, open: true } => said.push("open".to_owned()),
        _ => said.push(judgement.to_string()),
    }
    if row.doubtful > 0 {
        said.push(format!("{} doubtful runs", row.doubtful));
    }
    said.join(", ")
}

/// The page in Markdown.
fn page(bench: &Bench<'_>, rows: &[Row<'_>]) -> String {
    let settings = bench.settings;
    let base = |path: &std::path::PathBuf| std::path::PathBuf::from(path.file_name().unwrap_or_default());
    let named = PaperSettings { traces: settings.traces.iter().map(base).collect(), ..settings.clone() };
    let world = if settings.world.is_real() { "" } else { " --sim" };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = settings.threads.max(1);
    let runs: usize = rows.iter().map(|row| row.runs.runs.len()).max().unwrap_or(0);
    let doubtful: usize = rows.iter().map(|row| row.doubtful).sum();
    let limited = rows.iter().map(Row::limited).fold(0.0, f64::max);
    let mut page = format!(
        "# Controllers above TCP beside native ones\n\n\
         Generated by `paceline reproduce alcc --figure fidelity{world}{}`; do not edit. The report that it writes has every figure and interval. How it is \
         measured:\n[reproduce.md](../guide/reproduce.md#alcc); how above TCP works: [alcc.md](../design/alcc.md). Traces that are given are not \
         part of the project.\n\n\
         Each controller ran native (`@udp`) and above TCP (`@alcc`; CUBIC below, Reno below Verus), alone on each link, {}: {runs} runs\n\
         of each, each from another place of the trace, 10 ms each way, 2 MB of buffer. Figures are medians of the differences within \
         pairs of runs in %:\nthroughput, median and 95th percentile of the delay. Within 5 % is our target, 3 to 10 % the paper's figure; delays that \
         differ by at most 1 ms agree.\nA comparison is \"open\" where the 95 % interval of a difference reaches over the border. TCP was the limit for at most {limited:.1} % of the chunks, in the median.\n\n\
         {cores} processors, load average {load} at the end; {threads} runs at once. The emulator came late too often, even when repeated, in \
         {doubtful} of them.\n\n",
        named.again(),
        where_it_ran(bench),
    );
    let judgements: Vec<Judgement> = rows.iter().map(Row::judgement).collect();
    let count = |verdict: Verdict| judgements.iter().filter(|judgement| judgement.verdict == verdict).count();
    let _ = writeln!(
        page,
        "Of {} comparisons {} are within 5 %, {} more within 10 %, {} outside; {} are open.\n",
        rows.len(),
        count(Verdict::Target),
        count(Verdict::Paper),
        count(Verdict::Outside),
        judgements.iter().filter(|judgement| judgement.open).count(),
    );
    let judged: Vec<(&Row<'_>, &Judgement)> = rows.iter().zip(&judgements).collect();
    for (at, link) in judged.chunk_by(|(one, _), (next, _)| one.link.name == next.link.name).enumerate() {
        if at == 0 {
            let titles: String = link.iter().map(|(row, _)| format!(" {} |", row.contestant)).collect();
            let _ = write!(page, "| link |{titles}\n|---|{}\n", "---|".repeat(link.len()));
        }
        let cells: String = link.iter().map(|(row, judgement)| format!(" {} |", cell(row, judgement))).collect();
        let _ = writeln!(page, "| {} |{cells}", link[0].0.link.name);
    }
    if rows.iter().any(|row| !row.causes.is_empty()) {
        let _ = write!(
            page,
            "\n## Why\n\nFor each figure outside 5 %: the difference, and what the simulator says of the same pairs, as they are, with each packet \
             acknowledged,\nand above a TCP that limits nothing.\n\n"
        );
    }
    for row in rows {
        for cause in &row.causes {
            let _ = writeln!(page, "- {}, {}: {cause}", row.link.name, row.contestant);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn run(mbps: f64, ms: f64) -> Run {
        Run {
            mbps,
            delays: vec![ms; 101],
            limited: 0.0,
            cpu: None,
            trusted: true,
            later: ms,
            series: paceline_experiment::Series::default(),
        }
    }

    #[test]
    fn the_cause_is_what_takes_the_difference_away() {
        let with = |ms: f64| vec![run(8.0, ms), run(8.0, ms)];
        let stated = |as_it_is, each, open, both| {
            let native = with(100.0);
            cause(&FIGURES[2], 50.0, &[native, with(as_it_is), with(each), with(open), with(both)], TARGET)
        };
        assert!(stated(101.0, 1.0, 1.0, 1.0).ends_with("the method explains less than half of it."));
        let opposite = cause(&FIGURES[2], -20.0, &[with(100.0), with(120.0), with(100.0)], TARGET);
        assert_eq!(opposite, "Simulated +20.0 %: in the other direction, so the method does not explain it.");
        let most = stated(104.0, 100.5, 1.0, 1.0);
        let most_of_little = cause(&FIGURES[2], 6.0, &[with(100.0), with(104.0), with(100.5)], TARGET);
        assert!(
            most.ends_with("less than half of it.")
                && most_of_little.ends_with("+0.5 %: in the simulator this is the cause."),
            "{most_of_little}"
        );
        let text = stated(150.0, 140.0, 102.0, 100.0);
        assert_eq!(
            text,
            "Simulated +50.0 %, with each packet acknowledged +40.0 %, above a TCP that limits nothing +2.0 %: in the simulator \
             this is the cause."
        );
        assert!(stated(150.0, 140.0, 130.0, 120.0).ends_with("with both +20.0 %: neither explains it."));
    }
}
