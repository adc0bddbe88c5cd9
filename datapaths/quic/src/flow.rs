//! A transfer over quinn: in a runtime of tokio on the calling thread.

use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_cc::datapath::QUIC;
use quinn::ConnectionError::{ApplicationClosed, TimedOut};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{
    AckFrequencyConfig, ClientConfig, Connection, Endpoint, EndpointConfig, ReadError, RecvStream, SendStream,
    ServerConfig,
};
use quinn::{MtuDiscoveryConfig, TokioRuntime, TransportConfig, VarInt};
use tokio::time::{Instant as Deadline, timeout, timeout_at};

use crate::stack::{
    ACK_DELAY, CHUNK, EVERY_OTHER, Error, FLOW_WINDOW, GOODBYE, Identity, MTU, NAME, Received, Sending, Sent, Stack,
    certificate, next_chunk, stream_error,
};

/// `copa@quic`.
pub const QUINN: Stack = Stack { name: "quinn", datapath: &QUIC, paces: true, acknowledges: EVERY_OTHER, serve, send };

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

fn serve(socket: UdpSocket, identity: &Identity, sink: &mut dyn Write, lasting: Duration) -> Result<Received, Error> {
    let mut config = ServerConfig::with_single_cert(
        vec![identity.certificate.clone()],
        PrivateKeyDer::Pkcs8(identity.key.clone().into()),
    )
    .map_err(certificate)?;
    config.transport_config(Arc::new(transport(MTU)));
    on_this_thread(async {
        let deadline = Deadline::now() + lasting;
        let endpoint = endpoint(socket, Some(config))?;
        let missing = |_| Error::NoPeer { peer: "sender", after: lasting };
        let (connection, stream) = timeout_at(deadline, accept(&endpoint)).await.map_err(missing)??;
        let mut received = Received::default();
        // The deadline ends it as it is.
        if let Ok(end) = timeout_at(deadline, drain(stream, sink, &mut received)).await {
            end?;
        }
        if received.complete {
            let _ = timeout_at(deadline, connection.closed()).await;
        }
        close(&endpoint, &connection).await;
        Ok(received)
    })
}

fn send(socket: UdpSocket, sending: &Sending<'_>, source: &mut dyn Read) -> Result<Sent, Error> {
    let mut transport = transport(sending.mtu);
    transport.enable_segmentation_offload(!sending.one_by_one);
    transport.congestion_controller_factory(Arc::new(sending.controller.clone()));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(sending.certificate.to_vec())).map_err(certificate)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(certificate)?;
    config.transport_config(Arc::new(transport));

    on_this_thread(async {
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
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            bytes_lost: path.lost_bytes,
            congestion_events: path.congestion_events,
            ..Sent::default()
        })
    })
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
    while let read @ 1.. = next_chunk(source, &mut buffer)? {
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

fn transport(mtu: u16) -> TransportConfig {
    let mut search = MtuDiscoveryConfig::default();
    search.upper_bound(mtu);
    let mut acks = AckFrequencyConfig::default();
    acks.max_ack_delay(Some(ACK_DELAY));
    let mut config = TransportConfig::default();
    config.ack_frequency_config(Some(acks));
    config.initial_mtu(mtu).mtu_discovery_config(Some(search));
    config.stream_receive_window(VarInt::from_u32(FLOW_WINDOW)).send_window(u64::from(FLOW_WINDOW));
    config
}
