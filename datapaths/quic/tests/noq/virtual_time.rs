//! noq itself in virtual time: two of its connections joined by a bottleneck, beside the simulator's flow over datagrams on the same path,
//! so that what a controller gets out of noq shows without a machine's noise.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use noq_proto::rustls::RootCertStore;
use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use noq_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    FourTuple, ServerConfig, StreamId, TransportConfig, VarInt,
};
use paceline_cc::event_log::{Log, Reader, replay};
use paceline_cc::observe::{Event, Observer};
use paceline_cc::{Controller, Distribution, Env, Nanos, Pacing, Rate, Spec, Time};
use paceline_experiment::{Config, Flow, Seed, Tap, Topology, Via};
use paceline_path::queue::QueueBound;
use paceline_path::{Delay, DelaySplit, Link, Path, QueueSpec, Schedule};
use paceline_quic::noq::Ticker;
use paceline_quic::{Factory, Identity, MTU};
use paceline_transport::Segment;

/// Mbit/s of the bottleneck.
const RATE: f64 = 24.0;
/// One way.
const DELAY: Duration = Duration::from_millis(20);
/// Bytes of IPv4 and UDP headers.
const HEADERS: u64 = 28;
/// How long a flow runs, and from when on it is judged.
const LASTING: Duration = Duration::from_secs(20);
const START: Duration = Duration::from_secs(5);
/// What noq may send in one call: as much as its controller's quantum lets it.
const MOST: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// Longest delay of an acknowledgement.
const ACK_DELAY: Duration = Duration::from_millis(1);

/// A FIFO in front of a link, and the distance behind it.
struct Pipe {
    rate: Option<Rate>,
    free: Instant,
    arrivals: VecDeque<(Instant, Vec<u8>)>,
    /// When each packet came, and its bytes.
    entered: Vec<(Instant, u64)>,
    delay: Distribution,
    bytes: u64,
}

impl Pipe {
    fn new(rate: Option<Rate>, start: Instant) -> Self {
        let (arrivals, entered) = (VecDeque::new(), Vec::new());
        Self { rate, free: start, arrivals, entered, delay: Distribution::new(3), bytes: 0 }
    }

    fn push(&mut self, now: Instant, data: &[u8], judged: &Range<Instant>) {
        let bytes = data.len() as u64 + HEADERS;
        let service = self.rate.map_or(Nanos::ZERO, |rate| rate.time_for(bytes));
        self.free = self.free.max(now) + Duration::from_nanos(service.as_nanos());
        let arrival = self.free + DELAY;
        self.entered.push((now, data.len() as u64));
        if judged.contains(&now) {
            self.delay.record(Nanos::from_nanos((arrival - now).as_nanos() as u64));
            self.bytes += bytes;
        }
        self.arrivals.push_back((arrival, data.to_vec()));
    }

    fn next(&self) -> Option<Instant> {
        self.arrivals.front().map(|(at, _)| *at)
    }
}

/// One end.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    peer: SocketAddr,
    own: SocketAddr,
    stream: Option<StreamId>,
}

