//! Reordering: a random share of the packets is held back while others overtake them.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};
use serde::{Deserialize, Serialize};

use crate::change::PathChange;
use crate::packet::{Element, Packet};
use crate::random::{Purpose, Stream};

/// Which packets are held back: `reorder = { share = 0.05, delay = "5ms" }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Probability that a packet is held back.
    pub share: f64,
    /// For how long; above zero.
    pub delay: Nanos,
}

/// Holds packets back at random. Among those held back the order is kept, and among the others.
pub struct Holding<P> {
    reorder: Reorder,
    stream: Stream,
    /// With the time at which each leaves: in the order in which they came.
    held: VecDeque<(Time, Packet<P>)>,
    /// They leave at once.
    passing: VecDeque<Packet<P>>,
}

impl<P> Holding<P> {
    /// Holds a share of the packets back, with the seed of who they are.
    pub fn new(reorder: Reorder, seed: u64) -> Self {
        let stream = Stream::new(seed, Purpose::Reorder);
        Self { reorder, stream, held: VecDeque::new(), passing: VecDeque::new() }
    }

    fn release(&self) -> Time {
        self.held.front().map_or(Time::NEVER, |(release, _)| *release)
    }
}

impl<P: Send> Element<P> for Holding<P> {
    fn push(&mut self, now: Time, mut packet: Packet<P>) {
        packet.entered = now;
        if self.stream.chance(self.reorder.share) {
            let release = (now + self.reorder.delay).max(self.held.back().map_or(now, |(last, _)| *last));
            packet.delay.propagation += release - now;
            self.held.push_back((release, packet));
        } else {
            self.passing.push_back(packet);
        }
    }

    fn next(&self) -> Time {
        self.passing.front().map_or(Time::NEVER, |packet| packet.entered).min(self.release())
    }

    fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        // Of two that are due at one time, the one held back came first.
        if self.release() <= now && self.passing.front().is_none_or(|packet| self.release() <= packet.entered) {
            return self.held.pop_front().map(|(_, packet)| packet);
        }
        self.passing.pop_front_if(|packet| packet.entered <= now)
    }

    fn change(&mut self, _now: Time, change: PathChange) -> Option<PathChange> {
        let PathChange::Reorder(reorder) = change else { return None };
        Some(PathChange::Reorder(std::mem::replace(&mut self.reorder, reorder)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Path;
    use paceline_cc::Codepoint;

    const HOLD: Nanos = Nanos::from_millis(5);

    /// Number, departure and delay of a packet a millisecond, in the order in which they leave.
    fn run(share: f64, seed: u64, count: u64) -> Vec<(u64, Time, Nanos)> {
        let mut path = Path::new().element(Holding::new(Reorder { share, delay: HOLD }, seed));
        let mut left = Vec::new();
        for number in 0..count {
            let now = Time::from_millis(number);
            while let Some(packet) = path.pop(now) {
                left.push(packet);
            }
            path.push(now, Packet::new(0, 100, Codepoint::NotEct, number));
        }
        while path.next() != Time::NEVER {
            left.extend(path.pop(path.next()));
        }
        left.into_iter().map(|packet| (packet.body, packet.entered, packet.delay.propagation)).collect()
    }

    #[test]
    fn a_share_is_held_back_and_nothing_is_lost() {
        let left = run(0.05, 1, 100_000);
        let (held, passed): (Vec<_>, Vec<_>) = left.iter().partition(|(_, _, delay)| *delay == HOLD);
        assert_eq!(left.len(), 100_000);
        // Five standard deviations: 5 sqrt(100 000 x 0.05 x 0.95) = 345.
        assert!(held.len().abs_diff(5000) < 345, "{}", held.len());
        assert!(passed.iter().all(|(_, _, delay)| *delay == Nanos::ZERO));
        for part in [held, passed] {
            assert!(part.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        assert!(left.iter().all(|(number, at, delay)| *at == Time::from_millis(*number) + *delay));
        assert!(left.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }

    #[test]
    fn those_that_come_in_between_overtake() {
        let left: Vec<u64> = run(0.05, 1, 100).into_iter().map(|(number, ..)| number).collect();
        let late = left.windows(2).position(|pair| pair[1] < pair[0]).expect("one is late");
        // The five after it, less the one that comes when it leaves.
        assert_eq!(left[late] - left[late + 1], 4);
    }

    #[test]
    fn none_and_all_keep_the_order_and_the_seed_decides() {
        for share in [0.0, 1.0] {
            assert!(run(share, 1, 1000).iter().map(|(number, ..)| *number).eq(0..1000));
        }
        assert_eq!(run(0.3, 7, 1000), run(0.3, 7, 1000));
        assert_ne!(run(0.3, 7, 1000), run(0.3, 8, 1000));
    }
}
