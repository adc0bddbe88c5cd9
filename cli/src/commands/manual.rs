//! `paceline manual`: manual pages of the command, made of what `--help` says.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;
use paceline_files::{OutputError, check_folder, write_regular};

/// Write manual pages into a folder, one for each command: paceline.1, paceline-race.1 and so on.
///
/// make install puts them where man(1) looks.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder, made if it does not exist.
    folder: PathBuf,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> anyhow::Result<ExitCode> {
    let folder = &args.folder;
    check_folder(folder)?;
    std::fs::create_dir_all(folder).map_err(|source| OutputError { path: folder.clone(), source })?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, folder)?;
    Ok(ExitCode::SUCCESS)
}

/// The page of a command, and those of its own.
fn pages(command: &clap::Command, folder: &Path) -> Result<(), OutputError> {
    let page = Man::new(command.clone());
    write_regular(&folder.join(page.get_filename()), |draft| page.render(draft))?;
    command.get_subcommands().filter(|own| !own.is_hide_set()).try_for_each(|own| pages(own, folder))
}
