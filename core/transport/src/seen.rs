//! What is seen of a TCP flow on its way, packet by packet: what is in flight, round trips, what is sent again. For captures at a sender,
//! and for paths that carry the flows of programs.

mod flight;

use flight::Flight;

use crate::segment::Range;

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
    /// What its sender takes more, as the header says it; the most where that was not kept.
    pub window: u16,
}

/// One direction of a connection, in bytes after its first.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    origin: Option<u32>,
    next: u64,
    una: u64,
    /// What is being timed: its end and when it left; nothing while something is sent again (Karn).
    timed: Option<(u64, i64)>,
    /// What its receiver takes more.
    window: Option<u16>,
    flight: Flight,
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
    /// Bytes that have arrived so far in order.
    pub una: u64,
    /// Bytes that have arrived so far, those behind a gap among them.
    pub arrived: u64,
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
        let start = unwrap(segment.seq, origin, self.next);
        let end = start.saturating_add(u64::from(segment.bytes));
        if segment.bytes == 1 && !segment.control && (end == self.una && self.una > 0 || self.window == Some(0)) {
            // It may be taken.
            self.next = self.next.max(end);
            return SegmentMeaning::Probe;
        }
        if end <= self.next {
            self.timed = None;
            self.flight.again(at, Range { start, end }, [self.una, self.next]);
            return SegmentMeaning::Again;
        }
        self.flight.sends(segment.bytes);
        self.next = end;
        self.timed = self.timed.or(Some((end, at)));
        SegmentMeaning::New
    }

    /// Its receiver acknowledged, with these SACK blocks (RFC 2018), where it says any; a block without bytes says nothing.
    pub fn acknowledged(&mut self, at: i64, segment: &SeenSegment, sacks: &[(u32, u32)]) -> Option<NewlyAcked> {
        let window = Some(segment.window).filter(|_| !segment.control);
        let same = std::mem::replace(&mut self.window, window) == window;
        let (origin, ack) = (self.origin?, segment.ack?);
        let una = unwrap(ack, origin, self.una).min(self.next);
        let before = self.una;
        self.una = una.max(before);
        let bare = segment.bytes == 0 && !segment.control && sacks.iter().all(|(start, end)| start == end);
        let block = |&(start, end): &(u32, u32)| {
            let start = unwrap(start, origin, self.una);
            Range { start, end: unwrap(end, origin, start).min(self.next) }
        };
        let blocks = sacks.iter().map(block).filter(|block| block.start < block.end && block.end > self.una);
        let repeats = bare && same && una == before;
        let out_of_order = self.flight.acknowledged(at, [before, self.una, self.next], blocks, repeats);
        if !out_of_order && self.una == before {
            return None;
        }
        let timed = self.timed.take_if(|(end, _)| una >= *end);
        let rtt = timed.map(|(_, left)| at.saturating_sub(left).max(0) as u64);
        self.flight.measured(rtt);
        Some(NewlyAcked { una: self.una, arrived: self.una + self.flight.held(), rtt })
    }

    /// Bytes that have arrived, in order.
    pub fn acknowledged_bytes(&self) -> u64 {
        self.una
    }

    /// Bytes on their way: sent, neither acknowledged nor known to have arrived behind a gap, nor found to be lost (RFC 6675, `pipe`).
    pub fn in_flight(&self) -> u64 {
        self.flight.bytes(self.una, self.next)
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
        SeenSegment { seq, ack: None, bytes, syn: false, control: false, window: 1 }
    }

    fn ack(ack: u32, window: u16) -> SeenSegment {
        SeenSegment { seq: 0, ack: Some(ack), bytes: 0, syn: false, control: false, window }
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
        assert_eq!(
            flow.acknowledged(40, &ack(1100, 1), &[]),
            Some(NewlyAcked { una: 100, arrived: 100, rtt: Some(40) })
        );
        assert_eq!((flow.in_flight(), flow.acknowledged(41, &ack(1100, 1), &[])), (100, None));
        assert_eq!(
            (flow.sent(50, &segment(1200, 100)), flow.sent(60, &segment(1100, 100))),
            (SegmentMeaning::New, SegmentMeaning::Again)
        );
        assert_eq!(flow.acknowledged(90, &ack(1300, 1), &[]), Some(NewlyAcked { una: 300, arrived: 300, rtt: None }));
    }

    #[test]
    fn a_reset_without_an_acknowledgement_acknowledges_nothing() {
        // Half of all first numbers are less than 2^31 before the 0 in its place.
        let mut flow = Tcp::default();
        flow.sent(0, &segment(u32::MAX - 10, 100));
        let reset = SeenSegment { ack: None, control: true, ..ack(0, 0) };
        assert_eq!((flow.acknowledged(40, &reset, &[]), flow.acknowledged_bytes()), (None, 0));
        let news = NewlyAcked { una: 11, arrived: 11, rtt: None };
        assert_eq!(flow.acknowledged(40, &ack(0, 1), &[]), Some(news));
    }

    #[test]
    fn a_probe_is_not_sent_again() {
        let mut flow = Tcp::default();
        flow.sent(0, &segment(1000, 100));
        // Of a single byte that is missing too.
        assert_eq!(flow.sent(1, &segment(1099, 1)), SegmentMeaning::Again);
        flow.acknowledged(40, &ack(1100, 1), &[]);
        assert_eq!(flow.sent(60, &segment(1099, 1)), SegmentMeaning::Probe);
        assert_eq!(flow.sent(60, &segment(1000, 100)), SegmentMeaning::Again);
        flow.acknowledged(80, &ack(1100, 0), &[]);
        assert_eq!(
            (flow.sent(90, &segment(1100, 1)), flow.sent(99, &segment(1100, 1))),
            (SegmentMeaning::Probe, SegmentMeaning::Probe)
        );
        flow.acknowledged(100, &ack(1101, 1), &[]);
        assert_eq!((flow.sent(110, &segment(1101, 100)), flow.in_flight()), (SegmentMeaning::New, 100));
    }

    const MSS: u32 = 1000;

    /// A flow that has sent this many packets, and its receiver's answer to each that is not lost, with or without SACK.
    fn after(packets: u32, lost: &[u32], selective: bool) -> Tcp {
        let mut flow = Tcp::default();
        (0..packets).for_each(|number| assert_eq!(flow.sent(0, &segment(number * MSS, MSS)), SegmentMeaning::New));
        let first = lost.first().copied().unwrap_or(packets);
        for number in (0..packets).filter(|number| !lost.contains(number)) {
            let una = first.min(number + 1) * MSS;
            let start = lost.iter().filter(|lost| **lost < number).max().map_or(0, |lost| (lost + 1) * MSS);
            let block = if number < first || !selective { (0, 0) } else { (start, (number + 1) * MSS) };
            flow.acknowledged(10, &ack(una, 9), &[block, (0, 0)]);
        }
        flow
    }

    #[test]
    fn what_arrived_behind_a_gap_and_what_is_lost_is_not_in_flight() {
        assert_eq!(after(20, &[], true).in_flight(), 0);
        // Fewer than three behind it: it may come yet.
        assert_eq!((after(6, &[4], true).in_flight(), after(6, &[4], false).in_flight()), (1000, 1000));
        assert_eq!((after(20, &[4], true).in_flight(), after(20, &[4], false).in_flight()), (0, 0));
        for lost in [&[4][..], &[4, 5, 9], &[0, 2, 4, 6, 8]] {
            let mut flow = after(20, lost, true);
            assert_eq!(flow.in_flight(), 0, "{lost:?}");
            for (count, number) in lost.iter().enumerate() {
                assert_eq!(flow.sent(20, &segment(number * MSS, MSS)), SegmentMeaning::Again);
                assert_eq!(flow.in_flight(), (count as u64 + 1) * 1000, "{lost:?}");
            }
            flow.sent(21, &segment(20 * MSS, MSS));
            let news = flow.acknowledged(30, &ack(20 * MSS, 9), &[]).unwrap();
            assert_eq!((news.arrived, flow.in_flight()), (20_000, 1000), "{lost:?}");
        }
        // Without SACK what is missing behind the first gap is not known.
        let mut flow = after(20, &[4, 9], false);
        assert_eq!(flow.in_flight(), 1000);
        flow.sent(20, &segment(4 * MSS, MSS));
        flow.acknowledged(30, &ack(9 * MSS, 9), &[]);
        assert_eq!(flow.in_flight(), 1000);
        flow.sent(31, &segment(9 * MSS, MSS));
        flow.acknowledged(40, &ack(20 * MSS, 9), &[]);
        assert_eq!(flow.in_flight(), 0);
    }

    #[test]
    fn after_a_timeout_what_is_sent_again_is_in_flight() {
        let mut flow = Tcp::default();
        (0..10).for_each(|number| assert_eq!(flow.sent(0, &segment(number * MSS, MSS)), SegmentMeaning::New));
        assert_eq!(flow.in_flight(), 10_000);
        flow.sent(300, &segment(0, MSS));
        assert_eq!(flow.in_flight(), 1000);
        flow.acknowledged(340, &ack(MSS, 9), &[]);
        (1..3).for_each(|number| assert_eq!(flow.sent(340, &segment(number * MSS, MSS)), SegmentMeaning::Again));
        assert_eq!(flow.in_flight(), 2000);
        // One that is lost again, with all behind it.
        let mut flow = after(20, &[4, 5], true);
        flow.sent(20, &segment(4 * MSS, MSS));
        flow.sent(20, &segment(5 * MSS, MSS));
        flow.sent(500, &segment(4 * MSS, MSS));
        assert_eq!(flow.in_flight(), 1000);
    }

    #[test]
    fn a_window_that_opens_and_blocks_of_old_data_say_nothing_of_a_gap() {
        let mut flow = Tcp::default();
        (0..10).for_each(|number| assert_eq!(flow.sent(0, &segment(number * MSS, MSS)), SegmentMeaning::New));
        flow.acknowledged(10, &ack(2 * MSS, 9), &[]);
        for window in 10..20 {
            assert_eq!(flow.acknowledged(11, &ack(2 * MSS, window), &[]), None);
            assert_eq!(flow.acknowledged(11, &ack(2 * MSS, window), &[(0, MSS)]), None);
        }
        assert_eq!(flow.in_flight(), 8000);
    }
}
