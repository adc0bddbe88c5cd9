//! Figure 7: how a window comes to its threshold, by equation (1) and as always.

use super::run::Run;
use super::{CHAIN, LOSS, ROUND};
use crate::reproduce::prelude::*;

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
    let window = run.window();
    let at = window.iter().position(|packets| *packets >= THRESHOLD - 0.5).unwrap_or(window.len());
    at as f64 * STEP.as_secs_f64() / ROUND
}

/// By how much the window differs after the part that is shown: its largest over its smallest.
fn swing(run: &Run) -> f64 {
    let late = run.window().get((SHOWN / STEP.as_secs_f64()) as usize..).unwrap_or_default();
    let (low, high) = late.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), at| (low.min(*at), high.max(*at)));
    if low > 0.0 && high > 0.0 { high / low } else { f64::INFINITY }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup = |(name, _): &(&str, &str)| Setup::new(&CHAIN, name).set(LOSS, "0").sampled(STEP);
    let setups: Vec<Setup> = NAMES.iter().map(setup).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let times: Vec<f64> = results.iter().map(|runs| typical(runs, rounds)).collect();
    let again: Vec<f64> = results.iter().map(|runs| typical(runs, |run| run.retransmits)).collect();
    let dropped = over(&results[1], |run| run.dropped);
    let swings = over(&results[1], swing);
    let claim = |text: &str, who: usize, paper: &str, ours: String, holds: bool| {
        setups[who].found((text, paper), "no loss", ours, holds)
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
        let figures: [fn(&Run) -> f64; 4] = [rounds, |run| run.dropped, |run| run.retransmits, |run| run.mbps[0]];
        plain(*shown, figures.map(|figure| stated(&over(&results[at], figure))))
    };
    let classes = palette::classes(NAMES.map(|(name, _)| name));
    let line = |(runs, class): (&Vec<Run>, &String)| {
        PlotLine::new(class.clone(), runs[0].window_over_time().take_while(|(at, _)| *at <= SHOWN))
    };
    let lines: Vec<PlotLine> = results.iter().zip(&classes).map(line).collect();
    let y = PlotAxis::linear(highest(&lines, THRESHOLD) * 1.05);
    let chart = ChartRow::single("window, packets", y, 220.0, lines);
    let sheet = Sheet::new("Windows at the start", ("time, s", PlotAxis::linear(SHOWN)), vec![chart])
        .legend(classes.into_iter().zip(NAMES.map(|(_, name)| name)));
    Ok(Findings {
        setup: vec![format!(
            "One flow over the chain without loss, threshold {} packets, {} of each. CUBIC without HyStart, which would end \
             its slow start sooner.",
            short(THRESHOLD),
            counted(results[0].len(), "run"),
        )],
        claims,
        tables: vec![Table::new(
            "The start, and the whole run",
            "Medians over runs.",
            ["round trips to the threshold", "drops", "sent again", "Mbit/s"],
            NAMES.iter().enumerate().map(row),
        )],
        drawings: vec![Drawing::new("The window at the start", &sheet, "First run.")],
        scenarios: vec![&CHAIN],
        ..Findings::default()
    })
}
