//! A path between a requester and a router in virtual time: requests and data take a fixed time each way, data leaves a link of a given
//! rate one by one, and a test may lose or hold back what it likes.

pub(crate) mod agenda;
pub(crate) mod origin;

use paceline_cc::{Env, Nanos, Rate, Spec, Time};
use paceline_icn::{FlowConfig, Ranges, RequestFlow, Supply, UNIT, Units};

use agenda::{Agenda, Next};

/// A controller by its spec, for units.
pub(crate) fn controller(spec: &str) -> Box<dyn paceline_cc::Controller> {
    let env = Env::new(UNIT as u32);
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

/// What happens to the data packet that left as the `count`th, from 0, with this unit: it is lost, or delayed by this much.
pub(crate) type Fate = Box<dyn FnMut(u64, u64) -> Option<Nanos>>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Request(Vec<u64>),
    Data(u64),
}

/// One flow over a path.
pub(crate) struct World {
    pub(crate) flow: RequestFlow,
    pub(crate) supply: Row,
    pub(crate) agenda: Agenda<Event>,
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
}

impl World {
    pub(crate) fn new(config: &FlowConfig, spec: &str, units: u64) -> Self {
        Self {
            flow: RequestFlow::new(config, controller(spec)),
            supply: Row { next: 0, end: units },
            agenda: Agenda::new(),
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
        }
    }

    pub(crate) const fn now(&self) -> Time {
        self.agenda.now
    }

    fn ask(&mut self) {
        let now = self.now();
        while let Some(ranges) = self.flow.poll_request(now, &mut self.supply) {
            let units: Vec<u64> = ranges.iter().collect();
            self.requests.push((now, units.clone()));
            self.agenda.at(now + self.delay, Event::Request(units));
        }
    }

    fn answer(&mut self, units: Vec<u64>) {
        let (now, gap) = (self.now(), self.rate.time_for(UNIT as u64));
        for unit in units {
            let number = self.sent;
            self.sent += 1;
            let start = self.link_free.max(now);
            if (start - now).as_nanos() > self.queue * gap.as_nanos() {
                self.dropped += 1;
                continue;
            }
            self.link_free = start + gap;
            if let Some(late) = (self.fate)(number, unit) {
                self.agenda.at(self.link_free + self.delay + late, Event::Data(unit));
            }
        }
    }

    /// The next thing that happens, no later than `end`; false where there is none.
    pub(crate) fn step(&mut self, end: Time) -> bool {
        self.ask();
        let next = self.agenda.next(self.flow.next_timeout(), end);
        let now = self.now();
        match next {
            Next::End => return false,
            Next::Timer => self.flow.on_timeout(now),
            Next::Event(Event::Request(units)) => self.answer(units),
            Next::Event(Event::Data(unit)) => {
                self.arrivals.push((now, unit));
                let known = self.flow.on_unit(now, unit, UNIT as u32, false, false);
                self.unknown += u64::from(known.is_none());
            }
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
