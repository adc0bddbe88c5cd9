//! What came of a session, in a line or an object.

use std::fmt::Write as _;

use paceline_transfer::UploadOutcome;
use serde_json::json;

use crate::commands::udp::megabytes;
use crate::complaint;

fn message(outcome: &UploadOutcome) -> String {
    let said = || outcome.answer.as_ref().map_or(String::new(), |answer| answer.message.clone());
    outcome.error.as_ref().map_or_else(said, |error| complaint::with_causes(error))
}

fn mbps(outcome: &UploadOutcome) -> (f64, f64) {
    let seconds = outcome.took.as_secs_f64().max(1e-9);
    (seconds, outcome.bytes as f64 * 8e-6 / seconds)
}

pub(super) fn as_json(outcome: &UploadOutcome) -> String {
    let (seconds, mbps) = mbps(outcome);
    let request = outcome.request.as_ref();
    let value = json!({
        "peer": outcome.peer.to_string(), "kind": request.map(|request| request.kind.word()),
        "name": request.map(|request| &request.name), "bytes": outcome.bytes, "resumed_from": outcome.resumed,
        "seconds": seconds, "mbps": mbps, "status": outcome.status(), "message": message(outcome),
    });
    format!("{value}\n")
}

pub(super) fn as_line(outcome: &UploadOutcome) -> String {
    let ((seconds, mbps), message) = (mbps(outcome), message(outcome));
    let mut line = outcome.peer.to_string();
    if let Some(request) = &outcome.request {
        let _ = write!(line, " {} {}", request.kind.word(), request.name);
    }
    let _ = write!(line, ": {}", outcome.status());
    if !message.is_empty() {
        let _ = write!(line, ": {message}");
    }
    if outcome.bytes > 0 {
        let _ = write!(line, ", {} in {seconds:.2} s: {mbps:.3} Mbit/s", megabytes(outcome.bytes));
    }
    if outcome.resumed > 0 {
        let _ = write!(line, ", from byte {} on", outcome.resumed);
    }
    complaint::one_line(&line) + "\n"
}
