//! A paceline controller where s2n-quic wants one of its own.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use paceline_cc::datapath::QUIC_S2N_PROGRAM;
use paceline_cc::{Misfit, Spec, Time};
use s2n_quic::connection::Handle;
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::RttEstimator;
use s2n_quic_core::recovery::congestion_controller::{CongestionController, Endpoint, PathInfo, Publisher};
use s2n_quic_core::time::Timestamp;

use super::bridge::{Bridge, PacketCounts};
use super::machine::{moment, stamp};
use crate::factory::{Factory, locked};

/// s2n-quic takes a moment that is less than a millisecond ahead for past (`Timestamp::has_elapsed`): so much later than it is meant it must
/// be said, so that it is past when it has come, to the microsecond.
const EARLY: Duration = Duration::from_micros(999);

impl Factory {
    /// The same as [`Factory::new`] for s2n-quic; goes into a builder by `with_congestion_controller`. s2n-quic paces nothing where a controller
    /// sets no pace, so that this does (Linux's rule); see [`Factory::unpaced`].
    ///
    /// ```
    /// let factory = paceline_quic::Factory::s2n("copa:delta=0.1".parse()?, 1)?;
    /// let builder = s2n_quic::Client::builder().with_congestion_controller(factory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`Misfit`] for what s2n-quic cannot express.
    pub fn s2n(spec: Spec, seed: u64) -> Result<Self, Misfit> {
        Self::over(&QUIC_S2N_PROGRAM, spec, seed)
    }

    /// The same inside s2n-quic, its controllers seen by `watch`.
    #[must_use]
    pub fn watched(mut self, watch: &Watch) -> Self {
        self.watch = Some(watch.clone());
        self
    }
}

impl Endpoint for Factory {
    type CongestionController = Adapter;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Adapter {
        let mtu = path.max_datagram_size;
        let bridge = Bridge::new(self.controller(mtu), mtu, self.paced).informed(self.reports());
        let state = State { bridge, factory: self.clone(), zero: None, begun: Instant::now(), departure: None };
        let state = Arc::new(Mutex::new(state));
        if let Some(watch) = &self.watch {
            locked(&watch.0).state = Some(Arc::downgrade(&state));
        }
        Adapter(state)
    }
}

/// A paceline controller as one of s2n-quic's. Its duplicates are the same controller; a new path gets another from the factory (RFC 9000
/// section 9.4).
#[derive(Clone)]
pub struct Adapter(Arc<Mutex<State>>);

struct State {
    bridge: Bridge,
    factory: Factory,
    /// When the controller's clock was at zero: the first moment heard of.
    zero: Option<Timestamp>,
    /// The same, hardly later than it was made.
    begun: Instant,
    /// When the next packet may leave, as s2n-quic heard last.
    departure: Option<Timestamp>,
}

impl State {
    fn time(&mut self, at: Timestamp) -> Time {
        let zero = *self.zero.get_or_insert(at);
        let nanos = at.saturating_duration_since(zero).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The first moment that s2n-quic can name which is not before `at`.
    fn stamp(&self, at: Time) -> Option<Timestamp> {
        self.zero?.checked_add(Duration::from_micros(at.as_nanos().div_ceil(1000)))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.factory.ended(self.begun, self.bridge.controller());
    }
}

/// Sees the newest controller that a factory made for s2n-quic: a [`Machine`](super::Machine) runs its clock by it, which s2n-quic does not, and it
/// knows what happened to its packets.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Watched>>);

#[derive(Default)]
struct Watched {
    state: Option<Weak<Mutex<State>>>,
    connection: Option<Handle>,
}

impl Watch {
    /// The controller belongs to this connection, which is kept until [`Watch::release`]: where a tick lets packets go, s2n-quic is told.
    pub fn connected(&self, connection: Handle) {
        locked(&self.0).connection = Some(connection);
    }

    /// The connection may go.
    pub fn release(&self) {
        drop(locked(&self.0).connection.take());
    }

    /// What happened to the packets of the connection, while it is there.
    pub fn counts(&self) -> Option<PacketCounts> {
        self.look(|state| state.bridge.counts())
    }

