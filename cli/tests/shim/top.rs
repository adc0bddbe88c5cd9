//! `paceline top` and the metrics where other users would harm or hide: needs root, and users and namespaces to be others in.

use paceline_fixture::free_port;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::bench::{NOBODY, PATIENCE, Run, eventually, has_other_users, missing, needs_root, paceline, skipped};
use crate::server::{Server, library, scrape, shim};

/// A process that ends with the test, after its first line of output.
struct Other {
    child: Child,
}

impl Other {
    /// `None` when it ended before it said anything.
    fn start(command: &mut Command) -> Option<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
        let other = Self { child };
        (line == "ready\n").then_some(other)
    }

    fn python(script: &str, args: &[&str]) -> Option<Self> {
        Self::start(Command::new("python3").arg("-c").arg(script).args(args))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // All of these end when their input does; one that does not is killed.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of some user's where its programs would listen, as it makes it itself; gone with the test.
struct Home(PathBuf);

impl Home {
    /// `None` when there is something already that this test has not made.
    fn new(user: u32, owner: u32) -> Option<Self> {
        let path = PathBuf::from(format!("/tmp/paceline-{user}"));
        fs::create_dir(&path).ok()?;
        let home = Self(path);
        chown(&home.0, Some(owner), Some(owner)).ok()?;
        fs::set_permissions(&home.0, fs::Permissions::from_mode(0o700)).ok()?;
        Some(home)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A user that no other test is, nor anybody else.
fn stranger(number: u32) -> u32 {
    300_000 + (std::process::id() * 8 + number) % 1_000_000
}

fn lacks(test: &str) -> bool {
    if needs_root(test) {
        return true;
    }
    if !has_other_users() {
        skipped(test, "there are no other users");
        return true;
    }
    let lacking = missing("python3");
    if lacking.is_some() {
        skipped(test, "it needs python3");
    }
    lacking.is_some()
}

/// What `paceline top --once` prints.
fn top(run: Run) -> String {
    let output = run.args(["top", "--once"]).bounded();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A daemon's socket: who called listen() has ended, its child serves.
const DAEMON: &str = "import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
if os.fork():
    os.wait()
    print('ready', flush=True)
else:
    listener.listen(5)
    if os.fork():
        os._exit(0)
sys.stdin.read()
";

/// Sockets that never answer, of a user.
const SILENT: &str = "import os, socket, sys
folder, user, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.setgid(user), os.setuid(user)
listeners = []
for number in range(count):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind('%s/%d.sock' % (folder, 1 + number))
    listener.listen(5)
    listeners.append(listener)
print('ready', flush=True)
sys.stdin.read()
";

#[test]
fn nothing_is_removed_in_the_mount_namespace_of_another_user() {
    let test = "nothing_is_removed_in_the_mount_namespace_of_another_user";
    if lacks(test) {
        return;
    }
    let victim = tempfile::tempdir().unwrap();
    fs::set_permissions(victim.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // A name that is asked, and one that is not.
    let sockets = ["77.sock", "admin.sock"].map(|name| victim.path().join(name));
    let _daemons = sockets.clone().map(|path| Other::python(DAEMON, &[path.to_str().unwrap()]).unwrap());
    fs::set_permissions(victim.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let work = tempfile::tempdir().unwrap();
    fs::set_permissions(work.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for name in ["paceline-x", "paceline-0", "paceline-65534"] {
        let bind = format!(
            "mount -t tmpfs none $0 && mkdir $0/{name} && mount --bind $1 $0/{name} && mount --rbind $0 /tmp && \
             echo ready && cat"
        );
        let user = NOBODY.to_string();
        let mut other = Command::new("setpriv");
        other.args(["--reuid", &user, "--regid", &user, "--clear-groups", "unshare", "-Urm", "sh", "-c", &bind]);
        let Some(_other) = Other::start(other.arg(work.path()).arg(victim.path())) else {
            return skipped(test, "an ordinary user can make no user namespace here");
        };
        top(paceline());
        for socket in &sockets {
            let there = fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket());
            assert!(there, "{}, seen as {name}", socket.display());
        }
    }
}

#[test]
fn silent_programs_cost_a_second_together_and_are_counted() {
    let test = "silent_programs_cost_a_second_together_and_are_counted";
    if lacks(test) {
        return;
    }
    let user = stranger(1);
    let Some(home) = Home::new(user, user) else { return skipped(test, "/tmp/paceline-UID cannot be made") };
    let _silent = Other::python(SILENT, &[home.0.to_str().unwrap(), &user.to_string(), "70"]).unwrap();
    let line = format!("70 programs of uid {user} did not answer");
    // One after the other they take more than a minute, which `bounded` does not grant.
    let said = top(paceline());
    assert!(said.lines().any(|said| said == line), "{said}");
    let output = paceline().args(["top", "--once", "--json"]).bounded();
    let (out, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{out}");
    assert!(error.lines().any(|said| said == format!("paceline: {line}")), "{error}");
}

#[test]
fn a_scrape_counts_the_silent_and_waits_for_all_together() {
    let test = "a_scrape_counts_the_silent_and_waits_for_all_together";
    if lacks(test) || library(test).is_none() {
        return;
    }
    let user = stranger(2);
    let Some(home) = Home::new(user, user) else { return skipped(test, "/tmp/paceline-UID cannot be made") };
    let _silent = Other::python(SILENT, &[home.0.to_str().unwrap(), &user.to_string(), "30"]).unwrap();
    let metrics = free_port();
    let server = Server::python(100_000, shim(&["--cc", "copa", "--metrics", &metrics.to_string()]));
    fetch(server.port);
    // Read with a patience of 20 s, and a connection has 5 s: one after the other there is no answer.
    let text = scrape(metrics);
    assert!(text.contains(&format!("paceline_silent_programs{{uid=\"{user}\"}} 30\n")), "{text}");
    assert!(text.contains("paceline_silent_programs{uid=\"0\"} 0\n") && text.contains("program=\"python"), "{text}");
}

#[test]
fn many_files_are_not_all_looked_at() {
    let test = "many_files_are_not_all_looked_at";
    if lacks(test) {
        return;
    }
    let user = stranger(3);
    let Some(home) = Home::new(user, user) else { return skipped(test, "/tmp/paceline-UID cannot be made") };
    let _silent = Other::python(SILENT, &[home.0.to_str().unwrap(), &user.to_string(), "1"]).unwrap();
    for number in 1..3000 {
        fs::hard_link(home.0.join("1.sock"), home.0.join(format!("{}.sock", 10_000 + number))).unwrap();
    }
    let said = top(paceline());
    let line = format!("uid {user} has more than 1024 sockets; the others were not asked");
    assert!(said.lines().any(|said| said == line), "{said}");
}

#[test]
fn only_what_the_folders_user_listens_at_is_asked() {
    let test = "only_what_the_folders_user_listens_at_is_asked";
    if lacks(test) {
        return;
    }
    let (user, other) = (stranger(4), stranger(5));
    let Some(home) = Home::new(user, user) else { return skipped(test, "/tmp/paceline-UID cannot be made") };
    // A process of the user, so that its folder is looked at; its socket is held by another's.
    const IMPOSTOR: &str = "import os, socket, sys
path, user, other = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
answer = b'{\"pid\":1,\"program\":\"impostor\",\"version\":\"0\"}\\n{\"peer\":\"192.0.2.1:5\"}\\n'
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chown(path, user, user)
parent, (listening, ready) = os.getpid(), os.pipe()
if os.fork():
    os.read(listening, 1)
    os.setuid(user)
    print('ready', flush=True)
    sys.stdin.read()
else:
    os.setuid(other)
    listener.listen(5)
    os.write(ready, b'.')
    listener.settimeout(0.1)
    while os.getppid() == parent:
        try:
            listener.accept()[0].sendall(answer)
        except TimeoutError:
            pass
";
    let path = home.0.join("1.sock");
    let impostor = Other::python(IMPOSTOR, &[path.to_str().unwrap(), &user.to_string(), &other.to_string()]).unwrap();
    let said = top(paceline());
    assert!(!said.contains("impostor"), "{said}");
    assert!(said.contains(&format!("1 program of uid {user} did not answer")), "{said}");
    drop(impostor);
}

#[test]
fn a_folder_that_is_taken_is_told() {
    let test = "a_folder_that_is_taken_is_told";
    let Some(library) = library(test) else { return };
    if lacks(test) {
        return;
    }
    let user = stranger(6);
    let Some(home) = Home::new(user, NOBODY) else { return skipped(test, "/tmp/paceline-UID cannot be made") };
    let (port, files) = (free_port(), tempfile::tempdir().unwrap());
    fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = files.path().join("libpaceline_shim.so");
    fs::copy(library, &copy).unwrap();
    let serve = |runtime: Option<&Path>| {
        let log = files.path().join(format!("log{}", runtime.is_some()));
        fs::write(&log, "").unwrap();
        chown(&log, Some(user), Some(user)).unwrap();
        let mut command = Command::new("python3");
        command.args(["-c", HOLD, &user.to_string(), &port.to_string()]);
        command.env("LD_PRELOAD", &copy).env("PACELINE_LOG", &log).env_remove("XDG_RUNTIME_DIR");
        command.envs(runtime.map(|runtime| ("XDG_RUNTIME_DIR", runtime)));
        let server = Other::start(&mut command).expect("a server");
        // It is answered, so that the library begins its work.
        TcpStream::connect(("127.0.0.1", port)).unwrap().read_exact(&mut [0; 5]).unwrap();
        (server, log)
    };
    let (server, log) = serve(None);
    let line = format!("/tmp/paceline-{user} belongs to uid {NOBODY}");
    let said = || fs::read_to_string(&log).unwrap();
    assert!(eventually(PATIENCE, || said().contains(&line)), "{}", said());
    assert_eq!(said().lines().filter(|said| said.contains("set XDG_RUNTIME_DIR")).count(), 1, "{}", said());
    let shown = top(paceline());
    assert!(shown.lines().any(|shown| shown == format!("programs of uid {user} may be hidden: {line}")), "{shown}");
    drop(server);

    // With a place of its own it is seen by its user, and root finds it where such places are.
    let runtime = files.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    chown(&runtime, Some(user), Some(user)).unwrap();
    let (server, log) = serve(Some(&runtime));
    let socket = runtime.join(format!("paceline-{user}/{}.sock", server.child.id()));
    assert!(eventually(PATIENCE, || socket.exists()), "{}", fs::read_to_string(log).unwrap());
    drop((server, home));
}

/// Asks a server on this machine for its file, so that the library begins its work.
fn fetch(port: u16) {
    let script = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=50).read()";
    let url = format!("http://127.0.0.1:{port}/data");
    assert!(Command::new("python3").args(["-c", script, &url]).status().unwrap().success());
}

#[test]
fn programs_in_a_mount_namespace_of_their_own_are_shown() {
    let test = "programs_in_a_mount_namespace_of_their_own_are_shown";
    let Some(library) = library(test) else { return };
    if lacks(test) {
        return;
    }
    let (port, files, user) = (free_port(), tempfile::tempdir().unwrap(), stranger(7));
    fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = files.path().join("libpaceline_shim.so");
    fs::copy(library, &copy).unwrap();
    // As in a container, of root's and of a user's.
    let private = "mount --make-rprivate / && mkdir $0/tmp $0/run && chmod 1777 $0/tmp && mount --bind $0/run /run && \
                   mount --bind $0/tmp /tmp && exec \"$@\"";
    for (number, user) in [0, user].into_iter().enumerate() {
        let port = port + number as u16;
        let folder = files.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        let hold = format!("exec 3<{}; exec \"$@\"", files.path().display());
        let mut command = Command::new("sh");
        command.current_dir("/").args([
            "-c",
            &hold,
            "sh",
            "unshare",
            "-m",
            "sh",
            "-c",
            private,
            folder.to_str().unwrap(),
        ]);
        command.args(["env", "LD_PRELOAD=/proc/self/fd/3/libpaceline_shim.so", "PACELINE_QUIET=1"]);
        command.args(["python3", "-c", HOLD, &user.to_string(), &port.to_string()]);
        let Some(server) = Other::start(&mut command) else {
            return skipped(test, "a mount namespace cannot be made here");
        };
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let pid = server.child.id().to_string();
        let mut said = String::new();
        let shown = eventually(Duration::from_secs(30), || {
            said = top(paceline());
            said.lines().any(|row| row.split_whitespace().next() == Some(&pid))
        });
        assert!(shown, "{pid}: {said}");
        drop((client, server));
    }
}

#[test]
fn programs_below_without_the_library_are_counted() {
    let test = "programs_below_without_the_library_are_counted";
    if library(test).is_none() {
        return;
    }
    // As masters do that clean the environment of what they start. By this name it is the first that is said.
    let folder = tempfile::tempdir().unwrap();
    let sleep = folder.path().join("0sleep");
    fs::copy("/bin/sleep", &sleep).unwrap();
    let script = format!("env -i {} 300 & echo $!; wait", sleep.display());
    let mut server = shim(&[]).args(["--", "sh", "-c", &script]).start();
    let sleeps = server.line();
    let mut said = String::new();
    let told = eventually(PATIENCE, || {
        said = top(paceline());
        said.contains("below one with the library") && said.contains(&format!("0sleep ({sleeps})"))
    });
    assert!(told, "{sleeps}: {said}");
}

/// Writes to each connection and keeps it, as another user.
const HOLD: &str = "import os, socket, sys
os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
listener = socket.create_server(('127.0.0.1', int(sys.argv[2])))
print('ready', flush=True)
kept = []
while True:
    kept.append(listener.accept()[0])
    kept[-1].sendall(bytes(20000))
";
