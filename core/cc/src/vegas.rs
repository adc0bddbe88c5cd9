//! TCP Vegas as Linux has it (`net/ipv4/tcp_vegas.c`, after Brakmo and Peterson, "TCP Vegas: End to end congestion avoidance on a
//! global Internet", IEEE JSAC 13(8), 1995): once a round trip the window moves by a packet, towards a few packets of its own in the queue.
//!
//! Its start-up is `start=vegas`, which other controllers may take too. It differs from the paper as Linux does: slow start doubles each
//! round trip and not every other one, and losses are found as ever. From Linux it differs in one point: the smallest RTT is forgotten
//! after a silence of the flow as [`Policy::on_restart`] reports it, and not each time that nothing is in flight.

use crate::controller::{Ack, Controller, Env, Phase, Restart};
use crate::entry::{Entry, Home, Kind, Param, Params, StartUpEntry};
use crate::start_ups::{any_start_up, start_up};
use crate::units::{Nanos, Time};
use crate::window::{MINIMUM_WINDOW, Policy, Signal, StartUp, Window, WindowController};

/// Multiplicative decrease: Reno's (RFC 5681, equation 4).
const BETA: f64 = 0.5;
/// What Linux adds to every RTT, against zero.
const GUARD: Nanos = Nanos::from_micros(1);
/// A round trip of no more samples of the RTT than this says nothing: growth is Reno's there.
const FEW_SAMPLES: u32 = 2;
/// Least part of the window that the slow-start threshold is after each round trip (Linux `tcp_current_ssthresh`).
const THRESHOLD_LEAST: f64 = 0.75;

/// What an acknowledgement said of a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Round {
    /// It goes on.
    #[default]
    On,
    /// It ended with too few samples.
    Few,
    /// It ended, and this was its smallest RTT.
    Measured(Nanos),
}

/// The smallest RTT of the flow and of each round trip.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    base: Nanos,
    least: Nanos,
    samples: u32,
    /// The round trip ends when something beyond this position has been delivered.
    end: u64,
    round: Round,
}

impl Rounds {
    const NEW: Self = Self { base: Nanos::MAX, least: Nanos::MAX, samples: 0, end: 0, round: Round::On };

    fn take(&mut self, ack: &Ack<'_>) {
        self.round = Round::On;
        if let Some(rtt) = ack.rtt {
            let rtt = rtt + GUARD;
            self.base = self.base.min(rtt);
            self.least = self.least.min(rtt);
            self.samples += 1;
        }
        // A repair switches Vegas off; what follows is a fresh round trip.
        if ack.una > self.end || ack.phase != Phase::Open {
            if ack.phase == Phase::Open {
                self.round = if self.samples > FEW_SAMPLES { Round::Measured(self.least) } else { Round::Few };
            }
            (self.end, self.least, self.samples) = (ack.next, Nanos::MAX, 0);
        }
    }

    /// The route may have changed while the flow was silent.
    fn forget(&mut self) {
        (self.base, self.least, self.samples) = (Nanos::MAX, Nanos::MAX, 0);
    }

    /// Packets of a window of `cwnd` that wait in the queue at an RTT of `rtt`, and the window without them, both rounded down as Linux does.
    fn queued(&self, cwnd: f64, rtt: Nanos) -> (f64, f64) {
        let (rtt, base) = (rtt.as_secs_f64(), self.base.as_secs_f64());
        ((cwnd * (rtt - base) / base).floor(), (cwnd * base / rtt).floor())
    }
}

/// What follows each round trip.
fn bound(window: &mut Window) {
    window.cwnd = window.cwnd.max(MINIMUM_WINDOW);
    window.ssthresh = window.ssthresh.max(THRESHOLD_LEAST * window.cwnd);
}

/// `start=vegas`: slow start that ends with more than `gamma` packets in the queue.
#[derive(Clone, Copy, Debug)]
pub struct VegasStart {
    mss: u32,
    gamma: f64,
    rounds: Rounds,
}

impl VegasStart {
    /// Slow start for packets of `env.mss` bytes.
    pub fn new(env: &Env, gamma: f64) -> Self {
        Self { mss: env.mss, gamma, rounds: Rounds::NEW }
    }
}

