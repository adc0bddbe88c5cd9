//! Files and folders become objects.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use paceline_icn::name::NameKind;
use paceline_icn::{UNIT, UnitPlace as In};
use paceline_named::store::{COLLECTION, Collection, Store, StoreError, What, create_key, read_key};
use proptest::prelude::*;
use rustix::fs::{CWD, Mode, mkfifoat};

use super::{Place, line, random};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_published_is_what_is_stored(length in prop_oneof![Just(0), Just(1), Just(58 * UNIT), 1..400_000_usize], seed in any::<u64>()) {
        let place = Place::new();
        let (name, content) = place.object(length, seed);
        let stored = place.store.object(&name).expect("readable").expect("published");
        let layout = stored.layout().expect("an object");
        let mut read = Vec::new();
        for (unit, bytes) in (0_u64..).zip(place.units(&name)) {
            if matches!(layout.place(unit), Some(In::Data { .. })) {
                read.extend(bytes);
            }
        }
        prop_assert!(read == content);
        let checked = place.store.check(&name, &mut |_, _| ()).expect("whole");
        prop_assert_eq!((checked.genuine, checked.unknown), (stored.stored_units(), 0));
        prop_assert_eq!(place.files(), [name.to_string()]);
        // The same bytes have the same name.
        let again = place.publish(&place.file("other.bin", &content)).expect("room");
        prop_assert_eq!(again.name, name);
    }
}

#[test]
fn a_folder_is_a_collection_of_its_files() {
    let place = Place::new();
    place.file("hls/index.m3u8", b"#EXTM3U\n");
    place.file("hls/low/0.ts", &random(5000, 1));
    place.file("hls/low/1.ts", &random(5000, 2));
    let mut seen = Vec::new();
    let folder = place.folder.path().join("hls");
    let published = place.store.publish(&folder, None, &mut |at| seen.push((at.done, at.total))).expect("room");
    assert_eq!((published.files, published.length, published.media_type.as_str()), (Some(3), 10_008, COLLECTION));
    assert!(seen.is_sorted() && seen.last() == Some(&(10_008, 10_008)));
    let json = place.units(&published.name)[1].clone();
    let collection = Collection::from_json(&json).expect("it is one");
    let paths: Vec<_> = collection.files().map(|(path, _)| path).collect();
    assert_eq!(paths, ["index.m3u8", "low/0.ts", "low/1.ts"]);
    let segment = place.store.stat(collection.find("low/0.ts").expect("a file")).expect("published");
    assert!(
        matches!(segment.what, What::Object { length: 5000, height: 1, ref media_type } if media_type == "video/mp2t")
    );
    assert_eq!(place.store.names().expect("readable").len(), 4);
}

#[test]
fn what_cannot_be_published_is_refused_in_one_line_and_leaves_nothing() {
    let place = Place::new();
    let at = |name: &str| place.folder.path().join(name);
    let refused = |name: &str, part: &str| {
        let error = line(&place.publish(&at(name)).expect_err("it is refused"));
        assert!(error.contains(part), "{error}");
    };
    refused("absent", "absent: cannot be read (No such file or directory (os error 2)); check the path");
    std::fs::create_dir(at("empty")).expect("room");
    refused("empty", "holds no file");
    place.file("links/a", b"a");
    symlink(at("empty"), at("links/folder")).expect("room");
    refused("links", "is a link to a folder");
    place.file("pipes/a", b"a");
    mkfifoat(CWD, at("pipes/pipe"), Mode::RWXU).expect("room");
    refused("pipes", "is neither a file nor a folder");
    refused("store", "is the store itself");
    // A file of the system whose length is not what is read from it.
    let error = place.publish(std::path::Path::new("/proc/version")).expect_err("0 bytes, and some");
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    let typed = place.store.publish(&place.file("a", b"a"), Some("a\nb"), &mut |_| ()).expect_err("a media type");
    assert!(line(&typed).contains("media type"));
    assert!(place.files().is_empty() || place.files().iter().all(|file| !file.starts_with('.')), "{:?}", place.files());
}

#[test]
fn a_store_is_a_folder() {
    let place = Place::new();
    let file = place.file("file", b"");
    assert!(matches!(Store::open(&file), Err(StoreError::NotAFolder { .. })));
    assert!(matches!(Store::create(&file), Err(StoreError::NotAFolder { .. })));
    assert!(matches!(Store::open(&place.folder.path().join("absent")), Err(StoreError::NoStore { .. })));
    assert!(Store::create(&file.join("below")).is_err());
}

#[test]
fn a_disk_without_room_keeps_nothing() {
    let place = Place::new();
    // Without blocks. None are reserved to find out: meanwhile the disk would be full for others.
    let path = place.file("huge", b"");
    let huge = std::fs::File::options().write(true).open(&path).expect("ours");
    if huge.set_len(1 << 43).is_err() {
        eprintln!("skipped: this file system has no files of 8 TB");
        return;
    }
    let disk = rustix::fs::fstatvfs(&huge).expect("a file");
    if disk.f_bavail * disk.f_frsize >= 1 << 43 {
        eprintln!("skipped: there is room for 8 TB");
        return;
    }
    let error = place.publish(&path).expect_err("8 TB");
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(line(&error).contains("the disk is full"));
    assert!(place.files().is_empty());
}

#[test]
fn a_signed_name_follows_its_newest_version() {
    let place = Place::new();
    let (one, _) = place.object(10, 1);
    let (two, _) = place.object(10, 2);
    let path = place.folder.path().join("key");
    let key = create_key(&path).expect("room");
    assert!(create_key(&path).is_err(), "a key is never written over");
    let name = place.store.sign(&key, "news", 1, 2000, one).expect("room");
    assert_eq!(name.kind(), NameKind::Signed);
    let again = read_key(&path).expect("a key");
    assert_eq!(place.store.sign(&again, "news", 2, 3000, two).expect("room"), name);
    let record = place.store.record(&name).expect("readable").expect("stored");
    assert_eq!(record.verify(&name, 2500), Ok(two));
    let older = place.store.sign(&key, "news", 2, 9000, one).expect_err("not newer");
    assert_eq!(line(&older), "version 2 of 'news': the store has version 2; give --version 3 or more");
    assert_eq!(place.units(&name), [record.encode().to_vec()]);
    assert!(matches!(place.store.stat(&name).expect("stored").what, What::Record(_)));
    assert_eq!(place.store.check(&name, &mut |_, _| ()).expect("signed").genuine, 1);
    let bad = place.file("no-key", b"-----BEGIN");
    std::fs::set_permissions(&bad, Permissions::from_mode(0o644)).expect("ours");
    let open = read_key(&bad).expect_err("anyone may read it");
    assert!(line(&open).contains("others may read or write it (mode 0644); run: chmod 600 "), "{open}");
    std::fs::set_permissions(&bad, Permissions::from_mode(0o600)).expect("ours");
    let bad = read_key(&bad).expect_err("it is not a key");
    assert!(line(&bad).contains("not an Ed25519 key in PKCS#8"));
    // Someone's record under another's name.
    let other = Place::new();
    let other_key = create_key(&other.folder.path().join("key")).expect("room");
    let theirs = other.store.sign(&other_key, "news", 1, 2000, one).expect("room");
    std::fs::copy(other.store.path_of(&theirs), place.store.path_of(&name)).expect("room");
    assert!(matches!(place.store.object(&name), Err(StoreError::Damaged { unit: 0, .. })));
}
