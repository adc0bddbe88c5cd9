//! TCP Prague: DCTCP's answer to marks for the open internet, at a rate that does not depend on short RTTs.
//!
//! Sources: draft-briscoe-iccrg-prague-congestion-control; `tcp_prague.c` of the L4S team's Linux branch. Packets are
//! ECT(1) ([`Ecn::L4s`]); that each packet's mark comes back (accurate ECN) belongs to the datapath.
//!
//! What differs from the Linux branch:
//! - Alpha and the window are real numbers where Linux has fixed point with 20 fractional bits or more.
//! - Alpha is averaged over the target RTT at least from the first mark on, not only once the growth has become
//!   independent of the RTT: one rule for alpha and for the reduction.
//! - After a start-up of chirps, which answers no marks, alpha is the mean of all shares of marks since the first packet, until the
//!   average weighs each less, and the start-up's round trips count as those of the transition: the flow would be the last to
//!   give up the faster growth otherwise, and keep what it gains by that (our choice; Linux has no such start-up).
//! - Bursts are the datapath's: Linux holds them to 0.25 ms at the pacing rate.
//! - There is no fallback to a classic answer (off in Linux).

use crate::ability::Ability;
use crate::controller::{Ack, Controller, Ecn, Env, Pacing, Phase};
use crate::dctcp::Alpha;
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::start_ups::{any_start_up, start_up};
use crate::units::{Nanos, Rate, Time};
use crate::window::{Policy, Signal, Window, WindowController};

/// Pace of congestion avoidance, in windows a round trip (Linux `tcp_pacing_ca_ratio`, which Prague sets to 100 %).
const PACE: u64 = 1;
/// Pace while the window is below half the slow-start threshold (Linux `tcp_pacing_ss_ratio`).
const SLOW_START_PACE: u64 = 2;

/// TCP Prague's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Alpha at the start, 0 to 1.
    pub alpha: f64,
    /// Gain of alpha's average, 0 to 1.
    pub gain: f64,
    /// RTT as which shorter ones behave. Zero leaves the rate to depend on the RTT.
    pub target: Nanos,
    /// Round trips after the start-up until growth is independent of the RTT.
    pub transition: u64,
    /// The start-up answers no marks: alpha is measured from its first packet on, and its round trips are of the transition.
    pub measured: bool,
}

impl Default for Settings {
    /// Linux `tcp_prague.c`.
    fn default() -> Self {
        Self { alpha: 1.0, gain: 1.0 / 16.0, target: Nanos::from_millis(25), transition: 500, measured: false }
    }
}

/// TCP Prague's growth and reduction.
#[derive(Clone, Copy, Debug)]
pub struct Prague {
    settings: Settings,
    mss: u32,
    alpha: Alpha,
    srtt: Nanos,
    /// What alpha learns from; nothing before the first mark, unless it is measured from the start.
    window: Option<Observed>,
    /// Shares of marks that alpha has learnt from, where it is measured from the start.
    shares: u32,
    reduced_at: Option<Time>,
    /// End of the present round trip.
    round_end: u64,
    /// Round trips since the start-up, or since the start.
    rounds: u64,
}

/// Marks over a round trip, or over the target RTT where that is longer.
#[derive(Clone, Copy, Debug)]
struct Observed {
    since: Time,
    /// [`Ack::next`] at its start.
    end: u64,
    acked: u64,
    marked: u64,
}

impl Observed {
    fn new(ack: &Ack<'_>) -> Self {
        Self { since: ack.now, end: ack.next, acked: 0, marked: 0 }
    }
}

impl Prague {
    /// TCP Prague for packets of `env.mss` bytes.
    pub fn new(env: &Env, settings: Settings) -> Self {
        Self {
            settings,
            mss: env.mss,
            alpha: Alpha::exact(settings.alpha, settings.gain),
            srtt: Nanos::ZERO,
            window: None,
            shares: 0,
            reduced_at: None,
            round_end: 0,
            rounds: 0,
        }
    }

