//! Uploads that break off, come twice, or find no room.

use std::fs;
use std::io::Write;
use std::process::Command;

use paceline_alcc::transfer::{NONCE, Request, Status};
use ring::digest::{SHA256, digest};

use super::raw::{Raw, put};
use super::{ARGS, Server, content, done, parts, refused, text};
use crate::lab::Lab;

#[test]
fn a_second_connection_takes_an_upload_over() {
    let lab = Lab::new();
    let mut server = Server::new(&lab, &[]);
    let film = content(100_000);
    let mut first = Raw::connect(&server.address);
    assert_eq!(first.ask(put("film", film.len(), 1)).number, 0);
    assert!(first.send(&film[..40_000]));
    while !parts(&lab)
        .iter()
        .any(|part| lab.path("kept/.paceline-uploads").join(part).metadata().is_ok_and(|about| about.len() == 40_000))
    {
        std::thread::yield_now();
    }
    // Another id or another size is another upload.
    let mut other = Raw::connect(&server.address);
    assert_eq!(other.ask(put("film", film.len(), 2)).number, 0);
    let mut other = Raw::connect(&server.address);
    assert_eq!(other.ask(put("film", film.len() - 1, 1)).number, 0);

    let mut second = Raw::connect(&server.address);
    assert_eq!(second.ask(put("film", film.len(), 1)).number, 40_000);
    assert!(first.take(1).is_empty(), "the first is cut");
    assert!(second.send(&film[40_000..]) && second.send(digest(&SHA256, &film).as_ref()));
    assert_eq!((second.answer().status, fs::read(lab.path("kept/film")).unwrap() == film), (Status::Go, true));
    let ended: Vec<String> = (0..2).map(|_| text(&server.session(), "status")).collect();
    assert!(ended.contains(&"done".to_owned()), "{ended:?}");
}

#[test]
fn what_came_differently_is_dropped() {
    let lab = Lab::new();
    let server = Server::new(&lab, &[]);
    let mut raw = Raw::connect(&server.address);
    assert_eq!(raw.ask(put("film", 1000, 1)).status, Status::Go);
    assert!(raw.send(&content(1000)) && raw.send(&[0; 32]));
    assert_eq!(raw.answer().status, Status::Mismatch);
    assert!(parts(&lab).is_empty() && !lab.path("kept/film").exists());
    let mut raw = Raw::connect(&server.address);
    assert_eq!(raw.ask(put("film", 1000, 1)).number, 0);
}

#[test]
fn names_that_are_no_names() {
    let lab = Lab::new();
    let server = Server::new(&lab, &[]);
    fs::write(lab.path("outside"), "o").unwrap();
    for name in ["a/b", "../outside", "..", ".", ".hidden", "", "/etc/passwd", "a\nb", ".paceline-uploads"] {
        let mut raw = Raw::connect(&server.address);
        assert_eq!(raw.ask(put(name, 1, 1)).status, Status::Refused, "{name:?}");
        let mut raw = Raw::connect(&server.address);
        let get = Request { size: 0, id: [0; NONCE], kind: paceline_alcc::transfer::Kind::Get, ..put(name, 0, 0) };
        assert_eq!(raw.ask(get).status, Status::Refused, "{name:?}");
    }
    assert!(parts(&lab).is_empty());
}

#[test]
fn a_full_disk_is_an_answer() {
    let lab = Lab::new();
    fs::create_dir(lab.path("kept")).unwrap();
    let mount = [
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        "mount -t tmpfs -o size=1m none kept && exec \"$0\" \"$@\"",
    ];
    let limited = |program: &str, args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(mount).arg(program).args(args).current_dir(lab.folder.path());
        command
    };
    if !limited("true", &[]).output().is_ok_and(|output| output.status.success()) {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = std::io::stderr()
            .write_all(b"skipped: a_full_disk_is_an_answer: this process cannot mount a file system; run it as root\n");
        return;
    }
    let mut server = Server::start(&mut limited(env!("CARGO_BIN_EXE_paceline"), &ARGS), &lab);
    for (name, size) in [("large", 1_100_000), ("middle", 600_000), ("small", 100_000)] {
        fs::write(lab.path(name), content(size)).unwrap();
    }
    let why = refused(&lab, &["send", "large", &server.address]);
    assert!(why.ends_with("says: the disk has no room for 1100000 bytes"), "{why}");
    assert_eq!(text(&server.session(), "status"), "no room");

    // There was room when it began.
    let mut raw = Raw::connect(&server.address);
    assert_eq!(raw.ask(put("film", 700_000, 1)).status, Status::Go);
    done(&lab, &["send", "middle", &server.address]);
    assert!(raw.send(&content(700_000)));
    let answer = raw.answer();
    assert_eq!((answer.status, answer.message.as_str()), (Status::NoRoom, "the disk is full"));
    assert!(answer.number > 0 && answer.number < 700_000, "{answer:?}");
    drop(raw);
    assert!(refused(&lab, &["fetch", "film", &server.address]).ends_with("there is no such file"));
    let back = done(&lab, &["fetch", "middle", &server.address, "-o", "back"]);
    assert_eq!(back["bytes"].as_u64(), Some(600_000));
}
