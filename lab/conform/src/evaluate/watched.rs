//! What a run shows of its packets over time: what leaves, arrives and is dropped in each tenth of a second.

use paceline_cc::{Nanos, Time};
use paceline_experiment::{Fate, Flow, Tap, Workload};
use paceline_path::DelaySplit;
use paceline_transport::{AckSegment, Segment, Sender};

/// Seconds of a step (our choice: some round trips of most paths here).
pub(super) const STEP: f64 = 0.1;
/// Seconds without a departure that count as silence: longer than a round trip of most paths here, shorter than any timeout (our choice).
const SILENCE: f64 = 0.15;
/// An answer to a mark is looked for during this many round trips: one in which the mark comes back, and one.
const ANSWER_ROUNDS: f64 = 2.0;

/// What happened in a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) sent: u64,
    pub(super) arrived: u64,
    pub(super) dropped: u64,
    pub(super) marked: u64,
    pub(super) bytes: u64,
    pub(super) acks: u64,
    /// Milliseconds of waiting, of all that arrived.
    waited_ms: f64,
    /// Milliseconds on the way, of all that arrived.
    way_ms: f64,
}

/// The flows whose steps are added up: the contestant's, or those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Own,
    Beside,
}

/// The steps of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    sides: [Vec<Step>; 2],
    /// Steps of a second of each flow, in the order of the scenario.
    flows: Vec<Vec<Step>>,
    /// From when to when the first own flow sent nothing, where that took long: gaps of timers, not within a flight.
    pub(super) silences: Vec<(f64, f64)>,
    /// When it last sent.
    pub(super) last_sent: f64,
    /// What a window was after the first marks over what it was before.
    pub(super) answers: Vec<f64>,
}

/// What becomes of the window after a mark.
#[derive(Clone, Copy, Debug)]
struct Marked {
    at: f64,
    until: f64,
    before: u64,
    least: u64,
}

/// Sees a run. Flows of a Poisson process count as beside the contestant; what is single comes first.
#[derive(Debug, Default)]
pub(super) struct Watch {
    watched: Watched,
    /// By the number of the world: index in the scenario, and side.
    flows: Vec<(usize, Side)>,
    marked: Option<Marked>,
    window: u64,
    srtt: f64,
}

impl Watch {
    /// Of a world with these flows, of which some are the contestant's.
    pub(super) fn new(flows: &[Flow], own: &[bool]) -> Self {
        // Flows are numbered as they start, and of those that start together in their order.
        let single = |flow: &Flow| !matches!(flow.workload, Workload::Poisson(_));
        let mut order: Vec<usize> = (0..flows.len()).filter(|index| single(&flows[*index])).collect();
        order.sort_by_key(|index| flows[*index].start);
        let side = |index: usize| if own.get(index).copied().unwrap_or(true) { Side::Own } else { Side::Beside };
        let watched = Watched { flows: vec![Vec::new(); flows.len()], ..Watched::default() };
        Self { watched, flows: order.into_iter().map(|index| (index, side(index))).collect(), ..Self::default() }
    }

    pub(super) fn take(&mut self) -> Watched {
        std::mem::take(&mut self.watched)
    }

    fn add(&mut self, now: Time, flow: u32, change: impl Fn(&mut Step)) {
        let (index, side) =
            self.flows.get(flow as usize).map_or((None, Side::Beside), |(index, side)| (Some(*index), *side));
        let at = now.as_secs_f64();
        change(step(&mut self.watched.sides[side as usize], at / STEP));
        if let Some(steps) = index.and_then(|index| self.watched.flows.get_mut(index)) {
            change(step(steps, at));
        }
    }

    fn is_first_own(&self, flow: u32) -> bool {
        self.flows.iter().position(|(_, side)| *side == Side::Own) == Some(flow as usize)
    }
}

fn step(steps: &mut Vec<Step>, at: f64) -> &mut Step {
    let at = at as usize;
    if steps.len() <= at {
        steps.resize(at + 1, Step::default());
    }
    &mut steps[at]
}

impl Tap for Watch {
    fn on_sent(&mut self, now: Time, flow: u32, _: &Segment) {
        self.add(now, flow, |step| step.sent += 1);
        if self.is_first_own(flow) {
            let (before, at) = (self.watched.last_sent, now.as_secs_f64());
            if at - before >= SILENCE {
                self.watched.silences.push((before, at));
            }
            self.watched.last_sent = at;
        }
    }

    fn on_arrival(&mut self, now: Time, flow: u32, segment: &Segment, ce: bool, delay: &DelaySplit) {
        let total = delay.propagation + delay.queue + delay.transmission;
        let bytes = u64::from(segment.wire_bytes());
        self.add(now, flow, |step| {
            step.arrived += 1;
            step.bytes += bytes;
            step.marked += u64::from(ce);
            step.waited_ms += delay.queue.as_millis_f64();
            step.way_ms += total.as_millis_f64();
        });
        if ce && self.marked.is_none() && self.window > 0 && self.is_first_own(flow) {
            let at = now.as_secs_f64();
            let until = at + ANSWER_ROUNDS * self.srtt;
            self.marked = Some(Marked { at, until, before: self.window, least: self.window });
        }
    }

