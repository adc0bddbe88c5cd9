//! A transfer over s2n-quic: in a loop whose packets leave when they are due.

use std::error::Error as StdError;
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use bytes::Bytes;
use paceline_cc::datapath::QUIC_S2N;
use paceline_cc::{Ability, Nanos, Time};
use quinn_udp::EcnCodepoint;
use s2n_quic::client::{Client, Connect};
use s2n_quic::connection::{self, Connection};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as tls;
use s2n_quic::server::Server;
use s2n_quic::stream::{Error as StreamError, ReceiveStream, SendStream};

use super::adapter::Watch;
use super::end::End;
use super::machine::{Captured, Machine};
use crate::stack::{
    CHUNK, Error, FLOW_WINDOW, GOODBYE, Identity, NAME, Received, Sending, Sent, Stack, certificate, next_chunk,
    stream_error,
};

/// `copa@quic/s2n`.
pub const S2N: Stack =
    Stack { name: "s2n-quic", datapath: &QUIC_S2N, paces: false, acknowledges: "each packet by itself", serve, send };

fn serve(socket: UdpSocket, identity: &Identity, sink: &mut dyn Write, lasting: Duration) -> Result<Received, Error> {
    let tls = tls::Server::builder().with_certificate(identity.certificate(), identity.key()).map_err(certificate)?;
    let tls = tls.build().map_err(certificate)?;
    let captured = Captured::new(socket.local_addr()?, &Watch::default());
    let builder = Server::builder().with_tls(tls).map_err(other)?.with_io(captured.clone()).map_err(other)?;
    let mut server = builder.with_limits(limits(lasting)?).map_err(other)?.start().map_err(other)?;
    let mut end = End::new(socket, machine(&captured)?, EcnCodepoint::Ect0)?;
    let until = after(&end, lasting);
    let Some(accepted) = end.run(until, accept(&mut server))? else {
        return Err(Error::NoPeer { peer: "sender", after: lasting });
    };
    let (mut connection, stream) = accepted?;
    let mut received = Received::default();
    // The deadline ends it as it is.
    if let Some(ended) = end.run(until, drain(stream, sink, &mut received))? {
        ended?;
    }
    if received.complete {
        end.run(until, closed(&mut connection))?;
    }
    connection.close(0_u32.into());
    drop((connection, server));
    farewell(&mut end)?;
    Ok(received)
}

fn send(socket: UdpSocket, sending: &Sending<'_>, source: &mut dyn Read) -> Result<Sent, Error> {
    let watch = Watch::default();
    let factory = sending.controller.clone().watched(&watch);
    let ect = if factory.spec().needs(Ability::Ect1) { EcnCodepoint::Ect1 } else { EcnCodepoint::Ect0 };
    let tls = tls::Client::builder().with_certificate(sending.certificate).map_err(certificate)?;
    let tls = tls.build().map_err(certificate)?;
    let captured = Captured::new(socket.local_addr()?, &watch).with_mtu(sending.mtu);
    let builder = Client::builder().with_tls(tls).map_err(other)?.with_io(captured.clone()).map_err(other)?;
    let builder = builder.with_limits(limits(sending.lasting)?).map_err(other)?;
    let client = builder.with_congestion_controller(factory).map_err(other)?.start().map_err(other)?;
    let mut end = End::new(socket, machine(&captured)?, ect)?;

    let (start, until) = (Instant::now(), after(&end, sending.lasting));
    let no_peer = || Error::NoPeer { peer: "receiver", after: sending.lasting };
    let connecting = async {
        let mut connection = client.connect(Connect::new(sending.to).with_server_name(NAME)).await?;
        let stream = connection.open_send_stream().await?;
        Ok((connection, stream))
    };
    let (mut connection, mut stream) = match end.run(until, connecting)? {
        None | Some(Err(connection::Error::IdleTimerExpired { .. })) => return Err(no_peer()),
        Some(Err(error)) => return Err(Error::Connection(Box::new(error))),
        Some(Ok(connected)) => connected,
    };
    watch.connected(connection.handle());
    let mut bytes = 0;
    let ended = end.run(until, push(&mut stream, source, &mut bytes));
    let (elapsed, counts) = (start.elapsed(), watch.counts().unwrap_or_default());
    watch.release();
    let complete = match ended? {
        Some(ended) => ended.map(|()| true)?,
        None => {
            // The receiver can say farewell first: it has nothing that waits for room.
            let _ = stream.reset(0_u32.into());
            let over = end.now() + GOODBYE_NANOS;
            end.run(over, closed(&mut connection))?;
            false
        }
    };
    connection.close(0_u32.into());
    drop((stream, connection, client));
    farewell(&mut end)?;
    drop(end);
    Ok(Sent {
        bytes,
        complete,
        elapsed,
        packets_sent: counts.sent,
        packets_lost: counts.lost,
        bytes_lost: counts.bytes_lost,
        congestion_events: counts.congestion_events,
        ..Sent::default()
    })
}

