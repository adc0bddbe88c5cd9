//! A path: elements in a row, one direction.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};

use crate::change::PathChange;
use crate::delay::Delay;
use crate::fate::{DropReason, DroppedPacket};
use crate::link::Link;
use crate::packet::{Element, Packet};
use crate::policer::Policing;
use crate::stats::Count;
use crate::tunnel::TunnelEnd;
use crate::wifi::Radio;

mod readings;

mod change;

/// What a [`PathFilter`] does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterVerdict {
    /// It goes on.
    Pass,
    /// It is lost.
    Lose,
    /// It goes on, and a copy right behind it.
    Copy,
}

/// An element that decides at once and holds nothing: loss, duplication. It costs no wake-up.
pub trait PathFilter: Send {
    /// A packet comes by.
    fn judge(&mut self, now: Time) -> FilterVerdict;

    /// Takes a change, if it is about this filter, and answers what was in force.
    fn change(&mut self, _now: Time, _change: PathChange) -> Option<PathChange> {
        None
    }
}

enum Stage<P> {
    Policer(Box<Policing>),
    Link(Box<Link<P>>),
    Radio(Box<Radio<P>>),
    Delay(Delay<P>),
    Other(Box<dyn Element<P>>),
    Filter(Box<dyn PathFilter>),
    Tunnel(TunnelEnd),
}

/// A stage and what is known of it.
struct Place<P> {
    stage: Stage<P>,
    /// When the stage has something to do.
    due: Time,
    /// The least time that a packet takes from its end to the end of the path.
    behind: Nanos,
}

/// Elements in a row, one direction.
///
/// `push` packets in at one end; when [`Path::next`] has come, `pop` them at the other until it answers `None`, with
/// times that never decrease. Inside, everything happens at the time at which it is due, however late the call
/// comes: a packet popped says in [`Contents::entered`](crate::Contents::entered) when it arrived at the end.
pub struct Path<P> {
    places: Vec<Place<P>>,
    /// A fixed delay behind them. Its packets wait in `out`.
    tail: Option<Delay<P>>,
    /// The earliest time at which a stage has something to do, and which.
    due: Time,
    first: usize,
    /// The earliest time at which a packet that is in a stage may come out.
    ends: Time,
    /// The same for any packet.
    next: Time,
    /// Behind the stages: what comes out, with the time at which it does in [`Contents::entered`](crate::Contents::entered).
    out: VecDeque<Packet<P>>,
    /// What was dropped, where it is asked for.
    dropped: Option<VecDeque<DroppedPacket<P>>>,
    lost: Count,
    copied: Count,
    by_flow: bool,
}

impl<P> Default for Path<P> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            tail: None,
            due: Time::NEVER,
            first: 0,
            ends: Time::NEVER,
            next: Time::NEVER,
            out: VecDeque::new(),
            dropped: None,
            lost: Count::default(),
            copied: Count::default(),
            by_flow: false,
        }
    }
}

impl<P: Clone + Send> Path<P> {
    /// A path of no length: what is pushed can be popped at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// The path with a policer behind it.
    pub fn policer(self, policing: Policing) -> Self {
        self.stage(Stage::Policer(Box::new(policing)))
    }

    /// The path with a link behind it.
    pub fn link(self, link: Link<P>) -> Self {
        self.stage(Stage::Link(Box::new(link)))
    }

    /// The path with one direction of a Wi-Fi link behind it; as its first stage that holds packets, since what shares its medium is
    /// looked at when a packet comes.
    pub fn radio(self, radio: Radio<P>) -> Self {
        self.stage(Stage::Radio(Box::new(radio)))
    }

    /// The path with a fixed delay behind it.
    pub fn delay(mut self, delay: Delay<P>) -> Self {
        let before = self.tail.replace(delay).map(|delay| Place::new(Stage::Delay(delay)));
        self.places.extend(before);
        self.measure()
    }

    /// The path with any other element behind it.
    pub fn element(self, element: impl Element<P> + 'static) -> Self {
        self.stage(Stage::Other(Box::new(element)))
    }

    /// The path with a filter behind it.
    pub fn filter(self, filter: impl PathFilter + 'static) -> Self {
        self.stage(Stage::Filter(Box::new(filter)))
    }

    /// The path with an end of a tunnel behind it.
    pub fn tunnel(self, end: TunnelEnd) -> Self {
        self.stage(Stage::Tunnel(end))
    }

    /// A queue of the path treats flows differently: the driver distinguishes them by [`Contents::flow`](crate::Contents::flow).
    #[must_use]
    pub fn telling_flows_apart(mut self) -> Self {
        self.by_flow = true;
        self
    }

    /// Whether a queue of the path treats flows differently.
    pub fn tells_flows_apart(&self) -> bool {
        self.by_flow
    }

    /// The path keeps what it drops until [`Path::pop_dropped`] takes it.
    #[must_use]
    pub fn keeping_dropped(mut self) -> Self {
        self.dropped.get_or_insert_default();
        self.places.iter_mut().for_each(|place| place.stage.keep_dropped());
        self
    }

