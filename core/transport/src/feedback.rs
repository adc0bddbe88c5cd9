//! A controller's receiver half beside a receiver.

use paceline_cc::{Arrival, MAX_FEEDBACK, ReceiverHalf, Time};

/// The half, where there is one.
pub(crate) struct Half {
    half: Option<Box<dyn ReceiverHalf>>,
    blob: Vec<u8>,
}

impl Half {
    pub(crate) fn new(half: Option<Box<dyn ReceiverHalf>>) -> Self {
        Self { half, blob: Vec::new() }
    }

    pub(crate) fn on_arrival(&mut self, arrival: &Arrival) {
        if let Some(half) = &mut self.half {
            half.on_arrival(arrival);
        }
    }

    /// News for the sender. A blob that is too long is dropped: the sender could not carry it.
    pub(crate) fn feedback(&mut self, now: Time) -> Option<Box<[u8]>> {
        let half = self.half.as_mut()?;
        self.blob.clear();
        (half.feedback(now, &mut self.blob) && self.blob.len() <= MAX_FEEDBACK).then(|| self.blob.as_slice().into())
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next_tick() <= now
    }

    pub(crate) fn next_tick(&self) -> Time {
        self.half.as_ref().map_or(Time::NEVER, |half| half.next_tick())
    }
}
