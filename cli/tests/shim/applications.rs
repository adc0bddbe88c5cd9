//! Real applications under the shim as an ordinary user runs it, their clients behind an emulated path: every byte is
//! compared, and each connection's log tells that a controller had it.

use paceline_fixture::free_port;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::bench::{Bench, NOBODY, Run, eventually, has_other_users, needs_root, paceline, skipped};
use crate::server::{Server, library, nginx_user, shim};

/// 24 Mbit/s, 5 ms each way.
const PATH: [&str; 6] = ["--rate", "24Mbit/s", "--delay", "5ms", "--queue", "droptail:500kB"];
/// Bytes that take a second over it.
const BYTES: usize = 3_000_000;
/// Where distributions put programs, which every user may run.
const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const RTMP: &str = "/usr/lib/nginx/modules/ngx_rtmp_module.so";

fn lacks(test: &str, programs: &[&str]) -> bool {
    if needs_root(test) || library(test).is_none() {
        return true;
    }
    let there = |program: &&&str| !PROGRAMS.split(':').any(|place| Path::new(place).join(program).is_file());
    let lacking: Vec<&str> = programs.iter().filter(there).copied().collect();
    if !lacking.is_empty() {
        skipped(test, &format!("it needs {}", lacking.join(", ")));
    }
    !lacking.is_empty()
}

/// What a test needs of `paceline shim`.
struct Shim {
    bench: Bench,
    logs: String,
}

