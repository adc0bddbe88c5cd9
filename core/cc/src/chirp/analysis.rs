//! What a chirp shows of the path: the gap at which the delay begins to rise and does not fall back.
//!
//! Source: the released modules of Misund and Briscoe, "Paced Chirping" (2019), after Ribeiro et al., "pathChirp"
//! (2003). As in the modules the *gaps* are averaged, without weights; pathChirp averages rates, weighted by gap.
//!
//! Two forms: [`available_gap`] looks at a whole chirp (the modules of 2018 and 2019), [`Online`] takes one packet at a
//! time and keeps no list (the newest kernel branch). They differ by one step: the first answers the last gap that did
//! not queue, the second the first gap that did.
//!
//! What differs from the newest branch: there a chirp once found valid stays so (the comparison meant to clear the flag
//! sets it); here [`Shrinking`], the rule of the module of 2018, judges every chirp.

use crate::units::Nanos;

/// A rise of the delay that falls back counts as cross traffic from this many packets on (pathChirp's L).
const EXCURSION: usize = 5;
/// The module of 2018: this many gaps above the smallest so far spoil a chirp.
const WIDENINGS: usize = 5;

/// Whether the gaps of a chirp shrank as they must, as the module of 2018 has it: none above 5/4 of the smallest before
/// it, and fewer than five above the smallest before them.
#[derive(Clone, Copy, Debug)]
pub struct Shrinking {
    smallest: Nanos,
    widenings: usize,
    spoilt: bool,
}

impl Default for Shrinking {
    fn default() -> Self {
        Self { smallest: Nanos::MAX, widenings: 0, spoilt: false }
    }
}

impl Shrinking {
    /// The next gap, as it was when the packets left.
    pub fn push(&mut self, gap: Nanos) {
        self.widenings += usize::from(gap > self.smallest);
        self.spoilt |= gap > self.smallest + self.smallest.mul_div(1, 4) || self.widenings >= WIDENINGS;
        self.smallest = self.smallest.min(gap);
    }

    /// All gaps so far shrank.
    pub fn holds(&self) -> bool {
        !self.spoilt
    }
}

/// The gap that the path can carry, from the gap *before* each packet of a chirp but the first and the delay of every
/// packet in nanoseconds (only differences matter). Nothing for fewer than two packets, or when the numbers differ.
///
/// A rise that lasts to the end at packet l makes every other gap count as that before l; rises of five packets or more
/// that fall back count with their own gaps; shorter ones are ignored; without any rise it is the last gap.
pub fn available_gap(gaps: &[Nanos], delays: &[i64]) -> Option<Nanos> {
    let packets = delays.len();
    if packets < 2 || gaps.len() != packets - 1 {
        return None;
    }
    let gap_before = |packet: usize| gaps[packet - 1];
    let rises = |packet: usize| packet + 1 < packets && delays[packet] < delays[packet + 1];
    // Gaps of rises that fell back: their number and sum are enough for the mean.
    let (mut explained, mut sum) = (0u64, Nanos::ZERO);
    let (mut start, mut count, mut highest) = (0, 0, 0i64);
    for packet in 1..packets {
        let rise = delays[packet].saturating_sub(delays[start]);
        // The rise has fallen below 5/8 of its height (pathChirp's F = 1.6) when this fails.
        if count > 0 && rise >= 0 && rise > highest / 2 + highest / 8 {
            highest = highest.max(rise);
            count += 1;
        } else {
            if count >= EXCURSION {
                for packet in (start..start + count).filter(|packet| rises(*packet)) {
                    explained += 1;
                    sum += gap_before(packet);
                }
            }
            (start, count, highest) = (0, 0, 0);
        }
        if count == 0 && rises(packet) {
            (start, count, highest) = (packet, 1, 0);
        }
    }
    let open = count > 0 && start + count == packets;
    let last = if open { start } else { packets - 1 };
    let others = packets as u64 - 1 - explained;
    Some((sum + gap_before(last).mul_div(others, 1)).mul_div(1, packets as u64 - 1))
}

