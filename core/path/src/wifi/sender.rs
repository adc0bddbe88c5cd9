//! One direction of a link: what waits, what is on the air, what the receiver holds, and what has come out.

use std::collections::VecDeque;

use paceline_cc::{Bytes, Nanos, Rate, Time};

use super::keys::{Wifi, WifiWindow, response};
use super::phy::SIFS;
use super::radio::Air;
use super::reorder::Reorder;
use super::walk::Rates;
use crate::fate::{DropReason, Ledger};
use crate::loss::Lossy;
use crate::packet::Packet;
use crate::queue::Queue;
use crate::row::{FilterVerdict, PathFilter};
use crate::snapshot::Meter;
use crate::stats::{Count, LinkStats};

/// A frame (MAC protocol data unit) with its packet, or packets.
pub(super) struct Mpdu<P> {
    /// Counts the frames of a direction; the sequence number is what the standard has of it.
    pub(super) number: u64,
    bytes: u64,
    /// How often it was sent.
    sent: u32,
    first: Packet<P>,
    more: Vec<Packet<P>>,
    /// How long the aggregate was on the air in which it arrived.
    air: Nanos,
}

impl<P> Mpdu<P> {
    pub(super) fn new(number: u64, bytes: u64, first: Packet<P>) -> Self {
        Self { number, bytes, sent: 0, first, more: Vec::new(), air: Nanos::ZERO }
    }

    fn packets(self) -> impl Iterator<Item = Packet<P>> {
        std::iter::once(self.first).chain(self.more)
    }
}

/// One direction of a link.
pub(super) struct Sender<P> {
    wifi: Wifi,
    rates: Rates,
    loss: Option<Lossy>,
    queue: Box<dyn Queue<P>>,
    pub(super) ledger: Ledger<P>,
    pub(super) meter: Option<Box<Meter>>,
    /// Spans (from, to) in which it does not send; sorted, disjoint.
    outages: Vec<(Time, Time)>,
    /// A packet that left the queue and did not fit into the last frame.
    spare: Option<Packet<P>>,
    /// Frames to send before what is in the queue: those to be sent again, and one that did not fit.
    again: VecDeque<Mpdu<P>>,
    /// On the air.
    flying: Vec<Mpdu<P>>,
    next_number: u64,
    reorder: Reorder<P>,
    /// What has come out, and when.
    pub(super) out: VecDeque<(Time, Packet<P>)>,
    /// What was dropped, when and why, where it is asked for.
    pub(super) dropped: Option<VecDeque<(Time, DropReason, Packet<P>)>>,
    pub(super) lost: Count,
    pub(super) air: Air,
}

/// What goes on the air.
#[derive(Clone, Copy)]
pub(super) struct Aggregate {
    /// For how long the data are.
    pub(super) air: Nanos,
    /// From there to the end of the answer.
    pub(super) rest: Nanos,
}

impl<P: Send> Sender<P> {
    pub(super) fn new(
        wifi: Wifi,
        rates: Rates,
        loss: Option<Lossy>,
        queue: Box<dyn Queue<P>>,
        outages: Vec<(Time, Time)>,
    ) -> Self {
        Self {
            wifi,
            rates,
            loss,
            queue,
            ledger: Ledger::default(),
            meter: None,
            outages,
            spare: None,
            again: VecDeque::new(),
            flying: Vec::new(),
            next_number: 0,
            reorder: Reorder::default(),
            out: VecDeque::new(),
            dropped: None,
            lost: Count::default(),
            air: Air::default(),
        }
    }

    /// From now on it keeps what it drops.
    pub(super) fn keep_dropped(&mut self) {
        self.ledger.keep_dropped();
        self.dropped.get_or_insert_default();
    }

    /// Whether something is to be sent.
    pub(super) fn has_frames(&self) -> bool {
        self.ledger.stats.queued.packets > 0 || self.spare.is_some() || !self.again.is_empty()
    }

    /// Whether a packet is inside.
    pub(super) fn is_busy(&self) -> bool {
        self.has_frames() || !self.flying.is_empty() || !self.reorder.is_empty()
    }

    /// When it may send, at `now` or later: not in an outage.
    pub(super) fn may_send(&self, now: Time) -> Time {
        let index = self.outages.partition_point(|(_, to)| *to <= now);
        self.outages.get(index).filter(|(from, _)| *from <= now).map_or(now, |(_, to)| *to)
    }

    pub(super) fn forget(&mut self, flow: u32) {
        self.ledger.stats.flows.remove(&flow);
    }

    /// The counters, with time integrals up to `now`.
    pub(super) fn stats(&mut self, now: Time) -> &LinkStats {
        self.ledger.stats.advance(now, !self.flying.is_empty());
        &self.ledger.stats
    }

    /// How much its queue holds.
    pub(super) fn limit(&self) -> crate::queue::QueueBound {
        self.queue.limit()
    }

    /// What full packets would get at `now` if nothing else were on the channel.
    pub(super) fn expected(&mut self, now: Time) -> Rate {
        let phy = self.rates.at(now);
        self.wifi.expected(phy)
    }

