//! One event log for each controller of a flow ([`paceline_cc::event_log`], docs/design/event-log.md): what it was informed of
//! and what it answered, to be replayed.

use std::io;
use std::path::{Path, PathBuf};

use paceline_cc::Controller;
use paceline_cc::event_log::{Header, Log};
use paceline_cc::observe::{Event, Observer};
use paceline_experiment::{Layer, Subject, Tap};

use crate::flow_logs::{FlowLogError, FlowLogs};
use paceline_files::{Draft, OutputError};

/// Logs the controllers of one world; give it to [`paceline_sim::run`], then call [`EventLogs::finish`].
#[derive(Debug)]
pub struct EventLogs {
    logs: FlowLogs<(u32, Layer), Written>,
    about: String,
    variables: bool,
}

/// A log, until it is complete.
#[derive(Debug)]
struct Written(Option<Log<Draft>>);

impl EventLogs {
    /// Logs into `folder` (made where it is missing) as `NAME-FLOW.jsonl`, flows counted from 1; of a controller above TCP as
    /// `NAME-FLOW-above.jsonl`. `name` is the contestant, `about` says what was run. Of many flows the first
    /// [`crate::flow_logs::MAX_FLOWS`] are logged.
    ///
    /// # Errors
    /// [`FlowLogError`] when the folder cannot be made.
    pub fn new(folder: &Path, name: &str, about: &str) -> Result<Self, FlowLogError> {
        Ok(Self { logs: FlowLogs::new("event log", folder, name)?, about: about.to_owned(), variables: false })
    }

    /// With the controllers' own variables: logs of version 2.
    #[must_use]
    pub fn with_variables(self, variables: bool) -> Self {
        Self { variables, ..self }
    }

    /// Completes the files and gives their paths. Without this call none is left behind.
    ///
    /// # Errors
    /// [`FlowLogError`] when anything could not be written; the logs already completed stay.
    pub fn finish(self) -> Result<Vec<PathBuf>, FlowLogError> {
        self.logs.finish(|log| {
            let Some(log) = log.0.take() else { return Ok(()) };
            log.finish()?.finish().map_err(|OutputError { source, .. }| source)
        })
    }
}

impl Tap for EventLogs {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let (suffix, place) = match of.layer {
            Layer::Packets => (".jsonl", ""),
            Layer::Above => ("-above.jsonl", " above TCP"),
        };
        let name = self.logs.name().to_owned();
        let (about, variables) = (&self.about, self.variables);
        let open = |path: &Path, number: usize| -> io::Result<Written> {
            let draft = Draft::regular(path).map_err(|OutputError { source, .. }| source)?;
            let about = format!("{name} flow {number}{place}: {about}");
            let header = if variables { Header::with_variables } else { Header::new };
            Log::with_header(draft, &header(of.spec, of.env, &about)).map(|log| Written(Some(log)))
        };
        let log = self.logs.log(of.flow, (of.flow, of.layer), suffix, open)?;
        Some(Box::new(log))
    }
}

impl Observer for Written {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        if let Some(log) = &mut self.0 {
            log.on_event(event, controller);
        }
    }
}
