//! What a client gets: how many bytes, the first wrong one, and how it ended.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing waits this long unless something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// At once.
    Keen,
    /// Not before the server says so, or ends: until then what TCP does not hold is queued.
    Gated,
    /// This many bytes a second.
    Slow(u64),
    /// Not for a while, then everything.
    Late(Duration),
    /// Stops for a while after this many bytes; says a word when it has all.
    Stalled(u64, Duration),
    /// Says a word and reads an answer of this many bytes, this many times.
    Asking(usize, usize),
    /// At once, and sends this many bytes of the pattern meanwhile.
    Sending(u64),
}

/// How what a client got ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Fin,
    Reset,
    Timeout,
}

/// What a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) bytes: u64,
    /// Where the first byte is that is not the pattern's.
    pub(crate) wrong: Option<u64>,
    pub(crate) end: End,
    /// Answers took longer than 150 ms (below the 200 ms that the kernel corks for, tcp(7)).
    pub(crate) late: bool,
}

/// Opened once, for all who wait.
#[derive(Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    /// Waits, but not for ever: without a queue the server may wait for its clients.
    fn wait(&self, limit: Duration) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_timeout_while(open, limit, |open| !*open));
    }
}

/// What each connection is sent, byte by byte.
pub(crate) enum Pattern {
    /// One sequence that looks random.
    One,
    /// Two that are woven into each other: up to 127 and from 128.
    Two(u64, u64),
}

impl Pattern {
    /// Whether this byte may come as number `at`.
    fn is(&mut self, at: u64, byte: u8) -> bool {
        match self {
            Self::One => byte == expected(at),
            Self::Two(low, high) => {
                let next = if byte < 128 { low } else { high };
                let right = *next % 128 == u64::from(byte % 128);
                *next += 1;
                right
            }
        }
    }
}

/// The byte at a place of the pattern, as `torture.c` has it (`SplitMix64` of the number of the eight bytes).
fn expected(at: u64) -> u8 {
    let z = (at / 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()[(at % 8) as usize]
}

/// A connection that holds little unread, so that the server's end has the rest.
pub(crate) fn connect(port: u16) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.set_out_of_band_inline(true).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.into()
}

/// Reads to the end. `limit`: how long a gate may stay shut; `total`: what is to come.
pub(crate) fn read(
    mut stream: TcpStream,
    reader: Reader,
    mut pattern: Pattern,
    gate: &Gate,
    limit: Duration,
    total: u64,
) -> Received {
    let mut received = Received { bytes: 0, wrong: None, end: End::Timeout, late: false };
    match reader {
        Reader::Gated => gate.wait(limit),
        Reader::Late(time) => thread::sleep(time),
        Reader::Asking(count, len) => received.late = ask(&mut stream, count, len, &mut received, &mut pattern),
        Reader::Sending(count) => {
            let to = stream.try_clone().unwrap();
            thread::spawn(move || send(to, count));
        }
        Reader::Keen | Reader::Slow(_) | Reader::Stalled(..) => {}
    }
    let begun = Instant::now();
    let (mut stalled, mut said) = (false, false);
    let mut buffer = vec![0; 65536];
    while begun.elapsed() < PATIENCE {
        let mut room = buffer.len();
        if let Reader::Slow(rate) = reader {
            // Sleeps are longer than asked, so the time they are for is counted.
            let due = Duration::from_secs_f64(received.bytes as f64 / rate as f64);
            thread::sleep(due.saturating_sub(begun.elapsed()));
            room = (rate / 20) as usize;
        }
        if let Reader::Stalled(after, time) = reader {
            if !stalled && received.bytes >= after {
                thread::sleep(time);
                stalled = true;
            }
            if !said && received.bytes >= total {
                let _ = stream.write_all(b"!");
                said = true;
            }
        }
        match stream.read(&mut buffer[..room]) {
            Ok(0) => received.end = End::Fin,
            Ok(count) => {
                received.take(&buffer[..count], &mut pattern);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => received.end = End::Reset,
            Err(_) => {}
        }
        break;
    }
    received
}

impl Received {
    fn take(&mut self, bytes: &[u8], pattern: &mut Pattern) {
        for &byte in bytes {
            if !pattern.is(self.bytes, byte) && self.wrong.is_none() {
                self.wrong = Some(self.bytes);
            }
            self.bytes += 1;
        }
    }
}

/// Sends the pattern, and its end. Who does not take it is found by what it answers.
fn send(mut to: TcpStream, count: u64) {
    for from in (0..count).step_by(60_000) {
        let piece: Vec<u8> = (from..count.min(from + 60_000)).map(expected).collect();
        if to.write_all(&piece).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Whether the median of the answers was late.
fn ask(stream: &mut TcpStream, count: usize, len: usize, received: &mut Received, pattern: &mut Pattern) -> bool {
    let mut times = Vec::new();
    let mut answer = vec![0; len];
    for _ in 0..count {
        let begun = Instant::now();
        if stream.write_all(b"?").and_then(|()| stream.read_exact(&mut answer)).is_err() {
            return true;
        }
        times.push(begun.elapsed());
        received.take(&answer, pattern);
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
    times.sort_unstable();
    times[times.len() / 2] > Duration::from_millis(150)
}
