//! Packet logs of a link in Mahimahi's format: what `mm-link` and `paceline emulate --mahimahi-log` write.
//!
//! Source: `link_queue.cc` and the scripts `mm-throughput-graph`, `mm-delay-graph` of Mahimahi's release. A line is `TIME + BYTES` (a
//! packet arrived), `TIME - BYTES DELAY` (it left, after this delay in the link), `TIME # BYTES` (an opportunity) or
//! `TIME d PACKETS BYTES` (dropped); times in milliseconds, from the one that the line `# base timestamp:` gives.

use std::io::BufRead;

use paceline_cc::foreign::{clipped, printable};
use paceline_cc::{Distribution, Nanos};
use paceline_conform::read::FileError;
use paceline_report::logs::{CLASSES, Curve, GREY, LogChart, LogFigure, PlottedLog};

use crate::bins::{Bins, Grid};
use crate::{next_line, unreadable};

/// Longest time in a log, ms (our choice: ten years).
const LONGEST: f64 = 3.2e11;
/// Most bytes or packets of a line.
const MOST: f64 = 1e12;

#[derive(Default)]
struct Link {
    arrived: Bins,
    left: Bins,
    offered: Bins,
    dropped: Bins,
    delay_ms: Bins,
    delays: Option<Distribution>,
    /// The least that it says, of what is below 0.
    below: Option<f64>,
    /// Packets that arrived.
    packets: f64,
    base: f64,
    begun: Option<f64>,
    end: u64,
    about: Vec<String>,
}

pub(crate) fn read(file: &str, mut from: impl BufRead, step: Option<Nanos>) -> Result<PlottedLog, FileError> {
    let mut link = Link::default();
    let mut notes = Vec::new();
    let (mut line, mut number) = (Vec::new(), 0);
    while let Some(ended) = next_line(&mut from, &mut line).map_err(|error| unreadable(file, &error))? {
        number += 1;
        let text = String::from_utf8_lossy(&line);
        if let Err(problem) = link.take(text.trim()) {
            if ended {
                let problem = format!("{problem}; a line is TIME and + - # or d, and bytes, such as '12 # 1504'");
                return Err(FileError::new(file, number, problem));
            }
            notes.push("Its last line is cut off, and left out.".to_owned());
        }
    }
    if link.begun.is_none() {
        return Err(FileError::new(
            file,
            0,
            "no packet and no opportunity in it; give a log of mm-link of a run with packets",
        ));
    }
    Ok(link.finish(file, notes, step))
}

/// What is wrong with a line, whose beginning each has.
#[derive(Debug, thiserror::Error)]
enum BadLine {
    #[error("'{0}' is not an event")]
    NoEvent(String),
    #[error("'{0}' has no time after the log's start")]
    NoTime(String),
    #[error("'{0}' has no bytes")]
    NoBytes(String),
    #[error("'{0}' has no delay")]
    NoDelay(String),
    #[error("'{0}' is not a kind of event")]
    UnknownEvent(String),
}

impl Link {
    fn take(&mut self, line: &str) -> Result<(), BadLine> {
        let shown = || clipped(line);
        if let Some(about) = line.strip_prefix('#') {
            let about = about.trim();
            if let Some(base) = about.strip_prefix("base timestamp:") {
                self.base = base.trim().parse().ok().filter(|base: &f64| base.is_finite()).unwrap_or(0.0);
            } else if about.starts_with("mahimahi") || about.starts_with("queue:") || about.starts_with("command line:")
            {
                self.about.push(printable(about, 200));
            }
            return Ok(());
        }
        if line.is_empty() {
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(time), Some(event)) = (words.next(), words.next()) else {
            return Err(BadLine::NoEvent(shown()));
        };
        let mut number = |most: f64| words.next()?.parse::<f64>().ok().filter(|number| (0.0..=most).contains(number));
        let time = time.parse::<f64>().ok().map(|time| time - self.base).filter(|time| (0.0..=LONGEST).contains(time));
        let time = time.ok_or_else(|| BadLine::NoTime(shown()))?;
        let amount = number(MOST).ok_or_else(|| BadLine::NoBytes(shown()))?;
        let more = words.next().map(|word| word.parse::<f64>().ok().filter(|delay| delay.abs() <= MOST));
        let begun = *self.begun.get_or_insert(time);
        let at = ((time - begun).max(0.0) * 1e6) as u64;
        self.end = self.end.max(at);
        match event {
            "+" => {
                self.packets += 1.0;
                self.arrived.add(at, amount);
            }
            "-" => {
                self.left.add(at, amount);
                // Older logs have none.
                let Some(delay) = more else { return Ok(()) };
                let delay = delay.ok_or_else(|| BadLine::NoDelay(shown()))?.min(LONGEST);
                if delay < 0.0 {
                    self.below = Some(self.below.map_or(delay, |below| below.min(delay)));
                }
                self.delay_ms.add(at, delay);
                let delays = self.delays.get_or_insert_with(|| Distribution::new(3));
                delays.record(Nanos::from_nanos((delay * 1e6) as u64));
            }
            "#" => self.offered.add(at, amount),
            // Older logs have the packets alone.
            "d" => self.dropped.add(at, amount),
            other => return Err(BadLine::UnknownEvent(other.chars().take(20).collect())),
        }
        Ok(())
    }

