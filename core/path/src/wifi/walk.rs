//! The rate that a sender uses: fixed, or a walk over the MCS as rate control makes it.

use paceline_cc::Time;

use super::Phy;
use super::keys::Walk;
use crate::random::Stream;

/// The PHY rate over time.
pub(super) struct Rates {
    phy: Phy,
    walk: Option<(Walk, Stream)>,
    /// Until when the present one holds.
    until: Time,
}

impl Rates {
    pub(super) fn new(phy: Phy, walk: Option<(Walk, Stream)>) -> Self {
        let mut new = Self { phy, walk, until: Time::NEVER };
        new.hold(Time::ZERO);
        new
    }

    fn hold(&mut self, from: Time) {
        if let Some((walk, stream)) = &mut self.walk {
            self.until = from + walk.hold.mul_f64(stream.exponential()).max(paceline_cc::Nanos::from_nanos(1));
        }
    }

    /// The rate at `now`; times never decrease.
    pub(super) fn at(&mut self, now: Time) -> Phy {
        while self.until <= now {
            if let Some((walk, stream)) = &mut self.walk {
                let mcs = self.phy.mcs();
                // A step up or down with the same probability; at an end the only one.
                let up = mcs <= walk.lowest || (mcs < walk.highest && stream.chance(0.5));
                let next = if up { mcs + 1 } else { mcs - 1 };
                self.phy = self.phy.with_mcs(next).unwrap_or(self.phy);
            }
            self.hold(self.until);
        }
        self.phy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;
    use paceline_cc::Nanos;

    #[test]
    fn the_walk_keeps_to_its_ends_and_spends_half_as_long_there() {
        let walk = Walk { lowest: 4, highest: 8, hold: Nanos::from_millis(100) };
        let stream = Stream::new(3, Purpose::RateWalk);
        let mut rates = Rates::new("vht80-1ss-mcs6".parse().unwrap(), Some((walk, stream)));
        assert_eq!(rates.at(Time::ZERO).mcs(), 6);
        let mut seen = [0_u32; 10];
        for milli in (0..20_000_000).step_by(100) {
            seen[usize::from(rates.at(Time::from_millis(milli)).mcs())] += 1;
        }
        assert_eq!(seen[..4].iter().sum::<u32>() + seen[9], 0);
        let share = |mcs: usize| f64::from(seen[mcs]) / 200_000.0;
        for (mcs, expected) in [(4, 0.125), (5, 0.25), (6, 0.25), (7, 0.25), (8, 0.125)] {
            assert!((share(mcs) - expected).abs() < 0.01, "{mcs}: {}", share(mcs));
        }
    }
}