    /// A packet arrives.
    pub(super) fn arrive(&mut self, now: Time, mut packet: Packet<P>) {
        self.stats(now);
        self.ledger.stats.arrived.add(packet.size);
        if let Some(meter) = &mut self.meter {
            meter.arrived(now, &packet);
        }
        packet.entered = now;
        self.queue.push(now, packet, &mut self.ledger);
        self.note_dropped(now);
    }

    /// Takes over what the queue has dropped.
    fn note_dropped(&mut self, now: Time) {
        if let Some(dropped) = &mut self.dropped
            && self.ledger.has_dropped()
        {
            dropped.extend(self.ledger.take_dropped().map(|(reason, packet)| (now, reason, packet)));
        }
    }

    /// Puts an aggregate of what waits on the air; `None` when its queue dropped all that waited.
    pub(super) fn send(&mut self, now: Time) -> Option<Aggregate> {
        self.stats(now);
        let phy = self.rates.at(now);
        let most = self.wifi.most_bytes(phy);
        let mut bytes = 0;
        while (self.flying.len() as u32) < self.wifi.mpdus {
            let Some(frame) = self.again.pop_front().or_else(|| self.make_frame(now)) else { break };
            let size = Wifi::in_aggregate(frame.bytes);
            if !self.flying.is_empty() && (bytes + size > most || self.is_outside(&frame)) {
                self.again.push_front(frame);
                break;
            }
            bytes += size;
            self.flying.push(frame);
        }
        self.note_dropped(now);
        let frames = self.flying.len() as u64;
        let bytes = if frames == 1 { self.flying.first()?.bytes } else { bytes };
        if frames == 0 {
            return None;
        }
        self.air.aggregates += 1;
        self.air.frames += frames;
        Some(Aggregate { air: phy.air(bytes), rest: SIFS + response(frames) })
    }

    /// Whether the Block-Ack window, which begins with the oldest frame, does not reach this one.
    fn is_outside(&self, frame: &Mpdu<P>) -> bool {
        let oldest = self.flying.first().map_or(frame.number, |first| first.number);
        self.wifi.window == WifiWindow::Sequence && frame.number - oldest >= u64::from(self.wifi.mpdus)
    }

    /// A frame of the next packet, or packets.
    fn make_frame(&mut self, now: Time) -> Option<Mpdu<P>> {
        let first = self.take_packet(now)?;
        let number = self.next_number;
        self.next_number += 1;
        let size = u64::from(first.size);
        let mut frame = Mpdu::new(number, self.wifi.frame(size), first);
        let Some(Bytes(most)) = self.wifi.amsdu else { return Some(frame) };
        let mut packets = Wifi::and_one_more(0, size);
        while let Some(packet) = self.take_packet(now) {
            let together = Wifi::and_one_more(packets, packet.size.into());
            if together > most {
                self.spare = Some(packet);
                break;
            }
            packets = together;
            frame.bytes = self.wifi.empty_frame() + packets;
            frame.more.push(packet);
        }
        Some(frame)
    }

    fn take_packet(&mut self, now: Time) -> Option<Packet<P>> {
        self.spare.take().or_else(|| self.queue.pop(now, &mut self.ledger))
    }

    /// What was on the air for `air` ends at `now`: in a collision nothing of it arrives. Answers whether anything did.
    pub(super) fn end(&mut self, now: Time, air: Nanos, collided: bool) -> bool {
        self.stats(now);
        let (mut arrived, mut failed) = (false, std::mem::take(&mut self.flying));
        let mut lost = Vec::new();
        for mut frame in failed.drain(..) {
            frame.sent += 1;
            let is_lost = collided || self.loss.as_mut().is_some_and(|loss| loss.judge(now) == FilterVerdict::Lose);
            if !is_lost {
                arrived = true;
                frame.air = air;
                if let Some(late) = self.reorder.arrive(frame) {
                    self.lose(now, late);
                }
            } else if frame.sent > self.wifi.retries {
                self.reorder.give_up(frame.number);
                self.lose(now, frame);
            } else {
                self.air.again += 1;
                lost.push(frame);
            }
        }
        // Keeps its memory.
        self.flying = failed;
        for frame in lost.into_iter().rev() {
            self.again.push_front(frame);
        }
        self.release(now);
        arrived
    }

    fn lose(&mut self, now: Time, frame: Mpdu<P>) {
        for packet in frame.packets() {
            self.lost.add(packet.size);
            if let Some(dropped) = &mut self.dropped {
                dropped.push_back((now, DropReason::Lost, packet));
            }
        }
    }

    /// When the receiver stops waiting for a frame that is missing.
    pub(super) fn deadline(&self) -> Time {
        self.reorder.deadline()
    }

    /// The receiver stops waiting if it is time.
    pub(super) fn expire(&mut self, now: Time) {
        while self.reorder.deadline() <= now {
            self.reorder.skip();
            self.release(now);
        }
    }

    /// Passes on what is in order.
    fn release(&mut self, now: Time) {
        while let Some(frame) = self.reorder.release(now) {
            let air = frame.air;
            for mut packet in frame.packets() {
                packet.delay.transmission += air;
                let inside = now - packet.entered;
                packet.delay.queue += inside - air;
                self.ledger.stats.delivered.add(packet.size);
                self.out.push_back((now, packet));
            }
        }
    }
}
