//! `paceline serve`: takes what `paceline send` sends and gives what `paceline fetch` asks for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use nix::sys::signal::Signal;
use paceline_cc::Nanos;
use paceline_files::OutputError;
use paceline_icn::Source;
use paceline_linux::clock::Clock;
use paceline_udp::transfer::{Content, Interval, Place, Plan, give, take};
use paceline_udp::wire::control::Hello;
use paceline_udp::{Accepted, Agreed, Channel, Listener};

use super::ending::Ends;
use super::sharing::{Shared, Sharing};
use super::udp::{Common, PORT, Report, address, unplaced};
use crate::complaint;
use crate::exit::Exit;
use sessions::Sessions;
use store::{No, Store, Work};
use troubles::Troubles;

mod sessions;
pub(super) mod store;
pub(super) mod troubles;

/// Most sessions at once (our choice: each is a thread and some MB).
const MOST_SESSIONS: usize = 128;
/// Until a socket that failed is asked again (our choice: a host that is out of memory gets time).
const PAUSE: Duration = Duration::from_millis(100);
/// What is reported to a client when this host cannot serve it, for any reason.
const NO_ROOM: &str = "it has no room for another session now; try again later";

/// Take what paceline send sends, and give what paceline fetch asks for.
///
/// Filler bytes are always taken and given; files only with --dir or --file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value_t = format!("127.0.0.1:{PORT}"))]
    listen: String,
    /// Files that are sent go into this folder, made if it does not exist, unless they are in it already; those in it may
    /// be fetched.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// This file may be fetched, by its name.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Drop whatever is sent, files as well.
    #[arg(long, conflicts_with = "dir")]
    discard: bool,
    /// End after the first session.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    common: Common,
}

/// What every session needs.
#[derive(Clone)]
struct Terms {
    clock: Clock,
    patience: Nanos,
    json: bool,
    once: bool,
    /// By the addresses of the clients.
    places: Arc<Sharing<Source>>,
    sessions: Arc<Sessions>,
}

/// A thread that waits for its session; it ends if none comes.
struct Worker {
    begin: Sender<Channel>,
    thread: JoinHandle<anyhow::Result<()>>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(dir) = &args.dir {
        paceline_files::check_folder(dir)?;
    }
    if let Some(file) = args.file.as_ref().filter(|file| !file.is_file()) {
        anyhow::bail!("--file {}: not a file", file.display());
    }
    let ends = Ends::of(&[Signal::SIGINT, Signal::SIGTERM])?;
    let clock = Clock::new();
    let (patience, json, once) = (args.common.patience()?, args.common.json, args.once);
    let places = Sharing::new(MOST_SESSIONS);
    let terms = Terms { clock, patience, json, once, places, sessions: Arc::default() };
    end_at(ends, Arc::clone(&terms.sessions))?;
    let (key, offload) = (args.common.key()?, args.common.offload());
    let mut listener = Listener::bind(address(&args.listen)?, key, offload, clock)?;
    if let Some(dir) = &args.dir {
        let cannot = |source| OutputError { path: dir.clone(), source };
        std::fs::create_dir_all(dir).map_err(cannot)?;
    }
    crate::print::out(&super::listening(listener.address(), json))?;
    let store = Store::new(args.dir.clone(), args.file.clone(), args.discard);
    let mut troubles = Troubles::default();
    loop {
        let until = clock.now() + Nanos::from_secs(1);
        let answers = listener.accept(until, |peer, hello| agree(peer, hello, &store, &terms, &mut troubles));
        let answers = answers.unwrap_or_else(|error| {
            troubles.say_of_all(&error.into());
            thread::sleep(PAUSE);
            Vec::new()
        });
        for answer in answers {
            match answer {
                Ok(Accepted { channel, ready: Worker { begin, thread }, .. }) => {
                    // A thread that is gone has said why.
                    let _ = begin.send(channel);
                    if once {
                        let ended = thread.join().map_err(|_| anyhow!("the session's thread panicked"))?;
                        return ended.map(|()| ExitCode::SUCCESS);
                    }
                }
                Err(unanswered) => troubles.no_session(unanswered.peer, &unanswered.error.into()),
            }
        }
    }
}

/// Says how far each session is when a signal ends this process, and leaves nothing behind.
fn end_at(ends: Ends, sessions: Arc<Sessions>) -> anyhow::Result<()> {
    let wait = move || {
        // Without signals to wait for, only one that is not waited for ends it.
        let Ok(signal) = ends.wait() else { return };
        sessions.stopped();
        paceline_files::abandon();
        std::process::exit(if signal == Signal::SIGINT { Exit::Interrupted as i32 } else { 0 });
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop).context("cannot take signals")
}

/// Makes everything ready that a session needs, so that a client hears at once when there will be none.
fn agree(
    peer: SocketAddr,
    hello: &Hello,
    store: &Store,
    terms: &Terms,
    troubles: &mut Troubles,
) -> Result<Agreed<Worker>, String> {
    let place = terms.places.take(&Source::of(peer));
    let place = place.ok_or("too many sessions run, of this address or in all; try again later")?;
    let plan = Plan::of(hello, terms.patience).map_err(|error| error.to_string())?;
    let ready = store.prepare(hello).and_then(|work| {
        let bytes = work.bytes();
        let ready = worker(terms.clone(), plan, work, place).context("no thread").map_err(No::Host)?;
        Ok(Agreed { bytes, ready })
    });
    ready.map_err(|no| match no {
        No::Client(words) => words,
        No::Host(error) => {
            troubles.no_session(peer, &error);
            NO_ROOM.to_owned()
        }
    })
}

fn worker(terms: Terms, plan: Plan, work: Work, place: Shared<Source>) -> std::io::Result<Worker> {
    let (begin, session) = channel::<Channel>();
    let thread = thread::Builder::new().spawn(move || {
        let _place = place;
        let Ok(channel) = session.recv() else { return Ok(()) };
        let peer = channel.peer();
        let ended = serve(channel, &plan, work, &terms);
        match ended {
            Err(error) if !terms.once => {
                complaint::print(&format!("{peer}: {}", complaint::of_error(&error)));
                Ok(())
            }
            ended => ended,
        }
    })?;
    Ok(Worker { begin, thread })
}

fn serve(channel: Channel, plan: &Plan, work: Work, terms: &Terms) -> anyhow::Result<()> {
    let verb = if matches!(work, Work::Discard | Work::Keep { .. }) { "received" } else { "sent" };
    let mut report = Report::new(terms.json, verb, channel.peer(), plan);
    let session = terms.sessions.begin(verb, channel.peer());
    let every = Nanos::from_secs(1);
    let mut watch = |interval: &Interval| {
        session.moved(interval.bytes);
        report.interval(interval);
    };
    let clock = terms.clock;
    let done = match work {
        Work::Discard => take(channel, clock, plan, None, every, &mut watch)?,
        Work::Keep { draft, file, bytes, name } => {
            let keep = Box::new(move || {
                let placed = draft.finish().map_err(unplaced);
                // Before the sender hears of it, who may try again at once.
                drop(name);
                placed
            });
            take(channel, clock, plan, Some(Place { file: Arc::new(file), bytes, keep }), every, &mut watch)?
        }
        Work::Generate(bytes) => give(channel, clock, plan, Content::Zeros(bytes), None, every, &mut watch)?,
        Work::Give(file, bytes) => give(channel, clock, plan, Content::File(file, bytes), None, every, &mut watch)?,
    };
    session.turn();
    report.end(&done)?;
    Ok(())
}
