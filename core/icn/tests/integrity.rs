//! Objects and what may become of their units on the way.

use paceline_icn::{BadSource, Builder, Layout, Manifest, Name, UNIT, UnitPlace, UnitVerdict, Verifier};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng, seq::SliceRandom};
use rand_pcg::Pcg64;

/// An object in its stored form.
struct Object {
    name: Name,
    layout: Layout,
    units: Vec<Vec<u8>>,
}

/// Of `length` bytes drawn at random.
fn object(length: usize, random: &mut Pcg64) -> Object {
    let mut content = vec![0; length];
    random.fill_bytes(&mut content);
    build(&content)
}

fn build(content: &[u8]) -> Object {
    let layout = Layout::new(content.len() as u64);
    let mut units = vec![Vec::new(); layout.stored_units() as usize];
    let mut builder = Builder::new(content.len() as u64, "video/mp4");
    for (index, data) in content.chunks(UNIT).enumerate() {
        units[layout.unit_of(index as u64) as usize] = data.to_vec();
        builder.push(data, &mut |unit, bytes| units[unit as usize] = bytes.to_vec());
    }
    let manifest = builder.finish(&mut |unit, bytes| units[unit as usize] = bytes.to_vec()).expect("it is complete");
    assert!(units.iter().all(|unit| !unit.is_empty()));
    Object { name: manifest.name(), layout, units }
}

impl Object {
    fn numbers(&self) -> Vec<u64> {
        (0..self.units.len() as u64).collect()
    }

    fn unit(&self, unit: u64) -> &[u8] {
        &self.units[unit as usize]
    }

    /// A verifier that has seen what is needed to check `unit`.
    fn ready_for(&self, unit: u64) -> Verifier {
        let mut verifier = Verifier::new(&self.name);
        while let Some(missing) = verifier.missing_for(unit) {
            assert_eq!(verifier.check(unit, self.unit(unit)), UnitVerdict::Early);
            assert!(!verifier.knows_parent_of(unit));
            assert_eq!(verifier.check(missing, self.unit(missing)), UnitVerdict::Genuine);
        }
        assert!(verifier.knows_parent_of(unit));
        verifier
    }
}

/// Lengths around whole units and whole trees, and others.
fn lengths() -> impl Strategy<Value = usize> {
    let tree = 58 * UNIT;
    prop_oneof![
        Just(0),
        Just(1),
        Just(UNIT),
        Just(UNIT + 1),
        Just(tree),
        Just(tree + 1),
        Just(2 * tree - 1),
        1..8 * tree,
    ]
}

#[test]
fn in_order_a_verifier_holds_one_index_unit_a_level_and_nothing_in_the_end() {
    let object = object(60 * 58 * UNIT + 77, &mut Pcg64::seed_from_u64(1));
    assert_eq!(object.layout.height(), 3);
    let mut verifier = Verifier::new(&object.name);
    for unit in object.numbers() {
        assert_eq!(verifier.check(unit, object.unit(unit)), UnitVerdict::Genuine);
        assert!(verifier.held() <= 3);
    }
    assert!(verifier.is_done());
    assert_eq!(verifier.held(), 0);
    let manifest = verifier.manifest().expect("it came first");
    assert_eq!((manifest.length, manifest.media_type.as_str()), (object.layout.length(), "video/mp4"));
}

