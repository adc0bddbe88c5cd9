//! BIC (Xu, Harfoush, Rhee, "Binary Increase Congestion Control for Fast Long-Distance Networks", INFOCOM 2004), as in Linux
//! tcp_bic.c: after a reduction the window goes a part of the way back to where it was each round trip, never faster than linearly,
//! then probes beyond, slowly at first. Linux's default before CUBIC.
//!
//! | here | Linux | the paper |
//! |---|---|---|
//! | `w_max` | last_max_cwnd, after fast convergence | max_win |
//! | `max_increment` | max_increment | S_max |
//! | `PART` | BICTCP_B | 2: the paper searches by halves |
//!
//! What differs from Linux:
//! - Windows are real numbers, and the growth is looked up at each acknowledgement, by packets acknowledged: Linux counts
//!   acknowledgements, corrects for delayed ones by an estimate (`delayed_ack`), and looks at most once in 1/32 s while the window
//!   stands still.
//! - ECN, which is Linux's for every congestion control, is off unless asked for.

use crate::controller::{Ack, Controller, Ecn, Env};
use crate::entry::{CLASSIC_ECN, Entry, Home, Kind, ON_OFF, Param, Params, classic_ecn};
use crate::start_ups::{any_start_up, start_up};
use crate::units::Time;
use crate::window::{Policy, Signal, Window, WindowController};

/// A round trip takes a fourth of the way to the maximum (Linux: BICTCP_B).
const PART: f64 = 4.0;
/// Packets a round trip from which on the way counts as found: the search then becomes slow (Linux: dist <= 1).
const FOUND: f64 = 1.0;
/// Least growth in a round trip until the first loss, as a share of the window (Linux: cnt <= 20).
const OPENING: f64 = 0.05;
/// Share of the window that is kept while it is low: Reno's (Linux: snd_cwnd >> 1).
const LOW_BETA: f64 = 0.5;

/// BIC's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most packets a round trip.
    pub max_increment: f64,
    /// Up to this window, in packets, it is Reno.
    pub low_window: f64,
    /// The factor of a reduction.
    pub beta: f64,
    /// Round trips for `PART` packets around the maximum.
    pub smooth_part: f64,
    /// Give way to newcomers: aim below the last maximum when it was below the one before.
    pub fast_convergence: bool,
    /// Use of ECN.
    pub ecn: Ecn,
}

impl Default for Settings {
    /// Linux tcp_bic.c.
    fn default() -> Self {
        Self {
            max_increment: 16.0,
            low_window: 14.0,
            beta: 819.0 / 1024.0,
            smooth_part: 20.0,
            fast_convergence: true,
            ecn: Ecn::Off,
        }
    }
}

/// BIC's growth and reduction.
#[derive(Clone, Copy, Debug)]
pub struct Bic {
    settings: Settings,
    mss: u32,
    /// Zero before the first loss and after a timeout.
    w_max: f64,
    /// The same before the last reduction, for undo.
    before: f64,
}

impl Bic {
    /// BIC for packets of `env.mss` bytes.
    pub fn new(env: &Env, settings: Settings) -> Self {
        Self { settings, mss: env.mss, w_max: 0.0, before: 0.0 }
    }

    /// Packets by which the window grows in a round trip (`bictcp_update`: the window over `cnt`).
    fn increment(&self, cwnd: f64) -> f64 {
        let Settings { max_increment, low_window, smooth_part, .. } = self.settings;
        if cwnd <= low_window {
            return 1.0;
        }
        let slowly = PART / smooth_part;
        let grown = if cwnd < self.w_max {
            let part = (self.w_max - cwnd) / PART;
            if part > max_increment {
                max_increment
            } else if part <= FOUND {
                slowly
            } else {
                part
            }
        } else if cwnd < self.w_max + PART {
            slowly
        } else if cwnd < self.w_max + max_increment * (PART - 1.0) {
            (cwnd - self.w_max) / (PART - 1.0)
        } else {
            max_increment
        };
        if self.w_max > 0.0 { grown } else { grown.max(OPENING * cwnd) }
    }
}

