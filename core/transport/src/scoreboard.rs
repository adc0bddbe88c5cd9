//! What was sent and not yet settled.
//!
//! Packets lie in a ring in the order of their positions; transmissions in a second ring in the order of their
//! departures, so that RACK finds losses from its front. The second ring is kept only while the two orders differ. Each
//! packet and each transmission is looked at a bounded number of times, whatever the window.

use std::collections::VecDeque;

use paceline_cc::{Lost, Nanos, Time};

use crate::packet::{SentPacket, State};
use crate::ranges::RangeSet;
use crate::segment::Range;

/// The most recently sent transmission among the delivered ones (RFC 8985 `RACK.xmit_ts`, `RACK.rtt`).
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    serial: u64,
    rtt: Nanos,
}

/// The packets of a flow, from the oldest unsettled one on.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    packets: VecDeque<SentPacket>,
    /// Number of the packet at the front of `packets`.
    first: u64,
    /// Packet number and serial of each transmission, unless the board is in order.
    order: VecDeque<(u64, u64)>,
    /// Number of the first packet that left after the last event that was not a delivery from below.
    orderly_from: u64,
    /// Serial of the last transmission; the first is 1.
    serial: u64,
    newest: Newest,
    /// Lost packets that wait for their retransmission, in the order of their discovery.
    waiting: VecDeque<u64>,
    /// Ranges reported by SACK, above the front.
    sacked: RangeSet,
    /// Delivered packets behind one that is not settled.
    held: u32,
    /// Datagrams: number of the first packet in flight; those below are settled, though some lie in the ring yet.
    cursor: u64,
    /// First packet sent since the last time that the window or the application stopped the flow.
    burst_from: u64,
    /// First packet that the window did not limit, since it last limited any.
    unlimited_from: u64,
    /// Payload bytes in flight.
    pub(crate) in_flight: u64,
    /// Among the losses found last was a packet that had been sent again.
    pub(crate) lost_repair: bool,
    /// Newly delivered packets, as they were.
    pub(crate) fresh: Vec<SentPacket>,
    scratch: Vec<Range>,
    mss: u64,
}

