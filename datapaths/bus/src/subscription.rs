//! What a subscriber has, and what it shares with the threads that serve it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::bus::now;
use crate::gate::{Gate, GateCounts, MessageRefused, RefusalReason};
use crate::local;
use crate::message::{BusMessage, MessageBody};
use crate::options::BusOptions;
use crate::queue::Queue;
use crate::subject::{BusSubject, SubjectFilter};

/// What a subscriber shares with the threads that serve it.
pub(crate) struct Inbox {
    filters: Mutex<BTreeSet<SubjectFilter>>,
    gate: Mutex<Gate>,
    queue: Queue<BusMessage>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Inbox {
    pub(crate) fn new(gate: Gate, options: &BusOptions) -> Self {
        let (filters, gate, queue) = (Mutex::default(), Mutex::new(gate), Queue::new(options.queue));
        Self { filters, gate, queue, log: options.log.clone() }
    }

    fn filters(&self) -> MutexGuard<'_, BTreeSet<SubjectFilter>> {
        self.filters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a message that came for this subscriber, or one of all that go round on this machine.
    pub(crate) fn deliver(&self, subject: &str, bytes: &[u8]) {
        if let Ok(subject) = subject.parse::<BusSubject>()
            && !self.filters().iter().any(|filter| filter.takes(&subject.kind))
        {
            return;
        }
        let now = now();
        let mut gate = self.gate();
        match take(&mut gate, subject, bytes, now) {
            Ok(message) => {
                gate.take();
                self.queue.push(message);
            }
            Err(refused) => {
                let line = gate.refuse(&refused, now);
                drop(gate);
                if let Some(line) = line {
                    (self.log)(&line);
                }
            }
        }
    }
}

fn take(gate: &mut Gate, subject: &str, bytes: &[u8], now: u64) -> Result<BusMessage, MessageRefused> {
    let (about, envelope) = gate.open(subject, bytes, now)?;
    let refused = |reason: RefusalReason| MessageRefused {
        reason,
        publisher: envelope.publisher.to_owned(),
        subject: subject.to_owned(),
    };
    let body = MessageBody::read(&about.kind, envelope.body).map_err(refused)?;
    Ok(BusMessage { subject: about, publisher: envelope.publisher.to_owned(), number: envelope.number, body })
}

/// Where its messages come from.
pub(crate) enum Source {
    Memory,
    Local(#[expect(dead_code, reason = "ends when it is dropped")] local::Listener),
    #[cfg(feature = "nats")]
    Nats(Arc<crate::nats::Session>),
}

/// What a subscriber has. Dropping it ends the subscription.
pub struct Subscription {
    inbox: Arc<Inbox>,
    source: Source,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.inbox.filters()).finish()
    }
}

impl Subscription {
    pub(crate) fn new(inbox: Arc<Inbox>, source: Source) -> Self {
        Self { inbox, source }
    }

    /// Wants these too. Filters of one subscription may not overlap: a message that comes twice is taken for a replay.
    pub fn add(&self, filter: &SubjectFilter) {
        let new = self.inbox.filters().insert(filter.clone());
        match &self.source {
            #[cfg(feature = "nats")]
            Source::Nats(session) if new => session.join(&self.inbox, filter),
            _ => {
                let _ = new;
            }
        }
    }

    /// Does not want these any more.
    pub fn remove(&self, filter: &SubjectFilter) {
        let was = self.inbox.filters().remove(filter);
        match &self.source {
            #[cfg(feature = "nats")]
            Source::Nats(session) if was => session.leave(&self.inbox, filter),
            _ => {
                let _ = was;
            }
        }
    }

    /// The next message, within this time.
    pub fn next(&self, patience: Duration) -> Option<BusMessage> {
        self.inbox.queue.wait(patience)
    }

    /// What became of messages that came.
    pub fn counts(&self) -> GateCounts {
        *self.inbox.gate().counts()
    }

    /// Messages that were replaced by newer ones before they were read.
    pub fn dropped(&self) -> u64 {
        self.inbox.queue.dropped()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        #[cfg(feature = "nats")]
        if let Source::Nats(session) = &self.source {
            let filters = std::mem::take(&mut *self.inbox.filters());
            filters.iter().for_each(|filter| session.leave(&self.inbox, filter));
        }
    }
}
