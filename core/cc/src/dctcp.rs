//! DCTCP (RFC 8257), the sending half: the window shrinks by half the *share* of marked packets, so that a shallow
//! marking threshold holds the queue short without starving the link.
//!
//! The receiver echoes each packet's mark ([`Ecn::Exact`]); that machine belongs to the datapath.
//!
//! What differs from RFC 8257, as in Linux `tcp_dctcp.c`:
//! - alpha starts at 1 (the RFC leaves it open), so the first mark halves the window; at 0 with a start-up of chirps, which
//!   measures it.
//! - `arith=linux` counts alpha in 1/1024 and the window in whole packets, with Linux's rounding: below 16/1024
//!   alpha falls to zero at once, and a window shrinks by whole packets or not at all.
//! - `loss=alpha` answers a loss by alpha instead of halving, as Linux did before 5.1.

use crate::ability::Ability;
use crate::controller::{Ack, Controller, Ecn, Env};
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::start_ups::{any_start_up, start_up};
use crate::units::Time;
use crate::window::{Policy, Signal, Window, WindowController};

/// Linux's alpha of 1 (`DCTCP_MAX_ALPHA`).
const ALPHA_ONE: u64 = 1024;

/// How alpha is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Alpha {
    /// A share from 0 to 1, and the gain g of its average.
    Exact { alpha: f64, gain: f64 },
    /// Units of 1/1024, and g as a right shift.
    Linux { alpha: u64, shift: u32 },
}

impl Alpha {
    /// A real number that starts at `alpha` and is averaged with gain `gain` (both 0 to 1).
    pub(crate) fn exact(alpha: f64, gain: f64) -> Self {
        Self::Exact { alpha: alpha.clamp(0.0, 1.0), gain: gain.clamp(0.0, 1.0) }
    }

    /// Takes the share of marks in one window of data: `marked` of `acked`, in any one unit.
    pub(crate) fn update(&mut self, marked: u64, acked: u64) {
        match self {
            // RFC 8257 section 3.3, step 5.
            Self::Exact { alpha, gain } => {
                let share = marked.min(acked) as f64 / acked.max(1) as f64;
                *alpha = ((1.0 - *gain) * *alpha + *gain * share).clamp(0.0, 1.0);
            }
            // tcp_dctcp.c, dctcp_update_alpha.
            Self::Linux { alpha, shift } => {
                let decay = *alpha >> *shift;
                *alpha -= if decay == 0 { *alpha } else { decay };
                let gain = (u128::from(marked) * u128::from(ALPHA_ONE >> *shift) / u128::from(acked.max(1))) as u64;
                *alpha = (*alpha).saturating_add(gain).min(ALPHA_ONE);
            }
        }
    }

    /// The window after a reduction by alpha (RFC 8257 section 3.3, step 9; tcp_dctcp.c, dctcp_ssthresh).
    pub(crate) fn reduced(&self, cwnd: f64) -> f64 {
        match self {
            Self::Exact { alpha, .. } => cwnd * (1.0 - alpha / 2.0),
            Self::Linux { alpha, .. } => {
                let cwnd = cwnd as u64;
                (cwnd - (u128::from(cwnd) * u128::from(*alpha) / u128::from(2 * ALPHA_ONE)) as u64) as f64
            }
        }
    }

    /// As a share from 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        match self {
            Self::Exact { alpha, .. } => *alpha,
            Self::Linux { alpha, .. } => *alpha as f64 / ALPHA_ONE as f64,
        }
    }
}

/// DCTCP's growth and reduction.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    mss: u32,
    alpha: Alpha,
    /// A loss halves whatever alpha is.
    halve: bool,
    /// End of the window of data under observation.
    window_end: u64,
    acked: u64,
    marked: u64,
}

impl Dctcp {
    /// DCTCP with alpha as a real number that starts at `alpha` and is averaged with gain `gain` (both 0 to 1).
    pub fn new(env: &Env, alpha: f64, gain: f64) -> Self {
        Self { mss: env.mss, alpha: Alpha::exact(alpha, gain), halve: true, window_end: 0, acked: 0, marked: 0 }
    }

