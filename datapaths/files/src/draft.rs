//! Files that are whole or not there: a draft has no name until it is put in its place, so that nothing is left of it
//! whatever ends the process. Where the file system has no nameless files, a hidden one stands beside the place, and the
//! next draft in that folder removes what a killed process left.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{NamedTempFile, TempPath};

use crate::place::{Place, check_in_order, inherit, open_in_order};
use crate::{OutputError, Unfit, folder_of, is_standard, sync_folder_of};

/// Names of hidden drafts.
const PREFIX: &str = ".paceline-";
const SUFFIX: &str = ".tmp";

/// Drafts with a name that are not files yet. The holder of the lock may put one in its place.
static DRAFTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn drafts() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    DRAFTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file in the making. It appears under its name when [`Draft::finish`] succeeds, and never otherwise.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    file: BufWriter<File>,
    kind: Kind,
    other: Other,
}

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug)]
enum Other {
    /// It is replaced.
    Goes,
    /// It stays, and the draft is given up.
    Stays,
}

#[derive(Debug)]
enum Kind {
    /// Without a name in the folder of the file to be.
    Nameless,
    /// Beside the file to be.
    Beside(TempPath),
    /// Standard output, a device or a FIFO: what is written is there at once.
    InOrder,
    /// The same, and its reader has gone.
    Unread,
    /// In its place, or given up.
    Over,
}

impl Draft {
    /// Begins what the user named: a file, which replaces a file, or bytes in order for `-`, a device or a FIFO.
    ///
    /// # Errors
    /// When its folder does not exist or cannot be written to, the path is a folder's or a link's, or nothing reads from a FIFO.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        Self::begun(path, || match Place::of(path)? {
            Place::InOrder => Ok((open_in_order(path)?, Kind::InOrder, Other::Goes)),
            Place::Free => fresh(path, None),
            Place::File(found) => fresh(path, Some(&found)),
        })
    }

    /// Begins a file and nothing else, which may be written in any order, or whose name is not one that the user gave.
    ///
    /// # Errors
    /// As [`Draft::create`], and when what has the name is not a regular file.
    pub fn regular(path: &Path) -> Result<Self, OutputError> {
        Self::begun(path, || fresh(path, Place::of_file(path)?.as_ref()))
    }

    /// Begins a file that replaces nothing: [`Draft::finish`] fails when there is something of this name by then, a link
    /// that leads nowhere as well.
    ///
    /// # Errors
    /// As [`Draft::create`], and [`io::ErrorKind::AlreadyExists`] when there is something of this name.
    pub fn create_new(path: &Path) -> Result<Self, OutputError> {
        Self::begun(path, || {
            if fs::symlink_metadata(path).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            begin(folder_of(path)).map(|(file, kind)| (file, kind, Other::Stays))
        })
    }

    /// Begins a file of this folder whose name is not known yet: see [`Draft::place`].
    ///
    /// # Errors
    /// When the folder does not exist or cannot be written to.
    pub fn within(folder: &Path) -> Result<Self, OutputError> {
        Self::begun(folder, || begin(folder).map(|(file, kind)| (file, kind, Other::Goes)))
    }

    fn begun(path: &Path, begin: impl FnOnce() -> io::Result<(File, Kind, Other)>) -> Result<Self, OutputError> {
        let path = path.to_owned();
        match begin() {
            Ok((file, kind, other)) => Ok(Self { path, file: BufWriter::new(file), kind, other }),
            Err(source) => Err(OutputError { path, source }),
        }
    }

    /// Fails now if [`Draft::create`] would fail later.
    ///
    /// # Errors
    /// As [`Draft::create`], but for readers of a FIFO, who may come later.
    pub fn check(path: &Path) -> Result<(), OutputError> {
        match Place::of(path) {
            Ok(Place::InOrder) => check_in_order(path).map_err(|source| OutputError { path: path.to_owned(), source }),
            _ => Self::create(path).map(drop),
        }
    }

    /// Whether what the user named takes bytes in order alone, and may stop halfway; else it is or will be a file.
    ///
    /// # Errors
    /// As [`Draft::check`].
    pub fn is_in_order(path: &Path) -> Result<bool, OutputError> {
        Self::check(path)?;
        Ok(matches!(Place::of(path), Ok(Place::InOrder)))
    }

    /// What is being made, for those who write anywhere in it.
    pub fn file(&self) -> &File {
        self.file.get_ref()
    }

    /// Whether the reader of what is written in order has gone; the rest is dropped.
    pub const fn is_unread(&self) -> bool {
        matches!(self.kind, Kind::Unread)
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// When what was written does not reach the disk, or something else than a file has its name by now
    /// ([`Draft::create_new`]: anything).
    pub fn finish(mut self) -> Result<(), OutputError> {
        self.settle().map_err(|source| OutputError { path: self.path.clone(), source })
    }

    /// Puts a file that was begun [`Draft::within`] a folder in its place there.
    ///
    /// # Errors
    /// As [`Draft::finish`].
    pub fn place(mut self, path: &Path) -> Result<(), OutputError> {
        path.clone_into(&mut self.path);
        self.finish()
    }

    fn settle(&mut self) -> io::Result<()> {
        self.flush()?;
        if let Kind::InOrder | Kind::Unread | Kind::Over = self.kind {
            return Ok(());
        }
        // Only now does the system say what it could not write, and after a crash a new name may be there before its bytes are.
        self.file.get_ref().sync_all().or_else(|error| match error.kind() {
            // A file system that cannot.
            io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Ok(()),
            _ => Err(error),
        })?;
        let mut drafts = drafts();
        if let Other::Goes = self.other {
            Place::of_file(&self.path)?;
        }
        match (std::mem::replace(&mut self.kind, Kind::Over), self.other) {
            (Kind::Nameless, Other::Goes) => name(self.file.get_ref(), &self.path),
            (Kind::Nameless, Other::Stays) => link(self.file.get_ref(), &self.path),
            (Kind::Beside(from), other) => {
                drafts.remove::<Path>(&from);
                let placed = match other {
                    Other::Goes => from.persist(&self.path),
                    Other::Stays => from.persist_noclobber(&self.path),
                };
                // With the error goes the draft.
                placed.map_err(|failed| failed.error)
            }
            (Kind::InOrder | Kind::Unread | Kind::Over, _) => Ok(()),
        }?;
        // It is there; only after a crash it might not be.
        let _ = sync_folder_of(&self.path);
        Ok(())
    }

    /// A reader that went away is not an error: nothing is written for it any more.
    fn heard(&mut self, result: io::Result<usize>, all: usize) -> io::Result<usize> {
        match (result, &self.kind) {
            (Err(error), Kind::InOrder) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.kind = Kind::Unread;
                Ok(all)
            }
            (result, _) => result,
        }
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_unread() {
            return Ok(bytes.len());
        }
        let written = self.file.write(bytes);
        self.heard(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_unread() {
            return Ok(());
        }
        let flushed = self.file.flush();
        self.heard(flushed.map(|()| 0), 0).map(drop)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Kind::Beside(path) = &self.kind {
            // The temporary path removes the file.
            drafts().remove::<Path>(path);
        }
    }
}

