//! What `paceline serve` does when two want one name, and when its host has nothing left to give.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use paceline_cc::Nanos;
use paceline_linux::clock::Clock;
use paceline_udp::transfer::{Content, TransferError, TransferPlan, Transferred, give};
use paceline_udp::wire::control::{Hello, SessionJob};
use paceline_udp::{Channel, HandshakeError, Offload, connect};

use crate::lab::{Lab, names, refusal};
use crate::udp::Server;

/// Long enough on a slow machine: only a failure waits for it.
const LIMIT: Nanos = Nanos::from_secs(60);

/// A client in this process, which goes on when the test lets it.
struct Client {
    clock: Clock,
    plan: TransferPlan,
    channel: Channel,
}

impl Client {
    fn new(address: &str, job: SessionJob, bytes: Option<u64>, name: &str) -> Result<Self, HandshakeError> {
        let clock = Clock::new();
        let hello = Hello {
            random: [0; 16],
            cookie: None,
            job,
            mss: 1400,
            arrivals: true,
            ack_every: 1,
            bytes,
            controller: "reno".to_owned(),
            name: name.to_owned(),
        };
        let plan = TransferPlan::of(&hello, LIMIT).unwrap();
        let (channel, _) = connect(address.parse().unwrap(), None, hello, Offload::NONE, clock, LIMIT)?;
        Ok(Self { clock, plan, channel })
    }

    fn send(self, content: fs::File) -> Result<Transferred, TransferError> {
        let bytes = content.metadata().unwrap().len();
        give(self.channel, self.clock, &self.plan, Content::File(content, bytes), None, LIMIT, &mut |_| {})
    }
}

#[test]
fn of_two_that_send_one_name_one_is_refused() {
    let lab = Lab::new();
    for folder in ["one", "two"] {
        fs::create_dir(lab.path(folder)).unwrap();
        fs::write(lab.path(folder).join("same"), folder.repeat(100_000)).unwrap();
    }
    fs::create_dir(lab.path("kept")).unwrap();
    let server = Server::new(&lab, &["--dir", "kept"]);
    let first = Client::new(&server.address, SessionJob::Store, Some(300_000), "same").unwrap();
    let second = refusal(&lab.run(&["send", "two/same", &server.address]));
    assert!(second.contains("refuses: same is on its way there already"), "{second}");
    assert!(first.send(fs::File::open(lab.path("one/same")).unwrap()).unwrap().verified);
    let third = refusal(&lab.run(&["send", "two/same", &server.address]));
    assert!(third.contains("refuses: same is there already"), "{third}");
    assert_eq!(fs::read(lab.path("kept/same")).unwrap(), "one".repeat(100_000).as_bytes());
    assert_eq!(names(&lab.path("kept")), ["same"]);

    // Both at once, in either order.
    fs::remove_file(lab.path("kept/same")).unwrap();
    let send = |folder: &str| {
        let file = format!("{folder}/same");
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["send", &file, &server.address]).current_dir(lab.folder.path()).spawn().unwrap()
    };
    let clients = [send("one"), send("two")];
    let mut codes = clients.map(|mut client| client.wait().unwrap().code());
    let winner = if codes[0] == Some(0) { "one" } else { "two" };
    codes.sort();
    assert_eq!(codes, [Some(0), Some(2)]);
    assert_eq!(fs::read(lab.path("kept/same")).unwrap(), winner.repeat(100_000).as_bytes());
    assert_eq!(names(&lab.path("kept")), ["same"]);
}

