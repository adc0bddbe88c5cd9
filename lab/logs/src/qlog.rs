//! A qlog, ours or another stack's: what [`paceline_conform::qlog`] makes of it.

use std::io::BufRead;

use paceline_cc::Nanos;
use paceline_conform::qlog::Choice;
use paceline_conform::read::FileError;
use paceline_conform::trajectory::{MOST_POINTS, Trajectory};
use paceline_report::logs::{CLASSES, Curve, LogChart, LogFigure, PlottedLog};

use crate::bins::{Bins, Grid};

pub(crate) fn read(file: &str, from: impl BufRead, step: Option<Nanos>) -> Result<PlottedLog, FileError> {
    let choice = Choice { or_most: true, ..Choice::default() };
    Ok(curves(file, &paceline_conform::qlog::read_one(file, from, choice)?, step))
}

fn curves(file: &str, flow: &Trajectory, step: Option<Nanos>) -> PlottedLog {
    let mut notes: Vec<String> = flow.notes.iter().map(|note| (*note).to_owned()).collect();
    if flow.points.len() >= MOST_POINTS {
        notes.push(format!("It is drawn up to its {MOST_POINTS}th point."));
    }
    let nanos = |t: f64| (t * 1e9) as u64;
    let [mut delivered, mut window, mut in_flight, mut rtt, mut pacing, mut lost] = [(); 6].map(|()| Bins::default());
    let (mut before, mut end) = (0.0, 0);
    let mut rtts = Vec::new();
    for point in &flow.points {
        let at = nanos(point.t);
        end = end.max(at);
        delivered.add(at, (point.delivered - before).max(0.0) * flow.mss);
        before = point.delivered.max(before);
        window.add(at, point.window);
        in_flight.add(at, point.in_flight);
        if let Some(ms) = point.rtt_ms {
            rtt.add(at, ms);
            rtts.push(ms);
        }
        if let Some(mbps) = point.pacing_mbps {
            pacing.add(at, mbps);
        }
    }
    for t in &flow.losses {
        end = end.max(nanos(*t));
        lost.add(nanos(*t), 1.0);
    }
    let grid = Grid::new(end.max(1), step);
    let curve = |name, class: usize, points| Curve::new(name, CLASSES[class], points);
    let mut rates = vec![curve("delivered", 0, delivered.rates(grid, 8e-6))];
    if !pacing.is_empty() {
        rates.push(curve("pacing rate", 3, pacing.means(grid)));
    }
    let mut charts = vec![LogChart { title: "throughput, Mbit/s", curves: rates }];
    if !rtt.is_empty() {
        charts.push(LogChart { title: "round trip, ms", curves: vec![curve("round trip", 2, rtt.means(grid))] });
    }
    let windows = vec![curve("window", 0, window.means(grid)), curve("in flight", 1, in_flight.means(grid))];
    charts.push(LogChart { title: "packets", curves: windows });
    if !lost.is_empty() {
        charts.push(LogChart { title: "lost, packets/s", curves: vec![curve("lost", 1, lost.rates(grid, 1.0))] });
    }
    let figure = |what, value| LogFigure::new("", what, value);
    let mut figures = vec![figure("throughput, Mbit/s", delivered.sum() * 8e-6 / grid.seconds())];
    rtts.sort_by(f64::total_cmp);
    for (what, q) in [("round trip p50, ms", 0.5), ("round trip p95, ms", 0.95)] {
        if let Some(last) = rtts.len().checked_sub(1) {
            figures.push(figure(what, rtts[(q * last as f64).round() as usize]));
        }
    }
    figures.push(figure("lost, packets", flow.losses.len() as f64));
    let file = file.to_owned();
    PlottedLog { file, kind: "qlog", notes, seconds: grid.seconds(), step_s: grid.step_s(), figures, charts }
}
