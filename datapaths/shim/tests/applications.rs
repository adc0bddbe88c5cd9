//! Real servers and clients under the library, as the distribution ships them: every byte is compared.

mod common;

use paceline_fixture::{free_port, until};
use paceline_linux::listening;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{
    Digest, Running, connect, connect_narrow, folder, give, installed, is_root, letters, lowers_rights, shimmed,
    shimmed_as_we_are, skip, threads,
};

const LEN: usize = 8_000_000;

/// Starts a server and waits until it listens.
fn start(mut command: Command, port: u16) -> Running {
    let mut server = Running(command.stdout(Stdio::null()).spawn().unwrap());
    until("the server listens", || {
        assert!(server.0.try_wait().unwrap().is_none(), "the server has ended");
        listening::at(port)
    });
    server
}

/// What curl gets.
fn curl(words: &[&str]) -> Digest {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--insecure", "--max-time", "60"]).args(words);
    let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let digest = Digest::read(child.0.stdout.take().unwrap()).unwrap();
    let status = child.wait();
    assert!(status.success(), "curl {words:?}: {status}");
    digest
}

/// Sends a request by hand and reads past the header.
fn request(mut stream: TcpStream, path: &str) -> impl Read {
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        header.push(byte[0]);
    }
    assert!(header.starts_with(b"HTTP/1") && header.windows(5).any(|part| part == b" 200 "), "{header:?}");
    stream
}

/// What every HTTP server must stand: several clients at once, one stalled for five seconds, some killed, many short ones.
fn try_http(port: u16, bytes: &[u8]) {
    let expected = Digest::of(bytes);
    let url = format!("http://127.0.0.1:{port}/file");
    thread::scope(|scope| {
        let stalled = scope.spawn(|| {
            let body = request(connect_narrow(port), "/file");
            thread::sleep(Duration::from_secs(5));
            Digest::read(body).unwrap()
        });
        let plain: Vec<_> = (0..3).map(|_| scope.spawn(|| curl(&[&url]))).collect();
        for _ in 0..5 {
            let mut body = request(connect_narrow(port), "/file");
            body.read_exact(&mut [0; 10_000]).unwrap();
        }
        for _ in 0..100 {
            drop(connect(port));
            assert_eq!(Digest::read(request(connect(port), "/small")).unwrap(), Digest::of(&bytes[..1000]));
        }
        for client in plain {
            assert_eq!(client.join().unwrap(), expected);
        }
        assert_eq!(stalled.join().unwrap(), expected);
    });
    // Two answers on one connection.
    assert_eq!(curl(&[&url, &url]).len, 2 * LEN);
}

/// A client gets a beginning of the file and the end when the server is said to stop.
fn try_stop(mut server: Running, port: u16, bytes: &[u8]) {
    let mut body = request(connect_narrow(port), "/file");
    let mut got = vec![0; 100_000];
    body.read_exact(&mut got).unwrap();
    server.signal("TERM");
    let _ = body.read_to_end(&mut got);
    assert!(bytes.starts_with(&got), "{} bytes", got.len());
    let status = server.wait();
    assert!(status.success() || status.signal() == Some(15), "{status}");
}

/// Writes a file and a small one into a folder.
fn files(folder: &Path) -> Vec<u8> {
    let bytes = letters(LEN, 21);
    std::fs::write(folder.join("file"), &bytes).unwrap();
    std::fs::write(folder.join("small"), &bytes[..1000]).unwrap();
    bytes
}

/// Starts nginx with a server block, in a folder of its own.
fn nginx(test: &str, folder: &Path, port: u16, head: &str, body: &str, variables: &[(&str, &str)]) -> Option<Running> {
    let Some(program) = installed("nginx") else {
        skip(test, "no nginx");
        return None;
    };
    let root = folder.display();
    let user = if is_root() && !lowers_rights() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {root}/{name};\n"))
        .concat();
    // Workers do not know of each other's live films.
    let workers = if body.is_empty() { 1 } else { 2 };
    let http = format!("http {{ access_log off; default_type application/octet-stream; {temporary} {body} }}");
    let config = format!(
        "{head}\n{user}\ndaemon off;\nworker_processes {workers};\npid {root}/pid;\nerror_log {root}/errors info;\n\
         events {{ worker_connections 512; }}\n{http}\n"
    );
    std::fs::write(folder.join("config"), config).unwrap();
    let mut command = shimmed(program, variables);
    command.arg("-e").arg(folder.join("errors")).arg("-p").arg(folder).arg("-c").arg(folder.join("config"));
    Some(start(command, port))
}

