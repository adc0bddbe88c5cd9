//! A qlog of another stack: JSON with traces, and JSON text sequences (also with a text in each line), by the schemas of
//! draft-ietf-quic-qlog-main-schema-09 to -14, of the versions 0.3 and 0.4 before, and of draft-00 to draft-02, whose events are arrays
//! where they have `event_fields`. Tested with what paceline, aioquic 1.7.2, ngtcp2 0.12.1, noq-proto 1.4.0, picoquic 1.1.52, quic-go
//! 0.65.0 and quinn-proto 0.11.19 write, and by their sources with the forms of quiche 0.30.0 and neqo.
//!
//! What a file is, its content says: a sequence begins with 0x1e, a text in each line has a second one. Where its header says another
//! thing, that is a note.
//!
//! The window, what is in flight, and round trips come from `quic:recovery_metrics_updated`; losses from `quic:packet_lost`; states, and
//! whether losses are being repaired, from `quic:congestion_state_updated`; the size of packets and what was sent from
//! `quic:packet_sent`; each also under its names before. What is delivered is what was sent and is neither in flight nor lost. Events
//! count in the order of their times; one that stands up to a second behind a later one is sorted in.
//!
//! qlog has round trips in milliseconds. Time stamps say how long packets were in flight; where every round trip is far below that,
//! the log is one in seconds, and the trajectory has a note of it. A sender delivers no more than its pace: where a log says otherwise,
//! its pacing rate is in bytes, as noq-proto 1.4.0 has it.

mod course;
mod event;
mod form;
mod trace;

use std::io::{BufRead, Read};

use paceline_cc::foreign::printable;
use paceline_lab::input::compressed;

use crate::read::FileError;
use crate::trajectory::Trajectory;
use course::Course;
use form::{Found, contained, lines, sequence};

/// The mark that some editors put before UTF-8.
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];
/// What begins a record (RFC 7464).
const SEPARATOR: u8 = 0x1e;
/// Longest record of a sequence, bytes (our choice: an event of some thousand ranges).
const MOST_RECORD: u64 = 1 << 20;

/// Which connection of a log is read: there may be several traces, and a trace may mix connections, told apart by `group_id`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// The number of its trace, from 1.
    pub trace: Option<usize>,
    /// Its `group_id`.
    pub flow: Option<&'a str>,
    /// Of several that are left, the one that says most of a window; otherwise several are refused.
    pub or_most: bool,
}

/// Reads the log of one connection. A file that is cut off is read up to there, and has a note of it.
///
/// # Errors
/// [`FileError`] when it is not a qlog of a version that is known here, is damaged at its start or too long, has a number that is not
/// one or a time that runs back by more than a second, says nothing of a window, or says it of several connections.
pub fn read(file: &str, from: impl BufRead) -> Result<Trajectory, FileError> {
    read_one(file, from, Choice::default())
}

/// As [`read`], of the connection that is chosen.
///
/// # Errors
/// As [`read`]; and when that connection is not there.
pub fn read_one(file: &str, mut from: impl BufRead, choice: Choice<'_>) -> Result<Trajectory, FileError> {
    let unreadable = |error| FileError::new(file, 0, format!("cannot be read ({error}); name a qlog file"));
    let mut head = Vec::new();
    (&mut from).take(8).read_to_end(&mut head).map_err(unreadable)?;
    if let Some(problem) = compressed(&head) {
        return Err(FileError::new(file, 0, problem));
    }
    let head = head.strip_prefix(&BOM).unwrap_or(&head);
    let mut whole = head.chain(from);
    if head.first() == Some(&SEPARATOR) {
        return choose(file, sequence(file, whole)?, choice);
    }
    // As far as the end of the first line that has something.
    let mut first = Vec::new();
    while first.trim_ascii().is_empty() && (first.len() as u64) < MOST_RECORD {
        if (&mut whole).take(MOST_RECORD - first.len() as u64).read_until(b'\n', &mut first).map_err(unreadable)? == 0 {
            break;
        }
    }
    let another = whole.fill_buf().map_err(unreadable)?.first().is_some_and(|byte| b"{[".contains(byte));
    let complete = another && serde_json::from_slice::<serde::de::IgnoredAny>(&first).is_ok();
    let whole = first.chain(whole);
    choose(file, if complete { lines(file, whole)? } else { contained(file, whole)? }, choice)
}