impl End {
    fn receive(&mut self, now: Instant, data: &[u8]) {
        let mut answer = Vec::new();
        let path = FourTuple::new(self.peer, Some(self.own.ip()));
        match self.endpoint.handle(now, path, None, BytesMut::from(data), &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                self.connection.as_mut().expect("an event of a connection").1.handle_event(event);
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    fn work(&mut self, now: Instant, pipe: &mut Pipe, judged: &Range<Instant>) {
        let Some((handle, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while connection.poll().is_some() {}
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, MOST, &mut buffer) {
            for packet in buffer[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                pipe.push(now, packet, judged);
            }
            buffer.clear();
        }
    }

    fn next(&self) -> Option<Instant> {
        self.connection.as_ref().and_then(|(_, connection)| connection.poll_timeout())
    }
}

fn transport(factory: Factory) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let mut acks = AckFrequencyConfig::default();
    acks.max_ack_delay(Some(ACK_DELAY));
    config
        .ack_frequency_config(Some(acks))
        .initial_mtu(MTU)
        .mtu_discovery_config(None)
        .stream_receive_window(VarInt::from_u32(64 << 20))
        .receive_window(VarInt::from_u32(64 << 20))
        .send_window(64 << 20)
        .congestion_controller_factory(Arc::new(factory.in_virtual_time()));
    Arc::new(config)
}

/// Runs a bulk flow for so long; answers the bottleneck.
fn run(factory: Factory, lasting: Duration) -> Pipe {
    let start = Instant::now();
    let (near, far) = (SocketAddr::from(([10, 0, 0, 1], 1)), SocketAddr::from(([10, 0, 0, 2], 2)));
    let identity = Identity::generate().unwrap();
    let certificate = CertificateDer::from(identity.certificate().to_vec());
    let key = PrivateKeyDer::Pkcs8(identity.key().to_vec().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key).unwrap();
    server.transport_config(transport(Factory::noq("cubic".parse().unwrap(), 1).unwrap()));
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    let ticker = Ticker::default();
    client.transport_config(transport(factory.ticked(&ticker)));

    let end = |server, seed, own, peer| {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([seed; 32]));
        End { endpoint: Endpoint::new(Arc::new(config), server, true), connection: None, peer, own, stream: None }
    };
    let mut receiver = end(Some(Arc::new(server)), 1, far, near);
    let mut sender = end(None, 2, near, far);
    sender.connection = Some(sender.endpoint.connect(start, client, far, "paceline").unwrap());
    let (mut down, mut up) = (Pipe::new(Some(Rate::from_mbps(RATE)), start), Pipe::new(None, start));

    let judged = start + START..start + lasting;
    let data = [0; 1 << 16];
    let mut now = start;
    while now < judged.end {
        while down.next().is_some_and(|at| at <= now) {
            let (_, packet) = down.arrivals.pop_front().unwrap();
            receiver.receive(now, &packet);
        }
        while up.next().is_some_and(|at| at <= now) {
            let (_, packet) = up.arrivals.pop_front().unwrap();
            sender.receive(now, &packet);
        }
        if let Some((_, connection)) = &mut sender.connection {
            sender.stream = sender.stream.or_else(|| connection.streams().open(Dir::Uni));
            if let Some(id) = sender.stream {
                while connection.send_stream(id).write(&data).is_ok() {}
            }
        }
        if let Some((_, connection)) = &mut receiver.connection {
            receiver.stream = receiver.stream.or_else(|| connection.streams().accept(Dir::Uni));
            if let Some(id) = receiver.stream {
                let mut stream = connection.recv_stream(id);
                let mut chunks = stream.read(true).unwrap();
                while let Ok(Some(_)) = chunks.next(usize::MAX) {}
                let _ = chunks.finalize();
            }
        }
        ticker.tick(now);
        sender.work(now, &mut down, &judged);
        receiver.work(now, &mut up, &judged);
        let due = [down.next(), up.next(), sender.next(), receiver.next(), ticker.next_tick()];
        now = due.into_iter().flatten().min().expect("a timer is always set").max(now);
    }
    down
}

fn noq(spec: &str) -> Factory {
    Factory::noq(spec.parse().unwrap(), 1).unwrap()
}

/// Mbit/s on the wire, and p50 and p95 of the one-way delay in ms, of packets that left while the flow is judged.
#[derive(Debug)]
struct Figures {
    mbps: f64,
    p50: f64,
    p95: f64,
}

fn figures(bytes: u64, delay: &Distribution) -> Figures {
    let at = |share| delay.quantile_ms(share).unwrap();
    Figures { mbps: bytes as f64 * 8e-6 / (LASTING - START).as_secs_f64(), p50: at(0.5), p95: at(0.95) }
}

/// The same flow over datagrams in the simulator: packets of the same size, acknowledged as noq does.
fn over_udp(spec: &str) -> Figures {
    let flow = Flow::bulk(spec.parse().unwrap(), Via::udp());
    let wire = u32::from(MTU) + HEADERS as u32;
    let flow = Flow {
        mss: wire - (flow.packet_bytes() - flow.mss),
        ack_every: 2,
        ack_delay: Nanos::from_nanos(ACK_DELAY.as_nanos() as u64),
        handshake: true,
        ..flow
    };
    let rate = Rate::from_mbps(RATE);
    let delay = Nanos::from_nanos(DELAY.as_nanos() as u64);
    let queue = QueueSpec::DropTail { limit: QueueBound::NONE }.build(rate, delay + delay, 1);
    let config = Config {
        seed: Seed(1),
        duration: Nanos::from_nanos(LASTING.as_nanos() as u64),
        topology: Topology::dumbbell(
            Path::new().link(Link::new(Schedule::constant(rate), queue)).delay(Delay::new(delay)),
            Path::new().delay(Delay::new(delay)),
        ),
        flows: vec![flow],
        cross: Vec::new(),
        sample_every: None,
    };
    let mut judged = Judged { delay: Distribution::new(3), bytes: 0, wire: u64::from(wire) };
    paceline_sim::run(config, Some(&mut judged));
    figures(judged.bytes, &judged.delay)
}

/// Sees what arrives in the simulator.
struct Judged {
    delay: Distribution,
    bytes: u64,
    wire: u64,
}

impl Tap for Judged {
    fn on_arrival(&mut self, now: Time, _flow: u32, _segment: &Segment, _ce: bool, delay: &DelaySplit) {
        let delay = delay.propagation + delay.queue + delay.transmission;
        if now - delay >= Time::ZERO + Nanos::from_nanos(START.as_nanos() as u64) {
            self.delay.record(delay);
            self.bytes += self.wire;
        }
    }
}

/// Throughput within 2 %, the median of the delay within 3 %, its 95th percentile within 10 %.
fn near_udp(spec: &str) {
    let pipe = run(noq(spec), LASTING);
    let (noq, udp) = (figures(pipe.bytes, &pipe.delay), over_udp(spec));
    println!("{spec}: noq {noq:?}, udp {udp:?}");
    let off = |a: f64, b: f64| (a / b - 1.0).abs();
    assert!(off(noq.mbps, udp.mbps) < 0.02, "{spec}: noq {noq:?}, udp {udp:?}");
    assert!(off(noq.p50, udp.p50) < 0.03, "{spec}: noq {noq:?}, udp {udp:?}");
    assert!(off(noq.p95, udp.p95) < 0.10, "{spec}: noq {noq:?}, udp {udp:?}");
}

#[test]
fn copa_over_noq_is_copa_over_datagrams() {
    near_udp("copa");
}

/// What the controller answered, as integrals over 100 ms: bytes that its rate allows, and whether the rate was all that limited.
#[derive(Default)]
struct Answered {
    /// The rate from a moment on.
    rates: Vec<(Time, Rate)>,
    /// When the window stood in the way.
    full: Vec<Time>,
}

impl Observer for Answered {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        let now = match event {
            Event::Sent(sent, _) => {
                if sent.in_flight + 2 * u64::from(MTU) > controller.window() {
                    self.full.push(sent.now);
                }
                sent.now
            }
            Event::Acked(ack) => ack.now,
            _ => return,
        };
        if let Pacing::Rate(rate) = controller.pacing() {
            self.rates.push((now, rate));
        }
    }
}

