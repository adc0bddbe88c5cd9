//! A ceiling over the window of a controller that is steered by delay, learnt from heavy loss.
//!
//! Delay says nothing where the buffer is too short to show it, where the smallest RTT is wrong, or where more flows share
//! the buffer than it has room for. What is lost then is the only sign of how much the path carries. So Copa as Meta deploys
//! it has a lossy mode (mvfst, `Copa2.cpp`): from 5 % of loss on the window is what arrived, and grows little.
//!
//! Here such a loss lowers the ceiling, which then rises by steps that double for as long as nearly nothing is lost (as the
//! upper bound of BBRv2 does while it probes: draft-cardwell-iccrg-bbr-congestion-control-02, section 4.3.3.6), so that a path
//! that carries more again is found within some tens of round trips.

use crate::units::{Nanos, Time};

/// Packets of a cycle at the least: two losses among them are the 5 % (mvfst: 2 over its tolerance) ...
const PACKETS: u32 = 40;
/// ... below a low ceiling those of this many round trips, but not fewer than these (our choice: at a sixteenth of a packet it rises
/// after a hundred round trips, not after six hundred), ...
const ROUND_TRIPS: f64 = 20.0;
const LEAST_PACKETS: f64 = 8.0;
/// ... or this many losses among fewer (our choice: a tenth of them).
const LOSSES: u32 = 4;
/// Packets of a cycle at the least while a flow starts (our choice: the initial window).
const FIRST_PACKETS: u32 = 10;
/// Cycles in a row without a clear answer, after which half of their packets is forgotten (our choice: what is 0.8 % beyond
/// 5 % is then surely so where a cycle has a hundred packets).
const MANY: u32 = 64;
/// One packet in this many may be lost: 5 % (mvfst, `lossToleranceParam_`), and 2 % beside a queue (BBRv3,
/// draft-ietf-ccwg-bbr-02, BBR.LossThresh).
const TOLERATED: u64 = 20;
const TOLERATED_IN_QUEUES: u64 = 50;
/// How far the losses of a cycle must be beyond that: squares of standard deviations, times [`TOLERATED`] squared, per packet.
/// Ten of 5 % (our choice: 5 % of random loss, which controllers of delay are meant to bear, are taken for more once in some
/// hundred cycles), one of 2 %.
const DOUBT: u64 = 10 * 19;
const DOUBT_IN_QUEUES: u64 = 49;
/// The largest share that a cycle calls lost (our choice: the losses of a burst are known before what arrives of it, and would leave
/// a sixteenth of a packet where all flows together had overfilled a queue once).
const MOST_LOST: f64 = 0.75;
/// Shares of loss up to which the ceiling rises (as above: 2 %), and up to which its steps
/// double (our choice: half of it).
const RISES: f64 = 0.02;
const DOUBLES: f64 = 0.01;
/// The first step up is this part of the ceiling, and at least this many packets (our choice: less than the losses that are
/// tolerated, and the same for all flows where windows are small).
const FIRST_STEP: f64 = 1.0 / 32.0;
const LEAST_STEP: f64 = 1.0 / 16.0;

/// Packets that are counted at most (our choice: squares of them stay far from overflow).
const MOST: u32 = 1 << 24;

/// What else says that losses come from a queue that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// The window still doubles: many may be starting.
    Starting,
    /// The delay has not gone down to its smallest for long.
    Queue,
    /// Nothing does.
    Unclear,
}

/// What a cycle showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// No more loss than is tolerated.
    Clean,
    /// More: this share was lost, or three quarters where more was.
    Lossy(f64),
}

/// The ceiling in packets, and the losses of the present cycle.
#[derive(Clone, Copy, Debug)]
pub struct Ceiling {
    packets: f64,
    step: f64,
    /// Ceiling and step before it was lowered in the last cycle.
    before: Option<(f64, f64)>,
    since: Time,
    /// Cycles whose packets are counted, the present one left out.
    cycles: u32,
    counted: u32,
    lost: u32,
}

