//! The default congestion control of a network namespace, for a while.
//!
//! A process of its own restores the one before: it waits for the end of the one that changed it, whatever ends that.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ExitCode, Stdio};

use anyhow::Context;

/// The default, of the caller's namespace.
const SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// First argument of the process that restores; the module and the default before follow.
const RESTORE: &str = "__restore";

/// A changed default. Dropping it restores the one before.
pub(super) struct Default {
    before: String,
    guard: Child,
}

impl Default {
    /// Makes `name` the default.
    ///
    /// # Errors
    /// What the system refuses.
    pub(super) fn set(name: &str) -> anyhow::Result<Self> {
        let before = current().context(SETTING)?;
        let guard = process::Command::new("/proc/self/exe")
            .arg0("paceline")
            .args([RESTORE, name, &before])
            .stdin(Stdio::piped())
            // What the terminal sends is not for it.
            .process_group(0)
            .spawn()
            .context("cannot start the process that restores the default")?;
        // From here on whatever happens is undone.
        let default = Self { before, guard };
        fs::write(SETTING, name).with_context(|| format!("{SETTING}: cannot be set to {name}"))?;
        Ok(default)
    }

    pub(super) fn before(&self) -> &str {
        &self.before
    }
}

impl Drop for Default {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn current() -> io::Result<String> {
    Ok(fs::read_to_string(SETTING)?.trim().to_owned())
}

/// Whether this process was started by [`Default::set`]: then it waits and restores.
pub(in super::super) fn reentered() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1).map_while(|argument| argument.into_string().ok());
    arguments.next().filter(|first| first == RESTORE)?;
    let (name, before) = (arguments.next()?, arguments.next()?);
    // It ends with the process that holds the other side.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    // Another may have been set meanwhile.
    if current().is_ok_and(|current| current == name) && fs::write(SETTING, &before).is_err() {
        // The one before is gone; every kernel has this one.
        let _ = fs::write(SETTING, "reno");
    }
    Some(ExitCode::SUCCESS)
}
