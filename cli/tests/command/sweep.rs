//! `paceline sweep`: refusals, and what is left after a kill.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::lab::Lab;

const SWEEP: &str = "scenario = 'small.toml'\ncontestants = ['reno@tcp', 'copa@udp']\nseconds = 2\nruns = 20\n\
                     [grid]\ndown.delay = ['5ms', '10ms', '20ms', '40ms']\n";

/// Every file below a folder.
fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                all.insert(entry.path().strip_prefix(folder).unwrap().to_owned(), fs::read(entry.path()).unwrap());
            }
        }
    }
    all
}

#[test]
fn a_sweep_that_is_killed_goes_on_and_ends_in_the_same_bytes() {
    let lab = Lab::new();
    fs::write(lab.path("sweep.toml"), SWEEP).unwrap();
    let whole = lab.run(&["sweep", "sweep.toml", "--out", "whole", "--threads", "1"]);
    assert_eq!(whole.status.code(), Some(0), "{}", String::from_utf8_lossy(&whole.stderr));
    let journal = lab.path("cut/_journal.jsonl");
    let lines = || fs::read(&journal).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count());
    let mut kept = 0;
    for _ in 0..3 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
            .args(["sweep", "sweep.toml", "--out", "cut", "--threads", "2"])
            .current_dir(lab.folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while lines() < kept + 10 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let now = lines();
        assert!(now >= kept || now == 0, "{now} runs are left of {kept}");
        kept = now;
    }
    let last = lab.run(&["sweep", "sweep.toml", "--out", "cut", "--threads", "4"]);
    let text = String::from_utf8(last.stdout).unwrap();
    assert_eq!(last.status.code(), Some(0), "{text}");
    // 160 runs; the torn line of a kill may cost each worker one.
    assert!(text.contains("160 runs, ") && !text.contains("160 of them"), "{text}");
    let (wanted, found) = (bytes(&lab.path("whole")), bytes(&lab.path("cut")));
    assert_eq!(wanted.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
    assert_eq!(wanted, found);
    let again = lab.run(&["sweep", "sweep.toml", "--out", "cut", "--json"]);
    let text = String::from_utf8(again.stdout).unwrap();
    assert_eq!(text.lines().count(), 8, "{text}");
    let cell: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&cell["runs"], &cell["grid"]["down.delay"]), (&20.into(), &"5ms".into()));
}

#[test]
fn parts_at_once_leave_the_bytes_of_one_process() {
    let lab = Lab::new();
    fs::write(lab.path("sweep.toml"), SWEEP).unwrap();
    let whole = lab.run(&["sweep", "sweep.toml", "--out", "whole", "--threads", "1"]);
    assert_eq!(whole.status.code(), Some(0), "{}", String::from_utf8_lossy(&whole.stderr));
    let part = |number: usize| {
        Command::new(env!("CARGO_BIN_EXE_paceline"))
            .args(["sweep", "sweep.toml", "--out", "out", "--threads", "1", "--part", &format!("{number}/4")])
            .current_dir(lab.folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut parts: Vec<_> = (1..=4).map(part).collect();
    parts[1].kill().unwrap();
    for (number, part) in parts.iter_mut().enumerate() {
        assert!(part.wait().unwrap().success() || number == 1, "part {}", number + 1);
    }
    let again = lab.run(&["sweep", "sweep.toml", "--out", "out", "--part", "2/4"]);
    let text = String::from_utf8(again.stdout).unwrap();
    assert!(text.starts_with("Part 2/4: ") && !lab.path("out/_cells.csv").exists(), "{text}");
    let all = lab.run(&["sweep", "sweep.toml", "--out", "out"]);
    let text = String::from_utf8(all.stdout).unwrap();
    assert!(text.contains("160 runs, 0 of them made now"), "{text}");
    assert_eq!(bytes(&lab.path("whole")), bytes(&lab.path("out")));
    let refused = lab.run(&["sweep", "sweep.toml", "--out", "out", "--part", "5/4"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(said, "paceline: --part: '5/4' is not a part; write I/N, such as 1/10, with I from 1 to N\n");
}

#[test]
fn records_the_folder_and_the_command_name_the_commit() {
    let lab = Lab::new();
    fs::write(lab.path("sweep.toml"), SWEEP).unwrap();
    let version = lab.run(&["--version"]);
    let version = String::from_utf8(version.stdout).unwrap();
    let commit = version.trim().split_once('(').map(|(_, commit)| commit.trim_end_matches(')').to_owned());
    assert_eq!(commit.as_deref(), paceline_commit::COMMIT, "{version}");
    lab.run(&["sweep", "sweep.toml", "--out", "out"]);
    let text = fs::read_to_string(lab.path("out/_sweep.json")).unwrap();
    let held: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(held["commit"].as_str(), commit.as_deref());
    lab.run(&["race", "small.toml", "--runs", "1", "--json", "records.jsonl"]);
    let text = fs::read_to_string(lab.path("records.jsonl")).unwrap();
    let record: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(record["commit"].as_str(), commit.as_deref());
    let other = serde_json::Value::from("0".repeat(40));
    let mut held = held;
    held["commit"] = other;
    fs::write(lab.path("out/_sweep.json"), format!("{held}\n")).unwrap();
    let refused = lab.run(&["sweep", "sweep.toml", "--out", "out"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("runs of two builds do not mix"), "{said}");
}

#[test]
fn an_unknown_key_is_one_line_and_nothing_is_made() {
    let lab = Lab::new();
    fs::write(lab.path("sweep.toml"), SWEEP.replace("down.delay", "down.delya")).unwrap();
    let refused = lab.run(&["sweep", "sweep.toml"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    let wanted =
        "paceline: sweep.toml:6: grid.down.delya: with 5ms: down.delya: unknown key 'delya'; did you mean delay?\n";
    assert_eq!(said, wanted);
    assert!(!lab.path("sweep-results").exists());
}

#[test]
fn a_page_shows_the_grid_and_the_table_has_its_numbers() {
    let lab = Lab::new();
    let text = SWEEP.replace("runs = 20", "runs = 2").replace("'20ms', '40ms'", "'20ms'");
    fs::write(lab.path("sweep.toml"), text + "down.queue = ['droptail:packets=10', 'droptail:packets=40']\n").unwrap();
    let made = lab.run(&["sweep", "sweep.toml", "--report", "page"]);
    let said = String::from_utf8(made.stdout).unwrap();
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(said.contains("report: page/report.html\n"), "{said}");
    let page = fs::read_to_string(lab.path("page/report.html")).unwrap();
    for wanted in [
        "reno@tcp",
        "copa@udp",
        "down.delay",
        "down.queue: droptail:packets=",
        "paceline sweep sweep.toml --report page",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert_eq!(
        fs::read_to_string(lab.path("page/cells.csv")).unwrap(),
        fs::read_to_string(lab.path("sweep-results/_cells.csv")).unwrap()
    );
    fs::write(lab.path("file"), "").unwrap();
    let refused = lab.run(&["sweep", "sweep.toml", "--report", "file"]);
    assert_eq!(refused.status.code(), Some(2));
}
