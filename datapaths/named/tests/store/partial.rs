//! Parts of objects: in any order, and over restarts.

use std::fs::File;
use std::os::unix::fs::{FileExt, symlink};

use paceline_icn::{UNIT, Units};
use paceline_named::partial::{Form, Partial, Paths};
use paceline_named::store::{ReadError, StoreError};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::{Place, line};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn units_in_any_order_over_restarts_are_the_object(length in 0..300_000_usize, seed in any::<u64>(), stored in any::<bool>()) {
        let place = Place::new();
        let (name, content) = place.object(length, seed);
        let units = place.units(&name);
        let out = place.folder.path().join("out");
        let paths = if stored { Paths::in_cache(place.folder.path(), &name) } else { Paths::beside(&out) };
        let mut order: Vec<u64> = (1..units.len() as u64).collect();
        order.shuffle(&mut Pcg64::seed_from_u64(seed));
        let mut partial = Partial::create(paths.clone(), &units[0]).expect("room");
        let mut buffer = [0; UNIT];
        for (at, unit) in order.iter().enumerate() {
            prop_assert!(!partial.has(*unit));
            prop_assert!(matches!(partial.read(*unit, &mut buffer), Err(ReadError::Absent)));
            partial.write(*unit, &units[*unit as usize]).expect("room");
            partial.write(*unit, &units[*unit as usize]).expect("it is there");
            if at % 64 == 63 {
                drop(partial);
                partial = Partial::open(&paths, &name).expect("readable").expect("it was begun");
                prop_assert_eq!(partial.held_units(), at as u64 + 2);
            }
        }
        prop_assert!(partial.is_whole());
        for (unit, bytes) in (0_u64..).zip(&units) {
            let read = partial.read(unit, &mut buffer).expect("there");
            prop_assert!(buffer[..read] == bytes[..]);
        }
        partial.finish(&out).expect("room");
        let file = std::fs::read(&out).expect("there");
        let right = if stored { units.concat() } else { content };
        prop_assert!(file == right);
        prop_assert!(!paths.data.exists() && !paths.map.exists());
    }
}

#[test]
fn what_a_crash_leaves_claims_no_unit_that_is_not_there() {
    let place = Place::new();
    let (name, _) = place.object(200 * UNIT, 1);
    let units = place.units(&name);
    let paths = Paths::beside(&place.folder.path().join("out"));
    let mut partial = Partial::create(paths.clone(), &units[0]).expect("room");
    let copy = |from: &Paths, to: &Paths| {
        std::fs::copy(&from.data, &to.data).expect("room");
        std::fs::copy(&from.map, &to.map).expect("room");
    };
    let crashed = Paths::beside(&place.folder.path().join("crashed"));
    for unit in 1..80 {
        partial.write(unit, &units[unit as usize]).expect("room");
        if unit == 40 {
            partial.sync().expect("room");
        }
        if unit == 60 {
            // The files as they are: bits are written when they are on the disk, and not before.
            copy(&paths, &crashed);
        }
    }
    let pending = partial.pending().expect("units were written");
    partial.write(80, &units[80]).expect("room");
    pending.run().expect("room");
    let later = Paths::beside(&place.folder.path().join("later"));
    copy(&paths, &later);
    let left = Partial::open(&crashed, &name).expect("readable").expect("it was begun");
    assert!((0..=40).all(|unit| left.has(unit)) && (41..200).all(|unit| !left.has(unit)));
    let left = Partial::open(&later, &name).expect("readable").expect("it was begun");
    assert!((0..80).all(|unit| left.has(unit)) && !left.has(80));
}

#[test]
fn files_of_no_use_are_not_believed() {
    let place = Place::new();
    let (name, _) = place.object(20 * UNIT, 1);
    let (other, _) = place.object(20 * UNIT, 2);
    let units = place.units(&name);
    let paths = Paths::beside(&place.folder.path().join("out"));
    let none = |name| Partial::open(&paths, name).expect("readable").is_none();
    assert!(none(&name));
    let fresh = || {
        let mut partial = Partial::create(paths.clone(), &units[0]).expect("room");
        partial.write(5, &units[5]).expect("room");
        let wrong = partial.write(6, &units[6][1..]).expect_err("too short");
        assert!(line(&wrong).contains("another size"));
        assert!(partial.write(99, &units[6]).is_err());
        assert_eq!(partial.run(Units { first: 5, count: 9 }), 1);
        assert!(matches!(Partial::open(&paths, &name), Err(StoreError::InUse { .. })));
        assert!(matches!(Partial::create(paths.clone(), &units[0]), Err(StoreError::InUse { .. })));
    };
    fresh();
    assert!(!none(&name) && none(&other));
    let stored = Paths { form: Form::Stored, ..paths.clone() };
    assert!(Partial::open(&stored, &name).expect("readable").is_none());
    let write = |path, bytes: &[u8], offset| {
        File::options().write(true).open(path).and_then(|file| file.write_all_at(bytes, offset)).expect("room");
    };
    let cut = |path, bytes| File::options().write(true).open(path).and_then(|file| file.set_len(bytes)).expect("ours");
    cut(&paths.data, 7 * UNIT as u64);
    assert!(none(&name));
    fresh();
    cut(&paths.map, 4100);
    assert!(none(&name));
    fresh();
    write(&paths.map, b"x", 7);
    assert!(none(&name), "of another version");
    fresh();
    write(&paths.map, b"x", 500);
    assert!(none(&name));
    // Bits past the end are not units.
    fresh();
    write(&paths.map, &[0xff; 8], 4096);
    let partial = Partial::open(&paths, &name).expect("readable").expect("it was begun");
    assert_eq!(partial.held_units(), units.len() as u64);
}

#[test]
fn what_is_not_ours_stays_as_it_is() {
    type Plant<'a> = &'a dyn Fn(&Paths, &std::path::Path);
    let plants: [(Plant<'_>, &str); 6] = [
        (&|paths, _| std::fs::write(&paths.data, "of others").expect("room"), "it is not a part that paceline left"),
        (&|paths, _| std::fs::write(&paths.map, "of others").expect("room"), "it is not a part that paceline left"),
        (&|paths, victim| symlink(victim, &paths.data).expect("room"), "it is a link"),
        (&|paths, victim| symlink(victim, &paths.map).expect("room"), "it is a link"),
        (&|paths, victim| std::fs::hard_link(victim, &paths.data).expect("room"), "has other names"),
        (&|paths, _| std::fs::create_dir(&paths.data).expect("room"), "it is not a regular file"),
    ];
    for (plant, why) in plants {
        let place = Place::new();
        let (name, _) = place.object(20 * UNIT, 1);
        let units = place.units(&name);
        let paths = Paths::beside(&place.folder.path().join("out"));
        let victim = place.folder.path().join("victim");
        std::fs::write(&victim, "of others").expect("room");
        plant(&paths, &victim);
        for refused in
            [Partial::open(&paths, &name).expect_err(why), Partial::create(paths.clone(), &units[0]).expect_err(why)]
        {
            assert!(line(&refused).contains(why), "{refused}");
        }
        assert_eq!(std::fs::read(&victim).expect("there"), b"of others");
        let left =
            |path: &std::path::Path| path.is_dir() || std::fs::read(path).is_ok_and(|found| found == b"of others");
        assert!(left(&paths.data) || left(&paths.map));
    }
}