/// The gap that the path can carry, found packet by packet.
#[derive(Clone, Copy, Debug)]
pub struct Online {
    packets: usize,
    taken: usize,
    /// Delay of the packet before.
    last: i64,
    rise: Option<Rise>,
    /// Sum of the gaps that rises which fell back explain, and the number of all others so far.
    explained: Nanos,
    others: u64,
    /// What the others count as, once known.
    sample: Nanos,
    shrinking: Shrinking,
}

/// A rise of the delay that has not fallen back.
#[derive(Clone, Copy, Debug)]
struct Rise {
    base: i64,
    highest: i64,
    length: usize,
    /// The gap at which it began.
    first: Nanos,
    /// Number and sum of the gaps within it that queued.
    count: u64,
    sum: Nanos,
}

impl Rise {
    fn new(base: i64, first: Nanos) -> Self {
        Self { base, highest: 0, length: 0, first, count: 0, sum: Nanos::ZERO }
    }

    fn grow(&mut self, gap: Nanos, queued: bool) {
        self.length += 1;
        if queued {
            self.count += 1;
            self.sum += gap;
        }
    }
}

impl Online {
    /// For a chirp of this many packets.
    pub fn new(packets: usize) -> Self {
        Self {
            packets,
            taken: 0,
            last: 0,
            rise: None,
            explained: Nanos::ZERO,
            others: 0,
            sample: Nanos::ZERO,
            shrinking: Shrinking::default(),
        }
    }

    /// The next packet: the gap before it (of no meaning for the first) and its delay in nanoseconds.
    pub fn push(&mut self, gap: Nanos, delay: i64) {
        self.taken += 1;
        if self.taken > 1 {
            self.take(gap, delay);
        }
        self.last = delay;
    }

    fn take(&mut self, gap: Nanos, delay: i64) {
        self.shrinking.push(gap);
        self.others += 1;
        let queued = self.last < delay && self.taken < self.packets;
        if self.rise.is_none() && queued {
            self.rise = Some(Rise::new(self.last, gap));
        }
        if let Some(mut rise) = self.rise {
            let height = self.last.saturating_sub(rise.base).max(0);
            if height >= rise.highest / 2 + rise.highest / 8 {
                rise.highest = rise.highest.max(height);
                rise.grow(gap, queued);
                self.rise = Some(rise);
            } else {
                if rise.length >= EXCURSION {
                    self.explained += rise.sum;
                    self.others -= rise.count;
                }
                self.rise = queued.then(|| Rise::new(self.last, gap));
                if let Some(rise) = &mut self.rise {
                    rise.grow(gap, queued);
                }
            }
        }
        self.sample = self.rise.map_or(gap, |rise| rise.first);
    }

