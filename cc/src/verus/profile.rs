//! Verus's delay profile: the RTT that packets sent under each window have seen, and the curve fitted through it.
//!
//! Source: Verus section 4.2 and the authors' release (`verus_server.cpp`, `delayProfile_thread`,
//! `calcDelayCurve`, `calcDelayCurveInv`). What differs:
//!
//! - The curve is an isotonic regression through the points, averaged over the release's number of nodes and joined
//!   by monotone cubics, instead of a penalised spline that may fall: a falling curve has no inverse.
//! - Beyond the largest window learnt the curve goes on with the slope of its last tenth. The release starts over with
//!   slow start there, which punishes a channel that has become better.
//! - Points not refreshed for [`MAX_AGE`] are dropped. The release keeps them for ever, so that the profile of one
//!   cell poisons the next one.

use crate::units::{Nanos, Time};

/// Largest window in packets with a point of its own (`MAX_W_DELAY_CURVE` of the release).
pub const MAX_WINDOW: usize = 40_000;
/// Points older than this do not count (our choice: a minute is longer than a fade and shorter than a drive between
/// two cells).
pub const MAX_AGE: Nanos = Nanos::from_secs(60);
/// Weight of the old value in a point's average (the release, `updateUponReceivingPacket`).
const OLD_WEIGHT: f64 = 0.875;
/// Window sizes for each node of the curve (`N` of the release).
const NODE_SPAN: usize = 15;
/// Fewest nodes (the release refuses a spline with four basis functions or fewer).
const MIN_NODES: usize = 4;
/// Smallest rise of the curve in ms a packet (our choice: enough to make it invertible, too little to be seen).
const MIN_RISE: f64 = 1e-6;

/// The points learnt, and the curve last fitted through them. Delays are in ms, windows in packets.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Indexed by window; entry 0 is never learnt.
    points: Vec<Point>,
    /// Indexed by window, entry 0 unused; empty before the first fit. Strictly increasing.
    curve: Vec<f64>,
    /// Slope in ms a packet beyond the curve's end.
    slope: f64,
    blocks: Vec<Block>,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Point {
    /// Zero: not learnt.
    delay: f64,
    refreshed: Time,
}

/// A run of neighbouring points with one common delay: the unit of isotonic regression.
#[derive(Clone, Copy, Debug)]
struct Block {
    last: usize,
    sum: f64,
    count: f64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    window: f64,
    delay: f64,
    slope: f64,
}

impl Block {
    fn mean(&self) -> f64 {
        self.sum / self.count
    }
}

impl Profile {
    /// Adds one RTT seen by a packet that was sent under `window`. Windows of zero and beyond [`MAX_WINDOW`] are not
    /// learnt.
    pub fn learn(&mut self, window: u64, delay_ms: f64, now: Time) {
        let Ok(window) = usize::try_from(window) else { return };
        if window == 0 || window > MAX_WINDOW || delay_ms <= 0.0 {
            return;
        }
        if window >= self.points.len() {
            self.points.resize((window + 1).next_power_of_two().clamp(64, MAX_WINDOW + 1), Point::default());
        }
        let point = &mut self.points[window];
        point.delay =
            if point.delay > 0.0 { OLD_WEIGHT * point.delay + (1.0 - OLD_WEIGHT) * delay_ms } else { delay_ms };
        point.refreshed = now;
    }

    /// Largest window of the fitted curve; zero before the first fit.
    pub fn max_window(&self) -> usize {
        self.curve.len().saturating_sub(1)
    }

    /// A curve has been fitted.
    pub fn fitted(&self) -> bool {
        !self.curve.is_empty()
    }

    /// The delay in ms at the curve's end; infinite before the first fit.
    pub fn end(&self) -> f64 {
        self.curve.last().copied().unwrap_or(f64::INFINITY)
    }

    /// Fits the curve again; without any points the old one stays. `d_min_ms` bounds the slope beyond the end.
    pub fn fit(&mut self, now: Time, d_min_ms: f64) {
        for point in &mut self.points {
            if now.since(point.refreshed) > MAX_AGE {
                *point = Point::default();
            }
        }
        self.regress();
        let Some(last) = self.blocks.last() else { return };
        let max = last.last;
        self.place_nodes(max);
        self.draw(max);
        let tail = (max / 10).max(1);
        let from = max.saturating_sub(tail).max(1);
        let measured = if from < max { (self.curve[max] - self.curve[from]) / (max - from) as f64 } else { 0.0 };
        self.slope = measured.max(d_min_ms / (4.0 * max as f64)).max(MIN_RISE);
    }

