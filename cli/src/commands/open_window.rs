//! `paceline open-window`: the TCP controller "open window", in the kernel while a program runs.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use paceline_emulator::command::{CommandError, Signals};

use crate::complaint;

/// Load the TCP controller paceline_open, whose window stays open at losses, and keep it while a program runs; without a
/// program, until this command ends. Needs root, and a paceline built with the feature ebpf.
///
/// For what runs below a controller of its own: `paceline shim --lower paceline_open`. Any user's socket may select it.
/// Never make it a default; it refuses.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program and its arguments, after --.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How often signals and the program are looked after.
const ROUND: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let _loaded = load()?;
    let Some((name, words)) = args.command.split_first() else {
        complaint::print(&format!("{NAME} is loaded until this command ends"));
        loop {
            thread::park();
        }
    };
    match Command::new(name).args(words).spawn() {
        Ok(child) => attend(child),
        Err(error) => {
            let program = name.display().to_string();
            let error = match error.kind() {
                std::io::ErrorKind::NotFound => CommandError::NotFound { program },
                _ => CommandError::NotRunnable { program, reason: error.to_string() },
            };
            complaint::print(&error.to_string());
            Ok(ExitCode::from(error.exit_status()))
        }
    }
}

#[cfg(feature = "ebpf")]
use ebpf::{NAME, load};
#[cfg(not(feature = "ebpf"))]
use without_ebpf::{NAME, load};

#[cfg(feature = "ebpf")]
mod ebpf {
    use paceline_kernel::{Loaded, OPEN_WINDOW};

    pub(super) const NAME: &str = OPEN_WINDOW.name;

    pub(super) fn load() -> anyhow::Result<Loaded> {
        Ok(OPEN_WINDOW.load()?)
    }
}

#[cfg(not(feature = "ebpf"))]
mod without_ebpf {
    pub(super) const NAME: &str = "paceline_open";

    pub(super) struct Nothing;

    pub(super) fn load() -> anyhow::Result<Nothing> {
        anyhow::bail!(
            "open-window: this paceline has no eBPF; build it with: cargo build --release -p paceline-cli --features ebpf"
        )
    }
}

/// Waits for the end of the program and answers its exit status, as a shell has it; passes signals on.
fn attend(mut child: Child) -> anyhow::Result<ExitCode> {
    // After the program has started: it would begin with these signals blocked. Those of the terminal reach it anyway.
    let signals = Signals::take().context("cannot take signals")?;
    let program = Pid::from_raw(child.id().cast_signed());
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the program")? {
            let shell = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
            return Ok(ExitCode::from(u8::try_from(shell).unwrap_or(u8::MAX)));
        }
        for signal in signals.sent() {
            let _ = kill(program, signal);
        }
        thread::sleep(ROUND);
    }
}
