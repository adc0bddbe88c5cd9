//! Worlds side by side, each of which an agent steers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use paceline_cc::{Nanos, Time};
use paceline_experiment::{Seed, endpoints};
use paceline_lab::contestant::Contestant;
use paceline_lab::scenario::{Options, Plan, Source};
use paceline_sim::World;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyTuple};

use super::agent::{self, Acting, STEERED, Shared, lock};
use super::monitor::{FIGURES, OBSERVATION};
use crate::controller::failure::{self, Fault};
use crate::error;
use crate::scenario::{self, Given};

/// Episodes for which a scenario is read and drawn at once (our choice: a text is read in a fraction of an episode).
const EPISODES: u32 = 8;
/// What delay and loss cost in the reward: half of the throughput's share for a queue of one smallest RTT, and ten times the share
/// that was lost (our choice, because a controller that fills a buffer of one BDP should gain nothing by it).
const DELAY_COST: f64 = 0.5;
const LOSS_COST: f64 = 10.0;
/// The queue of this many smallest RTTs costs most, so that rewards are bounded.
const MOST_DELAY: f64 = 5.0;

/// What is said where an environment cannot steer.
const SIMULATED: &str = "give udp, tcp, alcc or icn";

/// Numbers of the steered controllers of this process.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Environments that are stepped together.
#[pyclass(module = "paceline._paceline")]
pub(crate) struct Batch {
    scenario: Scenario,
    acting: Acting,
    /// In a mutex, because worlds may go from thread to thread but not be seen by two.
    slots: Mutex<Vec<Slot>>,
}

/// What every episode is made of.
struct Scenario {
    scene: Scene,
    folder: Option<PathBuf>,
    options: Options,
    via: String,
}

/// A scenario as it was given.
enum Scene {
    File(PathBuf),
    Text(String),
}

/// One environment.
struct Slot {
    number: u64,
    contestant: Contestant,
    seed: u64,
    /// Episodes that are ready, the next one last.
    plans: Vec<Plan>,
    rounds: u64,
    state: Shared,
    episode: Option<Episode>,
}

/// One run of a world.
struct Episode {
    world: World<'static>,
    now: Time,
    end: Time,
    /// Index of the flow that is steered.
    own: usize,
    over: bool,
}

/// What a step gives.
#[derive(Default)]
struct Seen {
    observation: [f32; OBSERVATION.len()],
    figures: [f64; FIGURES.len()],
    reward: f64,
    /// The flow came to its end.
    ended: bool,
    /// The run's time is over.
    over: bool,
}

#[pymethods]
impl Batch {
    #[new]
    fn new(
        scenario: &Bound<'_, PyAny>,
        folder: Option<PathBuf>,
        given: Given<'_>,
        count: usize,
        via: String,
        step: &Bound<'_, PyAny>,
        action: &str,
    ) -> PyResult<Self> {
        let py = scenario.py();
        let options = given.options()?;
        let scene = match scenario.extract::<PathBuf>() {
            Ok(path) => Scene::File(path),
            Err(_) => Scene::Text(scenario::source(scenario, None, Options::default())?.text().to_owned()),
        };
        let scenario = Scenario { scene, folder, options, via };
        let acting = Acting::of(step, action)?;
        let mut slots = Vec::new();
        for _ in 0..count {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let state = agent::seat(number)?;
            let contestant: Contestant = format!("{STEERED}:id={number}@{}", scenario.via).parse().map_err(
                |_: paceline_lab::contestant::ContestantError| {
                    let what = format!("via: there is no datapath '{}'; {SIMULATED}", scenario.via);
                    error::scenario_error(py, Some("via"), what)
                },
            )?;
            slots.push(Slot { number, contestant, seed: 0, plans: Vec::new(), rounds: 0, state, episode: None });
        }
        // The scenario is wrong here, or never.
        if let Some(first) = slots.first_mut() {
            first.prepare(py, &scenario)?;
            let flows = first.plans.first().map(|plan| plan.flows(&first.contestant)).into_iter().flatten();
            if flows.into_iter().any(|flow| endpoints::check(&flow).is_err()) {
                let what = format!("via: the simulator has no datapath '{}'; {SIMULATED}", scenario.via);
                return Err(error::scenario_error(py, Some("via"), what));
            }
            first.plans.clear();
            first.rounds = 0;
        }
        Ok(Self { scenario, acting, slots: Mutex::new(slots) })
    }

    /// Begins an episode in each environment, from its seed on where there is one; else with the next one of its seed.
    fn reset<'py>(&mut self, py: Python<'py>, seeds: Vec<Option<u64>>) -> PyResult<Bound<'py, PyTuple>> {
        let slots = self.slots.get_mut().unwrap_or_else(PoisonError::into_inner);
        if seeds.len() != slots.len() {
            return Err(PyValueError::new_err(format!("{} seeds for {} environments", seeds.len(), slots.len())));
        }
        let mut seen = Vec::new();
        for (slot, seed) in slots.iter_mut().zip(seeds) {
            if let Some(seed) = seed {
                (slot.seed, slot.rounds) = (seed, 0);
                slot.plans.clear();
            }
            seen.push(slot.begin(py, &self.scenario, self.acting)?);
        }
        answer(py, &seen)
    }

    /// One step in each environment; `actions` are 32-bit floats. One that is over begins its next episode instead.
    fn step<'py>(&mut self, py: Python<'py>, actions: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
        let actions = actions.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let (acting, slots) = (self.acting, self.slots.get_mut().unwrap_or_else(PoisonError::into_inner));
        if actions.len() != slots.len() {
            return Err(PyValueError::new_err(format!("{} actions for {} environments", actions.len(), slots.len())));
        }
        let over = |slot: &Slot| slot.episode.as_ref().is_none_or(|episode| episode.over);
        for slot in slots.iter_mut().filter(|slot| over(slot)) {
            slot.episode = None;
        }
        let steps: Result<Vec<Option<Seen>>, Fault> = py.detach(|| {
            failure::alone(|| {
                slots.iter_mut().zip(actions).map(|(slot, action)| slot.step(f64::from(action), acting)).collect()
            })
        });
        let steps = steps.map_err(|fault| fault.raised(py))?;
        let mut seen = Vec::new();
        for (slot, step) in slots.iter_mut().zip(steps) {
            seen.push(match step {
                Some(step) => step,
                None => slot.begin(py, &self.scenario, acting)?,
            });
        }
        answer(py, &seen)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let slots = self.slots.get_mut().unwrap_or_else(PoisonError::into_inner);
        slots.iter().for_each(|slot| agent::leave(slot.number));
    }
}

