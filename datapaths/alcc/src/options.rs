//! Options of an engine, and the environment variables that carry them into a program.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use paceline_cc::datapath::{SHIM, SHIM_QUEUE};
use paceline_cc::foreign::clipped;
use paceline_cc::mdi::text::MAX_TEXT;
use paceline_cc::{Bytes, Misfit, Nanos, Spec, SpecError, UnitError};
pub use paceline_transport::{Acks, Mode};

/// Options of an [`Engine`](crate::Engine), for every socket that it adopts.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The controller. `copa`: low delay without a receiver half.
    pub controller: Spec,
    /// How bytes reach TCP.
    pub mode: Mode,
    /// Where acknowledgements come from.
    pub acks: Acks,
    /// Bytes that a socket's queue holds. 1 000 000 (our choice: what leaves in 80 ms at 100 Mbit/s. The authors' release has
    /// 10 000 000, which each client that stops reading would cost).
    pub queue: usize,
    /// Bytes that all queues together hold; [`FLOOR`] of each socket's are beside it. 256 000 000 (our choice: 256
    /// clients that do not read, each with a full queue; the kernel's own buffers for this many take several times as much).
    pub memory: usize,
    /// How long a peer may take nothing, after a close or at the end of the program, before what is queued is dropped. 60 s (our
    /// choice: as long as nginx's `send_timeout` and Apache's `TimeOut` wait for a client that takes nothing).
    pub linger: Duration,
    /// The kernel's congestion control below.
    pub lower: Lower,
    /// Sockets to one destination prefix share their smallest RTT. Not by default: one client could slow its neighbours.
    pub share: bool,
    /// Sockets to one destination prefix share one window. Implies `share`.
    pub aggregate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller: DEFAULT_CONTROLLER.parse().expect("in the registry"),
            mode: Mode::Auto,
            acks: Acks::Auto,
            queue: 1_000_000,
            memory: 256_000_000,
            linger: Duration::from_mins(1),
            lower: Lower::Auto,
            share: false,
            aggregate: false,
        }
    }
}

/// The kernel's congestion control below a socket (`TCP_CONGESTION`): `auto`, `keep` or a name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Lower {
    /// The one that the controller is best above ([`paceline_cc::entry::Entry::lower`]), where the kernel has it and lets this
    /// process choose it; else the program's. Inline it is the program's too: there the kernel sends, and it is the program that
    /// chose how.
    #[default]
    Auto,
    /// The program's.
    Keep,
    /// This one; a socket that cannot have it is not taken.
    Named(String),
}

impl From<String> for Lower {
    fn from(text: String) -> Self {
        match text.as_str() {
            "auto" => Self::Auto,
            "keep" => Self::Keep,
            _ => Self::Named(text),
        }
    }
}

impl fmt::Display for Lower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Keep => "keep",
            Self::Named(name) => name,
        })
    }
}

/// Bytes that a socket may queue whatever the others hold (our choice: one block of the queue, which bounds it at the rate
/// of 64 kB a round trip).
pub const FLOOR: usize = 64 * 1024;

const DEFAULT_CONTROLLER: &str = "copa";

/// The controller.
pub const CONTROLLER: &str = "PACELINE_CC";
/// How bytes reach TCP.
pub const MODE: &str = "PACELINE_MODE";
/// Where acknowledgements are read.
pub const ACKS: &str = "PACELINE_ACKS";
/// Bytes that a socket's queue holds.
pub const QUEUE: &str = "PACELINE_QUEUE";
/// Bytes that all queues of the process hold.
pub const MEMORY: &str = "PACELINE_MEMORY";
/// How long a peer may take nothing at the end.
pub const LINGER: &str = "PACELINE_LINGER";
/// The kernel's congestion control below.
pub const LOWER: &str = "PACELINE_LOWER";
/// Whether sockets to one prefix share their smallest RTT.
pub const SHARE: &str = "PACELINE_SHARE";
/// Whether sockets to one prefix share one window.
pub const AGGREGATE: &str = "PACELINE_AGGREGATE";

