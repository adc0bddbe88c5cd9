//! How fast the window moves: v, which doubles while the direction persists.

use super::Rules;
use crate::units::{Nanos, Time};

/// RTTs in one direction before v doubles (Arun and Balakrishnan, NSDI 2018, section 2.2).
const PERSISTENCE: u32 = 3;

/// What one acknowledged packet shows.
pub(super) struct Move {
    pub(super) now: Time,
    /// The window in packets, now and when the packet was sent.
    pub(super) cwnd: f64,
    pub(super) cwnd_at_send: f64,
    /// The window is below its target.
    pub(super) up: bool,
    pub(super) delta: f64,
    /// Length of an epoch: the smoothed RTT (release: the newest).
    pub(super) rtt: Nanos,
}

/// The velocity parameter and the direction it follows.
#[derive(Clone, Debug)]
pub(super) struct Velocity {
    rules: Rules,
    /// v: packets of window a packet acknowledged, times delta times the window.
    pub(super) value: f64,
    epoch: Time,
    /// Paper: the direction of the last RTT's window change.
    up: Option<bool>,
    /// Paper: for how many RTTs it has been that.
    same: u32,
    /// Release: steps up less steps down in this RTT, and the sign to compare it with.
    balance: i64,
    sign: i64,
}

impl Velocity {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, value: 1.0, epoch: Time::ZERO, up: None, same: 0, balance: 1, sign: 1 }
    }

    /// v for this packet.
    pub(super) fn step(&mut self, step: &Move) -> f64 {
        match self.rules {
            Rules::Paper => self.paper(step),
            Rules::Release => self.release(step),
        }
        self.value
    }

    /// Forgets the direction; the next epoch ends an RTT from now.
    pub(super) fn restart(&mut self, now: Time, rtt: Nanos) {
        let epoch = if self.rules == Rules::Paper { now + rtt } else { self.epoch };
        *self = Self { epoch, ..Self::new(self.rules) };
    }

    fn paper(&mut self, step: &Move) {
        if step.now >= self.epoch {
            let up = step.cwnd > step.cwnd_at_send;
            if self.up == Some(up) {
                self.same += 1;
                if self.same >= PERSISTENCE {
                    self.value *= 2.0;
                }
            } else {
                self.slow_down();
            }
            self.up = Some(up);
            self.epoch = step.now + step.rtt;
        }
        if self.value > 1.0 && self.up != Some(step.up) {
            self.slow_down();
        }
        self.value = self.value.min(step.cwnd * step.delta).max(1.0);
    }

    fn slow_down(&mut self) {
        self.value = 1.0;
        self.same = 0;
    }

    /// markoviancc.cc, `update_intersend_time`: no persistence, v cut to a whole number before it doubles, halved above
    /// its cap.
    fn release(&mut self, step: &Move) {
        if self.epoch + step.rtt < step.now {
            if self.sign * self.balance > 0 {
                self.value = 2.0 * self.value.floor();
            } else {
                self.value = 1.0;
                self.sign = -self.sign;
            }
            self.epoch = step.now;
            self.balance = 0;
        }
        if self.value > step.cwnd * step.delta {
            self.value /= 2.0;
        }
        self.value = self.value.max(1.0);
        self.balance += if step.up { 1 } else { -1 };
    }
}
