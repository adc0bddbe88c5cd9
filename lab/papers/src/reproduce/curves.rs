//! Series as curves that an eye can follow: means and peaks over short spans.

use paceline_experiment::{FlowSeries, Series};

/// What a line is drawn through; where a value is missing it breaks.
pub(super) type Points = Vec<(f64, Option<f64>)>;

/// Points a span of `width` seconds.
fn span(series: &Series, width: f64) -> usize {
    ((width / series.step.as_secs_f64()).round() as usize).max(1)
}

fn at(series: &Series, index: usize, span: usize) -> f64 {
    (index as f64 + 0.5) * span as f64 * series.step.as_secs_f64()
}

/// A flow's mean rate in each span of `width` seconds; nothing before it sends and after it ended.
pub(super) fn rate(series: &Series, flow: &FlowSeries, width: f64) -> Points {
    let size = span(series, width);
    let rates = &flow.throughput_mbps;
    let Some(first) = rates.iter().position(|rate| *rate > 0.0) else { return Vec::new() };
    let last = rates.iter().rposition(|rate| *rate > 0.0).unwrap_or(first);
    let chunk = |(index, chunk): (usize, &[f64])| {
        let alive = (index + 1) * size > first && index * size <= last;
        let mean = chunk.iter().sum::<f64>() / chunk.len() as f64;
        (at(series, index, size), alive.then_some(mean))
    };
    rates.chunks(size).enumerate().map(chunk).collect()
}

/// Largest queueing delay of a packet in each span of `width` seconds, ms.
pub(super) fn queue(series: &Series, width: f64) -> Points {
    let size = span(series, width);
    let spans = series.capacity_mbps.len().div_ceil(size);
    let most = |index: usize| {
        let range = index * size..((index + 1) * size);
        let values = series
            .flows
            .iter()
            .flat_map(|flow| flow.queue_max_ms.iter().skip(range.start).take(range.len()).flatten().copied());
        (at(series, index, size), Some(values.fold(0.0, f64::max)))
    };
    (0..spans).map(most).collect()
}

#[cfg(test)]
mod tests {
    use paceline_cc::Nanos;

    use super::*;

    #[test]
    fn spans_are_averaged_and_peaks_kept() {
        let flow = FlowSeries {
            throughput_mbps: vec![0.0, 0.0, 2.0, 4.0, 6.0, 0.0, 0.0, 0.0],
            queue_max_ms: vec![None, Some(1.0), None, None, Some(3.0), Some(2.0), None, None],
            ..FlowSeries::default()
        };
        let series = Series {
            step: Nanos::from_millis(10),
            capacity_mbps: vec![9.0; 8],
            queue_bytes: vec![0; 8],
            flows: vec![],
        };
        let close = |a: Points, b: &[(f64, Option<f64>)]| {
            assert_eq!(a.len(), b.len());
            assert!(a.iter().zip(b).all(|(a, b)| (a.0 - b.0).abs() < 1e-9 && a.1 == b.1), "{a:?}");
        };
        close(rate(&series, &flow, 0.02), &[(0.01, None), (0.03, Some(3.0)), (0.05, Some(3.0)), (0.07, None)]);
        let series = Series { flows: vec![flow], ..series };
        close(queue(&series, 0.04), &[(0.02, Some(1.0)), (0.06, Some(3.0))]);
    }
}
