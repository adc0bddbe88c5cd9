//! Packets that a host saw more than once: at each interface of a bridge, before and behind a router, on a mirrored port.

use std::collections::{HashMap, VecDeque};

use super::packet::CapturedPacket;

/// The same packet on another interface, ns (our choice: what waits longest in between is a shaper's queue).
const ELSEWHERE: i64 = 1_000_000_000;
/// The same packet with a number of its own where it was seen before, ns (our choice: a bridge takes microseconds).
const HERE: i64 = 10_000_000;
/// The same data without one, ns (our choice: what is sent again so soon was not missed).
const AT_ONCE: i64 = 1_000_000;
/// Most packets that are known again (our choice: 6 MB).
const MOST: usize = 1 << 16;

/// Knows packets again.
#[derive(Debug, Default)]
pub struct Copies {
    seen: HashMap<u64, (i64, u64)>,
    order: VecDeque<(i64, u64)>,
    count: u64,
}

impl Copies {
    /// Whether this is a packet that was there before; packets come in the order of time.
    ///
    /// What is sent again has another number (IPv4), or comes later; what was seen on another interface and comes again at the first is
    /// sent again.
    pub fn is_copy(&mut self, packet: &CapturedPacket) -> bool {
        while let Some(&(at, print)) = self.order.front()
            && (self.order.len() > MOST || packet.at.saturating_sub(at) > ELSEWHERE)
        {
            self.order.pop_front();
            if self.seen.get(&print).is_some_and(|(newest, _)| *newest == at) {
                self.seen.remove(&print);
            }
        }
        if let Some((at, interface)) = self.seen.get(&packet.print) {
            let apart = packet.at.saturating_sub(*at);
            let has_data = packet.segment.is_some_and(|segment| segment.bytes > 0);
            let within = match *interface == packet.interface {
                false => ELSEWHERE,
                true if packet.numbered => HERE,
                true if has_data => AT_ONCE,
                true => -1,
            };
            if apart <= within {
                self.count += 1;
                return true;
            }
        }
        self.seen.insert(packet.print, (packet.at, packet.interface));
        self.order.push_back((packet.at, packet.print));
        false
    }

    /// What is to be said of them.
    pub fn note(&self) -> Option<String> {
        (self.count > 0).then(|| {
            format!(
                "{} packets are in it more than once, as a bridge, a router or a mirrored port shows them: each is counted once.",
                self.count
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CapturePlace, SeenSegment};
    use super::*;

    fn packet(at_us: i64, interface: u64, print: u64) -> CapturedPacket {
        let end = "10.0.0.1:1".parse().unwrap();
        let segment = SeenSegment { seq: 0, ack: None, bytes: 100, syn: false, control: false, window: 1 };
        CapturedPacket {
            number: 1,
            at: at_us * 1000,
            place: CapturePlace::Anywhere,
            interface,
            from: end,
            to: end,
            protocol: 6,
            bytes: 140,
            segment: Some(segment),
            sacks: Default::default(),
            print,
            numbered: true,
        }
    }

    /// Which of these are copies.
    fn copies(packets: &[CapturedPacket]) -> Vec<bool> {
        let mut copies = Copies::default();
        packets.iter().map(|packet| copies.is_copy(packet)).collect()
    }

    #[test]
    fn a_packet_counts_where_it_was_seen_first() {
        let bridge = [(0, 1), (5, 2), (9, 3), (20_000, 2), (250_000, 1), (250_005, 2)];
        let bridge = bridge.map(|(at, interface)| packet(at, interface, 7));
        assert_eq!(copies(&bridge), [false, true, true, true, false, true]);
        let mirrored = [(0, 7), (3, 7), (4, 8), (9_000, 7), (12_000, 7)].map(|(at, print)| packet(at, 1, print));
        assert_eq!(copies(&mirrored), [false, true, false, true, false]);
        let unnumbered = mirrored.map(|packet| CapturedPacket { numbered: false, ..packet });
        assert_eq!(copies(&unnumbered), [false, true, false, false, false]);
        // Acknowledgements may say the same again.
        let bare = unnumbered.map(|packet| CapturedPacket { segment: None, ..packet });
        assert_eq!(copies(&bare), [false; 5]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut copies = Copies::default();
        for number in 0..200_000 {
            assert!(!copies.is_copy(&packet(number / 1000, 1, number as u64)));
        }
        assert!(copies.seen.len() <= MOST + 1 && copies.order.len() <= MOST + 1);
        assert!(!copies.is_copy(&packet(10_000_000, 1, 199_999)) && copies.seen.len() == 1);
        assert_eq!(copies.note(), None);
    }
}
