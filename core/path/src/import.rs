//! Traces from what others wrote: logs of links, and tables with names over their columns.
//!
//! A *log* has an event a line, as Mahimahi's links (`mm-link --uplink-log`) and the tunnels of Pantheon (Yan et al., USENIX
//! ATC 2018) write it: a time in milliseconds, then `+` (a packet came), `-` (it left), `#` (an opportunity) or `d` (dropped), then
//! bytes. Lines that begin with `#` are about the log.

use std::io::{self, BufRead, Read};

use paceline_cc::foreign::clipped;
use paceline_cc::{Rate, Time};

use crate::convert::{MOST, TableError, from_steps};
use crate::trace::{OPPORTUNITY, Trace};

/// Bytes that Mahimahi writes for an opportunity: 1500, and 4 of its tunnel's header (`link_queue.cc`).
const LOGGED: f64 = 1504.0;

/// What is wrong with a line.
pub(crate) struct Wrong {
    pub(crate) problem: String,
    pub(crate) fix: &'static str,
}

pub(crate) fn wrong<T>(problem: impl Into<String>, fix: &'static str) -> Result<T, Wrong> {
    Err(Wrong { problem: problem.into(), fix })
}

/// Reads lines in UTF-8 with their numbers.
fn lines(
    name: &str,
    input: impl BufRead,
    mut each: impl FnMut(u64, &str) -> Result<(), Wrong>,
) -> Result<u64, TableError> {
    let mut line = 0;
    for text in input.split(b'\n') {
        let text = text.map_err(|reason| TableError::Read { name: name.to_owned(), reason })?;
        line += 1;
        let text = String::from_utf8_lossy(&text);
        let text = text.trim();
        if text.contains(|c: char| c.is_ascii_control() && c != '\t' && c != '\r') {
            let problem = "not a text file".to_owned();
            return Err(TableError::Line { name: name.to_owned(), line, problem, fix: "give the log of a link" });
        }
        if text.contains('\r') {
            let (name, problem) = (name.to_owned(), "its lines end in carriage returns alone".to_owned());
            return Err(TableError::Line {
                name,
                line,
                problem,
                fix: "turn them into line feeds: tr '\\r' '\\n' < FILE",
            });
        }
        each(line, text).map_err(|Wrong { problem, fix }| TableError::Line {
            name: name.to_owned(),
            line,
            problem,
            fix,
        })?;
    }
    Ok(line.max(1))
}

/// Reads lines of a table in CSV (RFC 4180) as their cells, with the number of the line that each begins in. Empty lines are left out.
pub(crate) fn cells(
    name: &str,
    input: impl Read,
    mut each: impl FnMut(u64, &[String]) -> Result<(), Wrong>,
) -> Result<u64, TableError> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
    let (mut record, mut line) = (csv::ByteRecord::new(), 1);
    loop {
        let read = reader.read_byte_record(&mut record).map_err(|error| {
            let reason = io::Error::other(error.to_string());
            TableError::Read {
                name: name.to_owned(),
                reason: match error.into_kind() {
                    csv::ErrorKind::Io(error) => error,
                    _ => reason,
                },
            }
        })?;
        if !read {
            return Ok(line);
        }
        line = record.position().map_or(line, csv::Position::line);
        let cells: Vec<String> = record.iter().map(|cell| String::from_utf8_lossy(cell).trim().to_owned()).collect();
        if cells.iter().all(String::is_empty) {
            continue;
        }
        each(line, &cells).map_err(|Wrong { problem, fix }| TableError::Line {
            name: name.to_owned(),
            line,
            problem,
            fix,
        })?;
    }
}

/// The number in a cell.
pub(crate) fn number(cells: &[String], place: usize) -> Result<f64, Wrong> {
    let text = cells.get(place).map(String::as_str).unwrap_or_default();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ if text.contains(',') && text.bytes().all(|byte| byte.is_ascii_digit() || b".,-+ ".contains(&byte)) => wrong(
            format!("'{}' has a comma", clipped(text)),
            "write numbers with a point and nothing between thousands, such as 1250.5",
        ),
        _ => {
            wrong(format!("'{}' lacks a number", clipped(&cells.join(","))), "give a time and an amount in every line")
        }
    }
}