/// One option, of an engine or of a program with one: help, environment, manual and guide have it from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The environment variable, which carries it into a program.
    pub name: &'static str,
    /// Its name as an option of `paceline shim` and in the text of `alcc_options`: `cc` for `PACELINE_CC`.
    pub option: &'static str,
    /// What it takes, in one word: `SIZE`.
    pub value: &'static str,
    /// What it is when it is not given.
    pub default: &'static str,
    /// What it decides; code is in backticks.
    pub what: &'static str,
}

/// Where the messages of the preloaded library go.
pub const LOG: Variable = Variable {
    name: "PACELINE_LOG",
    option: "log",
    value: "FILE",
    default: "standard error",
    what: "Write the library's messages to this file.",
};

/// An option of an [`Engine`](crate::Engine).
#[derive(Clone, Copy, Debug)]
pub struct EngineOption {
    /// What it is.
    pub variable: Variable,
    read: fn(&mut Options, &str) -> Result<(), OptionProblem>,
    write: fn(&Options) -> String,
}

/// The text of a model that the user of this machine names (`mdi:model=FILE`): at most as long as one may be.
fn model(file: &str) -> io::Result<String> {
    io::read_to_string(File::open(file)?.take(MAX_TEXT as u64 + 1))
}

/// Every option of an engine.
pub const OPTIONS: [EngineOption; 9] = [
    EngineOption {
        variable: Variable {
            name: CONTROLLER,
            option: "cc",
            value: "CONTROLLER",
            default: DEFAULT_CONTROLLER,
            what: "The controller and its parameters, such as `copa` or `copa:delta=0.1`; `paceline controllers` lists them.",
        },
        read: |options, text| {
            options.controller = Spec::read(text, model)?;
            Ok(())
        },
        write: |options| options.controller.to_string(),
    },
    EngineOption {
        variable: Variable {
            name: MODE,
            option: "mode",
            value: "MODE",
            default: "auto",
            what: "How bytes reach TCP: `queue` (ours, in chunks that the controller permits), `inline` (the program writes to the \
                   kernel, whose pacing the controller sets), `framed` (in frames that a peer with this library acknowledges; not under \
                   `paceline shim`) or `auto` (`inline` under `paceline shim`, else `queue`).",
        },
        read: |options, text| word(text, &Mode::WORDS).map(|mode| options.mode = mode),
        write: |options| options.mode.to_string(),
    },
    EngineOption {
        variable: Variable {
            name: ACKS,
            option: "acks",
            value: "SOURCE",
            default: "auto",
            what: "Where acknowledgements are read: `stamps` (the socket's error queue: the kernel reports when each chunk was \
                   acknowledged), `info` (`TCP_INFO` alone, every 1 to 5 ms) or `auto` (`stamps` where the kernel has them).",
        },
        read: |options, text| word(text, &Acks::WORDS).map(|acks| options.acks = acks),
        write: |options| options.acks.to_string(),
    },
    EngineOption {
        variable: Variable {
            name: QUEUE,
            option: "queue",
            value: "SIZE",
            default: "1MB",
            what: "How much a connection's queue holds.",
        },
        read: |options, text| {
            let bytes: Bytes = text.parse().map_err(OptionProblem::Unit)?;
            if !(64_000..=4_000_000_000).contains(&bytes.0) {
                return Err(OptionProblem::Queue(bytes));
            }
            options.queue = bytes.0 as usize;
            Ok(())
        },
        write: |options| Bytes(options.queue as u64).to_string(),
    },
    EngineOption {
        variable: Variable {
            name: MEMORY,
            option: "memory",
            value: "SIZE",
            default: "256MB",
            what: "How much the queues of all connections of a process hold together; 64 kB of each are not counted, so that no \
                   connection stops.",
        },
        read: |options, text| {
            let bytes: Bytes = text.parse().map_err(OptionProblem::Unit)?;
            if bytes.0 > 1_000_000_000_000 {
                return Err(OptionProblem::Memory(bytes));
            }
            options.memory = usize::try_from(bytes.0).unwrap_or(usize::MAX);
            Ok(())
        },
        write: |options| Bytes(options.memory as u64).to_string(),
    },
    EngineOption {
        variable: Variable {
            name: LINGER,
            option: "linger",
            value: "TIME",
            default: "60s",
            what: "How long a peer may take nothing, after a close or at the end of the program, before what is queued is dropped \
                   and the connection reset.",
        },
        read: |options, text| {
            let span: Nanos = text.parse().map_err(OptionProblem::Unit)?;
            options.linger = Duration::from_nanos(span.as_nanos());
            Ok(())
        },
        write: |options| {
            let nanos = u64::try_from(options.linger.as_nanos()).unwrap_or(u64::MAX - 1);
            paceline_cc::units::span_text(Nanos::from_nanos(nanos))
        },
    },
    EngineOption {
        variable: Variable {
            name: LOWER,
            option: "lower",
            value: "NAME",
            default: "auto",
            what: "The kernel's congestion control below: `auto` (with a queue the one that is best below this controller, where \
                   the kernel has it and allows it; else the program's), `keep` (the program's), or a name such as `cubic`, `reno` or \
                   `bbr`.",
        },
        read: |options, text| {
            if !text.is_empty() {
                options.lower = Lower::from(text.to_owned());
            }
            Ok(())
        },
        write: |options| options.lower.to_string(),
    },
    EngineOption {
        variable: Variable {
            name: SHARE,
            option: "share",
            value: "SWITCH",
            default: "off",
            what: "Whether connections to one destination prefix (/24, /48) share their smallest RTT: `on` or `off`. A client can \
                   make its neighbours slow with it, so use it only where they trust each other.",
        },
        read: |options, text| word(text, &SWITCH).map(|share| options.share = share),
        write: |options| switch(options.share),
    },
    EngineOption {
        variable: Variable {
            name: AGGREGATE,
            option: "aggregate",
            value: "SWITCH",
            default: "off",
            what: "Whether connections to one destination prefix share one window: `on` or `off`.",
        },
        read: |options, text| word(text, &SWITCH).map(|aggregate| options.aggregate = aggregate),
        write: |options| switch(options.aggregate),
    },
];