#[test]
fn a_name_that_appears_meanwhile_stays_and_the_sender_hears_of_it() {
    let lab = Lab::new();
    fs::write(lab.path("movie"), "m".repeat(100_000)).unwrap();
    fs::create_dir(lab.path("kept")).unwrap();
    let mut server = Server::new(&lab, &["--dir", "kept"]);
    let mut complaints = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let begin = || Client::new(&server.address, SessionJob::Store, Some(100_000), "movie").unwrap();
    let movie = || fs::File::open(lab.path("movie")).unwrap();
    let client = begin();
    fs::write(lab.path("kept/movie"), "old").unwrap();
    assert!(matches!(client.send(movie()), Err(TransferError::Taken)));
    assert_eq!(fs::read(lab.path("kept/movie")).unwrap(), b"old");

    // A link that leads nowhere is something too.
    fs::remove_file(lab.path("kept/movie")).unwrap();
    let client = begin();
    symlink(lab.path("elsewhere"), lab.path("kept/movie")).unwrap();
    assert!(matches!(client.send(movie()), Err(TransferError::Taken)));
    assert!(refusal(&lab.run(&["send", "movie", &server.address])).contains("movie is there already"));
    assert!(!lab.path("elsewhere").exists());

    fs::remove_file(lab.path("kept/movie")).unwrap();
    assert!(begin().send(movie()).unwrap().verified);
    assert_eq!(names(&lab.path("kept")), ["movie"]);
    for _ in 0..2 {
        let line = complaints.next().unwrap().unwrap();
        assert!(line.contains("a file of this name appeared there meanwhile"), "{line}");
    }
}

/// Asks for more sessions than the server's host has room for, and for one more once these have gone; answers what the
/// server complained of.
fn crowd(mut server: Server, lab: &Lab) -> String {
    let asked: Vec<_> = (0..40).map(|_| Client::new(&server.address, SessionJob::Discard, None, "")).collect();
    let (clients, refused): (Vec<_>, Vec<_>) = asked.into_iter().partition(Result::is_ok);
    assert!(!clients.is_empty() && !refused.is_empty(), "{} sessions, {} refused", clients.len(), refused.len());
    for refusal in refused {
        let text = refusal.err().unwrap().to_string();
        assert!(text.contains("refuses: it has no room for another session now; try again later"), "{text}");
    }
    drop(clients);
    let served = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        assert!(server.child.try_wait().unwrap().is_none(), "the server goes on");
        lab.run(&["send", "--bytes", "1000", &server.address]).status.success()
    });
    assert!(served, "there is room again");
    server.stop()
}

fn lines<'a>(complaints: &'a str, of: &str) -> Vec<&'a str> {
    complaints.lines().filter(|line| line.contains(of)).collect()
}

#[test]
fn a_server_without_descriptors_goes_on() {
    let lab = Lab::new();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 24 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_paceline")]);
    let server = Server::start(command.args(["serve", "--listen", "127.0.0.1:0", "--timeout", "2"]), &lab);
    let complaints = crowd(server, &lab);
    let said = lines(&complaints, "Too many open files");
    // One each 5 s, however many were refused.
    assert!((1..=6).contains(&said.len()) && said[0].contains("raise the limit of open files"), "{complaints}");
}

#[test]
fn a_server_without_threads_goes_on() {
    let lab = Lab::new();
    fs::set_permissions(lab.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = lab.path("paceline");
    if fs::hard_link(env!("CARGO_BIN_EXE_paceline"), &program).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_paceline"), &program).unwrap();
    }
    // The limit is a user's, and does not bind root: one that runs nothing else.
    let limited = |args: &[&str]| {
        let mut command = Command::new("prlimit");
        command.arg("--nproc=8").arg(&program).args(args).uid(61_234).gid(61_234);
        command
    };
    if !limited(&["--version"]).output().is_ok_and(|output| output.status.success()) {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = std::io::stderr().write_all(
            b"skipped: a_server_without_threads_goes_on: this process cannot be another user, or there is no prlimit\n",
        );
        return;
    }
    let server = Server::start(&mut limited(&["serve", "--listen", "127.0.0.1:0", "--timeout", "2"]), &lab);
    let complaints = crowd(server, &lab);
    let said = lines(&complaints, "no thread");
    assert!((1..=6).contains(&said.len()) && said[0].contains("raise the limit of threads"), "{complaints}");
    assert!(!complaints.contains("panicked"), "{complaints}");
}
