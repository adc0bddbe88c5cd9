//! Traces of delivery opportunities in the Mahimahi format.
//!
//! Plain text, one whole number a line: the time of an opportunity in milliseconds from the start of the lap, never
//! decreasing. Each opportunity carries up to 1500 bytes. After the last the trace starts over, so that the last
//! number is the length of a lap. Source: Netravali et al., "Mahimahi", USENIX ATC 2015, and its manual page
//! `mm-link(1)`. Its code counts 1504 bytes, 4 of them the header of its tunnel; here there is none.

use std::fmt;
use std::io::{self, BufRead, Write};

use paceline_cc::foreign::clipped;
use paceline_cc::{Nanos, Rate, Time};

/// Bytes that one delivery opportunity carries.
pub const OPPORTUNITY: u32 = 1500;

/// Longest line that could be right, with room for spaces; the rest of a longer one is not looked at.
const LINE_MAX: usize = 64;

/// A trace, in memory at four bytes an opportunity. Share it between runs in an `Arc`.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    name: String,
    /// Milliseconds, never decreasing, the last above 0.
    times: Vec<u32>,
}

/// Why a trace was refused: the file, the line, what was wrong, and how to fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// No opportunity at all.
    #[error("{name}: the trace is empty; it needs one number of milliseconds a line")]
    Empty {
        /// The file.
        name: String,
    },
    /// Bytes that no text has.
    #[error("{name}:{line}: not a text file; a trace has one number of milliseconds a line (is it compressed?)")]
    Binary {
        /// The file.
        name: String,
        /// The line.
        line: u64,
    },
    /// Something else than a whole number.
    #[error("{name}:{line}: '{text}' is not a whole number of milliseconds; one such number a line")]
    NotANumber {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The line's text, clipped.
        text: String,
    },
    /// Carriage returns where line feeds have to be.
    #[error("{name}:{line}: its lines end in carriage returns alone; turn them into line feeds: tr '\\r' '\\n' < FILE")]
    CarriageReturns {
        /// The file.
        name: String,
        /// The line.
        line: u64,
    },
    /// A blank line that is not the last.
    #[error("{name}:{line}: a blank line within the trace; take it out")]
    Blank {
        /// The file.
        name: String,
        /// The line.
        line: u64,
    },
    /// A number above [`u32::MAX`].
    #[error("{name}:{line}: {text} ms is too long for a trace; at most {max} ms (49 days)", max = u32::MAX)]
    TooLarge {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The number, clipped.
        text: String,
    },
    /// A number below the one before.
    #[error("{name}:{line}: {value} ms comes after {previous} ms; times must not decrease, sort the lines")]
    Decreasing {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The number.
        value: u32,
        /// The number of the line before.
        previous: u32,
    },
    /// A lap of no length.
    #[error("{name}:{line}: the trace ends at 0 ms, so that a lap has no length; the last number must be above 0")]
    EndsAtZero {
        /// The file.
        name: String,
        /// The line.
        line: u64,
    },
    /// The reader failed.
    #[error("{name}:{line}: {source}")]
    Read {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// What the reader said.
        source: io::Error,
    },
}

/// Where a link is in a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    lap: u64,
    index: usize,
}

