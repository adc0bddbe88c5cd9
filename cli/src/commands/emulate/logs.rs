//! The packet logs of a run.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use paceline_emulator::emulator::EmulatorTap;
use paceline_emulator::log::{Mahimahi, Pcapng};
use paceline_experiment::DumbbellWay;
use paceline_files::{Draft, is_standard};
use paceline_linux::clock::Clock;

use super::Args;
use super::path::Ways;

/// Begins the logs that are asked for. Each appears under its name when all of it is written.
pub(super) fn open(args: &Args, clock: Clock, ways: &Ways) -> anyhow::Result<Vec<Box<dyn EmulatorTap>>> {
    let mut taps: Vec<Box<dyn EmulatorTap>> = Vec::new();
    let place = |draft: Draft| draft.finish().map_err(io::Error::other);
    for (option, path) in [("--log", &args.log), ("--mahimahi-log", &args.mahimahi_log)] {
        if path.as_deref().is_some_and(is_standard) {
            bail!("{option} -: standard output is the command's; name a file");
        }
    }
    if let Some(path) = &args.log {
        let name = format!("--log {}", path.display());
        let log = Pcapng::new(&name, Draft::create(path)?, clock, Pcapng::HEADERS, &[], place).context(name)?;
        taps.push(Box::new(log));
    }
    if let Some(path) = &args.mahimahi_log {
        for (direction, end) in [(DumbbellWay::Down, ".down"), (DumbbellWay::Up, ".up")] {
            let path = with_end(path, end);
            let name = format!("--mahimahi-log {}", Path::new(&path).display());
            let draft = Draft::regular(path.as_ref())?;
            let log = Mahimahi::new(&name, draft, clock, direction, ways.schedule(direction)?, place).context(name)?;
            taps.push(Box::new(log));
        }
    }
    Ok(taps)
}

fn with_end(path: &Path, end: &str) -> OsString {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name
}
