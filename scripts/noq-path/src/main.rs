//! Two endpoints of noq-proto in virtual time with a path between them; the sender's qlog, for `paceline conform --qlog`.
//!
//! `noq-path RATE_MBIT RTT_MS QUEUE_BYTES LOSS SECONDS bbr3|cubic|reno FILE`: the sender's packets pass a link of this rate with a
//! drop-tail queue of this many bytes, and are lost with this probability; half of the round trip lies on each way. Bytes on the link are
//! those of UDP and 28 of IPv4 and UDP.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::BytesMut;
use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq_proto::rustls::RootCertStore;
use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    FourTuple, QlogConfig, QlogFactory, ServerConfig, Side, StreamId, TransportConfig, VarInt,
};

/// Bytes on their way at most, so that flow control does not limit the sender.
const WINDOW: u32 = 64 << 20;
/// Bytes of IPv4 and UDP.
const HEADERS: usize = 28;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [rate, rtt, queue, loss, seconds, controller, file] = &words[..] else {
        bail!("noq-path RATE_MBIT RTT_MS QUEUE_BYTES LOSS SECONDS bbr3|cubic|reno FILE");
    };
    let path = Path {
        bits: rate.parse::<f64>().context("RATE_MBIT")? * 1e6,
        way: Duration::from_secs_f64(rtt.parse::<f64>().context("RTT_MS")? / 2e3),
        limit: queue.parse().context("QUEUE_BYTES")?,
        loss: loss.parse().context("LOSS")?,
        draws: 1,
        busy: None,
        waiting: VecDeque::new(),
        queued: 0,
    };
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller.as_str() {
        "bbr3" => Arc::new(Bbr3Config::default()),
        "cubic" => Arc::new(CubicConfig::default()),
        "reno" => Arc::new(NewRenoConfig::default()),
        other => bail!("'{other}' is not a controller of noq; write bbr3, cubic or reno"),
    };
    let seconds = Duration::from_secs_f64(seconds.parse().context("SECONDS")?);
    let delivered = World::new(path, factory, PathBuf::from(file))?.run(seconds)?;
    println!("{:.2} Mbit/s delivered", delivered as f64 * 8e-6 / seconds.as_secs_f64());
    Ok(())
}

/// From the sender to the receiver a link with a queue; back only the delay.
struct Path {
    bits: f64,
    way: Duration,
    limit: usize,
    loss: f64,
    draws: u64,
    /// Until when the link sends.
    busy: Option<Instant>,
    /// Departures of what waits, with its bytes.
    waiting: VecDeque<(Instant, usize)>,
    queued: usize,
}

impl Path {
    /// When a packet that comes now arrives; `None` where it is lost.
    fn arrival(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        while self.waiting.front().is_some_and(|(departs, _)| *departs <= now) {
            self.queued -= self.waiting.pop_front().map_or(0, |(_, bytes)| bytes);
        }
        let wire = bytes + HEADERS;
        if self.queued + wire > self.limit {
            return None;
        }
        let begins = self.busy.map_or(now, |busy| busy.max(now));
        let departs = begins + Duration::from_secs_f64(wire as f64 * 8.0 / self.bits);
        self.busy = Some(departs);
        self.waiting.push_back((departs, wire));
        self.queued += wire;
        // Knuth's generator: the same losses in every run.
        self.draws = self.draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = (self.draws >> 11) as f64 / (1_u64 << 53) as f64;
        (drawn >= self.loss).then_some(departs + self.way)
    }
}

/// One end.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    address: SocketAddr,
}

struct World {
    path: Path,
    ends: [End; 2],
    now: Instant,
    /// What is under way: when, in which order, to which end, what.
    flying: BinaryHeap<Reverse<(Instant, u64)>>,
    packets: BTreeMap<u64, (usize, Vec<u8>)>,
    sent: u64,
    /// The stream that the receiver reads.
    stream: Option<StreamId>,
    /// Bytes of it.
    delivered: u64,
}

const SENDER: usize = 0;
const RECEIVER: usize = 1;

struct OneFile(PathBuf);

impl QlogFactory for OneFile {
    fn for_connection(&self, side: Side, _: SocketAddr, _: ConnectionId, now: Instant) -> Option<QlogConfig> {
        if side == Side::Server {
            return None;
        }
        let file = File::create(&self.0).inspect_err(|error| eprintln!("{}: {error}", self.0.display())).ok()?;
        let mut config = QlogConfig::new(Box::new(BufWriter::new(file)));
        config.title(Some("noq-proto".to_owned())).start_time(now);
        Some(config)
    }
}

