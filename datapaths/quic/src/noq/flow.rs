//! A transfer over noq: in a loop that keeps the controller's clock and noq's pace as well as the machine's timers do.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noq_proto::rustls::RootCertStore;
use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use noq_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionError, Dir, Event, MtuDiscoveryConfig, PathId, ReadError,
    ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use paceline_cc::datapath::QUIC_NOQ;

use super::Ticker;
use super::end::End;
use crate::stack::{
    ACK_DELAY, CHUNK, EVERY_OTHER, Error, FLOW_WINDOW, GOODBYE, Identity, MTU, NAME, Received, Sending, Sent, Stack,
    certificate, next_chunk, stream_error,
};

/// `copa@quic/noq`.
pub const NOQ: Stack = Stack { name: "noq", datapath: &QUIC_NOQ, paces: true, acknowledges: EVERY_OTHER, serve, send };

fn serve(socket: UdpSocket, identity: &Identity, sink: &mut dyn Write, lasting: Duration) -> Result<Received, Error> {
    let chain = vec![CertificateDer::from(identity.certificate().to_vec())];
    let key = PrivateKeyDer::Pkcs8(identity.key().to_vec().into());
    let mut config = ServerConfig::with_single_cert(chain, key).map_err(certificate)?;
    config.transport_config(Arc::new(transport(MTU)));
    let mut end = End::new(socket, Some(config), Ticker::default())?;
    let deadline = Instant::now() + lasting;
    let mut download =
        Download { sink, stream: None, begun: Instant::now(), received: Received::default(), over: false };
    loop {
        let now = end.turn()?;
        if !download.take(&mut end, now)? {
            end.forget();
        }
        end.transmit(now)?;
        if download.over || now >= deadline {
            break;
        }
        end.wait(deadline)?;
    }
    if download.stream.is_none() {
        return Err(Error::NoPeer { peer: "sender", after: lasting });
    }
    let received = download.received;
    end.close()?;
    Ok(received)
}

fn send(socket: UdpSocket, sending: &Sending<'_>, source: &mut dyn Read) -> Result<Sent, Error> {
    let ticker = Ticker::default();
    let mut settings = transport(sending.mtu);
    settings.congestion_controller_factory(Arc::new(sending.controller.clone().ticked(&ticker)));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(sending.certificate.to_vec())).map_err(certificate)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(certificate)?;
    config.transport_config(Arc::new(settings));

    let mut end = End::new(socket, None, ticker)?;
    let (start, deadline) = (Instant::now(), Instant::now() + sending.lasting);
    end.connect(config, sending.to, NAME)?;
    let mut upload = Upload::new(source);
    loop {
        let now = end.turn()?;
        if let Some(connection) = end.connection() {
            upload.push(connection)?;
        }
        end.transmit(now)?;
        if upload.complete || now >= deadline {
            break;
        }
        end.wait(deadline)?;
    }
    if upload.stream.is_none() {
        return Err(Error::NoPeer { peer: "receiver", after: sending.lasting });
    }
    let elapsed = start.elapsed();
    let path = end.connection().and_then(|connection| connection.path_stats(PathId::ZERO)).unwrap_or_default();
    let (bytes, complete) = (upload.bytes, upload.complete);
    if !complete {
        upload.give_up(&mut end)?;
    }
    end.close()?;
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
}

/// A stream that is written.
struct Upload<'a> {
    source: &'a mut dyn Read,
    stream: Option<StreamId>,
    chunk: Vec<u8>,
    /// Of the chunk: the part that noq has not taken.
    left: std::ops::Range<usize>,
    bytes: u64,
    finished: bool,
    /// The receiver has everything.
    complete: bool,
}

impl<'a> Upload<'a> {
    fn new(source: &'a mut dyn Read) -> Self {
        Self { source, stream: None, chunk: vec![0; CHUNK], left: 0..0, bytes: 0, finished: false, complete: false }
    }