/// A variable whose value cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct OptionsError {
    /// Its name, such as [`MODE`].
    pub variable: &'static str,
    /// What is wrong with the value.
    pub problem: OptionProblem,
}

/// What is wrong with the value of a variable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionProblem {
    /// No such controller, or not with these parameters.
    #[error(transparent)]
    Controller(#[from] SpecError),
    /// Not one of the words that the variable takes.
    #[error("'{value}' is not one of {wanted}")]
    Word {
        /// As given.
        value: String,
        /// What it takes.
        wanted: String,
    },
    /// Not a size or a time.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A queue too small to hold a chunk, or too large to count.
    #[error("{0} is not between 64kB and 4GB")]
    Queue(Bytes),
    /// More memory than can be counted.
    #[error("{0} is more than 1TB")]
    Memory(Bytes),
    /// Not a port, nor a range of ports.
    #[error("'{0}' is not a port; give numbers from 1 to 65535 or ranges of them, such as 80,443,8000-8999")]
    Port(String),
    /// Not an address, nor a prefix.
    #[error("'{0}' is not an address; give addresses or prefixes, such as 192.0.2.1,10.0.0.0/8,2001:db8::/32")]
    Peer(String),
    /// Bytes that are not a text.
    #[error("its value is not text")]
    NotText,
    /// The controller needs what the preloaded library lacks.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// Frames to clients that know nothing of them.
    #[error("framed needs paceline at the other end; take auto, queue or inline")]
    Frames,
}

