//! What a server has to give, and where it puts what comes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_files::{Draft, given, plain};

use super::{HostError, Offer};
use crate::wire::control::{Hello, SessionJob};

/// Files to give and a folder for those that come.
pub(super) struct Files {
    dir: Option<PathBuf>,
    file: Option<PathBuf>,
    discard: bool,
    /// Names of files that are on their way here.
    coming: Coming,
}

type Coming = Arc<Mutex<BTreeSet<String>>>;

/// A client's job, with everything at hand that it needs.
pub(super) enum Work {
    /// Drop what comes.
    Discard,
    /// Keep so many bytes, written through the handle, under a name that is reserved.
    Keep { draft: Draft, file: File, bytes: u64, name: Reserved },
    /// Send filler bytes.
    Generate(Option<u64>),
    /// Send so many bytes of a file.
    Give(File, u64),
}

impl Work {
    /// How many bytes the server sends, where it knows.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Discard | Self::Keep { .. } => None,
            Self::Generate(bytes) => *bytes,
            Self::Give(_, bytes) => Some(*bytes),
        }
    }
}

/// Why a client gets nothing.
pub(super) enum No {
    /// It asks for what it cannot have: in words for it.
    Client(String),
    /// This host cannot give it now.
    Host(HostError),
}

impl From<String> for No {
    fn from(words: String) -> Self {
        Self::Client(words)
    }
}

/// A name that no other client may send meanwhile.
pub(super) struct Reserved {
    name: String,
    coming: Coming,
}

impl Reserved {
    fn new(name: &str, coming: &Coming) -> Option<Self> {
        let fresh = lock(coming).insert(name.to_owned());
        fresh.then(|| Self { name: name.to_owned(), coming: Arc::clone(coming) })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        lock(&self.coming).remove(&self.name);
    }
}

fn lock(coming: &Coming) -> MutexGuard<'_, BTreeSet<String>> {
    coming.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    pub(super) fn new(offer: &Offer) -> Self {
        let Offer { dir, file, discard, .. } = offer;
        Self { dir: dir.clone(), file: file.clone(), discard: *discard, coming: Coming::default() }
    }

    /// Makes ready what a client asks for.
    pub(super) fn prepare(&self, hello: &Hello) -> Result<Work, No> {
        match hello.job {
            SessionJob::Discard => Ok(Work::Discard),
            SessionJob::Generate if hello.bytes.is_some() => Ok(Work::Generate(hello.bytes)),
            SessionJob::Generate => Err("say how many bytes".to_owned())?,
            SessionJob::Store if self.discard => Ok(Work::Discard),
            SessionJob::Store => self.keep(&hello.name, hello.bytes),
            SessionJob::Fetch => self.give(&hello.name),
            SessionJob::Record => {
                Err("it records no traces; start paceline trace record --listen ADDR there".to_owned())?
            }
        }
    }

    fn keep(&self, name: &str, bytes: Option<u64>) -> Result<Work, No> {
        let path = self.place(name)?;
        let bytes = bytes.ok_or("say how long the file is".to_owned())?;
        let Some(reserved) = Reserved::new(name, &self.coming) else {
            return Err(format!("{name} is on its way there already; choose another name, or try again later"))?;
        };
        match Draft::create_new(&path) {
            Ok(draft) => {
                let file = draft.file().try_clone().map_err(|error| No::Host(HostError::System(error)))?;
                Ok(Work::Keep { draft, file, bytes, name: reserved })
            }
            Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists => {
                Err(format!("{name} is there already"))?
            }
            Err(error) => Err(No::Host(error.into())),
        }
    }

    fn give(&self, name: &str) -> Result<Work, No> {
        let path = self.path(name)?;
        let missing = || No::Client(format!("there is no file {name}"));
        // The one of `Offer::file` may be a link: the user named it.
        let own = if self.file.as_ref() == Some(&path) { path.canonicalize() } else { Ok(path.clone()) };
        let opened = match own {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            own => own.and_then(|own| given(&own)),
        };
        match opened {
            Ok(Some((file, bytes))) => Ok(Work::Give(file, bytes)),
            Ok(None) => Err(missing()),
            Err(source) => Err(No::Host(HostError::Unreadable { path, source })),
        }
    }

    /// Where a file of this name is to come.
    fn place(&self, name: &str) -> Result<PathBuf, String> {
        let dir = self.dir.as_ref().ok_or("it keeps no files; start it with --dir DIR or --discard")?;
        Ok(dir.join(plain(name).map_err(|error| error.to_string())?))
    }

    /// Where a file of this name is.
    fn path(&self, name: &str) -> Result<PathBuf, String> {
        match &self.file {
            Some(file) if file.file_name().is_some_and(|own| own == name) => Ok(file.clone()),
            _ if self.dir.is_none() => Err(format!("it has no file {name}; start it with --dir DIR or --file FILE")),
            _ => self.place(name),
        }
    }
}
