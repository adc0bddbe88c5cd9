//! What a router does not have it fetches from other routers, verifies, and keeps if it is asked for again.
//!
//! A fetch begins where a receiver asks and stays a little ahead of the last unit that was asked for; the units go from it to all that
//! wait. Units of an object that was missed once are kept in memory for a moment only; of one that was missed twice, in the cache.

mod job;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::Bytes;
use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_icn::wire::Reason;
use paceline_icn::{
    Admission, Failed, Fetch, FetchConfig, Found, Missing, Name, Place, Router, Source, UNIT, Units, makes_room,
};
use paceline_linux::clock::Clock;
use paceline_udp::socket::Socket;
use paceline_udp::{Offload, random};

use super::UpstreamConfig;
use super::keeper::Keeper;
use crate::Cache;
use crate::kept::Kept;
use crate::store::StoreError;
use job::{FIRST_AHEAD, Job};

/// Fetches at once (our choice: each has up to 7 MB).
const JOBS: usize = 16;

/// A fetch that was asked for nothing in this long makes room for any other (our choice: several round trips, so that a receiver that still fetches
/// has asked since).
const SETTLED: Nanos = Nanos::from_millis(500);

/// Bytes that a fetch has on its way or out of order (our choice: a round trip of 100 ms at 320 Mbit/s).
const BUFFER: u64 = 4 << 20;

/// A request that went through more routers than our own, and comes while nothing of ours was answered, is our own: after this long it
/// is refused as a loop (our choice: longer than a round trip).
const LOOP: Nanos = Nanos::from_millis(300);

/// Bytes of the versions of signed names that are remembered (our choice: some ten thousand names).
const VERSIONS: usize = 4 << 20;

/// So often it is looked whether objects were removed from the cache's folder (our choice).
const SWEEP: Nanos = Nanos::from_secs(1);

type Reply<'a> = &'a mut dyn FnMut(SocketAddr, &[u8]);

/// The other routers, and what came from them.
pub(super) struct Upstream {
    addresses: Vec<SocketAddr>,
    controller: Spec,
    clock: Clock,
    cache: Cache,
    keeper: Keeper,
    admission: Admission,
    /// Of signed names the largest version that was seen: none goes back while the router runs.
    versions: Kept<u64>,
    jobs: Vec<Job>,
    message: Vec<u8>,
    sweep_at: Time,
    /// What went wrong last that its operator should know.
    pub(super) trouble: Option<String>,
}

impl Upstream {
    /// `key`: drawn at random, for the table of what was missed once.
    pub(super) fn new(config: &UpstreamConfig, cache: Cache, keeper: Keeper, clock: Clock, key: u64) -> Self {
        Self {
            addresses: config.addresses.clone(),
            controller: config.controller.clone(),
            clock,
            cache,
            keeper,
            admission: Admission::new(key),
            versions: Kept::new(VERSIONS),
            jobs: Vec::new(),
            message: Vec::new(),
            sweep_at: Time::ZERO,
            trouble: None,
        }
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.jobs.iter().flat_map(|job| job.sockets.iter().map(|(_, (_, socket))| socket.as_fd()))
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.jobs.iter().map(|job| job.fetch.next_timeout()).min().unwrap_or(Time::NEVER)
    }

    pub(super) fn find(&mut self, name: &Name) -> Found {
        self.jobs.iter_mut().filter(|job| job.name == *name).for_each(|job| job.used = true);
        if let Some(partial) = self.cache.find(name) {
            return Found::Here { stored_units: Some(partial.layout().stored_units()), whole: partial.is_whole() };
        }
        let stored = self.jobs.iter().filter(|job| job.name == *name).find_map(Job::stored_units);
        stored.map_or(Found::Elsewhere, |stored| Found::Here { stored_units: Some(stored), whole: false })
    }

