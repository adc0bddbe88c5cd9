//! The two hosts of a flow, neither of which is a machine of infinite speed.
//!
//! - **Overhead**: packets that an acknowledgement or the application sets free leave after a random time of up to one
//!   packet's transmission time at the bottleneck. Source: Floyd and Jacobson, "On Traffic Phase Effects in
//!   Packet-Switched Gateways" (1992), section 5, and ns-2's `overhead_`. Without it packets of different flows meet at a
//!   full drop-tail queue in the same order for ever, and who is dropped depends on the ratio of their round trips instead of
//!   on the controllers. What pacing holds back has no overhead: its time is the controller's.
//! - **Lateness**: timers come late, and what arrives at a host waits until it wakes; what arrives meanwhile waits with it, so
//!   that nothing overtakes. How late, [`Timing`] says. As a rule timers alone are, by a little, so that a controller's clock
//!   does not tick at the very nanosecond of an arrival for ever; pacing and arrivals are exact, since start-ups that measure
//!   gaps go by whether a delay grew at all, by however little.
//!
//! Source of what was measured: one paced TCP flow on Linux 6.18 (virtual Ethernet, two processors): packets left later than
//! planned by 2 µs in the median, 20 µs in the 90th and 45 µs in the 99th percentile, and hardly any closer together than
//! 20 µs. What differs: every timer comes late, not pacing alone, since a host has one kind of timer, and a wake-up by a
//! packet takes as long as one by a timer (our choice: it is the same way through the kernel).

use paceline_cc::{Nanos, Pacing, Time};
use rand::RngExt;
use rand_pcg::Pcg64;

use paceline_experiment::config::Timing;
use paceline_experiment::seed::Seed;

/// Little lateness is drawn evenly up to here: the median is the measured one, without the tail that comes of a processor which
/// others use too (our choice).
const LITTLE: Nanos = Nanos::from_micros(4);

/// How late a host is in ns when as measured, by the share of times at which it is not later: straight lines between the measured points, so
/// that nothing is claimed beyond them. From the last one the line goes on (47.8 µs), rounded up (our choice).
const LATENESS: [(f64, f64); 5] = [(0.0, 0.0), (0.5, 2_000.0), (0.9, 20_000.0), (0.99, 45_000.0), (1.0, 50_000.0)];

/// Least time between two packets that are paced by gaps, as measured.
const LEAST_GAP: Nanos = Nanos::from_micros(20);

/// How late a host is.
#[derive(Clone, Copy, Debug)]
enum Lateness {
    Never,
    Little,
    Measured,
}

impl Lateness {
    fn draw(self, rng: &mut Pcg64) -> Nanos {
        match self {
            Self::Never => Nanos::ZERO,
            Self::Little => LITTLE.mul_f64(rng.random::<f64>()),
            Self::Measured => measured(rng),
        }
    }
}

/// The two hosts of a flow.
pub(crate) struct Hosts {
    /// Of pacing and of arrivals.
    others: Lateness,
    sender: Host,
    receiver: Host,
    departures: Departures,
}

impl Hosts {
    /// Of the flow with this number; none where time is exact. `packet_time` is how long the bottleneck takes for one of its
    /// packets.
    pub(crate) fn new(timing: Timing, seed: Seed, number: u32, packet_time: Nanos) -> Option<Self> {
        let (timers, others, least_gap) = match timing {
            Timing::Exact => return None,
            Timing::Overhead => (Lateness::Little, Lateness::Never, Nanos::ZERO),
            Timing::Host => (Lateness::Measured, Lateness::Measured, LEAST_GAP),
        };
        let stream = |what: &str| seed.stream(&format!("{what} {number}"));
        let departures = Departures {
            rng: stream("departures"),
            overhead: packet_time,
            held_until: Time::ZERO,
            least_gap,
            last: None,
        };
        Some(Self {
            others,
            sender: Host::new((timers, stream("timers")), (others, stream("acknowledgements"))),
            receiver: Host::new((timers, stream("receiver timers")), (others, stream("arrivals"))),
            departures,
        })
    }

