//! A controller's clock where a stack calls only now and then.

use paceline_cc::{Nanos, Time};
use paceline_transport::Numbered;

/// Most ticks made up for at one call (our choice: 5 s of Verus's epochs); after a longer silence one stands for the rest.
const TICKS: u32 = 1000;

/// Makes up for ticks, each for its own time.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    /// Between the last two.
    interval: Nanos,
}

impl Ticks {
    /// Those that are due.
    pub(crate) fn run(&mut self, flow: &mut Numbered, now: Time) {
        self.catch_up(flow, now, Nanos::ZERO);
    }

    /// The same before an acknowledgement, but for the last, which comes after it: what it allows could not leave before, so it must count
    /// from the flight after it.
    pub(crate) fn run_before_news(&mut self, flow: &mut Numbered, now: Time) {
        self.catch_up(flow, now, self.interval);
    }

    /// Those that were due `ago`.
    fn catch_up(&mut self, flow: &mut Numbered, now: Time, ago: Nanos) {
        for _ in 0..TICKS {
            let due = flow.next_tick();
            if due + ago > now {
                return;
            }
            flow.tick(due);
            let next = flow.next_tick();
            if next <= due {
                break;
            }
            self.interval = next - due;
        }
        flow.tick(now);
    }
}