#[test]
fn among_a_million_units_one_corrupt_one_is_refused() {
    const DATA: u64 = 1_000_000;
    let layout = Layout::new(DATA * UNIT as u64);
    let content = |index: u64| {
        let mut unit = [0; UNIT];
        unit[..8].copy_from_slice(&index.to_be_bytes());
        unit
    };
    let mut indexes = std::collections::BTreeMap::new();
    let mut builder = Builder::new(layout.length(), "");
    for index in 0..DATA {
        builder.push(&content(index), &mut |unit, bytes| _ = indexes.insert(unit, *bytes));
    }
    let manifest = builder.finish(&mut |unit, bytes| _ = indexes.insert(unit, *bytes)).expect("it is complete");
    let corrupt = layout.unit_of(617_283);
    let mut verifier = Verifier::new(&manifest.name());
    let mut refused = Vec::new();
    for unit in 0..layout.stored_units() {
        let mut bytes = match layout.place(unit) {
            Some(UnitPlace::Data { index }) => content(index),
            _ => indexes[&unit],
        };
        if unit == corrupt {
            bytes[700] ^= 1;
        }
        if verifier.check(unit, &bytes) != UnitVerdict::Genuine {
            refused.push(unit);
        }
        // What is above the corrupt unit waits for it.
        let waits = if unit > corrupt { 2 } else { 1 };
        assert!(verifier.held() <= waits * layout.height() as usize);
    }
    assert_eq!(refused, [corrupt]);
    assert!(!verifier.is_done());
    assert_eq!(verifier.check(corrupt, &content(617_283)), UnitVerdict::Genuine);
    assert!(verifier.is_done() && verifier.held() == 0);
}

#[test]
fn a_source_of_another_length_is_no_object() {
    let mut nowhere = |_: u64, _: &[u8; UNIT]| ();
    let mut short = Builder::new(3000, "");
    short.push(&[0; UNIT], &mut nowhere);
    assert_eq!(short.finish(&mut nowhere), Err(BadSource::Short { missing: 1600, length: 3000 }));
    let mut odd = Builder::new(3000, "");
    odd.push(&[0; 7], &mut nowhere);
    odd.push(&[0; UNIT], &mut nowhere);
    assert_eq!(odd.finish(&mut nowhere), Err(BadSource::Unit { index: 0, bytes: 7, expected: UNIT }));
    let mut long = Builder::new(1, "");
    long.push(&[0], &mut nowhere);
    long.push(&[0], &mut nowhere);
    assert_eq!(long.finish(&mut nowhere), Err(BadSource::Unit { index: 1, bytes: 1, expected: 0 }));
    assert!(Builder::new(u64::MAX, "").finish(&mut nowhere).is_err());
    assert!(Builder::new(0, "no\ntype").finish(&mut nowhere).is_err());
}

#[test]
fn an_index_unit_is_never_taken_for_data_nor_the_reverse() {
    // Two objects: the data of the second is the index unit of the first.
    let first = object(3 * UNIT, &mut Pcg64::seed_from_u64(2));
    let second = build(first.unit(1));
    let mut manifest = Manifest::decode(second.unit(0)).expect("it was built");
    manifest.length = first.layout.length();
    let mut verifier = Verifier::new(&manifest.name());
    assert_eq!(verifier.check(0, &manifest.encode()), UnitVerdict::Genuine);
    assert_eq!(verifier.check(1, first.unit(1)), UnitVerdict::Corrupt);
}

