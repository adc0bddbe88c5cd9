//! `paceline icn stat`.

use std::path::PathBuf;
use std::process::ExitCode;

/// Show what a store holds: length, units, height of the tree, media type, and whether it is whole.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The object; all of the store if not given.
    name: Option<paceline_icn::Name>,
    /// The store.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Verify every unit.
    #[arg(long)]
    check: bool,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let _ = (args.name, args.check, args.json);
    anyhow::bail!("{}: holds nothing", args.store.display())
}
