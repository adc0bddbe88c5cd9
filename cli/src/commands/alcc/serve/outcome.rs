//! What came of a session, in a line or an object.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Instant;

use paceline_alcc::transfer::{Answer, Request, Status};
use serde_json::json;

use crate::commands::udp::megabytes;
use crate::complaint;

/// What came of a session.
pub(super) struct Outcome {
    pub(super) peer: SocketAddr,
    pub(super) begun: Instant,
    pub(super) request: Option<Request>,
    /// Bytes of objects that moved, and from which byte on.
    pub(super) bytes: u64,
    pub(super) resumed: u64,
    pub(super) answer: Option<Answer>,
    /// Why it was cut.
    pub(super) error: Option<String>,
}

impl Outcome {
    /// The client has what it wanted.
    pub(super) fn is_done(&self) -> bool {
        self.error.is_none() && self.answer.as_ref().is_some_and(|answer| answer.status == Status::Go)
    }

    fn status(&self) -> &'static str {
        match (&self.error, &self.answer) {
            (None, Some(answer)) => answer.status.word(),
            _ => "lost",
        }
    }

    fn message(&self) -> &str {
        let said = self.answer.as_ref().map_or("", |answer| &answer.message);
        self.error.as_deref().unwrap_or(said)
    }

    fn mbps(&self) -> (f64, f64) {
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-9);
        (seconds, self.bytes as f64 * 8e-6 / seconds)
    }

    pub(super) fn as_json(&self) -> String {
        let (seconds, mbps) = self.mbps();
        let request = self.request.as_ref();
        let value = json!({
            "peer": self.peer.to_string(), "kind": request.map(|request| request.kind.word()),
            "name": request.map(|request| &request.name), "bytes": self.bytes, "resumed_from": self.resumed,
            "seconds": seconds, "mbps": mbps, "status": self.status(), "message": self.message(),
        });
        format!("{value}\n")
    }

    pub(super) fn as_line(&self) -> String {
        let (seconds, mbps) = self.mbps();
        let mut line = self.peer.to_string();
        if let Some(request) = &self.request {
            let _ = write!(line, " {} {}", request.kind.word(), request.name);
        }
        let _ = write!(line, ": {}", self.status());
        if !self.message().is_empty() {
            let _ = write!(line, ": {}", self.message());
        }
        if self.bytes > 0 {
            let _ = write!(line, ", {} in {seconds:.2} s: {mbps:.3} Mbit/s", megabytes(self.bytes));
        }
        if self.resumed > 0 {
            let _ = write!(line, ", from byte {} on", self.resumed);
        }
        complaint::one_line(&line) + "\n"
    }
}
