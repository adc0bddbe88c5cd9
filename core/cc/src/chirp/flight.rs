//! Chirps in flight: when each packet left, how long it took, and whether the chirp can be believed.
//!
//! Source: Misund and Briscoe, "Paced Chirping" (2019), and the modules released with it.

use crate::controller::{Ack, Acked, Sent};
use crate::units::{Nanos, Time};

use super::analysis::{Shrinking, available_gap};
use super::geometry::{Chirp, LONGEST};

/// A chirp of which something is in flight or still to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flying {
    pub(super) number: u64,
    pub(super) packets: usize,
    pub(super) sent: [Time; LONGEST],
    /// Time of arrival less time of departure in ns.
    delays: [i64; LONGEST],
    pub(super) acked: usize,
    /// Packets whose time of arrival is that of a shared acknowledgement.
    coarse: usize,
    pub(super) spoilt: bool,
}

impl Flying {
    pub(super) fn new(number: u64, packets: usize) -> Self {
        let (sent, delays) = ([Time::ZERO; LONGEST], [0; LONGEST]);
        Self { number, packets, sent, delays, acked: 0, coarse: 0, spoilt: false }
    }

    pub(super) fn on_acked(&mut self, index: usize, packet: &Acked, delay: i64, coarse: bool) {
        self.spoilt |= index != self.acked || packet.retransmitted;
        self.delays[index] = delay;
        self.coarse += usize::from(coarse);
        self.acked += 1;
    }

    /// What the chirp shows, once all of it is acknowledged.
    pub(super) fn estimate(&self) -> Option<Nanos> {
        if self.spoilt || self.coarse > self.packets / 4 {
            return None;
        }
        let mut gaps = [Nanos::ZERO; LONGEST];
        let gaps = &mut gaps[..self.packets - 1];
        let mut shrinking = Shrinking::default();
        for (gap, pair) in gaps.iter_mut().zip(self.sent.windows(2)) {
            *gap = pair[1] - pair[0];
            shrinking.push(*gap);
        }
        if !shrinking.holds() {
            return None;
        }
        available_gap(gaps, &self.delays[..self.packets])
    }

    /// What a train without gaps shows, once all of it is acknowledged: the mean time between arrivals, where one above
    /// `longest` counts as none (the module of 2018).
    pub(super) fn arrival_gap(&self, longest: Nanos) -> Option<Nanos> {
        if self.spoilt || self.coarse > self.packets / 4 {
            return None;
        }
        let arrival = |index: usize| (self.sent[index].as_nanos() as i64).saturating_add(self.delays[index]);
        let gaps = (1..self.packets).map(|index| arrival(index).saturating_sub(arrival(index - 1)).max(0) as u64);
        let sum = gaps.map(Nanos::from_nanos).filter(|gap| *gap <= longest).fold(Nanos::ZERO, |sum, gap| sum + gap);
        (sum > Nanos::ZERO).then(|| sum.mul_div(1, self.packets as u64 - 1))
    }
}

/// The chirp that leaves at present, or left last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departing {
    mss: u32,
    chirp: Option<Chirp>,
    /// Packets of it that have left.
    sent: usize,
    /// Bytes that the application had written and that had not left, when a packet last did.
    unsent: u64,
}

impl Departing {
    /// Nothing has left yet.
    pub(super) fn new(mss: u32) -> Self {
        Self { mss, chirp: None, sent: 0, unsent: 0 }
    }

    /// Full packets have `mss` payload bytes from now on.
    pub(super) fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    /// The next packet is the first of `chirp`.
    pub(super) fn begin(&mut self, chirp: Chirp) {
        (self.chirp, self.sent) = (Some(chirp), 0);
    }

    /// A packet of the chirp leaves; answers its index there.
    pub(super) fn on_sent(&mut self, sent: &Sent) -> usize {
        self.unsent = sent.unsent;
        self.sent += 1;
        self.sent - 1
    }

    /// A packet of no chirp leaves.
    pub(super) fn on_loose(&mut self, sent: &Sent) {
        self.unsent = sent.unsent;
    }

    pub(super) fn chirp(&self) -> Option<Chirp> {
        self.chirp
    }

    /// The next packet belongs to the chirp.
    pub(super) fn in_chirp(&self) -> bool {
        self.chirp.is_some_and(|chirp| self.sent < chirp.packets())
    }

    /// The gap after the packet last sent, inside the chirp.
    pub(super) fn gap(&self) -> Option<Nanos> {
        self.chirp.filter(|_| self.in_chirp() && self.sent > 0).map(|chirp| chirp.gap(self.sent - 1))
    }

    /// The packet that leaves and what waits behind it make a chirp of `packets`.
    pub(super) fn suffices(&self, sent: &Sent, packets: usize) -> bool {
        sent.unsent.saturating_add(u64::from(sent.bytes)) >= packets as u64 * u64::from(self.mss)
    }

