//! A router that keeps the service informed of what its store has.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use paceline_icn::Name;
use paceline_icn::resolve::ResolveKey;

use super::{ResolveError, announce};
use crate::store::{Store, StoreError};

/// An announcement holds for this long (our choice: a router that died is forgotten within two minutes).
const TTL: Duration = Duration::from_secs(120);

/// It is repeated so often (our choice: two may get lost), and then the store is looked at again.
const EVERY: Duration = Duration::from_secs(40);

/// After a failure sooner.
const AGAIN: Duration = Duration::from_secs(5);

/// The service has this long to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is announced, and where.
#[derive(Clone, Debug)]
pub struct Announcing {
    /// The store; all that it has, published or in its cache.
    pub store: PathBuf,
    /// Where the router is reached.
    pub address: SocketAddr,
    /// The service.
    pub service: SocketAddr,
    /// The key that both share.
    pub key: ResolveKey,
}

/// Why a round of announcements failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnnounceError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The service did not take them.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
}

/// Announces until it is dropped; then takes back what it announced.
#[derive(Debug)]
pub struct Announcer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Announcer {
    /// Begins. `failed` is called with every failure, after which it goes on.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(what: Announcing, mut failed: impl FnMut(AnnounceError) + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || {
            let mut names = Vec::new();
            loop {
                let done = round(&what, &mut names);
                let wait = if done.is_ok() { EVERY } else { AGAIN };
                if let Err(error) = done {
                    failed(error);
                }
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    // One that cannot be taken back is forgotten when its time is over.
                    let _ = announce(&names, what.address, Duration::ZERO, &what.key, what.service, PATIENCE / 10);
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("icn-announce".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

/// Announces what the store has now, and takes back what it had and has no more.
fn round(what: &Announcing, names: &mut Vec<Name>) -> Result<(), AnnounceError> {
    let mut now = Store::open(&what.store)?.names()?;
    now.sort_unstable();
    // Both are in order.
    let gone: Vec<Name> = names.iter().filter(|name| now.binary_search(name).is_err()).copied().collect();
    let say = |names: &[Name], ttl| -> Result<(), ResolveError> {
        announce(names, what.address, ttl, &what.key, what.service, PATIENCE)
    };
    say(&gone, Duration::ZERO).and_then(|()| say(&now, TTL))?;
    *names = now;
    Ok(())
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