/// A connection that says something of a window.
struct Candidate {
    trace: usize,
    seen_by: Option<String>,
    group: String,
    notes: Vec<String>,
    course: Course,
}

impl Candidate {
    fn name(&self, traces: usize, groups: bool) -> String {
        let by = self.seen_by.as_deref().map_or_else(String::new, |by| format!(" (by the {})", printable(by, 20)));
        match (traces > 1, groups) {
            (true, true) => format!("trace {}{by} flow '{}'", self.trace, self.group),
            (_, true) => format!("flow '{}'", self.group),
            _ => format!("trace {}{by}", self.trace),
        }
    }
}

fn choose(file: &str, found: Found, choice: Choice<'_>) -> Result<Trajectory, FileError> {
    let refused = |problem: String| Err(FileError::new(file, 0, problem));
    let Found { traces, mut notes, broken } = found;
    let (all, failed) = (traces.len(), traces.iter().filter(|trace| trace.failed.is_some()).count());
    if let Some(why) = traces.iter().find_map(|trace| trace.failed.as_deref()) {
        notes.push(format!(
            "{failed} of its {all} traces could not be written by its writer ('{}').",
            printable(why, 60)
        ));
    }
    if let Some(number) = choice.trace.filter(|number| *number == 0 || *number > all) {
        return refused(format!("it has {all} traces, and no trace {number}; choose one of them"));
    }
    let mut candidates = Vec::new();
    for (index, trace) in traces.into_iter().enumerate() {
        let (seen_by, mut notes) = (trace.seen_by.clone(), Vec::new());
        let groups = trace.finish(&mut notes);
        candidates.extend(groups.into_iter().filter(|(_, course)| course.points() > 0).map(|(group, course)| {
            Candidate { trace: index + 1, seen_by: seen_by.clone(), group, notes: notes.clone(), course }
        }));
    }
    let many_groups =
        candidates.iter().any(|one| candidates.iter().any(|two| one.trace == two.trace && one.group != two.group));
    let list = |of: &[Candidate]| {
        let mut names: Vec<String> = of.iter().take(6).map(|one| one.name(all, many_groups)).collect();
        if of.len() > names.len() {
            names.push(format!("{} more", of.len() - names.len()));
        }
        names.join(", ")
    };
    let before = candidates.len();
    let known = list(&candidates);
    candidates.retain(|one| choice.trace.is_none_or(|number| one.trace == number));
    candidates.retain(|one| choice.flow.is_none_or(|flow| one.group == flow));
    if candidates.is_empty() && before > 0 {
        return refused(format!("the connection that is chosen says nothing of a window; those that do: {known}"));
    }
    if candidates.len() > 1 && !choice.or_most {
        return refused(format!(
            "it has several connections with a window ({}); choose a trace or a flow",
            list(&candidates)
        ));
    }
    let best = (0..candidates.len()).rev().max_by_key(|index| candidates[*index].course.points());
    let Some(chosen) = best.map(|best| candidates.swap_remove(best)) else {
        return match broken {
            Some(broken) => Err(broken),
            None if all == 0 => refused("it has no traces; give a log of a connection".to_owned()),
            None => refused(NO_WINDOW.to_owned()),
        };
    };
    if all > 1 || many_groups {
        let which = chosen.name(all, many_groups);
        let only = if before > 1 { "" } else { ", which alone says something of a window" };
        let of = if all > 1 { format!("Of its {all} traces ") } else { "Of its flows ".to_owned() };
        notes.push(format!("{of}{which} is read{only}."));
    }
    notes.extend(chosen.notes);
    if let Some(FileError { problem, .. }) = broken {
        notes.push(format!("Read up to where {}.", problem.trim_end_matches("; give the whole file")));
    }
    let name = if many_groups { format!("{file} {}", printable(&chosen.group, 60)) } else { file.to_owned() };
    Ok(chosen.course.finish(&name, notes))
}

/// What is said of a log without metrics.
const NO_WINDOW: &str = "it says nothing of a congestion window (quic:recovery_metrics_updated, or recovery:metrics_updated before); log \
                         those events too";
