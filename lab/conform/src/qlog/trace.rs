//! A trace of a qlog: its events in the order of their times, told apart by connection.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use paceline_cc::foreign::printable;

use super::course::Course;
use super::event::{Event, Meaning, Step};
use crate::read::FileError;
use crate::trajectory::MOST_POINTS;

/// How far an event may stand behind a later one, in ms (our choice: threads of a sender write in turn).
const LATE: f64 = 1000.0;
/// Most events that wait for earlier ones (our choice: a second of 3 Gbit/s).
const MOST_WAITING: usize = 1 << 18;
/// Most connections of a trace (our choice).
const MOST_GROUPS: usize = 1024;
/// Most names of events that are told apart where they are not known (our choice).
const MOST_NAMES: usize = 64;

/// What a header says of its trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// Times are those since the event before.
    pub delta: bool,
    /// Milliseconds of a unit of time.
    pub unit: f64,
    /// The connection of events that do not name theirs.
    pub group: String,
    /// The vantage point: a client, a server.
    pub seen_by: Option<String>,
    /// Schemas of events that are not known here.
    pub schemas: Vec<String>,
    /// Why there is no trace.
    pub failed: Option<String>,
}

/// A trace as far as it is read.
#[derive(Default)]
pub(super) struct Trace {
    pub seen_by: Option<String>,
    pub failed: Option<String>,
    said: Said,
    clock: f64,
    /// The latest time that there was.
    latest: f64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    arrivals: u64,
    /// The time of the last step that was taken.
    taken: f64,
    /// Events behind a later one.
    late: u64,
    groups: Vec<(String, Course)>,
    /// What may still be remembered of all connections.
    room: usize,
    unknown: BTreeMap<String, u64>,
    /// Unknown ones without a place above.
    others: u64,
}

/// A step that waits for its time.
struct Waiting {
    clock: f64,
    arrival: u64,
    group: usize,
    step: Step,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.clock.total_cmp(&other.clock).then(self.arrival.cmp(&other.arrival))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl Trace {
    pub(super) fn new(said: Said) -> Self {
        Self {
            seen_by: said.seen_by.clone(),
            failed: said.failed.clone(),
            said,
            latest: f64::NEG_INFINITY,
            taken: f64::NEG_INFINITY,
            room: 4 * MOST_POINTS,
            ..Self::default()
        }
    }

    /// The next event, which stands in this line.
    ///
    /// # Errors
    /// When its time is more than a second behind that of one before.
    pub(super) fn take(&mut self, file: &str, line: u64, event: Event<'_>) -> Result<(), FileError> {
        self.clock = if event.delta.unwrap_or(self.said.delta) { self.clock + event.time } else { event.time };
        let clock = self.clock;
        let group = self.group(event.group.as_deref());
        if let Some((_, course)) = group.and_then(|group| self.groups.get_mut(group)) {
            course.begin(clock);
        }
        let step = match event.meaning {
            Meaning::Step(step) => step,
            Meaning::Nothing => return Ok(()),
            Meaning::Unknown => {
                self.pass(&event.name);
                return Ok(());
            }
        };
        let behind = self.latest - clock;
        if behind > LATE || clock < self.taken {
            let problem = format!(
                "the time of {} is {:.3} s before that of an event above; put the events in the order of time",
                event.name,
                behind / 1e3
            );
            return Err(FileError::new(file, line, problem));
        }
        self.late += u64::from(behind > 0.0);
        self.latest = self.latest.max(clock);
        let Some(group) = group else { return Ok(()) };
        self.waiting.push(Reverse(Waiting { clock, arrival: self.arrivals, group, step }));
        self.arrivals += 1;
        while self.waiting.len() > MOST_WAITING
            || self.waiting.peek().is_some_and(|Reverse(first)| first.clock < self.latest - LATE)
        {
            self.release();
        }
        Ok(())
    }

    fn release(&mut self) {
        let Some(Reverse(Waiting { clock, group, step, .. })) = self.waiting.pop() else { return };
        self.taken = clock;
        self.groups[group].1.take(clock, step, &mut self.room);
    }

    /// The connection of this name.
    fn group(&mut self, name: Option<&str>) -> Option<usize> {
        let name = name.unwrap_or(&self.said.group);
        if let Some(found) = self.groups.iter().position(|(known, _)| known == name) {
            return Some(found);
        }
        if self.groups.len() == MOST_GROUPS {
            return None;
        }
        self.groups.push((name.to_owned(), Course::default()));
        Some(self.groups.len() - 1)
    }

    fn pass(&mut self, name: &str) {
        let name = printable(name, 60);
        if let Some(count) = self.unknown.get_mut(&name) {
            *count += 1;
        } else if self.unknown.len() < MOST_NAMES {
            self.unknown.insert(name, 1);
        } else {
            self.others += 1;
        }
    }

    /// Its connections, and what is to be said of it.
    pub(super) fn finish(mut self, notes: &mut Vec<String>) -> Vec<(String, Course)> {
        while !self.waiting.is_empty() {
            self.release();
        }
        if self.late > 0 {
            notes.push(format!(
                "Its events are not in the order of time ({} stand behind a later one): they are sorted.",
                self.late
            ));
        }
        if self.room == 0 {
            notes.push(format!("It is read up to its {}th figure.", 4 * MOST_POINTS));
        }
        let mut unknown: Vec<(&String, u64)> = self.unknown.iter().map(|(name, count)| (name, *count)).collect();
        unknown.sort_by_key(|(_, count)| Reverse(*count));
        let mut passed: Vec<String> = self.said.schemas.iter().map(|schema| format!("schema {schema}")).collect();
        passed.extend(unknown.iter().take(5).map(|(name, count)| format!("{count} of {name}")));
        let more = unknown.iter().skip(5).map(|(_, count)| count).sum::<u64>() + self.others;
        passed.extend((more > 0).then(|| format!("{more} of other names")));
        if !passed.is_empty() {
            notes.push(format!("Not known here, and passed over: {}.", passed.join(", ")));
        }
        self.groups
    }
}
