//! What a sender learns from an acknowledgement.
//!
//! Sources as in [`crate::sender`]; the order of steps is that of Linux `tcp_ack`: deliveries, undo, end of a phase,
//! losses, reduction.

use paceline_cc::{Ecn, Phase, Time};

use crate::driver::{AckProgress, ArrivalClock, Marks};
use crate::packet::State;
use crate::prr::{Prr, glides};
use crate::recovery::Undo;
use crate::segment::{AckSegment, MAX_SACKS, Range};
use crate::sender::{Delivery, Digest, FlowSender};

/// What an acknowledgement shows of packets that were taken for lost too early.
struct Late {
    /// It is of an original that lies below the recovery point.
    original: bool,
    /// Datagrams of the episode that have arrived after all.
    datagrams: u64,
    /// A repair of the episode was needless.
    repair: bool,
}

impl FlowSender {
    /// Digests an acknowledgement.
    #[inline]
    pub(crate) fn take_ack(&mut self, now: Time, ack: &AckSegment) -> Digest {
        if self.is_plain(ack) { self.take_plain(now, ack) } else { self.take_any(now, ack) }
    }

    /// Digests an acknowledgement of any kind.
    fn take_any(&mut self, now: Time, ack: &AckSegment) -> Digest {
        if ack.syn || !self.is_connected() {
            self.take_answer(now, ack);
            return Digest::default();
        }
        let prior_in_flight = self.board.in_flight;
        let prior_una = self.una;

        // Marks: accurate counters, or all that this acknowledgement delivers.
        let ecn = self.driver.nature.ecn;
        let exact = matches!(ecn, Ecn::Exact | Ecn::L4s);
        let mut ce_bytes = ack.ce_bytes.saturating_sub(self.ce_bytes);
        let mut ce_packets = ack.ce_packets.saturating_sub(self.ce_packets);
        self.ce_bytes += ce_bytes;
        self.ce_packets += ce_packets;
        self.stats.ce_packets = self.ce_packets;

        // Deliveries.
        self.board.fresh.clear();
        if self.delivery == Delivery::Reliable {
            self.una = self.una.max(ack.cumulative.min(self.next));
            self.board.deliver_below(self.una);
        }
        let cumulative_packets = self.board.fresh.len();
        self.take_sacks(ack);
        self.settle(now);
        let advanced = self.una > prior_una;
        let mut fresh = std::mem::take(&mut self.board.fresh);
        // The receiver's clock is that of its newest packet, which only a lone delivery names for sure.
        let alone = fresh.len() == 1 || (ack.sack_count == 0 && fresh.len() == cumulative_packets);
        let received = match &ack.arrivals {
            Some(list) => ArrivalClock::Each(list),
            None if alone => ArrivalClock::Newest(ack.received_at),
            None => ArrivalClock::Unknown,
        };
        let delivery = self.driver.delivered(now, &mut fresh, exact && ack.ece, &received);
        let mut original = false;
        let (mut late, mut late_now) = (0, 0);
        let mut overtaken = false;
        let undo_from = self.undo.map_or(u64::MAX, |undo| undo.from);
        for packet in &fresh {
            let lost = packet.state == State::Lost;
            overtaken |= self.reordering.on_delivered(packet.end(), packet.retransmitted) && lost;
            original |= !packet.retransmitted && packet.end() <= self.recovery_point;
            late += u64::from(lost);
            late_now += u64::from(lost && packet.seq >= undo_from);
        }
        self.board.fresh = fresh;
        if let Some(newest) = delivery.newest {
            // RFC 8985 section 6.2 step 2: the answer to a retransmission may be of the original. The time stamp shows
            // only at the left edge: elsewhere it is an older one that is echoed (RFC 7323 section 4.3).
            let rtt = now - newest.sent_at;
            let original = advanced && newest.end() <= self.una && ack.echo_sent_at < newest.sent_at;
            if !(newest.retransmitted && (original || rtt < self.driver.rtt.min)) {
                self.board.advance(newest.serial, rtt);
            }
        }
        let mut stamped = advanced || (self.delivery == Delivery::Unreliable && delivery.rtt.is_some());
        if let Some((serial, sent_at)) = self.empty.filter(|&(_, sent_at)| sent_at == ack.echo_sent_at) {
            self.empty = None;
            self.board.advance(serial, now - sent_at);
            stamped = true;
        }
        // RFC 7323 section 4.1: where the left edge moves, the time stamp is what cannot be mistaken, however many
        // acknowledgements were lost before this one. An acknowledgement without news (the receiver half's clock)
        // echoes an old one.
        if let Some(sample) = stamped.then(|| now - ack.echo_sent_at).or(delivery.rtt) {
            self.driver.sample(sample, self.una, self.next);
        }
        if self.delivery == Delivery::Unreliable {
            self.stats.spurious += late;
            if overtaken {
                self.reordering.on_early_loss(self.una, self.next);
            }
        }

        // Undo.
        let needless = self.take_duplicate(ack);
        let late = Late { original, datagrams: late_now, repair: needless };
        let undone = self.find_mistake(now, ack, advanced, &late);

        // End of a phase.
        // CWR holds until something sent after its start has been delivered (Linux `tcp_fastretrans_alert`), or until a
        // start-up that answers no marks is in charge again.
        let over = match self.phase {
            Phase::Open => false,
            Phase::Cwr => self.una > self.recovery_point || self.driver.controller.permit().holds_against_marks,
            Phase::Recovery | Phase::Loss => self.una >= self.recovery_point,
        };
        if over {
            if self.phase != Phase::Cwr {
                self.reordering.on_recovered();
            }
            let ended = std::mem::replace(&mut self.phase, Phase::Open);
            self.prr = None;
            if self.delivery == Delivery::Reliable && ended != Phase::Cwr && glides(self.driver.controller()) {
                self.recover_again(now, prior_in_flight);
            }
        }
        if advanced || (self.delivery == Delivery::Unreliable && delivery.bytes > 0) {
            self.backoff = 0;
        }

        // Losses.
        let mut lost_bytes = self.end_probe(now, advanced, delivery.bytes, prior_in_flight);
        let mut lost = u32::from(lost_bytes > 0);
        lost_bytes += self.find_losses(now, prior_in_flight);
        lost += self.lost.len() as u32;
        self.settle(now);

        // Congestion echo.
        let marked = ecn != Ecn::Off && (ack.ece || ce_bytes > 0);
        if marked && (!exact || ce_bytes == 0) {
            (ce_bytes, ce_packets) = (delivery.bytes, delivery.packets as u64);
        }
        let echo = marked && self.phase == Phase::Open;
        let reduces = echo && !self.driver.controller.permit().holds_against_marks;
        if reduces {
            self.phase = Phase::Cwr;
            self.recovery_point = self.next;
            self.cwr_due = ecn == Ecn::Classic;
        }

        if delivery.bytes > 0 || marked {
            let progress = AckProgress {
                prior_in_flight,
                in_flight: self.board.in_flight,
                lost_bytes,
                una: self.una,
                next: self.next,
                phase: self.phase_reported(),
                marks: Marks { bytes: ce_bytes, packets: u32::try_from(ce_packets).unwrap_or(u32::MAX), echo },
            };
            self.driver.acknowledge(now, &delivery, &progress);
        }
        if reduces {
            self.start_reduction();
        }
        self.reduce(delivery.bytes, advanced && lost_bytes == 0);
        if advanced || (self.delivery == Delivery::Unreliable && delivery.bytes > 0) || self.board.is_empty() {
            self.arm_rto(now);
        }
        if delivery.bytes > 0 {
            self.arm_probe(now);
        }
        self.driver.refresh();
        Digest { rtt: delivery.rtt, lost, undone }
    }

