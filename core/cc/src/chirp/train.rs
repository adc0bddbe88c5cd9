//! One train of packets in flight, and what its return shows of the path.
//!
//! Source: Misund and Briscoe, "Paced Chirping" (2019), and the modules released with it; what is done about shared,
//! late and missing acknowledgements is ours.

use crate::controller::Acked;
use crate::units::{Nanos, Time};

use super::analysis::{Shrinking, available_gap};
use super::geometry::LONGEST;

/// Fewer exact samples than this give no estimate: a rise that lasts needs a few packets before it and in it.
pub(super) const FEWEST: usize = 4;

/// Why a train shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// Too few arrivals are known, or the train was spoilt.
    Unseen,
    /// The packets did not leave with shrinking gaps: the host cannot keep them.
    Ragged,
}

/// When a packet arrived, and by whose clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// By the receiver's clock.
    Receiver(Time),
    /// Its acknowledgement, which waited for nothing, by the sender's clock.
    Sender(Time),
    /// Some time before an acknowledgement that waited.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    index: usize,
    sent: i64,
    arrived: i64,
}

/// A train in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    pub(super) number: u64,
    packets: usize,
    acked: usize,
    /// The packets whose arrival is known, in order.
    samples: [Sample; LONGEST],
    count: usize,
    receiver_clock: bool,
    spoilt: bool,
}

impl Train {
    pub(super) fn new(number: u64, packets: usize) -> Self {
        let samples = [Sample { index: 0, sent: 0, arrived: 0 }; LONGEST];
        Self { number, packets, acked: 0, samples, count: 0, receiver_clock: false, spoilt: false }
    }

    /// It holds a packet that is not a full one, or that was sent again: it shows nothing.
    pub(super) fn spoil(&mut self) {
        self.spoilt = true;
    }

    /// One of its packets has been delivered. A packet that comes after a later one, or by another clock than those
    /// before, is left out.
    pub(super) fn on_acked(&mut self, index: usize, packet: &Acked, arrival: Arrival) {
        self.acked += 1;
        self.spoilt |= packet.retransmitted;
        let (at, receiver_clock) = match arrival {
            Arrival::Receiver(at) => (at, true),
            Arrival::Sender(at) => (at, false),
            Arrival::Unknown => return,
        };
        if self.count == 0 {
            self.receiver_clock = receiver_clock;
        }
        let late = self.samples[..self.count].last().is_some_and(|last| last.index >= index);
        if late || self.count == LONGEST || receiver_clock != self.receiver_clock {
            return;
        }
        let (sent, arrived) = (packet.sent_at.as_nanos() as i64, at.as_nanos() as i64);
        self.samples[self.count] = Sample { index, sent, arrived };
        self.count += 1;
    }

    pub(super) fn is_back(&self) -> bool {
        self.acked >= self.packets
    }

    fn samples(&self) -> &[Sample] {
        &self.samples[..self.count]
    }

    /// Mean gap at which the packets arrived; nothing when they came together.
    fn dispersion(&self) -> Option<Nanos> {
        let (first, last) = (self.samples().first()?, self.samples().last()?);
        let span = u64::try_from(last.arrived.saturating_sub(first.arrived)).ok()?;
        let gaps = (last.index - first.index) as u64;
        (span > 0 && gaps > 0).then(|| Nanos::from_nanos(span).mul_div(1, gaps))
    }

    /// What a burst without gaps shows: the bottleneck's own gap.
    pub(super) fn read_burst(&self) -> Result<Nanos, Unread> {
        if self.spoilt { Err(Unread::Unseen) } else { self.dispersion().ok_or(Unread::Unseen) }
    }