    fn on_dropped(&mut self, flow: u32, fate: &Fate<'_>) {
        self.add(fate.at, flow, |step| step.dropped += 1);
    }

    fn on_ack(&mut self, now: Time, flow: u32, _: &AckSegment, sender: &dyn Sender) {
        self.add(now, flow, |step| step.acks += 1);
        if !self.is_first_own(flow) {
            return;
        }
        self.window = sender.controller().window();
        self.srtt = sender.srtt().map_or(0.0, Nanos::as_secs_f64);
        if let Some(marked) = &mut self.marked {
            marked.least = marked.least.min(self.window);
            if now.as_secs_f64() > marked.until && marked.at >= 0.0 {
                self.watched.answers.push(marked.least as f64 / marked.before.max(1) as f64);
                self.marked = None;
            }
        }
    }
}

/// Seconds of a run.
pub(super) type Span = std::ops::Range<f64>;

impl Watched {
    fn steps(&self, side: Side, span: &Span) -> &[Step] {
        let steps = &self.sides[side as usize];
        let at = |seconds: f64| ((seconds / STEP).round() as usize).min(steps.len());
        &steps[at(span.start)..at(span.end)]
    }

    /// All of a side's steps in a span.
    pub(super) fn sum(&self, side: Side, span: &Span) -> Step {
        self.steps(side, span).iter().fold(Step::default(), Step::plus)
    }

    /// Delivered in a span, Mbit/s.
    pub(super) fn mbps(&self, side: Side, span: &Span) -> f64 {
        self.sum(side, span).bytes as f64 / (span.end - span.start) / 125_000.0
    }

    /// Percent of the packets of a span that were dropped.
    pub(super) fn lost(&self, side: Side, span: &Span) -> Option<f64> {
        self.sum(side, span).lost()
    }

    /// 95th percentile over the steps of a span of what packets waited on average, ms.
    pub(super) fn queue_p95(&self, side: Side, span: &Span) -> Option<f64> {
        let waits = self.steps(side, span).iter().filter(|step| step.arrived > 0);
        crate::trajectory::quantile(waits.map(|step| step.waited_ms / step.arrived as f64).collect(), 0.95)
    }

    /// Seconds from the beginning of a span until half a second of it has this rate; `None` where none has.
    pub(super) fn reaches(&self, side: Side, mbps: f64, span: &Span) -> Option<f64> {
        self.first(span, |span| self.mbps(side, span) >= mbps)
    }

    /// Seconds from the beginning of a span until packets wait for less than this, or none come, for half a second.
    pub(super) fn drains(&self, side: Side, below_ms: f64, span: &Span) -> Option<f64> {
        self.first(span, |span| self.queue_p95(side, span).is_none_or(|queue| queue <= below_ms))
    }

    fn first(&self, span: &Span, holds: impl Fn(&Span) -> bool) -> Option<f64> {
        const WIDE: f64 = 0.5;
        let steps = ((span.end - span.start - WIDE) / STEP).round().max(0.0) as usize;
        let at = |index: usize| span.start + index as f64 * STEP;
        (0..=steps).find(|index| holds(&(at(*index)..at(*index) + WIDE))).map(|index| index as f64 * STEP + WIDE)
    }

    /// The longest time within a span in which no second (or step, for a rate of 0) has more than this rate.
    pub(super) fn longest_below(&self, side: Side, mbps: f64, span: &Span) -> f64 {
        let wide = if mbps > 0.0 { 1.0 } else { STEP };
        let (mut longest, mut run) = (0.0_f64, 0.0);
        for index in 0..((span.end - span.start) / wide).round() as usize {
            let from = span.start + index as f64 * wide;
            run = if self.mbps(side, &(from..from + wide)) > mbps { 0.0 } else { run + wide };
            longest = longest.max(run);
        }
        longest
    }

    /// Seconds from an instant until the first own flow sends; `None` where it never does.
    pub(super) fn silent_from(&self, at: f64) -> Option<f64> {
        let within = self.silences.iter().find(|(from, to)| (*from..*to).contains(&at));
        (self.last_sent > at).then(|| within.map_or(0.0, |(_, to)| to - at))
    }

    /// Of each flow of the scenario: what it did in each second.
    pub(super) fn flows(&self) -> &[Vec<Step>] {
        &self.flows
    }
}

/// Whether RFC 8083's circuit breaker ends a flow of media: in three reports in a row it sends more than ten times what TCP would by its
/// equation (section 4.3), at the losses and the round trip of the report (section 4.3; 20 ms of the way back are added here).
pub(super) fn ends_call(seconds: &[Step]) -> bool {
    const TIMES: f64 = 10.0;
    const BACK: f64 = 0.02;
    let excessive = |report: &Step| {
        let (Some(way), Some(lost)) = (report.way(), report.lost()) else { return report.sent > 0 };
        let packets = report.sent as f64 / INTERVAL as f64;
        lost > 0.0 && packets > TIMES / ((way + BACK) * (2.0 * lost / 100.0 / 3.0).sqrt())
    };
    reports(seconds).windows(ROW).any(|row| row.iter().all(excessive))
}

