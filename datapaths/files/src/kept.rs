//! Files in the making that outlive their process: what has come so far is gone on with after a restart.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::{Draft, Unfit, create_own, own, replace, sync_folder_of};

/// What a part's name ends in.
const PART: &str = ".paceline-part";

/// What the name of the note ends in besides.
const SOURCE: &str = ".source";

/// What a note begins with.
const MARK: &str = "paceline part 1\n";

/// Bytes of a note at most (our choice: an address and a name).
const NOTE: u64 = 4096;

/// Bytes of a file's name at most in Linux (`NAME_MAX`).
const LONGEST: usize = 255;

/// The name of the part of the file `out`, beside it. It leaves room for eight more bytes in a file's name.
pub fn part_of(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap_or_default().as_bytes();
    let room = LONGEST - PART.len() - 8;
    let mut part = name.to_vec();
    if name.len() > room {
        let mut hash = DefaultHasher::new();
        name.hash(&mut hash);
        let ending = format!("~{:016x}", hash.finish());
        part.truncate(room - ending.len());
        part.extend(ending.bytes());
    }
    part.extend(PART.bytes());
    out.with_file_name(std::ffi::OsString::from_vec(part))
}

/// A file in the making. It has a place of its own, and is there after a crash; under its final name it appears by
/// [`Kept::place`], and never otherwise. While it is held no other process takes it.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: File,
    note: Option<PathBuf>,
}

/// A kept file could not be put in its place.
#[derive(Debug)]
pub struct Unplaced {
    /// The file, as it was.
    pub kept: Kept,
    /// Why.
    pub source: io::Error,
}

impl Kept {
    /// Begins it, or goes on with what is there, in a folder that is ours alone ([`tidy`]).
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while someone else holds it, [`Unfit`] where something else stands there; else the system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        loop {
            let file = match own(path)? {
                Some(file) => file,
                None => match create_own(path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    file => file?,
                },
            };
            claim(&file)?;
            // Tidied away before it was locked: once more.
            if is_at(&file, path) {
                return Ok(Self { path: path.to_owned(), file, note: None });
            }
        }
    }

    /// Begins a part of the file `out` beside it ([`part_of`]), or goes on with what is there. `of` says what it is a part of: what is there
    /// of something else goes.
    ///
    /// # Errors
    /// As [`Kept::open`]; [`Unfit::NotOurs`] where a file has the name that has no note of ours beside it.
    pub fn beside(out: &Path, of: &str) -> io::Result<Self> {
        let path = part_of(out);
        let note = path.with_extension(format!("{}{SOURCE}", PART.trim_start_matches('.')));
        let said = format!("{MARK}{of}\n");
        let told = match own(&note)? {
            None => None,
            Some(file) => {
                let mut text = Vec::new();
                file.take(NOTE).read_to_end(&mut text)?;
                Some(text).filter(|text| text.starts_with(MARK.as_bytes())).ok_or(Unfit::NotOurs).map(Some)?
            }
        };
        if told.is_none() && fs::symlink_metadata(&path).is_ok() {
            // A link or a pipe is called what it is.
            own(&path)?;
            return Err(Unfit::NotOurs.into());
        }
        // The note first: no part stands there without it, whenever a crash comes.
        let write = || {
            let mut draft = Draft::regular(&note)?;
            draft.write_all(said.as_bytes()).map_err(|source| crate::OutputError { path: note.clone(), source })?;
            draft.finish()
        };
        if told.is_none() {
            write().map_err(|failed| failed.source)?;
        }
        let kept = Self { note: Some(note.clone()), ..Self::open(&path)? };
        if told.is_some_and(|told| told != said.as_bytes()) {
            kept.file.set_len(0)?;
            kept.file.sync_all()?;
            write().map_err(|failed| failed.source)?;
        }
        Ok(kept)
    }

    /// What has come so far. Every write into it counts from the beginning.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes that are there.
    ///
    /// # Errors
    /// The system's.
    pub fn held(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Where it is until it is placed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts it on the disk and under this name of the same file system, in the place of a file that has it.
    ///
    /// # Errors
    /// [`Unfit`] when something else than a file has the name, or the system's. Then it is still here.
    pub fn place(self, to: &Path) -> Result<(), Unplaced> {
        self.placed(to, |kept| replace(&kept.path, to))
    }

    /// As [`Kept::place`], where nothing has the name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when something has it, or the system's. Then it is still here.
    pub fn place_new(self, to: &Path) -> Result<(), Unplaced> {
        let place = |kept: &Self| match renameat_with(CWD, &kept.path, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system can: one that has no other name for a moment.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::hard_link(&kept.path, to)?;
                fs::remove_file(&kept.path)
            }
            end => Ok(end?),
        };
        self.placed(to, place)
    }

    fn placed(self, to: &Path, place: impl FnOnce(&Self) -> io::Result<()>) -> Result<(), Unplaced> {
        if let Err(source) = self.file.sync_all().and_then(|()| place(&self)) {
            return Err(Unplaced { kept: self, source });
        }
        if let Some(note) = &self.note {
            let _ = fs::remove_file(note);
        }
        // It is there; only after a crash it might not be.
        let _ = sync_folder_of(to);
        Ok(())
    }

    /// Removes it.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
        if let Some(note) = &self.note {
            let _ = fs::remove_file(note);
        }
    }
}

fn claim(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        // Not every file system has locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let number = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    number(file.metadata()) == number(fs::symlink_metadata(path))
}

