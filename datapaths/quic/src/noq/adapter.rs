//! A paceline controller where noq wants one of its own.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use paceline_cc::datapath::QUIC_NOQ;
use paceline_cc::{Misfit, Nanos, Rate, Spec, Time};

use super::bridge::{Bridge, Report};
use crate::factory::{self, Factory, locked};

/// Longest time for which packets leave in one call (our choice: what noq's own pacer aims at).
const QUANTUM: Nanos = Nanos::from_millis(2);
/// Below this rate each packet leaves by itself (our choice: one each millisecond).
const ALONE: Rate = Rate::from_bytes_per_sec(1_500_000);

impl Factory {
    /// The same as [`Factory::new`] for noq; goes into [`noq_proto::TransportConfig::congestion_controller_factory`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// let factory = paceline_quic::Factory::noq("copa:delta=0.1".parse()?, 1)?;
    /// noq_proto::TransportConfig::default().congestion_controller_factory(Arc::new(factory));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`Misfit`] for what noq cannot express.
    pub fn noq(spec: Spec, seed: u64) -> Result<Self, Misfit> {
        Self::over(&QUIC_NOQ, spec, seed)
    }

    /// The same, clock and pace of its controllers run by `ticker`.
    #[must_use]
    pub fn ticked(mut self, ticker: &Ticker) -> Self {
        self.ticker = Some(ticker.clone());
        self
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Adapter::new(&self, now, current_mtu))
    }
}

/// Runs clock and pace of the newest controller that a factory made for noq, in a program that has a loop around noq's state machine: noq calls its
/// controllers only as packets come and go.
#[derive(Clone, Debug, Default)]
pub struct Ticker(Arc<Mutex<Option<Ticked>>>);

#[derive(Debug)]
struct Ticked {
    bridge: Weak<Mutex<Bridge>>,
    start: Instant,
}

impl Ticker {
    /// When [`Ticker::tick`] wants to be called; nothing while neither a tick nor a packet is to be waited for.
    pub fn next_tick(&self) -> Option<Instant> {
        let ticked = locked(&self.0);
        let ticked = ticked.as_ref()?;
        let at = locked(&*ticked.bridge.upgrade()?).next_tick();
        if at == Time::NEVER { None } else { ticked.start.checked_add(Duration::from_nanos(at.as_nanos())) }
    }

    /// Runs the clock. Then noq is to be asked for packets.
    pub fn tick(&self, now: Instant) {
        if let Some(ticked) = locked(&self.0).as_ref()
            && let Some(bridge) = ticked.bridge.upgrade()
        {
            locked(&bridge).tick(factory::time(ticked.start, now));
        }
    }
}

/// A paceline controller as one of noq's.
///
/// A duplicate ([`Controller::clone_box`], for a path that changed) begins anew: RFC 9000 section 9.4 asks for that wherever the path may
/// be another.
pub struct Adapter {
    /// Shared with the [`Ticker`], and changed by questions: what an acknowledgement said is complete when noq asks.
    bridge: Arc<Mutex<Bridge>>,
    factory: Factory,
    start: Instant,
    mtu: u16,
}

impl Adapter {
    fn new(factory: &Factory, start: Instant, mtu: u16) -> Self {
        let bridge = Bridge::new(factory.controller(mtu), mtu).informed(factory.reports());
        let bridge = if factory.ticker.is_some() { bridge.ticked() } else { bridge };
        let bridge = Arc::new(Mutex::new(bridge));
        if let Some(ticker) = &factory.ticker {
            *locked(&ticker.0) = Some(Ticked { bridge: Arc::downgrade(&bridge), start });
        }
        Self { bridge, factory: factory.clone(), start, mtu }
    }

    /// The controller's own variables, as [`paceline_cc::Controller::describe`] names them.
    pub fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.bridge().controller().describe(report);
    }

    fn bridge(&self) -> MutexGuard<'_, Bridge> {
        locked(&self.bridge)
    }

    fn time(&self, at: Instant) -> Time {
        factory::time(self.start, at)
    }

    fn report(&self, now: Instant) -> Report {
        Report { at: self.time(now), heard: self.time(self.factory.heard(now)) }
    }

    /// RTT samples go into the recording.
    fn record(&self) {
        for (at, rtt) in self.bridge().samples() {
            self.factory.sampled(self.start + Duration::from_nanos(at.as_nanos()), rtt);
        }
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("controller", self.factory.spec()).finish_non_exhaustive()
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.record();
        self.factory.ended(self.start, self.bridge().controller());
    }
}

impl Controller for Adapter {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        let now = self.time(now);
        self.bridge().on_packet_sent(now, bytes, pn);
        self.record();
    }

    fn on_cwnd_limited(&mut self) {
        self.bridge().on_cwnd_limited();
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, _bytes: u64, pn: u64, app_limited: bool, _rtt: &RttEstimator) {
        let (report, sent) = (self.report(now), self.time(sent));
        self.bridge().on_ack(report, sent, pn, app_limited);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        let report = self.report(now);
        self.bridge().on_end_acks(report, in_flight, app_limited);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let report = self.report(now);
        self.bridge().on_congestion_event(report, is_persistent_congestion, is_ecn);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        let report = self.report(now);
        self.bridge().on_packet_lost(report, lost_bytes, pn);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.bridge().on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.bridge().on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.bridge().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut bridge = self.bridge();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = bridge.own_window();
        metrics.ssthresh = bridge.threshold();
        if let Some(rate) = bridge.pacer() {
            metrics.pacing_rate = Some(rate.as_bytes_per_sec());
            let quantum = if rate < ALONE { 0 } else { rate.bytes_in(QUANTUM) };
            metrics.send_quantum = Some(quantum.max(u64::from(self.mtu)));
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self::new(&self.factory, self.start, self.mtu))
    }

    fn initial_window(&self) -> u64 {
        self.bridge().own_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
