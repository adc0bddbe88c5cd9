//! One word for the whole way: the hop that is worst in one respect leaves its mark, and there is room for no other.
//!
//! Source: draft-ravi-ippm-csig (congestion signaling), whose compact tag has a type, a value and where it was found, which each hop
//! compares and replaces, and whose signals are these three. Ours are the widths, and that the packets of a flow ask for one signal after the other.

use super::NodeRecord;

/// A number that no hop has written, or that is not known.
const NOTHING: u16 = u16::MAX;
/// What a number of 16 bits may be at most: 2047 with an exponent of 30, and less than [`NOTHING`].
const MOST: u64 = 2047 << 30;
/// Bits of the mantissa.
const MANTISSA: u32 = 11;

/// Writes a number in 16 bits: five of an exponent, eleven of a mantissa that it shifts. Below 2048 it is exact, above to 1/2048; beyond
/// 2047 * 2^30 it is that.
pub fn short_float(value: u64) -> u16 {
    let value = value.min(MOST);
    let exponent = (u64::BITS - value.leading_zeros()).saturating_sub(MANTISSA);
    // Rounding may make the mantissa one bit longer.
    let rounded = if exponent == 0 { value } else { (value >> (exponent - 1)).wrapping_add(1) >> 1 };
    match rounded >> MANTISSA {
        0 => (exponent << MANTISSA) as u16 | rounded as u16,
        _ => ((exponent + 1) << MANTISSA) as u16 | 1 << (MANTISSA - 1),
    }
}

/// What [`short_float`] wrote; `None` for all ones.
pub fn read_short_float(code: u16) -> Option<u64> {
    let (exponent, mantissa) = (code >> MANTISSA, code & ((1 << MANTISSA) - 1));
    (code != NOTHING).then(|| u64::from(mantissa) << exponent)
}

/// What a packet asks the hops of its way for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WordSignal {
    /// The smallest available bandwidth: capacity less what arrives, in 0.1 Mbit/s.
    Available,
    /// The smallest available share of a link: of its capacity, in 1/65535.
    AvailableShare,
    /// The longest time that a hop takes: its queue at its capacity, in nanoseconds.
    Delay,
}

impl WordSignal {
    /// All of them, in the order in which packets ask for them.
    pub const ALL: [Self; 3] = [Self::Available, Self::AvailableShare, Self::Delay];

    /// What the packet with this number in its flow asks for.
    pub fn of(number: u32) -> Self {
        Self::ALL[number as usize % Self::ALL.len()]
    }

    /// What a hop has to say of it; `None` where it does not know.
    fn measured(self, hop: &NodeRecord) -> Option<u16> {
        let capacity = f64::from(hop.rate_100k.filter(|rate| *rate > 0)?);
        match self {
            Self::Available => Some(short_float(((capacity - hop.arrival_100k()?).max(0.0) + 0.5) as u64)),
            Self::AvailableShare => {
                let share = 1.0 - hop.arrival_100k()? / capacity;
                Some(((share.clamp(0.0, 1.0) * 65535.0 + 0.5) as u16).min(NOTHING - 1))
            }
            Self::Delay => Some(short_float((f64::from(hop.queue_bytes?) * 8.0 / capacity * 1e4) as u64)),
        }
    }
}

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathWord {
    /// What it is.
    pub signal: WordSignal,
    /// Where it was found: the packet's hop limit behind that hop. 0: no hop has written it.
    pub hop_limit: u8,
    /// As on the wire; all ones: no hop has written it.
    value: u16,
}

impl PathWord {
    /// What a source writes: no hop has said anything yet.
    pub fn asking(signal: WordSignal) -> Self {
        Self { signal, hop_limit: 0, value: NOTHING }
    }

