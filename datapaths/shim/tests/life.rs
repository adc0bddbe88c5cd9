//! Lives of sockets and programs: stalled and killed clients, many connections, ends in the middle of a transfer, what the
//! environment asks.

mod common;

use paceline_fixture::until;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use common::{Digest, connect, connect_narrow, folder, letters, serve, shimmed, skip};

/// The engine's thread is there.
fn has_engine(server: &common::Running) -> bool {
    server.threads().iter().any(|name| name == "alcc")
}

/// A client that reads nothing for five seconds costs the server no processor time and gets every byte.
#[test]
fn stalled() {
    let folder = folder("stalled");
    let file = folder.path().join("file");
    let bytes = letters(12_000_000, 1);
    std::fs::write(&file, &bytes).unwrap();
    let one = |method: &'static str, mode: &'static str| {
        let variables = [("PACELINE_MODE", mode), ("PACELINE_QUEUE", "1MB")];
        let (mut server, port) = serve(method, &file, 1, &variables)?;
        let client = connect_narrow(port);
        server.settle();
        let before = server.ticks();
        thread::sleep(Duration::from_secs(5));
        let ticks = server.ticks() - before;
        // Ticks are 10 ms. TCP's own probes of the closed window cost nearly nothing.
        assert!(ticks < 20, "{method} {mode}: {ticks} ticks while the client is stalled");
        assert_eq!(Digest::read(client).unwrap(), Digest::of(&bytes), "{method} {mode}");
        assert!(server.wait().success(), "{method} {mode}");
        Some(())
    };
    let ways =
        [("write", "queue"), ("epoll", "queue"), ("epoll_edge", "queue"), ("poll", "queue"), ("epoll", "inline")];
    thread::scope(|scope| {
        let all: Vec<_> = ways.map(|(method, mode)| scope.spawn(move || one(method, mode))).into_iter().collect();
        if all.into_iter().any(|one| one.join().unwrap().is_none()) {
            skip("stalled", "no C compiler");
        }
    });
}

/// A client that goes away is said to the server: by an error, or by the signal where it may come.
#[test]
fn killed_client() {
    let folder = folder("killed");
    let file = folder.path().join("file");
    std::fs::write(&file, letters(12_000_000, 2)).unwrap();
    for (method, mode) in [("write", "queue"), ("send", "queue"), ("write", "inline"), ("epoll", "queue")] {
        let variables = [("PACELINE_MODE", mode), ("PACELINE_QUEUE", "300kB")];
        let Some((mut server, port)) = serve(method, &file, 1, &variables) else {
            return skip("killed_client", "no C compiler");
        };
        let mut client = connect_narrow(port);
        client.read_exact(&mut [0; 50_000]).unwrap();
        // Unread data make the kernel reset the connection, as at a killed process.
        drop(client);
        let status = server.wait();
        // As the kernel has it: ECONNRESET once, EPIPE and the signal from then on.
        let said = status.code() == Some(70) || status.signal() == Some(13) && method != "send";
        assert!(said, "{method} {mode}: {status}");
    }
}

/// Of a thousand connections, half of them dropped by the client at once, nothing remains.
#[test]
fn thousand_connections() {
    let folder = folder("thousand");
    let file = folder.path().join("file");
    let bytes = letters(60_000, 3);
    std::fs::write(&file, &bytes).unwrap();
    for mode in ["queue", "inline"] {
        let Some((mut server, port)) = serve("drop", &file, 1001, &[("PACELINE_MODE", mode)]) else {
            return skip("thousand_connections", "no C compiler");
        };
        let expected = Digest::of(&bytes);
        let turn = |number: usize| {
            let client = connect(port);
            if number.is_multiple_of(2) {
                assert_eq!(Digest::read(client).unwrap(), expected);
            }
        };
        // How much is open at once depends on who runs first, so memory may grow; but not again and again.
        let mut memory = u64::MAX;
        let more: Vec<u64> = (0..5)
            .map(|_| {
                (0..200).for_each(turn);
                until("descriptors return", || server.descriptors() < 20);
                let before = std::mem::replace(&mut memory, server.memory());
                memory.saturating_sub(before)
            })
            .collect();
        assert!(more[1..].iter().any(|more| *more < 400), "{mode}: {more:?} kB more after each 200 connections");
        let _last = connect(port);
        assert!(server.wait().success());
    }
}

