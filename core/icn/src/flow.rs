//! The requester's side of one source: what to ask for, when, and what a controller learns from the answers.
//!
//! Sans-IO, and without names and bytes: a flow knows numbers of units. It is a datapath of [`paceline_transport::Driver`], which makes
//! every event that the controller sees: a unit asked for is a packet sent, its arrival is its acknowledgement.
//!
//! Sources: Liu, Zeng, Han and Sun (2021), rules A to D and section 5 of our reading of them. What differs, and why, stands in
//! `docs/design/icn.md`:
//! - A hole is lost after [`FlowConfig::disorder`] arrivals of units asked for later, counted from its own last request: requests are
//!   reordered as data is, and a repair that is lost is found as the first loss was.
//! - Once a unit taken for lost came after all, holes must be late by a part of the RTT too (RFC 8985).
//! - Requests are paced from the last deadline, not from when the timer fired.
//! - What is in flight is bounded while the controller cruises ([`PacedCeiling`]).
//! - Controllers that leave recovery to the datapath get proportional rate reduction (RFC 6937), as elsewhere in the project.

mod arrive;
mod ask;
mod board;
mod index;
mod outlook;
mod probe;
mod recover;
mod size;
mod timers;

use paceline_cc::{Controller, Lost, Nanos, Pacing, Phase, Rate, Recovery, Telemetry, Time};
use paceline_transport::{Driver, Prr, SenderConfig, SenderStats};

use crate::UNIT;
use crate::ranges::{MAX_UNITS, Ranges};

pub use arrive::Arrived;
pub use size::{channel_is_contended, units_per_request};

use board::Board;
use probe::Probe;
use recover::{Tolerance, Undo};
use size::MeanRtt;

/// A unit counts this many bytes.
const BYTES: u64 = UNIT as u64;

/// How many units a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// What arrives in a millisecond (equation 8, [`units_per_request`]). A controller that sets exact gaps asks for one at a time.
    #[default]
    Paper,
    /// One.
    One,
    /// This many, 1 to [`MAX_UNITS`].
    Fixed(u32),
}

/// What bounds the bytes in flight while the controller [cruises](paceline_cc::Permit::cruises) and repairs nothing. At other times it is
/// its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PacedCeiling {
    /// Its window, and while [`channel_is_contended`] the larger of that and 2 bandwidth-delay products with three of the largest requests:
    /// without an end a queue at an access point would fill to its own, and a stalled path would be asked blindly for a retransmission
    /// timeout; on other paths this much more than the window would only fill queues.
    #[default]
    Bounded,
    /// Its window.
    Window,
    /// Nothing but the receive buffer: the paper's rule.
    Unlimited,
}

/// Options of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowConfig {
    /// Those of the driver. A full packet is a unit, whatever is set.
    pub transport: SenderConfig,
    /// Units per request.
    pub aggregation: Aggregation,
    /// Three times as many, at most [`MAX_UNITS`], while [`channel_is_contended`] and the controller cruises (the paper's rule 9).
    pub triple: bool,
    /// Bytes in flight while the controller cruises.
    pub ceiling: PacedCeiling,
    /// Units that came and were asked for later than one that did not, after which it is taken for lost, 1 to 64. 6: the paper (its release
    /// has 4).
    pub disorder: u32,
    /// Bytes from the oldest unit that is missing to the newest that was asked for, at most. 48 MB: the release.
    pub receive_buffer: u64,
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self {
            transport: SenderConfig::new(UNIT as u32),
            aggregation: Aggregation::Paper,
            triple: true,
            ceiling: PacedCeiling::Bounded,
            disorder: 6,
            receive_buffer: 48_000_000,
        }
    }
}

/// Where a flow gets the units from that no source was asked for.
pub trait Supply {
    /// The next ones, `most` at most; none where there are none at present, or the application has room for none.
    fn take(&mut self, most: u32) -> Option<Ranges>;
}

/// One source: its records, its timers and its controller. The driver calls [`RequestFlow::poll_request`] until it answers `None` after
/// every other call, and whenever [`RequestFlow::next_timeout`] has come.
pub struct RequestFlow {
    config: FlowConfig,
    driver: Driver,
    board: Board,
    /// Counts the paths that there were.
    path: u32,
    phase: Phase,
    /// The phase is over when everything below is settled.
    recovery_point: u64,
    prr: Option<Prr>,
    undo: Undo,
    tolerance: Tolerance,
    mean_rtt: MeanRtt,
    /// Timer expiries since something came in order.
    expiries: u32,
    /// Timer expiries since a unit gave an RTT (Karn's algorithm, RFC 6298 section 3: until then the timeout stays doubled).
    backoff: u32,
    /// Units that came twice since a unit gave an RTT: the timer was too early.
    premature: u32,
    /// How often the oldest unit was asked for again since anything came.
    repeats: u32,
    /// Since when nothing has come.
    silent_since: Time,
    /// The newest delivery rate.
    arriving: Option<Rate>,
    /// The newest unit, asked for once more to learn of those before it.
    probe: Option<Probe>,
    probe_at: Time,
    probe_due: bool,
    /// One request leaves at once, whatever the pace: the timer fired.
    urgent: bool,
    gave_up: bool,
    largest_request: u32,
    requested_at: Option<Time>,
    /// The source asked to be left alone until then.
    held_until: Time,
    rto_at: Time,
    reordering_at: Time,
    /// When a request may leave that the window permits.
    wake_at: Time,
    lost: Vec<Lost>,
    stats: SenderStats,
    requests: u64,
    /// Bytes delivered over the paths before this one.
    delivered_before: u64,
}

