//! Distance: a delay that is fixed, changes in steps, or varies at random.

use std::collections::{BTreeMap, VecDeque};

use paceline_cc::{Nanos, Time};

use crate::change::PathChange;
use crate::changing::Changing;
use crate::jitter::{Draws, Jitter};
use crate::packet::{Element, Packet};

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

/// A delay that changes: in steps at given times, by jitter, or both. A packet takes the delay in force when it
/// arrives. Unless jitter reorders, the order is kept: after a step down, packets wait for those before them.
pub struct VaryingDelay<P> {
    distance: Changing<Nanos>,
    jitter: Changing<Jitter>,
    draws: Draws,
    line: Line<P>,
}

enum Line<P> {
    /// With the time at which each is due, never decreasing.
    InOrder(VecDeque<(Time, Packet<P>)>),
    /// By the time at which each is due, then by arrival.
    Reordering { waiting: BTreeMap<(Time, u64), Packet<P>>, arrivals: u64 },
}

impl<P> VaryingDelay<P> {
    /// A distance, and jitter on top, with its seed. Jitter reorders at all times or never.
    pub fn new(distance: Changing<Nanos>, jitter: Changing<Jitter>, seed: u64) -> Self {
        let line = if jitter.value().reorder {
            Line::Reordering { waiting: BTreeMap::new(), arrivals: 0 }
        } else {
            Line::InOrder(VecDeque::new())
        };
        Self { distance, jitter, draws: Draws::new(seed), line }
    }

    fn draw(&mut self, now: Time) -> Nanos {
        self.distance.advance(now);
        self.jitter.advance(now);
        self.distance.value() + self.draws.draw(&self.jitter.value(), now)
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

    fn change(&mut self, now: Time, change: PathChange) -> Option<PathChange> {
        let PathChange::Delay(delay) = change else { return None };
        Some(PathChange::Delay(self.distance.set(now, delay)))
    }

    fn least(&self) -> Nanos {
        self.distance.values().min().unwrap_or(Nanos::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitter::DrawSpan;
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
        let steps = [(Nanos::ZERO, Nanos::from_millis(100)), (Nanos::from_millis(10), Nanos::from_millis(20))];
        let mut delay = VaryingDelay::new(Changing::steps(&steps), Jitter::default().into(), 1);
        let left = run(&mut delay, [ms(9), ms(10), ms(95)].into_iter());
        let spans = [100, 99, 20].map(Nanos::from_millis);
        assert_eq!(left, [(0, ms(109), spans[0]), (1, ms(109), spans[1]), (2, ms(115), spans[2])]);
    }

    #[test]
    fn jitter_keeps_or_mixes_the_order() {
        for reorder in [false, true] {
            let jitter = Jitter { max: Some(Nanos::from_millis(5)), reorder, ..Jitter::default() };
            let mut element = VaryingDelay::new(Nanos::from_millis(10).into(), jitter.into(), 3);
            let left = run(&mut element, (0..1000).map(ms));
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
        let jitter = Jitter { mean: Some(Nanos::from_millis(2)), reorder: true, ..Jitter::default() };
        let left = run(&mut VaryingDelay::new(Nanos::ZERO.into(), jitter.into(), 3), (0..50_000).map(ms));
        let mean = left.iter().map(|(_, _, delay)| delay.as_millis_f64()).sum::<f64>() / 50_000.0;
        // 5 standard errors: 0.045.
        assert!((mean - 2.0).abs() < 0.045, "{mean}");
    }

    #[test]
    fn wifi_jitter_keeps_the_order_and_holds_all_behind_a_late_packet() {
        for per in [DrawSpan::Packet, DrawSpan::default()] {
            let jitter = Jitter { wifi: Some(Nanos::from_millis(12)), per: Some(per), ..Jitter::default() };
            let mut element = VaryingDelay::new(Nanos::from_millis(2).into(), jitter.into(), 5);
            let at = |number: u64| Time::from_nanos(number * 100_000);
            let left = run(&mut element, (0..500_000).map(at));
            assert!(left.iter().map(|(body, ..)| *body).eq(0..500_000), "{per:?}");
            assert!(left.windows(2).all(|pair| pair[0].1 <= pair[1].1));
            assert!(
                left.iter().all(|(body, due, delay)| *due == at(*body) + *delay && *delay >= Nanos::from_millis(2))
            );
            let together = left.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
            assert!(together > 100_000, "{per:?}: {together}");
        }
    }

    #[test]
    fn a_step_of_jitter_changes_only_what_comes_from_then_on() {
        let max = |millis| Jitter { max: Some(Nanos::from_millis(millis)), reorder: true, ..Jitter::default() };
        let of = |jitter| run(&mut VaryingDelay::new(Nanos::ZERO.into(), jitter, 3), (0..2000).map(ms));
        let (plain, stepped) =
            (of(max(5).into()), of(Changing::steps(&[(Nanos::ZERO, max(5)), (Nanos::from_secs(1), max(50))])));
        let by_number = |left: Vec<(u64, Time, Nanos)>| {
            let mut delays: Vec<(u64, Nanos)> = left.into_iter().map(|(body, _, delay)| (body, delay)).collect();
            delays.sort();
            delays
        };
        let (plain, stepped) = (by_number(plain), by_number(stepped));
        assert_eq!(plain[..1000], stepped[..1000]);
        // The stream of draws goes on: ten times the same ones.
        let ratio = |one: &(u64, Nanos), other: &(u64, Nanos)| other.1.as_millis_f64() / one.1.as_millis_f64();
        assert!(plain[1000..].iter().zip(&stepped[1000..]).all(|(one, other)| (ratio(one, other) - 10.0).abs() < 0.01));
    }
}
