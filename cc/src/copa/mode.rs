//! How aggressive to be: delta, and the switching between Default and Competitive mode (Arun and Balakrishnan, NSDI
//! 2018, section 3.3).

use super::Rules;
use crate::units::{Nanos, Time};

/// Upper limit of 1/delta in packets (our choice: without losses nothing else bounds Competitive mode).
const MAX_AGGRESSIVENESS: f64 = 1000.0;

/// Which modes a flow may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modes {
    Auto,
    Default,
    Competitive,
}

/// delta and the mode that moves it.
#[derive(Clone, Debug)]
pub(super) struct Aggressiveness {
    rules: Rules,
    modes: Modes,
    default: f64,
    /// Packets per RTT and second of queueing delay, inverted: small is aggressive.
    pub(super) delta: f64,
    pub(super) competitive: bool,
    /// When delta was last moved (release: also reset) ...
    last_change: Option<Time>,
    /// ... and when it last answered a loss.
    last_cut: Time,
}

impl Aggressiveness {
    pub(super) fn new(rules: Rules, modes: Modes, default: f64) -> Self {
        let competitive = modes == Modes::Competitive;
        Self { rules, modes, default, delta: default, competitive, last_change: None, last_cut: Time::ZERO }
    }

    /// An acknowledgement came; `empty` says whether the queue was nearly empty lately.
    pub(super) fn on_ack(&mut self, now: Time, rtt: Nanos, empty: bool) {
        let competitive = match self.modes {
            Modes::Auto => !empty,
            Modes::Default => false,
            Modes::Competitive => true,
        };
        let entered = competitive && !self.competitive;
        self.competitive = competitive;
        match self.rules {
            Rules::Paper if !competitive => self.delta = self.default,
            Rules::Release if !competitive => {
                if self.last_change.is_none() || self.last_cut + rtt < now {
                    self.delta = self.default;
                    self.last_change = Some(now);
                }
            }
            Rules::Paper if entered || self.last_change.is_none() => self.last_change = Some(now),
            _ => self.grow(now, rtt),
        }
    }

    /// Packets were lost. In Competitive mode 1/delta halves: additive increase, multiplicative decrease, as Reno.
    pub(super) fn on_loss(&mut self, now: Time, rtt: Nanos) {
        // The release's call leaves its RTT argument at zero: any number of halvings an RTT.
        let spacing = if self.rules == Rules::Paper { rtt } else { Nanos::ZERO };
        if !self.competitive || now <= self.last_cut + spacing {
            return;
        }
        self.delta = (2.0 * self.delta).min(self.default);
        self.last_cut = now;
        if self.rules == Rules::Paper {
            self.last_change = Some(now);
        }
    }

    fn grow(&mut self, now: Time, rtt: Nanos) {
        if self.last_change.is_some_and(|last| now <= last + rtt) {
            return;
        }
        let mut inverse = 1.0 / self.delta + 1.0;
        if self.rules == Rules::Paper {
            inverse = inverse.min(MAX_AGGRESSIVENESS.max(1.0 / self.default));
        }
        self.delta = (1.0 / inverse).min(self.default);
        self.last_change = Some(now);
    }
}
