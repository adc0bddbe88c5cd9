//! Distance: a delay that is fixed or changes in steps, with or without jitter.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};

use crate::packet::{Element, Packet};

/// A fixed delay.
pub struct Delay<P> {
    delay: Nanos,
    line: VecDeque<Packet<P>>,
}

impl<P> Delay<P> {
    /// Every packet leaves `delay` after it came.
    pub fn new(delay: Nanos) -> Self {
        Self { delay, line: VecDeque::new() }
    }
}

impl<P: Send> Element<P> for Delay<P> {
    fn push(&mut self, now: Time, mut packet: Packet<P>) {
        packet.entered = now;
        packet.delay.propagation += self.delay;
        self.line.push_back(packet);
    }

    fn next(&self) -> Time {
        self.line.front().map_or(Time::NEVER, |packet| packet.entered + self.delay)
    }

    fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        if self.next() > now {
            return None;
        }
        self.line.pop_front()
    }

    fn least(&self) -> Nanos {
        self.delay
    }
}
