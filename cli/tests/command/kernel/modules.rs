//! `paceline kernel list`, `load`, `unload`, and what they refuse.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::machine::{OPEN, Running, is_loaded, needs_modules, row, skipped, turn, until_gone};
use crate::lab::{Lab, refusal};

#[test]
fn list_shows_who_holds_a_module_and_after_kill_9_nothing_stays() {
    let _turn = turn();
    if needs_modules("list_shows_who_holds_a_module_and_after_kill_9_nothing_stays") {
        return;
    }
    let before = row(OPEN);
    assert_eq!((&before["runs"], &before["reason"], &before["loaded"]), (&true.into(), &Value::Null, &false.into()));
    let mut loaded = Running::load(OPEN);
    let held = row(OPEN);
    assert!(held["loaded"] == true && held["held_by"].as_array().unwrap().len() == 1, "{held}");
    assert_eq!(held["held_by"][0]["process"], loaded.id());
    let table = String::from_utf8(Lab::new().run(&["kernel", "list"]).stdout).unwrap();
    let line = table.lines().find(|line| line.starts_with(OPEN)).unwrap();
    assert!(line.contains(&format!("by process {}", loaded.id())) && line.contains("yes"), "{table}");

    loaded.signal("-KILL");
    assert_eq!(loaded.ended(), None);
    until_gone(OPEN);
    assert_eq!(row(OPEN), before);
}

#[test]
fn it_ends_by_a_signal_and_by_unload() {
    let _turn = turn();
    if needs_modules("it_ends_by_a_signal_and_by_unload") {
        return;
    }
    let lab = Lab::new();
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut loaded = Running::load(OPEN);
        loaded.signal(signal);
        assert_eq!(loaded.ended(), Some(0), "{signal}");
        until_gone(OPEN);
    }
    let mut loaded = Running::load(OPEN);
    let again = refusal(&lab.run(&["kernel", "load", OPEN]));
    assert_eq!(
        again,
        format!(
            "{OPEN} is loaded already, by process {} (paceline); use it as it is, or end that process",
            loaded.id()
        )
    );
    let output = lab.run(&["kernel", "unload", OPEN]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("{OPEN} is unloaded: process {} has ended\n", loaded.id()));
    assert!(output.status.success() && !is_loaded(OPEN));
    assert_eq!(loaded.ended(), Some(0));
    let mut loaded = Running::start(&["kernel", "load", OPEN, "--json"]);
    let object = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let expected = json!({ "module": OPEN, "controller": null, "default": false, "default_before": null });
    assert_eq!(object(&loaded.line()), expected);
    let output = lab.run(&["kernel", "unload", OPEN, "--json"]);
    let said = object(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(said, json!({ "module": OPEN, "ended_processes": [loaded.id()] }));
    assert_eq!(loaded.ended(), Some(0));
    let gone = refusal(&lab.run(&["kernel", "unload", OPEN]));
    assert!(gone.starts_with(&format!("{OPEN} is not loaded")), "{gone}");
}

#[test]
fn unload_leaves_a_command_alone() {
    let _turn = turn();
    if needs_modules("unload_leaves_a_command_alone") {
        return;
    }
    let mut running = Running::start(&["kernel", "run", OPEN, "--", "sh", "-c", "echo ready; cat"]);
    assert_eq!(running.line(), "ready");
    let said = refusal(&Lab::new().run(&["kernel", "unload", OPEN]));
    let expected = format!("{OPEN} is held by process {} (", running.id());
    assert!(said.starts_with(&expected) && said.contains("which is not 'paceline kernel load'"), "{said}");
    assert!(is_loaded(OPEN));
    drop(running.child.stdin.take());
    assert_eq!(running.ended(), Some(0));
    until_gone(OPEN);
}

