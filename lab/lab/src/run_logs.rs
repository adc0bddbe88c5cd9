//! The logs of a run: of each kind that was asked for.

use std::path::{Path, PathBuf};

use paceline_cc::Time;
use paceline_cc::observe::{Observer, both};
use paceline_experiment::{Subject, Tap, When};

use crate::events::EventLogs;
use crate::flow_logs::FlowLogError;
use crate::qlog::{About, Qlog, Style};

/// All logs of one run.
#[derive(Debug, Default)]
pub struct RunLogs {
    /// For tools of QUIC.
    pub qlog: Option<Qlog>,
    /// To be replayed.
    pub events: Option<EventLogs>,
}

impl RunLogs {
    /// Into the folders that are given, qlogs in a style; `name` is the contestant, `about` says what is run.
    ///
    /// # Errors
    /// [`FlowLogError`] when a folder cannot be made.
    pub fn open(
        qlog: Option<(&Path, Style)>,
        events: Option<&Path>,
        name: &str,
        about: About,
    ) -> Result<Self, FlowLogError> {
        let events = events.map(|folder| EventLogs::new(folder, name, &about.text)).transpose()?;
        let qlog = qlog.map(|(folder, style)| Ok(Qlog::new(folder, name, about)?.styled(style))).transpose()?;
        Ok(Self { qlog, events })
    }

    /// What sees the run; nothing where nothing is logged.
    pub fn tap(&mut self) -> Option<&mut dyn Tap> {
        if self.qlog.is_some() || self.events.is_some() { Some(self) } else { None }
    }

    /// Completes the files and gives their paths. Without this call none is left behind.
    ///
    /// # Errors
    /// [`FlowLogError`] when anything could not be written.
    pub fn finish(self) -> Result<Vec<PathBuf>, FlowLogError> {
        let mut paths = self.qlog.map(Qlog::finish).transpose()?.unwrap_or_default();
        paths.extend(self.events.map(EventLogs::finish).transpose()?.unwrap_or_default());
        Ok(paths)
    }
}

impl Tap for RunLogs {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let qlog = self.qlog.as_mut().and_then(|qlog| qlog.observer(of));
        let events = self.events.as_mut().and_then(|events| events.observer(of));
        both(qlog, events)
    }

    fn on_when(&mut self, now: Time, when: &When) {
        if let Some(qlog) = &mut self.qlog {
            qlog.on_when(now, when);
        }
    }
}
