//! Programs of others beside the kernel's own flows, by the rules of their controllers.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::{command, number, skipped};

/// All of them are eleven runs of up to a minute, four at once, each twice where the machine is busy; and twice that.
const WITHIN: Duration = Duration::from_secs(900);

/// Whether a program answers.
fn is_there(program: &str, option: &str) -> bool {
    Command::new(program).arg(option).output().is_ok_and(|output| output.status.success())
}

/// ngtcp2 0.12.1 adds a packet in a round trip where RFC 9438 section 4.3 adds 0.53 (`w_tcp` in its `ngtcp2_cc.c`).
const FASTER: (&str, &str) = ("ngtcp2@program", "cubic-reno-friendly");

/// HyStart needs round trips that no host made late: on a busy machine it misses the queue of any of them, by chance.
const LATE: &str = "cubic-slow-start-exit";
/// How far beyond its bounds a busy machine may put a figure; what a rule is there to find lies further out.
const BUSY: f64 = 0.2;

#[test]
fn programs_hold_to_what_the_kernels_own_flows_hold_to() {
    let test = "programs_hold_to_what_the_kernels_own_flows_hold_to";
    if !is_there("iperf3", "--version") {
        return skipped(test, "iperf3 is not installed");
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/programs.toml");
    let conform = |names: &[&str], more: &[&str]| {
        let args = ["conform", "--real", "--programs", file, "--threads", "4", "--json", "-"];
        command(None, &[&args[..], names, more].concat(), WITHIN)
    };
    let output = conform(&["iperf3:cc=reno@program"], &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    if errors.contains("network namespaces") {
        return skipped(test, &errors);
    }
    assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
    assert!(errors.contains("iperf3:cc=reno@program: ") && errors.contains("add --run-programs"), "{errors}");

    let (mut own, mut programs) = (vec!["reno@tcp"], vec!["iperf3:cc=reno@program"]);
    if std::env::var_os("CONFORM_PROGRAMS").is_some() {
        own.push("cubic@tcp");
        programs.push("iperf3@program");
        match is_there("gtlsserver", "--help") && is_there("gtlsclient", "--help") && is_there("openssl", "version") {
            true => programs.push("ngtcp2@program"),
            false => skipped(test, "ngtcp2@program: ngtcp2 is not installed"),
        }
    } else {
        skipped(test, "CUBIC takes minutes: CONFORM_PROGRAMS=1 asks for it");
    }
    let names = [&own[..], &programs].concat();
    let output = conform(&names, &["--run-programs"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    if errors.contains("gives no interface") {
        return skipped(test, &errors);
    }
    assert!(matches!(output.status.code(), Some(0 | 1)), "{errors}");
    assert!(errors.contains("iperf3 sender: exec iperf3 -c $PACELINE_PEER"), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| lines.iter().filter(|line| line["name"] == name).collect::<Vec<_>>();
    for name in &programs {
        let judged = of(name);
        let rules_of = if name.contains("reno") { "reno" } else { "cubic" };
        let own = of(&format!("{rules_of}@tcp"));
        assert!(judged.len() == own.len() && judged.iter().all(|line| line["rules_of"] == rules_of), "{lines:?}");
        let unused = judged.iter().find(|line| line["rule"] == format!("{rules_of}-rate-limited")).unwrap();
        assert_eq!(unused["verdict"], "not seen", "{unused}");
        assert!(unused["why"].as_str().unwrap().contains("an application of ours writes"), "{unused}");
        let doubtful = |notes: &Value| {
            notes.as_array().unwrap().iter().map(Value::to_string).find(|note| note.contains("NOT to be"))
        };
        if let Some(note) = doubtful(&judged[0]["notes"]).or(doubtful(&own[0]["notes"])) {
            skipped(test, &format!("{name}: {note}"));
            continue;
        }
        let departs = |line: &Value| line["verdict"] == "departs";
        for (own, judged) in own.iter().zip(&judged) {
            let rule = judged["rule"].as_str().unwrap();
            if departs(judged) && (rule == LATE || number(judged, "/off_by") < BUSY) {
                skipped(test, &format!("{name}: {rule}: {} on a busy machine", judged["value"]));
                continue;
            }
            assert!(!departs(judged) || departs(own) || (*name, rule) == FASTER, "{judged}\nbeside {own}");
        }
        // By the source that is there; the window is known.
        let origin = if name.starts_with("ngtcp2") { "a qlog" } else { "packets" };
        let kept =
            judged.iter().find(|line| line["rule"] == ["reno-halving", "cubic-beta"][usize::from(rules_of == "cubic")]);
        let kept = kept.unwrap();
        assert!(kept["origin"].as_str().unwrap().starts_with(origin) && number(kept, "/value") > 0.0, "{kept}");
    }
}
