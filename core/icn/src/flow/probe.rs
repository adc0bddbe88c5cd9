//! Tail loss probes: a flow that receives nothing asks once more for the unit that it asked for last, whose answer says what became of those
//! before it.
//!
//! Source: RFC 8985 section 7. What differs:
//! - It is always the newest unit that is asked for again: new ones would have been, if the window permitted.
//! - With fewer than [`FlowConfig::disorder`](super::FlowConfig::disorder) units behind it a hole is found by nothing but the timer, so that
//!   the answer of a probe counts as this many: what was asked for before and has not come by then is lost.

use paceline_cc::{Nanos, Phase, Time};
use paceline_transport::{Departing, SentPacket};

use super::{BYTES, RequestFlow};
use crate::ranges::Ranges;

/// The shortest time until a probe (our choice: twice what a request may wait to become a larger one at either end).
const LEAST: Nanos = Nanos::from_millis(2);

/// A probe on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    unit: u64,
    serial: u64,
    /// The unit's packet as it was before.
    original: SentPacket,
    /// The unit came, from the probe as it seems.
    answered: bool,
}

impl RequestFlow {
    /// Restarts the timer of the probe: 2 smoothed RTTs (section 7.2), while nothing is repaired and no probe is on its way.
    pub(super) fn arm_probe(&mut self, now: Time) {
        let open = |probe: &Probe| probe.answered || self.board.number_of(probe.unit).is_some();
        let probing = self.probe.as_ref().is_some_and(open);
        let quiet = matches!(self.phase, Phase::Open | Phase::Cwr) && self.backoff == 0 && self.board.in_flight > 0;
        let srtt = self.srtt().filter(|_| self.config.transport.tail_probe && quiet && !probing);
        let at = srtt.map(|srtt| now + (srtt + srtt).max(LEAST));
        self.probe_at = at.filter(|at| *at < self.rto_at).unwrap_or(Time::NEVER);
    }

    /// The probe that is due.
    pub(super) fn ask_probe(&mut self, now: Time) -> Option<Ranges> {
        if !std::mem::take(&mut self.probe_due) {
            return None;
        }
        let in_flight = self.board.in_flight;
        let (unit, original, packet) = self.board.ask_newest_again(now, self.path)?;
        self.probe = Some(Probe { unit, serial: packet.serial, original, answered: false });
        let load = Departing::new(in_flight, u64::MAX, false);
        self.driver.sent(now, packet, &load);
        self.stats.probes += 1;
        self.stats.retransmits += 1;
        let ranges = Ranges::one(unit);
        self.requested(now, &ranges);
        self.arm(now);
        Some(ranges)
    }

    /// `packet` came. Where it is the probe's, and too soon to be its answer, it is the original's. Says whether all that was asked for before
    /// it is settled or lost.
    pub(super) fn take_probe(&mut self, now: Time, packet: &mut SentPacket) -> bool {
        let Some(probe) = self.probe.as_mut().filter(|probe| probe.serial == packet.serial) else { return false };
        if now - packet.sent_at < self.driver.rtt().min() {
            let bytes = std::mem::replace(packet, probe.original).bytes;
            packet.bytes = bytes;
            self.probe = None;
            return false;
        }
        probe.answered = true;
        true
    }

    /// A unit came that nothing is known of: where it is the probe's, both came (section 7.4.2).
    pub(super) fn came_twice(&mut self, unit: u64) {
        if self.probe.is_some_and(|probe| probe.unit == unit) {
            self.probe = None;
        }
    }

    /// Something came that was asked for as the `serial`th. Where that was after a probe whose unit came once, the probe has repaired a loss,
    /// which asks for one reduction (section 7.4). Answers the bytes lost.
    pub(super) fn end_probe(&mut self, now: Time, serial: u64, prior_in_flight: u64) -> u64 {
        let Some(probe) = self.probe.filter(|probe| probe.answered && serial > probe.serial) else { return 0 };
        self.probe = None;
        self.lost.clear();
        self.lost.push(probe.original.lost());
        self.stats.packets_lost += 1;
        let new_episode = self.phase == Phase::Open;
        self.driver.lose(now, &mut self.lost, prior_in_flight, self.board.in_flight, new_episode);
        BYTES
    }
}
