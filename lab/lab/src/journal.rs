//! Runs that are over, written down at once: what was cut off goes on where it stopped.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::input::{BYTE_ORDER_MARK, Bounded, Bounds};
use crate::version::{VERSION, commit};

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// It cannot be opened or read.
    #[error("--journal {}: {source}; name a file that you may write to", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not one of ours.
    #[error("--journal {}: line {line} is not a run ({source}); name another file, or take the line out", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A run cannot be added.
    #[error("--journal {}: cannot be written ({source})", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A file of JSON lines, one a run. Runs that it holds are not run again.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    /// What the file held when it was opened.
    held: BTreeMap<Key, Value>,
}

/// How each line begins.
const BEGINNING: &str = "{\"version\":";

/// What was run, the command with every option that changes a number, and which of its runs.
type Key = (String, u32);

#[derive(Serialize, Deserialize)]
struct Line<T> {
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    command: String,
    run: u32,
    kept: T,
}

impl Journal {
    /// Opens the file, made where it is missing, and reads what it holds. Runs of another build of paceline are left aside; a
    /// last line that was cut off is taken off.
    ///
    /// # Errors
    /// When it cannot be written to, or a line is not one of ours.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let cannot = |source| JournalError::Read { file: path.to_owned(), source };
        // A pipe would be read for ever.
        if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Err(cannot(io::Error::other("it is not a regular file")));
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(cannot)?;
        Bounds::RECORDS.permit(&file).map_err(cannot)?;
        let (mut held, mut whole, mut number) = (BTreeMap::new(), 0_u64, 0);
        let mut reader = Bounded::new(&file, Bounds::RECORDS);
        loop {
            let mut text = Vec::new();
            let length = reader.read_until(b'\n', &mut text).map_err(cannot)?;
            if number == 0 && text.starts_with(&BYTE_ORDER_MARK) {
                text.drain(..BYTE_ORDER_MARK.len());
            }
            if text.last() != Some(&b'\n') {
                // Only a line of ours is one that was cut off.
                let (known, ours) = (text.len().min(BEGINNING.len()), BEGINNING.as_bytes());
                if text[..known] != ours[..known] {
                    let source = serde_json::Error::io(io::Error::other("it does not begin as one"));
                    return Err(JournalError::Line { file: path.to_owned(), line: number + 1, source });
                }
                break;
            }
            (whole, number) = (whole + length as u64, number + 1);
            let wrong = |source| JournalError::Line { file: path.to_owned(), line: number, source };
            let line: Line<Value> = serde_json::from_slice(&text).map_err(wrong)?;
            if line.version == VERSION && line.commit.as_deref() == commit() {
                held.insert((line.command, line.run), line.kept);
            }
        }
        file.set_len(whole).map_err(cannot)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), held })
    }

    /// What was kept of a run.
    pub(crate) fn recall<T: DeserializeOwned>(&self, command: &str, run: u32) -> Option<T> {
        let kept = self.held.get(&(command.to_owned(), run))?;
        serde_json::from_value(kept.clone()).ok()
    }

    /// Writes a run down.
    pub(crate) fn keep<T: Serialize>(&self, command: &str, run: u32, kept: &T) -> Result<(), JournalError> {
        let line = Line {
            version: VERSION.to_owned(),
            commit: commit().map(str::to_owned),
            command: command.to_owned(),
            run,
            kept,
        };
        let failed = |source| JournalError::Write { file: self.path.clone(), source };
        let mut text = serde_json::to_vec(&line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_kept_is_recalled_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.jsonl");
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.recall::<Vec<f64>>("race a", 1), None);
        journal.keep("race a", 1, &vec![1.5, 2.0]).unwrap();
        File::options().append(true).open(&path).unwrap().write_all(b"{\"version\":\"x\",\"comm").unwrap();
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.recall("race a", 1), Some(vec![1.5, 2.0]));
        assert_eq!(journal.recall::<Vec<f64>>("race a", 2), None);
        journal.keep("race a", 2, &vec![3.0]).unwrap();
        assert_eq!(Journal::open(&path).unwrap().recall("race a", 2), Some(vec![3.0]), "the torn line is gone");
        File::options().append(true).open(&path).unwrap().write_all(b"{}\n").unwrap();
        let problem = Journal::open(&path).unwrap_err().to_string();
        assert!(problem.contains("line 3 is not a run"), "{problem}");
    }
    #[cfg(unix)]
    #[test]
    fn what_never_ends_is_no_journal() {
        let problem = Journal::open(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(problem.starts_with("--journal /dev/zero: it is not a regular file"), "{problem}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hole");
        File::create(&path).unwrap().set_len(100 << 20).unwrap();
        let problem = Journal::open(&path).unwrap_err().to_string();
        assert!(problem.contains("a line of it is longer than 64 MiB"), "{problem}");
        assert_eq!(path.metadata().unwrap().len(), 100 << 20, "and nothing is taken off it");
    }
}