    /// What a chirp shows: the gap that the path can carry.
    pub(super) fn read_chirp(&self) -> Result<Nanos, Unread> {
        if self.spoilt || self.count < FEWEST {
            return Err(Unread::Unseen);
        }
        let mut gaps = [Nanos::ZERO; LONGEST];
        let mut delays = [0; LONGEST];
        let mut shrinking = Shrinking::default();
        for (gap, pair) in gaps.iter_mut().zip(self.samples().windows(2)) {
            let span = u64::try_from(pair[1].sent.saturating_sub(pair[0].sent)).unwrap_or(0);
            *gap = Nanos::from_nanos(span).mul_div(1, (pair[1].index - pair[0].index) as u64);
            shrinking.push(*gap);
        }
        if !shrinking.holds() {
            return Err(Unread::Ragged);
        }
        for (delay, sample) in delays.iter_mut().zip(self.samples()) {
            *delay = sample.arrived.saturating_sub(sample.sent);
        }
        let gaps = &gaps[..self.count - 1];
        let onset = available_gap(gaps, &delays[..self.count]).ok_or(Unread::Unseen)?;
        let (first, last) = (gaps[0], gaps[gaps.len() - 1]);
        Ok(if onset >= first {
            // The path is slower than any gap of the chirp: what arrived shows how slow.
            first.max(self.dispersion().unwrap_or(first))
        } else {
            // Between the last gap that did not queue and the first that did.
            let step = (first - last).mul_div(1, gaps.len() as u64 - 1);
            onset - step.mul_div(1, 2)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chirp::geometry::{Chirp, Divisor};

    const LINK: Nanos = Nanos::from_micros(120);

    /// How the acknowledgements of a chirp come back.
    #[derive(Clone, Copy)]
    struct Way {
        /// Packets for an acknowledgement; only the newest one's arrival is known.
        shared: usize,
        /// One packet comes after this many later ones.
        late: Option<usize>,
        repaired: bool,
        /// Leaves half a gap late.
        held_up: Option<usize>,
    }

    const CLEAN: Way = Way { shared: 1, late: None, repaired: false, held_up: None };

    /// A chirp of 16 packets about `gap` over an idle link, as it is read.
    fn read(gap: Nanos, way: Way) -> Result<Nanos, Unread> {
        let plan = Chirp::new(16, gap, 2.0, Divisor::Gaps);
        let mut train = Train::new(3, 16);
        let (mut now, mut free) = (Time::from_millis(1), Time::ZERO);
        let mut packets = Vec::new();
        for index in 0..16 {
            let late = if way.held_up == Some(index) { plan.gap(index - 1).mul_div(1, 2) } else { Nanos::ZERO };
            let sent_at = now + late;
            free = free.max(sent_at) + LINK;
            let packet = Acked {
                seq: index as u64 * 1448,
                bytes: 1448,
                sent_at,
                tag: 0,
                retransmitted: way.repaired && index == 4,
                app_limited: false,
                ce: false,
                received_at: None,
            };
            packets.push((index, packet, free + Nanos::from_millis(15)));
            now += plan.gap(index);
        }
        if let Some(late) = way.late {
            let moved = packets.remove(late);
            packets.insert(late + 2, moved);
        }
        for (index, packet, arrived) in &packets {
            let known = index % way.shared == way.shared - 1;
            train.on_acked(*index, packet, if known { Arrival::Sender(*arrived) } else { Arrival::Unknown });
        }
        assert!(train.is_back());
        train.read_chirp()
    }

    fn near(reading: Result<Nanos, Unread>, share: f64) -> bool {
        reading.is_ok_and(|gap| (gap.as_nanos() as f64 / LINK.as_nanos() as f64 - 1.0).abs() <= share)
    }

    #[test]
    fn a_chirp_finds_the_link_within_half_a_step() {
        for gap in [80, 100, 120, 150, 180] {
            let gap = Nanos::from_micros(gap);
            // A step is 2/15 of the average gap.
            assert!(
                near(read(gap, CLEAN), gap.as_nanos() as f64 / 15.0 / 120e3 + 0.001),
                "{gap:?}: {:?}",
                read(gap, CLEAN)
            );
        }
    }

    #[test]
    fn a_link_slower_than_the_chirp_is_read_by_how_far_apart_packets_arrive() {
        assert!(near(read(Nanos::from_micros(30), CLEAN), 0.01), "{:?}", read(Nanos::from_micros(30), CLEAN));
    }

    #[test]
    fn shared_acknowledgements_are_read_by_the_packets_whose_arrival_is_known() {
        assert!(near(read(Nanos::from_micros(120), Way { shared: 2, ..CLEAN }), 0.2));
        // Four samples place the onset coarsely, on the side of caution.
        let coarse = read(Nanos::from_micros(120), Way { shared: 4, ..CLEAN }).unwrap();
        assert!(coarse >= LINK.mul_div(4, 5) && coarse <= LINK.mul_div(3, 2), "{coarse:?}");
        assert_eq!(read(Nanos::from_micros(120), Way { shared: 8, ..CLEAN }), Err(Unread::Unseen));
    }

    #[test]
    fn a_late_packet_is_left_out_and_a_repaired_one_spoils_all() {
        assert!(near(read(Nanos::from_micros(120), Way { late: Some(6), ..CLEAN }), 0.1));
        assert_eq!(read(Nanos::from_micros(120), Way { repaired: true, ..CLEAN }), Err(Unread::Unseen));
    }

    #[test]
    fn a_packet_that_left_late_spoils_it() {
        assert_eq!(read(Nanos::from_micros(120), Way { held_up: Some(6), ..CLEAN }), Err(Unread::Ragged));
    }

    #[test]
    fn clocks_are_not_mixed() {
        let mut train = Train::new(0, 3);
        let packet = |sent| Acked {
            seq: 0,
            bytes: 1448,
            sent_at: Time::from_millis(sent),
            tag: 0,
            retransmitted: false,
            app_limited: false,
            ce: false,
            received_at: None,
        };
        train.on_acked(0, &packet(0), Arrival::Receiver(Time::from_millis(1_000)));
        train.on_acked(1, &packet(0), Arrival::Sender(Time::from_millis(20)));
        train.on_acked(2, &packet(0), Arrival::Receiver(Time::from_millis(1_002)));
        assert_eq!(train.read_burst(), Ok(Nanos::from_millis(1)));
    }
}
