//! An endpoint of s2n-quic without a clock and without a socket.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use paceline_cc::{Codepoint, Time};
use s2n_quic::provider::io::Provider;
use s2n_quic_core::endpoint::Endpoint;
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::inet::{ExplicitCongestionNotification, SocketAddress};
use s2n_quic_core::io::rx;
use s2n_quic_core::io::tx::{self, Message, PayloadBuffer};
use s2n_quic_core::path::{Tuple, mtu as config};
use s2n_quic_core::time::Timestamp;
use s2n_quic_core::time::clock::{Clock, NoopClock};

use super::adapter::Watch;
use crate::factory::locked;
use crate::stack::MTU;

/// Bytes of IPv4 and UDP headers, which s2n-quic counts as part of its packets' size.
const HEADERS: u16 = 28;

/// An endpoint of s2n-quic that a loop turns. Times count from any one moment, and never run backwards.
pub trait Machine: Send {
    /// A datagram came, at this moment.
    fn receive(&mut self, now: Time, from: SocketAddr, to: SocketAddr, ecn: Codepoint, bytes: &mut [u8]);

    /// Takes in what the application wants, and runs the controller's clock. `context` is woken when the application wants more. Answers
    /// whether the endpoint has not ended.
    fn wake(&mut self, now: Time, context: &mut Context<'_>) -> bool;

    /// The next datagram that leaves at this moment, and its bytes in `buffer`; nothing where none does.
    fn transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Outgoing>;

    /// When [`Machine::wake`] and [`Machine::transmit`] want to be called, if nothing else happens.
    fn due(&self) -> Option<Time>;
}

/// A datagram that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its destination.
    pub to: SocketAddr,
    /// The local address, where that matters.
    pub from: Option<IpAddr>,
    /// Its codepoint.
    pub ecn: Codepoint,
    /// Its length.
    pub length: usize,
}

/// A provider of s2n-quic's, for `with_io`, that hands the endpoint over to a loop of the caller's.
#[derive(Clone)]
pub struct Captured {
    at: SocketAddr,
    watch: Watch,
    mtu: u16,
    machine: Arc<Mutex<Option<Box<dyn Machine>>>>,
}

impl Captured {
    /// For an endpoint whose socket is bound to this address, and whose [watched](crate::Factory::watched) controller `watch` sees.
    pub fn new(at: SocketAddr, watch: &Watch) -> Self {
        Self { at, watch: watch.clone(), mtu: MTU, machine: Arc::default() }
    }

    /// The same with datagrams of at most `mtu` bytes of UDP payload, 1200 to [`MTU`].
    #[must_use]
    pub fn with_mtu(self, mtu: u16) -> Self {
        Self { mtu, ..self }
    }

    /// The endpoint, once the builder has started it.
    pub fn take(&self) -> Option<Box<dyn Machine>> {
        locked(&self.machine).take()
    }
}

impl Provider for Captured {
    type PathHandle = Tuple;
    type Error = Infallible;

    fn start<E: Endpoint<PathHandle = Tuple>>(self, endpoint: E) -> Result<SocketAddress, Infallible> {
        *locked(&self.machine) = Some(of(endpoint, self.watch, self.mtu));
        Ok(self.at.into())
    }
}

/// The endpoint as a machine.
pub(super) fn of<E: Endpoint<PathHandle = Tuple>>(mut endpoint: E, watch: Watch, mtu: u16) -> Box<dyn Machine> {
    let size = mtu + HEADERS;
    let config = config::Config::builder().with_max_mtu(size).and_then(|config| config.with_initial_mtu(size));
    endpoint.set_mtu_config(config.and_then(config::Builder::build).expect("sizes that RFC 9000 allows"));
    Box::new(Turned { endpoint, watch, asked: Time::ZERO })
}

struct Turned<E> {
    endpoint: E,
    watch: Watch,
    /// When it was asked for a datagram last.
    asked: Time,
}

