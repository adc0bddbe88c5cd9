//! Whether packets leave at the rate that the controller answered: every departure of a flow, held against the answers before it.

use paceline_cc::observe::{Answers, Event};
use paceline_cc::{Nanos, Pacing, Phase, Time};

use crate::rule::TrajectorySpan;

/// Gaps and seconds of a stretch, at least (our choice: longer than what a timer is late, shorter than a controller's phases).
const STRETCH_GAPS: u32 = 20;
const STRETCH_SECONDS: f64 = 0.1;

/// What was seen of a flow's pace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paces {
    /// Stretches in which the pace alone held packets back: the rate of departures over the rate answered.
    pub kept: Vec<TrajectorySpan>,
    /// Stretches with a pace: the most ms by which a packet left before its time, 0 where each waited for it.
    pub early: Vec<TrajectorySpan>,
    /// Why the datapath does not hold every packet back, where it does not.
    pub together: Option<&'static str>,
}

/// Measures the pace of a flow from its events.
#[derive(Debug, Default)]
pub(crate) struct PaceMeter {
    paces: Paces,
    mss: u64,
    pacing: Option<Pacing>,
    last: Option<Departure>,
    kept: Stretch,
    early: Stretch,
}

/// The packet that left last.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Time,
    /// When it was due; later than `at` where it left early.
    due: Time,
    bytes: u64,
    /// Since it left, window and application have let the next one go.
    open: bool,
}

/// A stretch that is being measured, in seconds.
#[derive(Debug, Default)]
struct Stretch {
    from: f64,
    gaps: u32,
    answered: f64,
    taken: f64,
    early: f64,
}

impl Stretch {
    fn is_over(&self) -> bool {
        self.gaps >= STRETCH_GAPS && self.taken >= STRETCH_SECONDS
    }
}

impl PaceMeter {
    pub(crate) fn new(mss: u32) -> Self {
        Self { mss: u64::from(mss), ..Self::default() }
    }

    pub(crate) fn finish(self) -> Paces {
        self.paces
    }

    /// `event` happened, `t` seconds into the flow, and the controller answers this then.
    pub(crate) fn see(&mut self, t: f64, event: &Event<'_>, answers: &Answers) {
        let mss = self.mss;
        let full = |in_flight: u64| in_flight.saturating_add(mss) > answers.window;
        let open = match event {
            Event::Sent(sent, _) => {
                self.leave(t, sent.now, u64::from(sent.bytes));
                !full(sent.in_flight) && sent.unsent > 0
            }
            // What leaves in repair is shaped by the datapath for many controllers.
            Event::Acked(ack) => ack.phase == Phase::Open && !full(ack.in_flight),
            Event::Lost(_) | Event::Timeout(_) | Event::AppLimited { .. } | Event::Restart(_) => false,
            _ => true,
        };
        if let Some(last) = &mut self.last {
            last.open &= open;
        }
        self.pacing = Some(answers.pacing);
    }

    /// A packet leaves at `now`.
    fn leave(&mut self, t: f64, now: Time, bytes: u64) {
        let before = self.last.replace(Departure { at: now, due: now, bytes, open: true });
        let (Some(before), Some(pacing)) = (before, self.pacing) else { return };
        let gap = match pacing {
            Pacing::Free | Pacing::Gap(Nanos::MAX) => return self.interrupt(),
            Pacing::Rate(rate) => rate.time_for(before.bytes),
            Pacing::Gap(gap) => gap,
        };
        // A rate is kept on average: the time of the next packet counts from when this one was due.
        let due = before.due + gap;
        if let Some(last) = &mut self.last {
            last.due = due.max(now);
        }
        let taken = (now - before.at).as_secs_f64();
        self.early.early = self.early.early.max(due.since(now).as_millis_f64());
        Self::add(&mut self.early, t, taken, gap, &mut self.paces.early, |stretch| stretch.early);
        if before.open {
            Self::add(&mut self.kept, t, taken, gap, &mut self.paces.kept, |one| one.answered / one.taken);
        } else {
            self.kept = Stretch::default();
        }
    }

    fn interrupt(&mut self) {
        (self.kept, self.early) = (Stretch::default(), Stretch::default());
    }

    fn add(
        to: &mut Stretch,
        t: f64,
        taken: f64,
        gap: Nanos,
        spans: &mut Vec<TrajectorySpan>,
        value: fn(&Stretch) -> f64,
    ) {
        if to.gaps == 0 {
            to.from = t - taken;
        }
        to.gaps += 1;
        to.taken += taken;
        to.answered += gap.as_secs_f64();
        if to.is_over() {
            spans.push(TrajectorySpan { from: to.from, to: t, value: value(to) });
            *to = Stretch::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_cc::{Env, Sent, Spec, Stamp};

    use super::*;

    /// What is measured of packets of 1000 bytes that leave `gaps_us` apart, at an answered millisecond a packet.
    fn of(gaps_us: impl Iterator<Item = u64>, in_flight: u64) -> Paces {
        let controller = "fixed:window=100,rate=8".parse::<Spec>().unwrap().build(&Env::new(1000));
        let answers = Answers::of(controller.as_ref());
        let (mut meter, mut now) = (PaceMeter::new(1000), Time::ZERO);
        for gap in std::iter::once(0).chain(gaps_us) {
            now += Nanos::from_micros(gap);
            let mut sent = Sent::new(now, 0, 1000);
            sent.in_flight = in_flight;
            meter.see(now.as_secs_f64(), &Event::Sent(&sent, Stamp::default()), &answers);
        }
        meter.finish()
    }

    #[test]
    fn a_pace_that_is_kept_is_one() {
        let exact = of(std::iter::repeat_n(1000, 500), 50_000);
        assert!(exact.kept.len() >= 4 && exact.kept.len() == exact.early.len(), "{exact:?}");
        assert!(exact.kept.iter().all(|span| (span.value - 1.0).abs() < 1e-9), "{exact:?}");
        assert!(exact.early.iter().all(|span| span.value == 0.0), "{exact:?}");
    }

    #[test]
    fn packets_in_pairs_keep_the_rate_and_are_early() {
        let pairs = of([0, 2000].into_iter().cycle().take(500), 50_000);
        assert!(pairs.kept.iter().all(|span| (span.value - 1.0).abs() < 0.02), "{pairs:?}");
        assert!(pairs.early.iter().all(|span| (span.value - 1.0).abs() < 1e-9), "{pairs:?}");
    }

    #[test]
    fn a_rate_that_is_exceeded_is_ever_earlier() {
        let fast = of(std::iter::repeat_n(900, 500), 50_000);
        assert!(fast.kept.iter().all(|span| (span.value - 1.0 / 0.9).abs() < 1e-9), "{fast:?}");
        assert!(fast.early.last().unwrap().value > 10.0, "{fast:?}");
        let slow = of(std::iter::repeat_n(1250, 500), 50_000);
        assert!(slow.kept.iter().all(|span| (span.value - 0.8).abs() < 1e-9), "{slow:?}");
    }

    #[test]
    fn where_the_window_holds_a_packet_back_the_pace_is_not_judged() {
        let limited = of(std::iter::repeat_n(3000, 500), 99_500);
        assert!(limited.kept.is_empty() && !limited.early.is_empty(), "{limited:?}");
    }
}