/// Makes a folder for files in the making, which only their owner may look into, and removes those that are older than `oldest`, and
/// the oldest ones beyond `most`. Those that someone holds stay. Says how many are left.
///
/// # Errors
/// [`Unfit`] where others may put something into it; the system's, when there can be no such folder.
pub fn tidy(folder: &Path, most: usize, oldest: Duration) -> io::Result<usize> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let about = fs::symlink_metadata(folder)?;
    if !about.is_dir() || about.uid() != geteuid().as_raw() || about.mode() & 0o022 != 0 {
        return Err(Unfit::Foreign.into());
    }
    let mut found: Vec<(SystemTime, PathBuf)> = fs::read_dir(folder)?
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort();
    let mut left = found.len();
    for (modified, path) in found {
        let old = modified.elapsed().is_ok_and(|age| age > oldest);
        let free = || own(&path).is_ok_and(|file| file.is_some_and(|file| file.try_lock().is_ok()));
        if (old || left > most) && free() && fs::remove_file(&path).is_ok() {
            left -= 1;
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_has_come_is_gone_on_with_and_placed_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, place) = (folder.path().join("part"), folder.path().join("whole"));
        let kept = Kept::open(&path).unwrap();
        assert_eq!(Kept::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        kept.file().write_all(b"abc").unwrap();
        drop(kept);
        let kept = Kept::open(&path).unwrap();
        assert_eq!(kept.held().unwrap(), 3);
        fs::write(&place, "other").unwrap();
        let unplaced = kept.place_new(&place).unwrap_err();
        assert_eq!(unplaced.source.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists());
        unplaced.kept.place(&place).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"abc");
        assert!(!path.exists());
        let kept = Kept::open(&path).unwrap();
        symlink("nothing", folder.path().join("link")).unwrap();
        let unplaced = kept.place(&folder.path().join("link")).unwrap_err();
        assert_eq!(unplaced.source.to_string(), "it is a link");
        unplaced.kept.place_new(&folder.path().join("new")).unwrap();
    }

    #[test]
    fn a_part_goes_on_where_its_note_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("film");
        let names = || {
            let entries = fs::read_dir(folder.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let kept = Kept::beside(&out, "film of 192.0.2.1").unwrap();
        kept.file().write_all(b"abc").unwrap();
        assert_eq!(Kept::beside(&out, "film of 192.0.2.1").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(kept);
        assert_eq!(names(), ["film.paceline-part", "film.paceline-part.source"]);
        let kept = Kept::beside(&out, "film of 192.0.2.1").unwrap();
        assert_eq!(kept.held().unwrap(), 3);
        drop(kept);
        let kept = Kept::beside(&out, "film of 192.0.2.2").unwrap();
        assert_eq!(kept.held().unwrap(), 0);
        kept.place(&out).unwrap();
        assert_eq!(names(), ["film"]);
    }

    #[test]
    fn what_others_put_at_the_name_of_a_part_stays_as_it_is() {
        let refused = |plant: &dyn Fn(&Path, &Path)| {
            let folder = tempfile::tempdir().unwrap();
            let (out, victim) = (folder.path().join("film"), folder.path().join("victim"));
            fs::write(&victim, "of another program").unwrap();
            plant(&part_of(&out), &victim);
            let said = Kept::beside(&out, "film").unwrap_err().to_string();
            assert_eq!(fs::read(&victim).unwrap(), b"of another program");
            said
        };
        assert_eq!(refused(&|part, victim| symlink(victim, part).unwrap()), "it is a link");
        assert_eq!(
            refused(&|part, victim| fs::hard_link(victim, part).unwrap()),
            "it is another user's, or has other names"
        );
        assert_eq!(refused(&|part, victim| _ = fs::copy(victim, part).unwrap()), "it is not a part that paceline left");
        let note = |part: &Path| part.with_file_name("film.paceline-part.source");
        assert_eq!(refused(&|part, victim| symlink(victim, note(part)).unwrap()), "it is a link");
        assert_eq!(
            refused(&|part, victim| _ = fs::copy(victim, note(part)).unwrap()),
            "it is not a part that paceline left"
        );
    }

    #[test]
    fn a_part_of_a_long_name_has_room_for_what_stands_beside_it() {
        let long = |count: usize| part_of(Path::new(&format!("folder/{}", "n".repeat(count))));
        assert_eq!(long(10), Path::new("folder/nnnnnnnnnn.paceline-part"));
        assert!(long(255).file_name().unwrap().len() + 8 <= LONGEST);
        assert_ne!(long(255), long(254));
    }

    #[test]
    fn the_oldest_go_first_but_those_that_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        let day = Duration::from_hours(24);
        assert_eq!(tidy(&parts, 2, day).unwrap(), 0);
        let ages = [5, 4, 3, 2, 0];
        let held: Vec<Kept> = ages
            .iter()
            .map(|age| {
                let kept = Kept::open(&parts.join(age.to_string())).unwrap();
                kept.file().set_modified(SystemTime::now() - day / 4 * *age).unwrap();
                kept
            })
            .collect();
        assert_eq!(tidy(&parts, 2, day).unwrap(), 5);
        let mut held = held.into_iter();
        let oldest = held.next().unwrap();
        held.for_each(drop);
        // The one of 5 is held, those of 4 and 3 are too many or too old.
        assert_eq!(tidy(&parts, 3, day).unwrap(), 3);
        assert!(oldest.path().exists() && parts.join("2").exists() && !parts.join("3").exists());
        oldest.remove();
        assert_eq!(tidy(&parts, 2, day).unwrap(), 2);
        symlink(&parts, folder.path().join("link")).unwrap();
        assert_eq!(tidy(&folder.path().join("link"), 2, day).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
