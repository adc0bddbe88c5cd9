//! Figures 7 and 8: one flow over a bottleneck that stays or changes, and four that share it.

use crate::reproduce::prelude::*;
use paceline_lab::measure::jain;

use super::run::{Ran, Run, claim, rates_over_time, table};
use super::{LINK, OURS, SHARE, STEPS};

/// Who is compared.
const NAMES: [&str; 3] = [OURS, "bbr@tcp", "cubic@tcp"];
const RATES: [&str; 5] = ["100", "200", "500", "800", "1000"];
/// Between points of a series.
const STEP: Nanos = Nanos::from_millis(100);

/// Figure 7a.
pub(super) fn rates(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup = |rate: &str, name: &str| Setup::new(&LINK, name).set("down.rate", &format!("{rate} Mbit/s"));
    let setups = RATES.iter().flat_map(|rate| NAMES.map(|name| setup(rate, name)));
    let setups: Vec<Setup> = setups.collect();
    Ran::conduct(bench, &setups, |ran| {
        let used = |rate: usize, name: usize| ran.value(rate * NAMES.len() + name, |run| run.used);
        let cell = |rate: usize| {
            let (ours, tcp) = (used(rate, 0), used(rate, 1).max(used(rate, 2)));
            let text = format!("{} of the capacity, TCP {}", share(ours), share(tcp));
            ran.cell(rate * NAMES.len(), format!("{} Mbit/s", RATES[rate]), text, ours >= 0.98 * tcp)
        };
        let text = "it uses at least 98 % of what TCP with BBR or CUBIC does, whichever is more (the bound is ours)";
        let rows =
            (0..ran.setups.len()).map(|at| (at, format!("{}, {}", RATES[at / NAMES.len()], NAMES[at % NAMES.len()])));
        Findings {
            setup: vec!["One flow, 5 ms, drop-tail of 1000 packets, the start included.".to_owned()],
            claims: vec![claim(
                text,
                OURS,
                "a high bandwidth utilization same to TCP",
                (0..RATES.len()).map(cell).collect(),
            )],
            tables: vec![table(ran, "By rate in Mbit/s", rows)],
            scenarios: vec![&LINK],
            ..Findings::default()
        }
    })
}

fn share(of: f64) -> String {
    format!("{} %", short((of * 1000.0).round() / 10.0))
}

/// Steps of figure 7b that go up: when, s, and to what, Mbit/s.
const UP: [(f64, f64); 3] = [(6.0, 500.0), (12.0, 800.0), (18.0, 1000.0)];

/// Seconds from a step until 90 % of the capacity is used over a fifth of a second.
fn settled(run: &Run, step: f64) -> f64 {
    let points = (0..25).map(|tenth| f64::from(tenth) / 10.0);
    points.into_iter().find(|after| run.between(step + after, step + after + 0.2).1 >= 0.9).unwrap_or(f64::INFINITY)
}

/// Figure 7b.
pub(super) fn steps(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setups: Vec<Setup> = NAMES.iter().map(|name| Setup::new(&STEPS, name).sampled(STEP).whole()).collect();
    Ran::conduct(bench, &setups, |ran| {
        let time = |name: usize, step: f64| ran.value(name, |run| settled(run, step));
        let cells = |name: usize| {
            let cell = |(step, mbps): &(f64, f64)| {
                let seconds = time(name, *step);
                ran.cell(name, format!("to {mbps} Mbit/s"), format!("after {} s", short(seconds)), seconds <= 1.0)
            };
            UP.iter().map(cell).collect()
        };
        let text = "a second after the capacity has risen it uses 90 % of it (the bound is ours)";
        let claims =
            (0..2).map(|name| claim(text, NAMES[name], "can fast converge to the high throughput", cells(name)));
        Findings {
            setup: vec!["200, 500, 800, 1000, 500, 200 Mbit/s, 5 ms.".to_owned()],
            claims: claims.collect(),
            tables: vec![table(ran, "All 35 s", NAMES.map(str::to_owned).into_iter().enumerate())],
            drawings: vec![over_time("Throughput as the bottleneck changes", 35.0, 1000.0, &ran.runs[0][0])],
            whole: true,
            scenarios: vec![&STEPS],
            ..Findings::default()
        }
    })
}

/// The flows of a run over time.
fn over_time(title: &str, seconds: f64, mbps: f64, run: &Run) -> Drawing {
    let flows = run.series.flows.iter().map(|flow| curves::rate(&run.series, flow, 0.5));
    let classes = palette::classes([OURS]).into_iter().chain(palette::others());
    let lines = flows.zip(classes).map(|(points, class)| PlotLine::new(class, points));
    rates_over_time(title, seconds, mbps, lines.collect(), format!("{OURS}, first run."))
}

const SHARED: [&str; 3] = ["100", "200", "300"];

/// Figure 8.
pub(super) fn sharing(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup =
        |rate: &&str| Setup::new(&SHARE, OURS).set("down.rate", &format!("{rate} Mbit/s")).sampled(STEP).whole();
    let setups: Vec<Setup> = SHARED.iter().map(setup).collect();
    Ran::conduct(bench, &setups, |ran| {
        let cells = |figure: &dyn Fn(&Run) -> f64, least: f64| {
            let cell = |at: usize| {
                let value = ran.value(at, figure);
                let text = short((value * 1e4).round() / 1e4);
                ran.cell(at, format!("{} Mbit/s, 20 ms", SHARED[at]), text, value >= least)
            };
            (0..SHARED.len()).map(cell).collect::<Vec<_>>()
        };
        let fair = |run: &Run| jain(&run.between(20.0, 33.0).0);
        let full = |run: &Run| run.between(5.0, 33.0).1;
        let left = |run: &Run| {
            [(46.0, 55.0), (56.0, 65.0), (66.0, 75.0)]
                .map(|(from, to)| run.between(from, to).1)
                .into_iter()
                .fold(1.0, f64::min)
        };
        let claims = vec![
            claim(
                "33 s after the first flow began, 30 s after the last, Jain's index of the last 13 s is at least 0.95 (the bound is ours)",
                OURS,
                "4 flows will converge to a fair share soon",
                cells(&fair, 0.95),
            ),
            claim(
                "together they use at least 95 % (the bound is ours)",
                OURS,
                "keeps constant during the transmission",
                cells(&full, 0.95),
            ),
            claim(
                "a second after a flow has ended the others use at least 95 %, in each of three such times (the bound is ours)",
                OURS,
                "other flows will soon take up the available bandwidth",
                cells(&left, 0.95),
            ),
        ];
        Findings {
            setup: vec!["They begin a second apart, and end after 45, 55, 65 and 75 s; a queue of 2 BDP.".to_owned()],
            claims,
            tables: vec![table(
                ran,
                "By rate in Mbit/s",
                SHARED.iter().enumerate().map(|(at, rate)| (at, (*rate).to_owned())),
            )],
            drawings: vec![over_time("Four flows over 100 Mbit/s", 75.0, 100.0, &ran.runs[0][0])],
            whole: true,
            scenarios: vec![&SHARE],
            ..Findings::default()
        }
    })
}
