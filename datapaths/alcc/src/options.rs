//! Options of an engine, and the environment variables that carry them into a program.

use std::fmt;
use std::time::Duration;

use paceline_cc::datapath::{SHIM, SHIM_QUEUE};
use paceline_cc::units::clipped;
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
    /// clients that do not read, each with a full queue; the kernel's own buffers for so many take several times as much).
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

/// The controller: `NAME:KEY=VALUE`.
pub const CONTROLLER: &str = "PACELINE_CC";
/// `auto`, `queue`, `inline` or `framed`.
pub const MODE: &str = "PACELINE_MODE";
/// `auto`, `stamps` or `info`.
pub const ACKS: &str = "PACELINE_ACKS";
/// Bytes that a socket's queue holds: `1MB`.
pub const QUEUE: &str = "PACELINE_QUEUE";
/// Bytes that all queues of the process hold: `256MB`.
pub const MEMORY: &str = "PACELINE_MEMORY";
/// How long a peer may take nothing at the end: `1m`.
pub const LINGER: &str = "PACELINE_LINGER";
/// The kernel's congestion control below.
pub const LOWER: &str = "PACELINE_LOWER";
/// `on` or `off`.
pub const SHARE: &str = "PACELINE_SHARE";
/// `on` or `off`.
pub const AGGREGATE: &str = "PACELINE_AGGREGATE";

/// What is wrong with an option, in one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// No such controller, or not with these parameters.
    #[error("{CONTROLLER}: {0}")]
    Controller(#[from] SpecError),
    /// Not one of the words that the variable takes.
    #[error("{name}: '{value}' is not one of {wanted}")]
    Word {
        /// The variable.
        name: &'static str,
        /// As given.
        value: String,
        /// What it takes.
        wanted: &'static str,
    },
    /// Not a size or a time.
    #[error("{name}: {source}")]
    Unit {
        /// The variable.
        name: &'static str,
        /// What is wrong.
        source: UnitError,
    },
    /// A queue too small to hold a chunk, or too large to count.
    #[error("{QUEUE}: {0} is not between 64kB and 4GB")]
    Queue(Bytes),
    /// More memory than can be counted.
    #[error("{MEMORY}: {0} is more than 1TB")]
    Memory(Bytes),
    /// The controller needs what the preloaded library lacks.
    #[error("{CONTROLLER}: {0}")]
    Misfit(#[from] Misfit),
    /// Frames to clients that know nothing of them.
    #[error("{MODE}: framed needs paceline at the other end; take auto, queue or inline")]
    Frames,
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
        if let Some(text) = var(CONTROLLER) {
            options.controller = text.parse()?;
        }
        if let Some(text) = var(MODE) {
            options.mode = word(MODE, &text, "auto, queue, inline, framed", &Mode::WORDS)?;
        }
        if let Some(text) = var(ACKS) {
            options.acks = word(ACKS, &text, "auto, stamps, info", &Acks::WORDS)?;
        }
        if let Some(text) = var(QUEUE) {
            let bytes: Bytes = text.parse().map_err(|source| OptionsError::Unit { name: QUEUE, source })?;
            if !(64_000..=4_000_000_000).contains(&bytes.0) {
                return Err(OptionsError::Queue(bytes));
            }
            options.queue = bytes.0 as usize;
        }
        if let Some(text) = var(MEMORY) {
            let bytes: Bytes = text.parse().map_err(|source| OptionsError::Unit { name: MEMORY, source })?;
            if bytes.0 > 1_000_000_000_000 {
                return Err(OptionsError::Memory(bytes));
            }
            options.memory = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        }
        if let Some(text) = var(LINGER) {
            let span: Nanos = text.parse().map_err(|source| OptionsError::Unit { name: LINGER, source })?;
            options.linger = Duration::from_nanos(span.as_nanos());
        }
        if let Some(name) = var(LOWER).filter(|name| !name.is_empty()) {
            options.lower = Lower::from(name);
        }
        if let Some(text) = var(SHARE) {
            options.share = word(SHARE, &text, "on, off", &SWITCH)?;
        }
        if let Some(text) = var(AGGREGATE) {
            options.aggregate = word(AGGREGATE, &text, "on, off", &SWITCH)?;
        }
        Ok(options)
    }

    /// Whether a preloaded library can serve ordinary clients with them: with queues in mode queue, else inline.
    ///
    /// # Errors
    /// [`OptionsError::Misfit`] and [`OptionsError::Frames`].
    pub fn for_ordinary_clients(&self) -> Result<(), OptionsError> {
        if self.mode == Mode::Framed {
            return Err(OptionsError::Frames);
        }
        let datapath = if self.mode == Mode::Queue { &SHIM_QUEUE } else { &SHIM };
        Ok(datapath.carries(&self.controller)?)
    }

    /// The variables that make a program's [`Options::from_env`] answer these options.
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        let linger = paceline_cc::units::span_text(Nanos::from_nanos(
            u64::try_from(self.linger.as_nanos()).unwrap_or(u64::MAX - 1),
        ));
        let mut vars = vec![
            (CONTROLLER, self.controller.to_string()),
            (MODE, self.mode.to_string()),
            (ACKS, self.acks.to_string()),
            (QUEUE, Bytes(self.queue as u64).to_string()),
            (MEMORY, Bytes(self.memory as u64).to_string()),
            (LINGER, linger),
            (SHARE, switch(self.share)),
            (AGGREGATE, switch(self.aggregate)),
        ];
        vars.push((LOWER, self.lower.to_string()));
        vars
    }
}

const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

fn word<T: Copy>(
    name: &'static str,
    text: &str,
    wanted: &'static str,
    words: &[(&'static str, T)],
) -> Result<T, OptionsError> {
    let found = words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value);
    found.ok_or_else(|| OptionsError::Word { name, value: clipped(text), wanted })
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
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let says = |name, value| from(&[(name, value)]).unwrap_err().to_string();
        for name in [CONTROLLER, MODE, ACKS, QUEUE, MEMORY, LINGER, SHARE, AGGREGATE] {
            assert!(!says(name, "a\nb\u{1b}[2J").contains(char::is_control), "{name}");
        }
        assert!(says(CONTROLLER, "copper").starts_with("PACELINE_CC: unknown controller 'copper'"));
        assert_eq!(says(MODE, "fast"), "PACELINE_MODE: 'fast' is not one of auto, queue, inline, framed");
        assert_eq!(says(QUEUE, "1kB"), "PACELINE_QUEUE: 1kB is not between 64kB and 4GB");
        assert_eq!(says(MEMORY, "2000GB"), "PACELINE_MEMORY: 2000GB is more than 1TB");
        assert!(says(LINGER, "soon").starts_with("PACELINE_LINGER: "));
    }
}
