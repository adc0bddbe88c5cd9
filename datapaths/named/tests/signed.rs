//! Signed names over sockets: none goes back to an older version.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use paceline_icn::Name;
use paceline_named::client::{FetchError, target_beside, target_blocking};
use paceline_named::store::{Store, create_key, read_key};
use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

use crate::place::{Shop, options};

/// Far ahead.
const EXPIRES: u64 = 4_000_000_000;

/// Shops with versions 1 and 2 of one signed name, and what these stand for.
fn shops() -> (Shop, Shop, Name, [Name; 2]) {
    let (old, new) = (Shop::new(), Shop::new());
    let key = create_key(&old.path("key")).unwrap();
    let targets = [old.publish(b"one"), new.publish(b"two")];
    let name = old.store.sign(&key, "news", 1, EXPIRES, targets[0]).unwrap();
    let key = read_key(&old.path("key")).unwrap();
    assert_eq!(new.store.sign(&key, "news", 2, EXPIRES, targets[1]).unwrap(), name);
    (old, new, name, targets)
}

fn beside(name: &Name, at: &[SocketAddr], out: &Path) -> Result<Name, FetchError> {
    target_beside(name, at, out, options())
}

#[test]
fn the_newest_of_several_sources_is_taken_and_remembered_beside_the_file() {
    let (old, new, name, targets) = shops();
    let (first, second) = (old.serve(), new.serve());
    let both = [first.address(), second.address()];
    for _ in 0..10 {
        assert_eq!(target_blocking(&name, &both, options()).unwrap(), targets[1]);
    }
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    assert_eq!(beside(&name, &both[..1], &out).unwrap(), targets[0]);
    assert_eq!(beside(&name, &both, &out).unwrap(), targets[1]);
    let error = beside(&name, &both[..1], &out).unwrap_err();
    assert!(matches!(error, FetchError::WentBack { version: 1, known: 2, .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("version 1") && text.contains("out.record to go back") && text.lines().count() == 1,
        "{text}"
    );
    assert_eq!(beside(&name, &both, &out).unwrap(), targets[1], "it stays as it is");
    fs::remove_file(folder.path().join("out.record")).unwrap();
    assert_eq!(beside(&name, &both[..1], &out).unwrap(), targets[0], "a deliberate step back");
}

#[test]
fn another_file_is_not_taken_for_a_record() {
    let (old, _, name, targets) = shops();
    let server = old.serve();
    let at = [server.address()];
    let folder = TempDir::new().unwrap();
    let (out, record) = (folder.path().join("out"), folder.path().join("out.record"));
    fs::write(&record, "my records").unwrap();
    let error = beside(&name, &at, &out).unwrap_err().to_string();
    assert!(error.contains("out.record: is not the record of a signed name"), "{error}");
    assert_eq!(fs::read(&record).unwrap(), b"my records");
    fs::remove_file(&record).unwrap();
    let theirs = folder.path().join("theirs");
    fs::write(&theirs, "theirs").unwrap();
    symlink(&theirs, &record).unwrap();
    assert!(beside(&name, &at, &out).unwrap_err().to_string().contains("is not a regular file"));
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    fs::remove_file(&record).unwrap();
    mkfifoat(CWD, &record, Mode::RWXU).unwrap();
    assert!(beside(&name, &at, &out).unwrap_err().to_string().contains("is not a regular file"));
    fs::remove_file(&record).unwrap();
    // Nothing is left beside what is not a file.
    mkfifoat(CWD, &out, Mode::RWXU).unwrap();
    assert_eq!(beside(&name, &at, &out).unwrap(), targets[0]);
    assert!(!record.exists());
}

#[test]
fn a_gateway_and_a_router_do_not_go_back() {
    let (old, new, name, _) = shops();
    // What is served changes from the newer to the older store behind one address.
    let both = Shop::new();
    let take = |from: &Store| {
        for known in from.names().unwrap() {
            fs::copy(from.path_of(&known), both.path("taken")).unwrap();
            fs::rename(both.path("taken"), both.store.path_of(&known)).unwrap();
        }
    };
    take(&new.store);
    let server = both.serve();
    let cache = TempDir::new().unwrap();
    let between = crate::upstream::between(cache.path(), server.address());
    let router = paceline_named::router::Server::start(&between).unwrap();
    let gateway = crate::gateway::start(vec![server.address()], std::time::Duration::from_secs(5));
    let get = || crate::gateway::ask(gateway.address, "GET", &format!("/{name}"), "");
    let through = || target_blocking(&name, &[router.address()], options());
    assert_eq!(get().2, b"two");
    assert!(through().is_ok());
    take(&old.store);
    // Until what was open is looked at again, and the router asks again.
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(
        target_blocking(&name, &[server.address()], options()).unwrap(),
        old.store.record(&name).unwrap().unwrap().target
    );
    let (status, _, body) = get();
    let body = String::from_utf8(body).unwrap();
    assert!(status == 502 && body.contains("version 1") && body.contains("version 2"), "{status} {body}");
    assert!(through().is_err());
    assert!(router.trouble().is_some_and(|trouble| trouble.contains("version 2 was seen before")));
}