    /// The same in Linux's integers; the gain becomes the nearest power of two, at least 1/1024.
    pub fn linux(self) -> Self {
        let Alpha::Exact { alpha, gain } = self.alpha else { return self };
        let shift = libm::round(-libm::log2(gain)).clamp(0.0, 10.0) as u32;
        Self { alpha: Alpha::Linux { alpha: (alpha * ALPHA_ONE as f64) as u64, shift }, ..self }
    }

    /// The same, but a loss is answered by alpha.
    pub fn alpha_for_loss(self) -> Self {
        Self { halve: false, ..self }
    }
}

impl Policy for Dctcp {
    fn observe(&mut self, ack: &Ack<'_>, _window: &Window) {
        self.acked = self.acked.saturating_add(ack.bytes);
        self.marked = self.marked.saturating_add(ack.ce_bytes);
        if ack.una >= self.window_end && self.acked > 0 {
            self.alpha.update(self.marked, self.acked);
            self.acked = 0;
            self.marked = 0;
            self.window_end = ack.next;
        }
    }

    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        window.cwnd += ack.packets_of(self.mss) / window.cwnd;
    }

    fn reduce(&mut self, signal: Signal, _now: Time, window: &Window, _in_flight: f64) -> f64 {
        match signal {
            Signal::Loss | Signal::Timeout if self.halve => window.cwnd / 2.0,
            Signal::Loss | Signal::Timeout | Signal::Ecn => self.alpha.reduced(window.cwnd),
        }
    }

    fn on_mss(&mut self, mss: u32, _scale: f64) {
        self.mss = mss;
    }

    fn ecn(&self) -> Ecn {
        Ecn::Exact
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("alpha", self.alpha.share());
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let mut policy = Dctcp::new(env, params.number("alpha"), params.number("g"));
    if params.word("arith") == "linux" {
        policy = policy.linux();
    }
    if params.word("loss") == "alpha" {
        policy = policy.alpha_for_loss();
    }
    Box::new(WindowController::new(env, start_up(params, env), policy))
}

