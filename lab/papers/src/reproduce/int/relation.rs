//! Figures 4 and 5: what hops see goes together with CUBIC's window.

use paceline_cc::Nanos;
use paceline_experiment::Series;
use paceline_report::chart::{ChartRow, Panel, PlotAxis, PlotLine, Sheet};
use paceline_report::svg::short;

use super::super::bench::{Bench, Setup};
use super::super::curves::Points;
use super::super::reading::{counted, median, most};
use super::super::{Cell, Claim, Drawing, Findings, ReproduceError};
use super::run::{Run, correlation, named, over, stated};
use super::{CHAIN, LOSS, QUEUE, RATE, ROUND, percent};

const CUBIC: &str = "cubic@tcp";
/// A fifth of a round trip without queues.
const STEP: Nanos = Nanos::from_millis(4);
/// Around the paper's lossy link, of which it gives no figure.
const LOSSES: [f64; 5] = [0.0025, 0.005, 0.01, 0.02, 0.05];
/// The window was cut when it is this much of its largest since the cut before: CUBIC takes 0.7 of it.
const CUT: f64 = 0.8;
/// Seconds that the pictures show.
const SHOWN: f64 = 20.0;
/// The start-up, s: the relation is one of the steady state.
const START_UP: f64 = 3.0;
/// Bytes of a full packet.
const PACKET: f64 = 1500.0;
/// Time that the chain's three links take to send one, s: 100 Mbit/s, 1 Gbit/s and 20 Mbit/s.
const SENDING: f64 = PACKET * 8.0 * (1.0 / 100e6 + 1.0 / 1e9 + 1.0 / 20e6);

/// How often a window was cut.
fn cuts(window: &[f64]) -> f64 {
    let (mut largest, mut cuts) = (0.0, 0.0);
    for packets in window {
        if *packets <= CUT * largest {
            (largest, cuts) = (*packets, cuts + 1.0);
        }
        largest = packets.max(largest);
    }
    cuts
}

fn window(series: &Series) -> &[f64] {
    series.flows.first().map_or(&[], |flow| &flow.window_packets)
}

fn points(series: &Series, values: &[f64]) -> Points {
    let step = series.step.as_secs_f64();
    values.iter().enumerate().map(|(at, value)| ((at + 1) as f64 * step, Some(*value))).collect()
}

