//! One end of a connection of noq in real time: its state machine over a socket. A loop turns, transmits and waits.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, FourTuple,
    ServerConfig, Transmit, VarInt,
};
use paceline_cc::Nanos;
use paceline_linux::clock::{Clock, Sleeper, wait};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags};

use super::Ticker;
use crate::stack::{Error, GOODBYE};

/// Datagrams read in one call, and bytes of each buffer: what `UDP_GRO` puts together.
const BATCH: usize = 8;
const BUNDLE: usize = 65_536;
/// Longest wait for space in the kernel (our choice: as over `udp`).
const FULL: Duration = Duration::from_millis(10);

pub(super) struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    socket: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<Vec<u8>>,
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
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let (zero, clock) = (Instant::now(), Clock::new());
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), server.map(Arc::new), true),
            connection: None,
            socket,
            state,
            buffers: (0..BATCH).map(|_| vec![0; BUNDLE]).collect(),
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
            self.launch(&transmit, &datagram)?;
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
        self.sleeper.wait(deadline.max(self.clock.now()), &mut [PollFd::new(&self.socket, PollFlags::IN)])?;
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
        loop {
            let mut metas = [RecvMeta::default(); BATCH];
            let mut buffers = std::mem::take(&mut self.buffers);
            let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            let got = self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas);
            let got = match got {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                // A datagram of ours came to a port where no program listens, or does not any more.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(0),
                got => got,
            };
            if let Ok(got) = got {
                let now = Instant::now();
                for (buffer, meta) in buffers.iter().zip(&metas).take(got) {
                    for bytes in buffer[..meta.len.min(buffer.len())].chunks(meta.stride.max(1)) {
                        self.arrive(now, meta, bytes)?;
                    }
                }
            }
            self.buffers = buffers;
            if got? == 0 {
                return Ok(());
            }
        }
    }

    fn arrive(&mut self, now: Instant, meta: &RecvMeta, bytes: &[u8]) -> io::Result<()> {
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let mut answer = Vec::new();
        let path = FourTuple::new(meta.addr, meta.dst_ip);
        match self.endpoint.handle(now, path, ecn, BytesMut::from(bytes), &mut answer) {
            Some(DatagramEvent::ConnectionEvent(to, event)) => {
                if let Some((handle, connection)) = &mut self.connection
                    && *handle == to
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_some() => {
                let transmit = self.endpoint.refuse(incoming, &mut answer);
                self.launch(&transmit, &answer)?;
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, now, &mut answer, None) {
                    Ok(accepted) => self.connection = Some(accepted),
                    Err(error) => {
                        if let Some(transmit) = &error.response {
                            self.launch(transmit, &answer)?;
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.launch(&transmit, &answer)?,
            None => {}
        }
        Ok(())
    }

    fn launch(&self, transmit: &Transmit, bytes: &[u8]) -> io::Result<()> {
        let datagram = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let send = || self.state.try_send(UdpSockRef::from(&self.socket), &datagram);
        if send().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            wait(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(FULL))?;
            // What finds no space now, or cannot be sent at all, is a lost packet.
            let _ = send();
        }
        Ok(())
    }
}
