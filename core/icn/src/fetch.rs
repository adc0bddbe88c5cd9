//! An object, or a part of it, from one source or several.
//!
//! Sans-IO. The driver gives it datagrams and time, sends what [`Fetch::poll_transmit`] writes and takes what
//! [`Fetch::poll_output`] hands out: every byte of it was verified, in order. Each source has a [`RequestFlow`] with its own controller, RTT and
//! token; the units are one map, so that no unit is asked of two sources unless the first one is late or lost it.
//!
//! Memory is bounded by [`FlowConfig::receive_buffer`], whatever a source sends: what was not asked for is not kept.

mod had;
mod incoming;
mod map;
mod outgoing;
mod output;
mod record;
mod saved;
mod share;
mod source;
mod stats;

use std::collections::VecDeque;
use std::ops::Range;

use crate::flow::{FlowConfig, RequestFlow};
use crate::hash::{UnitHash, derived};
use crate::manifest::Manifest;
use crate::name::{Name, NameKind};
use crate::signed::{BadRecord, SignedRecord};
use crate::tree::Verifier;
use crate::wire::{BadMessage, MissingReason};
use bytes::Bytes;
use paceline_cc::{Controller, Nanos, Time};

pub use saved::Saved;
pub use stats::{FetchStats, SourceStats};

use map::Map;
use record::Records;
use source::Source;

/// Options of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchConfig {
    /// Those of each source.
    pub flow: FlowConfig,
    /// Hand out [`Output::Bytes`]. On.
    pub bytes: bool,
    /// Hand out [`Output::Unit`], for a cache. Off.
    pub units: bool,
    /// Routers that the requests went through already: 0 for a receiver, more for a router that asks another.
    pub hops: u8,
    /// Seconds of Unix time at the start: a signed name's record must not have expired.
    pub unix_s: u64,
    /// The version of a signed name's record that was seen before: older ones are refused. 0: none was.
    pub known_version: u64,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { flow: FlowConfig::default(), bytes: true, units: false, hops: 0, unix_s: 0, known_version: 0 }
    }
}

/// A source of a fetch. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u32);

impl SourceId {
    /// Counts the sources from 0, in the order in which they were added.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a fetch has for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The object is known. Comes first.
    Manifest(Manifest),
    /// The object's next bytes.
    Bytes {
        /// Where they stand in the object. It jumps over what [`Fetch::have`] said.
        offset: u64,
        /// They.
        bytes: Bytes,
    },
    /// A unit that was verified, in the order of their arrivals ([`FetchConfig::units`]).
    Unit {
        /// Its number.
        unit: u64,
        /// Its bytes.
        bytes: Bytes,
    },
    /// A signed name's record, verified: the one of the largest version that the sources had.
    Record(SignedRecord),
    /// All has been handed out.
    Done,
}

/// A datagram that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// From no source of this fetch, or one that it gave up.
    #[error("this fetch has no such source")]
    Source,
    /// No message.
    #[error(transparent)]
    Message(#[from] BadMessage),
    /// Without the number that the source's requests carry: a stranger's, or of an earlier fetch.
    #[error("the answer belongs to no request of this fetch")]
    Nonce,
    /// A unit that is not wanted, or was not asked for.
    #[error("unit {0} was not asked for")]
    Unsolicited(u64),
    /// A unit that is there already.
    #[error("unit {0} came before")]
    Duplicate(u64),
    /// A unit whose bytes are not those of the object.
    #[error("unit {0} is corrupt")]
    Corrupt(u64),
}

/// Why a fetch ended without the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchFailed {
    /// No source answers any more.
    #[error("no source answers: all were silent for 30 s or more; resume when one is back, or add a source")]
    Silent,
    /// No source has it.
    #[error("no source has the object; check the name, or add a source")]
    NotFound,
    /// The sources' copies are damaged.
    #[error("the sources' copies of the object are damaged: {0} units were corrupt; use another source")]
    Corrupt(u64),
    /// It changed at the sources while it was served.
    #[error("the object changed or shrank at the source while it was served; publish it again there")]
    Changed,
    /// Routers send the requests round in a circle.
    #[error("the requests went through more than 8 routers: some of them name each other as upstream")]
    Loop,
    /// The range begins past the end.
    #[error("the range begins at byte {start}, the object has {length} bytes")]
    Range {
        /// Where it begins.
        start: u64,
        /// Bytes of the object.
        length: u64,
    },
    /// A signed name's record is refused.
    #[error(transparent)]
    Record(#[from] BadRecord),
}

/// The smallest receive buffer: one request of the largest (our choice: less would stand still between a request and its units).
const LEAST_BUFFER: u64 = crate::ranges::MAX_UNITS as u64 * crate::UNIT as u64;

/// One object, or a range of its bytes.
pub struct Fetch {
    config: FetchConfig,
    name: Name,
    range: Range<u64>,
    seed: u64,
    verifier: Verifier,
    map: Map,
    /// What an earlier run left.
    saved: Option<Box<dyn Saved>>,
    sources: Vec<Source>,
    /// The source that is asked first next time.
    turn: usize,
    outputs: VecDeque<Output>,
    /// Bytes that were handed out or wait to be, and that the application has not consumed.
    unconsumed: u64,
    records: Records,
    /// No unit from this one on is asked for at present.
    until: u64,
    /// When a source may be asked for what another one brings late.
    race_at: Time,
    done: bool,
    failure: Option<FetchFailed>,
    /// Of the last unit that gave one.
    rtt: Option<Nanos>,
    stats: FetchStats,
}

