//! Publishing and subscribing, whatever carries the messages.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::address::Address;
use crate::envelope::{MESSAGE_MAX, seal};
use crate::gate::{Gate, Trust};
use crate::key::{PublisherKey, is_name};
use crate::message::MessageBody;
use crate::options::{BusError, BusOptions, MessageFigures};
use crate::queue::Queue;
use crate::subject::{BusSubject, MessageKind, SubjectFilter};
use crate::subscription::{Inbox, Source, Subscription};
use crate::{local, memory};

/// What waits to be sent.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) subject: String,
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A message that is signed and not sent yet.
#[derive(Clone)]
pub struct Sealed(Outgoing);

/// What a bus shares with the threads that serve it.
pub(crate) struct Shared {
    pub(crate) options: BusOptions,
    pub(crate) outbox: Queue<Outgoing>,
    key: Option<PublisherKey>,
    number: Mutex<u64>,
    figures: Mutex<MessageFigures>,
}

impl Shared {
    pub(crate) fn say(&self, line: &str) {
        (self.options.log)(line);
    }

    /// What became of messages, to be counted.
    pub(crate) fn figures(&self) -> MutexGuard<'_, MessageFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a message is too old to be sent; counted then.
    pub(crate) fn is_expired(&self, item: &Outgoing) -> bool {
        let expired = item.number.saturating_add(self.max_age()) < now();
        self.figures().expired += u64::from(expired);
        expired
    }

    fn max_age(&self) -> u64 {
        u64::try_from(self.options.max_age.as_micros()).unwrap_or(u64::MAX)
    }
}

enum Link {
    Memory(memory::Hub),
    Local {
        folder: PathBuf,
        _post: Option<local::Post>,
    },
    #[cfg(feature = "nats")]
    Nats(Arc<crate::nats::Session>),
}

/// One end of a bus. Threads of its own send and receive; they end with it.
pub struct Bus {
    address: Option<Address>,
    shared: Arc<Shared>,
    link: Link,
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bus").field(&self.shared.options).finish()
    }
}

impl Bus {
    /// Opens an end. A server that cannot be reached is tried again and again, and said so.
    ///
    /// # Errors
    /// A name or a key is missing, the local folder cannot be used, there are no resources.
    pub fn open(address: &Address, options: BusOptions) -> Result<Self, BusError> {
        if options.keys.is_none() && matches!(address, Address::Nats(_)) {
            return Err(BusError::NoKeys(address.clone()));
        }
        let shared = share(options)?;
        let link = match address {
            Address::Local(folder) => {
                local::prepare(folder)?;
                let post = shared.options.role.is_some().then(|| local::Post::start(folder, &shared)).transpose()?;
                Link::Local { folder: folder.clone(), _post: post }
            }
            #[cfg(feature = "nats")]
            Address::Nats(url) => Link::Nats(Arc::new(crate::nats::Session::start(url, address, &shared)?)),
            #[cfg(not(feature = "nats"))]
            Address::Nats(_) => return Err(BusError::NoNats(address.clone())),
        };
        Ok(Self { address: Some(address.clone()), shared, link })
    }

    /// An end of a bus within this process.
    ///
    /// # Errors
    /// A name or a key is missing.
    pub fn join(hub: &memory::Hub, options: BusOptions) -> Result<Self, BusError> {
        Ok(Self { address: None, shared: share(options)?, link: Link::Memory(hub.clone()) })
    }

    /// Publishes; never waits. What cannot be sent is counted ([`Bus::figures`]).
    pub fn publish(&self, kind: MessageKind, body: &MessageBody) {
        self.publish_text(kind, &body.text());
    }

    /// Publishes a text as it is.
    pub fn publish_text(&self, kind: MessageKind, text: &[u8]) {
        // Sent in the order of their numbers: the lock is held.
        let mut last = self.last_number();
        if let Some(sealed) = self.seal_after(&mut last, kind, text) {
            self.send(sealed);
        }
    }