    /// Nothing but the next packets arrived, and nothing is to be repaired, reduced or undone.
    #[inline(always)]
    fn is_plain(&self, ack: &AckSegment) -> bool {
        self.is_connected()
            && !ack.syn
            && self.delivery == Delivery::Reliable
            && self.phase == Phase::Open
            && self.board.is_orderly()
            && self.probe.is_none()
            && self.empty.is_none()
            && ack.cumulative > self.una
            && ack.cumulative <= self.next
            && ack.sack_count == 0
            && ack.duplicate.is_none()
            && ack.arrivals.is_none()
            && !ack.ece
            && ack.ce_bytes <= self.ce_bytes
            && ack.ce_packets <= self.ce_packets
    }

    /// The steps of [`FlowSender::take_any`] that are left for a [plain](FlowSender::is_plain) acknowledgement.
    #[inline(always)]
    fn take_plain(&mut self, now: Time, ack: &AckSegment) -> Digest {
        let prior_in_flight = self.board.in_flight;
        self.una = ack.cumulative;
        self.backoff = 0;
        self.reordering_at = Time::NEVER;
        let Self { board, driver, .. } = self;
        let mut delivery = driver.begin_delivery();
        board.deliver_in_order(ack.cumulative, |packet| driver.take_in(now, packet, false, None, &mut delivery));
        driver.end_delivery(now, &ArrivalClock::Newest(ack.received_at), &mut delivery);
        driver.sample(now - ack.echo_sent_at, self.una, self.next);
        if let Some(newest) = &delivery.newest {
            self.reordering.on_delivered(newest.end(), false);
            self.board.advance(newest.serial, now - newest.sent_at);
            let progress =
                AckProgress { prior_in_flight, ..AckProgress::at(self.una, self.next, self.board.in_flight) };
            self.driver.acknowledge(now, &delivery, &progress);
        }
        self.arm_rto(now);
        if delivery.packets > 0 {
            self.arm_probe(now);
        }
        self.driver.refresh();
        Digest { rtt: delivery.rtt, ..Digest::default() }
    }

