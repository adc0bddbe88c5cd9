//! A router of tests that has one object, and a fetch that has several of them.

use std::collections::BTreeMap;
use std::rc::Rc;

use paceline_cc::{Nanos, Rate, Time};
use paceline_icn::wire::{
    AddressToken, DATA_HEAD, Grant, MissingReason, Nack, TOKEN_BYTES, UnitAnswer, UnitHead, UnitRequest,
};
use paceline_icn::{Builder, Dropped, Fetch, Layout, Name, Output, SourceId, UNIT, UnitPlace, Units};

use super::agenda::{Agenda, Next};
use super::{Fate, controller};

/// An object: its bytes, its name, its stored form.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Vec<u8>,
    pub(crate) name: Name,
    pub(crate) stored: Vec<u8>,
}

/// Bytes that repeat nowhere.
pub(crate) fn object(length: usize) -> Object {
    let mut state = 1_u64;
    let bytes: Vec<u8> = (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let layout = Layout::new(length as u64);
    let mut stored = vec![0; layout.stored_bytes() as usize];
    let mut put = |unit: u64, index: &[u8; UNIT]| {
        stored[unit as usize * UNIT..][..UNIT].copy_from_slice(index);
    };
    let mut builder = Builder::new(length as u64, "application/octet-stream");
    for chunk in bytes.chunks(UNIT) {
        builder.push(chunk, &mut put);
    }
    let manifest = builder.finish(&mut put).expect("as long as it was said to be");
    for (index, chunk) in bytes.chunks(UNIT).enumerate() {
        stored[layout.unit_of(index as u64) as usize * UNIT..][..chunk.len()].copy_from_slice(chunk);
    }
    Object { bytes, name: manifest.name(), stored }
}

/// An object that is larger than memory: bytes that are made from their place, and the tree above them.
pub(crate) struct Large {
    pub(crate) name: Name,
    pub(crate) layout: Layout,
    index: BTreeMap<u64, Box<[u8; UNIT]>>,
}

impl Large {
    pub(crate) fn new(length: u64) -> Self {
        let layout = Layout::new(length);
        let mut index = BTreeMap::new();
        let mut put = |unit: u64, bytes: &[u8; UNIT]| drop(index.insert(unit, Box::new(*bytes)));
        let mut builder = Builder::new(length, "application/octet-stream");
        for unit in 0..layout.data_units() {
            builder.push(&Self::data(&layout, unit), &mut put);
        }
        let manifest = builder.finish(&mut put).expect("as long as it was said to be");
        Self { name: manifest.name(), layout, index }
    }

    /// The bytes of data unit `index`.
    pub(crate) fn data(layout: &Layout, index: u64) -> Vec<u8> {
        let bytes = layout.bytes_of(layout.unit_of(index));
        let mut state = index;
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()
        };
        let mut made: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| word()).collect();
        made.truncate(bytes);
        made
    }

    fn unit(&self, unit: u64) -> Option<Vec<u8>> {
        Some(match self.layout.place(unit)? {
            UnitPlace::Data { index } => Self::data(&self.layout, index),
            _ => self.index.get(&unit)?.to_vec(),
        })
    }
}

/// Changes a unit's bytes.
pub(crate) type Damage = Box<dyn FnMut(u64, &mut Vec<u8>)>;

/// What a router does.
pub(crate) struct Origin {
    pub(crate) stored: Vec<u8>,
    /// In place of that.
    pub(crate) large: Option<Rc<Large>>,
    /// It wants a token for more than two units.
    pub(crate) wants_token: bool,
    pub(crate) damage: Damage,
    /// Refuses units from this one on for this reason.
    pub(crate) refuses: Option<(u64, MissingReason)>,
    /// Where it is busy: for this long.
    pub(crate) busy_for: Nanos,
    pub(crate) token: AddressToken,
    /// Requests without a token, and those with more than two units among them.
    pub(crate) unproved: (u64, u64),
}