impl Scoreboard {
    pub(crate) fn new(mss: u32) -> Self {
        Self {
            packets: VecDeque::new(),
            first: 0,
            order: VecDeque::new(),
            orderly_from: 0,
            serial: 0,
            newest: Newest::default(),
            waiting: VecDeque::new(),
            sacked: RangeSet::default(),
            held: 0,
            cursor: 0,
            burst_from: 0,
            unlimited_from: u64::MAX,
            in_flight: 0,
            lost_repair: false,
            fresh: Vec::new(),
            scratch: Vec::new(),
            mss: u64::from(mss.max(1)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Number of the next new packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Number of the oldest packet.
    pub(crate) fn first_number(&self) -> u64 {
        self.first
    }

    /// Position of the oldest packet.
    pub(crate) fn start(&self) -> Option<u64> {
        self.packets.front().map(|packet| packet.seq)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&SentPacket> {
        self.packets.get(number.checked_sub(self.first)? as usize)
    }

    /// Takes `count` packets of up to one MSS for lost that lie at `position` and above, or below where those do not
    /// suffice; appends them to `lost` in their order. The board itself stays as it is.
    pub(crate) fn suspects(&self, position: u64, count: usize, lost: &mut Vec<Lost>) {
        let pieces = |packet: &SentPacket| u64::from(packet.bytes).div_ceil(self.mss).max(1) as usize;
        let mut from = self.offset_of(position).min(self.packets.len().saturating_sub(1));
        let mut above: usize = self.packets.iter().skip(from).take(count).map(pieces).sum();
        while above < count && from > 0 {
            from -= 1;
            above += pieces(&self.packets[from]);
        }
        let all = self.packets.iter().skip(from).flat_map(|packet| {
            (packet.seq..packet.end()).step_by(self.mss as usize).map(move |seq| {
                let mut lost = packet.lost();
                lost.seq = seq;
                lost.bytes = (packet.end() - seq).min(self.mss) as u32;
                lost
            })
        });
        lost.extend(all.take(count));
    }

    /// Delivered packets behind a hole.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Every packet is in flight, for the first time, and left before the one above.
    pub(crate) fn is_orderly(&self) -> bool {
        self.first >= self.orderly_from
    }

    /// Something else than a delivery from below is about to happen to a packet.
    fn disorder(&mut self) {
        if self.is_orderly() {
            self.order.clear();
            self.order.extend((self.first..).zip(self.packets.iter().map(|packet| packet.serial)));
        }
        self.orderly_from = self.next_number();
    }

    /// Takes the serial of a transmission that the board does not follow (an empty probe).
    pub(crate) fn skip_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// A new packet leaves.
    #[inline]
    pub(crate) fn push(&mut self, mut packet: SentPacket) {
        self.serial += 1;
        packet.serial = self.serial;
        if !self.is_orderly() {
            self.order.push_back((self.next_number(), self.serial));
        }
        self.in_flight += u64::from(packet.bytes);
        self.packets.push_back(packet);
    }

    /// Packet `number` leaves again.
    pub(crate) fn resend(&mut self, number: u64, now: Time) -> Option<&mut SentPacket> {
        self.disorder();
        let serial = self.serial + 1;
        let packet = self.packets.get_mut(number.checked_sub(self.first)? as usize)?;
        self.serial = serial;
        self.order.push_back((number, serial));
        if packet.state == State::Lost {
            packet.state = State::InFlight;
            self.in_flight += u64::from(packet.bytes);
        }
        packet.serial = serial;
        packet.sent_at = now;
        packet.retransmitted = true;
        Some(packet)
    }

    /// The packet in `range` is here still, and was never sent again.
    pub(crate) fn was_sent_once(&self, range: Range) -> bool {
        let packet = self.packets.get(self.index_of(range.start));
        packet.is_some_and(|packet| packet.seq == range.start && !packet.retransmitted)
    }

    /// A packet that was sent again is in flight (Linux `retrans_out`).
    pub(crate) fn has_repairs_out(&self) -> bool {
        self.packets.iter().any(|packet| packet.retransmitted && packet.state == State::InFlight)
    }

    /// The oldest packet that was taken for lost, left again or not, and has not arrived (Linux `lost_out`).
    pub(crate) fn oldest_loss(&self) -> Option<Lost> {
        let lost = |packet: &&SentPacket| match packet.state {
            State::InFlight => packet.retransmitted,
            State::Lost => true,
            State::Delivered => false,
        };
        self.packets.iter().find(lost).map(SentPacket::lost)
    }

    /// How many packets are in flight that were sent again (Linux `retrans_out`), and when the first of them left.
    pub(crate) fn repairs_out(&self) -> (u64, Time) {
        let out = self.packets.iter().filter(|packet| packet.retransmitted && packet.state == State::InFlight);
        out.fold((0, Time::NEVER), |(count, first), packet| (count + 1, first.min(packet.sent_at)))
    }

    /// Number of the lost packet to be sent next.
    pub(crate) fn next_waiting(&mut self) -> Option<u64> {
        while let Some(&number) = self.waiting.front() {
            if self.get(number).is_some_and(|packet| packet.state == State::Lost) {
                return Some(number);
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Everything below `position` has arrived, on a board in order: shows each packet as it leaves the board.
    #[inline(always)]
    pub(crate) fn deliver_in_order(&mut self, position: u64, mut show: impl FnMut(&SentPacket)) {
        while let Some(packet) = self.packets.front().filter(|packet| packet.end() <= position) {
            show(packet);
            self.in_flight -= u64::from(packet.bytes);
            self.first += 1;
            self.packets.pop_front();
        }
    }

    /// Everything below `position` has arrived.
    pub(crate) fn deliver_below(&mut self, position: u64) {
        while let Some(packet) = self.packets.front() {
            if packet.end() > position {
                break;
            }
            match packet.state {
                State::Delivered => self.held -= 1,
                State::InFlight => {
                    self.in_flight -= u64::from(packet.bytes);
                    self.fresh.push(*packet);
                }
                State::Lost => self.fresh.push(*packet),
            }
            self.packets.pop_front();
            self.first += 1;
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(position);
        }
    }

    /// The packets in `range` have arrived.
    pub(crate) fn deliver_range(&mut self, range: Range) {
        let Some(front) = self.packets.front() else { return };
        let range = Range { start: range.start.max(front.seq), end: range.end };
        let mut parts = std::mem::take(&mut self.scratch);
        parts.clear();
        self.sacked.insert(range, &mut parts);
        if !parts.is_empty() {
            self.disorder();
        }
        for part in &parts {
            let mut index = self.index_of(part.start);
            while let Some(packet) = self.packets.get_mut(index) {
                if packet.end() > part.end {
                    break;
                }
                if packet.state != State::Delivered {
                    if packet.state == State::InFlight {
                        self.in_flight -= u64::from(packet.bytes);
                    }
                    self.fresh.push(*packet);
                    packet.state = State::Delivered;
                    self.held += u32::from(self.first + index as u64 >= self.cursor);
                }
                index += 1;
            }
        }
        self.scratch = parts;
    }

    /// `bytes` of what is in flight below `position` have arrived, in whole packets; those of the highest, as far as is known.
    pub(crate) fn deliver_last(&mut self, position: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.disorder();
        let mut index = self.packets.partition_point(|packet| packet.end() <= position);
        while index > 0 && bytes > 0 {
            index -= 1;
            let packet = &mut self.packets[index];
            if packet.state != State::InFlight {
                continue;
            }
            if u64::from(packet.bytes) > bytes {
                break;
            }
            bytes -= u64::from(packet.bytes);
            self.in_flight -= u64::from(packet.bytes);
            self.fresh.push(*packet);
            packet.state = State::Delivered;
            self.held += 1;
        }
    }

    /// One past the last byte that was reported by SACK.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.sacked.last().map(|range| range.end)
    }

    /// Index of the first packet at or after `position`; a guess is right when all packets are full.
    fn index_of(&self, position: u64) -> usize {
        let front = self.packets.front().map_or(0, |packet| packet.seq);
        let guess = (position.saturating_sub(front) / self.mss) as usize;
        match self.packets.get(guess) {
            Some(packet) if packet.seq == position => guess,
            _ => self.packets.partition_point(|packet| packet.seq < position),
        }
    }

    /// Datagrams: drops delivered packets from the front, and lost ones sent before `horizon`. Returns the position
    /// below which everything is delivered or lost, or `None` when nothing is in flight.
    pub(crate) fn settle(&mut self, horizon: Time) -> Option<u64> {
        self.waiting.clear();
        self.cursor = self.cursor.max(self.first);
        while let Some(packet) = self.get(self.cursor) {
            match packet.state {
                State::InFlight => break,
                State::Lost => {}
                State::Delivered => self.held -= 1,
            }
            self.cursor += 1;
        }
        while let Some(packet) = self.packets.front() {
            if packet.state == State::InFlight || (packet.state == State::Lost && packet.sent_at >= horizon) {
                self.sacked.remove_below(packet.seq);
                break;
            }
            self.packets.pop_front();
            self.first += 1;
        }
        self.get(self.cursor).map(|packet| packet.seq)
    }

    /// The flow stopped, limited by the window or by the lack of data; this holds for the packets sent since the last stop. Where it is the
    /// window, it limits all that is on its way, though data was wanting in between (Linux `tcp_cwnd_validate`: a limit that
    /// was reached counts for the round).
    pub(crate) fn end_burst(&mut self, window_limited: bool) {
        let from = if window_limited { self.burst_from.min(self.unlimited_from) } else { self.burst_from };
        self.unlimited_from = match window_limited {
            true => u64::MAX,
            false => self.unlimited_from.min(self.burst_from),
        };
        let mut index = from.saturating_sub(self.first) as usize;
        while let Some(packet) = self.packets.get_mut(index) {
            packet.window_limited = window_limited;
            index += 1;
        }
        self.burst_from = self.next_number();
    }

    /// How far behind the oldest packet the one that holds `position` lies.
    pub(crate) fn offset_of(&self, position: u64) -> usize {
        let guess = self.index_of(position);
        match self.packets.get(guess) {
            Some(packet) if packet.seq == position => guess,
            _ => guess.saturating_sub(1),
        }
    }

    /// The packet that ends at `position` left later than it was pushed; says by how much.
    pub(crate) fn left(&mut self, position: u64, at: Time) -> Option<Nanos> {
        let index = self.packets.partition_point(|packet| packet.end() < position);
        let packet = self.packets.get_mut(index).filter(|packet| packet.end() == position)?;
        let waited = at - packet.sent_at;
        packet.sent_at = packet.sent_at.max(at);
        Some(waited)
    }

    /// The transmission `serial` was delivered `rtt` after it left.
    pub(crate) fn advance(&mut self, serial: u64, rtt: Nanos) {
        if serial > self.newest.serial {
            self.newest = Newest { serial, rtt };
        }
    }

    /// RACK (RFC 8985 section 6.2): takes packets for lost that left before the newest delivered one and are overdue
    /// by `reordering`, appends them to `lost`, and returns when the next one is due. What differs: the timer is for
    /// the first packet due, not for the last, so each loss is found on time.
    pub(crate) fn detect(&mut self, now: Time, reordering: Nanos, lost: &mut Vec<Lost>) -> Time {
        self.lost_repair = false;
        if self.is_orderly() {
            if self.packets.front().is_none_or(|packet| packet.serial > self.newest.serial) {
                return Time::NEVER;
            }
            self.disorder();
        }
        while let Some(&(number, serial)) = self.order.front() {
            if serial > self.newest.serial {
                break;
            }
            let index = number.checked_sub(self.first);
            if let Some(packet) = index.and_then(|index| self.packets.get_mut(index as usize))
                && packet.serial == serial
                && packet.state == State::InFlight
            {
                let due = packet.sent_at + self.newest.rtt + reordering;
                if due > now {
                    return due;
                }
                packet.state = State::Lost;
                self.in_flight -= u64::from(packet.bytes);
                self.lost_repair |= packet.retransmitted;
                lost.push(packet.lost());
                self.waiting.push_back(number);
            }
            self.order.pop_front();
        }
        Time::NEVER
    }

    /// After a timeout: takes the first packet for lost, and those that left a round trip ago or more (RFC 8985
    /// section 6.3), and appends them to `lost`.
    pub(crate) fn lose_overdue(&mut self, now: Time, lost: &mut Vec<Lost>) {
        self.waiting.clear();
        self.disorder();
        for (number, packet) in (self.first..).zip(&mut self.packets) {
            let overdue = number == self.first || packet.sent_at + self.newest.rtt <= now;
            if packet.state == State::InFlight && overdue {
                packet.state = State::Lost;
                self.in_flight -= u64::from(packet.bytes);
                lost.push(packet.lost());
            }
            if packet.state == State::Lost {
                self.waiting.push_back(number);
            }
        }
    }

    /// What is lost and arrives nevertheless has waited for the end of an outage, and gives no RTT.
    pub(crate) fn measure_no_lost(&mut self) {
        self.packets.iter_mut().filter(|packet| packet.state == State::Lost).for_each(|packet| packet.follows = true);
    }

    /// Lost packets that wait for their retransmission are in flight after all; says how many.
    pub(crate) fn restore(&mut self) -> u64 {
        self.waiting.clear();
        self.disorder();
        self.order.clear();
        let mut count = 0;
        for (number, packet) in (self.first..).zip(&mut self.packets) {
            if packet.state == State::Lost {
                packet.state = State::InFlight;
                self.in_flight += u64::from(packet.bytes);
                count += 1;
            }
            if packet.state == State::InFlight {
                self.order.push_back((number, packet.serial));
            }
        }
        self.order.make_contiguous().sort_unstable_by_key(|&(_, serial)| serial);
        count
    }

    /// Number of the last packet that is not delivered.
    pub(crate) fn last_undelivered(&self) -> Option<u64> {
        let index = self.packets.iter().rposition(|packet| packet.state != State::Delivered)?;
        Some(self.first + index as u64)
    }
}
