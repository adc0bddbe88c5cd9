//! Two connections of a stack in virtual time, joined by a path of the simulator's, so that what a controller gets out of the stack shows
//! without a machine's noise; and the simulator's own flow over datagrams on that path.

use std::io::BufReader;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_cc::observe::Observer;
use paceline_cc::{Codepoint, Distribution, Nanos, Rate, Time};
use paceline_experiment::config::Timing;
use paceline_experiment::{Config, Flow, Seed, Subject, Tap, Topology, Via};
use paceline_path::queue::{QueueBound, Threshold};
use paceline_path::{Delay, DelaySplit, Link, Packet, Path, QueueSpec, Schedule, Trace};
use paceline_quic::{Factory, MTU};
use paceline_transport::Segment;

use crate::Tested;

/// Addresses of sender and receiver.
pub(crate) const NEAR: ([u8; 4], u16) = ([10, 0, 0, 1], 1);
pub(crate) const FAR: ([u8; 4], u16) = ([10, 0, 0, 2], 2);
/// Most bytes on their way: flow control limits nothing.
pub(crate) const WINDOW: u32 = 64 << 20;
/// Longest delay of an acknowledgement.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(1);
/// Bytes of IPv4 and UDP headers.
const HEADERS: u32 = 28;
/// One way.
const DELAY: Nanos = Nanos::from_millis(20);

/// One end of a connection.
pub(crate) trait End {
    /// A datagram came.
    fn receive(&mut self, now: Instant, ecn: Codepoint, datagram: &[u8]);
    /// What is due; then what leaves, a datagram at a time.
    fn work(&mut self, now: Instant, leave: &mut dyn FnMut(Codepoint, &[u8]));
    /// When it has something to do.
    fn next(&mut self) -> Option<Instant>;
    /// Writes as much as the stack takes.
    fn write(&mut self);
    /// Reads what is there, and answers how many bytes.
    fn read(&mut self) -> u64;
}

/// Sender and receiver.
pub(crate) type Ends = (Box<dyn End>, Box<dyn End>);

pub(crate) fn address((host, port): ([u8; 4], u16)) -> SocketAddr {
    SocketAddr::from((host, port))
}

/// A path towards the receiver; the way back is as long, and limits nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// A constant rate in Mbit/s, and a queue without a bound.
    Constant(u32),
    /// The same, whose queue marks what waited for longer than this.
    #[cfg_attr(not(feature = "s2n"), expect(dead_code, reason = "marks are counted by packet in s2n-quic alone"))]
    Marking(u32, Nanos),
    /// The shipped trace of `scenarios/cellular.toml`, from this second of it on.
    Cellular(u64),
}

impl Way {
    fn down<P: Clone + Send + 'static>(self) -> Path<P> {
        let constant = |mbps: u32| Schedule::constant(Rate::from_mbps(f64::from(mbps)));
        let limit = QueueBound::NONE;
        let (schedule, queue) = match self {
            Self::Constant(mbps) => (constant(mbps), QueueSpec::DropTail { limit }),
            Self::Marking(mbps, wait) => (constant(mbps), QueueSpec::Step { threshold: Threshold::Wait(wait), limit }),
            Self::Cellular(second) => {
                let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/traces/lte-like.mahi");
                let trace = Trace::read("lte-like", BufReader::new(std::fs::File::open(file).unwrap())).unwrap();
                let trace = trace.starting(Nanos::from_millis(second * 1000));
                (Schedule::from_trace(Arc::new(trace)), QueueSpec::DropTail { limit: QueueBound::bytes(2_000_000) })
            }
        };
        let queue = queue.build(schedule.mean_rate(), DELAY + DELAY, 1);
        Path::new().link(Link::new(schedule, queue)).delay(Delay::new(DELAY))
    }

    fn up<P: Clone + Send + 'static>() -> Path<P> {
        Path::new().delay(Delay::new(DELAY))
    }
}

/// What passed the path towards the receiver.
#[derive(Default)]
pub(crate) struct Passed {
    /// When each packet left its sender, and its bytes without headers.
    pub(crate) left: Vec<(Time, u64)>,
    /// Those that arrived: when they left, bytes on the wire, delay.
    arrived: Vec<(Time, u64, DelaySplit)>,
    /// What the application read, and when.
    read: Vec<(Time, u64)>,
    /// Marks of the queue, those that a sender had set itself taken off.
    pub(crate) marked: i64,
    /// How often the ends were looked at.
    pub(crate) turns: usize,
    /// Sees the controller of a flow of the simulator's.
    observer: Option<Box<dyn Observer>>,
}

/// Mbit/s on the wire, and p50, p95 and most of the one-way delay in ms.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) mbps: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) most: f64,
}

