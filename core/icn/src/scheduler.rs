//! The router's one queue: requests of all sources, served by deficit round robin at the rate of the link.
//!
//! Sources: Shreedhar and Varghese, "Efficient fair queueing using deficit round robin" (1995); for how much of the room a source may
//! take,
//! Choudhury and Hahne, "Dynamic queue length thresholds" (1998): as much as is free, so that there is always some for another.
//! All memory is taken at the start.

use std::collections::VecDeque;
use std::net::SocketAddr;

use paceline_cc::{Nanos, Rate, Time};

use crate::UNIT;
use crate::limiter::Source;
use crate::name::Name;
use crate::ranges::{Ranges, Units};
use crate::wire::DATA_HEAD;

/// Bytes of a unit on the link: its message and the heads of UDP and IPv6.
pub const WIRE_UNIT: u64 = (UNIT + DATA_HEAD + 48) as u64;

/// Units that a source is served before another's turn comes, at most: what one call of the kernel sends in segments (65,507 bytes by
/// 1,430).
pub const QUANTUM: u32 = 45;

/// And at least (our choice: more calls of the kernel for a unit would cost more than they spare in waiting).
const LEAST: u32 = 8;

/// A round is to take so long at most, so that with many sources turns are shorter (our choice: half of the round trip within a
/// country).
const ROUND: Nanos = Nanos::from_millis(10);

/// Units that leave at once at most, and that the rate's bucket holds (section 6 of our specification).
pub const MAX_BURST: u32 = 64;

/// A request whose units are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
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
pub struct Turn {
    /// The request.
    pub job: Job,
    /// Those of its units.
    pub units: Units,
}

/// No index.
const NONE: u32 = u32::MAX;

struct Slot {
    job: Job,
    /// Where the service stands: a range, and units of it that have left.
    range: usize,
    done: u32,
    next: u32,
}

/// Requests of one source, first come, first served.
struct Queue {
    source: Source,
    head: u32,
    tail: u32,
    requests: u32,
    units: u32,
    /// Units of its turn that are left, at least one.
    deficit: u32,
    /// The next queue with the same hash.
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
    rate: Rate,
    /// When the rate's bucket will be full.
    full_at: Time,
}