impl Origin {
    pub(crate) fn new(stored: Vec<u8>) -> Self {
        Self {
            stored,
            large: None,
            wants_token: false,
            damage: Box::new(|_, _| {}),
            refuses: None,
            busy_for: Nanos::ZERO,
            token: AddressToken([9; TOKEN_BYTES]),
            unproved: (0, 0),
        }
    }

    /// The answers to a request, longest first served.
    pub(crate) fn answer(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        let request = UnitRequest::decode(message).expect("a requester of ours");
        let nonce = request.nonce;
        let mut answers = Vec::new();
        let mut room = u32::MAX;
        if self.wants_token && request.token != Some(self.token) {
            room = if message.len() >= 1200 { 2 } else { 0 };
            self.unproved.0 += 1;
            self.unproved.1 += u64::from(request.ranges.units() > 2);
            let mut grant = Vec::new();
            Grant { nonce, token: self.token }.encode(&mut grant);
            answers.push(grant);
        }
        let stored_units =
            self.large.as_ref().map_or(self.stored.len().div_ceil(UNIT) as u64, |large| large.layout.stored_units());
        let retry_after = self.busy_for;
        let mut refuse = |units, reason| {
            let mut nack = Vec::new();
            Nack { nonce, units, reason, retry_after }.encode(&mut nack);
            answers.push(nack);
        };
        if let Some((from, reason)) = self.refuses
            && request.ranges.iter().any(|unit| unit >= from)
        {
            request.ranges.as_slice().iter().for_each(|units| refuse(*units, reason));
            return answers;
        }
        for units in request.ranges.as_slice() {
            for unit in units.iter() {
                let one = Units { first: unit, count: 1 };
                if unit >= stored_units {
                    refuse(one, MissingReason::End);
                } else if room == 0 {
                    refuse(one, MissingReason::NoToken);
                }
            }
        }
        for unit in request.ranges.iter().filter(|unit| *unit < stored_units).take(room as usize) {
            let start = unit as usize * UNIT;
            let made = self.large.as_ref().and_then(|large| large.unit(unit));
            let mut bytes = made.unwrap_or_else(|| self.stored[start..self.stored.len().min(start + UNIT)].to_vec());
            (self.damage)(unit, &mut bytes);
            let stored_units = Some(stored_units);
            let head = UnitHead { nonce, unit, stored_units, waited: Nanos::ZERO, app_limited: false }.encode_head();
            answers.push([&head[..], &bytes].concat());
        }
        answers
    }
}

/// The way to a source.
pub(crate) struct Route {
    pub(crate) origin: Origin,
    pub(crate) delay: Nanos,
    pub(crate) rate: Rate,
    pub(crate) fate: Fate,
    link_free: Time,
    sent: u64,
}

impl Route {
    pub(crate) fn new(object: &Object) -> Self {
        Self::to(Origin::new(object.stored.clone()))
    }

    pub(crate) fn large(object: &Rc<Large>) -> Self {
        Self::to(Origin { large: Some(object.clone()), ..Origin::new(Vec::new()) })
    }

