//! `paceline trace record`: both ends of a recording.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{anyhow, bail};
use paceline_cc::{Nanos, Rate};
use paceline_files::{Draft, is_standard, write};
use paceline_linux::clock::Clock;
use paceline_path::{Trace, TraceInfo};
use paceline_udp::record::{Recorded, Side, Terms, record};
use paceline_udp::transfer::{Content, Place, Plan, give, take};
use paceline_udp::wire::control::{Hello, Job};
use paceline_udp::{Accepted, Agreed, Channel, Key, Listener, Offload, connect};
use serde_json::{Value, json};

use crate::commands::udp::{address, key, seconds};
use crate::commands::{count, listening, span};
use crate::complaint;

/// Each packet has an arrival time of its own.
const OFFLOAD: Offload = Offload { send: true, receive: false };
/// Payload and controller of the transfer that brings the other direction's trace.
const FETCH: (u16, &str) = (1200, "cubic");
/// Recordings that a server keeps until they are fetched (our choice: they are some MB at most).
const KEPT: usize = 8;

/// Record what a link between two machines delivers, in both directions, while it is kept backlogged.
#[derive(clap::Args)]
#[command(override_usage = "paceline trace record --listen ADDR [OPTIONS]\n       \
                            paceline trace record ADDR --seconds N [--down FILE] [--up FILE] [OPTIONS]")]
pub(super) struct Args {
    /// The other end: HOST or HOST:PORT, where this command listens.
    #[arg(value_name = "ADDR", required_unless_present = "listen", conflicts_with = "listen")]
    to: Option<String>,
    /// Be the other end: wait here for recordings, and take part in one after the other.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Length of the recording.
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, conflicts_with = "listen")]
    seconds: Option<u64>,
    /// The trace to write of what comes from the other end.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    down: Option<PathBuf>,
    /// The trace to write of what goes there.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    up: Option<PathBuf>,
    /// Seconds before the recording begins, for the link to be filled.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = count::<u64>, allow_negative_numbers = true)]
    lead: u64,
    /// Highest rate of either direction; with --listen the highest that may be asked for.
    #[arg(long, value_name = "RATE", default_value = "100mbit", allow_hyphen_values = true)]
    most: Rate,
    /// The key that both ends share: a file with 64 hexadecimal digits that no other user may read. Only loopback works without.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Give up when the other end has been silent for this long.
    #[arg(long, value_name = "S", default_value = "30", value_parser = span, allow_negative_numbers = true)]
    timeout: f64,
    /// With --listen: end after the first recording was fetched.
    #[arg(long, requires = "listen")]
    once: bool,
    /// What was recorded as a JSON object; with --listen one at the start, and one for each recording and each trace that is fetched.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let key = args.key.as_deref().map(key).transpose()?;
    let patience = seconds("--timeout", args.timeout)?;
    match (&args.listen, &args.to) {
        (Some(listen), _) => serve(args, address(listen)?, key, patience),
        (None, Some(to)) => ask(args, address(to)?, key.as_ref(), patience),
        (None, None) => bail!("give ADDR, or --listen ADDR"),
    }
}

fn overhead(key: Option<&Key>) -> usize {
    if key.is_some() { paceline_udp::seal::TAG } else { 0 }
}

fn hello(job: Job, name: String) -> Hello {
    let (mss, controller) = FETCH;
    let controller = controller.to_owned();
    Hello { random: [0; 16], cookie: None, job, mss, arrivals: false, ack_every: 2, bytes: None, controller, name }
}