impl RequestFlow {
    /// Asks nothing yet. `controller` was made for packets of [`UNIT`] bytes.
    pub fn new(config: &FlowConfig, controller: Box<dyn Controller>) -> Self {
        let mut config = *config;
        config.transport.mss = UNIT as u32;
        Self {
            driver: Driver::new(&config.transport, controller),
            board: Board::new(config.disorder),
            config,
            path: 0,
            phase: Phase::Open,
            recovery_point: 0,
            prr: None,
            undo: Undo::default(),
            tolerance: Tolerance::default(),
            mean_rtt: MeanRtt::default(),
            expiries: 0,
            backoff: 0,
            premature: 0,
            repeats: 0,
            silent_since: Time::ZERO,
            arriving: None,
            probe: None,
            probe_at: Time::NEVER,
            probe_due: false,
            urgent: false,
            gave_up: false,
            largest_request: MAX_UNITS,
            requested_at: None,
            held_until: Time::ZERO,
            rto_at: Time::NEVER,
            reordering_at: Time::NEVER,
            wake_at: Time::NEVER,
            lost: Vec::new(),
            stats: SenderStats::default(),
            requests: 0,
            delivered_before: 0,
        }
    }

    /// No request asks for more than this many units from now on.
    pub fn set_largest_request(&mut self, units: u32) {
        self.largest_request = units.clamp(1, MAX_UNITS);
    }

    /// The hops of the path reported.
    pub fn on_telemetry(&mut self, telemetry: &Telemetry<'_>) {
        self.driver.telemetry(telemetry);
    }

    /// Pacing holds the next request until then; a time that has come: pacing does not hold it.
    pub fn paced_until(&self) -> Time {
        self.driver.due()
    }

    /// Nothing is waited for.
    pub fn is_idle(&self) -> bool {
        self.board.is_empty()
    }

    /// Units asked for that did not come yet, those taken for lost included.
    pub fn outstanding(&self) -> u64 {
        self.board.outstanding()
    }

    /// The source left several repeats unanswered and was silent for 30 s, or 60 s where it had answered before: the flow asks it no more.
    pub fn has_given_up(&self) -> bool {
        self.gave_up
    }

    /// Nothing came in order since its timer fired.
    pub fn is_silent(&self) -> bool {
        self.expiries > 0
    }

    /// The source asked to be left alone, and may not be asked yet.
    pub fn is_held(&self, now: Time) -> bool {
        self.held_until > now
    }

    /// Payload bytes in flight. A unit counts [`UNIT`] until it is there.
    pub fn in_flight(&self) -> u64 {
        self.board.in_flight
    }

    /// The window in force, in bytes: the controller's, the recovery's while losses are repaired, or the [`PacedCeiling`].
    pub fn window(&self) -> u64 {
        let permit = self.driver.controller().permit();
        let window = match (&self.prr, self.phase) {
            (Some(prr), Phase::Recovery) => prr.window,
            (Some(prr), Phase::Cwr) if !permit.holds_against_marks => prr.window,
            _ => permit.window,
        };
        if self.phase != Phase::Open || !permit.cruises {
            return window;
        }
        match self.config.ceiling {
            PacedCeiling::Window => window,
            PacedCeiling::Unlimited => u64::MAX,
            PacedCeiling::Bounded if !self.is_contended() => window,
            PacedCeiling::Bounded => {
                let min = self.driver.rtt().min();
                let product = self.pacing_rate().filter(|_| min < Nanos::MAX).map_or(0, |rate| rate.bytes_in(min));
                let requests = 3 * u64::from(MAX_UNITS) * BYTES;
                window.max(product.saturating_mul(2).saturating_add(requests))
            }
        }
    }

    /// Inequality 9 holds.
    fn is_contended(&self) -> bool {
        self.mean_rtt.get().is_some_and(|mean| channel_is_contended(mean, self.driver.rtt().min()))
    }

    /// Smoothed RTT; `None` before the first sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.driver.rtt().smoothed()
    }

    /// Smallest RTT over this path; [`Nanos::MAX`] before the first sample.
    pub fn min_rtt(&self) -> Nanos {
        self.driver.rtt().min()
    }

    /// The time after which the timer expires at first, by the RTT.
    pub fn rto(&self) -> Nanos {
        self.driver.rtt().rto(&self.config.transport)
    }

    /// The rate at which units are asked for: the pace, or the window over the RTT; `None` where neither is known.
    pub fn rate(&self) -> Option<Rate> {
        self.pacing_rate().or_else(|| Some(Rate::from_bytes_in(self.driver.window(), self.srtt()?)))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        match self.driver.controller().pacing() {
            Pacing::Rate(rate) => Some(rate),
            Pacing::Gap(gap) if gap < Nanos::MAX && gap > Nanos::ZERO => Some(Rate::from_bytes_in(BYTES, gap)),
            Pacing::Gap(_) | Pacing::Free => None,
        }
    }

    /// Counters: units asked for are packets sent, those asked for again are retransmits.
    pub fn stats(&self) -> SenderStats {
        let bytes_delivered = self.delivered_before + self.driver.bytes_delivered();
        SenderStats { bytes_delivered, ..self.stats }
    }

    /// Requests made.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.driver.controller()
    }

    fn glides(&self) -> bool {
        self.driver.controller().permit().recovery == Recovery::Prr
    }
}
