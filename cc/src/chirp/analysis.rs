//! What a chirp tells of the path: the gap at which the delay begins to rise and does not fall back.
//!
//! Source: the released modules of Misund and Briscoe, "Paced Chirping" (2019), after Ribeiro et al., "pathChirp"
//! (2003). As in the modules the *gaps* are averaged, without weights; pathChirp averages rates, weighted by gap.

use crate::units::Nanos;

/// A rise of the delay that falls back counts as cross traffic from this many packets on (pathChirp's L).
const EXCURSION: usize = 5;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chirp::geometry::{Chirp, Divisor};

    /// A chirp of 16 packets about 120 µs: gaps from 240 to 30 µs by 15.
    fn gaps() -> Vec<Nanos> {
        let chirp = Chirp::new(16, Nanos::from_micros(120), 2.0, Divisor::Packets);
        (0..15).map(|index| chirp.gap(index)).collect()
    }

    fn estimate(delays_us: &[i64]) -> u64 {
        let delays: Vec<i64> = delays_us.iter().map(|delay| delay * 1_000).collect();
        available_gap(&gaps(), &delays).unwrap().as_micros()
    }

    /// The delays at an idle link that takes `link` microseconds for a packet.
    fn idle(link: i64) -> Vec<i64> {
        let mut delays = vec![0];
        for gap in gaps() {
            delays.push((delays[delays.len() - 1] + link - gap.as_micros() as i64).max(0));
        }
        delays
    }

    #[test]
    fn idle_links() {
        for (link, want) in [(60, 60), (80, 90), (120, 120), (180, 180), (240, 240), (300, 240)] {
            assert_eq!(estimate(&idle(link)), want, "a link of {link} us");
        }
    }

    #[test]
    fn no_rise_is_the_last_gap_and_nothing_but_rise_the_first() {
        assert_eq!(estimate(&[70; 16]), 30);
        let rising: Vec<i64> = (0..16).map(|packet| packet * 10).collect();
        assert_eq!(estimate(&rising), 240);
    }

    #[test]
    fn cross_traffic() {
        assert_eq!(estimate(&[0, 0, 30, 60, 80, 70, 60, 55, 10, 0, 0, 0, 20, 60, 120, 200]), 117);
        assert_eq!(estimate(&[0, 0, 30, 10, 0, 0, 0, 0, 0, 0, 0, 0, 20, 60, 120, 200]), 90, "a short bump");
    }

    #[test]
    fn too_few_packets_tell_nothing() {
        assert_eq!(available_gap(&[], &[0]), None);
        assert_eq!(available_gap(&gaps(), &[0; 15]), None);
    }
}
