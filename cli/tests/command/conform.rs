//! `paceline conform` and `paceline evaluate`: verdicts, exit status, whole pages; and what is refused.

use std::fs;

use serde_json::Value;

use super::lab::{Lab, refusal};

#[test]
fn verdicts_are_the_exit_status_and_stand_on_the_page() {
    let lab = Lab::new();
    let output = lab.run(&["conform", "reno", "--json", "-", "--report", "page"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() == 5 && lines.iter().all(|line| line["verdict"] == "holds"), "{lines:?}");
    let page = fs::read_to_string(lab.path("page/conformance.html")).unwrap();
    assert!(page.contains("reno-halving") && page.contains("<svg") && page.trim_end().ends_with("</html>"));
    let output = lab.run(&["conform", "bbr:probe_gain=1.5", "--threads", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("bbr:probe_gain=1.5@tcp: 9 of 10 rules hold"), "{text}");
}

#[test]
fn a_question_is_answered_and_every_clause_has_a_row() {
    let lab = Lab::new();
    let output =
        lab.run(&["evaluate", "reno", "--quick", "--only", "rtt,3.2", "--report", "page", "--json", "rows.jsonl"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("With eight times the round trip the flow got "), "{text}");
    assert!(text.contains("5.1.1  congestion collapse         not asked"), "{text}");
    let page = fs::read_to_string(lab.path("page/evaluation.html")).unwrap();
    let count = |what: &str| page.matches(what).count();
    assert_eq!((count("<h2"), count("<svg"), count("<section class=\"clause"), count("href=\"#rtt\"")), (1, 1, 33, 1));
    let rows = fs::read_to_string(lab.path("rows.jsonl")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows.len(), &rows[0]["clause"], &rows[33]["id"]), (34, &Value::from("3.1"), &Value::from("rtt")));
    assert!(rows[32]["clause"] == "8" && rows[32]["verdict"] == "stated" && rows[32]["statement"].is_string());
    let form = String::from_utf8(lab.run(&["evaluate", "reno", "--statements"]).stdout).unwrap();
    assert!(form.contains("8 security and privacy (must)") && !form.contains("(not stated)"), "{form}");
}

#[test]
fn a_qlog_is_written_in_either_form_and_one_of_its_traces_is_judged() {
    let lab = Lab::new();
    for form in [&[][..], &["--qlog-form", "0.3"]] {
        let args =
            [&["race", "small.toml", "--contestants", "reno@tcp", "--seconds", "1", "--qlog", "logs"], form].concat();
        assert_eq!(lab.run(&args).status.code(), Some(0));
        let text = fs::read_to_string(lab.path("logs/reno@tcp-1.sqlog")).unwrap();
        assert!(text.contains(if form.is_empty() {
            "quic:recovery_metrics_updated"
        } else {
            "recovery:metrics_updated"
        }));
        let judged = lab.run(&["conform", "--as", "reno", "--qlog", "logs/reno@tcp-1.sqlog", "--json", "-"]);
        assert!(String::from_utf8_lossy(&judged.stdout).contains("reno-halving"));
    }
    let text = fs::read_to_string(lab.path("logs/reno@tcp-1.sqlog")).unwrap();
    let events = text.split('\u{1e}').skip(2).collect::<Vec<_>>().join(",");
    let trace = format!(r#"{{"events":[{events}]}}"#);
    fs::write(lab.path("two.qlog"), format!(r#"{{"qlog_version":"0.3","traces":[{trace},{trace}]}}"#)).unwrap();
    let conform = ["conform", "--as", "reno", "--qlog", "two.qlog"];
    let complaint = refusal(&lab.run(&conform));
    assert!(
        complaint.contains("several connections with a window (trace 1, trace 2); choose a trace or a flow"),
        "{complaint}"
    );
    let judged = lab.run(&[&conform[..], &["--trace", "2"]].concat());
    assert!(String::from_utf8_lossy(&judged.stdout).contains("Of its 2 traces trace 2 is read."));
    let complaint = refusal(&lab.run(&["race", "small.toml", "--qlog", "logs", "--qlog-form", "0.5"]));
    assert!(complaint.contains("write today or 0.3"), "{complaint}");
}

#[test]
fn refusals_name_the_place_and_the_fix() {
    let lab = Lab::new();
    fs::write(lab.path("old.qlog"), r#"{"qlog_version":"0.5","traces":[]}"#).unwrap();
    fs::write(lab.path("cut.pcap"), b"\xd4\xc3\xb2\xa1\x02\x00").unwrap();
    for (args, error) in [
        (
            &["conform", "verus"][..],
            "'verus': there are no rules for 'verus'; give --as with one of reno, cubic, bbr, bbr3, copa, dctcp, prague",
        ),
        (&["conform", "--as", "vegas"], "--as: there are no rules for 'vegas'; name one of reno"),
        (
            &["conform", "--as", "cubic", "--qlog", "old.qlog"],
            "old.qlog:1: it is a qlog of qlog_version '0.5'; read are",
        ),
        (&["conform", "--as", "cubic", "--qlog", "none.qlog"], "--qlog none.qlog: cannot be read"),
        (&["conform", "--as", "reno", "--pcap", "cut.pcap"], "cut.pcap: it is damaged or cut off"),
        (&["conform", "--as", "reno", "--pcap", "cut.pcap", "--flow", "a-b"], "write SENDER:PORT-RECEIVER:PORT"),
        (
            &["conform", "--as", "reno", "--events", "cut.pcap", "--flow", "a"],
            "--flow: it chooses in captures and qlogs",
        ),
        (&["conform", "--qlog", "old.qlog"], "--as"),
        (&["conform", "own@program"], "'own@program': which commands it is says a file; give --programs, such as"),
        (&["conform", "own@program", "--programs", "small.toml"], "--real"),
        (
            &["evaluate", "copa", "--only", "harms"],
            "--only: there is no question or section 'harms'; name some of collapse, alone",
        ),
        (&["evaluate", "copo"], "unknown controller 'copo'; did you mean copa"),
    ] {
        let complaint = refusal(&lab.run(args));
        assert!(complaint.contains(error), "{args:?}: {complaint}");
    }
    assert_eq!(lab.names(), ["cut.pcap", "old.qlog", "small.toml"]);
}
