//! What several runs of several contestants say together: medians, intervals, and where no difference was found.
//!
//! Intervals are distribution-free: the order statistics of the sample whose binomial coverage of the median is at least
//! 95 % (Conover, *Practical Nonparametric Statistics*, section 3.2). Nothing is drawn, so the same records give the same
//! intervals. Fewer than six runs cannot give one: two of five values cover the median with 93.75 % at best.
//! Contestants meet the same seeds, so two are compared by the differences of their runs, pair by pair. Intervals are
//! not corrected for the number of pairs.

use std::cmp::Ordering;

use crate::record::Record;

/// Fewest runs that give a 95 % interval.
pub const MIN_RUNS: usize = 6;

/// One contestant over all its runs.
#[derive(Clone, Debug)]
pub struct Summary {
    /// `CONTROLLER@VIA`.
    pub contestant: String,
    /// How many runs.
    pub runs: usize,
    /// Mbit/s, headers included.
    pub throughput_mbps: Median,
    /// What the contestant's own flows got of it, where others run beside them.
    pub own_throughput_mbps: Option<Median>,
    /// Share of what the path could have carried.
    pub utilization: Option<Median>,
    /// Median one-way delay, ms.
    pub delay_p50_ms: Option<Median>,
    /// 95th percentile of one-way delay, ms.
    pub delay_p95_ms: Option<Median>,
    /// Where no one-way delay is known: median round trip, ms.
    pub rtt_p50_ms: Option<Median>,
    /// Where no one-way delay is known: 95th percentile of the round trip, ms.
    pub rtt_p95_ms: Option<Median>,
    /// 95th percentile of queueing delay, ms.
    pub queue_p95_ms: Option<Median>,
    /// Share of data packets dropped.
    pub loss: Median,
    /// Packets sent again; none where a program does not show them.
    pub retransmits: Option<Median>,
    /// Median flow completion time, ms.
    pub fct_p50_ms: Option<Median>,
    /// Jain's index.
    pub jain: Option<Median>,
    /// Real world: CPU time of the contestant's endpoints, share of one core.
    pub cpu: Option<Median>,
    /// Real world: how many runs show the path rather than the host ([`Record::trusted`]).
    pub trusted: Option<usize>,
}

/// The middle of a sample and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// Half of the values lie below.
    pub median: f64,
    /// A quarter lies below.
    pub q25: f64,
    /// Three quarters lie below.
    pub q75: f64,
    /// 95 % confidence interval of the median; `None` with fewer than [`MIN_RUNS`] values.
    pub interval: Option<(f64, f64)>,
}

/// What the runs say of two contestants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first has more.
    More,
    /// The first has less.
    Less,
    /// The interval of the paired differences includes zero.
    NoDifference,
    /// Not enough runs for an interval.
    TooFewRuns,
}

impl Verdict {
    /// How the first compares with the second; `None` with too few runs.
    pub fn order(self) -> Option<Ordering> {
        match self {
            Self::More => Some(Ordering::Greater),
            Self::Less => Some(Ordering::Less),
            Self::NoDifference => Some(Ordering::Equal),
            Self::TooFewRuns => None,
        }
    }
}

impl Summary {
    /// Summary of the records of one contestant; `None` without records.
    pub fn of(records: &[&Record]) -> Option<Self> {
        let over = |value: &dyn Fn(&Record) -> Option<f64>| {
            let values: Vec<f64> = records.iter().filter_map(|record| value(record)).collect();
            Median::of(&values)
        };
        Some(Self {
            contestant: records.first()?.contestant(),
            runs: records.len(),
            throughput_mbps: over(&|r| Some(r.throughput_mbps))?,
            own_throughput_mbps: over(&|r| r.own_throughput_mbps),
            utilization: over(&|r| r.utilization),
            delay_p50_ms: over(&|r| r.delay_ms.map(|d| d.p50)),
            delay_p95_ms: over(&|r| r.delay_ms.map(|d| d.p95)),
            rtt_p50_ms: over(&|r| r.rtt_ms.filter(|_| r.clock.is_some()).map(|d| d.p50)),
            rtt_p95_ms: over(&|r| r.rtt_ms.filter(|_| r.clock.is_some()).map(|d| d.p95)),
            queue_p95_ms: over(&|r| r.queue_ms.map(|d| d.p95)),
            loss: over(&|r| Some(r.loss))?,
            retransmits: over(&|r| r.retransmits.map(|packets| packets as f64)),
            fct_p50_ms: over(&|r| r.fct_ms.map(|d| d.p50)),
            jain: over(&|r| r.jain),
            cpu: over(&|r| r.cpu_s.filter(|_| r.trusted.is_some()).map(|cpu| cpu / r.seconds)),
            trusted: records
                .iter()
                .any(|r| r.trusted.is_some())
                .then(|| records.iter().filter(|r| r.trusted == Some(true)).count()),
        })
    }

