//! Traces from and to tables of rate steps.
//!
//! A table is text, `seconds,mbps` a line: from that second on that many Mbit/s, until the time of the next line. The
//! first line is at second 0; the last is the end of the lap, and its rate is not used (write 0). A header line
//! `seconds,mbps` may come first.

use std::io::{self, Read, Write};

use paceline_cc::foreign::clipped;
use paceline_cc::{Nanos, Rate, Time};

use crate::import::{cells, number, wrong};
use crate::info::per_bin;
use crate::trace::{OPPORTUNITY, Trace, TraceError};

/// Most opportunities that a table may come to (our choice, as for synthetic traces).
pub(crate) const MOST: u64 = 64_000_000;

/// Why a table of rate steps was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A line that does not say what it should.
    #[error("{name}:{line}: {problem}; {fix}")]
    Line {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// What was wrong.
        problem: String,
        /// What to write instead.
        fix: &'static str,
    },
    /// The trace that comes out would not be one.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The reader failed.
    #[error("{name}: {reason}")]
    Read {
        /// The file.
        name: String,
        /// What the reader said.
        reason: io::Error,
    },
}

/// Reads a table of rate steps and makes the trace that carries as much: an opportunity at the millisecond by which
/// the rate has summed up to the next 1500 bytes. The end of the lap always has one.
pub fn from_table(name: &str, input: impl Read) -> Result<Trace, TableError> {
    let (steps, end) = read_steps(name, input)?;
    from_steps(name, &steps, end, steps.len() as u64 + 1)
}

/// The trace that carries as much as these rates, up to `end`; `last` is the line that an error names.
pub(crate) fn from_steps(name: &str, steps: &[(Time, Rate)], end: Time, last: u64) -> Result<Trace, TableError> {
    let millis = end.as_nanos() / 1_000_000;
    // Work is counted in bytes times nanoseconds a second, in which a step is exact.
    let size = u128::from(OPPORTUNITY) * 1_000_000_000;
    let ends = steps.iter().skip(1).map(|(start, _)| *start).chain([end]);
    let spans = steps.iter().zip(ends).map(|(&(start, rate), end)| (start, u128::from(rate.as_bytes_per_sec()), end));
    let done = |rate: u128, start: Time, end: Time| rate * u128::from((end - start).as_nanos());
    if spans.clone().map(|(start, rate, end)| done(rate, start, end)).sum::<u128>() / size > u128::from(MOST) {
        let (name, problem) = (name.to_owned(), "more than 64 million opportunities".to_owned());
        return Err(TableError::Line { name, line: last, problem, fix: "lower the rates or the time" });
    }
    let mut times: Vec<u32> = Vec::new();
    let (mut before, mut due) = (0, size);
    for (start, rate, end) in spans {
        let after = before + done(rate, start, end);
        while due <= after {
            let nanos = start.as_nanos() + (due - before).div_ceil(rate) as u64;
            times.push(nanos.div_ceil(1_000_000) as u32);
            due += size;
        }
        before = after;
    }
    // What the last part of a millisecond completes comes after the end.
    times.truncate(times.partition_point(|time| u64::from(*time) <= millis));
    if times.last().is_none_or(|time| u64::from(*time) < millis) {
        times.push(millis as u32);
    }
    Ok(Trace::from_millis(name, times)?)
}

fn read_steps(name: &str, input: impl Read) -> Result<(Vec<(Time, Rate)>, Time), TableError> {
    let form = "write seconds,mbps such as 10,24.5";
    let mut steps: Vec<(Time, Rate)> = Vec::new();
    let mut first = true;
    let line = cells(name, input, |_, cells| {
        if std::mem::take(&mut first) && *cells == ["seconds", "mbps"] {
            return Ok(());
        }
        let [Ok(seconds), Ok(mbps)] = [0, 1].map(|place| number(cells, place)) else {
            return wrong(format!("'{}' is not a time and a rate", clipped(&cells.join(","))), form);
        };
        if cells.len() > 2 {
            return wrong(format!("'{}' is more than a time and a rate", clipped(&cells.join(","))), form);
        }
        if !(0.0..=4e6).contains(&seconds) {
            return wrong(format!("{seconds} is not a time"), "give seconds from 0 to 4000000");
        }
        if !(0.0..=1e6).contains(&mbps) {
            return wrong(format!("{mbps} is not a rate"), "give Mbit/s from 0 to 1000000");
        }
        let start = Time::from_secs_f64(seconds);
        match steps.last() {
            None if start != Time::ZERO => return wrong("the first line is not at second 0".to_owned(), form),
            Some((before, _)) if start <= *before => {
                return wrong(format!("second {seconds} does not come after the line before"), "sort the lines");
            }
            _ => steps.push((start, Rate::from_mbps(mbps))),
        }
        Ok(())
    })?;
    let end = steps.pop();
    match end {
        Some((end, _)) if !steps.is_empty() && end >= Time::from_millis(1) => Ok((steps, end)),
        _ => {
            let (name, problem) = (name.to_owned(), "the table has no length".to_owned());
            let fix = "give at least two lines: 0,RATE and END,0";
            Err(TableError::Line { name, line: line.max(1), problem, fix })
        }
    }
}

