//! Both ends of real connections over the loop-back device.
#![allow(dead_code, reason = "no test uses all of it")]

use std::io::{IoSlice, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use paceline_alcc::{Engine, Options, Socket};
use rand::RngExt;
use rand_pcg::Pcg64;
use ring::digest::{Context, SHA256};
use rustix::net::sockopt;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) fn engine(change: impl FnOnce(&mut Options)) -> Arc<Engine> {
    let mut options = Options::default();
    change(&mut options);
    Engine::start(options).unwrap()
}

/// A connection: the adopted end and the peer's.
pub(crate) fn connect(engine: &Engine, at: &str) -> (Arc<Socket>, TcpStream) {
    let (ours, theirs) = pair(at);
    (engine.adopt(OwnedFd::from(ours)).unwrap(), theirs)
}

/// What [`narrow`] lets the kernel hold of a connection no one reads from, at most: both buffers.
pub(crate) const HELD: usize = 4 * BUFFER;
/// Linux doubles what is asked for.
const BUFFER: usize = 128 * 1024;

/// A connection whose kernel buffers are bounded: a queue that holds much more than [`HELD`] stays full while no one reads,
/// however slowly the engine is served.
pub(crate) fn narrow(engine: &Engine) -> (Arc<Socket>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    sockopt::set_socket_recv_buffer_size(&listener, BUFFER).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    sockopt::set_socket_send_buffer_size(&ours, BUFFER).unwrap();
    (engine.adopt(OwnedFd::from(ours)).unwrap(), listener.accept().unwrap().0)
}

pub(crate) fn pair(at: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(at.parse::<SocketAddr>().unwrap()).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0)
}

/// Bytes and their hash.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

pub(crate) struct Hasher {
    context: Context,
    bytes: u64,
}

impl Hasher {
    pub(crate) fn new() -> Self {
        Self { context: Context::new(&SHA256), bytes: 0 }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn finish(self) -> Sum {
        let digest = self.context.finish();
        let sha256 = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Sum { bytes: self.bytes, sha256 }
    }
}

/// Reads to the end of the stream in a thread.
pub(crate) fn reader(mut stream: TcpStream) -> JoinHandle<Sum> {
    thread::spawn(move || {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 100_000];
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => return hasher.finish(),
                read => hasher.update(&buffer[..read]),
            }
        }
    })
}

/// Writes of up to `largest` bytes, `total` in all, from a named stream.
pub(crate) fn writes(seed: u64, total: usize, largest: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Pcg64::new(seed.into(), 1);
    let mut left = total;
    std::iter::from_fn(move || {
        let size = random.random_range(1..=largest).min(left);
        left -= size;
        let mut bytes = vec![0; size];
        random.fill(&mut bytes[..]);
        (size > 0).then_some(bytes)
    })
}

pub(crate) fn send(socket: &Socket, bytes: &[u8]) -> std::io::Result<usize> {
    socket.send(&[IoSlice::new(bytes)], false)
}

pub(crate) fn try_send(socket: &Socket, bytes: &[u8]) -> std::io::Result<usize> {
    socket.send(&[IoSlice::new(bytes)], true)
}

/// Writes until the queue is full; says how many bytes.
pub(crate) fn fill(socket: &Socket) -> usize {
    let mut written = 0;
    loop {
        match try_send(socket, &[5; 30_000]) {
            Ok(taken) => written += taken,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                return written;
            }
        }
    }
}
