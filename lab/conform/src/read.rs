//! Files of others: what is wrong with one, in one line with its place and the fix.

use paceline_cc::foreign::printable;

/// Why a file gives no trajectory.
#[derive(Debug, thiserror::Error)]
#[error("{file}{}: {problem}", place(*.line))]
pub struct TrajectoryError {
    /// The file.
    pub file: String,
    /// The line, record or packet, from 1; 0 where it is the whole file.
    pub line: u64,
    /// What is wrong, and the fix.
    pub problem: String,
}

fn place(line: u64) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

impl TrajectoryError {
    pub(crate) fn new(file: &str, line: u64, problem: impl AsRef<str>) -> Self {
        Self { file: file.to_owned(), line, problem: printable(problem.as_ref(), 300) }
    }
}
