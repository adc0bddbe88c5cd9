//! `paceline alcc send`: an upload, or filler bytes.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail};
use paceline_alcc::Mode;
use paceline_lab::input;

use super::asking::{Asking, Report};
use crate::commands::{bytes, span, udp};

/// Upload a file to a paceline alcc serve, or send filler bytes, with any controller above TCP.
///
/// The same command again goes on where the one before stopped, whatever ended it.
#[derive(clap::Args)]
#[command(
    override_usage = "paceline alcc send [OPTIONS] FILE ADDR\n       paceline alcc send [OPTIONS] --bytes N ADDR\n       \
                            paceline alcc send [OPTIONS] --seconds S ADDR"
)]
pub(crate) struct Args {
    /// The file, unless --bytes or --seconds is given, and HOST or HOST:PORT.
    #[arg(value_name = "FILE ADDR", required = true, num_args = 1..=2)]
    what: Vec<OsString>,
    /// The controller (paceline controllers), such as copa:delta=0.1.
    #[arg(long, value_name = "CONTROLLER", default_value = "copa")]
    controller: String,
    /// The name that it has there; without it the file's.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Filler bytes (zeros) for S seconds.
    #[arg(long, value_name = "S", value_parser = span, allow_negative_numbers = true, conflicts_with = "bytes")]
    seconds: Option<f64>,
    /// So many filler bytes (zeros) instead of a file.
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true)]
    bytes: Option<u64>,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let text = &args.controller;
    let spec = input::controller(text).map_err(|error| anyhow!("--controller {text}: {error}"))?;
    Mode::Framed.datapath().carries(&spec).map_err(|misfit| anyhow!("--controller {text}: {misfit}"))?;
    let measures = args.seconds.is_some() || args.bytes.is_some();
    let (asking, json) = (&args.asking, args.asking.json);
    match args.what.as_slice() {
        [to] if measures => {
            let time = args.seconds.map(|time| udp::seconds("--seconds", time)).transpose()?;
            let time = time.map(|time| Duration::from_nanos(time.as_nanos()));
            let to = to.to_string_lossy();
            let mut report = Report::new(json, "sent", &to, "", Some(&spec));
            let done = asking.remote(&to)?.send_zeros(args.bytes, time, &spec, &mut report)?;
            report.end(&done)?;
        }
        [argument] => return Err(udp::nothing_to_send(argument)),
        [file, _] if measures => bail!("{}: a file is sent whole; leave --bytes and --seconds out", file.display()),
        [file, to] => {
            let (file, to): (&Path, _) = (file.as_ref(), to.to_string_lossy());
            udp::file_to_send(file)?;
            let name = udp::name_of(args.name.as_deref(), file)?;
            udp::check_name(&name)?;
            let mut report = Report::new(json, "sent", &to, &name, Some(&spec));
            let done = asking.remote(&to)?.send(file, &name, &spec, &mut report)?;
            report.end(&done)?;
        }
        _ => bail!("give FILE ADDR, --bytes N ADDR or --seconds S ADDR"),
    }
    Ok(())
}
