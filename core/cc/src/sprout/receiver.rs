//! Sprout's receiving half: counts arrivals tick by tick, keeps account of what is gone from the network, and forecasts.
//!
//! Source: Winstein, Sivaraman, Balakrishnan, NSDI 2013, sections 3.2 to 3.4, and the authors' release
//! (`receiver.cc`). What differs:
//!
//! - Packets are counted in units of the datapath's payload at both ends; the release divides by 1400 at one end and
//!   multiplies by 1440 at the other.
//! - After a gap of `FORGET_AFTER` the forecaster starts over instead of running through every tick.
//! - A tick whose last packet ended a flight may bound the rate from below only (`Idle`).
//! - Feedback goes out for each tick that brought something and for the next 8, whether or not there is data to send back,
//!   a fixed time after the tick's end. The release's rides on the next flight of its reverse stream, half a tick later on
//!   average.

use super::feedback::{Feedback, Note};
use super::forecast::{Evidence, Forecaster};
use super::tables::HORIZON;
use crate::controller::{Arrival, Env, ReceiverHalf};
use crate::units::{Nanos, Time};

/// Length of a tick (section 3.1).
pub const TICK: Nanos = Nanos::from_millis(20);
/// Silence after which nothing that was learnt counts (our choice: the rate may have wandered anywhere by then).
const FORGET_AFTER: Nanos = Nanos::from_secs(5);
/// Ranges of received bytes that are kept apart (our choice: 10 ms of reordering have fewer holes; beyond it the
/// lowest hole counts as lost).
const MAX_RANGES: usize = 256;

/// What a tick says in which the sender stopped before the link did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// The link could deliver what arrived, no more (the release).
    Exact,
    /// The link could deliver what arrived at the least (our choice).
    Bound,
    /// As `Exact` where payload arrived; empty packets say only that the link carries something (our choice for the average:
    /// the heartbeats of a silent application would take it to 0).
    Filled,
}

/// The receiving half around either forecaster.
pub struct Receiver<F> {
    forecaster: F,
    mss: u32,
    /// When the present tick began; none before the first packet.
    tick_start: Option<Time>,
    tick: u64,
    /// Something arrived in this tick, and how many bytes.
    arrived: bool,
    bytes: u64,
    /// The last packet of the tick ended a flight.
    ended: bool,
    idle: Idle,
    /// From a tick's end to its feedback.
    wait: Nanos,
    /// Silence up to here was announced.
    expect_after: Time,
    /// Last tick in which something arrived, last tick that was reported.
    last_arrival: u64,
    reported: Option<u64>,
    account: Account,
}

impl<F: Forecaster> Receiver<F> {
    /// A receiver of packets of `env.mss` bytes whose feedback leaves `wait` (at most a tick) after each tick.
    pub fn new(env: &Env, forecaster: F, idle: Idle, wait: Nanos) -> Self {
        Self {
            forecaster,
            mss: env.mss,
            tick_start: None,
            tick: 0,
            arrived: false,
            bytes: 0,
            ended: false,
            idle,
            wait: wait.min(TICK),
            expect_after: Time::ZERO,
            last_arrival: 0,
            reported: None,
            account: Account::default(),
        }
    }

    /// Ends all ticks that are over.
    fn advance(&mut self, now: Time) {
        let Some(mut start) = self.tick_start else { return };
        if now.since(start) > FORGET_AFTER {
            let skipped = TICK.times_in(now.since(start));
            self.forecaster.reset();
            self.tick += skipped;
            (self.arrived, self.bytes) = (false, 0);
            start += Nanos::from_nanos(TICK.as_nanos() * skipped);
        }
        while now.since(start) > TICK {
            let packets = self.bytes as f64 / f64::from(self.mss);
            let bounds = match self.idle {
                Idle::Exact => false,
                Idle::Bound => self.ended,
                Idle::Filled => self.bytes == 0,
            };
            // An empty packet is an arrival too: the link has carried it.
            let evidence = match self.arrived {
                true if bounds => Evidence::AtLeast(packets.max(f64::MIN_POSITIVE)),
                true => Evidence::Exactly(packets.max(f64::MIN_POSITIVE)),
                false if start >= self.expect_after => Evidence::Exactly(0.0),
                false => Evidence::Nothing,
            };
            self.forecaster.tick(evidence);
            (self.arrived, self.bytes) = (false, 0);
            self.tick += 1;
            start += TICK;
        }
        self.tick_start = Some(start);
    }

    /// There is still something to say: a packet arrived within the last [`HORIZON`] ticks.
    fn active(&self) -> bool {
        self.tick_start.is_some() && self.tick - self.last_arrival <= HORIZON as u64
    }
}

