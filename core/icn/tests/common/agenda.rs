//! Virtual time: what happens next, an event or the timer of what is tested.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paceline_cc::Time;

/// Events in the order of their times, and of their making where these are the same.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    pub(crate) now: Time,
    events: BinaryHeap<Reverse<(Time, u64, E)>>,
    order: u64,
}

/// What happens next.
#[derive(Debug)]
pub(crate) enum Next<E> {
    /// Nothing more before the end.
    End,
    /// The timer expires.
    Timer,
    /// This.
    Event(E),
}

impl<E: Ord> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { now: Time::ZERO, events: BinaryHeap::new(), order: 0 }
    }

    pub(crate) fn at(&mut self, time: Time, event: E) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    /// Goes to what happens next, no later than `end`. At one time events come before the timer.
    pub(crate) fn next(&mut self, timer: Time, end: Time) -> Next<E> {
        let timer = timer.max(self.now);
        let event = self.events.peek().map_or(Time::NEVER, |Reverse((time, ..))| *time);
        if timer.min(event) > end || timer.min(event) == Time::NEVER {
            self.now = self.now.max(end);
            return Next::End;
        }
        self.now = timer.min(event);
        if event > timer {
            return Next::Timer;
        }
        self.events.pop().map_or(Next::End, |Reverse((.., event))| Next::Event(event))
    }
}
