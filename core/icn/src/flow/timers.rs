//! Rule D: the timers.

use paceline_cc::{Controller, Nanos, Phase, Time};
use paceline_transport::Driver;

use super::Flow;
use super::recover::{Tolerance, Undo};
use super::size::MeanRtt;

/// Expiries in a row, and silence, after which the source is given up (our choice: the release stops without a word after 120 s).
const MOST_EXPIRIES: u32 = 8;
const LONGEST_SILENCE: Nanos = Nanos::from_secs(30);

impl Flow {
    /// When [`Flow::on_timeout`] and [`Flow::poll_request`] want to be called.
    pub fn next_timeout(&self) -> Time {
        self.rto_at.min(self.reordering_at).min(self.wake_at).min(self.driver.next_tick())
    }

    /// The time of [`Flow::next_timeout`] has come.
    pub fn on_timeout(&mut self, now: Time) {
        self.driver.tick(now);
        if self.wake_at <= now {
            // Whoever may not ask at present would else be woken for ever.
            self.wake_at = Time::NEVER;
        }
        if self.reordering_at <= now {
            let prior_in_flight = self.board.in_flight;
            self.find_losses(now, prior_in_flight);
            self.reduce(0, false);
            self.driver.refresh();
        }
        if self.rto_at <= now {
            self.expire(now);
        }
    }

    /// Restarts the timer; it is off while nothing is waited for.
    pub(super) fn arm(&mut self, now: Time) {
        self.rto_at = if self.board.is_empty() {
            Time::NEVER
        } else {
            (now + self.backed_off()).min((self.silent_since + LONGEST_SILENCE).max(now))
        };
    }

    fn expire(&mut self, now: Time) {
        self.rto_at = Time::NEVER;
        if self.board.is_empty() {
            return;
        }
        let overdue = self.rto();
        self.expiries += 1;
        if self.expiries >= MOST_EXPIRIES || self.silent_since + LONGEST_SILENCE <= now {
            self.gave_up = true;
            self.reordering_at = Time::NEVER;
            return;
        }
        let prior_in_flight = self.board.in_flight;
        let fresh = matches!(self.phase, Phase::Open | Phase::Cwr);
        self.lost.clear();
        self.board.lose_overdue(now, overdue, &mut self.lost);
        let lost = self.lost.len() as u64;
        self.stats.packets_lost += lost;
        self.stats.timeouts += 1;
        self.phase = Phase::Loss;
        self.recovery_point = self.board.next();
        self.prr = None;
        self.reordering_at = Time::NEVER;
        self.urgent = true;
        if fresh {
            // Within a recovery it is of the same losses, which were real.
            self.undo = Undo::start(lost, true);
        }
        self.driver.timeout(now, &mut self.lost, prior_in_flight, self.board.in_flight, self.expiries);
        self.driver.refresh();
        self.arm(now);
    }

    /// The path is another: what was measured is forgotten, `controller` starts fresh, and what was asked for is asked for again, without
    /// waiting for the timer and without a word of congestion.
    pub fn moved(&mut self, now: Time, controller: Box<dyn Controller>) {
        self.delivered_before += self.driver.bytes_delivered();
        self.ecn = controller.ecn();
        self.driver = Driver::new(&self.config.transport, controller);
        self.path = self.path.wrapping_add(1);
        self.board.lose_all();
        self.phase = Phase::Open;
        self.prr = None;
        self.undo = Undo::default();
        self.tolerance = Tolerance::default();
        self.mean_rtt = MeanRtt::default();
        self.expiries = 0;
        self.silent_since = now;
        self.urgent = false;
        self.gave_up = false;
        self.requested_at = None;
        self.held_until = Time::ZERO;
        self.reordering_at = Time::NEVER;
        self.wake_at = Time::NEVER;
        self.arm(now);
    }
}
