//! Standard output.

use std::io::{self, ErrorKind, Write};

use paceline_files::OutputError;

/// Prints to standard output. A reader that went away is not an error: `paceline ... | head`.
pub(crate) fn out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    heard(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
        .map_err(|error| io::Error::new(error.kind(), unprinted(error)))
}

/// The result of writing, where a reader that went away is not an error.
pub(crate) fn heard(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Standard output cannot be written.
pub(crate) fn unprinted(source: io::Error) -> OutputError {
    OutputError { path: "standard output".into(), source }
}
