//! What an answer of the kernel's store costs, without an interface: `cargo run --release -p paceline-store --example cost`, as root.

#[path = "../tests/asking/mod.rs"]
mod asking;

use std::error::Error;
use std::io::Write;

use asking::{Asking, STORED, name, part, settings};
use paceline_cc::Rate;
use paceline_icn::{Limits, RouterConfig};
use paceline_store::{FrameVerdict, KernelStore};

/// Objects that are in it: 128 parts of 64 units, 11 MB, and more than the second cache of most processors.
const OBJECTS: u8 = 128;

/// Frames for each row.
const FRAMES: u64 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut kernel = KernelStore::load(16 << 20)?;
    // A limit, so that it is looked at, and wide enough.
    let config = RouterConfig { source_rate: Rate::from_bytes_per_sec(1 << 40), ..RouterConfig::new(Rate::INFINITY) };
    let limits = Limits::within(&config, 9, kernel.buckets());
    kernel.set(&settings(&limits))?;
    kernel.answer_for(&["192.0.2.1".parse()?, "2001:db8::1".parse()?])?;
    for number in 0..OBJECTS {
        kernel.insert(&name(number), 0, STORED, &part(&name(number), 0))?;
    }
    let mut out = std::io::stdout();
    let (v4, v6) = ("198.51.100.9:40000", "[2001:db8:7:1::9]:40000");
    let mut other = Asking::new(v4, 1, 3);
    other.request.hops = 9;
    let passed = ns(&kernel, |_| other)?;
    writeln!(out, "another form:                  least {} ns, median {} ns", passed.0, passed.1)?;
    for (what, from) in [("IPv4", v4), ("IPv6", v6)] {
        let one = ns(&kernel, |_| Asking::new(from, 1, 3))?;
        let all = ns(&kernel, |turn| Asking::new(from, (turn * 37 % u64::from(OBJECTS)) as u8, turn * 13 % 64))?;
        writeln!(out, "{what}, the same unit:           least {} ns, median {} ns", one.0, one.1)?;
        writeln!(out, "{what}, of 8192 units in turn:   least {} ns, median {} ns", all.0, all.1)?;
    }
    writeln!(out, "{:?}", kernel.counts()?)?;
    Ok(())
}

/// The least and the median time of the program for a frame, of one run each.
fn ns(kernel: &KernelStore, asking: impl Fn(u64) -> Asking) -> Result<(u128, u128), Box<dyn Error>> {
    let frames: Vec<Vec<u8>> = (0..8192).map(|turn| asking(turn).frame()).collect();
    let mut times = Vec::new();
    for frame in frames.iter().cycle().take(FRAMES as usize) {
        let (verdict, time) = kernel.judge(frame)?;
        assert_ne!(verdict, FrameVerdict::Dropped);
        times.push(time.as_nanos());
    }
    times.sort_unstable();
    Ok((times[0], times[times.len() / 2]))
}
