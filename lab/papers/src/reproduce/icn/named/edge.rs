//! A router that has nothing of its own: it asks another one, and keeps objects that were missed twice, whole, as long as there is room
//! (the least recently used one leaves). Admission, the meaning of a miss and who waits are those of the product
//! (`paceline_icn::{Admission, Router}`); files and sockets are left out.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use paceline_icn::{Admission, FetchConfig, Found, Missing, Name, Units};

use super::{Fetch, Object, Route, World};

/// Units that came are kept for so many ends of other fetches after their own, for receivers that are still asking.
const LATER: usize = 16;

/// The way to the router that has everything, and what it has.
pub(in super::super) struct Uplink {
    pub(in super::super) route: Route,
    pub(in super::super) objects: BTreeMap<Name, Rc<Object>>,
}

/// A cache and the fetches that fill it.
pub(in super::super) struct Edge {
    uplink: Uplink,
    /// Bytes of the cache.
    room: u64,
    /// The one used last is the last.
    cached: Vec<Rc<Object>>,
    admission: Admission,
    jobs: Vec<Job>,
}

struct Job {
    name: Name,
    units: BTreeMap<u64, Bytes>,
    stored_units: u64,
    kept: bool,
    ended: bool,
}

impl Edge {
    pub(in super::super) fn new(uplink: Uplink, room: u64) -> Self {
        Self { uplink, room, cached: Vec::new(), admission: Admission::new(1), jobs: Vec::new() }
    }

    fn cached(&mut self, name: &Name) -> Option<&Rc<Object>> {
        let at = self.cached.iter().position(|object| object.name == *name)?;
        let object = self.cached.remove(at);
        self.cached.push(object);
        self.cached.last()
    }

    fn job(&self, name: &Name) -> Option<&Job> {
        self.jobs.iter().rev().find(|job| job.name == *name)
    }

    /// The fetch of an object is over: it goes into the cache, if it was missed twice.
    pub(super) fn ended(&mut self, name: &Name) {
        let Some(job) = self.jobs.iter_mut().rev().find(|job| job.name == *name) else { return };
        job.ended = true;
        let whole = job.kept && job.units.len() as u64 == job.stored_units;
        if let Some(object) = self.uplink.objects.get(name).filter(|_| whole) {
            self.cached.push(object.clone());
            while self.cached.iter().map(|object| object.stored_bytes()).sum::<u64>() > self.room {
                self.cached.remove(0);
            }
        }
        let over = self.jobs.iter().filter(|job| job.ended).count();
        if let Some(oldest) = self.jobs.iter().position(|job| job.ended).filter(|_| over > LATER) {
            self.jobs.remove(oldest);
        }
    }
}

impl World {
    /// A router's upstream is to be asked.
    pub(super) fn fetch_upstream(&mut self, node: usize, missing: &Missing) {
        let Some(edge) = &mut self.nodes[node].edge else { return };
        let again = edge.admission.missed(&missing.name, missing.nonce);
        if let Some(job) = edge.jobs.iter_mut().rev().find(|job| job.name == missing.name && !job.ended) {
            job.kept |= again;
            return;
        }
        let Some(object) = edge.uplink.objects.get(&missing.name) else { return };
        let (name, stored_units) = (missing.name, object.layout.stored_units());
        edge.jobs.retain(|job| job.name != name);
        edge.jobs.push(Job { name, units: BTreeMap::new(), stored_units, kept: again, ended: false });
        let route = edge.uplink.route.clone();
        let config = FetchConfig { bytes: false, units: true, hops: missing.hops + 1, ..FetchConfig::default() };
        let fetch = Fetch::new(config, name, 0..u64::MAX, self.draw());
        self.ask(fetch, None, Some(node), &[route]);
    }

    /// A unit came from the upstream router.
    pub(super) fn came_upstream(&mut self, node: usize, asker: usize, unit: u64, bytes: Bytes) {
        let name = *self.askers[asker].fetch.name();
        let Some(edge) = &mut self.nodes[node].edge else { return };
        let Some(job) = edge.jobs.iter_mut().rev().find(|job| job.name == name) else { return };
        job.units.insert(unit, bytes);
        let (stored, mut replies) = (Some(job.stored_units), Vec::new());
        let one = Units { first: unit, count: 1 };
        self.nodes[node].router.stored(&name, one, stored, &mut |to, bytes| {
            replies.push((to, Bytes::copy_from_slice(bytes)));
        });
        self.answer(node, replies);
    }
}

/// What a router has.
pub(super) struct View<'a> {
    pub(super) objects: &'a BTreeMap<Name, Rc<Object>>,
    pub(super) edge: &'a mut Option<Edge>,
}

impl View<'_> {
    pub(super) fn unit(&mut self, name: &Name, unit: u64) -> Option<Bytes> {
        let edge = &mut *self.edge;
        if let Some(bytes) = edge.as_ref().and_then(|edge| edge.job(name)?.units.get(&unit)) {
            return Some(bytes.clone());
        }
        let object = self.objects.get(name).or_else(|| edge.as_mut()?.cached(name));
        object?.unit(unit)
    }
}

impl paceline_icn::Shelf for View<'_> {
    fn find(&mut self, name: &Name) -> Found {
        let here = |units, whole| Found::Here { stored_units: Some(units), whole };
        if let Some(object) = self.objects.get(name) {
            return here(object.layout.stored_units(), true);
        }
        let Some(edge) = &mut *self.edge else { return Found::Elsewhere };
        if let Some(object) = edge.cached(name) {
            return here(object.layout.stored_units(), true);
        }
        edge.job(name).map_or(Found::Elsewhere, |job| here(job.stored_units, false))
    }

    fn has(&mut self, name: &Name, units: Units) -> u32 {
        let Some(job) = self.edge.as_ref().and_then(|edge| edge.job(name)) else { return 0 };
        units.iter().take_while(|unit| job.units.contains_key(unit)).count() as u32
    }
}