/// Seconds of an interval of a circuit breaker, and how many in a row trip it.
const INTERVAL: usize = 5;
const ROW: usize = 3;
/// Percent of loss from which on an interval counts.
const EXCESSIVE: f64 = 10.0;

/// Whether a flow, second by second, loses so much for so long that a circuit breaker must end it.
pub(super) fn trips(seconds: &[Step]) -> bool {
    reports(seconds).windows(ROW).any(|row| {
        let excessive = row.iter().all(|interval| interval.lost().is_some_and(|lost| lost > EXCESSIVE));
        excessive && 2 * row[ROW - 1].sent > row[0].sent
    })
}

/// Intervals of seconds.
fn reports(seconds: &[Step]) -> Vec<Step> {
    let sum = |part: &[Step]| part.iter().fold(Step::default(), Step::plus);
    seconds.chunks_exact(INTERVAL).map(sum).collect()
}

impl Step {
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            arrived: self.arrived + other.arrived,
            dropped: self.dropped + other.dropped,
            marked: self.marked + other.marked,
            bytes: self.bytes + other.bytes,
            acks: self.acks + other.acks,
            waited_ms: self.waited_ms + other.waited_ms,
            way_ms: self.way_ms + other.way_ms,
        }
    }

    /// Percent that was dropped.
    pub(super) fn lost(&self) -> Option<f64> {
        (self.sent > 0).then(|| (100.0 * self.dropped as f64 / self.sent as f64).min(100.0))
    }

    /// Mean time on the way, seconds.
    pub(super) fn way(&self) -> Option<f64> {
        (self.arrived > 0).then(|| self.way_ms / self.arrived as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty seconds of this many packets of 1250 bytes in each step, of which some are dropped.
    fn watched(of: impl Fn(f64) -> (u64, u64)) -> Watched {
        let step = |index: u32| {
            let (sent, dropped) = of(f64::from(index) * STEP);
            let arrived = sent - dropped;
            Step { sent, dropped, arrived, bytes: 1250 * arrived, waited_ms: 5.0 * arrived as f64, ..Step::default() }
        };
        Watched { sides: [(0..200).map(step).collect(), Vec::new()], ..Watched::default() }
    }

    #[test]
    fn figures_of_a_span_by_hand() {
        // 1 Mbit/s; 10 % lost from 10 s on; still from 15 to 18 s.
        let seen = watched(|at| match at {
            at if (15.0..17.95).contains(&at) => (0, 0),
            at if at > 9.95 => (10, 1),
            _ => (10, 0),
        });
        assert!((seen.mbps(Side::Own, &(0.0..10.0)) - 1.0).abs() < 1e-9);
        assert_eq!((seen.lost(Side::Own, &(0.0..10.0)), seen.lost(Side::Own, &(10.0..15.0))), (Some(0.0), Some(10.0)));
        assert_eq!(seen.lost(Side::Own, &(15.0..17.0)), None);
        assert_eq!(seen.queue_p95(Side::Own, &(0.0..20.0)), Some(5.0));
        assert_eq!(seen.reaches(Side::Own, 0.8, &(0.0..10.0)), Some(0.5));
        let again = seen.reaches(Side::Own, 0.8, &(15.0..20.0)).unwrap();
        assert!((again - 3.5).abs() < 1e-6, "{again}");
        assert_eq!(seen.reaches(Side::Own, 1.1, &(0.0..20.0)), None);
        assert!((seen.longest_below(Side::Own, 0.0, &(0.0..20.0)) - 3.0).abs() < 1e-6);
        assert_eq!(seen.longest_below(Side::Own, 0.5, &(0.0..20.0)), 3.0);
        assert_eq!(seen.drains(Side::Own, 4.0, &(14.0..20.0)), Some(1.5));
        assert_eq!(seen.lost(Side::Beside, &(0.0..20.0)), None);
        let seen = Watched { silences: vec![(2.0, 5.0)], last_sent: 8.0, ..Watched::default() };
        assert_eq!([1.0, 4.0, 5.0, 9.0].map(|at| seen.silent_from(at)), [Some(0.0), Some(1.0), Some(0.0), None]);
    }

    #[test]
    fn a_breaker_trips_where_losses_last_and_the_rate_does_not_fall() {
        let second = |sent, dropped| Step { sent, dropped, ..Step::default() };
        let of = |parts: [(u64, u64); 3]| {
            parts.iter().flat_map(|(sent, dropped)| vec![second(*sent, *dropped); 5]).collect()
        };
        let seconds = |parts| -> Vec<Step> { of(parts) };
        assert!(trips(&seconds([(100, 11), (100, 11), (100, 11)])));
        assert!(!trips(&seconds([(100, 11), (100, 10), (100, 11)])));
        assert!(!trips(&seconds([(100, 50), (70, 20), (50, 20)])));
        assert!(!trips(&seconds([(100, 50), (70, 20), (51, 20)])[..14]));
        assert!(trips(&seconds([(100, 50), (70, 20), (51, 20)])));
    }
}
