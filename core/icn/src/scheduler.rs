//! The router's one queue: requests of all sources, served by deficit round robin at the rate of the link.
//!
//! Sources: Shreedhar and Varghese, "Efficient fair queueing using deficit round robin" (1995); for how much of the room a source may take,
//! Choudhury and Hahne, "Dynamic queue length thresholds" (1998): as much as is free, so that there is always some for another.
//! All memory is taken at the start.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use paceline_cc::{Nanos, Time};

use crate::UNIT;
use crate::limiter::CountedAddress;
use crate::name::Name;
use crate::pace::LinkPace;
use crate::ranges::{Ranges, Units};
use crate::wire::DATA_HEAD;

/// Bytes of a unit on the link: its message and the heads of UDP and IPv6.
pub const WIRE_UNIT: u64 = (UNIT + DATA_HEAD + 48) as u64;

/// Units that a source is served before another's turn comes, at most: what one call of the kernel sends in segments (65,507 bytes by
/// 1,430).
pub const QUANTUM: u32 = 45;

/// And at least (our choice: more calls of the kernel for a unit would cost more than they spare in waiting).
const LEAST: u32 = 8;

/// A round is to take this long at most, so that with many sources turns are shorter (our choice: half of the round trip within a
/// country).
const ROUND: Nanos = Nanos::from_millis(10);

/// Units that leave at once at most, and that the rate's bucket holds (section 6 of our specification).
pub const MAX_BURST: u32 = 64;

/// Bytes that a turn may leave ahead of the rate.
pub(crate) const SLACK: u64 = WIRE_UNIT * (MAX_BURST - QUANTUM) as u64;

/// A request whose units are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyRequest {
    /// Who asked.
    pub to: SocketAddr,
    /// The request's.
    pub nonce: u64,
    /// The object.
    pub name: Name,
    /// The units that are to leave.
    pub ranges: Ranges,
    /// Units of the stored form, where it is known.
    pub stored_units: Option<u64>,
    /// When it came.
    pub arrived: Time,
    /// It waited for storage or for an upstream router.
    pub app_limited: bool,
}

/// What leaves next: units in a row of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn<'a> {
    /// The request.
    pub job: &'a ReadyRequest,
    /// Those of its units.
    pub units: Units,
}

/// No index.
const NONE: u32 = u32::MAX;

struct Slot {
    job: ReadyRequest,
    /// Where the service stands: a range, and units of it that have left.
    range: usize,
    done: u32,
    next: u32,
}

/// Requests of one source, first come, first served.
struct Queue {
    source: CountedAddress,
    head: u32,
    tail: u32,
    requests: u32,
    units: u32,
    /// Units of its turn that are left, at least one.
    deficit: u32,
    /// Where its hash puts it, and the next queue there.
    bucket: usize,
    next: u32,
}

/// The queue.
pub struct Scheduler {
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    queues: Vec<Queue>,
    free_queues: Vec<u32>,
    heads: Box<[u32]>,
    key: u64,
    /// Queues with requests, in the order of their turns.
    turns: VecDeque<u32>,
    units: u64,
    most_units: u64,
    pace: Arc<LinkPace>,
}

impl Scheduler {
    /// Room for `requests` requests. Sources with more than one of them have about `units` units at most. Served at the rate of
    /// `pace`, which other queues may share. `key` is drawn at random.
    pub fn new(requests: usize, units: u64, pace: Arc<LinkPace>, key: u64) -> Self {
        let requests = requests.clamp(1, NONE as usize / 4);
        Self {
            slots: Vec::with_capacity(requests),
            free_slots: Vec::with_capacity(requests),
            queues: Vec::with_capacity(requests),
            free_queues: Vec::with_capacity(requests),
            heads: vec![NONE; requests.next_power_of_two()].into_boxed_slice(),
            key,
            turns: VecDeque::with_capacity(requests),
            units: 0,
            most_units: units,
            pace,
        }
    }

