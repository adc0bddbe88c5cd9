//! A server that takes uploads into a folder, and gives files, each session in a thread of its own.

mod room;
mod session;
mod store;
mod strangers;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_alcc::transfer::token::Key;
use paceline_alcc::transfer::{Answer, Breach, Request, Status};
use paceline_alcc::{Engine, Mode, Options};
use paceline_cc::{Ability, Misfit, Spec};
use paceline_files::OutputError;
use paceline_icn::{CountedAddress, Sharing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;

use crate::{ChannelError, NoRandom};
use store::Store;
use strangers::Strangers;

/// Most sessions at once of those who may ask (our choice: each is a thread and some MB; as many as a server over UDP has).
const MOST_SESSIONS: usize = 128;
/// Most threads: of sessions, of clients that have not asked yet, and of those that hear that there are too many (our choice). While there
/// are so many, further clients wait.
const MOST_THREADS: usize = 1024;
/// How often it is looked whether the server is to end (our choice).
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Until a socket that failed is asked again (our choice: a host that is out of memory gets time).
const PAUSE: Duration = Duration::from_millis(100);
/// How long sessions may take to end once the server is to (our choice).
const FAREWELL: Duration = Duration::from_secs(3);
/// Largest upload that is taken where nothing is said, bytes.
const LARGEST: u64 = 10_000_000_000;
/// A session's patience where nothing is said.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server offers, and to whom.
pub struct UploadOptions {
    /// The controller of what is fetched.
    pub controller: Spec,
    /// Files go into this folder, made if it does not exist, once they are whole; those in it may be fetched.
    pub dir: Option<PathBuf>,
    /// Largest file that is taken, bytes.
    pub largest: u64,
    /// What tokens are made of. Without it no token is needed.
    pub key: Option<Key>,
    /// Without a key: files are taken from any address and given to it; else over loopback alone.
    pub open: bool,
    /// TLS below the frames ([`crate::tls::server`]).
    pub tls: Option<Arc<ServerConfig>>,
    /// A client that moved less than 1 KiB in so long is given up.
    pub patience: Duration,
    /// Once it is set, the server ends.
    pub stop: Arc<AtomicBool>,
    /// Gets what happens, from all of the server's threads.
    pub report: Arc<dyn Fn(UploadEvent<'_>) + Send + Sync>,
}

impl UploadOptions {
    /// No files, no key, no TLS; 10 GB and 30 s, as `paceline alcc serve` has them; nothing is reported.
    pub fn new(controller: Spec) -> Self {
        Self {
            controller,
            dir: None,
            largest: LARGEST,
            key: None,
            open: false,
            tls: None,
            patience: PATIENCE,
            stop: Arc::default(),
            report: Arc::new(|_| {}),
        }
    }
}

/// What happens at a server.
#[derive(Debug)]
pub enum UploadEvent<'a> {
    /// A session has ended.
    Ended(&'a UploadOutcome),
    /// A client has no session because of this host.
    NoSession {
        /// Who it is.
        peer: SocketAddr,
        /// What failed.
        error: &'a SessionError,
    },
    /// No client can be taken on for the moment.
    NoConnection(&'a SessionError),
    /// A file of this host failed; its client hears only that it cannot be read or written now.
    NoFile(&'a io::Error),
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum UploadServeError {
    /// The controller has a receiver half, which clients do not have.
    #[error("it needs its receiver half at the client, which does not know it; choose another, such as copa")]
    ReceiverHalf,
    /// The controller needs what frames above TCP lack.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// Nothing can be written into the folder.
    #[error(transparent)]
    Folder(#[from] OutputError),
    /// The folder cannot be made.
    #[error("{}: cannot be made", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder of uploads that are not whole cannot be used.
    #[error("{}: cannot be used", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot listen.
    #[error("{address}: cannot listen there")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// There is no engine.
    #[error("the engine above TCP cannot start")]
    Engine(#[source] io::Error),
    /// The system failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Why a session was cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The handshake of TLS failed.
    #[error("no TLS")]
    NoTls(#[source] io::Error),
    /// The connection carries no more.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The client broke the protocol.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// There is no nonce.
    #[error(transparent)]
    NoRandom(#[from] NoRandom),
    /// The client ended its stream too early.
    #[error("the client ended before it had asked")]
    Unasked,
    /// The client says nothing.
    #[error("the client did not ask within {:.0} s", limit.as_secs_f64())]
    Silent {
        /// For so long.
        limit: Duration,
    },
    /// The client ended in the middle of an upload.
    #[error("the client is gone; {held} bytes are held")]
    Left {
        /// Bytes that are there, to go on from.
        held: u64,
    },
    /// The client ended before all had arrived.
    #[error("the client is gone")]
    Gone,
    /// A file that is given fails.
    #[error("the file cannot be read")]
    Unreadable(#[source] io::Error),
    /// A file that is given was written to.
    #[error("the file became shorter while it was sent")]
    Shrank,
    /// The server is to end.
    #[error("the server is ending")]
    Ending,
    /// No connection can be accepted.
    #[error("cannot take a connection")]
    NoConnection(#[source] io::Error),
    /// No thread can begin.
    #[error("no thread")]
    NoThread(#[source] io::Error),
    /// The session's thread panicked.
    #[error("the session's thread panicked")]
    Panicked,
    /// The system failed.
    #[error("{0}")]
    System(#[source] io::Error),
}

/// What came of a session.
#[derive(Debug)]
pub struct UploadOutcome {
    /// The client.
    pub peer: SocketAddr,
    /// What it asked for, where it did.
    pub request: Option<Request>,
    /// Bytes of objects that moved.
    pub bytes: u64,
    /// From which byte on.
    pub resumed: u64,
    /// How long it took.
    pub took: Duration,
    /// The last answer.
    pub answer: Option<Answer>,
    /// Why it was cut.
    pub error: Option<SessionError>,
}

impl UploadOutcome {
    fn of(peer: SocketAddr) -> Self {
        let took = Duration::ZERO;
        Self { peer, request: None, bytes: 0, resumed: 0, took, answer: None, error: None }
    }

    /// The client has what it wanted.
    pub fn is_done(&self) -> bool {
        self.error.is_none() && self.answer.as_ref().is_some_and(|answer| answer.status == Status::Go)
    }

    /// One word for how it ended.
    pub fn status(&self) -> &'static str {
        match (&self.error, &self.answer) {
            (None, Some(answer)) => answer.status.word(),
            _ => "lost",
        }
    }
}

/// What every session needs.
struct Terms {
    engine: Arc<Engine>,
    store: Store,
    key: Option<Key>,
    open: bool,
    tls: Option<Arc<ServerConfig>>,
    patience: Duration,
    stop: Arc<AtomicBool>,
    report: Arc<dyn Fn(UploadEvent<'_>) + Send + Sync>,
    sessions: Arc<Sharing<Who>>,
    strangers: Arc<Strangers>,
}

impl Terms {
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Who asks: those with a token of this scope, or without a key those that come from this address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Scope(String),
    Address(CountedAddress),
}

/// Takes uploads, and gives files.
pub struct UploadServer {
    listener: TcpListener,
    terms: Arc<Terms>,
}

impl UploadServer {
    /// Listens at `address`. It starts a thread.
    ///
    /// # Errors
    /// [`UploadServeError`].
    pub fn bind(address: SocketAddr, options: UploadOptions) -> Result<Self, UploadServeError> {
        let UploadOptions { controller, dir, largest, key, open, tls, patience, stop, report } = options;
        if controller.needs(Ability::ReceiverHalf) {
            return Err(UploadServeError::ReceiverHalf);
        }
        Mode::Framed.datapath().carries(&controller)?;
        if let Some(dir) = &dir {
            paceline_files::check_folder(dir)?;
            std::fs::create_dir_all(dir).map_err(|source| UploadServeError::NoFolder { path: dir.clone(), source })?;
        }
        let listener = TcpListener::bind(address).map_err(|source| UploadServeError::Listen { address, source })?;
        listener.set_nonblocking(true)?;
        let options = Options { controller, mode: Mode::Framed, ..Options::default() };
        let terms = Terms {
            engine: Engine::start(options).map_err(UploadServeError::Engine)?,
            store: Store::new(dir, largest)?,
            key,
            open,
            tls,
            patience,
            stop,
            report,
            sessions: Sharing::new(MOST_SESSIONS),
            strangers: Arc::default(),
        };
        Ok(Self { listener, terms: Arc::new(terms) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is to end ([`UploadOptions::stop`]); sessions that run then have 3 s.
    pub fn run(&self) {
        let mut sessions: Vec<JoinHandle<UploadOutcome>> = Vec::new();
        while !self.terms.is_ending() {
            sessions.retain(|session| !session.is_finished());
            if sessions.len() >= MOST_THREADS {
                thread::sleep(PAUSE);
                continue;
            }
            sessions.extend(self.next());
        }
        let until = Instant::now() + FAREWELL;
        while sessions.iter().any(|session| !session.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Serves one session, and answers what came of it; `None` where the server was to end before.
    ///
    /// # Errors
    /// [`SessionError::Panicked`].
    pub fn run_once(&self) -> Result<Option<UploadOutcome>, SessionError> {
        while !self.terms.is_ending() {
            if let Some(session) = self.next() {
                return session.join().map(Some).map_err(|_| SessionError::Panicked);
            }
        }
        Ok(None)
    }

    /// The session of the next client, if one comes soon.
    fn next(&self) -> Option<JoinHandle<UploadOutcome>> {
        // An interrupted wait is a short one.
        let _ = poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&LOOK));
        let (stream, peer) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_nothing(&error) => return None,
            Err(error) => {
                (self.terms.report)(UploadEvent::NoConnection(&SessionError::NoConnection(error)));
                thread::sleep(PAUSE);
                return None;
            }
        };
        let begun = begin(stream, peer, &self.terms);
        begun.map_err(|error| (self.terms.report)(UploadEvent::NoSession { peer, error: &error })).ok()
    }
}

/// No client waits, or the one that did has gone.
fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

fn begin(stream: TcpStream, peer: SocketAddr, terms: &Arc<Terms>) -> Result<JoinHandle<UploadOutcome>, SessionError> {
    stream.set_nonblocking(false).map_err(SessionError::System)?;
    // Before the handshake is done nothing can be said.
    let unheard = terms.tls.as_ref().map(|_| stream.try_clone()).transpose().map_err(SessionError::System)?;
    let (stranger, terms) = (terms.strangers.enter(peer, unheard), Arc::clone(terms));
    let session = move || {
        let outcome = session::run(stream, peer, &terms, stranger);
        (terms.report)(UploadEvent::Ended(&outcome));
        outcome
    };
    thread::Builder::new().name("session".to_owned()).spawn(session).map_err(SessionError::NoThread)
}
