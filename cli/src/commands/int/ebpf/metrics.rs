//! Answers Prometheus: any request gets the numbers of the moment.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use paceline_int::bus::Board;
use paceline_int::bus::board::{CONTENT_TYPE, encode};

/// How long a client may take, for it holds up everything else. Our choice: a scrape takes a millisecond.
const PATIENCE: Duration = Duration::from_millis(200);

pub(super) struct Metrics(TcpListener);

impl Metrics {
    pub(super) fn listen(address: SocketAddr) -> anyhow::Result<Self> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok::<_, io::Error>(listener)
        };
        Ok(Self(listen().with_context(|| format!("--metrics {address}"))?))
    }

    /// Answers those who wait.
    pub(super) fn answer(&self, board: &mut Board) {
        while let Ok((stream, _)) = self.0.accept() {
            board.forget(Instant::now());
            // A client that went away is no trouble of ours.
            let _ = reply(stream, &encode(board, Instant::now()));
        }
    }
}

fn reply(mut stream: TcpStream, text: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; 4096];
    let length = stream.read(&mut request)?;
    if !request[..length].starts_with(b"GET ") {
        return stream.write_all(
            b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    }
    let length = text.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())
}