    fn finish(self, file: &str, mut notes: Vec<String>, step: Option<Nanos>) -> PlottedLog {
        // The last millisecond belongs to it.
        let grid = Grid::new(self.end + 1_000_000, step);
        let mut rates = Vec::new();
        if let Some(offered) = self.offered.any() {
            rates.push(Curve::new("what the link could carry", GREY, offered.rates(grid, 8e-6)));
        }
        rates.push(Curve::new("arrived at it", CLASSES[1], self.arrived.rates(grid, 8e-6)));
        rates.push(Curve::new("left it", CLASSES[0], self.left.rates(grid, 8e-6)));
        let mut charts = vec![LogChart { title: "throughput, Mbit/s", curves: rates }];
        let seconds = grid.seconds();
        let mbps = |bins: &Bins| bins.sum() * 8e-6 / seconds;
        let figure = |what, value| LogFigure::new("", what, value);
        let mut figures = Vec::new();
        if !self.offered.is_empty() {
            figures.push(figure("capacity, Mbit/s", mbps(&self.offered)));
        }
        figures.push(figure("arrived, Mbit/s", mbps(&self.arrived)));
        figures.push(figure("throughput, Mbit/s", mbps(&self.left)));
        if self.offered.sum() > 0.0 {
            figures.push(figure("used, %", 100.0 * self.left.sum() / self.offered.sum()));
        }
        if let Some(below) = self.below {
            notes.push(format!(
                "Its delays are not shown: some are below 0 (down to {below:.1} ms), so that they are of two clocks that differ."
            ));
        } else if let Some(delays) = &self.delays {
            charts.push(LogChart {
                title: "delay in the link, ms",
                curves: vec![
                    Curve::new("mean", CLASSES[0], self.delay_ms.means(grid)),
                    Curve::new("largest", CLASSES[1], self.delay_ms.most(grid)),
                ],
            });
            for (what, q) in [("delay p50, ms", 0.5), ("delay p95, ms", 0.95), ("delay p99, ms", 0.99)] {
                figures.push(figure(what, delays.quantile_ms(q).unwrap_or(0.0)));
            }
        }
        if !self.dropped.is_empty() {
            let dropped = Curve::new("dropped", CLASSES[0], self.dropped.rates(grid, 1.0));
            charts.push(LogChart { title: "dropped, packets/s", curves: vec![dropped] });
        }
        figures.push(figure("dropped, packets", self.dropped.sum()));
        if self.packets > 0.0 {
            figures.push(figure("dropped, %", 100.0 * self.dropped.sum() / self.packets));
        }
        notes.extend(self.about);
        let file = file.to_owned();
        PlottedLog { file, kind: "packet log of a link", notes, seconds, step_s: grid.step_s(), figures, charts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_two_clocks_are_not_shown() {
        let text = LOG.replace("1001 - 1500 1", "1001 - 1500 -3.5");
        let log = read("t", text.as_bytes(), None).unwrap();
        assert!(log.figures.iter().all(|figure| !figure.what.starts_with("delay")));
        assert!(log.notes.iter().any(|note| note.contains("below 0 (down to -3.5 ms)")), "{:?}", log.notes);
    }

    const LOG: &str = "# mahimahi mm-link (downlink) [some.trace] > log\n# queue: infinite\n# base timestamp: 1000\n\
                       1000 + 1500\n1000 # 1500\n1001 - 1500 1\n1500 + 1500\n1500 d 1 1500\n1999 # 3000\n";

    fn value(log: &PlottedLog, what: &str) -> f64 {
        log.figures.iter().find(|figure| figure.what == what).unwrap().value
    }

    #[test]
    fn a_log_gives_rates_delays_and_losses() {
        let log = read("m", LOG.as_bytes(), Some(Nanos::from_millis(100))).unwrap();
        assert!((log.seconds - 1.0).abs() < 1e-9 && log.charts.len() == 3, "{log:?}");
        assert!((value(&log, "capacity, Mbit/s") - 0.036).abs() < 1e-9);
        assert!((value(&log, "used, %") - 33.333).abs() < 0.01);
        assert_eq!((value(&log, "delay p95, ms"), value(&log, "dropped, %")), (1.0, 50.0));
        assert_eq!(log.charts[0].curves[2].points.len(), 10);
        assert!(log.notes[0].starts_with("mahimahi mm-link (downlink)"));
    }

    #[test]
    fn nothing_dropped_is_zero() {
        let log = read("m", &b"# mahimahi mm-link\n1 # 1500\n1 + 1500\n2 - 1500 1\n"[..], None).unwrap();
        let dropped = ["dropped, packets", "dropped, %"].map(|what| value(&log, what));
        assert_eq!(dropped.map(|value| format!("{value}")), ["0", "0"]);
    }

    #[test]
    fn a_cut_line_is_said_and_a_wrong_one_is_refused() {
        let cut = format!("{LOG}2000 - 15");
        assert!(read("m", cut.as_bytes(), None).unwrap().notes.iter().all(|note| !note.contains("cut off")));
        let cut = format!("{LOG}2000 -");
        assert!(read("m", cut.as_bytes(), None).unwrap().notes.iter().any(|note| note.contains("cut off")));
        let wrong = format!("{LOG}2000 x 15\n");
        let line = read("m", wrong.as_bytes(), None).unwrap_err().to_string();
        assert!(line.starts_with("m:10: 'x' is not a kind of event; a line is"), "{line}");
        assert!(read("m", &b"# mahimahi mm-link\n"[..], None).unwrap_err().to_string().starts_with("m: no packet"));
    }
}
