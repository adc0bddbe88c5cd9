//! A constant window, a constant rate, or both: the null hypothesis, for tests and for filling a path by hand.

use crate::controller::{Ack, Controller, Env, Loss, Nature, Pacing, Permit, Recovery, Sent, Stamp, Timeout};
use crate::entry::{Entry, Home, Kind, Param, Params};
use crate::units::{Rate, Time};

/// A window and a rate that never change.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    window: u64,
    rate: Option<Rate>,
    mss: u32,
}

impl Fixed {
    /// `window` packets of `env.mss` bytes in flight, paced at `rate` where given.
    pub fn new(env: &Env, window: f64, rate: Option<Rate>) -> Self {
        let window = (window.max(1.0) * f64::from(env.mss)) as u64;
        Self { window, rate, mss: env.mss }
    }
}

impl Controller for Fixed {
    fn on_sent(&mut self, _sent: &Sent) -> Stamp {
        Stamp::default()
    }

    fn on_ack(&mut self, _ack: &Ack<'_>) {}

    fn on_loss(&mut self, _loss: &Loss<'_>) {}

    fn on_timeout(&mut self, _timeout: &Timeout<'_>) {}

    fn on_mss(&mut self, _now: Time, mss: u32) {
        self.mss = mss.max(1);
        self.window = self.window.max(u64::from(self.mss));
    }

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        Permit {
            pacing: self.rate.map_or(Pacing::Free, Pacing::Rate),
            recovery: Recovery::Controller,
            outlasts_departures: true,
            ..Permit::up_to(self.window)
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cwnd_packets", self.window as f64 / f64::from(self.mss));
        if let Some(rate) = self.rate {
            report("pacing_mbps", rate.as_mbps());
        }
    }
}

fn make(params: &Params, env: &Env) -> Box<dyn Controller> {
    let rate = params.number("rate");
    // A rate that rounds to no bytes at all would hold the flow for ever.
    let rate = (rate > 0.0).then(|| Rate::from_mbps(rate).max(Rate::from_bytes_per_sec(1)));
    Box::new(Fixed::new(env, params.number("window"), rate))
}

/// `fixed` in the registry.
pub const ENTRY: Entry = Entry {
    name: "fixed",
    summary: "a constant window and, if given, a constant rate; reacts to nothing",
    source: "our choice, because every comparison needs a null hypothesis",
    statements: crate::statements::FIXED,
    home: Home::Tcp,
    start: None,
    params: &[
        Param {
            name: "window",
            unit: "packets",
            kind: Kind::Number { min: 1.0, max: 1e9 },
            default: "100",
            source: "our choice: one BDP of 24 Mbit/s and 50 ms",
        },
        Param {
            name: "rate",
            unit: "Mbit/s (0: unpaced)",
            kind: Kind::Number { min: 0.0, max: 1e6 },
            default: "0",
            source: "our choice: the window alone decides",
        },
    ],
    needs: &[],
    make: &make,
    receiver: None,
    lower: None,
};
