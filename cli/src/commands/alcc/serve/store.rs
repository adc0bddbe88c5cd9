//! Where uploads are kept until they are whole, and where they go.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use paceline_alcc::Socket;
use paceline_alcc::transfer::{Answer, HASH, Request, Status};
use paceline_files::{Kept, regular, tidy};
use ring::digest::{Context, SHA256};
use rustix::fs::fstatvfs;

use super::Who;
use super::room::{self, Begun};
use crate::commands::serve::store::plain;
use crate::complaint;

/// The folder of uploads that are not whole, in the folder of files: no name of a file begins so.
const FOLDER: &str = ".paceline-uploads";
/// How old they may become (our choice: a weekend without a network).
const OLDEST: Duration = Duration::from_hours(72);
/// How long an upload waits for the session to end whose place it takes (our choice).
const TAKEOVER: Duration = Duration::from_secs(5);
/// Bytes that one read of a file asks for (our choice).
const PIECE: usize = 256 * 1024;

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
    pub(super) fn new(dir: Option<PathBuf>, largest: u64) -> anyhow::Result<Self> {
        if let Some(dir) = &dir {
            let folder = dir.join(FOLDER);
            tidy(&folder, usize::MAX, OLDEST).with_context(|| format!("{}: cannot be used", folder.display()))?;
        }
        Ok(Self { dir, largest, active: Active::default(), begun: Begun::default() })
    }

    fn path(&self, name: &str) -> Result<PathBuf, Answer> {
        let refused = |why: &str| Answer::no(Status::Refused, 0, why);
        let dir = self.dir.as_ref().ok_or_else(|| refused("it keeps no files; start it with --dir DIR"))?;
        Ok(dir.join(plain(name).map_err(|why| refused(&why))?))
    }

    /// A file to give, and how long it is.
    pub(super) fn open(&self, name: &str) -> Result<(File, u64), Answer> {
        let path = self.path(name)?;
        let missing = || Answer::no(Status::Missing, 0, "there is no such file");
        match regular(&path).and_then(|file| Ok((file.metadata()?.len(), file))) {
            Ok((bytes, file)) => Ok((file, bytes)),
            // A link may lead anywhere: what it leads to is not in the folder.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
                Err(missing())
            }
            Err(error) => Err(refusal(&error)),
        }
    }

    /// Makes ready what an upload needs.
    pub(super) fn take(&self, request: &Request, who: &Who, socket: &Arc<Socket>) -> Result<Taking, Answer> {
        let path = self.path(&request.name)?;
        if request.size > self.largest {
            let why = format!("{} bytes are more than the {} that it takes (--max-size)", request.size, self.largest);
            return Err(Answer::no(Status::NoRoom, 0, &why));
        }
        if let Ok(about) = path.symlink_metadata() {
            let same = about.is_file() && about.len() == request.size;
            let file = same.then(|| regular(&path).ok()).flatten();
            return file.map(Taking::There).ok_or_else(|| exists(&request.name));
        }
        let key = format!("{}.{}", room::prefix(who), key(request));
        let claimed = self.claim(&key, socket)?;
        let folder = path.with_file_name(FOLDER);
        let kept = folder.join(&key);
        tidy(&folder, usize::MAX, OLDEST).map_err(|error| refusal(&error))?;
        if !self.begun.has_room(&kept, who).map_err(|error| refusal(&error))? {
            let why = "too many of your uploads are not whole; bring one to its end, or try again in an hour";
            return Err(Answer::no(Status::Busy, 0, why));
        }
        let kept = Kept::open(&kept).map_err(|error| refusal(&error))?;
        let held = kept.held().map_err(|error| refusal(&error))?.min(request.size);
        let missing = request.size - held;
        if fstatvfs(kept.file()).is_ok_and(|system| system.f_bavail.saturating_mul(system.f_frsize) < missing) {
            let why = format!("the disk has no room for {missing} bytes");
            if held == 0 {
                kept.remove();
            }
            return Err(Answer::no(Status::NoRoom, held, &why));
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
    hash.finish().as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
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

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Answer> {
        if let Err(error) = self.kept.file().write_all_at(bytes, self.held) {
            let mut answer = refusal(&error);
            answer.number = self.held;
            return Err(answer);
        }
        self.hash.update(bytes);
        self.held += bytes.len() as u64;
        Ok(())
    }

    /// It is whole: if its hash is this one, it appears under its name.
    pub(super) fn finish(self, said: [u8; HASH]) -> Result<Answer, Answer> {
        if self.hash.finish().as_ref() != said {
            self.kept.remove();
            let why = "what came is not what was sent; it was dropped, send it again";
            return Err(Answer::no(Status::Mismatch, 0, why));
        }
        // Longer than it has to be only where someone else wrote into it.
        let sized = self
            .kept
            .held()
            .and_then(|held| if held == self.size { Ok(()) } else { self.kept.file().set_len(self.size) });
        sized.map_err(|error| refusal(&error))?;
        match self.kept.place_new(&self.path) {
            Ok(()) => Ok(Answer::go(self.size)),
            Err(unplaced) if unplaced.source.kind() == io::ErrorKind::AlreadyExists => {
                // Another client was first, perhaps with the same.
                unplaced.kept.remove();
                let about =
                    self.path.symlink_metadata().ok().filter(|about| about.is_file() && about.len() == self.size);
                let file = about.and_then(|_| regular(&self.path).ok());
                let same = file.is_some_and(|file| hash_of(&file, self.size).is_ok_and(|hash| hash == said));
                if same { Ok(Answer::go(self.size)) } else { Err(exists(&self.name)) }
            }
            Err(unplaced) => Err(refusal(&unplaced.source)),
        }
    }
}

pub(super) fn exists(name: &str) -> Answer {
    Answer::no(Status::Exists, 0, &format!("{name} is there already, with other content; choose another name"))
}

/// What a client hears of an error of this host, which is reported here.
pub(super) fn refusal(error: &io::Error) -> Answer {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    complaint::print(&format!("an upload or a file: {error}"));
    if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
        return Answer::no(Status::NoRoom, 0, "the disk is full");
    }
    Answer::no(Status::Busy, 0, "it cannot read or write its files now; try again later")
}

/// The hash of the first `size` bytes of a file.
pub(super) fn hash_of(file: &File, size: u64) -> io::Result<[u8; HASH]> {
    let mut hash = Context::new(&SHA256);
    hash_into(&mut hash, file, size)?;
    let mut bytes = [0; HASH];
    bytes.copy_from_slice(hash.finish().as_ref());
    Ok(bytes)
}

fn hash_into(hash: &mut Context, file: &File, size: u64) -> io::Result<()> {
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    while at < size {
        let wanted = (size - at).min(PIECE as u64) as usize;
        match file.read_at(&mut piece[..wanted], at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                hash.update(&piece[..count]);
                at += count as u64;
            }
        }
    }
    Ok(())
}
