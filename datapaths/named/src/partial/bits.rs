//! Which units are there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::store::{StoreError, write_failed};

/// Where the bits begin in the file: behind its head, at a page's beginning.
pub(super) const BITS: u64 = 4096;

/// One bit for each unit, in words of 64, the lowest first; on the disk in little-endian order. 1 MB for an object of 12 GB.
#[derive(Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    units: u64,
    held: u64,
}

impl Bits {
    pub(super) fn new(units: u64) -> Self {
        Self { words: vec![0; units.div_ceil(64) as usize], units, held: 0 }
    }

    /// From the disk. Bits past the end are not units.
    pub(super) fn read(map: &File, units: u64) -> io::Result<Self> {
        let mut bits = Self::new(units);
        let mut buffer = vec![0; 1 << 16];
        let mut offset = BITS;
        for words in bits.words.chunks_mut(buffer.len() / 8) {
            let bytes = &mut buffer[..words.len() * 8];
            map.read_exact_at(bytes, offset)?;
            offset += bytes.len() as u64;
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
        if let (Some(last), rest @ 1..) = (bits.words.last_mut(), units % 64) {
            *last &= (1 << rest) - 1;
        }
        bits.held = bits.words.iter().map(|word| u64::from(word.count_ones())).sum();
        Ok(bits)
    }

    /// Where they end in the file, at a page's beginning.
    pub(super) const fn end(&self) -> u64 {
        BITS + (self.units.div_ceil(64) * 8).next_multiple_of(4096)
    }

    pub(super) const fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn has(&self, unit: u64) -> bool {
        self.words.get((unit / 64) as usize).is_some_and(|word| word & 1 << (unit % 64) != 0)
    }

    /// Says in which word.
    pub(super) fn set(&mut self, unit: u64) -> usize {
        self.held += u64::from(!self.has(unit));
        let word = (unit / 64) as usize;
        self.words[word] |= 1 << (unit % 64);
        word
    }

    /// Says in which word.
    pub(super) fn clear(&mut self, unit: u64) -> usize {
        self.held -= u64::from(self.has(unit));
        let word = (unit / 64) as usize;
        self.words[word] &= !(1 << (unit % 64));
        word
    }

    pub(super) fn word(&self, word: usize) -> u64 {
        self.words[word]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().zip(0_u64..).filter(|(word, _)| **word != 0).flat_map(|(word, at)| {
            let word = *word;
            (0..64).filter(move |bit| word & 1 << bit != 0).map(move |bit| at * 64 + bit)
        })
    }
}

/// Units that are to be put on the disk: see [`super::Partial::pending`].
#[derive(Debug)]
pub struct Sync {
    pub(super) data: Arc<File>,
    pub(super) map: Arc<File>,
    pub(super) path: PathBuf,
    pub(super) words: Vec<(usize, u64)>,
}

impl Sync {
    /// Does it; it waits for the disk.
    ///
    /// # Errors
    /// When it cannot be written: units since the last one that worked are asked for again after a restart.
    pub fn run(self) -> Result<(), StoreError> {
        let failed = |error| write_failed(&self.path, error);
        // Index units may be in the map.
        self.data.sync_data().and_then(|()| self.map.sync_data()).map_err(failed)?;
        let mut rest = self.words.as_slice();
        while let Some((first, _)) = rest.first() {
            let row = rest.iter().enumerate().take_while(|(at, (word, _))| *word == first + at).count();
            let bytes: Vec<u8> = rest[..row].iter().flat_map(|(_, word)| word.to_le_bytes()).collect();
            self.map.write_all_at(&bytes, BITS + *first as u64 * 8).map_err(failed)?;
            rest = &rest[row..];
        }
        self.map.sync_data().map_err(failed)
    }
}