    /// Growth of a round trip in packets: one, or less on a short path, so that the *rate* grows as at the target RTT.
    fn growth(&self) -> f64 {
        if self.rounds < self.settings.transition || self.srtt >= self.settings.target {
            return 1.0;
        }
        let ratio = self.srtt.as_secs_f64() / self.settings.target.as_secs_f64();
        ratio * ratio
    }
}

impl Policy for Prague {
    fn observe(&mut self, ack: &Ack<'_>, window: &Window) {
        self.srtt = ack.srtt;
        if window.starting() && !self.settings.measured {
            self.rounds = 0;
            self.round_end = ack.next;
        } else if ack.una >= self.round_end {
            self.rounds += 1;
            self.round_end = ack.next;
        }
        if self.window.is_none() && ack.ce_bytes == 0 && !self.settings.measured {
            return;
        }
        let observed = self.window.get_or_insert_with(|| Observed::new(ack));
        observed.acked = observed.acked.saturating_add(ack.bytes);
        observed.marked = observed.marked.saturating_add(ack.ce_bytes);
        let long = ack.now - observed.since >= self.settings.target;
        if long && ack.una >= observed.end && ack.now > observed.since {
            if self.settings.measured {
                // The mean of the shares so far, until the average weighs each less.
                self.shares = self.shares.saturating_add(1);
                let gain = self.settings.gain.max(1.0 / f64::from(self.shares));
                self.alpha = Alpha::exact(self.alpha.share(), gain);
            }
            self.alpha.update(observed.marked, observed.acked);
            *observed = Observed::new(ack);
        }
    }

    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let unmarked = ack.bytes.saturating_sub(ack.ce_bytes) as f64 / f64::from(self.mss);
        window.cwnd += unmarked / window.cwnd * self.growth();
    }

    fn limit(&self, _window: &Window, max_flight: f64) -> f64 {
        max_flight + self.growth()
    }

    fn reduce(&mut self, signal: Signal, now: Time, window: &Window, _in_flight: f64) -> f64 {
        self.reduced_at = Some(now);
        match signal {
            Signal::Loss | Signal::Timeout => window.cwnd / 2.0,
            Signal::Ecn => self.alpha.reduced(window.cwnd),
        }
    }

    /// Once in an RTT or the target RTT, the longer of the two; losses that are being repaired have been answered.
    fn answers(&self, ack: &Ack<'_>) -> bool {
        let marked = ack.echo || (ack.ce_bytes > 0 && matches!(ack.phase, Phase::Open | Phase::Cwr));
        marked && self.reduced_at.is_none_or(|at| ack.now - at >= self.srtt.max(self.settings.target))
    }

    fn grows_while_reducing(&self) -> bool {
        true
    }

    fn pacing(&self, window: &Window, srtt: Nanos) -> Pacing {
        if srtt == Nanos::ZERO {
            return Pacing::Free;
        }
        let pace = if window.cwnd < window.ssthresh / 2.0 { SLOW_START_PACE } else { PACE };
        let bytes = (window.cwnd.max(1.0) * f64::from(self.mss)) as u64;
        // A rate of zero would never end.
        Pacing::Rate(Rate::from_bytes_in(bytes.saturating_mul(pace), srtt).max(Rate::from_bytes_per_sec(1)))
    }

    fn on_mss(&mut self, mss: u32, _scale: f64) {
        self.mss = mss;
    }

    fn ecn(&self) -> Ecn {
        Ecn::L4s
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("alpha", self.alpha.share());
        report("growth_packets", self.growth());
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let start = start_up(params, &Env { paced: true, ..*env });
    let settings = Settings {
        alpha: params.number("alpha"),
        gain: params.number("g"),
        target: Nanos::from_millis_f64(params.number("target")),
        transition: params.number("transition") as u64,
        measured: start.holds_against_marks() && params.number("alpha") == 0.0,
    };
    Box::new(WindowController::new(env, start, Prague::new(env, settings)))
}

