//! The content router over UDP: it serves the objects of a store, and fetches what it does not have from other routers.
//!
//! One thread has one socket, and one [`paceline_icn::Router`]; several share a port (`SO_REUSEPORT`), the rate and the table of sources.
//! What is asked for often may be answered in the kernel, where they ask ([`Server::start_with`]).

mod blocks;
#[cfg_attr(not(feature = "kernel-store"), path = "router/no_filler.rs")]
mod filler;
mod gather;
mod keeper;
mod metrics;
mod popular;
mod shelf;
mod socket;
mod upstream;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use paceline_cc::{Nanos, Rate, Spec};
use paceline_icn::{Limits, Router, RouterConfig, RouterStats, Secrets};
use paceline_linux::clock::Clock;
use paceline_udp::random;

use crate::resolver::{draw, since_1970};
use crate::store::{Store, StoreError};
use crate::{Cache, CallFailed, failed};
use filler::Filler;
use keeper::Keeper;
use popular::Popular;
use shelf::Shelf;
use socket::{SEGMENT, Socket, bind};
use upstream::Upstream;
use worker::Worker;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The folder with the objects.
    pub store: PathBuf,
    /// Where requests come in.
    pub listen: SocketAddr,
    /// All answers together, of all threads.
    pub rate: Rate,
    /// Threads; all limits hold for all of them together. The kernel decides by a receiver's address and port which one serves it.
    /// With an upstream there is one, which has the cache.
    pub threads: usize,
    /// While requests come one behind the other, a thread sleeps until many have come, this long at most: each time that it wakes costs
    /// as much as ten units. A request that comes after a silence is answered at once. At most [`ServerConfig::LONGEST_GATHER`].
    pub gather: Nanos,
    /// Where Prometheus asks.
    pub metrics: Option<SocketAddr>,
    /// What to do about objects that are not in the store.
    pub upstream: Option<UpstreamConfig>,
}

impl ServerConfig {
    /// A thread does not sleep longer, so that a stop is seen.
    pub const LONGEST_GATHER: Nanos = Nanos::from_millis(100);

    /// One thread that serves this store as fast as it is asked, and fetches nothing. Requests gather for 500 us at most (our choice: a
    /// tenth of the round trip of a wireless LAN with its first hop, half of the time between two requests of eq. 8).
    pub const fn new(store: PathBuf, listen: SocketAddr) -> Self {
        let gather = Nanos::from_micros(500);
        Self { store, listen, rate: Rate::INFINITY, threads: 1, gather, metrics: None, upstream: None }
    }
}

/// A store in the kernel, which answers requests for one unit of what is asked for often before they reach a socket.
#[derive(Clone, Debug)]
pub struct KernelStoreConfig {
    /// Bytes of the kernel's memory for it, all of which it has from the start.
    pub bytes: u64,
    /// The interface that requests come in by.
    pub interface: String,
}

impl KernelStoreConfig {
    /// Between two looks at the files of what is in it (our choice: what was changed or removed is not served half a second later).
    pub const LOOK: Duration = Duration::from_millis(250);
}

/// Other routers.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// Their addresses, at least one; all are asked, each for a part.
    pub addresses: Vec<SocketAddr>,
    /// The controller of each, such as `bbr`.
    pub controller: Spec,
    /// Bytes that the cache in the store's folder may have.
    pub cache_bytes: u64,
}

