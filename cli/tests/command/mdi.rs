//! `paceline mdi`: a model is trained, checked, looked at and raced; and what is refused.

use std::fs;

use serde_json::Value;

use super::lab::{Lab, refusal};

const TRAIN: [&str; 12] =
    ["mdi", "train", "--cc", "verus", "--synthetic", "2", "--seconds", "10", "--unseen", "0", "--out", "mine.csv"];

#[test]
fn a_model_is_trained_checked_shown_and_raced() {
    let lab = Lab::new();
    let run = |args: &[&str]| {
        let output = lab.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty());
        String::from_utf8(output.stdout).unwrap()
    };
    let said: Value = serde_json::from_str(&run(&[&TRAIN[..], &["--json", "--counts", "counts"]].concat())).unwrap();
    assert_eq!((&said["controller"], &said["traces"]), (&"verus".into(), &2.into()));
    let first = fs::read_to_string(lab.path("mine.csv")).unwrap();
    assert!(first.contains("# made by: paceline mdi train --cc verus --synthetic 2 "), "{}", &first[..300]);
    assert!(first.contains("\n# rtt_ms: 40\n# delay: level\n"));
    let trained = "\n# trained on: 2 traces with means of ";
    assert!(first.contains(trained) && first.contains(" Mbit/s, 10 s each, 20 ms each way, no limit to the queue\n"));
    assert_eq!((&said["rtt_ms"], &said["unseen"]), (&40.0.into(), &Value::Null));
    assert!(run(&TRAIN).starts_with("mine.csv: "));
    let matrix = |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(matrix(&fs::read_to_string(lab.path("mine.csv")).unwrap()), matrix(&first));
    // The counts alone, twice, are the same model.
    run(&["mdi", "train", "--cc", "verus", "--add", "counts", "--unseen", "0", "--out", "again.csv"]);
    assert_eq!(matrix(&fs::read_to_string(lab.path("again.csv")).unwrap()), matrix(&first));

    assert!(run(&["mdi", "check", "mine.csv", "again.csv"]).is_empty());
    let shown = run(&["mdi", "show", "mine.csv"]);
    assert!(shown.starts_with("mine.csv\n  paceline ") && shown.contains("mixing, epochs"), "{shown}");
    let against = ["--against", "verus", "--synthetic", "2", "--seconds", "5", "--html", "mine.html", "--json"];
    let shown: Value = serde_json::from_str(&run(&[&["mdi", "show", "mine.csv"][..], &against].concat())).unwrap();
    assert_eq!(shown["against"]["traces"].as_array().unwrap().len(), 2);
    assert!(fs::read_to_string(lab.path("mine.html")).unwrap().contains("<ellipse"));
    assert!(run(&["mdi", "show", "copa"]).starts_with("copa\n"));

    let raced = run(&["race", "small.toml", "--contestants", "mdi:model=mine.csv@udp,mdi@alcc", "--runs", "1"]);
    assert!(raced.contains("mdi:model=mine.csv@udp"), "{raced}");
    run(&[
        "mdi",
        "train",
        "--cc",
        "reno",
        "--synthetic",
        "1",
        "--seconds",
        "2",
        "--state",
        "change",
        "--plain",
        "--unseen",
        "0",
        "--out",
        "plain.csv",
    ]);
    assert!(fs::read_to_string(lab.path("plain.csv")).unwrap().starts_with(|c: char| c.is_ascii_digit()));
}

#[test]
fn a_model_that_parts_from_its_original_is_not_written() {
    let lab = Lab::new();
    let train = |more: &[&str]| {
        let args = ["mdi", "train", "--cc", "bbr", "--synthetic", "2", "--seconds", "10", "--out", "bbr.csv"];
        lab.run(&[&args[..], more].concat())
    };
    let output = train(&["--unseen", "2", "--counts", "counts"]);
    let [said, complaint] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(said.contains("\n  against bbr, 2 unseen traces: link, bbr and the model in Mbit/s"), "{said}");
    assert!(complaint.starts_with("bbr.csv: not written: over unseen traces the model of bbr has 0."), "{complaint}");
    assert!(complaint.contains("times its throughput in the median") && complaint.lines().count() == 1, "{complaint}");
    assert_eq!(lab.names(), ["counts", "small.toml"], "the counts can be added to");
    let output = train(&["--unseen", "2", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &said["out"]), (Some(1), &Value::Null));
    assert_eq!(said["unseen"]["traces"].as_array().unwrap().len(), 2);
    assert!(said["unseen"]["throughput_ratio"].as_f64().unwrap() < 0.85, "{said}");
    // What the user asks for.
    assert_eq!(train(&["--unseen", "0"]).status.code(), Some(0));
    assert!(fs::read_to_string(lab.path("bbr.csv")).unwrap().contains("# trained on: 2 traces"));
}

#[test]
fn refusals_name_the_place_and_the_fix() {
    let lab = Lab::new();
    fs::write(lab.path("short.csv"), "2,0,1,1,1,0,0,1\n1,0\n0.5\n").unwrap();
    for (args, error) in [
        (&["mdi", "check", "short.csv"][..], "short.csv: line 3, column 1: the row has 1 numbers instead of 2"),
        (&["mdi", "show", "none.csv"], "none.csv: cannot be read"),
        (&["race", "small.toml", "--contestants", "mdi:model=short.csv@udp"], "line 3, column 1"),
        (&["mdi", "train", "--cc", "verus", "--out", "x"], "there is nothing to train on; name traces"),
        (&["mdi", "train", "--cc", "dctcp:x=1", "--synthetic", "1", "--out", "x"], "no parameter 'x'"),
        (&["mdi", "train", "--cc", "verus", "--synthetic", "1001", "--out", "x"], "from 0 to 1000"),
        (&["mdi", "train", "--cc", "verus", "--synthetic", "1", "--windows", "1,2", "--out", "x"], "MIN,MAX,STEP"),
        (&["mdi", "train", "--cc", "verus", "--synthetic", "1", "--plain", "--out", "x"], "add --state change"),
        (&["mdi", "train", "--cc", "verus", "--synthetic", "1", "--epoch", "1us", "--out", "x"], "--epoch: give whole"),
        (
            &["mdi", "train", "--cc", "verus", "--out", "x", "a.mahi", "--unseen-trace", "a.mahi"],
            "--unseen-trace: a.mahi is among the traces to train on",
        ),
        (
            &["mdi", "train", "--cc", "verus", "--synthetic", "1", "--seed", "1000", "--out", "x"],
            "--seed: 1000 is that of the unseen traces",
        ),
        (
            &["mdi", "train", "--cc", "verus", "--add", "short.csv", "--out", "x"],
            "short.csv: line 1: this is not a file of counts",
        ),
    ] {
        let complaint = refusal(&lab.run(args));
        assert!(complaint.contains(error), "{args:?}: {complaint}");
    }
    assert_eq!(lab.names(), ["short.csv", "small.toml"]);
}
