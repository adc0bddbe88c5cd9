//! What CONTRIBUTING.md says of where things are is true.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../CONTRIBUTING.md");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders of the workspace's crates, from its root.
fn crates() -> BTreeSet<String> {
    let below = |place: &str| fs::read_dir(root().join(place)).unwrap().map(|entry| entry.unwrap().path());
    let in_rooms = ["core", "datapaths", "lab", "bindings"].into_iter().flat_map(below);
    let found =
        in_rooms.chain([root().join("cli"), root().join("web")]).filter(|path| path.join("Cargo.toml").is_file());
    found.map(|path| path.strip_prefix(root()).unwrap().display().to_string()).collect()
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_map_has_every_crate_and_nothing_that_is_gone() {
    let map = PAGE.split_once("## Where things live").unwrap().1.split_once("\n## ").unwrap().0;
    let places = || {
        let lines = map.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
        lines.flat_map(|(places, _)| quoted(places))
    };
    let missing: Vec<_> = crates().into_iter().filter(|own| !places().any(|place| place == own)).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md, \"Where things live\", lacks {}", missing.join(", "));
    let gone: Vec<_> = places().filter(|place| place.contains('/') && !root().join(place).exists()).collect();
    assert!(gone.is_empty(), "CONTRIBUTING.md, \"Where things live\", names {}, which is not there", gone.join(", "));
}

/// `a/{b,c}.rs` names two files.
fn each(place: &str) -> Vec<String> {
    match place.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (names, behind))) => names.split(',').map(|name| format!("{before}{name}{behind}")).collect(),
        None => vec![place.to_owned()],
    }
}

/// The files below a folder that may hold `unsafe`.
fn unsafe_files(folder: &Path, found: &mut BTreeSet<String>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("target") {
            unsafe_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path).unwrap().contains(concat!("expect(", "unsafe_code"))
        {
            found.insert(path.strip_prefix(root()).unwrap().display().to_string());
        }
    }
}

#[test]
fn unsafe_code_stands_where_it_is_said() {
    let (_, said) = PAGE.split_once("- `unsafe` only in ").unwrap();
    let said: Vec<String> = quoted(said.split_once("\n- ").unwrap().0).flat_map(each).collect();
    let mut found = BTreeSet::new();
    for room in ["core", "datapaths", "lab", "bindings", "cli", "web"] {
        unsafe_files(&root().join(room), &mut found);
    }
    let unsaid: Vec<_> = found.iter().filter(|file| !said.iter().any(|place| file.starts_with(place))).collect();
    assert!(unsaid.is_empty(), "CONTRIBUTING.md does not say that unsafe code is in {unsaid:?}");
    let gone: Vec<_> = said.iter().filter(|place| !found.iter().any(|file| file.starts_with(*place))).collect();
    assert!(gone.is_empty(), "CONTRIBUTING.md says that unsafe code is in {gone:?}");
}
