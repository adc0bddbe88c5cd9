//! What a link counts.

use std::collections::BTreeMap;

use paceline_cc::{Codepoint, Nanos, Time};

use crate::packet::Packet;

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire, from the IP header on.
    pub bytes: u64,
}

impl Count {
    /// One more packet of `size` bytes.
    #[inline]
    pub fn add(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
}

/// What a link did to the packets of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowStats {
    /// Dropped because the queue was full, or by its AQM.
    pub dropped: Count,
    /// Marked "congestion experienced" by its AQM.
    pub marked: Count,
}

/// Counters of a link and its queue since the start of the run.
///
/// Every packet that arrived is delivered, dropped, waiting or in service:
/// `arrived = delivered + full + aqm + queued + in service`.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Arrived at the queue.
    pub arrived: Count,
    /// Dropped because the queue was full.
    pub full: Count,
    /// Dropped by an active queue management.
    pub aqm: Count,
    /// Marked CE by an active queue management.
    pub marked: Count,
    /// Left the link.
    pub delivered: Count,
    /// Waiting now, without the packet in service.
    pub queued: Count,
    /// Time integral of the waiting packets (packet nanoseconds), without the packet in service.
    pub queued_packet_ns: u128,
    /// Time integral of the waiting bytes (byte nanoseconds), without the packet in service.
    pub queued_byte_ns: u128,
    /// Time with a packet in service. On a trace link, only packets that need several opportunities are ever in
    /// service for longer than an instant.
    pub busy: Nanos,
    /// Drops and marks by flow, of those that had any and are not forgotten ([`Path::forget`](crate::Path::forget)).
    pub flows: BTreeMap<u32, FlowStats>,
    updated: Time,
}

impl LinkStats {
    /// Time integral of the packets in the link, waiting or in service (packet nanoseconds): by Little's law the sum
    /// of the times that packets spent there.
    pub fn inside_packet_ns(&self) -> u128 {
        self.queued_packet_ns + u128::from(self.busy.as_nanos())
    }

    pub(crate) fn count_full<P>(&mut self, packet: &Packet<P>) {
        self.full.add(packet.size);
        self.flow(packet.flow).dropped.add(packet.size);
    }

    pub(crate) fn count_early<P>(&mut self, packet: &Packet<P>) {
        self.aqm.add(packet.size);
        self.flow(packet.flow).dropped.add(packet.size);
    }

    /// An AQM marks a packet. False, and nothing happens, when the packet is not ECN-capable; one that is marked
    /// already stays so and is not counted again.
    pub fn mark<P>(&mut self, packet: &mut Packet<P>) -> bool {
        match packet.ecn {
            Codepoint::NotEct => return false,
            Codepoint::Ect0 | Codepoint::Ect1 => {
                packet.ecn = Codepoint::Ce;
                self.marked.add(packet.size);
                self.flow(packet.flow).marked.add(packet.size);
            }
            Codepoint::Ce => {}
        }
        true
    }

    /// A packet goes into the queue.
    #[inline]
    pub fn enter(&mut self, size: u32) {
        self.queued.add(size);
    }

    /// A packet leaves the queue, to be served or dropped.
    #[inline]
    pub fn leave(&mut self, size: u32) {
        self.queued.packets -= 1;
        self.queued.bytes -= u64::from(size);
    }

    /// Brings the time integrals up to `now`; `serving` says whether a packet was in service since the last time.
    #[inline(always)]
    pub(crate) fn advance(&mut self, now: Time, serving: bool) {
        let span = now - self.updated;
        self.updated += span;
        self.queued_packet_ns += u128::from(self.queued.packets) * u128::from(span.as_nanos());
        self.queued_byte_ns += u128::from(self.queued.bytes) * u128::from(span.as_nanos());
        if serving {
            self.busy += span;
        }
    }

    fn flow(&mut self, flow: u32) -> &mut FlowStats {
        self.flows.entry(flow).or_default()
    }
}
