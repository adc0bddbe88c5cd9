//! `paceline icn fetch`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use paceline_cc::Spec;
use paceline_cc::observe::Observed;
use paceline_experiment::{Layer, Moment, Subject, Tap};
use paceline_files::{Draft, is_standard};
use paceline_icn::Name;
use paceline_lab::qlog::Qlog;
use paceline_linux::thread::process_cpu_time;
use paceline_named::client::{self, Fetched, Options, Progress, fetch_in_order, fetch_to_file};
use serde_json::json;

use super::super::udp::megabytes;
use super::places::{Asking, Places};
use crate::commands::BadValue;
use crate::progress::{BYTES, drawn};
use crate::terminal;

/// Fetch an object from the routers that have it; every byte is verified.
///
/// An interrupted fetch leaves FILE.paceline-part, from which the same command goes on, with another --range too; FILE appears when it
/// is whole. To a device or a pipe the bytes go in order.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The object.
    name: Name,
    #[command(flatten)]
    places: Places,
    /// The file to write, - for standard output; without it NAME, in this folder.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// These bytes alone, both ends included; without B, to the end.
    #[arg(long, value_name = "A-B", value_parser = range)]
    range: Option<Range<u64>>,
    #[command(flatten)]
    asking: Asking,
    /// What happened, as JSON on standard output.
    #[arg(long)]
    json: bool,
    /// A qlog of each source's controller, in this folder.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

/// `A-B` or `A-`.
fn range(text: &str) -> Result<Range<u64>, BadValue> {
    let parsed = || {
        let (first, last) = text.split_once('-')?;
        let end = if last.is_empty() { u64::MAX } else { last.parse::<u64>().ok()?.checked_add(1)? };
        let first = first.parse().ok()?;
        (first < end).then_some(first..end)
    };
    let give = "the first and the last byte, such as 0-999, or the first alone: 1000-";
    parsed().ok_or_else(|| BadValue::new("a range of bytes", give))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let spec = args.asking.controller()?;
    let patience = args.asking.patience()?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(args.name.to_string()));
    super::super::alone(args.json, &out)?;
    let in_order = Draft::is_in_order(&out)?;
    let sources = args.places.whereabouts()?.places(&args.name, patience)?;
    let mut asking = Options::new(spec.clone());
    asking.patience = patience;
    let name = if is_standard(&out) {
        client::target_blocking(&args.name, &sources, asking)?
    } else {
        client::target_beside(&args.name, &sources, &out, asking)?
    };
    let mut qlog = args.qlog.as_deref().map(|folder| qlog_of(folder, &args.name, &sources)).transpose()?;
    let mut options = observed(&spec, &sources, qlog.as_mut());
    options.patience = patience;
    let bar = terminal::draws().then(|| drawn(BYTES));
    options.progress = bar.as_ref().map(shown);
    let range = args.range.clone().unwrap_or(0..u64::MAX);
    let fetch = if in_order { fetch_in_order } else { fetch_to_file };
    let done = fetch(&name, &sources, range, &out, options);
    bar.iter().for_each(ProgressBar::finish_and_clear);
    let logs = qlog.map(Qlog::finish).transpose()?.unwrap_or_default();
    let done = done?;
    if !is_standard(&out) {
        let text = if args.json { as_json(&done, &spec, &out, &sources, &logs) } else { as_line(&done, &spec, &out) };
        crate::print::out(&text)?;
    }
    Ok(())
}

/// Options under this controller, which writes its log.
fn observed(spec: &Spec, sources: &[SocketAddr], mut qlog: Option<&mut Qlog>) -> Options {
    let spec = spec.clone().over(&paceline_cc::datapath::ICN);
    let mut options = Options::new(spec.clone());
    let env = client::env();
    let mut observers: Vec<_> = (0..sources.len() as u32)
        .map(|flow| {
            qlog.as_mut().and_then(|qlog| {
                qlog.observer(&Subject {
                    flow,
                    layer: Layer::Packets,
                    spec: &spec,
                    env: &env,
                    moment: Moment::default(),
                })
            })
        })
        .collect();
    observers.reverse();
    // Sources are added in their order.
    options.controller = Box::new(move |_| Observed::wrap(spec.build(&client::env()), observers.pop().flatten()));
    options
}

fn qlog_of(folder: &Path, name: &Name, sources: &[SocketAddr]) -> anyhow::Result<Qlog> {
    let name = name.to_string();
    let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
    Ok(Qlog::new(folder, &name[..12], format!("{name} from {}", sources.join(", ")).as_str())?)
}

fn as_json(done: &Fetched, spec: &Spec, out: &Path, sources: &[SocketAddr], logs: &[PathBuf]) -> String {
    let seconds = done.took.as_secs_f64().max(1e-9);
    let cpu = process_cpu_time().as_secs_f64();
    let stats = &done.stats;
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let value = json!({
        "name": done.name.to_string(), "file": out.display().to_string(),
        "media_type": done.manifest.media_type, "length": done.manifest.length,
        "bytes": done.bytes, "resumed": done.resumed, "verified": true,
        "seconds": seconds, "mbps": done.bytes as f64 * 8e-6 / seconds,
        "cpu_s": cpu, "gbit_per_cpu_s": done.bytes as f64 * 8e-9 / cpu.max(1e-9),
        "controller": spec.to_string(), "qlog": paths(logs),
        "duplicates": stats.duplicates,
        "sources": sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    format!("{value}\n")
}

fn as_line(done: &Fetched, spec: &Spec, out: &Path) -> String {
    let seconds = done.took.as_secs_f64().max(1e-9);
    let mut line = format!(
        "{}: {} in {seconds:.2} s: {:.3} Mbit/s, {spec}, every byte verified",
        out.display(),
        megabytes(done.bytes),
        done.bytes as f64 * 8e-6 / seconds
    );
    if done.resumed > 0 {
        let _ = write!(line, "; {} were there from before", megabytes(done.resumed));
    }
    line + "\n"
}

/// Moves the bar.
fn shown(bar: &ProgressBar) -> client::OnProgress {
    let bar = bar.clone();
    Box::new(move |progress: &Progress| {
        bar.set_length(progress.of);
        bar.set_position(progress.bytes);
    })
}
