//! Many receivers at the other end of the veth pair of a router's store, for measuring what the store costs: their requests for one unit
//! come as a network card would bring them in, a page each, which no socket's do over veth (`tests/bpf/load.bpf.c`).
//!
//! `store_load INTERFACE ROUTER NAME RECEIVERS REQUESTS_PER_SECOND UNITS WARM_SECONDS SECONDS`, as root. The receivers are ports of this host; they ask
//! for units at random among the first UNITS of the object. REQUESTS_PER_SECOND 0: for as many as go. Prints a line when all have a token
//! and begin, and one JSON object a second after the end: what was asked for and what came in SECONDS, behind the first WARM_SECONDS.
//! IPv4 alone.

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput};
use paceline_fixture::frame::UdpEnds;
use paceline_icn::wire::{AddressToken, PADDED, UnitAnswer, UnitRequest};
use paceline_icn::{Name, Ranges, UNIT};
use paceline_linux::clock::monotonic;
use paceline_linux::link::link;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/load.bpf.o"));

/// Bytes of a request, from Ethernet's head on, and of `struct request` of the program.
const FRAME: usize = 14 + 20 + 8 + 81;
const ROOM: usize = 128;

/// Where the checksum of UDP is in a frame over IPv4.
const CHECKSUM: usize = 14 + 20 + 6;

/// Requests that are sent by one call where as many go as can: tens of milliseconds.
const MANY: u32 = 100_000;

const USAGE: &str = "usage: store_load INTERFACE ROUTER NAME RECEIVERS REQUESTS_PER_SECOND UNITS WARM_SECONDS SECONDS";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [interface, router, name, receivers, rate, units, warm, seconds] = &words[..] else { return Err(USAGE.into()) };
    let (router, name): (SocketAddr, Name) = (router.parse()?, name.parse()?);
    let (receivers, rate, units): (u32, f64, u32) = (receivers.parse()?, rate.parse()?, units.parse()?);
    let (warm, seconds) = (Duration::try_from_secs_f64(warm.parse()?)?, Duration::try_from_secs_f64(seconds.parse()?)?);
    let mut sockets = Vec::new();
    for _ in 0..receivers {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(router)?;
        let token = greet(&socket, name)?;
        sockets.push((socket, token));
    }
    let here = link(interface)?.ok_or("there is no such interface; see ip link")?;
    let own = here.addr().ok_or("the interface has no Ethernet address")?;
    let ends = (own, neighbour(router)?);
    // What it would print is in the error.
    libbpf_rs::set_print(None);
    let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
    for (index, (socket, token)) in sockets.iter().enumerate() {
        let ends = UdpEnds { link: ends, from: socket.local_addr()?, to: router };
        let token = Some(*token);
        let nonce = index as u64 + 2;
        let request = UnitRequest { nonce, name, ranges: Ranges::one(0), token, hops: 0, padded: 0 };
        let mut message = Vec::new();
        request.encode(&mut message);
        let mut frame = ends.frame(&message);
        if frame.len() != FRAME {
            return Err("a request has another length than the program takes it to have".into());
        }
        // The program changes the unit; over IPv4 zero is a sender that sums nothing up.
        frame[CHECKSUM..CHECKSUM + 2].fill(0);
        frame.resize(ROOM, 0);
        put(&object, "requests", index as u32, &frame)?;
    }
    let gap = if rate > 0.0 { (1e9 / rate) as u64 } else { 0 };
    let mut load = [gap, monotonic().as_nanos(), 0].map(u64::to_ne_bytes).concat();
    load.extend_from_slice(
        &[receivers, units, here.ifindex() as u32, u32::from(router.port().to_be())].map(u32::to_ne_bytes).concat(),
    );
    put(&object, "load", 0, &load)?;
    let program = |name: &str| object.progs_mut().find(|one| one.name() == name).ok_or("the object lacks a program");
    let _counts = program("pl_count")?.attach_xdp(here.ifindex() as i32)?;
    let ask = program("pl_ask")?;
    let counters = Counters { load: map(&object, "load")?, came: map(&object, "came")? };
    writeln!(std::io::stdout(), "begun")?;
    let end = AtomicBool::new(false);
    let (began, ended) = std::thread::scope(|threads| {
        let counting = threads.spawn(|| {
            let after = |time| {
                std::thread::sleep(time);
                counters.read()
            };
            let counted = (after(warm), after(seconds));
            std::thread::sleep(Duration::from_secs(1));
            end.store(true, Ordering::Relaxed);
            counted
        });
        // A second's at most, so that the end is seen.
        let repeat = if gap > 0 { (rate as u32).max(1) } else { MANY };
        while !end.load(Ordering::Relaxed) {
            let (first, flags) = ([0; FRAME], BPF_F_TEST_XDP_LIVE_FRAMES);
            ask.test_run(ProgramInput { data_in: Some(&first[..]), repeat, flags, ..ProgramInput::default() })?;
        }
        counting.join().map_err(|_| libbpf_rs::Error::from(std::io::Error::other("a thread panicked")))
    })?;
    let (began, ended) = (began?, ended?);
    let took = (ended.at - began.at).as_secs_f64();
    let (asked, units, nacks) = (ended.asked - began.asked, ended.units - began.units, ended.nacks - began.nacks);
    let mbps = units as f64 * UNIT as f64 * 8.0 / took / 1e6;
    let numbers = format!(
        "\"receivers\": {receivers}, \"seconds\": {took}, \"asked_units\": {asked}, \"units\": {units}, \"nacks\": {nacks}, \"mbps\": {mbps}"
    );
    Ok(writeln!(std::io::stdout(), "{{{numbers}}}")?)
}

