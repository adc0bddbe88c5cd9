//! A path: elements in a row, one direction.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};

use crate::delay::Delay;
use crate::fate::{Dropped, Reason};
use crate::link::Link;
use crate::packet::{Element, Packet};
use crate::stats::{Count, LinkStats};

/// What a [`Filter`] does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It is lost.
    Lose,
    /// It goes on, and a copy right behind it.
    Copy,
}

/// An element that decides at once and holds nothing: loss, duplication. It costs no wake-up.
pub trait Filter: Send {
    /// A packet comes by.
    fn judge(&mut self, now: Time) -> Verdict;
}

enum Stage<P> {
    Link(Box<Link<P>>),
    Delay(Delay<P>),
    Other(Box<dyn Element<P>>),
    Filter(Box<dyn Filter>),
}

/// Elements in a row, one direction.
///
/// `push` packets in at one end; when [`Path::next`] has come, `pop` them at the other until it answers `None`, with
/// times that never decrease. Inside, everything happens at the time at which it is due, however late the call
/// comes: a packet popped says in [`Packet::entered`] when it arrived at the end.
pub struct Path<P> {
    stages: Vec<Stage<P>>,
    due: Vec<Time>,
    behind: Vec<Nanos>,
    out: VecDeque<Packet<P>>,
    /// What was dropped, where somebody asks for it.
    dropped: Option<VecDeque<Dropped<P>>>,
    lost: Count,
    copied: Count,
}

impl<P> Default for Path<P> {
    fn default() -> Self {
        let (stages, due, behind, out) = Default::default();
        Self { stages, due, behind, out, dropped: None, lost: Count::default(), copied: Count::default() }
    }
}

impl<P: Clone + Send> Path<P> {
    /// A path of no length: what is pushed can be popped at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// The path with a link behind it.
    pub fn link(self, link: Link<P>) -> Self {
        self.stage(Stage::Link(Box::new(link)))
    }

    /// The path with a fixed delay behind it.
    pub fn delay(self, delay: Delay<P>) -> Self {
        self.stage(Stage::Delay(delay))
    }

    /// The path with any other element behind it.
    pub fn element(self, element: impl Element<P> + 'static) -> Self {
        self.stage(Stage::Other(Box::new(element)))
    }

    /// The path with a filter behind it.
    pub fn filter(self, filter: impl Filter + 'static) -> Self {
        self.stage(Stage::Filter(Box::new(filter)))
    }

    /// The path keeps what it drops until [`Path::pop_dropped`] takes it.
    #[must_use]
    pub fn keeping_dropped(mut self) -> Self {
        self.dropped.get_or_insert_default();
        for stage in &mut self.stages {
            if let Stage::Link(link) = stage {
                link.keep_dropped();
            }
        }
        self
    }

    fn stage(mut self, mut stage: Stage<P>) -> Self {
        if let (Some(_), Stage::Link(link)) = (&self.dropped, &mut stage) {
            link.keep_dropped();
        }
        self.stages.push(stage);
        self.due.push(Time::NEVER);
        let mut behind = Nanos::ZERO;
        self.behind = vec![Nanos::ZERO; self.stages.len()];
        for (index, stage) in self.stages.iter().enumerate().rev() {
            self.behind[index] = behind;
            behind += stage.least();
        }
        self
    }

    /// A packet enters at `now`.
    pub fn push(&mut self, now: Time, packet: Packet<P>) {
        self.advance(now);
        self.forward(0, now, packet);
    }

    /// The earliest time at which a packet may come out, for the next call of [`Path::pop`]; [`Time::NEVER`] when the
    /// path is empty.
    pub fn next(&self) -> Time {
        if let Some(packet) = self.out.front() {
            return packet.entered;
        }
        let ends = self.due.iter().zip(&self.behind).map(|(due, behind)| *due + *behind);
        ends.min().unwrap_or(Time::NEVER)
    }

    /// The least time that any packet pushed from now on spends inside.
    pub fn least(&self) -> Nanos {
        self.stages.first().map_or(Nanos::ZERO, |stage| stage.least() + self.behind[0])
    }

