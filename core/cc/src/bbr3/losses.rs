//! Losses (section 5.5.10.2), and what becomes of their answers when they were spurious (5.5.11).

use super::Bbr3;
use super::states::State;
use crate::controller::Lost;
use crate::units::Time;

/// What comes back with a packet: bit 63 for the application's limit, 31 bits for the bytes in flight (saturating), 32 for the
/// bytes lost until then (modulo 2^32).
#[derive(Clone, Copy)]
pub(super) struct Tag {
    pub(super) app_limited: bool,
    pub(super) in_flight: u64,
    pub(super) lost: u32,
}

const IN_FLIGHT_BITS: u64 = (1 << 31) - 1;

impl From<Tag> for u64 {
    fn from(tag: Tag) -> Self {
        Self::from(tag.app_limited) << 63 | tag.in_flight.min(IN_FLIGHT_BITS) << 32 | Self::from(tag.lost)
    }
}

impl From<u64> for Tag {
    fn from(tag: u64) -> Self {
        Self { app_limited: tag >> 63 == 1, in_flight: tag >> 32 & IN_FLIGHT_BITS, lost: tag as u32 }
    }
}

/// What the flow has lost.
#[derive(Default)]
pub(super) struct Losses {
    /// Bytes since the flow began, modulo 2^32.
    pub(super) lost: u32,
    /// Something was lost in the present loss round, which ends when what leaves from here on is delivered.
    pub(super) in_round: bool,
    pub(super) round_delivered: u64,
    /// [`Losses::round_delivered`] was set by an acknowledgement at this time, whose delivery is not counted yet.
    pub(super) marked_at: Option<Time>,
    /// Losses are being reported that an acknowledgement showed.
    pub(super) by_acknowledgement: bool,
    /// Lost ranges of the stream in the present loss round, and where the last one ends.
    ranges: u32,
    range_end: Option<u64>,
    /// Losses are being repaired: from the first one, or a timeout, until the datapath says that all is well.
    pub(super) episode: bool,
}

impl Losses {
    /// Bytes lost since the packet with this tag left.
    pub(super) fn since(&self, tag: Tag) -> f64 {
        f64::from(self.lost.wrapping_sub(tag.lost))
    }

    /// Lost ranges of the loss round that has ended.
    pub(super) fn end_round(&mut self) -> u32 {
        self.range_end = None;
        std::mem::take(&mut self.ranges)
    }
}

/// What an episode of losses may have to give back.
pub(super) struct Undo {
    /// The state that losses ended.
    pub(super) state: Option<State>,
    bw_short: f64,
    inflight_short: f64,
    inflight_long: f64,
    /// The window before losses, or ProbeRTT, made it smaller.
    pub(super) cwnd: f64,
}

impl Default for Undo {
    fn default() -> Self {
        Self { state: None, bw_short: 0.0, inflight_short: 0.0, inflight_long: 0.0, cwnd: 0.0 }
    }
}

impl Bbr3 {
    /// Whether `lost` bytes say that `in_flight` bytes were too many.
    pub(super) fn is_too_high(&self, lost: f64, in_flight: f64) -> bool {
        lost > self.constants.loss_threshold * in_flight
    }

    pub(super) fn lose(&mut self, packet: &Lost) {
        let losses = &mut self.losses;
        losses.lost = losses.lost.wrapping_add(packet.bytes);
        losses.ranges += u32::from(losses.range_end != Some(packet.seq));
        losses.range_end = Some(packet.seq + u64::from(packet.bytes));
        if !losses.in_round {
            losses.in_round = true;
            losses.round_delivered = self.delivered;
            losses.marked_at = losses.by_acknowledgement.then_some(self.now.unwrap_or(Time::ZERO));
        }
        let tag = Tag::from(packet.tag);
        if self.probe.is_sample && self.is_too_high(self.losses.since(tag), tag.in_flight as f64) {
            self.answer_too_high(packet, tag);
        }
    }

    /// A probe had more in flight than the path holds. Only the first packet that shows it is answered.
    fn answer_too_high(&mut self, packet: &Lost, tag: Tag) {
        self.probe.too_high = true;
        self.probe.is_sample = false;
        if !tag.app_limited {
            let (in_flight, lost, bytes) = (tag.in_flight as f64, self.losses.since(tag), f64::from(packet.bytes));
            let seen = in_flight_at_loss(in_flight, lost, bytes, self.constants.loss_threshold);
            self.inflight_long = seen.max(self.constants.beta * self.target_inflight());
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down();
        }
    }

    /// As an episode begins.
    pub(super) fn save_for_undo(&mut self) {
        self.save_cwnd();
        self.undo.state = None;
        self.undo.bw_short = self.bandwidth.short;
        self.undo.inflight_short = self.inflight_short;
        self.undo.inflight_long = self.inflight_long;
        self.losses.episode = true;
    }

    pub(super) fn save_cwnd(&mut self) {
        let smaller = self.losses.episode || self.state == State::ProbeRtt;
        self.undo.cwnd = if smaller { self.undo.cwnd.max(self.cwnd) } else { self.cwnd };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.undo.cwnd);
    }

    pub(super) fn undo_losses(&mut self) {
        if !self.constants.undo {
            return;
        }
        self.restore_cwnd();
        self.losses.in_round = false;
        self.full.reset(0.0);
        self.bandwidth.short = self.bandwidth.short.max(self.undo.bw_short);
        self.inflight_short = self.inflight_short.max(self.undo.inflight_short);
        self.inflight_long = self.inflight_long.max(self.undo.inflight_long);
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.start_refill(),
            _ => {}
        }
    }
}

/// Bytes in flight at which losses crossed the `threshold`, a share of them, somewhere within a packet of `bytes` that left with `in_flight` and
/// since whose departure `lost` were lost (`BBRInflightAtLoss`). The clamp is Linux's: losses that are found late would give
/// less than what was in flight before.
pub(super) fn in_flight_at_loss(in_flight: f64, lost: f64, bytes: f64, threshold: f64) -> f64 {
    let (before, lost_before) = (in_flight - bytes, lost - bytes);
    before + (threshold * before - lost_before).max(0.0) / (1.0 - threshold)
}
