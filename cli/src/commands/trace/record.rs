//! `paceline trace record`: both ends of a recording.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{anyhow, bail};
use paceline_cc::{Nanos, Rate};
use paceline_files::{Draft, is_standard, write};
use paceline_path::{Trace, TraceInfo};
use paceline_udp::SessionKey;
use paceline_udp::record::{RecordEnd, RecordServer, RecordSession, Terms, ask, fetch};
use serde_json::{Value, json};

use crate::commands::udp::{address, key, seconds};
use crate::commands::{count, listening, span};
use crate::complaint;

/// Record what a link between two machines delivers, in both directions, while it is kept backlogged.
#[derive(clap::Args)]
#[command(override_usage = "paceline trace record --listen ADDR [OPTIONS]\n       \
                            paceline trace record ADDR --seconds N [--down FILE] [--up FILE] [OPTIONS]")]
pub(crate) struct Args {
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
        (None, Some(to)) => record(args, address(to)?, key.as_ref(), patience),
        (None, None) => bail!("give ADDR, or --listen ADDR"),
    }
}

/// The end that asks, and writes both traces.
fn record(args: &Args, peer: SocketAddr, key: Option<&SessionKey>, patience: Nanos) -> anyhow::Result<()> {
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
    let recorded = ask(peer, key, &terms, patience)?;
    let mut text = String::new();
    let mut object = json!({ "peer": peer.to_string(), "seconds": terms.seconds });
    if let Some(path) = &args.down {
        object["down"] = said(&mut text, path, &recorded.trace, &terms)?;
        write(path, |draft| draft.write_all(&recorded.trace))?;
    }
    if let Some(path) = &args.up {
        if recorded.other == 0 {
            bail!(
                "{}: nothing arrived there while it was recorded; record for longer, or look at the path",
                path.display()
            );
        }
        let other = fetch(peer, key, &terms, recorded.other, patience)?;
        write(path, |draft| draft.write_all(&other))?;
        object["up"] = said(&mut text, path, &other, &terms)?;
    }
    if let Some([least, median, longest]) = recorded.held {
        let [least, median, longest] = [least, median, longest].map(Nanos::as_secs_f64);
        writeln!(text, "upwards, a packet was held for {least:.2} to {longest:.2} s, median {median:.2} s")?;
        object["up_held_s"] = json!({ "min": least, "p50": median, "max": longest });
    }
    Ok(crate::print::out(&if args.json { format!("{object}\n") } else { text })?)
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

/// The end that waits.
fn serve(args: &Args, listen: SocketAddr, key: Option<SessionKey>, patience: Nanos) -> anyhow::Result<()> {
    let mut server = RecordServer::bind(listen, key, args.most, patience)?;
    crate::print::out(&listening(server.address(), args.json))?;
    loop {
        for accepted in server.accept(Nanos::from_secs(1))? {
            let session = match accepted {
                Ok(session) => session,
                Err(unanswered) => {
                    complaint::print(&unanswered.to_string());
                    continue;
                }
            };
            let (json, last) = (args.json, args.once && session.fetches());
            let session = thread::Builder::new().spawn(move || run_one(session, json))?;
            if last {
                session.join().map_err(|_| anyhow!("the session's thread panicked"))?;
                return Ok(());
            }
        }
    }
}

fn run_one(session: RecordSession, json: bool) {
    let peer = session.peer();
    let line = match session.run() {
        Ok(RecordEnd::Recorded { seconds, sent }) if json => {
            json!({ "peer": peer.to_string(), "recorded_s": seconds, "sent_packets": sent }).to_string()
        }
        Ok(RecordEnd::Recorded { seconds, sent }) => format!("{peer}: recorded {seconds} s, {sent} packets sent"),
        Ok(RecordEnd::Fetched { bytes }) if json => {
            json!({ "peer": peer.to_string(), "fetched_bytes": bytes }).to_string()
        }
        Ok(RecordEnd::Fetched { .. }) => format!("{peer}: fetched its trace"),
        Err(problem) => return complaint::print(&format!("{peer}: {problem}")),
    };
    // When standard output is closed there is nowhere to report to.
    drop(crate::print::out(&format!("{line}\n")));
}
