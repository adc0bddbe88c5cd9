//! Runs that are not in a chunk yet, one a line, so that nothing is run twice after a crash.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{FolderProblem, Part, PointFailure, SweepError};
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
    failure: Option<PointFailure>,
}

impl Line {
    pub(super) fn new(point: usize, result: &Result<Record, PointFailure>) -> Self {
        Self { point, record: result.as_ref().ok().cloned(), failure: result.as_ref().err().cloned() }
    }

    /// `None` where the line has neither a record nor a failure.
    pub(super) fn result(self) -> Option<Result<Record, PointFailure>> {
        self.record.map(Ok).or(self.failure.map(Err))
    }
}

/// Every journal in a folder: of the whole sweep, and of parts.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn all(folder: &Path) -> Result<Vec<PathBuf>, SweepError> {
    let wrong = |source| SweepError::Io { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let name = entry.map_err(wrong)?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("_journal") && name.ends_with(".jsonl")) {
            found.push(folder.join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the journals of parts.
///
/// # Errors
/// When one cannot be removed.
pub(super) fn remove_parts(folder: &Path) -> Result<(), SweepError> {
    let own = folder.join(WHOLE);
    for path in all(folder)?.into_iter().filter(|path| *path != own) {
        std::fs::remove_file(&path).map_err(|source| SweepError::Io { path, source })?;
    }
    Ok(())
}

/// The journal of a whole sweep.
const WHOLE: &str = "_journal.jsonl";

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Option<File>,
}

impl Journal {
    /// Of a sweep, or of a part of it, which is then the only one of this number.
    ///
    /// # Errors
    /// When it is at work already, or its file cannot be opened.
    pub(super) fn of(folder: &Path, part: Option<Part>) -> Result<Self, SweepError> {
        let Some(part) = part else { return Ok(Self { path: folder.join(WHOLE), file: None }) };
        let path = folder.join(format!("_journal-{}.jsonl", part.to_string().replace('/', "-of-")));
        let wrong = |source| SweepError::Io { path: path.clone(), source };
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(wrong)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(SweepError::Folder { path: folder.to_owned(), problem: FolderProblem::PartAtWork(part) });
        }
        Ok(Self { path, file: Some(file) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What a journal holds. A last line that was cut off is left aside, and taken off if the journal is this one.
    ///
    /// # Errors
    /// When it cannot be read or written, or a line is not one of ours.
    pub(super) fn read(&self, path: &Path) -> Result<Vec<Line>, SweepError> {
        let wrong = |source| SweepError::Io { path: path.to_owned(), source };
        let (lines, whole) = lines(path).map_err(wrong)?;
        if path == self.path
            && let Some(file) = &self.file
        {
            file.set_len(whole).map_err(wrong)?;
        }
        Ok(lines)
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

/// The lines of a file, and how many bytes they are.
fn lines(path: &Path) -> io::Result<(Vec<Line>, u64)> {
    let mut reader: Bounded<File> = match crate::input::open(path, Bounds::RECORDS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        file => file?,
    };
    let (mut lines, mut text, mut whole) = (Vec::new(), Vec::new(), 0);
    loop {
        text.clear();
        reader.read_until(b'\n', &mut text)?;
        if text.last() != Some(&b'\n') {
            return Ok((lines, whole));
        }
        whole += text.len() as u64;
        let line = serde_json::from_slice(&text)
            .map_err(|error| io::Error::other(format!("line {} is not a run ({error})", lines.len() + 1)))?;
        lines.push(line);
    }
}
