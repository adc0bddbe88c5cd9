//! `paceline serve`: takes what `paceline send` sends and gives what `paceline fetch` asks for.

use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use paceline_cc::Nanos;
use paceline_lab::output::{self, Draft};
use paceline_net::Clock;
use paceline_net::udp::transfer::{Content, Place, Plan, give, take};
use paceline_net::udp::wire::control::{Hello, Job};
use paceline_net::udp::{Accepted, Listener};

use super::udp::{Common, PORT, Teller, address};
use crate::complaint;

/// Most sessions at once (our choice: each is a thread and some MB).
const MOST_SESSIONS: usize = 64;

/// Take what paceline send sends, and give what paceline fetch asks for.
///
/// Bytes that mean nothing are always taken and given; files only with --dir or --file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value_t = format!("127.0.0.1:{PORT}"))]
    listen: String,
    /// Files that are sent come into this folder, unless they are there already; those in it may be fetched.
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

/// What there is to give and where to put what comes.
#[derive(Clone)]
struct Store {
    dir: Option<PathBuf>,
    file: Option<PathBuf>,
    discard: bool,
}

impl Store {
    /// Whether it will do what a client asks for; how many bytes it will give.
    fn agrees(&self, hello: &Hello) -> Result<Option<u64>, String> {
        match hello.job {
            Job::Discard => Ok(None),
            Job::Generate if hello.bytes.is_some() => Ok(hello.bytes),
            Job::Generate => Err("say how many bytes".to_owned()),
            Job::Store if self.discard => Ok(None),
            Job::Store => {
                let path = self.place(&hello.name)?;
                if hello.bytes.is_none() {
                    return Err("say how long the file is".to_owned());
                }
                if path.exists() {
                    return Err(format!("{} is there already", hello.name));
                }
                Ok(None)
            }
            Job::Fetch => {
                let path = self.path(&hello.name)?;
                let about = path.metadata().ok().filter(std::fs::Metadata::is_file);
                about.map(|about| Some(about.len())).ok_or_else(|| format!("there is no file {}", hello.name))
            }
        }
    }

    /// Where a file of this name is to come.
    fn place(&self, name: &str) -> Result<PathBuf, String> {
        let dir = self.dir.as_ref().ok_or("it keeps no files; start it with --dir DIR or --discard")?;
        Ok(dir.join(plain(name)?))
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

/// # Errors
/// When it is not the name of a file in a folder, and nothing but that, or one of a draft.
fn plain(name: &str) -> Result<&str, String> {
    let mut parts = Path::new(name).components();
    let single = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    if single && !name.chars().any(char::is_control) && !name.starts_with('.') {
        Ok(name)
    } else {
        Err(format!("'{}' is no plain name of a file", name.escape_debug()))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(dir) = &args.dir {
        if !dir.is_dir() {
            anyhow::bail!("--dir {}: is no folder; make it first", dir.display());
        }
        output::check_folder(dir)?;
    }
    if let Some(file) = args.file.as_ref().filter(|file| !file.is_file()) {
        anyhow::bail!("--file {}: is no file", file.display());
    }
    let clock = Clock::new();
    let patience = args.common.patience()?;
    let (key, offload) = (args.common.key()?, args.common.offload());
    let mut listener = Listener::bind(address(&args.listen)?, key, offload, clock)?;
    crate::print(&format!("listening at {}\n", listener.address()))?;
    let store = Store { dir: args.dir.clone(), file: args.file.clone(), discard: args.discard };
    let alive = Arc::new(AtomicUsize::new(0));
    loop {
        let until = clock.now() + Nanos::from_secs(1);
        let accepted = listener.accept(until, |_, hello| {
            if alive.load(Ordering::Relaxed) >= MOST_SESSIONS {
                return Err(format!("{MOST_SESSIONS} sessions run already; try again later"));
            }
            Plan::of(hello, patience).map_err(|error| error.to_string())?;
            store.agrees(hello)
        })?;
        for session in accepted {
            let (store, json) = (store.clone(), args.common.json);
            if args.once {
                return serve(session, clock, patience, &store, json).map(|()| ExitCode::SUCCESS);
            }
            alive.fetch_add(1, Ordering::Relaxed);
            let alive = Arc::clone(&alive);
            std::thread::spawn(move || {
                let peer = session.channel.peer();
                if let Err(error) = serve(session, clock, patience, &store, json) {
                    complaint::print(&format!("{peer}: {}", complaint::of_error(&error)));
                }
                alive.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

fn serve(session: Accepted, clock: Clock, patience: Nanos, store: &Store, json: bool) -> anyhow::Result<()> {
    let Accepted { hello, channel } = session;
    let plan = Plan::of(&hello, patience)?;
    let verb = if matches!(hello.job, Job::Discard | Job::Store) { "received" } else { "sent" };
    let mut teller = Teller::new(json, verb, channel.peer(), &plan);
    let (mut watch, every) = (|interval: &_| teller.interval(interval), Nanos::from_secs(1));
    let done = match hello.job {
        Job::Discard => take(channel, clock, &plan, None, every, &mut watch)?,
        Job::Store if store.discard => take(channel, clock, &plan, None, every, &mut watch)?,
        Job::Store => {
            let draft = Draft::create(&store.place(&hello.name).map_err(anyhow::Error::msg)?)?;
            let (file, bytes) = (draft.handle()?, hello.bytes.unwrap_or(0));
            let place = Place { file, bytes, keep: Box::new(|| Ok(draft.finish()?)) };
            take(channel, clock, &plan, Some(place), every, &mut watch)?
        }
        Job::Generate => give(channel, clock, &plan, Content::Zeros(hello.bytes), None, every, &mut watch)?,
        Job::Fetch => {
            let path = store.path(&hello.name).map_err(anyhow::Error::msg)?;
            let file = File::open(&path)?;
            let bytes = file.metadata()?.len();
            give(channel, clock, &plan, Content::File(file, bytes), None, every, &mut watch)?
        }
    };
    teller.end(&done)?;
    Ok(())
}
