//! Requests to the sources, and their timers.

use paceline_cc::{Nanos, Time};

use super::saved::Shelved;
use super::share::{Race, Share};
use super::source::Proof;
use super::{Fetch, FetchFailed, LEAST_BUFFER, SourceId};
use crate::name::NameKind;
use crate::wire::{PADDED, UnitRequest};

/// The part of its RTT by which a source must be earlier than another to be asked for what that was asked for (our choice: less than that, and
/// sources that are alike would be asked for the same).
const MARGIN: u64 = 8;

/// Between two looks for what comes late (our choice: as long as a request may wait to become a larger one).
const LOOK: Nanos = Nanos::from_millis(1);

impl Fetch {
    /// The request that may leave now: written over `message`, for the source that is answered. To be called until it answers `None` after
    /// every other call, and whenever [`Fetch::next_timeout`] has come.
    pub fn poll_transmit(&mut self, now: Time, message: &mut Vec<u8>) -> Option<SourceId> {
        loop {
            if self.done || self.failure.is_some() {
                return None;
            }
            if let Some(source) = self.ask(now, message) {
                return Some(source);
            }
            // What is on disk already passes without a source.
            if !self.advance() {
                return None;
            }
        }
    }

    fn ask(&mut self, now: Time, message: &mut Vec<u8>) -> Option<SourceId> {
        let count = self.sources.len();
        let alive = self.sources.iter().filter(|source| source.alive).count();
        let room = self.config.flow.receive_buffer.saturating_sub(self.unconsumed);
        let until = self.until;
        self.race_at = Time::NEVER;
        for step in 0..count {
            let index = (self.turn + step) % count;
            let id = SourceId(index as u32);
            let others = self.has_another(now, id);
            let (before, rest) = self.sources.split_at_mut(index);
            let Some((source, behind)) = rest.split_first_mut() else { continue };
            if !source.is_ready() {
                continue;
            }
            // The names of two sources may have different records.
            let races = alive > 1 && self.name.kind() == NameKind::Object && source.flow.srtt().is_some();
            let answers_in = source.flow.answers_in(now);
            let race = races.then_some(Race {
                now,
                patience: answers_in + answers_in.mul_div(1, MARGIN),
                others: [before, behind],
                hungry: self.unconsumed < LEAST_BUFFER,
                again: Time::NEVER,
                units: 0,
            });
            let heard = source.heard;
            let saved = self.saved.as_deref_mut();
            let shelved = saved.map(|saved| Shelved { saved, verifier: &mut self.verifier });
            let mut share = Share { map: &mut self.map, shelved, source: id, heard, others, room, until, race };
            let asked = source.flow.poll_request(now, &mut share);
            if let Some(race) = share.race {
                self.race_at = self.race_at.min(race.again.max(now + LOOK));
                self.stats.reassigned += race.units;
            }
            let Some(ranges) = asked else { continue };
            let padded = if source.proof == Proof::Wanted { PADDED } else { 0 };
            message.clear();
            let (name, hops) = (self.name, self.config.hops);
            UnitRequest { nonce: source.nonce, name, ranges, token: source.token, hops, padded }.encode(message);
            self.turn = (index + 1) % count;
            // It may be dead: others need not wait until that is known. One that has never answered has two units on its way at most.
            if alive > 1 && (source.flow.is_silent() || !heard) {
                ranges.iter().for_each(|unit| self.map.doubt(unit, id));
            }
            return Some(id);
        }
        None
    }

    /// When [`Fetch::on_timeout`] and [`Fetch::poll_transmit`] want to be called.
    pub fn next_timeout(&self) -> Time {
        if self.done || self.failure.is_some() {
            return Time::NEVER;
        }
        let alive = self.sources.iter().filter(|source| source.alive);
        alive
            .map(|source| source.flow.next_timeout())
            .min()
            .unwrap_or(Time::NEVER)
            .min(self.records.due())
            .min(self.race_at)
    }

    /// The time of [`Fetch::next_timeout`] has come.
    pub fn on_timeout(&mut self, now: Time) {
        if self.settle_record(now) {
            return;
        }
        if self.race_at <= now {
            // The requests that follow look again.
            self.race_at = Time::NEVER;
        }
        for index in 0..self.sources.len() {
            let others = self.sources.iter().filter(|source| source.alive).count() > 1;
            let source = &mut self.sources[index];
            if !source.alive || source.flow.next_timeout() > now {
                continue;
            }
            let id = SourceId(index as u32);
            source.flow.on_timeout(now);
            if source.flow.has_given_up() {
                self.drop_source(now, id, Some(FetchFailed::Silent));
                continue;
            }
            let timeouts = source.flow.stats().timeouts;
            if timeouts > source.timeouts {
                source.timeouts = timeouts;
                if others {
                    // One that never answered may never do so.
                    let patience = source.flow.srtt().map_or(Nanos::ZERO, |_| source.flow.rto().mul_div(2, 1));
                    let late = source.flow.reclaim(patience, now);
                    for unit in late {
                        self.stats.reassigned += u64::from(self.map.give_back(unit, id, Some(id)));
                    }
                }
            }
        }
    }
}
