//! One transfer over QUIC: bytes from a reader at one end to a writer at the other, within a deadline.
//!
//! Everything runs on the calling thread, so that a socket made inside a network namespace stays there and the thread's
//! CPU time is the transfer's.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::ConnectionError::{ApplicationClosed, TimedOut};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{
    AckFrequencyConfig, ClientConfig, Connection, Endpoint, EndpointConfig, ReadError, RecvStream, SendStream,
    ServerConfig,
};
use quinn::{TokioRuntime, TransportConfig, VarInt};
use tokio::time::{Instant as Deadline, timeout, timeout_at};

use crate::factory::{Factory, Recording, RttSample};

/// UDP payload of a full packet: 1500 bytes less IPv6 and UDP headers. Where the path carries less, quinn falls back to
/// 1200.
pub const MTU: u16 = 1452;
/// Most bytes on the way and not yet read, and most that wait to be sent (our choice: 100 Mbit/s and 1.3 s, so that the
/// controller, not quinn's default of 1.25 MB, limits a flow).
pub(crate) const FLOW_WINDOW: u32 = 16 << 20;
/// Longest time for which the receiver may keep an acknowledgement back (our choice: quinn's least. Its default of 25 ms is
/// a queue to a controller that goes by delay, and one with a single packet in flight never sees the path without it).
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(1);
/// Most bytes read from the source at once.
pub(crate) const CHUNK: usize = 64 << 10;
/// How long an end waits for the other one to learn that it has closed.
pub(crate) const GOODBYE: Duration = Duration::from_secs(1);
/// The name in the certificate: which host it is says the address.
pub(crate) const NAME: &str = "paceline";

/// What a stack says.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no connection, or no answer, before the deadline.
    #[error("no QUIC {peer} within {after:?}; check its address and that UDP passes")]
    NoPeer {
        /// Who was expected.
        peer: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// The certificate or key cannot be used.
    #[error("cannot use the certificate: {0}")]
    Certificate(String),
    /// The peer's address cannot be connected to.
    #[error("cannot connect: {0}")]
    Connect(#[source] Cause),
    /// The connection failed.
    #[error("the QUIC connection failed: {0}")]
    Connection(#[source] Cause),
    /// The peer refused the stream.
    #[error("the QUIC stream failed: {0}")]
    Stream(String),
    /// A socket, the source or the sink failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<quinn::ConnectError> for Error {
    fn from(error: quinn::ConnectError) -> Self {
        Self::Connect(Box::new(error))
    }
}

impl From<quinn::ConnectionError> for Error {
    fn from(error: quinn::ConnectionError) -> Self {
        Self::Connection(Box::new(error))
    }
}

/// A self-signed certificate and its key. Only a sender that was given this very certificate trusts it.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::Certificate`] when no key can be made.
    pub fn generate() -> Result<Self, Error> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(certificate)?;
        Ok(Self { certificate: made.cert.der().clone(), key: made.signing_key.serialize_der() })
    }

    /// The certificate in DER, for the sender.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The private key in PKCS #8.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

/// What a sender needs.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'a> {
    /// The receiver.
    pub to: SocketAddr,
    /// Its certificate in DER.
    pub certificate: &'a [u8],
    /// The congestion controller.
    pub controller: &'a Factory,
    /// The transfer ends then, complete or not.
    pub lasting: Duration,
}

/// A transfer as its sender saw it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Bytes taken from the source; where `complete`, all of them were acknowledged.
    pub bytes: u64,
    /// The source ended and the receiver has everything.
    pub complete: bool,
    /// From the start of the handshake to the end of the transfer.
    pub elapsed: Duration,
    /// The controller's RTT samples.
    pub rtt: Vec<RttSample>,
    /// UDP packets sent.
    pub packets_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Their bytes.
    pub bytes_lost: u64,
    /// Losses and marks reported to the controller, one round of detection at a time.
    pub congestion_events: u64,
    /// CPU time of the calling thread; `None` where the system does not report it.
    pub cpu: Option<Duration>,
}

/// A transfer as its receiver saw it.
#[derive(Clone, Debug)]
pub struct Received {
    /// Bytes written to the sink.
    pub bytes: u64,
    /// The sender said that this was all.
    pub complete: bool,
    /// From the first byte to the last.
    pub elapsed: Duration,
    /// CPU time of the calling thread; `None` where the system does not report it.
    pub cpu: Option<Duration>,
}

/// Waits for one sender on `socket` and writes what it sends to `sink`, which must not block for long. Returns when the
/// transfer is over, the sender has gone, or `lasting` has passed; strangers whose handshake fails are passed over.
///
/// # Errors
/// [`Error::NoPeer`] when no sender came; otherwise what failed.
pub fn serve(
    socket: UdpSocket,
    identity: &Identity,
    sink: &mut dyn Write,
    lasting: Duration,
) -> Result<Received, Error> {
    let cpu = cpu_time();
    let mut config = ServerConfig::with_single_cert(
        vec![identity.certificate.clone()],
        PrivateKeyDer::Pkcs8(identity.key.clone().into()),
    )
    .map_err(certificate)?;
    config.transport_config(Arc::new(transport()));
    let mut received = on_this_thread(async {
        let deadline = Deadline::now() + lasting;
        let endpoint = endpoint(socket, Some(config))?;
        let missing = |_| Error::NoPeer { peer: "sender", after: lasting };
        let (connection, stream) = timeout_at(deadline, accept(&endpoint)).await.map_err(missing)??;
        let mut received = Received { bytes: 0, complete: false, elapsed: Duration::ZERO, cpu: None };
        // The deadline ends it as it is.
        if let Ok(end) = timeout_at(deadline, drain(stream, sink, &mut received)).await {
            end?;
        }
        if received.complete {
            let _ = timeout_at(deadline, connection.closed()).await;
        }
        close(&endpoint, &connection).await;
        Ok(received)
    })?;
    received.cpu = since(cpu);
    Ok(received)
}