impl World {
    fn new(path: Path, factory: Arc<dyn ControllerFactory + Send + Sync>, file: PathBuf) -> anyhow::Result<Self> {
        let now = Instant::now();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let certificate = CertificateDer::from(made.cert);
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
        let settings = || {
            let mut settings = TransportConfig::default();
            settings
                .stream_receive_window(VarInt::from_u32(WINDOW))
                .receive_window(VarInt::from_u32(WINDOW))
                .send_window(u64::from(WINDOW))
                .initial_mtu(1452)
                .mtu_discovery_config(None)
                .enable_segmentation_offload(false);
            settings
        };
        let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
        server.transport_config(Arc::new(settings()));
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
        let mut sending = settings();
        sending.congestion_controller_factory(factory).qlog_factory(Arc::new(OneFile(file)));
        client.transport_config(Arc::new(sending));
        let end = |port, server: Option<Arc<ServerConfig>>| {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some([7; 32]));
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            End { endpoint: Endpoint::new(Arc::new(config), server, true), connection: None, address }
        };
        let mut ends = [end(5000, None), end(4433, Some(Arc::new(server)))];
        let to = ends[RECEIVER].address;
        ends[SENDER].connection = Some(ends[SENDER].endpoint.connect(now, client, to, "localhost")?);
        Ok(Self {
            path,
            ends,
            now,
            flying: BinaryHeap::new(),
            packets: BTreeMap::new(),
            sent: 0,
            stream: None,
            delivered: 0,
        })
    }

    fn run(mut self, seconds: Duration) -> anyhow::Result<u64> {
        let end = self.now + seconds;
        let mut stream = None;
        let data = vec![0_u8; 1 << 16];
        while self.now < end {
            if let Some((_, connection)) = &mut self.ends[SENDER].connection {
                while let Some(event) = connection.poll() {
                    if let Event::ConnectionLost { reason } = event {
                        bail!("the connection was lost: {reason}");
                    }
                }
                if !connection.is_handshaking() && stream.is_none() {
                    stream = connection.streams().open(Dir::Uni);
                }
                if let Some(id) = stream {
                    while connection.send_stream(id).write(&data).is_ok_and(|written| written > 0) {}
                }
            }
            self.read();
            for side in [SENDER, RECEIVER] {
                self.transmit(side);
            }
            let timers = self.ends.iter().filter_map(|end| end.connection.as_ref()?.1.poll_timeout());
            let arrival = self.flying.peek().map(|Reverse((at, _))| *at);
            let Some(next) = timers.chain(arrival).min() else { bail!("nothing happens any more") };
            self.now = self.now.max(next);
            while self.flying.peek().is_some_and(|Reverse((at, _))| *at <= self.now) {
                if let Some(Reverse((_, number))) = self.flying.pop() {
                    self.arrive(number)?;
                }
            }
            for end in &mut self.ends {
                if let Some((_, connection)) = &mut end.connection
                    && connection.poll_timeout().is_some_and(|at| at <= self.now)
                {
                    connection.handle_timeout(self.now);
                }
            }
        }
        Ok(self.delivered)
    }

    /// Takes what has come out of the receiver.
    fn read(&mut self) {
        let Some((_, connection)) = &mut self.ends[RECEIVER].connection else { return };
        while connection.poll().is_some() {}
        if let Some(id) = connection.streams().accept(Dir::Uni) {
            self.stream = Some(id);
        }
        let Some(id) = self.stream else { return };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            self.delivered += chunk.bytes.len() as u64;
        }
        let _ = chunks.finalize();
    }
}

impl World {
    /// Sends what an end has to send now.
    fn transmit(&mut self, side: usize) {
        loop {
            let end = &mut self.ends[side];
            let Some((handle, connection)) = &mut end.connection else { return };
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = end.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            let mut buffer = Vec::with_capacity(2048);
            let Some(transmit) = connection.poll_transmit(self.now, NonZeroUsize::MIN, &mut buffer) else { return };
            buffer.truncate(transmit.size);
            self.launch(side, buffer);
        }
    }

    /// Puts a datagram of an end on its way.
    fn launch(&mut self, side: usize, datagram: Vec<u8>) {
        let arrival = match side {
            SENDER => self.path.arrival(self.now, datagram.len()),
            _ => Some(self.now + self.path.way),
        };
        let Some(at) = arrival else { return };
        self.flying.push(Reverse((at, self.sent)));
        self.packets.insert(self.sent, (1 - side, datagram));
        self.sent += 1;
    }

    /// A datagram has come.
    fn arrive(&mut self, number: u64) -> anyhow::Result<()> {
        let Some((to, datagram)) = self.packets.remove(&number) else { return Ok(()) };
        let remote = self.ends[1 - to].address;
        let end = &mut self.ends[to];
        let mut answer = Vec::new();
        let path = FourTuple::new(remote, Some(end.address.ip()));
        match end.endpoint.handle(self.now, path, None, BytesMut::from(&datagram[..]), &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut end.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = end.endpoint.accept(incoming, self.now, &mut answer, None);
                end.connection = Some(accepted.map_err(|error| anyhow::anyhow!("{}", error.cause))?);
            }
            Some(DatagramEvent::Response(transmit)) => {
                answer.truncate(transmit.size);
                self.launch(to, answer);
            }
            None => {}
        }
        Ok(())
    }
}
