//! Datagrams from the sources.

use bytes::Bytes;
use paceline_cc::Time;

use super::map::Slot;
use super::{Dropped, Fetch, FetchFailed, Output, SourceId};
use crate::UNIT;
use crate::layout::{FANOUT, UnitPlace};
use crate::name::NameKind;
use crate::ranges::Units;
use crate::tree::UnitVerdict;
use crate::wire::{MissingReason, Nack, UnitAnswer, UnitHead};

/// Corrupt units after which a source is asked no more (our choice: UDP's checksum lets one damaged packet in 65,536 pass, so that one is
/// bad luck; more are a damaged copy, or malice).
const MOST_CORRUPT: u64 = 8;

impl Fetch {
    /// A datagram came from a source; `ce`: with a congestion mark.
    ///
    /// # Errors
    /// [`Dropped`]: it brought nothing. That is no reason to end anything.
    pub fn on_datagram(&mut self, now: Time, source: SourceId, bytes: &[u8], ce: bool) -> Result<(), Dropped> {
        let known = self.sources.get_mut(source.index()).filter(|source| source.alive).ok_or(Dropped::Source)?;
        let answer = UnitAnswer::decode(bytes).inspect_err(|_| self.stats.malformed += 1)?;
        let nonce = match &answer {
            UnitAnswer::Data(data, _) => data.nonce,
            UnitAnswer::Nack(nack) => nack.nonce,
            UnitAnswer::Grant(grant) => grant.nonce,
        };
        if nonce != known.nonce {
            self.stats.foreign_nonce += 1;
            return Err(Dropped::Nonce);
        }
        known.answered();
        match answer {
            UnitAnswer::Data(data, payload) => self.take_data(now, source, &data, payload, ce),
            UnitAnswer::Nack(nack) => {
                self.stats.nacks += 1;
                self.take_nack(now, source, &nack);
                Ok(())
            }
            UnitAnswer::Grant(grant) => {
                known.grant(grant.token);
                Ok(())
            }
        }
    }

    fn take_data(&mut self, now: Time, id: SourceId, data: &UnitHead, payload: &[u8], ce: bool) -> Result<(), Dropped> {
        let unit = data.unit;
        let source = &mut self.sources[id.index()];
        source.waited = data.waited;
        source.served();
        let arrived = source.flow.on_unit(now, unit, payload.len() as u32, ce, data.app_limited);
        self.rtt = arrived.as_ref().and_then(|arrived| arrived.rtt);
        self.stats.bytes_received += payload.len() as u64;
        if self.name.kind() == NameKind::Signed {
            let expected = unit == 0 && arrived.is_some();
            return if expected { self.take_record(now, id, payload) } else { Err(self.unsolicited(unit)) };
        }
        let past = self.map.is_past(unit);
        let asked = match self.map.slot(unit) {
            Some(Slot::Asked(asked) | Slot::Raced(asked)) => Some(*asked),
            Some(Slot::Free | Slot::Doubted(_)) => None,
            None if !past => return Err(self.unsolicited(unit)),
            Some(Slot::Ready(_) | Slot::Early(..) | Slot::Had) | None => {
                self.stats.duplicates += 1;
                return Err(Dropped::Duplicate(unit));
            }
        };
        match self.verifier.check(unit, payload) {
            UnitVerdict::Genuine => {
                if let Some(other) = asked.filter(|other| *other != id) {
                    self.sources[other.index()].flow.forget(now, unit);
                }
                self.place(unit, payload);
                self.drop_liars(now);
                self.advance();
                Ok(())
            }
            // Nothing is known of its bytes: only who was asked for them may take the place.
            UnitVerdict::Early if asked.is_some_and(|other| other != id) => Err(self.unsolicited(unit)),
            UnitVerdict::Early => {
                self.stats.early += 1;
                self.map.hold(unit, Bytes::copy_from_slice(payload), id);
                Ok(())
            }
            UnitVerdict::Corrupt => Err(self.corrupt(now, id, unit)),
            UnitVerdict::Known | UnitVerdict::Foreign => Err(self.unsolicited(unit)),
        }
    }

    /// Counts a unit that is not what its name says: it is asked of another source.
    pub(super) fn corrupt(&mut self, now: Time, id: SourceId, unit: u64) -> Dropped {
        self.stats.corrupt += 1;
        self.sources[id.index()].corrupt += 1;
        self.map.give_back(unit, id, Some(id));
        self.drop_liars(now);
        Dropped::Corrupt(unit)
    }

    /// Counts a unit that is of no use.
    fn unsolicited(&mut self, unit: u64) -> Dropped {
        self.stats.unsolicited += 1;
        Dropped::Unsolicited(unit)
    }