/// Open connections without traffic cost nothing, and little memory; those that have had no more than TCP's first window no thread either.
#[test]
fn idle() {
    let folder = folder("idle");
    let file = folder.path().join("file");
    let count = 500;
    for (bytes, mode, engine) in
        [(1000, "queue", false), (1000, "inline", false), (20_000, "queue", true), (20_000, "inline", true)]
    {
        std::fs::write(&file, letters(bytes, 4)).unwrap();
        let Some((server, port)) = serve("idle", &file, count, &[("PACELINE_MODE", mode)]) else {
            return skip("idle", "no C compiler");
        };
        let clients: Vec<TcpStream> = (0..count).map(|_| connect(port)).collect();
        for mut client in &clients {
            client.read_exact(&mut vec![0; bytes]).unwrap();
        }
        server.settle();
        assert_eq!(has_engine(&server), engine, "{bytes} bytes, {mode}");
        let before = server.ticks();
        thread::sleep(Duration::from_secs(1));
        assert!(server.ticks() - before <= 1, "{} ticks", server.ticks() - before);
        let memory = server.memory();
        assert!(memory < 40_000, "{memory} kB");
    }
}

/// A server stopped in mid-transfer: what it handles itself (here by `exit`) loses nothing that it wrote, and in no case does
/// a client get anything but a beginning of the file.
#[test]
fn stopped() {
    let folder = folder("stopped");
    let file = folder.path().join("file");
    let bytes = letters(12_000_000, 5);
    std::fs::write(&file, &bytes).unwrap();
    for (method, mode) in [("end", "queue"), ("write", "queue"), ("epoll", "queue"), ("write", "inline")] {
        let variables = [("PACELINE_MODE", mode), ("PACELINE_QUEUE", "1MB")];
        let Some((mut server, port)) = serve(method, &file, 1, &variables) else {
            return skip("stopped", "no C compiler");
        };
        let mut client = connect_narrow(port);
        let mut got = vec![0; 100_000];
        client.read_exact(&mut got).unwrap();
        server.settle();
        server.signal("TERM");
        // An end by reset is as good as one by FIN here.
        let _ = client.read_to_end(&mut got);
        assert!(got.len() < bytes.len() && bytes.starts_with(&got), "{method} {mode}: {} bytes", got.len());
        let status = server.wait();
        if method == "end" {
            assert!(status.success());
            // The queue was full: all that had been taken was still sent, and of the call under way at most the whole.
            let said = std::fs::read_to_string(folder.path().join("file.written")).unwrap();
            let written: usize = said.parse().unwrap();
            assert!(
                written > 1_000_000 && (written..written + 60_000).contains(&got.len()),
                "{written}: {}",
                got.len()
            );
        } else {
            assert_eq!(status.signal(), Some(15));
        }
    }
}

/// A program that forbids itself new processes before it writes, as vsftpd's sessions do, is served all the same.
#[test]
fn limited() {
    let folder = folder("limited");
    let file = folder.path().join("file");
    let bytes = letters(3_000_000, 12);
    std::fs::write(&file, &bytes).unwrap();
    let Some((mut server, port)) = serve("limited", &file, 1, &[]) else { return skip("limited", "no C compiler") };
    let mut client = connect_narrow(port);
    let mut first = [0; 1000];
    client.read_exact(&mut first).unwrap();
    until("the engine's thread", || has_engine(&server));
    assert_eq!(Digest::read(first.chain(&client)).unwrap(), Digest::of(&bytes));
    assert!(server.wait().success());
}

