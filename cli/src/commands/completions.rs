//! `paceline completions`: what a shell asks for behind the tabulator key.

use std::process::ExitCode;

use clap_complete::Shell;

/// Print completions for a shell, such as for bash: source <(paceline completions bash)
///
/// make install puts them where bash, zsh and fish look.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "paceline", &mut text);
    crate::print::out(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