/// The end that asks, and writes both traces.
fn ask(args: &Args, peer: SocketAddr, key: Option<&Key>, patience: Nanos) -> anyhow::Result<()> {
    let length = args.seconds.ok_or_else(|| anyhow!("--seconds: say how long the recording is to be, such as 60"))?;
    if args.down.is_none() && args.up.is_none() {
        bail!("nothing to record: give --down FILE, --up FILE or both");
    }
    if args.down == args.up {
        bail!(
            "--up: {} is the place of --down too; name another",
            args.up.as_deref().unwrap_or(Path::new("")).display()
        );
    }
    let terms = Terms::new(length, args.lead, args.most, args.down.is_some(), args.up.is_some())?;
    if [&args.down, &args.up].into_iter().flatten().any(|path| is_standard(path)) {
        bail!("-: standard output is the report's; name files for the traces");
    }
    // Before minutes are spent.
    for path in [&args.down, &args.up].into_iter().flatten() {
        Draft::check(path)?;
    }
    let clock = Clock::new();
    let (channel, _) = connect(peer, key, hello(Job::Record, terms.text()), OFFLOAD, clock, patience)?;
    let never = AtomicBool::new(false);
    let recorded = record(channel, &terms, Side::Client, overhead(key), patience, &never, &mut |_| {})?;
    let mut text = String::new();
    let mut object = json!({ "peer": peer.to_string(), "seconds": terms.seconds });
    if let Some(path) = &args.down {
        object["down"] = said(&mut text, path, &recorded.trace, &terms)?;
        write(path, |draft| draft.write_all(&recorded.trace))?;
    }
    if let Some(path) = &args.up {
        let other = fetch(peer, key, &terms, recorded.other, path, patience)?;
        object["up"] = said(&mut text, path, &other, &terms)?;
    }
    if let Some([least, median, longest]) = recorded.held {
        let [least, median, longest] = [least, median, longest].map(Nanos::as_secs_f64);
        writeln!(text, "upwards, a packet was held for {least:.2} to {longest:.2} s, median {median:.2} s")?;
        object["up_held_s"] = json!({ "min": least, "p50": median, "max": longest });
    }
    Ok(crate::print::out(&if args.json { format!("{object}\n") } else { text })?)
}

/// Brings the trace of the direction to the other end; answers what it is.
fn fetch(
    peer: SocketAddr,
    key: Option<&Key>,
    terms: &Terms,
    bytes: u64,
    path: &Path,
    patience: Nanos,
) -> anyhow::Result<Vec<u8>> {
    if bytes == 0 {
        bail!(
            "{}: nothing arrived there while it was recorded; record for longer, or look at the path",
            path.display()
        );
    }
    let (clock, hello) = (Clock::new(), hello(Job::Fetch, terms.name()));
    let plan = Plan::of(&hello, patience)?;
    let (channel, _) = connect(peer, key, hello, OFFLOAD, clock, patience)?;
    let file = Arc::new(in_memory()?);
    let keep = Box::new(|| Ok(()));
    let place = Place { file: Arc::clone(&file), bytes, keep };
    take(channel, clock, &plan, Some(place), Nanos::from_secs(1), &mut |_| {})?;
    let mut trace = vec![0; bytes as usize];
    file.read_exact_at(&mut trace, 0)?;
    write(path, |draft| draft.write_all(&trace))?;
    Ok(trace)
}

/// What was recorded, for people and for programs, and whether it can be trusted.
fn said(text: &mut String, path: &Path, trace: &[u8], terms: &Terms) -> anyhow::Result<Value> {
    let name = complaint::one_line(&path.display().to_string());
    if trace.is_empty() {
        bail!("{name}: nothing arrived while it was recorded; record for longer, or look at the path");
    }
    let trace = Trace::read(&name, trace)?;
    let info = TraceInfo::of(&trace);
    writeln!(text, "{name}")?;
    for line in info.to_string().lines() {
        writeln!(text, "  {line}")?;
    }
    // Nine tenths: what is sent comes in steps, and acknowledgements are on top (our choice).
    if trace.mean_rate() > terms.most.mul_f64(0.9) {
        complaint::print(&format!(
            "{name}: its rate is that of --most, {} Mbit/s: the link may carry more; give a higher one",
            terms.most.as_mbps()
        ));
    }
    Ok(super::as_json(path, &info))
}

/// Recordings of the direction to here that wait for being fetched: name and trace.
type Waiting = Arc<Mutex<VecDeque<(String, Vec<u8>)>>>;

/// What a session is about.
enum Work {
    /// A recording; the marker says that there is one.
    Record(Terms, Arc<()>),
    /// A trace that is fetched.
    Give(Plan, Vec<u8>),
}

