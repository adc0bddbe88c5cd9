//! What is known of a flow over time: its window, what is in flight, round trips, deliveries, its pace.

use std::collections::BTreeMap;

use crate::pace::Paces;

/// Most points of a trajectory: an hour at a point a millisecond (our choice: about 300 MB).
pub const MOST_POINTS: usize = 4_000_000;

/// Where a flow stands with its losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowPhase {
    /// The source does not say.
    #[default]
    Unknown,
    /// Nothing is being repaired.
    Open,
    /// Losses are being repaired.
    Repairing,
}

/// A moment of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrajectoryPoint {
    /// Seconds since the flow began.
    pub t: f64,
    /// Congestion window in packets; of a flow known by its packets alone, the largest flight of about a round trip.
    pub window: f64,
    /// Packets in flight.
    pub in_flight: f64,
    /// Round-trip time in ms, where one is known.
    pub rtt_ms: Option<f64>,
    /// Packets delivered so far.
    pub delivered: f64,
    /// Pacing rate of payload in Mbit/s, where the flow is paced.
    pub pacing_mbps: Option<f64>,
    /// Where it stands with its losses.
    pub phase: FlowPhase,
}

/// What a trajectory was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A run in the simulator: every event.
    Simulated,
    /// An event log: every event.
    Events,
    /// A run in real time: every event.
    RealTime,
    /// A flow of the kernel, sampled by `TCP_INFO`.
    Kernel,
    /// A qlog.
    Qlog,
    /// Packets on the wire: the window is estimated as what is in flight.
    Packets,
}

impl Origin {
    /// In a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulated => "a run in the simulator",
            Self::Events => "an event log",
            Self::RealTime => "a run in real time",
            Self::Kernel => "samples of TCP_INFO",
            Self::Qlog => "a qlog",
            Self::Packets => "packets (window estimated as bytes in flight)",
        }
    }
}

/// What is known of the path of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// Rate of the bottleneck in Mbit/s on the wire, where it is one.
    pub rate_mbps: Option<f64>,
    /// Round trip without queues in ms.
    pub rtt_ms: Option<f64>,
}

/// A flow over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// What it is called: a contestant, a file.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Payload bytes of a full packet.
    pub mss: f64,
    /// Its path.
    pub facts: Facts,
    /// In the order of time.
    pub points: Vec<TrajectoryPoint>,
    /// Seconds at which losses were found; empty where the source does not say.
    pub losses: Vec<f64>,
    /// Seconds at which its state changed, with the name of the new one; empty where the source does not say.
    pub states: Vec<(f64, String)>,
    /// How its packets left, where every departure is known.
    pub paces: Paces,
    /// The controller's own variables by name, where the source has them: seconds and value, on each change.
    pub variables: BTreeMap<&'static str, Vec<(f64, f64)>>,
    /// Seconds at which a `[[when]]` of its path acted, with its number.
    pub fired: Vec<(u32, f64)>,
    /// One of them never did.
    pub unfired: bool,
    /// It begins in the middle of its flow: nothing is known of its start.
    pub joined: bool,
    /// Why nothing of it is seen, where that is so.
    pub hidden: Option<String>,
    /// Seconds of its run at which it began.
    pub begun: f64,
    /// What its reader has to say of it: a line each.
    pub notes: Vec<String>,
}

impl Trajectory {
    /// One without points.
    pub fn new(name: impl Into<String>, origin: Origin, mss: f64) -> Self {
        Self {
            name: name.into(),
            origin,
            mss,
            facts: Facts::default(),
            points: Vec::new(),
            losses: Vec::new(),
            states: Vec::new(),
            paces: Paces::default(),
            variables: BTreeMap::new(),
            fired: Vec::new(),
            unfired: false,
            joined: false,
            hidden: None,
            begun: 0.0,
            notes: Vec::new(),
        }
    }

    /// One of which nothing is seen, and why.
    pub fn hidden(name: &str, why: String) -> Self {
        Self { hidden: Some(why), ..Self::new(name, Origin::Packets, 1448.0) }
    }

