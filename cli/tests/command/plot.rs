//! Series as files, and files as pictures.

use std::fs;

use serde_json::Value;

use super::lab::{Lab, refusal};

const LOG: &str = "# mahimahi mm-link (downlink) [x] > y\n# base timestamp: 0\n0 + 1500\n1 # 1500\n1 - 1500 1\n500 + 1500\n\
                   500 d 1 1500\n999 # 3000\n";

fn ran(lab: &Lab, args: &[&str]) -> String {
    let output = lab.run(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_race_leaves_its_series() {
    let lab = Lab::new();
    let csv = ran(&lab, &["race", "small.toml", "--series", "-"]);
    let head = "contestant,run,time_s,flow,of,own,throughput_mbps,queue_ms,queue_max_ms,srtt_ms,window_packets,";
    assert!(csv.starts_with(head), "{csv}");
    // Four contestants, 500 steps of 4 ms, the first run.
    assert_eq!(csv.lines().count(), 1 + 4 * 500);
    assert_eq!(ran(&lab, &["race", "small.toml", "--series", "-", "--series-all"]).lines().count(), 1 + 2 * 4 * 500);
    ran(&lab, &["race", "small.toml", "--series", "s.jsonl"]);
    let rows = fs::read_to_string(lab.path("s.jsonl")).unwrap();
    let row: Value = serde_json::from_str(rows.lines().last().unwrap()).unwrap();
    assert_eq!((row["contestant"].as_str(), row["time_s"].as_f64()), (Some("fixed:window=20@alcc"), Some(2.0)));
    let line = refusal(&lab.run(&["race", "small.toml", "--series", "s.txt"]));
    assert_eq!(line, "--series s.txt: its name has to end in .csv, .jsonl or .parquet");
    let line = refusal(&lab.run(&["race", "small.toml", "--series", "x.csv", "--csv", "x.csv"]));
    assert!(line.starts_with("--series: x.csv is the place of --csv too"), "{line}");
}

#[test]
fn what_a_race_wrote_becomes_a_page() {
    let lab = Lab::new();
    ran(&lab, &["race", "small.toml", "--series", "s.csv", "--qlog", "logs", "--json", "r.jsonl"]);
    let qlog = fs::read_dir(lab.path("logs")).unwrap().next().unwrap().unwrap().file_name();
    let qlog = format!("logs/{}", qlog.to_string_lossy());
    fs::write(lab.path("m.down"), LOG).unwrap();
    let said = ran(&lab, &["plot", "s.csv", &qlog, "m.down", "--out", "p.html", "--svg", "p.svg", "--json", "p.json"]);
    for expected in
        ["s.csv: time series of a race, 2 s", ": qlog, ", "m.down: packet log of a link, 1 s", "dropped, % 50"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(said.ends_with("p.html\np.svg\np.json\n"), "{said}");
    let page = fs::read_to_string(lab.path("p.html")).unwrap();
    assert_eq!(page.matches("<figure>").count(), 3);
    assert!(page.contains("round trip, ms") && page.contains("what the link could carry") && !page.contains("NaN"));
    assert!(fs::read_to_string(lab.path("p.svg")).unwrap().starts_with("<svg xmlns"));
    let json: Value = serde_json::from_str(&fs::read_to_string(lab.path("p.json")).unwrap()).unwrap();
    assert_eq!(json[2]["charts"][0]["title"], "throughput, Mbit/s");
    assert!(json[2]["figures"].as_array().unwrap().iter().any(|figure| figure["what"] == "used, %"));

    assert_eq!(ran(&lab, &["plot", "r.jsonl"]), "plot.html\n");
    assert!(fs::read_to_string(lab.path("plot.html")).unwrap().contains("Throughput against delay"));
    let finer = ran(&lab, &["plot", "m.down", "--step", "100ms", "--json", "-"]);
    let finer: Value = serde_json::from_str(&finer).unwrap();
    assert_eq!(finer[0]["charts"][0]["curves"][0]["points"].as_array().unwrap().len(), 10);
}

#[test]
fn what_cannot_be_drawn_is_one_line() {
    let lab = Lab::new();
    ran(&lab, &["race", "small.toml", "--runs", "1", "--json", "r.jsonl"]);
    fs::write(lab.path("m.down"), LOG).unwrap();
    fs::write(lab.path("bad.down"), format!("{LOG}1000 x 5\n")).unwrap();
    fs::write(lab.path("t.mahi"), "1\n2\n").unwrap();
    fs::write(lab.path("cut.pcapng"), [0x0a, 0x0d, 0x0d, 0x0a, 0, 0]).unwrap();
    let before = lab.names();
    for (args, expected) in [
        (&["plot", "nofile"][..], "nofile: cannot be read"),
        (&["plot", "small.toml"], "small.toml: it is of no known kind; give a log of mm-link, a capture"),
        (&["plot", "t.mahi"], "t.mahi:1: it seems to be a delivery trace; see it by paceline trace info"),
        (&["plot", "bad.down"], "bad.down:9: 'x' is not a kind of event; a line is TIME and"),
        (&["plot", "cut.pcapng"], "cut.pcapng: it is damaged or cut off"),
        (&["plot", "/dev/zero"], "/dev/zero: cannot be read (it is a device)"),
        (&["plot", "r.jsonl", "m.down"], "m.down: records have a page of their own; draw it without them"),
        (&["plot", "m.down", "--out", "m.down"], "--out m.down: it is read; name another file"),
        (&["plot", "m.down", "--step", "0ms"], "--step: a step is longer than 0"),
        (&["plot", "m.down", "--out", "/no/such/p.html"], "/no/such/p.html: cannot be written"),
    ] {
        let line = refusal(&lab.run(args));
        assert!(line.starts_with(expected), "{args:?}\n{line}");
    }
    assert_eq!(lab.names(), before);
}