impl Policy for Bic {
    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let cwnd = window.cwnd;
        // At most a packet for a packet (Linux: cnt >= 1).
        window.cwnd += ack.packets_of(self.mss) * (self.increment(cwnd) / cwnd).min(1.0);
    }

    fn limit(&self, _window: &Window, max_flight: f64) -> f64 {
        let opening = if self.w_max > 0.0 { 0.0 } else { OPENING * max_flight };
        max_flight + self.settings.max_increment.max(opening).min(max_flight)
    }

    /// As in Linux the window is taken and not the flight, which recovery may have thinned out.
    fn reduce(&mut self, signal: Signal, _now: Time, window: &Window, _in_flight: f64) -> f64 {
        let Settings { beta, low_window, fast_convergence, .. } = self.settings;
        let cwnd = window.cwnd;
        self.before = self.w_max;
        self.w_max = match signal {
            // `bictcp_state`: everything is forgotten.
            Signal::Timeout => 0.0,
            Signal::Loss | Signal::Ecn if fast_convergence && cwnd < self.w_max => cwnd * (1.0 + beta) / 2.0,
            Signal::Loss | Signal::Ecn => cwnd,
        };
        if cwnd <= low_window { LOW_BETA * cwnd } else { beta * cwnd }
    }

    fn undo(&mut self) {
        self.w_max = self.before;
    }

    fn on_mss(&mut self, mss: u32, scale: f64) {
        self.mss = mss;
        self.w_max *= scale;
        self.before *= scale;
    }

    fn ecn(&self) -> Ecn {
        self.settings.ecn
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("w_max_packets", self.w_max);
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let settings = Settings {
        max_increment: params.number("max_increment"),
        low_window: params.number("low_window"),
        beta: params.number("beta"),
        smooth_part: params.number("smooth_part"),
        fast_convergence: params.on("fast_convergence"),
        ecn: classic_ecn(params),
    };
    Box::new(WindowController::new(env, start_up(params, env), Bic::new(env, settings)))
}