    /// Seconds of the last point; zero without points.
    pub fn end(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.t)
    }

    /// Index of the last point at or before `t`.
    pub fn index(&self, t: f64) -> Option<usize> {
        self.points.partition_point(|point| point.t <= t).checked_sub(1)
    }

    /// The window at `t` in packets.
    pub fn window_at(&self, t: f64) -> Option<f64> {
        Some(self.points[self.index(t)?].window)
    }

    /// Points from `from` to `to` in seconds.
    pub fn between(&self, from: f64, to: f64) -> &[TrajectoryPoint] {
        let first = self.points.partition_point(|point| point.t < from);
        let last = self.points.partition_point(|point| point.t <= to).max(first);
        &self.points[first..last]
    }

    /// Smallest RTT in seconds; of the path where the flow has none.
    pub fn min_rtt(&self) -> Option<f64> {
        let seen = self.points.iter().filter_map(|point| point.rtt_ms).filter(|rtt| *rtt > 0.0).reduce(f64::min);
        seen.or(self.facts.rtt_ms).map(|ms| ms / 1e3)
    }

    /// The RTT at `t` in seconds: the newest sample, else the smallest of all.
    pub fn rtt_at(&self, t: f64) -> Option<f64> {
        let last = self.index(t)?;
        // A hundred points: samples come with nearly every acknowledgement.
        let near = self.points[last.saturating_sub(100)..=last].iter().rev().find_map(|point| point.rtt_ms);
        near.map(|ms| ms / 1e3).filter(|rtt| *rtt > 0.0).or_else(|| self.min_rtt())
    }

    /// Round trips from `from` to `to`.
    pub fn rounds(&self, from: f64, to: f64) -> f64 {
        let mut sum = 0.0;
        let Some(mut rtt) = self.rtt_at(from) else { return 0.0 };
        let mut last = from;
        for point in self.between(from, to) {
            sum += (point.t - last) / rtt;
            last = point.t;
            rtt = point.rtt_ms.map_or(rtt, |ms| ms / 1e3).max(1e-6);
        }
        sum + (to - last).max(0.0) / rtt
    }

    /// Payload delivered from `from` to `to` in Mbit/s.
    pub fn mbps(&self, from: f64, to: f64) -> f64 {
        let at = |t: f64| self.index(t).map_or(0.0, |index| self.points[index].delivered);
        (at(to) - at(from)).max(0.0) * self.mss * 8e-6 / (to - from).max(1e-9)
    }

    /// What the path carries of this flow's payload at its best, in Mbit/s: the highest but 5 % of the whole half seconds that have
    /// points.
    pub fn bandwidth(&self) -> Option<f64> {
        let whole = (self.end() / 0.5).floor();
        let mut steps: Vec<f64> = self.points.iter().map(|point| (point.t / 0.5).floor()).collect();
        steps.dedup();
        let steps = steps.into_iter().filter(|step| *step < whole);
        let rates = steps.map(|step| self.mbps(step * 0.5, (step + 1.0) * 0.5)).collect();
        quantile(rates, 0.95).filter(|rate| *rate > 0.0)
    }

    /// Adds a point, unless there are [`MOST_POINTS`].
    pub(crate) fn push(&mut self, point: TrajectoryPoint) {
        if self.points.len() < MOST_POINTS {
            self.points.push(point);
        }
    }
}

/// The value below which the share `q` lies; `None` of nothing.
pub fn quantile(mut values: Vec<f64>, q: f64) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((q.clamp(0.0, 1.0) * last as f64).round() as usize).copied()
}

/// The middle; `None` of nothing.
pub fn median(values: Vec<f64>) -> Option<f64> {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_about_a_line() {
        let mut line = Trajectory::new("line", Origin::Simulated, 1000.0);
        assert_eq!((line.end(), line.window_at(1.0), line.min_rtt(), line.bandwidth()), (0.0, None, None, None));
        for step in 0..=100 {
            let t = f64::from(step) * 0.1;
            line.push(TrajectoryPoint {
                t,
                window: t,
                delivered: 100.0 * t,
                rtt_ms: Some(100.0),
                ..TrajectoryPoint::default()
            });
        }
        assert!((line.mbps(2.0, 4.0) - 0.8).abs() < 0.05);
        assert!((line.rounds(1.0, 3.0) - 20.0).abs() < 1e-6);
        assert_eq!(line.between(1.0, 2.05).len(), 11);
        assert_eq!(median(vec![3.0, f64::NAN, 1.0, 2.0]), Some(2.0));
    }
}
