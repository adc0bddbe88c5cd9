//! What telemetry costs: nanoseconds of each program per run, and throughput with and without it, through two pairs of virtual Ethernet
//! devices (host, router, host), in turns. Then, behind a link of this many Gbit/s (5 unless given), what it carries with headers included.
//!
//! `cargo run --release -p paceline-int --example cost -- [SECONDS [ROUNDS [GBITS]]]`, as root, on a machine that does nothing else.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
#[path = "../tests/nodes/mod.rs"]
mod nodes;

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use libbpf_rs::query::ProgInfoIter;
    use paceline_int::{SinkNode, SinkOptions, SourceNode, SourceOptions, TransitNode, TransitOptions};

    use crate::nodes::{B, Chain, run};

    const PORT: u16 = 5210;
    /// Whether the kernel measures programs.
    const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
    const PROGRAMS: [&str; 3] = ["pl_int_source", "pl_int_transit", "pl_int_sink"];

    pub(crate) fn main() {
        let mut numbers = std::env::args()
            .skip(1)
            .map(|word| word.parse::<u32>().expect("seconds, rounds and Gbit/s are whole numbers"));
        let seconds = numbers.next().unwrap_or(5);
        let rounds = numbers.next().unwrap_or(3);
        let link = numbers.next().unwrap_or(5);
        let Some(chain) = Chain::new("cost") else { return };
        for one_packet in [false, true] {
            let segments = if one_packet { 1 } else { 65535 };
            run(&chain.a, &format!("ip link set a0 gso_max_segs {segments}"));
            let name = if one_packet { "one packet to a buffer" } else { "segmentation offload" };
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                without.push(throughput(&chain, seconds));
                with.push(measured(&chain, seconds, false));
            }
            let [without, with] = [without, with].map(median);
            println!(
                "{name}: {without:.2} Gbit/s without, {with:.2} Gbit/s with ({:+.1} %)",
                (with / without - 1.0) * 100.0
            );
            measured(&chain, seconds, true);
        }
        run(&chain.a, "ip link set a0 gso_max_segs 65535");
        behind_a_link(&chain, seconds, rounds, link);
    }

    /// Through a router whose link, of `gbits` Gbit/s, is full.
    fn behind_a_link(chain: &Chain, seconds: u32, rounds: u32, gbits: u32) {
        run(&chain.r, &format!("tc qdisc replace dev r1 root tbf rate {gbits}gbit burst 2mb limit 4mb"));
        let carried = |before: u64| (sent(chain) - before) as f64 * 8e-9 / f64::from(seconds);
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let before = sent(chain);
            without.push((throughput(chain, seconds), carried(before)));
            let before = sent(chain);
            with.push((measured(chain, seconds, false), carried(before)));
        }
        let [without, with] = [without, with].map(|each| {
            let (payload, wire): (Vec<f64>, Vec<f64>) = each.into_iter().unzip();
            (median(payload), median(wire))
        });
        println!(
            "a link of {gbits} Gbit/s: {:.2} Gbit/s without, {:.2} with ({:+.1} %); payload {:.2} and {:.2} ({:+.1} %)",
            without.1,
            with.1,
            (with.1 / without.1 - 1.0) * 100.0,
            without.0,
            with.0,
            (with.0 / without.0 - 1.0) * 100.0
        );
    }

    /// Octets that the router's link has carried, each packet's headers included.
    fn sent(chain: &Chain) -> u64 {
        let text = run(&chain.r, "tc -s qdisc show dev r1");
        let octets = text.split_whitespace().skip_while(|word| *word != "Sent").nth(1);
        octets.and_then(|word| word.parse().ok()).expect("tc says how much was sent")
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// With all three roles; Gbit/s. With `statistics`, prints what the programs took, which costs throughput itself.
    fn measured(chain: &Chain, seconds: u32, statistics: bool) -> f64 {
        let options = SourceOptions { ports: vec![PORT], patience: None, ..SourceOptions::default() };
        let source = chain.a.enter(|| SourceNode::open("a0", &options)).unwrap().unwrap();
        let transit = chain.r.enter(|| TransitNode::open("r1", &TransitOptions::default())).unwrap().unwrap();
        let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
        let before = statistics.then(|| fs::read_to_string(STATISTICS).unwrap());
        if statistics {
            fs::write(STATISTICS, "1").unwrap();
        }
        let ended = AtomicBool::new(false);
        let (rate, reports) = thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut count = 0;
                while !ended.load(Ordering::Relaxed) {
                    count += sink.reports(Duration::from_millis(50)).unwrap().len();
                }
                count
            });
            let rate = throughput(chain, seconds);
            ended.store(true, Ordering::Relaxed);
            (rate, reading.join().unwrap())
        });
        if let Some(before) = before {
            fs::write(STATISTICS, before).unwrap();
            let (sent, taken) = (source.counters(), sink.counters());
            let segments = sent.packets as f64 / sent.inserted as f64;
            println!(
                "  {} headers, {segments:.1} packets each, {reports} reports, ring full {}",
                sent.inserted, taken.ring_full
            );
            for program in ProgInfoIter::default() {
                let name = program.name.to_string_lossy().into_owned();
                if PROGRAMS.iter().any(|one| one.starts_with(&name)) && program.run_cnt > 0 {
                    let each = program.run_time_ns as f64 / program.run_cnt as f64;
                    println!("  {name}: {each:.0} ns a run ({} runs)", program.run_cnt);
                }
            }
        }
        drop((source, transit));
        rate
    }

    /// Gbit/s of payload from a to b.
    fn throughput(chain: &Chain, seconds: u32) -> f64 {
        let listener = chain.b.enter(|| TcpListener::bind((B, PORT))).unwrap().unwrap();
        let mut client = chain.a.enter(|| TcpStream::connect((B, PORT))).unwrap().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let reading = thread::spawn(move || {
            let (mut buffer, mut octets) = (vec![0; 1 << 18], 0_u64);
            let start = Instant::now();
            loop {
                match server.read(&mut buffer).unwrap() {
                    0 => return octets as f64 * 8e-9 / start.elapsed().as_secs_f64(),
                    length => octets += length as u64,
                }
            }
        });
        let block = vec![0; 1 << 18];
        let end = Instant::now() + Duration::from_secs(seconds.into());
        while Instant::now() < end {
            client.write_all(&block).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
        reading.join().unwrap()
    }
}
