//! Why a program that is not ours did not do its part.

use std::fmt;

use paceline_cc::Nanos;
use paceline_emulator::command::tree::TreeEnd;
use paceline_experiment::program::Side;

/// Why the flow of a program failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramFailure {
    /// It is not there, or does not run.
    #[error("version: '{command}' {how}; install it, or leave the contestant out{last}")]
    Version {
        /// As the scenario has it.
        command: String,
        /// How it ended.
        how: Ending,
        /// What it said.
        last: LastLines,
    },
    /// What is prepared once a race failed.
    #[error("prepare: '{command}' {how}; fix the command{last}")]
    Prepare {
        /// As the scenario has it.
        command: String,
        /// How it ended.
        how: Ending,
        /// What it said.
        last: LastLines,
    },
    /// The server ended.
    #[error("{}: {how} before it was ready{last}", side.name())]
    EndedBeforeReady {
        /// Which side it is.
        side: Side,
        /// How it ended.
        how: Ending,
        /// What it said.
        last: LastLines,
    },
    /// The server has no socket at its port.
    #[error("{}: did not listen on port {port} within {} s{last}", side.name(), within.as_secs_f64())]
    NotListening {
        /// Which side it is.
        side: Side,
        /// Its port.
        port: u16,
        /// How long it had.
        within: Nanos,
        /// What it said.
        last: LastLines,
    },
    /// The server did not say that it is ready.
    #[error("{}: did not say '{}' within {} s{last}", side.name(), line.escape_debug(), within.as_secs_f64())]
    NotSaid {
        /// Which side it is.
        side: Side,
        /// What it was to say.
        line: String,
        /// How long it had.
        within: Nanos,
        /// What it said instead.
        last: LastLines,
    },
    /// A side ended in the middle.
    #[error("{}: {how} at {:.1} s of {} s{}{last}", side.name(), at.as_secs_f64(), of.as_secs_f64(), allow(*how))]
    Ended {
        /// Which.
        side: Side,
        /// How it ended.
        how: Ending,
        /// When, from the start of its flow.
        at: Nanos,
        /// How long the flow was to be.
        of: Nanos,
        /// What it said.
        last: LastLines,
    },
    /// It sent nothing that came through.
    #[error("no data packet passed the path{0}")]
    NoData(LastLines),
}

/// How to allow an end that looks like success.
fn allow(how: Ending) -> &'static str {
    if how == Ending::Status(0) { "; write early = true if it may" } else { "" }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// Not within so many seconds.
    Never(u64),
    /// What became of it is not known: the process above it was ended.
    Unknown,
}

impl Ending {
    pub(super) fn of(end: &TreeEnd) -> Self {
        end.status.map(Self::Status).or(end.signal.map(Self::Signal)).unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "ended with status {status}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Never(seconds) => write!(f, "did not end within {seconds} s"),
            Self::Unknown => f.write_str("was ended from outside"),
        }
    }
}

/// The last lines of a side's standard error, each on a line of its own below the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastLines(pub Vec<String>);

impl fmt::Display for LastLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_line_and_what_the_program_said() {
        let last = LastLines(vec!["one".to_owned(), "two".to_owned()]);
        let (side, of) = (Side::Sender, Nanos::from_secs(30));
        let ended =
            |how, ms| ProgramFailure::Ended { side, how, at: Nanos::from_millis(ms), of, last: LastLines::default() };
        let listening =
            ProgramFailure::NotListening { side: Side::Receiver, port: 20_000, within: Nanos::from_secs(5), last };
        for (failure, text) in [
            (ended(Ending::Status(1), 400), "sender: ended with status 1 at 0.4 s of 30 s"),
            (ended(Ending::Signal(11), 12_340), "sender: ended by signal 11 at 12.3 s of 30 s"),
            (
                ended(Ending::Status(0), 5_000),
                "sender: ended with status 0 at 5.0 s of 30 s; write early = true if it may",
            ),
            (listening, "receiver: did not listen on port 20000 within 5 s\n  | one\n  | two"),
            (ProgramFailure::NoData(LastLines::default()), "no data packet passed the path"),
        ] {
            assert_eq!(failure.to_string(), text);
        }
    }
}
