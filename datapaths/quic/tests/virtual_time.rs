//! quinn itself in virtual time: two of its connections joined by a bottleneck, so that what a controller gets out of quinn
//! shows without a machine's noise.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use paceline_quic::{Factory, Identity, MTU};
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, ServerConfig, Transmit,
    TransportConfig,
};

/// Bytes each second of the bottleneck: 24 Mbit/s.
const RATE: f64 = 3e6;
/// One way.
const DELAY: Duration = Duration::from_millis(20);
/// IPv4 and UDP headers.
const HEADERS: usize = 28;
/// What quinn sends at once.
const BATCH: usize = 10;

/// A FIFO in front of a link, and the distance behind it.
struct Link {
    rate: Option<f64>,
    free: Instant,
    arrivals: VecDeque<(Instant, Vec<u8>)>,
    /// Time in the queue of each packet.
    waits: Vec<(Instant, Duration)>,
}

impl Link {
    fn new(rate: Option<f64>, start: Instant) -> Self {
        Self { rate, free: start, arrivals: VecDeque::new(), waits: Vec::new() }
    }

    fn push(&mut self, now: Instant, data: &[u8]) {
        let begin = self.free.max(now);
        let service = self.rate.map_or(0.0, |rate| (data.len() + HEADERS) as f64 / rate);
        self.free = begin + Duration::from_secs_f64(service);
        self.waits.push((now, begin - now));
        self.arrivals.push_back((self.free + DELAY, data.to_vec()));
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
}

impl End {
    fn receive(&mut self, now: Instant, data: &[u8]) {
        let mut answer = Vec::new();
        let data = BytesMut::from(data);
        match self.endpoint.handle(now, self.peer, None, None, data, &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                self.connection.as_mut().expect("an event of a connection").1.handle_event(event);
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    fn work(&mut self, now: Instant, link: &mut Link) {
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
        while let Some(Transmit { size, segment_size, .. }) = connection.poll_transmit(now, BATCH, &mut buffer) {
            for packet in buffer[..size].chunks(segment_size.unwrap_or(size)) {
                link.push(now, packet);
            }
            buffer.clear();
        }
    }

    fn next(&mut self) -> Option<Instant> {
        self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout())
    }
}

/// What ten seconds after the first five show: Mbit/s delivered, and p50 and p95 of the queueing delay in ms; and its most
/// from the start on.
#[derive(Debug)]
struct Outcome {
    mbps: f64,
    queue_p50: f64,
    queue_p95: f64,
    queue_most: f64,
}

fn transport(cc: &str) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .initial_mtu(MTU)
        .stream_receive_window((16u32 << 20).into())
        .send_window(16 << 20)
        .congestion_controller_factory(Arc::new(Factory::new(cc.parse().unwrap(), 1).unwrap().in_virtual_time()));
    Arc::new(config)
}

fn run(cc: &str) -> Outcome {
    let start = Instant::now();
    let (near, far) = (SocketAddr::from(([10, 0, 0, 1], 1)), SocketAddr::from(([10, 0, 0, 2], 2)));
    let identity = Identity::generate().unwrap();
    let certificate = CertificateDer::from(identity.certificate().to_vec());
    let key = PrivateKeyDer::Pkcs8(identity.key().to_vec().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key).unwrap();
    server.transport_config(transport("cubic"));
    let mut roots = quinn::rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    client.transport_config(transport(cc));

    let endpoint = |server, seed| Endpoint::new(Arc::new(EndpointConfig::default()), server, true, Some([seed; 32]));
    let mut receiver = End { endpoint: endpoint(Some(Arc::new(server)), 1), connection: None, peer: far };
    let mut sender = End { endpoint: endpoint(None, 2), connection: None, peer: near };
    sender.connection = Some(sender.endpoint.connect(start, client, near, "paceline").unwrap());
    let (mut down, mut up) = (Link::new(Some(RATE), start), Link::new(None, start));

    let (from, end) = (start + Duration::from_secs(5), start + Duration::from_secs(15));
    let data = [0; 1 << 16];
    let mut streams = (None, None);
    let mut delivered = 0;
    let mut now = start;
    while now < end {
        while down.next().is_some_and(|at| at <= now) {
            let (_, packet) = down.arrivals.pop_front().unwrap();
            receiver.receive(now, &packet);
        }
        while up.next().is_some_and(|at| at <= now) {
            let (_, packet) = up.arrivals.pop_front().unwrap();
            sender.receive(now, &packet);
        }
        if let Some((_, connection)) = &mut sender.connection {
            streams.0 = streams.0.or_else(|| connection.streams().open(Dir::Uni));
            if let Some(id) = streams.0 {
                while connection.send_stream(id).write(&data).is_ok() {}
            }
        }
        if let Some((_, connection)) = &mut receiver.connection {
            streams.1 = streams.1.or_else(|| connection.streams().accept(Dir::Uni));
            if let Some(id) = streams.1 {
                let mut stream = connection.recv_stream(id);
                let mut chunks = stream.read(true).unwrap();
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    delivered += if now >= from { chunk.bytes.len() } else { 0 };
                }
                let _ = chunks.finalize();
            }
        }
        sender.work(now, &mut down);
        receiver.work(now, &mut up);
        let due = [down.next(), up.next(), sender.next(), receiver.next()];
        now = due.into_iter().flatten().min().expect("a timer is always set").max(now);
    }
    let queue_most = down.waits.iter().map(|(_, wait)| wait.as_secs_f64() * 1e3).fold(0.0, f64::max);
    let mut waits: Vec<f64> =
        down.waits.iter().filter(|(at, _)| *at >= from).map(|(_, wait)| wait.as_secs_f64() * 1e3).collect();
    waits.sort_by(f64::total_cmp);
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    let outcome = Outcome { mbps: delivered as f64 * 8e-6 / 10.0, queue_p50: at(0.5), queue_p95: at(0.95), queue_most };
    println!("{cc}: {outcome:?}");
    outcome
}

/// Of 24 Mbit/s, headers of QUIC, UDP and IP taken off.
const FULL: f64 = 24.0 * 1420.0 / 1480.0;

#[test]
fn copa_fills_the_link_with_a_short_queue() {
    let copa = run("copa");
    assert!(copa.mbps > 0.95 * FULL && copa.queue_p95 < 10.0, "{copa:?}");
    // Its start overshoots by no more than what leaves evenly.
    assert!(copa.queue_most < 25.0, "{copa:?}");
}

#[test]
fn bbr_fills_the_link_and_does_not_stand_at_its_window() {
    let bbr = run("bbr");
    assert!(bbr.mbps > 0.95 * FULL && bbr.queue_p50 < 20.0, "{bbr:?}");
}

#[test]
fn a_fixed_rate_is_kept_without_a_queue() {
    let fixed = run("fixed:window=1000,rate=12");
    assert!((fixed.mbps / (12.0 * 1420.0 / 1452.0) - 1.0).abs() < 0.02 && fixed.queue_p95 < 10.0, "{fixed:?}");
}

#[test]
fn verus_fills_the_link() {
    let verus = run("verus");
    assert!(verus.mbps > 0.9 * FULL, "{verus:?}");
}
