//! Rate-limited increase, of every window controller: a window grows no further than its flow has used it
//! (draft-ietf-ccwg-ratelimited-increase).

use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::{Trajectory, TrajectoryPoint};

/// A flow that uses less of its window than this does not use it (our choice), ...
const UNUSED: f64 = 0.9;
/// ... and has to do so for this many round trips.
const ROUNDS: f64 = 10.0;
/// A window that fell below this share of what it was, or without a loss, opens as at the start ...
const LOSS_WINDOW: f64 = 0.2;
/// ... up to this share of it (RFC 5681 section 3.1; CUBIC's 0.7 and the restarts of Linux, `tcp_cwnd_restart`, lie below).
const THRESHOLD: f64 = 0.75;
/// A window that is back within this share of the one before it fell is undone (our choice).
const BACK: f64 = 0.01;

/// What all have in common; each has its own limit.
const RULE: Rule = Rule {
    id: "",
    controller: "",
    says: "while it is not used the window grows no further than to limit(maxFS): what a window as large as the largest flight since it last fell would become",
    source: "draft-ietf-ccwg-ratelimited-increase-10, Rate-Limited Increase",
    measures: "window less a packet over limit(maxFS), the largest of all growths under an unused window",
    expect: (0.0, 1.02),
    tolerance: "whole packets, and 2 %",
    rig: Rig::Unused,
    needs: &[],
    measure: adds,
};

pub(super) const RENO: Rule = Rule { id: "reno-rate-limited", controller: "reno", ..RULE };
pub(super) const DCTCP: Rule = Rule { id: "dctcp-rate-limited", controller: "dctcp", ..RULE };
pub(super) const PRAGUE: Rule = Rule { id: "prague-rate-limited", controller: "prague", ..RULE };
pub(super) const CUBIC: Rule = Rule { id: "cubic-rate-limited", controller: "cubic", measure: curves, ..RULE };
pub(super) const COPA: Rule = Rule { id: "copa-rate-limited", controller: "copa", measure: doubles, ..RULE };

/// Additive increase: a packet a round trip.
fn adds(of: &Trajectory) -> Result<Seen, &'static str> {
    excess(of, |flight| flight + 1.0)
}

/// CUBIC: up to a half more in a round trip (RFC 9438 section 4.2).
fn curves(of: &Trajectory) -> Result<Seen, &'static str> {
    excess(of, |flight| (1.5 * flight).max(flight + 1.0))
}

/// Copa may double whenever it is far from its target (NSDI 2018 section 2.2).
fn doubles(of: &Trajectory) -> Result<Seen, &'static str> {
    excess(of, |flight| 2.0 * flight)
}

/// A window fell.
#[derive(Clone, Copy)]
struct Fall {
    before: f64,
    flight: f64,
    /// It opens as at the start up to here.
    threshold: f64,
}

/// The largest window over its limit, where the window grew unused; in slow start the limit is twice the flight.
fn excess(of: &Trajectory, limit: fn(f64) -> f64) -> Result<Seen, &'static str> {
    let mut last = *of.points.first().ok_or("it has no points")?;
    let mut flight = last.window;
    let mut fall = Fall { before: 0.0, flight: 0.0, threshold: f64::INFINITY };
    let (mut spans, mut unused) = (Vec::new(), 0.0);
    let mut losses = of.losses.iter().copied().peekable();
    for point in of.points.iter().skip(1) {
        let mut lost = false;
        while losses.next_if(|at| *at <= point.t).is_some() {
            lost = true;
        }
        // What was in flight before this point's deliveries.
        let peak = point.in_flight + (point.delivered - last.delivered).max(0.0);
        flight = flight.max(counted(peak, last.window));
        if peak < UNUSED * last.window {
            unused += of.rounds(last.t, point.t);
        }
        if point.window < last.window {
            let opens = point.window < LOSS_WINDOW * last.window || !(lost || of.losses.is_empty());
            let threshold = if opens { THRESHOLD * last.window } else { 0.0 };
            fall = Fall { before: last.window, flight, threshold };
            flight = counted(point.in_flight, point.window);
        } else if point.window > last.window {
            if (point.window / fall.before.max(1e-9) - 1.0).abs() < BACK && point.window > last.window + 1.0 {
                flight = flight.max(fall.flight);
            } else if peak + 1.0 <= last.window {
                let most = if last.window < fall.threshold { 2.0 * flight } else { limit(flight) };
                let value = (point.window - 1.0) / most.max(last.window).max(1e-9);
                spans.push(TrajectorySpan { from: last.t, to: point.t, value });
            }
        }
        last = TrajectoryPoint { ..*point };
    }
    if unused < ROUNDS {
        return Err("the flow used its window nearly all the time");
    }
    let value = spans.iter().map(|span| span.value).reduce(f64::max).ok_or("no unused window grew")?;
    spans.retain(|span| span.value >= value.min(RULE.expect.1));
    Ok(Seen { value, spans })
}

/// A flight counts as the window where no packet more fits.
fn counted(flight: f64, window: f64) -> f64 {
    if flight + 1.0 > window { window } else { flight }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::Origin;

    /// Flights and windows, 10 ms apart, at a round trip of 10 ms.
    fn judged(steps: &[(f64, f64)], losses: &[usize]) -> Result<f64, &'static str> {
        let mut line = Trajectory::new("line", Origin::Events, 1448.0);
        let at = |step: usize| step as f64 * 0.01;
        for (step, (in_flight, window)) in steps.iter().enumerate() {
            line.push(TrajectoryPoint {
                t: at(step),
                window: *window,
                in_flight: *in_flight,
                rtt_ms: Some(10.0),
                ..TrajectoryPoint::default()
            });
        }
        line.losses = losses.iter().map(|step| at(*step)).collect();
        adds(&line).map(|seen| seen.value)
    }

    #[test]
    fn the_windows_of_the_draft() {
        let idle = [(4.0, 20.0); 12];
        let run = |window| judged(&[&[(9.0, 10.0), (4.0, 14.0), (4.0, window)], &idle[..]].concat(), &[]).unwrap();
        assert_eq!(run(20.0), 19.0 / 20.0);
        assert_eq!(run(24.0), 23.0 / 20.0);
    }

    #[test]
    fn after_a_loss_a_packet_more_than_the_flight() {
        let idle = [(15.0, 20.0); 12];
        let run = |window| judged(&[&[(40.0, 40.0)], &idle[..], &[(15.0, window)]].concat(), &[1]);
        assert_eq!(run(20.0), Err("no unused window grew"));
        assert!(run(20.5).unwrap() < 1.0, "the window itself is no growth");
        assert_eq!(run(24.0).unwrap(), 23.0 / 20.0);
        // It is undone.
        assert_eq!(run(40.0), Err("no unused window grew"));
    }

    #[test]
    fn a_flow_that_uses_its_window_shows_nothing() {
        let used: Vec<(f64, f64)> = (10..40).map(|window| (f64::from(window), f64::from(window))).collect();
        assert_eq!(judged(&used, &[]), Err("the flow used its window nearly all the time"));
    }
}