    /// The gap, once all packets have been taken; nothing for fewer than two, for gaps that did not shrink, and where
    /// the gaps were zero.
    pub fn gap(&self) -> Option<Nanos> {
        if self.packets < 2 || self.taken != self.packets || !self.shrinking.holds() {
            return None;
        }
        let total = self.explained + self.sample.mul_div(self.others, 1);
        (total > Nanos::ZERO).then(|| total.mul_div(1, self.packets as u64 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chirp::geometry::{Chirp, Divisor};

    /// The gaps of a chirp of 16 packets about 120 µs: from 240 µs down by 15 (the divisor N) or 16 (N - 1).
    fn gaps(divisor: Divisor) -> Vec<Nanos> {
        let chirp = Chirp::new(16, Nanos::from_micros(120), 2.0, divisor);
        (0..15).map(|index| chirp.gap(index)).collect()
    }

    fn online(gaps: &[Nanos], delays: &[i64]) -> Option<Nanos> {
        let mut online = Online::new(delays.len());
        online.push(Nanos::ZERO, delays[0]);
        for (gap, delay) in gaps.iter().zip(&delays[1..]) {
            online.push(*gap, *delay);
        }
        online.gap()
    }

    /// What the batch form and the online form answer, in microseconds.
    fn estimates(gaps: &[Nanos], delays_us: &[i64]) -> (u64, u64) {
        let delays: Vec<i64> = delays_us.iter().map(|delay| delay * 1_000).collect();
        let (batch, online) = (available_gap(gaps, &delays).unwrap(), online(gaps, &delays).unwrap());
        (batch.as_micros(), online.as_micros())
    }

    /// The delays at an idle link that takes `link` microseconds for a packet.
    fn idle(gaps: &[Nanos], link: i64) -> Vec<i64> {
        let mut delays = vec![0];
        for gap in gaps {
            delays.push((delays[delays.len() - 1] + link - gap.as_micros() as i64).max(0));
        }
        delays
    }

    #[test]
    fn idle_links() {
        let by_packets =
            [(60, 60, 45), (80, 90, 75), (120, 120, 105), (180, 180, 165), (240, 240, 225), (300, 240, 240)];
        let by_gaps = [(60, 64, 48), (120, 128, 112)];
        for (divisor, vectors) in [(Divisor::Packets, &by_packets[..]), (Divisor::Gaps, &by_gaps)] {
            let gaps = gaps(divisor);
            for &(link, batch, online) in vectors {
                assert_eq!(estimates(&gaps, &idle(&gaps, link)), (batch, online), "{divisor:?}, a link of {link} us");
            }
        }
    }

    #[test]
    fn no_rise_is_the_last_gap_and_nothing_but_rise_the_first() {
        let rising: Vec<i64> = (0..16).map(|packet| packet * 10).collect();
        for (divisor, last) in [(Divisor::Packets, 30), (Divisor::Gaps, 16)] {
            assert_eq!(estimates(&gaps(divisor), &[70; 16]), (last, last));
            assert_eq!(estimates(&gaps(divisor), &rising), (240, 240));
        }
    }

    #[test]
    fn cross_traffic() {
        let gaps = gaps(Divisor::Packets);
        let burst = [0, 0, 30, 60, 80, 70, 60, 55, 10, 0, 0, 0, 20, 60, 120, 200];
        assert_eq!(estimates(&gaps, &burst), (117, 102));
        let bump = [0, 0, 30, 10, 0, 0, 0, 0, 0, 0, 0, 0, 20, 60, 120, 200];
        assert_eq!(estimates(&gaps, &bump), (90, 75), "a short bump");
    }

    #[test]
    fn too_few_packets_tell_nothing() {
        let gaps = gaps(Divisor::Packets);
        assert_eq!(available_gap(&[], &[0]), None);
        assert_eq!(available_gap(&gaps, &[0; 15]), None);
        assert_eq!(online(&[], &[0]), None);
        let mut early = Online::new(16);
        (0..15).for_each(|_| early.push(Nanos::from_micros(100), 0));
        assert_eq!(early.gap(), None, "a packet is missing");
        assert_eq!(online(&[Nanos::ZERO; 15], &[0; 16]), None, "no gaps");
    }

    #[test]
    fn gaps_that_do_not_shrink_tell_nothing() {
        let online_with = |widen: &[(usize, u64)]| {
            let mut gaps = gaps(Divisor::Packets);
            for &(index, percent) in widen {
                gaps[index] = gaps[index - 1].mul_div(percent, 100);
            }
            online(&gaps, &[0; 16])
        };
        assert!(online_with(&[(6, 120)]).is_some(), "one gap a fifth too wide");
        assert_eq!(online_with(&[(6, 130)]), None, "one gap three tenths too wide");
        let five: Vec<(usize, u64)> = [2, 4, 6, 8, 10].map(|index| (index, 101)).to_vec();
        assert!(online_with(&five[..4]).is_some());
        assert_eq!(online_with(&five), None, "five gaps a little too wide");
    }
}