    /// Marks what the SACK blocks cover, from below, so that the order within one acknowledgement is not taken for
    /// reordering.
    fn take_sacks(&mut self, ack: &AckSegment) {
        let count = usize::from(ack.sack_count).min(MAX_SACKS);
        if count == 0 {
            return;
        }
        let mut sacks = ack.sacks;
        sacks[..count].sort_unstable_by_key(|range| range.start);
        for range in &sacks[..count] {
            self.board.deliver_range(Range { start: range.start, end: range.end.min(self.next) });
        }
    }

    /// Datagrams repair nothing: a controller that shapes recovery itself is informed of none. (BBR would conserve packets
    /// for a round after each loss without the round in which a stream's repairs are acknowledged and it grows again.)
    fn phase_reported(&self) -> Phase {
        match (self.delivery, self.phase) {
            (Delivery::Unreliable, Phase::Recovery) if !glides(self.driver.controller()) => Phase::Open,
            (_, phase) => phase,
        }
    }

    /// A range arrived twice (RFC 2883); says whether a repair of the episode was needless. More duplicates than there were
    /// retransmissions are copies that the network made, and say nothing from then on (Linux `tcp_dsack_seen`); nor does that
    /// of a packet that was never sent again, as far as it is known still (`tcp_sacktag_one`).
    fn take_duplicate(&mut self, ack: &AckSegment) -> bool {
        let Some(range) = ack.duplicate else { return false };
        if self.delivery == Delivery::Unreliable {
            return false;
        }
        self.duplicates += 1;
        // The probe's original arrived too (RFC 8985 section 7.4.2).
        if self.probe.is_some_and(|probe| probe.repaired.is_some_and(|packet| packet.end() == range.end)) {
            self.probe = None;
            return false;
        }
        if self.duplicates > self.stats.retransmits || self.board.was_sent_once(range) {
            return false;
        }
        self.reordering.on_early_loss(self.una, self.next);
        let needless = self.undo.is_some_and(|undo| undo.covers(range) && undo.open > 0);
        self.stats.spurious += u64::from(needless);
        needless
    }

