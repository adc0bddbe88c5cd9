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
    let found = in_rooms.chain([root().join("cli")]).filter(|path| path.join("Cargo.toml").is_file());
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
