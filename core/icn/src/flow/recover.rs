//! The parts of loss recovery that only a requester has.

use paceline_cc::{Nanos, Phase, Time};
use paceline_transport::{Prr, Rtt};

use super::RequestFlow;

/// Recoveries without a mistake after which holes are given no more time than at first (RFC 8985, `RACK.reo_wnd_persist`).
const PERSISTS: u32 = 16;

/// How late a hole must be besides the units that came before it (RFC 8985 section 6.2, step 4; RFC 8985 starts with a quarter of the RTT,
/// here nothing is asked for until a unit taken for lost came after all).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tolerance {
    /// Quarters of the smallest RTT.
    steps: u64,
    /// Recoveries until it is forgotten.
    left: u32,
    /// It does not grow until everything below this has been settled.
    grown_to: u64,
}

impl Tolerance {
    /// A unit was taken for lost too early.
    pub(super) fn on_mistake(&mut self, una: u64, next: u64) {
        if self.steps == 0 || una >= self.grown_to {
            self.steps += 1;
            self.grown_to = next;
        }
        self.left = PERSISTS;
    }

    pub(super) fn on_recovered(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.steps = 0;
        }
    }

    pub(super) fn get(&self, rtt: &Rtt) -> Nanos {
        match rtt.smoothed() {
            Some(srtt) if self.steps > 0 => rtt.min().mul_div(self.steps, 4).min(srtt).max(Nanos::from_nanos(1)),
            _ => Nanos::ZERO,
        }
    }
}

/// What is needed to find out that an episode was a mistake.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// Units taken for lost in it that were not found to have been on their way.
    open: u64,
    /// It began with the timer: one unit that was on its way says that all are.
    by_timer: bool,
}

impl Undo {
    /// An episode begins, with the timer or with `lost` units.
    pub(super) fn start(lost: u64, by_timer: bool) -> Self {
        Self { open: lost, by_timer }
    }

    pub(super) fn on_lost(&mut self, count: u64) {
        if self.open > 0 {
            self.open += count;
        }
    }

    /// A unit taken for lost came: the whole episode was a mistake.
    fn on_late(&mut self) -> bool {
        if self.open == 0 {
            return false;
        }
        self.open -= 1;
        if self.by_timer {
            self.open = 0;
        }
        self.open == 0
    }
}

impl RequestFlow {
    /// A unit came that had been taken for lost, by the timer or by the order of arrivals. What the timer does too early says nothing of that
    /// order.
    pub(super) fn on_late(&mut self, now: Time, by_timer: bool) {
        self.stats.spurious += 1;
        if !by_timer {
            self.tolerance.on_mistake(self.board.una(), self.board.next());
        }
        if self.undo.on_late() && matches!(self.phase, Phase::Recovery | Phase::Loss) {
            self.stats.spurious += self.board.restore();
            self.phase = Phase::Open;
            self.prr = None;
            self.driver.spurious(now);
        }
    }

    /// The phase is over when all is settled that was asked for before it.
    pub(super) fn end_phase(&mut self) {
        let una = self.board.una();
        let over = match self.phase {
            Phase::Open => false,
            Phase::Cwr => una > self.recovery_point || self.driver.controller().permit().holds_against_marks,
            Phase::Recovery | Phase::Loss => una >= self.recovery_point,
        };
        if over {
            if self.phase != Phase::Cwr {
                self.tolerance.on_recovered();
                self.undo = Undo::default();
            }
            self.phase = Phase::Open;
            self.prr = None;
        }
    }

    /// Looks for holes that are lost and informs the controller. Answers their bytes.
    pub(super) fn find_losses(&mut self, now: Time, prior_in_flight: u64) -> u64 {
        let tolerance = self.tolerance.get(self.driver.rtt());
        self.lost.clear();
        self.reordering_at = self.board.detect(now, tolerance, &mut self.lost);
        self.report_losses(now, prior_in_flight)
    }

    /// What [`Board::lose`](super::board::Board::lose) put on the list is lost.
    pub(super) fn report_losses(&mut self, now: Time, prior_in_flight: u64) -> u64 {
        if self.lost.is_empty() {
            return 0;
        }
        let count = self.lost.len() as u64;
        let bytes = self.lost.iter().map(|lost| u64::from(lost.bytes)).sum();
        self.stats.packets_lost += count;
        let repairing = matches!(self.phase, Phase::Recovery | Phase::Loss);
        // A lost repair after the timer is news of congestion (Linux `tcp_fastretrans_alert`, FLAG_LOST_RETRANS).
        let again = self.phase == Phase::Loss && self.board.lost_repair;
        // In CWR a classic controller has reduced already (Linux `tcp_enter_recovery`).
        let classic = self.driver.nature().ecn == paceline_cc::Ecn::Classic;
        let reduces = again || self.phase == Phase::Open || (self.phase == Phase::Cwr && !classic);
        if !repairing || again {
            self.stats.recoveries += 1;
            self.phase = Phase::Recovery;
            self.probe = None;
            self.probe_at = Time::NEVER;
            self.recovery_point = self.board.next();
            self.undo = Undo::start(count, false);
        } else {
            self.undo.on_lost(count);
        }
        self.driver.lose(now, &mut self.lost, prior_in_flight, self.board.in_flight, reduces);
        if reduces {
            self.start_reduction();
        }
        bytes
    }

    /// The controller has reduced its window: it is gone to by RFC 6937, where it leaves that to the datapath.
    pub(super) fn start_reduction(&mut self) {
        let flight = self.board.next() - self.board.una();
        self.prr = self.glides().then(|| Prr::start(flight, self.driver.window()));
    }

    /// Moves the window along while it glides.
    pub(super) fn reduce(&mut self, delivered: u64, good: bool) {
        if let (Some(prr), Phase::Recovery | Phase::Cwr) = (&mut self.prr, self.phase) {
            prr.on_ack(delivered, self.board.in_flight, good, self.config.transport.mss);
        }
    }
}