    /// A genuine unit goes to its place.
    fn place(&mut self, unit: u64, payload: &[u8]) {
        let data = match self.verifier.layout().and_then(|layout| layout.place(unit)) {
            Some(UnitPlace::Data { .. }) => true,
            Some(UnitPlace::Manifest | UnitPlace::Index { .. }) | None => false,
        };
        self.stats.units += 1;
        self.stats.bytes += payload.len() as u64;
        let in_order = data && self.config.bytes;
        let mut kept = Bytes::new();
        if in_order || self.config.units {
            kept = Bytes::copy_from_slice(payload);
        }
        if unit == 0 && self.name.kind() == NameKind::Object {
            self.begin();
        }
        // Nothing is kept of an object that does not have what is wanted.
        if self.config.units && self.failure.is_none() {
            self.put_unit(unit, kept.clone());
        }
        if !in_order {
            kept = Bytes::new();
        }
        if let Some(slot) = self.map.slot(unit) {
            *slot = Slot::Ready(kept);
        }
        if !data && self.map.has_early() {
            self.recheck(unit);
        }
    }

    /// The manifest came: what is wanted of the object is known.
    pub(super) fn begin(&mut self) {
        let (Some(manifest), Some(layout)) = (self.verifier.manifest(), self.verifier.layout()) else { return };
        let length = manifest.length;
        let (start, end) = (self.range.start, self.range.end.min(length));
        if start > length || (start == length && start > 0) {
            self.failure = Some(FetchFailed::Range { start, length });
            return;
        }
        let units = if end > start { start / UNIT as u64..end.div_ceil(UNIT as u64) } else { 0..0 };
        self.map.begin(*layout, units);
        self.outputs.push_back(Output::Manifest(manifest.clone()));
    }

    /// Units that came before `unit`, which they are verified with.
    fn recheck(&mut self, unit: u64) {
        let below = match self.verifier.layout().and_then(|layout| layout.place(unit)) {
            Some(UnitPlace::Index { level: 1, .. }) => FANOUT,
            _ => u64::MAX,
        };
        let Self { map, verifier, sources, stats, outputs, config, unconsumed, .. } = self;
        let layout = map.layout().copied();
        map.recheck(unit, below, |unit, bytes, source| match verifier.check(unit, &bytes) {
            UnitVerdict::Early => Slot::Early(bytes, source),
            UnitVerdict::Genuine => {
                stats.units += 1;
                stats.bytes += bytes.len() as u64;
                if config.units {
                    *unconsumed += if config.bytes { 0 } else { bytes.len() as u64 };
                    outputs.push_back(Output::Unit { unit, bytes: bytes.clone() });
                }
                let data = matches!(layout.and_then(|layout| layout.place(unit)), Some(UnitPlace::Data { .. }));
                Slot::Ready(if data && config.bytes { bytes } else { Bytes::new() })
            }
            UnitVerdict::Corrupt | UnitVerdict::Known | UnitVerdict::Foreign => {
                stats.corrupt += 1;
                if let Some(source) = sources.get_mut(source.index()) {
                    source.corrupt += 1;
                }
                Slot::Free
            }
        });
    }

    /// Sources that sent too much that is corrupt are asked no more.
    fn drop_liars(&mut self, now: Time) {
        while let Some(index) = self.sources.iter().position(|source| source.alive && source.corrupt >= MOST_CORRUPT) {
            let corrupt = self.stats.corrupt;
            self.drop_source(now, SourceId(index as u32), Some(FetchFailed::Corrupt(corrupt)));
        }
    }

    fn take_nack(&mut self, now: Time, id: SourceId, nack: &Nack) {
        let Nack { units, reason, retry_after, .. } = *nack;
        let source = &mut self.sources[id.index()];
        if source.flow.on_nack(now, &units, reason, retry_after) == 0 {
            return;
        }
        if reason == MissingReason::NoToken {
            source.refused();
        }
        match reason {
            // They need not wait until it has time for them.
            MissingReason::Busy | MissingReason::NoToken
                if self.name.kind() == NameKind::Object && self.has_another(now, id) =>
            {
                for unit in units.first..units.end().min(self.map.frontier_unit()) {
                    if self.sources[id.index()].flow.forget(now, unit) {
                        self.stats.reassigned += u64::from(self.map.give_back(unit, id, None));
                    }
                }
            }
            MissingReason::Busy | MissingReason::NoToken => {}
            MissingReason::End if self.is_past_the_end(&units) => self.map.guess_no_more(),
            MissingReason::NotFound | MissingReason::Changed | MissingReason::Loop | MissingReason::End => {
                self.give_back(&units, id);
                self.drop_source(now, id, Some(Self::refusal(reason)));
            }
        }
    }

    /// The refusal is of units that were guessed.
    fn is_past_the_end(&self, units: &Units) -> bool {
        match self.verifier.layout() {
            Some(layout) => units.first >= layout.stored_units(),
            None => units.first > 0,
        }
    }

    /// Units that their source refused are asked of others.
    fn give_back(&mut self, units: &Units, id: SourceId) {
        let end = units.end().min(self.map.frontier_unit());
        for unit in units.first..end {
            self.stats.reassigned += u64::from(self.map.give_back(unit, id, Some(id)));
        }
    }
}