    fn to(origin: Origin) -> Self {
        Self {
            origin,
            delay: Nanos::from_millis(10),
            rate: Rate::from_mbps(100.0),
            fate: Box::new(|_, _| Some(Nanos::ZERO)),
            link_free: Time::ZERO,
            sent: 0,
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Request(usize, Vec<u8>),
    Answer(usize, Vec<u8>),
}

/// Takes bytes and where they begin.
pub(crate) type Sink = Box<dyn FnMut(u64, &[u8])>;

/// A fetch over routes; source and route have the same number.
pub(crate) struct Network {
    pub(crate) fetch: Fetch,
    pub(crate) routes: Vec<Route>,
    pub(crate) agenda: Agenda<Event>,
    /// What came out: positions and bytes.
    pub(crate) got: Vec<(u64, Vec<u8>)>,
    pub(crate) outputs: Vec<Output>,
    /// Takes what comes out, in place of `got`.
    pub(crate) sink: Option<Sink>,
    /// The application reads at this rate; everything at once where there is none.
    pub(crate) reads: Option<Rate>,
    pub(crate) dropped: Vec<Dropped>,
    pub(crate) requests: u64,
    /// Datagrams are looked at this long after they came: requests leave in between.
    pub(crate) lag: Nanos,
    unread: u64,
    read_at: Time,
}

impl Network {
    pub(crate) fn new(mut fetch: Fetch, routes: Vec<Route>) -> Self {
        for _ in &routes {
            fetch.add_source(Time::ZERO, controller("bbr"));
        }
        Self {
            fetch,
            routes,
            agenda: Agenda::new(),
            got: Vec::new(),
            outputs: Vec::new(),
            sink: None,
            reads: None,
            dropped: Vec::new(),
            requests: 0,
            lag: Nanos::ZERO,
            unread: 0,
            read_at: Time::ZERO,
        }
    }

    pub(crate) const fn now(&self) -> Time {
        self.agenda.now
    }

    fn drain(&mut self) {
        while let Some(output) = self.fetch.poll_output() {
            if let Output::Bytes { offset, bytes } = output {
                self.unread += bytes.len() as u64;
                match &mut self.sink {
                    Some(sink) => sink(offset, &bytes),
                    None => self.got.push((offset, bytes.to_vec())),
                }
            } else {
                self.outputs.push(output);
            }
        }
        let read = match self.reads {
            None => self.unread,
            Some(rate) => rate.bytes_in(self.now() - self.read_at).min(self.unread),
        };
        if read > 0 || self.unread == 0 {
            self.read_at = self.now();
        }
        self.unread -= read;
        self.fetch.consumed(read);
    }

    pub(crate) fn step(&mut self, end: Time) -> bool {
        self.drain();
        let now = self.now();
        let mut message = Vec::new();
        while let Some(source) = self.fetch.poll_transmit(now, &mut message) {
            self.requests += 1;
            let delay = self.routes[source.index()].delay;
            self.agenda.at(now + delay, Event::Request(source.index(), message.clone()));
        }
        self.drain();
        let mut timer = self.fetch.next_timeout();
        if self.unread > 0 {
            timer = timer.min(now + Nanos::from_millis(1));
        }
        let next = self.agenda.next(timer, end);
        let now = self.now();
        match next {
            Next::End => return false,
            Next::Timer if self.fetch.next_timeout() <= now => self.fetch.on_timeout(now),
            // The application reads.
            Next::Timer => {}
            Next::Event(Event::Request(index, message)) => self.serve(index, &message),
            Next::Event(Event::Answer(index, message)) => {
                let source = self.source(index);
                self.dropped.extend(self.fetch.on_datagram(now - self.lag, source, &message, false).err());
            }
        }
        true
    }

    /// The source at the end of a route.
    pub(crate) fn source(&self, index: usize) -> SourceId {
        self.fetch.source_ids().nth(index).expect("one for each route")
    }

    fn serve(&mut self, index: usize, message: &[u8]) {
        let now = self.now();
        let route = &mut self.routes[index];
        for answer in route.origin.answer(message) {
            let unit = match UnitAnswer::decode(&answer) {
                Ok(UnitAnswer::Data(data, _)) => data.unit,
                _ => u64::MAX,
            };
            let route = &mut self.routes[index];
            let number = route.sent;
            route.sent += 1;
            route.link_free = route.link_free.max(now) + route.rate.time_for((answer.len().max(DATA_HEAD)) as u64);
            let (free, delay) = (route.link_free, route.delay);
            if let Some(late) = (route.fate)(number, unit) {
                self.agenda.at(free + delay + late + self.lag, Event::Answer(index, answer));
            }
        }
    }

    pub(crate) fn run(&mut self, end: Time) {
        while !(self.fetch.is_done() && self.unread == 0) && self.fetch.failure().is_none() && self.step(end) {}
        self.drain();
    }

    /// All bytes that came out, where they stand one behind the other from `from` on.
    pub(crate) fn bytes(&self, from: u64) -> Vec<u8> {
        let mut all = Vec::new();
        for (offset, bytes) in &self.got {
            assert_eq!(*offset, from + all.len() as u64, "in order and without holes");
            all.extend_from_slice(bytes);
        }
        all
    }
}
