//! Objects whose bytes repeat nowhere: made from their place when they are asked for, with the tree above them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use paceline_icn::{Builder, Layout, Name, UNIT, UnitPlace};
use rand::Rng;
use rand_pcg::Pcg64;

use crate::seed::Seed;

/// An object without a file.
#[derive(Debug)]
pub struct SyntheticObject {
    name: Name,
    layout: Layout,
    seed: Seed,
    /// All units but those of data.
    index: BTreeMap<u64, Bytes>,
}

impl SyntheticObject {
    /// This many bytes; those of another `seed` are others.
    ///
    /// # Panics
    /// Where it is longer than a manifest can say.
    pub fn new(length: u64, seed: Seed) -> Arc<Self> {
        let layout = Layout::new(length);
        let mut index = BTreeMap::new();
        let mut put = |unit: u64, bytes: &[u8; UNIT]| drop(index.insert(unit, Bytes::copy_from_slice(bytes)));
        let mut builder = Builder::new(length, "application/octet-stream");
        for unit in 0..layout.data_units() {
            builder.push(&data(&layout, seed, unit), &mut put);
        }
        let manifest = builder.finish(&mut put).expect("as long as it was said to be");
        Arc::new(Self { name: manifest.name(), layout, seed, index })
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Where its units stand.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A unit of the stored form; `None` past its end.
    pub fn unit(&self, unit: u64) -> Option<Bytes> {
        match self.layout.place(unit)? {
            UnitPlace::Data { index } => Some(data(&self.layout, self.seed, index).into()),
            UnitPlace::Manifest | UnitPlace::Index { .. } => self.index.get(&unit).cloned(),
        }
    }

    /// Whether these are its bytes from `offset` on, which is where a unit begins.
    pub fn is(&self, offset: u64, bytes: &[u8]) -> bool {
        let first = offset / UNIT as u64;
        offset.is_multiple_of(UNIT as u64)
            && (first..).zip(bytes.chunks(UNIT)).all(|(index, chunk)| data(&self.layout, self.seed, index) == chunk)
    }
}

/// The bytes of a data unit.
fn data(layout: &Layout, seed: Seed, index: u64) -> Vec<u8> {
    let mut bytes = vec![0; layout.bytes_of(layout.unit_of(index))];
    Pcg64::new(seed.0.into(), index.into()).fill_bytes(&mut bytes);
    bytes
}
