//! Loss and duplication at random.

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use paceline_cc::Time;

use crate::change::PathChange;
use crate::changing::Changing;
use crate::random::{Purpose, Stream};
use crate::row::{FilterVerdict, PathFilter};

/// How packets are lost: `loss = 0.01`, `loss = { gilbert = { enter = 0.001, leave = 0.25 } }`, or `loss = { burst = 2, every = 18 }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum LossModel {
    /// Each packet with this probability (Bernoulli).
    Rate(f64),
    /// In bursts.
    Gilbert {
        /// The parameters.
        gilbert: Gilbert,
    },
    /// Regularly, without chance.
    Burst {
        /// So many in a row are lost,
        burst: u32,
        /// each time that so many have passed.
        every: u32,
    },
}

/// The Gilbert-Elliott model: a good and a bad state, left at random before each packet; each loses packets with a
/// probability of its own.
///
/// Source: Gilbert, "Capacity of a Burst-Noise Channel", 1960; Elliott, "Estimates of Error Rates for Codes on
/// Burst-Noise Channels", 1963. The long-run loss is `(leave * good + enter * bad) / (enter + leave)`; with `good = 0`
/// and `bad = 1`, the mean burst is `1 / leave` packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gilbert {
    /// Probability that the state changes from good to bad, a packet.
    pub enter: f64,
    /// Probability that the state changes from bad to good, a packet.
    pub leave: f64,
    /// Probability of loss in the good state.
    #[serde(default)]
    pub good: f64,
    /// Probability of loss in the bad state.
    #[serde(default = "one")]
    pub bad: f64,
}

/// A share as people write it: `0.01` or `1%`. Whether it is one from 0 to 1 is checked with the rest.
pub fn share(text: &str) -> Option<f64> {
    match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.trim().parse().ok(),
    }
}

fn one() -> f64 {
    1.0
}

impl<'de> Deserialize<'de> for LossModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            gilbert: Option<Gilbert>,
            burst: Option<u32>,
            every: Option<u32>,
        }

        impl<'de> Visitor<'de> for Either {
            type Value = LossModel;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a probability such as 0.01 or \"1%\", { gilbert = { enter = 0.001, leave = 0.25 } }, or { burst = 2, every = 18 }")
            }
            fn visit_f64<E: de::Error>(self, rate: f64) -> Result<LossModel, E> {
                Ok(LossModel::Rate(rate))
            }
            fn visit_i64<E: de::Error>(self, rate: i64) -> Result<LossModel, E> {
                Ok(LossModel::Rate(rate as f64))
            }
            fn visit_u64<E: de::Error>(self, rate: u64) -> Result<LossModel, E> {
                Ok(LossModel::Rate(rate as f64))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<LossModel, E> {
                share(text).map(LossModel::Rate).ok_or_else(|| E::invalid_type(de::Unexpected::Str(text), &self))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LossModel, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                match (table.gilbert, table.burst, table.every) {
                    (Some(gilbert), None, None) => Ok(LossModel::Gilbert { gilbert }),
                    (None, Some(burst), Some(every)) => Ok(LossModel::Burst { burst, every }),
                    _ => Err(de::Error::custom("it needs gilbert, or both burst and every")),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl LossModel {
    /// The fraction of packets lost in the long run.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Rate(rate) => *rate,
            Self::Gilbert { gilbert } if gilbert.enter + gilbert.leave == 0.0 => gilbert.good,
            Self::Gilbert { gilbert } => {
                let Gilbert { enter, leave, good, bad } = gilbert;
                (leave * good + enter * bad) / (enter + leave)
            }
            Self::Burst { burst, every } => f64::from(*burst) / (f64::from(*burst) + f64::from(*every)).max(1.0),
        }
    }

    /// The probabilities by name, to check them.
    pub(crate) fn probabilities(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Rate(rate) => vec![("loss", *rate)],
            Self::Gilbert { gilbert } => vec![
                ("loss.gilbert.enter", gilbert.enter),
                ("loss.gilbert.leave", gilbert.leave),
                ("loss.gilbert.good", gilbert.good),
                ("loss.gilbert.bad", gilbert.bad),
            ],
            Self::Burst { .. } => Vec::new(),
        }
    }
}

/// Loses packets. A Gilbert-Elliott channel starts in the good state, and where the model changes each starts anew; the random stream goes
/// on.
pub struct Lossy {
    loss: Changing<LossModel>,
    bad: bool,
    /// Packets since the last burst, those of the present one included.
    count: u32,
    stream: Stream,
}

impl Lossy {
    /// A loss process with its seed.
    pub fn new(loss: impl Into<Changing<LossModel>>, seed: u64) -> Self {
        Self { loss: loss.into(), bad: false, count: 0, stream: Stream::new(seed, Purpose::Loss) }
    }

    /// The same for the frames of a radio, by a stream of their own.
    pub(crate) fn of_frames(loss: LossModel, seed: u64) -> Self {
        Self { loss: loss.into(), bad: false, count: 0, stream: Stream::new(seed, Purpose::RadioLoss) }
    }
}

