//! Packets in the order of their times, whatever their order in the file.
//!
//! Interfaces and processors write what they saw a little after one another: packets are kept until many others have come. Where times go
//! back by more than that, a clock was set, or a capture stands behind a later one: time goes on from there.

use std::collections::BTreeMap;

use super::packet::CapturedPacket;

/// Packets that are kept (our choice: 3 MB, and a tenth of a second of a gigabit in small packets).
const KEPT: usize = 1 << 14;
/// Times that go back by more are another clock's, ns (our choice: what interfaces are written after one another is less).
const STEP: i64 = 10_000_000_000;
/// A shorter pause is not worth a note, ns (our choice).
const PAUSE: i64 = 60_000_000_000;

/// Puts packets in order.
#[derive(Default)]
pub(super) struct Order {
    kept: BTreeMap<(i64, u64), CapturedPacket>,
    /// The latest time so far.
    newest: Option<i64>,
    /// What is added to times.
    shift: i64,
    /// The time of the last packet that was handed on.
    last: Option<i64>,
    first: Option<i64>,
    /// Packets that stand behind a later one.
    behind: u64,
    /// Those that came too late to be put in their place.
    late: u64,
    /// The first step back: its packet and its nanoseconds.
    step: Option<(u64, i64)>,
    /// The longest pause: the packet after it and its nanoseconds.
    pause: (u64, i64),
}

impl Order {
    /// Takes the next packet of the file, and hands on those whose time has come.
    pub(super) fn push<E>(
        &mut self,
        mut packet: CapturedPacket,
        take: &mut impl FnMut(&CapturedPacket) -> Result<(), E>,
    ) -> Result<(), E> {
        packet.at = packet.at.saturating_add(self.shift);
        let newest = self.newest.unwrap_or(packet.at);
        let back = newest.saturating_sub(packet.at);
        if back > STEP {
            self.step.get_or_insert((packet.number, back));
            self.finish(take)?;
            self.shift = self.shift.saturating_add(back);
            packet.at = newest;
        } else if back > 0 {
            self.behind += 1;
        }
        self.newest = Some(newest.max(packet.at));
        self.kept.insert((packet.at, packet.number), packet);
        if self.kept.len() > KEPT { self.hand_on(take) } else { Ok(()) }
    }

    /// Hands on those that are left.
    pub(super) fn finish<E>(&mut self, take: &mut impl FnMut(&CapturedPacket) -> Result<(), E>) -> Result<(), E> {
        while !self.kept.is_empty() {
            self.hand_on(take)?;
        }
        Ok(())
    }

    fn hand_on<E>(&mut self, take: &mut impl FnMut(&CapturedPacket) -> Result<(), E>) -> Result<(), E> {
        let Some((_, packet)) = self.kept.pop_first() else { return Ok(()) };
        self.first.get_or_insert(packet.at);
        let passed = packet.at.saturating_sub(self.last.unwrap_or(packet.at));
        if passed < 0 {
            self.late += 1;
        } else if passed > self.pause.1 {
            self.pause = (packet.number, passed);
        }
        self.last = self.last.max(Some(packet.at));
        take(&packet)
    }

    /// What is to be said of the times: a sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let seconds = |nanos: i64| nanos as f64 / 1e9;
        let mut notes = Vec::new();
        if self.behind > 0 {
            notes.push(format!(
                "Its packets are not in the order of time ({} stand behind a later one): sorted.",
                self.behind
            ));
        }
        if self.late > 0 {
            notes.push(format!("{} packets stand too far behind later ones to be sorted; see reordercap.", self.late));
        }
        if let Some((number, back)) = self.step {
            notes.push(format!(
                "Times go back by {:.3} s at packet {number}: a clock that was set, or a capture behind a later one. Time goes on from there.",
                seconds(back)
            ));
        }
        let all = self.last.unwrap_or(0).saturating_sub(self.first.unwrap_or(0));
        let (number, pause) = self.pause;
        if pause > PAUSE && pause > all / 2 {
            let (pause, all) = (seconds(pause), seconds(all));
            notes.push(format!(
                "Nothing comes for {pause:.0} of its {all:.0} s before packet {number}: a pause, or a clock that was set. Figures are over all of it."
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::CapturePlace;
    use super::*;

    fn packet(number: u64, at: i64) -> CapturedPacket {
        let end = "10.0.0.1:1".parse().unwrap();
        CapturedPacket {
            number,
            at,
            place: CapturePlace::Anywhere,
            interface: 0,
            from: end,
            to: end,
            protocol: 17,
            bytes: 100,
            segment: None,
            sacks: Default::default(),
            print: number,
            numbered: true,
        }
    }

    fn ordered(times: impl IntoIterator<Item = i64>) -> (Vec<i64>, Vec<String>) {
        let (mut order, mut seen) = (Order::default(), Vec::new());
        let mut take = |packet: &CapturedPacket| {
            seen.push(packet.at);
            Ok::<(), ()>(())
        };
        for (number, at) in times.into_iter().enumerate() {
            order.push(packet(number as u64 + 1, at), &mut take).unwrap();
        }
        order.finish(&mut take).unwrap();
        (seen, order.notes())
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn any_order_is_the_order_of_time() {
        let (seen, notes) = ordered([120, 0, 1, 3, 2]);
        assert_eq!((seen, notes.len()), (vec![0, 1, 2, 3, 120], 1));
        assert!(ordered((0..40_000).map(|at| at * 7)).1.is_empty());
        // Two interfaces, each a block of packets behind the other.
        let blocks = (0..40_000).map(|number: i64| (number / 2000 * 1000 + number % 1000) * 10 + number / 1000 % 2);
        let (seen, notes) = ordered(blocks);
        assert!(seen.is_sorted() && seen.len() == 40_000 && notes.len() == 1, "{notes:?}");
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        let (seen, notes) = ordered([3600 * SECOND, 0, SECOND, 2 * SECOND]);
        assert_eq!(seen, [3600, 3600, 3601, 3602].map(|at| at * SECOND));
        assert!(notes[0].starts_with("Times go back by 3600.000 s at packet 2: a clock"), "{notes:?}");
        let (_, notes) = ordered([0, SECOND, 3600 * SECOND]);
        assert!(notes[0].starts_with("Nothing comes for 3599 of its 3600 s before packet 3: a pause"), "{notes:?}");
        let (seen, _) = ordered([i64::MIN, i64::MAX, i64::MIN, 0]);
        assert!(seen.is_sorted());
    }
}