impl Fetch {
    /// Of the object `name` the bytes in `range`; all of it where the range is `0..u64::MAX`. The numbers that distinguish answers from a
    /// stranger's come from `seed`, which must be drawn at random. A signed name's fetch gets its record.
    pub fn new(config: FetchConfig, name: Name, range: Range<u64>, seed: u64) -> Self {
        let guess = name.kind() == NameKind::Object && range.start == 0;
        let mut config = config;
        config.flow.receive_buffer = config.flow.receive_buffer.max(LEAST_BUFFER);
        Self {
            config,
            name,
            range,
            seed,
            verifier: Verifier::new(&name),
            map: Map::new(guess),
            saved: None,
            sources: Vec::new(),
            turn: 0,
            outputs: VecDeque::new(),
            unconsumed: 0,
            records: Records::default(),
            until: u64::MAX,
            race_at: Time::NEVER,
            done: false,
            failure: None,
            rtt: None,
            stats: FetchStats::default(),
        }
    }

    /// Hashes of units come from here.
    pub fn hash_with(&mut self, hash: UnitHash) {
        self.verifier.hash_with(hash);
    }

    /// The object's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Another source. `controller` was made for packets of [`crate::UNIT`] bytes.
    pub fn add_source(&mut self, _now: Time, controller: Box<dyn Controller>) -> SourceId {
        let id = SourceId(self.sources.len() as u32);
        let nonce = derived(self.seed, u64::from(id.0));
        self.sources.push(Source::new(RequestFlow::new(&self.config.flow, controller), nonce));
        if !matches!(self.failure, Some(FetchFailed::Range { .. })) {
            self.failure = None;
        }
        id
    }

    /// A source is asked no more; what it was asked for is asked of others.
    pub fn remove_source(&mut self, now: Time, source: SourceId) {
        self.drop_source(now, source, None);
    }

    /// The path to a source changed, because one of the two addresses did: `controller` starts fresh, the address has to be proved
    /// again, and what was asked for is asked for again at once.
    pub fn moved(&mut self, now: Time, source: SourceId, controller: Box<dyn Controller>) {
        if let Some(source) = self.sources.get_mut(source.index()).filter(|source| source.alive) {
            source.moved(now, controller);
        }
    }

    /// Units of the stored form that were verified in an earlier run and are on disk. Only data units count: index units are needed
    /// again for those beside them. To be called before the first request.
    pub fn have(&mut self, units: impl Iterator<Item = u64>) {
        self.map.have(units);
    }

    /// The application has consumed this many of the bytes that it was handed: there is room for others.
    pub fn consumed(&mut self, bytes: u64) {
        self.unconsumed = self.unconsumed.saturating_sub(bytes);
    }

    /// Units from this one on are not asked for before this is called again. Without it all are.
    pub fn ask_until(&mut self, unit: u64) {
        self.until = unit;
    }

    /// From now on requests say that they went through this many routers.
    pub fn set_hops(&mut self, hops: u8) {
        self.config.hops = hops;
    }

    /// Where the object cannot be had.
    pub fn failure(&self) -> Option<&FetchFailed> {
        self.failure.as_ref()
    }

    /// Everything has been verified and put out.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The manifest, when it has come.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.verifier.manifest()
    }

    /// The sources, those that are asked no more included.
    pub fn source_ids(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..self.sources.len() as u32).map(SourceId)
    }

    /// The flow of a source.
    pub fn flow(&self, source: SourceId) -> Option<&RequestFlow> {
        self.sources.get(source.index()).map(|source| &source.flow)
    }

    /// The RTT that a source's controller has learned from the unit that came last, once.
    pub fn take_rtt(&mut self) -> Option<Nanos> {
        self.rtt.take()
    }

    /// Counters.
    pub fn stats(&self) -> FetchStats {
        FetchStats { sources: self.sources.iter().map(Source::stats).collect(), ..self.stats.clone() }
    }

    /// Whether another source than this one may be asked at present: it is not busy, and keeps nothing waiting.
    fn has_another(&self, now: Time, id: SourceId) -> bool {
        let waits = |flow: &RequestFlow| flow.is_silent() && !flow.is_idle();
        let at_hand =
            |source: &Source| source.alive && !source.said && !waits(&source.flow) && !source.flow.is_held(now);
        self.sources.iter().enumerate().any(|(index, source)| index != id.index() && at_hand(source))
    }

    /// A source is asked no more, for a `reason` of its own or because the user says so.
    fn drop_source(&mut self, now: Time, id: SourceId, reason: Option<FetchFailed>) {
        let Some(source) = self.sources.get_mut(id.index()).filter(|source| source.alive) else { return };
        source.alive = false;
        for unit in source.flow.abandon(now) {
            self.stats.reassigned += u64::from(self.map.give_back(unit, id, None));
        }
        if self.settle_record(now) || self.done {
            return;
        }
        // Of several reasons this one says most.
        if let Some(refused @ FetchFailed::Record(_)) = &reason {
            self.records.refused = Some(refused.clone());
        }
        if let Some(reason) = reason
            && !self.sources.iter().any(|source| source.alive)
        {
            let reason = self.records.refused.take().unwrap_or(reason);
            self.failure.get_or_insert(reason);
        }
    }

    /// Why a source that refuses like this is of no use.
    fn refusal(reason: MissingReason) -> FetchFailed {
        match reason {
            MissingReason::Changed | MissingReason::End => FetchFailed::Changed,
            MissingReason::Loop => FetchFailed::Loop,
            MissingReason::NotFound | MissingReason::Busy | MissingReason::NoToken => FetchFailed::NotFound,
        }
    }
}