/// Proves a receiver's address.
fn greet(socket: &UdpSocket, name: Name) -> Result<AddressToken, Box<dyn Error>> {
    let mut message = Vec::new();
    UnitRequest { nonce: 1, name, ranges: Ranges::one(0), token: None, hops: 0, padded: PADDED }.encode(&mut message);
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut buffer = [0; 2048];
    for _ in 0..50 {
        socket.send(&message)?;
        match socket.recv(&mut buffer) {
            Ok(length) => {
                if let UnitAnswer::Grant(grant) = UnitAnswer::decode(&buffer[..length])? {
                    return Ok(grant.token);
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err("the router does not answer".into())
}

/// The address on the link of a host that was talked to: arp(7), the fourth column.
fn neighbour(host: SocketAddr) -> Result<[u8; 6], Box<dyn Error>> {
    let table = std::fs::read_to_string("/proc/thread-self/net/arp")?;
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.first().is_some_and(|first| *first == host.ip().to_string()));
    let address = row.and_then(|row| row.get(3).copied()).ok_or("the router is not on this link")?;
    let bytes: Result<Vec<u8>, _> = address.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    Ok(bytes?.try_into().map_err(|_| "not an address of Ethernet")?)
}

fn map(object: &Object, name: &str) -> libbpf_rs::Result<MapHandle> {
    let found = object.maps().find(|found| found.name() == name);
    found.ok_or_else(|| std::io::Error::from(ErrorKind::NotFound).into()).and_then(|map| MapHandle::try_from(&map))
}

fn put(object: &Object, name: &str, key: u32, value: &[u8]) -> libbpf_rs::Result<()> {
    map(object, name)?.update(&key.to_ne_bytes(), value, MapFlags::ANY)
}

/// What the programs count.
struct Counters {
    load: MapHandle,
    came: MapHandle,
}

/// What was so far.
struct Counted {
    at: Instant,
    asked: u64,
    units: u64,
    nacks: u64,
}

impl Counters {
    fn read(&self) -> libbpf_rs::Result<Counted> {
        let (first, word) = (0_u32.to_ne_bytes(), |bytes: &[u8], at: usize| {
            bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
        });
        let load = self.load.lookup(&first, MapFlags::ANY)?.unwrap_or_else(|| vec![0; 40]);
        let came = self.came.lookup_percpu(&first, MapFlags::ANY)?.unwrap_or_default();
        let sum = |at: usize| came.iter().map(|one| word(one, at)).sum();
        Ok(Counted { at: Instant::now(), asked: word(&load, 16), units: sum(0), nacks: sum(8) })
    }
}
