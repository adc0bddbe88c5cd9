//! What was asked for and has not come.
//!
//! Records lie in a ring in the order of their first requests; requests of units in a second ring in the order of their departures,
//! so that losses are found at its front. Each record and each request of a unit is looked at a bounded number of times.

use std::collections::VecDeque;

use paceline_cc::{Lost, Nanos, Time};
use paceline_transport::SentPacket;

use super::index::Index;
use crate::UNIT;

/// Where a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Asked for.
    Out,
    /// Taken for lost; to be asked for again.
    Lost,
    /// It came, or it is no longer wanted.
    Settled,
}

/// A unit that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// As the driver sees it. Its position counts the units asked for before it.
    pub(crate) packet: SentPacket,
    pub(crate) unit: u64,
    pub(crate) state: State,
    /// When it was asked for the first time.
    pub(crate) asked_at: Time,
    /// Which path it was asked for over, counted up as paths change.
    pub(crate) path: u32,
    /// The timer took it for lost: how long it waits says nothing of the path.
    pub(crate) overdue: bool,
}

/// The records of a flow, from the oldest unsettled one on.
#[derive(Debug)]
pub(crate) struct Board {
    records: VecDeque<Record>,
    /// Number of the record at the front.
    first: u64,
    index: Index,
    /// Number of the record and serial of each request of a unit.
    order: VecDeque<(u64, u64)>,
    /// Serial of the last request of a unit; the first is 1.
    serial: u64,
    /// The largest serials that were answered, at most `disorder` of them, in ascending order.
    answered: Vec<u64>,
    disorder: usize,
    /// RTT of the newest request of a unit that was answered.
    newest_rtt: Nanos,
    waiting: VecDeque<u64>,
    /// Records that are not settled.
    outstanding: u64,
    /// First record since the last time that the window or the application stopped the flow.
    burst_from: u64,
    /// Bytes asked for and not taken for lost.
    pub(crate) in_flight: u64,
    /// Among the losses found last was a unit that had been asked for again.
    pub(crate) lost_repair: bool,
}

/// Bytes that a unit counts in flight, before its size is known.
const BYTES: u64 = UNIT as u64;

impl Board {
    pub(crate) fn new(disorder: u32) -> Self {
        let disorder = disorder.clamp(1, 64) as usize;
        Self {
            records: VecDeque::new(),
            first: 0,
            index: Index::new(),
            order: VecDeque::new(),
            serial: 0,
            answered: Vec::with_capacity(disorder + 1),
            disorder,
            newest_rtt: Nanos::ZERO,
            waiting: VecDeque::new(),
            outstanding: 0,
            burst_from: 0,
            in_flight: 0,
            lost_repair: false,
        }
    }

    /// Nothing is waited for.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Records that are not settled.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Records from the oldest unsettled one on.
    pub(crate) fn span(&self) -> u64 {
        self.records.len() as u64
    }