    /// Takes out a packet that is due by `now`.
    pub fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        if self.out.is_empty() {
            self.advance(now);
        }
        self.out.pop_front_if(|packet| packet.entered <= now)
    }

    /// How far ahead of the present packets can be known that come out: the length of a fixed delay at the end.
    pub fn foresight(&self) -> Nanos {
        match self.stages.last() {
            Some(Stage::Delay(delay)) => delay.least(),
            _ => Nanos::ZERO,
        }
    }

    /// Takes out a packet that is due by `now`, or within `ahead` after it if it cannot change any more that it comes out then:
    /// no further ahead than [`Path::foresight`]. The rest of the path stands at `now`.
    pub fn pop_ahead(&mut self, now: Time, ahead: Nanos) -> Option<Packet<P>> {
        if let Some(packet) = self.pop(now) {
            return Some(packet);
        }
        let horizon = now + ahead.min(self.foresight());
        let last = self.stages.len().checked_sub(1)?;
        let due = self.due[last];
        if !self.out.is_empty() || due > horizon {
            return None;
        }
        let mut packet = self.stages[last].pop(due)?;
        self.due[last] = self.stages[last].next();
        packet.entered = due;
        Some(packet)
    }

    /// Does inside what is due by `now`, so that lengths and counters are those of `now`.
    pub fn advance(&mut self, now: Time) {
        loop {
            // The last of equals: room is made before it is filled.
            let mut first = (Time::NEVER, 0);
            for (index, due) in self.due.iter().enumerate() {
                if *due <= first.0 {
                    first = (*due, index);
                }
            }
            let (due, index) = first;
            if due > now || due == Time::NEVER {
                return;
            }
            let packet = self.stages[index].pop(due);
            self.due[index] = self.stages[index].next();
            self.note_dropped(index, due);
            if let Some(packet) = packet {
                self.forward(index + 1, due, packet);
            }
        }
    }

    fn forward(&mut self, mut index: usize, now: Time, mut packet: Packet<P>) {
        while let Some(stage) = self.stages.get_mut(index) {
            match stage {
                Stage::Link(link) => link.push(now, packet),
                Stage::Delay(delay) => delay.push(now, packet),
                Stage::Other(element) => element.push(now, packet),
                Stage::Filter(filter) => {
                    match filter.judge(now) {
                        Verdict::Pass => {}
                        Verdict::Lose => {
                            self.lost.add(packet.size);
                            if let Some(dropped) = &mut self.dropped {
                                dropped.push_back(Dropped { at: now, element: index, reason: Reason::Lost, packet });
                            }
                            return;
                        }
                        Verdict::Copy => {
                            self.copied.add(packet.size);
                            self.forward(index + 1, now, Packet { copy: true, ..packet.clone() });
                        }
                    }
                    index += 1;
                    continue;
                }
            }
            self.due[index] = stage.next();
            self.note_dropped(index, now);
            return;
        }
        packet.entered = now;
        self.out.push_back(packet);
    }

    /// Takes over what a link has dropped.
    fn note_dropped(&mut self, element: usize, at: Time) {
        if let (Some(dropped), Stage::Link(link)) = (&mut self.dropped, &mut self.stages[element]) {
            dropped.extend(link.take_dropped().map(|(reason, packet)| Dropped { at, element, reason, packet }));
        }
    }

    /// Takes out a packet that was dropped, in the order of the drops; none unless the path is [`Path::keeping_dropped`].
    /// Drops of the AQM show when the path has [advanced](Path::advance) to them.
    pub fn pop_dropped(&mut self) -> Option<Dropped<P>> {
        self.dropped.as_mut()?.pop_front()
    }

    /// The counters of the first link, with time integrals up to `now`; `None` when the path has no link.
    pub fn stats(&mut self, now: Time) -> Option<&LinkStats> {
        self.advance(now);
        self.stages.iter_mut().find_map(|stage| match stage {
            Stage::Link(link) => Some(link.stats(now)),
            _ => None,
        })
    }

    /// What waits at the first link at `now`, without the packet in service; nothing when the path has no link.
    pub fn queued(&mut self, now: Time) -> Count {
        self.stats(now).map_or_else(Count::default, |stats| stats.queued)
    }

    /// The first link.
    pub fn first_link(&self) -> Option<&Link<P>> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::Link(link) => Some(&**link),
            _ => None,
        })
    }

    /// Packets lost by loss elements (not by queues).
    pub fn lost(&self) -> Count {
        self.lost
    }

    /// Copies made by duplication.
    pub fn copied(&self) -> Count {
        self.copied
    }
}

impl<P: Send> Stage<P> {
    fn next(&self) -> Time {
        match self {
            Self::Link(link) => link.next(),
            Self::Delay(delay) => delay.next(),
            Self::Other(element) => element.next(),
            Self::Filter(_) => Time::NEVER,
        }
    }

    fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        match self {
            Self::Link(link) => link.pop(now),
            Self::Delay(delay) => delay.pop(now),
            Self::Other(element) => element.pop(now),
            Self::Filter(_) => None,
        }
    }

    fn least(&self) -> Nanos {
        match self {
            Self::Link(link) => link.least(),
            Self::Delay(delay) => delay.least(),
            Self::Other(element) => element.least(),
            Self::Filter(_) => Nanos::ZERO,
        }
    }
}
