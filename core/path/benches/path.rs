//! Cost of a packet through a path, by kind of link and queue.

use criterion::{BatchSize, Criterion, Throughput};
use paceline_cc::{Codepoint, Nanos, Time};
use paceline_path::{Direction, Media, Packet, Path, Seat, Synth, WifiRole};
use std::sync::Arc;

/// As large as what the simulator sends.
type Body = [u64; 8];

const PACKETS: u64 = 10_000;

fn path(text: &str) -> Path<Body> {
    let direction: Direction = toml::from_str(text).expect("valid");
    let load = |name: &str| Synth::default().trace(name).map(Arc::new);
    let seat = Seat { media: &mut Media::default(), link: "link", node: 0, role: WifiRole::AccessPoint };
    direction.build_in(1, Nanos::from_millis(40), &load, seat).expect("valid")
}

/// A window of 100 packets that goes round and round.
fn circulate(mut path: Path<Body>) -> Path<Body> {
    for flow in 0..100 {
        path.push(Time::ZERO, Packet::new(flow % 2, 1500, Codepoint::Ect0, [0; 8]));
    }
    let mut count = 0;
    while count < PACKETS {
        let now = path.next();
        while let Some(packet) = path.pop(now) {
            path.push(now, Packet::new(packet.flow, 1500, Codepoint::Ect0, packet.body));
            count += 1;
        }
    }
    path
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("path");
    group.throughput(Throughput::Elements(PACKETS));
    let cases = [
        ("delay", "delay = '20ms'"),
        ("rate", "rate = '100 Mbit/s'\nqueue = 'droptail:bdp=1'\ndelay = '20ms'"),
        ("steps", "schedule = [['0s', '100 Mbit/s'], ['1s', '50 Mbit/s']]\nschedule_lap = '2s'\ndelay = '20ms'"),
        ("trace", "trace = 't'\ndelay = '20ms'"),
        ("loss", "rate = '100 Mbit/s'\nduplicate = 0.0\ndelay = '20ms'"),
        ("codel", "rate = '100 Mbit/s'\nqueue = 'codel'\ndelay = '20ms'"),
        ("fq_codel", "rate = '100 Mbit/s'\nqueue = 'fq_codel'\ndelay = '20ms'"),
        ("wifi", "wifi = { phy = 'vht80-2ss-mcs9' }\ndelay = '20ms'"),
        ("wifi beside one", "wifi = { phy = 'vht80-2ss-mcs9', competitors = 1 }\ndelay = '20ms'"),
        ("pie", "rate = '100 Mbit/s'\nqueue = 'pie'\ndelay = '20ms'"),
        ("dualpi2", "rate = '100 Mbit/s'\nqueue = 'dualpi2'\ndelay = '20ms'"),
        ("step", "rate = '100 Mbit/s'\nqueue = 'step:threshold=1ms'\ndelay = '20ms'"),
        ("jitter", "rate = '100 Mbit/s'\ndelay = '20ms'\njitter = { max = '5ms', reorder = true }"),
    ];
    for (name, text) in cases {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| path(text), circulate, BatchSize::LargeInput);
        });
    }
    group.finish();
    criterion.final_summary();
}
