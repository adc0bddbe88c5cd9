//! Reports on their way to senders in other threads of a process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_cc::{Nanos, Telemetry, Time};

use crate::reader::ReportReader;
use crate::report::{FlowReport, Tuple};

/// Reports of one flow that wait for its sender (our choice: more than half a second of them, after which they are too old anyway); what
/// comes when it is full is lost.
const WAITING: usize = 64;

/// Where the senders of a process get the reports of their flows. A clone is the same.
#[derive(Clone, Default)]
pub struct ReportInboxes(Arc<Mutex<BTreeMap<Tuple, SyncSender<FlowReport>>>>);

/// The reports of one flow, in the thread of its sender.
#[derive(Debug)]
pub struct ReportInbox {
    reports: Receiver<FlowReport>,
    reader: ReportReader,
}

impl ReportInboxes {
    /// The inbox of the flow with these ends, in place of an earlier one.
    pub fn open(&self, flow: Tuple) -> ReportInbox {
        let (sender, reports) = sync_channel(WAITING);
        self.all().insert(flow, sender);
        ReportInbox { reports, reader: ReportReader::new() }
    }

    /// A report has come: it goes to its flow's inbox, if there is one.
    pub fn put(&self, report: &FlowReport) {
        let mut all = self.all();
        let Some(inbox) = all.get(&report.tuple) else { return };
        if let Err(TrySendError::Disconnected(_)) = inbox.try_send(report.clone()) {
            all.remove(&report.tuple);
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Tuple, SyncSender<FlowReport>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ReportInboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReportInboxes").field(&self.all().len()).finish()
    }
}

impl ReportInbox {
    /// Takes in what has come, at `now` by the clock of the flow, whose smoothed RTT is `srtt`: `tell` is called with what each report that
    /// is believed says, in their order.
    pub fn take_in(&mut self, now: Time, srtt: Nanos, mut tell: impl FnMut(&Telemetry<'_>)) {
        while let Ok(report) = self.reports.try_recv() {
            if self.reader.take(now, &report, srtt).is_ok()
                && let Some(telemetry) = self.reader.telemetry(now)
            {
                tell(&telemetry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(dport: u16, rseq: u64) -> FlowReport {
        let any = std::net::Ipv6Addr::LOCALHOST;
        FlowReport { tuple: Tuple { src: any, dst: any, sport: 1, dport }, rseq, ..FlowReport::default() }
    }

    fn taken(inbox: &mut ReportInbox) -> u32 {
        let mut taken = 0;
        inbox.take_in(Time::from_millis(5), Nanos::from_millis(20), |_| taken += 1);
        taken
    }

    #[test]
    fn each_flow_gets_its_own_once_and_none_that_is_old() {
        let inboxes = ReportInboxes::default();
        let [mut one, mut other] = [1, 2].map(|dport| inboxes.open(report(dport, 0).tuple));
        for (dport, rseq) in [(1, 1), (1, 2), (1, 2), (2, 9), (3, 1)] {
            inboxes.clone().put(&report(dport, rseq));
        }
        assert_eq!([taken(&mut one), taken(&mut other), taken(&mut one)], [2, 1, 0]);
    }

    #[test]
    fn inboxes_are_bounded_and_forgotten_with_their_flows() {
        let inboxes = ReportInboxes::default();
        let mut inbox = inboxes.open(report(1, 0).tuple);
        (1..1000).for_each(|rseq| inboxes.put(&report(1, rseq)));
        assert_eq!(taken(&mut inbox), WAITING as u32);
        drop(inbox);
        inboxes.put(&report(1, 2000));
        assert!(inboxes.all().is_empty());
    }
}
