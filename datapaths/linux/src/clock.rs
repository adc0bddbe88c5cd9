//! Real time: a clock for a run, waiting for a moment, and how late moments came.
//!
//! Source: sleep, then spin for the last moments, as timing-critical senders do. Ours: how long to spin is derived from how
//! late sleeping came, and spinning has a budget, since a spin without one takes a whole core above 100 Mbit/s.

use std::io;
use std::time::Duration;

use paceline_cc::histogram::Histogram;
use paceline_cc::{Nanos, Time};
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};

use crate::thread::set_timer_slack;

/// The monotonic clock of a run: [`Time::ZERO`] when it was made. Copies agree, on every thread.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// CLOCK_MONOTONIC at zero.
    origin: u64,
    /// CLOCK_REALTIME at zero, for logs.
    unix: u64,
}

/// CLOCK_MONOTONIC, by which the kernel has its own times: zero when the machine started.
pub fn monotonic() -> Time {
    Time::from_nanos(read(ClockId::Monotonic))
}

/// CLOCK_REALTIME, which can be set: the time since 1970.
pub fn unix() -> Duration {
    clock_gettime(ClockId::Realtime).try_into().unwrap_or_default()
}

/// International atomic time (CLOCK_TAI): machines that are synchronised, by PTP for example, have the same.
pub fn atomic() -> Time {
    let now = clock_gettime_dynamic(DynamicClockId::Tai).expect("Linux has it since 3.10");
    Time::from_nanos(nanos_of(now.try_into().unwrap_or_default()))
}

/// Nanoseconds of one of the clocks that every Linux has.
pub(crate) fn read(clock: ClockId) -> u64 {
    nanos_of(clock_gettime(clock).try_into().unwrap_or_default())
}

pub(crate) fn nanos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Clock {
    /// A clock that is at zero now.
    #[expect(clippy::new_without_default, reason = "two clocks made by default would not agree")]
    pub fn new() -> Self {
        Self { origin: read(ClockId::Monotonic), unix: read(ClockId::Realtime) }
    }

    /// A clock that will be at zero after `lead`, and stands at zero until then: what is built meanwhile starts on time.
    pub fn ahead(lead: Nanos) -> Self {
        let Self { origin, unix } = Self::new();
        Self { origin: origin + lead.as_nanos(), unix: unix + lead.as_nanos() }
    }

    /// Nanoseconds until zero.
    pub fn until_zero(self) -> Nanos {
        Nanos::from_nanos(self.origin.saturating_sub(read(ClockId::Monotonic)))
    }

    /// Sleeps until zero. A sender that begins earlier measures the lead as delay where the other clock is not this one: TCP's, QUIC's.
    pub fn wait_for_zero(self) {
        std::thread::sleep(span(self.until_zero()));
    }

    /// The time now.
    pub fn now(self) -> Time {
        Time::from_nanos(read(ClockId::Monotonic).saturating_sub(self.origin))
    }

    /// A moment of [`monotonic`], by which other processes say when something was; what was before zero was at zero.
    pub fn of_monotonic(self, at: Time) -> Time {
        Time::from_nanos(at.as_nanos().saturating_sub(self.origin))
    }

    /// The moment of a kernel's receive timestamp (`SO_TIMESTAMPNS`: since 1970, in CLOCK_REALTIME), by the distance of
    /// the two clocks now. Later than it was by less than the clocks' readings lie apart, and never earlier, so that no round trip is
    /// shorter than it was; a step of the wall clock in between is the only other error. Never later than now.
    pub fn of_kernel(self, stamp: Duration) -> Time {
        let (wall, monotonic) = both(read);
        Time::from_nanos(monotonic.saturating_sub(self.origin))
            - Nanos::from_nanos(wall.saturating_sub(nanos_of(stamp)))
    }

    /// A moment as nanoseconds since 1970, as packet logs have it. Later steps of the wall clock do not count.
    pub fn unix_nanos(self, at: Time) -> u64 {
        self.unix.saturating_add(at.as_nanos())
    }
}

/// CLOCK_REALTIME, and CLOCK_MONOTONIC shortly after it.
///
/// A thread may be put aside between the two readings: of up to [`READINGS`] the closest count.
fn both(mut read: impl FnMut(ClockId) -> u64) -> (u64, u64) {
    let mut before = read(ClockId::Monotonic);
    let mut closest = (u64::MAX, 0, 0);
    for _ in 0..READINGS {
        let wall = read(ClockId::Realtime);
        let after = read(ClockId::Monotonic);
        closest = closest.min((after - before, wall, after));
        if closest.0 <= CLOSE {
            break;
        }
        before = after;
    }
    (closest.1, closest.2)
}