impl OptionProblem {
    /// It is of this variable.
    pub fn of(self, variable: &'static str) -> OptionsError {
        OptionsError { variable, problem: self }
    }
}

impl Options {
    /// Reads the variables `PACELINE_*` of this process; what is not set keeps its default.
    ///
    /// # Errors
    /// [`OptionsError`] for the first variable whose value is not one.
    pub fn from_env() -> Result<Self, OptionsError> {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    /// As [`Options::from_env`], from any source of variables.
    ///
    /// # Errors
    /// [`OptionsError`] for the first variable whose value is not one.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        for option in &OPTIONS {
            if let Some(text) = var(option.variable.name) {
                (option.read)(&mut options, &text).map_err(|problem| problem.of(option.variable.name))?;
            }
        }
        Ok(options)
    }

    /// Whether a preloaded library can serve ordinary clients with them: with queues in mode queue, else inline.
    ///
    /// # Errors
    /// [`OptionProblem::Misfit`] and [`OptionProblem::Frames`].
    pub fn for_ordinary_clients(&self) -> Result<(), OptionsError> {
        if self.mode == Mode::Framed {
            return Err(OptionProblem::Frames.of(MODE));
        }
        let datapath = if self.mode == Mode::Queue { &SHIM_QUEUE } else { &SHIM };
        datapath.carries(&self.controller).map_err(|misfit| OptionProblem::Misfit(misfit).of(CONTROLLER))
    }

    /// The variables that make a program's [`Options::from_env`] answer these options.
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        OPTIONS.iter().map(|option| (option.variable.name, (option.write)(self))).collect()
    }
}

const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

fn word<T: Copy>(text: &str, words: &[(&'static str, T)]) -> Result<T, OptionProblem> {
    let found = words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value);
    found.ok_or_else(|| {
        let wanted: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        OptionProblem::Word { value: clipped(text), wanted: wanted.join(", ") }
    })
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(vars: &[(&str, &str)]) -> Result<Options, OptionsError> {
        let find = |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Options::from_vars(find)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let options = Options {
            controller: "verus:r=4".parse().unwrap(),
            mode: Mode::Inline,
            acks: Acks::Info,
            queue: 2_500_000,
            memory: 50_000_000,
            linger: Duration::from_millis(1500),
            lower: Lower::Named("reno".to_owned()),
            share: true,
            aggregate: true,
        };
        let vars = options.to_env();
        let read = Options::from_vars(|name| vars.iter().find(|(known, _)| *known == name).map(|(_, v)| v.clone()));
        assert_eq!(read, Ok(options));
        assert_eq!(from(&[]), Ok(Options::default()));
        let defaults: Vec<(&str, &str)> =
            OPTIONS.iter().map(|option| (option.variable.name, option.variable.default)).collect();
        assert_eq!(from(&defaults), Ok(Options::default()));
        for variable in OPTIONS.map(|option| option.variable) {
            assert_eq!(variable.name, format!("PACELINE_{}", variable.option.to_uppercase()));
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let says = |name, value| from(&[(name, value)]).unwrap_err().to_string();
        for name in OPTIONS.map(|option| option.variable.name).into_iter().filter(|name| *name != LOWER) {
            assert!(!says(name, "a\nb\u{1b}[2J").contains(char::is_control), "{name}");
        }
        assert!(says(CONTROLLER, "copper").starts_with("PACELINE_CC: unknown controller 'copper'"));
        assert_eq!(says(MODE, "fast"), "PACELINE_MODE: 'fast' is not one of auto, queue, inline, framed");
        assert_eq!(says(QUEUE, "1kB"), "PACELINE_QUEUE: 1kB is not between 64kB and 4GB");
        assert_eq!(says(MEMORY, "2000GB"), "PACELINE_MEMORY: 2000GB is more than 1TB");
        assert!(says(LINGER, "soon").starts_with("PACELINE_LINGER: "));
    }
}