/// A filter of system calls that was there before the program may end it at calls that only the library makes: it does without them,
/// or leaves all to the kernel and says so.
#[test]
fn filtered() {
    let Some(compiler) = common::installed("cc") else { return skip("filtered", "no C compiler") };
    let folder = folder("filtered");
    let program = folder.path().join("filtered");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/filtered.c");
    let mut command = std::process::Command::new(compiler);
    assert!(command.args(["-O1", "-w", "-o"]).arg(&program).arg(source).status().unwrap().success());
    let (file, log) = (folder.path().join("file"), folder.path().join("log"));
    let bytes = letters(1_000_000, 14);
    std::fs::write(&file, &bytes).unwrap();
    let cases = [
        (libc::SYS_unshare, true),
        (libc::SYS_process_vm_readv, true),
        (libc::SYS_process_vm_writev, true),
        (libc::SYS_close_range, true),
        (libc::SYS_timerfd_create, false),
        (libc::SYS_eventfd2, false),
        (libc::SYS_clone3, false),
        (libc::SYS_getsockopt, false),
        (libc::SYS_prctl, false),
    ];
    for (call, served) in cases {
        for mode in ["inline", "queue"] {
            let said = format!("call {call}, {mode}");
            let _ = std::fs::remove_file(&log);
            let mut command = std::process::Command::new(&program);
            let library = common::library();
            command.arg(call.to_string()).arg(common::server().unwrap()).arg("write").arg(&file).arg("1");
            command.env("LOADS", library).env("PACELINE_MODE", mode).env("PACELINE_LOG", &log).stdout(Stdio::piped());
            let mut server = common::Running(command.spawn().unwrap());
            let mut line = String::new();
            BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
            if line.starts_with("skip") {
                return skip("filtered", "no seccomp here");
            }
            let port = line.trim().parse().unwrap_or_else(|_| panic!("{said}: no port: {line:?}"));
            assert_eq!(Digest::read(connect(port)).unwrap(), Digest::of(&bytes), "{said}");
            assert!(server.wait().success(), "{said}");
            let log = std::fs::read_to_string(&log).unwrap();
            let first = if served {
                "TCP sockets are served"
            } else {
                "a filter of system calls (seccomp) that was there before"
            };
            assert!(log.lines().count() == 1 && log.contains(first), "{said}: {log}");
        }
    }
}

/// Asking for kernel TLS changes nothing when it is refused: the socket keeps its queue.
#[test]
fn kernel_tls_refused() {
    let folder = folder("ulp");
    let file = folder.path().join("file");
    let bytes = letters(12_000_000, 13);
    std::fs::write(&file, &bytes).unwrap();
    let variables = [("PACELINE_MODE", "queue"), ("PACELINE_QUEUE", "1MB")];
    let Some((mut server, port)) = serve("ulp", &file, 1, &variables) else {
        return skip("kernel_tls_refused", "no C compiler");
    };
    let mut client = connect_narrow(port);
    let mut first = vec![0; 4_000_000];
    client.read_exact(&mut first).unwrap();
    // More than a third was taken, so kernel TLS was asked for; the rest waits for the client.
    let pid = server.0.id();
    let mut seen = Vec::new();
    until("the socket is seen", || {
        let own = paceline_alcc::export::processes().into_iter().filter(|process| process.pid == pid);
        seen = own.flat_map(|process| process.sockets).collect();
        seen.iter().any(|socket| socket.written_bytes > 4_000_000)
    });
    assert_eq!((seen.len(), seen[0].mode.as_str()), (1, "queue"));
    assert_eq!(Digest::read(first.chain(&client)).unwrap(), Digest::of(&bytes));
    assert!(server.wait().success());
}

/// What a program defines itself, and calls the next definition from, ends there and not in a circle.
#[test]
fn own_sigaction() {
    let Some(compiler) = common::installed("cc") else { return skip("own_sigaction", "no C compiler") };
    let folder = folder("own_sigaction");
    let program = folder.path().join("own_sigaction");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/own_sigaction.c");
    let mut command = std::process::Command::new(compiler);
    // Exported, as a runtime that loads modules exports what is its own.
    assert!(command.args(["-O1", "-w", "-rdynamic", "-o"]).arg(&program).arg(source).status().unwrap().success());
    for mode in ["inline", "queue"] {
        let output = shimmed(&program, &[("PACELINE_MODE", mode)]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"ok\n".as_slice()), "{mode}");
    }
}

/// The C library lays a program's thread-local storage into each stack, that of our threads too.
#[test]
fn thread_local_storage() {
    let Some(compiler) = common::installed("cc") else { return skip("thread_local_storage", "no C compiler") };
    let folder = folder("thread_local_storage");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/local.c");
    for bytes in [1 << 10, 200_000, 1 << 20, 4 << 20] {
        let path = |name: &str| folder.path().join(format!("{name}{bytes}"));
        let (alone, linked, library) = (path("alone"), path("linked"), path("library"));
        let compile = |name: &str, options: &[&str], to: &std::path::Path, more: &[&std::path::Path]| {
            let mut command = std::process::Command::new(&compiler);
            command.args(["-O1", "-w", &format!("-DLOCAL={bytes}"), &format!("-DLOCAL_NAME={name}")]).args(options);
            assert!(command.arg("-o").arg(to).arg(source).args(more).arg("-ldl").status().unwrap().success());
        };
        compile("library_storage", &["-DLIBRARY", "-shared", "-fPIC"], &library, &[]);
        compile("program_storage", &[], &alone, &[]);
        compile("program_storage", &["-DLINKED"], &linked, &[&library]);
        for mode in ["inline", "queue"] {
            for (program, opened) in [(&alone, None), (&alone, Some(&library)), (&linked, None)] {
                let mut command = shimmed(program, &[("PACELINE_MODE", mode)]);
                command.args(opened).stdout(Stdio::piped());
                let mut server = common::Running(command.spawn().unwrap());
                let mut line = String::new();
                BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
                let got = Digest::read(connect(line.trim().parse().unwrap())).unwrap();
                let said = format!("{bytes} bytes, {}, {opened:?}, {mode}", program.display());
                assert_eq!(got, Digest::of(&vec![0; 300_000]), "{said}");
                assert!(server.wait().success(), "{said}");
            }
        }
    }
}