impl Slot {
    /// The next episodes.
    fn prepare(&mut self, py: Python<'_>, scenario: &Scenario) -> PyResult<()> {
        let seed = Seed(self.seed).derive(&format!("episodes {}", self.rounds)) >> 11;
        self.rounds += 1;
        let mut options = scenario.options.clone();
        (options.seed, options.runs) = (Some(seed), Some(EPISODES));
        options.contestants = Some(self.contestant.to_string());
        let source = match &scenario.scene {
            Scene::File(path) => Source::read(path, options).map_err(|problem| error::of_scenario(py, &problem))?,
            Scene::Text(text) => {
                let source = Source::from_text(error::OBJECT, text, options);
                scenario.folder.as_ref().map_or(source.clone(), |folder| source.in_folder(folder))
            }
        };
        self.plans = scenario::plans(py, &source)?;
        self.plans.reverse();
        let own = self.plans.first().map_or(0, |plan| plan.own().into_iter().filter(|own| *own).count());
        if own != 1 {
            let what = format!("scenario: flows: {own} flows are the contestant's own, but an environment steers one");
            return Err(error::scenario_error(py, Some("flows"), what));
        }
        Ok(())
    }

    fn begin(&mut self, py: Python<'_>, scenario: &Scenario, acting: Acting) -> PyResult<Seen> {
        if self.plans.is_empty() {
            self.prepare(py, scenario)?;
        }
        let Some(plan) = self.plans.pop() else { unreachable!("a scenario has at least one run: checked") };
        lock(&self.state).reset();
        let config = plan
            .world(&self.contestant, None)
            .map_err(|problem| error::scenario_error(py, Some(&problem.key), problem.to_string()))?;
        let own = plan.own().iter().position(|own| *own).unwrap_or_default();
        let (now, end) = (Time::ZERO, scenario::end(&plan));
        let begin = || {
            self.episode = Some(Episode { world: World::new(config, None), now, end, own, over: false });
            // Up to the first acknowledgements there is nothing to act upon, and no step that a flow could end with.
            let first = self.step(0.0, acting);
            self.episode.iter_mut().for_each(|episode| episode.over = false);
            first
        };
        let first = failure::alone(begin).map_err(|fault| fault.raised(py))?;
        Ok(Seen { reward: 0.0, ended: false, over: false, ..first.unwrap_or_default() })
    }

    /// Nothing where there is no episode.
    fn step(&mut self, action: f64, acting: Acting) -> Option<Seen> {
        let episode = self.episode.as_mut()?;
        let (from, until) = {
            let mut state = lock(&self.state);
            state.act(action, acting);
            state.next(episode.now, acting);
            state.boundary = state.boundary.min(episode.end);
            (episode.now, state.boundary)
        };
        let ended = episode.world.run_until(until);
        episode.now = until;
        let done = episode.world.has_ended(episode.own);
        let late = ended || until >= episode.end;
        episode.over = done || late;
        let capacity = episode.world.capacity(from, until);
        let span = (until - from).max(Nanos::from_nanos(1));
        let mut state = lock(&self.state);
        let (window, mss) = (state.window, state.mss);
        let (observation, step) = state.monitor.end(until, window);
        let capacity_mbps = capacity.map_or(f64::NAN, |bytes| bytes as f64 * 8e-6 / span.as_secs_f64());
        // An outage has room for nothing: one packet then stands for it.
        let room = capacity_mbps.max(mss * 8e-6 / span.as_secs_f64());
        let share = (step.throughput_mbps / room).min(1.0);
        let reward = share - DELAY_COST * step.inflation.clamp(0.0, MOST_DELAY) - LOSS_COST * step.loss;
        let figures = [
            until.as_secs_f64(),
            step.throughput_mbps,
            step.rtt_ms,
            step.queue_ms,
            step.loss,
            window / mss,
            capacity_mbps,
        ];
        Some(Seen { observation, figures, reward, ended: done, over: late && !done })
    }
}

/// Observations, rewards, ends of flows, ends of time and figures of all environments, as bytes that numpy takes.
fn answer<'py>(py: Python<'py>, seen: &[Seen]) -> PyResult<Bound<'py, PyTuple>> {
    let observations: Vec<u8> = seen.iter().flat_map(|seen| seen.observation).flat_map(f32::to_le_bytes).collect();
    let rewards: Vec<u8> = seen.iter().flat_map(|seen| seen.reward.to_le_bytes()).collect();
    let ended: Vec<u8> = seen.iter().map(|seen| u8::from(seen.ended)).collect();
    let over: Vec<u8> = seen.iter().map(|seen| u8::from(seen.over)).collect();
    let figures: Vec<u8> = seen.iter().flat_map(|seen| seen.figures).flat_map(f64::to_le_bytes).collect();
    PyTuple::new(py, [observations, rewards, ended, over, figures].map(|bytes| PyByteArray::new(py, &bytes)))
}