impl<F: Forecaster> ReceiverHalf for Receiver<F> {
    fn on_arrival(&mut self, arrival: &Arrival) {
        self.advance(arrival.now);
        let start = *self.tick_start.get_or_insert(arrival.now);
        let note = Note::unpack(arrival.note);
        self.arrived = true;
        self.ended = note.time_to_next > Nanos::ZERO;
        self.bytes += u64::from(arrival.bytes);
        self.last_arrival = self.tick;
        self.expect_after = self.expect_after.max(start + note.time_to_next);
        self.account.arrived(arrival.seq, u64::from(arrival.bytes), arrival.seq.saturating_sub(note.throwaway));
    }

    fn feedback(&mut self, now: Time, blob: &mut Vec<u8>) -> bool {
        self.advance(now);
        let due = self.tick_start.is_some_and(|start| now >= start + self.wait);
        if !due || !self.active() || self.reported == Some(self.tick) {
            return false;
        }
        self.reported = Some(self.tick);
        let forecast = self.forecaster.forecast();
        Feedback { received_or_lost: self.account.gone(), tick: self.tick, forecast }.write(blob);
        true
    }

    fn next_tick(&self) -> Time {
        match self.tick_start {
            Some(start) if self.reported != Some(self.tick) && self.active() => start + self.wait,
            Some(start) if self.tick - self.last_arrival < HORIZON as u64 => {
                start + TICK + self.wait.max(Nanos::from_nanos(1))
            }
            _ => Time::NEVER,
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.forecaster.describe(report);
    }
}

/// Which bytes of the stream are gone from the network, for certain.
#[derive(Clone, Debug, Default)]
struct Account {
    /// All below has arrived or is lost (`throwaway_before`).
    floor: u64,
    /// What has arrived above, as ranges that do not touch, in order.
    ranges: Vec<(u64, u64)>,
}

impl Account {
    fn arrived(&mut self, seq: u64, bytes: u64, throwaway_before: u64) {
        self.insert(seq, seq.saturating_add(bytes));
        self.raise(throwaway_before);
        if self.ranges.len() > MAX_RANGES {
            self.raise(self.ranges[1].0);
        }
    }

    /// Payload bytes received or lost.
    fn gone(&self) -> u64 {
        self.floor + self.ranges.iter().map(|(start, end)| end - start).sum::<u64>()
    }

    fn insert(&mut self, start: u64, end: u64) {
        let (start, end) = (start.max(self.floor), end.max(self.floor));
        if start == end {
            return;
        }
        let first = self.ranges.partition_point(|range| range.1 < start);
        let after = self.ranges.partition_point(|range| range.0 <= end);
        if first == after {
            self.ranges.insert(first, (start, end));
            return;
        }
        let merged = (start.min(self.ranges[first].0), end.max(self.ranges[after - 1].1));
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..after);
    }

