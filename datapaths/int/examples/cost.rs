//! What telemetry costs: nanoseconds of each program per run, and throughput with and without it, through two pairs of virtual Ethernet
//! devices (host, router, host), in turns, of packets one by one and of buffers of segmentation offload. Then, behind a link of this many
//! Gbit/s (5 unless given), what it carries with headers included.
//!
//! Of a program's time it says the least of all tenths of a second, which other work on the machine hardly changes, and the mean. The
//! kernel's own measurement is in both, some tens of nanoseconds.
//!
//! `cargo run --release -p paceline-int --example cost -- [SECONDS [ROUNDS [GBITS]]]`, as root. Throughput wants a machine that does nothing else.

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
    use std::collections::HashSet;
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
    /// What a packet is to cost at most, and a buffer twice that (the format's prototype).
    const WANTED: [u32; 3] = [184, 83, 555];
    /// Sampling: a header on one of this many.
    const SAMPLED: u32 = 8;
    /// Between two looks at the kernel's measurement, and the runs that a look must have seen to count.
    const LOOK: Duration = Duration::from_millis(100);
    const RUNS: u64 = 200;

    pub(crate) fn main() {
        let mut numbers = std::env::args()
            .skip(1)
            .map(|word| word.parse::<u32>().expect("seconds, rounds and Gbit/s are whole numbers"));
        let seconds = numbers.next().unwrap_or(5);
        let rounds = numbers.next().unwrap_or(3);
        let link = numbers.next().unwrap_or(5);
        let Some(chain) = Chain::new("cost") else { return };
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        println!("processes that run or wait, in the last minute: {}", load.split(' ').next().unwrap_or_default());
        let mut rows = Vec::new();
        for (name, segments) in [("one packet", 1), ("a buffer", 65535)] {
            run(&chain.a, &format!("ip link set a0 gso_max_segs {segments}"));
            let (mut without, mut with, mut sampled) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                without.push(throughput(&chain, seconds));
                with.push(with_telemetry(&chain, seconds, 1, None));
                sampled.push(with_telemetry(&chain, seconds, SAMPLED, None));
            }
            let [without, with, sampled] = [without, with, sampled].map(median);
            let less = |with: f64| (with / without - 1.0) * 100.0;
            println!(
                "{name}: {without:.2} Gbit/s without, {with:.2} with ({:+.1} %), {sampled:.2} with each {SAMPLED}th alone ({:+.1} %)",
                less(with),
                less(sampled)
            );
            let mut times = Times::default();
            with_telemetry(&chain, seconds * rounds, 1, Some(&mut times));
            rows.push((name, times));
        }
        println!("ns a run, the least (the mean):{:>14}{:>14}{:>14}{:>9}", "source", "transit", "sink", "packets");
        for (name, times) in &rows {
            let columns = times.programs.map(|Time { least, ns, runs, .. }| format!("{least:.0} ({:.0})", ns / runs));
            let [source, transit, sink] = columns;
            println!("  {name:<29}{source:>14}{transit:>14}{sink:>14}{:>9.1}", times.packets);
        }
        println!("  wanted of a packet           {:>14}{:>14}{:>14}", WANTED[0], WANTED[1], WANTED[2]);
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
            with.push((with_telemetry(chain, seconds, 1, None), carried(before)));
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

    /// What the kernel measured of a program.
    #[derive(Clone, Copy, Default)]
    struct Time {
        runs: f64,
        ns: f64,
        /// Least mean of a [`LOOK`].
        least: f64,
        /// As the kernel has them.
        before: (u64, u64),
    }

    #[derive(Default)]
    struct Times {
        programs: [Time; 3],
        /// Packets to a header.
        packets: f64,
    }

    impl Times {
        /// Looks at the programs of these numbers.
        fn look(&mut self, ours: [u32; 3]) {
            for program in ProgInfoIter::default() {
                let Some(at) = ours.iter().position(|id| *id == program.id) else { continue };
                let time = &mut self.programs[at];
                let (runs, ns) = (program.run_cnt - time.before.0, program.run_time_ns - time.before.1);
                if runs < RUNS {
                    continue;
                }
                time.before = (program.run_cnt, program.run_time_ns);
                let mean = ns as f64 / runs as f64;
                time.least = if time.runs == 0.0 { mean } else { time.least.min(mean) };
                time.runs += runs as f64;
                time.ns += ns as f64;
            }
        }
    }

    fn programs() -> impl Iterator<Item = (u32, String)> {
        ProgInfoIter::default().map(|program| (program.id, program.name.to_string_lossy().into_owned()))
    }

    /// With all three roles; Gbit/s. Measuring the programs' times costs throughput itself.
    fn with_telemetry(chain: &Chain, seconds: u32, one_in: u32, times: Option<&mut Times>) -> f64 {
        let options = SourceOptions { ports: vec![PORT], patience: None, one_in, ..SourceOptions::default() };
        let others: HashSet<u32> = programs().map(|(id, _)| id).collect();
        let source = chain.a.enter(|| SourceNode::open("a0", &options)).unwrap().unwrap();
        let transit = chain.r.enter(|| TransitNode::open("r1", &TransitOptions::default())).unwrap().unwrap();
        let mut sink = chain.b.enter(|| SinkNode::open("b0", &SinkOptions::default())).unwrap().unwrap();
        // The kernel keeps 15 octets of a name. Other processes may have programs of these.
        let ours = PROGRAMS.map(|name| {
            let found = programs().find(|(id, of)| !others.contains(id) && !of.is_empty() && name.starts_with(of));
            found.expect("the three are loaded").0
        });
        let before = times.is_some().then(|| fs::read_to_string(STATISTICS).unwrap());
        if before.is_some() {
            fs::write(STATISTICS, "1").unwrap();
        }
        let ended = AtomicBool::new(false);
        let (rate, reports, times) = thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut count = 0;
                while !ended.load(Ordering::Relaxed) {
                    count += sink.reports(Duration::from_millis(50)).unwrap().len();
                }
                count
            });
            let looking = times.map(|times| {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        times.look(ours);
                        thread::sleep(LOOK);
                    }
                    times
                })
            });
            let rate = throughput(chain, seconds);
            ended.store(true, Ordering::Relaxed);
            (rate, reading.join().unwrap(), looking.map(|looking| looking.join().unwrap()))
        });
        if let Some(before) = before {
            fs::write(STATISTICS, before).unwrap();
        }
        let (sent, taken) = (source.counters(), sink.counters());
        if let Some(times) = times {
            times.packets = sent.packets as f64 / sent.inserted as f64;
            println!("  {} headers, {reports} reports, {} lost to a full ring", sent.inserted, taken.ring_full);
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