impl Passed {
    /// Of packets that left in this span.
    pub(crate) fn figures(&self, span: Range<Time>) -> Figures {
        let (mut delay, mut bytes) = (Distribution::new(3), 0);
        for (_, size, split) in self.arrived.iter().filter(|(left, ..)| span.contains(left)) {
            delay.record(split.propagation + split.queue + split.transmission);
            bytes += size;
        }
        let at = |share| delay.quantile_ms(share).unwrap();
        let mbps = bytes as f64 * 8e-6 / (span.end - span.start).as_secs_f64();
        Figures { mbps, p50: at(0.5), p95: at(0.95), most: at(1.0) }
    }

    /// Mbit/s that the application read in this span.
    pub(crate) fn goodput(&self, span: Range<Time>) -> f64 {
        let bytes: u64 = self.read.iter().filter(|(at, _)| span.contains(at)).map(|(_, bytes)| bytes).sum();
        bytes as f64 * 8e-6 / (span.end - span.start).as_secs_f64()
    }
}

impl Tested {
    /// A bulk flow of the controller over the stack.
    pub(crate) fn run(&self, factory: Factory, way: Way, lasting: Nanos) -> Passed {
        let start = Instant::now();
        let instant = |at: Time| start + Duration::from_nanos(at.as_nanos());
        let (mut sender, mut receiver) = (self.ends)(factory.in_virtual_time(), start);
        let (mut down, mut up) = (way.down::<Vec<u8>>(), Way::up::<Vec<u8>>());
        let mut passed = Passed::default();
        let mut now = Time::ZERO;
        while now < Time::ZERO + lasting {
            passed.turns += 1;
            while let Some(packet) = down.pop(now) {
                let DelaySplit { propagation, queue, transmission } = packet.delay;
                let left = packet.entered - (propagation + queue + transmission);
                passed.arrived.push((left, u64::from(packet.size), packet.delay));
                passed.marked += i64::from(packet.ecn == Codepoint::Ce);
                receiver.receive(instant(now), packet.ecn, &packet.body);
            }
            while let Some(packet) = up.pop(now) {
                sender.receive(instant(now), packet.ecn, &packet.body);
            }
            sender.write();
            let read = receiver.read();
            if read > 0 {
                passed.read.push((now, read));
            }
            let packet = |ecn, data: &[u8]| Packet::new(0, data.len() as u32 + HEADERS, ecn, data.to_vec());
            sender.work(instant(now), &mut |ecn, data| {
                passed.left.push((now, data.len() as u64));
                passed.marked -= i64::from(ecn == Codepoint::Ce);
                down.push(now, packet(ecn, data));
            });
            receiver.work(instant(now), &mut |ecn, data| up.push(now, packet(ecn, data)));
            let since = |at: Instant| Time::from_nanos(at.saturating_duration_since(start).as_nanos() as u64);
            let timers = [sender.next(), receiver.next()].into_iter().flatten().map(since);
            now = timers.chain([down.next(), up.next()]).min().expect("a path has a time").max(now);
        }
        passed
    }
}

/// The same flow over datagrams in the simulator: packets of the same size, each acknowledged by itself.
pub(crate) fn over_udp(spec: &str, way: Way, lasting: Nanos) -> Passed {
    over_udp_seen(spec, way, lasting, None)
}

/// The same, its controller seen by the observer.
pub(crate) fn over_udp_seen(spec: &str, way: Way, lasting: Nanos, observer: Option<Box<dyn Observer>>) -> Passed {
    let flow = Flow::bulk(spec.parse().unwrap(), Via::udp());
    let wire = u32::from(MTU) + HEADERS;
    let flow = Flow {
        mss: wire - (flow.packet_bytes() - flow.mss),
        handshake: true,
        // The stacks' hosts are never late either.
        timers: Timing::Exact,
        ..flow
    };
    let config = Config {
        seed: Seed(1),
        duration: lasting,
        topology: Topology::dumbbell(way.down(), Way::up()),
        flows: vec![flow],
        cross: Vec::new(),
        sample_every: None,
    };
    let mut passed = Passed { observer, ..Passed::default() };
    paceline_sim::run(config, Some(&mut passed));
    passed
}

impl Tap for Passed {
    fn observer(&mut self, _of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        self.observer.take()
    }

    fn on_sent(&mut self, now: Time, _flow: u32, _segment: &Segment) {
        self.left.push((now, u64::from(MTU)));
    }

    fn on_arrival(&mut self, now: Time, _flow: u32, _segment: &Segment, _ce: bool, delay: &DelaySplit) {
        let whole = delay.propagation + delay.queue + delay.transmission;
        self.arrived.push((now - whole, u64::from(u32::from(MTU) + HEADERS), *delay));
    }
}
