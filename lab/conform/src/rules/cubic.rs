//! CUBIC: RFC 9438.

use super::{rate_limited, reno, start};
use crate::episodes::{Episode, episodes, stretches};
use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::{Trajectory, TrajectoryPoint, median};

const WHO: &str = "cubic";
/// C in packets/s³ (RFC 9438 section 5.1).
const C: f64 = 0.4;
/// Steepnesses that are tried (our choice: steps of 3 % from a tenth to ten times C).
const STEEPNESSES: i32 = 156;
/// How near to W_max a window cannot be said to be above or below (our choice: whole packets, and growth while a loss is found).
const NEAR: f64 = 0.03;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cubic-beta",
        controller: WHO,
        says: "a loss leaves 0.7 of the window",
        source: "RFC 9438 section 4.6",
        measures: "window after a reduction over that before, median",
        expect: (0.67, 0.74),
        tolerance: "whole packets; the flight instead of the window may be taken",
        rig: Rig::Long,
        needs: &[],
        measure: reno::kept,
    },
    Rule {
        id: "cubic-curve",
        controller: WHO,
        says: "after a reduction the window follows W(t) = C (t - K)^3 + W_max with C = 0.4",
        source: "RFC 9438 section 4.2",
        measures: "C that fits best, packets/s^3, median",
        expect: (0.3, 0.53),
        tolerance: "where the curve begins is known to half a round trip: a quarter to a third of C",
        rig: Rig::Long,
        needs: &[],
        measure: curve,
    },
    Rule {
        id: "cubic-fast-convergence",
        controller: WHO,
        says: "a reduction below W_max aims at (1 + beta)/2 of the window, not at the window",
        source: "RFC 9438 section 4.7",
        measures: "plateau over the window before the reduction, less (1 + beta)/2, median of two or more consecutive reductions below W_max",
        expect: (-0.06, 0.06),
        tolerance: "the plateau without fast convergence is 0.15 higher",
        rig: Rig::Falling,
        needs: &[],
        measure: convergence,
    },
    Rule {
        id: "cubic-reno-friendly",
        controller: WHO,
        says: "on short paths the window grows by 3 (1 - beta)/(1 + beta) packets in a round trip, as Reno's would on average",
        source: "RFC 9438 section 4.3",
        measures: "growth up to the old window over what the equation gives, median",
        expect: (0.75, 1.3),
        tolerance: "whole packets of windows of about 30",
        rig: Rig::Short,
        needs: &[],
        measure: friendly,
    },
    Rule {
        id: "cubic-slow-start-exit",
        controller: WHO,
        says: "slow start ends before packets are lost (HyStart)",
        source: "RFC 9438 section 4.10, RFC 9406; Linux tcp_cubic.c, hystart",
        measures: "window at the first loss over that of a round trip before",
        expect: (0.9, 1.35),
        tolerance: "slow start doubles; congestion avoidance adds 5 % before the first loss",
        rig: Rig::Long,
        needs: &[],
        measure: start::growth_before_loss,
    },
    Rule { id: "cubic-once", controller: WHO, source: "RFC 9438 section 4.6", rig: Rig::Long, ..reno::ONCE },
    rate_limited::CUBIC,
];

/// One stage between two reductions, as the curve sees it.
struct Stage<'a> {
    from: Episode,
    to: Episode,
    points: Vec<&'a TrajectoryPoint>,
    ahead: f64,
}

impl<'a> Stage<'a> {
    fn of(trajectory: &'a Trajectory, from: Episode, to: Episode) -> Option<Self> {
        let ahead = trajectory.min_rtt()?;
        let all = trajectory.between(from.settled + ahead, to.start);
        // A hundred points show a curve.
        let points: Vec<&TrajectoryPoint> = all.iter().step_by(all.len() / 100 + 1).collect();
        (points.len() >= 10).then_some(Self { from, to, points, ahead })
    }

    /// Mean distance from the curve with this plateau, as a share of the window.
    fn error(&self, plateau: f64, c: f64) -> f64 {
        let plateau = plateau.max(self.from.after);
        let k = ((plateau - self.from.after) / c).cbrt();
        let error = |point: &&TrajectoryPoint| {
            let t = point.t - self.from.settled + self.ahead - k;
            (point.window - (plateau + c * t.powi(3))).abs() / point.window.max(1.0)
        };
        self.points.iter().map(error).sum::<f64>() / self.points.len() as f64
    }

    fn kept(&self) -> f64 {
        self.from.ratio()
    }

    /// Long enough to show the curve, and steeper than Reno: the window comes near to its plateau, which Reno would not reach.
    fn is_cubic(&self, trajectory: &Trajectory) -> bool {
        let k = ((self.from.before - self.from.after).max(0.0) / C).cbrt();
        let lasts = self.to.start - self.from.settled;
        let beta = self.kept().clamp(0.1, 0.99);
        let reno = 3.0 * (1.0 - beta) / (1.0 + beta) * trajectory.rounds(self.from.settled, self.to.start);
        lasts > 0.5 * k && lasts > 10.0 * self.ahead && self.from.after + reno < 0.95 * self.to.before
    }
}

