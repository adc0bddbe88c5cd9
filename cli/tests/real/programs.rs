//! Programs of others in a race: a sender and a receiver over TCP, one that crashes, one that is not there, and what a race leaves.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::PoisonError;

use paceline_fixture::until;
use serde_json::Value;

use super::{PATH, TURN, number, run, skipped};

/// One end connects and sends zeros for the flow's length, the other takes them; the preparation leaves a trace of itself.
fn scenario(contestants: &str, trace: &Path) -> String {
    let sender = "import os, socket, time\n\
         peer = socket.create_connection((os.environ['PACELINE_PEER'], int(os.environ['PACELINE_PORT'])))\n\
         end, sent = time.monotonic() + float(os.environ['PACELINE_SECONDS']), 0\n\
         while time.monotonic() < end: sent += peer.send(bytes(20000))\n\
         print('{\"sent\": %d}' % sent)";
    let receiver = "import os, socket\n\
         peer = socket.create_server(('0.0.0.0', int(os.environ['PACELINE_PORT']))).accept()[0]\n\
         while peer.recv(65536): pass";
    format!(
        "name = 'own'\nseconds = 1\ncontestants = [{contestants}]\n{PATH}\
         [programs.own]\nversion = 'python3 --version'\nprepare = 'echo made >{}'\ncongestion = 'reno'\n\
         sender = '''exec python3 -c \"\n{}\"'''\nreceiver = '''exec python3 -c \"\n{}\"'''\n\
         figures = {{ sent = 'sender.out#/sent' }}\n\
         [programs.crashes]\nready = {{ after = '1ms' }}\nsender = 'echo out of ideas >&2; exit 7'\nreceiver = 'exec sleep 9'\n\
         [programs.silent]\nready = {{ after = '1ms' }}\nlinger = '1ms'\nsender = 'exec sleep 9'\nreceiver = 'exec sleep 9'\n\
         [programs.absent]\nversion = 'no-such-program --version'\nsender = 'exec no-such-program'\nreceiver = 'exec sleep 9'\n",
        trace.display(),
        sender.replace('"', "\\\""),
        receiver.replace('"', "\\\""),
    )
}

#[test]
fn programs_race_through_the_command_and_only_when_asked() {
    let test = "programs_race_through_the_command";
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skipped(test, "python3 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let (trace, kept) = (folder.path().join("trace"), folder.path().join("kept"));
    let everyone = "'own@program', 'crashes@program', 'silent@program', 'absent@program'";
    let scenario = scenario(everyone, &trace);
    let output = run(&scenario, &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
    assert!(errors.contains("own@program: ") && errors.contains("--run-programs"), "{errors}");
    assert!(!trace.exists() && !kept.exists(), "a command ran unasked");

    let (folder, more) = (kept.to_str().unwrap(), ["--json", "-", "--run-programs"]);
    let output = run(&scenario, &more);
    let errors = String::from_utf8(output.stderr).unwrap();
    if errors.contains("network namespaces") || errors.contains("gives no interface") {
        return skipped(test, &errors);
    }
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("absent@program: version: 'no-such-program --version' ended with status 127"), "{errors}");

    let output = run(&scenario, &[&more[..], &["--skip-missing", "--keep", folder]].concat());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for line in [
        "own prepare: echo made",
        // Each line of a script, none of which passes for a command.
        "own sender: exec python3 -c \"\n  | import os, socket, time\n  | peer = ",
        "ended with status 127; install it, or leave the contestant out (left out)",
        "crashes@program failed in run 1: crashes@program: sender: ended with status 7 at 0.",
        "| out of ideas",
        "silent@program failed in run 1: silent@program: no data packet passed the path",
    ] {
        assert!(errors.contains(line), "'{line}' is not in:\n{errors}");
    }
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "made\n");
    let lines = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [record] = &records[..] else { panic!("{lines}") };
    let flow = &record["flows"][0];
    assert_eq!((flow["controller"].as_str(), flow["via"].as_str()), (Some("own"), Some("program")), "{record}");
    let program = &flow["program"];
    assert!(program["version"].as_str().is_some_and(|version| version.starts_with("Python 3")), "{program}");
    assert_eq!((&program["protocol"], &program["connections"]), (&Value::from("tcp"), &Value::from(1)), "{program}");
    assert_eq!(program["sender"]["status"], 0, "{program}");
    assert!(number(program, "/sender/ended_s") >= 1.0 && number(program, "/first_data_s") < 1.0, "{program}");
    // What it sent in its second may arrive after the flow's end.
    let sent = number(program, "/figures/sent");
    let acknowledged = number(flow, "/goodput_mbps") * 1e6 / 8.0 * (number(flow, "/end_s") - number(flow, "/start_s"));
    assert!(0.0 < acknowledged && acknowledged <= sent, "{acknowledged} B of {record}");
    assert!(number(flow, "/rtt_ms/p50") >= 20.0 && number(flow, "/throughput_mbps") <= 20.2, "{record}");
    assert!(flow["timeouts"].is_null() && flow["retransmits"].is_u64(), "{record}");
    assert!(number(record, "/cpu_s") > 0.0 && number(program, "/receiver/cpu_s") > 0.0, "{record}");
    for file in ["own@program-1-0/sender.out", "crashes@program-1-0/sender.err"] {
        assert!(std::fs::metadata(kept.join(file)).is_ok_and(|file| file.len() > 0), "{file} is empty");
    }
}

