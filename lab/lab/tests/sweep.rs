//! Sweeps: what is refused and in which words, and results that do not depend on who ran what when.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paceline_lab::sweep::{Point, Sweep};

const SCENARIO: &str = "name = 's'\nseconds = 1\n[down]\nrate = '5 Mbit/s'\ndelay = '10ms'\nloss = 0.01\n";

fn lab() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    folder
}

fn error(text: &str) -> String {
    let lab = lab();
    std::fs::write(lab.path().join("sweep.toml"), text).unwrap();
    let error = Sweep::read(&lab.path().join("sweep.toml")).unwrap_err().to_string();
    error.replace(&format!("{}/", lab.path().display()), "")
}

const HEAD: &str = "scenario = 's.toml'\ncontestants = ['reno@tcp', 'copa@udp']\nruns = 3\n";

fn sweep(lab: &Path, grid: &str) -> Sweep {
    Sweep::parse(&format!("{HEAD}{grid}"), lab).unwrap()
}

#[test]
fn errors_name_file_line_key_and_fix() {
    let cases = [
        (
            format!("{HEAD}[grid]\ndown.delya = ['1ms']\n"),
            "sweep.toml:5: grid.down.delya: with 1ms: down.delya: unknown key 'delya'; did you mean delay?",
        ),
        (format!("{HEAD}[grid]\n'down.delay' = ['1ms', 'far']\n"), "sweep.toml:5: grid.down.delay: with far: "),
        (format!("{HEAD}[grid]\nflows.3.count = [1]\n"), "sweep.toml:5: grid.flows.3.count: with 1: "),
        (
            format!("{HEAD}[grid]\nseconds = 3\n"),
            "sweep.toml:5: grid.seconds: one value is no list; write seconds = [3, ...]",
        ),
        (format!("{HEAD}[grid]\nseconds = []\n"), "sweep.toml:5: grid.seconds: it has no value; give at least one"),
        (format!("{HEAD}[grid]\nseconds = [1, 1]\n"), "sweep.toml:5: grid.seconds: 1 is there twice; take one out"),
        (
            format!("{HEAD}[grid]\nruns = [1]\n"),
            "sweep.toml:5: grid.runs: the grid does not hold it; write runs = ... above [grid]",
        ),
        (format!("{HEAD}grit = 1\n"), "sweep.toml:4: grit: unknown key 'grit'; did you mean grid?"),
        ("scenario = 'no.toml'\n".to_owned(), "sweep.toml:1: scenario: no.toml cannot be read"),
        (
            "scenario = 's.toml'\n".to_owned(),
            "sweep.toml:1: contestants: neither the sweep nor the scenario names anyone; write contestants = [\"cubic@tcp\"]",
        ),
        (
            "scenario = 's.toml'\ncontestants = ['reno@tcp', 'rno@tcp']\n".to_owned(),
            "sweep.toml:2: contestants[1]: unknown controller 'rno'; did you mean reno?",
        ),
        (
            "scenario = 's.toml'\ncontestants = ['reno@quic']\n".to_owned(),
            "sweep.toml:2: contestants[0]: reno@quic: the simulator has no datapath 'quic'",
        ),
        (
            format!("{HEAD}[stop]\nmetric = 'throughput'\ninterval = 0.1\nmost = 9\n"),
            "sweep.toml:5: stop.metric: 'throughput' is not a column of numbers in records; known are throughput_mbps, ",
        ),
        (
            format!("{HEAD}[stop]\nmetric = 'jain'\ninterval = 0.0\nmost = 9\n"),
            "sweep.toml:6: stop.interval: 0 is not above 0",
        ),
        (
            "contestants = ['reno@tcp']\n[scenario]\nname = 'x'\n[scenario.down]\nrate = '5 Mb'\n".to_owned(),
            "sweep.toml:5: scenario.down.rate: ",
        ),
    ];
    for (text, wanted) in cases {
        let found = error(&text);
        assert!(found.starts_with(wanted), "{found}\nwanted {wanted}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn every_point_has_its_place_and_runs_from_its_json() {
    let lab = lab();
    let sweep = sweep(lab.path(), "[grid]\ndown.delay = ['10ms', '30ms']\nseconds = [0.5, 1, 2]\n");
    assert_eq!((sweep.cells(), sweep.points()), (6, 36));
    let point = sweep.point(18 + 3 * 4 + 2);
    assert_eq!((point.contestant(), point.cell(), point.run_number()), ("copa@udp", 4, 3));
    assert_eq!(point.set(), ["down.delay=\"30ms\"", "seconds=1"]);
    let record = point.run().unwrap();
    assert_eq!((record.run, record.seconds, record.contestant().as_str()), (3, 1.0, "copa@udp"));
    drop(lab);
    // Without the files: all that it needs is in the text.
    assert_eq!(Point::from_json(&point.to_json()).unwrap().run().unwrap(), record);
    let again = Sweep::from_json(&sweep.to_json()).unwrap();
    assert_eq!(again.point(32).run().unwrap(), record);
    let old = point.to_json().replace(&format!("\"version\":\"{}\"", record.version), "\"version\":\"0.0.0\"");
    let problem = Point::from_json(&old).unwrap_err().to_string();
    assert!(problem.starts_with("point in JSON: it is of paceline 0.0.0, and this is "), "{problem}");
}

#[test]
fn traces_travel_with_a_point() {
    let lab = lab();
    for (name, step) in [("slow.mahi", 12), ("fast.mahi", 2)] {
        let lines: String = (1..=200).map(|index| format!("{}\n", index * step)).collect();
        std::fs::write(lab.path().join(name), lines).unwrap();
    }
    let text = "contestants = ['reno@tcp']\nruns = 1\n[scenario]\nname = 'x'\nseconds = 1\ndown.delay = '5ms'\n\
                [grid]\ndown.trace = ['slow.mahi', 'fast.mahi']\n";
    let sweep = Sweep::parse(text, lab.path()).unwrap();
    let json: Vec<String> = (0..2).map(|index| sweep.point(index).to_json()).collect();
    drop(lab);
    let rates: Vec<f64> =
        json.iter().map(|text| Point::from_json(text).unwrap().run().unwrap().throughput_mbps).collect();
    assert!(rates[1] > 3.0 * rates[0], "{rates:?}");
}

mod kept {
    use paceline_lab::runner::Unwatched;
    use paceline_lab::sweep::{Folder, cells_table, failed_lines, run};

    use super::*;

    /// Every file below a folder.
    fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut open = vec![folder.to_owned()];
        while let Some(next) = open.pop() {
            for entry in std::fs::read_dir(next).unwrap().flatten() {
                if entry.path().is_dir() {
                    open.push(entry.path());
                } else {
                    let name = entry.path().strip_prefix(folder).unwrap().to_owned();
                    all.insert(name, std::fs::read(entry.path()).unwrap());
                }
            }
        }
        all
    }

    const GRID: &str = "[grid]\ndown.delay = ['10ms', '30ms']\n'down.loss' = [0.0, 0.02]\n";
    const STOP: &str = "[stop]\nmetric = 'throughput_mbps'\ninterval = 0.02\nmost = 12\n";

    #[test]
    fn the_same_bytes_on_any_number_of_threads_and_in_any_order() {
        let lab = lab();
        for stop in ["", STOP] {
            let sweep = sweep(lab.path(), &format!("{GRID}{stop}"));
            let results = ["1", "4", "back"].map(|name| lab.path().join(format!("{name}{}", stop.len())));
            for (path, threads) in results.iter().zip([1, 4]) {
                let mut folder = Folder::open(path, &sweep).unwrap();
                run(&sweep, &mut folder, threads, &Unwatched).unwrap();
                assert!(folder.failures().is_empty());
            }
            let last = &results[2];
            // Backwards, opened again each time, as if every run ended in a crash.
            loop {
                let mut folder = Folder::open(last, &sweep).unwrap();
                let Some(index) = folder.missing().pop() else { break };
                let result = sweep.point(index).run();
                folder.put([(index, result)]).unwrap();
            }
            let wanted = bytes(&results[0]);
            assert_eq!(wanted.len(), 3, "{:?}", wanted.keys());
            assert!(wanted.keys().any(|name| name == Path::new("contestant=copa@udp/part-00000.parquet")));
            assert_eq!(wanted, bytes(&results[1]));
            assert_eq!(wanted, bytes(last));
        }
    }

    #[test]
    fn a_torn_journal_loses_the_torn_run_alone() {
        let lab = lab();
        let sweep = sweep(lab.path(), GRID);
        let path = lab.path().join("out");
        let mut folder = Folder::open(&path, &sweep).unwrap();
        let problem = Folder::open(&path, &sweep).unwrap_err().to_string();
        assert!(problem.contains("another sweep works in it"), "{problem}");
        for index in [3, 0, 7] {
            folder.put([(index, sweep.point(index).run())]).unwrap();
        }
        drop(folder);
        let journal = path.join("_journal.jsonl");
        let text = std::fs::read(&journal).unwrap();
        std::fs::write(&journal, &text[..text.len() - 10]).unwrap();
        let folder = Folder::open(&path, &sweep).unwrap();
        assert_eq!(folder.made(), 2);
        assert!(folder.missing().contains(&7) && !folder.missing().contains(&3));
    }

    #[test]
    fn failures_are_kept_and_the_other_runs_go_on() {
        let lab = lab();
        // Each value is right beside the first value of the other, but not all of them together.
        let scenario = format!("{SCENARIO}[[flows]]\nstart = '0s'\nstop = '1s'\n");
        std::fs::write(lab.path().join("s.toml"), scenario).unwrap();
        let sweep = sweep(lab.path(), "[grid]\nflows.0.start = ['0s', '500ms']\nflows.0.stop = ['900ms', '300ms']\n");
        let mut folder = Folder::open(&lab.path().join("out"), &sweep).unwrap();
        run(&sweep, &mut folder, 2, &Unwatched).unwrap();
        let lines = failed_lines(&folder.failures(), 4);
        assert_eq!((folder.made(), lines.len()), (24, 5), "{lines:?}");
        assert!(
            lines[0]
                .starts_with("reno@tcp failed at flows.0.start=\"500ms\" flows.0.stop=\"300ms\" in run 1, seed 1: "),
            "{lines:?}"
        );
        assert_eq!(lines[4], "and 2 more failed: the column failure of the results says why");
    }

    #[test]
    fn a_worker_that_dies_is_a_failure_with_its_seed() {
        let lab = lab();
        let sweep = sweep(lab.path(), GRID);
        let path = lab.path().join("out");
        let mut folder = Folder::open(&path, &sweep).unwrap();
        folder.put([(4, Err("the worker died".to_owned()))]).unwrap();
        run(&sweep, &mut folder, 2, &Unwatched).unwrap();
        drop(folder);
        let folder = Folder::open(&path, &sweep).unwrap();
        assert_eq!((folder.missing().len(), folder.made()), (0, 24));
        let lines = failed_lines(&folder.failures(), 9);
        assert_eq!(lines, ["reno@tcp failed at down.delay=\"10ms\" down.loss=0.02 in run 2, seed 1: the worker died"]);
        let table = cells_table(&sweep, &folder.cells(), 100);
        assert!(table.contains("3 (1 failed)"), "{table}");
        assert_eq!(table.lines().count(), 9, "{table}");
    }

    #[test]
    fn a_folder_is_of_one_sweep() {
        let lab = lab();
        let path = lab.path().join("out");
        drop(Folder::open(&path, &sweep(lab.path(), GRID)).unwrap());
        let problem = Folder::open(&path, &sweep(lab.path(), "")).unwrap_err().to_string();
        assert!(problem.contains("it holds another sweep"), "{problem}");
        let mut folder = Folder::open(&path, &sweep(lab.path(), GRID)).unwrap();
        assert!(folder.put([(999, Err(String::new()))]).unwrap_err().to_string().contains("there is no point 999"));
        drop(folder);
        std::fs::create_dir(path.join("contestant=reno@tcp")).unwrap();
        std::fs::write(path.join("contestant=reno@tcp/part-00000.parquet"), "no").unwrap();
        let problem = Folder::open(&path, &sweep(lab.path(), GRID)).unwrap_err().to_string();
        assert!(problem.contains("not a chunk of this sweep") && problem.contains("part-00000.parquet"), "{problem}");
    }
}

#[test]
fn shipped_sweeps_can_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweeps");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let sweep = Sweep::read(&entry.unwrap().path()).unwrap();
        assert!(sweep.points() >= 60, "{}", sweep.title());
        count += 1;
    }
    assert_eq!(count, 4);
}
