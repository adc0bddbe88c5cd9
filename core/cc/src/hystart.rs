//! Slow starts that leave before the queue overflows: classic HyStart as Linux runs it, and HyStart++ (RFC 9406).
//!
//! Sources: Linux `net/ipv4/tcp_cubic.c` (`hystart_update`) after Ha and Rhee, "Taming the elephants" (2011); RFC 9406.
//!
//! What differs:
//! - HyStart discards no samples in the first second of an epoch: this start-up is not in charge then, except when an
//!   idle flow restarts, and there it has already found its exit (Linux `found`).
//! - HyStart takes Linux's largest GSO burst for the cushion of the train test, whatever bursts the datapath sends.
//! - HyStart++ runs in the first slow start only (RFC 9406 section 4.3 recommends it), later ones are standard.

use crate::controller::{Ack, Env};
use crate::entry::StartUpEntry;
use crate::units::{Nanos, Rate, Time};
use crate::window::{Signal, SlowStart, StartUp, Window};

/// RTT samples before a round may end the start-up (Linux `HYSTART_MIN_SAMPLES`, RFC 9406 `N_RTT_SAMPLE`).
const SAMPLES: u32 = 8;
/// Smallest rise of the RTT that counts as a queue (Linux `HYSTART_DELAY_MIN`, RFC 9406 `MIN_RTT_THRESH`).
const RISE_MIN: Nanos = Nanos::from_millis(4);
/// Largest rise that is still tolerated (Linux `HYSTART_DELAY_MAX`, RFC 9406 `MAX_RTT_THRESH`).
const RISE_MAX: Nanos = Nanos::from_millis(16);
/// Share of the RTT that counts as a rise, between the two bounds (Linux `>> 3`, RFC 9406 `MIN_RTT_DIVISOR`).
const RISE_DIVISOR: u64 = 8;
/// Windows below this are left alone, in packets (Linux `hystart_low_window`).
const LOW_WINDOW: f64 = 16.0;
/// Acknowledgements nearer than this belong to one train (Linux `hystart_ack_delta_us`).
const TRAIN_GAP: Nanos = Nanos::from_millis(2);
/// Largest cushion for bursts in the train test (Linux `hystart_ack_delay`).
const CUSHION_MAX: Nanos = Nanos::from_millis(1);
/// Bytes that the cushion lets pass at the pacing rate: four GSO bursts of 64 KiB (Linux `hystart_ack_delay`).
const CUSHION_BYTES: u64 = 4 * 65_536;
/// Linux paces slow start at this many windows a round trip (`tcp_pacing_ss_ratio`, 200 %).
const SLOW_START_PACE: f64 = 2.0;
/// Growth of conservative slow start relative to slow start (RFC 9406 `CSS_GROWTH_DIVISOR`).
const CSS_DIVISOR: f64 = 4.0;
/// Rounds of conservative slow start (RFC 9406 `CSS_ROUNDS`).
const CSS_ROUNDS: u32 = 5;
/// Packets by which one acknowledgement may raise the window of an unpaced flow (RFC 9406 `L`).
const LIMIT: f64 = 8.0;

/// The rise over `base` that is taken for a queue.
fn rise(base: Nanos) -> Nanos {
    base.mul_div(1, RISE_DIVISOR).clamp(RISE_MIN, RISE_MAX)
}

/// The RTT samples of one round trip. It ends when everything sent before its start has been delivered.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// [`Ack::next`] at its start.
    end: u64,
    /// Smallest RTT in it; [`Nanos::MAX`] before a sample.
    min: Nanos,
    samples: u32,
}

impl Round {
    fn new(ack: &Ack<'_>) -> Self {
        Self { end: ack.next, min: Nanos::MAX, samples: 0 }
    }

    fn sample(&mut self, rtt: Nanos) {
        self.min = self.min.min(rtt);
        self.samples = self.samples.saturating_add(1);
    }
}

