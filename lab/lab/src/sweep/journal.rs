//! Runs that are not in a chunk yet, one a line, so that nothing is run twice after a crash.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::input::{Bounded, Bounds};
use crate::record::Record;
use paceline_files::OutputError;

/// One run.
#[derive(Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) point: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<Record>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl Line {
    pub(super) fn new(point: usize, result: &Result<Record, String>) -> Self {
        Self { point, record: result.as_ref().ok().cloned(), failure: result.as_ref().err().cloned() }
    }

    /// `None` where the line has neither a record nor a failure.
    pub(super) fn result(self) -> Option<Result<Record, String>> {
        self.record.map(Ok).or(self.failure.map(Err))
    }
}

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Option<File>,
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds. A last line that was cut off is left aside.
    ///
    /// # Errors
    /// When it cannot be read, or a line is none of ours.
    pub(super) fn read(&self) -> io::Result<Vec<Line>> {
        let file = match crate::input::open(&self.path, Bounds::RECORDS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut reader: Bounded<File> = file;
        let (mut lines, mut text) = (Vec::new(), Vec::new());
        loop {
            text.clear();
            reader.read_until(b'\n', &mut text)?;
            if text.last() != Some(&b'\n') {
                return Ok(lines);
            }
            let line = serde_json::from_slice(&text)
                .map_err(|error| io::Error::other(format!("line {} is not a run ({error})", lines.len() + 1)))?;
            lines.push(line);
        }
    }

    /// Leaves these lines alone in it, or no file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn replace(&mut self, lines: &[Line]) -> Result<(), OutputError> {
        self.file = None;
        if lines.is_empty() {
            return match std::fs::remove_file(&self.path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(OutputError { path: self.path.clone(), source })
                }
                _ => Ok(()),
            };
        }
        paceline_files::write_regular(&self.path, |draft| {
            lines.iter().try_for_each(|line| {
                serde_json::to_writer(&mut *draft, line)?;
                draft.write_all(b"\n")
            })
        })
    }

    /// Adds lines, in one write.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn add(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        if self.file.is_none() {
            self.file = Some(OpenOptions::new().append(true).create(true).open(&self.path)?);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(&text))
    }
}
