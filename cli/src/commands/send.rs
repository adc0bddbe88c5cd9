//! `paceline send`: a file, or filler bytes, to a `paceline serve`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use paceline_linux::clock::Clock;
use paceline_remembered::PathStore;
use paceline_udp::connect;
use paceline_udp::transfer::{Content, give};
use paceline_udp::wire::control::SessionJob;

use super::span;
use super::udp::{Asking, address, file_to_send, name_of, nothing_to_send, seconds};

/// Send a file, or filler bytes, to a paceline serve, under any controller.
#[derive(clap::Args)]
#[command(override_usage = "paceline send [OPTIONS] FILE ADDR\n       paceline send [OPTIONS] --bytes N ADDR\n       \
                            paceline send [OPTIONS] --seconds S ADDR")]
pub(crate) struct Args {
    /// The file, unless --bytes or --seconds is given, and HOST or HOST:PORT.
    #[arg(value_name = "FILE ADDR", required = true, num_args = 1..=2)]
    what: Vec<OsString>,
    /// The name that it has there; without it the file's.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Filler bytes (zeros) for S seconds.
    #[arg(long, value_name = "S", value_parser = span, allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Keep what the transfer learns of the path in this file, for --cc cubic:start=resume and the like.
    #[arg(long, value_name = "FILE")]
    remembered: Option<PathBuf>,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let asking = &args.asking;
    let time = args.seconds.map(|time| seconds("--seconds", time)).transpose()?;
    let (content, job, bytes, name, to) = match args.what.as_slice() {
        [to] => {
            if asking.bytes.is_none() && time.is_none() {
                return Err(nothing_to_send(to));
            }
            (Content::Zeros(asking.bytes), SessionJob::Discard, asking.bytes, String::new(), to)
        }
        [file, to] => {
            if asking.bytes.is_some() || time.is_some() {
                bail!("{}: a file is sent whole; leave --bytes and --seconds out", file.display());
            }
            let (opened, about) = file_to_send(file.as_ref())?;
            let name = name_of(args.name.as_deref(), file.as_ref())?;
            (Content::File(opened, about.len()), SessionJob::Store, Some(about.len()), name, to)
        }
        _ => bail!("give FILE ADDR, --bytes N ADDR or --seconds S ADDR"),
    };
    let peer = address(&to.to_string_lossy())?;
    let key = asking.common.key()?;
    let (hello, mut plan) = asking.hello(peer, key.is_some(), job, bytes, &name)?;
    plan.store = args.remembered.as_ref().map(PathStore::new);
    let clock = Clock::new();
    let patience = asking.common.patience()?;
    let (channel, _) = connect(peer, key.as_ref(), hello, asking.common.offload(), clock, patience)?;
    let mut report = asking.report("sent", peer, &plan);
    let every = asking.every()?;
    let done = give(channel, clock, &plan, content, time, every, &mut |interval| report.interval(interval))?;
    report.end(&done)?;
    Ok(ExitCode::SUCCESS)
}