    /// The path's links say in a [`Snapshot`](crate::Snapshot) what arrived in the last interval of this length.
    #[must_use]
    pub fn metered(mut self, interval: Nanos) -> Self {
        for place in &mut self.places {
            match &mut place.stage {
                Stage::Link(link) => link.meter(interval),
                Stage::Radio(radio) => radio.meter(interval),
                _ => {}
            }
        }
        self
    }

    fn stage(mut self, mut stage: Stage<P>) -> Self {
        if self.dropped.is_some() {
            stage.keep_dropped();
        }
        let before = self.tail.take().map(|delay| Place::new(Stage::Delay(delay)));
        self.places.extend(before);
        self.places.push(Place::new(stage));
        self.measure()
    }

    /// Looks up how long the way is from each place.
    fn measure(mut self) -> Self {
        self.measure_again();
        self
    }

    fn measure_again(&mut self) {
        let mut behind = self.foresight();
        for place in self.places.iter_mut().rev() {
            place.behind = behind;
            behind += place.stage.least();
        }
    }

    /// A packet enters at `now`.
    #[inline]
    pub fn push(&mut self, now: Time, packet: Packet<P>) {
        self.advance(now);
        if self.places.is_empty() {
            self.come_out(now, packet);
        } else {
            self.forward(0, now, packet);
        }
    }

    /// The earliest time at which a packet may come out, for the next call of [`Path::pop`]; [`Time::NEVER`] when the
    /// path is empty.
    pub fn next(&self) -> Time {
        self.next
    }

    /// The least time that any packet pushed from now on spends inside.
    pub fn least(&self) -> Nanos {
        self.places.first().map_or(self.foresight(), |place| place.stage.least() + place.behind)
    }