    /// An acknowledgement or the application may have set packets free at `now`.
    pub(crate) fn release(&mut self, now: Time) {
        let departures = &mut self.departures;
        if departures.held_until <= now && departures.overhead > Nanos::ZERO {
            departures.held_until = now + departures.overhead.mul_f64(departures.rng.random::<f64>());
        }
    }

    /// When a timer of the sender set for `due` wakes it; pacing holds a packet until `paced_until`.
    #[inline(always)]
    pub(crate) fn sender_wakes_at(&mut self, due: Time, paced_until: Time) -> Time {
        if due == paced_until && self.is_prompt() { due } else { self.sender.wakes_at(due) }
    }

    /// When a timer of the receiver set for `due` wakes it.
    pub(crate) fn receiver_wakes_at(&mut self, due: Time) -> Time {
        self.receiver.wakes_at(due)
    }

    /// When the sender takes in an acknowledgement that arrives at `at`. Asked in the order of arrival, it answers in that
    /// order.
    #[inline]
    pub(crate) fn sender_takes_in_at(&mut self, at: Time) -> Time {
        if self.is_prompt() { at } else { self.sender.takes_in_at(at) }
    }

    /// When the receiver takes in what arrives at `at`, as [`Hosts::sender_takes_in_at`].
    #[inline]
    pub(crate) fn receiver_takes_in_at(&mut self, at: Time) -> Time {
        if self.is_prompt() { at } else { self.receiver.takes_in_at(at) }
    }

    /// Nothing but timers is late.
    #[inline]
    fn is_prompt(&self) -> bool {
        matches!(self.others, Lateness::Never)
    }

    /// A packet left.
    pub(crate) fn sent(&mut self, now: Time) {
        self.departures.last = Some(now);
    }

    /// From when on the next packet may leave for all that the host can do.
    #[inline]
    pub(crate) fn ready_at(&self, pacing: impl FnOnce() -> Pacing) -> Time {
        let Departures { held_until, least_gap, last, .. } = &self.departures;
        match last {
            _ if *least_gap == Nanos::ZERO => *held_until,
            Some(last) if matches!(pacing(), Pacing::Gap(_)) => (*held_until).max(*last + *least_gap),
            _ => *held_until,
        }
    }
}

/// How packets leave the sending host.
struct Departures {
    rng: Pcg64,
    overhead: Nanos,
    /// The end of the overhead that was drawn last.
    held_until: Time,
    /// Least time between packets that are paced by gaps.
    least_gap: Nanos,
    /// When the last packet left.
    last: Option<Time>,
}

/// One end: how late it wakes.
struct Host {
    timers: (Lateness, Pcg64),
    arrivals: (Lateness, Pcg64),
    /// The timer last asked for, and how late it comes.
    due: Time,
    late: Nanos,
    /// When it wakes, or woke, for what arrived.
    awake_at: Time,
}

impl Host {
    fn new(timers: (Lateness, Pcg64), arrivals: (Lateness, Pcg64)) -> Self {
        Self { timers, arrivals, due: Time::NEVER, late: Nanos::ZERO, awake_at: Time::ZERO }
    }

    /// When a timer set for `due` wakes it.
    #[inline]
    fn wakes_at(&mut self, due: Time) -> Time {
        if due == Time::NEVER {
            return due;
        }
        if due != self.due {
            self.due = due;
            self.late = self.timers.0.draw(&mut self.timers.1);
        }
        due + self.late
    }

    /// When it takes in what arrives at `at`.
    fn takes_in_at(&mut self, at: Time) -> Time {
        if self.awake_at < at {
            self.awake_at = at + self.arrivals.0.draw(&mut self.arrivals.1);
        }
        self.awake_at
    }
}

