//! Who sees the controllers of a world, asked by the threads and datapaths that make them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use paceline_cc::observe::Observer;
use paceline_cc::{Env, Spec, Time};
use paceline_clock::Clock;
use paceline_experiment::{Layer, Moment, SharedTap, Subject};

/// The observers of a tap, where there is one.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    tap: Option<SharedTap>,
    clock: Arc<OnceLock<Clock>>,
    begun: Arc<AtomicU32>,
}

impl Observers {
    /// Those of `tap`.
    pub(crate) fn new(tap: Option<SharedTap>) -> Self {
        Self { tap, ..Self::default() }
    }

    /// The world has this clock from now on.
    pub(crate) fn begin(&self, clock: Clock) {
        // It is set once a run.
        let _ = self.clock.set(clock);
    }

    /// Who sees the controller of a flow that begins now, when its own clock says `at`; flows are counted in this order.
    pub(crate) fn of(&self, layer: Layer, spec: &Spec, env: &Env, at: Time) -> Option<Box<dyn Observer>> {
        let world = self.clock.get().map_or(Time::ZERO, |clock| clock.now());
        self.ask(layer, spec, env, Moment { flow: at, world })
    }

    /// The same for a flow that goes by the world's clock.
    pub(crate) fn of_world(&self, layer: Layer, spec: &Spec, env: &Env) -> Option<Box<dyn Observer>> {
        self.ask(layer, spec, env, Moment::default())
    }

    fn ask(&self, layer: Layer, spec: &Spec, env: &Env, moment: Moment) -> Option<Box<dyn Observer>> {
        let mut tap = self.tap.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let flow = self.begun.fetch_add(1, Ordering::Relaxed);
        tap.observer(&Subject { flow, layer, spec, env, moment })
    }
}
