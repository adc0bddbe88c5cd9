//! One run: a plan with a contestant, in virtual or in real time. Races, claims, rules, sweeps, environments and Python run their plans
//! here: where it runs, who sees it, what ends it early and how far it is to be believed are decided once.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use paceline_cc::{Nanos, Time};
use paceline_experiment::endpoints::{self, NotSimulated};
use paceline_experiment::{Flow, Hooks, Live, Outcome, ProgramPlaces, RunFailure, SharedTap, Tap};
use serde::{Deserialize, Serialize};

use crate::contestant::Contestant;
use crate::flow_logs::FlowLogError;
use crate::measure;
use crate::real::{self, Host, RealError};
use crate::record::Record;
use crate::scenario::{KeyError, Plan};

/// Pieces of a run in virtual time, between which it can be ended: 2000, so that a long one has them often (our choice).
const PIECES: u64 = 2000;
/// A piece is not shorter than this, so that what comes between two costs nothing (our choice).
const SHORTEST_PIECE: Nanos = Nanos::from_millis(10);

/// Points of a series where nothing else is asked for (our choice: about what a plot can show).
const POINTS: f64 = 600.0;

/// Where a plan is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum World {
    /// Virtual time, on all cores.
    #[default]
    Sim,
    /// Sockets and kernel flows in real time, one run after the other unless more are asked for. [`crate::real::acquire`] comes first.
    Real,
}

impl World {
    /// Whether it runs in real time, where runs share the host.
    pub fn is_real(self) -> bool {
        self == Self::Real
    }

    /// How many runs at once, 0 for one per core: in the real world a single one where nothing else is asked for.
    pub fn threads(self, wanted: usize) -> usize {
        match self {
            Self::Sim => wanted,
            Self::Real => wanted.max(1),
        }
    }

    /// How often a run on which a claim rests is begun again when it failed, or showed the host rather than the path: once in the
    /// real world (our choice), never in virtual time, where it would be the same.
    pub fn repeats(self) -> u32 {
        match self {
            Self::Sim => 0,
            Self::Real => 1,
        }
    }

    /// How long a plan takes on the wall's clock, where that is known.
    pub fn lasts(self, plan: &Plan) -> Duration {
        match self {
            Self::Sim => Duration::ZERO,
            Self::Real => real::lasts(plan),
        }
    }

    /// What this world does otherwise than the plans say, one line each.
    ///
    /// # Errors
    /// The first thing that it cannot do, and how to fix it.
    pub fn check(self, contestants: &[Contestant], plans: &[Plan]) -> Result<Vec<String>, RunError> {
        match self {
            Self::Sim => {
                let all = || plans.iter().take(1);
                let mut flows = contestants.iter().flat_map(|one| all().flat_map(move |plan| plan.flows(one)));
                flows.try_for_each(|flow| endpoints::check(&flow))?;
                Ok(Vec::new())
            }
            Self::Real => Ok(real::check(contestants, plans)?),
        }
    }
}

/// Time between two points of a plan's series, where nothing else is asked for: whole milliseconds.
pub fn step(plan: &Plan) -> Nanos {
    Nanos::from_millis((plan.scenario.seconds * 1e3 / POINTS).ceil().max(1.0) as u64)
}

/// Who sees a run, and what may end it early; the default is nothing.
#[derive(Clone, Default)]
pub struct Observers<'a> {
    /// Time between two points of the series; without it there is none.
    pub sample_every: Option<Nanos>,
    /// Sees packets and controllers.
    pub tap: Option<SharedTap>,
    /// Counters that a run in real time adds to.
    pub live: Option<Arc<Live>>,
    /// Real world: the file into which the headers of all packets on all links go, as pcapng.
    pub pcap: Option<PathBuf>,
    /// Ends the run when it is set.
    pub abort: Arc<AtomicBool>,
    /// Where programs that are not ours work; without it none runs.
    pub programs: Option<ProgramPlaces>,
    /// Asked on the run's own thread between two pieces of virtual time: true ends the run.
    pub ends: Option<&'a dyn Fn() -> bool>,
}

/// A run that came to its end.
pub struct Ended {
    /// The flows of its world.
    pub flows: Vec<Flow>,
    /// What they left.
    pub outcome: Outcome,
    /// Real world: what the host had to do with it.
    pub host: Option<Host>,
}

impl Ended {
    /// Whether it shows the path: not so where a busy host came between.
    pub fn trusted(&self) -> bool {
        self.host.as_ref().is_none_or(Host::trusted)
    }

