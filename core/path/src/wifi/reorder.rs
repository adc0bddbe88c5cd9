//! The receiver's side: frames are passed on in the order of their sequence numbers (IEEE 802.11-2016, 10.24.7).

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};

use super::sender::Mpdu;

/// For how long frames wait for one that is missing (Linux mac80211, `HT_RX_REORDER_BUF_TIMEOUT`).
const PATIENCE: Nanos = Nanos::from_millis(100);

/// A place in the order.
enum Place<P> {
    Missing,
    Here(Mpdu<P>),
    /// Given up by the sender.
    Gone,
}

/// Frames that wait for earlier ones.
pub(super) struct Reorder<P> {
    /// The sequence number of the first place.
    expected: u64,
    places: VecDeque<Place<P>>,
    /// Since when the first place, which is missing, holds others up.
    hole: Option<Time>,
}

impl<P> Default for Reorder<P> {
    fn default() -> Self {
        Self { expected: 0, places: VecDeque::new(), hole: None }
    }
}

impl<P> Reorder<P> {
    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A frame has arrived. One whose place was passed already is handed back: the receiver drops it.
    pub(super) fn arrive(&mut self, frame: Mpdu<P>) -> Option<Mpdu<P>> {
        match self.place(frame.number) {
            Some(place) => *place = Place::Here(frame),
            None => return Some(frame),
        }
        None
    }

    /// The sender has given up the frame of this number.
    pub(super) fn give_up(&mut self, number: u64) {
        if let Some(place) = self.place(number) {
            *place = Place::Gone;
        }
    }

    fn place(&mut self, number: u64) -> Option<&mut Place<P>> {
        let index = usize::try_from(number.checked_sub(self.expected)?).ok()?;
        while self.places.len() <= index {
            self.places.push_back(Place::Missing);
        }
        self.places.get_mut(index)
    }

    /// The next frame in order, if it is there.
    pub(super) fn release(&mut self, now: Time) -> Option<Mpdu<P>> {
        while let Some(place) = self.places.pop_front_if(|place| !matches!(place, Place::Missing)) {
            self.expected += 1;
            self.hole = None;
            if let Place::Here(frame) = place {
                return Some(frame);
            }
        }
        if !self.places.is_empty() {
            self.hole.get_or_insert(now);
        }
        None
    }

    /// When the receiver stops waiting for what is missing.
    pub(super) fn deadline(&self) -> Time {
        self.hole.map_or(Time::NEVER, |since| since + PATIENCE)
    }

    /// Stops waiting for the frames that are missing in front; [`Reorder::release`] has those behind them.
    pub(super) fn skip(&mut self) {
        self.hole = None;
        while self.places.pop_front_if(|place| matches!(place, Place::Missing)).is_some() {
            self.expected += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use paceline_cc::Codepoint;

    fn frame(number: u64) -> Mpdu<()> {
        Mpdu::new(number, 1538, Packet::new(0, 1500, Codepoint::NotEct, ()))
    }

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn released(reorder: &mut Reorder<()>, now: Time) -> Vec<u64> {
        std::iter::from_fn(|| reorder.release(now)).map(|frame| frame.number).collect()
    }

    #[test]
    fn frames_wait_for_what_is_missing_and_come_out_in_order() {
        let mut reorder = Reorder::default();
        for number in [1, 2, 4] {
            assert!(reorder.arrive(frame(number)).is_none());
        }
        assert!(released(&mut reorder, ms(5)).is_empty());
        assert_eq!(reorder.deadline(), ms(105));
        reorder.arrive(frame(0));
        assert_eq!(released(&mut reorder, ms(9)), [0, 1, 2]);
        // Another hole, another deadline.
        assert_eq!(reorder.deadline(), ms(109));
        reorder.give_up(3);
        assert_eq!((released(&mut reorder, ms(10)), reorder.deadline()), (vec![4], Time::NEVER));
        assert!(reorder.is_empty());
    }

    #[test]
    fn what_does_not_come_in_time_is_skipped_and_dropped_when_it_comes() {
        let mut reorder = Reorder::default();
        for number in [2, 4] {
            reorder.arrive(frame(number));
        }
        assert!(released(&mut reorder, ms(0)).is_empty());
        reorder.skip();
        assert_eq!(released(&mut reorder, ms(100)), [2]);
        assert_eq!(reorder.deadline(), ms(200));
        assert_eq!(reorder.arrive(frame(1)).map(|frame| frame.number), Some(1));
        reorder.give_up(0);
        reorder.skip();
        assert_eq!(released(&mut reorder, ms(200)), [4]);
    }
}
