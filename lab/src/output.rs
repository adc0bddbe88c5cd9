//! Files that are whole or not there: written beside their place, then renamed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

/// Drafts that are not files yet.
static DRAFTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn drafts() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    DRAFTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written ({source}); name a file in a folder that exists and that you may write to", path.display())]
pub struct OutputError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// A file in the making. It appears under its name when [`Draft::finish`] succeeds, and never otherwise.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// Beside a file to be.
    Beside(BufWriter<NamedTempFile>),
    /// A device or a pipe cannot be replaced: it is written to.
    Device(BufWriter<File>),
}

impl Draft {
    /// Begins a file.
    ///
    /// # Errors
    /// When its folder does not exist or cannot be written to, or the path is a folder.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let error = |source| OutputError { path: path.to_owned(), source };
        let target = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(error(io::ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => {
                let device = File::options().write(true).open(path).map_err(error)?;
                Target::Device(BufWriter::new(device))
            }
            // A link is followed, and what it names replaced.
            Ok(_) => Target::Beside(beside(&fs::canonicalize(path).map_err(error)?).map_err(error)?),
            Err(_) => Target::Beside(beside(path).map_err(error)?),
        };
        Ok(Self { path: path.to_owned(), target })
    }

    /// Fails now if [`Draft::create`] would fail later.
    ///
    /// # Errors
    /// As [`Draft::create`].
    pub fn check(path: &Path) -> Result<(), OutputError> {
        Self::create(path).map(drop)
    }

    /// Another handle on what is being made, for those who write anywhere in it.
    ///
    /// # Errors
    /// When the system has no handle left.
    pub fn handle(&self) -> Result<File, OutputError> {
        let handle = match &self.target {
            Target::Beside(file) => file.get_ref().as_file().try_clone(),
            Target::Device(file) => file.get_ref().try_clone(),
        };
        handle.map_err(|source| OutputError { path: self.path.clone(), source })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// When what was written does not reach the disk.
    pub fn finish(mut self) -> Result<(), OutputError> {
        self.place().map_err(|source| OutputError { path: self.path.clone(), source })
    }

    fn place(&mut self) -> io::Result<()> {
        self.flush()?;
        if let Target::Beside(file) = &mut self.target {
            let from = file.get_ref().path().to_owned();
            let to = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
            let mut drafts = drafts();
            fs::rename(&from, to)?;
            drafts.remove(&from);
        }
        Ok(())
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.target {
            Target::Beside(file) => file.write(bytes),
            Target::Device(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::Beside(file) => file.flush(),
            Target::Device(file) => file.flush(),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Target::Beside(file) = &self.target {
            let path = file.get_ref().path();
            if drafts().remove(path) {
                // Nobody is left to be told; the temporary file removes itself once more.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Removes every draft of this process and keeps others from becoming files: the last thing before an exit that runs no
/// destructors. Whoever calls it must exit.
pub fn abandon() {
    let drafts = drafts();
    for path in drafts.iter() {
        let _ = fs::remove_file(path);
    }
    // Held for ever, so that no draft is begun or placed any more.
    std::mem::forget(drafts);
}

fn beside(path: &Path) -> io::Result<BufWriter<NamedTempFile>> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".paceline-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut drafts = drafts();
    // The kind alone: the rest names the draft, which means nothing to anyone.
    let file = builder.tempfile_in(folder).map_err(|error| io::Error::from(error.kind()))?;
    drafts.insert(file.path().to_owned());
    Ok(BufWriter::new(file))
}

/// Fails if files could not be written into this folder, which is made later when it is not there yet.
///
/// # Errors
/// When it is a file, or it (or the nearest folder above it that exists) cannot be written to.
pub fn check_folder(path: &Path) -> Result<(), OutputError> {
    let error = |source| OutputError { path: path.to_owned(), source };
    let there = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    if !there.is_dir() {
        return Err(error(io::ErrorKind::NotADirectory.into()));
    }
    let probe = beside(&there.join("probe")).map_err(error)?;
    drafts().remove(probe.get_ref().path());
    Ok(())
}

/// Writes a whole file.
///
/// # Errors
/// When it cannot be written; nothing is left of it then.
pub fn write(path: &Path, content: impl FnOnce(&mut Draft) -> io::Result<()>) -> Result<(), OutputError> {
    let mut draft = Draft::create(path)?;
    content(&mut draft).map_err(|source| OutputError { path: path.to_owned(), source })?;
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.json");
        let names = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();

        let failed = write(&path, |draft| {
            draft.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.unwrap_err().to_string().contains("records.json: cannot be written"));
        assert!(names().is_empty());

        write(&path, |draft| draft.write_all(b"one")).unwrap();
        write(&path, |draft| draft.write_all(b"two")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(), ["records.json"]);
    }

    #[test]
    fn a_missing_folder_and_a_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Draft::check(&folder.path().join("no/such.json")).is_err());
        assert!(Draft::check(folder.path()).is_err());
    }
}
