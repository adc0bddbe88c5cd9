//! The emulator on this machine: accuracy at 12, 100 and 500 Mbit/s, and capacity. Needs root or user namespaces.
//!
//! `cargo bench -p paceline-net`; behind it `-- veth` or `-- tun` for one kind of interface, `accuracy` or `capacity` for one half of
//! the figures. Those of a busy machine are those of the machine.
#![cfg(target_os = "linux")]

use paceline_cc::{Nanos, Rate};
use paceline_emulator::accuracy::{AccuracyError, ProbeLoad, Quantiles, accuracy, bare, capacity, detour};
use paceline_emulator::world::Wire;
use paceline_linux::namespace;

fn main() {
    if let Err(error) = namespace::acquire() {
        println!("skipped: {error}");
        return;
    }
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn us(quantiles: Quantiles) -> String {
    let micros = [quantiles.p50, quantiles.p99, quantiles.max].map(|span| span.as_nanos() as f64 / 1e3);
    format!("{:>7.1} {:>7.1} {:>9.1}", micros[0], micros[1], micros[2])
}

fn run() -> Result<(), AccuracyError> {
    let span = Nanos::from_secs(4);
    let asked: Vec<String> = std::env::args().skip(1).map(|word| word.to_lowercase()).collect();
    let halves = ["accuracy", "capacity"];
    let one_half = halves.iter().any(|half| asked.iter().any(|word| word == half));
    let [accurate, capable] = halves.map(|half| !one_half || asked.iter().any(|word| word == half));
    if accurate {
        println!("times in us: p50 p99 max");
        println!("ping over a bare veth pair    {}", us(bare(span)?));
        println!("detour by a program's hosts   {}", us(detour(span)?));
    }
    let named = |wire: &Wire| asked.contains(&format!("{wire:?}").to_lowercase());
    let all = [Wire::Veth, Wire::Tun];
    let some: Vec<Wire> = all.into_iter().filter(named).collect();
    for wire in if some.is_empty() { all.to_vec() } else { some } {
        for mbps in [12.0, 100.0, 500.0].into_iter().filter(|_| accurate) {
            let figures = accuracy(wire, Rate::from_mbps(mbps), span)?;
            println!(
                "{wire:?} {mbps:>3} Mbit/s: goodput {:+.3} % of {} offered, RTT error {} (seen {}), release error {}, when full {}, \
                 CPU {:.1} %, {}{}",
                figures.goodput_error() * 100.0,
                figures.offered,
                us(figures.rtt_error),
                us(figures.rtt_error_seen),
                us(figures.release_error),
                us(figures.release_error_full),
                figures.cpu * 100.0,
                figures.scheduling,
                if figures.trusted { "" } else { ", not trusted" },
            );
        }
        for load in [ProbeLoad::Tcp(4), ProbeLoad::Udp(1500), ProbeLoad::Udp(200)].into_iter().filter(|_| capable) {
            let figures = capacity(wire, load, span)?;
            println!(
                "{wire:?} {load:?}: {:.0} packets/s, {}, {:.1} % of a core, {:.0} packets/s per core, {} lost",
                figures.packets_per_s,
                figures.rate,
                figures.cpu * 100.0,
                figures.packets_per_s / figures.cpu,
                figures.lost
            );
        }
    }
    Ok(())
}
