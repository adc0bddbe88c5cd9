//! Objects whose bytes repeat nowhere: made from their place when they are asked for, with the tree above them.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use paceline_icn::{Builder, Layout, Name, Place, UNIT};

/// An object of a router.
pub(in super::super) struct Object {
    pub(in super::super) name: Name,
    pub(in super::super) layout: Layout,
    seed: u64,
    /// All units but those of data.
    index: BTreeMap<u64, Bytes>,
}

/// The bytes of a data unit.
fn data(layout: &Layout, seed: u64, index: u64) -> Vec<u8> {
    let bytes = layout.bytes_of(layout.unit_of(index));
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index;
    let mut word = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state.to_be_bytes()
    };
    let mut made: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| word()).collect();
    made.truncate(bytes);
    made
}

impl Object {
    /// So many bytes, which others than `seed` would make others.
    pub(in super::super) fn new(length: u64, seed: u64) -> Rc<Self> {
        let layout = Layout::new(length);
        let mut index = BTreeMap::new();
        let mut put = |unit: u64, bytes: &[u8; UNIT]| drop(index.insert(unit, Bytes::copy_from_slice(bytes)));
        let mut builder = Builder::new(length, "application/octet-stream");
        for unit in 0..layout.data_units() {
            builder.push(&data(&layout, seed, unit), &mut put);
        }
        let manifest = builder.finish(&mut put).expect("as long as it was said to be");
        Rc::new(Self { name: manifest.name(), layout, seed, index })
    }

    /// Bytes of the object.
    pub(in super::super) fn length(&self) -> u64 {
        self.layout.length()
    }

    pub(in super::super) fn stored_bytes(&self) -> u64 {
        self.layout.stored_bytes()
    }

    /// A unit of the stored form.
    pub(super) fn unit(&self, unit: u64) -> Option<Bytes> {
        match self.layout.place(unit)? {
            Place::Data { index } => Some(data(&self.layout, self.seed, index).into()),
            _ => self.index.get(&unit).cloned(),
        }
    }

    /// Whether these are its bytes from `offset` on, which is where a unit begins.
    pub(super) fn is(&self, offset: u64, bytes: &[u8]) -> bool {
        let first = offset / UNIT as u64;
        offset.is_multiple_of(UNIT as u64)
            && (first..).zip(bytes.chunks(UNIT)).all(|(index, chunk)| data(&self.layout, self.seed, index) == chunk)
    }
}