    /// The figures.
    pub fn record(&self, plan: &Plan, contestant: &Contestant) -> Record {
        let mut record = measure::record(plan, contestant, &self.flows, &self.outcome);
        if let Some(host) = &self.host {
            host.add_to(&mut record);
        }
        record
    }
}

/// Why a run did not reach its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Its world cannot be built.
    #[error(transparent)]
    Plan(#[from] KeyError),
    /// The simulator does not have a flow's datapath.
    #[error(transparent)]
    Sim(#[from] NotSimulated),
    /// Its logs cannot be written.
    #[error(transparent)]
    Log(#[from] FlowLogError),
    /// The simulator ended it.
    #[error(transparent)]
    Failure(#[from] RunFailure),
    /// The real world ended it.
    #[error(transparent)]
    Real(#[from] RealError),
    /// Another host, or the network between, ended it.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Remote(#[from] paceline_testbed::remote::RemoteError),
    /// It was ended from outside.
    #[error("it was stopped")]
    Stopped,
}

/// Runs a plan.
///
/// # Errors
/// What went wrong, or that it was ended early.
pub fn run(plan: &Plan, contestant: &Contestant, world: World, observers: &Observers<'_>) -> Result<Ended, RunError> {
    match world {
        World::Sim => simulate(plan, contestant, observers),
        World::Real => {
            let Observers { sample_every, tap, live, pcap, abort, programs, ends: _ } = observers.clone();
            let hooks = Hooks { abort, live, tap, pcap, programs };
            let (flows, outcome, host) = real::run(contestant, plan, sample_every, hooks)?;
            Ok(Ended { flows, outcome, host: Some(host) })
        }
    }
}

/// Runs in virtual time a world that a claim or a course of training makes, and not a scenario file.
///
/// # Errors
/// [`RunFailure`].
pub fn simulated(config: paceline_sim::Config, tap: Option<&mut dyn Tap>) -> Result<Outcome, RunFailure> {
    let mut outcome = paceline_sim::run(config, tap);
    outcome.failure.take().map_or(Ok(outcome), Err)
}

fn simulate(plan: &Plan, contestant: &Contestant, observers: &Observers<'_>) -> Result<Ended, RunError> {
    let config = plan.world(contestant, observers.sample_every)?;
    let flows = config.flows.clone();
    flows.iter().try_for_each(endpoints::check)?;
    let mut tap = observers.tap.as_ref().map(|tap| tap.lock().unwrap_or_else(PoisonError::into_inner));
    let tap = tap.as_deref_mut().map(|tap| tap as &mut dyn Tap);
    let mut world = paceline_sim::World::new(config, tap);
    let ends = || observers.abort.load(Ordering::Relaxed) || observers.ends.is_some_and(|ends| ends());
    let piece = Nanos::from_nanos(Nanos::from_secs_f64(plan.scenario.seconds).as_nanos() / PIECES).max(SHORTEST_PIECE);
    let mut until = Time::ZERO;
    loop {
        until += piece;
        let over = world.run_until(until);
        if ends() {
            return Err(RunError::Stopped);
        }
        if over {
            break;
        }
    }
    let mut outcome = world.finish();
    outcome.failure.take().map_or(Ok(Ended { flows, outcome, host: None }), |failure| Err(failure.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Options, Source};

    #[test]
    fn what_the_simulator_lacks_is_an_error_and_what_ends_a_run_is_asked() {
        let text = "name = \"a\"\nseconds = 1\nruns = 1\ncontestants = [\"cubic@quic\", \"cubic@tcp\"]\n\n[down]\nrate = \"1 Mbit/s\"\n";
        let plan = Source::from_text("a.toml", text, Options::default()).plans().unwrap().remove(0);
        let [quic, tcp] = &plan.scenario.contestants[..] else { panic!("two contestants") };
        let run = |contestant, observers: &Observers<'_>| run(&plan, contestant, World::Sim, observers);
        assert!(matches!(run(quic, &Observers::default()), Err(RunError::Sim(_))));
        assert!(run(tcp, &Observers::default()).is_ok_and(|ended| ended.trusted()));
        let ends = || true;
        assert!(matches!(run(tcp, &Observers { ends: Some(&ends), ..Observers::default() }), Err(RunError::Stopped)));
        let abort = Arc::new(AtomicBool::new(true));
        assert!(matches!(run(tcp, &Observers { abort, ..Observers::default() }), Err(RunError::Stopped)));
    }
}
