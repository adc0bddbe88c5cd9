//! A fetch into a file goes on where an earlier one stopped, and finds what was damaged meanwhile.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use paceline_cc::Rate;
use paceline_icn::{Name, UNIT};
use paceline_named::client::{FetchError, Fetched, fetch_to_file};
use paceline_named::partial::{Partial, Paths};

use crate::place::{Shop, content, options};

const LOCAL: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// A fetch that stops in the middle, when `enough` bytes are marked as there.
fn stopped(shop: &Shop, name: Name, range: std::ops::Range<u64>, out: &Path, enough: u64) {
    let server = shop.serve_at(SocketAddr::from(LOCAL), Rate::from_bytes_per_sec(2_000_000));
    let at = server.address();
    let (path, mut options) = (out.to_owned(), options());
    options.patience = Duration::from_millis(700);
    let fetching = std::thread::spawn(move || fetch_to_file(&name, &[at], range, &path, options));
    let bits = |map: &Path| {
        let map = fs::read(map).unwrap_or_default();
        map.get(4096..8192).map_or(0, |bits| bits.iter().map(|byte| u64::from(byte.count_ones())).sum())
    };
    while bits(&Paths::beside(out).map) * UNIT as u64 <= enough {
        assert!(!fetching.is_finished(), "it ended early");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(server);
    assert!(fetching.join().unwrap().is_err());
    assert!(!out.exists());
}

/// The rest, from a router of its own; and how many units that one sent.
fn rest(shop: &Shop, name: Name, range: std::ops::Range<u64>, out: &Path) -> (Fetched, u64) {
    let server = shop.serve();
    let done = fetch_to_file(&name, &[server.address()], range, out, options()).unwrap();
    (done, server.stop().unwrap().router.sent_units)
}

fn held(out: &Path, name: &Name) -> u64 {
    Partial::open(&Paths::beside(out), name).unwrap().unwrap().held_units()
}

#[test]
fn what_is_there_is_not_asked_for() {
    let shop = Shop::new();
    let bytes = content(3_000_000);
    let name = shop.publish(&bytes);
    let out = shop.path("out");
    stopped(&shop, name, 0..u64::MAX, &out, 500_000);
    let (held, units) = (held(&out, &name), 2182);
    assert!((300..units).contains(&held), "{held}");
    let (done, sent) = rest(&shop, name, 0..u64::MAX, &out);
    assert!(fs::read(&out).unwrap() == bytes);
    assert_eq!(done.resumed + done.bytes, 3_000_000);
    assert!(done.resumed >= (held - 50) * 1400, "{done:?}");
    // Nothing was lost on the way but by the kernel.
    assert!((units - held..units - held + 20).contains(&sent), "{sent} units for {}", units - held);
    assert!(!shop.path("out.paceline-part").exists() && !shop.path("out.paceline-part.units").exists());
}

#[test]
fn what_was_damaged_is_found_and_fetched_again() {
    let shop = Shop::new();
    let bytes = content(3_000_000);
    let name = shop.publish(&bytes);
    let out = shop.path("out");
    stopped(&shop, name, 0..u64::MAX, &out, 1_000_000);
    let paths = Paths::beside(&out);
    let damage = |path: &Path, at: u64| {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    };
    // Two data units, and an index unit behind the bits.
    damage(&paths.data, 70_000);
    damage(&paths.data, 300_001);
    damage(&paths.map, 2 * 4096 + 2 * 1400 + 50);
    let held = held(&out, &name);
    let (done, sent) = rest(&shop, name, 0..u64::MAX, &out);
    assert!(fs::read(&out).unwrap() == bytes);
    assert_eq!(done.resumed + done.bytes, 3_000_000);
    let wanted = 2182 - held + 3;
    assert!((wanted..wanted + 20).contains(&sent), "{sent} units for {wanted}");
}

#[test]
fn a_range_goes_on_as_well_and_with_another_range() {
    let shop = Shop::new();
    let bytes = content(3_000_000);
    let name = shop.publish(&bytes);
    let out = shop.path("out");
    stopped(&shop, name, 500_001..2_500_001, &out, 600_000);
    let held_before = held(&out, &name);
    let (done, sent) = rest(&shop, name, 500_001..2_500_001, &out);
    assert!(fs::read(&out).unwrap() == bytes[500_001..2_500_001]);
    assert_eq!(done.resumed + done.bytes, 2_000_000);
    // The units of the range, one index unit for 58 of them and those above it.
    assert!(sent < 1430 + 30 - held_before + 20, "{sent}, {held_before}");
    assert!(!shop.path("out.paceline-part").exists() && !shop.path("out.paceline-part.units").exists());

    fs::remove_file(&out).unwrap();
    stopped(&shop, name, 0..2_000_000, &out, 600_000);
    let (done, _) = rest(&shop, name, 300_000..300_100, &out);
    assert!(fs::read(&out).unwrap() == bytes[300_000..300_100]);
    assert_eq!((done.resumed, done.bytes), (100, 0));
    assert!(shop.path("out.paceline-part").exists(), "it has more than that");
    let (done, _) = rest(&shop, name, 0..u64::MAX, &out);
    assert!(fs::read(&out).unwrap() == bytes && done.resumed > 500_000);
    let (done, _) = rest(&shop, name, 7..7, &out);
    assert!(fs::read(&out).unwrap().is_empty() && done.bytes == 0);
}

#[test]
fn a_part_of_something_else_is_replaced_and_one_in_use_is_said() {
    let shop = Shop::new();
    let bytes = content(30_000);
    let (other, name) = (shop.publish(&content(40_000)), shop.publish(&bytes));
    let out = shop.path("out");
    let paths = Paths::beside(&out);
    let mut first = [0; UNIT];
    shop.store.object(&other).unwrap().unwrap().read(0, &mut first).unwrap();
    let held = Partial::create(paths.clone(), &first).unwrap();
    let server = shop.serve();
    let fetch = || fetch_to_file(&name, &[server.address()], 0..u64::MAX, &out, options());
    let error = fetch().unwrap_err();
    assert!(
        matches!(error, FetchError::File { .. }) && error.to_string().contains("another fetch writes it"),
        "{error}"
    );
    drop(held);
    assert_eq!(fetch().unwrap().resumed, 0);
    assert!(fs::read(&out).unwrap() == bytes);
    // Files of others are not parts.
    fs::write(&paths.data, "of others").unwrap();
    fs::write(&out, "old").unwrap();
    let error = fetch().unwrap_err().to_string();
    assert!(error.contains("it is not a part that paceline left"), "{error}");
    assert_eq!((fs::read(&out).unwrap(), fs::read(&paths.data).unwrap()), (b"old".into(), b"of others".into()));
    fs::remove_file(&paths.data).unwrap();
    // Nor is a link an output.
    fs::rename(&out, shop.path("victim")).unwrap();
    std::os::unix::fs::symlink("victim", &out).unwrap();
    let error = fetch().unwrap_err().to_string();
    assert!(error.contains("it is a link"), "{error}");
    assert_eq!(fs::read(shop.path("victim")).unwrap(), b"old");
}
