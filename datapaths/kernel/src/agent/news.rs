//! What others know of flows: reports of the hops of their paths, on their way to the agent's thread.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use paceline_cc::{Cause, Hop, Nanos, Telemetry, Time};

/// Reports that wait. Our choice: what 40 flows bring in a second; what is older is of no use.
const WAITING: usize = 4096;

/// One report.
pub(super) struct Item {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    at: Time,
    verdict: Cause,
    fresh_for: Nanos,
    hops: Vec<Hop>,
}

impl Item {
    pub(super) fn new(local: SocketAddr, remote: SocketAddr, telemetry: &Telemetry<'_>) -> Self {
        let Telemetry { now: at, verdict, fresh_for, hops, .. } = *telemetry;
        Self { local, remote, at, verdict, fresh_for, hops: hops.to_vec() }
    }

    /// As the flow's controller takes it at `now`; `None`: it is too old by then.
    pub(super) fn telemetry(&self, now: Time) -> Option<Telemetry<'_>> {
        let left = self.fresh_for - now.since(self.at);
        let Self { verdict, hops, .. } = self;
        (left > Nanos::ZERO).then_some(Telemetry::new(now, *verdict, left, hops))
    }
}

/// Reports on their way. The oldest makes room for the newest.
#[derive(Default)]
pub(super) struct News(Mutex<VecDeque<Item>>);

impl News {
    pub(super) fn push(&self, item: Item) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING {
            waiting.pop_front();
        }
        waiting.push_back(item);
    }

    /// All that wait.
    pub(super) fn take(&self) -> VecDeque<Item> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_grows_old_on_its_way() {
        let hops = [Hop::new(3)];
        let telemetry = Telemetry::new(Time::from_nanos(1_000_000_000), Cause::Medium, Nanos::from_millis(90), &hops);
        let end = SocketAddr::from(([127, 0, 0, 1], 1));
        let item = Item::new(end, end, &telemetry);
        let later = item.telemetry(Time::from_nanos(1_030_000_000)).unwrap();
        assert_eq!((later.fresh_for, later.verdict, later.hops[0].id), (Nanos::from_millis(60), Cause::Medium, 3));
        assert!(item.telemetry(Time::from_nanos(1_090_000_000)).is_none());
        let news = News::default();
        (0..WAITING + 5).for_each(|_| news.push(Item::new(end, end, &telemetry)));
        assert_eq!((news.take().len(), news.take().len()), (WAITING, 0));
    }
}
