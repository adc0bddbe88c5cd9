//! `paceline serve`: takes what `paceline send` sends and gives what `paceline fetch` asks for.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use paceline_cc::Nanos;
use paceline_remembered::PathStore;
use paceline_testbed::remote::{RaceOffer, RaceServer};
use paceline_udp::server::{FileServer, FileSession, Offer, ServeError};
use paceline_udp::transfer::Interval;
use rustix::process::Signal;

use super::ending::Ends;
use super::serving::Serving;
use super::udp::{Common, PORT, Report, address, seconds};
use super::{count, span};
use crate::complaint;
use crate::exit::Exit;
use sessions::Sessions;
use troubles::Troubles;

mod sessions;
pub(super) mod troubles;

/// Until a socket that failed is asked again (our choice: a host that is out of memory gets time).
const PAUSE: Duration = Duration::from_millis(100);
/// How often a line says how far a session is.
const EVERY: Nanos = Nanos::from_secs(1);

/// Take what paceline send sends, and give what paceline fetch asks for.
///
/// Filler bytes are always taken and given; files only with --dir or --file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value_t = format!("127.0.0.1:{PORT}"))]
    listen: String,
    #[command(flatten)]
    serving: Serving,
    /// This file may be fetched, by its name.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Drop whatever is sent, files as well.
    #[arg(long, conflicts_with = "dir")]
    discard: bool,
    /// Races between two hosts (paceline race --remote) in place of files, one at a time, over TCP and UDP of the port.
    #[arg(long, conflicts_with_all = ["dir", "file", "discard", "remembered", "timeout", "json", "no_offload"])]
    race: bool,
    /// With --race: longest run.
    #[arg(long, value_name = "S", default_value = "60", value_parser = span, allow_negative_numbers = true, requires = "race")]
    most_seconds: f64,
    /// With --race: most that either end sends, Mbit/s.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count::<u32>, allow_negative_numbers = true, requires = "race")]
    most_mbps: u32,
    /// Keep what is learnt of the paths to those who fetch in this file, for their --cc cubic:start=resume and the like.
    #[arg(long, value_name = "FILE")]
    remembered: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let ends = Ends::of(&[Signal::INT, Signal::TERM])?;
    if args.race {
        return races(args, ends);
    }
    let (common, json, once) = (&args.common, args.common.json, args.serving.once);
    let sessions = Arc::<Sessions>::default();
    end_at(ends, Arc::clone(&sessions))?;
    let (dir, file, discard) = (args.serving.dir.clone(), args.file.clone(), args.discard);
    let (key, offload, patience) = (common.key()?, common.offload(), common.patience()?);
    let store = args.remembered.as_ref().map(PathStore::new);
    let offer = Offer { dir, file, discard, key, offload, patience, store };
    let mut server = FileServer::bind(address(&args.listen)?, offer).map_err(|error| match error {
        ServeError::NotAFile(_) => anyhow!("--file {error}"),
        error => error.into(),
    })?;
    crate::print::out(&super::listening(server.address(), json))?;
    let session = Arc::new(move |session: FileSession| {
        let peer = session.peer();
        let ended = serve(session, json, &sessions);
        match ended {
            Err(error) if !once => {
                complaint::print(&format!("{peer}: {}", complaint::of_error(&error)));
                Ok(())
            }
            ended => ended,
        }
    });
    let mut troubles = Troubles::default();
    loop {
        let begun = server.accept(EVERY, &session, &mut |none| troubles.no_session(none.peer, &none.error));
        let begun = begun.unwrap_or_else(|error| {
            troubles.say_of_all(&error);
            thread::sleep(PAUSE);
            Vec::new()
        });
        if let Some(first) = begun.into_iter().next().filter(|_| once) {
            let ended = first.join().map_err(|_| anyhow!("the session's thread panicked"))?;
            return ended.unwrap_or(Ok(())).map(|()| ExitCode::SUCCESS);
        }
    }
}

/// Takes part in races.
fn races(args: &Args, ends: Ends) -> anyhow::Result<ExitCode> {
    let (ending, key, most_mbps) = (ends.watched()?, args.common.key()?, args.most_mbps);
    let (most_time, read) = (seconds("--most-seconds", args.most_seconds)?, paceline_lab::remote::foreign);
    let server = RaceServer::bind(address(&args.listen)?, RaceOffer { key, most_time, most_mbps, read })?;
    let limits = format!("races of at most {} s a run and {most_mbps} Mbit/s, one at a time", args.most_seconds);
    crate::print::out(&format!("{}{limits}\n", super::listening(server.address(), false)))?;
    // When standard output is closed there is nowhere to report to.
    server.serve(ending.flag(), args.serving.once, &|account| drop(crate::print::out(&format!("{account}\n"))))?;
    Ok(ExitCode::SUCCESS)
}

/// Says how far each session is when a signal ends this process, and leaves nothing behind.
fn end_at(ends: Ends, sessions: Arc<Sessions>) -> anyhow::Result<()> {
    let wait = move || {
        // Without signals to wait for, only one that is not waited for ends it.
        let Ok(signal) = ends.wait() else { return };
        sessions.stopped();
        paceline_files::abandon();
        std::process::exit(if signal == Signal::INT { Exit::Interrupted as i32 } else { 0 });
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop).context("cannot take signals")
}

fn serve(session: FileSession, json: bool, sessions: &Arc<Sessions>) -> anyhow::Result<()> {
    let (verb, peer) = (if session.gives() { "sent" } else { "received" }, session.peer());
    let mut report = Report::new(json, verb, peer, session.plan());
    let running = sessions.begin(verb, peer);
    let done = session.run(EVERY, &mut |interval: &Interval| {
        running.moved(interval.bytes);
        report.interval(interval);
    })?;
    running.turn();
    report.end(&done)?;
    Ok(())
}
