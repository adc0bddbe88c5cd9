//! Distance: a delay that is fixed, changes in steps, or varies at random.

use std::collections::{BTreeMap, VecDeque};

use paceline_cc::{Nanos, Time};
use serde::{Deserialize, Serialize};

use crate::packet::{Element, Packet};
use crate::random::{Purpose, Stream};

/// A fixed delay.
pub struct Delay<P> {
    delay: Nanos,
    line: VecDeque<Packet<P>>,
}

impl<P> Delay<P> {
    /// Every packet leaves `delay` after it came.
    pub fn new(delay: Nanos) -> Self {
        Self { delay, line: VecDeque::new() }
    }
}

impl<P: Send> Element<P> for Delay<P> {
    fn push(&mut self, now: Time, mut packet: Packet<P>) {
        packet.entered = now;
        packet.delay.propagation += self.delay;
        self.line.push_back(packet);
    }

    fn next(&self) -> Time {
        self.line.front().map_or(Time::NEVER, |packet| packet.entered + self.delay)
    }

    fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        if self.next() > now {
            return None;
        }
        self.line.pop_front()
    }

    fn least(&self) -> Nanos {
        self.delay
    }
}

/// Random delay added to each packet: `jitter = { max = "5ms" }` is uniform from 0 to `max`, `jitter = { mean = "2ms" }`
/// exponential; one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Uniform, from 0 to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Nanos>,
    /// Exponential, with this mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Nanos>,
    /// Whether packets may overtake each other. Where they may not, a packet that would overtake leaves together with
    /// the one before it.
    #[serde(default)]
    pub reorder: bool,
}

/// A delay that changes: in steps at given times, by jitter, or both. A packet takes the delay in force when it
/// arrives. Unless jitter reorders, the order is kept: after a step down, packets wait for those before them.
pub struct VaryingDelay<P> {
    /// Sorted; the first from 0.
    steps: Vec<(Time, Nanos)>,
    jitter: Jitter,
    stream: Stream,
    line: Line<P>,
}

enum Line<P> {
    /// With the time at which each is due, never decreasing.
    InOrder(VecDeque<(Time, Packet<P>)>),
    /// By the time at which each is due, then by arrival.
    Reordering { waiting: BTreeMap<(Time, u64), Packet<P>>, arrivals: u64 },
}

impl<P> VaryingDelay<P> {
    /// Delays from given times on, sorted, the first from 0, and jitter on top, with its seed.
    pub fn new(steps: Vec<(Time, Nanos)>, jitter: Jitter, seed: u64) -> Self {
        let line = if jitter.reorder {
            Line::Reordering { waiting: BTreeMap::new(), arrivals: 0 }
        } else {
            Line::InOrder(VecDeque::new())
        };
        Self { steps, jitter, stream: Stream::new(seed, Purpose::Jitter), line }
    }

    fn draw(&mut self, now: Time) -> Nanos {
        let index = self.steps.partition_point(|(start, _)| *start <= now).saturating_sub(1);
        let mut delay = self.steps.get(index).map_or(Nanos::ZERO, |(_, delay)| *delay);
        if let Some(max) = self.jitter.max {
            delay += max.mul_f64(self.stream.unit());
        }
        if let Some(mean) = self.jitter.mean {
            delay += mean.mul_f64(self.stream.exponential());
        }
        delay
    }
}

impl<P: Send> Element<P> for VaryingDelay<P> {
    fn push(&mut self, now: Time, mut packet: Packet<P>) {
        let mut due = now + self.draw(now);
        packet.entered = now;
        match &mut self.line {
            Line::InOrder(line) => {
                due = due.max(line.back().map_or(Time::ZERO, |(last, _)| *last));
                packet.delay.propagation += due - now;
                line.push_back((due, packet));
            }
            Line::Reordering { waiting, arrivals } => {
                packet.delay.propagation += due - now;
                waiting.insert((due, *arrivals), packet);
                *arrivals += 1;
            }
        }
    }

    fn next(&self) -> Time {
        match &self.line {
            Line::InOrder(line) => line.front().map_or(Time::NEVER, |(due, _)| *due),
            Line::Reordering { waiting, .. } => waiting.first_key_value().map_or(Time::NEVER, |((due, _), _)| *due),
        }
    }

    fn pop(&mut self, now: Time) -> Option<Packet<P>> {
        if self.next() > now {
            return None;
        }
        match &mut self.line {
            Line::InOrder(line) => line.pop_front().map(|(_, packet)| packet),
            Line::Reordering { waiting, .. } => waiting.pop_first().map(|(_, packet)| packet),
        }
    }

    fn least(&self) -> Nanos {
        self.steps.iter().map(|(_, delay)| *delay).min().unwrap_or(Nanos::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_cc::Codepoint;

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn run(element: &mut dyn Element<u64>, arrivals: impl Iterator<Item = Time>) -> Vec<(u64, Time, Nanos)> {
        let mut left = Vec::new();
        for (body, now) in arrivals.enumerate() {
            element.push(now, Packet::new(0, 100, Codepoint::NotEct, body as u64));
        }
        while element.next() != Time::NEVER {
            let now = element.next();
            let packet = element.pop(now).expect("due");
            left.push((packet.body, now, packet.delay.propagation));
        }
        left
    }

    #[test]
    fn a_fixed_delay_is_exact() {
        let left = run(&mut Delay::new(Nanos::from_millis(20)), [ms(0), ms(0), ms(7)].into_iter());
        let delay = Nanos::from_millis(20);
        assert_eq!(left, [(0, ms(20), delay), (1, ms(20), delay), (2, ms(27), delay)]);
    }

    #[test]
    fn a_step_down_keeps_the_order() {
        let steps = vec![(Time::ZERO, Nanos::from_millis(100)), (ms(10), Nanos::from_millis(20))];
        let mut delay = VaryingDelay::new(steps, Jitter::default(), 1);
        let left = run(&mut delay, [ms(9), ms(10), ms(95)].into_iter());
        let spans = [100, 99, 20].map(Nanos::from_millis);
        assert_eq!(left, [(0, ms(109), spans[0]), (1, ms(109), spans[1]), (2, ms(115), spans[2])]);
    }

    #[test]
    fn jitter_keeps_or_mixes_the_order() {
        let base = vec![(Time::ZERO, Nanos::from_millis(10))];
        for reorder in [false, true] {
            let jitter = Jitter { max: Some(Nanos::from_millis(5)), mean: None, reorder };
            let left = run(&mut VaryingDelay::new(base.clone(), jitter, 3), (0..1000).map(ms));
            let overtaken = left.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
            assert_eq!(overtaken > 0, reorder);
            assert!(left.windows(2).all(|pair| pair[0].1 <= pair[1].1));
            for (body, at, delay) in left {
                assert!(delay >= Nanos::from_millis(10) && at == ms(body) + delay);
                assert!(delay <= Nanos::from_millis(15));
            }
        }
    }

    #[test]
    fn exponential_jitter_has_its_mean() {
        let jitter = Jitter { max: None, mean: Some(Nanos::from_millis(2)), reorder: true };
        let left = run(&mut VaryingDelay::new(Vec::new(), jitter, 3), (0..50_000).map(ms));
        let mean = left.iter().map(|(_, _, delay)| delay.as_millis_f64()).sum::<f64>() / 50_000.0;
        // 5 standard errors: 0.045.
        assert!((mean - 2.0).abs() < 0.045, "{mean}");
    }
}