impl Shim {
    fn new() -> Self {
        let bench = Bench::new();
        let logs = bench.path("logs");
        fs::create_dir(&logs).unwrap();
        if has_other_users() {
            chown(&logs, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self { bench, logs }
    }

    /// A run as an ordinary user where there is another than root.
    fn run(&self, options: &[&str]) -> Run {
        let options = [&["--cc", "copa", "--qlog", &self.logs], options].concat();
        if !has_other_users() {
            return shim(&options);
        }
        let place = self.bench.path("libpaceline_shim.so");
        fs::copy(library("").expect("looked for before"), &place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        let run = self.bench.for_everyone().env("PACELINE_SHIM", &place).env("PATH", PROGRAMS);
        run.args(["shim"]).args(&options).ordinary_user()
    }

    /// Some connection of a program was served in a mode, and its controller has decided.
    fn has_served(&self, program: &str, mode: &str) {
        let served = || {
            let files = fs::read_dir(&self.logs).unwrap().flatten();
            let mine = files.filter(|file| file.file_name().to_string_lossy().starts_with(program));
            let mut texts = mine.filter_map(|file| fs::read_to_string(file.path()).ok());
            texts.any(|text| text.contains(&format!("above TCP, mode {mode}")) && text.contains("congestion_window"))
        };
        // A log is whole when its connection is gone.
        assert!(eventually(Duration::from_secs(30), served), "no log of {program} in mode {mode}");
    }
}

/// What a script behind the path prints.
fn behind(script: &str) -> Vec<String> {
    let output = paceline().args(["emulate"]).args(PATH).args(["--", "bash", "-c", script]).bounded();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    eprint!("{said}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Fetches each URL behind the path and compares it.
fn fetches(server: &Server, words: &[String]) {
    let script: String = words.iter().map(|words| format!("curl -sS -k --max-time 50 {words} | sha256sum\n")).collect();
    let sums = behind(&script);
    let whole = sums.len() == words.len() && sums.iter().all(|sum| sum.starts_with(&server.sum()));
    assert!(whole, "{words:?}: {sums:?}\n{}", server.errors());
}

/// nginx in a folder of its own; `{dir}` is this folder.
fn nginx(shim: &Shim, port: u16, blocks: &str) -> Server {
    let bodies: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {{dir}}/{name};"))
        .concat();
    let config = format!(
        "{} daemon off; worker_processes 1; pid {{dir}}/pid; error_log {{dir}}/errors;\n{}",
        nginx_user(),
        blocks.replace("http {", &format!("http {{ access_log off; {bodies}"))
    );
    let files = [("nginx.conf", config)];
    Server::of(BYTES, port, &files, shim.run(&[]), "exec nginx -c {dir}/nginx.conf -e {dir}/errors")
}

#[test]
fn nginx_over_https_with_clients_stalled_and_killed() {
    if lacks("nginx_over_https_with_clients_stalled_and_killed", &["bash", "curl", "nginx", "openssl", "sha256sum"]) {
        return;
    }
    for sendfile in ["on", "off"] {
        let (shim, port, secure) = (Shim::new(), free_port(), free_port());
        let (key, certificate) = (shim.bench.path("key"), shim.bench.path("certificate"));
        let script = format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
             -keyout {key} -out {certificate} 2>/dev/null && chmod a+r {key}"
        );
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
        let blocks = format!(
            "events {{}}\nhttp {{ sendfile {sendfile}; root {{dir}}; server {{ listen {port}; }} \
             server {{ listen {secure} ssl http2; ssl_certificate {certificate}; ssl_certificate_key {key}; }} }}"
        );
        let server = nginx(&shim, port, &blocks);
        let (plain, secure) =
            (format!("http://$PACELINE_BASE:{port}/data"), format!("https://$PACELINE_BASE:{secure}/data"));
        // One reads nothing for five seconds, one is killed, the others go on.
        let script = format!(
            "(curl -sS --max-time 50 {plain} | (sleep 5; sha256sum)) & stalled=$!\n\
             curl -sS -o /dev/null {plain} & killed=$!; sleep 0.5; kill -KILL $killed\n\
             curl -sS -k --max-time 50 --http1.1 {secure} | sha256sum\n\
             curl -sS -k --max-time 50 --http2 {secure} | sha256sum\n\
             wait $stalled"
        );
        let sums = behind(&script);
        assert!(sums.len() == 3 && sums.iter().all(|sum| sum.starts_with(&server.sum())), "{sendfile}: {sums:?}");
        shim.has_served("nginx", "inline");
    }
}

#[test]
fn vsftpd_in_passive_and_active_mode() {
    if lacks("vsftpd_in_passive_and_active_mode", &["bash", "curl", "vsftpd", "sha256sum"]) {
        return;
    }
    let (shim, port) = (Shim::new(), free_port());
    let config = format!(
        "listen=YES\nlisten_port={port}\nbackground=NO\nanonymous_enable=YES\nanon_root={{dir}}/files\n\
         no_anon_password=YES\nlocal_enable=NO\nxferlog_enable=NO\nsecure_chroot_dir={{dir}}/files\n\
         connect_from_port_20=NO\nrun_as_launching_user=YES\npasv_promiscuous=YES\nport_promiscuous=YES\n"
    );
    let command = "mkdir {dir}/files && cp {dir}/data {dir}/files && chmod 555 {dir}/files && exec vsftpd {dir}/config";
    let server = Server::of(BYTES, port, &[("config", config)], shim.run(&[]), command);
    let url = format!("ftp://$PACELINE_BASE:{port}/data");
    fetches(&server, &[url.clone(), format!("--ftp-port - {url}")]);
    shim.has_served("vsftpd", "inline");
}

#[test]
fn python_with_small_writes_many_connections_and_an_end_in_mid_transfer() {
    let test = "python_with_small_writes_many_connections_and_an_end_in_mid_transfer";
    if lacks(test, &["bash", "curl", "python3", "sha256sum"]) {
        return;
    }
    const SERVE: &str = "import http.server, random, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    def copyfile(self, source, to):
        sizes = random.Random(1)
        while piece := source.read(sizes.randint(1, 3000)):
            to.write(piece)
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1000
Server(('0.0.0.0', int(sys.argv[1])), Handler).serve_forever()
";
    const DROP: &str = "import concurrent.futures, os, socket, sys
def drop(number):
    with socket.create_connection((os.environ['PACELINE_BASE'], int(sys.argv[1])), 30) as stream:
        if number % 2:
            stream.sendall(b'GET /data HTTP/1.0\\\\r\\\\n\\\\r\\\\n')
with concurrent.futures.ThreadPoolExecutor(20) as all:
    print(len(list(all.map(drop, range(1000)))))
";
    let (shim, port) = (Shim::new(), free_port());
    let files = [("serve.py", SERVE.to_owned()), ("drop.py", DROP.replace("\\\\", "\\"))];
    let command = format!("cd {{dir}} && exec python3 serve.py {port} >/dev/null 2>errors");
    let server = Server::of(BYTES, port, &files, shim.run(&["--mode", "queue"]), &command);
    let url = format!("http://$PACELINE_BASE:{port}/data");
    fetches(&server, std::slice::from_ref(&url));
    let dropped = behind(&format!("PATH={PROGRAMS} python3 {}/drop.py {port}", server.directory()));
    assert_eq!(dropped, ["1000"]);
    fetches(&server, std::slice::from_ref(&url));
    assert!(eventually(Duration::from_secs(50), || server.descriptors() < 40), "{} left", server.descriptors());
    shim.has_served("python", "queue");

    // Ended in mid-transfer: what has come is a beginning.
    let got = shim.bench.path("got");
    let script = format!("curl -sS --limit-rate 500k --max-time 50 -o {got} {url}; true");
    let mut client = paceline().args(["emulate"]).args(PATH).args(["--", "bash", "-c", &script]).start();
    let length = || fs::metadata(&got).map_or(0, |file| file.len());
    assert!(eventually(Duration::from_secs(30), || length() > 200_000), "{} bytes", length());
    server.stop();
    client.wait();
    let (got, all) = (fs::read(&got).unwrap(), fs::read(server.data()).unwrap());
    assert!(got.len() < all.len() && all.starts_with(&got), "{} bytes", got.len());
}

#[test]
fn iperf3_gets_what_it_asks_for() {
    if lacks("iperf3_gets_what_it_asks_for", &["bash", "iperf3"]) {
        return;
    }
    let (shim, port) = (Shim::new(), free_port());
    let command = format!("exec iperf3 --server --one-off --port {port} >/dev/null");
    let _server = Server::of(0, port, &[], shim.run(&["--mode", "queue"]), &command);
    let report =
        behind(&format!("iperf3 --client $PACELINE_BASE --port {port} --reverse --bytes 3M --json")).join("\n");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let received = report["end"]["sum_received"]["bytes"].as_u64().unwrap_or_else(|| panic!("{report}"));
    assert!(received >= 3 << 20, "{received}");
    shim.has_served("iperf3", "queue");
}

#[test]
fn a_film_and_a_live_one_over_rtmp() {
    let test = "a_film_and_a_live_one_over_rtmp";
    if lacks(test, &["bash", "ffmpeg", "nginx"]) {
        return;
    }
    if !Path::new(RTMP).exists() {
        return skipped(test, "it needs nginx's RTMP module");
    }
    let (shim, port) = (Shim::new(), free_port());
    let film = shim.bench.path("film.flv");
    let hash = "-map 0:v -c copy -f framehash - </dev/null";
    let make = format!(
        "ffmpeg -loglevel error -f lavfi -i testsrc=duration=3:size=320x240:rate=25 -c:v flv -b:v 4M -g 25 {film} \
         </dev/null && chmod a+r {film} && ffmpeg -loglevel error -i {film} {hash}"
    );
    let packets = |lines: Vec<String>| -> Vec<String> {
        let hashes = lines.into_iter().filter(|line| !line.starts_with('#'));
        hashes.filter_map(|line| Some(line.rsplit_once(',')?.1.trim().to_owned())).collect()
    };
    let made = Command::new("sh").args(["-c", &make]).output().unwrap();
    let whole = packets(String::from_utf8(made.stdout).unwrap().lines().map(str::to_owned).collect());
    assert_eq!(whole.len(), 75);
    let folder = Path::new(&film).parent().unwrap().display();
    let blocks = format!(
        "load_module {RTMP};\nevents {{}}\nrtmp {{ access_log off; server {{ listen {port}; application live {{ live on; }} \
         application films {{ play {folder}; }} }} }}"
    );
    let _server = nginx(&shim, port, &blocks);
    let url = format!("rtmp://$PACELINE_BASE:{port}");
    assert_eq!(packets(behind(&format!("ffmpeg -loglevel error -i {url}/films/film.flv {hash}"))), whole);
    // Fed from behind the path as well, again and again, until the other has seen two seconds.
    let live = behind(&format!(
        "ffmpeg -loglevel error -re -stream_loop -1 -i {film} -c copy -f flv {url}/live/one </dev/null & feed=$!\n\
         ffmpeg -loglevel error -rtmp_live live -rw_timeout 20000000 -probesize 32768 -analyzeduration 200000 \
         -i {url}/live/one -t 2 {hash}\nkill -KILL $feed"
    ));
    let seen = packets(live);
    assert!(seen.len() > 10, "{} packets", seen.len());
    let first = whole.iter().position(|hash| *hash == seen[0]).expect("a packet of the film");
    assert!(whole.iter().cycle().skip(first).zip(&seen).all(|(one, other)| one == other), "{seen:?}");
    shim.has_served("nginx", "inline");
}

#[test]
fn curl_uploads() {
    if lacks("curl_uploads", &["bash", "curl"]) {
        return;
    }
    let shim_ = Shim::new();
    let content: Vec<u8> = (0..BYTES).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
    let file = shim_.bench.path("upload");
    fs::write(&file, &content).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let sink = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
        let mut header = Vec::new();
        while !header.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            header.push(byte[0]);
        }
        let mut got = vec![0; BYTES];
        stream.read_exact(&mut got).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        got
    });
    let script = format!(
        "{} shim --cc copa --mode queue --qlog {} -- curl -sS --max-time 50 --http1.1 -H Expect: \
         --upload-file {file} http://$PACELINE_BASE:{port}/",
        env!("CARGO_BIN_EXE_paceline"),
        shim_.logs
    );
    let library = library("").expect("looked for before").display().to_string();
    let output =
        paceline().args(["emulate"]).args(PATH).args(["--", "bash", "-c", &script]).env("PACELINE_SHIM", &library);
    let output = output.bounded();
    assert!(output.status.success(), "{output:?}");
    assert!(sink.join().unwrap() == content);
    shim_.has_served("curl", "queue");
}