#[test]
fn bbr_over_noq_leaves_at_the_answered_rate_and_never_in_large_bursts() {
    let answered: Arc<Mutex<Answered>> = Arc::default();
    let observer = Arc::clone(&answered);
    let pipe = run(noq("bbr").observed(move |_| Some(Box::new(Arc::clone(&observer)))), LASTING);
    let begun = pipe.entered[0].0;
    let left: Vec<(Time, u64)> =
        pipe.entered.iter().map(|(at, bytes)| (Time::from_nanos((*at - begun).as_nanos() as u64), *bytes)).collect();
    let most = left.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap();
    assert!(most <= 10, "{most} packets at once");

    let answered = answered.lock().unwrap();
    let span = Nanos::from_millis(100);
    let mut judged = 0;
    for window in 10..LASTING.as_millis() as u64 / 100 {
        let (from, to) = (Time::from_millis(window * 100), Time::from_millis(window * 100 + 100));
        if answered.full.iter().any(|at| *at >= from - span && *at < to) {
            continue;
        }
        let sent: u64 = left.iter().filter(|(at, _)| *at >= from && *at < to).map(|(_, bytes)| bytes).sum();
        let known = answered.rates.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let mut allowed = 0.0;
        let mut steps = answered.rates[known..].iter().peekable();
        while let Some((at, rate)) = steps.next() {
            let end = steps.peek().map_or(to, |(next, _)| *next).min(to);
            allowed += rate.as_bytes_per_sec() as f64 * (end - (*at).max(from)).as_secs_f64();
            if end == to {
                break;
            }
        }
        // The packet at the edge.
        let off = (sent as f64 - allowed).abs() - f64::from(MTU);
        assert!(off <= 0.03 * allowed, "from {from}: {sent} bytes left, and {allowed} were allowed");
        judged += 1;
    }
    println!("at most {most} packets at once; {judged} spans of 100 ms");
    assert!(judged > 100, "only {judged} spans were limited by the rate alone");
}

#[test]
fn what_a_controller_saw_inside_noq_replays_bit_by_bit() {
    for spec in ["copa", "bbr", "cubic", "verus"] {
        let spec: Spec = spec.parse().unwrap();
        let log: Arc<Mutex<Option<Log<Vec<u8>>>>> = Arc::default();
        let (kept, of) = (Arc::clone(&log), spec.clone());
        let observe = move |env: &Env| {
            *kept.lock().unwrap() = Some(Log::new(Vec::new(), &of, env, "noq").unwrap());
            Some(Box::new(Kept(Arc::clone(&kept))) as Box<dyn Observer>)
        };
        run(Factory::noq(spec.clone(), 1).unwrap().observed(observe), START);
        let written = log.lock().unwrap().take().unwrap().finish().unwrap();
        let mut reader = Reader::new("noq", written.as_slice()).unwrap();
        let mut again = spec.build(&reader.header().env.clone());
        let events = replay(&mut reader, again.as_mut()).unwrap();
        assert!(events > 5_000, "{spec}: {events} events");
    }
}

struct Kept(Arc<Mutex<Option<Log<Vec<u8>>>>>);

impl Observer for Kept {
    fn on_event(&mut self, event: &Event<'_>, controller: &dyn Controller) {
        self.0.lock().unwrap().as_mut().expect("begun").on_event(event, controller);
    }
}
