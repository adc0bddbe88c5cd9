//! Measures paced chirping from a kernel socket: how exact the gaps are, what the chirps find, and how soon a new flow has half of
//! its share beside a greedy one.
//!
//! `sudo cargo run --release -p paceline-kernel --example chirp -- gaps | estimates | newcomer [TIMES]`
//!
//! Sender, bottleneck and receiver are in namespaces of their own, joined by the emulator. What left when is what the kernel stamped
//! on the sender's interface. Each result is a line of JSON.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    measure::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod measure {
    use std::error::Error;
    use std::fs;
    use std::io::{Read, Write};
    use std::mem::offset_of;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::{Duration, Instant};

    use libbpf_rs::query::{MapInfo, MapInfoIter};
    use libbpf_rs::{MapCore, MapFlags, MapHandle};
    use paceline_cc::{Nanos, Rate, Time};
    use paceline_emulator::Frame;
    use paceline_emulator::emulator::{EmulatorTap, Passage};
    use paceline_emulator::frame;
    use paceline_emulator::world::{Between, EmulatedWorld, Far};
    use paceline_experiment::DumbbellWay as Way;
    use paceline_kernel::{CHIRP, CHIRP_R, DCTCP, Module};
    use paceline_linux::clock::{Clock, Lateness};
    use paceline_linux::namespace::{Namespace, acquire};
    use paceline_path::{Direction, Path};
    use socket2::{Domain, Protocol, SockRef, Socket, Type};

    type Failure = Box<dyn Error + Send + Sync>;

    /// A data packet at the bottleneck.
    #[derive(Clone, Copy)]
    struct Packet {
        port: u16,
        seq: u32,
        bytes: u32,
        entered: Time,
        left: Time,
        queue: Nanos,
    }

    struct Log(Arc<Mutex<Vec<Packet>>>);

    impl EmulatorTap for Log {
        fn left(&mut self, passage: &Passage<'_>) {
            let Some(key) = frame::flow_key(passage.bytes) else { return };
            if passage.direction != Way::Down || key.protocol != 6 {
                return;
            }
            let ip = usize::from(passage.bytes[0] & 15) * 4;
            let Some(tcp) = passage.bytes.get(ip..ip + 20) else { return };
            let bytes = passage.bytes.len() - ip - usize::from(tcp[12] >> 4) * 4;
            if bytes > 0 {
                let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                self.0.lock().unwrap().push(Packet {
                    port: key.source.port(),
                    seq,
                    bytes: bytes as u32,
                    entered: passage.entered,
                    left: passage.at,
                    queue: passage.delay.queue,
                });
            }
        }
    }

    /// Sender, bottleneck and receiver.
    struct Bench {
        world: EmulatedWorld,
        packets: Arc<Mutex<Vec<Packet>>>,
        listener: TcpListener,
        to: SocketAddr,
        end: Arc<AtomicBool>,
        readers: thread::JoinHandle<()>,
    }

    impl Bench {
        fn new(rate: f64, delay: Nanos, queue: &str, module: &str) -> Result<Self, Failure> {
            let path = |rate, queue: Option<&str>| -> Result<Path<Frame>, Failure> {
                let queue = queue.map(str::parse).transpose().map_err(|error| format!("{error:?}"))?;
                let direction = Direction { rate, delay, queue, ..Direction::default() };
                direction.build(7, delay + delay, &|_| Err("no trace")).map_err(|error| format!("{error}").into())
            };
            let packets = Arc::<Mutex<Vec<Packet>>>::default();
            let between = Between {
                down: path(Some(Rate::from_mbps(rate)), Some(queue))?,
                up: path(None, None)?,
                taps: vec![Box::new(Log(packets.clone()))],
                clock: Clock::new(),
                bound: Lateness::BOUND,
            };
            let world = EmulatedWorld::build(Far::Isolated, between)?;
            let (near, far) = (world.near().clone(), world.far().clone());
            for site in [&near, &far] {
                site.namespace.enter(|| {
                    fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 4194304 16777216")?;
                    fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 1048576 16777216")?;
                    fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")
                })??;
            }
            ip(&far.namespace, &["link", "set", "dev", &far.interface, "gso_max_segs", "1"])?;
            let subnet = format!("{}/18", Ipv4Addr::from_bits(near.ipv4.to_bits() & !0x3fff));
            let source = near.ipv4.to_string();
            ip(
                &near.namespace,
                &["route", "replace", &subnet, "dev", &near.interface, "src", &source, "quickack", "1"],
            )?;
            let listener = near.namespace.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
            SockRef::from(&listener).set_tcp_congestion(module.as_bytes())?;
            let to = SocketAddr::from((near.ipv4, listener.local_addr()?.port()));
            let accepting = listener.try_clone()?;
            let end = Arc::new(AtomicBool::new(false));
            let stop = end.clone();
            let readers = thread::spawn(move || {
                let mut threads = Vec::new();
                while let Ok((mut stream, _)) = accepting.accept() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    threads.push(thread::spawn(move || {
                        let mut buffer = vec![0; 1 << 16];
                        while let Ok(1..) = stream.read(&mut buffer) {}
                    }));
                }
                threads.into_iter().for_each(|thread| drop(thread.join()));
            });
            Ok(Self { world, packets, listener, to, end, readers })
        }

        fn connect(&self, module: &str) -> Result<TcpStream, Failure> {
            let to = self.to;
            let socket = self.world.far().namespace.enter(|| -> std::io::Result<Socket> {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
                socket.set_tcp_congestion(module.as_bytes())?;
                socket.connect(&to.into())?;
                Ok(socket)
            })??;
            Ok(socket.into())
        }

        fn finish(self) -> Result<Vec<Packet>, Failure> {
            self.end.store(true, Ordering::Relaxed);
            // Wakes the thread that accepts.
            let _ = self.world.near().namespace.enter(|| TcpStream::connect((Ipv4Addr::LOCALHOST, self.to.port())));
            drop(self.listener);
            let _ = self.readers.join();
            let report = self.world.stop()?;
            if !report.trusted() {
                let lateness = &report.lateness;
                eprintln!("the host was busy: packets left up to {:?} late, 99 % {:?}", lateness.max(), lateness.p99());
            }
            let packets = self.packets.lock().unwrap().clone();
            Ok(packets)
        }
    }

    fn ip(namespace: &Namespace, arguments: &[&str]) -> Result<(), Failure> {
        let output = namespace.enter(|| Command::new("ip").args(arguments).output())??;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)).into())
    }

    /// Writes for this long, then resets the connection.
    fn write(mut stream: &TcpStream, span: Duration) {
        let (start, chunk) = (Instant::now(), vec![0; 1 << 16]);
        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
        while start.elapsed() < span {
            let _ = stream.write(&chunk);
        }
        let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    }

    /// The flow as the module keeps it in the socket (`struct flow` of chirp.bpf.c): what is read here of it.
    #[repr(C)]
    struct Adaptive {
        gap: u64,
        capacity: u64,
        srtt: u64,
        min_rtt: u64,
        load: u64,
        scatter: u64,
        unmarked: u64,
        waiting: u64,
        near: u64,
        pace: u64,
        counts: [u32; 6],
        flags: [u8; 4],
    }

    #[repr(C)]
    struct Flow {
        start: Adaptive,
        words: [u32; 7],
        flags: [u8; 7],
        ack: [u64; 6],
        trains: [Train; 64],
    }

    #[repr(C)]
    struct Train {
        first: u64,
        step: u64,
        packets: u32,
        padding: u32,
        start: u32,
        end: u32,
        kind: u8,
        flags: [u8; 7],
        marked: u16,
        bursts: [u8; 2],
        times: [u64; 6],
        shrinking: [u64; 2],
        onset: [u64; 10],
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Plan {
        start: u32,
        packets: u32,
        first: u64,
        step: u64,
    }

    /// What a flow has found, and the plans of its latest chirps.
    struct Look {
        at: Instant,
        stage: u8,
        gap: u64,
        capacity: u64,
        load: f64,
        plans: Vec<Plan>,
    }

    /// The maps of flows of all modules that are loaded.
    struct Flows(Vec<MapHandle>);

    impl Flows {
        fn open() -> Result<Self, Failure> {
            let of_flows = |map: &MapInfo| map.name == "chirp_flows" && map.value_size as usize == size_of::<Flow>();
            let ids = MapInfoIter::default().filter(of_flows).map(|map| map.id);
            let maps: Vec<MapHandle> = ids.map(MapHandle::from_map_id).collect::<Result<_, _>>()?;
            if maps.is_empty() {
                return Err(format!("no module has flows of {} bytes", size_of::<Flow>()).into());
            }
            Ok(Self(maps))
        }

        fn look(&self, stream: &TcpStream) -> Option<Look> {
            let key = stream.as_raw_fd().to_ne_bytes();
            let bytes = self.0.iter().find_map(|map| map.lookup(&key, MapFlags::ANY).ok()?)?;
            let long = |at: usize| bytes.get(at..at + 8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()));
            let short = |at: usize| bytes.get(at..at + 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap()));
            let plans = (0..64).filter_map(|index| {
                let at = offset_of!(Flow, trains) + index * size_of::<Train>();
                let plan = Plan {
                    start: short(at + offset_of!(Train, start))?,
                    packets: short(at + offset_of!(Train, packets))?,
                    first: long(at + offset_of!(Train, first))?,
                    step: long(at + offset_of!(Train, step))?,
                };
                // Chirps all of which have left.
                (bytes[at + offset_of!(Train, kind)] == 2 && short(at + offset_of!(Train, end))? != 0).then_some(plan)
            });
            Some(Look {
                at: Instant::now(),
                stage: bytes[offset_of!(Flow, flags) + 1],
                gap: long(offset_of!(Flow, start) + offset_of!(Adaptive, gap))?,
                capacity: long(offset_of!(Flow, start) + offset_of!(Adaptive, capacity))?,
                load: long(offset_of!(Flow, start) + offset_of!(Adaptive, load))? as f64 / 65536.0,
                plans: plans.collect(),
            })
        }
    }

    /// Writes for `span` and looks at the flow every two milliseconds meanwhile.
    fn write_and_look(stream: &TcpStream, span: Duration) -> Result<Vec<Look>, Failure> {
        let flows = Flows::open()?;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut looks = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    looks.extend(flows.look(stream));
                    thread::sleep(Duration::from_millis(2));
                }
                looks
            });
            write(stream, span);
            over.store(true, Ordering::Relaxed);
            Ok(watcher.join().expect("it does not panic"))
        })
    }

    fn quantile(sorted: &[f64], share: f64) -> f64 {
        sorted.get(((sorted.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(f64::NAN)
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        quantile(&values, 0.5)
    }

    /// Gaps of all chirps of flows over links of this rate against their plans.
    fn gaps(module: &'static Module, flows: u32) -> Result<(), Failure> {
        let _held = module.load()?;
        let (mut errors, mut averages, mut chirps, mut falling, mut pairs) = (Vec::new(), Vec::new(), 0, 0, 0);
        for _ in 0..flows {
            // 60 Mbit/s are 200 us a packet.
            let bench = Bench::new(60.0, Nanos::from_millis(20), "step:threshold=2ms", module.name)?;
            let stream = bench.connect(module.name)?;
            let port = stream.local_addr()?.port();
            let looks = write_and_look(&stream, Duration::from_millis(900))?;
            drop(stream);
            let packets = bench.finish()?;
            let mut plans: Vec<Plan> = looks.iter().flat_map(|look| look.plans.clone()).collect();
            plans.sort_unstable();
            plans.dedup();
            for plan in plans {
                let mut sent: Vec<(u32, Time)> = packets
                    .iter()
                    .filter(|packet| packet.port == port)
                    .map(|packet| (packet.seq.wrapping_sub(plan.start), packet.entered))
                    .filter(|(offset, _)| *offset < plan.packets * 1448)
                    .collect();
                sent.sort_unstable();
                if sent.len() != plan.packets as usize {
                    continue;
                }
                chirps += 1;
                averages.push((plan.first as f64 / 2.0) / 1e3);
                let gap = |at: usize| sent[at + 1].1.since(sent[at].1).as_nanos() as f64;
                for at in 0..sent.len() - 1 {
                    let planned = plan.first.saturating_sub(plan.step * at as u64) as f64;
                    errors.push((gap(at) - planned).abs() / 1e3);
                    if at > 0 {
                        pairs += 1;
                        falling += i32::from(gap(at) < gap(at - 1));
                    }
                }
            }
        }
        errors.sort_by(f64::total_cmp);
        println!(
            "{{\"what\":\"gaps\",\"module\":\"{}\",\"chirps\":{chirps},\"average_gap_us\":{:.1},\"error_us\":{{\"p50\":{:.1},\
             \"p90\":{:.1},\"p99\":{:.1}}},\"falling\":{:.3}}}",
            module.name,
            median(averages),
            quantile(&errors, 0.5),
            quantile(&errors, 0.9),
            quantile(&errors, 0.99),
            f64::from(falling) / f64::from(pairs.max(1)),
        );
        Ok(())
    }

    /// What flows alone on a link find of its capacity.
    fn estimates(module: &'static Module, flows: u32) -> Result<(), Failure> {
        let _held = module.load()?;
        for number in 0..flows {
            let rate = [20.0, 50.0, 100.0][number as usize % 3];
            let truth = 1500.0 * 8.0 / rate;
            let bench = Bench::new(rate, Nanos::from_micros(7_500), "step:threshold=1ms", module.name)?;
            let stream = bench.connect(module.name)?;
            let start = Instant::now();
            let looks = write_and_look(&stream, Duration::from_millis(1_500))?;
            drop(stream);
            let packets = bench.finish()?;
            let ended = looks.iter().find(|look| look.stage != 0);
            let queue = packets.iter().map(|packet| packet.queue.as_nanos()).max().unwrap_or(0) as f64 / 1e6;
            let last = ended.or(looks.last()).ok_or("the flow was not seen")?;
            let (found, burst) = (last.gap as f64 / 1e3, last.capacity as f64 / 1e3);
            println!(
                "{{\"what\":\"estimate\",\"module\":\"{}\",\"mbps\":{rate},\"true_gap_us\":{truth:.1},\"burst_us\":{burst:.1},\
                 \"gap_us\":{found:.1},\
                 \"off\":{:.3},\"load\":{:.1},\"chirping_ms\":{:.0},\"stage\":{},\"queue_ms\":{queue:.2}}}",
                module.name,
                found / truth - 1.0,
                ended.map_or(f64::NAN, |look| look.load),
                ended.map_or(f64::NAN, |look| (look.at - start).as_secs_f64() * 1e3),
                ended.map_or(0, |look| look.stage),
            );
        }
        Ok(())
    }

    /// After how many seconds from `start` on the mean rate over the 60 ms before is 25 Mbit/s, as in scenario "newcomer".
    fn half_share(packets: &[Packet], port: u16, start: Time) -> Option<f64> {
        const STEP: u64 = 1_000_000;
        const WINDOW: usize = 60;
        let own = packets.iter().filter(|packet| packet.port == port);
        let mut steps = Vec::new();
        for packet in own {
            let step = (packet.left.since(start).as_nanos() / STEP) as usize;
            steps.resize(steps.len().max(step + 1), 0);
            steps[step] += u64::from(packet.bytes);
        }
        let enough = 25e6 / 8.0 * 0.06;
        let at = steps.windows(WINDOW).position(|window| window.iter().sum::<u64>() as f64 >= enough)?;
        Some((at + WINDOW) as f64 / 1e3)
    }

    /// A new flow beside a greedy one of DCTCP over 100 Mbit/s, 15 ms, step marking at 1 ms.
    fn newcomer(own: &'static Module, runs: u32) -> Result<(), Failure> {
        let mut held = vec![DCTCP.load()?];
        if own.name != DCTCP.name {
            held.push(own.load()?);
        }
        let own = own.name;
        let (mut times, mut peaks) = (Vec::new(), Vec::new());
        for run in 0..runs {
            let bench = Bench::new(100.0, Nanos::from_micros(7_500), "step:threshold=1ms", DCTCP.name)?;
            let first = bench.connect(DCTCP.name)?;
            let port = thread::scope(|scope| -> Result<u16, Failure> {
                scope.spawn(|| write(&first, Duration::from_millis(4_500)));
                thread::sleep(Duration::from_millis(2_000 + 37 * u64::from(run % 3)));
                let second = bench.connect(own)?;
                let port = second.local_addr()?.port();
                write(&second, Duration::from_millis(2_300));
                Ok(port)
            })?;
            drop(first);
            let packets = bench.finish()?;
            let start = packets.iter().filter(|packet| packet.port == port).map(|packet| packet.entered).min();
            // From the handshake on, a round trip before, as a simulated flow counts.
            let start = Time::from_nanos(start.unwrap_or(Time::ZERO).as_nanos().saturating_sub(15_000_000));
            let peak = packets
                .iter()
                .filter(|packet| packet.left >= start && packet.left.since(start) <= Nanos::from_secs(1))
                .map(|packet| packet.queue.as_nanos())
                .max();
            let peak = peak.unwrap_or(0) as f64 / 1e6;
            let time = half_share(&packets, port, start);
            let bytes: u64 =
                packets.iter().filter(|packet| packet.port == port).map(|packet| u64::from(packet.bytes)).sum();
            println!(
                "{{\"what\":\"newcomer\",\"controller\":\"{own}\",\"run\":{run},\"half_share_ms\":{},\"peak_queue_ms\":{peak:.2},\
                 \"mean_mbps\":{:.1}}}",
                time.map_or("null".to_owned(), |time| format!("{:.0}", time * 1e3)),
                bytes as f64 * 8.0 / 2.3e6,
            );
            times.push(time.unwrap_or(f64::INFINITY) * 1e3);
            peaks.push(peak);
        }
        let worst = peaks.iter().copied().fold(0.0, f64::max);
        println!(
            "{{\"what\":\"newcomers\",\"controller\":\"{own}\",\"runs\":{runs},\"half_share_ms\":{:.0},\"peak_queue_ms\":{:.2},\
             \"worst_queue_ms\":{worst:.2}}}",
            median(times),
            median(peaks),
        );
        Ok(())
    }

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        acquire()?;
        let mut arguments = std::env::args().skip(1);
        let (what, runs) = (arguments.next(), arguments.next().and_then(|runs| runs.parse().ok()));
        let run = || match what.as_deref() {
            Some("gaps") => gaps(CHIRP, runs.unwrap_or(4)),
            Some("estimates") => estimates(CHIRP, runs.unwrap_or(10)),
            Some("newcomer") => {
                [DCTCP, CHIRP, CHIRP_R].into_iter().try_for_each(|own| newcomer(own, runs.unwrap_or(5)))
            }
            _ => Err("write gaps, estimates or newcomer, and how often".into()),
        };
        run().map_err(|error: Failure| error as Box<dyn Error>)
    }
}
