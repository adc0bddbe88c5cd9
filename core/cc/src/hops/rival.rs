//! The window that CUBIC would have beside flows that fill the queue: the count of flows may be far more than those that do, and a share by
//! the count then nothing.

use crate::controller::{Ack, Phase};
use crate::cubic::Cubic;
use crate::units::{Nanos, Time};
use crate::window::{MINIMUM_WINDOW, Policy, Signal, Window};

/// What is kept of it then (RFC 9438 section 4.6: a reduction).
const KEPT: f64 = 0.7;
/// What is remembered of it counts for this long (our choice: some sawteeth of CUBIC).
const REMEMBERED: Nanos = Nanos::from_secs(10);

/// In packets, while it is needed; and the last one, with its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rival {
    now: Option<Window>,
    last: Option<(f64, Time)>,
}

impl Rival {
    /// The window, where others fill the queue.
    pub(super) fn window(&self) -> Option<f64> {
        self.now.map(|window| window.cwnd)
    }

    /// It begins with `cwnd`, the window of the flow, or goes on; soon after the last one with that, reduced.
    pub(super) fn begin(&mut self, now: Time, cwnd: f64, cubic: &mut Cubic) {
        if self.now.is_none() {
            let last = self.last.filter(|(_, end)| now - *end < REMEMBERED).map_or(0.0, |(cwnd, _)| cwnd);
            let cwnd = cwnd.max(KEPT * last);
            cubic.begin_at(cwnd);
            self.now = Some(Window { cwnd, ssthresh: cwnd });
        }
    }

    pub(super) fn end(&mut self, now: Time) {
        if let Some(window) = self.now.take() {
            self.last = Some((window.cwnd, now));
        }
    }

    /// Something was delivered.
    pub(super) fn grow(&mut self, ack: &Ack<'_>, cubic: &mut Cubic) {
        if let Some(window) = self.now.as_mut().filter(|_| ack.bytes > 0 && ack.phase == Phase::Open) {
            cubic.grow(ack, window);
        }
    }

    /// A queue has dropped packets, of a flight of this many.
    pub(super) fn lose(&mut self, now: Time, flight: f64, cubic: &mut Cubic) {
        if let Some(window) = &mut self.now {
            let cwnd = cubic.reduce(Signal::Loss, now, window, flight).max(MINIMUM_WINDOW);
            *window = Window { cwnd, ssthresh: cwnd };
        }
    }
}
