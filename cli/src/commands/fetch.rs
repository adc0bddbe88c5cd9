//! `paceline fetch`: a file, or filler bytes, from a `paceline serve`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use paceline_files::Draft;
use paceline_linux::clock::Clock;
use paceline_udp::connect;
use paceline_udp::transfer::{ContentPlace, TransferError, take};
use paceline_udp::wire::control::SessionJob;

use super::udp::{Asking, address};

/// Fetch a file, or filler bytes, from a paceline serve, under any controller.
#[derive(clap::Args)]
#[command(override_usage = "paceline fetch [OPTIONS] NAME ADDR\n       paceline fetch [OPTIONS] --bytes N ADDR")]
pub(crate) struct Args {
    /// The file's name there, unless --bytes is given, and HOST or HOST:PORT.
    #[arg(value_name = "NAME ADDR", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// The file to write; without it NAME, in this folder.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let asking = &args.asking;
    let (name, from) = match args.what.as_slice() {
        [from] if asking.bytes.is_some() => (None, from),
        [_] => bail!("nothing to fetch: give NAME ADDR or --bytes N ADDR"),
        [name, _] if asking.bytes.is_some() => bail!("{name}: a file is fetched whole; leave --bytes out"),
        [name, from] => (Some(name), from),
        _ => bail!("give NAME ADDR or --bytes N ADDR"),
    };
    let peer = address(from)?;
    let key = asking.common.key()?;
    let job = if name.is_some() { SessionJob::Fetch } else { SessionJob::Generate };
    let draft = match (name, &args.output) {
        (None, _) => None,
        (Some(_), Some(path)) => Some(Draft::regular(path)?),
        (Some(name), None) => {
            let base = Path::new(name).file_name().ok_or_else(|| anyhow!("{name}: is not a name of a file"))?;
            Some(Draft::regular(Path::new(base))?)
        }
    };
    let (hello, plan) = asking.hello(peer, key.is_some(), job, asking.bytes, name.map_or("", String::as_str))?;
    let clock = Clock::new();
    let patience = asking.common.patience()?;
    let (channel, welcome) = connect(peer, key.as_ref(), hello, asking.common.offload(), clock, patience)?;
    let place = match draft {
        None => None,
        Some(draft) => {
            let bytes = welcome.bytes.ok_or_else(|| anyhow!("{peer} does not say how long the file is"))?;
            let file = Arc::new(draft.file().try_clone()?);
            Some(ContentPlace { file, bytes, keep: Box::new(|| draft.finish().map_err(TransferError::from)) })
        }
    };
    let mut report = asking.report("received", peer, &plan);
    let every = asking.every()?;
    let done = take(channel, clock, &plan, place, every, &mut |interval| report.interval(interval))?;
    report.end(&done)?;
    Ok(ExitCode::SUCCESS)
}