fn sheet(label: &str, rows: Vec<(&'static str, Points)>) -> String {
    let row = |(y_title, points): (&'static str, Points)| {
        let high = points.iter().filter_map(|(_, y)| *y).fold(1.0, f64::max);
        let lines = vec![PlotLine { class: "c-cubic".into(), points, dots: false }];
        ChartRow {
            y_title,
            y: PlotAxis::linear(high * 1.05),
            height: 130.0,
            panels: vec![Panel { lines, ..Panel::default() }],
        }
    };
    let sheet = Sheet {
        label: label.to_owned(),
        x_title: "time, s",
        x: PlotAxis::linear(SHOWN),
        rows: rows.into_iter().map(row).collect(),
        legend: Vec::new(),
    };
    sheet.draw()
}

/// Figure 4.
pub(super) fn losses(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup = |loss: &f64| Setup::new(&CHAIN, CUBIC).set(LOSS, &loss.to_string()).sampled(STEP);
    let setups: Vec<Setup> = LOSSES.iter().map(setup).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let seen = |run: &Run| (run.telemetry.medium.all() + run.telemetry.overflow.all()) as f64;
    let pairs: Vec<(f64, f64)> = results.iter().flatten().map(|run| (seen(run), cuts(window(&run.series)))).collect();
    let together = correlation(&pairs);
    let worst = most(&pairs.iter().map(|(seen, cuts)| cuts - seen).collect::<Vec<_>>());
    let claim = |text: &str, paper: &str, ours: String, holds: bool| {
        let command = setups[2].command();
        let cell = Cell { setup: "all losses".to_owned(), ours: ours.clone(), holds, command };
        Claim::new(text, CUBIC, paper).got(ours, vec![cell])
    };
    let row = |(loss, runs): (&f64, &Vec<Run>)| {
        let figures = [
            over(runs, seen),
            over(runs, |run| cuts(window(&run.series))),
            over(runs, |run| median(window(&run.series))),
        ];
        (percent(*loss), figures.iter().map(|figure| (stated(figure), String::new())).collect())
    };
    let telling = &results[2];
    let all = named(telling);
    Ok(Findings {
        setup: vec![format!(
            "CUBIC over the chain, losses at random on the second radio, {} of each share. Telemetry counts what is missing \
             between packets; a cut is a window of at most {} of its largest since the one before.",
            counted(telling.len(), "run"),
            percent(CUT),
        )],
        claims: vec![
            claim(
                "over all runs, losses that telemetry sees and cuts of the window go together: correlation at least 0.9 \
                 (tolerance ours)",
                "every loss event is followed by a cut",
                format!("{together:.3} over {} runs", pairs.len()),
                together >= 0.9,
            ),
            claim(
                "the window is never cut more often than telemetry sees losses",
                "the window falls at losses",
                format!("at most {} more cuts than losses", short(worst.max(0.0))),
                worst <= 0.0,
            ),
            claim(
                "telemetry sees every loss of the medium at 1 %: none without a name (share below 1 %)",
                "losses are seen in band",
                format!("{} of {} unnamed", all.medium.unknown, all.medium.all()),
                all.medium.all() > 0 && (all.medium.unknown as f64) < 0.01 * all.medium.all() as f64,
            ),
        ],
        tables: vec![super::super::Table {
            title: "Losses and cuts of a run".to_owned(),
            note: "Medians over runs; the window in packets.".to_owned(),
            columns: ["losses seen", "cuts", "median window"].map(str::to_owned).to_vec(),
            rows: LOSSES.iter().zip(&results).map(row).collect(),
        }],
        drawings: vec![Drawing {
            title: "CUBIC's window with 1 % of packets lost".to_owned(),
            svg: sheet(
                "CUBIC's window over time",
                vec![("window, packets", points(&telling[0].series, window(&telling[0].series)))],
            ),
            note: "First run.".to_owned(),
        }],
        scenarios: vec![(CHAIN.path, CHAIN.text)],
        ..Findings::default()
    })
}

/// Figure 5.
pub(super) fn queue(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setups = [Setup::new(&CHAIN, CUBIC).set(LOSS, "0").sampled(STEP)];
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let fits = RATE * 1e6 / 8.0 * (ROUND + SENDING) / PACKET;
    let first = (START_UP / STEP.as_secs_f64()) as usize;
    let pairs = |run: &Run| -> Vec<(f64, f64)> {
        let queue = run.series.queue_bytes.iter().map(|bytes| *bytes as f64 / PACKET);
        queue.zip(window(&run.series).iter().copied()).skip(first).collect()
    };
    let together = over(&results[0], |run| correlation(&pairs(run)));
    let apart = over(&results[0], |run| {
        let apart = |(queue, window): &(f64, f64)| (queue - (window - fits)).abs();
        median(&pairs(run).iter().filter(|(_, window)| *window > fits).map(apart).collect::<Vec<_>>())
    });
    let most_queued = over(&results[0], |run| most(&pairs(run).iter().map(|(queue, _)| *queue).collect::<Vec<_>>()));
    let claim = |text: &str, paper: &str, ours: String, holds: bool| {
        let cell = Cell { setup: "no loss".to_owned(), ours: ours.clone(), holds, command: setups[0].command() };
        Claim::new(text, CUBIC, paper).got(ours, vec![cell])
    };
    let shown = &results[0][0].series;
    let queued: Vec<f64> = shown.queue_bytes.iter().map(|bytes| *bytes as f64 / PACKET).collect();
    Ok(Findings {
        setup: vec![format!(
            "CUBIC over the chain without loss, {}; {} packets are in flight without a queue. Without the first {} s.",
            counted(results[0].len(), "run"),
            short(fits),
            short(START_UP),
        )],
        claims: vec![
            claim(
                "the packets in the queue and the window go together: correlation at least 0.9 (median; tolerance ours)",
                "the window grows, the queue fills",
                stated(&together),
                together.median >= 0.9,
            ),
            claim(
                "the queue is the window less what is in flight without one, within 3 packets (median; tolerance ours)",
                "window increase is related to the queue's capacity left",
                format!("{} packets apart", stated(&apart)),
                apart.median <= 3.0,
            ),
            claim(
                "the window grows until the queue of 60 packets is full",
                "cut at the overflow",
                format!("up to {} packets", stated(&most_queued)),
                most_queued.median >= QUEUE - 2.0,
            ),
        ],
        drawings: vec![Drawing {
            title: "The queue of the second radio, and the window".to_owned(),
            svg: sheet(
                "Queue and window over time",
                vec![("queue, packets", points(shown, &queued)), ("window, packets", points(shown, window(shown)))],
            ),
            note: "First run.".to_owned(),
        }],
        scenarios: vec![(CHAIN.path, CHAIN.text)],
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_in_several_steps_is_one() {
        assert_eq!(cuts(&[10.0, 20.0, 40.0, 36.0, 31.0, 28.0, 29.0, 40.0, 28.0]), 2.0);
        assert_eq!(cuts(&[10.0, 9.0, 8.5]), 0.0);
        assert_eq!(cuts(&[]), 0.0);
    }
}
