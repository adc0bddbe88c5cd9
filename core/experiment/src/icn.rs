//! The two ends of a flow over the receiver-driven datapath of `paceline_icn`: a requester where data goes, which has the
//! controller, and a router where data comes from, which answers and forgets.
//!
//! The address has proved itself before: every request carries a token, and none is padded. The router answers at once, with
//! its units back to back, as in the paper (section 3.2); nothing is verified, since packets have no bytes here.

mod fetch;
mod object;

use paceline_cc::{Controller, Ecn, Nanos, Time};
use paceline_icn::flow::{Aggregation, PacedCeiling};
use paceline_icn::flow::{FlowConfig, RequestFlow as Machinery, Supply};
use paceline_icn::name::NameKind;
use paceline_icn::wire::{AddressToken, DATA_HEAD, TOKEN_BYTES, UnitRequest};
use paceline_icn::{Name, Ranges, UNIT};
use paceline_transport::{Segment, SenderConfig, SenderStats, Steering};

pub use fetch::{BIN, FetchNode};
pub use object::SyntheticObject;

/// The port at which content routers are asked, as of `paceline icn serve`.
pub const ROUTER_PORT: u16 = 4871;
/// The controller with which they ask others, as of `paceline icn route`.
pub const ROUTER_CONTROLLER: &str = "bbr";

/// Bytes of IPv4 and UDP headers.
const IP_UDP: u32 = 28;
/// Bytes that a packet of data has on the wire besides those of its unit.
pub const UNIT_HEADERS: u32 = IP_UDP + DATA_HEAD as u32;
/// Bytes of a whole unit.
const WHOLE: u64 = UNIT as u64;

/// How a receiver-driven flow asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Units in a request.
    pub aggregation: Aggregation,
    /// Three times as many where the RTT has grown (inequality 9 of the paper).
    pub triple: bool,
    /// What may be outstanding while the controller paces.
    pub ceiling: PacedCeiling,
    /// Later units that arrive before a hole is taken for a loss.
    pub disorder: u32,
}

impl Default for Asking {
    fn default() -> Self {
        let FlowConfig { aggregation, triple, ceiling, disorder, .. } = FlowConfig::default();
        Self { aggregation, triple, ceiling, disorder }
    }
}

impl Asking {
    /// The same as a part of the options of a flow of [`paceline_icn`].
    pub fn flow_config(&self) -> FlowConfig {
        let Self { aggregation, triple, ceiling, disorder } = *self;
        FlowConfig { aggregation, triple, ceiling, disorder, ..FlowConfig::default() }
    }
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The units.
    pub ranges: Ranges,
    /// Bytes of the request on the wire.
    pub wire_bytes: u32,
}

/// The end that asks. The application's bytes are what it wants; what it writes to a [`Steering`] is how much more.
pub struct Requester {
    flow: Machinery,
    wanted: Wanted,
    request: UnitRequest,
    /// Scratch for a message.
    message: Vec<u8>,
    ready: u64,
}

/// What the application wants, in bytes from the start of the object; units are asked for in order.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    /// Where it ends.
    end: u64,
    /// The next unit.
    next: u64,
}

impl Wanted {
    /// Units up to the end.
    fn units(&self) -> u64 {
        self.end.div_ceil(WHOLE)
    }
}

impl Supply for Wanted {
    fn take(&mut self, most: u32) -> Option<Ranges> {
        let most = self.units().saturating_sub(self.next).min(u64::from(most));
        if most == 0 {
            return None;
        }
        let mut ranges = Ranges::one(self.next);
        let end = self.next + most;
        self.next += 1;
        while self.next < end && ranges.push(self.next) {
            self.next += 1;
        }
        Some(ranges)
    }
}

impl Requester {
    /// Asks as `asking` says and as `controller` permits. `nonce` is the mark of its requests.
    pub fn new(asking: &Asking, transport: &SenderConfig, controller: Box<dyn Controller>, nonce: u64) -> Self {
        let mut transport = *transport;
        transport.mss = UNIT as u32;
        let config = FlowConfig { transport, ..asking.flow_config() };
        Self {
            flow: Machinery::new(&config, controller),
            wanted: Wanted::default(),
            request: UnitRequest {
                nonce,
                name: Name::new(NameKind::Object, [0; 32]),
                ranges: Ranges::one(0),
                token: Some(AddressToken([0; TOKEN_BYTES])),
                hops: 0,
                padded: 0,
            },
            message: Vec::new(),
            ready: 0,
        }
    }

