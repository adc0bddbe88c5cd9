//! NewReno's window (RFC 5681, RFC 6582): one packet per round trip up, half down.

use crate::controller::{Ack, Controller, Ecn, Env};
use crate::entry::{CLASSIC_ECN, Entry, Home, Params, classic_ecn};
use crate::start_ups::{any_start_up, start_up};
use crate::units::Time;
use crate::window::{Policy, Signal, Window, WindowController};

/// Multiplicative decrease (RFC 5681, equation 4).
const BETA: f64 = 0.5;

/// Reno's growth and reduction.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    mss: u32,
    ecn: Ecn,
}

impl Reno {
    /// Reno for packets of `env.mss` bytes.
    pub fn new(env: &Env, ecn: Ecn) -> Self {
        Self { mss: env.mss, ecn }
    }
}

impl Policy for Reno {
    fn grow(&mut self, ack: &Ack<'_>, window: &mut Window) {
        window.cwnd += ack.packets_of(self.mss) / window.cwnd;
    }

    /// RFC 5681 equation 4 takes the flight; as in Linux we take the window, which grows only while it is used: when
    /// losses are found the flight may be nearly empty.
    fn reduce(&mut self, _signal: Signal, _now: Time, window: &Window, _in_flight: f64) -> f64 {
        BETA * window.cwnd
    }

    fn on_mss(&mut self, mss: u32, _scale: f64) {
        self.mss = mss;
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    Box::new(WindowController::new(env, start_up(params, env), Reno::new(env, classic_ecn(params))))
}

/// `reno` in the registry.
pub const ENTRY: Entry = Entry {
    name: "reno",
    summary: "NewReno: one packet per round trip up, half down on loss",
    source: "RFC 5681, RFC 6582",
    statements: crate::statements::RENO,
    home: Home::Tcp,
    start: Some(any_start_up("slow", "RFC 5681 section 3.1")),
    params: &[CLASSIC_ECN],
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Feed, packets};

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one() {
        let env = Env::default();
        let mut feed = Feed::new(Box::new(WindowController::new(
            &env,
            Box::new(crate::window::SlowStart::new(&env)),
            Reno::new(&env, Ecn::Off),
        )));
        feed.round();
        assert_eq!(packets(feed.controller.as_ref()), 20);
        feed.lose_one();
        assert_eq!(packets(feed.controller.as_ref()), 10);
        for _ in 0..5 {
            feed.round();
        }
        assert!((14..=15).contains(&packets(feed.controller.as_ref())));
    }
}
