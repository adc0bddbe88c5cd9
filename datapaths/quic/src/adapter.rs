//! A paceline controller where quinn wants one of its own.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_cc::datapath::QUIC;
use paceline_cc::observe::{Observed, Observer};
use paceline_cc::{Env, Misfit, Pacing, Remembered, Spec, Time};
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

use crate::bridge::Bridge;

/// One round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSample {
    /// When the acknowledgement came.
    pub at: Instant,
    /// From the departure of the newest packet that it acknowledged; the receiver's delay of the acknowledgement is part
    /// of it.
    pub rtt: Duration,
}

/// Where the controllers of a [`Factory`] leave what they saw.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    rtt: Arc<Mutex<Vec<RttSample>>>,
    remembered: Arc<Mutex<Option<Remembered>>>,
}

impl Recording {
    /// The RTT samples so far, oldest first; they are gone from here.
    pub fn take(&self) -> Vec<RttSample> {
        std::mem::take(&mut locked(&self.rtt))
    }

    /// What the last connection that is gone learnt for later ones to the same place, such as for `paceline_remembered::PathStore`; it is
    /// gone from here.
    pub fn remembered(&self) -> Option<Remembered> {
        locked(&self.remembered).take()
    }
}

/// Makes a controller of the registry for each connection; goes into
/// [`quinn::TransportConfig::congestion_controller_factory`].
///
/// ```
/// use std::sync::Arc;
/// let factory = paceline_quic::Factory::new("copa:delta=0.1".parse()?, 1)?;
/// quinn::TransportConfig::default().congestion_controller_factory(Arc::new(factory));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Factory {
    spec: Spec,
    seed: u64,
    recording: Option<Recording>,
    observe: Option<Observe>,
    virtual_time: bool,
    lent: Arc<Mutex<Option<Remembered>>>,
}

/// Who sees a controller that is made with this.
type Observing = dyn Fn(&Env) -> Option<Box<dyn Observer>> + Send + Sync;

#[derive(Clone)]
struct Observe(Arc<Observing>);

impl std::fmt::Debug for Observe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observe")
    }
}

impl Factory {
    /// Controllers made from `spec`, with `seed` for those that draw.
    ///
    /// # Errors
    /// A [`Misfit`] for what quinn cannot express.
    pub fn new(spec: Spec, seed: u64) -> Result<Self, Misfit> {
        QUIC.carries(&spec)?;
        Ok(Self { spec, seed, recording: None, observe: None, virtual_time: false, lent: Arc::default() })
    }

    /// The same, leaving what its controllers see in `recording`.
    #[must_use]
    pub fn recorded(self, recording: &Recording) -> Self {
        Self { recording: Some(recording.clone()), ..self }
    }

    /// The same, with what an earlier connection to the same place learnt, which the first controller alone is lent.
    #[must_use]
    pub fn lent(self, remembered: Option<Remembered>) -> Self {
        Self { lent: Arc::new(Mutex::new(remembered)), ..self }
    }

    /// The same, each controller seen by the one that `observe` answers for what it is made with. Times count from when it was made.
    #[must_use]
    pub fn observed(self, observe: impl Fn(&Env) -> Option<Box<dyn Observer>> + Send + Sync + 'static) -> Self {
        Self { observe: Some(Observe(Arc::new(observe))), ..self }
    }

    /// The same for connections of `quinn_proto` whose time is not the machine's: only what quinn says counts.
    #[must_use]
    pub fn in_virtual_time(self) -> Self {
        Self { virtual_time: true, ..self }
    }

    /// What it makes.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    fn adapter(&self, start: Instant, mtu: u16) -> Adapter {
        // quinn paces at 5/4 of the window each smoothed RTT.
        let remembered = locked(&self.lent).take();
        let env = Env { mss: u32::from(mtu), seed: self.seed, paced: true, remembered };
        let observer = self.observe.as_ref().and_then(|observe| (observe.0)(&env));
        let bridge = Mutex::new(Bridge::new(Observed::wrap(self.spec.build(&env), observer), mtu));
        Adapter { bridge, factory: self.clone(), start, mtu }
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(self.adapter(now, current_mtu))
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
    /// The controller's own variables, as [`paceline_cc::Controller::describe`] names them.
    pub fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        locked(&self.bridge).controller().describe(report);
    }

    fn bridge(&mut self) -> &mut Bridge {
        self.bridge.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// When an acknowledgement has come that quinn says came at `now`. quinn reads its clock before it reads the socket: what
    /// arrives while the thread waits for a processor in between seems to have come before it was there, and an RTT that is
    /// too short stays the path's smallest for long. Too long ones pass.
    fn heard(&self, now: Instant) -> Instant {
        if self.factory.virtual_time { now } else { now.max(Instant::now()) }
    }

    fn time(&self, at: Instant) -> Time {
        let nanos = at.saturating_duration_since(self.start).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let Some(recording) = &self.factory.recording else { return };
        let now = if self.factory.virtual_time { self.start } else { Instant::now() };
        let remembered = locked(&self.bridge).controller().remember(self.time(now));
        if remembered.is_some() {
            *locked(&recording.remembered) = remembered;
        }
    }
}

impl Controller for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let now = self.time(now);
        self.bridge().on_sent(now, bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, _rtt: &RttEstimator) {
        let (now, sent) = (self.time(self.heard(now)), self.time(sent));
        self.bridge().on_ack(now, sent, bytes, app_limited);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        let now = self.heard(now);
        let time = self.time(now);
        let sample = self.bridge().on_end_acks(time, in_flight, app_limited);
        if let (Some(rtt), Some(recording)) = (sample, &self.factory.recording) {
            let rtt = Duration::from_nanos(rtt.as_nanos());
            locked(&recording.rtt).push(RttSample { at: now, rtt });
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        let (now, sent) = (self.time(self.heard(now)), self.time(sent));
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
        Box::new(self.factory.adapter(self.start, self.mtu))
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// What the mutex guards, also after a panic elsewhere: it is only numbers.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use paceline_cc::Nanos;

    use super::*;

    #[test]
    fn the_first_controller_alone_is_lent_what_is_remembered_and_leaves_it() {
        let remembered = Remembered { window: 1 << 20, min_rtt: Nanos::from_millis(50), age: Nanos::ZERO };
        let recording = Recording::default();
        let factory = Factory::new("cubic:start=resume".parse().unwrap(), 1).unwrap();
        let factory = factory.recorded(&recording).lent(Some(remembered));
        drop(factory.adapter(Instant::now(), 1200));
        assert_eq!(recording.remembered(), Some(remembered));
        drop(factory.adapter(Instant::now(), 1200));
        assert_eq!(recording.remembered(), None);
    }

    #[test]
    fn an_old_time_is_not_taken_for_that_of_an_acknowledgement() {
        let factory = Factory::new("copa".parse().unwrap(), 1).unwrap();
        let (old, late) = (Instant::now(), Duration::from_millis(5));
        std::thread::sleep(late);
        assert!(factory.adapter(old, 1200).heard(old) >= old + late);
        assert_eq!(factory.in_virtual_time().adapter(old, 1200).heard(old), old);
    }
}