/// `bic` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bic",
    summary: "BIC: back to the last maximum by search, then beyond it; Linux's default before CUBIC",
    source: "Xu et al. 2004, Linux tcp_bic.c",
    statements: crate::statements::BIC,
    home: Home::Tcp,
    start: Some(any_start_up("slow", "Linux tcp_bic.c")),
    params: &[
        Param {
            name: "max_increment",
            unit: "packets a round trip",
            kind: Kind::Number { min: 1.0, max: 1000.0 },
            default: "16",
            source: "Linux tcp_bic.c",
        },
        Param {
            name: "low_window",
            unit: "packets",
            kind: Kind::Number { min: 0.0, max: 10_000.0 },
            default: "14",
            source: "Linux tcp_bic.c",
        },
        Param {
            name: "beta",
            unit: "share kept on a reduction",
            kind: Kind::Number { min: 0.1, max: 0.95 },
            default: "0.7998046875",
            source: "Linux tcp_bic.c: 819/1024",
        },
        Param {
            name: "smooth_part",
            unit: "round trips for 4 packets around the maximum",
            kind: Kind::Number { min: 4.0, max: 1000.0 },
            default: "20",
            source: "Linux tcp_bic.c",
        },
        Param { name: "fast_convergence", unit: "switch", kind: ON_OFF, default: "on", source: "Linux tcp_bic.c" },
        CLASSIC_ECN,
    ],
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ack;
    use crate::units::Nanos;

    const RTT: Nanos = Nanos::from_millis(10);

    fn bic(w_max: f64) -> Bic {
        Bic { w_max, ..Bic::new(&Env::default(), Settings::default()) }
    }

    fn reduce(bic: &mut Bic, signal: Signal, cwnd: f64) -> f64 {
        bic.reduce(signal, Time::ZERO, &Window { cwnd, ssthresh: cwnd }, cwnd)
    }

    #[test]
    fn the_growth_of_a_round_trip_is_linuxs() {
        let bic = bic(200.0);
        // cwnd over cnt of bictcp_update, worked by hand: below the low window, linear, a fourth of the way, around the maximum, slow
        // start beyond it, linear again.
        for (cwnd, want) in [
            (14.0, 1.0),
            (15.0, 16.0),
            (135.0, 16.0),
            (140.0, 15.0),
            (192.0, 2.0),
            (196.5, 0.2),
            (200.0, 0.2),
            (203.0, 0.2),
            (206.0, 2.0),
            (247.0, 47.0 / 3.0),
            (248.0, 16.0),
            (1000.0, 16.0),
        ] {
            assert!((bic.increment(cwnd) - want).abs() < 1e-9, "{cwnd}: {} not {want}", bic.increment(cwnd));
        }
    }

    #[test]
    fn until_the_first_loss_it_opens_by_a_twentieth_at_least() {
        let bic = bic(0.0);
        assert!((bic.increment(1000.0) - 50.0).abs() < 1e-9 && (bic.increment(100.0) - 16.0).abs() < 1e-9);
        assert!((bic.increment(10.0) - 1.0).abs() < 1e-9, "below the low window it is Reno");
    }

    #[test]
    fn the_window_comes_back_to_the_maximum_and_stays_there_a_while() {
        let mut bic = bic(0.0);
        let target = reduce(&mut bic, Signal::Loss, 100.0);
        let mut window = Window { cwnd: target, ssthresh: target };
        assert!((target - 79.98).abs() < 0.01, "{target}");
        let mut rounds = Vec::new();
        for _ in 0..60 {
            for _ in 0..window.cwnd as u32 {
                bic.grow(&ack(Time::ZERO, RTT, 1), &mut window);
            }
            rounds.push(window.cwnd);
        }
        // (3/4)^n of 20 packets are left: 4 after six round trips; then 0.2 a round trip.
        let near = rounds.iter().position(|cwnd| *cwnd > 96.0).unwrap();
        assert!((5..=7).contains(&near), "{near}: {rounds:?}");
        let past = rounds.iter().position(|cwnd| *cwnd > 104.0).unwrap();
        assert!((30..=50).contains(&(past - near)), "{past}: {rounds:?}");
        assert!(rounds.is_sorted() && rounds.windows(2).all(|pair| pair[1] - pair[0] <= 16.0));
    }

    #[test]
    fn fast_convergence_gives_way_and_a_time_out_forgets() {
        let mut bic = bic(0.0);
        reduce(&mut bic, Signal::Loss, 100.0);
        assert_eq!(bic.w_max, 100.0);
        reduce(&mut bic, Signal::Loss, 80.0);
        assert!((bic.w_max - 80.0 * (1.0 + 819.0 / 1024.0) / 2.0).abs() < 1e-9);
        bic.undo();
        assert_eq!(bic.w_max, 100.0);
        bic.settings.fast_convergence = false;
        reduce(&mut bic, Signal::Loss, 80.0);
        assert_eq!(bic.w_max, 80.0);
        reduce(&mut bic, Signal::Timeout, 80.0);
        assert_eq!(bic.w_max, 0.0);
        assert_eq!(reduce(&mut bic, Signal::Loss, 10.0), 5.0, "a low window is halved");
    }

    #[test]
    fn a_packet_adds_a_packet_at_most() {
        let mut bic = bic(1000.0);
        bic.settings.low_window = 0.0;
        let mut window = Window { cwnd: 2.0, ssthresh: 2.0 };
        bic.grow(&ack(Time::ZERO, RTT, 1), &mut window);
        assert_eq!(window.cwnd, 3.0);
    }
}
