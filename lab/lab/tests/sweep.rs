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
            "sweep.toml:5: grid.seconds: one value is not a list; write seconds = [3, ...]",
        ),
        (format!("{HEAD}[grid]\nseconds = []\n"), "sweep.toml:5: grid.seconds: it has no value; give at least one"),
        (format!("{HEAD}[grid]\nseconds = [1, 1]\n"), "sweep.toml:5: grid.seconds: 1 is there twice; take one out"),
        (
            format!("{HEAD}linked = [['down.delay', 'up.delay']]\n[grid]\ndown.delay = ['1ms']\nup.dealy = ['1ms']\n"),
            "sweep.toml:4: linked[0][1]: 'up.delay' is not a key of the grid; did you mean up.dealy?",
        ),
        (
            format!(
                "{HEAD}linked = [['down.delay', 'up.delay']]\n[grid]\ndown.delay = ['1ms']\nup.delay = ['1ms', '2ms']\n"
            ),
            "sweep.toml:4: linked[0][1]: 'up.delay' has 2 values, and 'down.delay' has 1; give them as many",
        ),
        (
            format!("{HEAD}linked = [['down.delay']]\n[grid]\ndown.delay = ['1ms']\n"),
            "sweep.toml:4: linked[0]: one key is not linked to another; write at least two, ",
        ),
        (
            format!(
                "{HEAD}linked = [['down.delay', 'up.delay'], ['up.delay', 'seed']]\n[grid]\ndown.delay = ['1ms']\n\
                 up.delay = ['1ms']\nseed = [1]\n"
            ),
            "sweep.toml:4: linked[1][0]: 'up.delay' is linked already; name each key once",
        ),
        (
            format!("{HEAD}linked = [['seed', 'seconds']]\n[grid]\nseed = [1, 2, 1]\nseconds = [1, 1, 1]\n"),
            "sweep.toml:6: grid.seed: 1 with 1 is there twice; take one out",
        ),
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
    assert_eq!((point.contestant.as_str(), point.cell, point.run), ("copa@udp", 4, 3));
    assert_eq!(point.set, ["down.delay=\"30ms\"", "seconds=1"]);
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
fn linked_keys_take_their_values_together() {
    let lab = lab();
    let sweep = sweep(
        lab.path(),
        "linked = [['up.delay', 'down.delay']]\n[grid]\ndown.delay = ['5ms', '20ms', '20ms']\nseconds = [0.5, 1]\n\
         up.delay = ['5ms', '20ms', '40ms']\n",
    );
    assert_eq!((sweep.cells(), sweep.points()), (6, 36));
    let set = |cell: usize| sweep.point(cell * 3).set.join(" ");
    assert_eq!(set(0), "down.delay=\"5ms\" seconds=0.5 up.delay=\"5ms\"");
    assert_eq!(set(1), "down.delay=\"5ms\" seconds=1 up.delay=\"5ms\"");
    assert_eq!(set(4), "down.delay=\"20ms\" seconds=0.5 up.delay=\"40ms\"");
    let least = |cell: usize| sweep.point(cell * 3).run().unwrap().rtt_ms.unwrap().min;
    assert!((10.0..15.0).contains(&least(0)) && (60.0..70.0).contains(&least(4)));
    assert_eq!(sweep.controllers.iter().map(String::as_str).collect::<Vec<_>>(), ["copa", "reno"]);
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
    use paceline_lab::sweep::{Folder, Part, PointFailure, cells_table, failed_lines, run};

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
    fn parts_work_in_one_folder_and_the_whole_puts_them_together() {
        let lab = lab();
        for stop in ["", STOP] {
            let sweep = sweep(lab.path(), &format!("{GRID}{stop}"));
            let path = lab.path().join(format!("parts{}", stop.len()));
            let part = |text: &str| Folder::open_part(&path, &sweep, Some(text.parse().unwrap()));
            let mut folders = ["1/3", "2/3", "3/3"].map(|text| part(text).unwrap());
            let problem = part("2/3").unwrap_err().to_string();
            assert!(problem.contains("part 2/3 is at work in it already"), "{problem}");
            let problem = Folder::open(&path, &sweep).unwrap_err().to_string();
            assert!(problem.contains("another sweep works in it"), "{problem}");
            let mut made = Vec::new();
            for folder in &mut folders[..2] {
                run(&sweep, folder, 2, &Unwatched).unwrap();
                made.push(folder.made());
            }
            drop(folders);
            // What two parts left is not run again by what runs the rest: another part of other parts, and the whole.
            assert!(part("1/2").unwrap().made() == made.iter().sum::<usize>() && made.iter().all(|made| *made >= 8));
            let mut whole = Folder::open(&path, &sweep).unwrap();
            assert_eq!(whole.made(), made.iter().sum::<usize>());
            run(&sweep, &mut whole, 2, &Unwatched).unwrap();
            whole.write_cells(&whole.cells()).unwrap();
            drop(whole);
            let mut alone = Folder::open(&path.join("alone"), &sweep).unwrap();
            run(&sweep, &mut alone, 2, &Unwatched).unwrap();
            alone.write_cells(&alone.cells()).unwrap();
            drop(alone);
            let wanted = bytes(&path.join("alone"));
            std::fs::remove_dir_all(path.join("alone")).unwrap();
            assert_eq!((wanted.len(), wanted), (4, bytes(&path)), "the journals of parts are gone");
        }
        for text in ["0/3", "4/3", "1", "a/b", "1/0", "-1/3"] {
            let problem = text.parse::<Part>().unwrap_err().to_string();
            assert_eq!(problem, format!("'{text}' is not a part; write I/N, such as 1/10, with I from 1 to N"));
        }
    }

    #[test]
    fn a_part_that_was_torn_goes_on() {
        let lab = lab();
        let sweep = sweep(lab.path(), GRID);
        let path = lab.path().join("out");
        let open = || Folder::open_part(&path, &sweep, Some("1/2".parse().unwrap())).unwrap();
        let mut folder = open();
        let missing = folder.missing();
        assert_eq!(missing.len(), 12);
        for index in &missing[..3] {
            folder.put([(*index, sweep.point(*index).run())]).unwrap();
        }
        drop(folder);
        let journal = path.join("_journal-1-of-2.jsonl");
        let text = std::fs::read(&journal).unwrap();
        std::fs::write(&journal, &text[..text.len() - 10]).unwrap();
        let mut folder = open();
        assert_eq!((folder.made(), folder.missing().len()), (2, 10));
        run(&sweep, &mut folder, 1, &Unwatched).unwrap();
        drop(folder);
        assert_eq!(std::fs::read_to_string(&journal).unwrap().lines().count(), 12);
        assert_eq!(Folder::open(&path, &sweep).unwrap().made(), 12);
    }

    #[test]
    fn what_failed_is_run_again_when_that_is_asked_for() {
        let lab = lab();
        let sweep = sweep(lab.path(), GRID);
        let (path, good) = (lab.path().join("out"), lab.path().join("good"));
        run(&sweep, &mut Folder::open(&good, &sweep).unwrap(), 2, &Unwatched).unwrap();
        // Failures in a chunk that is written, and in a journal.
        let mut folder = Folder::open(&path, &sweep).unwrap();
        let failed = |index: usize| (index, Err(PointFailure::new("a library was missing")));
        folder
            .put((0..12).map(|index| if index < 4 { failed(index) } else { (index, sweep.point(index).run()) }))
            .unwrap();
        folder.put([failed(20), failed(21)]).unwrap();
        assert_eq!((folder.chunks().len(), folder.failures().len()), (1, 6));
        drop(folder);
        assert_eq!(Folder::open(&path, &sweep).unwrap().missing().len(), 10, "by itself nothing is run again");
        let mut folder = Folder::open(&path, &sweep).unwrap();
        assert_eq!((folder.retry(), folder.missing().len()), (6, 16));
        // Killed in the middle.
        for index in [20, 0, 1] {
            folder.put([(index, sweep.point(index).run())]).unwrap();
        }
        drop(folder);
        let mut folder = Folder::open(&path, &sweep).unwrap();
        assert_eq!((folder.failures().len(), folder.missing().len()), (3, 10));
        assert_eq!(folder.retry(), 3);
        run(&sweep, &mut folder, 2, &Unwatched).unwrap();
        assert!(folder.failures().is_empty());
        drop(folder);
        assert_eq!(bytes(&path), bytes(&good), "as if nothing had failed");
    }

    #[test]
    fn runs_of_two_builds_and_of_two_controllers_do_not_mix() {
        let lab = lab();
        let path = lab.path().join("out");
        let with = |digest: &str| {
            let digests = BTreeMap::from([("mine".to_owned(), digest.to_owned())]);
            sweep(lab.path(), GRID).with_digests(digests)
        };
        drop(Folder::open(&path, &with("aa")).unwrap());
        drop(Folder::open(&path, &with("aa")).unwrap());
        let problem = Folder::open(&path, &with("bb")).unwrap_err().to_string();
        assert!(problem.contains("controller 'mine' is not the one whose runs it holds"), "{problem}");
        let file = path.join("_sweep.json");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"commit\":null", "\"commit\":\"0123abc\"")).unwrap();
        let problem = Folder::open(&path, &with("aa")).unwrap_err().to_string();
        assert!(
            problem.contains("(0123abc), and this is ") && problem.contains("runs of two builds do not mix"),
            "{problem}"
        );
        let point = with("aa").point(0).to_json().replace("\"commit\":null", "\"commit\":\"0123abc\"");
        let problem = Point::from_json(&point).unwrap_err().to_string();
        assert!(problem.contains("use one build on all machines"), "{problem}");
    }

    #[test]
    fn a_worker_that_dies_is_a_failure_with_its_seed() {
        let lab = lab();
        let sweep = sweep(lab.path(), GRID);
        let path = lab.path().join("out");
        let mut folder = Folder::open(&path, &sweep).unwrap();
        folder.put([(4, Err(PointFailure::new("the worker died")))]).unwrap();
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
        assert!(
            folder.put([(999, Err(PointFailure::new("")))]).unwrap_err().to_string().contains("there is no point 999")
        );
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
        assert!(sweep.points() >= 60, "{}", sweep.title);
        count += 1;
    }
    assert_eq!(count, 4);
}
