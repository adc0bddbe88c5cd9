//! Simulated data packets per CPU second on the dumbbell, beside a bare event loop that does the least a simulator can:
//! a binary heap, three events a packet, no controller, no endpoint, no record. Both in one process, in turn; medians.
//!
//! The ratio is what to compare: it hardly depends on the machine. The table is Markdown, for `docs/results/benchmarks.md`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use paceline_cc::Rate;

mod world;

/// Rounds of which the median counts.
const ROUNDS: usize = 5;
/// Bytes of a full packet on the wire.
const PACKET: u64 = 1500;

fn main() {
    println!("| case | packets | packets a CPU second | bare loop | ratio |\n|---|---|---|---|---|");
    for (flows, mbps, seconds) in [(2, 100.0, 60), (2, 1000.0, 10), (500, 1000.0, 10)] {
        let rate = Rate::from_mbps(mbps);
        let mut packets = 0;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(per_second(|| {
                packets = black_box(world::packets(flows, rate, seconds));
                packets
            }));
            bare.push(per_second(|| bare_loop(packets, rate)));
        }
        let (ours, bare) = (median(&mut ours), median(&mut bare));
        let case = format!("{flows} flows at {mbps} Mbit/s, {seconds} s");
        let (million, millions) = (ours / 1e6, bare / 1e6);
        println!("| {case} | {packets} | {million:.2} million | {millions:.2} million | {:.2} |", ours / bare);
    }
}

/// Sends, serialises and acknowledges `packets` packets: twice the bandwidth-delay product in flight, no loss.
fn bare_loop(packets: u64, rate: Rate) -> u64 {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Send,
        Depart,
        Arrive,
    }
    let transmission = rate.time_for(PACKET).as_nanos();
    let delay = world::DELAY.as_nanos();
    let in_flight = (rate.bytes_in(world::DELAY + world::DELAY) / PACKET * 2).max(1);
    let mut heap: BinaryHeap<Reverse<(u64, u64, Event)>> =
        (0..in_flight).map(|id| Reverse((id, id, Event::Send))).collect();
    let (mut id, mut busy, mut arrived) = (in_flight, 0, 0);
    while arrived < packets {
        let Some(Reverse((now, _, event))) = heap.pop() else { break };
        id += 1;
        let next = match event {
            Event::Send => {
                busy = now.max(busy) + transmission;
                (busy, id, Event::Depart)
            }
            Event::Depart => (now + delay, id, Event::Arrive),
            Event::Arrive => {
                arrived += 1;
                (now + delay, id, Event::Send)
            }
        };
        heap.push(Reverse(next));
    }
    black_box(arrived)
}

/// Packets over the CPU time that `work` takes.
fn per_second(work: impl FnOnce() -> u64) -> f64 {
    let before = cpu_nanos();
    let packets = work();
    packets as f64 * 1e9 / (cpu_nanos() - before).max(1) as f64
}

/// CPU time of this thread (Linux), or the time of day where the system does not report it.
fn cpu_nanos() -> u64 {
    let reported = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    reported.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or_else(wall_nanos)
}

#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a bench measures time")]
fn wall_nanos() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
