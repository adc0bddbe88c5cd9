//! Reading event logs.

use std::io::{self, BufRead, Read};

use serde_json::{Map, Value};

use super::event::Recorded;
use super::field::{FieldError, Reading};
use super::{Header, MAX_LINE, Variables};
use crate::foreign::clipped;
use crate::observe::Answers;
use crate::units::Time;

/// Why an event log could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The system refuses.
    #[error("{name}: cannot be read ({source}); name an event log that you may read")]
    Read {
        /// Name of the log.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// There is no header.
    #[error("{name}: it is empty; an event log begins with a header, as race --events writes it")]
    Empty {
        /// Name of the log.
        name: String,
    },
    /// A line is longer than [`MAX_LINE`].
    #[error("{name}:{line}: the line is longer than {} MiB; give an event log, as race --events writes", MAX_LINE >> 20)]
    LongLine {
        /// Name of the log.
        name: String,
        /// Which line, from 1.
        line: usize,
    },
    /// A line is not a JSON object.
    #[error("{name}:{line}: not a JSON object ({problem}); give an event log, as race --events writes")]
    NotJson {
        /// Name of the log.
        name: String,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A field is wrong.
    #[error("{name}:{line}: {field}: {problem}")]
    Field {
        /// Name of the log.
        name: String,
        /// Which line, from 1.
        line: usize,
        /// The field: `packets[3].bytes`.
        field: String,
        /// What is wrong, and the fix.
        problem: String,
    },
}

/// One event of a log.
#[derive(Clone, Debug)]
pub struct Line {
    /// Which line of the log, from 1, the header included.
    pub number: usize,
    /// What happened.
    pub event: Recorded,
    /// What the controller answered after it.
    pub answers: Answers,
    /// What its variables were then, in a log that has them.
    pub variables: Option<Variables>,
}

/// Reads an event log line by line; ends at the first error.
#[derive(Debug)]
pub struct Reader<R> {
    name: String,
    input: R,
    /// Lines read so far.
    line: usize,
    buffer: Vec<u8>,
    header: Header,
    answers: Answers,
    variables: Option<Variables>,
    now: Time,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header; `name` is what errors call the log.
    ///
    /// # Errors
    /// [`LogError`] when there is none, or when this is not an event log.
    pub fn new(name: &str, mut input: R) -> Result<Self, LogError> {
        let mut buffer = Vec::new();
        let Some(fields) = next_line(name, &mut input, 1, &mut buffer)? else {
            return Err(LogError::Empty { name: name.to_owned() });
        };
        let header = whole(fields, Header::read).map_err(|error| located(name, 1, error))?;
        let (answers, variables, now) = (header.answers, header.variables.clone(), Time::ZERO);
        Ok(Self { name: name.to_owned(), input, line: 1, buffer, header, answers, variables, now, ended: false })
    }

    /// What the controller was made of.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What errors call the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn read(&mut self) -> Result<Option<Line>, LogError> {
        let number = self.line + 1;
        let Some(fields) = next_line(&self.name, &mut self.input, number, &mut self.buffer)? else {
            return Ok(None);
        };
        self.line = number;
        let (answers, variables, before) = (&mut self.answers, &mut self.variables, self.now);
        let event = whole(fields, |from| {
            let event = Recorded::read(from)?;
            if event.now() < before {
                let (now, before) = (event.now().as_nanos(), before.as_nanos());
                let problem = format!("{now} comes after {before}; time does not run backwards, sort the lines");
                return Err(FieldError::new("now", problem));
            }
            from.object("answers", |from| answers.update(from))?;
            if let Some(variables) = variables {
                variables.update(from)?;
            }
            Ok(event)
        });
        let event = event.map_err(|error| located(&self.name, number, error))?;
        self.now = event.now();
        Ok(Some(Line { number, event, answers: self.answers, variables: self.variables.clone() }))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Line, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read().transpose();
        self.ended = !matches!(read, Some(Ok(_)));
        read
    }
}

/// The fields of the next line; `None` at the end.
fn next_line(
    name: &str,
    input: &mut impl BufRead,
    line: usize,
    buffer: &mut Vec<u8>,
) -> Result<Option<Map<String, Value>>, LogError> {
    let name = || name.to_owned();
    buffer.clear();
    let bounded = input.take(MAX_LINE as u64 + 1).read_until(b'\n', buffer);
    bounded.map_err(|source| LogError::Read { name: name(), source })?;
    if buffer.is_empty() {
        return Ok(None);
    }
    if buffer.len() > MAX_LINE {
        return Err(LogError::LongLine { name: name(), line });
    }
    match serde_json::from_slice(buffer) {
        Ok(fields) => Ok(Some(fields)),
        Err(error) => Err(LogError::NotJson { name: name(), line, problem: clipped(&error.to_string()) }),
    }
}

/// Reads all fields of a line.
fn whole<T>(
    fields: Map<String, Value>,
    read: impl FnOnce(&mut Reading) -> Result<T, FieldError>,
) -> Result<T, FieldError> {
    let mut from = Reading::new(fields);
    let value = read(&mut from)?;
    from.finish()?;
    Ok(value)
}

fn located(name: &str, line: usize, error: FieldError) -> LogError {
    LogError::Field { name: name.to_owned(), line, field: error.path, problem: error.problem }
}
