//! `paceline alcc fetch`: a file, or filler bytes, from a `paceline alcc serve`.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use paceline_alcc::transfer::Status;
use paceline_cc::Spec;
use paceline_files::is_standard;

use super::asking::{Asking, Report};
use crate::commands::{bytes, udp};

/// The controller of what this end says, which is short: it decides nothing.
const CONTROLLER: &str = "copa";

/// Fetch a file, or filler bytes, from a paceline alcc serve, which chooses the controller.
///
/// The file appears when it is whole; until then its bytes are in FILE.paceline-part, and the same command goes on from there. To a device
/// or a pipe they go in order.
#[derive(clap::Args)]
#[command(
    override_usage = "paceline alcc fetch [OPTIONS] NAME ADDR\n       paceline alcc fetch [OPTIONS] --bytes N ADDR"
)]
pub(crate) struct Args {
    /// The file's name there, unless --bytes is given, and HOST or HOST:PORT.
    #[arg(value_name = "NAME ADDR", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// The file to write, - for standard output; without it NAME, in this folder.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say how large it is, and fetch nothing.
    #[arg(long, conflicts_with_all = ["output", "bytes"])]
    stat: bool,
    /// So many filler bytes (zeros) instead of a file.
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true)]
    bytes: Option<u64>,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let spec: Spec = CONTROLLER.parse()?;
    let (asking, json) = (&args.asking, args.asking.json);
    match (args.what.as_slice(), args.bytes) {
        ([from], Some(size)) => {
            let mut report = Report::new(json, "received", from, "", None);
            let done = asking.remote(from)?.fetch_zeros(size, &spec, &mut report)?;
            report.end(&done)?;
        }
        ([_], None) => bail!("nothing to fetch: give NAME ADDR or --bytes N ADDR"),
        ([name, _], Some(_)) => bail!("{name}: a file is fetched whole; leave --bytes out"),
        ([name, from], None) if args.stat => {
            udp::check_name(name)?;
            let done = asking.remote(from)?.stat(name, &spec)?;
            if done.answer.status == Status::Go && !json {
                crate::print::out(&format!("{name}: {} bytes\n", done.answer.number))?;
            } else {
                Report::new(json, "found", from, name, None).end(&done)?;
            }
        }
        ([name, from], None) => {
            let to = match &args.output {
                Some(path) => path.clone(),
                None => {
                    let base = Path::new(name).file_name();
                    base.ok_or_else(|| anyhow!("{name}: is not a name of a file; give one by --output"))?.into()
                }
            };
            crate::commands::alone(json, &to)?;
            udp::check_name(name)?;
            let mut report = Report::new(json, "received", from, name, None);
            let done = asking.remote(from)?.fetch(name, &to, &spec, &mut report)?;
            report.clear();
            // Where the file itself is on standard output nothing else is.
            if done.answer.status != Status::Go || !is_standard(&to) {
                report.end(&done)?;
            }
        }
        _ => bail!("give NAME ADDR or --bytes N ADDR"),
    }
    Ok(())
}
