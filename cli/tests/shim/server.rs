//! Servers under the shim, that end with the test.

use paceline_fixture::free_port;
use paceline_linux::listening;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::bench::{self, NOBODY, PATIENCE, Run, Running, eventually, has_other_users, skipped};

/// The preloaded library: where cargo has what members of the workspace need of each other, or beside the command.
fn built() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_BIN_EXE_paceline")).parent()?;
    let places = [folder.join("deps"), folder.to_owned()];
    places.iter().map(|place| place.join("libpaceline_shim.so")).find(|place| place.exists())
}

/// The preloaded library; without it a test is skipped.
pub(crate) fn library(test: &str) -> Option<PathBuf> {
    let built = built();
    if built.is_none() {
        skipped(test, "libpaceline_shim.so is not built (cargo build -p paceline-shim)");
    }
    built
}

/// A run of `paceline shim` with the library of this build.
pub(crate) fn shim(options: &[&str]) -> Run {
    let run = bench::paceline().args(["shim"]).args(options);
    match built() {
        Some(library) => run.env("PACELINE_SHIM", &library.display().to_string()),
        None => run,
    }
}

/// nginx's workers stay who they are where there is no one else to be.
pub(crate) fn nginx_user() -> &'static str {
    if has_other_users() { "" } else { "user root;" }
}

/// With `REFUSE_STAMPS` set, under a filter as containers have them: setting `SO_TIMESTAMPING` (37, 65) fails with `EPERM`.
const PYTHON: &str = "import ctypes, http.server, os, platform, socket, struct, sys
if os.environ.pop('REFUSE_STAMPS', None):
    setsockopt = {'x86_64': 54, 'aarch64': 208}[platform.machine()]
    allow, refuse = 0x7fff0000, 0x50001
    lines = [(0x20, 0, 0, 0), (0x15, 0, 4, setsockopt), (0x20, 0, 0, 32), (0x15, 1, 0, 37), (0x15, 0, 1, 65),
             (6, 0, 0, refuse), (6, 0, 0, allow)]
    code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack('HP', len(lines), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None).prctl
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(program), 0, 0):
        sys.exit('no filter')
    # A container's is there before the program.
    os.execv(sys.executable, sys.orig_argv)
server = http.server.ThreadingHTTPServer(('0.0.0.0', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'cubic')
server.serve_forever()
";

/// A server and what it serves: one file, `data`.
pub(crate) struct Server {
    running: Running,
    pub(crate) port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    /// Python's, which copies every byte through a `send`, above CUBIC whatever the machine's default.
    pub(crate) fn python(bytes: usize, run: Run) -> Self {
        let (port, folder) = (free_port(), data(bytes));
        fs::write(folder.path().join("serve.py"), PYTHON).unwrap();
        let directory = folder.path().display().to_string();
        let text = format!("cd {directory} && exec python3 serve.py {port} >/dev/null 2>&1");
        Self { running: run.args(["--", "sh", "-c", &text]).start(), port, folder }.ready()
    }

    /// nginx with a master and a worker, with or without sendfile.
    pub(crate) fn nginx(bytes: usize, sendfile: bool, run: Run) -> Self {
        let (port, folder) = (free_port(), data(bytes));
        let directory = folder.path().display().to_string();
        let sendfile = if sendfile { "on" } else { "off" };
        let bodies: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {directory}/{name};"))
            .concat();
        let text = format!(
            "{} daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/errors; events {{}}\n\
             http {{ access_log off; sendfile {sendfile}; {bodies} server {{ listen {port}; root {directory}; }} }}\n",
            nginx_user()
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let errors = format!("{directory}/errors");
        Self { running: run.args(["--", "nginx", "-c", &file, "-e", &errors]).start(), port, folder }.ready()
    }

    /// Whatever a shell runs, with files beside `data`; in these and in the command `{dir}` is the folder.
    pub(crate) fn of(bytes: usize, port: u16, files: &[(&str, String)], run: Run, command: &str) -> Self {
        let folder = data(bytes);
        if has_other_users() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let directory = folder.path().display().to_string();
        for (name, text) in files {
            fs::write(folder.path().join(name), text.replace("{dir}", &directory)).unwrap();
            if has_other_users() {
                // vsftpd refuses another's.
                chown(folder.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let command = command.replace("{dir}", &directory);
        Self { running: run.args(["--", "sh", "-c", &command]).start(), port, folder }.ready()
    }

    fn ready(self) -> Self {
        assert!(eventually(PATIENCE, || listening::at(self.port)), "the server does not listen");
        self
    }

    /// Tells it to end.
    pub(crate) fn stop(&self) {
        self.running.signal("TERM");
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.running.id())).unwrap().count()
    }

    /// What it wrote to its file of errors, where it has one.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default()
    }

    pub(crate) fn directory(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// SHA-256 of the file.
    pub(crate) fn sum(&self) -> String {
        let output = Command::new("sha256sum").arg(self.data()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // nginx ends its workers. It may have ended already.
        let _ = Command::new("kill").arg(self.running.id().to_string()).stderr(Stdio::null()).status();
        let _ = self.running.wait();
    }
}

/// A folder with a file that is nowhere the same.
fn data(bytes: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("data"), paceline_fixture::bytes(bytes)).unwrap();
    folder
}

/// What `paceline top --once --json` tells of the connections of a port.
pub(crate) fn top(port: u16) -> Vec<Value> {
    let output = bench::paceline().args(["top", "--once", "--json"]).bounded();
    let text = String::from_utf8(output.stdout).unwrap();
    let end = format!(":{port}");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["local"].as_str().is_some_and(|local| local.ends_with(&end))).collect()
}

/// What Prometheus would get.
pub(crate) fn scrape(port: u16) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
