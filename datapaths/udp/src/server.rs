//! A server of files: it takes what clients send, and gives what they ask for, each session in a thread of its own.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use paceline_cc::Nanos;
//! use paceline_udp::server::{FileServer, FileSession, Offer};
//!
//! let offer = Offer { dir: Some("kept".into()), ..Offer::default() };
//! let mut server = FileServer::bind("127.0.0.1:4870".parse()?, offer)?;
//! let session = Arc::new(|session: FileSession| session.run(Nanos::from_secs(1), &mut |_| {}));
//! for _minute in 0..60 {
//!     server.accept(Nanos::from_secs(60), &session, &mut |none| eprintln!("{none}"))?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod store;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use paceline_cc::Nanos;
use paceline_files::OutputError;
use paceline_icn::{CountedAddress, HeldPlace, Sharing};
use paceline_linux::clock::Clock;
use paceline_remembered::PathStore;

use crate::transfer::{Content, ContentPlace, Interval, TransferError, TransferPlan, Transferred, give, take};
use crate::wire::control::Hello;
use crate::{Accepted, Agreed, Channel, HandshakeError, Listener, Offload, SessionKey, Unanswered};
use store::{Files, No, Work};

/// Most sessions at once (our choice: each is a thread and some MB).
const MOST_SESSIONS: usize = 128;
/// What is reported to a client when this host cannot serve it, for any reason.
const NO_ROOM: &str = "it has no room for another session now; try again later";

/// What a server has for its clients. Filler bytes are always taken and given.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Files that are sent go into this folder, made if it does not exist, unless they are in it already; those in it may be fetched.
    pub dir: Option<PathBuf>,
    /// This file may be fetched, by its name.
    pub file: Option<PathBuf>,
    /// Drop the files that are sent.
    pub discard: bool,
    /// The key that both ends share. Without it only loopback is served.
    pub key: Option<SessionKey>,
    /// Of the sessions.
    pub offload: Offload,
    /// A session ends when its client has been silent for so long.
    pub patience: Nanos,
    /// Where sessions that give files keep what they learn of the clients' paths.
    pub store: Option<PathStore>,
}

impl Default for Offer {
    /// No files and no key; segmentation offload both ways, and a patience of 10 s, as `paceline serve` has them.
    fn default() -> Self {
        let offload = Offload { send: true, receive: true };
        Self { dir: None, file: None, discard: false, key: None, offload, patience: Nanos::from_secs(10), store: None }
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// What is to be given cannot be.
    #[error("{}: not a file", .0.display())]
    NotAFile(PathBuf),
    /// The folder cannot be had.
    #[error(transparent)]
    Folder(#[from] OutputError),
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] HandshakeError),
}

