//! Figure 7: how a window comes to its threshold, by equation (1) and as always.

use paceline_cc::Nanos;
use paceline_report::chart::{ChartRow, Class, Panel, PlotAxis, PlotLine, Sheet};
use paceline_report::palette;
use paceline_report::svg::short;

use super::super::bench::{Bench, Setup};
use super::super::reading::counted;
use super::super::{Cell, Claim, Drawing, Findings, ReproduceError, Table};
use super::run::{Run, over, stated};
use super::{CHAIN, LOSS, ROUND};

/// A twentieth of a round trip without queues.
const STEP: Nanos = Nanos::from_millis(1);
/// The threshold, packets: below what the path holds with its queue, so that it is reached (the paper gives none).
const THRESHOLD: f64 = 64.0;
/// Who is compared: as a contestant, and as figures name it.
const NAMES: [(&str, &str); 4] = [
    ("cubic:start=slow,ssthresh=64@tcp", "CUBIC"),
    ("cubic:eq1=1,ssthresh=64@tcp", "increment 1"),
    ("cubic:eq1=2,ssthresh=64@tcp", "increment 2"),
    ("cubic:eq1=3,ssthresh=64@tcp", "increment 3"),
];
/// Seconds that the picture shows.
const SHOWN: f64 = 1.0;

/// Round trips from the start of the flow until the window is at its threshold; of the whole run when it never is.
fn rounds(run: &Run) -> f64 {
    let window = run.series.flows.first().map_or(&[][..], |flow| &flow.window_packets);
    let at = window.iter().position(|packets| *packets >= THRESHOLD - 0.5).unwrap_or(window.len());
    at as f64 * STEP.as_secs_f64() / ROUND
}

/// By how much the window differs after the part that is shown: its largest over its smallest.
fn swing(run: &Run) -> f64 {
    let window = run.series.flows.first().map_or(&[][..], |flow| &flow.window_packets);
    let late = window.get((SHOWN / STEP.as_secs_f64()) as usize..).unwrap_or_default();
    let (low, high) = late.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), at| (low.min(*at), high.max(*at)));
    if low > 0.0 && high > 0.0 { high / low } else { f64::INFINITY }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup = |(name, _): &(&str, &str)| Setup::new(&CHAIN, name).set(LOSS, "0").sampled(STEP);
    let setups: Vec<Setup> = NAMES.iter().map(setup).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let times: Vec<f64> = results.iter().map(|runs| over(runs, rounds).median).collect();
    let again: Vec<f64> = results.iter().map(|runs| over(runs, |run| run.retransmits).median).collect();
    let dropped = over(&results[1], |run| run.dropped);
    let swings = over(&results[1], swing);
    let claim = |text: &str, who: usize, paper: &str, ours: String, holds: bool| {
        let cell = Cell { setup: "no loss".to_owned(), ours: ours.clone(), holds, command: setups[who].command() };
        Claim::new(text, NAMES[who].0, paper).got(ours, vec![cell])
    };
    let in_words = format!("{}, {}, {} (CUBIC, increments 2 and 3)", short(times[0]), short(times[2]), short(times[3]));
    let mut claims = vec![
        claim(
            "round trips to the threshold fall from CUBIC over increment 2 to increment 3",
            3,
            "2 and 3 reach the threshold way before CUBIC",
            in_words,
            times[0] > times[2] && times[2] > times[3],
        ),
        claim(
            "with increment 1 no queue drops a packet in the whole run",
            1,
            "it maintains the same window throughout the transfer",
            format!("{} drops", stated(&dropped)),
            dropped.median == 0.0,
        ),
        claim(
            "with increment 1 the window stays the same from the first second on, within 5 % (tolerance ours)",
            1,
            "it maintains the same window throughout the transfer",
            format!("largest over smallest {}", stated(&swings)),
            swings.median <= 1.05,
        ),
    ];
    for who in [1, 2, 3] {
        claims.push(claim(
            "it sends no more packets again than CUBIC",
            who,
            "lower packet retransmissions",
            format!("{}, CUBIC {}", short(again[who]), short(again[0])),
            again[who] <= again[0],
        ));
    }
    let row = |(at, (_, shown)): (usize, &(&str, &str))| {
        let figures = [
            over(&results[at], rounds),
            over(&results[at], |run| run.dropped),
            over(&results[at], |run| run.retransmits),
            over(&results[at], |run| run.mbps[0]),
        ];
        ((*shown).to_owned(), figures.iter().map(|figure| (stated(figure), String::new())).collect())
    };
    let classes: Vec<Class> = palette::classes(NAMES.map(|(name, _)| name)).into_iter().map(Class::from).collect();
    let line = |(runs, class): (&Vec<Run>, &Class)| {
        let window = runs[0].series.flows.first().map_or(&[][..], |flow| &flow.window_packets);
        let points =
            window.iter().enumerate().map(|(at, packets)| ((at + 1) as f64 * STEP.as_secs_f64(), Some(*packets)));
        PlotLine { class: class.clone(), points: points.take_while(|(at, _)| *at <= SHOWN).collect(), dots: false }
    };
    let lines: Vec<PlotLine> = results.iter().zip(&classes).map(line).collect();
    let high = lines.iter().flat_map(|line| &line.points).filter_map(|(_, y)| *y).fold(THRESHOLD, f64::max);
    let sheet = Sheet {
        label: "Windows at the start".to_owned(),
        x_title: "time, s",
        x: PlotAxis::linear(SHOWN),
        rows: vec![ChartRow {
            y_title: "window, packets",
            y: PlotAxis::linear(high * 1.05),
            height: 220.0,
            panels: vec![Panel { lines, ..Panel::default() }],
        }],
        legend: classes.into_iter().zip(NAMES.map(|(_, name)| name.to_owned())).collect(),
    };
    Ok(Findings {
        setup: vec![format!(
            "One flow over the chain without loss, threshold {} packets, {} of each. CUBIC without HyStart, which would end \
             its slow start sooner.",
            short(THRESHOLD),
            counted(results[0].len(), "run"),
        )],
        claims,
        tables: vec![Table {
            title: "The start, and the whole run".to_owned(),
            note: "Medians over runs.".to_owned(),
            columns: ["round trips to the threshold", "drops", "sent again", "Mbit/s"].map(str::to_owned).to_vec(),
            rows: NAMES.iter().enumerate().map(row).collect(),
        }],
        drawings: vec![Drawing {
            title: "The window at the start".to_owned(),
            svg: sheet.draw(),
            note: "First run.".to_owned(),
        }],
        scenarios: vec![(CHAIN.path, CHAIN.text)],
        ..Findings::default()
    })
}
