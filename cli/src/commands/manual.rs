//! `paceline manual`: manual pages of the command, made of what `--help` says.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;

/// Write manual pages into a folder, one for each command: paceline.1, paceline-race.1 and so on.
///
/// make install puts them where man(1) looks.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder, made if it does not exist.
    folder: PathBuf,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> anyhow::Result<ExitCode> {
    let written = std::fs::create_dir_all(&args.folder).and_then(|()| clap_mangen::generate_to(command, &args.folder));
    written.map_err(|error| {
        anyhow!("{}: cannot be written ({error}); name a folder that you may write to", args.folder.display())
    })?;
    Ok(ExitCode::SUCCESS)
}