    /// Number of the oldest record.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn front(&self) -> Option<&Record> {
        self.records.front()
    }

    /// Everything below this position is settled.
    pub(crate) fn una(&self) -> u64 {
        self.first * BYTES
    }

    /// Position of the next unit that was never asked for.
    pub(crate) fn next(&self) -> u64 {
        (self.first + self.span()) * BYTES
    }

    pub(crate) fn number_of(&self, unit: u64) -> Option<u64> {
        self.index.get(unit)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Record> {
        self.records.get(number.checked_sub(self.first)? as usize)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Record> {
        self.records.get_mut(number.checked_sub(self.first)? as usize)
    }

    fn depart(&mut self, number: u64) -> u64 {
        self.serial += 1;
        self.order.push_back((number, self.serial));
        self.in_flight += BYTES;
        self.serial
    }

    /// `unit` is asked for, for the first time.
    pub(crate) fn ask(&mut self, now: Time, unit: u64, path: u32) -> &mut SentPacket {
        if let Some(number) = self.index.get(unit) {
            self.settle(number);
        }
        let number = self.first + self.span();
        let mut packet = SentPacket::new(number * BYTES, UNIT as u32, now);
        packet.serial = self.depart(number);
        self.index.insert(unit, number);
        self.outstanding += 1;
        self.records.push_back(Record { packet, unit, state: State::Out, asked_at: now, path, overdue: false });
        let last = self.records.len() - 1;
        &mut self.records[last].packet
    }

    /// The unit of record `number`, which was lost, is asked for again.
    pub(crate) fn ask_again(&mut self, now: Time, number: u64, path: u32) -> Option<&mut SentPacket> {
        self.get(number).filter(|record| record.state == State::Lost)?;
        let serial = self.depart(number);
        let record = self.get_mut(number)?;
        record.state = State::Out;
        record.path = path;
        record.packet = repeated(&record.packet, serial, now);
        Some(&mut record.packet)
    }

    /// The newest unit that is out is asked for once more: answers it, and its packet as it was and as it is now.
    pub(crate) fn ask_newest_again(&mut self, now: Time, path: u32) -> Option<(u64, SentPacket, &mut SentPacket)> {
        let place = self.records.iter().rposition(|record| record.state == State::Out)?;
        let number = self.first + place as u64;
        self.serial += 1;
        let serial = self.serial;
        self.order.push_back((number, serial));
        let record = self.get_mut(number)?;
        let original = record.packet;
        record.path = path;
        record.packet = repeated(&original, serial, now);
        Some((record.unit, original, &mut record.packet))
    }

    /// The first lost record to be asked for again.
    pub(crate) fn next_waiting(&mut self) -> Option<(u64, u64)> {
        while let Some(&number) = self.waiting.front() {
            if let Some(record) = self.get(number).filter(|record| record.state == State::Lost) {
                return Some((number, record.unit));
            }
            self.waiting.pop_front();
        }
        None
    }

    /// That of [`Board::next_waiting`] has been asked for.
    pub(crate) fn pop_waiting(&mut self) {
        self.waiting.pop_front();
    }

    /// The unit of record `number` came, or is no longer wanted.
    pub(crate) fn settle(&mut self, number: u64) {
        let Some(record) = self.get_mut(number).filter(|record| record.state != State::Settled) else { return };
        let was = std::mem::replace(&mut record.state, State::Settled);
        let unit = record.unit;
        if was == State::Out {
            self.in_flight -= BYTES;
        }
        self.index.remove(unit);
        self.outstanding -= 1;
        while self.records.front().is_some_and(|record| record.state == State::Settled) {
            self.records.pop_front();
            self.first += 1;
        }
    }

    /// As [`Board::answered`]; no request with a lower serial will be any more.
    pub(crate) fn answered_last(&mut self, serial: u64, rtt: Nanos) {
        for _ in 0..self.disorder {
            self.answered(serial, rtt);
        }
    }

    /// The request of a unit with this serial was answered after `rtt`.
    pub(crate) fn answered(&mut self, serial: u64, rtt: Nanos) {
        let full = self.answered.len() == self.disorder;
        if full && self.answered[0] > serial {
            return;
        }
        if self.answered.last().is_none_or(|last| *last < serial) {
            self.newest_rtt = rtt;
        }
        if full {
            self.answered.remove(0);
        }
        let place = self.answered.partition_point(|other| *other < serial);
        self.answered.insert(place, serial);
    }

    /// Takes units for lost of which this many were answered that were asked for later, and which are late by `tolerance` where that is
    /// not zero; appends them to `lost`, and says when the next one is late.
    pub(crate) fn detect(&mut self, now: Time, tolerance: Nanos, lost: &mut Vec<Lost>) -> Time {
        self.lost_repair = false;
        if self.answered.len() < self.disorder {
            return Time::NEVER;
        }
        while let Some(&(number, serial)) = self.order.front().filter(|(_, serial)| *serial < self.answered[0]) {
            let rtt = self.newest_rtt;
            if let Some(record) = self.get_mut(number)
                && record.packet.serial == serial
                && record.state == State::Out
            {
                let due = record.packet.sent_at + rtt + tolerance;
                if tolerance > Nanos::ZERO && due > now {
                    return due;
                }
                let repair = record.packet.retransmitted;
                self.lost_repair |= repair;
                self.lose(number, lost);
            }
            self.order.pop_front();
        }
        Time::NEVER
    }

    /// Record `number`, where it is out, is lost: it is appended to `lost` and waits to be asked for again.
    pub(crate) fn lose(&mut self, number: u64, lost: &mut Vec<Lost>) {
        let Some(record) = self.get_mut(number).filter(|record| record.state == State::Out) else { return };
        record.state = State::Lost;
        lost.push(record.packet.lost());
        self.in_flight -= BYTES;
        self.waiting.push_back(number);
    }

    /// After the timer: the first record and those asked for `age` ago or more are lost. All that are lost wait in their order.
    pub(crate) fn lose_overdue(&mut self, now: Time, age: Nanos, lost: &mut Vec<Lost>) {
        self.waiting.clear();
        for number in self.first..self.first + self.span() {
            let Some(record) = self.get(number) else { continue };
            let overdue = number == self.first || record.packet.sent_at + age <= now;
            match record.state {
                State::Out if overdue => {
                    self.lose(number, lost);
                    if let Some(record) = self.get_mut(number) {
                        record.overdue = true;
                    }
                }
                State::Lost => self.waiting.push_back(number),
                State::Out | State::Settled => {}
            }
        }
    }

    /// The path is another: everything asked for is lost, without a word of congestion.
    pub(crate) fn lose_all(&mut self) {
        self.order.clear();
        self.answered.clear();
        self.waiting.clear();
        self.in_flight = 0;
        for (number, record) in (self.first..).zip(&mut self.records) {
            if record.state != State::Settled {
                record.state = State::Lost;
                self.waiting.push_back(number);
            }
        }
    }

    /// Lost units that wait are on their way after all; says how many.
    pub(crate) fn restore(&mut self) -> u64 {
        self.waiting.clear();
        self.order.clear();
        self.answered.clear();
        let mut count = 0;
        for (number, record) in (self.first..).zip(&mut self.records) {
            if record.state == State::Lost {
                record.state = State::Out;
                self.in_flight += BYTES;
                count += 1;
            }
            if record.state == State::Out {
                self.order.push_back((number, record.packet.serial));
            }
        }
        self.order.make_contiguous().sort_unstable_by_key(|(_, serial)| *serial);
        count
    }

    /// The flow stopped, limited by the window or by the lack of units; this holds for the units asked for since the last stop.
    pub(crate) fn end_burst(&mut self, window_limited: bool) {
        let from = (self.burst_from.saturating_sub(self.first) as usize).min(self.records.len());
        for record in self.records.range_mut(from..) {
            record.packet.window_limited = window_limited;
        }
        self.burst_from = self.first + self.span();
    }

    /// The records that are not settled.
    pub(crate) fn unsettled(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter().filter(|record| record.state != State::Settled)
    }

    /// The records, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Record)> {
        (self.first..).zip(&self.records)
    }
}

/// The packet of a unit that is asked for again.
fn repeated(before: &SentPacket, serial: u64, now: Time) -> SentPacket {
    let mut packet = SentPacket::new(before.seq, UNIT as u32, now);
    packet.serial = serial;
    packet.retransmitted = true;
    packet.window_limited = before.window_limited;
    packet
}