/// Removes every draft of this process and keeps others from becoming files: the last thing before an exit that runs no
/// destructors. The caller must exit.
pub fn abandon() {
    let drafts = drafts();
    for path in drafts.iter() {
        let _ = fs::remove_file(path);
    }
    // Held for ever, so that no draft is begun or placed any more.
    std::mem::forget(drafts);
}

/// A draft in the place of a file, whose mode and owner it has as far as that is allowed.
fn fresh(path: &Path, old: Option<&Metadata>) -> io::Result<(File, Kind, Other)> {
    let (file, kind) = begin(folder_of(path))?;
    if let Some(old) = old {
        inherit(&file, old);
    }
    Ok((file, kind, Other::Goes))
}

fn begin(folder: &Path) -> io::Result<(File, Kind)> {
    match nameless(folder)? {
        Some(file) => Ok((file, Kind::Nameless)),
        None => beside(folder).map(|(file, path)| (file, Kind::Beside(path))),
    }
}

/// A file of this folder without a name, where the file system has such and [`name`] can give it one.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> io::Result<Option<File>> {
    use rustix::io::Errno;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    match File::options().read(true).write(true).mode(0o666).custom_flags(flags).open(folder) {
        Ok(file) => Ok(Some(file).filter(|file| descriptor(file).exists())),
        // No other way helps, and only this error says why.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// Gives a nameless file its name, unless something has it.
#[cfg(target_os = "linux")]
fn link(file: &File, to: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, descriptor(file), CWD, to, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives a nameless file its name, in the place of what has it.
#[cfg(target_os = "linux")]
fn name(file: &File, to: &Path) -> io::Result<()> {
    match link(file, to) {
        // Only a rename replaces: the one moment when a draft has a name of its own.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let hidden = builder().make_in(folder_of(to), |hidden| link(file, hidden))?;
            hidden.persist(to).map_err(|error| error.error)
        }
        end => end,
    }
}

#[cfg(not(target_os = "linux"))]
fn name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Where Linux shows an open file.
#[cfg(target_os = "linux")]
fn descriptor(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// A hidden file, locked for as long as it is open.
fn beside(folder: &Path) -> io::Result<(File, TempPath)> {
    sweep(folder);
    let mut refused = None;
    let make = |path: &Path| {
        let opened = File::options().read(true).write(true).create_new(true).open(path);
        let file = opened.inspect_err(|error| refused = error.raw_os_error())?;
        let _ = file.lock();
        // Swept away before it was locked: another name, please.
        if path.exists() { Ok(file) } else { Err(io::ErrorKind::AlreadyExists.into()) }
    };
    let mut drafts = drafts();
    let made = builder().make_in(folder, make).map(NamedTempFile::into_parts);
    // What the system says alone: the rest names the draft, which means nothing to anyone.
    let (file, path) =
        made.map_err(|error| refused.map_or(io::Error::from(error.kind()), io::Error::from_raw_os_error))?;
    drafts.insert(path.to_path_buf());
    Ok((file, path))
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    builder
}

/// Removes the drafts that no process holds open.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        if ours && is_left(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether the process that made a draft has ended.
#[cfg(target_os = "linux")]
fn is_left(path: &Path) -> bool {
    crate::own(path).is_ok_and(|file| file.is_some_and(|file| file.try_lock().is_ok()))
}

#[cfg(not(target_os = "linux"))]
fn is_left(path: &Path) -> bool {
    path.is_file() && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Fails if files could not be written into this folder, which is made later when it is not there yet.
///
/// # Errors
/// When it is `-` or a file, or it (or the nearest folder above it that exists) cannot be written to.
pub fn check_folder(path: &Path) -> Result<(), OutputError> {
    let error = |source| OutputError { path: path.to_owned(), source };
    if is_standard(path) {
        return Err(error(Unfit::Several.into()));
    }
    let there = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    // What the system says where it is not a directory.
    there.join(".").metadata().map_err(error)?;
    Draft::within(if there.as_os_str().is_empty() { Path::new(".") } else { there })
        .map(drop)
        .map_err(|failed| error(failed.source))
}

/// Writes all of what the user named: see [`Draft::create`].
///
/// # Errors
/// When it cannot be written; nothing is left of a file then.
pub fn write(path: &Path, content: impl FnOnce(&mut Draft) -> io::Result<()>) -> Result<(), OutputError> {
    filled(Draft::create(path)?, content)
}

/// Writes a whole file and nothing else: see [`Draft::regular`].
///
/// # Errors
/// As [`write()`].
pub fn write_regular(path: &Path, content: impl FnOnce(&mut Draft) -> io::Result<()>) -> Result<(), OutputError> {
    filled(Draft::regular(path)?, content)
}

fn filled(mut draft: Draft, content: impl FnOnce(&mut Draft) -> io::Result<()>) -> Result<(), OutputError> {
    content(&mut draft).map_err(|source| OutputError { path: draft.path.clone(), source })?;
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

    /// A draft that replaces nothing, with a name of its own where file systems need one, or as this one has it.
    fn careful(path: &Path, nameless: bool) -> Draft {
        let mut draft = Draft::create_new(path).unwrap();
        if !nameless {
            let (file, beside) = beside(folder_of(path)).unwrap();
            (draft.file, draft.kind) = (BufWriter::new(file), Kind::Beside(beside));
        }
        draft.write_all(b"new").unwrap();
        draft
    }

    #[test]
    fn a_careful_draft_replaces_nothing_that_appears_meanwhile() {
        for nameless in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("name");
            careful(&path, nameless).finish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            let again = Draft::create_new(&path).unwrap_err().source;
            assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
            fs::remove_file(&path).unwrap();

            let (one, two) = (careful(&path, nameless), careful(&path, nameless));
            fs::write(&path, "old").unwrap();
            let taken = |draft: Draft| draft.finish().unwrap_err().source.kind();
            assert_eq!([taken(one), taken(two)], [io::ErrorKind::AlreadyExists; 2]);
            assert_eq!(fs::read(&path).unwrap(), b"old");
            assert_eq!(names(folder.path()), ["name"]);
            assert!(drafts().iter().all(|draft| !draft.starts_with(folder.path())));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_careful_draft_follows_no_link() {
        for nameless in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (path, target) = (folder.path().join("name"), folder.path().join("target"));
            let draft = careful(&path, nameless);
            std::os::unix::fs::symlink(&target, &path).unwrap();
            assert_eq!(draft.finish().unwrap_err().source.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(Draft::create_new(&path).unwrap_err().source.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(names(folder.path()), ["name"]);
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_draft_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        if nameless(folder.path()).unwrap().is_none() {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(io::stderr(), "skipped: a_draft_has_no_name: this file system has no nameless files");
            return;
        }
        let mut draft = Draft::create(&folder.path().join("log")).unwrap();
        draft.write_all(b"half").unwrap();
        draft.flush().unwrap();
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn what_a_killed_process_left_beside_is_swept_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".paceline-killed.tmp", ".paceline-other", "killed.tmp"] {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        let draft = |name: &str| {
            let (file, path) = beside(folder.path()).unwrap();
            let kind = Kind::Beside(path);
            Draft { path: folder.path().join(name), file: BufWriter::new(file), kind, other: Other::Goes }
        };
        let (mut one, other) = (draft("one"), draft("other"));
        assert_eq!(names(folder.path()).len(), 4);
        one.write_all(b"whole").unwrap();
        one.finish().unwrap();
        drop(other);
        let mut names = names(folder.path());
        names.sort();
        assert_eq!(names, [".paceline-other", "killed.tmp", "one"]);
        assert_eq!(fs::read(folder.path().join("one")).unwrap(), b"whole");
    }
}
