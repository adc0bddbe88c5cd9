//! Programs under the preloaded library, and clients that compare what they get byte by byte (by SHA-256).
#![allow(dead_code, reason = "each test binary uses a part")]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for a busy machine: nothing waits for it unless something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Nobody's user and group.
const NOBODY: u32 = 65534;

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Whether programs run as another user than the tests: these are root's, and there is another. A user namespace may have
/// a single one; it is an ordinary user then.
pub(crate) fn lowers_rights() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let inside = |row: &str| {
        let mut numbers = row.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
        let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some((first..first.saturating_add(count)).contains(&NOBODY))
    };
    is_root() && map.lines().any(|row| inside(row) == Some(true))
}

/// A folder of this process where every user may look. It is removed at the end.
#[expect(unsafe_code, reason = "no safe call runs at the end of a process")]
fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    extern "C" fn remove() {
        let _ = PLACE.get().map(std::fs::remove_dir_all);
    }
    PLACE.get_or_init(|| {
        let made = tempfile::Builder::new().prefix("paceline-shim").tempdir().unwrap().keep();
        std::fs::set_permissions(&made, Permissions::from_mode(0o755)).unwrap();
        // SAFETY: the function is of this program.
        unsafe { libc::atexit(remove) };
        made
    })
}

/// The library under test, which is beside this test's executable: a copy that every user may read.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let found = [deps.join("libpaceline_shim.so"), deps.parent().unwrap().join("libpaceline_shim.so")];
        let found = found.into_iter().find(|path| path.exists()).expect("built with the tests");
        let copy = place().join("libpaceline_shim.so");
        std::fs::copy(found, &copy).unwrap();
        std::fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
        copy
    })
}

/// Says that a test cannot run here; it is counted as skipped.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// Where a program is, if it is installed: first where every user may look.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(PathBuf::from).into_iter();
    let places = places.chain(std::env::split_paths(&path));
    places.map(|place| place.join(program)).find(|file| file.is_file())
}

/// A folder of this test run, in which the programs may write.
pub(crate) fn folder(name: &str) -> tempfile::TempDir {
    let made = tempfile::Builder::new().prefix(name).tempdir_in(place()).unwrap();
    std::fs::set_permissions(made.path(), Permissions::from_mode(0o755)).unwrap();
    give(made.path());
    made
}

/// Makes it the user's by whom programs run.
pub(crate) fn give(path: &Path) {
    if lowers_rights() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// The server of `programs/serve.c`, compiled; `None` without a C compiler.
pub(crate) fn server() -> Option<&'static Path> {
    static SERVER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compile = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/serve.c");
        let program = place().join("serve");
        let compiler = installed("cc")?;
        let mut command = Command::new(compiler);
        command.args(["-O1", "-w", "-pthread", "-D_FORTIFY_SOURCE=2", "-o"]).arg(&program).arg(source);
        assert!(command.status().unwrap().success(), "serve.c does not compile");
        Some(program)
    };
    SERVER.get_or_init(compile).as_deref()
}

/// Letters that look random, the same each time.
pub(crate) fn letters(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'0' + ((state >> 33) % 75) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// SHA-256 of a stream, and its length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) len: usize,
    pub(crate) sha256: String,
}

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::read(bytes).unwrap()
    }

    /// Reads to the end.
    pub(crate) fn read(mut from: impl Read) -> std::io::Result<Self> {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        let mut buffer = vec![0; 1 << 16];
        let mut len = 0;
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    context.update(&buffer[..count]);
                    len += count;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let sha256 = context.finish().as_ref().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Ok(Self { len, sha256 })
    }
}

/// A command that runs under the library, as an ordinary user.
pub(crate) fn shimmed(program: impl AsRef<OsStr>, variables: &[(&str, &str)]) -> Command {
    let mut command = shimmed_as_we_are(program, variables);
    if lowers_rights() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// A command that runs under the library, as the user that the tests are run by.
pub(crate) fn shimmed_as_we_are(program: impl AsRef<OsStr>, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PACELINE_")) {
        command.env_remove(name);
    }
    command.env("LD_PRELOAD", library()).env("PACELINE_QUIET", "1").envs(variables.iter().copied());
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// Names of the threads of a process; none when it is gone.
pub(crate) fn threads(process: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// A program that is ended with the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the program does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill").arg(format!("-{name}")).arg(self.0.id().to_string()).status().unwrap();
        assert!(done.success());
    }

    /// Its open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.0.id())).unwrap().count()
    }

    /// Names of its threads.
    pub(crate) fn threads(&self) -> Vec<String> {
        threads(self.0.id())
    }

    /// It, what it has started, and what that has started.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let all =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let parent = |process: u32| -> Option<u32> {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
        };
        let pairs: Vec<(u32, u32)> = all.filter_map(|process| Some((process, parent(process)?))).collect();
        let (mut family, mut at) = (vec![self.0.id()], 0);
        while at < family.len() {
            let of = family[at];
            family.extend(pairs.iter().filter(|(_, parent)| *parent == of).map(|(process, _)| process));
            at += 1;
        }
        family
    }

    /// User and system time so far, in clock ticks.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Whether its first thread waits for something, and not for a processor.
    fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
    }

    /// Waits until it waits: its queue is full, and no one reads. The engine may still look after what the kernel has.
    pub(crate) fn settle(&self) {
        let (begun, mut since, mut last) = (Instant::now(), Instant::now(), self.ticks());
        while since.elapsed() < Duration::from_millis(300) {
            assert!(begun.elapsed() < PATIENCE, "the program does not come to rest");
            thread::sleep(Duration::from_millis(20));
            let ticks = self.ticks();
            if ticks != last || !self.sleeps() {
                (since, last) = (Instant::now(), ticks);
            }
        }
    }

    /// Memory in use, in kB.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // With its workers.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `serve METHOD FILE COUNT` under the library, and its port.
pub(crate) fn serve(method: &str, file: &Path, count: usize, variables: &[(&str, &str)]) -> Option<(Running, u16)> {
    serve_with(method, file, count, variables, &[])
}

pub(crate) fn serve_with(
    method: &str,
    file: &Path,
    count: usize,
    variables: &[(&str, &str)],
    more: &[&str],
) -> Option<(Running, u16)> {
    let mut command = shimmed(server()?, variables);
    command.arg(method).arg(file).arg(count.to_string()).args(more).stdout(Stdio::piped());
    let mut child = Running(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap_or_else(|_| panic!("{method}: no port: {line:?}"));
    Some((child, port))
}

/// A connection whose reads give up in the end.
pub(crate) fn connect(port: u16) -> TcpStream {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The same with a receive buffer that holds little, so that the sender soon has to wait.
pub(crate) fn connect_narrow(port: u16) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(32 * 1024).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.into()
}