/// Writes a trace as a table of rate steps, one for each `bin` of time.
pub fn to_table(trace: &Trace, bin: Nanos, mut out: impl Write) -> io::Result<()> {
    let bin = bin.max(Nanos::from_millis(1));
    writeln!(out, "seconds,mbps")?;
    let mut start = Nanos::ZERO;
    for count in per_bin(trace, bin) {
        let span = bin.min(trace.lap() - start);
        let mbps = count as f64 * f64::from(OPPORTUNITY) * 8e-6 / span.as_secs_f64();
        writeln!(out, "{},{mbps:.6}", start.as_secs_f64())?;
        start += bin;
    }
    writeln!(out, "{},0", trace.lap().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    #[test]
    fn a_table_becomes_a_trace() {
        // 12 Mbit/s is one opportunity a ms; 6 every second one; then silence up to the end.
        let trace = from_table("t", "seconds,mbps\n0,12\n0.003,6\r\n0.008,0\n0.010,0\n".as_bytes()).expect("valid");
        assert_eq!(trace.millis(), [1, 2, 3, 5, 7, 10]);
    }

    #[test]
    fn each_opportunity_comes_at_the_first_millisecond_that_can_have_it() {
        let long = from_table("t", "0,0\n4000000,0".as_bytes()).expect("valid");
        assert_eq!(long.millis(), [4_000_000_000]);
        let steps =
            [(0.0, 0.3), (0.0105, 900.0), (0.0108, 0.0), (0.0109, 7.7), (1.5, 0.011), (4.00049, 50.0), (4.3, 0.0)];
        let end = 9.0;
        let lines: String = steps.iter().map(|(start, mbps)| format!("{start},{mbps}\n")).collect();
        let trace = from_table("t", format!("{lines}{end},0").as_bytes()).expect("valid");
        let rates: Vec<(Time, Rate)> =
            steps.iter().map(|(start, mbps)| (Time::from_secs_f64(*start), Rate::from_mbps(*mbps))).collect();
        let schedule = Schedule::steps(&rates, None);
        let mut times = Vec::new();
        for milli in 1..=9000 {
            let due = schedule.capacity(Time::ZERO, Time::from_millis(milli)) / u64::from(OPPORTUNITY);
            times.resize(due as usize, milli as u32);
        }
        times.push(9000);
        assert_eq!(trace.millis(), times);
    }

    #[test]
    fn there_and_back_keeps_the_rates() {
        let table = "seconds,mbps\n0,12.000000\n1,24.000000\n2,0.012000\n3,0\n";
        let trace = from_table("t", table.as_bytes()).expect("valid");
        let mut back = Vec::new();
        to_table(&trace, Nanos::from_secs(1), &mut back).expect("a Vec takes it");
        let back = String::from_utf8(back).expect("text");
        assert_eq!(back, table);
    }

    #[test]
    fn errors_name_the_line_and_the_fix() {
        let error = |text: &str| from_table("t.csv", text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("0,1\nx,2\n"), "t.csv:2: 'x,2' is not a time and a rate; write seconds,mbps such as 10,24.5");
        assert_eq!(error("0,1\n2,1\n1,1\n"), "t.csv:3: second 1 does not come after the line before; sort the lines");
        assert_eq!(error("0,-1\n1,0\n"), "t.csv:1: -1 is not a rate; give Mbit/s from 0 to 1000000");
        assert!(error("").starts_with("t.csv:1: the table has no length"));
        assert!(error("0,1\n").starts_with("t.csv:1: the table has no length"));
        assert!(error("1,1\n2,0\n").starts_with("t.csv:1: the first line is not at second 0"));
        assert!(error("0,1000000\n4000000,0\n").contains("64 million"));
    }
}
