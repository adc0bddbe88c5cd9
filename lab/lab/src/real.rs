//! The real world: the same plans over sockets, the kernel's TCP and an emulated path, one run after the other.
//!
//! Linux alone; elsewhere every call says so in one line.

use std::path::Path;
use std::time::Duration;

use paceline_cc::Nanos;
use paceline_experiment::{DrivenBy, Hooks, Outcome, Program, config};

use crate::contestant::Contestant;
use crate::record::{Record, ReleaseError, rounded};
use crate::run::World;
use crate::scenario::{KeyError, Plan};

/// From the end of a run to the start of the next, seconds: to take a world down and build another (measured).
const BETWEEN: f64 = 0.7;

/// How long a plan takes on the wall's clock.
pub fn lasts(plan: &Plan) -> Duration {
    Duration::from_secs_f64(plan.scenario.seconds + BETWEEN)
}

/// Why the real world cannot run something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RealError {
    /// This is not Linux.
    #[error("--real: sockets and kernel flows behind an emulated path need Linux; leave it out for the simulator")]
    NeedsLinux,
    /// This process may not make namespaces.
    #[cfg(target_os = "linux")]
    #[error("--real: {0}")]
    Namespace(#[from] paceline_linux::namespace::NamespaceError),
    /// The kernel lacks the congestion control of the scenario's tunnel.
    #[error("tunnel: this kernel's TCP has no '{}', it has {}; name one of them", name.escape_debug(), there.join(", "))]
    Tunnel {
        /// As the scenario has it.
        name: String,
        /// What the kernel has.
        there: Vec<String>,
    },
    /// The scenario has no such world.
    #[error(transparent)]
    Plan(#[from] KeyError),
    /// A flow or a path is not for the real world.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Refused(#[from] paceline_testbed::race::Refused),
    /// A run did not come to its end.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Race(#[from] paceline_testbed::race::TestbedError),
}

/// What the host had to do with a run.
#[derive(Clone, Debug)]
pub struct Host {
    cpu: Nanos,
    /// By flow, and of the contestant's own together.
    driven_by: Vec<Option<DrivenBy>>,
    own_driven_by: Option<DrivenBy>,
    error: [Nanos; 3],
    late: u64,
    trusted: bool,
}

impl Host {
    /// CPU time of the contestant's own endpoints.
    pub fn cpu(&self) -> Nanos {
        self.cpu
    }

    /// Whether the emulator kept time.
    pub fn trusted(&self) -> bool {
        self.trusted
    }

    /// Writes it into the record.
    pub fn add_to(&self, record: &mut Record) {
        let micros = |value: Nanos| rounded(value.as_nanos() as f64 / 1e3);
        let [p50, p99, max] = self.error.map(micros);
        record.world = World::Real;
        record.driven_by = self.own_driven_by;
        for (flow, driven_by) in record.flows.iter_mut().zip(&self.driven_by) {
            flow.driven_by = *driven_by;
        }
        record.cpu_s = Some(rounded(self.cpu.as_secs_f64()));
        record.release_error_us = Some(ReleaseError { p50, p99, max });
        record.late = Some(self.late);
        record.trusted = Some(self.trusted);
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use paceline_linux::namespace;
    use paceline_testbed::race;

    use super::*;

    /// Sees to it that this process may make namespaces; the first thing, while it has a single thread.
    ///
    /// # Errors
    /// [`RealError::Namespace`]: why not, and how to fix it.
    pub fn acquire() -> Result<(), RealError> {
        Ok(namespace::acquire().map(drop)?)
    }

    /// Prepares a program for a race, in the folder that its commands share, for flows of this many bytes where they have an end.
    /// What it says of itself, where it does.
    ///
    /// # Errors
    /// When it is not there, or one of its commands failed.
    pub(crate) fn prepare(program: &Program, bytes: Option<u64>, shared: &Path) -> Result<Option<String>, RealError> {
        let refused = race::TestbedError::from;
        let version = race::programs::version(program, shared).map_err(refused)?;
        race::programs::prepare(program, bytes, shared).map_err(refused)?;
        Ok(version)
    }

    /// What the real world does otherwise than the simulator, one line each.
    ///
    /// # Errors
    /// The first thing that it cannot do, and how to fix it.
    pub fn check(contestants: &[Contestant], plans: &[Plan]) -> Result<Vec<String>, RealError> {
        let mut notes = Vec::new();
        if let Some(name) = plans.iter().find_map(|plan| plan.scenario.tunnel.as_ref()) {
            let there = paceline_linux::tcp::controllers();
            if !there.contains(name) {
                return Err(RealError::Tunnel { name: name.clone(), there });
            }
        }
        for contestant in contestants {
            for plan in plans {
                let world: config::Config<paceline_emulator::Frame> = plan.world(contestant, None)?;
                let graph = world.topology.graph();
                if plan.scenario.tunnel.is_some() {
                    race::check_tunnel(graph, &world.flows)?;
                }
                notes.extend(race::check(graph, &world.flows, &world.cross)?);
            }
        }
        notes.sort();
        notes.dedup();
        Ok(notes)
    }

    /// Runs a plan; the flows are those of its world.
    ///
    /// # Errors
    /// What went wrong, and when it was aborted.
    pub(crate) fn run(
        contestant: &Contestant,
        plan: &Plan,
        sample_every: Option<Nanos>,
        hooks: Hooks,
    ) -> Result<(Vec<config::Flow>, Outcome, Host), RealError> {
        let world = plan.world(contestant, sample_every)?;
        let flows = world.flows.clone();
        let race::Finished { outcome, host } = race::run_with(world, plan.scenario.tunnel.as_deref(), hooks)?;
        let own = plan.own();
        let cpu = host.cpu.iter().zip(&own).filter(|(_, own)| **own).map(|(cpu, _)| *cpu);
        let mut own_by = host.driven_by.iter().zip(&own).filter(|(_, own)| **own).map(|(driven_by, _)| *driven_by);
        let first = own_by.next().flatten();
        let lateness = &host.lateness;
        let host = Host {
            cpu: cpu.fold(Nanos::ZERO, |sum, cpu| sum + cpu),
            error: [lateness.p50(), lateness.p99(), lateness.max()],
            own_driven_by: first.filter(|_| own_by.all(|driven_by| driven_by == first)),
            driven_by: host.driven_by,
            late: lateness.late(),
            trusted: host.trusted,
        };
        Ok((flows, outcome, host))
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::*;

    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub fn acquire() -> Result<(), RealError> {
        Err(RealError::NeedsLinux)
    }

    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn prepare(_: &Program, _: Option<u64>, _: &Path) -> Result<Option<String>, RealError> {
        Err(RealError::NeedsLinux)
    }

    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub fn check(_: &[Contestant], _: &[Plan]) -> Result<Vec<String>, RealError> {
        Err(RealError::NeedsLinux)
    }

    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn run(
        _: &Contestant,
        _: &Plan,
        _: Option<Nanos>,
        _: Hooks,
    ) -> Result<(Vec<config::Flow>, Outcome, Host), RealError> {
        Err(RealError::NeedsLinux)
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{acquire, check};
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{prepare, run};
#[cfg(target_os = "linux")]
pub use linux::{acquire, check};
#[cfg(target_os = "linux")]
pub(crate) use linux::{prepare, run};
