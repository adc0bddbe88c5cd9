//! What the environment asks of this library.

use std::path::PathBuf;

use paceline_alcc::export::{Settings, SettingsError};
use paceline_alcc::filter::Filter;
use paceline_alcc::options::LOG;
use paceline_alcc::{Mode, Options, OptionsError};

/// Variable: when set, nothing is said but errors in the configuration.
const QUIET: &str = "PACELINE_QUIET";

/// What the environment asks of this library.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) options: Options,
    pub(crate) filter: Filter,
    pub(crate) settings: Settings,
    pub(crate) log: Option<PathBuf>,
    pub(crate) quiet: bool,
}

/// What is wrong with the environment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// An option of the engine or of the filter.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// What other processes are to see.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl Config {
    /// Reads the variables.
    pub(crate) fn from_env() -> Result<Self, ConfigError> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let config = Self {
            options: Options::from_env()?,
            filter: Filter::from_env()?,
            settings: Settings::from_env()?,
            log: set(LOG.name).map(PathBuf::from),
            quiet: set(QUIET).is_some(),
        };
        config.options.for_ordinary_clients()?;
        Ok(config)
    }

    /// Whether what is written goes through queues. Only where it was asked for: a preloaded library cannot see every write, and
    /// what it does not see would overtake what is queued.
    pub(crate) fn queues(&self) -> bool {
        self.options.mode == Mode::Queue
    }

    /// What is served, for the line at the start.
    pub(crate) fn describe(&self) -> String {
        let mode = if self.queues() { Mode::Queue } else { Mode::Inline };
        let mut text = format!("{} above TCP, mode {mode}", self.options.controller);
        for (name, list) in self.filter.to_env() {
            let name = if name.ends_with("PORTS") { "ports" } else { "peers" };
            text += &format!(", {name} {list}");
        }
        text
    }
}