impl Default for Ceiling {
    /// No ceiling yet.
    fn default() -> Self {
        Self { packets: f64::INFINITY, step: 0.0, before: None, since: Time::ZERO, cycles: 0, counted: 0, lost: 0 }
    }
}

impl Ceiling {
    /// The largest window in packets; infinite while no loss has shown one.
    pub fn packets(&self) -> f64 {
        self.packets
    }

    /// Counts packets delivered and lost. A cycle ends after two round trips (one while the flow starts) and some packets: the
    /// ceiling rises where it was clean, and the caller is to reduce and to [lower](Self::lower) it where it was not.
    pub fn count(&mut self, now: Time, rtt: Nanos, delivered: usize, lost: usize, signs: Signs) -> Option<Verdict> {
        let [delivered, lost] = [delivered, lost].map(|count| count.min(MOST as usize) as u32);
        self.counted = (self.counted + delivered + lost).min(MOST);
        self.lost = (self.lost + lost).min(MOST);
        let (span, packets) = if signs == Signs::Starting { (rtt, FIRST_PACKETS) } else { (rtt + rtt, self.enough()) };
        if now <= self.since + span || (self.counted < packets && self.lost < LOSSES) {
            return None;
        }
        self.since = now;
        let (tolerated, doubt) =
            if signs == Signs::Queue { (TOLERATED_IN_QUEUES, DOUBT_IN_QUEUES) } else { (TOLERATED, DOUBT) };
        let (counted, lost) = (u64::from(self.counted), u64::from(self.lost));
        let excess = (tolerated * lost).saturating_sub(counted);
        let share = lost as f64 / counted as f64;
        if excess * excess > doubt * counted {
            self.begin();
            return Some(Verdict::Lossy(share.min(MOST_LOST)));
        }
        self.before = None;
        if share > RISES {
            self.cycles += 1;
            if self.cycles >= MANY {
                (self.cycles, self.counted, self.lost) = (MANY / 2, self.counted / 2, self.lost / 2);
            }
            self.step = first_step(self.packets);
            return Some(Verdict::Clean);
        }
        self.begin();
        if share > DOUBLES {
            self.step = first_step(self.packets);
        }
        self.packets += self.step;
        self.step *= 2.0;
        Some(Verdict::Clean)
    }

    /// Packets of a cycle at the least.
    fn enough(&self) -> u32 {
        (ROUND_TRIPS * self.packets).clamp(LEAST_PACKETS, f64::from(PACKETS)) as u32
    }

    /// What was counted so far says nothing of the path any more.
    pub fn begin(&mut self) {
        (self.cycles, self.counted, self.lost) = (0, 0, 0);
    }

    /// The path carries no more than `window` packets.
    pub fn lower(&mut self, window: f64) {
        self.before = Some((self.packets, self.step));
        self.packets = window;
        self.step = first_step(window);
    }

    /// The last losses were spurious: packets came late.
    pub fn forgive(&mut self) {
        (self.packets, self.step) = self.before.take().unwrap_or((self.packets, self.step));
        self.lost = 0;
    }

    /// Packets have another size: `scale` of them are what one was.
    pub fn scale(&mut self, scale: f64) {
        self.packets *= scale;
        self.step *= scale;
        self.before = self.before.map(|(packets, step)| (packets * scale, step * scale));
    }
}

