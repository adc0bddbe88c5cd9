//! Who may not, and who does not play by the rules.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use paceline_alcc::transfer::token::{Key, Token};
use paceline_alcc::transfer::{Kind, Request, Status};

use super::raw::{Raw, put};
use super::{Server, content, done, parts, refused, text};
use crate::lab::Lab;

const NEEDS: &str = "this needs a token of this server; ask its operator for one (paceline alcc token)";

fn token(lab: &Lab, args: &[&str]) -> String {
    let output = lab.run(&[&["alcc", "token", "--key", "key"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn only_a_token_opens() {
    let lab = Lab::new();
    let good = token(&lab, &["--new-key", "--days", "1", "--scope", "photo"]);
    assert_eq!(token(&lab, &["--scope", "photo"]), token(&lab, &["--scope", "photo"]));
    let server = Server::new(&lab, &["--key", "key"]);
    for name in ["photo-1", "film"] {
        fs::write(lab.path(name), content(1000)).unwrap();
    }
    done(&lab, &["send", "photo-1", &server.address, "--token", &good]);
    done(&lab, &["fetch", "photo-1", &server.address, "--token", &good, "-o", "back"]);
    done(&lab, &["send", "--bytes", "1000", &server.address, "--token", &good]);

    let address = server.address.as_str();
    let says = |args: &[&str]| refused(&lab, args).split_once(" says: ").unwrap().1.to_owned();
    assert_eq!(says(&["send", "film", address, "--token", &good]), "the token is for names that begin with 'photo'");
    let expired = token(&lab, &["--days", "0"]);
    assert_eq!(says(&["send", "film", address, "--token", &expired]), "the token has expired; ask for a new one");
    let forged = Key::new(&[1; 32]).token(0, "").unwrap().to_string();
    // What is there and what is not sounds the same.
    for name in ["photo-1", "film", "none"] {
        assert_eq!(says(&["fetch", name, address, "--token", &forged]), NEEDS);
        assert_eq!(says(&["fetch", name, address]), NEEDS);
        assert_eq!(says(&["fetch", "--stat", name, address]), NEEDS);
    }
    assert_eq!(says(&["send", "film", address]), NEEDS);
    assert_eq!(says(&["send", "film", address, "--token", &forged]), NEEDS);
    assert_eq!(says(&["send", "--bytes", "10", address]), NEEDS);
    assert_eq!(says(&["fetch", "--bytes", "10", address]), NEEDS);
    assert!(parts(&lab).is_empty());
    assert!(!lab.path("kept/film").exists());
}

#[test]
fn what_was_said_before_opens_nothing() {
    let lab = Lab::new();
    let good: Token = token(&lab, &["--new-key"]).parse().unwrap();
    let mut server = Server::new(&lab, &["--key", "key"]);
    let first = Raw::connect(&server.address);
    let (mut request, mut wire) = (Request { size: 10, ..Request::new(Kind::Discard, "") }, Vec::new());
    good.sign(&mut request, &first.nonce());
    request.write(&mut wire).unwrap();
    assert!(first.send(&wire) && first.take(1) == [0]);
    let second = Raw::connect(&server.address);
    assert_ne!(second.nonce(), [0; 16]);
    assert!(second.send(&wire) && second.take(1) == [1]);
    let ended = server.session();
    assert_eq!(text(&ended, "status"), "refused", "{ended}");
}

#[test]
fn a_stranger_gets_a_greeting_and_no_more() {
    let lab = Lab::new();
    let mut server = Server::new(&lab, &["--timeout", "1"]);
    let mut junk = content(200_000);
    junk[0] = 1;
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &junk, b"\x01\x01\x00\x05\x44\x01", b"\x01", b""] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        // It may have been cut already.
        let _ = stream.write_all(words);
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
        assert!(got.len() <= 64, "{} bytes for {}", got.len(), words.len());
        let session = server.session();
        assert_eq!((text(&session, "status"), session["kind"].is_null()), ("lost".to_owned(), true), "{session}");
    }
    done(&lab, &["send", "--bytes", "1000", &server.address]);
}

#[test]
fn who_is_too_slow_is_cut_and_what_came_is_held() {
    let lab = Lab::new();
    let mut server = Server::new(&lab, &["--timeout", "1"]);
    // A byte now and then, which never becomes a request.
    let begun = Instant::now();
    let slow = Raw::connect(&server.address);
    assert!(slow.send(&[0x43, 0xff]), "a request of 1023 bytes");
    while slow.send(&[1]) && begun.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(text(&server.session(), "message").contains("did not ask within 1 s"));
    // And one whose upload would never end.
    let mut slow = Raw::connect(&server.address);
    assert_eq!(slow.ask(put("film", 100_000, 1)).status, Status::Go);
    while slow.send(&[1]) && begun.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let session = server.session();
    assert!(text(&session, "message").contains("too slow: below 1024 bytes in 1 s"), "{session}");
    assert_eq!(parts(&lab).len(), 1);
    // One that takes nothing.
    let mut deaf = Raw::connect(&server.address);
    assert_eq!(deaf.ask(Request { size: 1 << 30, ..Request::new(Kind::Generate, "") }).status, Status::Go);
    let session = server.session();
    assert!(text(&session, "message").contains("too slow"), "{session}");
}

#[test]
fn a_controller_that_has_no_half_there() {
    let lab = Lab::new();
    let server = Server::new(&lab, &[]);
    for half in ["copa", "none", "sprout:none=1", "mdi:model=/etc/passwd", "/etc/passwd"] {
        let mut raw = Raw::connect(&server.address);
        let request = Request { size: 10, half: half.to_owned(), ..Request::new(Kind::Discard, "") };
        let answer = raw.ask(request);
        assert_eq!(answer.status, Status::Refused, "{half}: {answer:?}");
        assert!(answer.message.starts_with(&format!("controller {half}: ")), "{answer:?}");
    }
}

#[test]
fn who_says_nothing_keeps_no_one_out() {
    let lab = Lab::new();
    let good = token(&lab, &["--new-key"]);
    let mut server = Server::new(&lab, &["--key", "key"]);
    // More than there may be: those that have waited longest are refused.
    let idle: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    for _ in 0..10 {
        done(&lab, &["send", "--bytes", "1000", &server.address, "--token", &good]);
    }
    let told = (0..55).map(|_| server.session()).find(|session| text(session, "status") == "busy");
    assert!(told.is_some_and(|session| text(&session, "message").contains("too many sessions run")));
    let mut first = &idle[0];
    let mut heard = Vec::new();
    // It acknowledges nothing, so the end may be a reset.
    let _ = first.read_to_end(&mut heard);
    assert!(String::from_utf8_lossy(&heard).contains("too many sessions run"), "{heard:?}");
}

#[test]
fn of_sessions_each_scope_has_its_share_and_who_has_too_many_hears_it() {
    let lab = Lab::new();
    token(&lab, &["--new-key", "--scope", "cam1-"]);
    let server = Server::new(&lab, &["--key", "key"]);
    let tokens: [Token; 2] = ["cam1-", "cam2-"].map(|scope| token(&lab, &["--scope", scope]).parse().unwrap());
    let begin = |token: &Token, number: u8| {
        let raw = Raw::connect(&server.address);
        let mut raw = raw.with(token.clone());
        let answer = raw.ask(put(&format!("{}{number}", token.scope()), 1000, number));
        (raw, answer)
    };
    let mut held = Vec::new();
    for number in 0..64 {
        let (raw, answer) = begin(&tokens[0], number);
        assert_eq!(answer.status, Status::Go, "{number}: {answer:?}");
        held.push(raw);
    }
    let (_, answer) = begin(&tokens[0], 64);
    assert_eq!((answer.status, answer.message.as_str()), (Status::Busy, "too many sessions run; try again later"));
    let (_raw, answer) = begin(&tokens[1], 0);
    assert_eq!(answer.status, Status::Go, "{answer:?}");
}

#[test]
fn half_uploads_of_one_scope_take_no_room_from_another() {
    let lab = Lab::new();
    token(&lab, &["--new-key", "--scope", "cam1-"]);
    let server = Server::new(&lab, &["--key", "key"]);
    let tokens: [Token; 2] = ["cam1-", "cam2-"].map(|scope| token(&lab, &["--scope", scope]).parse().unwrap());
    let begin = |token: &Token, number: u8, bytes: usize| {
        let mut raw = Raw::connect(&server.address).with(token.clone());
        let answer = raw.ask(put(&format!("{}{number}", token.scope()), 100_000, number));
        assert!(bytes == 0 || raw.send(&vec![1; bytes]));
        raw.socket.push();
        // What was sent arrives before the end.
        while bytes > 0 && raw.socket.stats().queued + raw.socket.stats().in_flight > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        answer
    };
    assert_eq!(begin(&tokens[1], 0, 50_000).status, Status::Go);
    let refused = (0..135).map(|number| begin(&tokens[0], number, 0)).filter(|answer| answer.status == Status::Busy);
    assert_eq!(refused.count(), 135 - 128);
    // Until the first connection has ended there too.
    let again = (0..200).map(|_| begin(&tokens[1], 0, 0)).find(|answer| answer.number >= 50_000);
    assert!(again.is_some_and(|answer| answer.status == Status::Go && answer.number == 50_000));
}