const GOODBYE_NANOS: Nanos = Nanos::from_nanos(GOODBYE.as_nanos() as u64);

async fn accept(server: &mut Server) -> Result<(Connection, ReceiveStream), Error> {
    loop {
        let Some(mut connection) = server.accept().await else {
            return Err(io::Error::other("the QUIC endpoint was closed").into());
        };
        if let Ok(Some(stream)) = connection.accept_receive_stream().await {
            return Ok((connection, stream));
        }
    }
}

async fn drain(mut stream: ReceiveStream, sink: &mut dyn Write, received: &mut Received) -> Result<(), Error> {
    use connection::Error::{Application, Closed, IdleTimerExpired};
    let start = Instant::now();
    loop {
        let chunk = match stream.receive().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            // The sender's time was up, or it has gone.
            Err(StreamError::StreamReset { .. }) => return Ok(()),
            Err(StreamError::ConnectionError { error, .. }) => match error {
                Application { .. } | Closed { .. } | IdleTimerExpired { .. } => return Ok(()),
                error => return Err(Error::Connection(Box::new(error))),
            },
            Err(error) => return Err(stream_error(error)),
        };
        sink.write_all(&chunk)?;
        received.bytes += chunk.len() as u64;
        received.elapsed = start.elapsed();
    }
    sink.flush()?;
    received.complete = true;
    Ok(())
}

async fn push(stream: &mut SendStream, source: &mut dyn Read, bytes: &mut u64) -> Result<(), Error> {
    let mut buffer = vec![0; CHUNK];
    while let read @ 1.. = next_chunk(source, &mut buffer)? {
        stream.send(Bytes::copy_from_slice(&buffer[..read])).await.map_err(stream_error)?;
        *bytes += read as u64;
    }
    // Waits until everything has been acknowledged.
    stream.close().await.map_err(stream_error)
}

/// Waits until the connection is closed.
async fn closed(connection: &mut Connection) {
    while let Ok(Some(_)) = connection.accept().await {}
}

/// Everything was dropped: waits until the endpoint has ended, for a while.
fn farewell(end: &mut End) -> Result<(), Error> {
    let over = end.now() + GOODBYE_NANOS;
    end.run(over, std::future::pending::<()>())?;
    Ok(())
}

fn after(end: &End, lasting: Duration) -> Time {
    end.now() + Nanos::from_nanos(u64::try_from(lasting.as_nanos()).unwrap_or(u64::MAX))
}

fn machine(captured: &Captured) -> Result<Box<dyn Machine>, Error> {
    Ok(captured.take().ok_or_else(|| io::Error::other("s2n-quic started no endpoint"))?)
}

fn limits(lasting: Duration) -> Result<Limits, Error> {
    let window = u64::from(FLOW_WINDOW);
    let limits = Limits::new()
        // A chirp is seen in the times of its packets, of which only their acknowledgements tell.
        .with_max_ack_delay(Duration::ZERO)
        .and_then(|limits| limits.with_data_window(window))
        .and_then(|limits| limits.with_unidirectional_data_window(window))
        .and_then(|limits| limits.with_max_send_buffer_size(FLOW_WINDOW))
        // The deadline is ours.
        .and_then(|limits| limits.with_max_handshake_duration(lasting.saturating_add(GOODBYE)));
    limits.map_err(other)
}

/// What s2n-quic says as it starts.
fn other(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    io::Error::other(error).into()
}
