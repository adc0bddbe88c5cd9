//! Who may send next: EDCA's backoff (IEEE 802.11-2016, 10.22.2), best effort.
//!
//! Each contender draws a number of slots when it has something to send, also where the medium was idle, and counts down
//! while the medium is idle, from AIFS on. Different from the standard: a contender that finds the medium idle draws too,
//! as hardware does after each exchange (post-backoff), and it counts on the slots of those that count already.

use paceline_cc::{Nanos, Time};

use super::phy::{AIFS, SLOT};
use crate::random::Stream;

/// Contention window of best effort at the start, slots (IEEE 802.11-2016, aCWmin of OFDM).
pub(super) const CW_MIN: u16 = 15;
/// Largest contention windows of best effort, slots: of a station (aCWmax), and of an access point for its own use (hostapd's
/// `tx_queue_data2`, as products have it).
pub(super) const CW_MAX: [u16; 2] = [1023, 63];

/// One that sends: a node, or a competitor.
pub(super) struct Contender {
    /// Smallest and largest contention window, slots.
    limits: [u16; 2],
    window: u16,
    /// Slots left; `None`: it has drawn none.
    slots: Option<u32>,
    /// From when on it sees the medium idle.
    from: Time,
    stream: Stream,
}

impl Contender {
    pub(super) fn new(limits: [u16; 2], stream: Stream) -> Self {
        Self { limits, window: limits[0], slots: None, from: Time::ZERO, stream }
    }

    /// When it sends, if the medium stays idle.
    fn access(&self) -> Time {
        self.slots.map_or(Time::NEVER, |slots| self.from + AIFS + SLOT.mul_div(u64::from(slots), 1))
    }

    /// Takes off the slots that it has counted by `at`.
    fn count_down(&mut self, at: Time) {
        if let Some(slots) = &mut self.slots {
            let counted = (at - (self.from + AIFS)).as_nanos() / SLOT.as_nanos();
            *slots -= counted.min(u64::from(*slots)) as u32;
        }
    }
}

/// All that contend for one medium.
#[derive(Default)]
pub(super) struct Contention {
    contenders: Vec<Contender>,
    /// Since when the medium is idle, or will be; slots are counted from there.
    idle: Time,
}

impl Contention {
    pub(super) fn add(&mut self, contender: Contender) -> usize {
        self.contenders.push(contender);
        self.contenders.len() - 1
    }

    /// This one has something to send at `now`, while the medium is idle, or from the time that [`Contention::resume`] said.
    pub(super) fn want(&mut self, who: usize, now: Time) {
        if self.contenders[who].slots.is_some() {
            return;
        }
        if self.contenders.iter().all(|contender| contender.slots.is_none()) {
            self.idle = self.idle.max(now);
        }
        let passed = (now - self.idle).as_nanos().div_ceil(SLOT.as_nanos());
        let from = self.idle + SLOT.mul_div(passed, 1);
        let contender = &mut self.contenders[who];
        contender.from = from;
        let choices = f64::from(contender.window) + 1.0;
        contender.slots = Some((contender.stream.unit() * choices) as u32);
    }

    /// When a station sends, if the medium stays idle; [`Time::NEVER`] when no one wants to.
    pub(super) fn access(&self) -> Time {
        self.contenders.iter().map(Contender::access).min().unwrap_or(Time::NEVER)
    }

    /// Those who send at `at`; the others count the slots that have passed.
    pub(super) fn win(&mut self, at: Time, winners: &mut Vec<usize>) {
        winners.clear();
        for (who, contender) in self.contenders.iter_mut().enumerate() {
            if contender.access() <= at {
                contender.slots = None;
                winners.push(who);
            } else {
                contender.count_down(at);
            }
        }
    }

    /// The medium is busy from `at`, by another station.
    pub(super) fn freeze(&mut self, at: Time) {
        self.contenders.iter_mut().for_each(|contender| contender.count_down(at));
    }

    /// The medium is idle from `at` on.
    pub(super) fn resume(&mut self, at: Time) {
        self.idle = at;
        self.contenders.iter_mut().for_each(|contender| contender.from = at);
    }

    /// What became of its exchange: any success sets the window back, none doubles it (10.22.2.2).
    pub(super) fn settle(&mut self, who: usize, success: bool) {
        let contender = &mut self.contenders[who];
        let [least, most] = contender.limits;
        contender.window = if success { least } else { (2 * contender.window + 1).min(most) };
    }
}

