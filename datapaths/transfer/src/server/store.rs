//! Where uploads are kept until they are whole, and where they go.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use paceline_alcc::Socket;
use paceline_alcc::transfer::{Answer, HASH, Request, Status};
use paceline_files::{Kept, given, plain, regular, tidy};
use ring::digest::{Context, SHA256};
use rustix::fs::fstatvfs;

use super::room::{self, Begun};
use super::session::Stop;
use super::{UploadServeError, Who};
use crate::hash::{hash_into, hash_of};

/// The folder of uploads that are not whole, in the folder of files: no name of a file begins so.
const FOLDER: &str = ".paceline-uploads";
/// How old they may become (our choice: a weekend without a network).
const OLDEST: Duration = Duration::from_hours(72);
/// How long an upload waits for the session to end whose place it takes (our choice).
const TAKEOVER: Duration = Duration::from_secs(5);

/// A folder of files.
pub(super) struct Store {
    dir: Option<PathBuf>,
    largest: u64,
    active: Active,
    begun: Begun,
}

/// The sessions of uploads, by the names that these are kept under.
type Active = Arc<Mutex<BTreeMap<String, Arc<Socket>>>>;

fn lock(active: &Active) -> MutexGuard<'_, BTreeMap<String, Arc<Socket>>> {
    active.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a file comes.
pub(super) enum Taking {
    /// It is there, with the same size: perhaps the same.
    There(File),
    /// It comes, or goes on coming.
    Coming(Box<Upload>),
}

impl Store {
    pub(super) fn new(dir: Option<PathBuf>, largest: u64) -> Result<Self, UploadServeError> {
        if let Some(dir) = &dir {
            let folder = dir.join(FOLDER);
            if let Err(source) = tidy(&folder, usize::MAX, OLDEST) {
                return Err(UploadServeError::Unusable { path: folder, source });
            }
        }
        Ok(Self { dir, largest, active: Active::default(), begun: Begun::default() })
    }

    fn path(&self, name: &str) -> Result<PathBuf, Answer> {
        let refused = |why: &str| Answer::no(Status::Refused, 0, why);
        let dir = self.dir.as_ref().ok_or_else(|| refused("it keeps no files; start it with --dir DIR"))?;
        Ok(dir.join(plain(name).map_err(|error| refused(&error.to_string()))?))
    }

    /// A file to give, and how long it is.
    pub(super) fn open(&self, name: &str) -> Result<(File, u64), Stop> {
        let found = given(&self.path(name)?).map_err(Stop::host)?;
        found.ok_or_else(|| Answer::no(Status::Missing, 0, "there is no such file").into())
    }

    /// Makes ready what an upload needs.
    pub(super) fn take(&self, request: &Request, who: &Who, socket: &Arc<Socket>) -> Result<Taking, Stop> {
        let path = self.path(&request.name)?;
        if request.size > self.largest {
            let why = format!("{} bytes are more than the {} that it takes (--max-size)", request.size, self.largest);
            return Err(Answer::no(Status::NoRoom, 0, &why).into());
        }
        if let Ok(about) = path.symlink_metadata() {
            let same = about.is_file() && about.len() == request.size;
            let file = same.then(|| regular(&path).ok()).flatten();
            return file.map(Taking::There).ok_or_else(|| exists(&request.name).into());
        }
        let key = format!("{}.{}", room::prefix(who), key(request));
        let claimed = self.claim(&key, socket)?;
        let folder = path.with_file_name(FOLDER);
        let kept = folder.join(&key);
        tidy(&folder, usize::MAX, OLDEST).map_err(Stop::host)?;
        if !self.begun.has_room(&kept, who).map_err(Stop::host)? {
            let why = "too many of your uploads are not whole; bring one to its end, or try again in an hour";
            return Err(Answer::no(Status::Busy, 0, why).into());
        }
        let kept = Kept::open(&kept).map_err(Stop::host)?;
        let held = kept.held().map_err(Stop::host)?.min(request.size);
        let missing = request.size - held;
        if fstatvfs(kept.file()).is_ok_and(|system| system.f_bavail.saturating_mul(system.f_frsize) < missing) {
            let why = format!("the disk has no room for {missing} bytes");
            if held == 0 {
                kept.remove();
            }
            return Err(Answer::no(Status::NoRoom, held, &why).into());
        }
        let name = request.name.clone();
        let hash = Context::new(&SHA256);
        Ok(Taking::Coming(Box::new(Upload { kept, hash, held, size: request.size, path, name, _claimed: claimed })))
    }