/// s2n-quic's moment for one of ours, by its clock that stands still at one.
pub(super) fn stamp(at: Time) -> Timestamp {
    NoopClock.get_time() + Duration::from_micros(at.as_nanos() / 1000)
}

/// The same back.
pub(super) fn moment(stamp: Timestamp) -> Time {
    let since = stamp.saturating_duration_since(NoopClock.get_time());
    Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

impl<E: Endpoint<PathHandle = Tuple>> Machine for Turned<E> {
    fn receive(&mut self, now: Time, from: SocketAddr, to: SocketAddr, ecn: Codepoint, bytes: &mut [u8]) {
        let path =
            Tuple { remote_address: SocketAddress::from(from).into(), local_address: SocketAddress::from(to).into() };
        let header = Header { path, ecn: ExplicitCongestionNotification::new(bits(ecn)) };
        self.endpoint.receive(&mut Arrived { header: Some(header), bytes }, &stamp(now));
    }

    fn wake(&mut self, now: Time, context: &mut Context<'_>) -> bool {
        self.watch.tick(now);
        !matches!(self.endpoint.poll_wakeups(context, &stamp(now)), Poll::Ready(Err(_)))
    }

    fn transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Outgoing> {
        self.asked = now;
        let mut slot = Slot { buffer, taken: None };
        self.endpoint.transmit(&mut slot, &stamp(now));
        slot.taken
    }

    fn due(&self) -> Option<Time> {
        // s2n-quic's own timers are of milliseconds: it would do them earlier, but puts off by one what it could not do.
        let timer = self.endpoint.timeout().map(moment);
        let departure = self.watch.departure().filter(|at| *at > self.asked);
        [timer, departure, self.watch.next_tick()].into_iter().flatten().min()
    }
}

/// A datagram that has come.
struct Arrived<'a> {
    header: Option<Header<Tuple>>,
    bytes: &'a mut [u8],
}

impl rx::Queue for Arrived<'_> {
    type Handle = Tuple;

    fn for_each<F: FnMut(Header<Tuple>, &mut [u8])>(&mut self, mut each: F) {
        if let Some(header) = self.header.take() {
            each(header, self.bytes);
        }
    }

    fn is_empty(&self) -> bool {
        self.header.is_none()
    }
}

/// Room for one datagram: each has a departure of its own.
struct Slot<'a> {
    buffer: &'a mut [u8],
    taken: Option<Outgoing>,
}

impl tx::Queue for Slot<'_> {
    type Handle = Tuple;

    const SUPPORTS_ECN: bool = true;

    fn push<M: Message<Handle = Tuple>>(&mut self, mut message: M) -> Result<tx::Outcome, tx::Error> {
        if self.taken.is_some() {
            return Err(tx::Error::AtCapacity);
        }
        let (path, ecn) = (*message.path_handle(), message.ecn());
        let length = message.write_payload(PayloadBuffer::new(self.buffer), 0)?;
        let from = SocketAddr::from(path.local_address).ip();
        self.taken = Some(Outgoing {
            to: path.remote_address.into(),
            from: Some(from).filter(|from| !from.is_unspecified()),
            ecn: codepoint(ecn),
            length,
        });
        Ok(tx::Outcome { len: length, index: 0 })
    }

    fn capacity(&self) -> usize {
        usize::from(self.taken.is_none())
    }
}

fn bits(ecn: Codepoint) -> u8 {
    match ecn {
        Codepoint::NotEct => 0b00,
        Codepoint::Ect1 => 0b01,
        Codepoint::Ect0 => 0b10,
        Codepoint::Ce => 0b11,
    }
}

fn codepoint(ecn: ExplicitCongestionNotification) -> Codepoint {
    match ecn {
        ExplicitCongestionNotification::NotEct => Codepoint::NotEct,
        ExplicitCongestionNotification::Ect1 => Codepoint::Ect1,
        ExplicitCongestionNotification::Ect0 => Codepoint::Ect0,
        ExplicitCongestionNotification::Ce => Codepoint::Ce,
    }
}