/// Busy times that come from outside: on and off in turn, exponentially distributed. One that would begin during an exchange comes
/// behind it (our choice: what listens before it talks), so that the share of the time is kept.
pub(super) struct Interference {
    on: Nanos,
    off: Nanos,
    /// When the last one drawn was to end.
    drawn: Time,
    /// The present or next busy time.
    busy: (Time, Time),
    stream: Stream,
}

impl Interference {
    /// Busy for `on` on average, for this share of the time.
    pub(super) fn new(on: Nanos, share: f64, stream: Stream) -> Self {
        let off = on.mul_f64((1.0 - share) / share);
        let mut new = Self { on, off, drawn: Time::ZERO, busy: (Time::ZERO, Time::ZERO), stream };
        new.follow();
        new
    }

    fn follow(&mut self) {
        let mut draw = |mean: Nanos| mean.mul_f64(self.stream.exponential()).max(Nanos::from_nanos(1));
        let (off, on) = (draw(self.off), draw(self.on));
        let from = (self.drawn + off).max(self.busy.1);
        self.drawn += off + on;
        self.busy = (from, from + on);
    }

    /// The busy time at `now`, or the next one.
    pub(super) fn at(&mut self, now: Time) -> (Time, Time) {
        while self.busy.1 <= now {
            self.follow();
        }
        self.busy
    }

    /// An exchange ends at `idle`.
    pub(super) fn wait(&mut self, idle: Time) {
        let (from, to) = self.busy;
        if from < idle {
            self.busy = (idle, idle + (to - from));
        }
    }

    /// Forgets what was before: the next busy time begins after `now`.
    pub(super) fn skip_to(&mut self, now: Time) {
        if self.busy.1 < now {
            (self.busy, self.drawn) = ((now, now), now);
            self.follow();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    fn us(micros: u64) -> Time {
        Time::ZERO + Nanos::from_micros(micros)
    }

    fn two() -> Contention {
        let mut contention = Contention::default();
        for seed in 0..2 {
            contention.add(Contender::new([15, 63], Stream::new(seed, Purpose::Backoff)));
        }
        contention
    }

    #[test]
    fn the_smallest_number_of_slots_wins_and_the_others_keep_what_is_left() {
        let mut contention = two();
        contention.resume(us(100));
        (0..2).for_each(|who| contention.want(who, us(100)));
        contention.contenders[0].slots = Some(3);
        contention.contenders[1].slots = Some(7);
        assert_eq!(contention.access(), us(100 + 43 + 27));
        let mut winners = Vec::new();
        contention.win(us(170), &mut winners);
        assert_eq!((&*winners, contention.contenders[1].slots), (&[0][..], Some(4)));
        // Frozen until the medium is idle again, then AIFS again.
        contention.resume(us(1000));
        assert_eq!(contention.access(), us(1000 + 43 + 36));
        // Interference after two slots and a half.
        contention.freeze(us(1000 + 43 + 22));
        contention.resume(us(3000));
        assert_eq!(contention.access(), us(3000 + 43 + 18));
    }

    #[test]
    fn equal_numbers_collide_and_who_comes_later_counts_on_the_same_slots() {
        let mut contention = two();
        contention.want(0, us(50));
        contention.contenders[0].slots = Some(5);
        // 50 + 2 slots, rounded up.
        contention.want(1, us(60));
        assert_eq!(contention.contenders[1].from, us(68));
        contention.contenders[1].slots = Some(3);
        let mut winners = Vec::new();
        contention.win(contention.access(), &mut winners);
        assert_eq!(winners, [0, 1]);
    }

    #[test]
    fn the_window_doubles_up_to_its_limit_and_falls_back() {
        let mut contention = two();
        let windows: Vec<u16> = [false, false, false, true, false]
            .map(|success| {
                contention.settle(0, success);
                contention.contenders[0].window
            })
            .into();
        assert_eq!(windows, [31, 63, 63, 15, 31]);
    }

    #[test]
    fn interference_is_busy_for_its_share() {
        let stream = Stream::new(1, Purpose::Interference);
        let mut interference = Interference::new(Nanos::from_millis(1), 0.3, stream);
        let (mut busy, mut now) = (Nanos::ZERO, Time::ZERO);
        while now < Time::from_millis(100_000) {
            let (from, to) = interference.at(now);
            busy += to - from;
            now = to;
        }
        let share = busy.as_secs_f64() / now.as_secs_f64();
        assert!((share - 0.3).abs() < 0.01, "{share}");
    }
}
