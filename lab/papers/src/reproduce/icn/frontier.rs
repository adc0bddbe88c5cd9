//! A question of ours: how little delay goes with how much throughput where the aggregates of a channel are the round trip. Beside the gain of
//! BBR's window stand windows that never change: what no controller can pass by much.

use crate::reproduce::prelude::*;

use super::run::{Ran, Run, claim, table};
use super::wifi::{IDLE, setup};
use super::{OURS, W1, W2};

/// A queue that is never empty: what requests can carry.
const FULL: &str = "cubic@icn:ceiling=window";
/// Gains of BBR's window; over `@icn` it is 1.5.
const GAINS: [&str; 5] = ["1", "1.25", "1.5", "1.75", "2"];
/// Constant windows in units.
const WINDOWS: [&str; 7] = ["150", "200", "250", "300", "400", "500", "600"];
/// Of what requests can carry, and times the idle RTT (our targets).
const SHARE: f64 = 0.95;
const TIMES: f64 = 3.0;

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let places = [(&W1, "1 ms of wire"), (&W2, "5 ms of wire")];
    let gains = GAINS.map(|gain| format!("bbr:cwnd_gain={gain}@icn:ceiling=window"));
    let windows = WINDOWS.map(|units| format!("fixed:window={units}@icn:ceiling=window"));
    let names: Vec<&str> =
        [IDLE, FULL, OURS].into_iter().chain(gains.iter().chain(&windows).map(String::as_str)).collect();
    let setups = places.iter().flat_map(|(file, _)| names.iter().map(|name| setup(file, name)));
    let setups: Vec<Setup> = setups.collect();
    Ran::conduct(bench, &setups, |ran| {
        let at = |place: usize, who: usize| place * names.len() + who;
        // Of what requests can carry, and times the idle RTT.
        let point = |place: usize, who: usize| {
            let mbps = ran.value(at(place, who), Run::all) / ran.value(at(place, 1), Run::all);
            (mbps, ran.value(at(place, who), |run| run.rtt[1]) / ran.value(at(place, 0), |run| run.rtt[0]))
        };
        let stated = |(used, times): (f64, f64)| {
            format!("{} % at {} times", short((used * 1000.0).round() / 10.0), short((times * 100.0).round() / 100.0))
        };
        let both = |place: usize| {
            let point = point(place, 2);
            ran.cell(at(place, 2), places[place].1, stated(point), point.0 >= SHARE && point.1 <= TIMES)
        };
        let windows_at = 3 + GAINS.len();
        // The least delay of constant windows that carry as much.
        let fewest = |place: usize| {
            let all = (windows_at..names.len()).map(|who| (who, point(place, who)));
            all.filter(|(_, (used, _))| *used >= SHARE).min_by(|a, b| a.1.1.total_cmp(&b.1.1))
        };
        let beside = |place: usize| {
            let own = point(place, 2);
            let (text, holds) = match fewest(place) {
                Some((_, least)) => (format!("{}, windows {}", stated(own), stated(least)), own.1 <= 1.25 * least.1),
                None => (format!("{}, no window carries as much", stated(own)), true),
            };
            ran.cell(at(place, 2), places[place].1, text, holds)
        };
        let claims = vec![
            claim(
                "at least 95 % of what requests can carry, with a 95th percentile of the RTT of at most 3 times the idle one (target of ours)",
                OURS,
                "",
                (0..places.len()).map(both).collect(),
            ),
            claim(
                "its 95th percentile is at most a quarter above that of the smallest constant window with 95 % of the throughput (target of ours)",
                OURS,
                "",
                (0..places.len()).map(beside).collect(),
            ),
        ];
        let drawing = |place: usize| {
            let line = |class: String, range: std::ops::Range<usize>| {
                PlotLine::dotted(
                    class,
                    range.map(|who| point(place, who)).map(|(used, times)| (times, Some(100.0 * used))),
                )
            };
            let mut classes = palette::classes([OURS]).into_iter().chain(palette::others());
            let mut next = || classes.next().unwrap_or_default();
            let lines = vec![line(next(), 3..windows_at), line(next(), windows_at..names.len())];
            let row = ChartRow::single("% of what requests can carry", PlotAxis::linear(100.0), 220.0, lines);
            let title = format!("Throughput against delay, {}", places[place].1);
            let x = ("95th percentile of the RTT, times the idle one", PlotAxis::linear(6.0));
            let note = "BBR by the gain of its window (1 to 2), and constant windows (150 to 600 units).".to_owned();
            Drawing::new(&title, &Sheet::new(&title, x, vec![row]), note)
        };
        let rows = (0..ran.setups.len())
            .map(|at| (at, format!("{}, {}", places[at / names.len()].1, names[at % names.len()])));
        Findings {
            setup: vec!["W1 and W2: 802.11ac, 866.7 Mbit/s, one station.".to_owned()],
            claims,
            tables: vec![table(ran, "Wi-Fi", rows)],
            drawings: (0..places.len()).map(drawing).collect(),
            scenarios: vec![&W1, &W2],
            ..Findings::default()
        }
    })
}
