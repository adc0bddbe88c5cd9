//! Where controllers are watched: one flow over a trace, alone, behind a queue without limit.

use std::sync::Arc;

use paceline_cc::datapath::UDP;
use paceline_cc::mdi::Delays;
use paceline_cc::{Bytes, Misfit, Nanos, Rate, Spec};
use paceline_experiment::{Flow, Outcome, RunFailure, Seed, Topology, Via};
use paceline_path::{Direction, PathError, Synth, Trace};
use paceline_sim::Config;

use super::watch::{Move, Watch};
use crate::run;
use crate::runner::{Attempt, Task, TaskLabel};

/// Slowest and fastest mean of a synthetic trace, Mbit/s: those of one cell's users on a bad and on a good day (our choice).
const MEANS: (f64, f64) = (4.0, 40.0);
/// How far a synthetic rate wanders in a second, in means: 2.4 of 12 Mbit/s (Sprout, NSDI 2013, section 3.1).
const WANDER: f64 = 0.2;
/// Traces of one set at most: those of the project MDI (our choice, because each leaves some megabytes of moves).
pub const MOST_TRACES: u32 = 1000;

/// A trace and what surrounds it.
#[derive(Clone, Debug)]
pub struct Course {
    /// The link, in both directions.
    pub trace: Arc<Trace>,
    /// Propagation each way.
    pub delay: Nanos,
    /// How long.
    pub length: Nanos,
    /// What is random about the run.
    pub seed: u64,
}

/// One of a set of synthetic traces (`paceline trace synth`): its mean is 4 to 40 Mbit/s, half of them below 13,
/// and its rate wanders by a fifth of that in a second.
///
/// # Panics
/// Never: what is drawn is within what a trace may be.
pub fn synthetic(seed: u64, number: u32, length: Nanos) -> Trace {
    let seed = Seed(seed).derive(&format!("mdi/{number}"));
    // 53 bits, as a share.
    let share = (Seed(seed).derive("mean") >> 11) as f64 / (1_u64 << 53) as f64;
    let mean = MEANS.0 + (MEANS.1 - MEANS.0) * share * share;
    let synth =
        Synth { mean: Rate::from_mbps(mean), sigma: Rate::from_mbps(WANDER * mean), length, seed, ..Synth::default() };
    synth.trace(&format!("synthetic {number}")).expect("within what is allowed")
}

/// What a run left.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Payload in Mbit/s.
    pub mbps: f64,
    /// Median one-way delay of data packets in ms.
    pub delay_ms: f64,
    /// Round trip of the path without its queue.
    pub rtt: Nanos,
    /// The moves of each epoch.
    pub moves: Vec<Move>,
}

/// A controller over a course.
#[derive(Clone, Debug)]
pub struct Watched<'a> {
    /// Who.
    pub controller: &'a Spec,
    /// Where.
    pub course: &'a Course,
    /// Number among those of its controller, from 1.
    pub number: u32,
    /// Length of an epoch.
    pub epoch: Nanos,
    /// What a move of the delay is.
    pub delays: Delays,
}

/// Why a controller cannot be watched.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CourseError {
    /// Datagrams do not carry it.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The path cannot be made.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The simulator ended the run.
    #[error(transparent)]
    Failure(#[from] RunFailure),
}

impl Task for Watched<'_> {
    type Output = Seen;
    type Error = CourseError;

    fn label(&self) -> TaskLabel {
        let name = format!("{} over {}", self.controller, self.course.trace.name());
        TaskLabel { name, number: self.number, seed: self.course.seed }
    }

    fn check(&self) -> Result<(), CourseError> {
        Ok(UDP.carries(self.controller)?)
    }

    fn run(&self) -> Result<Attempt<Seen>, CourseError> {
        let mut watch = Watch::new(self.epoch, self.delays);
        let outcome = self.outcome(&mut watch)?;
        let flow = &outcome.flows[0];
        let seen = Seen {
            mbps: Bytes(flow.bytes_ready).0 as f64 * 8e-6 / self.course.length.as_secs_f64(),
            delay_ms: flow.delay.quantile_ms(0.5).unwrap_or(0.0),
            rtt: self.course.delay + self.course.delay,
            moves: watch.moves(),
        };
        Ok(Attempt::certain(seen))
    }
}

impl Watched<'_> {
    fn outcome(&self, watch: &mut Watch) -> Result<Outcome, CourseError> {
        let course = self.course;
        let direction = Direction {
            trace: Some("trace".to_owned()),
            queue: Some("infinite".parse().expect("a queue's name")),
            delay: course.delay,
            ..Direction::default()
        };
        let load = |_: &str| Ok::<_, &str>(Arc::clone(&course.trace));
        let seed = Seed(course.seed);
        let build = |name: &str| direction.build(seed.derive(name), course.delay + course.delay, &load);
        let config = Config {
            seed,
            duration: course.length,
            topology: Topology::dumbbell(build("down")?, build("up")?),
            flows: vec![Flow { ack_every: 1, ..Flow::bulk(self.controller.clone(), Via::udp()) }],
            cross: Vec::new(),
            sample_every: None,
        };
        Ok(run::simulated(config, Some(watch))?)
    }
}