    /// What waited when a packet last left makes no chirp of `packets`.
    pub(super) fn too_little(&self, packets: usize) -> bool {
        self.unsent < packets as u64 * u64::from(self.mss)
    }
}

/// The packets of an acknowledgement with the delay of each in nanoseconds, and whether its time of arrival is one that
/// it shares. Without times of arrival all count as delayed as the newest, which did not wait for another.
pub(super) fn delays<'a>(ack: &Ack<'a>) -> impl Iterator<Item = (&'a Acked, i64, bool)> + use<'a> {
    let (packets, now) = (ack.packets, ack.now);
    let newest = packets.last().map_or(now, |packet| packet.sent_at);
    packets.iter().map(move |packet| match packet.received_at {
        Some(arrival) => (packet, between(packet.sent_at, arrival), false),
        None => (packet, between(newest, now), packets.len() > 1),
    })
}

/// Nanoseconds from one time to another, which may be of clocks that differ.
pub(super) fn between(from: Time, to: Time) -> i64 {
    (to.as_nanos() as i64).saturating_sub(from.as_nanos() as i64)
}

/// A packet's tag: its chirp and its place there, never zero.
pub(super) fn tag(number: u64, index: usize) -> u64 {
    number * LONGEST as u64 + index as u64 + 1
}

/// The chirp, and the place in it, of a packet that a start-up by chirps tagged so
/// ([`Stamp::tag`](crate::controller::Stamp::tag)); `None` of a packet outside chirps.
pub fn untag(tag: u64) -> Option<(u64, usize)> {
    let place = tag.checked_sub(1)?;
    Some((place / LONGEST as u64, (place % LONGEST as u64) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chirp::geometry::{Chirp, Divisor};

    const MSS: u32 = 1448;

    /// A chirp of 16 packets about 120 µs on an idle link of 120 µs a packet, as it returns.
    fn chirp() -> (Flying, Vec<Acked>, Vec<Time>) {
        let plan = Chirp::new(16, Nanos::from_micros(120), 2.0, Divisor::Packets);
        let mut flying = Flying::new(7, 16);
        let (mut now, mut free) = (Time::from_millis(1), Time::ZERO);
        let (mut packets, mut arrivals) = (Vec::new(), Vec::new());
        for index in 0..16 {
            flying.sent[index] = now;
            free = free.max(now) + Nanos::from_micros(120);
            arrivals.push(free + Nanos::from_millis(15));
            packets.push(Acked {
                seq: index as u64 * u64::from(MSS),
                bytes: MSS,
                sent_at: now,
                tag: tag(7, index),
                retransmitted: false,
                app_limited: false,
                ce: false,
                received_at: None,
            });
            now += plan.gap(index);
        }
        (flying, packets, arrivals)
    }

    #[test]
    fn a_clean_chirp_gives_the_gap_of_the_link() {
        let (mut flying, packets, arrivals) = chirp();
        for (index, packet) in packets.iter().enumerate() {
            flying.on_acked(index, packet, between(packet.sent_at, arrivals[index]), false);
        }
        assert_eq!(flying.estimate(), Some(Nanos::from_micros(120)));
    }

    #[test]
    fn a_swap_a_repair_shared_acknowledgements_or_a_late_packet_reject_the_chirp() {
        let estimate = |order: &[usize], repaired: usize, coarse: usize, late: Option<usize>| {
            let (mut flying, mut packets, arrivals) = chirp();
            packets[0].retransmitted = repaired > 0;
            if let Some(late) = late {
                // Half as long again as the gap before it.
                flying.sent[late] += (flying.sent[late] - flying.sent[late - 1]).mul_div(1, 2);
            }
            for (position, &index) in order.iter().enumerate() {
                let delay = between(packets[index].sent_at, arrivals[position]);
                flying.on_acked(index, &packets[index], delay, position < coarse);
            }
            flying.estimate()
        };
        let order: Vec<usize> = (0..16).collect();
        let mut swapped = order.clone();
        swapped.swap(4, 5);
        assert!(estimate(&order, 0, 4, None).is_some());
        assert_eq!(estimate(&swapped, 0, 0, None), None, "a swap");
        assert_eq!(estimate(&order, 1, 0, None), None, "a repair");
        assert_eq!(estimate(&order, 0, 5, None), None, "five of sixteen share");
        assert_eq!(estimate(&order, 0, 0, Some(6)), None, "a late departure");
    }

    #[test]
    fn tags_tell_chirp_and_place() {
        assert_eq!(untag(0), None);
        for (number, index) in [(0, 0), (0, 4), (3, 7), (9, 15)] {
            assert_eq!(untag(tag(number, index)), Some((number, index)));
        }
    }
}
