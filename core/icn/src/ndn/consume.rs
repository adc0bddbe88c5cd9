//! A consumer: finds out what an object's newest version is, and asks for its segments as a controller allows.
//!
//! A segment is a unit of [`RequestFlow`], whatever its bytes: windows and rates of the controller count segments, as the pipelines of
//! `ndncatchunks` do.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use paceline_cc::{Controller, Nanos, Time};

use super::link::{Fragments, LinkFrame, NackReason};
use super::name::NdnName;
use super::packet::{ContentKind, Interest, NdnData, Signature};
use super::tlv::BadNdn;
use crate::UNIT;
use crate::flow::{FlowConfig, RequestFlow, Supply};
use crate::hash::derived;
use crate::ranges::{MAX_UNITS, Ranges, Units};
use crate::wire::MissingReason;

/// How long forwarders keep an Interest for a segment: the default of the packet format. What is lost is asked for again earlier.
const LIFETIME: Nanos = Nanos::from_secs(4);

/// Between two Interests for what an object is, and how long forwarders keep each (our choice: more than any round trip).
const ASK_EVERY: Nanos = Nanos::from_secs(1);

/// Interests for metadata before the object is asked for by its own name as well (our choice: two may be lost).
const ASKED_FOR_METADATA: u32 = 3;

/// An object that does not answer is given up after this long (as [`RequestFlow`] gives up a source).
const SILENCE: Nanos = Nanos::from_secs(30);

/// A forwarder that is too busy is left alone for this long (our choice).
const BUSY: Nanos = Nanos::from_millis(100);

/// Why an object does not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsumeFailed {
    /// The forwarder knows no way.
    #[error("the forwarder knows no producer of it (Nack, NoRoute); is its prefix registered?")]
    NoRoute,
    /// The producer says that it is not there.
    #[error("its producer does not have it (a Data of the type Nack)")]
    NotThere,
    /// Packets below the name come, of something else.
    #[error("it is not an object: {0} is below it; ask for that")]
    Below(NdnName),
    /// Nothing came.
    #[error("no answer in 30 s")]
    Silent,
    /// A packet contradicts another.
    #[error("{name}: {why}")]
    Broken {
        /// Of the packet.
        name: NdnName,
        /// What is wrong.
        why: String,
    },
}

/// What comes out of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumed {
    /// The object is there; once, first.
    Opened {
        /// Its name with its version.
        name: NdnName,
        /// What its first packet is signed with. Where that is [`Signature::Digest`], so are all others.
        signature: Signature,
        /// Bytes of the object, where the first packet is all of it.
        length: Option<u64>,
    },
    /// The next bytes.
    Bytes(Bytes),
    /// That was all.
    Done,
}

/// Counters of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerStats {
    /// Interests that left.
    pub interests: u64,
    /// Those for what had been asked for before.
    pub repeats: u64,
    /// Data that were of use.
    pub data: u64,
    /// Packets that were not of NDN, or had a wrong digest.
    pub refused: u64,
    /// Data that were not asked for, or came twice.
    pub unasked: u64,
    /// Interests that came back.
    pub nacks: u64,
    /// Bytes of the object that came out.
    pub bytes: u64,
}

/// What is asked for at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Metadata, and later the name by turns; something `tries` times until now.
    Find { tries: u32 },
    /// A packet below the name.
    Below,
    /// The packet itself.
    Packet,
    /// Segments.
    Segments,
    /// Nothing more.
    Ended,
}

/// Segments that may be asked for the first time.
struct Next<'a> {
    next: &'a mut u64,
    end: u64,
}

impl Supply for Next<'_> {
    fn take(&mut self, most: u32) -> Option<Ranges> {
        let count = self.end.saturating_sub(*self.next).min(u64::from(most.min(MAX_UNITS))) as u32;
        let ranges = Ranges::new(Units { first: *self.next, count })?;
        *self.next += u64::from(count);
        Some(ranges)
    }
}

