//! How the kernel schedules the calling thread, and the CPU time that it and its process have had.

use std::num::NonZeroU64;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use paceline_cc::Nanos;
use rustix::time::ClockId;
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::clock::{nanos_of, read};

/// Nice value of a thread that others wait for (our choice).
pub const FIRST: i32 = -15;

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum Scheduling {
    /// `SCHED_FIFO` at the lowest real-time priority.
    #[strum(serialize = "real-time priority")]
    RealTime,
    /// Nice -15.
    #[strum(serialize = "nice -15")]
    Nice,
    /// As any other thread: neither was permitted.
    #[strum(serialize = "ordinary priority")]
    Ordinary,
}

/// Asks for the best scheduling that the calling thread may have. A real-time thread has to leave the processor to others of its own
/// accord.
pub fn go_first() -> Scheduling {
    // The nice value counts whenever the thread is not a real-time one.
    let nice = set_nice(FIRST);
    if set_real_time(true) {
        return Scheduling::RealTime;
    }
    if nice { Scheduling::Nice } else { Scheduling::Ordinary }
}

/// Sets the calling thread's nice value, -20 (first) to 19, and answers whether that was permitted.
pub fn set_nice(value: i32) -> bool {
    // Process 0 is the calling thread alone, on Linux.
    rustix::process::setpriority_process(None, value).is_ok()
}

/// Gives the calling thread the lowest real-time priority, or takes it away, and answers whether that was permitted.
pub fn set_real_time(wanted: bool) -> bool {
    let policy = if wanted {
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo)
    } else {
        ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other)
    };
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).is_ok()
}

/// Lets the kernel end the calling thread's sleeps at most so many nanoseconds late to join them with others; 50 µs by default.
pub fn set_timer_slack(nanos: u32) {
    // No kernel refuses it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(nanos.into()));
}

/// CPU time of the calling thread so far, user and system.
pub fn cpu_time() -> Nanos {
    Nanos::from_nanos(read(ClockId::ThreadCPUTime))
}

/// CPU time of a thread of this process, by its number, user and system; `None` where the kernel does not say.
pub fn cpu_time_of(thread: i32) -> Option<Nanos> {
    // As pthread_getcpuclockid(3) makes it: CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED.
    let clock = nix::time::ClockId::from_raw((!thread << 3) | 6);
    Some(Nanos::from_nanos(nanos_of(clock.now().ok()?.into())))
}

/// CPU time of the process so far, user and system.
pub fn process_cpu_time() -> Nanos {
    Nanos::from_nanos(read(ClockId::ProcessCPUTime))
}

/// CPU time of the children of this process that it has collected, and of those that these had collected, user and system. A child
/// of a process that ignores SIGCHLD is collected by the kernel, and is not in it (getrusage(2)).
pub fn cpu_time_of_children() -> Nanos {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).map(|usage| usage.user_time() + usage.system_time());
    Nanos::from_micros(used.map_or(0, |used| used.num_microseconds().cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works until the calling thread has had so much CPU time; answers how much it was.
    fn work(nanos: Nanos) -> Nanos {
        while cpu_time() < nanos {
            std::hint::spin_loop();
        }
        cpu_time()
    }

    #[test]
    fn a_process_has_the_time_of_all_its_threads() {
        let first = work(Nanos::from_millis(1));
        let second = std::thread::spawn(|| work(Nanos::from_millis(1))).join().unwrap();
        assert!(process_cpu_time() >= first + second);
    }
}