fn try_nginx(test: &str, directives: &str, variables: &[(&str, &str)]) {
    let folder = folder(test);
    let bytes = files(folder.path());
    let port = free_port();
    let root = folder.path().display();
    let server = format!("{directives} server {{ listen 127.0.0.1:{port}; location / {{ root {root}; }} }}");
    let Some(server) = nginx(test, folder.path(), port, "", &server, variables) else { return };
    try_http(port, &bytes);
    try_stop(server, port, &bytes);
}

#[test]
fn nginx_without_sendfile() {
    try_nginx("nginx_without_sendfile", "sendfile off;", &[("PACELINE_QUEUE", "1MB")]);
}

#[test]
fn nginx_with_sendfile() {
    try_nginx("nginx_with_sendfile", "sendfile on; tcp_nopush on;", &[]);
}

#[test]
fn nginx_with_sendfile_through_the_queue() {
    let variables = [("PACELINE_MODE", "queue"), ("PACELINE_QUEUE", "300kB")];
    try_nginx("nginx_with_sendfile_through_the_queue", "sendfile on; tcp_nopush on;", &variables);
}

#[test]
fn nginx_inline() {
    try_nginx("nginx_inline", "sendfile off;", &[("PACELINE_MODE", "inline")]);
}

/// HTTPS, encrypted by the program.
#[test]
fn nginx_https() {
    try_https("nginx_https", "sendfile off;", "500kB");
    // Where the kernel has no TLS, OpenSSL goes on by itself.
    try_https("nginx_https", "sendfile on; ssl_conf_command Options KTLS;", "10MB");
}

/// HTTPS, encrypted by the kernel in `sendfile`.
#[test]
fn nginx_kernel_tls() {
    // Linux Documentation/networking/tls.rst: connections whose sending half the kernel has encrypted.
    let count = || {
        let text = std::fs::read_to_string("/proc/net/tls_stat").ok()?;
        let rows = text.lines().filter(|row| row.starts_with("TlsTxSw") || row.starts_with("TlsTxDevice"));
        Some(rows.filter_map(|row| row.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>())
    };
    let Some(before) = count() else {
        return skip("nginx_kernel_tls", "this kernel has no TLS (CONFIG_TLS, module tls)");
    };
    try_https("nginx_kernel_tls", "sendfile on; ssl_conf_command Options KTLS;", "10MB");
    if count() == Some(before) {
        skip("nginx_kernel_tls", "nginx's OpenSSL does not use the kernel's TLS");
    }
}

fn try_https(test: &str, directives: &str, queue: &str) {
    let Some(openssl) = installed("openssl") else { return skip(test, "no openssl") };
    let folder = folder(test);
    let bytes = files(folder.path());
    let (key, certificate) = (folder.path().join("key"), folder.path().join("certificate"));
    let mut command = Command::new(&openssl);
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=localhost",
    ]);
    command.arg("-keyout").arg(&key).arg("-out").arg(&certificate).stderr(Stdio::null());
    assert!(command.status().unwrap().success());
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let port = free_port();
    let server = format!(
        "{directives} server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {}; ssl_certificate_key {}; \
         location / {{ root {}; }} }}",
        certificate.display(),
        key.display(),
        folder.path().display()
    );
    let Some(_server) = nginx(test, folder.path(), port, "", &server, &[("PACELINE_QUEUE", queue)]) else { return };
    let url = format!("https://127.0.0.1:{port}/file");
    for version in ["--http1.1", "--http2"] {
        assert_eq!(curl(&[version, &url]), Digest::of(&bytes), "{directives} {version}");
    }
    assert_eq!(curl(&["--limit-rate", "4M", &url]), Digest::of(&bytes), "{directives}");
}

#[test]
fn python_http_server() {
    const TEST: &str = "python_http_server";
    let Some(python) = installed("python3") else { return skip(TEST, "no python3") };
    for (mode, queue) in [("queue", "200kB"), ("auto", "10MB")] {
        let folder = folder(TEST);
        let bytes = files(folder.path());
        let port = free_port();
        let mut command = shimmed(&python, &[("PACELINE_MODE", mode), ("PACELINE_QUEUE", queue)]);
        command.args(["-m", "http.server", &port.to_string(), "--bind", "127.0.0.1"]);
        command.current_dir(folder.path()).stderr(Stdio::null());
        let server = start(command, port);
        try_http(port, &bytes);
        try_stop(server, port, &bytes);
    }
}