    /// Everything below `floor` is gone.
    fn raise(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        let below = self.ranges.partition_point(|range| range.0 <= self.floor);
        if below > 0 {
            self.floor = self.floor.max(self.ranges[below - 1].1);
            self.ranges.drain(..below);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::forecast::{Average, Bayesian};
    use super::super::tables::Outage;
    use super::*;
    use rand::{RngExt, SeedableRng};

    const MSS: u32 = 1448;

    fn arrival(now: Time, seq: u64, bytes: u32, throwaway: u64, time_to_next: Nanos) -> Arrival {
        Arrival { now, seq, bytes, note: Note { throwaway, time_to_next }.pack(), ce: false }
    }

    fn blob<F: Forecaster>(receiver: &mut Receiver<F>, now: Time) -> Option<Feedback> {
        let mut blob = Vec::new();
        receiver.feedback(now, &mut blob).then(|| Feedback::read(&blob).expect("its own blob"))
    }

    #[test]
    fn the_account_knows_what_is_gone() {
        let mut account = Account::default();
        account.arrived(0, 100, 0);
        assert_eq!(account.gone(), 100);
        account.arrived(300, 100, 0);
        account.arrived(500, 100, 100);
        assert_eq!(account.gone(), 300, "100 to 300 and 400 to 500 may still come");
        account.arrived(200, 100, 0);
        assert_eq!(account.gone(), 400);
        account.arrived(600, 100, 250);
        assert_eq!(account.gone(), 600, "100 to 200 is lost");
        account.arrived(100, 100, 0);
        assert_eq!(account.gone(), 600, "too late");
        account.arrived(300, 100, 0);
        assert_eq!(account.gone(), 600, "twice");
    }

    #[test]
    fn the_account_is_bounded_and_agrees_with_a_plain_set() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(3);
        let mut account = Account::default();
        let (mut floor, mut bytes) = (0, std::collections::BTreeSet::new());
        for step in 0..2000u64 {
            let seq = step + random.random_range(0..60);
            let len = random.random_range(0..9);
            let throwaway_before = step.saturating_sub(random.random_range(0..40));
            account.arrived(seq, len, throwaway_before);
            bytes.extend(seq..seq + len);
            floor = throwaway_before.max(floor);
            let expected = floor + bytes.range(floor..).count() as u64;
            assert_eq!(account.gone(), expected, "step {step}");
        }
        for hole in 0..10_000u64 {
            account.arrived(1_000_000 + 3 * hole, 1, 0);
            assert!(account.ranges.len() <= MAX_RANGES);
        }
        account.arrived(u64::MAX, u64::from(MSS), u64::MAX);
        assert_eq!(account.gone(), u64::MAX);
    }

    #[test]
    fn one_report_a_tick_and_eight_after_the_last_arrival() {
        let mut receiver = Receiver::new(&Env::default(), Average::default(), Idle::Exact, Nanos::ZERO);
        assert_eq!(receiver.next_tick(), Time::NEVER);
        let start = Time::from_millis(1000);
        receiver.on_arrival(&arrival(start, 0, MSS, 0, Nanos::ZERO));
        assert!(blob(&mut receiver, start).is_some());
        assert!(blob(&mut receiver, start + Nanos::from_millis(19)).is_none());
        let mut reports = 0;
        while receiver.next_tick() != Time::NEVER {
            let now = receiver.next_tick();
            assert!(blob(&mut receiver, now).is_some());
            reports += 1;
        }
        assert_eq!(reports, 8);
    }

    #[test]
    fn announced_silence_is_no_outage() {
        let env = Env::default();
        let (mut informed, mut uninformed) = (
            Receiver::new(&env, Bayesian::new(1000.0, Outage::Normalised), Idle::Exact, Nanos::ZERO),
            Receiver::new(&env, Bayesian::new(1000.0, Outage::Normalised), Idle::Exact, Nanos::ZERO),
        );
        // Six packets at once, then nothing for 100 ms, again and again.
        for flight in 0..50u64 {
            for packet in 0..6u64 {
                let now = Time::from_millis(100 * flight + 1);
                let seq = (6 * flight + packet) * u64::from(MSS);
                let next = if packet == 5 { Nanos::from_millis(100) } else { Nanos::ZERO };
                informed.on_arrival(&arrival(now, seq, MSS, 0, next));
                uninformed.on_arrival(&arrival(now, seq, MSS, 0, Nanos::ZERO));
            }
        }
        let end = Time::from_millis(4999);
        informed.advance(end);
        uninformed.advance(end);
        assert!(informed.forecaster.outage() < 0.01);
        assert!(informed.forecaster.mean_rate() > 200.0, "{}", informed.forecaster.mean_rate());
        assert!(uninformed.forecaster.mean_rate() < 100.0, "{}", uninformed.forecaster.mean_rate());
    }

    #[test]
    fn an_empty_packet_shows_that_the_link_works() {
        let env = Env::default();
        let mut receiver = Receiver::new(&env, Bayesian::new(1000.0, Outage::Normalised), Idle::Exact, Nanos::ZERO);
        for beat in 0..100 {
            receiver.on_arrival(&arrival(Time::from_millis(50 * beat), 0, 0, 0, Nanos::from_millis(50)));
        }
        // Between two beats the rate may wander into an outage for 50 ms, no longer.
        assert!(receiver.forecaster.outage() < 0.2, "{}", receiver.forecaster.outage());
        assert!(receiver.forecaster.mean_rate() > 40.0, "{}", receiver.forecaster.mean_rate());
        assert_eq!(receiver.account.gone(), 0);
    }

    #[test]
    fn a_long_gap_forgets() {
        let mut receiver =
            Receiver::new(&Env::default(), Bayesian::new(1000.0, Outage::Release), Idle::Exact, Nanos::ZERO);
        for packet in 0..500 {
            receiver.on_arrival(&arrival(Time::from_millis(2 * packet), packet * u64::from(MSS), MSS, 0, Nanos::ZERO));
        }
        let later = Time::from_millis(3_600_000);
        receiver.on_arrival(&arrival(later, 500 * u64::from(MSS), MSS, 0, Nanos::ZERO));
        let feedback = blob(&mut receiver, later).expect("news");
        assert_eq!(feedback.forecast, [1, 1, 3, 4, 5, 6, 8, 9]);
        assert!(feedback.tick > 170_000);
        receiver.on_arrival(&arrival(Time::NEVER, 0, MSS, u64::MAX, Nanos::MAX));
    }

    #[test]
    fn one_packet_a_tick_is_not_all_that_a_link_can_do() {
        let mean_rate = |idle, time_to_next| {
            let forecaster = Bayesian::new(1000.0, Outage::Normalised);
            let mut receiver = Receiver::new(&Env::default(), forecaster, idle, Nanos::ZERO);
            for packet in 0..500 {
                let now = Time::from_millis(20 * packet + 3);
                receiver.on_arrival(&arrival(now, packet * u64::from(MSS), MSS, 0, time_to_next));
            }
            receiver.forecaster.mean_rate()
        };
        let silence = Nanos::from_millis(50);
        assert!((mean_rate(Idle::Exact, silence) - 68.0).abs() < 1.0);
        assert!(mean_rate(Idle::Bound, silence) > 200.0);
        assert!((mean_rate(Idle::Bound, Nanos::ZERO) - 68.0).abs() < 1.0, "more was on its way");
    }
}
