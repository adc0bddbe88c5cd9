//! Digests of the simulated records of the shipped scenarios, and of every controller over every datapath: the same on
//! each machine. A commit that moves one says which and why; `INSTA_UPDATE=always cargo test -p paceline-lab
//! digests` writes the file again.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use paceline_cc::datapath::DATAPATHS;
use paceline_cc::registry::CONTROLLERS;
use paceline_lab::contestant::Contestant;
use paceline_lab::race::{RaceError, Settings, race};
use paceline_lab::record::Record;
use paceline_lab::scenario::{Options, Source};
use ring::digest::{SHA256, digest};

/// Long enough for the second step of a rate and for a rival's start.
const SECONDS: f64 = 12.0;

fn scenarios() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files = Vec::new();
    for folder in [folder.clone(), folder.join("alcc"), folder.join("paced-chirping"), folder.join("wifi")] {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut here: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
        here.sort();
        files.extend(here);
    }
    files
}

/// The first 64 bits of SHA-256 of a record without paceline's version.
fn fingerprint(record: &Record) -> String {
    let record = Record { version: String::new(), ..record.clone() };
    let hash = digest(&SHA256, &serde_json::to_vec(&record).unwrap());
    hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One line per contestant: its digest and its name.
fn lines(file: &Path, contestants: Option<&str>) -> Result<String, RaceError> {
    let short =
        |seconds| Options { contestants: contestants.map(str::to_owned), runs: Some(1), seconds, ..Options::default() };
    let whole = Source::read(file, short(None))?.plans()?.remove(0).scenario.seconds;
    let race = race(&Source::read(file, short(Some(whole.min(SECONDS))))?, &Settings::default())?;
    assert!(race.failures.is_empty(), "{}: a run failed", file.display());
    let line = |record: &Record| format!("{} {}@{}\n", fingerprint(record), record.controller, record.via);
    Ok(race.runs.iter().map(|run| line(&run.record)).collect())
}

/// Every controller over every datapath that carries it.
fn pairs() -> String {
    let over = DATAPATHS.iter().filter(|datapath| datapath.simulated);
    let contestants = CONTROLLERS
        .iter()
        .flat_map(|entry| over.clone().map(move |datapath| format!("{}@{}", entry.name, datapath.name)));
    let carried: Vec<String> = contestants.filter(|text| text.parse::<Contestant>().is_ok()).collect();
    carried.join(",")
}

#[test]
fn records_stay_put() {
    let mut table = String::new();
    for file in scenarios() {
        let name = file.file_stem().unwrap().to_string_lossy();
        write!(table, "# {name}\n{}\n", lines(&file, None).unwrap()).unwrap();
    }
    let cellular = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/cellular.toml");
    write!(table, "# every controller: cellular\n{}", lines(&cellular, Some(&pairs())).unwrap()).unwrap();
    insta::assert_snapshot!(table);
}