/// Fetches one object. Sans-IO: after any call take Interests and outputs until there are none; whenever [`Consumer::next_timeout`] has
/// come call [`Consumer::on_timeout`].
pub struct Consumer {
    asked: NdnName,
    stage: Stage,
    ask_at: Time,
    silent_since: Time,
    /// The object whose segments are asked for.
    object: NdnName,
    flow: RequestFlow,
    /// Segments of the request that leaves at present.
    leaving: VecDeque<u64>,
    /// The next one that is asked for, ...
    next: u64,
    /// ... that comes out, ...
    wanted: u64,
    /// ... and the last one, where that is known.
    last: Option<u64>,
    /// The first one that its producer does not have.
    absent: Option<u64>,
    early: BTreeMap<u64, Bytes>,
    early_bytes: u64,
    largest: u64,
    receive_buffer: u64,
    unread: u64,
    signature: Option<Signature>,
    fragments: Fragments,
    outputs: VecDeque<Consumed>,
    failure: Option<ConsumeFailed>,
    seed: u64,
    stats: ConsumerStats,
}

impl Consumer {
    /// Fetches `name` with a controller that was made for packets of [`UNIT`] bytes; at most `receive_buffer` bytes wait for the reader or
    /// for segments before them. `seed` is drawn at random.
    pub fn new(now: Time, name: NdnName, controller: Box<dyn Controller>, receive_buffer: u64, seed: u64) -> Self {
        let config = FlowConfig { receive_buffer, ..FlowConfig::default() };
        let stage = if name.is_of_packet() {
            Stage::Packet
        } else if name.is_versioned() {
            Stage::Segments
        } else {
            Stage::Find { tries: 0 }
        };
        Self {
            object: name.clone(),
            asked: name,
            stage,
            ask_at: now,
            silent_since: now,
            flow: RequestFlow::new(&config, controller),
            leaving: VecDeque::new(),
            next: 0,
            wanted: 0,
            last: None,
            absent: None,
            early: BTreeMap::new(),
            early_bytes: 0,
            largest: UNIT as u64,
            receive_buffer,
            unread: 0,
            signature: None,
            fragments: Fragments::default(),
            outputs: VecDeque::new(),
            failure: None,
            seed,
            stats: ConsumerStats::default(),
        }
    }

    /// Why it failed, once it did.
    pub fn failure(&self) -> Option<&ConsumeFailed> {
        self.failure.as_ref()
    }