/// Makes a trace of a link's log: of its opportunities; where it has none, of what left, which is no more than what the
/// sender asked for. Its times begin at the first event.
///
/// # Errors
/// The first line that is not an event, and a log without opportunities and departures.
pub fn from_log(name: &str, input: impl BufRead) -> Result<Trace, TableError> {
    const FORM: &str = "an event is TIME and + - # or d, and bytes, such as '12 # 1504'";
    let (mut first, mut last): (Option<f64>, f64) = (None, 0.0);
    let (mut opportunities, mut departures): (Vec<f64>, Vec<f64>) = Default::default();
    let mut left = 0.0;
    let all = lines(name, input, |_, text| {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let mut fields = text.split_whitespace();
        let time = fields.next().and_then(|time| time.parse::<f64>().ok()).filter(|time| time.is_finite());
        let (Some(time), Some(event)) = (time, fields.next()) else {
            return wrong(format!("'{}' is not an event", clipped(text)), FORM);
        };
        if !matches!(event, "+" | "-" | "#" | "d") {
            return wrong(format!("'{}' is not a kind of event", clipped(event)), FORM);
        }
        let bytes = fields.next().and_then(|bytes| bytes.parse::<f64>().ok());
        let Some(bytes) = bytes.filter(|bytes| (0.0..=1e9).contains(bytes)) else {
            return wrong(format!("'{}' has no bytes", clipped(text)), FORM);
        };
        let zero = *first.get_or_insert(time);
        if time < zero + last {
            return wrong(format!("{time} comes after {}", zero + last), "times must not decrease, sort the lines");
        }
        last = time - zero;
        if last > f64::from(u32::MAX) {
            return wrong(format!("{last} ms after the first event is too long"), "cut the log at 49 days");
        }
        let (times, count) = match event {
            "#" => (&mut opportunities, (bytes / LOGGED).round().max(1.0)),
            "-" => {
                left += bytes;
                let whole = (left / f64::from(OPPORTUNITY)).floor();
                left -= whole * f64::from(OPPORTUNITY);
                (&mut departures, whole)
            }
            _ => return Ok(()),
        };
        if (times.len() as f64 + count) as u64 > MOST {
            return wrong("more than 64 million opportunities", "cut the log");
        }
        times.extend(std::iter::repeat_n(last, count as usize));
        Ok(())
    })?;
    let times = if opportunities.is_empty() { departures } else { opportunities };
    if times.is_empty() {
        let problem = "neither an opportunity (#) nor a departure (-) in it".to_owned();
        return Err(TableError::Line { name: name.to_owned(), line: all, problem, fix: FORM });
    }
    let mut millis: Vec<u32> = times.into_iter().map(|time| time as u32).collect();
    // The lap ends with the log.
    if millis.last().is_none_or(|end| f64::from(*end) < last.floor() || *end == 0) {
        millis.push((last as u32).max(1));
    }
    Ok(Trace::from_millis(name, millis)?)
}

/// What a column of a table holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// A rate from this line's time on; a number times this many bit/s.
    Rate(f64),
    /// Bytes that were carried since the line before.
    Bytes,
}

/// Which columns of a table count.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// Name of the column of times.
    pub time: String,
    /// A time's unit in seconds.
    pub unit: f64,
    /// Name of the column of amounts.
    pub amount: String,
    /// What it holds.
    pub holds: Amount,
}