    /// Undoes the last reduction when it answered a spurious loss. An original that fills a hole says so for its
    /// own packet alone: while repairs of others are out, and may be needed, it is not believed (Linux
    /// `tcp_try_undo_partial`; which marks no more losses at that acknowledgement either, where we go on looking). Says whether it did.
    fn find_mistake(&mut self, now: Time, ack: &AckSegment, advanced: bool, late: &Late) -> bool {
        let Some(undo) = &mut self.undo else { return false };
        let mistaken = match self.delivery {
            Delivery::Reliable => {
                // Also when no repair has left yet.
                let echo = advanced
                    && matches!(self.phase, Phase::Recovery | Phase::Loss)
                    && ack.echo_sent_at < undo.first_repair_at
                    && (self.phase == Phase::Loss || self.una >= self.recovery_point || !self.board.has_repairs_out());
                let never_repaired = self.phase == Phase::Loss && undo.by_timeout && late.original;
                echo || never_repaired || (late.repair && undo.on_needless())
            }
            Delivery::Unreliable => (0..late.datagrams).any(|_| undo.on_needless()),
        };
        if !mistaken || undo.done {
            return false;
        }
        undo.done = true;
        if self.delivery == Delivery::Reliable && matches!(self.phase, Phase::Recovery | Phase::Loss) {
            self.stats.spurious += self.board.restore();
        }
        self.phase = Phase::Open;
        self.prr = None;
        self.driver.spurious(now);
        true
    }

    /// RFC 8985 section 7.4: an acknowledgement beyond the probe without a duplicate says that the probe repaired a
    /// loss, which asks for one reduction. Answers the bytes lost.
    fn end_probe(&mut self, now: Time, advanced: bool, delivered: u64, prior_in_flight: u64) -> u64 {
        let Some(probe) = self.probe else { return 0 };
        if self.delivery == Delivery::Unreliable {
            self.probe = None;
            return 0;
        }
        if self.una < probe.end {
            return 0;
        }
        let Some(packet) = probe.repaired else {
            self.probe = None;
            return 0;
        };
        if self.una > probe.end {
            self.probe = None;
            self.lost.clear();
            self.lost.push(packet.lost());
            self.stats.packets_lost += 1;
            let new_episode = self.phase == Phase::Open;
            self.driver.lose(now, &mut self.lost, prior_in_flight, self.board.in_flight, new_episode);
            return u64::from(packet.bytes);
        }
        if !advanced && delivered == 0 {
            // A bare duplicate: both arrived.
            self.probe = None;
        }
        0
    }

    /// Looks for losses, enters recovery on the first, and arms the timer for packets not yet overdue. Answers the
    /// bytes lost.
    pub(crate) fn find_losses(&mut self, now: Time, prior_in_flight: u64) -> u64 {
        let repairing = matches!(self.phase, Phase::Recovery | Phase::Loss);
        let eager = repairing || self.board.held() >= self.driver.config.dup_threshold;
        let window = self.reordering.window(&self.driver.rtt, eager);
        self.lost.clear();
        self.reordering_at = self.board.detect(now, window, &mut self.lost);
        if self.lost.is_empty() {
            return 0;
        }
        let bytes = self.lost.iter().map(|lost| u64::from(lost.bytes)).sum();
        self.stats.packets_lost += self.lost.len() as u64;
        // A lost repair after a timeout is news of congestion (Linux `tcp_fastretrans_alert`, FLAG_LOST_RETRANS).
        let again = self.phase == Phase::Loss && self.board.lost_repair;
        // In CWR a classic controller has reduced already (Linux `tcp_enter_recovery`); the exact ones answer marks and
        // losses apart (RFC 8257 section 3.5).
        let reduces =
            again || self.phase == Phase::Open || (self.phase == Phase::Cwr && self.driver.nature.ecn != Ecn::Classic);
        if !repairing || again {
            self.enter_recovery(reduces.then(|| Undo::new(self.una, self.next)));
        }
        if self.delivery == Delivery::Unreliable
            && let Some(undo) = &mut self.undo
        {
            undo.open += self.lost.len() as u64;
        }
        self.driver.lose(now, &mut self.lost, prior_in_flight, self.board.in_flight, reduces);
        if reduces {
            self.start_reduction();
        }
        bytes
    }

