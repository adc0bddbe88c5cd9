//! The real world: the same plans over sockets, the kernel's TCP and an emulated path, one run after the other.
//!
//! Linux alone; elsewhere every call says so in one line.

use paceline_cc::Nanos;
use paceline_experiment::{Outcome, config};

use crate::contestant::Contestant;
use crate::record::{Record, ReleaseError, rounded};
use crate::scenario::Plan;

/// What the host had to do with a run.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    cpu: Nanos,
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
        "real".clone_into(&mut record.world);
        record.cpu_s = Some(rounded(self.cpu.as_secs_f64()));
        record.release_error_us = Some(ReleaseError { p50, p99, max });
        record.late = Some(self.late);
        record.trusted = Some(self.trusted);
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use paceline_emulator::namespace;
    use paceline_testbed::race;

    use super::*;

    /// Sees to it that this process may make namespaces; the first thing, while it has a single thread.
    ///
    /// # Errors
    /// One line: why not, and how to fix it.
    pub fn acquire() -> Result<(), String> {
        namespace::acquire().map(drop).map_err(|error| format!("--real: {error}"))
    }

    /// What the real world does otherwise than the simulator, one line each.
    ///
    /// # Errors
    /// One line: the first thing that it cannot do, and how to fix it.
    pub fn check(contestants: &[Contestant], plans: &[Plan]) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        if let Some(name) = plans.iter().find_map(|plan| plan.scenario.tunnel.as_ref()) {
            let there = paceline_testbed::tcp::available();
            if !there.contains(name) {
                let has = there.join(", ");
                return Err(format!(
                    "tunnel: this kernel's TCP has no '{}', it has {has}; name one of them",
                    name.escape_debug()
                ));
            }
        }
        for contestant in contestants {
            for plan in plans {
                let world: config::Config<paceline_emulator::Frame> =
                    plan.world(contestant, None).map_err(|(key, problem)| format!("{key}: {problem}"))?;
                notes.extend(race::check(world.topology.graph(), &world.flows, &world.cross)?);
            }
        }
        notes.sort();
        notes.dedup();
        Ok(notes)
    }

    /// Runs a plan; the flows are those of its world.
    ///
    /// # Errors
    /// One line: what went wrong.
    pub fn run(
        contestant: &Contestant,
        plan: &Plan,
        sample_every: Option<Nanos>,
    ) -> Result<(Vec<config::Flow>, Outcome, Host), String> {
        let world = plan.world(contestant, sample_every).map_err(|(key, problem)| format!("{key}: {problem}"))?;
        let flows = world.flows.clone();
        let race::Finished { outcome, host } =
            race::run_in(world, plan.scenario.tunnel.as_deref()).map_err(|error| error.to_string())?;
        let own = plan.own();
        let cpu = host.cpu.iter().zip(&own).filter(|(_, own)| **own).map(|(cpu, _)| *cpu);
        let lateness = &host.lateness;
        let host = Host {
            cpu: cpu.fold(Nanos::ZERO, |sum, cpu| sum + cpu),
            error: [lateness.p50(), lateness.p99(), lateness.max()],
            late: lateness.late(),
            trusted: host.trusted,
        };
        Ok((flows, outcome, host))
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::*;

    const NEEDS_LINUX: &str =
        "--real: sockets and kernel flows behind an emulated path need Linux; leave it out for the simulator";

    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub fn acquire() -> Result<(), String> {
        Err(NEEDS_LINUX.to_owned())
    }

    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub fn check(_: &[Contestant], _: &[Plan]) -> Result<Vec<String>, String> {
        Err(NEEDS_LINUX.to_owned())
    }

    /// Refused.
    ///
    /// # Errors
    /// Always.
    pub fn run(_: &Contestant, _: &Plan, _: Option<Nanos>) -> Result<(Vec<config::Flow>, Outcome, Host), String> {
        Err(NEEDS_LINUX.to_owned())
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{acquire, check, run};
#[cfg(target_os = "linux")]
pub use linux::{acquire, check, run};