/// Sends what `source` gives to a [`serve`] from `socket`; `source` must not block for long. Returns when everything has
/// been acknowledged or the time is up.
///
/// # Errors
/// [`Error::NoPeer`] when no receiver answered; otherwise what failed.
pub fn send(socket: UdpSocket, sending: &Sending<'_>, source: &mut dyn Read) -> Result<Sent, Error> {
    let cpu = cpu_time();
    let recording = Recording::default();
    let mut transport = transport();
    transport.congestion_controller_factory(Arc::new(sending.controller.clone().recorded(&recording)));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(sending.certificate.to_vec())).map_err(certificate)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(certificate)?;
    config.transport_config(Arc::new(transport));

    let mut sent = on_this_thread(async {
        let (start, deadline) = (Instant::now(), Deadline::now() + sending.lasting);
        let endpoint = endpoint(socket, None)?;
        let missing = |_| Error::NoPeer { peer: "receiver", after: sending.lasting };
        let connecting = endpoint.connect_with(config, sending.to, NAME)?;
        let connection = timeout_at(deadline, connecting).await.map_err(missing)??;
        let opening = timeout_at(deadline, connection.open_uni());
        let mut stream = opening.await.map_err(missing)??;
        let mut bytes = 0;
        let end = timeout_at(deadline, push(&mut stream, source, &mut bytes)).await;
        let (elapsed, path) = (start.elapsed(), connection.stats().path);
        let complete = end.is_ok();
        match end {
            Ok(end) => end?,
            // quinn holds its own farewell back while the window is full. The receiver can say it.
            Err(_) => {
                let _ = stream.reset(VarInt::from_u32(0));
                let _ = timeout(GOODBYE, connection.closed()).await;
            }
        }
        close(&endpoint, &connection).await;
        Ok(Sent {
            bytes,
            complete,
            elapsed,
            rtt: Vec::new(),
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            bytes_lost: path.lost_bytes,
            congestion_events: path.congestion_events,
            cpu: None,
        })
    })?;
    sent.rtt = recording.take();
    sent.cpu = since(cpu);
    Ok(sent)
}

async fn accept(endpoint: &Endpoint) -> Result<(Connection, RecvStream), Error> {
    loop {
        let Some(incoming) = endpoint.accept().await else {
            return Err(io::Error::other("the QUIC endpoint was closed").into());
        };
        let Ok(connection) = incoming.await else { continue };
        if let Ok(stream) = connection.accept_uni().await {
            return Ok((connection, stream));
        }
    }
}

async fn drain(mut stream: RecvStream, sink: &mut dyn Write, received: &mut Received) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        let chunk = match stream.read_chunk(CHUNK, true).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            // The sender's time was up, or it has gone.
            Err(ReadError::Reset(_) | ReadError::ConnectionLost(ApplicationClosed(_) | TimedOut)) => return Ok(()),
            Err(ReadError::ConnectionLost(error)) => return Err(error.into()),
            Err(error) => return Err(stream_error(error)),
        };
        sink.write_all(&chunk.bytes)?;
        received.bytes += chunk.bytes.len() as u64;
        received.elapsed = start.elapsed();
    }
    sink.flush()?;
    received.complete = true;
    Ok(())
}

async fn push(stream: &mut SendStream, source: &mut dyn Read, bytes: &mut u64) -> Result<(), Error> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        stream.write_all(&buffer[..read]).await.map_err(stream_error)?;
        *bytes += read as u64;
    }
    // Waits until everything has been acknowledged.
    stream.finish().map_err(stream_error)?;
    match stream.stopped().await.map_err(stream_error)? {
        None => Ok(()),
        Some(code) => Err(Error::Stream(format!("the receiver stopped it (code {code})"))),
    }
}

async fn close(endpoint: &Endpoint, connection: &Connection) {
    connection.close(VarInt::from_u32(0), b"");
    let _ = timeout(GOODBYE, endpoint.wait_idle()).await;
}

fn on_this_thread<T>(transfer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(transfer)
}

fn endpoint(socket: UdpSocket, server: Option<ServerConfig>) -> Result<Endpoint, Error> {
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))?)
}

fn transport() -> TransportConfig {
    let mut acks = AckFrequencyConfig::default();
    acks.max_ack_delay(Some(ACK_DELAY));
    let mut config = TransportConfig::default();
    config.ack_frequency_config(Some(acks));
    config.initial_mtu(MTU).stream_receive_window(VarInt::from_u32(FLOW_WINDOW)).send_window(u64::from(FLOW_WINDOW));
    config
}

pub(crate) fn certificate(error: impl std::fmt::Display) -> Error {
    Error::Certificate(error.to_string())
}

pub(crate) fn stream_error(error: impl std::fmt::Display) -> Error {
    Error::Stream(error.to_string())
}

/// CPU time of this thread.
#[cfg(target_os = "linux")]
pub(crate) fn cpu_time() -> Option<Duration> {
    Some(Duration::from_nanos(paceline_linux::thread::cpu_time().as_nanos()))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu_time() -> Option<Duration> {
    None
}

pub(crate) fn since(start: Option<Duration>) -> Option<Duration> {
    Some(cpu_time()?.saturating_sub(start?))
}
