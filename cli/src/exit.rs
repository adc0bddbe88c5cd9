//! What the exit status says. A command that runs a program ends with the program's, and otherwise as a shell does: 126 where it cannot be
//! run, 127 where it is not there, 128 and the number of the signal that ended it (`paceline_emulator::command`).

use std::error::Error;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
use paceline_emulator::command::CommandError;

/// An exit status other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All that was asked for ran, and something of it failed: a contestant, a claim, a rule, a comparison, a log.
    Failed = 1,
    /// Wrong arguments, a wrong file, or what this machine cannot do: one line on standard error says which, and how to fix it.
    Refused = 2,
    /// All went well, on a host that was too busy for its figures to be trusted (our choice: 1 is a failure, 2 a mistake).
    Untrusted = 3,
    /// Ctrl-C: 128 and the number of its signal.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Success, unless something failed.
pub(crate) fn unless_failed(failed: bool) -> ExitCode {
    if failed { Exit::Failed.into() } else { ExitCode::SUCCESS }
}

/// What a command ends with after an error: where a program did not start, what a shell would have.
pub(crate) fn after(error: &(dyn Error + 'static)) -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(error) = error.downcast_ref::<CommandError>() {
        return error.exit_status().into();
    }
    Exit::Refused.into()
}