    fn enter_recovery(&mut self, undo: Option<Undo>) {
        self.stats.recoveries += 1;
        self.phase = Phase::Recovery;
        self.recovery_point = self.next;
        self.undo = undo;
        self.probe_at = Time::NEVER;
    }

    /// A recovery is over. What left after it had begun and was found lost meanwhile has asked for no reduction yet: that is another
    /// congestion (RFC 5681 section 4.3, RFC 6675 section 5; Linux `tcp_time_to_recover`). Of a controller that shapes recovery itself
    /// it is the same one.
    fn recover_again(&mut self, now: Time, prior_in_flight: u64) {
        let Some(oldest) = self.board.oldest_loss() else { return };
        let (open, first_repair_at) = self.board.repairs_out();
        self.enter_recovery(Some(Undo { open, first_repair_at, ..Undo::new(self.una, self.next) }));
        self.driver.reduce_again(now, oldest, prior_in_flight, self.board.in_flight);
        self.start_reduction();
    }

    fn start_reduction(&mut self) {
        let (target, flight) = (self.driver.window(), self.next - self.una);
        self.prr = glides(self.driver.controller()).then(|| Prr::start(flight, target));
    }

    /// Moves the window along while it glides.
    pub(crate) fn reduce(&mut self, delivered: u64, good: bool) {
        if let (Some(prr), Phase::Recovery | Phase::Cwr) = (&mut self.prr, self.phase) {
            prr.on_ack(delivered, self.board.in_flight, good, self.driver.config.mss);
        }
    }

    /// Lost datagrams are kept for a while, so that late ones are known as such: for two timeouts of the present length (our
    /// choice: as long as timeouts that double have gone on, so that what the first of them took for lost is known still).
    pub(crate) fn settle(&mut self, now: Time) {
        if self.delivery == Delivery::Unreliable {
            let keep = self.rto().mul_div(2, 1);
            self.una = self.board.settle(now - keep).unwrap_or(self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use paceline_cc::{Env, Nanos, Spec};

    use super::*;
    use crate::config::SenderConfig;
    use crate::endpoint::{Sender, Steering};
    use crate::receiver::AckPolicy;
    use crate::stream;

    fn cubic() -> FlowSender {
        let controller = "cubic".parse::<Spec>().unwrap().build(&Env::default());
        let mut sender = FlowSender::new(&SenderConfig::default(), controller, Delivery::Reliable, 0);
        sender.write(u64::MAX);
        sender
    }

    #[test]
    fn the_short_way_of_plain_acknowledgements_leads_to_the_same_state() {
        let (mut short, mut long) = (cubic(), cubic());
        let mut receiver = stream::receiver(&AckPolicy::default(), None);
        let mut wire = VecDeque::new();
        let (mut sent, mut plain) = (0, 0);
        for millis in 0..10_000 {
            let now = Time::from_millis(millis);
            if short.next_timeout() <= now {
                short.on_timeout(now);
                long.on_timeout(now);
            }
            while let Some(segment) = short.poll_transmit(now) {
                assert_eq!(long.poll_transmit(now), Some(segment));
                sent += 1;
                if sent % 97 != 0 {
                    wire.push_back((now + Nanos::from_millis(20), segment));
                }
            }
            assert_eq!(long.poll_transmit(now), None);
            while let Some((_, segment)) = wire.pop_front_if(|(at, _)| *at <= now) {
                receiver.on_segment(now, &segment, false);
                while let Some(ack) = receiver.poll_ack(now) {
                    plain += u32::from(short.is_plain(&ack));
                    let (left, right) = (short.take_ack(now, &ack), long.take_any(now, &ack));
                    assert_eq!((left.rtt, left.lost), (right.rtt, right.lost));
                    assert_eq!(short.next_timeout(), long.next_timeout());
                    assert_eq!((short.in_flight(), short.window()), (long.in_flight(), long.window()));
                    assert_eq!((short.srtt(), short.stats()), (long.srtt(), long.stats()));
                }
            }
        }
        assert!(plain > 1000 && short.stats().packets_lost > 10, "{plain} plain, {:?}", short.stats());
    }
}
