//! What is seen of a TCP flow at its sender, packet by packet: what is in flight, round trips, what is sent again.

use paceline_conform::capture::packet::Segment;
use paceline_conform::capture::unwrap;

/// One direction of a connection, in bytes after its first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tcp {
    origin: Option<u32>,
    next: u64,
    una: u64,
    /// What is being timed: its end and when it left; nothing while something is sent again (Karn).
    timed: Option<(u64, u64)>,
}

/// What a segment means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sent {
    /// No data.
    Nothing,
    /// Data that had not been sent.
    New,
    /// Data that had.
    Again,
}

impl Tcp {
    /// Its sender sent a segment, at this time in nanoseconds.
    pub(crate) fn sent(&mut self, at: u64, segment: &Segment) -> Sent {
        if segment.bytes == 0 || segment.syn {
            return Sent::Nothing;
        }
        let origin = *self.origin.get_or_insert(segment.seq);
        let end = unwrap(segment.seq, origin, self.next).saturating_add(u64::from(segment.bytes));
        if end <= self.next {
            self.timed = None;
            return Sent::Again;
        }
        self.next = end;
        self.timed = self.timed.or(Some((end, at)));
        Sent::New
    }

    /// Its receiver acknowledged; the answer is a round trip in nanoseconds, where one was timed.
    pub(crate) fn acknowledged(&mut self, at: u64, segment: &Segment) -> Option<u64> {
        let origin = self.origin?;
        let una = unwrap(segment.ack, origin, self.una).min(self.next);
        if una <= self.una {
            return None;
        }
        self.una = una;
        let (end, left) = self.timed?;
        if una < end {
            return None;
        }
        self.timed = None;
        Some(at.saturating_sub(left))
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.next.saturating_sub(self.una)
    }
}
