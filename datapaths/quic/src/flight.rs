//! Packets on the way, as far as quinn reports them.
//!
//! quinn reports departures a batch at a time, one moment for the whole batch, and an acknowledged packet by that moment
//! and its size. Bytes of a batch are settled in their order, so that a packet lost inside a batch is taken for the last
//! of it.

use std::collections::VecDeque;

use paceline_cc::{Lost, Nanos, Time};
use paceline_transport::SentPacket;

/// Most packets remembered (our choice: 1 Gbit/s and 1.5 s). The end that only acknowledges has its packets reported as
/// sent and never as acknowledged.
const MOST: usize = 1 << 17;

/// Packets in the order of their departures; of one that is settled in part, what is left.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    packets: VecDeque<SentPacket>,
}

impl Flight {
    pub(crate) fn push(&mut self, packet: SentPacket) {
        if self.packets.len() == MOST {
            self.packets.pop_front();
        }
        self.packets.push_back(packet);
    }

    /// Settles the first `bytes` of what left at `sent_at`; `None` for a packet not known (an MTU probe).
    pub(crate) fn acked(&mut self, sent_at: Time, bytes: u32) -> Option<SentPacket> {
        let from = self.packets.partition_point(|packet| packet.sent_at < sent_at);
        let mut batch = self.packets.range_mut(from..).take_while(|packet| packet.sent_at == sent_at);
        let first = batch.find(|packet| packet.bytes > 0)?;
        let mut settled = *first;
        settled.bytes = bytes;
        let mut left = settle(first, bytes);
        for packet in batch {
            left = settle(packet, left);
        }
        self.drop_settled();
        Some(settled)
    }

    /// Settles the oldest `bytes` of what left up to `sent_at`, and lists them.
    pub(crate) fn lost(&mut self, sent_at: Time, bytes: u64, lost: &mut Vec<Lost>) {
        let mut left = bytes;
        for packet in self.packets.iter_mut().take_while(|packet| packet.sent_at <= sent_at) {
            if left == 0 {
                break;
            }
            let part = left.min(u64::from(packet.bytes)) as u32;
            if part > 0 {
                lost.push(Lost { bytes: part, ..packet.lost() });
                settle(packet, part);
                left -= u64::from(part);
            }
        }
        self.drop_settled();
    }

    /// Forgets what left before `horizon`.
    pub(crate) fn forget(&mut self, horizon: Time) {
        while self.packets.front().is_some_and(|packet| packet.sent_at < horizon) {
            self.packets.pop_front();
        }
    }

    /// Nothing is on the way.
    pub(crate) fn clear(&mut self) {
        self.packets.clear();
    }

    fn drop_settled(&mut self) {
        while self.packets.front().is_some_and(|packet| packet.bytes == 0) {
            self.packets.pop_front();
        }
    }
}

/// Takes up to `bytes` off the front of `packet`; answers what is left of them.
fn settle(packet: &mut SentPacket, bytes: u32) -> u32 {
    let part = bytes.min(packet.bytes);
    packet.seq += u64::from(part);
    packet.bytes -= part;
    bytes - part
}

/// How long a packet is kept once a later one was acknowledged, in RTTs (our choice: quinn declares it lost after 9/8).
const KEPT: u64 = 4;

/// What left before this and is not settled never will be; `acked` is the departure of the newest packet acknowledged
/// earlier than now.
pub(crate) fn horizon(now: Time, acked: Time, rtt: Nanos) -> Time {
    acked.min(now - rtt.mul_div(KEPT, 1))
}