    pub(super) fn has(&mut self, name: &Name, units: Units) -> u32 {
        let cached = self.cache.find(name).map_or(0, |partial| partial.run(units));
        let rest = units.first + u64::from(cached)..units.end();
        let recent = rest.take_while(|unit| self.recent(name, *unit).is_some()).count() as u32;
        cached + recent
    }

    /// Lets go, once in a while, of what was removed from the cache's folder.
    pub(super) fn sweep(&mut self) {
        let now = self.clock.now();
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP;
            self.cache.sweep();
        }
    }

    fn recent(&self, name: &Name, unit: u64) -> Option<&Bytes> {
        self.jobs.iter().filter(|job| job.name == *name).find_map(|job| job.recent.get(&unit))
    }

    /// Reads a unit; says how many bytes it has. `None` where it is not here any more.
    pub(super) fn read(&mut self, name: &Name, unit: u64, buffer: &mut [u8]) -> Option<usize> {
        if let Some(bytes) = self.recent(name, unit) {
            buffer.get_mut(..bytes.len())?.copy_from_slice(bytes);
            return Some(bytes.len());
        }
        self.cache.find(name)?.read(unit, buffer.first_chunk_mut::<UNIT>()?).ok()
    }

    /// Sees to it that units come. A fetch that makes room for another ends: what was awaited of it is refused as of a busy router.
    pub(super) fn want(
        &mut self,
        now: Time,
        unix_s: u64,
        missing: &Missing,
        router: &mut Router,
        reply: Reply<'_>,
    ) -> Result<(), Reason> {
        let source = Source::of(missing.from);
        let name = missing.name;
        let again = self.admission.missed(&name, missing.nonce);
        let (Some(first), Some(last)) = (missing.ranges.as_slice().first(), missing.ranges.as_slice().last()) else {
            return Ok(());
        };
        let near = |job: &&mut Job| job.name == name && job.is_near(first.first);
        if let Some(job) = self.jobs.iter_mut().find(near) {
            if missing.hops >= job.hops {
                if job.manifest.is_none() {
                    return Err(if now.since(job.began) > LOOP { Reason::Loop } else { Reason::Busy });
                }
                job.hops = missing.hops + 1;
                job.fetch.set_hops(job.hops);
            }
            job.kept |= again;
            job.miss(last.end());
            job.asked_by(source, now);
            return Ok(());
        }
        self.jobs.retain(|job| !job.is_idle(now));
        if self.jobs.len() == JOBS {
            let all: Vec<_> = self.jobs.iter().map(|job| job.standing(now)).collect();
            let gone = self.jobs.swap_remove(makes_room(&all, source, SETTLED).ok_or(Reason::Busy)?);
            router.failed(&gone.name, 0..u64::MAX, Reason::Busy, reply);
        }
        let mut job = self.begin(now, unix_s, missing, first.first, again).map_err(|_| Reason::Busy)?;
        job.begin(last.end());
        self.jobs.push(job);
        Ok(())
    }

    fn begin(&mut self, now: Time, unix_s: u64, missing: &Missing, first: u64, again: bool) -> io::Result<Job> {
        let name = missing.name;
        let cached = self.cache.find(&name);
        // Without a manifest: the last data unit that cannot be behind it, as one unit of 59 is an index unit.
        let guess = first.saturating_sub(first / 50 + 12);
        let data = cached.and_then(|partial| partial.layout().place(first)).map_or(guess, |place| match place {
            Place::Manifest => 0,
            Place::Index { first, .. } | Place::Data { index: first } => first,
        });
        let hops = missing.hops + 1;
        let known_version = self.versions.find(&name).unwrap_or(0);
        let mut config =
            FetchConfig { bytes: false, units: true, hops, unix_s, known_version, ..FetchConfig::default() };
        config.flow.receive_buffer = BUFFER;
        let draw = || random().map(u64::from_be_bytes);
        let mut fetch = Fetch::new(config, name, data * UNIT as u64..u64::MAX, draw()?);
        if let Some(partial) = cached {
            fetch.have(partial.units());
        }
        let kept = again || cached.is_some();
        let mut sockets = Vec::new();
        for address in &self.addresses {
            let local: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
            let socket = UdpSocket::bind(local)?;
            socket.connect(address)?;
            let env = Env { mss: UNIT as u32, seed: draw()?, ..Env::default() };
            let socket = Socket::new(socket, Offload { send: false, receive: true })?;
            sockets.push((fetch.add_source(now, self.controller.build(&env)), (*address, socket)));
        }
        let from = if data == 0 { 0 } else { first };
        Ok(Job {
            name,
            fetch,
            sockets,
            hops,
            began: now,
            wanted_at: now,
            askers: vec![(Source::of(missing.from), now)],
            used: false,
            from,
            wanted: first,
            ahead: FIRST_AHEAD,
            furthest: 0,
            kept,
            manifest: None,
            recent: BTreeMap::new(),
            record: false,
            version: 0,
            done: false,
        })
    }

    /// Takes what came, hands it on, and asks for more.
    pub(super) fn drive(&mut self, now: Time, router: &mut Router, reply: Reply<'_>) {
        for index in 0..self.jobs.len() {
            let job = &mut self.jobs[index];
            // A record may be another one by now, so that its fetch ends even while requests go on.
            if std::mem::take(&mut job.used) && !job.record {
                job.wanted_at = now;
            }
            job.receive(self.clock);
            if job.fetch.next_timeout() <= now {
                job.fetch.on_timeout(now);
            }
            let came = job.take();
            if job.version > 0 {
                let newest = self.versions.find(&job.name).unwrap_or(0).max(job.version);
                self.versions.keep(job.name, newest, 0);
            }
            let (name, stored, kept) = (job.name, job.stored_units(), job.kept && !job.record);
            if kept && let Some(manifest) = job.manifest.clone() {
                let kept =
                    came.iter().try_for_each(|(unit, bytes)| keep(&mut self.cache, &name, &manifest, *unit, bytes));
                if let Err(trouble) = kept {
                    self.jobs[index].kept = false;
                    self.trouble = Some(trouble.to_string());
                }
            }
            for units in runs(came.iter().map(|(unit, _)| *unit)) {
                router.stored(&name, units, stored, reply);
            }
            let job = &mut self.jobs[index];
            job.transmit(now, &mut self.message);
            if let Some(failed) = job.fetch.failure() {
                let reason = match failed {
                    Failed::Loop => Reason::Loop,
                    Failed::Changed => Reason::Changed,
                    Failed::Range { .. } => Reason::End,
                    Failed::Silent => Reason::Busy,
                    Failed::NotFound | Failed::Corrupt(_) | Failed::Record(_) => Reason::NotFound,
                };
                if let Failed::Record(_) = failed {
                    self.trouble = Some(format!("{name}: {failed}"));
                }
                router.failed(&name, 0..u64::MAX, reason, reply);
                job.done = true;
                job.wanted_at = Time::ZERO;
            }
        }
        self.jobs.retain(|job| !job.is_idle(now));
        self.keeper.keep(now, &mut self.cache);
    }
}

/// Into the cache, which may have dropped the object since.
fn keep(cache: &mut Cache, name: &Name, manifest: &[u8], unit: u64, bytes: &[u8]) -> Result<(), StoreError> {
    match cache.write(name, unit, bytes) {
        Err(StoreError::Missing { .. }) => {
            cache.admit(manifest)?;
            cache.write(name, unit, bytes)
        }
        written => written,
    }
}

/// Units in a row.
fn runs(units: impl Iterator<Item = u64>) -> Vec<Units> {
    let mut runs: Vec<Units> = Vec::new();
    for unit in units {
        match runs.last_mut().filter(|run| run.end() == unit) {
            Some(run) => run.count += 1,
            None => runs.push(Units { first: unit, count: 1 }),
        }
    }
    runs
}
