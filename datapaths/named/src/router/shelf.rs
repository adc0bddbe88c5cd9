//! What a thread of the router knows of the store: the objects that it has open.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::time::{Duration, Instant};

use paceline_icn::wire::DATA_HEAD;
use paceline_icn::{Found, Name, Units};

use super::socket::SEGMENT;
use crate::store::{ReadError, Store, StoreError, Stored};

/// Objects that are open at once (our choice: a quarter of the 1024 descriptors that a process may have unless it asks for more).
const OPEN: usize = 256;

/// An object is looked at again after this long, before it is served: it may have been removed or changed since (our choice).
const FRESH: Duration = Duration::from_millis(500);

/// So often it is looked whether objects that are open were removed, so that they take no place on the disk for ever (our choice).
const SWEEP: Duration = Duration::from_secs(1);

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
    checked: Instant,
    used: u64,
    /// Units were read since it was looked at ([`Shelf::changed`]).
    blind: bool,
}

pub(super) struct Shelf {
    store: Store,
    open: BTreeMap<Name, Entry>,
    uses: u64,
    /// The objects that units were read of.
    read: Vec<Name>,
    swept: Instant,
}

impl Shelf {
    pub(super) fn new(store: Store) -> Self {
        Self { store, open: BTreeMap::new(), uses: 0, read: Vec::new(), swept: Instant::now() }
    }

    fn entry(&mut self, name: &Name) -> Result<Option<&mut Entry>, StoreError> {
        self.uses += 1;
        if !self.open.contains_key(name) {
            let Some(stored) = self.store.object(name)? else { return Ok(None) };
            if self.open.len() == OPEN
                && let Some(oldest) = self.open.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| *name)
            {
                self.open.remove(&oldest);
            }
            self.open.insert(*name, Entry { stored, checked: Instant::now(), used: self.uses, blind: false });
        }
        let Some(entry) = self.open.get_mut(name) else { return Ok(None) };
        entry.used = self.uses;
        Ok(Some(entry))
    }

    /// Reads units into messages of [`SEGMENT`] bytes, behind the place for their heads; says how many bytes the last unit has.
    /// They must not leave before [`Shelf::changed`].
    pub(super) fn read(&mut self, name: &Name, units: Units, messages: &mut [u8]) -> Result<usize, Unread> {
        let entry = self.entry(name).map_err(|_| Unread::Changed)?.ok_or(Unread::Gone)?;
        let last = entry.stored.bytes_of(units.end().saturating_sub(1));
        let end = messages.len() + DATA_HEAD + last - SEGMENT;
        let mut buffers: Vec<IoSliceMut<'_>> =
            messages[..end].chunks_mut(SEGMENT).map(|message| IoSliceMut::new(&mut message[DATA_HEAD..])).collect();
        let first = !std::mem::replace(&mut entry.blind, true);
        let read = entry.stored.read_blindly(units, &mut buffers);
        if first {
            self.read.push(*name);
        }
        read.map_err(|error| match error {
            ReadError::Io(_) => Unread::Gone,
            ReadError::Changed | ReadError::Absent => {
                // The next request opens what is there now.
                self.open.remove(name);
                Unread::Changed
            }
        })?;
        Ok(last)
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
    pub(super) fn sweep(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.swept) > SWEEP {
            self.swept = now;
            self.open.retain(|_, entry| entry.stored.is_in_place());
        }
    }

    pub(super) fn find(&mut self, name: &Name) -> Found {
        let now = Instant::now();
        if let Some(entry) = self.open.get_mut(name)
            && now.duration_since(entry.checked) > FRESH
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
        let Ok(entry) = self.entry(name) else { return Found::Changed };
        let Some(entry) = entry else { return Found::Elsewhere };
        Found::Here { stored_units: Some(entry.stored.stored_units()), whole: true }
    }
}