    /// The delay in ms that `window` packets lead to, never below `d_min_ms`.
    pub fn delay_of(&self, window: f64, d_min_ms: f64) -> f64 {
        let delay = if self.fitted() {
            let max = self.max_window();
            let at = (window as usize).clamp(1, max);
            self.curve[at] + self.slope * (window - max as f64).max(0.0)
        } else {
            let below = self.points.len().min((window as usize).saturating_add(1));
            self.points[..below].iter().rev().map(|point| point.delay).find(|delay| *delay > 0.0).unwrap_or(d_min_ms)
        };
        delay.max(d_min_ms)
    }

    /// The largest whole window whose delay is at most `delay_ms`, at least 1. Beyond the curve's end it goes at most
    /// `reach_ms` of delay further.
    pub fn window_for(&self, delay_ms: f64, reach_ms: f64) -> f64 {
        if !self.fitted() {
            return self.raw_window_for(delay_ms);
        }
        let within = self.curve[1..].partition_point(|delay| *delay <= delay_ms);
        let max = self.max_window();
        if within < max {
            return within.max(1) as f64;
        }
        let beyond = (delay_ms - self.curve[max]).min(reach_ms) / self.slope;
        (max as f64 + beyond).floor().min(MAX_WINDOW as f64)
    }

    /// Before the first fit: one less than the smallest window that has seen more delay.
    fn raw_window_for(&self, delay_ms: f64) -> f64 {
        let over = self.points.iter().skip(2).position(|point| point.delay > delay_ms);
        let largest = || self.points.iter().rposition(|point| point.delay > 0.0).unwrap_or(1);
        over.map_or_else(largest, |index| index + 1).max(1) as f64
    }

    /// Pool-adjacent-violators: `blocks` become the non-decreasing step function nearest to the points.
    fn regress(&mut self) {
        self.blocks.clear();
        for (window, point) in self.points.iter().enumerate().filter(|(_, point)| point.delay > 0.0) {
            let mut block = Block { last: window, sum: point.delay, count: 1.0 };
            while let Some(before) = self.blocks.last().filter(|before| before.mean() >= block.mean()) {
                block.sum += before.sum;
                block.count += before.count;
                self.blocks.pop();
            }
            self.blocks.push(block);
        }
    }

    /// One node for each span of windows, at the mean of the points in it, and one at either end.
    fn place_nodes(&mut self, max: usize) {
        self.nodes.clear();
        let span = max.div_ceil((max / NODE_SPAN).max(MIN_NODES));
        let mut block = 0;
        let mut sum = (0.0, 0.0, 0.0);
        let mut end = span;
        for (window, point) in self.points.iter().enumerate().take(max + 1) {
            if point.delay <= 0.0 {
                continue;
            }
            if window > self.blocks[block].last {
                block += 1;
            }
            let delay = self.blocks[block].mean();
            if self.nodes.is_empty() {
                self.nodes.push(Node { window: window as f64, delay, slope: 0.0 });
            }
            if window > end {
                push_mean(&mut self.nodes, sum);
                sum = (0.0, 0.0, 0.0);
                end = window.div_ceil(span) * span;
            }
            sum = (sum.0 + window as f64, sum.1 + delay, sum.2 + 1.0);
        }
        push_mean(&mut self.nodes, sum);
        push_mean(&mut self.nodes, (max as f64, self.blocks[block].mean(), 1.0));
    }

    /// Fills the curve by monotone cubic Hermite pieces between the nodes (slopes after Fritsch and Butland, 1984).
    fn draw(&mut self, max: usize) {
        let nodes = &mut self.nodes;
        let secant = |a: &Node, b: &Node| (b.delay - a.delay) / (b.window - a.window);
        for index in 1..nodes.len().saturating_sub(1) {
            let before = secant(&nodes[index - 1], &nodes[index]);
            let after = secant(&nodes[index], &nodes[index + 1]);
            nodes[index].slope =
                if before > 0.0 && after > 0.0 { 2.0 * before * after / (before + after) } else { 0.0 };
        }
        if let [first, second, ..] = nodes.as_mut_slice() {
            first.slope = secant(first, second);
        }
        if let [.., second, last] = nodes.as_mut_slice() {
            last.slope = secant(second, last);
        }

        self.curve.clear();
        self.curve.reserve(max + 1);
        self.curve.push(0.0);
        let mut piece = 0;
        let mut floor = 0.0;
        for window in 1..=max {
            let at = window as f64;
            while piece + 2 < nodes.len() && at > nodes[piece + 1].window {
                piece += 1;
            }
            let from = nodes[piece];
            let value = match nodes.get(piece + 1) {
                Some(to) if at > from.window => hermite(&from, to, at),
                _ => from.delay,
            };
            let value = value.max(floor);
            self.curve.push(value);
            floor = value + MIN_RISE;
        }
    }
}

fn push_mean(nodes: &mut Vec<Node>, (window, delay, count): (f64, f64, f64)) {
    if count == 0.0 {
        return;
    }
    let node = Node { window: window / count, delay: delay / count, slope: 0.0 };
    if nodes.last().is_none_or(|last| node.window > last.window) {
        nodes.push(node);
    }
}

