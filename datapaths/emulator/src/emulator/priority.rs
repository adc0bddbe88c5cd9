//! How the kernel schedules the emulator's thread: ahead of everyone while that costs them little.
//!
//! A thread with real-time priority is on time whatever else runs, and takes the processor from other threads. While it
//! takes most of one, those who are robbed are the programs that send and receive through it; then they compete with it
//! under the ordinary scheduler, in which it has the larger share. Ours.

use paceline_cc::{Nanos, Time};
use paceline_linux::thread::{FIRST, Scheduling, cpu_time, go_first, set_nice, set_real_time};

/// How often the thread looks at what it takes (our choice: some ticks of the kernel's scheduler).
const PERIOD: Nanos = Nanos::from_millis(50);
/// Above this share of a processor, in percent, it gives up its real-time priority (our choice: of two processors, hardly more
/// than one is left to the others).
const GIVE_UP: u64 = 60;
/// Below this share it takes it again (our choice: far enough below that it does not go to and fro).
const TAKE_AGAIN: u64 = 30;

/// The priority of one emulator's thread.
#[derive(Debug)]
pub(super) struct Priority {
    scheduling: Scheduling,
    /// Whether real-time priority was given up.
    modest: bool,
    /// When it last looked, and the processor time it had taken by then.
    looked: Time,
    taken: Nanos,
}

impl Priority {
    /// The best that the calling thread may have; its spinning has a budget, so that it leaves the processor to others.
    pub(super) fn new(now: Time) -> Self {
        Self { scheduling: go_first(), modest: false, looked: now, taken: cpu_time() }
    }

    /// What was permitted.
    pub(super) fn scheduling(&self) -> Scheduling {
        self.scheduling
    }

    /// Gives up real-time priority, or takes it again, by the share of a processor that the thread takes.
    pub(super) fn review(&mut self, now: Time) {
        let span = now - self.looked;
        if self.scheduling != Scheduling::RealTime || span < PERIOD {
            return;
        }
        let taken = cpu_time();
        let modest = modest(self.modest, taken - self.taken, span);
        if modest != self.modest && set_real_time(!modest) {
            self.modest = modest;
            if modest {
                set_nice(FIRST);
            }
        }
        (self.looked, self.taken) = (now, taken);
    }
}

/// Whether to do without real-time priority after `taken` of `span`.
fn modest(already: bool, taken: Nanos, span: Nanos) -> bool {
    let bound = if already { TAKE_AGAIN } else { GIVE_UP };
    taken > span.mul_div(bound, 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_much_does_without_real_time_priority_until_it_takes_little() {
        let percent = |share: u64| Nanos::from_micros(500 * share);
        let shares = [10, 59, 61, 45, 31, 29, 45, 59, 99];
        let mut now = false;
        let seen = shares.map(|share| {
            now = modest(now, percent(share), PERIOD);
            now
        });
        assert_eq!(seen, [false, false, true, true, true, false, false, false, true]);
    }
}
