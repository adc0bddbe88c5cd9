//! Figures 16, 17 and 19: Verus above TCP over a cellular network. The paper's is a real one; ours are traces of such links.

use crate::reproduce::prelude::*;
use std::path::{Path, PathBuf};

use super::CELLULAR;
use super::fidelity::where_it_ran;
use super::run::{Run, START_UP, STEP, apart, close};

/// The links of figures 16, 17 and 19 where no trace is given: 3G, then 4G.
const LINKS: [&str; 2] = [SHIPPED_TRACES[1].0, SHIPPED_TRACES[0].0];
/// A run meets the trace at any place of it: the paper repeats its experiment over a channel that changes.
const ANYWHERE: (&str, &str) = ("down.trace_start", "0s..100s");
/// Share of the time in which TCP's window is above the application's (our reading of "always").
const ALWAYS: f64 = 0.95;
/// "Statistically similar" where there are too few runs for intervals (our reading).
const SIMILAR: f64 = 0.15;

fn links(bench: &Bench<'_>) -> Vec<PathBuf> {
    match &bench.settings.traces[..] {
        [] => LINKS.iter().map(PathBuf::from).collect(),
        given => given.to_vec(),
    }
}

fn name(link: &Path) -> String {
    link.file_name().unwrap_or(link.as_os_str()).to_string_lossy().into_owned()
}

/// Figures 16 and 17: the application's window below TCP's.
pub(super) fn windows(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if !bench.is_real() {
        return Ok(Findings::none("The simulator's TCP reports no window: this figure needs the real world."));
    }
    let links = links(bench);
    let setup = |link: &PathBuf| Setup::new(&CELLULAR, "verus@alcc/cubic").trace(link).sampled(STEP).whole();
    let setups: Vec<Setup> = links.iter().map(setup).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let claim = |text: &str, paper: &str, figure: &dyn Fn(&[Run]) -> (String, bool)| {
        let cell = |((link, runs), setup): ((&PathBuf, &Vec<Run>), &Setup)| {
            let (ours, holds) = figure(runs);
            setup.cell(name(link), ours, holds)
        };
        setups[0].claim(text, paper).got_each(links.iter().zip(&results).zip(&setups).map(cell).collect())
    };
    let claims = vec![
        claim(
            "TCP's window is above that of Verus for 95 % of the time after the first 5 s (our reading)",
            "always operates with a smaller window than TCP's",
            &|runs| match over_window(runs) {
                Some(share) => (format!("{:.1} %", 100.0 * share), share >= ALWAYS),
                None => ("TCP's window is not reported".to_owned(), false),
            },
        ),
        claim(
            "TCP is the limit for at most 5 % of what Verus sends (our reading)",
            "TCP opens a larger window, which lets ALCC operate beneath it",
            &|runs| {
                let limited = typical(runs, |run| run.limited);
                (format!("{:.1} %", 100.0 * limited), limited <= 1.0 - ALWAYS)
            },
        ),
    ];
    Ok(Findings {
        setup: vec![format!(
            "Verus above CUBIC over {}: its window and that of the TCP below, {}. {} of each.",
            links.iter().map(|link| name(link)).collect::<Vec<_>>().join(" and "),
            where_it_ran(bench),
            counted(results[0].len(), "run"),
        )],
        claims,
        drawings: links
            .iter()
            .zip(&results)
            .filter_map(|(link, runs)| Some(drawing(&name(link), runs.first()?)))
            .collect(),
        whole: true,
        scenarios: vec![&CELLULAR],
        ..Findings::default()
    })
}

/// The windows of the application and of TCP over time, in packets, where both are known.
fn both(run: &Run) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
    let flow = run.flow();
    let tcp = flow.variables.get("tcp_window").map_or(&[][..], Vec::as_slice);
    let step = run.series.step.as_secs_f64();
    let pairs = flow.window_packets.iter().zip(tcp).enumerate();
    pairs.filter_map(move |(at, (own, tcp))| Some((at as f64 * step, *own, (*tcp)?)))
}

/// The share of the time in which TCP's window is the larger one.
fn over_window(runs: &[Run]) -> Option<f64> {
    let points: Vec<bool> =
        runs.iter().flat_map(both).filter(|(at, ..)| *at >= START_UP).map(|(_, own, tcp)| tcp > own).collect();
    let above = points.iter().filter(|above| **above).count();
    (!points.is_empty()).then(|| above as f64 / points.len() as f64)
}