/// `prague` in the registry.
pub const ENTRY: Entry = Entry {
    name: "prague",
    summary: "TCP Prague: DCTCP's answer to marks over L4S paths, as fast on short paths as on longer ones",
    source: "draft-briscoe-iccrg-prague-congestion-control, Linux tcp_prague.c",
    statements: crate::statements::PRAGUE,
    home: Home::Tcp,
    start: Some(any_start_up("slow", "Linux tcp_prague.c").measuring(&[("alpha", "0")])),
    params: &[
        Param {
            name: "alpha",
            unit: "share, at the start",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            default: "1",
            source: "Linux tcp_prague.c: PRAGUE_MAX_ALPHA; 0 with a start-up of chirps, which measures it",
        },
        Param {
            name: "g",
            unit: "gain of alpha's average",
            kind: Kind::Number { min: 1.0 / 1024.0, max: 1.0 },
            default: "0.0625",
            source: "Linux tcp_prague.c: PRAGUE_SHIFT_G",
        },
        Param {
            name: "target",
            unit: "ms, the RTT as which shorter ones behave",
            kind: Kind::Number { min: 0.0, max: 1000.0 },
            default: "25",
            source: "Linux prague_rtt_target",
        },
        Param {
            name: "transition",
            unit: "round trips until growth is independent of the RTT",
            kind: Kind::Number { min: 0.0, max: 1e6 },
            default: "500",
            source: "Linux prague_rtt_transition",
        },
    ],
    needs: &[Ability::ExactMarks, Ability::Ect1],
    make: &make,
    receiver: None,
    lower: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, fill, open};
    use crate::window::SlowStart;

    const MSS: u64 = 1448;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    /// Prague outside its start-up, at a window of 100 packets.
    fn flow(settings: Settings) -> WindowController<Prague> {
        let env = Env::default();
        let mut flow = WindowController::new(&env, Box::new(SlowStart::new(&env)), Prague::new(&env, settings));
        let (rtt, now) = (ms(10), Time::ZERO);
        open(&mut flow, now, rtt, 200);
        flow.on_ack(&marked(now, rtt, true));
        assert_eq!(flow.state(), Window { cwnd: 100.0, ssthresh: 100.0 });
        fill(&mut flow, now);
        flow
    }

    /// One packet, marked, everything before it delivered.
    fn marked(now: Time, rtt: Nanos, echo: bool) -> Ack<'static> {
        let phase = if echo { Phase::Open } else { Phase::Cwr };
        Ack { ce_bytes: MSS, ce_packets: 1, echo, phase, ..ack(now, rtt, 1) }
    }

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn the_first_mark_halves_and_alpha_learns_from_then_on() {
        let mut flow = flow(Settings::default());
        // Before it no window of data counted.
        assert_eq!(flow.policy().alpha.share(), 1.0);
        // One round trip of 10 ms is not enough, 25 ms are: one marked of 1 + 8 + 7 packets.
        flow.on_ack(&ack(at(10), ms(10), 8));
        assert_eq!(flow.policy().alpha.share(), 1.0);
        flow.on_ack(&ack(at(25), ms(10), 7));
        assert!((flow.policy().alpha.share() - (15.0 / 16.0 + 1.0 / 256.0)).abs() < 1e-12);
    }

    #[test]
    fn a_start_up_that_answers_no_marks_measures_alpha_from_its_first_packet_on() {
        let env = Env::default();
        let starting = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let growths = [false, true].map(|measured| {
            let settings = Settings { alpha: 0.0, transition: 3, measured, ..Settings::default() };
            let mut prague = Prague::new(&env, settings);
            // Shares of 0, 1/2 and 0: their mean.
            for (millis, marked) in [(0, 0), (25, 0), (50, 5), (75, 0)] {
                let ack = Ack { ce_bytes: u64::from(marked) * MSS, ce_packets: marked, ..ack(at(millis), ms(10), 10) };
                prague.observe(&ack, &starting);
            }
            if measured {
                assert!((prague.alpha.share() - 1.0 / 6.0).abs() < 1e-12, "{}", prague.alpha.share());
            }
            prague.growth()
        });
        // The round trips of the start-up count.
        assert_eq!(growths[0], 1.0);
        assert!((growths[1] - 0.16).abs() < 1e-12, "{growths:?}");
    }

    #[test]
    fn one_reduction_in_an_rtt_or_the_target() {
        for (rtt, early, due) in [(10, 24, 25), (40, 39, 40)] {
            let mut flow = flow(Settings { gain: 0.0, ..Settings::default() });
            flow.on_ack(&marked(at(early), ms(rtt), true));
            assert_eq!(flow.state().cwnd, 100.0, "RTT {rtt} ms: too early");
            flow.on_ack(&marked(at(due), ms(rtt), false));
            assert_eq!(flow.state().cwnd, 50.0, "RTT {rtt} ms: due");
        }
    }

    #[test]
    fn unmarked_packets_grow_the_window_also_while_reducing() {
        let mut flow = flow(Settings::default());
        let half = Ack { ce_bytes: 5 * MSS, ce_packets: 5, phase: Phase::Cwr, ..ack(at(5), ms(10), 10) };
        flow.on_ack(&half);
        assert!((flow.state().cwnd - 100.05).abs() < 1e-12, "{:?}", flow.state());
        flow.on_ack(&Ack { phase: Phase::Recovery, ..ack(at(6), ms(10), 10) });
        assert!((flow.state().cwnd - 100.05).abs() < 1e-12, "not in recovery");
    }

    #[test]
    fn the_reduction_keeps_a_fraction() {
        let env = Env::default();
        let mut prague = Prague::new(&env, Settings { alpha: 0.25, ..Settings::default() });
        let window = Window { cwnd: 10.0, ssthresh: 10.0 };
        assert_eq!(prague.reduce(Signal::Ecn, at(1), &window, 10.0), 8.75);
        for signal in [Signal::Loss, Signal::Timeout] {
            assert_eq!(prague.reduce(signal, at(1), &window, 10.0), 5.0);
        }
    }

    #[test]
    fn growth_turns_independent_of_the_rtt_after_the_transition() {
        let mut flow = flow(Settings { transition: 3, ..Settings::default() });
        let mut next = |rtt| {
            let before = flow.state().cwnd;
            fill(&mut flow, at(20));
            flow.on_ack(&ack(at(20), ms(rtt), 10));
            (flow.state().cwnd - before) * before / 10.0
        };
        // The end of the start-up begins the first round trip; each acknowledgement here ends one.
        let grown = [10, 10, 10, 10, 5, 30].map(&mut next);
        let want = [1.0, 1.0, 0.16, 0.16, 0.04, 1.0];
        for (grown, want) in grown.iter().zip(want) {
            assert!((grown - want).abs() < 1e-9, "{grown} packets a round trip, not {want}");
        }
    }

    #[test]
    fn paces_at_the_window_and_twice_that_in_slow_start() {
        let prague = Prague::new(&Env::default(), Settings::default());
        let pace = |cwnd, ssthresh| prague.pacing(&Window { cwnd, ssthresh }, ms(10));
        let rate = |packets: u64| Pacing::Rate(Rate::from_bytes_per_sec(packets * MSS * 100));
        assert_eq!(pace(20.0, f64::INFINITY), rate(40));
        assert_eq!(pace(20.0, 41.0), rate(40));
        assert_eq!(pace(20.0, 40.0), rate(20));
        assert_eq!(pace(20.0, 10.0), rate(20));
        assert_eq!(prague.pacing(&Window { cwnd: 20.0, ssthresh: 10.0 }, Nanos::ZERO), Pacing::Free);
    }
}
