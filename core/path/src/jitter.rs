//! Random delay on top of a distance: uniform, exponential, normal, or as of a Wi-Fi link.
//!
//! The Wi-Fi model is that of C4's tests (draft-huitema-ccwg-c4-test-04), as picoquic's simulator has it: most packets are held back by a
//! millisecond or so, and sometimes one, with all behind it, by a tenth of a second.

use std::fmt;
use std::str::FromStr;

use paceline_cc::{Nanos, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::random::{Purpose, Stream, mix};

/// Random delay added to each packet: `jitter = { max = "5ms" }` is uniform from 0 to `max`, `{ mean = "2ms" }` exponential,
/// `{ normal = "5ms" }` normal, `{ wifi = "7ms" }` as of a Wi-Fi link; one of the four.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Uniform, from 0 to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Nanos>,
    /// Exponential, with this mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Nanos>,
    /// Normal, with this mean and a third of it as deviation, cut at 0: `m (1 + max(x, -3) / 3)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normal: Option<Nanos>,
    /// As of a Wi-Fi link, with about this mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wifi: Option<Nanos>,
    /// What a draw of `wifi` is for; [`DrawSpan::default`] without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<DrawSpan>,
    /// Of `wifi`: its mean, less 1 ms, over this many milliseconds is the probability of a long wait; [`SCALE`] without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Whether packets may overtake each other. Where they may not, a packet that would overtake leaves together with
    /// the one before it.
    #[serde(default)]
    pub reorder: bool,
}

/// Milliseconds by which the probability of a long wait is scaled, in picoquic's simulator; the draft has 90.
pub const SCALE: f64 = 84.0;

/// What a draw of jitter is for: `packet`, or a time such as `20ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawSpan {
    /// Every packet draws, as in picoquic's simulator: fitted to pings 20 ms apart, it blocks a fast flow nearly always.
    Packet,
    /// Time is cut into slots of this length from 0, and each has a draw: a packet sent in a slot is due no sooner than the slot's start
    /// and its draw. So the delay does not depend on the rate of packets.
    Slot(Nanos),
}

impl Default for DrawSpan {
    /// Slots of 20 ms, the distance of the pings that the model was fitted to (our choice).
    fn default() -> Self {
        Self::Slot(Nanos::from_millis(20))
    }
}

/// A text that is not a [`DrawSpan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a draw is for a packet or for a time above 0; write \"packet\" or \"20ms\"")]
pub struct NotDrawSpan;

impl FromStr for DrawSpan {
    type Err = NotDrawSpan;

    fn from_str(text: &str) -> Result<Self, NotDrawSpan> {
        match (text, text.parse()) {
            ("packet", _) => Ok(Self::Packet),
            (_, Ok(span)) if span > Nanos::ZERO => Ok(Self::Slot(span)),
            _ => Err(NotDrawSpan),
        }
    }
}

impl fmt::Display for DrawSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet => f.write_str("packet"),
            Self::Slot(span) => f.write_str(&paceline_cc::units::span_text(*span)),
        }
    }
}

impl<'de> Deserialize<'de> for DrawSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for DrawSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Jitter {
    /// Whether it can be: the problem, and the fix.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let Self { max, mean, normal, wifi, per, scale, reorder } = *self;
        if [max, mean, normal, wifi].into_iter().flatten().count() != 1 {
            let fix = "write { max = \"5ms\" } (uniform), { mean = \"2ms\" } (exponential), { normal = \"5ms\" } or { wifi = \"7ms\" }";
            return Err(("it needs one of max, mean, normal and wifi", fix));
        }
        if wifi.is_none() && (per.is_some() || scale.is_some()) {
            return Err(("per and scale belong to wifi", "give wifi, or leave them out"));
        }
        if wifi.is_some() && reorder {
            return Err(("a Wi-Fi link keeps the order", "leave reorder out"));
        }
        if scale.is_some_and(|scale| !(scale > 0.0 && scale.is_finite())) {
            return Err(("scale is not a number above 0", "give milliseconds, such as 90, or leave it out for 84"));
        }
        Ok(())
    }
}

/// Draws jitter.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    seed: u64,
    stream: Stream,
    /// The present slot, and what it drew.
    slot: Option<(u64, Nanos)>,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, stream: Stream::new(seed, Purpose::Jitter), slot: None }
    }

    /// By how much a packet that comes at `now` is held back.
    pub(crate) fn draw(&mut self, jitter: &Jitter, now: Time) -> Nanos {
        let mut delay = Nanos::ZERO;
        if let Some(max) = jitter.max {
            delay += max.mul_f64(self.stream.unit());
        }
        if let Some(mean) = jitter.mean {
            delay += mean.mul_f64(self.stream.exponential());
        }
        if let Some(mean) = jitter.normal {
            delay += mean.mul_f64(1.0 + self.stream.normal().max(-3.0) / 3.0);
        }
        if let Some(mean) = jitter.wifi {
            let share = share(mean, jitter.scale.unwrap_or(SCALE));
            delay += match jitter.per.unwrap_or_default() {
                DrawSpan::Packet => wifi(&mut self.stream, share),
                DrawSpan::Slot(length) => self.of_slot(now, length, share),
            };
        }
        delay
    }

    /// What is left at `now` of its slot's draw. Each slot has a stream of its own, so that no draw depends on which slots are used.
    fn of_slot(&mut self, now: Time, length: Nanos, share: f64) -> Nanos {
        let number = now.as_nanos() / length.as_nanos();
        let drawn = match self.slot {
            Some((slot, drawn)) if slot == number => drawn,
            _ => wifi(&mut Stream::new(mix(self.seed) ^ number, Purpose::JitterSlot), share),
        };
        self.slot = Some((number, drawn));
        let start = Time::from_nanos(number * length.as_nanos());
        (start + drawn).since(now)
    }
}