    /// Units that wait.
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Bytes of memory, all taken at the start.
    pub fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.queues.capacity() * size_of::<Queue>()
            + (self.free_slots.capacity() + self.free_queues.capacity() + self.heads.len() + self.turns.capacity()) * 4
    }

    /// Whether a request for this many units would be taken. The first of a source is, where there is a place; after that a source has no
    /// more places than remain free, and no more units.
    pub fn has_room(&self, source: CountedAddress, units: u32) -> bool {
        self.fits(self.find(source, self.bucket(source)), units)
    }

    fn fits(&self, queue: Option<u32>, units: u32) -> bool {
        let places = self.slots.capacity() - self.slots.len() + self.free_slots.len();
        let Some(queue) = queue else { return places > 0 };
        let Queue { requests, units: queued, .. } = self.queues[queue as usize];
        (requests as usize) < places && u64::from(queued + units) <= self.most_units.saturating_sub(self.units)
    }

    /// Takes a request; false if there is no room.
    pub fn push(&mut self, source: CountedAddress, job: &ReadyRequest) -> bool {
        let (units, bucket) = (job.ranges.units(), self.bucket(source));
        let queue = self.find(source, bucket);
        if !self.fits(queue, units) {
            return false;
        }
        let slot = Slot { job: *job, range: 0, done: 0, next: NONE };
        let slot = put(&mut self.slots, &mut self.free_slots, slot);
        let queue = queue.unwrap_or_else(|| self.open(source, bucket));
        let entry = &mut self.queues[queue as usize];
        match entry.tail {
            NONE => entry.head = slot,
            tail => self.slots[tail as usize].next = slot,
        }
        entry.tail = slot;
        entry.units += units;
        entry.requests += 1;
        self.units += u64::from(units);
        true
    }

    /// What leaves now; `None` if nothing waits or the rate does not allow it yet.
    pub fn poll(&mut self, now: Time) -> Option<Turn<'_>> {
        let queue = *self.turns.front()?;
        let quantum = self.quantum();
        let entry = &mut self.queues[queue as usize];
        let place = entry.head;
        let slot = &mut self.slots[place as usize];
        let range = slot.job.ranges.as_slice()[slot.range];
        let count = (range.count - slot.done).min(entry.deficit);
        if !self.pace.take(now, WIRE_UNIT * u64::from(count), SLACK) {
            return None;
        }
        let units = Units { first: range.first + u64::from(slot.done), count };
        slot.done += count;
        entry.deficit -= count;
        entry.units -= count;
        self.units -= u64::from(count);
        if slot.done == range.count {
            (slot.range, slot.done) = (slot.range + 1, 0);
            if slot.range == slot.job.ranges.as_slice().len() {
                self.free_slots.push(place);
                entry.head = slot.next;
                entry.requests -= 1;
            }
        }
        if entry.head == NONE {
            self.turns.pop_front();
            self.close(queue);
        } else if entry.deficit == 0 {
            entry.deficit = quantum;
            self.turns.rotate_left(1);
        }
        Some(Turn { job: &self.slots[place as usize].job, units })
    }

    /// When [`Self::poll`] has something; [`Time::NEVER`] if nothing waits.
    pub fn next_timeout(&self) -> Time {
        // The bucket holds [`MAX_BURST`] units: a turn may begin when it has room for a quantum.
        if self.turns.is_empty() { Time::NEVER } else { self.pace.next(SLACK) }
    }

    /// Units of a turn now.
    fn quantum(&self) -> u32 {
        let round = self.pace.rate().bytes_in(ROUND) / WIRE_UNIT;
        let turn = round / (self.turns.len() as u64).max(1);
        turn.clamp(u64::from(LEAST), u64::from(QUANTUM)) as u32
    }

    fn bucket(&self, source: CountedAddress) -> usize {
        source.hash(self.key) as usize & (self.heads.len() - 1)
    }

    fn find(&self, source: CountedAddress, bucket: usize) -> Option<u32> {
        let mut at = self.heads[bucket];
        while at != NONE {
            let queue = &self.queues[at as usize];
            if queue.source == source {
                return Some(at);
            }
            at = queue.next;
        }
        None
    }

    fn open(&mut self, source: CountedAddress, bucket: usize) -> u32 {
        let (deficit, next) = (self.quantum(), self.heads[bucket]);
        let queue = Queue { source, head: NONE, tail: NONE, requests: 0, units: 0, deficit, bucket, next };
        let queue = put(&mut self.queues, &mut self.free_queues, queue);
        self.heads[bucket] = queue;
        self.turns.push_back(queue);
        queue
    }

    fn close(&mut self, queue: u32) {
        let Queue { bucket, next, .. } = self.queues[queue as usize];
        let mut at = self.heads[bucket];
        if at == queue {
            self.heads[bucket] = next;
        }
        while at != NONE && at != queue {
            let before = &mut self.queues[at as usize];
            if before.next == queue {
                before.next = next;
            }
            at = before.next;
        }
        self.free_queues.push(queue);
    }
}

/// Into a place that is free, or a new one.
fn put<T>(places: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    match free.pop() {
        Some(place) => {
            places[place as usize] = value;
            place
        }
        None => {
            places.push(value);
            places.len() as u32 - 1
        }
    }
}

#[cfg(test)]
mod tests;