/// As root: each session in processes of its own, which take rights and limits from themselves, sockets passed between
/// them, `sendfile`.
#[test]
fn vsftpd_as_root() {
    if !lowers_rights() {
        return skip("vsftpd_as_root", "it needs root and other users");
    }
    try_vsftpd("vsftpd_as_root", shimmed_as_we_are, "");
}

/// As an ordinary user: a process for each session.
#[test]
fn vsftpd() {
    try_vsftpd("vsftpd", shimmed, "run_as_launching_user=YES\n");
}

fn try_vsftpd(test: &str, shimmed: fn(PathBuf, &[(&str, &str)]) -> Command, user: &str) {
    let Some(program) = installed("vsftpd") else { return skip(test, "no vsftpd") };
    for (mode, queue, sendfile) in [("auto", "10MB", "YES"), ("queue", "300kB", "NO"), ("queue", "300kB", "YES")] {
        let folder = folder(test);
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let bytes = files(&home);
        readable(&home);
        let port = free_port();
        let config = format!(
            "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nanonymous_enable=YES\n\
             anon_root={}\nno_anon_password=YES\nlocal_enable=NO\nxferlog_enable=NO\nuse_sendfile={sendfile}\n\
             secure_chroot_dir={}\nconnect_from_port_20=NO\n{user}",
            home.display(),
            home.display()
        );
        let file = folder.path().join("config");
        std::fs::write(&file, config).unwrap();
        if !user.is_empty() {
            // Its own, or vsftpd refuses it.
            give(&file);
        }
        let mut command = shimmed(program.clone(), &[("PACELINE_MODE", mode), ("PACELINE_QUEUE", queue)]);
        command.arg(&file);
        let server = start(command, port);
        let url = format!("ftp://127.0.0.1:{port}/file");
        let expected = Digest::of(&bytes);
        for words in [vec![&*url], vec!["--limit-rate", "4M", &url], vec!["--ftp-port", "-", &url]] {
            assert_eq!(curl(&words), expected, "{mode} {queue} {sendfile} {words:?}");
        }
        thread::scope(|scope| {
            let mut session = log_in(port);
            until("an engine in a session", || {
                // What is written to again after a while has one.
                session.write_all(b"NOOP\r\n").unwrap();
                server.processes().into_iter().any(|process| threads(process).iter().any(|name| name == "alcc"))
            });
            drop(session);
            let clients: Vec<_> = (0..5).map(|_| scope.spawn(|| curl(&[&url]))).collect();
            for client in clients {
                assert_eq!(client.join().unwrap(), expected);
            }
        });
    }
}

/// A session that does nothing.
fn log_in(port: u16) -> TcpStream {
    let mut stream = connect(port);
    stream.write_all(b"USER anonymous\r\n").unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(&stream);
    while !said.starts_with("230") {
        said.clear();
        assert!(lines.read_line(&mut said).unwrap() > 0, "the session has ended");
    }
    stream
}