/// A router cannot begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The store is not there, or cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no other router to ask.
    #[error(
        "a router without an upstream has nothing to fetch from; name one with --upstream, or serve a store: paceline icn serve"
    )]
    NoUpstream,
    /// Requests would wait too long.
    #[error("--gather {0}: requests would wait too long for others; give {most} or less", most = ServerConfig::LONGEST_GATHER)]
    Gather(Nanos),
    /// The address is taken.
    #[error("{0}: another program listens there; stop it, or give another port with {1}")]
    InUse(SocketAddr, &'static str),
    /// The address is not one of this host.
    #[error("{0}: this host does not have that address; give one of its own, or 0.0.0.0, with {1}")]
    NotHere(SocketAddr, &'static str),
    /// It was built without eBPF.
    #[error("--kernel-store: this program was built without eBPF; build it with --features ebpf, or leave it out")]
    NoKernelStore,
    /// The store cannot be in the kernel.
    #[cfg(feature = "kernel-store")]
    #[error(transparent)]
    KernelStore(#[from] paceline_store::KernelStoreError),
    /// A call of the system failed.
    #[error(transparent)]
    System(#[from] CallFailed),
}

impl ServerError {
    fn bind(address: SocketAddr, option: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse(address, option),
            io::ErrorKind::AddrNotAvailable => Self::NotHere(address, option),
            _ => failed(format!("{option} {address}"))(source).into(),
        }
    }
}

/// What all threads share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    counts: Mutex<Vec<Counts>>,
    kernel: Mutex<Option<KernelStoreFigures>>,
    trouble: Mutex<Option<String>>,
}

/// What the store in the kernel needs of its router.
#[cfg_attr(not(feature = "kernel-store"), expect(dead_code, reason = "who reads it is not there"))]
struct Around {
    listen: SocketAddr,
    clock: Clock,
    secrets: Secrets,
    limits: Arc<Limits>,
    store: Store,
    shared: Arc<Shared>,
}

/// What one thread has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Of its router.
    pub router: RouterStats,
    /// Units that wait to leave.
    pub queued: u64,
    /// Units that wait for the upstream router.
    pub awaited: u64,
    /// Bytes of units that left, heads included.
    pub sent_bytes: u64,
    /// Messages that the kernel did not take.
    pub refused: u64,
    /// Bursts that could not be read from the store.
    pub unread: u64,
    /// Bytes of its router's tables ([`Router::memory`]), those that all threads share counted for each.
    pub tables: usize,
    /// Of the store in the kernel, where there is one. What it answered is among the others, too.
    pub kernel: Option<KernelStoreFigures>,
}

/// What the store in the kernel has done, in requests for units that could be there, and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStoreFigures {
    /// Answered with a unit.
    pub answered: u64,
    /// Refused, since the sender had used up its share.
    pub busy: u64,
    /// Passed on: the unit is not there.
    pub missed: u64,
    /// With a token that proves nothing.
    pub bad_tokens: u64,
    /// Of these, dropped: they came too fast for the router.
    pub dropped: u64,
    /// Passed on: the token is to be renewed.
    pub renewals: u64,
    /// Passed on: the rate was used up.
    pub paced: u64,
    /// Passed on: the interface's driver left no room for the answer.
    pub no_room: u64,
    /// Bytes of its memory that are in use.
    pub used_bytes: u64,
    /// Bytes of its memory.
    pub bytes: u64,
    /// Parts of objects that made room for others.
    pub evicted: u64,
    /// Times that the files of all that is there were looked at.
    pub looks: u64,
}

