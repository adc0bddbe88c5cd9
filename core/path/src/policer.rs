//! A policer: a token bucket without a queue. What finds too little credit is dropped at once, or marked.

use std::collections::BTreeMap;

use paceline_cc::{Bytes, Codepoint, Rate, Time};
use serde::{Deserialize, Serialize};

use crate::bucket::TokenBucket;
use crate::packet::Packet;
use crate::stats::Count;

/// What may pass at the entrance of a direction: `policer = { rate = "10 Mbit/s", burst = "125kB", per = "flow" }`.
///
/// In any time `t` at most `burst + rate t` bytes pass. Sent at `l` above `rate`, the bucket is empty after
/// `burst / (l - rate)`; then the share `1 - rate / l` is dropped. Linux: `tc ... police rate R burst B conform-exceed drop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// What passes in the long run, on the wire; above 0.
    pub rate: Rate,
    /// Bytes that pass at once after a silence; at least the largest packet.
    pub burst: Bytes,
    /// Whose the bucket is.
    #[serde(default)]
    pub per: PolicerScope,
    /// What becomes of a packet that finds too little credit.
    #[serde(default)]
    pub action: PolicerAction,
}

/// What a [`Policer`] does with a packet that finds too little credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicerAction {
    /// It is dropped.
    #[default]
    Drop,
    /// It passes with a CE mark, where it is ECN-capable, and takes no credit. Others are dropped.
    Mark,
}

/// Whose the bucket of a [`Policer`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicerScope {
    /// One for all that comes.
    #[default]
    All,
    /// One for each flow; its acknowledgements have theirs in their own direction.
    Flow,
}

/// A policer at work.
#[derive(Clone, Debug)]
pub struct Policing {
    policer: Policer,
    all: TokenBucket,
    by_flow: BTreeMap<u32, TokenBucket>,
    policed: Count,
    marked: Count,
}

impl Policing {
    /// With full buckets.
    pub fn new(policer: Policer) -> Self {
        let all = TokenBucket::new(policer.rate, policer.burst.0);
        Self { policer, all, by_flow: BTreeMap::new(), policed: Count::default(), marked: Count::default() }
    }

    /// Whether a packet passes, perhaps with a mark from here on.
    pub fn passes<P>(&mut self, now: Time, packet: &mut Packet<P>) -> bool {
        if self.conforms(now, packet.flow, packet.size) {
            return true;
        }
        if self.policer.action == PolicerAction::Mark && packet.ecn != Codepoint::NotEct {
            packet.ecn = Codepoint::Ce;
            self.marked.add(packet.size);
            return true;
        }
        self.policed.add(packet.size);
        false
    }

    /// Whether there is credit for a packet of this flow. One for which there is none takes none.
    fn conforms(&mut self, now: Time, flow: u32, size: u32) -> bool {
        let bucket = match self.policer.per {
            PolicerScope::All => &mut self.all,
            PolicerScope::Flow => {
                let new = || TokenBucket::new(self.policer.rate, self.policer.burst.0);
                self.by_flow.entry(flow).or_insert_with(new)
            }
        };
        bucket.take(now, size)
    }

