//! What a router keeps.

use paceline_icn::UNIT;
use paceline_named::cache::Cache;
use paceline_named::store::{StoreError, What};

use super::{Place, line};

#[test]
fn what_was_not_used_for_longest_makes_room() {
    let place = Place::new();
    let objects: Vec<_> = (0..4).map(|seed| place.object(50 * UNIT, seed).0).collect();
    let elsewhere = Place::new();
    // Room for three: 52 units and 8 kB each.
    let mut cache = Cache::open(&elsewhere.store, 3 * (52 * 1400 + 8192)).expect("a folder");
    let fill = |cache: &mut Cache, at: usize| {
        let units = place.units(&objects[at]);
        cache.admit(&units[0]).expect("room");
        for (unit, bytes) in (0_u64..).zip(&units) {
            cache.write(&objects[at], unit, bytes).expect("room");
            assert!(cache.bytes() <= cache.limit());
        }
    };
    for at in 0..3 {
        fill(&mut cache, at);
    }
    assert_eq!((cache.objects(), cache.evicted()), (3, 0));
    assert!(cache.find(&objects[0]).is_some_and(paceline_named::Partial::is_whole));
    fill(&mut cache, 3);
    // The second was not used for longest.
    assert_eq!((cache.objects(), cache.evicted()), (3, 1));
    assert!(cache.find(&objects[1]).is_none() && cache.find(&objects[0]).is_some());
    let full = cache.bytes();
    let second = Cache::open(&elsewhere.store, 1 << 30).expect_err("it is in use");
    assert!(matches!(second, StoreError::InUse { .. }), "{second}");
    drop(cache);
    // It is all there after a restart, in the store's list as well, and goes when the cache becomes smaller.
    let stat = elsewhere.store.stat(&objects[0]).expect("cached");
    assert!(stat.cached && stat.is_whole() && matches!(stat.what, What::Object { length: 70_000, .. }));
    assert_eq!(elsewhere.store.names().expect("readable").len(), 3);
    assert_eq!(elsewhere.store.check(&objects[0], &mut |_, _| ()).expect("whole").genuine, 52);
    let mut cache = Cache::open(&elsewhere.store, full).expect("a folder");
    assert_eq!((cache.objects(), cache.bytes()), (3, full));
    cache.remove(&objects[0]);
    assert!(cache.find(&objects[0]).is_none());
    let missing = cache.write(&objects[0], 1, &[0; UNIT]).expect_err("it was removed");
    assert!(matches!(missing, StoreError::Missing { .. }));
    drop(cache);
    let cache = Cache::open(&elsewhere.store, 100_000).expect("a folder");
    assert_eq!(cache.objects(), 1);
}

#[test]
fn an_object_larger_than_the_cache_is_refused() {
    let place = Place::new();
    let (name, _) = place.object(50 * UNIT, 1);
    let elsewhere = Place::new();
    let mut cache = Cache::open(&elsewhere.store, 50_000).expect("a folder");
    let error = cache.admit(&place.units(&name)[0]).expect_err("70 kB");
    assert!(matches!(error, StoreError::TooLarge { needed: 80_992, limit: 50_000, .. }), "{error}");
    assert!(line(&error).contains("more than the 50000 bytes"));
    assert_eq!((cache.objects(), cache.bytes()), (0, 0));
    assert!(cache.admit(b"no manifest").is_err());
}

#[test]
fn more_objects_than_files_may_be_open() {
    let place = Place::new();
    let elsewhere = Place::new();
    let mut cache = Cache::open(&elsewhere.store, 1 << 30).expect("a folder");
    let names: Vec<_> = (0..300).map(|seed| place.object(10, seed).0).collect();
    for name in &names {
        let units = place.units(name);
        cache.admit(&units[0]).expect("room");
        cache.write(name, 1, &units[1]).expect("room");
    }
    for name in &names {
        assert!(cache.find(name).is_some_and(paceline_named::Partial::is_whole));
    }
    assert!(cache.pending().len() <= 256);
}