    /// Hands noq as much as it takes.
    fn push(&mut self, connection: &mut Connection) -> Result<(), Error> {
        while let Some(event) = connection.poll() {
            match event {
                Event::ConnectionLost { reason } => return Err(Error::Connection(Box::new(reason))),
                Event::Stream(StreamEvent::Finished { id }) if self.stream == Some(id) => self.complete = true,
                Event::Stream(StreamEvent::Stopped { error_code, .. }) => return Err(stopped(error_code)),
                _ => {}
            }
        }
        if self.stream.is_none() && !connection.is_handshaking() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(id) = self.stream else { return Ok(()) };
        while !self.finished {
            if self.left.is_empty() {
                let read = next_chunk(self.source, &mut self.chunk)?;
                if read == 0 {
                    connection.send_stream(id).finish().map_err(stream_error)?;
                    self.finished = true;
                    break;
                }
                self.left = 0..read;
            }
            match connection.send_stream(id).write(&self.chunk[self.left.clone()]) {
                Ok(written) => {
                    self.left.start += written;
                    self.bytes += written as u64;
                }
                Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(code)) => return Err(stopped(code)),
                Err(error) => return Err(stream_error(error)),
            }
        }
        Ok(())
    }

    /// The time is up: noq holds its own farewell back while the window is full, but the receiver can say it.
    fn give_up(&mut self, end: &mut End) -> Result<(), Error> {
        let over = Instant::now() + GOODBYE;
        if let (Some(id), Some(connection)) = (self.stream, end.connection()) {
            // Where the stream is gone, so is what was to be said.
            let _ = connection.send_stream(id).reset(VarInt::from_u32(0));
        }
        loop {
            let now = end.turn()?;
            let lost = |event: Event| matches!(event, Event::ConnectionLost { .. });
            let gone = end.connection().is_none_or(|connection| std::iter::from_fn(|| connection.poll()).any(lost));
            end.transmit(now)?;
            if gone || now >= over {
                return Ok(());
            }
            end.wait(over)?;
        }
    }
}

/// A stream that is read.
struct Download<'a> {
    sink: &'a mut dyn Write,
    stream: Option<StreamId>,
    /// When the stream was opened.
    begun: Instant,
    received: Received,
    over: bool,
}

impl Download<'_> {
    /// Takes what noq has; false where the peer was a stranger.
    fn take(&mut self, end: &mut End, now: Instant) -> Result<bool, Error> {
        let Some(connection) = end.connection() else { return Ok(true) };
        while let Some(event) = connection.poll() {
            let Event::ConnectionLost { reason } = event else { continue };
            match reason {
                _ if self.stream.is_none() => return Ok(false),
                // The sender's time was up, or it has gone.
                ConnectionError::ApplicationClosed(_) | ConnectionError::TimedOut => self.over = true,
                _ if self.received.complete => self.over = true,
                reason => return Err(Error::Connection(Box::new(reason))),
            }
        }
        if self.stream.is_none() {
            self.stream = connection.streams().accept(Dir::Uni);
            self.begun = now;
        }
        let Some(id) = self.stream.filter(|_| !self.over && !self.received.complete) else { return Ok(true) };
        let mut stream = connection.recv_stream(id);
        let mut chunks = stream.read(true).map_err(stream_error)?;
        loop {
            match chunks.next(CHUNK) {
                Ok(Some(chunk)) => {
                    self.sink.write_all(&chunk.bytes)?;
                    self.received.bytes += chunk.bytes.len() as u64;
                    self.received.elapsed = self.begun.elapsed();
                }
                Ok(None) => {
                    self.sink.flush()?;
                    self.received.complete = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => {
                    self.over = true;
                    break;
                }
            }
        }
        let _ = chunks.finalize();
        Ok(true)
    }
}

fn stopped(code: VarInt) -> Error {
    Error::Stream(format!("the receiver stopped it (code {code})"))
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