#[test]
fn a_default_is_restored_however_it_ends() {
    let test = "a_default_is_restored_however_it_ends";
    let _turn = turn();
    if needs_modules(test) {
        return;
    }
    let text = String::from_utf8(Lab::new().run(&["kernel", "list", "--json"]).stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let able = rows.iter().find(|row| row["never_default"].is_null() && row["runs"] == true && row["loaded"] == false);
    let Some(name) = able.map(|row| row["name"].as_str().unwrap()) else {
        return skipped(test, "no module here may be a default");
    };
    // In a network namespace of its own: there the default is Reno, then the module's, then Reno again.
    let script = r#"
        setting=/proc/sys/net/ipv4/tcp_congestion_control
        echo reno > $setting
        mkfifo "$2/said"
        for signal in TERM KILL; do
            "$0" kernel load "$1" --default > "$2/said" &
            read -r line < "$2/said"
            echo "$line"; cat $setting
            kill -$signal $!
            wait $! 2>/dev/null
            while [ "$(cat $setting)" != reno ]; do sleep 0.05; done
            echo restored
        done"#;
    let lab = Lab::new();
    let output = Command::new("timeout")
        .args(["60", "unshare", "--net", "sh", "-c", script, env!("CARGO_BIN_EXE_paceline"), name])
        .arg(lab.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let once = format!("{name} is loaded until this command ends, and the default instead of reno\n{name}\nrestored\n");
    assert_eq!(said, once.repeat(2), "{}", String::from_utf8_lossy(&output.stderr));
    until_gone(name);
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let lab = Lab::new();
    let refused = |args: &[&str], expected: &str| {
        for command in [&["load"][..], &["unload"], &["run"]] {
            let args = [&["kernel"], command, args].concat();
            let args = if command == ["run"] { [&args[..], &["--", "true"]].concat() } else { args };
            let said = refusal(&lab.run(&args));
            assert!(said.starts_with(expected), "{args:?}: {said}");
        }
    };
    refused(&["paceline_opem"], "unknown module or controller 'paceline_opem'; did you mean paceline_open");
    refused(
        &["cubic-of-tomorrow"],
        "'cubic-of-tomorrow' has 17 characters, and TCP congestion controls have at most 15",
    );
    refused(&["abcdefghijklmnop"], "'abcdefghijklmnop' has 16 characters");
    refused(&["a\nb"], "unknown module or controller 'a b'; ");
    refused(&["copa:delta=x"], "controller 'copa': delta=x is not a number");
    refused(&["sprout"], "sprout cannot steer a flow of the kernel: sprout needs its receiver half");
    let default = refusal(&lab.run(&["kernel", "load", OPEN, "--default"]));
    assert!(default.starts_with("paceline_open refuses to be a default: "), "{default}");
    assert!(refusal(&lab.run(&["kernel", "run", OPEN])).contains("paceline kernel run"));
    assert!(refusal(&lab.run(&["kernel", "watch", "--jsn"])).contains("--json"));
}

/// Runs the command where `prepare` was done before, in namespaces of its own, with what `unshare` is given.
fn elsewhere(unshare: &[&str], prepare: &str, args: &[&str]) -> Output {
    let script = format!("{prepare}\nexec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(unshare).args(["--", "sh", "-ec", &script, "sh", env!("CARGO_BIN_EXE_paceline"), "kernel"]);
    command.args(args).output().unwrap()
}

#[test]
fn what_the_machine_lacks_is_said_in_a_line_and_nothing_stays() {
    let test = "what_the_machine_lacks_is_said_in_a_line_and_nothing_stays";
    let _turn = turn();
    if needs_modules(test) {
        return;
    }
    // The same folder, empty; and with BTF that has no types: a header (Linux include/uapi/linux/btf.h) and an empty string.
    let no_btf = "mount -t tmpfs none /sys/kernel/btf";
    let no_types = r"mount -t tmpfs none /sys/kernel/btf
        printf '\237\353\1\0\30\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0' > /sys/kernel/btf/vmlinux";
    let no_cgroup = "mount -t tmpfs none /sys/fs/cgroup";
    let user = &["--user", "--map-root-user"][..];
    let mount = &["--mount"][..];
    for (unshare, prepare, expected) in [
        (user, "", "a TCP controller is loaded by root alone"),
        (mount, no_btf, "the kernel has no BTF (/sys/kernel/btf/vmlinux is missing)"),
        (mount, no_types, "the kernel takes no TCP controller from eBPF that ends with its owner; take Linux 6.4"),
    ] {
        for args in [&["load", OPEN][..], &["run", OPEN, "--", "true"]] {
            let said = refusal(&elsewhere(unshare, prepare, args));
            assert!(said.starts_with(expected), "{said}");
        }
        let doctor = elsewhere(unshare, prepare, &["doctor"]);
        let text = String::from_utf8(doctor.stdout).unwrap();
        assert!(doctor.status.code() == Some(2) && text.contains("  no: "), "{text}");
    }
    let said = refusal(&elsewhere(mount, no_cgroup, &["run", OPEN, "--", "true"]));
    assert!(said.starts_with("no cgroup v2 is mounted that has this process in it"), "{said}");
    let list = elsewhere(mount, no_btf, &["list"]);
    let table = String::from_utf8(list.stdout).unwrap();
    assert!(list.status.success() && table.contains("no") && table.contains(": the kernel has no BTF"), "{table}");
    assert!(!is_loaded(OPEN));
}
