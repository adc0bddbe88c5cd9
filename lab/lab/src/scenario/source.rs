//! From a file and options to the plan of every run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_cc::Nanos;
use paceline_cc::foreign::printable;
use paceline_cc::units::span_text;
use paceline_experiment::{Graph, Program, Seed, Topology, config};
use paceline_path::{Direction, Media, PathError, Seat, Trace, TraceError, WifiRole};
use rand::RngExt;

use super::effective;
use super::places::Places;
use super::programs;
use super::racers::Racers;
use super::range::{self, Draws};
use super::setting::{self, Setting, SettingError};
use super::{KeyError, MAX_SECONDS, MAX_SEED, Scenario, ScenarioError, Who};
use crate::contestant::{Contestant, split_list};
use crate::input::{self, Bounds};
use crate::runner::TaskLabel;

/// Most runs of a contestant (our choice: every run's record is kept until the end).
const MAX_RUNS: u32 = 10_000;

/// What replaces values of the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A list of contestants.
    pub contestants: Option<String>,
    /// Trace of the downward link.
    pub trace: Option<PathBuf>,
    /// Trace of the upward link.
    pub up: Option<PathBuf>,
    /// Seed of the race.
    pub seed: Option<u64>,
    /// Simulated seconds.
    pub seconds: Option<f64>,
    /// Runs of each contestant.
    pub runs: Option<u32>,
    /// In a real race: unless `runs` is given, each contestant runs once.
    pub real: bool,
    /// Values for keys, each `KEY=VALUE` such as `down.delay=25ms` or `flows.0.count=3`, in their order. A value is TOML
    /// where that makes it a number, a boolean, an array or an inline table, else a text; an empty one takes the key
    /// out. They count as written in the file: the other options come after them, and may replace them.
    pub set: Vec<String>,
}

/// A scenario file with the options for this race.
#[derive(Clone, Debug)]
pub struct Source {
    file: String,
    /// Where the file's own traces are looked for.
    folder: PathBuf,
    text: String,
    options: Options,
    /// Traces that are at hand without a file.
    known: Traces,
    /// Programs that are.
    programs: BTreeMap<String, Program>,
}

/// Traces by the name under which a scenario knows them.
type Traces = BTreeMap<String, Arc<Trace>>;

