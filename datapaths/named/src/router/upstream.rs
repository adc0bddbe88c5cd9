//! The sockets to the other routers, and the cache on the disk, of [`paceline_icn::Upstream`].

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use paceline_cc::datapath::ICN;
use paceline_cc::{Codepoint, Env, Nanos, Spec, Time};
use paceline_icn::wire::MissingReason;
use paceline_icn::{
    Beginning, Fetch, FetchFailed, Found, JobId, Layout, Missing, Name, Router, SourceId, UNIT, Units, Uplink,
};
use paceline_linux::clock::Clock;
use paceline_udp::Offload;
use paceline_udp::socket::SessionSocket;

use super::UpstreamConfig;
use super::keeper::Keeper;
use crate::Cache;
use crate::client::link::connected;
use crate::kept::Kept;
use crate::resolver::{draw, since_1970};
use crate::store::StoreError;

/// Datagrams of one source that are taken before others have their turn.
const TAKEN: usize = 128;

/// Bytes of the versions of signed names that are remembered (our choice: some ten thousand names).
const VERSIONS: usize = 4 << 20;

/// So often it is looked whether objects were removed from the cache's folder (our choice).
const SWEEP: Nanos = Nanos::from_secs(1);

type Reply<'a> = &'a mut dyn FnMut(SocketAddr, &[u8]);

/// The other routers, and what came from them.
pub(super) struct Upstream {
    fetches: paceline_icn::Upstream,
    around: Around,
    keeper: Keeper,
    sweep_at: Time,
}

/// What the fetches use.
struct Around {
    addresses: Vec<SocketAddr>,
    controller: Spec,
    clock: Clock,
    cache: Cache,
    /// Of signed names the largest version that was seen: none goes back while the router runs.
    versions: Kept<u64>,
    /// By fetch: a socket for each address.
    sockets: BTreeMap<JobId, Vec<(SourceId, SocketAddr, SessionSocket)>>,
    /// What went wrong last that its operator should know.
    trouble: Option<String>,
}

impl Upstream {
    /// `key`: drawn at random, for the table of what was missed once.
    pub(super) fn new(config: &UpstreamConfig, cache: Cache, keeper: Keeper, clock: Clock, key: u64) -> Self {
        let around = Around {
            addresses: config.addresses.clone(),
            controller: config.controller.clone(),
            clock,
            cache,
            versions: Kept::new(VERSIONS),
            sockets: BTreeMap::new(),
            trouble: None,
        };
        Self { fetches: paceline_icn::Upstream::new(key), around, keeper, sweep_at: Time::ZERO }
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.around.sockets.values().flatten().map(|(.., socket)| socket.as_fd())
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.fetches.next_timeout()
    }

    /// What went wrong since the last call that its operator should know.
    pub(super) fn take_trouble(&mut self) -> Option<String> {
        self.around.trouble.take()
    }

    pub(super) fn find(&mut self, name: &Name) -> Found {
        self.fetches.find(&mut self.around, name)
    }

    pub(super) fn has(&mut self, name: &Name, units: Units) -> u32 {
        self.fetches.has(&mut self.around, name, units)
    }

    /// Lets go, once in a while, of what was removed from the cache's folder.
    pub(super) fn sweep(&mut self) {
        let now = self.around.clock.now();
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP;
            self.around.cache.sweep();
        }
    }

    /// Reads a unit; says how many bytes it has. `None` where it is not here any more.
    pub(super) fn read(&mut self, name: &Name, unit: u64, buffer: &mut [u8]) -> Option<usize> {
        if let Some(bytes) = self.fetches.recent(name, unit) {
            buffer.get_mut(..bytes.len())?.copy_from_slice(bytes);
            return Some(bytes.len());
        }
        self.around.cache.find(name)?.read(unit, buffer.first_chunk_mut::<UNIT>()?).ok()
    }

    /// Sees to it that units come ([`paceline_icn::Upstream::want`]).
    pub(super) fn want(
        &mut self,
        now: Time,
        missing: &Missing,
        router: &mut Router,
        reply: Reply<'_>,
    ) -> Result<(), MissingReason> {
        self.fetches.want(now, missing, &mut self.around, router, reply)
    }

    /// Takes what came, hands it on, and asks for more.
    pub(super) fn drive(&mut self, now: Time, router: &mut Router, reply: Reply<'_>) {
        self.fetches.drive(now, &mut self.around, router, reply);
        self.keeper.keep(now, &mut self.around.cache);
    }
}