#[test]
fn another_user_gets_into_the_folder_that_is_not_kept() {
    let test = "another_user_gets_into_the_folder_that_is_not_kept";
    let user = |name: &&str| Command::new("id").arg(name).output().is_ok_and(|output| output.status.success());
    let Some(user) = ["daemon", "bin", "games"].into_iter().find(user) else {
        return skipped(test, "this machine has no other user");
    };
    let scenario = format!(
        "name = 'own'\nseconds = 1\ncontestants = ['own@program']\n{PATH}[programs.own]\nuser = '{user}'\n\
         prepare = 'cd $PACELINE_SHARED; id -un >made; cat $PACELINE_SHARED/made >&2; stat -c %a .. >&2; exit 3'\n\
         sender = 'exec sleep 9'\nreceiver = 'exec sleep 9'\n"
    );
    let output = run(&scenario, &["--run-programs"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    if errors.contains("network namespaces") || errors.contains("needs root") {
        return skipped(test, &errors);
    }
    assert!(errors.contains(&format!("ended with status 3; fix the command   | {user}   | 711\n")), "{errors}");
}

#[test]
fn the_next_race_removes_what_one_left_that_was_killed() {
    let test = "the_next_race_removes_what_one_left_that_was_killed";
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let written = |seconds: u32, sender: &str| {
        let file = folder.path().join(format!("{seconds}.toml"));
        let text = format!(
            "name = 'own'\nseconds = {seconds}\ncontestants = ['own@program']\n{PATH}[programs.own]\n\
             ready = {{ after = '1ms' }}\nlinger = '1ms'\nprepare = 'echo made >made'\nsender = '{sender}'\nreceiver = 'exec sleep 600'\n"
        );
        std::fs::write(&file, text).unwrap();
        file
    };
    let race = |file: &Path| {
        let mut race = Command::new(env!("CARGO_BIN_EXE_paceline"));
        race.arg("race").arg(file).args(["--real", "--run-programs"]).env("TMPDIR", folder.path());
        race.stdout(Stdio::null()).stderr(Stdio::piped());
        race
    };
    let left = || {
        let all = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
        all.filter(|path| path.join("shared/made").exists()).count()
    };
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let long = written(600, &format!("echo begun >{}; exec sleep 600", begun.display()));
    let mut killed = race(&long).spawn().unwrap();
    until("the program runs, or cannot", || begun.exists() || killed.try_wait().unwrap().is_some());
    let _ = killed.kill();
    let output = killed.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("network namespaces") || errors.contains("gives no interface") {
        return skipped(test, &errors);
    }
    assert!(begun.exists() && left() == 1, "{errors}");
    // It fails, for nothing passes the path, so that its own stays, which is said; and that stays with the one after it.
    for kept in 1..=2 {
        let output = race(&written(1, "exec sleep 600")).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("what programs of the failed runs wrote is in "), "{errors}");
        assert_eq!(left(), kept, "{errors}");
    }
    drop(turn);
}
