//! Digests of the simulated records of the shipped scenarios, and of every controller over every datapath: the same on
//! each machine. A commit that moves one says which and why; `INSTA_UPDATE=always cargo test -p paceline-lab
//! digests` writes the file again.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use paceline_cc::datapath::DATAPATHS;
use paceline_cc::registry::CONTROLLERS;
use paceline_lab::contestant::Contestant;
use paceline_lab::race::{Settings, race};
use paceline_lab::scenario::{Options, Source};

/// Long enough for the second step of a rate and for a rival's start.
const SECONDS: f64 = 12.0;

/// The shipped scenarios: those of a folder, then those of the folders in it. A file with a `grid` is a sweep over one, one without a
/// name has programs.
fn scenarios(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (mut folders, mut files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.retain(|path| {
        path.extension().is_some_and(|extension| extension == "toml")
            && keys(path).contains_key("name")
            && !keys(path).contains_key("grid")
    });
    files.sort();
    folders.sort();
    files.into_iter().chain(folders.iter().flat_map(|folder| scenarios(folder))).collect()
}

fn keys(file: &Path) -> toml::Table {
    std::fs::read_to_string(file).unwrap().parse().unwrap()
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// One line per contestant: its digest and its name.
fn lines(file: &Path, contestants: Option<&str>, most_s: f64, threads: usize) -> String {
    let short =
        |seconds| Options { contestants: contestants.map(str::to_owned), runs: Some(1), seconds, ..Options::default() };
    let whole = Source::read(file, short(None)).unwrap().plans().unwrap().remove(0).scenario.seconds;
    let source = Source::read(file, short(Some(whole.min(most_s)))).unwrap();
    let race = race(&source, &Settings { threads, ..Settings::default() }).unwrap();
    assert!(race.failures.is_empty(), "{}: a run failed", file.display());
    race.runs.iter().map(|run| format!("{} {}\n", run.record.digest(), run.record.contestant())).collect()
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
    let (folder, mut table) = (shipped(), String::new());
    for file in scenarios(&folder) {
        let name = file.strip_prefix(&folder).unwrap().with_extension("");
        write!(table, "# {}\n{}\n", name.display(), lines(&file, None, SECONDS, 0)).unwrap();
    }
    let of_all = lines(&folder.join("cellular.toml"), Some(&pairs()), SECONDS, 0);
    write!(table, "# every controller: cellular\n{of_all}").unwrap();
    insta::assert_snapshot!(table);
}

#[test]
fn threads_change_no_digest() {
    for folder in ["icn", "int", "alcc"] {
        for file in scenarios(&shipped().join(folder)) {
            assert_eq!(lines(&file, None, 1.5, 1), lines(&file, None, 1.5, 2), "{}", file.display());
        }
    }
}
