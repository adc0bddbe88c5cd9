//! The gaps of a chirp: they shrink by the same step from packet to packet, so that one subtraction gives the next.
//!
//! Source: Misund and Briscoe, "Paced Chirping" (2019), and the modules released with it.

use crate::units::Nanos;

/// Packets of the longest chirp.
pub const LONGEST: usize = 16;
/// The first gap over the average gap (both released modules; it sweeps from half the rate to several times it).
const GEOMETRY: u64 = 2;

/// The plan of one chirp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chirp {
    packets: u64,
    first: Nanos,
    step: Nanos,
}

impl Chirp {
    /// A chirp of `packets` packets (2 to [`LONGEST`]; others are moved there) about the average gap `gap`.
    pub fn new(packets: usize, gap: Nanos) -> Self {
        let packets = packets.clamp(2, LONGEST) as u64;
        let span = gap.mul_div(2 * (GEOMETRY - 1), 1).as_nanos();
        Self { packets, first: gap.mul_div(GEOMETRY, 1), step: Nanos::from_nanos(span.div_ceil(packets)) }
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
        // N, step, last gap and length in thousandths of the average gap.
        for (packets, step, last, length) in [(5, 400, 800, 5_600), (8, 250, 500, 8_750), (16, 125, 250, 16_875)] {
            let chirp = Chirp::new(packets, Nanos::from_nanos(1_000));
            assert_eq!(chirp.gap(0), Nanos::from_nanos(2_000));
            assert_eq!(chirp.gap(0) - chirp.gap(1), Nanos::from_nanos(step));
            assert_eq!(chirp.gap(packets - 2), Nanos::from_nanos(last));
            assert_eq!(chirp.length(), Nanos::from_nanos(length));
        }
    }

    /// Most packets that wait when a chirp about `gap` meets an idle link whose real gap is `link`; fluid.
    fn peak(gap: u64, link: u64) -> f64 {
        let chirp = Chirp::new(16, Nanos::from_nanos(gap));
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
        // 10 Mbit/s, 1 Gbit/s, 10 Gbit/s.
        for gap in [1_200_000, 12_000, 1_200] {
            for (share, want) in [(1.0, 2.63), (0.5, 0.75), (1.5, 4.58), (2.0, 6.56)] {
                let peak = peak(gap, (gap as f64 * share) as u64);
                assert!((peak - want).abs() < 0.2, "link gap {share} of {gap} ns: {peak} packets, not {want}");
            }
        }
    }
}
