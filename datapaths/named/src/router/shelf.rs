//! What a thread of the router knows of the store: the objects that it has open.

use std::collections::BTreeMap;
use std::io::IoSliceMut;

use paceline_cc::{Nanos, Time};
use paceline_icn::wire::DATA_HEAD;
use paceline_icn::{Found, Name, UNIT, Units};

use super::blocks::{Blocks, Standing};
use super::socket::SEGMENT;
use crate::store::{ReadError, Store, StoreError, Stored};

/// Objects that are open at once (our choice: a quarter of the 1024 descriptors that a process may have unless it asks for more).
const OPEN: usize = 256;

/// An object is looked at again after this long, before it is served: it may have been removed or changed since (our choice).
const FRESH: Nanos = Nanos::from_millis(500);

/// So often it is looked whether objects that are open were removed, so that they take no place on the disk for ever (our choice).
const SWEEP: Nanos = Nanos::from_secs(1);

/// Units cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The object is another one than it was.
    Changed,
    /// It is gone, or cannot be read.
    Gone,
}

struct Entry {
    stored: Stored,
    /// Its number: another one each time that an object is opened.
    number: u64,
    checked: Time,
    used: u64,
    /// Units were read since it was looked at ([`Shelf::changed`]).
    blind: bool,
}

pub(super) struct Shelf {
    store: Store,
    open: BTreeMap<Name, Entry>,
    pub(super) blocks: Blocks,
    uses: u64,
    /// The objects that units were read of.
    read: Vec<Name>,
    swept: Time,
}

impl Shelf {
    pub(super) fn new(store: Store) -> Self {
        Self { store, open: BTreeMap::new(), blocks: Blocks::new(), uses: 0, read: Vec::new(), swept: Time::ZERO }
    }

    fn entry(&mut self, now: Time, name: &Name) -> Result<Option<&mut Entry>, StoreError> {
        if !self.open.contains_key(name) {
            let Some(stored) = self.store.object(name)? else { return Ok(None) };
            if self.open.len() == OPEN
                && let Some(oldest) = self.open.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| *name)
            {
                self.open.remove(&oldest);
            }
            let number = self.uses;
            self.open.insert(*name, Entry { stored, number, checked: now, used: number, blind: false });
        }
        self.uses += 1;
        let Some(entry) = self.open.get_mut(name) else { return Ok(None) };
        entry.used = self.uses;
        Ok(Some(entry))
    }

    /// Reads units into `messages` of [`SEGMENT`] bytes, behind the places for their heads, or says where they stand in the blocks.
    /// They must not leave before [`Shelf::changed`].
    pub(super) fn read(
        &mut self,
        now: Time,
        name: &Name,
        units: Units,
        messages: &mut [u8],
    ) -> Result<Standing, Unread> {
        self.entry(now, name).map_err(|_| Unread::Changed)?;
        let Self { open, blocks, read, .. } = self;
        let entry = open.get_mut(name).ok_or(Unread::Gone)?;
        if !std::mem::replace(&mut entry.blind, true) {
            read.push(*name);
        }
        let stored = &entry.stored;
        let block = |units: Units, messages: &mut [u8]| read_units(stored, units, messages).ok();
        if let Some(standing) = blocks.find(entry.number, units, stored.stored_units(), block, messages) {
            return Ok(standing);
        }
        read_units(stored, units, messages).map(Standing::There).map_err(|error| match error {
            ReadError::Io(_) => Unread::Gone,
            ReadError::Changed | ReadError::Absent => {
                // The next request opens what is there now.
                open.remove(name);
                Unread::Changed
            }
        })
    }

    /// Looks at the files that units were read of, one system call each, and says which have changed. The next request opens what is
    /// there then.
    pub(super) fn changed(&mut self) -> Vec<Name> {
        let mut changed = Vec::new();
        for name in self.read.drain(..) {
            let same = self.open.get_mut(&name).is_some_and(|entry| {
                entry.blind = false;
                !entry.stored.is_changed()
            });
            if !same {
                self.open.remove(&name);
                changed.push(name);
            }
        }
        changed
    }
}

impl Shelf {
    /// Lets go, once in a while, of objects that were removed, or replaced by the same ones published again.
    pub(super) fn sweep(&mut self, now: Time) {
        if now.since(self.swept) > SWEEP {
            self.swept = now;
            self.open.retain(|_, entry| entry.stored.is_in_place());
        }
    }

    pub(super) fn find(&mut self, now: Time, name: &Name) -> Found {
        if let Some(entry) = self.open.get_mut(name)
            && now.since(entry.checked) > FRESH
        {
            entry.checked = now;
            let (gone, changed) = (!entry.stored.is_in_place(), entry.stored.is_changed());
            if gone || changed {
                self.open.remove(name);
            }
            if changed && !gone {
                return Found::Changed;
            }
        }
        let Ok(entry) = self.entry(now, name) else { return Found::Changed };
        let Some(entry) = entry else { return Found::Elsewhere };
        Found::Here { stored_units: Some(entry.stored.stored_units()), whole: true }
    }
}

/// Reads units into messages of [`SEGMENT`] bytes, behind the places for their heads, with one system call. Says how many bytes these have.
fn read_units(stored: &Stored, units: Units, messages: &mut [u8]) -> Result<usize, ReadError> {
    let last = stored.bytes_of(units.end().saturating_sub(1));
    let bytes = (units.count as usize * SEGMENT + last).saturating_sub(UNIT);
    let places = messages[..bytes].chunks_mut(SEGMENT).map(|message| IoSliceMut::new(&mut message[DATA_HEAD..]));
    stored.read_blindly(units, &mut places.collect::<Vec<_>>())?;
    Ok(bytes)
}