/// Readings of the clocks that lie no further apart are good enough: three take 0.1 µs (our choice).
const CLOSE: u64 = 1000;
/// How often they are read at most (our choice: a thread is seldom put aside twice within a microsecond).
const READINGS: u32 = 4;

/// Longest spin before a deadline (our choice, because a sleeping processor of an idle virtual machine woke up 150 to 220 µs
/// late in the 90th percentile; one that other work keeps awake, 45 µs in the 99th).
const LEAD_MAX: Nanos = Nanos::from_micros(250);
/// Shortest spin before a deadline (our choice: the 90th percentile there).
const LEAD_MIN: Nanos = Nanos::from_micros(20);
/// Share of the time that may be spun: one part in this many (our choice: a fifth).
const SPIN_SHARE: u64 = 5;
/// Spinning saved up while there was nothing to wait for (our choice: a tenth of a second's worth).
const SPIN_SAVED: Nanos = Nanos::from_millis(20);

/// The same, as the standard library has it.
pub fn span(span: Nanos) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A descriptor is ready, or there was a signal.
    Ready,
    /// The deadline has passed, and at this moment, no earlier than the deadline, no descriptor was ready.
    Due(Time),
}

/// Waits until one of `fds` is ready, for `longest` at most, and says whether one is, or a signal ended the wait.
///
/// # Errors
/// What the system says.
pub fn wait(fds: &mut [PollFd<'_>], longest: Option<Duration>) -> io::Result<bool> {
    // What is too long for the kernel is without end.
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    match poll(fds, longest.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Waits for moments: sleeps (timer slack 1 ns), then spins the last 20 to 250 µs, as long as the share of the time spun
/// stays below a fifth. Belongs to the thread that made it.
#[derive(Debug)]
pub struct Sleeper {
    clock: Clock,
    /// How long before a deadline to wake up.
    lead: Nanos,
    /// What may still be spun.
    budget: Nanos,
    /// When the budget was last filled.
    filled: Time,
}

impl Sleeper {
    /// A sleeper for the calling thread, whose timer slack it sets.
    pub fn new(clock: Clock) -> Self {
        set_timer_slack(1);
        Self { clock, lead: LEAD_MAX, budget: SPIN_SAVED, filled: clock.now() }
    }

    /// Waits for `deadline` and says when it woke up. Returns at once when it has passed.
    pub fn sleep_until(&mut self, deadline: Time) -> Time {
        // Without descriptors nothing but a signal can end the wait early: sleep again.
        loop {
            if let Ok(Wake::Due(now)) = self.wait(deadline, &mut []) {
                return now;
            }
        }
    }

    /// Sleeps until `time`, or hardly later: it never spins. A signal may end it early.
    pub fn doze(&mut self, time: Time) -> io::Result<()> {
        let rest = time - self.clock.now();
        if rest > Nanos::ZERO {
            wait(&mut [], Some(span(rest)))?;
        }
        Ok(())
    }

    /// Waits until `deadline` ([`Time::NEVER`]: without end) or until one of `fds` is ready.
    pub fn wait(&mut self, deadline: Time, fds: &mut [PollFd<'_>]) -> io::Result<Wake> {
        let now = self.clock.now();
        self.budget = (self.budget + (now - self.filled).mul_div(1, SPIN_SHARE)).min(SPIN_SAVED);
        self.filled = now;
        let lead = if self.budget > self.lead { self.lead } else { Nanos::ZERO };
        let wake = deadline - lead;
        if now < wake {
            if wait(fds, (deadline != Time::NEVER).then(|| span(wake - now)))? {
                return Ok(Wake::Ready);
            }
            self.learn(self.clock.now() - wake);
        }
        let start = self.clock.now();
        let mut now = start;
        let wake = loop {
            if !fds.is_empty() && wait(fds, Some(Duration::ZERO))? {
                break Wake::Ready;
            }
            if now >= deadline {
                break Wake::Due(now);
            }
            std::hint::spin_loop();
            now = self.clock.now();
        };
        self.budget -= now - start;
        Ok(wake)
    }

    /// Nine of ten sleeps must end before the deadline: each later one moves the lead up by nine steps, each earlier
    /// one down by one.
    fn learn(&mut self, late: Nanos) {
        const STEP: Nanos = Nanos::from_nanos(200);
        let lead = if late > self.lead { self.lead + STEP.mul_div(9, 1) } else { self.lead - STEP };
        self.lead = lead.clamp(LEAD_MIN, LEAD_MAX);
    }
}

/// Nanoseconds; what is later counts as this (our choice: the histogram stays small).
const LATEST: u64 = 1_000_000_000;

/// How late moments came: the release error of a run.
#[derive(Clone, Debug)]
pub struct Lateness {
    nanos: Histogram,
    bound: Nanos,
    late: u64,
}

impl Lateness {
    /// Above this, a release error shows in results (our choice: an opportunity of a delivery trace is a millisecond).
    pub const BOUND: Nanos = Nanos::from_millis(1);

    /// No moment yet. One that comes later than `bound` counts as late.
    pub fn new(bound: Nanos) -> Self {
        Self { nanos: Histogram::new(3), bound, late: 0 }
    }

    /// A moment due at `due` came at `now`.
    pub fn record(&mut self, due: Time, now: Time) {
        let late = now - due;
        self.nanos.record(late.as_nanos().min(LATEST));
        self.late += u64::from(late > self.bound);
    }

    /// Moments recorded.
    pub fn count(&self) -> u64 {
        self.nanos.count()
    }

    /// The release error that a share `quantile` (0 to 1) of the moments does not exceed; zero without moments.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        Nanos::from_nanos(self.nanos.quantile(quantile))
    }

    /// Median.
    pub fn p50(&self) -> Nanos {
        self.quantile(0.5)
    }

    /// 99th percentile.
    pub fn p99(&self) -> Nanos {
        self.quantile(0.99)
    }

    /// The latest (up to one second; a later one counts as that).
    pub fn max(&self) -> Nanos {
        self.quantile(1.0)
    }

    /// Moments that came later than the bound.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The bound.
    pub fn bound(&self) -> Nanos {
        self.bound
    }

    /// Whether results can be trusted: no more than one moment in a hundred came later than the bound.
    pub fn trusted(&self) -> bool {
        self.late * 100 <= self.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_tells_what_is_late_and_when_not_to_trust() {
        let bound = Nanos::from_micros(100);
        let mut lateness = Lateness::new(bound);
        assert!(lateness.trusted());
        let due = Time::from_millis(5);
        for micros in 1..=99 {
            lateness.record(due, due + Nanos::from_micros(micros));
        }
        lateness.record(due, due + Nanos::from_millis(3));
        // Before its time, by a clock read earlier: not late.
        lateness.record(due, Time::ZERO);
        assert_eq!((lateness.count(), lateness.late()), (101, 1));
        let near = |span: Nanos, micros: f64| (span.as_nanos() as f64 / 1e3 / micros - 1.0).abs() < 0.002;
        assert!(near(lateness.p50(), 50.0) && near(lateness.p99(), 99.0) && near(lateness.max(), 3000.0));
        assert!(lateness.trusted());
        lateness.record(due, due + Nanos::from_millis(7));
        assert!(!lateness.trusted());
    }

    #[test]
    fn a_sleeper_never_wakes_early() {
        let clock = Clock::new();
        let mut sleeper = Sleeper::new(clock);
        for _ in 0..50 {
            let deadline = clock.now() + Nanos::from_micros(200);
            assert!(sleeper.sleep_until(deadline) >= deadline);
        }
        assert!(sleeper.sleep_until(Time::ZERO) > Time::ZERO);
    }

    #[test]
    fn the_lead_follows_how_late_sleeping_comes() {
        let mut sleeper = Sleeper::new(Clock::new());
        for _ in 0..2000 {
            sleeper.learn(Nanos::from_micros(5));
        }
        assert_eq!(sleeper.lead, LEAD_MIN);
        // One of five comes 40 us late, more than the tenth that may: about this much earlier it wakes up.
        for round in 0..2000 {
            sleeper.learn(Nanos::from_micros(if round % 5 == 0 { 40 } else { 5 }));
        }
        assert!((Nanos::from_micros(37)..=Nanos::from_micros(43)).contains(&sleeper.lead), "{}", sleeper.lead);
        for _ in 0..1000 {
            sleeper.learn(Nanos::from_millis(1));
        }
        assert_eq!(sleeper.lead, LEAD_MAX);
    }

    #[test]
    fn a_thread_that_is_put_aside_makes_no_arrival_earlier() {
        // The wall clock is 1000 s ahead; each reading takes 50 ns, and one of them 5 ms.
        for aside in 0..12 {
            let (mut now, mut readings) = (7_000_000_000, 0);
            let (wall, monotonic) = both(|clock| {
                now += if readings == aside { 5_000_000 } else { 50 };
                readings += 1;
                now + if clock == ClockId::Realtime { 1_000_000_000_000 } else { 0 }
            });
            let later = monotonic + 1_000_000_000_000 - wall;
            assert!(later <= CLOSE, "put aside at reading {aside}: {later} ns");
        }
    }

    #[test]
    fn a_kernel_stamp_is_a_moment_of_the_clock() {
        let clock = Clock::new();
        let before = clock.now();
        let stamp = clock_gettime(ClockId::Realtime).try_into().unwrap();
        // Never earlier than it was.
        let moment = clock.of_kernel(stamp);
        let now = clock.now();
        assert!(before <= moment && moment <= now, "{before} {moment} {now}");
    }
}
