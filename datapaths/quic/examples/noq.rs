//! A program around noq's state machine that takes a controller of paceline by one line. Here both ends are in it, with 10 ms each way
//! between them, and time is counted, not waited for.
//!
//! `cargo run -p paceline-quic --features noq --example noq -- copa 10` moves 10 MB.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::BytesMut;
use noq_proto::rustls::RootCertStore;
use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, FourTuple,
    ServerConfig, StreamEvent, TransportConfig,
};
use paceline_quic::noq::Ticker;
use paceline_quic::{Factory, Identity};

/// One way.
const DELAY: Duration = Duration::from_millis(10);

#[cfg_attr(test, expect(dead_code, reason = "a test calls the transfer"))]
fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [controller, megabytes] = &words[..] else { bail!("noq CONTROLLER MEGABYTES") };
    let took = transfer(controller, megabytes.parse::<u64>().context("MEGABYTES")? * 1_000_000)?;
    println!("{controller}@quic/noq: {megabytes} MB in {took:.3?}");
    Ok(())
}

/// Moves so many bytes; answers how long that took.
pub(crate) fn transfer(controller: &str, bytes: u64) -> anyhow::Result<Duration> {
    let ticker = Ticker::default();
    let mut settings = TransportConfig::default();
    settings.congestion_controller_factory(Arc::new(
        Factory::noq(controller.parse()?, 1)?.ticked(&ticker).in_virtual_time(),
    ));

    let (near, far) = (SocketAddr::from(([10, 0, 0, 1], 1)), SocketAddr::from(([10, 0, 0, 2], 2)));
    let identity = Identity::generate()?;
    let certificate = CertificateDer::from(identity.certificate().to_vec());
    let key = PrivateKeyDer::Pkcs8(identity.key().to_vec().into());
    let server = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(Arc::new(settings));

    let start = Instant::now();
    let mut sender = End::new(near, far, None);
    let mut receiver = End::new(far, near, Some(server));
    sender.connection = Some(sender.endpoint.connect(start, client, far, "paceline")?);
    let (mut now, mut stream, mut left, mut finished) = (start, None, bytes, false);
    let data = [7; 1 << 16];
    loop {
        sender.receive(now, &mut receiver.sent);
        receiver.receive(now, &mut sender.sent);
        ticker.tick(now);
        if let Some((_, connection)) = &mut sender.connection {
            while let Some(event) = connection.poll() {
                match event {
                    Event::Stream(StreamEvent::Finished { .. }) => return Ok(now - start),
                    Event::ConnectionLost { reason } => bail!("the connection was lost: {reason}"),
                    _ => {}
                }
            }
            stream = stream.or_else(|| connection.streams().open(Dir::Uni));
            if let Some(id) = stream {
                let mut stream = connection.send_stream(id);
                while left > 0
                    && let Ok(written) = stream.write(&data[..data.len().min(left as usize)])
                {
                    left -= written as u64;
                }
                if left == 0 && !std::mem::replace(&mut finished, true) {
                    stream.finish()?;
                }
            }
        }
        receiver.read();
        sender.send(now);
        receiver.send(now);
        let next = [sender.next(), receiver.next(), ticker.next_tick()].into_iter().flatten().min();
        now = next.context("nothing happens any more")?.max(now);
    }
}

struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    own: SocketAddr,
    peer: SocketAddr,
    /// Datagrams on their way to the peer, and when they arrive.
    sent: VecDeque<(Instant, Vec<u8>)>,
}

impl End {
    fn new(own: SocketAddr, peer: SocketAddr, server: Option<ServerConfig>) -> Self {
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), server.map(Arc::new), true);
        Self { endpoint, connection: None, own, peer, sent: VecDeque::new() }
    }

    fn receive(&mut self, now: Instant, from: &mut VecDeque<(Instant, Vec<u8>)>) {
        while let Some((_, datagram)) = from.pop_front_if(|(at, _)| *at <= now) {
            let (path, mut answer) = (FourTuple::new(self.peer, Some(self.own.ip())), Vec::new());
            match self.endpoint.handle(now, path, None, BytesMut::from(&datagram[..]), &mut answer) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection)) = &mut self.connection {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::Response(_)) | None => {}
            }
        }
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|due| due <= now)
        {
            connection.handle_timeout(now);
        }
    }

    /// Throws away what has come.
    fn read(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll() {
            let id = match event {
                Event::Stream(StreamEvent::Opened { dir }) => connection.streams().accept(dir),
                Event::Stream(StreamEvent::Readable { id }) => Some(id),
                _ => None,
            };
            let Some(id) = id else { continue };
            let mut stream = connection.recv_stream(id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            while let Ok(Some(_)) = chunks.next(usize::MAX) {}
            let _ = chunks.finalize();
        }
    }

    fn send(&mut self, now: Instant) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut datagram = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, NonZeroUsize::MIN, &mut datagram) {
            self.sent.push_back((now + DELAY, datagram[..transmit.size].to_vec()));
            datagram.clear();
        }
    }

    fn next(&self) -> Option<Instant> {
        let timeout = self.connection.as_ref().and_then(|(_, connection)| connection.poll_timeout());
        let arrival = self.sent.front().map(|(at, _)| *at);
        timeout.into_iter().chain(arrival).min()
    }
}
