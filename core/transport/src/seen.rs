//! What is seen of a TCP flow on its way, packet by packet: what is in flight, round trips, what is sent again. For captures at a sender,
//! and for paths that carry the flows of programs.

/// What is needed of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenSegment {
    /// Number of its first byte.
    pub seq: u32,
    /// The next byte that its sender waits for; without the flag ACK nothing, whatever is in its place (RFC 9293 section 3.1).
    pub ack: Option<u32>,
    /// Payload bytes, by the IP header: a capture may hold less.
    pub bytes: u32,
    /// Whether it opens the connection.
    pub syn: bool,
    /// Whether it opens, ends or resets the connection.
    pub control: bool,
    /// Whether its sender takes no more bytes: a window of 0.
    pub closed: bool,
}

/// One direction of a connection, in bytes after its first.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    origin: Option<u32>,
    next: u64,
    una: u64,
    /// What is being timed: its end and when it left; nothing while something is sent again (Karn).
    timed: Option<(u64, i64)>,
    /// Its receiver takes no more.
    closed: bool,
}

/// What a segment means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentMeaning {
    /// No data.
    Nothing,
    /// Data that had not been sent.
    New,
    /// Data that had.
    Again,
    /// A byte that asks whether the other end is there (RFC 9293 section 3.8.4), or takes more (section 3.8.6.1).
    Probe,
}

/// What an acknowledgement says that is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewlyAcked {
    /// Bytes that have arrived so far.
    pub una: u64,
    /// A round trip in nanoseconds, where one was timed.
    pub rtt: Option<u64>,
}

impl Tcp {
    /// Its sender sent a segment, at this time in nanoseconds.
    pub fn sent(&mut self, at: i64, segment: &SeenSegment) -> SegmentMeaning {
        if segment.bytes == 0 || segment.syn {
            return SegmentMeaning::Nothing;
        }
        let origin = *self.origin.get_or_insert(segment.seq);
        let end = unwrap(segment.seq, origin, self.next).saturating_add(u64::from(segment.bytes));
        if segment.bytes == 1 && !segment.control && (end == self.una && self.una > 0 || self.closed) {
            // It may be taken.
            self.next = self.next.max(end);
            return SegmentMeaning::Probe;
        }
        if end <= self.next {
            self.timed = None;
            return SegmentMeaning::Again;
        }
        self.next = end;
        self.timed = self.timed.or(Some((end, at)));
        SegmentMeaning::New
    }

    /// Its receiver acknowledged.
    pub fn acknowledged(&mut self, at: i64, segment: &SeenSegment) -> Option<NewlyAcked> {
        self.closed = segment.closed && !segment.control;
        let (origin, ack) = (self.origin?, segment.ack?);
        let una = unwrap(ack, origin, self.una).min(self.next);
        if una <= self.una {
            return None;
        }
        self.una = una;
        let timed = self.timed.take_if(|(end, _)| una >= *end);
        Some(NewlyAcked { una, rtt: timed.map(|(_, left)| at.saturating_sub(left).max(0) as u64) })
    }

    /// Bytes that have arrived, in order.
    pub fn acknowledged_bytes(&self) -> u64 {
        self.una
    }

    /// Bytes that were sent and not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.next.saturating_sub(self.una)
    }
}

/// Where `value` is after `origin`, near `about`: sequence numbers wrap.
fn unwrap(value: u32, origin: u32, about: u64) -> u64 {
    let low = value.wrapping_sub(origin);
    let ahead = low.wrapping_sub(about as u32) as i32;
    about.saturating_add_signed(i64::from(ahead))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(seq: u32, bytes: u32) -> SeenSegment {
        SeenSegment { seq, ack: None, bytes, syn: false, control: false, closed: false }
    }

    fn ack(ack: u32, closed: bool) -> SeenSegment {
        SeenSegment { seq: 0, ack: Some(ack), bytes: 0, syn: false, control: false, closed }
    }

    #[test]
    fn sequence_numbers_wrap() {
        let origin = u32::MAX - 10;
        assert_eq!(unwrap(5, origin, 0), 16);
        assert_eq!(unwrap(origin.wrapping_add(100), origin, (1 << 32) + 50), (1 << 32) + 100);
        assert_eq!(unwrap(origin, origin, 3), 0);
    }

    #[test]
    fn round_trips_are_of_what_was_sent_once() {
        let mut flow = Tcp::default();
        assert_eq!(
            (flow.sent(0, &segment(1000, 100)), flow.sent(5, &segment(1100, 100))),
            (SegmentMeaning::New, SegmentMeaning::New)
        );
        assert_eq!(flow.acknowledged(40, &ack(1100, false)), Some(NewlyAcked { una: 100, rtt: Some(40) }));
        assert_eq!((flow.in_flight(), flow.acknowledged(41, &ack(1100, false))), (100, None));
        assert_eq!(
            (flow.sent(50, &segment(1200, 100)), flow.sent(60, &segment(1100, 100))),
            (SegmentMeaning::New, SegmentMeaning::Again)
        );
        assert_eq!(flow.acknowledged(90, &ack(1300, false)), Some(NewlyAcked { una: 300, rtt: None }));
    }

    #[test]
    fn a_reset_without_an_acknowledgement_acknowledges_nothing() {
        // Half of all first numbers are less than 2^31 before the 0 in its place.
        let mut flow = Tcp::default();
        flow.sent(0, &segment(u32::MAX - 10, 100));
        let reset = SeenSegment { ack: None, control: true, ..ack(0, true) };
        assert_eq!((flow.acknowledged(40, &reset), flow.acknowledged_bytes()), (None, 0));
        assert_eq!(flow.acknowledged(40, &ack(0, false)), Some(NewlyAcked { una: 11, rtt: None }));
    }

    #[test]
    fn a_probe_is_not_sent_again() {
        let mut flow = Tcp::default();
        flow.sent(0, &segment(1000, 100));
        // Of a single byte that is missing too.
        assert_eq!(flow.sent(1, &segment(1099, 1)), SegmentMeaning::Again);
        flow.acknowledged(40, &ack(1100, false));
        assert_eq!(flow.sent(60, &segment(1099, 1)), SegmentMeaning::Probe);
        assert_eq!(flow.sent(60, &segment(1000, 100)), SegmentMeaning::Again);
        flow.acknowledged(80, &ack(1100, true));
        assert_eq!(
            (flow.sent(90, &segment(1100, 1)), flow.sent(99, &segment(1100, 1))),
            (SegmentMeaning::Probe, SegmentMeaning::Probe)
        );
        flow.acknowledged(100, &ack(1101, false));
        assert_eq!((flow.sent(110, &segment(1101, 100)), flow.in_flight()), (SegmentMeaning::New, 100));
    }
}
