//! A contestant on a rig, watched: by every event of a controller in this process; of the kernel's own TCP, in real time, by samples of
//! `TCP_INFO`; of a program that is not ours from outside.

use std::collections::BTreeSet;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_cc::{Ability, Nanos};
use paceline_experiment::{Outcome, SharedTap};
use paceline_lab::contestant::Contestant;
use paceline_lab::programs::Programs;
use paceline_lab::run::{self, Observers, World};
use paceline_lab::runner::{Attempt, Task, TaskLabel};

use crate::cases::Case;
use crate::program::Outside;
use crate::rig::{Rig, RigError};
use crate::rules;
use crate::trajectory::{FlowPhase, Origin, Trajectory, TrajectoryPoint};
use crate::watch::FlowWatch;

/// Time between samples: a fourth of the shortest round trip of the rigs that need it (our choice).
const STEP: Nanos = Nanos::from_millis(5);

/// What is said of a run whose emulator did not keep time.
const DOUBTFUL: &str = "NOT to be trusted: on this busy machine over 1 % of the packets left the emulated path more than 1 ms late, or \
    were lost by the host, in each of two attempts; repeat it on a quiet one";

/// One contestant on one rig. In real time [`paceline_lab::real::acquire`] comes first.
#[derive(Clone, Debug)]
pub struct Ride<'a> {
    /// Who.
    pub contestant: Contestant,
    /// On what path.
    pub rig: Rig,
    /// Where.
    pub world: World,
    /// Of a program that is not ours: it is ready to run.
    pub programs: Option<&'a Programs>,
}

impl Ride<'_> {
    /// The variables that the rules of its rig look at.
    fn needs(&self) -> Vec<&'static str> {
        let here = rules::all().filter(|rule| rule.rig == self.rig);
        let needs: BTreeSet<&str> = here.flat_map(|rule| rule.needs.iter().copied()).collect();
        needs.into_iter().collect()
    }

    /// Where its trajectory comes from, and how often it is sampled besides.
    fn watching(&self) -> (Origin, Option<Nanos>) {
        if self.world.is_real() { (Origin::RealTime, Some(STEP)) } else { (Origin::Simulated, None) }
    }
}

impl Task for Ride<'_> {
    type Output = Trajectory;
    type Error = RigError;

    fn label(&self) -> TaskLabel {
        let place = if self.world.is_real() { ", in real time" } else { "" };
        TaskLabel { name: format!("{} on {}{place}", self.contestant, self.rig.name()), number: 1, seed: 1 }
    }

    fn repeats(&self) -> u32 {
        self.world.repeats()
    }

    fn lasts(&self) -> Duration {
        self.rig.plan(&self.contestant).map_or(Duration::ZERO, |plan| self.world.lasts(&plan))
    }

    fn check(&self) -> Result<(), RigError> {
        let plan = self.rig.plan(&self.contestant)?;
        self.world.check(slice::from_ref(&self.contestant), &[plan])?;
        Ok(())
    }

    fn run(&self) -> Result<Attempt<Trajectory>, RigError> {
        let plan = self.rig.plan(&self.contestant)?;
        let name = self.contestant.to_string();
        let (origin, sample_every) = self.watching();
        let watch = Arc::new(Mutex::new(FlowWatch::new(&name, 0, origin).with_variables(self.needs())));
        let tap = Some(Arc::clone(&watch) as SharedTap);
        let outside = self.programs.map(|programs| Outside::new(programs, &self.contestant, self.rig));
        let (pcap, programs) = outside.as_ref().map(|one| (one.capture.clone(), one.places.clone())).unzip();
        let observers = Observers { sample_every, tap, pcap, programs, ..Observers::default() };
        let ended = run::run(&plan, &self.contestant, self.world, &observers)?;
        let mut trajectory = watch.lock().unwrap_or_else(PoisonError::into_inner).trajectory();
        let program = ended.outcome.flows.first().and_then(|flow| flow.program.as_ref());
        if let (Some(outside), Some(program)) = (&outside, program) {
            trajectory = outside.trajectory(&name, program)?;
            outside.over();
        }
        if self.world.is_real() && trajectory.hidden.is_none() {
            if trajectory.points.is_empty() {
                let mss = ended.flows.first().map_or(1448.0, |flow| f64::from(flow.mss));
                trajectory = sampled(&name, &ended.outcome, mss);
            }
            if trajectory.points.iter().all(|point| point.window <= 0.0) {
                return Err(RigError::NoSamples(name));
            }
        }
        trajectory.facts = self.rig.facts();
        let datapath = self.contestant.via.row().datapath;
        let gaps = datapath.lacks.iter().find(|lack| lack.ability == Ability::ExactGaps);
        trajectory.paces.together = gaps.map(|lack| lack.why);
        let begun = trajectory.begun;
        let since = |at: paceline_cc::Time| at.as_secs_f64() - begun;
        trajectory.fired = ended.outcome.fired.iter().map(|fired| (fired.when, since(fired.at))).collect();
        trajectory.unfired =
            (0..self.rig.case().map_or(0, Case::whens) as u32).any(|when| trajectory.fired(when).is_err());
        let trusted = ended.trusted();
        if !trusted {
            trajectory.notes.push(format!("{}: {DOUBTFUL}", self.rig.name()));
        }
        Ok(Attempt { output: trajectory, trusted })
    }
}

/// The first flow of a world, from its series.
fn sampled(name: &str, outcome: &Outcome, mss: f64) -> Trajectory {
    let mut trajectory = Trajectory::new(name, Origin::Kernel, mss);
    let Some(series) = &outcome.series else { return trajectory };
    let Some(flow) = series.flows.first() else { return trajectory };
    let step = series.step.as_secs_f64();
    let pacing = flow.variables.get("pacing_mbps");
    let (mut delivered, mut begun) = (0.0, None);
    for (index, window) in flow.window_packets.iter().enumerate() {
        // Before the flow there is nothing to sample.
        if *window <= 0.0 && begun.is_none() {
            continue;
        }
        let at = step * (index + 1) as f64;
        let begun = *begun.get_or_insert(at);
        // On the wire a packet has 52 bytes of headers: IPv4, TCP, time stamps.
        let bytes = flow.throughput_mbps.get(index).copied().unwrap_or(0.0) * step * 1e6 / 8.0;
        delivered += bytes / (mss + 52.0);
        trajectory.push(TrajectoryPoint {
            t: at - begun,
            window: *window,
            in_flight: flow.in_flight_packets.get(index).copied().unwrap_or(0.0),
            rtt_ms: flow.srtt_ms.get(index).copied().flatten(),
            delivered,
            pacing_mbps: pacing.and_then(|pacing| pacing.get(index).copied().flatten()),
            phase: FlowPhase::Unknown,
        });
    }
    trajectory
}