/// The end that waits.
fn serve(args: &Args, listen: SocketAddr, key: Option<Key>, patience: Nanos) -> anyhow::Result<()> {
    let (clock, sealed) = (Clock::new(), overhead(key.as_ref()));
    let mut listener = Listener::bind(listen, key, OFFLOAD, clock)?;
    crate::print::out(&listening(listener.address(), args.json))?;
    let (waiting, recording) = (Waiting::default(), Arc::new(()));
    loop {
        let decide = |_: SocketAddr, hello: &Hello| {
            let ready = agree(hello, args.most, &waiting, &recording, patience)?;
            let bytes = if let Work::Give(_, trace) = &ready { Some(trace.len() as u64) } else { None };
            Ok(Agreed { bytes, ready })
        };
        for accepted in listener.accept(clock.now() + Nanos::from_secs(1), decide)? {
            let Accepted { channel, ready, .. } = match accepted {
                Ok(accepted) => accepted,
                Err(unanswered) => {
                    complaint::print(&unanswered.to_string());
                    continue;
                }
            };
            let (kept, last) = (waiting.clone(), args.once && matches!(ready, Work::Give(..)));
            let json = args.json;
            let session = move || session(channel, ready, &kept, sealed, patience, json);
            let session = thread::Builder::new().spawn(session)?;
            if last {
                session.join().map_err(|_| anyhow!("the session's thread panicked"))?;
                return Ok(());
            }
        }
    }
}

fn agree(hello: &Hello, most: Rate, waiting: &Waiting, recording: &Arc<()>, patience: Nanos) -> Result<Work, String> {
    match hello.job {
        Job::Record => {
            let terms = Terms::parse(&hello.name).map_err(|problem| problem.to_string())?;
            if terms.most > most {
                return Err(format!("it sends at most {} Mbit/s; give --most {}mbit", most.as_mbps(), most.as_mbps()));
            }
            // Two would share the link, and each record a part of it.
            if Arc::strong_count(recording) > 1 {
                return Err("another recording is under way; try again later".to_owned());
            }
            Ok(Work::Record(terms, recording.clone()))
        }
        Job::Fetch => {
            let plan = Plan::of(hello, patience).map_err(|problem| problem.to_string())?;
            let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let found = waiting.iter().find(|(name, _)| *name == hello.name).map(|(_, trace)| trace.clone());
            Ok(Work::Give(plan, found.ok_or("there is no such recording any more; record again")?))
        }
        _ => Err("it records traces alone; start paceline serve for transfers".to_owned()),
    }
}

fn session(channel: Channel, work: Work, waiting: &Waiting, sealed: usize, patience: Nanos, json: bool) {
    let peer = channel.peer();
    let ended: anyhow::Result<String> = match work {
        Work::Record(terms, recording) => {
            let never = AtomicBool::new(false);
            let mut recording = Some(recording);
            let mut keep = |trace: &[u8]| {
                let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.push_back((terms.name(), trace.to_vec()));
                while waiting.len() > KEPT {
                    waiting.pop_front();
                }
                // The link is free from now on.
                recording = None;
            };
            let recorded = record(channel, &terms, Side::Server, sealed, patience, &never, &mut keep);
            let line = |done: Recorded| {
                let (seconds, sent) = (terms.seconds, done.sent);
                if json {
                    return json!({ "peer": peer.to_string(), "recorded_s": seconds, "sent_packets": sent })
                        .to_string();
                }
                format!("{peer}: recorded {seconds} s, {sent} packets sent")
            };
            recorded.map(line).map_err(Into::into)
        }
        Work::Give(plan, trace) => {
            let line = || match json {
                true => json!({ "peer": peer.to_string(), "fetched_bytes": trace.len() }).to_string(),
                false => format!("{peer}: fetched its trace"),
            };
            give_trace(channel, &plan, &trace).map(|()| line())
        }
    };
    match ended {
        // When standard output is closed there is nowhere to report to.
        Ok(line) => drop(crate::print::out(&format!("{line}\n"))),
        Err(problem) => complaint::print(&format!("{peer}: {problem}")),
    }
}

/// A file that has no name.
fn in_memory() -> std::io::Result<File> {
    Ok(rustix::fs::memfd_create("trace", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

fn give_trace(channel: Channel, plan: &Plan, trace: &[u8]) -> anyhow::Result<()> {
    let mut file = in_memory()?;
    file.write_all(trace)?;
    let content = Content::File(file, trace.len() as u64);
    give(channel, Clock::new(), plan, content, None, Nanos::from_secs(1), &mut |_| {})?;
    Ok(())
}
