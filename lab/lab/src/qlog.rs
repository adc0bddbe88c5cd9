//! One qlog file for each flow, as its sender saw it.
//!
//! JSON text sequences (RFC 7464) by draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events-13, with events of a
//! schema of ours for what these have no word for ([`SCHEMA`], docs/design/qlog.md); or by the versions before, main schema 0.3
//! (draft-ietf-quic-qlog-main-schema-02) and its events (draft-ietf-quic-qlog-quic-events-01), for qvis ([`QlogForm`]). What a TCP or
//! datagram flow has no word for is said so:
//!
//! - Packets are numbered in the order of sending, retransmissions too. Every packet is a `1RTT` one; its data is a
//!   `stream` frame of stream 0, a heartbeat is a `ping`. `raw.length` is what the packet has on the wire, `raw.payload_length` what the
//!   window counts, which is at most `max_datagram_size`.
//! - An acknowledgement is a received packet with an `ack` frame of the packets that it newly delivered, or of the
//!   largest one so far where it only carried marks. One without news is not there.
//! - Losses come before the acknowledgement that showed them, as a controller is informed of them.
//! - The state is the controller's own where it has names for it; else `recovery` lasts until everything sent before it has been
//!   acknowledged; `slow_start` while the controller says that it is starting; `application_limited` from when the application had
//!   nothing to send until a packet fills the window; all else is `congestion_avoidance`.
//! - Of a controller above TCP, packets are TCP's, window and state the controller's own.
//!
//! Events go to the file as they happen: memory does not grow with the length of a run.

mod log;
mod own;
mod words;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::observe::{Event, Observer};
pub use paceline_cc::qlog::{NotAForm, QlogForm, SCHEMA};
use paceline_cc::{Controller, Time};
use paceline_experiment::{Layer, Subject, Tap, When};
use paceline_files::OutputError;

use crate::flow_logs::{FlowLogError, FlowLogs};
use log::Log;

/// How often `paceline:variables` is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variables {
    /// At a change of state, else at most once in a millisecond.
    #[default]
    Some,
    /// After every event that changed one.
    All,
}

/// A word that is not known.
#[derive(Debug, thiserror::Error)]
#[error("neither some nor all; write some or all")]
pub struct NotHowMany;

impl FromStr for Variables {
    type Err = NotHowMany;

    /// `some`, `all`.
    fn from_str(text: &str) -> Result<Self, NotHowMany> {
        match text {
            "some" => Ok(Self::Some),
            "all" => Ok(Self::All),
            _ => Err(NotHowMany),
        }
    }
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// In which form.
    pub form: QlogForm,
    /// How much of what controllers describe.
    pub variables: Variables,
}

/// What a log says of what was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// In a few words, for people.
    pub text: String,
    /// The scenario of a run in the simulator or of a race: its name, the number of the run from 1, and its seed.
    pub scenario: Option<(String, u32, u64)>,
}

impl From<&str> for About {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), scenario: None }
    }
}

/// Logs the flows of one world; give it to [`paceline_sim::run`], then call [`Qlog::finish`].
#[derive(Debug)]
pub struct Qlog {
    logs: FlowLogs<u32, Log>,
    about: About,
    style: Style,
}

impl Qlog {
    /// Logs into `folder` (made where it is missing) as `NAME-FLOW.sqlog`, flows counted from 1; `name` is the
    /// contestant. Of many flows the first [`crate::flow_logs::MAX_FLOWS`] are logged.
    ///
    /// # Errors
    /// [`FlowLogError`] when the folder cannot be made.
    pub fn new(folder: &Path, name: &str, about: impl Into<About>) -> Result<Self, FlowLogError> {
        Ok(Self { logs: FlowLogs::new("qlog", folder, name)?, about: about.into(), style: Style::default() })
    }

    /// In this style.
    #[must_use]
    pub fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    /// Completes the files and gives their paths. Without this call none is left behind.
    ///
    /// # Errors
    /// [`FlowLogError`] when anything could not be written; the flows already completed stay.
    pub fn finish(self) -> Result<Vec<PathBuf>, FlowLogError> {
        self.logs.finish(|log| match log.take() {
            (Some(error), _) => Err(error),
            (None, Some(file)) => file.finish().map_err(|OutputError { source, .. }| source),
            (None, None) => Ok(()),
        })
    }
}

impl Tap for Qlog {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let (name, about, style) = (self.logs.name().to_owned(), &self.about, self.style);
        let open =
            |path: &Path, number: usize| Log::open(path, &words::Title { name: &name, number, about }, style, of);
        let log = self.logs.log(of.flow, of.flow, ".sqlog", open)?;
        log.lock().unwrap_or_else(PoisonError::into_inner).above |= of.layer == Layer::Above;
        Some(Box::new(Pen { log, layer: of.layer }))
    }

    fn on_when(&mut self, now: Time, when: &When) {
        for log in self.logs.open() {
            log.lock().unwrap_or_else(PoisonError::into_inner).mark(now, when);
        }
    }
}

/// What one of a flow's controllers writes its log with.
struct Pen {
    log: Arc<Mutex<Log>>,
    layer: Layer,
}

impl Observer for Pen {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).see(event, controller, self.layer);
    }
}

#[cfg(test)]
mod tests;