/// One run, ready for every contestant.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of the run, from 1.
    pub number: u32,
    /// The scenario, options applied and ranges drawn.
    pub scenario: Scenario,
    /// The draws by key.
    pub drawn: BTreeMap<String, String>,
    /// What is to be told of who races.
    pub notes: Vec<String>,
    /// What the scenario has in their places, by key.
    written: BTreeMap<String, Option<String>>,
    seed: Seed,
    traces: Arc<Traces>,
    pub(super) graph: Graph,
    /// The way of each kind of flow, then of each source of cross traffic.
    pub(super) ways: Vec<config::Way>,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is not a text in UTF-8.
    pub fn read(path: &Path, options: Options) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = input::read_text(path, Bounds::SCENARIO)
            .map_err(|source| ScenarioError::Read { file: file.clone(), source })?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { file, folder, text, options, known: Traces::new(), programs: BTreeMap::new() })
    }

    /// A text that stands for a file of this name in the current folder.
    pub fn from_text(file: &str, text: &str, options: Options) -> Self {
        let (file, text) = (file.to_owned(), text.to_owned());
        Self { file, folder: PathBuf::new(), text, options, known: Traces::new(), programs: BTreeMap::new() }
    }

    /// Looks for its traces in this folder.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    /// Takes this trace for the file `name`.
    #[must_use]
    pub fn with_trace(mut self, name: &str, trace: Arc<Trace>) -> Self {
        self.known.insert(name.to_owned(), trace);
        self
    }

    /// Takes this program as if the scenario had it.
    #[must_use]
    pub fn with_program(mut self, program: Program) -> Self {
        self.programs.insert(program.name.clone(), program);
        self
    }

    /// What was set otherwise than it is written, each `KEY=VALUE`.
    pub fn set(&self) -> &[String] {
        &self.options.set
    }

    /// The text as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The plans of all runs, checked: ranges drawn, traces loaded, paths and contestants found to be possible.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn plans(&self) -> Result<Vec<Plan>, ScenarioError> {
        self.planned(None)
    }

    /// The plan of one run alone: the same as that one of [`Source::plans`].
    ///
    /// # Errors
    /// As [`Source::plans`].
    pub fn plan(&self, number: u32) -> Result<Plan, ScenarioError> {
        let mut plans = self.planned(Some(number))?;
        let Some(plan) = plans.pop() else { unreachable!("one run was asked for") };
        Ok(plan)
    }

    /// The plans of all runs, or of one of them.
    fn planned(&self, only: Option<u32>) -> Result<Vec<Plan>, ScenarioError> {
        self.check_options()?;
        let settings = self.settings()?;
        let places = Places::parse(&self.file, &self.text, &settings)?;
        let mut programs = programs::read(&places, &self.folder)?;
        programs.extend(self.programs.clone());
        // The seed, to draw with, stands outside every range.
        let (first, _, notes) = self.draw(&places, &programs, Seed(0))?;
        let race = Seed(first.seed);
        let mut traces = self.known.clone();
        let mut drawn = Vec::new();
        let numbers = only.map_or(1..=first.runs, |number| number..=number);
        for number in numbers {
            let seed = Seed(race.derive(&format!("run {number}")));
            let (mut scenario, mut draws, _) = self.draw(&places, &programs, seed)?;
            for (key, direction) in scenario.directions() {
                self.load(&places, &key, direction, &mut traces)?;
            }
            begin_anywhere(&mut scenario, &mut draws, seed, &traces);
            drawn.push((number, seed, scenario, draws));
        }
        let traces = Arc::new(traces);
        let plan = |(number, seed, scenario, Draws { drawn, written, .. }): (u32, Seed, Scenario, Draws)| {
            let graph = scenario.graph()?;
            let mut ways = scenario.flow_ways(&graph)?;
            ways.extend(scenario.cross_ways(&graph)?);
            Ok(Plan {
                number,
                scenario,
                drawn,
                written,
                seed,
                traces: traces.clone(),
                notes: notes.clone(),
                graph,
                ways,
            })
        };
        let at = |KeyError { key, problem }| places.at(&key, problem);
        let plans = drawn.into_iter().map(plan).collect::<Result<Vec<Plan>, KeyError>>().map_err(at)?;
        for plan in &plans {
            plan.topology::<()>().map_err(at)?;
        }
        Ok(plans)
    }

    fn check_options(&self) -> Result<(), ScenarioError> {
        let wrong =
            |option: &str, problem: String| Err(ScenarioError::Option { option: String::from(option), problem });
        if let Some(seconds) = self.options.seconds
            && !(seconds > 0.0 && seconds <= MAX_SECONDS)
        {
            return wrong("--seconds", format!("{seconds} is not above 0 and at most {MAX_SECONDS}; give e.g. 60"));
        }
        if let Some(runs) = self.options.runs
            && !(1..=MAX_RUNS).contains(&runs)
        {
            return wrong("--runs", format!("{runs} is not between 1 and {MAX_RUNS}; give e.g. 10"));
        }
        if let Some(seed) = self.options.seed
            && seed > MAX_SEED
        {
            return wrong("--seed", format!("{seed} is above {MAX_SEED}; give a smaller one"));
        }
        Ok(())
    }

    fn settings(&self) -> Result<Vec<Setting>, ScenarioError> {
        let mut settings: Vec<Setting> = Vec::new();
        let mut start = self.text.len() + 1;
        for given in &self.options.set {
            let wrong = |error: SettingError| ScenarioError::Option {
                option: setting::option(given),
                problem: error.to_string(),
            };
            let setting = Setting::parse(given, start).map_err(wrong)?;
            start = setting.place().end;
            settings.push(setting);
        }
        Ok(settings)
    }

    /// The scenario of a run with this seed, the draws, and what is to be told of who races.
    fn draw(
        &self,
        places: &Places<'_>,
        programs: &BTreeMap<String, Program>,
        seed: Seed,
    ) -> Result<(Scenario, Draws, Vec<String>), ScenarioError> {
        let draws = range::draw(places, seed)?;
        let places = places.with(&draws.values)?;
        if places.has_only("programs") {
            let problem = "these are programs without a path; race a scenario with programs_from = \"FILE\", or --set programs_from=FILE";
            return Err(places.at("programs", problem));
        }
        // Here and not there, because an error in an element of an array has the array's place.
        let mut racers = Racers::of(programs);
        for place in places.iter().filter(|place| place.path.starts_with("contestants[")) {
            if let Some(Err(problem)) = place.string.as_deref().map(|text| racers.add(text)) {
                return Err(places.at(&place.path, problem.to_string()));
            }
        }
        let mut scenario: Scenario = places.read()?;
        if self.options.real && places.iter().all(|place| place.path != "runs") {
            scenario.runs = 1;
        }
        if scenario.runs > MAX_RUNS {
            return Err(places.at("runs", format!("it is above {MAX_RUNS}; give fewer")));
        }
        check_form(&scenario, &places)?;
        for (_, direction) in scenario.directions_mut() {
            for trace in [&mut direction.trace, &mut direction.light_trace].into_iter().flatten() {
                *trace = self.folder.join(&*trace).display().to_string();
            }
        }
        self.apply(&mut scenario, &mut racers)?;
        scenario.contestants = racers.contestants;
        scenario.bind(programs).map_err(|KeyError { key, problem }| places.at(&key, problem))?;
        if !scenario.flows.is_empty() && scenario.flows.iter().all(|flow| flow.contestant != Who::Each) {
            let problem = "no flow belongs to the contestant under test; write contestant = \"each\" in one";
            return Err(places.at("flows", problem));
        }
        scenario.check().map_err(|KeyError { key, problem }| places.at(&key, problem))?;
        Ok((scenario, draws, racers.notes))
    }

    fn apply(&self, scenario: &mut Scenario, racers: &mut Racers<'_>) -> Result<(), ScenarioError> {
        let options = &self.options;
        if let Some(list) = &options.contestants {
            let wrong = |problem| ScenarioError::Option { option: "--contestants".to_owned(), problem };
            racers.clear();
            for item in split_list(list) {
                racers.add(&item).map_err(|error| wrong(error.to_string()))?;
            }
            if racers.contestants.is_empty() {
                return Err(wrong("there is no contestant; give at least one, such as cubic@tcp".to_owned()));
            }
        }
        for (option, trace, direction) in
            [("--trace", &options.trace, &mut scenario.down), ("--up", &options.up, &mut scenario.up)]
        {
            if let Some(trace) = trace {
                if !scenario.links.is_empty() {
                    let problem = "the scenario has [links]; write --set links.NAME.trace=FILE --set links.NAME.rate=";
                    return Err(ScenarioError::Option { option: option.to_owned(), problem: problem.to_owned() });
                }
                direction.rate = None;
                direction.schedule = None;
                direction.schedule_lap = None;
                direction.light_trace = None;
                direction.light_below = None;
                direction.light_after = None;
                direction.trace = Some(trace.display().to_string());
            }
        }
        scenario.seconds = options.seconds.unwrap_or(scenario.seconds);
        scenario.seed = options.seed.unwrap_or(scenario.seed);
        scenario.runs = options.runs.unwrap_or(scenario.runs);
        Ok(())
    }

    fn load(
        &self,
        places: &Places<'_>,
        key: &str,
        direction: &Direction,
        traces: &mut Traces,
    ) -> Result<(), ScenarioError> {
        let named = [("trace", &direction.trace), ("light_trace", &direction.light_trace)];
        named.into_iter().try_for_each(|(field, name)| match name {
            Some(name) => self.load_one(places, (key, field), name, traces),
            None => Ok(()),
        })
    }

    /// Loads the trace that a field of a direction names.
    fn load_one(
        &self,
        places: &Places<'_>,
        (key, field): (&str, &str),
        name: &str,
        traces: &mut Traces,
    ) -> Result<(), ScenarioError> {
        if traces.contains_key(name) {
            return Ok(());
        }
        let unreadable = |error: &std::io::Error| {
            let problem = format!("{} cannot be read ({error}); name a trace file that exists", printable(name, 200));
            let given = match key {
                _ if field != "trace" => None,
                "down" => self.options.trace.as_ref().map(|_| "--trace"),
                "up" => self.options.up.as_ref().map(|_| "--up"),
                _ => None,
            };
            match given {
                Some(option) => ScenarioError::Option { option: option.to_owned(), problem },
                None => places.at(&format!("{key}.{field}"), problem),
            }
        };
        let file = input::open(Path::new(name), Bounds::TRACE).map_err(|error| unreadable(&error))?;
        let trace = match Trace::read(name, file) {
            // A folder opens, and fails when it is read.
            Err(TraceError::Read { source, .. }) => return Err(unreadable(&source)),
            other => other?,
        };
        traces.insert(name.to_owned(), Arc::new(trace));
        Ok(())
    }
}

