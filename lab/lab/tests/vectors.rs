//! The vectors of the repository are what runs of their scenarios record.
//! `UPDATE=1 cargo test -p paceline-lab vectors` writes them again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use paceline_lab::race::{Settings, race};
use paceline_lab::scenario::{Options, Source};

/// Text by file name.
fn logs(folder: &Path) -> BTreeMap<String, String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let logs = paths.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
    logs.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn vectors_are_what_their_scenarios_record() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let fresh = tempfile::tempdir().unwrap();
    for scenario in ["scenario.toml", "telemetry.toml"] {
        let source = Source::read(&folder.join(scenario), Options::default()).unwrap();
        let settings = Settings { events: Some(fresh.path().to_owned()), ..Settings::default() };
        assert!(race(&source, &settings).unwrap().failures.is_empty());
    }
    let (recorded, committed) = (logs(fresh.path()), logs(&folder));
    if std::env::var_os("UPDATE").is_some() {
        for name in committed.keys() {
            fs::remove_file(folder.join(name)).unwrap();
        }
        for (name, log) in &recorded {
            fs::write(folder.join(name), log).unwrap();
        }
        return;
    }
    let how = "UPDATE=1 cargo test -p paceline-lab vectors";
    assert!(recorded.keys().eq(committed.keys()), "other files; {how}");
    for (name, log) in &recorded {
        let differs = log.lines().zip(committed[name].lines()).position(|(new, old)| new != old);
        assert!(*log == committed[name], "{name} differs from line {:?} on; {how}", differs.map(|line| line + 1));
    }
}
