//! `paceline alcc serve`: takes uploads, and gives files.

mod outcome;
mod room;
mod session;
mod store;
mod strangers;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use paceline_alcc::transfer::PORT;
use paceline_alcc::transfer::token::Key;
use paceline_alcc::{Engine, Mode, Options};
use paceline_cc::{Ability, Bytes, Spec};
use paceline_icn::Source;
use paceline_lab::input;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;
use serde_json::json;

use super::tls;
use crate::commands::ending::{Ending, Ends};
use crate::commands::serve::troubles::Troubles;
use crate::commands::sharing::Sharing;
use crate::commands::udp;
use crate::exit::unless_failed;
use outcome::Outcome;
use store::Store;
use strangers::Strangers;

/// Most sessions at once of those who may ask (our choice: each is a thread and some MB; as many as `paceline serve` has).
const MOST_SESSIONS: usize = 128;
/// Most threads: of sessions, of clients that have not asked yet, and of those that hear that there are too many (our choice). While there
/// are so many, further clients wait.
const MOST_THREADS: usize = 1024;
/// How often it is looked whether a signal came (our choice).
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Until a socket that failed is asked again (our choice: a host that is out of memory gets time).
const PAUSE: Duration = Duration::from_millis(100);
/// How long sessions may take to end once a signal came (our choice).
const FAREWELL: Duration = Duration::from_secs(3);

/// Take uploads into a folder, resume them, and give files, over TCP with any controller above it.
///
/// With a key only who holds a token (paceline alcc token) may do anything. Without one files are taken and given over loopback alone,
/// unless --open is given; filler bytes are taken from and given to anybody.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value_t = format!("127.0.0.1:{PORT}"))]
    listen: String,
    /// Files go into this folder, made if it does not exist, once they are whole; those in it may be fetched.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The key that tokens are made of: a file with 64 hexadecimal digits that no other user may read.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Without a key: take and give files whoever asks.
    #[arg(long, conflicts_with = "key")]
    open: bool,
    /// The controller of what is fetched: any but one with a receiver half.
    #[arg(long, value_name = "CONTROLLER", default_value = "copa")]
    controller: String,
    /// Speak TLS below the frames, with this certificate, and those that certify it: a PEM file.
    #[arg(long, value_name = "PEM", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key: a PEM file.
    #[arg(long, value_name = "PEM", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Largest file that is taken, such as 500MB.
    #[arg(long, value_name = "SIZE", default_value = "10GB")]
    max_size: Bytes,
    /// Give up a client that moved less than 1 KiB in so long.
    #[arg(long, value_name = "S", default_value = "30", value_parser = super::super::span, allow_negative_numbers = true)]
    timeout: f64,
    /// A JSON object for each session instead of a line for people.
    #[arg(long)]
    json: bool,
    /// End after the first session.
    #[arg(long)]
    once: bool,
}

/// What every session needs.
struct Terms {
    engine: Arc<Engine>,
    store: Store,
    key: Option<Key>,
    open: bool,
    tls: Option<Arc<ServerConfig>>,
    patience: Duration,
    ending: Ending,
    sessions: Arc<Sharing<Who>>,
    strangers: Arc<Strangers>,
}

/// Who asks: those with a token of this scope, or without a key those that come from this address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Scope(String),
    Address(Source),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let patience = Duration::from_nanos(udp::seconds("--timeout", args.timeout)?.as_nanos());
    let controller = controller(&args.controller)?;
    if let Some(dir) = &args.dir {
        paceline_files::check_folder(dir)?;
        std::fs::create_dir_all(dir).with_context(|| format!("--dir {}: cannot be made", dir.display()))?;
    }
    let key = args.key.as_deref().map(udp::secret).transpose()?.map(|secret| Key::new(&secret));
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(tls::server(certificate, key)?),
        _ => None,
    };
    let address = udp::address_at(&args.listen, PORT)?;
    let listener = TcpListener::bind(address).with_context(|| format!("--listen {address}: cannot listen there"))?;
    listener.set_nonblocking(true)?;
    let ends = Ends::begin()?;
    let options = Options { controller, mode: Mode::Framed, ..Options::default() };
    let terms = Arc::new(Terms {
        engine: Engine::start(options).context("the engine above TCP cannot start")?,
        store: Store::new(args.dir.clone(), args.max_size.0)?,
        key,
        open: args.open,
        tls,
        patience,
        ending: ends.watched()?,
        sessions: Sharing::new(MOST_SESSIONS),
        strangers: Arc::default(),
    });
    let address = listener.local_addr()?;
    crate::print::out(&if args.json {
        format!("{}\n", json!({ "listening": address.to_string(), "tls": terms.tls.is_some() }))
    } else {
        format!("listening at {address}{}\n", if terms.tls.is_some() { ", TLS" } else { "" })
    })?;
    serve(&listener, &terms, args.json, args.once)
}

fn controller(text: &str) -> anyhow::Result<Spec> {
    let spec = input::controller(text).map_err(|error| anyhow!("--controller {text}: {error}"))?;
    if spec.needs(Ability::ReceiverHalf) {
        bail!(
            "--controller {text}: it needs its receiver half at the client, which does not know it; choose another, such as copa"
        );
    }
    Mode::Framed.datapath().carries(&spec).map_err(|misfit| anyhow!("--controller {text}: {misfit}"))?;
    Ok(spec)
}

fn serve(listener: &TcpListener, terms: &Arc<Terms>, json: bool, once: bool) -> anyhow::Result<ExitCode> {
    let mut troubles = Troubles::default();
    let mut sessions: Vec<JoinHandle<Outcome>> = Vec::new();
    while !terms.ending.has_come() {
        sessions.retain(|session| !session.is_finished());
        if sessions.len() >= MOST_THREADS {
            thread::sleep(PAUSE);
            continue;
        }
        // An interrupted wait is a short one.
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&LOOK));
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_nothing(&error) => continue,
            Err(error) => {
                troubles.say_of_all(&anyhow::Error::new(error).context("cannot take a connection"));
                thread::sleep(PAUSE);
                continue;
            }
        };
        match begin(stream, peer, terms, json) {
            Ok(session) if once => {
                let outcome = session.join().map_err(|_| anyhow!("the session's thread panicked"))?;
                return Ok(unless_failed(!outcome.is_done()));
            }
            Ok(session) => sessions.push(session),
            Err(error) => troubles.no_session(peer, &error),
        }
    }
    let until = Instant::now() + FAREWELL;
    while sessions.iter().any(|session| !session.is_finished()) && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(ExitCode::SUCCESS)
}

/// No one there, or no more.
fn is_nothing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

fn begin(stream: TcpStream, peer: SocketAddr, terms: &Arc<Terms>, json: bool) -> anyhow::Result<JoinHandle<Outcome>> {
    stream.set_nonblocking(false)?;
    // Before the handshake is done nothing can be said.
    let unheard = terms.tls.as_ref().map(|_| stream.try_clone()).transpose()?;
    let (stranger, terms) = (terms.strangers.enter(peer, unheard), Arc::clone(terms));
    let session = move || {
        let outcome = session::run(stream, peer, &terms, stranger);
        // When standard output is closed there is nowhere to report to.
        let _ = crate::print::out(&if json { outcome.as_json() } else { outcome.as_line() });
        outcome
    };
    thread::Builder::new().name("session".to_owned()).spawn(session).context("no thread")
}