    /// The request that may leave now, if any.
    pub fn poll_request(&mut self, now: Time) -> Option<Asked> {
        let ranges = self.flow.poll_request(now, &mut self.wanted)?;
        self.request.ranges = ranges;
        self.message.clear();
        self.request.encode(&mut self.message);
        Some(Asked { ranges, wire_bytes: IP_UDP + self.message.len() as u32 })
    }

    /// The mark of its requests, which answers repeat.
    pub fn nonce(&self) -> u64 {
        self.request.nonce
    }

    /// The message of the last request.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// `bytes` of the unit with this number arrived. Answers the RTT that the controller learned from it, if any.
    pub fn on_unit(&mut self, now: Time, unit: u64, bytes: u32, ce: bool) -> Option<Nanos> {
        let arrived = self.flow.on_unit(now, unit, bytes, ce, false)?;
        self.ready += u64::from(bytes);
        arrived.rtt
    }

    /// A packet arrived as [`Router::answer`] made it.
    pub fn on_segment(&mut self, now: Time, segment: &Segment, ce: bool) -> Option<Nanos> {
        self.on_unit(now, segment.seq / WHOLE, segment.bytes, ce)
    }

    /// Payload bytes of all distinct units that arrived.
    pub fn bytes_ready(&self) -> u64 {
        self.ready
    }

    /// Requests sent.
    pub fn requests(&self) -> u64 {
        self.flow.requests()
    }
}

impl Steering for Requester {
    fn write(&mut self, bytes: u64) {
        self.wanted.end = self.wanted.end.saturating_add(bytes);
    }

    fn cut(&mut self) -> u64 {
        let end = self.wanted.end.min(self.wanted.next * WHOLE);
        let unasked = self.wanted.end - end;
        self.wanted.end = end;
        unasked
    }

    fn next_timeout(&self) -> Time {
        self.flow.next_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.flow.on_timeout(now);
    }

    fn paced_until(&self) -> Time {
        self.flow.paced_until()
    }

    fn is_idle(&self) -> bool {
        self.wanted.next >= self.wanted.units() && self.flow.is_idle()
    }

    fn in_flight(&self) -> u64 {
        self.flow.in_flight()
    }

    fn window(&self) -> u64 {
        self.flow.window()
    }

    fn srtt(&self) -> Option<Nanos> {
        self.flow.srtt()
    }

    fn stats(&self) -> SenderStats {
        self.flow.stats()
    }

    fn controller(&self) -> &dyn Controller {
        self.flow.controller()
    }
}

/// The end that answers. All that it has is the object's length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Router {
    length: u64,
}

impl Router {
    /// The object has `bytes` more bytes.
    pub fn write(&mut self, bytes: u64) {
        self.length = self.length.saturating_add(bytes);
    }

    /// Of an object with this many bytes.
    pub fn of(length: u64) -> Self {
        Self { length }
    }

    /// The units of `ranges` that the object has, each with its bytes.
    pub fn units(self, ranges: &Ranges) -> impl Iterator<Item = (u64, u32)> {
        let there = move |unit: u64| {
            let first = unit.checked_mul(WHOLE).filter(|first| *first < self.length)?;
            Some((unit, (self.length - first).min(WHOLE) as u32))
        };
        ranges.iter().map_while(there)
    }

    /// The same as packets that leave at `now`: the position of each is that of its first byte.
    pub fn answer(self, now: Time, asked: &Asked) -> impl Iterator<Item = Segment> {
        self.units(&asked.ranges).map(move |(unit, bytes)| Segment {
            seq: unit * WHOLE,
            bytes,
            sent_at: now,
            retransmission: false,
            syn: false,
            cwr: false,
            ecn: Ecn::Off,
            note: 0,
        })
    }
}