#[test]
fn a_signed_name_has_no_units() {
    let object = object(10, &mut Pcg64::seed_from_u64(3));
    let signed = Name::new(paceline_icn::name::NameKind::Signed, *object.name.hash());
    assert_eq!(Verifier::new(&signed).check(0, object.unit(0)), UnitVerdict::Corrupt);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Property 7 of the transport, its part: whatever the order, all units are found genuine, once.
    #[test]
    fn any_order_verifies(length in lengths(), seed in any::<u64>()) {
        let mut random = Pcg64::seed_from_u64(seed);
        let object = object(length, &mut random);
        let mut verifier = Verifier::new(&object.name);
        let mut numbers = object.numbers();
        numbers.shuffle(&mut random);
        let (mut early, mut rounds) = (numbers, 0);
        while !early.is_empty() {
            early.retain(|unit| match verifier.check(*unit, object.unit(*unit)) {
                UnitVerdict::Early => true,
                verdict => {
                    assert_eq!(verdict, UnitVerdict::Genuine);
                    assert!(verifier.knows(*unit));
                    // What came already is known, whatever the bytes.
                    assert_eq!(verifier.check(*unit, b"again"), UnitVerdict::Known);
                    false
                }
            });
            rounds += 1;
            prop_assert!(rounds <= object.layout.height() + 2);
        }
        prop_assert!(verifier.is_done() && verifier.held() == 0);
        prop_assert_eq!(verifier.check(object.layout.stored_units(), b""), UnitVerdict::Foreign);
        prop_assert_eq!(verifier.check(u64::MAX, b""), UnitVerdict::Foreign);
    }

    #[test]
    fn memory_is_bounded_and_what_was_forgotten_can_come_again(length in lengths(), seed in any::<u64>()) {
        let mut random = Pcg64::seed_from_u64(seed);
        // Up to 60 index units, of which 11 may be held.
        let object = object(length * 8, &mut random);
        let mut verifier = Verifier::with_limit(&object.name, 0);
        let mut wanted = object.numbers();
        wanted.shuffle(&mut random);
        let mut checked = 0;
        for unit in wanted {
            while let Some(missing) = verifier.missing_for(unit) {
                match verifier.check(missing, object.unit(missing)) {
                    UnitVerdict::Genuine => {}
                    verdict => {
                        // No room: everything held stands before it.
                        prop_assert_eq!(verdict, UnitVerdict::Early);
                        break;
                    }
                }
            }
            checked += u64::from(verifier.check(unit, object.unit(unit)) == UnitVerdict::Genuine);
            prop_assert!(verifier.held() <= 11);
        }
        prop_assert!(checked > 0);
        // In order there is always room.
        for unit in object.numbers() {
            let verdict = verifier.check(unit, object.unit(unit));
            prop_assert!(matches!(verdict, UnitVerdict::Genuine | UnitVerdict::Known), "{verdict:?} for {unit}");
        }
        prop_assert!(verifier.held() <= 11);
    }

    #[test]
    fn what_is_not_the_unit_is_corrupt(length in lengths(), seed in any::<u64>()) {
        let mut random = Pcg64::seed_from_u64(seed);
        let object = object(length, &mut random);
        let unit = random.random_range(0..object.units.len() as u64);
        let good = object.unit(unit);
        let refused = |bytes: &[u8]| object.ready_for(unit).check(unit, bytes) == UnitVerdict::Corrupt;
        // One flipped bit.
        let mut flipped = good.to_vec();
        flipped[random.random_range(0..good.len())] ^= 1 << random.random_range(0..8);
        prop_assert!(refused(&flipped));
        // Cut off, and with more behind it.
        prop_assert!(refused(&good[..good.len() - 1]));
        prop_assert!(refused(&[good, &[0]].concat()));
        prop_assert!(refused(b""));
        // Another unit under its number.
        let other = random.random_range(0..object.units.len() as u64);
        prop_assert!(object.unit(other) == good || refused(object.unit(other)));
        // None of that spoils what comes after.
        let mut verifier = object.ready_for(unit);
        prop_assert_eq!(verifier.check(unit, &flipped), UnitVerdict::Corrupt);
        prop_assert_eq!(verifier.check(unit, good), UnitVerdict::Genuine);
    }

    /// After a restart: index units are checked again, data units are known to be on disk.
    #[test]
    fn units_of_an_earlier_run_need_no_second_check(length in lengths(), seed in any::<u64>()) {
        let mut random = Pcg64::seed_from_u64(seed);
        let object = object(length, &mut random);
        let mut verifier = Verifier::new(&object.name);
        for unit in object.numbers() {
            if matches!(object.layout.place(unit), Some(UnitPlace::Data { .. })) {
                prop_assert!(verifier.have(unit));
                prop_assert_eq!(verifier.check(unit, b"again"), UnitVerdict::Known);
            } else {
                prop_assert!(!verifier.have(unit));
                prop_assert_eq!(verifier.check(unit, object.unit(unit)), UnitVerdict::Genuine);
            }
        }
        prop_assert!(verifier.is_done() && verifier.held() == 0);
    }
}
