//! What travels: a packet with its size, its ECN codepoint, and where its delay came from.

use std::ops::{Deref, DerefMut};

use paceline_cc::{Codepoint, Nanos, Time};

use crate::change::PathChange;

/// One-way delay of a packet by where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DelaySplit {
    /// Distance, and jitter added to it.
    pub propagation: Nanos,
    /// Waiting: for other packets, and for a link that stands still.
    pub queue: Nanos,
    /// Being put on the wire.
    pub transmission: Nanos,
}

/// A packet with a body that the path never looks at. It lies in a box, so that the stages of a path move a pointer.
#[derive(Clone, Debug)]
pub struct Packet<P>(Box<Contents<P>>);

/// What is in a [`Packet`].
#[derive(Clone, Debug)]
pub struct Contents<P> {
    /// Which flow it belongs to, for per-flow counters.
    pub flow: u32,
    /// Bytes on the wire, from the IP header on.
    pub size: u32,
    /// ECN field.
    pub ecn: Codepoint,
    /// The ECN field with which it entered the last tunnel.
    pub inner: Codepoint,
    /// When it entered the element that holds it; elements set it.
    pub entered: Time,
    /// Delay so far.
    pub delay: DelaySplit,
    /// It was made on the way, by duplication: no host sent it.
    pub copy: bool,
    /// The payload of the path's driver.
    pub body: P,
}

impl<P> Packet<P> {
    /// A packet that has not travelled yet.
    pub fn new(flow: u32, size: u32, ecn: Codepoint, body: P) -> Self {
        let (entered, delay) = (Time::ZERO, DelaySplit::default());
        Self(Box::new(Contents { flow, size, ecn, inner: ecn, entered, delay, copy: false, body }))
    }

    /// The packet becomes another one that has not travelled yet; its body stays.
    pub fn renew(&mut self, flow: u32, size: u32, ecn: Codepoint) {
        let Contents { body: _, flow: of, size: bytes, ecn: field, inner, entered, delay, copy } = &mut *self.0;
        (*of, *bytes, *field, *inner) = (flow, size, ecn, ecn);
        (*entered, *delay, *copy) = (Time::ZERO, DelaySplit::default(), false);
    }

    /// The payload.
    pub fn into_body(self) -> P {
        self.0.body
    }
}

impl<P> Deref for Packet<P> {
    type Target = Contents<P>;

    fn deref(&self) -> &Contents<P> {
        &self.0
    }
}

impl<P> DerefMut for Packet<P> {
    fn deref_mut(&mut self) -> &mut Contents<P> {
        &mut self.0
    }
}

/// One stage of a path that holds packets: a link with its queue, a delay.
///
/// Sans-IO: `push` when a packet arrives, `pop` until it answers `None` whenever [`Element::next`] has come. Packets
/// leave in the order of the times at which they are due, and in order of arrival where these are equal.
///
/// The times of all calls never decrease, and what is due by `now` is popped before a push at `now`: a packet that
/// leaves at the moment another arrives makes room for it. [`crate::Path`] sees to both.
pub trait Element<P>: Send {
    /// A packet arrives.
    fn push(&mut self, now: Time, packet: Packet<P>);

    /// When `pop` has something to give or to do; [`Time::NEVER`] when nothing is waiting.
    fn next(&self) -> Time;

    /// Takes out a packet that is due by `now`. `None` although [`Element::next`] had come means that the element did
    /// something else (an AQM dropped the packet); its next time has then moved on.
    fn pop(&mut self, now: Time) -> Option<Packet<P>>;

    /// The least time that any packet pushed from now on spends inside; a path uses it to be woken once a packet
    /// and not once an element.
    fn least(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Takes a change, if it is about this element, and answers what was in force.
    fn change(&mut self, _now: Time, _change: PathChange) -> Option<PathChange> {
        None
    }
}
