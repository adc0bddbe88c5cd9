//! What endpoints say to each other: data one way, acknowledgements the other.
//!
//! In the simulator these structs travel as they are; a real datapath encodes them.

use paceline_cc::{Ecn, Time};

use crate::arrivals::ArrivalTime;

/// Bytes of IPv4 and TCP headers with the time-stamp option. Datagrams are counted alike, so that contestants differ
/// by their controllers alone (our choice).
pub const HEADER_BYTES: u32 = 52;

/// A packet of data. Positions are byte offsets from the start of the stream, never wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Position of the first payload byte.
    pub seq: u64,
    /// Payload bytes; zero for a heartbeat and for a handshake.
    pub bytes: u32,
    /// When it was sent; echoed by the receiver (RFC 7323).
    pub sent_at: Time,
    /// The payload was sent before.
    pub retransmission: bool,
    /// It opens the flow (TCP's SYN): it carries no data and is answered at once.
    pub syn: bool,
    /// The sender has reduced its window since the last ECE (RFC 3168).
    pub cwr: bool,
    /// How the packet is marked ECN-capable, and so how the receiver echoes marks.
    pub ecn: Ecn,
    /// The controller's word to its receiver half ([`paceline_cc::Stamp::note`]).
    pub note: u64,
}

impl Segment {
    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> u32 {
        self.bytes + HEADER_BYTES
    }
}

/// A range of bytes, the end not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

/// Most SACK blocks in one acknowledgement (RFC 2018: three beside time stamps).
pub const MAX_SACKS: usize = 3;

/// Most arrivals in one acknowledgement. 128: two of the longest chirps, and the acknowledgement stays below 1500 bytes
/// with every other option (our choice).
pub const MAX_ARRIVALS: usize = 128;

/// An acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckSegment {
    /// Next byte expected: everything below has arrived. A datagram receiver, which waits for nothing, says here one
    /// past the highest byte seen.
    pub cumulative: u64,
    /// Ranges that arrived above `cumulative` (TCP), or just arrived (datagrams), most recent first; the first
    /// `sack_count` count.
    pub sacks: [Range; MAX_SACKS],
    /// How many of `sacks` count.
    pub sack_count: u8,
    /// A range that arrived twice (RFC 2883).
    pub duplicate: Option<Range>,
    /// It answers a [`Segment::syn`], and acknowledges nothing.
    pub syn: bool,
    /// [`Segment::sent_at`] of the packet that the RTT is to be taken from (RFC 7323 section 4.3).
    pub echo_sent_at: Time,
    /// Receiver's clock when the newest packet arrived.
    pub received_at: Time,
    /// Congestion echo (RFC 3168, or RFC 8257 when data is [`Ecn::Exact`]).
    pub ece: bool,
    /// Bytes with a CE mark since the start of the flow (accurate feedback).
    pub ce_bytes: u64,
    /// Packets with a CE mark since the start of the flow.
    pub ce_packets: u64,
    /// When each packet of data since the acknowledgement before arrived, in that order, where the receiver reports it: the
    /// last [`MAX_ARRIVALS`] of them. Those of an acknowledgement that is lost are lost with it.
    pub arrivals: Option<Box<[ArrivalTime]>>,
    /// The receiver half's blob, at most [`paceline_cc::MAX_FEEDBACK`] bytes.
    pub feedback: Option<Box<[u8]>>,
}

impl AckSegment {
    /// The answer to `syn`, which echoes its time stamp (RFC 7323 section 3.2).
    pub(crate) fn answer(now: Time, syn: &Segment) -> Self {
        Self { cumulative: syn.seq, syn: true, echo_sent_at: syn.sent_at, received_at: now, ..Self::default() }
    }

    /// Bytes on the wire.
    #[inline]
    pub fn wire_bytes(&self) -> u32 {
        let sacks = u32::from(self.sack_count) + u32::from(self.duplicate.is_some());
        // RFC 2018: two bytes of option header (padded by two) and eight for each block.
        let options = if sacks == 0 { 0 } else { 4 + 8 * sacks };
        // Two bytes count the arrivals. Each takes eight: 32 bits for its position less `cumulative`, as far as TCP's own
        // numbers reach, and 32 bits for the ns before `received_at`, 4.3 s, more than an acknowledgement is delayed.
        let arrivals = self.arrivals.as_ref().map_or(0, |list| 2 + 8 * list.len() as u32);
        HEADER_BYTES + options + arrivals + self.feedback.as_ref().map_or(0, |blob| blob.len() as u32)
    }

    /// The SACK blocks.
    pub fn sacks(&self) -> &[Range] {
        &self.sacks[..usize::from(self.sack_count)]
    }
}