/// A router that runs. It stops when this is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    metrics: Option<paceline_scrape::ScrapeServer>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Begins to serve.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(config: &ServerConfig) -> Result<Self, ServerError> {
        Self::start_with(config, None)
    }

    /// Whether this machine and this build can have a store in the kernel: one is put at a veth pair of its own, and goes at once.
    ///
    /// # Errors
    /// [`ServerError`]: what is missing.
    pub fn try_kernel_store() -> Result<(), ServerError> {
        Filler::try_here()?;
        Ok(())
    }

    /// Begins to serve, with a store in the kernel; only objects of the folder are in it, not those from upstream.
    ///
    /// # Errors
    /// [`ServerError`]: where there is to be a store in the kernel and it cannot be, nothing is served.
    pub fn start_with(config: &ServerConfig, kernel: Option<&KernelStoreConfig>) -> Result<Self, ServerError> {
        if config.gather > ServerConfig::LONGEST_GATHER {
            return Err(ServerError::Gather(config.gather));
        }
        let (store, count) = match &config.upstream {
            Some(upstream) if upstream.addresses.is_empty() => return Err(ServerError::NoUpstream),
            // One thread has the cache.
            Some(_) => (Store::create(&config.store)?, 1),
            None => (Store::open(&config.store)?, config.threads.max(1)),
        };
        let draw = || draw().map_err(failed("random numbers"));
        let secret: [u8; 32] = random().map_err(failed("random numbers"))?;
        let shared = Arc::new(Shared::default());
        shared.counts().resize(count, Counts::default());
        let metrics = config.metrics.map(metrics::bind).transpose()?;
        let mut server = Self { shared, address: config.listen, metrics: None, threads: Vec::new() };
        let mut sockets = Vec::new();
        for _ in 0..count {
            let bound = bind(server.address, count > 1).and_then(|socket| Ok((socket.local_addr()?, socket)));
            let (address, socket) = bound.map_err(|source| ServerError::bind(config.listen, "--listen", source))?;
            server.address = address;
            sockets.push(socket);
        }
        let clock = Clock::new();
        let of_all = RouterConfig { upstream: config.upstream.is_some(), ..RouterConfig::new(config.rate) };
        let filler = kernel.map(Filler::open).transpose()?;
        let limits = Arc::new(match &filler {
            Some(filler) => Limits::within(&of_all, draw()?, filler.buckets()),
            None => Limits::new(&of_all, draw()?),
        });
        let begin = |filler: Filler| {
            let secrets = Secrets::new(&secret, since_1970().as_secs());
            let (limits, store, shared) = (Arc::clone(&limits), store.clone(), Arc::clone(&server.shared));
            filler.begin(Around { listen: server.address, clock, secrets, limits, store, shared })
        };
        let tell = match filler.map(begin).transpose()? {
            Some((tell, fill)) => {
                server.spawn("paceline-fill", move || {
                    fill();
                    Ok(())
                })?;
                Some(tell)
            }
            None => None,
        };
        for (index, socket) in sockets.into_iter().enumerate() {
            let upstream = config.upstream.as_ref().map(|upstream| {
                let cache = Cache::open(&store, upstream.cache_bytes)?;
                let keeper = Keeper::start(&server.shared).map_err(failed("no thread"))?;
                Ok::<_, ServerError>(Upstream::new(upstream, cache, keeper, clock, draw()?))
            });
            let (shelf, upstream) = (Shelf::new(store.clone()), upstream.transpose()?);
            let popular = tell.clone().map(|tell| Ok::<_, ServerError>(Popular::new(tell, draw()?))).transpose()?;
            let router = (of_all.divided(count), draw()?, Arc::clone(&limits));
            let (shared, gather) = (Arc::clone(&server.shared), config.gather);
            server.spawn("paceline-route", move || {
                let router = |secrets| Router::sharing(router.0, secrets, router.1, router.2);
                let mut worker = Worker::new(clock, Socket::new(socket), shelf, upstream, router, &secret, gather);
                worker.popular = popular;
                worker.run(index, &shared)
            })?;
        }
        server.metrics = metrics.map(|bound| metrics::answer(bound, &server.shared)).transpose()?;
        Ok(server)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), ServerError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        self.threads.push(thread.map_err(failed("no thread"))?);
        Ok(())
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where Prometheus asks.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(paceline_scrape::ScrapeServer::address)
    }

    /// What it has done, all threads together.
    pub fn counts(&self) -> Counts {
        self.shared.total()
    }

    /// Why something could not be kept in the cache, such as a full disk, if that happened since the last call. It was served all the same.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether a thread has ended, which happens when the system refuses the socket's use.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Stops: what is queued is dropped.
    ///
    /// # Errors
    /// What ended a thread early.
    pub fn stop(mut self) -> Result<Counts, ServerError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
            ended.map_err(failed("the socket cannot be used any more"))?;
        }
        Ok(self.shared.total())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A caller that wants to know calls stop.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn counts(&self) -> std::sync::MutexGuard<'_, Vec<Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_trouble(&self, trouble: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
    }

    #[cfg_attr(not(feature = "kernel-store"), expect(dead_code, reason = "who calls it is not there"))]
    fn set_kernel(&self, figures: KernelStoreFigures) {
        *self.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(figures);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn total(&self) -> Counts {
        let mut all = Counts::default();
        for one in self.counts().iter() {
            all.router.add(&one.router);
            all.queued += one.queued;
            all.awaited += one.awaited;
            all.sent_bytes += one.sent_bytes;
            all.refused += one.refused;
            all.unread += one.unread;
            all.tables += one.tables;
        }
        all.kernel = *self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = &all.kernel {
            let router = &mut all.router;
            router.requests += kernel.answered + kernel.busy + kernel.dropped;
            router.hits += kernel.answered;
            router.sent_units += kernel.answered;
            router.limited += kernel.busy;
            router.bad_tokens += kernel.dropped;
            all.sent_bytes += kernel.answered * SEGMENT as u64;
        }
        all
    }
}