    /// From `now` on all buckets fill at this rate; what they hold stays.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.policer.rate = rate;
        self.all.set_rate(now, rate);
        self.by_flow.values_mut().for_each(|bucket| bucket.set_rate(now, rate));
    }

    /// What it does now.
    pub fn policer(&self) -> Policer {
        self.policer
    }

    /// What it has dropped.
    pub fn policed(&self) -> Count {
        self.policed
    }

    /// What it has let pass with a mark although there was no credit.
    pub fn marked(&self) -> Count {
        self.marked
    }

    pub(crate) fn forget(&mut self, flow: u32) {
        self.by_flow.remove(&flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_cc::Nanos;
    use proptest::prelude::*;

    const ACTION: PolicerAction = PolicerAction::Drop;

    /// 10 Mbit/s: 1250 bytes a millisecond.
    fn policer(burst: u64, per: PolicerScope) -> Policing {
        Policing::new(Policer { rate: Rate::from_mbps(10.0), burst: Bytes(burst), per, action: ACTION })
    }

    impl Policing {
        fn takes(&mut self, now: Time, flow: u32, size: u32) -> bool {
            self.passes(now, &mut Packet::new(flow, size, Codepoint::Ect0, ()))
        }
    }

    #[test]
    fn a_mark_takes_the_place_of_a_drop_where_there_can_be_one() {
        let marks = Policer {
            rate: Rate::from_mbps(10.0),
            burst: Bytes(1500),
            per: PolicerScope::All,
            action: PolicerAction::Mark,
        };
        let mut policing = Policing::new(marks);
        let mut sent = |ms: u64, ecn: Codepoint| {
            let mut packet = Packet::new(0, 1250, ecn, ());
            (policing.passes(Time::from_millis(ms), &mut packet), packet.ecn)
        };
        assert_eq!(sent(0, Codepoint::Ect0), (true, Codepoint::Ect0));
        assert_eq!(sent(0, Codepoint::Ect0), (true, Codepoint::Ce));
        assert_eq!(sent(0, Codepoint::Ect1), (true, Codepoint::Ce));
        assert_eq!(sent(0, Codepoint::NotEct), (false, Codepoint::NotEct));
        // What was marked took nothing.
        assert_eq!(sent(1, Codepoint::Ect1), (true, Codepoint::Ect1));
        assert_eq!((policing.marked().packets, policing.policed().packets), (2, 1));
    }

    #[test]
    fn exactly_enough_passes_and_a_byte_short_does_not() {
        let mut policing = policer(3000, PolicerScope::All);
        assert!(policing.takes(Time::ZERO, 0, 3000), "full at birth");
        assert!(!policing.takes(Time::ZERO, 0, 1));
        let just_before = Time::from_nanos(999_999);
        assert!(!policing.takes(just_before, 0, 1250));
        assert!(policing.takes(Time::from_millis(1), 0, 1250), "what was refused took nothing");
        assert!(!policing.takes(Time::from_millis(1), 0, 1));
        // Refilled by silence, and no further.
        assert!(!policing.takes(Time::from_millis(1000), 0, 3001));
        assert!(policing.takes(Time::from_millis(1000), 0, 3000));
        assert_eq!(policing.policed(), Count { packets: 4, bytes: 1 + 1250 + 1 + 3001 });
    }

    #[test]
    fn per_flow_isolates_flows() {
        let mut shared = policer(1500, PolicerScope::All);
        let mut apart = policer(1500, PolicerScope::Flow);
        let of = |policing: &mut Policing| [1, 2, 1].map(|flow| policing.takes(Time::ZERO, flow, 1500));
        assert_eq!(of(&mut shared), [true, false, false]);
        assert_eq!(of(&mut apart), [true, true, false]);
        apart.forget(1);
        assert!(apart.takes(Time::ZERO, 1, 1500), "a flow that has ended leaves nothing behind");
    }

    #[test]
    fn a_new_rate_counts_from_its_time_on() {
        for per in [PolicerScope::All, PolicerScope::Flow] {
            let mut policing = policer(5000, per);
            assert!(policing.takes(Time::ZERO, 0, 5000));
            policing.set_rate(Time::from_millis(1), Rate::from_mbps(20.0));
            // 1250 bytes in the first millisecond, 2500 in the second.
            assert!(!policing.takes(Time::from_millis(2), 0, 3751));
            assert!(policing.takes(Time::from_millis(2), 0, 3750));
        }
    }

    /// 12.5 Mbit/s into 10 Mbit/s with 125 kB: 0.4 s pass whole but for the packet that waits for its last byte, then a fifth is lost:
    /// `1250 (n + 1) <= 125000 + 1000 n` up to n = 495.
    #[test]
    fn an_excess_passes_until_the_bucket_is_empty() {
        let mut policing = policer(125_000, PolicerScope::All);
        let gap = Nanos::from_micros(800);
        let mut sent = |from: u64, to: u64| {
            (from..to).filter(|n| !policing.takes(Time::ZERO + gap.mul_div(*n, 1), 0, 1250)).count()
        };
        assert_eq!((sent(0, 496), sent(496, 497)), (0, 1));
        let lost = sent(497, 10_497);
        assert!(lost.abs_diff(2000) < 2, "{lost}");
    }

    #[test]
    fn a_constant_rate_that_is_its_own_loses_nothing() {
        let mut policing = policer(1500, PolicerScope::All);
        let gap = Rate::from_mbps(10.0).time_for(1500);
        assert!((0..100_000).all(|n| policing.takes(Time::ZERO + gap.mul_div(n, 1), 0, 1500)));
    }

    proptest! {
        #[test]
        fn in_any_time_at_most_a_burst_and_the_rate_pass(
            rate in 1u64..10_000_000,
            burst in 4000u64..100_000,
            arrivals in prop::collection::vec((0u64..5_000_000, 40u32..4000), 1..200),
        ) {
            let policer = Policer {
                rate: Rate::from_bytes_per_sec(rate),
                burst: Bytes(burst),
                per: PolicerScope::All,
                action: ACTION,
            };
            let mut policing = Policing::new(policer);
            let mut now = Time::ZERO;
            let (mut passed, mut came) = (Vec::new(), Count::default());
            for (gap, size) in arrivals {
                now += Nanos::from_nanos(gap);
                came.add(size);
                if policing.takes(now, 0, size) {
                    passed.push((now, u64::from(size)));
                }
            }
            let policed = policing.policed();
            prop_assert_eq!(came.packets, policed.packets + passed.len() as u64);
            prop_assert_eq!(came.bytes, policed.bytes + passed.iter().map(|(_, size)| size).sum::<u64>());
            for first in 0..passed.len() {
                let mut bytes = 0_u128;
                for (at, size) in &passed[first..] {
                    bytes += u128::from(*size);
                    let earned = u128::from(rate) * u128::from((*at - passed[first].0).as_nanos());
                    prop_assert!(bytes * 1_000_000_000 <= u128::from(burst) * 1_000_000_000 + earned);
                }
            }
        }
    }
}