/// Where the scenario does not say at which place of their traces runs begin, each begins at another: at the same time in all
/// directions, whose traces are often recorded together.
fn begin_anywhere(scenario: &mut Scenario, draws: &mut Draws, seed: Seed, traces: &Traces) {
    let lap = |direction: &Direction| Some(traces.get(direction.trace.as_ref()?)?.lap());
    let longest =
        scenario.directions().into_iter().filter_map(|(_, direction)| lap(direction)).max().unwrap_or_default();
    // In whole milliseconds, as traces are.
    let start = (longest.as_millis_f64() * seed.stream("trace_start").random::<f64>()) as u64;
    for (name, direction) in scenario.directions_mut() {
        if let Some(lap) = lap(direction).filter(|_| direction.trace_start.is_none()) {
            let start = Nanos::from_millis(start % (lap.as_nanos() / 1_000_000).max(1));
            let key = format!("{name}.trace_start");
            draws.drawn.insert(key.clone(), span_text(start));
            draws.written.insert(key, None);
            direction.trace_start = Some(start);
        }
    }
}

impl Plan {
    /// Which run it is, under this name.
    pub fn label(&self, name: String) -> TaskLabel {
        TaskLabel { name, number: self.number, seed: self.scenario.seed }
    }

    /// The traces of its links, by the names under which the scenario knows them.
    #[cfg(feature = "parquet")]
    pub(crate) fn traces(&self) -> &BTreeMap<String, Arc<Trace>> {
        &self.traces
    }

