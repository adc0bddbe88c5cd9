//! What all window controllers have in common: how they start.

use crate::episodes::episodes;
use crate::rule::{Seen, TrajectorySpan};
use crate::trajectory::{Origin, Trajectory, TrajectoryPoint};

/// Why a capture does not show a start.
const JOINED: &str = "the capture begins in the middle of the flow";

const NO_ROUND: &str = "no round trip of slow start is without a queue";

/// Growth of the window from one round trip to the next, before anything limits it: from the first growth on, until the window falls,
/// a queue shows in the RTT, or the growth has ended.
pub(super) fn growth(of: &Trajectory) -> Result<Seen, &'static str> {
    if of.joined {
        return Err(JOINED);
    }
    let rtt = of.min_rtt().ok_or("no round trip is known")?;
    let first = of.points.first().ok_or("it has no points")?;
    let grown = of.points.iter().find(|point| point.window > first.window + 0.5).ok_or("the window never grew")?;
    let until = episodes(of).first().map_or(of.end(), |episode| episode.start);
    if of.origin == Origin::Packets {
        return by_deliveries(of, (grown.t, until), rtt);
    }
    let mut spans = Vec::new();
    // Near the end of each burst of acknowledgements.
    let mut at = grown.t + 0.9 * rtt;
    while at + rtt < until {
        let crowded = of.between(at, at + rtt).iter().any(|point| is_crowded(point, rtt));
        let (Some(low), Some(high)) = (of.window_at(at), of.window_at(at + rtt)) else { break };
        let value = high / low.max(1e-9);
        if crowded || value < 1.1 {
            break;
        }
        spans.push(TrajectorySpan { from: at, to: at + rtt, value });
        at += rtt;
    }
    Seen::median(spans).ok_or(NO_ROUND)
}

/// A queue shows in the RTT.
fn is_crowded(point: &TrajectoryPoint, least: f64) -> bool {
    point.rtt_ms.is_some_and(|ms| ms / 1e3 > 1.3 * least)
}

/// The same of flights, which follow the window at the pace of the sender's host: a round trip delivers a window, so that the window
/// becomes larger by as many windows as it grows by packets for each that is delivered.
fn by_deliveries(of: &Trajectory, (from, until): (f64, f64), rtt: f64) -> Result<Seen, &'static str> {
    let grows = |point: &TrajectoryPoint| {
        let before = of.window_at(point.t - rtt).filter(|_| point.t > from + 2.0 * rtt);
        before.is_none_or(|before| point.window >= 1.1 * before)
    };
    let on = |point: &&TrajectoryPoint| point.t < until && !is_crowded(point, rtt) && grows(point);
    let points: Vec<&TrajectoryPoint> = of.between(from, until).iter().take_while(on).collect();
    let seen = points.first().zip(points.last()).filter(|(first, last)| last.t - first.t >= rtt);
    let (first, last) = seen.ok_or(NO_ROUND)?;
    let value = 1.0 + (last.window - first.window) / (last.delivered - first.delivered).max(1e-9);
    Ok(Seen { value, spans: vec![TrajectorySpan { from: first.t, to: last.t, value }] })
}

/// Growth of the window in the round trip before it first fell.
pub(super) fn growth_before_loss(of: &Trajectory) -> Result<Seen, &'static str> {
    if of.joined {
        return Err(JOINED);
    }
    let episodes = episodes(of);
    let first = episodes.first().ok_or("the window never fell")?;
    let rtt = of.rtt_at(first.start).ok_or("no round trip is known")?;
    let from = first.start - rtt;
    let before = of.window_at(from).ok_or("it fell in the first round trip")?;
    let value = first.before / before.max(1e-9);
    Ok(Seen { value, spans: vec![TrajectorySpan { from, to: first.start, value }] })
}