/// Another user reads the files, through every folder above them; none of them may be writable to him.
fn readable(home: &Path) {
    std::fs::set_permissions(home, Permissions::from_mode(0o555)).unwrap();
    let parent = home.parent().unwrap();
    std::fs::set_permissions(parent, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn iperf3() {
    const TEST: &str = "iperf3";
    let Some(program) = installed("iperf3") else { return skip(TEST, "no iperf3") };
    for mode in ["auto", "queue", "inline"] {
        let port = free_port();
        let mut command = shimmed(&program, &[("PACELINE_MODE", mode), ("PACELINE_QUEUE", "1MB")]);
        command.args(["--server", "--one-off", "--bind", "127.0.0.1", "--port", &port.to_string()]);
        let mut server = start(command, port);
        let mut client = Command::new(&program);
        client.args(["--client", "127.0.0.1", "--port", &port.to_string(), "--reverse", "--bytes", "20M", "--json"]);
        let output = client.output().unwrap();
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{mode}: {report}");
        // The server goes on until the client has as much as it asked for; it tells both sums.
        let received = report.split("\"sum_received\"").nth(1).unwrap();
        let received = received.split("\"bytes\":").nth(1).unwrap();
        let received: u64 = received.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        assert!(received >= 20 << 20, "{mode}: {received}");
        assert!(server.wait().success(), "{mode}");
    }
}

/// A client that uploads: the socket is one that it connected, without blocking.
#[test]
fn curl_uploads() {
    const TEST: &str = "curl_uploads";
    let Some(program) = installed("curl") else { return skip(TEST, "no curl") };
    let folder = folder(TEST);
    let bytes = files(folder.path());
    for (mode, queue) in [("queue", "64kB"), ("auto", "10MB"), ("inline", "64kB")] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/file", listener.local_addr().unwrap());
        let mut command = shimmed(&program, &[("PACELINE_MODE", mode), ("PACELINE_QUEUE", queue)]);
        command.args(["--silent", "--show-error", "--max-time", "60", "--http1.1", "-H", "Expect:", "--upload-file"]);
        command.arg(folder.path().join("file")).arg(url);
        let mut client = Running(command.spawn().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        let mut header = Vec::new();
        while !header.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            header.push(byte[0]);
        }
        assert_eq!(Digest::read((&stream).take(LEN as u64)).unwrap(), Digest::of(&bytes), "{mode} {queue}");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        assert!(client.wait().success(), "{mode} {queue}");
    }
}

/// nginx's RTMP module: a recorded film is read whole, and a live one is published by one ffmpeg and read by another.
#[test]
fn nginx_rtmp() {
    const TEST: &str = "nginx_rtmp";
    const MODULE: &str = "/usr/lib/nginx/modules/ngx_rtmp_module.so";
    if !Path::new(MODULE).exists() {
        return skip(TEST, "no RTMP module");
    }
    let Some(ffmpeg) = installed("ffmpeg") else { return skip(TEST, "no ffmpeg") };
    let folder = folder(TEST);
    let film = folder.path().join("film.flv");
    let mut make = Command::new(&ffmpeg);
    make.args(["-loglevel", "error", "-f", "lavfi", "-i", "testsrc=duration=4:size=320x240:rate=25", "-c:v", "flv"]);
    make.args(["-b:v", "4M", "-g", "25"]).arg(&film);
    assert!(make.stdin(Stdio::null()).status().unwrap().success());
    let packets = |input: &str, length: Option<&str>| {
        let mut read = Command::new(&ffmpeg);
        // A live film has no end, and ffmpeg would look long for a sound track that there is not.
        let live =
            ["-rtmp_live", "live", "-rw_timeout", "20000000", "-probesize", "32768", "-analyzeduration", "200000"];
        read.args(["-loglevel", "error"]).args(live.iter().filter(|_| length.is_some())).args(["-i", input]);
        read.args(length.into_iter().flat_map(|length| ["-t", length]));
        read.args(["-map", "0:v", "-c", "copy", "-f", "framehash", "-"]).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = read.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // The last field is the packet's hash.
        let hashes = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit(',').next());
        hashes.map(|hash| hash.trim().to_owned()).collect::<Vec<_>>()
    };
    let whole = packets(film.to_str().unwrap(), None);
    assert_eq!(whole.len(), 100);

    for mode in ["queue", "inline"] {
        let port = free_port();
        let rtmp = format!(
            "load_module {MODULE};\nrtmp {{ access_log off; server {{ listen 127.0.0.1:{port}; \
             application live {{ live on; }} application films {{ play {}; }} }} }}",
            folder.path().display()
        );
        let Some(_server) = nginx(TEST, folder.path(), port, &rtmp, "", &[("PACELINE_MODE", mode)]) else { return };
        assert_eq!(packets(&format!("rtmp://127.0.0.1:{port}/films/film.flv"), None), whole, "{mode}");

        let url = format!("rtmp://127.0.0.1:{port}/live/one");
        let mut publish = Command::new(&ffmpeg);
        // Again and again, since no one knows when the other will have begun to read.
        publish.args(["-loglevel", "error", "-re", "-stream_loop", "-1", "-i"]).arg(&film);
        publish.args(["-c", "copy", "-f", "flv", &url]).process_group(0);
        let _publisher = Running(publish.stdin(Stdio::null()).spawn().unwrap());
        let seen = packets(&url, Some("2"));
        assert!(seen.len() > 10, "{mode}: {} packets", seen.len());
        let first = whole.iter().position(|hash| *hash == seen[0]).expect("a packet of the film");
        assert!(whole.iter().cycle().skip(first).zip(&seen).all(|(one, other)| one == other), "{mode}: {seen:?}");
    }
}
