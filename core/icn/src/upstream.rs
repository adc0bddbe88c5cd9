//! What a router does not have it fetches from other routers, verifies, and keeps if it is asked for again.
//!
//! A fetch begins where a receiver asks and stays a little ahead of the last unit that was asked for; the units go from it to all that
//! wait. Units of an object that was missed once are kept in memory for a moment only; of one that was missed twice, in the cache.
//!
//! Sans-IO: sockets and the cache are those of an [`Uplink`].

mod job;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use paceline_cc::{Nanos, Time};

use crate::UNIT;
use crate::cache::Admission;
use crate::fetch::{Fetch, FetchConfig, FetchFailed, SourceId};
use crate::layout::{Layout, UnitPlace};
use crate::limiter::CountedAddress;
use crate::name::Name;
use crate::ranges::Units;
use crate::router::{Found, Missing, Router};
use crate::shares::makes_room;
use crate::wire::MissingReason;
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

/// What the refusals and tokens of a router leave through.
type Reply<'a> = &'a mut dyn FnMut(SocketAddr, &[u8]);

/// One of the fetches. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a fetch begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Seconds of Unix time.
    pub unix_s: u64,
    /// Drawn at random ([`Fetch::new`]).
    pub seed: u64,
    /// The version of a signed name's record that was seen before; 0: none was.
    pub known_version: u64,
}

/// What an upstream's fetches ask of those around them: the cache, and the sockets to the other routers.
pub trait Uplink {
    /// The layout of an object of which the cache has units, and whether it has all of them. It counts as a use.
    fn cached(&mut self, name: &Name) -> Option<(Layout, bool)>;
    /// How many of these units the cache has, counted from the first until one is not there.
    fn run(&mut self, name: &Name, units: Units) -> u32;
    /// The units that the cache has.
    fn units(&mut self, name: &Name) -> Vec<u64>;
    /// Keeps a verified unit; `manifest` is the object's first unit. False where it cannot: then no more of this fetch is kept.
    fn keep(&mut self, name: &Name, manifest: &[u8], unit: u64, bytes: &Bytes) -> bool;
    /// A fetch of this name is about to begin. `None` where it cannot.
    fn begins(&mut self, job: JobId, name: &Name) -> Option<Beginning>;
    /// It has begun: adds the other routers as its sources. False where they cannot be asked.
    fn open(&mut self, now: Time, job: JobId, fetch: &mut Fetch) -> bool;
    /// What has come for it since: to be handed to [`Fetch::on_datagram`].
    fn receive(&mut self, job: JobId, fetch: &mut Fetch);
    /// Sends a request to a source.
    fn send(&mut self, job: JobId, source: SourceId, message: &[u8]);
    /// A fetch is over, and its number with it.
    fn close(&mut self, job: JobId);
    /// The record of a signed name has this version.
    fn version(&mut self, name: &Name, version: u64);
    /// A signed name's record was refused.
    fn refused(&mut self, name: &Name, failed: &FetchFailed);
}

/// The fetches from other routers, and what came from them a moment ago.
pub struct Upstream {
    admission: Admission,
    jobs: Vec<Job>,
    begun: u64,
    message: Vec<u8>,
}

impl Upstream {
    /// Without any fetch. `key` is drawn at random ([`Admission::new`]).
    pub fn new(key: u64) -> Self {
        Self { admission: Admission::new(key), jobs: Vec::new(), begun: 0, message: Vec::new() }
    }

    /// When [`Upstream::drive`] wants to be called.
    pub fn next_timeout(&self) -> Time {
        self.jobs.iter().map(|job| job.fetch.next_timeout().min(job.idle_at())).min().unwrap_or(Time::NEVER)
    }

    /// Whether an object, or a part of it, is in the cache or came a moment ago.
    pub fn find(&mut self, uplink: &mut impl Uplink, name: &Name) -> Found {
        self.jobs.iter_mut().filter(|job| job.name == *name).for_each(|job| job.used = true);
        if let Some((layout, whole)) = uplink.cached(name) {
            return Found::Here { stored_units: Some(layout.stored_units()), whole };
        }
        let stored = self.jobs.iter().filter(|job| job.name == *name).find_map(Job::stored_units);
        stored.map_or(Found::Elsewhere, |stored| Found::Here { stored_units: Some(stored), whole: false })
    }

    /// How many of these units are here, counted from the first until one is not.
    pub fn has(&self, uplink: &mut impl Uplink, name: &Name, units: Units) -> u32 {
        let cached = uplink.run(name, units);
        let rest = units.first + u64::from(cached)..units.end();
        cached + rest.take_while(|unit| self.recent(name, *unit).is_some()).count() as u32
    }

    /// A unit that came a moment ago.
    pub fn recent(&self, name: &Name, unit: u64) -> Option<&Bytes> {
        self.jobs.iter().filter(|job| job.name == *name).find_map(|job| job.recent.get(&unit))
    }

