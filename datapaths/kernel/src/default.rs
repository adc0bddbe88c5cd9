//! The default congestion control of a network namespace, for a while.
//!
//! A process of its own restores the one before: it waits for the end of the one that changed it, whatever ends that.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ExitCode, Stdio};

/// The default, of the caller's namespace.
const SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// First argument of the process that restores; the module and the default before follow.
const RESTORE: &str = "__restore";

/// Why there is no other default.
#[derive(Debug, thiserror::Error)]
pub enum DefaultError {
    /// The present one cannot be read.
    #[error("{SETTING}")]
    Unreadable(#[source] io::Error),
    /// The process that restores it cannot be started.
    #[error("cannot start the process that restores the default")]
    NoGuard(#[source] io::Error),
    /// The kernel refuses the new one.
    #[error("{SETTING}: cannot be set to {name}")]
    Refused {
        /// The congestion control.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A changed default of the caller's network namespace. Dropping it restores the one before.
#[derive(Debug)]
pub struct ChangedDefault {
    before: String,
    guard: Child,
}

impl ChangedDefault {
    /// Makes `name` the default. The program is started again as its own guard, and has to ask [`reentered`] first of all.
    ///
    /// # Errors
    /// [`DefaultError`].
    pub fn set(name: &str) -> Result<Self, DefaultError> {
        let before = current().map_err(DefaultError::Unreadable)?;
        let guard = process::Command::new("/proc/self/exe")
            .arg0("paceline")
            .args([RESTORE, name, &before])
            .stdin(Stdio::piped())
            // What the terminal sends is not for it.
            .process_group(0)
            .spawn()
            .map_err(DefaultError::NoGuard)?;
        // From here on whatever happens is undone.
        let default = Self { before, guard };
        match fs::write(SETTING, name) {
            Ok(()) => Ok(default),
            Err(source) => Err(DefaultError::Refused { name: name.to_owned(), source }),
        }
    }

    /// The one before.
    pub fn before(&self) -> &str {
        &self.before
    }
}

impl Drop for ChangedDefault {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn current() -> io::Result<String> {
    Ok(fs::read_to_string(SETTING)?.trim().to_owned())
}

/// Where this process was started by [`ChangedDefault::set`]: it waits and restores, and then has this exit status.
pub fn reentered() -> Option<ExitCode> {
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