fn stages(of: &Trajectory) -> Vec<Stage<'_>> {
    stretches(&episodes(of)).into_iter().filter_map(|(from, to)| Stage::of(of, from, to)).collect()
}

/// The steepness that fits best, with the better of the two plateaus that RFC 9438 has: fast convergence is another rule.
fn curve(of: &Trajectory) -> Result<Seen, &'static str> {
    let mut spans = Vec::new();
    for stage in stages(of).iter().filter(|stage| stage.is_cubic(of)) {
        let shrunk = stage.from.before * f64::midpoint(1.0, stage.kept());
        let tries = (0..STEEPNESSES).flat_map(|step| {
            let c = 0.1 * C * 1.03_f64.powi(step);
            [(stage.error(stage.from.before, c), c), (stage.error(shrunk, c), c)]
        });
        if let Some((_, value)) = tries.min_by(|a, b| a.0.total_cmp(&b.0)) {
            spans.push(TrajectorySpan { from: stage.from.settled, to: stage.to.start, value });
        }
    }
    Seen::median(spans).ok_or("no stage between two losses is long enough for the curve to show")
}

/// What W_max may be after a reduction, in packets.
#[derive(Clone, Copy)]
struct Maximum {
    low: f64,
    high: f64,
}

impl Maximum {
    /// That after the next reduction, and whether the window came clearly below this one (RFC 9438 section 4.7). Where it came near,
    /// both of the RFC's cases may hold.
    fn next(self, reduction: Episode, beta: f64) -> (Self, bool) {
        let (raw, shrunk) = (reduction.before, reduction.before * f64::midpoint(1.0, beta));
        if raw < (1.0 - NEAR) * self.low {
            (Self { low: shrunk, high: shrunk }, true)
        } else if raw > (1.0 + NEAR) * self.high {
            (Self { low: raw, high: raw }, false)
        } else {
            (Self { low: shrunk, high: raw }, false)
        }
    }
}

/// Reductions that came clearly below W_max, with the next or the one before: where they are, in order.
fn consecutive(all: &[Episode], beta: f64) -> Vec<usize> {
    let mut last: Option<Maximum> = None;
    let below: Vec<bool> = all
        .iter()
        .map(|one| {
            // After a timeout W_max is that of slow start's end: unknown here.
            let (next, below) = match last.filter(|_| !one.timeout) {
                Some(last) => last.next(*one, beta),
                None => (Maximum { low: one.before, high: one.before }, false),
            };
            last = (!one.timeout).then_some(next);
            below
        })
        .collect();
    let near = |at: usize| below.get(at).copied().unwrap_or(false);
    (0..all.len()).filter(|&at| near(at) && (near(at + 1) || at > 0 && near(at - 1))).collect()
}

/// The plateau after each of two or more consecutive reductions below W_max.
fn convergence(of: &Trajectory) -> Result<Seen, &'static str> {
    let all = episodes(of);
    let beta = median(all.iter().filter(|one| !one.timeout).map(Episode::ratio).collect()).unwrap_or(0.7);
    let shrinking = consecutive(&all, beta);
    if shrinking.is_empty() {
        return Err("no two consecutive reductions came clearly below W_max");
    }
    let mut spans = Vec::new();
    for at in shrinking {
        let Some(to) = all.get(at + 1) else { continue };
        let Some(stage) = Stage::of(of, all[at], *to).filter(|stage| stage.is_cubic(of)) else { continue };
        let from = stage.from;
        let steps = (0..=80).map(|step| 0.6 + 0.01 * f64::from(step));
        let best = steps.map(|share| (stage.error(share * from.before, C), share)).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, share)) = best {
            let value = share - f64::midpoint(1.0, stage.kept());
            spans.push(TrajectorySpan { from: from.settled, to: to.start, value });
        }
    }
    Seen::median(spans).ok_or("no whole curve follows two consecutive reductions below W_max")
}

/// Growth up to the old window, by the equation of what was kept.
fn friendly(of: &Trajectory) -> Result<Seen, &'static str> {
    let all = episodes(of);
    let beta = median(all.iter().filter(|one| !one.timeout).map(Episode::ratio).collect()).unwrap_or(0.7);
    let alpha = 3.0 * (1.0 - beta) / (1.0 + beta);
    let mut spans = Vec::new();
    for (from, to) in stretches(&all) {
        let (Some(rtt), goal) = (of.rtt_at(from.settled), 0.97 * from.before) else { continue };
        let k = ((from.before - from.after).max(0.0) / C).cbrt();
        // Where Reno would not be twice as fast as the cubic, its growth does not show.
        if (goal - from.after) / alpha * rtt > 0.5 * k {
            continue;
        }
        // Past the old window the slope is Reno's own.
        let points = of.between(from.settled, to.start);
        let reached = points.iter().find(|point| point.window >= goal).map_or(to.start, |point| point.t);
        let rounds = of.rounds(from.settled, reached);
        let window = of.window_at(reached).unwrap_or(from.after);
        if rounds >= 5.0 {
            spans.push(TrajectorySpan {
                from: from.settled,
                to: reached,
                value: (window - from.after) / rounds / alpha,
            });
        }
    }
    Seen::median(spans).ok_or("the cubic was never slower than Reno")
}