/// Classic HyStart: slow start that ends when a train of acknowledgements has grown as long as half the smallest RTT (the
/// whole, when paced), or when the RTT has risen by an eighth.
#[derive(Clone, Copy, Debug)]
pub struct HyStart {
    slow: SlowStart,
    env: Env,
    /// Smallest RTT since the start or the last timeout, whose samples no longer count (Linux `bictcp_reset` clears
    /// `delay_min`): what follows a spurious one is measured against the queue that caused it.
    min: Nanos,
    round: Option<Round>,
    round_start: Time,
    last_ack: Time,
    found: bool,
}

impl HyStart {
    /// HyStart for packets of `env.mss` bytes.
    pub fn new(env: &Env) -> Self {
        Self {
            slow: SlowStart::new(env),
            env: *env,
            min: Nanos::MAX,
            round: None,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            found: false,
        }
    }

    /// Whether `rtt`, a new sample, shows that the window is large enough.
    fn detects(&mut self, ack: &Ack<'_>, rtt: Nanos, window: &Window) -> bool {
        self.min = self.min.min(rtt);
        let round = match &mut self.round {
            Some(round) if ack.una <= round.end => round,
            round => {
                self.round_start = ack.now;
                self.last_ack = ack.now;
                round.insert(Round::new(ack))
            }
        };
        if window.cwnd < LOW_WINDOW {
            return false;
        }
        let mut found = false;
        if ack.now - self.last_ack <= TRAIN_GAP {
            self.last_ack = ack.now;
            let per_round = SLOW_START_PACE * window.cwnd * f64::from(self.env.mss);
            let cushion = Rate::from_bytes_in(per_round as u64, ack.srtt).time_for(CUSHION_BYTES).min(CUSHION_MAX);
            // Pacing by itself spreads a window over half a round trip.
            let share = if self.env.paced { 1 } else { 2 };
            found = ack.now - self.round_start > (self.min + cushion).mul_div(1, share);
        }
        let ripe = round.samples >= SAMPLES;
        round.sample(rtt);
        found || (ripe && round.min > self.min + rise(self.min))
    }
}

impl StartUp for HyStart {
    fn stays(&self) -> bool {
        false
    }

    fn on_mss(&mut self, mss: u32) {
        self.slow.on_mss(mss);
        self.env.mss = mss;
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        if let Some(rtt) = ack.rtt
            && !self.found
            && self.detects(ack, rtt, window)
        {
            self.found = true;
            window.ssthresh = window.cwnd;
            return;
        }
        self.slow.on_ack(ack, window);
    }

    fn on_congestion(&mut self, signal: Signal, _window: &mut Window) {
        if signal == Signal::Timeout {
            self.min = Nanos::MAX;
            self.round = None;
            self.found = false;
        }
    }
}

/// HyStart++: slow start that turns to *conservative slow start* (CSS) when the RTT rises from one round to the next,
/// and ends after five such rounds; back to slow start when the RTT falls again.
#[derive(Clone, Copy, Debug)]
pub struct HyStartPlusPlus {
    mss: u32,
    /// RFC 9406 `L`.
    limit: f64,
    round: Option<Round>,
    /// RFC 9406 `lastRoundMinRTT`; [`Nanos::MAX`] where there was none.
    last_min: Nanos,
    css: Option<Css>,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// RFC 9406 `cssBaselineMinRtt`.
    baseline: Nanos,
    /// Rounds that have ended, the one in which it began included.
    rounds: u32,
}

impl HyStartPlusPlus {
    /// HyStart++ for packets of `env.mss` bytes.
    pub fn new(env: &Env) -> Self {
        let limit = if env.paced { f64::INFINITY } else { LIMIT };
        Self { mss: env.mss, limit, round: None, last_min: Nanos::MAX, css: None }
    }

    /// Takes an acknowledgement: into CSS or out of it, and to the next round. Gives `false` at the end of the last.
    fn observe(&mut self, ack: &Ack<'_>) -> bool {
        if ack.bytes == 0 {
            // The answer to a handshake begins no round: nothing has been sent.
            return true;
        }
        let round = self.round.get_or_insert_with(|| Round::new(ack));
        if let Some(rtt) = ack.rtt {
            round.sample(rtt);
        }
        if round.samples >= SAMPLES {
            match self.css {
                Some(css) if round.min < css.baseline => self.css = None,
                None if self.last_min < Nanos::MAX && round.min >= self.last_min + rise(self.last_min) => {
                    self.css = Some(Css { baseline: round.min, rounds: 0 });
                }
                Some(_) | None => {}
            }
        }
        if ack.una < round.end {
            return true;
        }
        self.last_min = round.min;
        *round = Round::new(ack);
        match &mut self.css {
            Some(css) => {
                css.rounds += 1;
                css.rounds < CSS_ROUNDS
            }
            None => true,
        }
    }
}

