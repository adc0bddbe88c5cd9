//! A paceline controller where quinn wants one of its own.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use paceline_cc::{Pacing, Time};
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

use crate::bridge::Bridge;
use crate::factory::{self, Factory, locked};

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Adapter::new(&self, now, current_mtu))
    }
}

/// A paceline controller as a quinn one.
///
/// A duplicate ([`Controller::clone_box`], for a path whose port changed) begins anew: RFC 9000 section 9.4 asks for that
/// wherever the path may be another.
pub struct Adapter {
    /// A mutex for `Sync` alone: no other thread looks while quinn changes it.
    bridge: Mutex<Bridge>,
    factory: Factory,
    start: Instant,
    mtu: u16,
}

impl Adapter {
    fn new(factory: &Factory, start: Instant, mtu: u16) -> Self {
        let bridge = Mutex::new(Bridge::new(factory.controller(mtu), mtu).informed(factory.reports()));
        Self { bridge, factory: factory.clone(), start, mtu }
    }

    /// The controller's own variables, as [`paceline_cc::Controller::describe`] names them.
    pub fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        locked(&self.bridge).controller().describe(report);
    }

    fn bridge(&mut self) -> &mut Bridge {
        self.bridge.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self, at: Instant) -> Time {
        factory::time(self.start, at)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.factory.ended(self.start, locked(&self.bridge).controller());
    }
}

impl Controller for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let now = self.time(now);
        self.bridge().on_sent(now, bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, _rtt: &RttEstimator) {
        let (now, sent) = (self.time(self.factory.heard(now)), self.time(sent));
        self.bridge().on_ack(now, sent, bytes, app_limited);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        let now = self.factory.heard(now);
        let time = self.time(now);
        if let Some(rtt) = self.bridge().on_end_acks(time, in_flight, app_limited) {
            self.factory.sampled(now, rtt);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        let (now, sent) = (self.time(self.factory.heard(now)), self.time(sent));
        self.bridge().on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.bridge().on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        locked(&self.bridge).window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let bridge = locked(&self.bridge);
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = bridge.window();
        metrics.pacing_rate = match bridge.controller().pacing() {
            Pacing::Rate(rate) => Some(rate.as_bytes_per_sec().saturating_mul(8)),
            Pacing::Free | Pacing::Gap(_) => None,
        };
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self::new(&self.factory, self.start, self.mtu))
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