fn drawing(link: &str, run: &Run) -> Drawing {
    let lines = vec![
        PlotLine::new("c-verus", both(run).map(|(at, own, _)| (at, Some(own)))),
        PlotLine::new("ink", both(run).map(|(at, _, tcp)| (at, Some(tcp)))),
    ];
    let last = both(run).last().map_or(1.0, |(at, ..)| at);
    let most = 1.1 * highest(&lines, 1.0);
    let row = ChartRow::single("window, packets", PlotAxis::linear(most), 160.0, lines);
    let label = format!("Windows of Verus and of the TCP below over {link}");
    let sheet = Sheet::new(label, ("s", PlotAxis::linear(last)), vec![row]);
    let sheet = sheet.legend([("c-verus", "Verus"), ("ink", "TCP below")]);
    Drawing::new(format!("Windows over {link}"), &sheet, "First run.")
}

/// Figure 19: Verus above TCP and native.
pub(super) fn repeated(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let links = match &bench.settings.traces[..] {
        [] => vec![PathBuf::from(LINKS[0])],
        given => given.to_vec(),
    };
    let setup = |link: &Path, contestant: &str| {
        Setup::new(&CELLULAR, contestant).trace(link).sampled(STEP).set(ANYWHERE.0, ANYWHERE.1)
    };
    let both = ["verus@alcc/cubic", "verus@udp"];
    let setups: Vec<Setup> = links.iter().flat_map(|link| both.map(|contestant| setup(link, contestant))).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let mut claims = Vec::new();
    for (index, link) in links.iter().enumerate() {
        let (own, native) = (&results[2 * index], &results[2 * index + 1]);
        let mut claim = |text: &str, paper: &str, ours: String, holds: bool| {
            claims.push(setups[2 * index].found((text, paper), name(link), ours, holds));
        };
        let (a, b) = (over(own, |run| run.mbps), over(native, |run| run.mbps));
        let alike = match (a.interval, b.interval) {
            (Some(a), Some(b)) => a.0 <= b.1 && b.0 <= a.1,
            _ => close(a.median, b.median, SIMILAR),
        };
        claim(
            "Verus above TCP has the throughput of native Verus: intervals overlap, or with too few runs within 15 % (our reading)",
            "statistically similar",
            format!("{} Mbit/s, native {}, {}", stated(&a), stated(&b), apart(a.median, b.median)),
            alike,
        );
        let (a, b) = (over(own, |run| run.delay(95)), over(native, |run| run.delay(95)));
        claim(
            "its 95th percentile of delay is at most 10 % above native (our reading)",
            "native is slightly higher, at times by seconds",
            format!("{} ms, native {} ms", stated(&a), stated(&b)),
            a.median <= 1.1 * b.median,
        );
    }
    let classes = palette::classes(both);
    let line = |(class, runs): (&String, &Vec<Run>)| {
        Some(PlotLine::new(class.clone(), curves::queue(&runs.first()?.series, 0.5)))
    };
    let lines: Vec<PlotLine> = classes.iter().zip(&results).filter_map(line).collect();
    let (last, most) = (end(&lines, 1.0), 1.1 * highest(&lines, 1.0));
    let row = ChartRow::single("queue, ms", PlotAxis::linear(most), 140.0, lines);
    let label = "Queueing delay of Verus above TCP and native";
    let sheet = Sheet::new(label, ("s", PlotAxis::linear(last)), vec![row]).legend(classes.into_iter().zip(both));
    Ok(Findings {
        setup: vec![format!(
            "Verus above CUBIC and native over {}, each run at another place of it; {} of each, {}.",
            links.iter().map(|link| name(link)).collect::<Vec<_>>().join(", "),
            counted(results[0].len(), "run"),
            where_it_ran(bench),
        )],
        claims,
        drawings: vec![Drawing::new(
            format!("Queue over {}", name(&links[0])),
            &sheet,
            "First run of each: the largest delay of a packet in each 500 ms.",
        )],
        scenarios: vec![&CELLULAR],
        ..Findings::default()
    })
}