impl StartUp for HyStartPlusPlus {
    fn stays(&self) -> bool {
        false
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let mut growth = ack.packets_of(self.mss).min(self.limit);
        if window.ssthresh.is_infinite() {
            if !self.observe(ack) {
                window.ssthresh = window.cwnd;
                return;
            }
            if self.css.is_some() {
                growth /= CSS_DIVISOR;
            }
        }
        if ack.window_limited {
            window.open(growth);
        }
    }

    fn limit(&self, window: &Window, max_flight: f64) -> f64 {
        let conservative = self.css.is_some() && window.ssthresh.is_infinite();
        let divisor = if conservative { CSS_DIVISOR } else { 1.0 };
        max_flight + max_flight / divisor
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("css_round", self.css.map_or(0.0, |css| f64::from(css.rounds + 1)));
    }
}

/// `start=hystart` in the registry.
pub const ENTRY: StartUpEntry = StartUpEntry {
    name: "hystart",
    summary: "HyStart: slow start that ends when the RTT rises or a train of acknowledgements grows long, as in Linux",
    source: "Ha and Rhee 2011, Linux tcp_cubic.c",
    params: &[],
    needs: &[],
    holds_against_marks: false,
    make: |_, env| Box::new(HyStart::new(env)),
};

/// `start=hystart++` in the registry.
pub const PLUS_PLUS_ENTRY: StartUpEntry = StartUpEntry {
    name: "hystart++",
    summary: "HyStart++: goes on more slowly when the RTT rises, until that proves to be a queue",
    source: "RFC 9406",
    make: |_, env| Box::new(HyStartPlusPlus::new(env)),
    ..ENTRY
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ack;

    const MSS: u64 = 1448;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    /// One round trip of `rtt`: ten acknowledgements of a packet each, `gap` apart.
    fn round(
        start: &mut dyn StartUp,
        window: &mut Window,
        now: &mut Time,
        una: &mut u64,
        rtt: Nanos,
        min: Nanos,
        gap: Nanos,
    ) {
        for _ in 0..10 {
            *now += gap;
            *una += MSS;
            let ack = Ack { una: *una, next: *una + 10 * MSS, min_rtt: min, ..ack(*now, rtt, 1) };
            start.on_ack(&ack, window);
        }
    }

    /// Feeds rounds with a growing RTT, 1 ms at a time; gives the RTT at which the start-up ended.
    fn exit_rtt(start: &mut dyn StartUp, min: Nanos) -> Nanos {
        let (mut now, mut una) = (Time::ZERO, 0);
        let mut window = Window { cwnd: 20.0, ssthresh: f64::INFINITY };
        let mut rtt = min;
        round(start, &mut window, &mut now, &mut una, min, min, ms(3));
        while window.starting() {
            assert!(rtt < min + ms(100), "never ended");
            rtt += ms(1);
            // Three rounds each, and acknowledgements too far apart for a train.
            for _ in 0..3 {
                round(start, &mut window, &mut now, &mut una, rtt, min, ms(3));
            }
        }
        rtt
    }

    #[test]
    fn hystart_ends_above_an_eighth_more_between_4_and_16_ms() {
        for (min, want) in [(20, 25), (80, 91), (200, 217)] {
            assert_eq!(exit_rtt(&mut HyStart::new(&Env::default()), ms(min)), ms(want), "minRTT {min} ms");
        }
    }

    #[test]
    fn hystart_ends_on_a_long_train() {
        let ends = |env: &Env, gap: u64| {
            let (mut now, mut una) = (Time::ZERO, 0);
            let mut window = Window { cwnd: 20.0, ssthresh: f64::INFINITY };
            let mut start = HyStart::new(env);
            round(&mut start, &mut window, &mut now, &mut una, ms(16), ms(16), ms(gap));
            !window.starting()
        };
        // Ten acknowledgements 1 ms apart make a train of 9 ms, 2 ms apart one of 18 ms; the smallest RTT is 16 ms and
        // the cushion 1 ms; 3 ms apart they are no train.
        let paced = Env { paced: true, ..Env::default() };
        assert!(ends(&Env::default(), 1) && ends(&paced, 2));
        assert!(!ends(&paced, 1) && !ends(&Env::default(), 3));
    }

    #[test]
    fn hystart_measures_anew_after_a_time_out() {
        let mut start = HyStart::new(&Env::default());
        assert_eq!(exit_rtt(&mut start, ms(20)), ms(25));
        start.on_congestion(Signal::Timeout, &mut Window { cwnd: 1.0, ssthresh: 20.0 });
        assert_eq!(exit_rtt(&mut start, ms(80)), ms(91));
    }

    #[test]
    fn small_windows_are_left_alone() {
        let (mut now, mut una) = (Time::ZERO, 0);
        let mut window = Window { cwnd: 2.0, ssthresh: f64::INFINITY };
        let mut start = HyStart::new(&Env::default());
        round(&mut start, &mut window, &mut now, &mut una, ms(90), ms(20), ms(2));
        assert_eq!(window, Window { cwnd: 12.0, ssthresh: f64::INFINITY });
    }

    #[test]
    fn hystart_plus_plus_grows_by_a_quarter_for_five_rounds() {
        for (min, want) in [(20, 24), (80, 90), (200, 216)] {
            let mut start = HyStartPlusPlus::new(&Env::default());
            let (mut now, mut una) = (Time::ZERO, 0);
            let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
            let mut run = |start: &mut HyStartPlusPlus, window: &mut Window, rtt| {
                round(start, window, &mut now, &mut una, rtt, ms(min), ms(3));
            };
            run(&mut start, &mut window, ms(min));
            run(&mut start, &mut window, ms(want - 1));
            run(&mut start, &mut window, ms(min));
            assert!(start.css.is_none(), "a rise below the threshold");
            assert_eq!(window.cwnd, 40.0);
            run(&mut start, &mut window, ms(want));
            assert!(start.css.is_some(), "a rise of the threshold");
            // The round of the turn counts as the first of five.
            for _ in 0..4 {
                assert!(window.starting());
                let before = window.cwnd;
                run(&mut start, &mut window, ms(want));
                assert!((window.cwnd - before - 2.5).abs() < 0.3, "ten packets open by a quarter");
            }
            run(&mut start, &mut window, ms(want));
            assert!(!window.starting());
        }
    }

    #[test]
    fn the_answer_to_a_handshake_begins_no_round() {
        let mut start = HyStartPlusPlus::new(&Env::default());
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let answer = Ack { bytes: 0, rtt: None, una: 0, next: 0, window_limited: false, ..ack(Time::ZERO, ms(20), 0) };
        start.on_ack(&answer, &mut window);
        assert!(start.round.is_none());
        // The first acknowledgement of data is in the round that ends with what was sent by then.
        start.on_ack(&Ack { una: MSS, next: 10 * MSS, ..ack(Time::ZERO, ms(20), 1) }, &mut window);
        assert_eq!(start.round.map(|round| (round.end, round.samples)), Some((10 * MSS, 1)));
    }

    #[test]
    fn conservative_slow_start_resumes_when_the_rtt_falls() {
        let mut start = HyStartPlusPlus::new(&Env::default());
        let (mut now, mut una) = (Time::ZERO, 0);
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        for rtt in [20, 20, 40] {
            round(&mut start, &mut window, &mut now, &mut una, ms(rtt), ms(20), ms(3));
        }
        assert!(start.css.is_some());
        round(&mut start, &mut window, &mut now, &mut una, ms(39), ms(20), ms(3));
        assert!(start.css.is_none() && window.starting());
    }

    #[test]
    fn a_stretch_acknowledgement_opens_by_eight_at_most() {
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        HyStartPlusPlus::new(&Env::default()).on_ack(&ack(Time::ZERO, ms(20), 30), &mut window);
        assert_eq!(window.cwnd, 18.0);
    }
}
