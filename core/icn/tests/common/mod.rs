//! A path between a requester and a router in virtual time: requests and data take a fixed time each way, data leaves a link of a given
//! rate one by one, and a test may lose or hold back what it likes.

pub(crate) mod origin;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paceline_cc::{Env, Nanos, Rate, Spec, Time};
use paceline_icn::{Flow, FlowConfig, Ranges, Supply, UNIT, Units};

/// A controller by its spec, for units.
pub(crate) fn controller(spec: &str) -> Box<dyn paceline_cc::Controller> {
    let env = Env { mss: UNIT as u32, ..Env::default() };
    spec.parse::<Spec>().expect("a registered controller").build(&env)
}

/// Units in a row, from the first on.
pub(crate) struct Row {
    pub(crate) next: u64,
    pub(crate) end: u64,
}

impl Supply for Row {
    fn take(&mut self, most: u32) -> Option<Ranges> {
        let count = u64::from(most).min(self.end - self.next) as u32;
        let units = Ranges::new(Units { first: self.next, count })?;
        self.next += u64::from(count);
        Some(units)
    }
}

/// What happens to the data packet that left as the `count`th, from 0, with this unit: it is lost, or delayed by so much.
pub(crate) type Fate = Box<dyn FnMut(u64, u64) -> Option<Nanos>>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Request(Vec<u64>),
    Data(u64),
}

/// One flow over a path.
pub(crate) struct World {
    pub(crate) flow: Flow,
    pub(crate) supply: Row,
    pub(crate) now: Time,
    /// Times from end to end, one way.
    pub(crate) delay: Nanos,
    pub(crate) rate: Rate,
    /// Packets that wait at the link at most.
    pub(crate) queue: u64,
    pub(crate) fate: Fate,
    /// What was asked for: when, and which.
    pub(crate) requests: Vec<(Time, Vec<u64>)>,
    /// What came, duplicates included.
    pub(crate) arrivals: Vec<(Time, u64)>,
    /// Of these, the ones that the flow had no record of.
    pub(crate) unknown: u64,
    pub(crate) dropped: u64,
    link_free: Time,
    sent: u64,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    order: u64,
}

impl World {
    pub(crate) fn new(config: &FlowConfig, spec: &str, units: u64) -> Self {
        Self {
            flow: Flow::new(config, controller(spec)),
            supply: Row { next: 0, end: units },
            now: Time::ZERO,
            delay: Nanos::from_millis(10),
            rate: Rate::from_mbps(100.0),
            queue: 10_000,
            fate: Box::new(|_, _| Some(Nanos::ZERO)),
            requests: Vec::new(),
            arrivals: Vec::new(),
            unknown: 0,
            dropped: 0,
            link_free: Time::ZERO,
            sent: 0,
            events: BinaryHeap::new(),
            order: 0,
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn ask(&mut self) {
        while let Some(ranges) = self.flow.poll_request(self.now, &mut self.supply) {
            let units: Vec<u64> = ranges.iter().collect();
            self.requests.push((self.now, units.clone()));
            self.at(self.now + self.delay, Event::Request(units));
        }
    }

    fn answer(&mut self, units: Vec<u64>) {
        let gap = self.rate.time_for(UNIT as u64);
        for unit in units {
            let number = self.sent;
            self.sent += 1;
            let start = self.link_free.max(self.now);
            if (start - self.now).as_nanos() > self.queue * gap.as_nanos() {
                self.dropped += 1;
                continue;
            }
            self.link_free = start + gap;
            if let Some(late) = (self.fate)(number, unit) {
                self.at(self.link_free + self.delay + late, Event::Data(unit));
            }
        }
    }

    /// The next thing that happens, no later than `end`; false where there is none.
    pub(crate) fn step(&mut self, end: Time) -> bool {
        self.ask();
        let timer = self.flow.next_timeout().max(self.now);
        let event = self.events.peek().map_or(Time::NEVER, |Reverse((time, ..))| *time);
        if timer.min(event) > end || timer.min(event) == Time::NEVER {
            self.now = self.now.max(end);
            return false;
        }
        self.now = timer.min(event);
        if event > timer {
            self.flow.on_timeout(self.now);
            return true;
        }
        match self.events.pop() {
            Some(Reverse((_, _, Event::Request(units)))) => self.answer(units),
            Some(Reverse((_, _, Event::Data(unit)))) => {
                self.arrivals.push((self.now, unit));
                let known = self.flow.on_unit(self.now, unit, UNIT as u32, false, false);
                self.unknown += u64::from(known.is_none());
            }
            None => {}
        }
        true
    }

    /// Runs to `end`, or until all units are there.
    pub(crate) fn run(&mut self, end: Time) {
        while !self.is_done() && self.step(end) {}
    }

    pub(crate) fn is_done(&self) -> bool {
        self.supply.next == self.supply.end && self.flow.is_idle()
    }

    /// Distinct units that came.
    pub(crate) fn distinct(&self) -> usize {
        let mut units: Vec<u64> = self.arrivals.iter().map(|(_, unit)| *unit).collect();
        units.sort_unstable();
        units.dedup();
        units.len()
    }
}