/// `dctcp` in the registry.
pub const ENTRY: Entry = Entry {
    name: "dctcp",
    summary: "DCTCP: shrinks by half the share of marked packets; for paths that mark at a shallow step",
    source: "RFC 8257, Linux tcp_dctcp.c",
    statements: crate::statements::DCTCP,
    home: Home::Tcp,
    start: Some(any_start_up("slow", "RFC 8257 section 3.3 keeps RFC 5681").measuring(&[("alpha", "0")])),
    params: &[
        Param {
            name: "alpha",
            unit: "share, at the start",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            default: "1",
            source: "Linux dctcp_alpha_on_init; 0 with a start-up of chirps, which measures it",
        },
        Param {
            name: "g",
            unit: "gain of alpha's average",
            kind: Kind::Number { min: 1.0 / 1024.0, max: 1.0 },
            default: "0.0625",
            source: "RFC 8257 section 4.2",
        },
        Param {
            name: "arith",
            unit: "arithmetic",
            kind: Kind::Choice(&["exact", "linux"]),
            default: "exact",
            source: "our choice: RFC 8257 has real numbers",
        },
        Param {
            name: "loss",
            unit: "answer to a loss",
            kind: Kind::Choice(&["halve", "alpha"]),
            default: "halve",
            source: "RFC 8257 section 3.5; alpha: Linux before 5.1",
        },
    ],
    needs: &[Ability::ExactMarks],
    make: &make,
    receiver: None,
    lower: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Feed, ack, packets};
    use crate::units::Nanos;
    use crate::window::SlowStart;

    fn policy(alpha: f64) -> Dctcp {
        Dctcp::new(&Env::default(), alpha, 1.0 / 16.0)
    }

    fn at(cwnd: f64) -> Window {
        Window { cwnd, ssthresh: cwnd }
    }

    fn after(mut dctcp: Dctcp, updates: u32, marked: u64) -> f64 {
        for _ in 0..updates {
            dctcp.alpha.update(marked, 10);
        }
        dctcp.alpha.share()
    }

    #[test]
    fn alpha_follows_the_marked_share() {
        assert!((after(policy(0.0), 1, 10) - 0.0625).abs() < 1e-12);
        assert!((after(policy(0.0), 16, 10) - 0.644).abs() < 5e-4);
        assert!((after(policy(1.0), 16, 0) - 0.356).abs() < 5e-4);
    }

    #[test]
    fn the_answer_to_a_handshake_is_no_window_of_data() {
        let mut dctcp = policy(1.0);
        let answer = Ack { packets: &[], bytes: 0, una: 0, next: 0, ..ack(Time::ZERO, Nanos::from_millis(15), 1) };
        dctcp.observe(&answer, &at(10.0));
        assert_eq!(dctcp.alpha.share(), 1.0);
    }

    #[test]
    fn linux_alpha_decays_to_zero_and_reaches_one() {
        let mut dctcp = policy(1.0).linux();
        let mut seen = Vec::new();
        for _ in 0..200 {
            dctcp.alpha.update(0, 10);
            seen.push((dctcp.alpha.share() * 1024.0) as u64);
        }
        assert_eq!(seen[..4], [960, 900, 844, 792]);
        assert_eq!(seen.last(), Some(&0));
        assert!(seen.iter().all(|alpha| *alpha == 0 || *alpha >= 15), "{seen:?}");
        assert_eq!(after(policy(0.0).linux(), 1, 10), 0.0625);
        // 1024 less its sixteenth is 960, and 64 more is 1024 again.
        assert_eq!(after(policy(1.0).linux(), 5, 10), 1.0);
    }

    #[test]
    fn alpha_is_updated_once_a_window_of_data() {
        let mut dctcp = policy(0.0);
        let mut ack = ack(Time::ZERO, Nanos::from_millis(10), 1);
        (ack.una, ack.next, ack.ce_bytes) = (1448, 14_480, ack.bytes);
        dctcp.observe(&ack, &at(10.0));
        assert_eq!(dctcp.alpha.share(), 0.0625);
        for packet in 2..10 {
            (ack.una, ack.ce_bytes) = (packet * 1448, 0);
            dctcp.observe(&ack, &at(10.0));
            assert_eq!(dctcp.alpha.share(), 0.0625);
        }
        (ack.una, ack.ce_bytes) = (14_480, ack.bytes);
        dctcp.observe(&ack, &at(10.0));
        // One marked packet of nine.
        assert!((dctcp.alpha.share() - (0.0625 * 15.0 / 16.0 + 1.0 / 144.0)).abs() < 1e-12);
    }

    #[test]
    fn reduction_is_half_of_alpha() {
        let mark = |mut dctcp: Dctcp, cwnd| dctcp.reduce(Signal::Ecn, Time::ZERO, &at(cwnd), cwnd);
        for (alpha, cwnd, want) in
            [(0.5, 100.0, 75.0), (1.0, 100.0, 50.0), (1.0 / 1024.0, 100.0, 100.0), (1.0, 3.0, 2.0)]
        {
            assert_eq!(mark(policy(alpha).linux(), cwnd), want, "alpha {alpha}, window {cwnd}");
        }
        assert_eq!(mark(policy(0.5), 100.0), 75.0);
        assert_eq!(mark(policy(1.0), 3.0), 1.5);
    }

    #[test]
    fn loss_halves_whatever_alpha_is() {
        for signal in [Signal::Loss, Signal::Timeout] {
            for dctcp in [policy(0.0), policy(0.0).linux(), policy(1.0)] {
                assert_eq!({ dctcp }.reduce(signal, Time::ZERO, &at(100.0), 100.0), 50.0);
            }
            assert_eq!(policy(0.5).alpha_for_loss().reduce(signal, Time::ZERO, &at(100.0), 100.0), 75.0);
        }
    }

    #[test]
    fn one_reduction_a_round_trip_when_every_packet_is_marked() {
        let env = Env::default();
        let start = Box::new(SlowStart::new(&env));
        let mut feed = Feed::new(Box::new(WindowController::new(&env, start, policy(1.0))));
        for _ in 0..4 {
            feed.round();
        }
        feed.mark_every = 1;
        let mut before = packets(feed.controller.as_ref());
        assert_eq!(before, 160);
        // The four rounds without a mark, and a first acknowledgement, have brought alpha to (15/16)^5 = 0.724; the
        // window that ends with the first marked packet adds 1/16 of its share, a 160th here.
        for _ in 0..3 {
            feed.round();
            let now = packets(feed.controller.as_ref());
            assert!(now >= before / 2 && now < before * 7 / 10, "{before} to {now}");
            before = now;
        }
    }
}