impl Around {
    fn sockets(&self) -> io::Result<Vec<(SocketAddr, SessionSocket)>> {
        let offload = Offload { send: false, receive: true };
        let socket = |address: &SocketAddr| Ok((*address, connected(*address, offload)?.0));
        self.addresses.iter().map(socket).collect()
    }

    /// Into the cache, which may have dropped the object since.
    fn write(&mut self, name: &Name, manifest: &[u8], unit: u64, bytes: &[u8]) -> Result<(), StoreError> {
        match self.cache.write(name, unit, bytes) {
            Err(StoreError::Missing { .. }) => {
                self.cache.admit(manifest)?;
                self.cache.write(name, unit, bytes)
            }
            written => written,
        }
    }
}

impl Uplink for Around {
    fn cached(&mut self, name: &Name) -> Option<(Layout, bool)> {
        self.cache.find(name).map(|partial| (*partial.layout(), partial.is_whole()))
    }

    fn run(&mut self, name: &Name, units: Units) -> u32 {
        self.cache.find(name).map_or(0, |partial| partial.run(units))
    }

    fn units(&mut self, name: &Name) -> Vec<u64> {
        self.cache.find(name).map_or_else(Vec::new, |partial| partial.units().collect())
    }

    fn keep(&mut self, name: &Name, manifest: &[u8], unit: u64, bytes: &Bytes) -> bool {
        self.write(name, manifest, unit, bytes).map_err(|trouble| self.trouble = Some(trouble.to_string())).is_ok()
    }

    fn begins(&mut self, _job: JobId, name: &Name) -> Option<Beginning> {
        let known_version = self.versions.find(name).unwrap_or(0);
        Some(Beginning { unix_s: since_1970().as_secs(), seed: draw().ok()?, known_version })
    }

    fn open(&mut self, now: Time, job: JobId, fetch: &mut Fetch) -> bool {
        let Ok(sockets) = self.sockets() else { return false };
        let mut sources = Vec::new();
        for (address, socket) in sockets {
            let Ok(seed) = draw() else { return false };
            let env = Env::new(UNIT as u32).with_seed(seed);
            sources.push((fetch.add_source(now, self.controller.clone().over(&ICN).build(&env)), address, socket));
        }
        self.sockets.insert(job, sources);
        true
    }

    fn receive(&mut self, job: JobId, fetch: &mut Fetch) {
        for (source, _, socket) in self.sockets.get_mut(&job).into_iter().flatten() {
            let mut taken = 0;
            while taken < TAKEN {
                // What is dropped is counted by the fetch.
                let came = socket.receive(self.clock, |datagram| {
                    let _ = fetch.on_datagram(datagram.at, *source, datagram.bytes, datagram.ce);
                });
                match came {
                    Ok(0) => break,
                    Ok(count) => taken += count,
                    // That no one listens may pass; the fetch gives up by itself.
                    Err(_) => break,
                }
            }
        }
    }

    fn send(&mut self, job: JobId, source: SourceId, message: &[u8]) {
        let socket = self.sockets.get_mut(&job).into_iter().flatten().find(|(id, ..)| *id == source);
        // A request that cannot leave is one that is lost.
        let _ = socket.map(|(_, peer, socket)| socket.send(*peer, Codepoint::NotEct, message, message.len()));
    }

    fn close(&mut self, job: JobId) {
        self.sockets.remove(&job);
    }

    fn version(&mut self, name: &Name, version: u64) {
        let newest = self.versions.find(name).unwrap_or(0).max(version);
        self.versions.keep(*name, newest, 0);
    }

    fn refused(&mut self, name: &Name, failed: &FetchFailed) {
        self.trouble = Some(format!("{name}: {failed}"));
    }
}