    /// Sees to it that units come. A fetch that makes room for another ends: what was awaited of it is refused as of a busy router.
    ///
    /// # Errors
    /// Why they do not: what those that wait for them are told.
    pub fn want(
        &mut self,
        now: Time,
        missing: &Missing,
        uplink: &mut impl Uplink,
        router: &mut Router,
        reply: Reply<'_>,
    ) -> Result<(), MissingReason> {
        let source = CountedAddress::of(missing.from);
        let name = missing.name;
        let again = self.admission.missed(&name, missing.nonce);
        let (Some(first), Some(last)) = (missing.ranges.as_slice().first(), missing.ranges.as_slice().last()) else {
            return Ok(());
        };
        let near = |job: &&mut Job| job.name == name && job.is_near(first.first);
        if let Some(job) = self.jobs.iter_mut().find(near) {
            if missing.hops >= job.hops {
                if job.manifest.is_none() {
                    return Err(if now.since(job.began) > LOOP { MissingReason::Loop } else { MissingReason::Busy });
                }
                job.hops = missing.hops + 1;
                job.fetch.set_hops(job.hops);
            }
            job.kept |= again;
            job.miss(last.end());
            job.asked_by(source, now);
            return Ok(());
        }
        self.end_idle(now, uplink);
        if self.jobs.len() == JOBS {
            let all: Vec<_> = self.jobs.iter().map(|job| job.standing(now)).collect();
            let gone = self.jobs.swap_remove(makes_room(&all, source, SETTLED).ok_or(MissingReason::Busy)?);
            uplink.close(gone.id);
            router.failed(&gone.name, 0..u64::MAX, MissingReason::Busy, reply);
        }
        let mut job = self.begin(now, missing, first.first, again, uplink).ok_or(MissingReason::Busy)?;
        job.begin(last.end());
        self.jobs.push(job);
        Ok(())
    }

    fn begin(
        &mut self,
        now: Time,
        missing: &Missing,
        first: u64,
        again: bool,
        uplink: &mut impl Uplink,
    ) -> Option<Job> {
        let name = missing.name;
        let cached = uplink.cached(&name);
        // Without a manifest: the last data unit that cannot be behind it, as one unit of 59 is an index unit.
        let guess = first.saturating_sub(first / 50 + 12);
        let data = cached.and_then(|(layout, _)| layout.place(first)).map_or(guess, |place| match place {
            UnitPlace::Manifest => 0,
            UnitPlace::Index { first, .. } | UnitPlace::Data { index: first } => first,
        });
        let hops = missing.hops + 1;
        let id = JobId(self.begun);
        self.begun += 1;
        let Beginning { unix_s, seed, known_version } = uplink.begins(id, &name)?;
        let mut config =
            FetchConfig { bytes: false, units: true, hops, unix_s, known_version, ..FetchConfig::default() };
        config.flow.receive_buffer = BUFFER;
        let mut fetch = Fetch::new(config, name, data * UNIT as u64..u64::MAX, seed);
        if cached.is_some() {
            fetch.have(uplink.units(&name).into_iter());
        }
        if !uplink.open(now, id, &mut fetch) {
            uplink.close(id);
            return None;
        }
        let from = if data == 0 { 0 } else { first };
        Some(Job {
            id,
            name,
            fetch,
            hops,
            began: now,
            wanted_at: now,
            askers: vec![(CountedAddress::of(missing.from), now)],
            used: false,
            from,
            wanted: first,
            ahead: FIRST_AHEAD,
            furthest: 0,
            kept: again || cached.is_some(),
            manifest: None,
            recent: BTreeMap::new(),
            record: false,
            version: 0,
            done: false,
        })
    }

    /// Takes what came, hands it on, and asks for more.
    pub fn drive(&mut self, now: Time, uplink: &mut impl Uplink, router: &mut Router, reply: Reply<'_>) {
        for job in &mut self.jobs {
            // A record may be another one by now, so that its fetch ends even while requests go on.
            if std::mem::take(&mut job.used) && !job.record {
                job.wanted_at = now;
            }
            uplink.receive(job.id, &mut job.fetch);
            if job.fetch.next_timeout() <= now {
                job.fetch.on_timeout(now);
            }
            let came = job.take();
            if job.version > 0 {
                uplink.version(&job.name, job.version);
            }
            if job.kept
                && !job.record
                && let Some(manifest) = &job.manifest
            {
                job.kept = came.iter().all(|(unit, bytes)| uplink.keep(&job.name, manifest, *unit, bytes));
            }
            let stored = job.stored_units();
            for units in runs(came.iter().map(|(unit, _)| *unit)) {
                router.stored(&job.name, units, stored, reply);
            }
            while let Some(source) = job.fetch.poll_transmit(now, &mut self.message) {
                uplink.send(job.id, source, &self.message);
            }
            if let Some(failed) = job.fetch.failure() {
                let reason = match failed {
                    FetchFailed::Loop => MissingReason::Loop,
                    FetchFailed::Changed => MissingReason::Changed,
                    FetchFailed::Range { .. } => MissingReason::End,
                    FetchFailed::Silent => MissingReason::Busy,
                    FetchFailed::NotFound | FetchFailed::Corrupt(_) | FetchFailed::Record(_) => MissingReason::NotFound,
                };
                if let FetchFailed::Record(_) = failed {
                    uplink.refused(&job.name, failed);
                }
                router.failed(&job.name, 0..u64::MAX, reason, reply);
                job.done = true;
                job.wanted_at = Time::ZERO;
            }
        }
        self.end_idle(now, uplink);
    }

    fn end_idle(&mut self, now: Time, uplink: &mut impl Uplink) {
        self.jobs.retain(|job| {
            let idle = job.is_idle(now);
            if idle {
                uplink.close(job.id);
            }
            !idle
        });
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