    /// When the next packet may leave, as s2n-quic heard last.
    pub(super) fn departure(&self) -> Option<Time> {
        self.look(|state| state.departure.map(moment))?
    }

    /// When [`Watch::tick`] wants to be called; nothing for a controller without a clock.
    pub(super) fn next_tick(&self) -> Option<Time> {
        self.look(|state| {
            let at = state.bridge.next_tick();
            if at == Time::NEVER { None } else { state.stamp(at).map(moment) }
        })?
    }

    /// Runs the clock. s2n-quic is woken up where this lets packets go.
    pub(super) fn tick(&self, now: Time) {
        let opened = self.look(|state| {
            let full = state.bridge.is_full();
            let now = state.time(stamp(now));
            state.bridge.tick(now);
            full && !state.bridge.is_full()
        });
        let connection = locked(&self.0).connection.clone();
        if let (Some(true), Some(mut connection)) = (opened, connection) {
            // The one call that changes nothing and makes s2n-quic look at the connection again; it fails where that has gone.
            let _ = connection.keep_alive(false);
        }
    }

    fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> Option<T> {
        let state = locked(&self.0).state.as_ref()?.upgrade()?;
        let mut state = locked(&state);
        Some(look(&mut state))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Adapter {
    /// The controller's own variables, as [`paceline_cc::Controller::describe`] names them.
    pub fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.state().bridge.controller().describe(report);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("controller", self.state().factory.spec()).finish_non_exhaustive()
    }
}

/// What s2n-quic has 32 bits for.
fn short(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl CongestionController for Adapter {
    /// The packet's number.
    type PacketInfo = u64;

    fn congestion_window(&self) -> u32 {
        short(self.state().bridge.window())
    }

    fn bytes_in_flight(&self) -> u32 {
        short(self.state().bridge.in_flight())
    }

    fn is_congestion_limited(&self) -> bool {
        self.state().bridge.is_full()
    }

    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        app_limited: Option<bool>,
        _rtt: &RttEstimator,
        _publisher: &mut Pub,
    ) -> u64 {
        let mut state = self.state();
        let now = state.time(time_sent);
        state.bridge.on_packet_sent(now, short(sent_bytes as u64), app_limited)
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        now: Timestamp,
        _rtt: &RttEstimator,
        _publisher: &mut Pub,
    ) {
        let mut state = self.state();
        let (sent, now) = (state.time(time_sent), state.time(now));
        state.bridge.on_rtt_update(now, now - sent);
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        _newest_acked_time_sent: Timestamp,
        bytes_acknowledged: usize,
        newest_acked_packet_info: u64,
        _rtt: &RttEstimator,
        _random: &mut dyn Generator,
        ack_receive_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        let mut state = self.state();
        let now = state.time(ack_receive_time);
        if let Some(rtt) = state.bridge.on_ack(now, bytes_acknowledged as u64, newest_acked_packet_info) {
            state.factory.sampled(Instant::now(), rtt);
        }
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        lost_bytes: u32,
        packet_info: u64,
        persistent_congestion: bool,
        _new_loss_burst: bool,
        _random: &mut dyn Generator,
        timestamp: Timestamp,
        _publisher: &mut Pub,
    ) {
        let mut state = self.state();
        let now = state.time(timestamp);
        state.bridge.on_packet_lost(now, lost_bytes, packet_info, persistent_congestion);
    }

    fn on_explicit_congestion<Pub: Publisher>(&mut self, ce_count: u64, _time: Timestamp, _publisher: &mut Pub) {
        self.state().bridge.on_explicit_congestion(ce_count);
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, _publisher: &mut Pub) {
        self.state().bridge.on_mtu_update(max_data_size);
    }

    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes_sent: usize, _publisher: &mut Pub) {
        self.state().bridge.on_packet_discarded(bytes_sent as u64);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        let mut state = self.state();
        let due = state.bridge.due();
        state.departure = due.and_then(|due| state.stamp(due));
        state.departure?.checked_add(EARLY)
    }

    fn send_quantum(&self) -> Option<usize> {
        self.state().bridge.quantum().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}