/// Only listed ports are served, and what is not TCP never is.
#[test]
fn listed_ports() {
    let folder = folder("listed");
    let file = folder.path().join("file");
    let bytes = letters(3_000_000, 6);
    std::fs::write(&file, &bytes).unwrap();
    for (ports, served) in [("1", false), ("1024-65535", true)] {
        let variables = [("PACELINE_PORTS", ports), ("PACELINE_MODE", "queue")];
        let Some((mut server, port)) = serve("write", &file, 1, &variables) else {
            return skip("listed_ports", "no C compiler");
        };
        let mut client = connect_narrow(port);
        let mut first = [0; 1000];
        client.read_exact(&mut first).unwrap();
        if served {
            // The thread names itself, which may be after the first bytes have left.
            until("the engine's thread", || has_engine(&server));
        } else {
            assert_eq!(server.threads().len(), 1, "{ports}");
        }
        assert_eq!(Digest::read(first.chain(&client)).unwrap(), Digest::of(&bytes));
        assert!(server.wait().success());
    }
    let mut command = shimmed(common::server().unwrap(), &[]);
    assert!(command.arg("untouched").arg(&file).arg("0").status().unwrap().success());
}

/// What is wrong in the environment ends the program before it begins, in one line.
#[test]
fn wrong_environment() {
    let wrong = [
        ("PACELINE_CC", "copper", "PACELINE_CC: unknown controller 'copper'"),
        ("PACELINE_CC", "sprout", "PACELINE_CC: sprout needs its receiver half"),
        ("PACELINE_MODE", "fast", "PACELINE_MODE: 'fast' is not one of"),
        ("PACELINE_MODE", "framed", "PACELINE_MODE: framed needs paceline at the other end"),
        ("PACELINE_PORTS", "http", "PACELINE_PORTS: 'http' is not a port"),
        ("PACELINE_PEERS", "host", "PACELINE_PEERS: 'host' is not an address"),
        ("PACELINE_QUEUE", "1kB", "PACELINE_QUEUE: 1kB is not between"),
    ];
    for (name, value, says) in wrong {
        let output = shimmed("/bin/echo", &[(name, value)]).arg("begun").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}={value}");
        assert!(output.stdout.is_empty(), "{name}={value}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(&format!("paceline: {says}")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// One line at the start, once for a program and those that it starts; to a file if asked; none if asked.
#[test]
fn says_what_is_hooked() {
    let folder = folder("says");
    let log = folder.path().join("log");
    let run = |variables: &[(&str, &str)]| {
        let mut command = shimmed("/bin/sh", variables);
        let output = command.args(["-c", "/bin/echo one; /bin/echo two"]).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.stdout, b"one\ntwo\n");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run(&[]), "");
    let line = "paceline: TCP sockets are served: copa above TCP, mode inline, ports 80\n";
    assert_eq!(run(&[("PACELINE_QUIET", ""), ("PACELINE_PORTS", "80")]), line);
    let log_name = log.to_str().unwrap();
    assert_eq!(run(&[("PACELINE_QUIET", ""), ("PACELINE_PORTS", "80"), ("PACELINE_LOG", log_name)]), "");
    assert_eq!(std::fs::read_to_string(log).unwrap(), line);
}

/// The line goes nowhere if the standard error is the connection itself, as under inetd.
#[test]
fn says_nothing_to_a_peer() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = shimmed("/bin/true", &[("PACELINE_QUIET", "")]);
    assert!(command.stderr(std::os::fd::OwnedFd::from(theirs)).status().unwrap().success());
    drop(command);
    ours.write_all(b"?").err();
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}