impl StartUp for VegasStart {
    fn observe(&mut self, ack: &Ack<'_>) {
        self.rounds.take(ack);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        if let Round::Measured(rtt) = self.rounds.round {
            let (queued, path) = self.rounds.queued(window.cwnd, rtt);
            if queued > self.gamma {
                window.cwnd = window.cwnd.min(path + 1.0).max(MINIMUM_WINDOW);
                window.ssthresh = window.ssthresh.min(window.cwnd);
                return;
            }
        }
        if ack.window_limited {
            window.open(ack.packets_of(self.mss));
        }
        if self.rounds.round != Round::On {
            bound(window);
        }
    }

    fn on_restart(&mut self, _restart: &Restart, _window: &mut Window) -> bool {
        self.rounds.forget();
        false
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
    }
}

/// Vegas's growth after the start-up, and Reno's reduction.
#[derive(Clone, Copy, Debug)]
pub struct Vegas {
    mss: u32,
    /// Fewer packets queued than this: grow.
    alpha: f64,
    /// More packets queued than this: shrink.
    beta: f64,
    rounds: Rounds,
    queued: f64,
}

impl Vegas {
    /// Keeps between `alpha` and `beta` packets queued; a smaller `beta` counts as `alpha`.
    pub fn new(env: &Env, alpha: f64, beta: f64) -> Self {
        Self { mss: env.mss, alpha, beta: beta.max(alpha), rounds: Rounds::NEW, queued: 0.0 }
    }
}

impl Policy for Vegas {
    fn observe(&mut self, ack: &Ack<'_>, _window: &Window) {
        self.rounds.take(ack);
    }

    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        match self.rounds.round {
            Round::On => return,
            Round::Few => window.cwnd += ack.packets_of(self.mss) / window.cwnd,
            Round::Measured(rtt) => {
                (self.queued, _) = self.rounds.queued(window.cwnd, rtt);
                if self.queued > self.beta {
                    window.cwnd -= 1.0;
                    window.ssthresh = window.ssthresh.min(window.cwnd);
                } else if self.queued < self.alpha {
                    window.cwnd += 1.0;
                }
            }
        }
        bound(window);
    }

    fn reduce(&mut self, _signal: Signal, _now: Time, window: &Window, _in_flight: f64) -> f64 {
        BETA * window.cwnd
    }

    fn on_restart(&mut self, _now: Time, _idle: Nanos) {
        self.rounds.forget();
    }

    fn on_mss(&mut self, mss: u32, _scale: f64) {
        self.mss = mss;
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("queued_packets", self.queued);
        if self.rounds.base < Nanos::MAX {
            report("base_rtt_ms", self.rounds.base.as_secs_f64() * 1e3);
        }
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let policy = Vegas::new(env, params.number("alpha"), params.number("beta"));
    Box::new(WindowController::new(env, start_up(params, env), policy))
}

const PACKETS: Kind = Kind::Number { min: 0.0, max: 1000.0 };
const LINUX: &str = "Linux tcp_vegas.c";

/// `start=vegas` in the list of start-ups.
pub const START_ENTRY: StartUpEntry = StartUpEntry {
    name: "vegas",
    summary: "slow start until the queue holds some packets of the flow",
    source: LINUX,
    params: &[Param { name: "gamma", unit: "packets queued", kind: PACKETS, default: "1", source: LINUX }],
    needs: &[],
    holds_against_marks: false,
    make: |params, env| Box::new(VegasStart::new(env, params.number("gamma"))),
};

