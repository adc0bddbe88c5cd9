//! All rules of a controller, judged.

use std::collections::BTreeMap;

use paceline_lab::contestant::Contestant;
use paceline_lab::programs::{ProgramSettings, Programs};
use paceline_lab::run::World;
use paceline_lab::runner::{Progress, Runner, RunnerError};

use crate::program;
use crate::ride::Ride;
use crate::rig::{Rig, RigError};
use crate::rule::{Rule, RuleVerdict};
use crate::rules;
use crate::trajectory::Trajectory;

/// A rule with what became of it.
#[derive(Clone, Debug)]
pub struct JudgedRule {
    /// The rule.
    pub rule: &'static Rule,
    /// What became of it.
    pub verdict: RuleVerdict,
    /// Index of its trajectory in [`Score::trajectories`].
    pub trajectory: usize,
}

/// What a controller's trajectories showed.
#[derive(Clone, Debug)]
pub struct Score {
    /// Whose.
    pub name: String,
    /// The controller whose rules were judged.
    pub rules_of: String,
    /// Where the trajectories come from.
    pub origin: &'static str,
    /// Every rule.
    pub judged: Vec<JudgedRule>,
    /// What they were judged on.
    pub trajectories: Vec<Trajectory>,
}

impl Score {
    /// How many rules hold, how many were seen, how many there are.
    pub fn counts(&self) -> (usize, usize, usize) {
        let holds = self.judged.iter().filter(|one| matches!(one.verdict, RuleVerdict::Holds(_))).count();
        let seen = self.judged.iter().filter(|one| one.verdict.seen().is_some()).count();
        (holds, seen, self.judged.len())
    }

    /// The rules that do not hold, by their names.
    pub fn departures(&self) -> Vec<&'static str> {
        let departs = self.judged.iter().filter(|one| matches!(one.verdict, RuleVerdict::Departs { .. }));
        departs.map(|one| one.rule.id).collect()
    }

    /// What the readers of its trajectories have to say of them.
    pub fn notes(&self) -> Vec<&str> {
        self.trajectories.iter().flat_map(|one| one.notes.iter().map(String::as_str)).collect()
    }

    /// Judges the rules of `controller` on one trajectory: a foreign log shows what it shows.
    pub fn of_one(controller: &str, trajectory: Trajectory) -> Self {
        let judged = rules::of(controller).into_iter();
        let judged = judged.map(|rule| JudgedRule { rule, verdict: rule.judge(&trajectory), trajectory: 0 }).collect();
        Self {
            name: trajectory.name.clone(),
            rules_of: controller.to_owned(),
            origin: trajectory.origin.name(),
            judged,
            trajectories: vec![trajectory],
        }
    }

    /// Judges the rules of `controller` on the trajectory of each rule's rig.
    pub fn of_rigs(name: &str, controller: &str, on: &[(Rig, Trajectory)]) -> Self {
        let seen = on.iter().find(|(_, trajectory)| trajectory.hidden.is_none()).or(on.first());
        let judged = rules::of(controller).into_iter().filter_map(|rule| {
            let trajectory = on.iter().position(|(rig, _)| *rig == rule.rig)?;
            Some(JudgedRule { rule, verdict: rule.judge(&on[trajectory].1), trajectory })
        });
        Self {
            name: name.to_owned(),
            rules_of: controller.to_owned(),
            origin: seen.map_or("", |(_, trajectory)| trajectory.origin.name()),
            judged: judged.collect(),
            trajectories: on.iter().map(|(_, trajectory)| trajectory.clone()).collect(),
        }
    }
}

/// Rigs that the rules of a controller are judged on, each once.
pub fn rigs(controller: &str) -> Vec<Rig> {
    let mut rigs: Vec<Rig> = rules::of(controller).into_iter().map(|rule| rule.rig).collect();
    rigs.sort_unstable();
    rigs.dedup();
    rigs
}

/// Runs each contestant on the rigs of the rules of the controller named beside it, and judges. `threads` at once ([`World::threads`]).
/// A program that is not ours runs on those on which it can be judged from outside, and where `programs` permits it.
///
/// # Errors
/// When a contestant cannot run there.
pub fn judge(
    contestants: &[(Contestant, String)],
    world: World,
    threads: usize,
    programs: &ProgramSettings,
    progress: &dyn Progress,
) -> Result<Vec<Score>, RunnerError<RigError>> {
    let runs: Vec<(usize, Rig)> = contestants
        .iter()
        .enumerate()
        .flat_map(|(index, (_, rules_of))| rigs(rules_of).into_iter().map(move |rig| (index, rig)))
        // Cases in which a controller triggers something are of the simulator: what applications do cannot change in real time.
        .filter(|(_, rig)| !world.is_real() || rig.case().is_none_or(|case| case.whens() == 0))
        .collect();
    let ready: Vec<Option<Programs>> = contestants
        .iter()
        .map(|(contestant, rules_of)| program::ready(contestant, rules_of, world, programs, progress))
        .collect::<Result<_, _>>()
        .map_err(RunnerError::Refused)?;
    let hidden = |(index, rig): &(usize, Rig)| {
        let (contestant, rules_of) = &contestants[*index];
        contestant.is_program().then(|| program::hidden(*rig, rules_of)).flatten()
    };
    let ride = |(index, rig): &(usize, Rig)| {
        let (contestant, programs) = (contestants[*index].0.clone(), ready[*index].as_ref());
        Ride { contestant, rig: *rig, world, programs }
    };
    let rides: Vec<Ride<'_>> = runs.iter().filter(|run| hidden(run).is_none()).map(ride).collect();
    let mut ended = Runner::new(world.threads(threads), progress).all(&rides)?.into_iter();
    let mut by: BTreeMap<usize, Vec<(Rig, Trajectory)>> = BTreeMap::new();
    for run in runs {
        let trajectory = match hidden(&run) {
            Some(why) => Some(Trajectory::hidden(&contestants[run.0].0.to_string(), why)),
            None => ended.next(),
        };
        by.entry(run.0).or_default().extend(trajectory.map(|trajectory| (run.1, trajectory)));
    }
    let score = |(index, on): (usize, Vec<(Rig, Trajectory)>)| {
        let (contestant, rules_of) = &contestants[index];
        Score::of_rigs(&contestant.to_string(), rules_of, &on)
    };
    Ok(by.into_iter().map(score).collect())
}