/// What this host could not do for a client.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// It begins no thread.
    #[error("no thread")]
    Thread(#[source] io::Error),
    /// A call failed.
    #[error("{0}")]
    System(#[source] io::Error),
    /// A file cannot be begun.
    #[error(transparent)]
    Draft(#[from] OutputError),
    /// A file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A client has no session because of this host; others are not concerned.
#[derive(Debug, thiserror::Error)]
#[error("{peer}: no session: {error}")]
pub struct NoSession {
    /// Who asked.
    pub peer: SocketAddr,
    /// What failed.
    #[source]
    pub error: HostError,
}

/// Takes and gives files over UDP.
pub struct FileServer {
    listener: Listener,
    terms: Terms,
}

/// What every session needs.
struct Terms {
    files: Files,
    remembered: Option<PathStore>,
    /// By the addresses of the clients.
    places: Arc<Sharing<CountedAddress>>,
    clock: Clock,
    patience: Nanos,
}

/// A thread that waits for its session; it ends if none comes.
struct Worker<T> {
    begin: Sender<Channel>,
    thread: JoinHandle<Option<T>>,
}

impl FileServer {
    /// Listens at `address`.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn bind(address: SocketAddr, offer: Offer) -> Result<Self, ServeError> {
        let files = Files::new(&offer);
        if let Some(file) = offer.file.filter(|file| !file.is_file()) {
            return Err(ServeError::NotAFile(file));
        }
        if let Some(dir) = &offer.dir {
            paceline_files::check_folder(dir)?;
        }
        let clock = Clock::new();
        let listener = Listener::bind(address, offer.key, offer.offload, clock)?;
        if let Some(dir) = offer.dir {
            std::fs::create_dir_all(&dir).map_err(|source| OutputError { path: dir, source })?;
        }
        let (places, patience, remembered) = (Sharing::new(MOST_SESSIONS), offer.patience, offer.store);
        let terms = Terms { files, remembered, places, clock, patience };
        Ok(Self { listener, terms })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Answers every client for `time`, or until one has asked. Each session that is agreed to runs in a thread, by `session`, whose answer
    /// is the thread's; `None` where the client did not begin after all. Clients that have no session because of this host go to `failed`.
    ///
    /// # Errors
    /// [`HandshakeError::Socket`] when the socket fails that all ask. It may do better the next time.
    pub fn accept<T: Send + 'static>(
        &mut self,
        time: Nanos,
        session: &Arc<impl Fn(FileSession) -> T + Send + Sync + 'static>,
        failed: &mut dyn FnMut(NoSession),
    ) -> Result<Vec<JoinHandle<Option<T>>>, HandshakeError> {
        let terms = &self.terms;
        let until = terms.clock.now() + time;
        let answers = self.listener.accept(until, |peer, hello| {
            terms.agree(peer, hello, session).map_err(|no| match no {
                No::Client(words) => words,
                No::Host(error) => {
                    failed(NoSession { peer, error });
                    NO_ROOM.to_owned()
                }
            })
        })?;
        let mut begun = Vec::new();
        for answer in answers {
            match answer {
                Ok(Accepted { channel, ready: Worker { begin, thread }, .. }) => {
                    // A thread that is gone has said why.
                    let _ = begin.send(channel);
                    begun.push(thread);
                }
                Err(Unanswered { peer, error }) => failed(NoSession { peer, error: HostError::System(error) }),
            }
        }
        Ok(begun)
    }
}

impl Terms {
    /// Makes everything ready that a session needs, so that a client hears at once when there will be none.
    fn agree<T: Send + 'static>(
        &self,
        peer: SocketAddr,
        hello: &Hello,
        session: &Arc<impl Fn(FileSession) -> T + Send + Sync + 'static>,
    ) -> Result<Agreed<Worker<T>>, No> {
        let place = self.places.take(&CountedAddress::of(peer));
        let place =
            place.ok_or_else(|| "too many sessions run, of this address or in all; try again later".to_owned())?;
        let plan = TransferPlan::of(hello, self.patience).map_err(|error| error.to_string())?;
        let plan = TransferPlan { store: self.remembered.clone(), ..plan };
        let work = self.files.prepare(hello)?;
        let bytes = work.bytes();
        let ready = self.worker(plan, work, place, Arc::clone(session));
        Ok(Agreed { bytes, ready: ready.map_err(|error| No::Host(HostError::Thread(error)))? })
    }

    fn worker<T: Send + 'static>(
        &self,
        plan: TransferPlan,
        work: Work,
        place: HeldPlace<CountedAddress>,
        session: Arc<impl Fn(FileSession) -> T + Send + Sync + 'static>,
    ) -> io::Result<Worker<T>> {
        let (begin, begun) = channel::<Channel>();
        let clock = self.clock;
        let thread = thread::Builder::new().spawn(move || {
            let _place = place;
            let channel = begun.recv().ok()?;
            Some(session(FileSession { channel, plan, work, clock }))
        })?;
        Ok(Worker { begin, thread })
    }
}

/// A session that was agreed to.
pub struct FileSession {
    channel: Channel,
    plan: TransferPlan,
    work: Work,
    clock: Clock,
}

impl FileSession {
    /// The client.
    pub fn peer(&self) -> SocketAddr {
        self.channel.peer()
    }

    /// How both ends speak.
    pub fn plan(&self) -> &TransferPlan {
        &self.plan
    }

    /// The server sends; in other sessions it receives.
    pub fn gives(&self) -> bool {
        matches!(self.work, Work::Generate(_) | Work::Give(..))
    }

    /// Runs it to its end. `watch` is called each `every`.
    ///
    /// # Errors
    /// [`TransferError`] when the content does not come through.
    pub fn run(self, every: Nanos, watch: &mut dyn FnMut(&Interval)) -> Result<Transferred, TransferError> {
        let Self { channel, plan, work, clock } = self;
        match work {
            Work::Discard => take(channel, clock, &plan, None, every, watch),
            Work::Keep { draft, file, bytes, name } => {
                let keep = Box::new(move || {
                    let placed = draft.finish().map_err(TransferError::from);
                    // Before the sender hears of it, who may try again at once.
                    drop(name);
                    placed
                });
                take(channel, clock, &plan, Some(ContentPlace { file: Arc::new(file), bytes, keep }), every, watch)
            }
            Work::Generate(bytes) => give(channel, clock, &plan, Content::Zeros(bytes), None, every, watch),
            Work::Give(file, bytes) => give(channel, clock, &plan, Content::File(file, bytes), None, every, watch),
        }
    }
}
