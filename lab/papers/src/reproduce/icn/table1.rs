//! Table 1: what a server needs. Its memory is what the tables of a router have after one receiver and after 10,000; processor time is
//! measured by `scripts/bench-icn`, beside nginx over the kernel's TCP, since it belongs to real sockets on a quiet machine.

use crate::reproduce::prelude::*;
use paceline_experiment::Seed;
use paceline_experiment::icn::SyntheticObject;

use super::OURS;
use super::network::Links;
use super::run::{self, claim};

/// Receivers, and bytes that each fetches.
const RECEIVERS: [usize; 3] = [1, 100, 10_000];
const BYTES: u64 = 20_000;
/// Between the starts of two: they overlap (a fetch takes some 30 ms).
const APART: Nanos = Nanos::from_micros(100);

/// Bytes of a router's tables after this many receivers, and how many of them got their object.
fn memory(receivers: usize) -> (usize, usize) {
    let mut links = Links::new(1);
    let down = "rate = \"10 Gbit/s\"\ndelay = \"5ms\"\nqueue = \"droptail:packets=10000\"";
    links.link(["router", "user"], down, "delay = \"5ms\"");
    let mut network = links.world(60);
    let object = SyntheticObject::new(BYTES, Seed(1));
    let router = network.router("router", std::slice::from_ref(&object));
    let mut fetches = Vec::new();
    for _ in 0..receivers {
        fetches.push(network.receiver("user", &object, &[router]));
        network.world.run_until(network.world.now() + APART);
    }
    network.world.run_until(network.world.now() + Nanos::from_secs(30));
    let whole = fetches.iter().filter(|fetch| network.world.node(**fetch).is_whole()).count();
    (network.world.node(router).memory(), whole)
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let found = RECEIVERS.map(memory);
    let cell = |at: usize| {
        let ((bytes, whole), (first, _)) = (found[at], found[0]);
        let ours = format!("{} bytes more than after one; {whole} objects", bytes as i64 - first as i64);
        let holds = bytes == first && whole == RECEIVERS[at];
        run::cell("table1", format!("{} receivers", RECEIVERS[at]), ours, holds)
    };
    let text = "a router keeps nothing of a receiver: its tables have as many bytes after any number of them";
    let row = |at: usize| plain(RECEIVERS[at].to_string(), [found[at].0, found[at].1].map(|count| count.to_string()));
    let paper = |name: &str, cells: [&str; 4]| plain(name, cells.map(str::to_owned));
    Ok(Findings {
        setup: vec![
            "Processor time is measured by scripts/bench-icn (docs/results/icn.md): it belongs to real sockets on a quiet machine. Here: the \
             memory of a router's tables, as the product makes them."
                .to_owned(),
        ],
        claims: vec![claim(text, OURS, "0 bytes a connection; TCP: about 3000", vec![cell(1), cell(2)])],
        tables: vec![
            Table::new(
                "A router's tables",
                "Buckets of sources, the queue, and what waits for an upstream router.",
                ["bytes", "objects fetched"],
                (0..RECEIVERS.len()).map(row),
            ),
            Table::new(
                "The paper's table",
                "500 Mbit/s, 10 ms, 100 users, 60 s.",
                ["CPU, %", "bytes a connection", "lines of code", "keeps state"],
                [
                    paper("Ours (the paper's)", ["4.8 \u{b1} 0.4", "0", "\u{2248} 500", "no"]),
                    paper("TCP with BBR", ["8.8 \u{b1} 0.6", "\u{2248} 3000", "> 15000", "yes"]),
                    paper("TCP with CUBIC", ["7.0 \u{b1} 0.5", "\u{2248} 3000", "> 15000", "yes"]),
                ],
            ),
        ],
        ..Findings::default()
    })
}
