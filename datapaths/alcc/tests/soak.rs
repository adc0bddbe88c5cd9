//! Large transfers, byte by byte: a gigabyte over each controller in writes of random sizes, closed right after the last one,
//! to a reader that stalls for 5 s; over each way to hand bytes over; and a flow of more than 4 GiB, where the kernel's
//! 32-bit positions wrap. Not among the tests of every day: `make soak-alcc` runs it, in minutes.
#![cfg(target_os = "linux")]

mod common;

use paceline_fixture::until;
use std::io::Read;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use common::{Hasher, PATIENCE, Sum, pair, send};
use paceline_alcc::frame::Reader;
use paceline_alcc::{Acks, Engine, Mode, Options};
use paceline_cc::datapath::ALCC_QUEUE;
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::{Env, Spec};
use rand::RngExt;
use rand_pcg::Pcg64;

/// Bytes of a transfer.
const GIGABYTE: u64 = 1_000_000_000;
/// How long the reader reads nothing, once, with half of the bytes behind it.
const STALL: Duration = Duration::from_secs(5);
/// Sizes of writes: mostly less than a packet, never more than two.
const LARGEST: usize = 3000;

/// One at a time: they would only wait for each other.
static TURN: Mutex<()> = Mutex::new(());

/// A file that costs nothing to make: random bytes, again and again from another place.
struct Source {
    block: Vec<u8>,
    at: usize,
}

impl Source {
    /// A prime above the largest write, so that no write begins where one has begun shortly before.
    const BLOCK: usize = 4_000_037;

    fn new(random: &mut Pcg64) -> Self {
        // What stands at the end stands at the beginning, so that each write is of one piece.
        let mut block = vec![0; Self::BLOCK];
        random.fill(&mut block[..]);
        block.extend_from_within(..1_000_000);
        Self { block, at: 0 }
    }

    fn take(&mut self, size: usize) -> &[u8] {
        let from = self.at;
        self.at = (self.at + size) % Self::BLOCK;
        &self.block[from..from + size]
    }
}

/// Reads to the end, hashing, with a stall on the way.
fn read(mut more: impl FnMut(&mut [u8]) -> usize, total: u64) -> Sum {
    let (mut hasher, mut buffer, mut read) = (Hasher::new(), vec![0; 256 * 1024], 0);
    let mut stalled = false;
    loop {
        match more(&mut buffer) {
            0 => return hasher.finish(),
            count => {
                hasher.update(&buffer[..count]);
                read += count as u64;
            }
        }
        if read >= total / 2 && !stalled {
            stalled = true;
            thread::sleep(STALL);
        }
    }
}

/// Sends `total` bytes in writes of up to `largest`, closes at once, and compares the hashes of what was written and read.
fn transfer(options: Options, total: u64, largest: usize) {
    let _turn = TURN.lock().unwrap();
    let name = format!("{} mode={} acks={}", options.controller, options.mode, options.acks);
    let began = Instant::now();
    let (mode, half) = (options.mode, options.controller.build_receiver(&Env::default()));
    let engine = Engine::start(options).unwrap();
    let (ours, theirs) = pair("127.0.0.1:0");
    let received = thread::spawn(move || {
        let mut stream = theirs;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if mode != Mode::Framed {
            return read(|buffer| stream.read(buffer).unwrap(), total);
        }
        let mut reader = Reader::new(stream.into(), half).unwrap();
        read(|buffer| reader.read(buffer).unwrap(), total)
    });
    let socket = engine.adopt(ours.into()).unwrap();
    let mut random = Pcg64::new(u128::from(total), 1);
    let (mut source, mut hasher) = (Source::new(&mut random), Hasher::new());
    let (mut left, mut writes) = (total, 0_u64);
    while left > 0 {
        let bytes = source.take(random.random_range(1..=largest).min(usize::try_from(left).unwrap_or(largest)));
        assert_eq!(send(&socket, bytes).unwrap(), bytes.len());
        hasher.update(bytes);
        left -= bytes.len() as u64;
        writes += 1;
    }
    let stats = socket.stats();
    socket.close(PATIENCE);
    drop(socket);
    let (sum, written) = (received.join().unwrap(), hasher.finish());
    let took = began.elapsed();
    until("the engine lets go", || engine.sockets().is_empty());
    println!(
        "{name}: {} bytes in {writes} writes, {:.1} s with the stall, {} stamps lost, {} held back by TCP, cpu {:.1} s, sha256 {}",
        sum.bytes,
        took.as_secs_f64(),
        stats.stamps_lost,
        stats.limited_below,
        engine.cpu().as_secs_f64(),
        &sum.sha256[..16],
    );
    assert_eq!((sum.bytes, &sum), (total, &written), "{name}");
}

#[test]
#[ignore = "minutes: make soak-alcc"]
fn a_gigabyte_over_each_controller() {
    for entry in CONTROLLERS {
        let controller: Spec = entry.name.parse().unwrap();
        if ALCC_QUEUE.carries(&controller).is_ok() {
            transfer(Options { controller, ..Options::default() }, GIGABYTE, LARGEST);
        }
    }
}

#[test]
#[ignore = "minutes: make soak-alcc"]
fn a_gigabyte_each_way_to_hand_bytes_over() {
    let copa = Options::default();
    transfer(Options { mode: Mode::Queue, acks: Acks::Stamps, queue: 100_000, ..copa.clone() }, GIGABYTE, LARGEST);
    transfer(Options { mode: Mode::Queue, acks: Acks::Info, ..copa.clone() }, GIGABYTE, LARGEST);
    transfer(Options { mode: Mode::Inline, ..copa.clone() }, GIGABYTE, LARGEST);
    transfer(Options { mode: Mode::Framed, ..copa }, GIGABYTE, LARGEST);
}

#[test]
#[ignore = "minutes: make soak-alcc"]
fn more_than_the_kernels_positions_can_count() {
    transfer(Options::default(), (1 << 32) + GIGABYTE / 4, 1_000_000);
}
