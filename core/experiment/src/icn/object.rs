//! Objects without a file: their bytes are made from their place when they are asked for, and the tree above them as far as it is needed,
//! so that one of any length costs next to nothing before it is fetched.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use paceline_icn::hash::{Tag, hash_of_unit};
use paceline_icn::layout::FANOUT;
use paceline_icn::name::NameKind;
use paceline_icn::tree::index_unit;
use paceline_icn::{Layout, Manifest, Name, UNIT, UnitPlace};
use rand::Rng;
use rand_pcg::Pcg64;

use crate::seed::Seed;

/// The hash of a unit.
type Hash = [u8; 32];

/// A data unit and its hash.
#[derive(Clone, Debug)]
struct Unit {
    bytes: Bytes,
    hash: Hash,
}

impl Unit {
    fn new(bytes: Bytes) -> Self {
        Self { hash: hash_of_unit(Tag::Data, &bytes), bytes }
    }

    /// As long as that, with these first bytes.
    fn drawn(rng: &mut Pcg64, length: usize, head: &[u8]) -> Self {
        let mut bytes = vec![0; length];
        rng.fill_bytes(&mut bytes);
        bytes[..head.len()].copy_from_slice(head);
        Self::new(bytes.into())
    }
}

/// What all objects have after their first unit, over and over (our choice: as many as have one index unit above them, so that each of these has
/// the same hashes).
static COMMON: LazyLock<Vec<Unit>> = LazyLock::new(|| {
    let mut rng = Seed(0).stream("units of objects");
    (0..FANOUT).map(|number| Unit::drawn(&mut rng, UNIT, &number.to_be_bytes())).collect()
});

/// Bytes with which each of these says its number.
const NUMBER: usize = size_of::<u64>();

/// The hash of a unit, which is at hand for those that all objects have.
pub(super) fn hash_of(tag: Tag, bytes: &[u8]) -> Hash {
    let number =
        bytes.get(..NUMBER).map_or(FANOUT, |number| u64::from_be_bytes(number.try_into().expect("its length")));
    let known = COMMON.get(number as usize).filter(|unit| tag == Tag::Data && unit.bytes == bytes);
    known.map_or_else(|| hash_of_unit(tag, bytes), |unit| unit.hash)
}

/// An object without a file.
#[derive(Debug)]
pub struct SyntheticObject {
    name: Name,
    layout: Layout,
    manifest: Bytes,
    first: Unit,
    last: Unit,
    /// Hashes of index units, by level from 2 on.
    upper: Vec<Vec<Hash>>,
}

impl SyntheticObject {
    /// This many bytes; those of another `seed` are others.
    ///
    /// # Panics
    /// Where it is longer than a manifest can say.
    pub fn new(length: u64, seed: Seed) -> Arc<Self> {
        let layout = Layout::new(length);
        let units = layout.data_units();
        let bytes_of = |index: u64| (length - index * UNIT as u64).min(UNIT as u64) as usize;
        let first = Unit::drawn(&mut seed.stream("object"), length.min(UNIT as u64) as usize, &[]);
        let last = match units {
            0 | 1 => first.clone(),
            _ => {
                let whole = &COMMON[((units - 1) % FANOUT) as usize];
                let bytes = bytes_of(units - 1);
                if bytes == UNIT { whole.clone() } else { Unit::new(whole.bytes.slice(..bytes)) }
            }
        };
        let name = Name::new(NameKind::Object, [0; 32]);
        let mut object = Self { name, layout, manifest: Bytes::new(), first, last, upper: Vec::new() };
        for level in 2..=layout.height() {
            let above = |index: u64| hash_of_unit(Tag::Index, &*object.index(level, index * FANOUT.pow(level)));
            let count = units.div_ceil(FANOUT.pow(level));
            let hashes = (0..count).map(above).collect();
            object.upper.push(hashes);
        }
        let root = match layout.height() {
            0 => object.last.hash,
            level => object.hash(level, 0),
        };
        let manifest = Manifest {
            length,
            root: if units == 0 { [0; 32] } else { root },
            media_type: "application/octet-stream".to_owned(),
        };
        object.name = manifest.name();
        object.manifest = Bytes::copy_from_slice(&manifest.encode());
        Arc::new(object)
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
        Some(match self.layout.place(unit)? {
            UnitPlace::Manifest => self.manifest.clone(),
            UnitPlace::Data { index } => self.data(index).bytes.clone(),
            UnitPlace::Index { level, first } => Bytes::copy_from_slice(&*self.index(level, first)),
        })
    }

    /// Whether these are its bytes from `offset` on, which is where a unit begins.
    pub fn is(&self, offset: u64, bytes: &[u8]) -> bool {
        let first = offset / UNIT as u64;
        offset.is_multiple_of(UNIT as u64)
            && (first..).zip(bytes.chunks(UNIT)).all(|(index, chunk)| self.data(index).bytes == chunk)
    }

    fn data(&self, index: u64) -> &Unit {
        match index {
            0 => &self.first,
            _ if index + 1 == self.layout.data_units() => &self.last,
            _ => &COMMON[(index % FANOUT) as usize],
        }
    }

    /// The index unit of this level above data unit `first`.
    fn index(&self, level: u32, first: u64) -> Box<[u8; UNIT]> {
        let span = FANOUT.pow(level - 1);
        let children = 0..self.layout.children(level, first) as u64;
        index_unit(level, first, children.map(|child| self.hash(level - 1, first + child * span)))
    }

    /// The hash of the unit of this level above data unit `first`; at level 0 that of the data unit itself.
    fn hash(&self, level: u32, first: u64) -> Hash {
        match level {
            0 => self.data(first).hash,
            1 => hash_of_unit(Tag::Index, &*self.index(1, first)),
            _ => self.upper[level as usize - 2][(first / FANOUT.pow(level)) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_icn::{UnitVerdict, Verifier};

    #[test]
    fn every_unit_is_what_the_name_says() {
        let whole = UNIT as u64;
        for length in [0, 1, whole, whole + 1, 58 * whole, 58 * whole + 1, 59 * whole, 3_364 * whole, 3_400 * whole + 7]
        {
            let object = SyntheticObject::new(length, Seed(1));
            assert_eq!(object.name() == SyntheticObject::new(length, Seed(2)).name(), length == 0, "{length}");
            let mut verifier = Verifier::new(object.name());
            for unit in 0..object.layout().stored_units() {
                let bytes = object.unit(unit).unwrap();
                assert_eq!(verifier.check(unit, &bytes), UnitVerdict::Genuine, "{unit} of {length}");
                if let Some(UnitPlace::Data { index }) = object.layout().place(unit) {
                    assert!(object.is(index * whole, &bytes) && bytes.len() == object.layout().bytes_of(unit));
                }
            }
            assert!(verifier.is_done() && object.unit(object.layout().stored_units()).is_none());
        }
    }

    #[test]
    fn what_stands_elsewhere_is_something_else() {
        let object = SyntheticObject::new(100 * UNIT as u64, Seed(1));
        let unit = |index| object.unit(object.layout().unit_of(index)).unwrap();
        assert!(!object.is(0, &unit(58)) && !object.is(UNIT as u64, &unit(2)) && !object.is(7, &unit(0)));
    }
}
