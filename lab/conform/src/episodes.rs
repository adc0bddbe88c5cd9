//! Reductions of a window, found in its course.

use crate::trajectory::{FlowPhase, Trajectory};

/// A fall below this share of the peak is a reduction (our choice: between CUBIC's 0.7 and the noise of whole packets).
const FALL: f64 = 0.93;
/// A window below this share of the peak was a timeout's.
const TIMEOUT: f64 = 0.2;
/// Round trips after which a reduction has settled, where the source does not say when repairs end.
const SETTLES: f64 = 1.5;

/// The window falls, and settles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// Seconds at which it begins to fall.
    pub start: f64,
    /// The window before it in packets.
    pub before: f64,
    /// Seconds at which it has settled.
    pub settled: f64,
    /// The window then.
    pub after: f64,
    /// The window fell to next to nothing: the retransmission timer fired.
    pub timeout: bool,
}

impl Episode {
    /// What was kept of the window.
    pub fn ratio(&self) -> f64 {
        self.after / self.before.max(1e-9)
    }
}

/// Every reduction, in order; none where no round trip is known.
pub fn episodes(of: &Trajectory) -> Vec<Episode> {
    let mut found = Vec::new();
    let Some(first) = of.points.first() else { return found };
    let mut peak = (first.t, first.window);
    let mut index = 0;
    while let Some(point) = of.points.get(index) {
        index += 1;
        if point.window >= peak.1 {
            peak = (point.t, point.window);
            continue;
        }
        if point.window >= FALL * peak.1 {
            continue;
        }
        let Some(rtt) = of.rtt_at(point.t) else { return found };
        let (start, before) = (point.t, peak.1);
        let settled = settles(of, index - 1, start + SETTLES * rtt);
        let after = of.window_at(settled).unwrap_or(point.window);
        let lowest = of.between(start, settled).iter().fold(f64::INFINITY, |low, point| low.min(point.window));
        let timeout = lowest < TIMEOUT * before || lowest <= 2.0 && before > 8.0;
        found.push(Episode { start, before, settled, after, timeout });
        index = of.points.partition_point(|point| point.t <= settled);
        peak = (settled, after);
    }
    found
}

/// When the repair that is under way at a point ends; `else_at` where the source does not say.
fn settles(of: &Trajectory, from: usize, else_at: f64) -> f64 {
    let known = of.points[from..].iter().take_while(|point| point.phase != FlowPhase::Unknown);
    let mut last = None;
    for point in known {
        if point.phase == FlowPhase::Open && last.is_some() {
            return point.t;
        }
        if point.phase == FlowPhase::Repairing {
            last = Some(point.t);
        } else if point.t > else_at {
            break;
        }
    }
    last.map_or(else_at, |last| last.max(else_at))
}

/// From one reduction to the next, as pairs of neighbours that were no timeouts.
pub fn stretches(episodes: &[Episode]) -> Vec<(Episode, Episode)> {
    let pairs = episodes.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?)));
    pairs.filter(|(from, _)| !from.timeout).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Origin, TrajectoryPoint};

    #[test]
    fn a_sawtooth_has_its_teeth() {
        let mut saw = Trajectory::new("saw", Origin::Qlog, 1448.0);
        for step in 0..1000 {
            let t = f64::from(step) * 0.01;
            saw.push(TrajectoryPoint {
                t,
                window: 50.0 + f64::from(step % 250) * 0.2,
                rtt_ms: Some(40.0),
                ..TrajectoryPoint::default()
            });
        }
        let found = episodes(&saw);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|one| (one.ratio() - 0.51).abs() < 0.02 && !one.timeout), "{found:?}");
        assert_eq!(stretches(&found).len(), 2);
    }
}