/// `vegas` in the registry.
pub const ENTRY: Entry = Entry {
    name: "vegas",
    summary: "Vegas: keeps a few packets of its own in the queue",
    source: "Linux tcp_vegas.c, after Brakmo and Peterson, IEEE JSAC 13(8), 1995",
    statements: crate::statements::VEGAS,
    home: Home::Tcp,
    start: Some(any_start_up("vegas", LINUX)),
    params: &[
        Param { name: "alpha", unit: "packets queued", kind: PACKETS, default: "2", source: LINUX },
        Param { name: "beta", unit: "packets queued", kind: PACKETS, default: "4", source: LINUX },
    ],
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Spec;
    use crate::testing::{Feed, ack, packets};

    fn feed(spec: &str) -> Feed {
        Feed::new(spec.parse::<Spec>().unwrap().build(&Env::default()))
    }

    /// A flow past its start-up with this window.
    fn steady(window: f64) -> (Vegas, Window) {
        (Vegas::new(&Env::default(), 2.0, 4.0), Window { cwnd: window, ssthresh: window })
    }

    /// A round trip of `samples` acknowledgements, each of `rtt`: grows once with each.
    fn round(vegas: &mut Vegas, window: &mut Window, number: u64, rtt_ms: f64, samples: u32) {
        for index in 0..samples {
            let rtt = Nanos::from_secs_f64(rtt_ms / 1e3);
            let mut ack = ack(Time::from_millis(100 * number), rtt, 1);
            // The last acknowledgement of the round trip passes its end.
            (ack.una, ack.next) = (100 * number + u64::from(index + 1 == samples), 100 * (number + 1));
            vegas.observe(&ack, window);
            vegas.grow(&ack, window);
        }
    }

    #[test]
    fn it_grows_by_one_without_a_queue_and_stands_still_at_three_packets() {
        let (mut vegas, mut window) = steady(40.0);
        for number in 0..5 {
            round(&mut vegas, &mut window, number, 100.0, 10);
        }
        assert_eq!(window.cwnd, 45.0);
        // 45 (r - b) / b is 3 and something.
        for number in 5..=100_000 {
            round(&mut vegas, &mut window, number, 107.0, 3);
        }
        assert_eq!(window.cwnd, 45.0);
        // More than beta, so that the fifth packet counts and the fraction does not.
        for (number, rtt_ms, left) in [(100_001, 111.0, 45.0), (100_002, 112.0, 44.0)] {
            round(&mut vegas, &mut window, number, rtt_ms, 3);
            assert_eq!(window.cwnd, left, "{rtt_ms}");
        }
    }

    #[test]
    fn few_samples_are_renos_whatever_the_queue() {
        let (mut vegas, mut window) = steady(20.0);
        round(&mut vegas, &mut window, 0, 100.0, 3);
        let before = window.cwnd;
        for number in 1..11 {
            round(&mut vegas, &mut window, number, 130.0, 1);
        }
        assert!((0.4..0.5).contains(&(window.cwnd - before)), "ten acknowledgements of a packet: {}", window.cwnd);
        // Of a window each: a packet a round trip.
        let before = window.cwnd;
        for number in 11..21 {
            let packets = window.cwnd as u32;
            let mut ack = ack(Time::from_millis(100 * number), Nanos::from_millis(130), packets);
            (ack.una, ack.next) = (100 * number + 1, 100 * (number + 1));
            vegas.observe(&ack, &window);
            vegas.grow(&ack, &mut window);
        }
        assert!((9.5..=10.0).contains(&(window.cwnd - before)), "ten round trips: {}", window.cwnd);
    }

    #[test]
    fn a_longer_route_is_taken_for_a_queue_until_a_silence() {
        let (mut vegas, mut window) = steady(50.0);
        for number in 0..100 {
            round(&mut vegas, &mut window, number, if number == 0 { 40.0 } else { 80.0 }, 3);
        }
        assert!((2.0..=6.0).contains(&window.cwnd), "{}", window.cwnd);
        vegas.on_restart(Time::from_millis(20_000), Nanos::from_secs(1));
        let low = window.cwnd;
        for number in 100..110 {
            round(&mut vegas, &mut window, number, 80.0, 3);
        }
        assert_eq!(window.cwnd, low + 10.0);
    }

    #[test]
    fn its_start_up_ends_with_the_window_that_the_path_holds() {
        let mut feed = feed("vegas");
        for _ in 0..3 {
            feed.round();
        }
        assert_eq!(packets(feed.controller.as_ref()), 80);
        // A sixth of the window waits in the queue: two round trips later what the path holds, and a packet.
        feed.rtt = Nanos::from_millis(120);
        feed.round();
        feed.round();
        let window = packets(feed.controller.as_ref());
        assert!((100..=140).contains(&window), "{window}");
        assert_ne!(feed.controller.permit().threshold, u64::MAX);
        let mut other = self::feed("reno:start=vegas,gamma=50");
        other.round();
        other.rtt = Nanos::from_millis(120);
        other.round();
        assert_eq!(packets(other.controller.as_ref()), 40, "a queue of fewer packets than gamma");
    }

    #[test]
    fn losses_halve_and_a_repair_switches_it_off() {
        let mut feed = feed("vegas:start=slow");
        for _ in 0..2 {
            feed.round();
        }
        feed.lose_one();
        assert_eq!(packets(feed.controller.as_ref()), 20);
        feed.rtt = Nanos::from_millis(100);
        feed.round();
        feed.round();
        assert!((21..=22).contains(&packets(feed.controller.as_ref())));
    }
}