impl Trace {
    /// Reads a trace to its end, a line at a time. `name` is for error messages.
    ///
    /// Windows line ends, spaces around a number, a missing last line end and one blank last line are accepted.
    pub fn read(name: &str, mut input: impl BufRead) -> Result<Self, TraceError> {
        let mut parser = Parser { name, line: 1, text: Vec::with_capacity(LINE_MAX), blank: None, times: Vec::new() };
        loop {
            let chunk = match input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(TraceError::Read { name: name.to_owned(), line: parser.line, source }),
            };
            if chunk.is_empty() {
                break;
            }
            for byte in chunk {
                parser.byte(*byte)?;
            }
            let length = chunk.len();
            input.consume(length);
        }
        parser.finish()
    }

    /// A trace of these times in milliseconds; the same rules as for a file, line numbers counting from 1.
    pub fn from_millis(name: &str, times: Vec<u32>) -> Result<Self, TraceError> {
        if let Some(index) = times.windows(2).position(|pair| pair[1] < pair[0]) {
            let (previous, value) = (times[index], times[index + 1]);
            return Err(TraceError::Decreasing { name: name.to_owned(), line: index as u64 + 2, value, previous });
        }
        match times.last() {
            None => Err(TraceError::Empty { name: name.to_owned() }),
            Some(0) => Err(TraceError::EndsAtZero { name: name.to_owned(), line: times.len() as u64 }),
            Some(_) => Ok(Self { name: name.to_owned(), times }),
        }
    }

    /// A trace of times that are known to be right.
    pub(crate) fn from_sorted(name: &str, times: Vec<u32>) -> Self {
        debug_assert!(times.is_sorted() && times.last().is_some_and(|last| *last > 0));
        Self { name: name.to_owned(), times }
    }

    /// The same lap from another place in it on: the last opportunity that is no later than `start`, whole laps taken off.
    #[must_use]
    pub fn starting(&self, start: Nanos) -> Self {
        let lap = self.lap_millis();
        let within = start.as_nanos() / 1_000_000 % lap;
        let first = self.times.partition_point(|time| u64::from(*time) <= within);
        let Some(zero) = first.checked_sub(1).map(|before| self.times[before]) else { return self.clone() };
        let (before, after) = self.times.split_at(first);
        let last = self.times.last().copied().unwrap_or_default();
        let shifted = after.iter().map(|time| time - zero).chain(before.iter().map(|time| time + (last - zero)));
        Self { name: self.name.clone(), times: shifted.collect() }
    }

    /// Writes the trace, one number per line.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        self.times.iter().try_for_each(|time| writeln!(out, "{time}"))
    }

    /// The name under which it was read.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Times of the opportunities of one lap in milliseconds.
    pub fn millis(&self) -> &[u32] {
        &self.times
    }

    /// Length of a lap.
    pub fn lap(&self) -> Nanos {
        Nanos::from_millis(self.lap_millis())
    }

    /// Mean rate over a lap, 1500 bytes an opportunity.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_bytes_in(self.times.len() as u64 * u64::from(OPPORTUNITY), self.lap())
    }

    fn lap_millis(&self) -> u64 {
        self.times.last().map_or(1, |last| u64::from(*last))
    }

    /// Opportunities before `end`, from the start of the first lap on.
    pub(crate) fn opportunities_before(&self, end: Time) -> u64 {
        let Some(last) = end.as_nanos().div_ceil(1_000_000).checked_sub(1) else { return 0 };
        let within = self.times.partition_point(|time| u64::from(*time) <= last % self.lap_millis());
        (last / self.lap_millis()) * self.times.len() as u64 + within as u64
    }

    /// Moves to the first opportunity after `now` and gives its time.
    pub(crate) fn seek(&self, cursor: &mut Cursor, now: Time) -> Time {
        let millis = now.as_nanos() / 1_000_000;
        cursor.lap = millis / self.lap_millis();
        let within = millis % self.lap_millis();
        // Mostly it is one of the next few.
        let ahead = self.times.get(cursor.index..).unwrap_or_default();
        let behind = cursor.index > 0 && u64::from(self.times[cursor.index - 1]) > within;
        cursor.index = match ahead.iter().take(8).position(|time| u64::from(*time) > within) {
            Some(near) if !behind => cursor.index + near,
            _ => self.times.partition_point(|time| u64::from(*time) <= within),
        };
        self.at(*cursor)
    }

    /// Moves to the next opportunity and gives its time.
    pub(crate) fn step(&self, cursor: &mut Cursor) -> Time {
        cursor.index += 1;
        if cursor.index >= self.times.len() {
            *cursor = Cursor { lap: cursor.lap + 1, index: 0 };
        }
        self.at(*cursor)
    }

    fn at(&self, cursor: Cursor) -> Time {
        Time::from_millis(cursor.lap * self.lap_millis() + u64::from(self.times[cursor.index]))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({}, {} opportunities in {} ms)", self.name, self.times.len(), self.lap_millis())
    }
}

struct Parser<'a> {
    name: &'a str,
    line: u64,
    text: Vec<u8>,
    /// The line of a blank line, right only as the last.
    blank: Option<u64>,
    times: Vec<u32>,
}