fn hermite(from: &Node, to: &Node, at: f64) -> f64 {
    let width = to.window - from.window;
    let t = (at - from.window) / width;
    let (t2, t3) = (t * t, t * t * t);
    (2.0 * t3 - 3.0 * t2 + 1.0) * from.delay
        + (t3 - 2.0 * t2 + t) * width * from.slope
        + (3.0 * t2 - 2.0 * t3) * to.delay
        + (t3 - t2) * width * to.slope
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    const REACH: f64 = 2.0;

    /// The profile of a link with an RTT of 21 ms and one packet a millisecond.
    fn link() -> Profile {
        let mut profile = Profile::default();
        for window in 1..=200 {
            profile.learn(window, 21.0f64.max(window as f64), Time::ZERO);
        }
        profile.fit(Time::ZERO, 21.0);
        profile
    }

    #[test]
    fn a_link_is_learnt() {
        let profile = link();
        assert!((profile.delay_of(150.0, 21.0) - 150.0).abs() < 0.5);
        assert!((profile.delay_of(5.0, 21.0) - 21.0).abs() < 0.5);
        assert!((profile.window_for(100.0, REACH) - 100.0).abs() <= 1.0);
        assert_eq!(profile.window_for(1.0, REACH), 1.0);
    }

    #[test]
    fn beyond_the_end_the_slope_goes_on_but_not_far() {
        let profile = link();
        assert!((profile.window_for(201.0, REACH) - 201.0).abs() <= 1.0);
        assert!((profile.window_for(900.0, REACH) - 202.0).abs() <= 1.0);
        assert!((profile.delay_of(210.0, 21.0) - 210.0).abs() < 0.5);
    }

    #[test]
    fn without_a_curve_the_points_answer() {
        let mut profile = Profile::default();
        assert_eq!(profile.window_for(50.0, REACH), 1.0);
        assert_eq!(profile.delay_of(7.0, 20.0), 20.0);
        profile.learn(1, 20.0, Time::ZERO);
        profile.learn(4, 30.0, Time::ZERO);
        profile.learn(9, 60.0, Time::ZERO);
        assert_eq!(profile.delay_of(7.5, 20.0), 30.0);
        assert_eq!(profile.window_for(45.0, REACH), 8.0);
        assert_eq!(profile.window_for(70.0, REACH), 9.0);
    }

    #[test]
    fn averages_and_forgets() {
        let mut profile = Profile::default();
        profile.learn(10, 80.0, Time::ZERO);
        profile.learn(10, 160.0, Time::ZERO);
        assert_eq!(profile.delay_of(10.0, 1.0), 90.0);
        profile.learn(5, 40.0, Time::ZERO + Nanos::from_secs(30));
        profile.fit(Time::ZERO + Nanos::from_secs(61), 1.0);
        assert_eq!(profile.max_window(), 5);
        // Nothing is left to fit: the old curve stays.
        profile.fit(Time::ZERO + Nanos::from_secs(600), 1.0);
        assert_eq!(profile.max_window(), 5);
    }

    #[test]
    fn what_cannot_be_learnt_is_ignored() {
        let mut profile = Profile::default();
        profile.learn(0, 10.0, Time::ZERO);
        profile.learn(u64::MAX, 10.0, Time::ZERO);
        profile.learn(5, 0.0, Time::ZERO);
        profile.fit(Time::ZERO, 1.0);
        assert!(!profile.fitted());
        profile.learn(MAX_WINDOW as u64, 10.0, Time::ZERO);
        profile.fit(Time::ZERO, 1.0);
        assert_eq!(profile.max_window(), MAX_WINDOW);
    }

    #[test]
    fn any_points_give_a_finite_rising_invertible_curve() {
        for seed in 0..200 {
            let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
            let mut profile = Profile::default();
            let top = 1 + random.random_range(1..600u64);
            for _ in 0..random.random_range(1..400) {
                profile.learn(random.random_range(1..=top), random.random_range(0.1..900.0), Time::ZERO);
            }
            let d_min = random.random_range(0.1..50.0);
            profile.fit(Time::ZERO, d_min);
            let max = profile.max_window();
            assert!(max >= 1);
            for window in 1..=max {
                assert!(profile.curve[window].is_finite() && profile.curve[window] > profile.curve[window - 1]);
            }
            for window in 1..=max + 20 {
                let back = profile.window_for(profile.delay_of(window as f64, d_min), f64::INFINITY);
                if profile.delay_of(window as f64, d_min) > d_min {
                    assert!(back <= window as f64 + 1.0, "seed {seed}: {window} came back as {back}");
                }
                assert!(back >= window as f64 - 1.0, "seed {seed}: {window} came back as {back}");
            }
        }
    }
}
