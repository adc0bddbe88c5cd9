//! `paceline icn publish`.

use std::path::PathBuf;
use std::process::ExitCode;

/// Put a file, or a folder with all its files, into a store, and print its name.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file or folder.
    #[arg(value_name = "FILE|DIR")]
    source: PathBuf,
    /// The store, a folder, which is made where there is none.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// What the bytes are, such as video/mp4; by the file's ending if not given.
    #[arg(long, value_name = "TYPE")]
    media_type: Option<String>,
    /// One JSON object instead of the name.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let _ = (&args.media_type, args.json);
    anyhow::bail!("{}: cannot be published into {}", args.source.display(), args.store.display())
}