/// Probability of a long wait for a mean of about `mean`.
fn share(mean: Nanos, scale: f64) -> f64 {
    ((mean.as_millis_f64() - 1.0) / scale).clamp(0.0, 1.0)
}

/// A draw: a wait of a millisecond on average, and with probability `share` one of 12 frames' 7.5 ms.
fn wifi(stream: &mut Stream, share: f64) -> Nanos {
    let short = stream.poisson(1.0);
    let mut millis = f64::from(short);
    if short >= 1 {
        millis -= stream.unit();
    }
    if share > 0.0 && stream.chance(share) {
        let frames = stream.poisson(12.0);
        millis += f64::from(frames) * 7.5;
        if frames > 1 {
            millis -= 7.5 * stream.unit();
        }
    }
    Nanos::from_secs_f64(millis / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_wifi(millis: f64, per: Option<DrawSpan>) -> Jitter {
        Jitter { wifi: Some(Nanos::from_secs_f64(millis / 1e3)), per, ..Jitter::default() }
    }

    /// Delays added in order, in ms: `count` packets `gap` apart.
    fn added(jitter: &Jitter, gap: Nanos, count: u64) -> Vec<f64> {
        let (mut draws, mut last) = (Draws::new(1), Time::ZERO);
        let one = |number: u64| {
            let now = Time::ZERO + gap.mul_div(number, 1);
            last = last.max(now + draws.draw(jitter, now));
            (last - now).as_millis_f64()
        };
        let mut added: Vec<f64> = (0..count).map(one).collect();
        added.sort_by(f64::total_cmp);
        added
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn delays_are_those_of_the_published_model() {
        for (gap_us, packet, slot) in [
            (20_000, [17.1, 70.0, 120.0], [16.8, 69.0, 120.0]),
            (5_000, [43.8, 96.0, 134.0], [14.4, 62.0, 113.0]),
            (1_200, [84.5, 118.0, 149.0], [13.8, 60.0, 112.0]),
            (600, [99.7, 128.0, 154.0], [13.7, 59.0, 111.0]),
        ] {
            for (per, expected) in [(Some(DrawSpan::Packet), packet), (None, slot)] {
                // As much time as 200 000 pings 20 ms apart, for slots; fewer packets where each draws.
                let count = if per.is_none() { 200_000 * 20_000 / gap_us } else { 200_000 };
                let added = added(&of_wifi(7.0, per), Nanos::from_micros(gap_us), count);
                let quantile = |share: f64| added[(added.len() as f64 * share) as usize];
                let found = [mean(&added), quantile(0.9), quantile(0.99)];
                for (found, expected) in found.iter().zip(expected) {
                    assert!((found / expected - 1.0).abs() < 0.03, "{gap_us} us, {per:?}: {found}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn one_draw_has_the_mean_that_the_formula_gives() {
        let of = |millis: f64, scale: Option<f64>| {
            let jitter = Jitter { scale, ..of_wifi(millis, Some(DrawSpan::Packet)) };
            let mut draws = Draws::new(3);
            let drawn = (0..400_000).map(|_| draws.draw(&jitter, Time::ZERO).as_millis_f64());
            drawn.sum::<f64>() / 400_000.0
        };
        // 1 - (1 - 1/e) / 2; and 86.25 ms with probability 6/84, 6/90, 1.
        let close =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.015, "{found}, not {expected}");
        close(of(1.0, None), 0.684);
        close(of(0.5, None), 0.684);
        close(of(7.0, None), 6.845);
        close(of(7.0, Some(90.0)), 6.434);
        close(of(85.0, None), 86.93);
        close(of(300.0, None), 86.93);
        assert_eq!(
            [1.0, 0.5, 85.0, 90.0].map(|millis| share(Nanos::from_secs_f64(millis / 1e3), SCALE)),
            [0.0, 0.0, 1.0, 1.0]
        );
    }

    #[test]
    fn a_normal_delay_has_a_third_of_its_mean_as_deviation_and_is_never_below_0() {
        let jitter = Jitter { normal: Some(Nanos::from_millis(6)), ..Jitter::default() };
        let mut draws = Draws::new(1);
        let drawn: Vec<f64> = (0..200_000).map(|_| draws.draw(&jitter, Time::ZERO).as_millis_f64()).collect();
        let middle = mean(&drawn);
        let variance = drawn.iter().map(|value| (value - middle) * (value - middle)).sum::<f64>() / drawn.len() as f64;
        assert!((middle - 6.0).abs() < 0.03 && (variance - 4.0).abs() < 0.08, "{middle} {variance}");
        assert!(drawn.iter().all(|value| (0.0..20.0).contains(value)));
    }

    #[test]
    fn slots_do_not_depend_on_the_packets_in_them() {
        let jitter = of_wifi(12.0, None);
        let at = |millis: &[u64]| {
            let mut draws = Draws::new(9);
            let drawn = millis.iter().map(|at| (*at, draws.draw(&jitter, Time::from_millis(*at))));
            drawn.collect::<Vec<_>>()
        };
        let all = at(&(0..10_000).collect::<Vec<_>>());
        let some: Vec<u64> = (0..10_000).filter(|at| at % 137 == 0).collect();
        assert!(at(&some).iter().all(|one| all[one.0 as usize] == *one));
        // Within a slot what is left shrinks with time.
        assert!(all.chunks(20).all(|slot| slot.windows(2).all(|pair| pair[1].1 <= pair[0].1)));
    }
}
