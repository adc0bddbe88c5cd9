//! Makes the stored form of an object while its bytes are read once, in order.

use crate::UNIT;
use crate::hash::{Tag, hash_of_unit};
use crate::layout::{FANOUT, HASH_BYTES, Layout};
use crate::manifest::{BadManifest, Manifest};
use crate::tree::HEAD;

/// Takes an object's data units in order, and hands out its index units as they are complete; the manifest comes last.
/// It holds one index unit for each level of the tree, whatever the object's length.
#[derive(Debug)]
pub struct Builder {
    layout: Layout,
    media_type: String,
    /// Data units taken.
    taken: u64,
    /// The index units in the making, that of data first.
    levels: Vec<Level>,
    /// Hash of the topmost unit.
    root: [u8; 32],
    wrong: Option<BadSource>,
}

#[derive(Debug)]
struct Level {
    bytes: Box<[u8; UNIT]>,
    hashes: usize,
    /// The first data unit below it.
    first: u64,
}

/// The bytes are not as long as they were said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSource {
    /// There are fewer.
    #[error(
        "it became shorter while it was read: {missing} of {length} bytes are missing; publish it when nothing writes it"
    )]
    Short {
        /// Bytes that did not come.
        missing: u64,
        /// Bytes that were announced.
        length: u64,
    },
    /// A unit of another size than its place has, or one past the end.
    #[error("data unit {index} has {bytes} bytes instead of {expected}; publish it when nothing writes it")]
    Unit {
        /// Which one.
        index: u64,
        /// Bytes it has.
        bytes: usize,
        /// Bytes that its place has.
        expected: usize,
    },
    /// No manifest can say this.
    #[error(transparent)]
    Manifest(#[from] BadManifest),
}

impl Builder {
    /// For an object of `length` bytes. A length or media type that no manifest can hold is reported by [`Builder::finish`].
    pub fn new(length: u64, media_type: &str) -> Self {
        let layout = Layout::new(length);
        let level = || Level { bytes: Box::new([0; UNIT]), hashes: 0, first: 0 };
        let levels = (0..layout.height()).map(|_| level()).collect();
        let wrong = Manifest { length, root: [0; 32], media_type: media_type.to_owned() }.check().err();
        Self {
            layout,
            media_type: media_type.to_owned(),
            taken: 0,
            levels,
            root: [0; 32],
            wrong: wrong.map(Into::into),
        }
    }

    /// Where its units stand.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Takes the next data unit: [`UNIT`] bytes, but for the last. `out` gets the index units that it completes. What does not
    /// fit its place is reported by [`Builder::finish`].
    pub fn push(&mut self, data: &[u8], out: &mut dyn FnMut(u64, &[u8; UNIT])) {
        if self.wrong.is_some() {
            return;
        }
        let index = self.taken;
        let expected = self.layout.length().saturating_sub(index.saturating_mul(UNIT as u64)).min(UNIT as u64) as usize;
        if data.len() != expected || expected == 0 {
            self.wrong = Some(BadSource::Unit { index, bytes: data.len(), expected });
            return;
        }
        self.taken += 1;
        let last = self.taken == self.layout.data_units();
        let mut hash = hash_of_unit(Tag::Data, data);
        for (level, node) in self.levels.iter_mut().enumerate() {
            let at = HEAD + node.hashes * HASH_BYTES;
            node.bytes[at..at + HASH_BYTES].copy_from_slice(&hash[..HASH_BYTES]);
            node.hashes += 1;
            if node.hashes < FANOUT as usize && !last {
                return;
            }
            let level = level as u32 + 1;
            node.bytes[..HEAD].copy_from_slice(&crate::tree::head(level, node.first));
            out(self.layout.index_of(node.first, level), &node.bytes);
            hash = hash_of_unit(Tag::Index, &*node.bytes);
            node.bytes.fill(0);
            (node.hashes, node.first) = (0, self.taken);
        }
        self.root = hash;
    }

    /// Hands out the manifest as unit 0.
    ///
    /// # Errors
    /// [`BadSource`], of the first that went wrong.
    pub fn finish(self, out: &mut dyn FnMut(u64, &[u8; UNIT])) -> Result<Manifest, BadSource> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let length = self.layout.length();
        if self.taken < self.layout.data_units() {
            return Err(BadSource::Short { missing: length - self.taken * UNIT as u64, length });
        }
        let manifest = Manifest { length, root: self.root, media_type: self.media_type };
        out(0, &manifest.encode());
        Ok(manifest)
    }
}
