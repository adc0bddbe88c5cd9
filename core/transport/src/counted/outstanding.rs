//! What was sent and not yet settled, where only numbers of deliveries and losses are known.

use std::collections::VecDeque;

use paceline_cc::{Lost, Time};

use crate::packet::{SentPacket, State};

/// The packets of a flow in the order of their positions.
#[derive(Default)]
pub(super) struct Outstanding {
    packets: VecDeque<SentPacket>,
    /// Number of the packet at the front.
    first: u64,
    /// Serial of the last transmission.
    serial: u64,
    /// Everything below this number was delivered, lost or is taken for a hole.
    ahead: u64,
    /// Below this number no packet is left that may be lost for the first time.
    searched: u64,
    /// Numbers of lost packets, in the order of their discovery; some may have been delivered since.
    waiting: VecDeque<u64>,
    /// Packets in the state [`State::Delivered`].
    pub(super) held: u32,
    /// Newly delivered packets, as they were.
    pub(super) fresh: Vec<SentPacket>,
}

impl Outstanding {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// How many lost packets wait for their retransmission, at most.
    pub(super) fn waiting(&mut self) -> usize {
        while self.waiting.front().is_some_and(|number| *number < self.first) {
            self.waiting.pop_front();
        }
        self.waiting.len()
    }

    fn get(&mut self, number: u64) -> Option<&mut SentPacket> {
        self.packets.get_mut(number.checked_sub(self.first)? as usize)
    }

    fn end(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// A new packet leaves.
    pub(super) fn push(&mut self, mut packet: SentPacket) {
        self.serial += 1;
        packet.serial = self.serial;
        self.packets.push_back(packet);
    }

    /// The lost packet that has waited longest leaves again, or the last one that is in flight (a tail loss probe). Says whether
    /// it was lost.
    pub(super) fn resend(&mut self, now: Time) -> Option<(&mut SentPacket, bool)> {
        let mut again = None;
        while let Some(number) = self.waiting.pop_front() {
            if self.get(number).is_some_and(|packet| packet.state == State::Lost) {
                again = Some((number, true));
                break;
            }
        }
        let (number, lost) = again.or_else(|| {
            let back = self.packets.iter().rposition(|packet| packet.state == State::InFlight)?;
            Some((self.first + back as u64, false))
        })?;
        self.serial += 1;
        let serial = self.serial;
        let packet = self.get(number)?;
        packet.state = State::InFlight;
        packet.serial = serial;
        packet.sent_at = now;
        packet.retransmitted = true;
        Some((packet, lost))
    }

    /// Everything below `position` has arrived.
    pub(super) fn deliver_below(&mut self, position: u64) {
        while let Some(packet) = self.packets.front().filter(|packet| packet.end() <= position) {
            match packet.state {
                State::Delivered => self.held -= 1,
                State::InFlight | State::Lost => self.fresh.push(*packet),
            }
            self.packets.pop_front();
            self.first += 1;
        }
    }

    /// `count` packets above the oldest have arrived, the highest of them below `position`: the holes are taken to be the lowest.
    pub(super) fn deliver_ahead(&mut self, position: u64, count: u32) {
        let from = self.ahead.max(self.first);
        let to = self.first + self.packets.partition_point(|packet| packet.end() <= position) as u64;
        let mut due = count.saturating_sub(self.held);
        self.ahead = to.max(from);
        let mut number = to;
        while due > 0 && number > from {
            number -= 1;
            due -= u32::from(self.arrive(number));
        }
        // Repairs in front of other holes.
        let mut number = self.first;
        while due > 0 && number < from {
            if self.get(number).is_some_and(|packet| packet.retransmitted) {
                due -= u32::from(self.arrive(number));
            }
            number += 1;
        }
    }

    /// Packet `number` has arrived, if it was in flight.
    fn arrive(&mut self, number: u64) -> bool {
        let Some(packet) = self.get(number).filter(|packet| packet.state == State::InFlight) else { return false };
        let copy = *packet;
        packet.state = State::Delivered;
        self.fresh.push(copy);
        self.held += 1;
        true
    }

    /// `count` packets were lost: holes first, then repairs, then what is left. Adds them to `lost`, in
    /// the order of their departures.
    pub(super) fn lose(&mut self, count: u64, lost: &mut Vec<Lost>) {
        let mut due = count;
        let mut number = self.searched.max(self.first);
        while due > 0 && number < self.ahead {
            due -= u64::from(self.drop_once(number, false, lost));
            number += 1;
        }
        self.searched = number;
        for repairs in [true, false] {
            let mut number = self.first;
            while due > 0 && number < self.end() {
                due -= u64::from(self.drop_once(number, repairs, lost));
                number += 1;
            }
        }
        lost.sort_unstable_by_key(|lost| (lost.sent_at, lost.seq));
    }

    /// Packet `number` is lost, if it is in flight, again for `repair`.
    fn drop_once(&mut self, number: u64, repair: bool, lost: &mut Vec<Lost>) -> bool {
        let fits = |packet: &&mut SentPacket| packet.state == State::InFlight && packet.retransmitted == repair;
        let Some(packet) = self.get(number).filter(fits) else { return false };
        packet.state = State::Lost;
        lost.push(packet.lost());
        self.waiting.push_back(number);
        true
    }
}