    /// Counters.
    pub fn stats(&self) -> ConsumerStats {
        ConsumerStats { repeats: self.flow.stats().retransmits, ..self.stats }
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Option<Consumed> {
        self.outputs.pop_front()
    }

    /// The reader has taken this many bytes.
    pub fn consumed(&mut self, bytes: u64) {
        self.unread = self.unread.saturating_sub(bytes);
    }

    /// When [`Consumer::on_timeout`] wants to be called.
    pub fn next_timeout(&self) -> Time {
        match self.stage {
            Stage::Find { .. } | Stage::Below | Stage::Packet => self.ask_at,
            Stage::Segments => self.flow.next_timeout(),
            Stage::Ended => Time::NEVER,
        }
    }

    /// The time of [`Consumer::next_timeout`] has come.
    pub fn on_timeout(&mut self, now: Time) {
        match self.stage {
            Stage::Segments => {
                self.flow.on_timeout(now);
                if self.flow.has_given_up() {
                    self.fail(ConsumeFailed::Silent);
                }
            }
            Stage::Ended => {}
            _ if now.since(self.silent_since) >= SILENCE => self.fail(ConsumeFailed::Silent),
            _ => {}
        }
    }

    /// Appends the next Interest that may leave; false where none may.
    pub fn poll_interest(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let (name, can_be_prefix, must_be_fresh) = match self.stage {
            Stage::Ended => return false,
            Stage::Segments => match self.next_segment(now) {
                Some(segment) => (self.object.segment(segment), false, false),
                None => return false,
            },
            _ if self.ask_at > now => return false,
            Stage::Find { tries } => {
                self.stage = Stage::Find { tries: tries + 1 };
                let by_turns = tries.saturating_sub(ASKED_FOR_METADATA - 1);
                (if by_turns % 2 == 0 { self.asked.metadata() } else { self.asked.clone() }, true, true)
            }
            Stage::Below => (self.asked.clone(), true, true),
            Stage::Packet => (self.asked.clone(), false, false),
        };
        let lifetime = if self.stage == Stage::Segments { LIFETIME } else { ASK_EVERY };
        self.ask_at = now + ASK_EVERY;
        let nonce = (derived(self.seed, self.stats.interests) as u32).to_be_bytes();
        self.stats.interests += 1;
        Interest { name, can_be_prefix, must_be_fresh, nonce, lifetime }.encode(out);
        true
    }

    fn next_segment(&mut self, now: Time) -> Option<u64> {
        if self.leaving.is_empty() {
            let held = self.early_bytes + self.unread;
            let room = self.receive_buffer.saturating_sub(held) / self.largest;
            let room = room.saturating_sub(self.flow.outstanding()).max(u64::from(held == 0 && self.flow.is_idle()));
            let end = self.last.map_or(u64::MAX, |last| last.saturating_add(1)).min(self.next.saturating_add(room));
            let ranges = self.flow.poll_request(now, &mut Next { next: &mut self.next, end })?;
            self.leaving.extend(ranges.iter());
        }
        self.leaving.pop_front()
    }

    /// A packet came over the link.
    ///
    /// # Errors
    /// [`BadNdn`]: it is not one; it was counted, and nothing else happened.
    pub fn on_frame(&mut self, now: Time, bytes: &[u8]) -> Result<(), BadNdn> {
        let taken = self.take_frame(now, bytes);
        self.stats.refused += u64::from(taken.is_err());
        taken
    }

    fn take_frame(&mut self, now: Time, bytes: &[u8]) -> Result<(), BadNdn> {
        let frame = LinkFrame::decode(bytes)?;
        let Some(fragment) = frame.fragment else { return Ok(()) };
        let joined = match frame.part {
            None => None,
            Some(part) => match self.fragments.join(part, fragment)? {
                None => return Ok(()),
                joined => joined,
            },
        };
        let packet = joined.as_deref().unwrap_or(fragment);
        match frame.nack {
            Some(reason) => self.on_nack(now, &Interest::decode(packet)?.name, reason),
            None => self.on_data(now, &NdnData::decode(packet)?, frame.marked),
        }
        Ok(())
    }

    fn on_nack(&mut self, now: Time, name: &NdnName, reason: NackReason) {
        let segment = self.object.segment_in(name);
        let is_awaited = match self.stage {
            Stage::Find { .. } => *name == self.asked || *name == self.asked.metadata(),
            Stage::Below | Stage::Packet => *name == self.asked,
            Stage::Segments => segment.is_some(),
            Stage::Ended => false,
        };
        if !is_awaited {
            return;
        }
        self.stats.nacks += 1;
        match (reason, self.stage) {
            // It is asked for again by its time.
            (NackReason::Congestion | NackReason::Duplicate, Stage::Segments) => {
                if let Some(first) = segment {
                    self.flow.on_nack(now, &Units { first, count: 1 }, MissingReason::Busy, BUSY);
                }
            }
            (NackReason::Congestion | NackReason::Duplicate, _) => {}
            (NackReason::NoRoute | NackReason::Other(_), Stage::Find { .. }) if *name != self.asked => {
                self.stage = Stage::Below;
                self.ask_at = now;
            }
            // Where the end is not known, segments behind it are asked for: it counts once it is the next one.
            (NackReason::NoRoute | NackReason::Other(_), Stage::Segments) if segment != Some(self.wanted) => {
                if let Some(first) = segment {
                    self.flow.on_nack(now, &Units { first, count: 1 }, MissingReason::Busy, BUSY);
                }
            }
            (NackReason::NoRoute | NackReason::Other(_), _) => self.fail(ConsumeFailed::NoRoute),
        }
    }

    fn on_data(&mut self, now: Time, data: &NdnData<'_>, marked: bool) {
        match self.stage {
            Stage::Find { .. } if data.name.starts_with(&self.asked.metadata()) => self.on_metadata(data),
            // The one that was asked for first may come late.
            Stage::Find { .. } | Stage::Below if self.asked.names(&data.name, || data.digest(), true) => {
                match data.name.object_below(&self.asked) {
                    Some(_) if self.is_refused(data) => {}
                    Some(_) if !data.name.is_of_packet() => self.on_only(data),
                    Some(object) => {
                        self.object = object;
                        self.stage = Stage::Segments;
                    }
                    None if data.name.starts_with(&self.asked.metadata()) => self.on_metadata(data),
                    None => self.fail(ConsumeFailed::Below(data.name.clone())),
                }
            }
            Stage::Packet if self.asked.names(&data.name, || data.digest(), false) => {
                if !self.is_refused(data) {
                    self.on_only(data);
                }
            }
            Stage::Segments => match self.object.segment_in(&data.name) {
                Some(segment) if self.flow.on_unit(now, segment, UNIT as u32, marked, false).is_some() => {
                    self.stats.data += 1;
                    self.on_segment(now, segment, data);
                }
                _ => self.stats.unasked += 1,
            },
            _ => self.stats.unasked += 1,
        }
    }

    fn on_metadata(&mut self, data: &NdnData<'_>) {
        if self.is_refused(data) {
            return;
        }
        self.stats.data += 1;
        match data.named() {
            Ok(object) if object.starts_with(&self.asked) => {
                self.object = object;
                self.stage = Stage::Segments;
            }
            Ok(object) => self.broken(data, format!("its metadata is of another object, {object}")),
            Err(error) => self.broken(data, format!("its metadata has no name: {error}")),
        }
    }

    /// The producer does not have it, or the packet has no bytes in it.
    fn is_refused(&mut self, data: &NdnData<'_>) -> bool {
        match data.kind {
            ContentKind::Blob => return false,
            ContentKind::Nack => self.fail(ConsumeFailed::NotThere),
            // Keys and their like are bytes to who asks for them.
            ContentKind::Other(kind) if kind != 1 => return false,
            ContentKind::Other(_) => self.broken(data, "it is a link to other names".to_owned()),
        }
        true
    }

    fn broken(&mut self, data: &NdnData<'_>, why: String) {
        self.fail(ConsumeFailed::Broken { name: data.name.clone(), why });
    }

    fn fail(&mut self, why: ConsumeFailed) {
        self.stage = Stage::Ended;
        self.failure.get_or_insert(why);
    }

    /// The object is one packet.
    fn on_only(&mut self, data: &NdnData<'_>) {
        self.stats.data += 1;
        self.object = data.name.clone();
        self.last = Some(0);
        self.signature = Some(data.signature);
        self.put(Bytes::copy_from_slice(data.content));
    }

    fn on_segment(&mut self, now: Time, segment: u64, data: &NdnData<'_>) {
        // It may be behind the end.
        if data.kind == ContentKind::Nack && segment > self.wanted {
            self.absent = Some(self.absent.map_or(segment, |absent| absent.min(segment)));
            return;
        }
        if self.is_refused(data) {
            return;
        }
        if let Some(last) = data.last {
            if last < segment || self.last.is_some_and(|known| known != last) {
                let before = self.last.map_or_else(String::new, |known| format!(", another one {known}"));
                return self.broken(data, format!("it says that segment {last} is the last{before}"));
            }
            self.end_at(now, last);
        }
        let is_last = self.last == Some(segment);
        if data.content.is_empty() && !is_last {
            return self.broken(data, "it is empty, and not the last".to_owned());
        }
        match self.signature {
            Some(Signature::Digest) if data.signature != Signature::Digest => {
                return self.broken(data, format!("it is signed otherwise ({}) than those before", data.signature));
            }
            None => self.signature = Some(data.signature),
            Some(_) => {}
        }
        let bytes = Bytes::copy_from_slice(data.content);
        self.largest = self.largest.max(bytes.len() as u64);
        self.early_bytes += bytes.len() as u64;
        self.early.insert(segment, bytes);
        while let Some(bytes) = self.early.remove(&self.wanted) {
            self.early_bytes -= bytes.len() as u64;
            self.put(bytes);
        }
        if self.stage == Stage::Segments && self.absent == Some(self.wanted) {
            self.fail(ConsumeFailed::NotThere);
        }
    }

    /// Segment `last` is the last: what was asked for behind it does not come.
    fn end_at(&mut self, now: Time, last: u64) {
        if self.last.replace(last).is_some() {
            return;
        }
        for behind in last.saturating_add(1)..self.next {
            self.flow.forget(now, behind);
        }
        self.next = self.next.min(last.saturating_add(1));
        self.leaving.retain(|segment| *segment <= last);
        self.early.retain(|segment, _| *segment <= last);
        self.early_bytes = self.early.values().map(|bytes| bytes.len() as u64).sum();
    }

    /// The next segment in order.
    fn put(&mut self, bytes: Bytes) {
        let length = bytes.len() as u64;
        if self.wanted == 0 {
            let signature = self.signature.unwrap_or(Signature::Unchecked(200));
            let whole = (self.last == Some(0)).then_some(length);
            self.outputs.push_back(Consumed::Opened { name: self.object.clone(), signature, length: whole });
        }
        self.stats.bytes += length;
        self.unread += length;
        if length > 0 {
            self.outputs.push_back(Consumed::Bytes(bytes));
        }
        if self.last == Some(self.wanted) {
            self.outputs.push_back(Consumed::Done);
            self.stage = Stage::Ended;
        }
        self.wanted = self.wanted.saturating_add(1);
    }
}