    /// Signs a message, with the time of now, for [`Bus::send`] later; `None`: it is too long, which is counted.
    pub fn seal(&self, kind: MessageKind, body: &MessageBody) -> Option<Sealed> {
        self.seal_after(&mut self.last_number(), kind, &body.text())
    }

    fn last_number(&self) -> MutexGuard<'_, u64> {
        self.shared.number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seal_after(&self, last: &mut u64, kind: MessageKind, text: &[u8]) -> Option<Sealed> {
        let shared = &self.shared;
        shared.figures().published += 1;
        let subject = BusSubject { domain: shared.options.domain.clone(), kind }.to_string();
        let number = now().max(last.saturating_add(1));
        *last = number;
        let bytes = seal(&shared.options.name, shared.key.as_ref(), number, &subject, text);
        let fits = bytes.len() <= MESSAGE_MAX;
        shared.figures().oversize += u64::from(!fits);
        fits.then_some(Sealed(Outgoing { subject, number, bytes }))
    }

    /// Sends what this end, or another one, has signed. Readers refuse what comes behind a newer message of the same subject, and what is
    /// too old.
    pub fn send(&self, Sealed(item): Sealed) {
        let shared = &self.shared;
        match &self.link {
            Link::Memory(hub) => {
                hub.pass(&item.subject, &item.bytes);
                shared.figures().sent += 1;
            }
            Link::Local { .. } => shared.outbox.push(item),
            #[cfg(feature = "nats")]
            Link::Nats(session) => {
                shared.outbox.push(item);
                session.wake();
            }
        }
    }

    /// Subscribes.
    ///
    /// # Errors
    /// The system's.
    pub fn subscribe(&self, filters: &[SubjectFilter]) -> Result<Subscription, BusError> {
        let options = &self.shared.options;
        let trust = options.keys.clone().map_or(Trust::Machine, Trust::Keys);
        let gate = Gate::new(&options.domain, trust, self.shared.max_age());
        let inbox = Arc::new(Inbox::new(gate, options));
        let source = match &self.link {
            Link::Memory(hub) => {
                hub.add(&inbox);
                Source::Memory
            }
            Link::Local { folder, .. } => Source::Local(local::Listener::start(folder, &inbox)?),
            #[cfg(feature = "nats")]
            Link::Nats(session) => Source::Nats(session.clone()),
        };
        let subscription = Subscription::new(inbox, source);
        filters.iter().for_each(|filter| subscription.add(filter));
        Ok(subscription)
    }

    /// Whether messages get through, as far as this end can see.
    pub fn is_connected(&self) -> bool {
        match &self.link {
            Link::Memory(_) | Link::Local { .. } => true,
            #[cfg(feature = "nats")]
            Link::Nats(session) => session.is_connected(),
        }
    }

    /// What became of what was published so far.
    pub fn figures(&self) -> MessageFigures {
        MessageFigures { dropped: self.shared.outbox.dropped(), ..*self.shared.figures() }
    }

    /// Which it is; `None`: of this process.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// How it takes part.
    pub fn options(&self) -> &BusOptions {
        &self.shared.options
    }
}

fn share(options: BusOptions) -> Result<Arc<Shared>, BusError> {
    for name in [&options.name, &options.domain] {
        if !is_name(name) {
            return Err(BusError::Name(name.clone()));
        }
    }
    let key = match (&options.keys, options.role) {
        (Some(keys), Some(role)) => {
            let own = keys.of(&options.name).filter(|key| key.roles().contains(&role));
            Some(own.cloned().ok_or_else(|| BusError::NoKey { name: options.name.clone(), role })?)
        }
        _ => None,
    };
    let outbox = Queue::new(options.queue);
    Ok(Arc::new(Shared { options, outbox, key, number: Mutex::default(), figures: Mutex::default() }))
}

/// Microseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
