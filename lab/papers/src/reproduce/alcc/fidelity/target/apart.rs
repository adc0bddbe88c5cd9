//! How far figures of runs are from native, within pairs of runs, and the verdict on them.

use std::fmt;

use super::super::super::run::{CLOSE_MS, Run};
use paceline_lab::stats::Median;

/// How far a figure may be from native, %.
pub(super) const TARGET: f64 = 5.0;
/// What the paper's summary allows, %.
pub(super) const PAPER: f64 = 10.0;

/// A figure of a run.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) of: fn(&Run) -> f64,
}

/// What a figure is counted in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Rate,
    Delay,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "Mbit/s",
            Self::Delay => "ms",
        })
    }
}

/// How far a row's judged figures are from native.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Within our target.
    Target,
    /// Within what the paper allows.
    Paper,
    /// Further.
    Outside,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Target => "within 5 %",
            Self::Paper => "within 10 %",
            Self::Outside => "**outside**",
        })
    }
}

/// A verdict, and whether the intervals leave it open.
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) open: bool,
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.verdict, if self.open { ", open" } else { "" })
    }
}

/// The figures; the target is about the first three.
pub(super) const FIGURES: [Figure; 4] = [
    Figure { name: "throughput", unit: Unit::Rate, of: |run| run.mbps },
    Figure { name: "median delay", unit: Unit::Delay, of: |run| run.delay(50) },
    Figure { name: "95th percentile of the delay", unit: Unit::Delay, of: |run| run.delay(95) },
    Figure { name: "95th percentile of the queueing delay after 5 s", unit: Unit::Delay, of: |run| run.later },
];
pub(super) const JUDGED: usize = 3;

/// A figure over pairs of runs.
pub(super) struct Apart {
    pub(super) native: Median,
    pub(super) above: Median,
    /// Differences within pairs, % of native.
    pub(super) percent: Median,
    /// And in the figure's own unit.
    pub(super) plain: f64,
    pub(super) delay: bool,
}

impl Apart {
    pub(super) fn of(figure: &Figure, above: &[Run], native: &[Run]) -> Option<Self> {
        let (above, native): (Vec<f64>, Vec<f64>) = (values(figure, above), values(figure, native));
        let pairs = || above.iter().zip(&native).filter(|(_, native)| **native > 0.0);
        Some(Self {
            percent: Median::of(&pairs().map(|(a, b)| 100.0 * (a / b - 1.0)).collect::<Vec<_>>())?,
            plain: Median::of(&pairs().map(|(a, b)| a - b).collect::<Vec<_>>())?.median,
            native: Median::of(&native)?,
            above: Median::of(&above)?,
            delay: figure.unit == Unit::Delay,
        })
    }

    pub(super) fn within(&self, percent: f64) -> bool {
        self.percent.median.abs() <= percent || (self.delay && self.plain.abs() <= CLOSE_MS)
    }

    /// Whether the whole interval is on the side on which the median is.
    pub(super) fn sure(&self, percent: f64) -> bool {
        if self.delay && self.plain.abs() <= CLOSE_MS {
            return true;
        }
        let inside = self.percent.interval.is_some_and(|(low, high)| -percent <= low && high <= percent);
        if self.within(percent) { inside } else { self.surely_outside(percent) }
    }

    /// Whether the interval has nothing that is within the target.
    pub(super) fn surely_outside(&self, target: f64) -> bool {
        self.percent.interval.is_some_and(|(low, high)| low > target || high < -target)
    }

    /// `-0.4 % (-1.2 to 0.3)`.
    pub(super) fn percent(&self) -> String {
        let interval = self.percent.interval.map(|(low, high)| format!(" ({low:+.1} to {high:+.1})"));
        format!("{:+.1} %{}", self.percent.median, interval.unwrap_or_default())
    }
}

fn values(figure: &Figure, runs: &[Run]) -> Vec<f64> {
    runs.iter().map(figure.of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn pairs_are_compared_and_not_their_medians() {
        // The links differ by a factor of ten, the pairs by 2 %.
        let native: Vec<Run> = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].map(|mbps| run(mbps, 10.0 * mbps)).into();
        let above: Vec<Run> = native.iter().map(|one| run(1.02 * one.mbps, 10.0 * one.mbps + 0.9)).collect();
        let rate = Apart::of(&FIGURES[0], &above, &native).unwrap();
        assert_eq!(rate.percent(), "+2.0 % (+2.0 to +2.0)");
        assert!(rate.within(TARGET) && !rate.within(1.0));
        let delay = Apart::of(&FIGURES[1], &above, &native).unwrap();
        assert!(delay.within(0.1), "closer than a millisecond: {}", delay.percent());
        assert!(Apart::of(&FIGURES[0], &[], &[]).is_none());
    }

    #[test]
    fn an_interval_across_the_border_is_not_sure() {
        let native: Vec<Run> = (0..6).map(|_| run(1.0, 100.0)).collect();
        let apart = |factors: [f64; 6]| {
            let above: Vec<Run> = factors.iter().map(|factor| run(1.0, 100.0 * factor)).collect();
            Apart::of(&FIGURES[1], &above, &native).unwrap()
        };
        let cases = [
            ([1.02, 1.03, 1.03, 1.02, 1.03, 1.04], (true, true)),
            ([0.7, 0.98, 1.01, 1.02, 1.03, 1.2], (true, false)),
            ([1.0, 1.2, 1.3, 1.1, 1.2, 1.3], (false, false)),
            ([1.2, 1.2, 1.3, 1.1, 1.2, 1.3], (false, true)),
        ];
        for (factors, expected) in cases {
            let apart = apart(factors);
            assert_eq!((apart.within(TARGET), apart.sure(TARGET)), expected, "{factors:?}");
        }
        assert!(Apart::of(&FIGURES[1], &[run(1.0, 10.5)], &[run(1.0, 10.0)]).unwrap().sure(TARGET), "closer than 1 ms");
    }

    #[test]
    fn an_open_verdict_says_so() {
        let text = |verdict, open| Judgement { verdict, open }.to_string();
        assert_eq!(text(Verdict::Target, false), "within 5 %");
        assert_eq!(text(Verdict::Paper, true), "within 10 %, open");
        assert_eq!(text(Verdict::Outside, true), "**outside**, open");
    }
}
