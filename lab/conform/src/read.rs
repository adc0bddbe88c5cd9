//! Files of others: what is wrong with one, in one line with its place and the fix.

use paceline_cc::foreign::printable;

/// Why a file gives no trajectory, or no curves.
#[derive(Debug, thiserror::Error)]
#[error("{file}{}: {problem}", if *line == 0 { String::new() } else { format!(":{line}") })]
pub struct FileError {
    /// The file.
    pub file: String,
    /// The line, record or packet, from 1; 0 where it is the whole file.
    pub line: u64,
    /// What is wrong, and the fix.
    pub problem: String,
}

impl FileError {
    /// In this place of the file; what is said of it becomes one line.
    pub fn new(file: &str, line: u64, problem: impl AsRef<str>) -> Self {
        Self { file: file.to_owned(), line, problem: printable(problem.as_ref(), 300) }
    }
}