impl Parser<'_> {
    fn byte(&mut self, byte: u8) -> Result<(), TraceError> {
        match byte {
            b'\n' => {
                self.end_of_line()?;
                self.line += 1;
                self.text.clear();
            }
            b'\t' | b'\r' | b' '..=b'~' | 0x80.. => {
                if self.text.len() < LINE_MAX {
                    self.text.push(byte);
                }
            }
            _ => return Err(TraceError::Binary { name: self.name.to_owned(), line: self.line }),
        }
        Ok(())
    }

    fn end_of_line(&mut self) -> Result<(), TraceError> {
        let name = || self.name.to_owned();
        let (line, previous) = (self.line, self.times.last().copied());
        let Ok(text) = str::from_utf8(&self.text) else {
            return Err(TraceError::Binary { name: name(), line });
        };
        let text = text.trim();
        if let Some(line) = self.blank {
            return Err(TraceError::Blank { name: name(), line });
        }
        if text.is_empty() {
            self.blank = Some(line);
            return Ok(());
        }
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'\r') && text.contains('\r') {
            return Err(TraceError::CarriageReturns { name: name(), line });
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(TraceError::NotANumber { name: name(), line, text: clipped(text) });
        }
        let Ok(value) = text.parse() else {
            return Err(TraceError::TooLarge { name: name(), line, text: clipped(text) });
        };
        match previous {
            Some(previous) if value < previous => Err(TraceError::Decreasing { name: name(), line, value, previous }),
            _ => {
                self.times.push(value);
                Ok(())
            }
        }
    }

    fn finish(mut self) -> Result<Trace, TraceError> {
        if !self.text.is_empty() {
            self.end_of_line()?;
        }
        Trace::from_millis(self.name, self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_of_carriage_returns_alone_are_named() {
        let error = Trace::read("t", &b"1\r2\r3\r"[..]).unwrap_err().to_string();
        assert!(error.starts_with("t:1: its lines end in carriage returns alone; turn them into"), "{error}");
    }

    #[test]
    fn an_error_carries_no_control_characters() {
        let error = Trace::read("t", &b"1\r\n2\r\n2\r'"[..]).unwrap_err();
        assert_eq!(error.to_string(), "t:3: '2 '' is not a whole number of milliseconds; one such number a line");
    }

    #[test]
    fn a_trace_that_starts_elsewhere_is_the_same_lap() {
        let trace = Trace::from_millis("t", vec![2, 5, 5, 9, 20]).unwrap();
        let starting = |ms: u64| trace.starting(Nanos::from_millis(ms)).times;
        assert_eq!((starting(0), starting(1)), (trace.times.clone(), trace.times.clone()), "nothing is before");
        assert_eq!((starting(5), starting(8), starting(28)), (vec![4, 15, 17, 20, 20], starting(5), starting(5)));
        assert_eq!(starting(9), [11, 13, 16, 16, 20]);
    }

    fn read(text: &[u8]) -> Result<Trace, String> {
        Trace::read("t.down", text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_people_have_is_read() {
        let wanted = Ok(Trace { name: "t.down".to_owned(), times: vec![0, 5, 5, 10] });
        for text in ["0\n5\n5\n10\n", "0\r\n5\r\n5\r\n10\r\n", "0\n5\n5\n10", "0\n5\n5\n10\n\n", " 0\n5 \n\t5\n0010\n"]
        {
            assert_eq!(read(text.as_bytes()), wanted, "{text:?}");
        }
        // However the reader cuts it.
        let cut = io::BufReader::with_capacity(1, "0\n5\n5\n10\n".as_bytes());
        assert_eq!(Trace::read("t.down", cut).map_err(|error| error.to_string()), wanted);
    }

    #[test]
    fn errors_name_file_line_and_fix() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "t.down: the trace is empty; it needs one number of milliseconds a line"),
            (b"\n", "t.down: the trace is empty; it needs one number of milliseconds a line"),
            (
                b"1\n\x00\x01",
                "t.down:2: not a text file; a trace has one number of milliseconds a line (is it compressed?)",
            ),
            (
                b"1\n\xff\xfe\n",
                "t.down:2: not a text file; a trace has one number of milliseconds a line (is it compressed?)",
            ),
            (b"1\n2x\n", "t.down:2: '2x' is not a whole number of milliseconds; one such number a line"),
            (b"-1\n", "t.down:1: '-1' is not a whole number of milliseconds; one such number a line"),
            (b"1.5\n", "t.down:1: '1.5' is not a whole number of milliseconds; one such number a line"),
            (b"1\n\n2\n", "t.down:2: a blank line within the trace; take it out"),
            (b"1\n4294967296\n", "t.down:2: 4294967296 ms is too long for a trace; at most 4294967295 ms (49 days)"),
            (b"1\n5\n4\n", "t.down:3: 4 ms comes after 5 ms; times must not decrease, sort the lines"),
            (
                b"0\n0\n",
                "t.down:2: the trace ends at 0 ms, so that a lap has no length; the last number must be above 0",
            ),
        ];
        for (text, error) in cases {
            assert_eq!(read(text), Err((*error).to_owned()), "{text:?}");
        }
        let long = read(&[b'x'; 100_000]).unwrap_err();
        assert!(long.len() < 200 && long.starts_with("t.down:1: 'xxxx"), "{long}");
    }

    #[test]
    fn laps_follow_each_other() {
        let trace = Trace::from_millis("t", vec![0, 3, 3, 7]).expect("valid");
        let ms = Time::from_millis;
        let mut cursor = Cursor::default();
        assert_eq!(trace.seek(&mut cursor, ms(0)), ms(3));
        let steps: Vec<Time> = (0..6).map(|_| trace.step(&mut cursor)).collect();
        assert_eq!(steps, [ms(3), ms(7), ms(7), ms(10), ms(10), ms(14)]);
        // From anywhere, forwards and backwards.
        let from = |cursor: &mut Cursor, milli| trace.seek(cursor, ms(milli)).as_nanos() / 1_000_000;
        let found: Vec<u64> = [13, 14, 6, 7, 700].map(|milli| from(&mut cursor, milli)).into();
        assert_eq!(found, [14, 17, 7, 10, 703]);
        // At 0; 3, 3; 7, 7; 10, 10; 14, 14.
        let before: Vec<u64> = [0, 1, 3, 4, 8, 14, 15].map(|milli| trace.opportunities_before(ms(milli))).into();
        assert_eq!(before, [0, 1, 1, 3, 5, 7, 9]);
        assert_eq!(trace.mean_rate(), Rate::from_bytes_per_sec(6_000_000 / 7));
    }
}
