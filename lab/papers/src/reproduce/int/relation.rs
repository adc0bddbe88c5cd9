//! Figures 4 and 5: what hops see goes together with CUBIC's window.

use super::run::{Run, correlation, named, over_time};
use super::{CHAIN, LOSS, QUEUE, RATE, ROUND, percent};
use crate::reproduce::prelude::*;

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

/// Curves of the first run, each in a chart of its own.
fn drawing(title: &str, label: &str, curves: Vec<(&'static str, PlotLine)>) -> Drawing {
    let row = |(title, line): (&'static str, PlotLine)| {
        ChartRow::single(title, PlotAxis::linear(highest([&line], 1.0) * 1.05), 130.0, vec![line])
    };
    let rows = curves.into_iter().map(row).collect();
    Drawing::new(title, &Sheet::new(label, ("time, s", PlotAxis::linear(SHOWN)), rows), "First run.")
}

/// Figure 4.
pub(super) fn losses(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup = |loss: &f64| Setup::new(&CHAIN, CUBIC).set(LOSS, &loss.to_string()).sampled(STEP);
    let setups: Vec<Setup> = LOSSES.iter().map(setup).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let seen = |run: &Run| (run.telemetry.medium.all() + run.telemetry.overflow.all()) as f64;
    let pairs: Vec<(f64, f64)> = results.iter().flatten().map(|run| (seen(run), cuts(run.window()))).collect();
    let together = correlation(&pairs);
    let worst = most(&pairs.iter().map(|(seen, cuts)| cuts - seen).collect::<Vec<_>>());
    let claim =
        |text: &str, paper: &str, ours: String, holds: bool| setups[2].found((text, paper), "all losses", ours, holds);
    let row = |(loss, runs): (&f64, &Vec<Run>)| {
        let figures: [&dyn Fn(&Run) -> f64; 3] = [&seen, &|run| cuts(run.window()), &|run| median(run.window())];
        plain(percent(*loss), figures.map(|figure| stated(&over(runs, figure))))
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
        tables: vec![Table::new(
            "Losses and cuts of a run",
            "Medians over runs; the window in packets.",
            ["losses seen", "cuts", "median window"],
            LOSSES.iter().zip(&results).map(row),
        )],
        drawings: vec![drawing(
            "CUBIC's window with 1 % of packets lost",
            "CUBIC's window over time",
            vec![("window, packets", PlotLine::new("c-cubic", telling[0].window_over_time()))],
        )],
        scenarios: vec![&CHAIN],
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
        queue.zip(run.window().iter().copied()).skip(first).collect()
    };
    let together = over(&results[0], |run| correlation(&pairs(run)));
    let apart = over(&results[0], |run| {
        let apart = |(queue, window): &(f64, f64)| (queue - (window - fits)).abs();
        median(&pairs(run).iter().filter(|(_, window)| *window > fits).map(apart).collect::<Vec<_>>())
    });
    let most_queued = over(&results[0], |run| most(&pairs(run).iter().map(|(queue, _)| *queue).collect::<Vec<_>>()));
    let claim =
        |text: &str, paper: &str, ours: String, holds: bool| setups[0].found((text, paper), "no loss", ours, holds);
    let shown = &results[0][0];
    let queued: Vec<f64> = shown.series.queue_bytes.iter().map(|bytes| *bytes as f64 / PACKET).collect();
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
        drawings: vec![drawing(
            "The queue of the second radio, and the window",
            "Queue and window over time",
            vec![
                ("queue, packets", PlotLine::new("c-cubic", over_time(&shown.series, &queued))),
                ("window, packets", PlotLine::new("c-cubic", shown.window_over_time())),
            ],
        )],
        scenarios: vec![&CHAIN],
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