impl PathFilter for Lossy {
    fn judge(&mut self, now: Time) -> FilterVerdict {
        if self.loss.advance(now) {
            (self.bad, self.count) = (false, 0);
        }
        let probability = match self.loss.value() {
            LossModel::Rate(rate) => rate,
            LossModel::Gilbert { gilbert } => {
                let change = if self.bad { gilbert.leave } else { gilbert.enter };
                self.bad ^= self.stream.chance(change);
                if self.bad { gilbert.bad } else { gilbert.good }
            }
            LossModel::Burst { burst, every } => {
                let lost = self.count >= every;
                self.count = if self.count + 1 >= every.saturating_add(burst) { 0 } else { self.count + 1 };
                return if lost { FilterVerdict::Lose } else { FilterVerdict::Pass };
            }
        };
        if self.stream.chance(probability) { FilterVerdict::Lose } else { FilterVerdict::Pass }
    }

    fn change(&mut self, now: Time, change: PathChange) -> Option<PathChange> {
        let PathChange::Loss(loss) = change else { return None };
        Some(PathChange::Loss(self.loss.set(now, loss)))
    }
}

/// Duplicates each packet with a probability.
pub struct Duplicate {
    probability: f64,
    stream: Stream,
}

impl Duplicate {
    /// A duplication process with its seed.
    pub fn new(probability: f64, seed: u64) -> Self {
        Self { probability, stream: Stream::new(seed, Purpose::Duplicate) }
    }
}

impl PathFilter for Duplicate {
    fn judge(&mut self, _now: Time) -> FilterVerdict {
        if self.stream.chance(self.probability) { FilterVerdict::Copy } else { FilterVerdict::Pass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_cc::Nanos;

    fn judge(filter: &mut dyn PathFilter, count: usize) -> Vec<bool> {
        (0..count).map(|_| filter.judge(Time::ZERO) != FilterVerdict::Pass).collect()
    }

    fn mean(hits: &[bool]) -> f64 {
        hits.iter().filter(|hit| **hit).count() as f64 / hits.len() as f64
    }

    #[test]
    fn bernoulli_and_duplication_hit_their_rates() {
        // 5 standard errors of 100 000 draws at 0.03: 0.0027.
        assert!((mean(&judge(&mut Lossy::new(LossModel::Rate(0.03), 1), 100_000)) - 0.03).abs() < 0.0027);
        assert!((mean(&judge(&mut Duplicate::new(0.03, 1), 100_000)) - 0.03).abs() < 0.0027);
        assert_eq!(mean(&judge(&mut Lossy::new(LossModel::Rate(0.0), 1), 1000)), 0.0);
        assert_eq!(mean(&judge(&mut Lossy::new(LossModel::Rate(1.0), 1), 1000)), 1.0);
    }

    #[test]
    fn gilbert_elliott_has_its_loss_and_burst_length() {
        let gilbert = Gilbert { enter: 0.01, leave: 0.25, good: 0.0, bad: 1.0 };
        let loss = LossModel::Gilbert { gilbert };
        let lost = judge(&mut Lossy::new(loss, 7), 1_000_000);
        // 0.01 / 0.26 = 0.03846; bursts of 4 packets.
        assert!((loss.mean() - 0.038_461_5).abs() < 1e-6);
        assert!((mean(&lost) / loss.mean() - 1.0).abs() < 0.05, "{}", mean(&lost));
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let length = lost.iter().filter(|lost| **lost).count() as f64 / bursts as f64;
        assert!((length - 4.0).abs() < 0.2, "{length}");
    }

    #[test]
    fn elliott_loses_in_both_states() {
        let gilbert = Gilbert { enter: 0.02, leave: 0.1, good: 0.01, bad: 0.4 };
        let loss = LossModel::Gilbert { gilbert };
        let lost = judge(&mut Lossy::new(loss, 7), 1_000_000);
        // (0.1 x 0.01 + 0.02 x 0.4) / 0.12 = 0.075
        assert!((loss.mean() - 0.075).abs() < 1e-9);
        assert!((mean(&lost) / 0.075 - 1.0).abs() < 0.05, "{}", mean(&lost));
    }

    #[test]
    fn bursts_are_regular() {
        let lost = judge(&mut Lossy::new(LossModel::Burst { burst: 2, every: 3 }, 7), 12);
        assert_eq!(lost, [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0].map(|lost| lost == 1));
        assert_eq!(judge(&mut Lossy::new(LossModel::Burst { burst: 1, every: 0 }, 7), 3), [true; 3]);
        assert_eq!(LossModel::Burst { burst: 2, every: 18 }.mean(), 0.1);
    }

    #[test]
    fn a_schedule_of_losses_leaves_the_draws_as_they_are() {
        let half = LossModel::Rate(0.5);
        let at = |lossy: &mut Lossy, second: u64| {
            (0..100).map(|_| lossy.judge(Time::from_millis(1000 * second)) == FilterVerdict::Lose).collect::<Vec<_>>()
        };
        let mut plain = Lossy::new(half, 7);
        let second = Nanos::from_secs;
        let between = LossModel::Burst { burst: 1, every: 3 };
        let steps = [(Nanos::ZERO, half), (second(1), between), (second(2), half), (second(3), between)];
        let mut stepped = Lossy::new(Changing::steps(&steps), 7);
        assert_eq!(at(&mut plain, 0), at(&mut stepped, 0));
        let regular: Vec<bool> = (0..100).map(|number| number % 4 == 3).collect();
        assert_eq!(at(&mut stepped, 1), regular);
        assert_eq!(at(&mut plain, 2), at(&mut stepped, 2));
        assert_eq!(at(&mut stepped, 3), regular, "a burst begins anew");
    }
}