fn measured(rng: &mut Pcg64) -> Nanos {
    let share = rng.random::<f64>();
    let next = LATENESS.iter().position(|&(end, _)| share < end).unwrap_or(LATENESS.len() - 1).max(1);
    let ((from, low), (to, high)) = (LATENESS[next - 1], LATENESS[next]);
    Nanos::from_nanos((low + (share - from) / (to - from) * (high - low)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Hosts {
        Hosts::new(Timing::Host, Seed(1), 0, Nanos::from_millis(1)).unwrap()
    }

    #[test]
    fn lateness_has_the_measured_quantiles() {
        let mut rng = Seed(1).stream("test");
        let draws: Vec<u64> = (0..100_000).map(|_| measured(&mut rng).as_nanos()).collect();
        for (late, want) in [(1_000, 0.25), (2_000, 0.5), (11_000, 0.7), (20_000, 0.9), (45_000, 0.99), (50_000, 1.0)] {
            let share = draws.iter().filter(|draw| **draw <= late).count() as f64 / 1e5;
            assert!((share - want).abs() < 0.005, "{share} are late by {late} ns or less, not {want}");
        }
    }

    #[test]
    fn a_timer_keeps_its_lateness_until_it_is_set_anew() {
        let mut host = hosts().receiver;
        let due = Time::from_millis(1);
        let wakes = host.wakes_at(due);
        assert!(wakes >= due && wakes <= due + Nanos::from_micros(50));
        assert_eq!(host.wakes_at(due), wakes);
        assert_eq!(host.wakes_at(Time::NEVER), Time::NEVER);
        let all: Vec<Nanos> = (2..50).map(|ms| host.wakes_at(Time::from_millis(ms)) - Time::from_millis(ms)).collect();
        assert!(all.iter().any(|late| *late != all[0]));
    }

    #[test]
    fn as_a_rule_timers_are_late_by_a_little_and_pacing_and_arrivals_are_not() {
        let mut hosts = Hosts::new(Timing::Overhead, Seed(1), 0, Nanos::from_millis(1)).unwrap();
        let mut late = Vec::new();
        for due in (1..1_000).map(Time::from_millis) {
            assert_eq!(hosts.sender_wakes_at(due, due), due);
            assert_eq!((hosts.sender_takes_in_at(due), hosts.receiver_takes_in_at(due)), (due, due));
            late.push(hosts.sender_wakes_at(due, Time::ZERO) - due);
            late.push(hosts.receiver_wakes_at(due) - due);
        }
        assert!(late.iter().all(|late| *late < LITTLE));
        let mean = late.iter().map(|late| late.as_nanos()).sum::<u64>() / late.len() as u64;
        assert!((1_800..2_200).contains(&mean), "{mean} ns");
        assert!(Hosts::new(Timing::Exact, Seed(1), 0, Nanos::ZERO).is_none());
    }

    #[test]
    fn what_arrives_at_a_sleeping_host_waits_and_keeps_its_order() {
        let mut host = hosts().sender;
        let mut last = Time::ZERO;
        let mut waits = Vec::new();
        for at in (0..100_000).map(|packet| Time::ZERO + Nanos::from_micros(5 * packet)) {
            let taken = host.takes_in_at(at);
            assert!(taken >= at && taken <= at + Nanos::from_micros(50) && taken >= last, "{at}: {taken} after {last}");
            waits.push((taken - at).as_nanos());
            last = taken;
        }
        // What comes alone waits for the wake-up that it causes, 8.3 µs in the mean.
        let mut alone = hosts().sender;
        let sum: u64 =
            (1..=100_000).map(|ms| (alone.takes_in_at(Time::from_millis(ms)) - Time::from_millis(ms)).as_nanos()).sum();
        assert!((sum as f64 / 1e5 / 8_300.0 - 1.0).abs() < 0.02, "{} ns", sum as f64 / 1e5);
        assert!(waits.iter().any(|wait| *wait > 40_000));
    }

    #[test]
    fn overhead_is_up_to_a_packet_time_and_is_drawn_once_for_packets_that_leave_together() {
        let mut hosts = hosts();
        let mut sum = Nanos::ZERO;
        for at in (0..1_000).map(|turn| Time::from_millis(10 * turn)) {
            hosts.release(at);
            let ready = hosts.ready_at(|| Pacing::Free);
            assert!(ready >= at && ready < at + Nanos::from_millis(1));
            hosts.release(at + (ready - at).mul_div(1, 2));
            assert_eq!(hosts.ready_at(|| Pacing::Free), ready, "one overhead is under way");
            sum += ready - at;
        }
        assert!((sum.as_millis_f64() / 500.0 - 1.0).abs() < 0.05, "half a packet time in the mean: {sum}");
    }
}
