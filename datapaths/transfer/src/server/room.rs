//! How many uploads that are not whole each of those who ask may leave.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use paceline_icn::{CountedAddress, Shares};

use super::Who;

/// Most of one scope, or of a server without a key (our choice: as many as sessions at once).
const MOST: usize = 128;
/// One that nothing came for in so long makes room for another of the same scope (our choice: longer than most networks are away).
const LEFT: Duration = Duration::from_hours(1);

/// Who began which, where no scope says it: since the server began.
pub(super) struct Begun(Mutex<(Shares<CountedAddress>, BTreeMap<PathBuf, CountedAddress>)>);

impl Default for Begun {
    fn default() -> Self {
        Self(Mutex::new((Shares::new(MOST), BTreeMap::new())))
    }
}

/// What the names of the parts of `who` begin with.
pub(super) fn prefix(who: &Who) -> String {
    match who {
        Who::Scope(scope) => super::store::digest("paceline uploads of a scope", &[scope.as_bytes()])[..16].to_owned(),
        Who::Address(_) => "open".to_owned(),
    }
}

impl Begun {
    /// Sees to it that there is room for the part `kept` of `who`, or says that there is none: who has too many gives up its own that it
    /// left, and no one else's.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn has_room(&self, kept: &Path, who: &Who) -> io::Result<bool> {
        if kept.exists() {
            return Ok(true);
        }
        let (Some(folder), prefix) = (kept.parent(), prefix(who)) else { return Ok(false) };
        let ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&prefix);
        let mut parts: Vec<(SystemTime, PathBuf)> = fs::read_dir(folder)?
            .flatten()
            .filter(ours)
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        parts.sort();
        let mut count = parts.len();
        for (modified, path) in parts {
            let left = modified.elapsed().is_ok_and(|age| age > LEFT);
            let free = || File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
            if count < MOST || !left {
                break;
            }
            count -= usize::from(free() && fs::remove_file(&path).is_ok());
        }
        Ok(count < MOST && self.begins(kept, who))
    }

    /// Of a server without a key: no address may have more than remain free for others.
    fn begins(&self, kept: &Path, who: &Who) -> bool {
        let Who::Address(source) = who else { return true };
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (shares, by) = &mut *begun;
        by.retain(|path, source| {
            let there = path.exists();
            if !there {
                shares.give_back(source, 1);
            }
            there
        });
        let fits = shares.take(*source, 1);
        if fits {
            by.insert(kept.to_owned(), *source);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn scope(text: &str) -> Who {
        Who::Scope(text.to_owned())
    }

    fn address(host: u8) -> Who {
        Who::Address(CountedAddress::of(SocketAddr::from(([192, 0, 2, host], 1))))
    }

    /// How many parts of `who` may be begun.
    fn most(begun: &Begun, folder: &Path, who: &Who) -> usize {
        let parts = (0..).map(|number| folder.join(format!("{}.{number}", prefix(who))));
        parts.take_while(|path| begun.has_room(path, who).unwrap() && File::create(path).is_ok()).count()
    }

    #[test]
    fn a_scope_has_its_own_and_takes_none_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let (begun, folder) = (Begun::default(), folder.path());
        let other = folder.join(format!("{}.0", prefix(&scope("cam2-"))));
        File::create(&other).unwrap();
        assert_eq!(most(&begun, folder, &scope("cam1-")), MOST);
        let of = |number: usize| folder.join(format!("{}.{number}", prefix(&scope("cam1-"))));
        let next = of(MOST);
        assert!(!begun.has_room(&next, &scope("cam1-")).unwrap(), "busy");
        assert!(begun.has_room(&of(5), &scope("cam1-")).unwrap(), "what is there is gone on with");
        assert!(begun.has_room(&folder.join("new"), &scope("cam2-")).unwrap());
        let held = File::open(of(3)).unwrap();
        held.try_lock().unwrap();
        for number in [3, 7] {
            File::options().write(true).open(of(number)).unwrap().set_modified(SystemTime::now() - 2 * LEFT).unwrap();
        }
        assert!(begun.has_room(&next, &scope("cam1-")).unwrap());
        assert!(of(3).exists() && !of(7).exists() && other.exists());
    }

    #[test]
    fn without_a_key_an_address_has_what_remains_free() {
        let folder = tempfile::tempdir().unwrap();
        let (begun, folder) = (Begun::default(), folder.path());
        for number in 0..MOST / 2 {
            let path = folder.join(format!("open.a{number}"));
            assert!(begun.has_room(&path, &address(1)).unwrap());
            File::create(path).unwrap();
        }
        let more = folder.join("open.more");
        assert!(!begun.has_room(&more, &address(1)).unwrap() && begun.has_room(&more, &address(2)).unwrap());
        // A part goes on from wherever its client is by then.
        assert!(begun.has_room(&folder.join("open.a0"), &address(2)).unwrap());
        fs::remove_file(folder.join("open.a0")).unwrap();
        fs::remove_file(folder.join("open.a1")).unwrap();
        assert!(begun.has_room(&folder.join("open.b"), &address(1)).unwrap());
    }
}
