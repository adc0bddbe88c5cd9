//! Makes controllers of the registry for whichever stack asks, and keeps what they saw.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_cc::datapath::{Datapath, QUIC};
use paceline_cc::observe::{Observed, Observer};
use paceline_cc::{Controller, Env, Misfit, Nanos, Remembered, Spec, Time};
use paceline_telemetry::ReportInbox;

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
    reports: Arc<Mutex<Option<ReportInbox>>>,
    /// Packets are spread where the controller sets no pace.
    pub(crate) paced: bool,
    #[cfg(feature = "noq")]
    pub(crate) ticker: Option<crate::noq::Ticker>,
    #[cfg(feature = "s2n")]
    pub(crate) watch: Option<crate::s2n::Watch>,
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
        Self::over(&QUIC, spec, seed)
    }

    /// The same for the stack that is this datapath.
    pub(crate) fn over(datapath: &'static Datapath, spec: Spec, seed: u64) -> Result<Self, Misfit> {
        datapath.carries(&spec)?;
        Ok(Self {
            spec: spec.over(datapath),
            seed,
            recording: None,
            observe: None,
            virtual_time: false,
            lent: Arc::default(),
            reports: Arc::default(),
            paced: true,
            #[cfg(feature = "noq")]
            ticker: None,
            #[cfg(feature = "s2n")]
            watch: None,
        })
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

    /// The same, with the reports of the path's hops, which the first controller alone gets.
    #[must_use]
    pub fn informed(self, reports: ReportInbox) -> Self {
        Self { reports: Arc::new(Mutex::new(Some(reports))), ..self }
    }

    /// The same, each controller seen by the one that `observe` answers for what it is made with. Times count from when it was made.
    #[must_use]
    pub fn observed(self, observe: impl Fn(&Env) -> Option<Box<dyn Observer>> + Send + Sync + 'static) -> Self {
        Self { observe: Some(Observe(Arc::new(observe))), ..self }
    }

    /// The same for connections of `quinn_proto` or `noq_proto` whose time is not the machine's: only what these say counts.
    #[must_use]
    pub fn in_virtual_time(self) -> Self {
        Self { virtual_time: true, ..self }
    }

    /// The same where a controller without a pace of its own is to have none. quinn and noq have one of theirs, s2n-quic has none.
    #[must_use]
    pub fn unpaced(self) -> Self {
        Self { paced: false, ..self }
    }

    /// What it makes.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// A controller for packets of `mtu` bytes. Where it sets no rate, quinn and noq pace at 5/4 of the window each smoothed RTT.
    pub(crate) fn controller(&self, mtu: u16) -> Box<dyn Controller> {
        let remembered = locked(&self.lent).take();
        let env = Env::new(u32::from(mtu)).with_seed(self.seed).with_paced(self.paced).with_remembered(remembered);
        let observer = self.observe.as_ref().and_then(|observe| (observe.0)(&env));
        Observed::wrap(self.spec.build(&env), observer)
    }

    /// The reports that its controller is to have.
    pub(crate) fn reports(&self) -> Option<ReportInbox> {
        locked(&self.reports).take()
    }

    /// When an acknowledgement has come that the stack says came at `now`. It may have read its clock before it read the socket: what
    /// arrives while the thread waits for a processor in between seems to have come before it was there, and an RTT that is
    /// too short stays the path's smallest for long. Too long ones pass.
    pub(crate) fn heard(&self, now: Instant) -> Instant {
        if self.virtual_time { now } else { now.max(Instant::now()) }
    }

    /// An RTT sample, for the recording.
    pub(crate) fn sampled(&self, at: Instant, rtt: Nanos) {
        if let Some(recording) = &self.recording {
            locked(&recording.rtt).push(RttSample { at, rtt: Duration::from_nanos(rtt.as_nanos()) });
        }
    }

    /// A controller that began at `start` is gone: what it learnt, for the recording.
    pub(crate) fn ended(&self, start: Instant, controller: &dyn Controller) {
        let Some(recording) = &self.recording else { return };
        let now = if self.virtual_time { start } else { Instant::now() };
        let remembered = controller.remember(time(start, now));
        if remembered.is_some() {
            *locked(&recording.remembered) = remembered;
        }
    }
}

/// A moment by the clock of a controller that began at `start`.
pub(crate) fn time(start: Instant, at: Instant) -> Time {
    let nanos = at.saturating_duration_since(start).as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// What the mutex guards, also after a panic elsewhere: it is only numbers.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_controller_alone_is_lent_what_is_remembered_and_leaves_it() {
        let remembered = Remembered::new(1 << 20, Nanos::from_millis(50), Nanos::ZERO);
        let recording = Recording::default();
        let factory = Factory::new("cubic:start=resume".parse().unwrap(), 1).unwrap();
        let factory = factory.recorded(&recording).lent(Some(remembered));
        factory.ended(Instant::now(), factory.controller(1200).as_ref());
        assert_eq!(recording.remembered(), Some(remembered));
        factory.ended(Instant::now(), factory.controller(1200).as_ref());
        assert_eq!(recording.remembered(), None);
    }

    #[test]
    fn an_old_time_is_not_taken_for_that_of_an_acknowledgement() {
        let factory = Factory::new("copa".parse().unwrap(), 1).unwrap();
        let (old, late) = (Instant::now(), Duration::from_millis(5));
        std::thread::sleep(late);
        assert!(factory.heard(old) >= old + late);
        assert_eq!(factory.in_virtual_time().heard(old), old);
    }
}
