//! What a trace is like, in a few numbers.

use std::fmt;

use paceline_cc::{Nanos, Rate};

use crate::trace::{OPPORTUNITY, Trace};

/// Figures of one lap of a trace, 1500 bytes an opportunity.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceInfo {
    /// Length of the lap.
    pub lap: Nanos,
    /// Opportunities.
    pub count: usize,
    /// Mean rate.
    pub mean: Rate,
    /// Rates over whole seconds: 5th percentile, median, 95th percentile (nearest rank). The mean rate when the lap is
    /// shorter than a second.
    pub second_rates: [Rate; 3],
    /// Longest time between two opportunities, that from the end of the lap to the first of the next included.
    pub longest_silence: Nanos,
}

impl TraceInfo {
    /// Looks at a trace.
    pub fn of(trace: &Trace) -> Self {
        let times = trace.millis();
        let mut seconds = per_bin(trace, Nanos::from_secs(1));
        if !trace.lap().as_nanos().is_multiple_of(1_000_000_000) {
            seconds.pop();
        }
        seconds.sort_unstable();
        let rate = |percent: usize| {
            let rank = (seconds.len() * percent).div_ceil(100).max(1) - 1;
            let opportunities = seconds.get(rank);
            opportunities.map_or(trace.mean_rate(), |count| Rate::from_bytes_per_sec(count * u64::from(OPPORTUNITY)))
        };
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        let longest = gaps.chain(times.first().copied()).max().unwrap_or(0);
        Self {
            lap: trace.lap(),
            count: times.len(),
            mean: trace.mean_rate(),
            second_rates: [rate(5), rate(50), rate(95)],
            longest_silence: Nanos::from_millis(u64::from(longest)),
        }
    }
}

/// Opportunities in each bin of a lap; one on the edge of two bins belongs to the earlier, as one at the end of the lap
/// belongs to it.
pub(crate) fn per_bin(trace: &Trace, bin: Nanos) -> Vec<u64> {
    let (bin, lap) = (bin.as_nanos().max(1), trace.lap().as_nanos());
    let mut counts = vec![0; lap.div_ceil(bin) as usize];
    for time in trace.millis() {
        counts[((u64::from(*time) * 1_000_000).saturating_sub(1) / bin) as usize] += 1;
    }
    counts
}

/// One line a figure.
impl fmt::Display for TraceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, median, high] = self.second_rates.map(Rate::as_mbps);
        writeln!(f, "lap              {:.3} s", self.lap.as_secs_f64())?;
        writeln!(f, "opportunities    {}", self.count)?;
        writeln!(f, "mean             {:.2} Mbit/s", self.mean.as_mbps())?;
        writeln!(f, "1 s rate         p5 {low:.2}, p50 {median:.2}, p95 {high:.2} Mbit/s")?;
        write!(f, "longest silence  {:.0} ms", self.longest_silence.as_millis_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_counted_by_hand() {
        // Three in the first second, one of them at its end, none in the second, one in the third; half a second more.
        let trace = Trace::from_millis("t", vec![100, 100, 1000, 2400, 3500]).expect("valid");
        let info = TraceInfo::of(&trace);
        assert_eq!((info.lap, info.count), (Nanos::from_millis(3500), 5));
        assert_eq!(info.mean, Rate::from_bytes_per_sec(5 * 1500 * 2 / 7));
        assert_eq!(info.second_rates, [0, 1500, 4500].map(Rate::from_bytes_per_sec));
        assert_eq!(info.longest_silence, Nanos::from_millis(1400));
        let short = Trace::from_millis("t", vec![0, 500]).expect("valid");
        assert_eq!(TraceInfo::of(&short).second_rates, [Rate::from_bytes_per_sec(6000); 3]);
    }
}