    /// Takes out a packet that is due by `now`.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        if self.next > now {
            return None;
        }
        if self.out.is_empty() {
            self.advance(now);
            return self.take_out(now);
        }
        let packet = self.out.pop_front();
        self.look_out();
        packet
    }

    /// How far ahead of the present packets can be known that come out: the length of a fixed delay at the end.
    pub fn foresight(&self) -> Nanos {
        self.tail.as_ref().map_or(Nanos::ZERO, Element::least)
    }

    /// Takes out a packet that is due by `now`, or within `ahead` after it if it cannot change any more that it comes out then:
    /// no further ahead than [`Path::foresight`]. The rest of the path stands at `now`.
    pub fn pop_ahead(&mut self, now: Time, ahead: Nanos) -> Option<Packet<P>> {
        self.advance(now);
        self.take_out(now + ahead.min(self.foresight()))
    }

    fn take_out(&mut self, by: Time) -> Option<Packet<P>> {
        let packet = self.out.pop_front_if(|packet| packet.entered <= by);
        self.look_out();
        packet
    }

    /// Looks up when the next packet may come out.
    #[inline]
    fn look_out(&mut self) {
        self.next = self.out.front().map_or(self.ends, |packet| packet.entered);
    }

    /// Does inside what is due by `now`, so that lengths and counters are those of `now`.
    pub fn advance(&mut self, now: Time) {
        if self.due <= now {
            self.catch_up(now);
        }
    }

    fn catch_up(&mut self, now: Time) {
        while self.due <= now && self.due < Time::NEVER {
            self.step();
        }
    }

    /// Does what is due first.
    fn step(&mut self) {
        let (due, index) = (self.due, self.first);
        let Some(place) = self.places.get_mut(index) else { return };
        let packet = match &mut place.stage {
            Stage::Link(link) => {
                let packet = link.pop(due);
                place.due = link.next();
                if link.has_dropped() {
                    self.note_dropped(index, due);
                }
                packet
            }
            Stage::Radio(radio) => {
                let packet = radio.pop(due);
                let dropped = radio.take_dropped(due);
                place.due = radio.next();
                self.note_radio(index, dropped);
                packet
            }
            Stage::Delay(delay) => {
                let packet = delay.pop(due);
                place.due = delay.next();
                packet
            }
            Stage::Other(element) => {
                let packet = element.pop(due);
                place.due = element.next();
                packet
            }
            Stage::Policer(_) | Stage::Filter(_) | Stage::Tunnel(_) => None,
        };
        self.plan();
        let Some(packet) = packet else { return };
        if index + 1 == self.places.len() {
            self.come_out(due, packet);
        } else {
            self.forward(index + 1, due, packet);
        }
    }

    /// Looks up when something is due next.
    #[inline]
    fn plan(&mut self) {
        if let [place] = self.places.as_slice() {
            (self.due, self.first, self.ends) = (place.due, 0, place.due + place.behind);
        } else {
            self.find_first();
        }
        if self.out.is_empty() {
            self.next = self.ends;
        }
    }

    fn find_first(&mut self) {
        (self.due, self.ends) = (Time::NEVER, Time::NEVER);
        for (index, place) in self.places.iter().enumerate() {
            // The last of equals: room is made before it is filled.
            if place.due <= self.due {
                (self.due, self.first) = (place.due, index);
            }
            self.ends = self.ends.min(place.due + place.behind);
        }
    }

    /// A packet comes to the stage `index` and goes on until one holds it.
    fn forward(&mut self, mut index: usize, now: Time, mut packet: Packet<P>) {
        while let Some(place) = self.places.get_mut(index) {
            let due = match &mut place.stage {
                Stage::Link(link) => {
                    link.push(now, packet);
                    let due = link.next();
                    if link.has_dropped() {
                        self.note_dropped(index, now);
                    }
                    due
                }
                Stage::Radio(radio) => {
                    radio.push(now, packet);
                    let dropped = radio.take_dropped(now);
                    let due = radio.next();
                    self.note_radio(index, dropped);
                    due
                }
                Stage::Delay(delay) => {
                    delay.push(now, packet);
                    delay.next()
                }
                Stage::Other(element) => {
                    element.push(now, packet);
                    element.next()
                }
                Stage::Policer(policing) => {
                    if !policing.passes(now, &mut packet) {
                        return self.drop_at(index, now, DropReason::Policed, packet);
                    }
                    index += 1;
                    continue;
                }
                Stage::Tunnel(end) => {
                    end.pass(&mut packet);
                    index += 1;
                    continue;
                }
                Stage::Filter(filter) => {
                    let verdict = filter.judge(now);
                    if verdict != FilterVerdict::Pass {
                        let Some(left) = self.filtered(index, now, verdict, packet) else { return };
                        packet = left;
                    }
                    index += 1;
                    continue;
                }
            };
            let place = &mut self.places[index];
            if place.due != due {
                place.due = due;
                self.plan();
            }
            return;
        }
        self.come_out(now, packet);
    }

    /// A filter does not let a packet pass as it is. Answers what goes on.
    #[cold]
    fn filtered(&mut self, index: usize, now: Time, verdict: FilterVerdict, packet: Packet<P>) -> Option<Packet<P>> {
        if verdict == FilterVerdict::Copy {
            self.copied.add(packet.size);
            let mut copy = packet.clone();
            copy.copy = true;
            self.forward(index + 1, now, copy);
            return Some(packet);
        }
        self.lost.add(packet.size);
        self.drop_at(index, now, DropReason::Lost, packet);
        None
    }

    /// A stage that holds nothing drops a packet.
    #[cold]
    fn drop_at(&mut self, element: usize, at: Time, reason: DropReason, packet: Packet<P>) {
        if let Some(dropped) = &mut self.dropped {
            dropped.push_back(DroppedPacket { at, element, reason, packet });
        }
    }

    /// A packet leaves the last stage.
    #[inline]
    fn come_out(&mut self, now: Time, mut packet: Packet<P>) {
        let tail = self.foresight();
        packet.delay.propagation += tail;
        packet.entered = now + tail;
        if self.out.is_empty() {
            self.next = packet.entered;
        }
        self.out.push_back(packet);
    }

    /// Takes over what a link has dropped.
    #[cold]
    fn note_dropped(&mut self, element: usize, at: Time) {
        if let (Some(dropped), Stage::Link(link)) = (&mut self.dropped, &mut self.places[element].stage) {
            dropped.extend(link.take_dropped().map(|(reason, packet)| DroppedPacket { at, element, reason, packet }));
        }
    }

    /// Takes over what a radio has dropped, when and why.
    fn note_radio(&mut self, element: usize, taken: Vec<(Time, DropReason, Packet<P>)>) {
        if let Some(dropped) = &mut self.dropped {
            dropped.extend(taken.into_iter().map(|(at, reason, packet)| DroppedPacket { at, element, reason, packet }));
        }
    }

    /// Drops and marks of this flow are counted anew: it has ended.
    pub fn forget(&mut self, flow: u32) {
        for place in &mut self.places {
            match &mut place.stage {
                Stage::Link(link) => link.forget(flow),
                Stage::Radio(radio) => radio.forget(flow),
                Stage::Policer(policing) => policing.forget(flow),
                Stage::Delay(_) | Stage::Other(_) | Stage::Filter(_) | Stage::Tunnel(_) => {}
            }
        }
    }

    /// Takes out a packet that was dropped, in the order of the drops; none unless the path is [`Path::keeping_dropped`].
    /// Drops of the AQM show when the path has [advanced](Path::advance) to them.
    pub fn pop_dropped(&mut self) -> Option<DroppedPacket<P>> {
        self.dropped.as_mut()?.pop_front()
    }
}

impl<P> Place<P> {
    fn new(stage: Stage<P>) -> Self {
        Self { stage, due: Time::NEVER, behind: Nanos::ZERO }
    }
}

impl<P: Send> Stage<P> {
    fn keep_dropped(&mut self) {
        match self {
            Self::Link(link) => link.keep_dropped(),
            Self::Radio(radio) => radio.keep_dropped(),
            _ => {}
        }
    }

    fn least(&self) -> Nanos {
        match self {
            Self::Link(link) => link.least(),
            Self::Radio(radio) => radio.least(),
            Self::Delay(delay) => delay.least(),
            Self::Other(element) => element.least(),
            Self::Policer(_) | Self::Filter(_) | Self::Tunnel(_) => Nanos::ZERO,
        }
    }
}