    /// One for each contestant, in the order in which they first appear.
    pub fn all<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<Self> {
        by_contestant(records).iter().filter_map(|(_, group)| Self::of(group)).collect()
    }
}

impl Median {
    /// Of a sample; `None` when it is empty.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5)?,
            q25: quantile(&sorted, 0.25)?,
            q75: quantile(&sorted, 0.75)?,
            interval: interval(&sorted),
        })
    }
}

/// Compares two contestants by the differences of their paired runs (the same seed and number in both).
pub fn compare(first: &[f64], second: &[f64]) -> Verdict {
    let mut differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    differences.sort_unstable_by(f64::total_cmp);
    match interval(&differences) {
        None => Verdict::TooFewRuns,
        Some((low, _)) if low > 0.0 => Verdict::More,
        Some((_, high)) if high < 0.0 => Verdict::Less,
        Some(_) => Verdict::NoDifference,
    }
}

/// What the runs say of two contestants in one figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The first contestant.
    pub first: String,
    /// The second contestant.
    pub second: String,
    /// Whether the first has more or less of it.
    pub verdict: Verdict,
}

/// Every two contestants compared in one figure, over the runs that both have.
pub fn pairs<'a>(records: impl IntoIterator<Item = &'a Record>, figure: fn(&Record) -> Option<f64>) -> Vec<Pair> {
    let groups = by_contestant(records);
    let mut pairs = Vec::new();
    for (index, (first, mine)) in groups.iter().enumerate() {
        for (second, theirs) in &groups[index + 1..] {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for record in mine {
                let same = theirs.iter().find(|other| other.run == record.run && other.seed == record.seed);
                if let Some((x, y)) = figure(record).zip(same.and_then(|other| figure(other))) {
                    a.push(x);
                    b.push(y);
                }
            }
            pairs.push(Pair { first: first.clone(), second: second.clone(), verdict: compare(&a, &b) });
        }
    }
    pairs
}

/// Records by contestant, in the order in which they first appear.
pub fn by_contestant<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<(String, Vec<&'a Record>)> {
    let mut groups: Vec<(String, Vec<&Record>)> = Vec::new();
    for record in records {
        let name = record.contestant();
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(record),
            None => groups.push((name, vec![record])),
        }
    }
    groups
}

/// Quantile of sorted values by linear interpolation (type 7 of Hyndman and Fan, the default of R and NumPy).
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64))
}

/// The narrowest symmetric pair of order statistics that covers the median with at least 95 %.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len();
    // P(B < k) for B binomial(n, 1/2), term by term; past 1000 runs 2^-n would underflow, where sorted[0] is as good
    // as outside.
    let mut term = 0.5_f64.powi(i32::try_from(n.min(1000)).unwrap_or(1000));
    let mut below = 0.0;
    let mut best = None;
    for k in 0..n / 2 {
        below += term;
        if 2.0 * below > 0.05 {
            break;
        }
        best = Some((sorted[k], sorted[n - 1 - k]));
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics_cover_the_median() {
        let sorted: Vec<f64> = (1..=10).map(f64::from).collect();
        // Tables: for n = 10 the 2nd and 9th cover with 97.85 %; for n = 6 the extremes with 96.9 %.
        assert_eq!(interval(&sorted), Some((2.0, 9.0)));
        assert_eq!(interval(&sorted[..6]), Some((1.0, 6.0)));
        assert_eq!(interval(&sorted[..5]), None);
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(interval(&twenty), Some((6.0, 15.0)));
    }

    #[test]
    fn quartiles_interpolate() {
        let median = Median::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((median.q25, median.median, median.q75), (1.75, 2.5, 3.25));
        assert_eq!(median.interval, None);
        assert_eq!(Median::of(&[]), None);
    }

    #[test]
    fn pairs_are_compared_run_by_run() {
        // Both vary a lot from run to run, but the first is always a little better.
        let second = [1.0, 5.0, 2.0, 9.0, 4.0, 7.0];
        let first = second.map(|value| value + 0.1);
        assert_eq!(compare(&first, &second), Verdict::More);
        assert_eq!(compare(&second, &first), Verdict::Less);
        let mixed = [1.2, 4.8, 2.1, 8.9, 4.0, 7.1];
        assert_eq!(compare(&mixed, &second), Verdict::NoDifference);
        assert_eq!(compare(&first[..5], &second[..5]), Verdict::TooFewRuns);
    }
}
