//! Why a file cannot be written.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", path.display(), self.why())]
pub struct OutputError {
    /// The file.
    pub path: PathBuf,
    /// What the system said, or an [`Unfit`].
    pub source: io::Error,
}

impl OutputError {
    /// What is wrong, and what to do, without the name of the file.
    pub fn why(&self) -> String {
        format!("cannot be written ({}); {}", said(&self.source), fix(&self.source))
    }
}

/// What stands in the place of a file, and is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A symbolic link.
    #[error("it is a link")]
    Link,
    /// A folder.
    #[error("it is a folder")]
    Folder,
    /// A device, FIFO or socket, where only a file will do.
    #[error("it is not a regular file")]
    NotAFile,
    /// A file that another user owns, or that has other names.
    #[error("it is another user's, or has other names")]
    Foreign,
    /// A file at the name of a part, without the note that this project puts beside its own.
    #[error("it is not a part that paceline left")]
    NotOurs,
    /// Standard output, where a folder has to be.
    #[error("it is standard output, and this is several files")]
    Several,
    /// A FIFO that nothing reads from.
    #[error("nothing reads from it")]
    Unread,
}

impl Unfit {
    const fn fix(self) -> &'static str {
        match self {
            Self::Folder => "name a file in it",
            Self::Link => "name what it leads to",
            Self::NotAFile => "name a regular file",
            Self::Foreign | Self::NotOurs => "move it away, or name another output",
            Self::Several => "name a folder, such as ./-",
            Self::Unread => "start its reader first",
        }
    }

    /// The one that an error is about, if it is about one.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> Self {
        Self::new(ErrorKind::InvalidInput, unfit)
    }
}

/// Whether there is no room left.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn said(source: &io::Error) -> String {
    if is_full(source) { format!("the disk is full: {source}") } else { source.to_string() }
}

fn fix(source: &io::Error) -> &'static str {
    if let Some(unfit) = Unfit::of(source) {
        return unfit.fix();
    }
    match source.kind() {
        ErrorKind::NotADirectory => "a file stands where a folder has to be; name another place",
        ErrorKind::AlreadyExists => "name another",
        ErrorKind::InvalidFilename => "give it a shorter name",
        _ if is_full(source) => "make room, or name a place on another disk",
        _ => "name a file in a folder that exists and that you may write to",
    }
}
