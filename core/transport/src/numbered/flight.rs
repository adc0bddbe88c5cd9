//! Packets by number, from their departure to their end.

use std::collections::VecDeque;

use paceline_cc::Time;

use crate::packet::{SentPacket, State};

/// Most packets remembered (our choice: 1 Gbit/s and 1.5 s); beyond them the oldest is forgotten.
const MOST: usize = 1 << 17;

/// The packets of a flow in the order of their numbers, each of which is its [`SentPacket::serial`]. The oldest is in flight.
#[derive(Default)]
pub(super) struct Flight {
    packets: VecDeque<SentPacket>,
    bytes: u64,
    /// Packets taken for delivered by their bytes, less those that turned out to be lost.
    guessed: u64,
    /// Bytes reported as delivered beyond those of the packets that were taken for them; below zero: fewer.
    owed: i64,
}

impl Flight {
    /// Bytes in flight.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest packet in flight.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.packets.front().map(|packet| packet.serial)
    }

    /// The newest packet in flight up to `number`.
    pub(super) fn newest_up_to(&self, number: u64) -> Option<u64> {
        let end = self.packets.partition_point(|packet| packet.serial <= number);
        let in_flight = |packet: &&SentPacket| packet.state == State::InFlight;
        self.packets.range(..end).rev().find(in_flight).map(|packet| packet.serial)
    }

    /// A packet leaves, newer than all before it.
    pub(super) fn push(&mut self, packet: SentPacket) {
        if self.packets.len() == MOST {
            self.forget_oldest();
        }
        self.bytes = self.bytes.saturating_add(u64::from(packet.bytes));
        self.packets.push_back(packet);
    }

    /// The packet of this number, where it is in flight, ends in `end`.
    pub(super) fn take(&mut self, number: u64, end: State) -> Option<SentPacket> {
        let index = self.packets.binary_search_by_key(&number, |packet| packet.serial).ok()?;
        let packet = &mut self.packets[index];
        if packet.state != State::InFlight {
            return None;
        }
        let copy = *packet;
        packet.state = end;
        self.bytes = self.bytes.saturating_sub(u64::from(copy.bytes));
        self.trim();
        Some(copy)
    }

    /// `bytes` were delivered, of which the newest packet is `newest`: those before it are taken for the rest, backwards. A packet counts
    /// where half of it is covered; the difference counts at the next call.
    pub(super) fn take_bytes(&mut self, bytes: u64, newest: u64, mut each: impl FnMut(SentPacket)) {
        self.owed = self.owed.saturating_add_unsigned(bytes);
        let end = self.packets.partition_point(|packet| packet.serial <= newest);
        let mut held = None;
        for packet in self.packets.range_mut(..end).rev().filter(|packet| packet.state == State::InFlight) {
            let size = i64::from(packet.bytes);
            if self.owed.saturating_mul(2) < size.max(1) {
                held = Some(self.owed);
                break;
            }
            self.owed -= size;
            self.guessed += 1;
            packet.state = State::Delivered;
            self.bytes = self.bytes.saturating_sub(u64::from(packet.bytes));
            each(*packet);
        }
        // More than was in flight says nothing of later packets.
        self.owed = held.unwrap_or(self.owed.min(0));
        self.trim();
    }

    /// Packet `number` was lost. Where it had been taken for delivered by its bytes, the oldest in flight before `newest` takes its
    /// place.
    pub(super) fn lose(&mut self, number: u64, newest: u64) -> Option<SentPacket> {
        if let Some(packet) = self.take(number, State::Lost) {
            return Some(packet);
        }
        let index = self.packets.binary_search_by_key(&number, |packet| packet.serial);
        let gone = self.oldest().is_none_or(|oldest| number < oldest);
        let delivered = index.map_or(gone, |index| self.packets[index].state == State::Delivered);
        let stand_in = self.oldest().filter(|oldest| delivered && self.guessed > 0 && *oldest < newest)?;
        self.guessed -= 1;
        self.take(stand_in, State::Lost)
    }

    /// The datapath counts `bytes` in flight: what left before `horizon` and has no end will have none.
    pub(super) fn reconcile(&mut self, bytes: u64, horizon: Time) {
        while self.packets.front().is_some_and(|packet| bytes == 0 || packet.sent_at < horizon) {
            self.forget_oldest();
        }
        self.bytes = bytes;
    }

    fn forget_oldest(&mut self) {
        if let Some(packet) = self.packets.pop_front() {
            self.bytes = self.bytes.saturating_sub(u64::from(packet.bytes));
        }
        self.trim();
    }

    /// Packets that have ended are kept only behind one that has not.
    fn trim(&mut self) {
        while self.packets.front().is_some_and(|packet| packet.state != State::InFlight) {
            self.packets.pop_front();
        }
    }
}
