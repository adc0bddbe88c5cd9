//! Logs of the flows of one world: a folder with a file of each.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Most flows logged of a world (our choice: each holds a file open).
pub const MAX_FLOWS: usize = 64;

/// A log could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{kind} folder {}: {source}; name a folder you can write to", folder.display())]
pub struct FlowLogError {
    /// What kind of log.
    pub kind: &'static str,
    /// The folder.
    pub folder: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

/// The name of a contestant, without what file systems do not take.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "@.=_-".contains(c) { c } else { '-' }).collect()
}

/// The logs `L` of one kind, each found by what it is the log of.
#[derive(Debug)]
pub(crate) struct FlowLogs<K, L> {
    kind: &'static str,
    folder: PathBuf,
    name: String,
    logs: Vec<(K, PathBuf, Arc<Mutex<L>>)>,
    failed: Option<io::Error>,
}

impl<K: PartialEq, L> FlowLogs<K, L> {
    /// Logs into `folder`, made where it is missing, of the contestant `name`.
    pub(crate) fn new(kind: &'static str, folder: &Path, name: &str) -> Result<Self, FlowLogError> {
        let failed = |source| FlowLogError { kind, folder: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let (folder, name) = (folder.to_owned(), name.to_owned());
        Ok(Self { kind, folder, name, logs: Vec::new(), failed: None })
    }

    /// The contestant.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The log of `key`, which `open` makes in this file, for the flow with this number from 1, where there is none; none for
    /// flows beyond the first [`MAX_FLOWS`]. `flow` counts from 0. The file's name is the contestant's, [`plain`], the flow's number,
    /// and `suffix`.
    pub(crate) fn log(
        &mut self,
        flow: u32,
        key: K,
        suffix: &str,
        open: impl FnOnce(&Path, usize) -> io::Result<L>,
    ) -> Option<Arc<Mutex<L>>> {
        if let Some((_, _, log)) = self.logs.iter().find(|(known, _, _)| *known == key) {
            return Some(Arc::clone(log));
        }
        let index = flow as usize;
        if self.failed.is_some() || index >= MAX_FLOWS {
            return None;
        }
        let number = index + 1;
        let path = self.folder.join(format!("{}-{number}{suffix}", plain(&self.name)));
        match open(&path, number) {
            Ok(log) => {
                let log = Arc::new(Mutex::new(log));
                self.logs.push((key, path, Arc::clone(&log)));
                Some(log)
            }
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// Those that are open.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Mutex<L>> {
        self.logs.iter().map(|(_, _, log)| &**log)
    }

    /// Completes the logs by `end` and gives their paths; those already completed stay where one fails.
    pub(crate) fn finish(self, end: impl Fn(&mut L) -> io::Result<()>) -> Result<Vec<PathBuf>, FlowLogError> {
        let Self { kind, folder, logs, failed, .. } = self;
        let fail = |source| FlowLogError { kind, folder: folder.clone(), source };
        if let Some(source) = failed {
            return Err(fail(source));
        }
        let mut paths = Vec::new();
        for (_, path, log) in logs {
            end(&mut log.lock().unwrap_or_else(PoisonError::into_inner)).map_err(fail)?;
            paths.push(path);
        }
        Ok(paths)
    }
}
