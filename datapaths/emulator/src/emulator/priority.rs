//! How the kernel schedules the emulator's thread: ahead of everyone while that costs them little.
//!
//! A thread with real-time priority is on time whatever else runs, and takes the processor from other threads. While it
//! takes most of one, those who are robbed are the programs that send and receive through it; then they compete with it
//! under the ordinary scheduler, in which it has the larger share. Ours.

use std::fmt;

use paceline_cc::{Nanos, Time};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use paceline_clock::thread_cpu;

/// How often the thread looks at what it takes (our choice: some ticks of the kernel's scheduler).
const PERIOD: Nanos = Nanos::from_millis(50);
/// Above this share of a processor, in percent, it gives up its real-time priority (our choice: of two processors, hardly more
/// than one is left to the others).
const GIVE_UP: u64 = 60;
/// Below this share it takes it again (our choice: far enough below that it does not go to and fro).
const TAKE_AGAIN: u64 = 30;

/// How the kernel schedules the emulator's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// `SCHED_FIFO` at the lowest real-time priority; while it takes most of a processor, nice -15.
    RealTime,
    /// Nice -15.
    Nice,
    /// As any other thread: neither was permitted.
    Ordinary,
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RealTime => "real-time priority",
            Self::Nice => "nice -15",
            Self::Ordinary => "ordinary priority",
        })
    }
}

/// Asks for the best scheduling that this thread may have. Spinning has a budget, so that a real-time thread leaves the
/// processor to others.
pub(crate) fn prefer() -> Scheduling {
    // It counts whenever the thread is not a real-time one. Process 0 is the calling thread alone, on Linux.
    let nice = rustix::process::setpriority_process(None, -15).is_ok();
    if set_real_time(true) {
        return Scheduling::RealTime;
    }
    if nice { Scheduling::Nice } else { Scheduling::Ordinary }
}

fn set_real_time(wanted: bool) -> bool {
    let (policy, priority) = if wanted {
        (ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo), ThreadPriority::Min)
    } else {
        (ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other), ThreadPriority::Min)
    };
    set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok()
}

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
    /// The best that the calling thread may have.
    pub(super) fn new(now: Time) -> Self {
        Self { scheduling: prefer(), modest: false, looked: now, taken: thread_cpu() }
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
        let taken = thread_cpu();
        let modest = modest(self.modest, taken - self.taken, span);
        if modest != self.modest && set_real_time(!modest) {
            self.modest = modest;
            if modest {
                let _ = rustix::process::setpriority_process(None, -15);
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