/// Makes a trace of a table in CSV whose first line names the columns. Time begins at the first line. A rate of the last line
/// holds as long as that of the line before; bytes of the first line, of which it is not known since when, are left out.
///
/// # Errors
/// A column that is not there, and the first line that does not say what it should.
pub fn from_columns(name: &str, input: impl Read, columns: &Columns) -> Result<Trace, TableError> {
    let mut places: Option<(usize, usize)> = None;
    let mut rows: Vec<(f64, f64)> = Vec::new();
    let mut width = 0;
    let last = cells(name, input, |_, cells| {
        let Some((time, amount)) = places else {
            let place = |wanted: &str| cells.iter().position(|cell| cell == wanted);
            for wanted in [&columns.time, &columns.amount] {
                if place(wanted).is_none() {
                    let all = cells.join(",");
                    let fix = match (cells, all.contains([';', '\t'])) {
                        ([_], true) => "separate the cells by commas",
                        _ => "name columns of the first line with --time and --rate or --bytes",
                    };
                    return wrong(format!("no column '{}' among {}", clipped(wanted), clipped(&all)), fix);
                }
            }
            places = place(&columns.time).zip(place(&columns.amount));
            width = cells.len();
            return Ok(());
        };
        if cells.len() > width {
            let problem = format!("it has {} cells, and the first line {width}", cells.len());
            return wrong(problem, "put a cell that has a comma in quotes, without a space before them");
        }
        let [time, amount] = [time, amount].map(|place| number(cells, place));
        let (time, amount) = (time? * columns.unit, amount?);
        if amount < 0.0 {
            return wrong(format!("{amount} is below 0"), "give amounts from 0 on");
        }
        match rows.last_mut() {
            Some((before, _)) if time < *before => {
                return wrong("its time is before that of the line above", "sort the lines");
            }
            Some((before, sum)) if time == *before => match columns.holds {
                Amount::Bytes => *sum += amount,
                Amount::Rate(_) => return wrong("its time is that of the line above", "keep one of the two"),
            },
            _ => rows.push((time, amount)),
        }
        Ok(())
    })?;
    let refuse = |problem: &str, fix| {
        Err(TableError::Line { name: name.to_owned(), line: last, problem: problem.to_owned(), fix })
    };
    let [(zero, _), .., (before, _), (end, _)] = rows.as_slice() else {
        return refuse("fewer than three lines of numbers", "give at least three");
    };
    let at = |time: f64| Time::from_secs_f64(time - zero);
    let over = match columns.holds {
        Amount::Rate(_) => end + (end - before),
        Amount::Bytes => *end,
    };
    if over - zero > 4e6 || at(over) < Time::from_millis(1) {
        return refuse("it lasts less than 1 ms, or more than 4000000 s", "say the unit of its times with --time-unit");
    }
    let rate = |bytes_a_second: f64| Rate::from_bytes_per_sec(bytes_a_second.min(1e12).round() as u64);
    let steps: Vec<(Time, Rate)> = match columns.holds {
        Amount::Rate(bits) => rows.iter().map(|(time, amount)| (at(*time), rate(amount * bits / 8.0))).collect(),
        Amount::Bytes => {
            let spans = rows.windows(2);
            spans.map(|pair| (at(pair[0].0), rate(pair[1].1 / (pair[1].0 - pair[0].0)))).collect()
        }
    };
    // Lines that are less than a nanosecond apart are of one time.
    let mut kept: Vec<(Time, Rate)> = Vec::new();
    for step in steps {
        if kept.last().is_none_or(|(before, _)| *before < step.0) {
            kept.push(step);
        }
    }
    from_steps(name, &kept, at(over), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opportunities_of_a_log_are_the_trace() {
        let log = "# mahimahi mm-link\n# base timestamp: 100\n100 # 1504\n102 + 300\n102 # 1504\n102 # 3008\n103 - 300 1\n104 d 1 1500\n110 # 1504\n";
        assert_eq!(from_log("t", log.as_bytes()).unwrap().millis(), [0, 2, 2, 2, 10]);
        let tunnel = "# init timestamp: 1\n5.250 + 1000 1\n7.5 - 1000 2.25 1\n9.75 - 1000 2.25 1\n30.0 - 1000 2.0 1\n";
        assert_eq!(from_log("t", tunnel.as_bytes()).unwrap().millis(), [4, 24]);
    }

    #[test]
    fn tables_become_the_rates_they_hold() {
        let columns = |amount: &str, holds| Columns { time: "ms".into(), unit: 1e-3, amount: amount.into(), holds };
        let rates = "cell,ms,kbps\na,1000,12000\na,1005,6000\na,1009,0\n";
        let trace = from_columns("t", rates.as_bytes(), &columns("kbps", Amount::Rate(1e3))).unwrap();
        assert_eq!(trace.millis(), [1, 2, 3, 4, 5, 7, 9, 13]);
        let bytes = "ms,bytes\n0,99\n2,3000\n4,1500\n4,1500\n6,0\n";
        let trace = from_columns("t", bytes.as_bytes(), &columns("bytes", Amount::Bytes)).unwrap();
        assert_eq!(trace.millis(), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn cells_in_quotes_are_cells() {
        let columns = Columns { time: "time".into(), unit: 1.0, amount: "mbps".into(), holds: Amount::Rate(1e6) };
        let mean = |table: &str| {
            from_columns("t", table.as_bytes(), &columns)
                .map(|trace| trace.mean_rate().as_mbps().round())
                .map_err(|error| error.to_string())
        };
        for table in [
            "time,position,mbps\n0,\"51.03,3.73\",12\n1,\"51.04,3.74\",24\n2,\"51.05,3.75\",6\n",
            "time,note,mbps\n0,\"a\nb\",12\n1,\"c\",24\n2,\"d\",6\n",
            "time,note,mbps\r\n0,\"a \"\"x\"\", b\",12\r\n1,\"c\",24\r\n\r\n2,\"d\",6",
            "\"time\",\"mbps\"\r0,12\r1,\"24\"\r2,6\r",
        ] {
            assert_eq!(mean(table), Ok(14.0), "{table}");
        }
        let refused = |table: &str, why: &str| {
            assert!(mean(table).is_err_and(|error| error.starts_with(why)), "{:?}", mean(table));
        };
        refused("time,mbps\n0,\"12,5\"\n", "t:2: '12,5' has a comma; write numbers with a point");
        refused("time,mbps\n0,1\n1,\"1,200.5\"\n", "t:3: '1,200.5' has a comma");
        refused("time,mbps\n0,12,5\n", "t:2: it has 3 cells, and the first line 2; put a cell");
        refused("time;mbps\n0;12,5\n", "t:1: no column 'time' among time;mbps; separate the cells by commas");
    }

    #[test]
    fn errors_name_the_line_and_the_fix() {
        let log = |text: &str| from_log("t.log", text.as_bytes()).unwrap_err().to_string();
        assert!(log("1 # 1504\nx\n").starts_with("t.log:2: 'x' is not an event; an event is TIME and"));
        assert!(log("1 # 1504\n2 ? 3\n").starts_with("t.log:2: '?' is not a kind of event"));
        assert!(log("5 # 1504\n3 # 1504\n").starts_with("t.log:2: 3 comes after 5"));
        assert!(log("\r\u{1}\r\n").starts_with("t.log:1: not a text file; give the log of a link"));
        assert!(log("1\r2\n").starts_with("t.log:1: its lines end in carriage returns alone"));
        assert!(log("# nothing\n").starts_with("t.log:1: neither an opportunity (#) nor"));
        let columns = Columns { time: "t".into(), unit: 1.0, amount: "mbps".into(), holds: Amount::Rate(1e6) };
        let table = |text: &str| from_columns("t.csv", text.as_bytes(), &columns).unwrap_err().to_string();
        assert!(table("time,mbps\n").starts_with("t.csv:1: no column 't' among time,mbps; name columns"));
        assert!(table("t,mbps\n0,1\n1,\n").starts_with("t.csv:3: '1,' lacks a number"));
        assert!(table("t,mbps\n0,1\n2,1\n1,1\n").starts_with("t.csv:4: its time is before that of the line above"));
        assert!(table("t,mbps\n0,1\n").starts_with("t.csv:2: fewer than three lines"));
    }
}
