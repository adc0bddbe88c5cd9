//! Who sees the controllers of a world, asked by the threads and datapaths that make them.

use std::sync::{Arc, OnceLock, PoisonError};

use paceline_cc::observe::{Observer, both};
use paceline_cc::{Env, Spec, Time};
use paceline_experiment::{Flow, Layer, Moment, SharedTap, Subject};
use paceline_linux::clock::Clock;

use crate::numbers::Numbers;
use crate::whens::Whens;

/// The observers of a tap, where there is one, and those of what controllers trigger.
#[derive(Clone)]
pub(crate) struct Observers {
    tap: Option<SharedTap>,
    whens: Option<Arc<Whens>>,
    clock: Arc<OnceLock<Clock>>,
    /// Of the flows that have a controller for their packets, and of those that have one above.
    packets: Arc<Numbers>,
    above: Arc<Numbers>,
}

impl Observers {
    /// Those of `tap` and of `whens` for the controllers of these flows.
    pub(crate) fn new(tap: Option<SharedTap>, whens: Option<Arc<Whens>>, flows: &[Flow]) -> Self {
        let numbers = || Arc::new(Numbers::new(flows));
        Self { tap, whens, clock: Arc::default(), packets: numbers(), above: numbers() }
    }

    /// The world has this clock from now on.
    pub(crate) fn begin(&self, clock: Clock) {
        // It is set once a run.
        let _ = self.clock.set(clock);
    }

    /// Who sees the controller of a flow that begins now, when its own clock says `at`; it is the next one of the configured flow with
    /// this index.
    pub(crate) fn of(&self, index: usize, layer: Layer, spec: &Spec, env: &Env, at: Time) -> Option<Box<dyn Observer>> {
        let world = self.clock.get().map_or(Time::ZERO, |clock| clock.now());
        let numbers = match layer {
            Layer::Packets => &self.packets,
            Layer::Above => &self.above,
        };
        let moment = Moment { flow: at, world };
        self.ask(&Subject { flow: numbers.next(index), layer, spec, env, moment })
    }

    /// The same for a flow that goes by the world's clock and knows its number.
    pub(crate) fn of_world(&self, flow: u32, layer: Layer, spec: &Spec, env: &Env) -> Option<Box<dyn Observer>> {
        self.ask(&Subject { flow, layer, spec, env, moment: Moment::default() })
    }

    fn ask(&self, subject: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let tapped = self.tap.as_ref().and_then(|tap| {
            let mut tap = tap.lock().unwrap_or_else(PoisonError::into_inner);
            tap.observer(subject)
        });
        both(tapped, self.whens.as_ref().and_then(|whens| whens.observer(subject)))
    }
}