    /// The session of an upload: another one with the same is cut.
    fn claim(&self, key: &str, socket: &Arc<Socket>) -> Result<Claimed, Answer> {
        let until = Instant::now() + TAKEOVER;
        loop {
            {
                let mut active = lock(&self.active);
                match active.get(key) {
                    Some(other) => other.abort(),
                    None => {
                        active.insert(key.to_owned(), Arc::clone(socket));
                        return Ok(Claimed { key: key.to_owned(), active: Arc::clone(&self.active) });
                    }
                }
            }
            if Instant::now() >= until {
                return Err(Answer::no(Status::Busy, 0, "another connection brings this upload; try again later"));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What an upload is kept under: it says nothing, and another name, size or id makes another.
fn key(request: &Request) -> String {
    digest("paceline upload 1", &[&request.size.to_be_bytes(), &request.id, request.name.as_bytes()])
}

/// 32 digits that say nothing of what they are made of.
pub(super) fn digest(purpose: &str, of: &[&[u8]]) -> String {
    let mut hash = Context::new(&SHA256);
    hash.update(purpose.as_bytes());
    of.iter().for_each(|bytes| hash.update(bytes));
    HEXLOWER.encode(&hash.finish().as_ref()[..16])
}

struct Claimed {
    key: String,
    active: Active,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        lock(&self.active).remove(&self.key);
    }
}

/// A file that comes.
pub(super) struct Upload {
    kept: Kept,
    hash: Context,
    held: u64,
    size: u64,
    path: PathBuf,
    name: String,
    /// Dropped last, after the file is free.
    _claimed: Claimed,
}

impl Upload {
    /// Bytes that are there.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Hashes what is there from before.
    pub(super) fn hash_held(&mut self) -> io::Result<()> {
        hash_into(&mut self.hash, self.kept.file(), self.held)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if let Err(error) = self.kept.file().write_all_at(bytes, self.held) {
            return Err(Stop::Host { error, held: self.held });
        }
        self.hash.update(bytes);
        self.held += bytes.len() as u64;
        Ok(())
    }

    /// It is whole: if its hash is this one, it appears under its name.
    pub(super) fn finish(self, said: [u8; HASH]) -> Result<Answer, Stop> {
        if self.hash.finish().as_ref() != said {
            self.kept.remove();
            let why = "what came is not what was sent; it was dropped, send it again";
            return Err(Answer::no(Status::Mismatch, 0, why).into());
        }
        // Longer than it has to be only where someone else wrote into it.
        let sized = self
            .kept
            .held()
            .and_then(|held| if held == self.size { Ok(()) } else { self.kept.file().set_len(self.size) });
        sized.map_err(Stop::host)?;
        match self.kept.place_new(&self.path) {
            Ok(()) => Ok(Answer::go(self.size)),
            Err(unplaced) if unplaced.source.kind() == io::ErrorKind::AlreadyExists => {
                // Another client was first, perhaps with the same.
                unplaced.kept.remove();
                let about =
                    self.path.symlink_metadata().ok().filter(|about| about.is_file() && about.len() == self.size);
                let file = about.and_then(|_| regular(&self.path).ok());
                let same = file.is_some_and(|file| hash_of(&file, self.size).is_ok_and(|hash| hash == said));
                if same { Ok(Answer::go(self.size)) } else { Err(exists(&self.name).into()) }
            }
            Err(unplaced) => Err(Stop::host(unplaced.source)),
        }
    }
}

pub(super) fn exists(name: &str) -> Answer {
    Answer::no(Status::Exists, 0, &format!("{name} is there already, with other content; choose another name"))
}

/// What a client hears of an error of this host; so many bytes are held.
pub(super) fn refusal(error: &io::Error, held: u64) -> Answer {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
        return Answer::no(Status::NoRoom, held, "the disk is full");
    }
    Answer::no(Status::Busy, held, "it cannot read or write its files now; try again later")
}
