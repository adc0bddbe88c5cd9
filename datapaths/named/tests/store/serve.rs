//! Objects are read while files change.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;

use paceline_icn::{UNIT, Units};
use paceline_named::store::{ReadError, StoreError};

use super::{Place, line};

#[test]
fn units_in_a_row_come_each_into_its_buffer() {
    let place = Place::new();
    let (name, _) = place.object(100 * UNIT + 9, 1);
    let units = place.units(&name);
    let stored = place.store.object(&name).expect("readable").expect("published");
    let last = stored.stored_units() - 1;
    for (first, count) in [(0, 1), (0, 64), (40, 64), (last, 1), (last - 5, 6)] {
        let run = Units { first, count };
        let mut buffers: Vec<_> = run.iter().map(|unit| vec![0; stored.bytes_of(unit)]).collect();
        let mut slots: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        stored.read_run(run, &mut slots).expect("there");
        assert_eq!(buffers, units[first as usize..][..count as usize]);
    }
    let absent = |first, count, bytes| {
        let mut buffer = vec![0; bytes];
        stored.read_run(Units { first, count }, &mut [IoSliceMut::new(&mut buffer)])
    };
    assert!(matches!(absent(last + 1, 1, UNIT), Err(ReadError::Absent)));
    assert!(matches!(absent(last, 2, UNIT), Err(ReadError::Absent)));
    assert!(matches!(absent(u64::MAX, 1, UNIT), Err(ReadError::Absent)));
    assert!(matches!(absent(0, 1, UNIT - 1), Err(ReadError::Absent)));
    assert!(matches!(absent(0, 0, 0), Err(ReadError::Absent)));
}

#[test]
fn a_file_that_shrinks_or_changes_while_it_is_served_is_noticed() {
    let place = Place::new();
    let (name, _) = place.object(50 * UNIT, 1);
    let path = place.store.path_of(&name);
    let open = || place.store.object(&name).expect("readable").expect("published");
    let mut buffer = [0; UNIT];
    // Published again, the old file's bytes are still there.
    let stored = open();
    place.object(50 * UNIT, 1);
    assert!(stored.read(7, &mut buffer).is_ok() && !stored.is_changed());
    let stored = open();
    let file = File::options().write(true).open(&path).expect("ours");
    file.write_all_at(b"x", 9 * UNIT as u64).expect("room");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("ours");
    assert!(matches!(stored.read(9, &mut buffer), Err(ReadError::Changed)));
    let stored = open();
    file.set_len(20 * UNIT as u64).expect("ours");
    assert!(matches!(stored.read(30, &mut buffer), Err(ReadError::Changed)));
    assert!(matches!(stored.read(3, &mut buffer), Err(ReadError::Changed)));
    // Who opens it now learns where it ends.
    let error = place.store.object(&name).expect_err("cut off");
    assert!(line(&error).contains("unit 20 of 52 is cut off"), "{error}");
}

#[test]
fn damage_is_named_by_its_first_unit() {
    let place = Place::new();
    let (name, _) = place.object(300 * UNIT, 1);
    let path = place.store.path_of(&name);
    let file = File::options().read(true).write(true).open(&path).expect("ours");
    let flip = |unit: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, unit * UNIT as u64 + 700).expect("there");
        file.write_all_at(&[byte[0] ^ 4], unit * UNIT as u64 + 700).expect("room");
    };
    flip(250);
    flip(99);
    let error = place.store.check(&name, &mut |_, _| ()).expect_err("damaged");
    assert!(matches!(error, StoreError::Damaged { unit: 99, .. }), "{error}");
    assert!(line(&error).contains("is damaged: unit 99 of 308 is not what the name says"), "{error}");
    flip(99);
    flip(250);
    assert!(place.store.check(&name, &mut |_, _| ()).is_ok());
    flip(0);
    assert!(matches!(place.store.object(&name), Err(StoreError::Damaged { unit: 0, .. })));
    flip(0);
    file.write_all_at(b"more", file.metadata().expect("ours").len()).expect("room");
    assert!(line(&place.store.object(&name).expect_err("longer")).contains("has bytes behind it"));
    file.set_len(100).expect("ours");
    assert!(line(&place.store.object(&name).expect_err("shorter")).contains("is cut off"));
}