    /// A trace of its links, by the name under which the scenario knows it.
    pub fn trace(&self, name: &str) -> Option<Arc<Trace>> {
        self.traces.get(name).cloned()
    }

    /// The whole scenario as a file again, every default filled in that is a value, with ranges as written: what gives the same race.
    pub fn to_toml(&self) -> String {
        let cannot = |error: &dyn std::fmt::Display| format!("# cannot be written: {error}\n");
        let mut whole = match self.scenario.to_table() {
            Ok(table) => toml::Value::Table(table),
            Err(error) => return cannot(&error),
        };
        effective::fill(&mut whole, &self.scenario.flows());
        for (key, text) in &self.written {
            effective::restore(&mut whole, key, text.as_deref());
        }
        toml::to_string(&whole).unwrap_or_else(|error| cannot(&error))
    }

    /// The world in which this contestant runs; `sample_every` is the step of its series.
    ///
    /// # Errors
    /// None that [`Source::plans`] would not have found.
    pub fn world<P: Clone + Send + 'static>(
        &self,
        contestant: &Contestant,
        sample_every: Option<Nanos>,
    ) -> Result<config::Config<P>, KeyError> {
        Ok(config::Config {
            seed: self.seed,
            duration: Nanos::from_secs_f64(self.scenario.seconds),
            topology: self.topology()?,
            flows: self.watched_flows(contestant)?,
            cross: self.cross(),
            sample_every,
        })
    }

    /// The flows of that world.
    pub fn flows(&self, contestant: &Contestant) -> Vec<config::Flow> {
        let (flows, telemetry) = (self.scenario.flows(), self.scenario.telemetry.as_ref());
        let of = |(flow, way): (&super::Flow, &config::Way)| {
            let content = self.scenario.content(&self.graph, flow);
            flow.of(contestant, *way, telemetry, content).collect::<Vec<_>>()
        };
        flows.iter().zip(&self.ways).flat_map(of).collect()
    }

    fn cross(&self) -> Vec<config::Cross> {
        let ways = self.ways.iter().skip(self.scenario.flows().len());
        self.scenario.cross.iter().zip(ways).map(|(cross, way)| cross.of(*way)).collect()
    }

    /// Which flows of the world are the contestant's own.
    pub fn own(&self) -> Vec<bool> {
        let flows = self.scenario.flows();
        flows.iter().flat_map(|flow| (0..flow.count).map(|_| flow.contestant == Who::Each)).collect()
    }

    /// Nodes and links, with a path for each direction of each link.
    fn topology<P: Clone + Send + 'static>(&self) -> Result<Topology<P>, KeyError> {
        let scenario = &self.scenario;
        let flows = &self.ways[..scenario.flows().len()];
        let base_rtts = scenario.base_rtts(&self.graph, flows);
        let load = |name: &str| self.traces.get(name).cloned().ok_or("it was not loaded");
        let mut paths = Vec::new();
        let mut media = Media::default();
        let hops = self.graph.hops();
        for ((number, (key, direction)), base_rtt) in scenario.directions().into_iter().enumerate().zip(base_rtts) {
            let hop = &hops[number];
            let direction = Direction {
                largest_packet: Some(scenario.largest_packet()),
                changing: scenario.changing(&self.graph, number as u32),
                ..direction.clone()
            };
            let prefix = if scenario.links.is_empty() { "" } else { "links." };
            let seed = self.seed.derive(&format!("{prefix}{}", hop.name));
            // The first node of a link is its access point, the network's side of two paths.
            let role = if number % 2 == 0 { WifiRole::AccessPoint } else { WifiRole::Station };
            let seat = Seat { media: &mut media, link: &hops[number & !1].name, node: hop.from, role };
            let path: Result<_, PathError> = direction.build_in(seed, base_rtt, &load, seat);
            paths.push(path.map_err(|error| KeyError::of_path(&key, &error))?);
        }
        let topology = Topology::new(self.graph.clone(), paths).routing(scenario.routers(&self.graph));
        let first =
            scenario.flows().iter().zip(flows).find(|(flow, _)| flow.contestant == Who::Each).map(|(_, way)| *way);
        Ok(match first {
            Some(way) if !scenario.links.is_empty() => topology.showing(way),
            _ => topology,
        })
    }
}

/// Whether the file keeps to one form: two paths, or links with nodes.
fn check_form(scenario: &Scenario, places: &Places<'_>) -> Result<(), ScenarioError> {
    if scenario.links.is_empty() {
        return Ok(());
    }
    let is_direction =
        |path: &str| (path.starts_with("flows[") || path.starts_with("cross[")) && path.ends_with("].direction");
    for place in places.iter() {
        let problem = match place.path.as_str() {
            "down" | "up" => {
                "the scenario has [links] too; keep one of them, since two paths are the short form of one link"
            }
            path if is_direction(path) => {
                "the scenario has [links], so that a direction has no meaning; write from and to"
            }
            _ => continue,
        };
        return Err(places.at(&place.path, problem));
    }
    if scenario.flows.is_empty() {
        return Err(places.at("links", "a scenario with links has no flows by itself; add [[flows]] with from and to"));
    }
    Ok(())
}
