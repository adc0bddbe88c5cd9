//! What people hand in: names that are not text, pipes, byte order marks, links in served folders, services that are ended.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use crate::lab::{Lab, refusal};
use crate::named::start;
use crate::udp::Server;

const KEY: &str = "\u{feff}00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\r\n";

/// Two bytes that are not UTF-8.
const BYTES: &[u8] = b"b\xfe";

fn run(lab: &Lab, words: &str) -> Output {
    let filled =
        words.split_whitespace().map(|word| if word == "BYTES" { OsStr::from_bytes(BYTES) } else { OsStr::new(word) });
    Command::new(env!("CARGO_BIN_EXE_paceline")).args(filled).current_dir(lab.folder.path()).output().unwrap()
}

fn succeeds(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_argument_that_is_not_text_is_refused_in_one_line() {
    let lab = Lab::new();
    for words in [
        "BYTES",
        "--BYTES BYTES",
        "race BYTES",
        "race small.toml --set BYTES",
        "race small.toml --contestants BYTES",
        "race small.toml --json BYTES --nothing",
        "controllers BYTES",
        "trace synth BYTES",
        "trace info BYTES",
        "validate --only BYTES",
        "report BYTES --out page",
        "plot BYTES",
        "replay BYTES",
        "conform BYTES",
        "evaluate BYTES",
        "mdi show BYTES",
        "mdi train --cc BYTES --out model",
        "reproduce BYTES",
        "emulate --rate BYTES -- true",
        "doctor BYTES",
        "serve --listen BYTES",
        "send BYTES BYTES",
        "fetch BYTES 127.0.0.1:9",
        "alcc send BYTES 127.0.0.1:9",
        "alcc fetch BYTES 127.0.0.1:9",
        "alcc token --scope BYTES --key absent",
        "icn stat BYTES --store store",
        "icn fetch BYTES --from 127.0.0.1:9",
        "icn publish BYTES --store store",
        "int watch --bus BYTES",
        "kernel load BYTES",
        "shim --check BYTES",
        "top --pid BYTES",
        "completions BYTES",
    ] {
        let output = run(&lab, words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("a mistake in paceline"), "{words}: {text}");
        assert!(output.status.code() != Some(0) && text.lines().count() == 1, "{words}: {text}");
    }
}

#[test]
fn a_file_with_any_name_is_sent() {
    let lab = Lab::new();
    fs::write(lab.folder.path().join(OsStr::from_bytes(BYTES)), "a film").unwrap();
    let server = Server::new(&lab, &["--dir", "kept"]);
    let alcc = Server::start(
        Command::new(env!("CARGO_BIN_EXE_paceline")).args(["alcc", "serve", "--listen", "127.0.0.1:0", "--dir", "up"]),
        &lab,
    );
    for (send, at) in [("send", &server), ("alcc send", &alcc)] {
        let line = refusal(&run(&lab, &format!("{send} BYTES {}", at.address)));
        assert!(line.contains("the name is not UTF-8; give one by --name"), "{line}");
        succeeds(&run(&lab, &format!("{send} BYTES {} --name film", at.address)));
        let long = "n".repeat(300);
        let line = refusal(&run(&lab, &format!("{send} BYTES {} --name {long}", at.address)));
        assert!(line.contains("this name has 300 bytes, and that of a file at most 255"), "{line}");
    }
    for folder in ["kept", "up"] {
        assert_eq!(fs::read(lab.path(folder).join("film")).unwrap(), b"a film");
    }
}

#[test]
fn a_pipe_is_not_waited_for() {
    let lab = Lab::new();
    assert!(Command::new("mkfifo").arg(lab.path("fifo")).status().unwrap().success());
    fs::create_dir(lab.path("store")).unwrap();
    for words in ["send fifo 127.0.0.1:9", "alcc send fifo 127.0.0.1:9"] {
        assert_eq!(refusal(&run(&lab, words)), "fifo: is not a regular file; name one", "{words}");
    }
    for words in [
        "icn publish fifo --store store",
        "validate --real --journal fifo",
        "reproduce alcc --figure fidelity --journal fifo",
    ] {
        let line = refusal(&run(&lab, words));
        assert!(line.contains("fifo: ") && line.contains("file"), "{words}: {line}");
    }
}

#[test]
fn a_compressed_file_is_named_as_one() {
    let lab = Lab::new();
    fs::write(lab.path("packed"), b"\x28\xb5\x2f\xfd\xa4\0\x7d").unwrap();
    for words in [
        "trace import packed lte.down",
        "trace info packed",
        "race packed",
        "race small.toml --trace packed",
        "replay packed",
        "conform --as copa --events packed",
        "conform --as copa --qlog packed",
        "conform --as cubic --pcap packed",
        "mdi check packed",
        "plot packed",
        "report packed --out page",
    ] {
        let line = refusal(&run(&lab, words));
        assert!(line.contains("it is compressed by zstd: unpack it first, unzstd FILE"), "{words}: {line}");
    }
}

#[test]
fn a_byte_order_mark_is_left_out() {
    let lab = Lab::new();
    let marked = |name: &str, text: &str| fs::write(lab.path(name), format!("\u{feff}{text}")).unwrap();
    marked("table.csv", "time,mbps\r\n0,12\r\n1,24\r\n2,6\r\n");
    succeeds(&run(&lab, "trace import table.csv lte.down"));
    let trace = fs::read_to_string(lab.path("lte.down")).unwrap();
    marked("marked.down", &trace.replace('\n', "\r\n"));
    succeeds(&run(&lab, "trace validate marked.down"));
    let scenario = fs::read_to_string(lab.path("small.toml")).unwrap();
    marked("marked.toml", &scenario);
    let records = run(&lab, "race marked.toml --runs 1 --seconds 1 --json - --series series.csv").stdout;
    assert!(!records.is_empty());
    let records = String::from_utf8(records).unwrap();
    marked("records.jsonl", &records);
    marked("cut.jsonl", &format!("{records}{}", &records[..200]));
    let drawn = run(&lab, "plot cut.jsonl --out page.html");
    succeeds(&drawn);
    assert_eq!(String::from_utf8_lossy(&drawn.stderr), "paceline: cut.jsonl: its last line is cut off, and left out\n");
    assert!(
        refusal(&run(&lab, "report cut.jsonl --out page"))
            .contains(&format!("cut.jsonl:{}: not a record", records.lines().count() + 1))
    );
    marked("link.log", "# mahimahi mm-link (downlink)\r\n# base timestamp: 5\r\n6 + 1500\r\n9 - 1500 3\r\n");
    succeeds(&run(&lab, "plot link.log --out page.html"));
    fs::write(lab.path("wide.csv"), b"\xff\xfet\0i\0m\0e\0,\0m\0b\0p\0s\0\n\0").unwrap();
    for words in ["trace import wide.csv lte.down", "race wide.csv", "plot wide.csv", "report wide.csv --out page"] {
        let line = refusal(&run(&lab, words));
        assert!(line.contains("it is in UTF-16: convert it, iconv"), "{words}: {line}");
    }
    succeeds(&run(&lab, "plot records.jsonl --out page.html"));
    succeeds(&run(&lab, "report records.jsonl --out page"));
    let series = fs::read_to_string(lab.path("series.csv")).unwrap();
    marked("marked.csv", &series[..series.len() - 20]);
    let drawn = run(&lab, "plot marked.csv --out page.html");
    succeeds(&drawn);
    assert!(String::from_utf8_lossy(&drawn.stdout).contains("Its last line is cut off, and left out."));
    lab.write_private("key", KEY);
    succeeds(&run(&lab, "alcc token --key key"));
}

#[test]
fn a_name_that_no_file_can_have_is_shown_by_its_beginning() {
    let line = refusal(&Lab::new().run(&["trace", "info", &"n".repeat(5000)]));
    assert!(line.starts_with(&format!("{}… cannot be read (", "n".repeat(40))), "{line}");
}

#[test]
fn links_in_served_folders_are_not_followed() {
    let lab = Lab::new();
    fs::create_dir(lab.path("kept")).unwrap();
    fs::write(lab.path("secret"), "of others").unwrap();
    symlink("../secret", lab.path("kept/link")).unwrap();
    fs::write(lab.path("kept/film"), "a film").unwrap();
    let server = Server::new(&lab, &["--dir", "kept"]);
    let alcc = Server::start(
        Command::new(env!("CARGO_BIN_EXE_paceline")).args([
            "alcc",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--dir",
            "kept",
        ]),
        &lab,
    );
    for (fetch, at) in [("fetch", &server), ("alcc fetch", &alcc)] {
        let line = refusal(&run(&lab, &format!("{fetch} link {} -o got", at.address)));
        assert!(line.contains("there is no"), "{line}");
        assert!(!lab.path("got").exists());
        succeeds(&run(&lab, &format!("{fetch} film {} -o got", at.address)));
        fs::remove_file(lab.path("got")).unwrap();
    }
    // What the user named may be one.
    symlink("secret", lab.path("mine")).unwrap();
    let own = Server::new(&lab, &["--file", "mine"]);
    succeeds(&run(&lab, &format!("fetch mine {} -o got", own.address)));
}

#[test]
fn a_resolver_keeps_its_table_when_it_is_ended() {
    let lab = Lab::new();
    lab.write_private("key", KEY);
    fs::write(lab.path("film"), "a film").unwrap();
    let name = run(&lab, "icn publish film --store store").stdout;
    let name = String::from_utf8_lossy(&name).trim().to_owned();
    for signal in ["-TERM", "-INT"] {
        let mut resolver = start(&lab, &["resolver", "--listen", "127.0.0.1:0", "--key", "key", "--state", "table"]);
        let at = resolver.address.clone();
        let announce = ["--announce", &at, "--announce-key", "key"];
        let router = start(&lab, &[&["serve", "--store", "store", "--listen", "127.0.0.1:0"], &announce[..]].concat());
        while run(&lab, &format!("icn resolve {name} --resolver {at}")).status.code() != Some(0) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(Command::new("kill").args([signal, &resolver.child.id().to_string()]).status().unwrap().success());
        assert_eq!(resolver.child.wait().unwrap().code(), Some(0));
        let table = fs::read_to_string(lab.path("table")).unwrap();
        assert!(table.contains(&name) && table.contains(&router.address), "{table}");
        fs::remove_file(lab.path("table")).unwrap();
    }
    symlink("key", lab.path("link")).unwrap();
    let line = refusal(&run(&lab, "icn resolver --listen 127.0.0.1:0 --key key --state link"));
    assert!(line.contains("--state link") && line.contains("it is a link"), "{line}");
}
