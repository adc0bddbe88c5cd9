//! A controller's clock where a stack calls only now and then, and the reports of the path's hops, which come as ticks do.

use paceline_cc::{Nanos, Time};
use paceline_telemetry::ReportInbox;
use paceline_transport::Numbered;

/// Most ticks made up for at one call (our choice: 5 s of Verus's epochs); after a longer silence one stands for the rest.
const TICKS: u32 = 1000;

/// Makes up for ticks, each for its own time.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    /// Between the last two.
    interval: Nanos,
    reports: Option<ReportInbox>,
}

impl Ticks {
    /// The same with the reports that come into `reports`.
    pub(crate) fn informed(self, reports: Option<ReportInbox>) -> Self {
        Self { reports, ..self }
    }

    /// Those that are due.
    pub(crate) fn run(&mut self, flow: &mut Numbered, now: Time) {
        self.catch_up(flow, now, Nanos::ZERO);
    }

    /// The same before an acknowledgement, but for the last, which comes after it: what it allows could not leave before, so it must count
    /// from the flight after it.
    pub(crate) fn run_before_news(&mut self, flow: &mut Numbered, now: Time) {
        self.catch_up(flow, now, self.interval);
    }

    /// Those that were due `ago`.
    fn catch_up(&mut self, flow: &mut Numbered, now: Time, ago: Nanos) {
        if let Some(reports) = &mut self.reports {
            let srtt = flow.rtt().smoothed().unwrap_or(Nanos::ZERO);
            reports.take_in(now, srtt, |telemetry| flow.telemetry(telemetry));
        }
        for _ in 0..TICKS {
            let due = flow.next_tick();
            if due + ago > now {
                return;
            }
            flow.tick(due);
            let next = flow.next_tick();
            if next <= due {
                break;
            }
            self.interval = next - due;
        }
        flow.tick(now);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use paceline_cc::observe::{Event, Observed, Observer};
    use paceline_cc::{Controller, Env, Spec};
    use paceline_telemetry::{FlowReport, ReportInboxes};
    use paceline_transport::SenderConfig;

    use super::*;

    struct Reports(Arc<AtomicU32>);

    impl Observer for Reports {
        fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
            if matches!(event, Event::Telemetry(_)) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn reports_reach_the_controller_with_the_next_call() {
        let seen = Arc::new(AtomicU32::new(0));
        let controller = "hops".parse::<Spec>().unwrap().build(&Env::new(1200));
        let controller = Observed::wrap(controller, Some(Box::new(Reports(seen.clone()))));
        let mut flow = Numbered::new(&SenderConfig::new(1200), controller);
        let (inboxes, report) = (ReportInboxes::default(), FlowReport::default());
        let mut ticks = Ticks::default().informed(Some(inboxes.open(report.tuple)));
        for (rseq, call) in [Ticks::run, Ticks::run_before_news].into_iter().enumerate() {
            let rseq = rseq as u64 + 1;
            inboxes.put(&FlowReport { rseq, ..report.clone() });
            call(&mut ticks, &mut flow, Time::from_millis(10 * rseq));
            assert_eq!(u64::from(seen.load(Ordering::Relaxed)), rseq);
        }
    }
}
