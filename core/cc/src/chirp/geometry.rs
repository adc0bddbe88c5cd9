//! The gaps of a chirp: they shrink by the same step from packet to packet, so that one subtraction gives the next.
//!
//! Source: Misund and Briscoe, "Paced Chirping" (2019), and the modules released with it.

use crate::units::Nanos;

/// Packets of the longest chirp (the newest kernel branch's bound).
pub const LONGEST: usize = 64;
/// Ratios are counted in this unit, as in the kernel's modules.
const ONE: u64 = 1024;

/// By what the fall of the gaps over a chirp is divided to give the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// N: both modules of 2018 and 2019.
    Packets,
    /// N - 1: the newest kernel branch. The mean gap comes closer to the average asked for.
    Gaps,
}

/// The plan of one chirp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chirp {
    packets: u64,
    first: Nanos,
    step: Nanos,
}

impl Chirp {
    /// A chirp of `packets` packets (2 to [`LONGEST`]; others are moved there) about the average gap `gap`, whose first
    /// gap is `geometry` times that (at least 1).
    pub fn new(packets: usize, gap: Nanos, geometry: f64, divisor: Divisor) -> Self {
        let packets = packets.clamp(2, LONGEST) as u64;
        let geometry = libm::round(geometry * ONE as f64).max(ONE as f64) as u64;
        let span = gap.mul_div(2 * (geometry - ONE), ONE).as_nanos();
        let parts = match divisor {
            Divisor::Packets => packets,
            Divisor::Gaps => packets - 1,
        };
        Self { packets, first: gap.mul_div(geometry, ONE), step: Nanos::from_nanos(span.div_ceil(parts)) }
    }

    /// Packets in it.
    pub fn packets(&self) -> usize {
        self.packets as usize
    }

    /// The gap after packet `index`, from 0.
    pub fn gap(&self, index: usize) -> Nanos {
        self.first - self.step.mul_div(index as u64, 1)
    }

    /// From the first packet to the last.
    pub fn length(&self) -> Nanos {
        (0..self.packets() - 1).fold(Nanos::ZERO, |length, index| length + self.gap(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_of_the_paper() {
        // 105 µs divides without remainder. N, divisor, step, last gap and length in nanoseconds; in units of the
        // average gap the steps are 0.4, 0.5, 0.25, 2/7, 0.125 and 2/15.
        for (packets, divisor, step, last, length) in [
            (5, Divisor::Packets, 42_000, 84_000, 588_000),
            (5, Divisor::Gaps, 52_500, 52_500, 525_000),
            (8, Divisor::Packets, 26_250, 52_500, 918_750),
            (8, Divisor::Gaps, 30_000, 30_000, 840_000),
            (16, Divisor::Packets, 13_125, 26_250, 1_771_875),
            (16, Divisor::Gaps, 14_000, 14_000, 1_680_000),
        ] {
            let chirp = Chirp::new(packets, Nanos::from_micros(105), 2.0, divisor);
            assert_eq!(chirp.gap(0), Nanos::from_micros(210));
            for index in 1..packets - 1 {
                assert_eq!(chirp.gap(index - 1) - chirp.gap(index), Nanos::from_nanos(step), "{packets}, {divisor:?}");
            }
            assert_eq!(chirp.gap(packets - 2), Nanos::from_nanos(last), "{packets}, {divisor:?}");
            assert_eq!(chirp.length(), Nanos::from_nanos(length), "{packets}, {divisor:?}");
        }
    }

    #[test]
    fn a_step_is_rounded_up() {
        let chirp = Chirp::new(16, Nanos::from_nanos(1_000), 2.0, Divisor::Gaps);
        assert_eq!(chirp.gap(0) - chirp.gap(1), Nanos::from_nanos(134));
    }

    /// Most packets that wait when a chirp about `gap` meets an idle link whose real gap is `link`; fluid.
    fn peak(gap: u64, link: u64, divisor: Divisor) -> f64 {
        let chirp = Chirp::new(16, Nanos::from_nanos(gap), 2.0, divisor);
        let mut queue = 0i64;
        let mut peak = 0;
        for index in 0..15 {
            queue = (queue + link as i64 - chirp.gap(index).as_nanos() as i64).max(0);
            peak = peak.max(queue);
        }
        peak as f64 / link as f64
    }

    #[test]
    fn the_queue_of_a_chirp_does_not_depend_on_the_rate() {
        let fluid = [(1.0, 2.63, 3.27), (0.5, 0.75, 1.40), (1.5, 4.58, 5.13), (2.0, 6.56, 7.00)];
        // 10 Mbit/s, 1 Gbit/s, 10 Gbit/s.
        for gap in [1_200_000, 12_000, 1_200] {
            for (share, packets, gaps) in fluid {
                for (divisor, want) in [(Divisor::Packets, packets), (Divisor::Gaps, gaps)] {
                    let peak = peak(gap, (gap as f64 * share) as u64, divisor);
                    let what = format!("{divisor:?}: link gap {share} of {gap} ns");
                    assert!((peak - want).abs() < 0.2, "{what}: {peak} packets, not {want}");
                }
            }
        }
    }
}
