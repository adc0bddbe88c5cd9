//! Records as text: JSON Lines and CSV.

use std::io::{self, BufRead, Write};

use paceline_cc::foreign::printable;

use super::Record;
use super::fields::row;

/// Why a file of records could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{file}: cannot be read ({source}); name a file of records, as race --json writes")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not a record.
    #[error("{file}:{line}: not a record ({problem}); give files that race --json wrote")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What was wrong.
        problem: String,
    },
    /// No record at all.
    #[error("{file}: no record in it; give a file that race --json wrote")]
    Empty {
        /// The file.
        file: String,
    },
}

/// Writes one JSON object per line.
///
/// # Errors
/// When the writer fails.
pub fn write_json<'a>(records: impl IntoIterator<Item = &'a Record>, out: &mut dyn Write) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *out, record)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads what [`write_json`] wrote; unknown fields are passed over, so that newer records can be read. `file` is for
/// error messages.
///
/// # Errors
/// When a line is not a record, or there is none.
pub fn read_json(file: &str, input: impl BufRead) -> Result<Vec<Record>, ReadError> {
    let (records, cut) = read_json_to_cut(file, input)?;
    cut.map_or(Ok(records), Err)
}

/// As [`read_json`], up to where the file is cut off: the records before it, and what is wrong with the last line.
///
/// # Errors
/// When another line is not a record, or when there are no lines.
pub fn read_json_to_cut(file: &str, input: impl BufRead) -> Result<(Vec<Record>, Option<ReadError>), ReadError> {
    let mut records = Vec::new();
    let mut lines = input.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let line = line.map_err(|source| ReadError::Read { file: file.to_owned(), source })?;
        if line.trim().is_empty() {
            continue;
        }
        let problem = match serde_json::from_str(&line) {
            Ok(record) => {
                records.push(record);
                continue;
            }
            Err(problem) => problem,
        };
        let is_cut = problem.is_eof() && lines.peek().is_none() && !records.is_empty();
        let problem =
            ReadError::Line { file: file.to_owned(), line: index + 1, problem: printable(&problem.to_string(), 200) };
        return if is_cut { Ok((records, Some(problem))) } else { Err(problem) };
    }
    if records.is_empty() {
        return Err(ReadError::Empty { file: file.to_owned() });
    }
    Ok((records, None))
}

/// Writes one row per run, without the flows: their number instead. Empty where JSON has `null` or no field.
///
/// # Errors
/// When the writer fails.
pub fn write_csv<'a>(records: impl IntoIterator<Item = &'a Record>, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let mut headed = false;
    for record in records {
        let row = row(record);
        if !headed {
            writer.write_record(row.iter().map(|(name, _)| name))?;
            headed = true;
        }
        writer.write_record(row.iter().map(|(_, value)| value.text()))?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        // Nearest to this number is not what one multiplication of its digits makes of it.
        for file in
            [include_str!("../../../../fuzz/seeds/records/one"), include_str!("../../../../fuzz/seeds/records/large")]
        {
            let records = read_json("first", file.as_bytes()).unwrap();
            let mut written = Vec::new();
            write_json(&records, &mut written).unwrap();
            assert_eq!(read_json("again", &written[..]).unwrap(), records);
        }
    }
}
