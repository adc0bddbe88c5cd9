use std::os::unix::fs::{PermissionsExt, symlink};

use paceline_cc::Nanos;
use proptest::prelude::*;

use super::*;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
}

fn place(last: u8) -> Place {
    Place::new([192, 0, 2, last].into(), [198, 51, 100, 7].into())
}

fn known(window: u64, age_s: u64) -> Remembered {
    Remembered::new(window, Nanos::from_micros(50_123), Nanos::from_secs(age_s))
}

fn store() -> (tempfile::TempDir, PathStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = PathStore::new(folder.path().join("remembered"));
    (folder, store)
}

#[test]
fn a_set_is_lent_to_one_flow_at_a_time_and_grows_old() {
    let (_folder, store) = store();
    assert_eq!(store.lend(place(1), at(0)).unwrap(), None);
    assert!(!store.path().exists(), "nothing is made to look");
    store.keep(place(1), &known(1_000_000, 2), at(0)).unwrap();
    store.keep(place(2), &known(2_000_000, 0), at(0)).unwrap();
    assert_eq!(store.lend(place(1), at(10)).unwrap(), Some(known(1_000_000, 12)));
    assert_eq!(store.lend(place(1), at(10)).unwrap(), None, "it is in use");
    store.keep(place(1), &known(3_000_000, 0), at(20)).unwrap();
    assert_eq!(store.lend(place(1), at(21)).unwrap(), Some(known(3_000_000, 1)));
    assert_eq!(store.lend(place(2), at(21)).unwrap(), Some(known(2_000_000, 21)));
    let elsewhere = Place::new([192, 0, 2, 1].into(), [198, 51, 100, 8].into());
    store.keep(place(1), &known(1, 0), at(30)).unwrap();
    assert_eq!(store.lend(elsewhere, at(30)).unwrap(), None, "another interface is another place");
    assert_eq!(fs::metadata(store.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_old_or_from_the_future_is_not_lent_and_goes() {
    let (_folder, store) = store();
    store.keep(place(1), &known(1_000_000, 0), at(0)).unwrap();
    assert_eq!(store.clone().lend(place(1), at(86_401)).unwrap(), None);
    store.keep(place(1), &known(1_000_000, 0), at(100)).unwrap();
    store.keep(place(2), &known(1_000_000, 0), at(86_600)).unwrap();
    assert_eq!(fs::read_to_string(store.path()).unwrap().lines().count(), 2, "the first line and one place");
    assert_eq!(store.lend(place(2), at(0)).unwrap(), None, "the clock was set back");
}

#[test]
fn of_too_many_places_the_oldest_go() {
    let mut sets = Sets::default();
    for number in 0..MOST as u64 + 10 {
        let remote = IpAddr::from((u128::from(number) + 1).to_be_bytes());
        let set = Set::new(&known(1, 0), 1_000 + number).unwrap();
        sets.put(Place::new(remote, remote), set, 5_000);
    }
    let text = sets.to_string();
    assert_eq!(text.lines().count(), MOST + 1);
    assert!(!text.contains(" 1009\n") && text.contains(" 1010\n"));
    assert!((text.len() as u64) < LARGEST);
    assert_eq!(Sets::parse(text.as_bytes()), Ok(sets));
}

/// What is not a store stays as it is, byte for byte, and says in one line what it is.
fn refused(store: &PathStore, content: &[u8]) -> String {
    fs::write(store.path(), content).unwrap();
    let lent = store.lend(place(1), at(0)).unwrap_err().to_string();
    let kept = store.keep(place(1), &known(1, 0), at(0)).unwrap_err().to_string();
    assert_eq!(lent, kept);
    assert_eq!(fs::read(store.path()).unwrap(), content);
    assert!(!lent.contains('\n'), "{lent}");
    lent.replace(&store.path().display().to_string(), "FILE")
}

#[test]
fn what_is_not_a_store_stays_as_it_is() {
    let (folder, store) = store();
    let rest = "; the file stays as it is, and nothing is remembered; name another, or delete it";
    let line = "'REMOTE LOCAL WINDOW_BYTES RTT_NS UNIX_MS' is wanted here";
    assert_eq!(refused(&store, b""), format!("FILE:1: 'paceline remembers 1' is wanted here{rest}"));
    assert_eq!(refused(&store, b"[workspace]\n"), format!("FILE:1: 'paceline remembers 1' is wanted here{rest}"));
    let with = |lines: &str| format!("{FIRST_LINE}\n{lines}\n").into_bytes();
    let good = "192.0.2.9 198.51.100.7 1000 50000 1700000000000";
    assert_eq!(refused(&store, &with(&format!("{good}\nx"))), format!("FILE:3: {line}{rest}"));
    for bad in ["192.0.2.9 198.51.100.7 0 50000 1", "192.0.2.9 198.51.100.7 1 0 1", &format!("{good} 1"), "", "1 2 3"] {
        assert_eq!(refused(&store, &with(bad)), format!("FILE:2: {line}{rest}"), "{bad}");
    }
    assert!(refused(&store, &with(&format!("{good}\n{good}"))).starts_with("FILE:3: another place is wanted here"));
    assert!(refused(&store, b"paceline remembers 1\n\xff\n").starts_with("FILE:2: text in UTF-8 is wanted here"));
    assert!(refused(&store, &vec![b'x'; LARGEST as usize + 1]).starts_with("FILE: has 524289 bytes"));
    let error = |name: &str| PathStore::new(folder.path().join(name)).lend(place(1), at(0)).unwrap_err().to_string();
    symlink("remembered", folder.path().join("link")).unwrap();
    assert!(error("link").contains("cannot be read (it is a link)"), "{}", error("link"));
    assert!(error(".").contains("it is not a regular file"), "{}", error("."));
    let nowhere = PathStore::new(folder.path().join("no/where"));
    assert!(nowhere.keep(place(1), &known(1, 0), at(0)).unwrap_err().to_string().contains("cannot be written"));
}

#[test]
fn another_process_that_does_not_let_go_is_not_waited_for() {
    let (_folder, store) = store();
    store.keep(place(1), &known(1, 0), at(0)).unwrap();
    let held = File::open(store.path()).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    assert!(matches!(store.lend(place(1), at(0)), Err(PathStoreError::Locked(_))));
    drop(held);
    assert!(store.lend(place(1), at(0)).unwrap().is_some());
}

/// Threads that lend and give back have the set one at a time.
#[test]
fn of_many_at_once_one_has_it() {
    let (_folder, store) = store();
    store.keep(place(1), &known(7, 0), at(0)).unwrap();
    let lent: usize = thread::scope(|scope| {
        let ask = || scope.spawn(|| usize::from(matches!(store.lend(place(1), at(0)), Ok(Some(_)))));
        let threads: Vec<_> = (0..8).map(|_| ask()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(lent, 1);
}

proptest! {
    #[test]
    fn any_bytes_are_a_store_or_a_line_that_says_why_not(mut bytes in prop::collection::vec(any::<u8>(), 0..400), begin in any::<bool>()) {
        if begin {
            bytes.splice(0..0, format!("{FIRST_LINE}\n").into_bytes());
        }
        if let Ok(sets) = Sets::parse(&bytes) {
            prop_assert_eq!(Sets::parse(sets.to_string().as_bytes()), Ok(sets));
        }
    }

    #[test]
    fn a_damaged_store_is_one_or_is_not(at in 0_usize..200, byte in any::<u8>()) {
        let good = "192.0.2.9 198.51.100.7 1000 50000 1700000000000\n2001:db8::1 2001:db8::2 5 6 7\n";
        let mut bytes = format!("{FIRST_LINE}\n{good}").into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        match Sets::parse(&bytes) {
            Ok(sets) => prop_assert!(sets.to_string().len() <= bytes.len() + 40),
            Err(bad) => prop_assert!((1..=4).contains(&bad.line)),
        }
    }

    #[test]
    fn what_is_written_is_read(sets in prop::collection::vec((any::<u128>(), any::<u32>(), 1..1_u64 << 40, 1..3_600_000_000_000_u64, any::<u64>()), 0..20)) {
        let mut lines = format!("{FIRST_LINE}\n");
        let mut places = std::collections::BTreeSet::new();
        for (remote, local, window, rtt, at) in sets {
            let place = Place::new(IpAddr::from(remote.to_be_bytes()), IpAddr::from(local.to_be_bytes()));
            if places.insert(place) {
                lines += &format!("{} {} {window} {rtt} {at}\n", place.remote, place.local);
            }
        }
        let read = Sets::parse(lines.as_bytes()).unwrap();
        prop_assert_eq!(Sets::parse(read.to_string().as_bytes()), Ok(read));
    }
}
