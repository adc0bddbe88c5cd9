//! How an end takes part in a bus, why there is none, and what became of messages.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::gate::MAX_AGE;
use crate::key::{Keys, PublisherRole, is_name};

/// Messages that wait to be sent, and those that wait to be read. Our choice: a second of 40 flows at 100 reports a second, in some
/// megabytes.
const QUEUE: usize = 4096;

/// How this end takes part.
#[derive(Clone)]
pub struct BusOptions {
    /// The deployment; several may share a server.
    pub domain: String,
    /// Who publishes: names the key.
    pub name: String,
    /// What this end publishes; `None`: nothing.
    pub role: Option<PublisherRole>,
    /// The keys of publishers, its own among them. `None` is for a bus of this machine alone.
    pub keys: Option<Keys>,
    /// How old a message may be ([`MAX_AGE`]).
    pub max_age: Duration,
    /// Messages that wait, in each direction.
    pub queue: usize,
    /// Where a line goes that people need to see.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for BusOptions {
    fn default() -> Self {
        Self {
            domain: "default".to_owned(),
            name: host(),
            role: None,
            keys: None,
            max_age: Duration::from_micros(MAX_AGE),
            queue: QUEUE,
            log: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for BusOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("domain", &self.domain).field("name", &self.name).finish_non_exhaustive()
    }
}

/// The machine's name, as far as it can name a publisher.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name: String = name.split('.').next().unwrap_or_default().chars().take(63).collect();
    if is_name(&name) { name } else { "host".to_owned() }
}

/// Why there is no bus.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// A name that cannot be one.
    #[error("'{0}' cannot be a name: 1 to 63 letters, digits, - and _")]
    Name(String),
    /// Messages would come from anyone.
    #[error(
        "{0}: messages between machines need keys; make one a publisher with: paceline int key NAME, and give --keys"
    )]
    NoKeys(Address),
    /// It has no key to sign with.
    #[error("there is no key of '{name}' for the role {role}; make one with: paceline int key {name} --role {role}")]
    NoKey {
        /// Who would publish.
        name: String,
        /// What.
        role: PublisherRole,
    },
    /// The folder of the local bus cannot be used.
    #[error("{}: {error}", path.display())]
    Folder {
        /// The folder, or a socket in it.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Others may write to the folder.
    #[error("{}: others can write to this folder, or it is another user's; chmod 700 it, or name another: local:/FOLDER", .0.display())]
    Open(PathBuf),
    /// The system has no resources for it.
    #[error("the bus cannot start: {0}")]
    System(#[from] io::Error),
    /// This build has no NATS.
    #[error("{0}: this paceline was built without NATS")]
    NoNats(Address),
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFigures {
    /// Given to [`Bus::publish`](crate::Bus::publish).
    pub published: u64,
    /// Passed on: to the server, or to each subscriber of this machine.
    pub sent: u64,
    /// Replaced by newer ones before they could be sent.
    pub dropped: u64,
    /// Not sent because they were too old by then.
    pub expired: u64,
    /// Not sent to a subscriber of this machine that was slow.
    pub slow: u64,
    /// Not sent because they were longer than [`MESSAGE_MAX`](crate::envelope::MESSAGE_MAX).
    pub oversize: u64,
    /// Times that the connection was lost.
    pub lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_printed_in_one_line() {
        for text in ["nats://host\n:4222", "local:/run/\x1b[2J", "tls://user:password\r@host"] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
