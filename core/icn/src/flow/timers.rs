//! Rule D: the timers.
//!
//! The timeout follows RFC 6298 with Karn's algorithm: what was asked for twice gives no RTT, nor does what the timer took for lost, which
//! waited for the end of an outage and says nothing of the path; until a unit gives one, the timeout stays as long as it was doubled to.
//! What differs: doubling has an end ([`RequestFlow::longest`]), since it is a repeat that finds out that an outage is over.

use paceline_cc::{Controller, Nanos, Phase, Time};
use paceline_transport::Driver;

use super::RequestFlow;
use super::recover::{Tolerance, Undo};
use super::size::MeanRtt;

/// Repeats without an answer before silence counts (our choice: one may be lost as what it repeats was, on a slow path the first may leave
/// before the answer could be there).
const LEAST_REPEATS: u32 = 3;

/// Silence after which a source is given up that has never answered (our choice: the release stops without a word after 120 s) ...
const LONGEST_SILENCE: Nanos = Nanos::from_secs(30);

/// ... and one that has (our choice: twice as long, so that an outage of half a minute passes).
const LONGEST_OUTAGE: Nanos = Nanos::from_secs(60);

/// Timeouts that lie between two repeats at most (our choice: RFC 6298 section 2.5 permits no end below a minute, in which a path that is
/// back stays unused; a unit in such a time is not a load on a path that carried a window in each RTT).
const MOST_TIMEOUTS: u64 = 4;

impl RequestFlow {
    /// When [`RequestFlow::on_timeout`] and [`RequestFlow::poll_request`] want to be called.
    pub fn next_timeout(&self) -> Time {
        let losses = self.rto_at.min(self.reordering_at).min(self.probe_at);
        losses.min(self.wake_at).min(self.driver.next_tick())
    }

    /// The time of [`RequestFlow::next_timeout`] has come.
    pub fn on_timeout(&mut self, now: Time) {
        self.driver.tick(now);
        if self.wake_at <= now {
            // A flow that may not ask at present would be woken for ever otherwise.
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
        } else if self.probe_at <= now {
            self.probe_at = Time::NEVER;
            self.probe_due = true;
            self.arm(now);
        }
    }

    /// Restarts the timer; it is off while nothing is waited for.
    pub(super) fn arm(&mut self, now: Time) {
        if self.board.is_empty() {
            self.rto_at = Time::NEVER;
            return;
        }
        self.rto_at = now + self.backed_off();
        let end = self.silent_since + self.longest_silence();
        if self.repeats >= LEAST_REPEATS && end > now {
            self.rto_at = self.rto_at.min(end);
        }
    }

    /// The timeout that is in force: unchanged at the first expiry, doubled at each that follows.
    fn backed_off(&self) -> Nanos {
        let doublings = self.backoff.saturating_sub(1).min(20);
        self.rto().mul_div(1 << doublings, 1).min(self.longest())
    }

    /// The longest timeout. A source that is not known may be a slow one; that of one that is known ends at [`MOST_TIMEOUTS`], but not below
    /// the initial one, and is doubled for each unit that came twice, so that a path that has become slower is waited for in the end.
    fn longest(&self) -> Nanos {
        let config = &self.config.transport;
        if self.srtt().is_none() {
            return config.max_rto;
        }
        let most = self.rto().mul_div(MOST_TIMEOUTS, 1).max(config.initial_rto);
        most.mul_div(1 << self.premature.min(20), 1).min(config.max_rto)
    }

    fn longest_silence(&self) -> Nanos {
        if self.driver.bytes_delivered() > 0 { LONGEST_OUTAGE } else { LONGEST_SILENCE }
    }

    fn expire(&mut self, now: Time) {
        self.rto_at = Time::NEVER;
        self.probe_at = Time::NEVER;
        self.probe_due = false;
        self.probe = None;
        if self.board.is_empty() {
            return;
        }
        if self.repeats >= LEAST_REPEATS && self.silent_since + self.longest_silence() <= now {
            self.gave_up = true;
            self.reordering_at = Time::NEVER;
            return;
        }
        let overdue = self.rto();
        self.expiries += 1;
        self.backoff = self.backoff.saturating_add(1);
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
        self.driver = Driver::new(&self.config.transport, controller);
        self.path = self.path.wrapping_add(1);
        self.board.lose_all();
        self.phase = Phase::Open;
        self.prr = None;
        self.undo = Undo::default();
        self.tolerance = Tolerance::default();
        self.mean_rtt = MeanRtt::default();
        self.expiries = 0;
        self.backoff = 0;
        self.premature = 0;
        self.repeats = 0;
        self.silent_since = now;
        self.arriving = None;
        self.probe = None;
        self.probe_at = Time::NEVER;
        self.probe_due = false;
        self.urgent = false;
        self.gave_up = false;
        self.requested_at = None;
        self.held_until = Time::ZERO;
        self.reordering_at = Time::NEVER;
        self.wake_at = Time::NEVER;
        self.arm(now);
    }
}