fn first_step(ceiling: f64) -> f64 {
    (FIRST_STEP * ceiling).max(LEAST_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos::from_millis(40);

    fn cycle(ceiling: &mut Ceiling, number: u64, packets: usize, lost: usize, signs: Signs) -> Option<Verdict> {
        ceiling.count(Time::from_millis(100 * number), RTT, packets - lost, lost, signs)
    }

    #[test]
    fn a_cycle_is_two_round_trips_and_forty_packets_or_four_losses() {
        let mut ceiling = Ceiling::default();
        let mut count =
            |millis, delivered, lost, signs| ceiling.count(Time::from_millis(millis), RTT, delivered, lost, signs);
        assert_eq!(count(80, 100, 0, Signs::Unclear), None, "two round trips");
        assert_eq!(count(81, 1, 0, Signs::Unclear), Some(Verdict::Clean));
        assert_eq!(count(500, 39, 0, Signs::Unclear), None);
        assert_eq!(count(500, 1, 0, Signs::Unclear), Some(Verdict::Clean));
        assert_eq!(count(600, 4, 4, Signs::Unclear), Some(Verdict::Lossy(0.5)));
        assert_eq!(count(641, 9, 0, Signs::Starting), None);
        assert_eq!(count(641, 0, 3, Signs::Starting), Some(Verdict::Lossy(0.25)), "one round trip, ten packets");
        assert_eq!(ceiling.packets(), f64::INFINITY, "the caller lowers it");
    }

    #[test]
    fn below_a_low_ceiling_fewer_packets_make_a_cycle() {
        for (window, packets) in [(0.0625, 8), (0.5, 10), (1.0, 20), (4.0, 40)] {
            let mut ceiling = Ceiling::default();
            ceiling.lower(window);
            assert_eq!(cycle(&mut ceiling, 1, packets - 1, 0, Signs::Unclear), None, "{window}");
            assert_eq!(cycle(&mut ceiling, 1, 1, 0, Signs::Unclear), Some(Verdict::Clean), "{window}");
        }
    }

    #[test]
    fn five_percent_are_borne_and_what_is_surely_more_is_not() {
        // 3.16 standard deviations above 5 %: 6.4 of 40, 11.9 of 100, 71.8 of 1000; one above 2 %: 1.7, 3.4 and 24.4.
        for (signs, packets, borne) in [
            (Signs::Unclear, 40, 6),
            (Signs::Unclear, 100, 11),
            (Signs::Unclear, 1000, 71),
            (Signs::Queue, 40, 1),
            (Signs::Queue, 100, 3),
            (Signs::Queue, 1000, 24),
        ] {
            let verdict = |lost| cycle(&mut Ceiling::default(), 1, packets, lost, signs);
            assert_eq!(verdict(borne), Some(Verdict::Clean), "{borne} of {packets}");
            assert_eq!(verdict(borne + 1), Some(Verdict::Lossy((borne + 1) as f64 / packets as f64)));
        }
        let verdict = cycle(&mut Ceiling::default(), 1, usize::MAX, usize::MAX, Signs::Unclear);
        assert_eq!(verdict, Some(Verdict::Lossy(0.75)), "not all of it at once");
    }

    #[test]
    fn it_rises_by_steps_that_double_while_nothing_is_lost() {
        let mut ceiling = Ceiling::default();
        ceiling.lower(64.0);
        let mut number = 0;
        let mut rise = |ceiling: &mut Ceiling, lost| {
            number += 1;
            cycle(ceiling, number, 100, lost, Signs::Unclear);
            ceiling.packets()
        };
        assert_eq!([0, 0, 1, 0].map(|lost| rise(&mut ceiling, lost)), [66.0, 70.0, 78.0, 94.0]);
        let step = 94.0 / 32.0;
        assert_eq!(rise(&mut ceiling, 2), 94.0 + step, "a first step");
        assert_eq!(rise(&mut ceiling, 5), 94.0 + step, "it stays");
        let mut ceiling = Ceiling::default();
        ceiling.lower(0.5);
        assert_eq!(rise(&mut ceiling, 0), 0.5625);
        ceiling.lower(0.25);
        ceiling.forgive();
        assert_eq!(ceiling.packets(), 0.5625, "as before");
        ceiling.forgive();
        assert_eq!(ceiling.packets(), 0.5625);
    }

    #[test]
    fn a_share_between_is_watched_for_longer() {
        let mut ceiling = Ceiling::default();
        ceiling.lower(64.0);
        // 11 of 100 may be chance; twice in a row is not: 21.9 of 200 hold 3.16 standard deviations.
        assert_eq!(cycle(&mut ceiling, 1, 100, 11, Signs::Unclear), Some(Verdict::Clean));
        assert_eq!(cycle(&mut ceiling, 2, 100, 11, Signs::Unclear), Some(Verdict::Lossy(0.11)));
    }
}