impl Scheduler {
    /// Room for `requests` requests. Sources with more than one of them have about `units` units at most. Served at `rate` ([`Rate::INFINITY`]: as fast as it is asked). `key` is drawn
    /// at random.
    pub fn new(requests: usize, units: u64, rate: Rate, key: u64) -> Self {
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
            rate,
            full_at: Time::ZERO,
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

    /// Whether a request for so many units would be taken. The first of a source is, where there is a place; after that a source has no
    /// more places than remain free, and no more units.
    pub fn has_room(&self, source: Source, units: u32) -> bool {
        let places = self.slots.capacity() - self.slots.len() + self.free_slots.len();
        let Some(queue) = self.find(source) else { return places > 0 };
        let Queue { requests, units: queued, .. } = self.queues[queue as usize];
        (requests as usize) < places && u64::from(queued + units) <= self.most_units.saturating_sub(self.units)
    }

    /// Takes a request; false if there is no room.
    pub fn push(&mut self, source: Source, job: &Job) -> bool {
        let units = job.ranges.units();
        if !self.has_room(source, units) {
            return false;
        }
        let slot = Slot { job: *job, range: 0, done: 0, next: NONE };
        let slot = put(&mut self.slots, &mut self.free_slots, slot);
        let queue = self.find(source).unwrap_or_else(|| self.open(source));
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
    pub fn poll(&mut self, now: Time) -> Option<Turn> {
        if self.next_turn() > now {
            return None;
        }
        let queue = *self.turns.front()?;
        let quantum = self.quantum();
        let entry = &mut self.queues[queue as usize];
        let slot = &mut self.slots[entry.head as usize];
        let range = slot.job.ranges.as_slice()[slot.range];
        let count = (range.count - slot.done).min(entry.deficit);
        let units = Units { first: range.first + u64::from(slot.done), count };
        let turn = Turn { job: slot.job, units };
        slot.done += count;
        entry.deficit -= count;
        entry.units -= count;
        self.units -= u64::from(count);
        let bytes = WIRE_UNIT * u64::from(count);
        self.full_at = self.full_at.max(now) + self.rate.time_for(bytes);
        if slot.done == range.count {
            (slot.range, slot.done) = (slot.range + 1, 0);
            if slot.range == slot.job.ranges.as_slice().len() {
                self.free_slots.push(entry.head);
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
        Some(turn)
    }

    /// When [`Self::poll`] has something; [`Time::NEVER`] if nothing waits.
    pub fn next_timeout(&self) -> Time {
        if self.turns.is_empty() { Time::NEVER } else { self.next_turn() }
    }

    /// The bucket holds [`MAX_BURST`] units: a turn may begin when it has room for a quantum.
    fn next_turn(&self) -> Time {
        self.full_at - self.rate.time_for(WIRE_UNIT * u64::from(MAX_BURST - QUANTUM))
    }

    /// Units of a turn now.
    fn quantum(&self) -> u32 {
        let round = self.rate.bytes_in(ROUND) / WIRE_UNIT;
        let turn = round / (self.turns.len() as u64).max(1);
        turn.clamp(u64::from(LEAST), u64::from(QUANTUM)) as u32
    }

    fn bucket(&self, source: Source) -> usize {
        source.hash(self.key) as usize & (self.heads.len() - 1)
    }

    fn find(&self, source: Source) -> Option<u32> {
        let mut at = self.heads[self.bucket(source)];
        while at != NONE {
            let queue = &self.queues[at as usize];
            if queue.source == source {
                return Some(at);
            }
            at = queue.next;
        }
        None
    }

    fn open(&mut self, source: Source) -> u32 {
        let bucket = self.bucket(source);
        let deficit = self.quantum();
        let queue = Queue { source, head: NONE, tail: NONE, requests: 0, units: 0, deficit, next: self.heads[bucket] };
        let queue = put(&mut self.queues, &mut self.free_queues, queue);
        self.heads[bucket] = queue;
        self.turns.push_back(queue);
        queue
    }

    fn close(&mut self, queue: u32) {
        let Queue { source, next, .. } = self.queues[queue as usize];
        let bucket = self.bucket(source);
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
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::name::Kind;

    fn job(from: u32, first: u64, count: u32) -> (Source, Job) {
        let to = SocketAddr::from((Ipv4Addr::from_bits(from), 9));
        let mut ranges = Ranges::one(first);
        (1..u64::from(count)).for_each(|more| assert!(ranges.push(first + more)));
        let name = Name::new(Kind::Object, [0; 32]);
        let job = Job { to, nonce: 0, name, ranges, stored_units: None, arrived: Time::ZERO, app_limited: false };
        (Source::of(to), job)
    }

    fn push(queue: &mut Scheduler, (source, job): &(Source, Job)) -> bool {
        queue.push(*source, job)
    }

    #[test]
    fn a_source_that_asks_for_much_gets_as_much_as_one_that_asks_for_little() {
        let mut queue = Scheduler::new(1000, 10_000, Rate::INFINITY, 1);
        for _ in 0..50 {
            assert!(push(&mut queue, &job(1, 0, 64)));
        }
        for _ in 0..100 {
            assert!(push(&mut queue, &job(2, 0, 5)));
        }
        let mut served = [0; 3];
        while served[1] + served[2] < 900 {
            let turn = queue.poll(Time::ZERO).unwrap();
            let from = if turn.job.to.ip() == Ipv4Addr::from_bits(1) { 1 } else { 2 };
            served[from] += turn.units.count;
        }
        assert!(served[1].abs_diff(served[2]) <= QUANTUM, "{served:?}");
    }

    #[test]
    fn the_rate_holds_and_a_burst_has_an_end() {
        // 100 units a millisecond.
        let rate = Rate::from_bytes_per_sec(WIRE_UNIT * 100_000);
        let mut queue = Scheduler::new(1000, 64_000, rate, 1);
        (0..500).for_each(|first| assert!(push(&mut queue, &job(1, first * 64, 64))));
        let (mut now, mut units, mut at_once) = (Time::from_millis(10), 0, 0);
        while now < Time::from_millis(110) {
            match queue.poll(now) {
                Some(turn) => {
                    units += turn.units.count;
                    at_once += turn.units.count;
                }
                None => {
                    assert!(at_once <= MAX_BURST + QUANTUM, "{at_once}");
                    at_once = 0;
                    assert!(queue.next_timeout() > now);
                    now = queue.next_timeout();
                }
            }
        }
        assert!((10_000 - 64..=10_000 + 64).contains(&units), "{units}");
    }

    #[test]
    fn whoever_fills_the_queue_leaves_room_for_others() {
        let mut queue = Scheduler::new(4096, 8192, Rate::INFINITY, 1);
        for _ in 0..200 {
            for from in 0..100 {
                push(&mut queue, &job(from, 0, 64));
            }
        }
        assert!(push(&mut queue, &job(1000, 0, 64)));
        assert!(queue.units() <= 8192 + 101 * 64);
    }

    proptest! {
        #[test]
        fn every_unit_that_is_taken_leaves_once_and_all_room_comes_back(
            steps in prop::collection::vec((0..40_u32, 1..=64_u32, any::<bool>()), 1..400),
        ) {
            let mut queue = Scheduler::new(32, 1000, Rate::from_bytes_per_sec(1 << 30), 5);
            let (mut now, mut first) = (Time::ZERO, 0);
            let (mut pushed, mut left) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
            for (from, count, poll) in steps {
                if push(&mut queue, &job(from, first, count)) {
                    pushed.extend(first..first + u64::from(count));
                }
                first += 100;
                if poll {
                    now += Nanos::from_micros(20);
                    if let Some(turn) = queue.poll(now) {
                        prop_assert!(turn.units.count <= QUANTUM);
                        prop_assert!(turn.units.iter().all(|unit| left.insert(unit)));
                    }
                }
            }
            while queue.next_timeout() != Time::NEVER {
                now = now.max(queue.next_timeout());
                let turn = queue.poll(now);
                prop_assert!(turn.is_some());
                prop_assert!(turn.unwrap().units.iter().all(|unit| left.insert(unit)));
            }
            prop_assert_eq!(pushed, left);
            prop_assert_eq!(queue.units(), 0);
            prop_assert_eq!(queue.slots.capacity(), 32);
            prop_assert_eq!(queue.free_slots.len(), queue.slots.len());
            prop_assert_eq!(queue.free_queues.len(), queue.queues.len());
            prop_assert!(queue.heads.iter().all(|head| *head == NONE));
        }
    }
}
