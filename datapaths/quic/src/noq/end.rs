//! One end of a connection of noq in real time: its state machine over a socket. A loop turns, transmits and waits.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple,
    ServerConfig, Transmit, VarInt,
};
use paceline_cc::Nanos;
use paceline_linux::clock::{Clock, Sleeper};
use rustix::event::{PollFd, PollFlags};

use super::Ticker;
use crate::socket::{Buffers, Datagram, Wire};
use crate::stack::{Error, GOODBYE};

pub(super) struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    wire: Wire,
    buffers: Buffers,
    /// Scratch for a datagram that leaves.
    datagram: Vec<u8>,
    ticker: Ticker,
    sleeper: Sleeper,
    clock: Clock,
    /// When the clock was at zero.
    zero: Instant,
}

impl End {
    /// Over a bound socket; `server` where it takes connections, one at a time.
    pub(super) fn new(socket: UdpSocket, server: Option<ServerConfig>, ticker: Ticker) -> Result<Self, Error> {
        let wire = Wire::new(socket, false)?;
        let (zero, clock) = (Instant::now(), Clock::new());
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), server.map(Arc::new), true),
            connection: None,
            wire,
            buffers: Buffers::new(),
            datagram: Vec::new(),
            ticker,
            sleeper: Sleeper::new(clock),
            clock,
            zero,
        })
    }

    pub(super) fn connect(&mut self, config: ClientConfig, to: SocketAddr, name: &str) -> Result<(), Error> {
        let connected = self.endpoint.connect(Instant::now(), config, to, name);
        self.connection = Some(connected.map_err(|error| Error::Connect(Box::new(error)))?);
        Ok(())
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    /// The connection came to nothing; the next one may come.
    pub(super) fn forget(&mut self) {
        self.connection = None;
    }

    /// Takes in what has arrived and what is due. Answers the present.
    pub(super) fn turn(&mut self) -> io::Result<Instant> {
        self.receive()?;
        let now = Instant::now();
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|due| due <= now)
        {
            connection.handle_timeout(now);
        }
        self.ticker.tick(now);
        Ok(now)
    }

    /// Sends all that may leave.
    pub(super) fn transmit(&mut self, now: Instant) -> io::Result<()> {
        let mut datagram = std::mem::take(&mut self.datagram);
        while let Some((handle, connection)) = &mut self.connection {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            datagram.clear();
            let Some(transmit) = connection.poll_transmit(now, NonZeroUsize::MIN, &mut datagram) else { break };
            launch(&self.wire, &transmit, &datagram)?;
        }
        self.datagram = datagram;
        Ok(())
    }

    /// Waits until something arrives or is due, or for `until`.
    pub(super) fn wait(&mut self, until: Instant) -> io::Result<()> {
        let timeout = self.connection.as_ref().and_then(|(_, connection)| connection.poll_timeout());
        let next = [timeout, self.ticker.next_tick()].into_iter().flatten().fold(until, Instant::min);
        let nanos = u64::try_from(next.saturating_duration_since(self.zero).as_nanos()).unwrap_or(u64::MAX);
        let deadline = paceline_cc::Time::ZERO + Nanos::from_nanos(nanos);
        self.sleeper.wait(deadline.max(self.clock.now()), &mut [PollFd::new(&self.wire, PollFlags::IN)])?;
        Ok(())
    }

    /// Says farewell, and waits for its end for a while.
    pub(super) fn close(&mut self) -> io::Result<()> {
        let over = Instant::now() + GOODBYE;
        if let Some(connection) = self.connection() {
            connection.close(Instant::now(), VarInt::from_u32(0), Bytes::new());
        }
        loop {
            let now = self.turn()?;
            self.transmit(now)?;
            if now >= over || self.connection().is_none_or(|connection| connection.is_drained()) {
                return Ok(());
            }
            self.wait(over)?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let Self { endpoint, connection, wire, buffers, .. } = self;
        while buffers.receive(wire, |datagram| arrive(endpoint, connection, wire, datagram))? {}
        Ok(())
    }
}

fn arrive(
    endpoint: &mut Endpoint,
    current: &mut Option<(ConnectionHandle, Connection)>,
    wire: &Wire,
    datagram: Datagram<'_>,
) -> io::Result<()> {
    let Datagram { from, to, ecn, bytes, .. } = datagram;
    let ecn = ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
    let (now, mut answer) = (Instant::now(), Vec::new());
    match endpoint.handle(now, FourTuple::new(from, to), ecn, BytesMut::from(&bytes[..]), &mut answer) {
        Some(DatagramEvent::ConnectionEvent(to, event)) => {
            if let Some((handle, connection)) = current
                && *handle == to
            {
                connection.handle_event(event);
            }
        }
        Some(DatagramEvent::NewConnection(incoming)) if current.is_some() => {
            let transmit = endpoint.refuse(incoming, &mut answer);
            launch(wire, &transmit, &answer)?;
        }
        Some(DatagramEvent::NewConnection(incoming)) => match endpoint.accept(incoming, now, &mut answer, None) {
            Ok(accepted) => *current = Some(accepted),
            Err(error) => {
                if let Some(transmit) = &error.response {
                    launch(wire, transmit, &answer)?;
                }
            }
        },
        Some(DatagramEvent::Response(transmit)) => launch(wire, &transmit, &answer)?,
        None => {}
    }
    Ok(())
}

fn launch(wire: &Wire, transmit: &Transmit, bytes: &[u8]) -> io::Result<()> {
    wire.launch(&quinn_udp::Transmit {
        destination: transmit.destination,
        ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
        contents: &bytes[..transmit.size],
        segment_size: transmit.segment_size,
        src_ip: transmit.src_ip,
    })
}
