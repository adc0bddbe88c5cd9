//! Each call that writes, waits, closes or ends a process: every byte arrives, in order, whatever the mode.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use common::{Digest, connect, folder, letters, serve, serve_with, skip};

/// Modes, and queues from the smallest to one that holds the whole file.
const WAYS: [(&str, &str); 4] = [("queue", "64kB"), ("queue", "10MB"), ("auto", "300kB"), ("inline", "64kB")];
const LEN: usize = 2_000_000;

/// Serves a file by a method to several clients at once and compares what each of them gets.
fn arrives(method: &str, clients: usize) {
    let folder = folder(method);
    let file = folder.path().join("file");
    let bytes = letters(LEN, 7);
    std::fs::write(&file, &bytes).unwrap();
    for (mode, queue) in WAYS {
        let variables = [("PACELINE_MODE", mode), ("PACELINE_QUEUE", queue)];
        let Some((mut server, port)) = serve(method, &file, clients, &variables) else {
            return skip(method, "no C compiler");
        };
        let streams: Vec<TcpStream> = (0..clients).map(|_| connect(port)).collect();
        let readers: Vec<_> = streams.into_iter().map(|stream| thread::spawn(move || read(stream))).collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Digest::of(&bytes), "{method} {mode} {queue}");
        }
        assert!(server.wait().success(), "{method} {mode} {queue}");
    }
}

fn read(mut stream: TcpStream) -> Digest {
    let digest = Digest::read(&stream).unwrap();
    // For the method that listens once more.
    let _ = stream.write_all(b"bye");
    digest
}

macro_rules! methods {
    ($($name:ident: $clients:literal;)*) => {$(
        #[test]
        fn $name() {
            arrives(stringify!($name), $clients);
        }
    )*};
}

methods! {
    write: 1;
    writev: 1;
    pwritev2: 1;
    send: 1;
    sendto: 1;
    sendmsg: 1;
    sendmmsg: 1;
    syscall: 1;
    sendfile: 1;
    sendfile_at: 1;
    mixed: 1;
    splice: 1;
    stdio: 1;
    dprintf: 1;
    dup: 1;
    poll: 2;
    ppoll: 2;
    select: 2;
    pselect: 2;
    epoll: 4;
    epoll_edge: 4;
    epoll_oneshot: 4;
    threads: 4;
    fork: 4;
    signals: 1;
    interrupted: 1;
    outq: 1;
    options: 1;
    shutdown: 1;
    close_range: 1;
    closefrom: 1;
    exec: 1;
    spawn: 1;
    system: 1;
    popen: 1;
    posix_spawn: 1;
    vfork: 1;
    clone: 1;
    tls: 1;
    limited: 1;
    greeting: 1;
    passed: 1;
    exit: 1;
    _exit: 1;
    quick_exit: 1;
}

/// A set of `epoll` tells the bytes and the end of what the peer sends, while the connection still carries our bytes and after.
#[test]
fn ends_are_told() {
    let folder = folder("ends");
    let file = folder.path().join("file");
    let bytes = letters(LEN, 12);
    std::fs::write(&file, &bytes).unwrap();
    for method in ["epoll_end", "epoll_end_edge"] {
        for (mode, queue) in WAYS {
            let variables = [("PACELINE_MODE", mode), ("PACELINE_QUEUE", queue)];
            let Some((mut server, port)) = serve(method, &file, 3, &variables) else {
                return skip(method, "no C compiler");
            };
            let streams: Vec<TcpStream> = (0..3).map(|_| connect(port)).collect();
            // The first says its word before it reads, the others after.
            let talk = |(n, mut stream): (usize, TcpStream)| {
                let bytes = &bytes;
                move || {
                    let mut got = vec![0; LEN];
                    for turn in 0..3 {
                        if turn == 1 {
                            stream.read_exact(&mut got).unwrap();
                        }
                        if turn == n {
                            stream.write_all(b"bye").unwrap();
                            stream.shutdown(Shutdown::Write).unwrap();
                        }
                    }
                    assert!(got == *bytes, "{method} {mode} {queue}: other bytes");
                    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "{method} {mode} {queue}");
                }
            };
            thread::scope(|scope| {
                for client in streams.into_iter().enumerate() {
                    scope.spawn(talk(client));
                }
            });
            assert!(server.wait().success(), "{method} {mode} {queue}");
        }
    }
}

/// Close with `SO_LINGER` returns when the peer has acknowledged everything: the server kills itself right after it.
#[test]
fn linger() {
    let folder = folder("linger");
    let file = folder.path().join("file");
    let bytes = letters(LEN, 8);
    std::fs::write(&file, &bytes).unwrap();
    for (mode, queue) in WAYS {
        let variables = [("PACELINE_MODE", mode), ("PACELINE_QUEUE", queue)];
        let Some((_server, port)) = serve("linger", &file, 1, &variables) else {
            return skip("linger", "no C compiler");
        };
        assert_eq!(Digest::read(connect(port)).unwrap(), Digest::of(&bytes), "{mode} {queue}");
    }
}

/// Close with a linger time of zero throws away what is queued and resets the connection.
#[test]
fn reset() {
    let folder = folder("reset");
    let file = folder.path().join("file");
    std::fs::write(&file, letters(LEN, 9)).unwrap();
    for mode in ["queue", "inline"] {
        let variables = [("PACELINE_MODE", mode), ("PACELINE_QUEUE", "10MB")];
        let Some((mut server, port)) = serve("reset", &file, 1, &variables) else {
            return skip("reset", "no C compiler");
        };
        let client = common::connect_narrow(port);
        if mode == "queue" {
            // All is taken and thrown away before anything is read.
            assert!(server.wait().success());
        }
        let error = Digest::read(&client).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{mode}");
    }
}

/// Urgent data follows everything that was written before it.
#[test]
fn oob() {
    let folder = folder("oob");
    let file = folder.path().join("file");
    let bytes = letters(LEN, 10);
    std::fs::write(&file, &bytes).unwrap();
    for (mode, queue) in WAYS {
        let variables = [("PACELINE_MODE", mode), ("PACELINE_QUEUE", queue)];
        let Some((mut server, port)) = serve("oob", &file, 1, &variables) else { return skip("oob", "no C compiler") };
        // The urgent byte is not part of the stream.
        assert_eq!(Digest::read(connect(port)).unwrap(), Digest::of(&bytes[..LEN - 1]), "{mode} {queue}");
        assert!(server.wait().success());
    }
}

#[test]
fn ipv6() {
    let folder = folder("ipv6");
    let file = folder.path().join("file");
    let bytes = letters(LEN, 11);
    std::fs::write(&file, &bytes).unwrap();
    for method in ["write", "epoll_edge"] {
        let variables = [("PACELINE_MODE", "queue"), ("PACELINE_QUEUE", "64kB")];
        let Some((mut server, port)) = serve_with(method, &file, 1, &variables, &["5", "v6"]) else {
            return skip("ipv6", "no C compiler");
        };
        let Ok(stream) = TcpStream::connect(("::1", port)) else { return skip("ipv6", "no IPv6") };
        assert_eq!(Digest::read(stream).unwrap(), Digest::of(&bytes), "{method}");
        assert!(server.wait().success());
    }
}
