//! Verus's delay profile: the RTT that packets sent under each window have seen, and the curve fitted through it.
//!
//! Source: Verus section 4.2 and the authors' release (`verus_server.cpp`, `delayProfile_thread`, `calcDelayCurve`,
//! `calcDelayCurveInv`). What differs:
//!
//! - The curve is an isotonic regression through the points, averaged over the release's number of nodes and joined by
//!   monotone cubics, instead of a penalised spline that may fall: a falling curve has no inverse.
//! - Beyond the largest window learnt the curve goes on with the slope of its last tenth, or of the whole where that is
//!   more ([`LEAST_REACH`]), [`REACH`] far and one packet at least: each round trip learns a larger one. The release
//!   starts over with slow start there, which punishes a channel that has become better.
//! - Windows that were lost are forgotten, and tried again a [`RETRY`]th more at a fit, then twice that, four times,
//!   ...
//! - Points not refreshed for [`MAX_AGE`] are dropped. The release keeps them for ever, so that the profile of one cell
//!   poisons the next one.

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
/// How far beyond the largest window learnt the curve may be used, in ms of delay (our choice: one step of the target).
/// Where the curve is flat, that is as many packets again.
pub const REACH: f64 = 2.0;

/// The slope of the whole curve counts only as far as it leaves this share of the largest window learnt to be tried (our
/// choice: large windows are learnt when a channel is fast, so that the curve's end is flat and would double the window on
/// one that has become slow; a fifth is the reach of the release's slope at 40 ms).
pub const LEAST_REACH: f64 = 0.2;
/// Windows that were lost are tried again by this part more (our choice: on a fat path one packet a second would take
/// minutes, and a sixteenth overflows a short buffer by few packets).
pub const RETRY: usize = 16;

/// The points learnt, and the curve last fitted through them. Delays are in ms, windows in packets.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Indexed by window; entry 0 is never learnt.
    points: Vec<Point>,
    /// Indexed by window, entry 0 unused; empty before the first fit. Strictly increasing.
    curve: Vec<f64>,
    /// Slope in ms a packet beyond the curve's end.
    slope: f64,
    /// Largest window learnt, or the curve's end if that is larger.
    top: usize,
    /// Largest window to be tried after a loss.
    bound: Option<usize>,
    /// How far the bound moves once a packet sent under it has come through.
    step: usize,
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
        self.top = self.top.max(window);
    }

    /// Packets sent under `window` were lost: nothing is known of it and of larger ones any more. They are tried again
    /// a [`RETRY`]th more at the next fit, then twice that, four times, ... until the next loss.
    pub fn forget_from(&mut self, window: u64) {
        let window = usize::try_from(window).unwrap_or(usize::MAX).clamp(2, MAX_WINDOW);
        for point in self.points.iter_mut().skip(window) {
            *point = Point::default();
        }
        if self.curve.len() > window {
            self.curve.truncate(window);
            self.extend();
        }
        self.find_top();
        self.bound = Some(window - 1);
        self.step = (window / RETRY).max(1);
    }

    /// Windows with a point.
    pub fn learnt(&self) -> usize {
        self.points.iter().filter(|point| point.delay > 0.0).count()
    }

    /// A loss has bounded the windows to be tried.
    pub fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    fn find_top(&mut self) {
        let learnt = self.points.iter().rposition(|point| point.delay > 0.0).unwrap_or(0);
        self.top = learnt.max(self.max_window());
    }

    /// Largest window of the fitted curve; zero before the first fit.
    pub fn max_window(&self) -> usize {
        self.curve.len().saturating_sub(1)
    }

    /// A curve has been fitted.
    pub fn fitted(&self) -> bool {
        !self.curve.is_empty()
    }

    /// The delay in ms of the largest window learnt; infinite before the first fit.
    pub fn end(&self) -> f64 {
        if self.fitted() { self.delay_of(self.top as f64, 0.0) } else { f64::INFINITY }
    }

    /// Fits the curve again; without any points the old one stays.
    pub fn fit(&mut self, now: Time) {
        self.regress(now);
        let Some(last) = self.blocks.last() else { return };
        let max = last.last;
        self.place_nodes(max);
        self.draw(max);
        self.extend();
        self.find_top();
        if let Some(bound) = self.bound.filter(|bound| self.top >= *bound) {
            self.bound = Some(bound + self.step);
            self.step = (2 * self.step).min(MAX_WINDOW);
        }
    }

    /// The slope beyond the curve's end is that of its last tenth, or of the whole.
    fn extend(&mut self) {
        let max = self.max_window();
        let from = (max - (max / 10).max(1)).max(1);
        let measured = if from < max { (self.curve[max] - self.curve[from]) / (max - from) as f64 } else { 0.0 };
        let whole = (self.curve[max] - self.curve[1]) / max as f64;
        let flat = REACH / max as f64;
        self.slope = measured.max(whole.clamp(flat, flat / LEAST_REACH));
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

    /// The largest whole window whose delay is at most `delay_ms`, at least 1. Beyond the largest window learnt it goes
    /// [`REACH`] further, or one packet if that is more, but not past what a loss has bounded.
    pub fn window_for(&self, delay_ms: f64) -> f64 {
        if !self.fitted() {
            return self.raw_window_for(delay_ms);
        }
        let within = self.curve[1..].partition_point(|delay| *delay <= delay_ms);
        let max = self.max_window();
        let window = if within < max {
            within.max(1) as f64
        } else {
            let top = self.top as f64;
            let window = max as f64 + (delay_ms - self.curve[max]) / self.slope;
            if window <= top { window.floor() } else { window.min(top + REACH / self.slope).max(top + 1.0).floor() }
        };
        window.min(self.bound.unwrap_or(MAX_WINDOW).min(MAX_WINDOW) as f64)
    }

    /// Before the first fit: one less than the smallest window that has seen more delay.
    fn raw_window_for(&self, delay_ms: f64) -> f64 {
        let over = self.points.iter().skip(2).position(|point| point.delay > delay_ms);
        let largest = || self.points.iter().rposition(|point| point.delay > 0.0).unwrap_or(1);
        over.map_or_else(largest, |index| index + 1).max(1) as f64
    }

    /// Pool-adjacent-violators: `blocks` become the non-decreasing step function nearest to the points. Old points go.
    fn regress(&mut self, now: Time) {
        self.blocks.clear();
        for (window, point) in self.points.iter_mut().enumerate().filter(|(_, point)| point.delay > 0.0) {
            if now.since(point.refreshed) > MAX_AGE {
                *point = Point::default();
                continue;
            }
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
mod tests;