    /// A hop compares, and replaces what is better than what it has to say itself.
    pub fn pass(&mut self, hop: &NodeRecord) {
        let Some(own) = self.signal.measured(hop) else { return };
        // Both kinds of numbers grow with their codes.
        let worse = match self.signal {
            WordSignal::Available | WordSignal::AvailableShare => own < self.value,
            WordSignal::Delay => own > self.value,
        };
        if worse || self.value == NOTHING {
            (self.value, self.hop_limit) = (own, hop.hop_limit);
        }
    }

    /// Bit/s, a share, or seconds; `None`: no hop has written it.
    pub fn value(&self) -> Option<f64> {
        let known = Some(self.value).filter(|value| *value != NOTHING)?;
        Some(match self.signal {
            WordSignal::AvailableShare => f64::from(known) / 65535.0,
            WordSignal::Available => read_short_float(known)? as f64 * 1e5,
            WordSignal::Delay => read_short_float(known)? as f64 / 1e9,
        })
    }

    /// WordSignal (8 bits), hop limit (8), value (16).
    pub(super) fn to_bits(self) -> u32 {
        (self.signal as u32) << 24 | u32::from(self.hop_limit) << 16 | u32::from(self.value)
    }

    /// `None`: of no signal.
    pub(super) fn from_bits(word: u32) -> Option<Self> {
        let signal = *WordSignal::ALL.get((word >> 24) as usize)?;
        Some(Self { signal, hop_limit: (word >> 16) as u8, value: word as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(hop_limit: u8, capacity_100k: u32, arrival_pps: f64, queue_bytes: u32) -> NodeRecord {
        NodeRecord {
            hop_limit,
            rate_100k: Some(capacity_100k),
            arrival_pps: Some(arrival_pps),
            queue_bytes: Some(queue_bytes),
            ..NodeRecord::default()
        }
    }

    #[test]
    fn numbers_of_sixteen_bits_are_near_and_in_order() {
        let read = |value| read_short_float(short_float(value)).unwrap();
        assert_eq!([0, 1, 2_047, 2_048, 4_095].map(read), [0, 1, 2_047, 2_048, 4_096]);
        let mut before = 0;
        for step in 0..4_000 {
            let value = libm::exp2(f64::from(step) / 100.0) as u64;
            let (code, near) = (short_float(value), read(value));
            assert!(
                code >= before && (near as f64 / value.max(1) as f64 - 1.0).abs() <= 1.0 / 2_048.0,
                "{value}: {near}"
            );
            before = code;
        }
        assert_eq!((read(u64::MAX), read_short_float(u16::MAX)), (MOST, None));
    }

    #[test]
    fn the_worst_hop_leaves_its_mark() {
        // 100 Mbit/s with 40 coming, 20 with 15, and one that knows nothing.
        let (wide, tight) = (hop(63, 1_000, 40e6 / 12_112.0, 15_140), hop(62, 200, 15e6 / 12_112.0, 1_514));
        for (signal, value, place) in [
            (WordSignal::Available, 5e6, 62),
            (WordSignal::AvailableShare, 0.25, 62),
            (WordSignal::Delay, 1.2112e-3, 63),
        ] {
            for hops in [[wide, NodeRecord::default(), tight], [tight, wide, NodeRecord::default()]] {
                let mut word = PathWord::asking(signal);
                assert_eq!(word.value(), None);
                hops.iter().for_each(|hop| word.pass(hop));
                let found = word.value().unwrap();
                assert!(
                    (found / value - 1.0).abs() < 0.02 && word.hop_limit == place,
                    "{signal:?}: {found} at {place}"
                );
                assert_eq!(PathWord::from_bits(word.to_bits()), Some(word));
            }
        }
        assert_eq!(PathWord::from_bits(0x0300_0000), None);
    }

    #[test]
    fn the_packets_of_a_flow_ask_for_one_after_the_other() {
        assert_eq!([0, 1, 2, 3, u32::MAX].map(WordSignal::of).map(|signal| signal as u8), [0, 1, 2, 0, 0]);
    }
}
