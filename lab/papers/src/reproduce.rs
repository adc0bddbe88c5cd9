//! The papers' figures again: each claim of a paper beside what we get, and the command that runs it alone. In the simulator, or
//! in real time where a paper is about real sockets and the machine permits it.
//!
//! One paper is one file below `reproduce/` with a folder of its experiments, and one line in [`PAPERS`].

mod alcc;
mod bench;
mod contrast;
mod curves;
mod grid;
mod icn;
mod int;
mod paced_chirping;
mod page;
mod reading;
mod start_ups;
mod text;
mod watch;

/// What every experiment is written with.
mod prelude {
    pub(super) use super::bench::{Bench, Finished, SHIPPED_TRACES, Setup};
    pub(super) use super::reading::{counted, least, mean, median, median_reached, most, over, stated, typical};
    pub(super) use super::{Cell, Claim, Drawing, Findings, ReproduceError, Table, curves, plain};
    pub(super) use paceline_cc::Nanos;
    pub(super) use paceline_report::chart::{ChartRow, Class, Panel, PlotAxis, PlotLine, Sheet, end, highest};
    pub(super) use paceline_report::palette;
    pub(super) use paceline_report::svg::short;
}

use std::path::PathBuf;
use std::sync::Arc;

use paceline_cc::foreign::printable;
use paceline_cc::names::nearest;
use serde::Serialize;

use crate::claim::{Cell, Claim, ClaimError, Place};
use paceline_lab::journal::Journal;
use paceline_lab::run::{RunError, World};
use paceline_lab::runner::{Progress, RunnerError};
use paceline_lab::scenario::ScenarioError;
use paceline_lab::shell::quoted;
use paceline_report::PageError;
use paceline_report::chart::Sheet;

pub use page::write;
pub use text::table;

/// A paper whose experiments run here.
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// Authors, title, year.
    pub title: &'static str,
    /// What to know before the figures: what is measured, how, and where this differs from the paper.
    pub about: &'static [&'static str],
    /// Those it compares: the part of a contestant's name that identifies it, and what sentences call it; our own answer comes last.
    rivals: &'static [(&'static str, &'static str)],
    /// Where its experiments run.
    pub runs: Runs,
    experiments: &'static [Experiment],
    /// A page in Markdown of all experiments.
    page: Option<Markdown>,
}

/// A page in Markdown: its file, and what writes it.
#[derive(Clone, Copy)]
struct Markdown {
    file: &'static str,
    text: fn(&PaperSettings, &[Section]) -> String,
}

/// Where the experiments of a paper run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// In the simulator.
    Simulated,
    /// In the simulator, in real time where that is asked for.
    SimulatedFirst,
    /// It is about real sockets: in real time where that is permitted.
    RealFirst,
}

impl Runs {
    /// The option that asks for this world where another is usual.
    fn option(self, world: World) -> &'static str {
        match (self, world.is_real()) {
            (Self::RealFirst, false) => " --sim",
            (Self::SimulatedFirst, true) => " --real",
            _ => "",
        }
    }
}

/// Every paper, in the order in which they are listed.
pub const PAPERS: &[Paper] = &[paced_chirping::PAPER, alcc::PAPER, int::PAPER, icn::PAPER, start_ups::PAPER];

/// Seconds of a run in real time, unless they are given, and how many runs: all of a paper then takes minutes (our choice).
const REAL: (f64, u32) = (10.0, 1);

/// One experiment: a figure of the paper, or a question of ours about it.
struct Experiment {
    /// Its name for `--figure`.
    name: &'static str,
    /// As headings say it: `Fig 5`, `Scale`.
    figure: &'static str,
    /// What it shows.
    title: &'static str,
    conduct: fn(&bench::Bench<'_>) -> Result<Findings, ReproduceError>,
}

/// A row of a paper's table: name, figure, title.
const fn experiment(
    name: &'static str,
    figure: &'static str,
    title: &'static str,
    conduct: fn(&bench::Bench<'_>) -> Result<Findings, ReproduceError>,
) -> Experiment {
    Experiment { name, figure, title, conduct }
}

/// How experiments are run.
#[derive(Clone, Debug, Default)]
pub struct PaperSettings {
    /// Only this one, by its name.
    pub figure: Option<String>,
    /// Runs of each cell, instead of as many as each scenario says.
    pub runs: Option<u32>,
    /// Seed of everything random, instead of that of each scenario.
    pub seed: Option<u64>,
    /// Seconds of a run, instead of as many as each scenario says.
    pub seconds: Option<f64>,
    /// Delivery traces instead of the shipped ones, where a cellular link is asked for.
    pub traces: Vec<PathBuf>,
    /// Where; in real time only for papers that have such experiments ([`Paper::runs`]), after [`paceline_lab::real::acquire`].
    pub world: World,
    /// Runs at once; 0 for one a core, in real time for a single one.
    pub threads: usize,
    /// Where runs that take long are written down as they end.
    pub journal: Option<Arc<Journal>>,
}

impl PaperSettings {
    /// The options that change numbers of a single run, as a command takes them.
    fn repeated(&self) -> String {
        let runs = self.runs.map(|runs| format!(" --runs {runs}")).unwrap_or_default();
        let seed = self.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default();
        let seconds = self.seconds.map(|seconds| format!(" --seconds {seconds}")).unwrap_or_default();
        runs + &seed + &seconds
    }

    /// All options that change numbers.
    fn again(&self) -> String {
        let trace = |trace: &PathBuf| format!(" --trace {}", quoted(&trace.display().to_string()));
        self.repeated() + &self.traces.iter().map(trace).collect::<String>()
    }
}

/// What one experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// As headings say it.
    pub figure: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The command that runs this experiment alone.
    pub command: String,
    /// What ours holds and others miss, and what ours misses.
    contrast: Vec<String>,
    #[serde(flatten)]
    findings: Findings,
}

impl Section {
    /// The claims.
    pub fn claims(&self) -> &[Claim] {
        &self.findings.claims
    }
}

/// What an experiment gives to its section.
#[derive(Clone, Debug, Default, Serialize)]
struct Findings {
    /// What was run, and how it was measured.
    setup: Vec<String>,
    claims: Vec<Claim>,
    /// Figures beside those of a grid's claims, to compare with.
    #[serde(skip)]
    beside: Vec<grid::Beside>,
    tables: Vec<Table>,
    drawings: Vec<Drawing>,
    /// A picture for a file of its own.
    #[serde(skip)]
    figure: Option<String>,
    /// A page of its own in Markdown: name of the file, and text.
    #[serde(skip)]
    page: Option<(&'static str, String)>,
    /// Its runs in real time are as long as the scenario says, unless seconds are given ([`bench::Setup::whole`]).
    #[serde(skip)]
    whole: bool,
    /// The scenario files.
    scenarios: Vec<&'static bench::File>,
}

/// A picture of the page.
#[derive(Clone, Debug, Serialize)]
struct Drawing {
    title: String,
    svg: String,
    note: String,
}

/// Numbers of the page: a row per condition, a column per contestant.
#[derive(Clone, Debug, Serialize)]
struct Table {
    title: String,
    note: &'static str,
    columns: Vec<String>,
    rows: Vec<TableRow>,
}

/// Name, then for each column a value and its spread.
type TableRow = (String, Vec<(String, String)>);

/// A row of values without a spread.
fn plain<const N: usize>(name: impl Into<String>, values: [String; N]) -> TableRow {
    (name.into(), values.map(|value| (value, String::new())).into())
}

impl Findings {
    /// Nothing was run, and why.
    fn none(why: impl Into<String>) -> Self {
        Self { setup: vec![why.into()], ..Self::default() }
    }
}

impl Drawing {
    fn new(title: impl Into<String>, sheet: &Sheet, note: impl Into<String>) -> Self {
        Self { title: title.into(), svg: sheet.draw(), note: note.into() }
    }
}

impl Table {
    fn new(
        title: impl Into<String>,
        note: &'static str,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = TableRow>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { title: title.into(), note, columns, rows: rows.into_iter().collect() }
    }
}

/// Why a paper could not be reproduced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// No such paper.
    #[error("unknown paper '{name}'; {hint}")]
    Paper {
        /// As given.
        name: String,
        /// The nearest ones.
        hint: String,
    },
    /// No such experiment.
    #[error("--figure: '{name}' is not in {paper}; {hint}")]
    Figure {
        /// As given.
        name: String,
        /// The paper.
        paper: &'static str,
        /// The nearest ones, or all.
        hint: String,
    },
    /// A claim is about an unknown contestant.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A run failed or cannot be begun, or what was run cannot be kept.
    #[error(transparent)]
    Runner(#[from] RunnerError<RunError>),
    /// A scenario or the trace is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The page cannot be written.
    #[error(transparent)]
    Page(#[from] PageError),
}

impl Paper {
    /// The paper of this name.
    ///
    /// # Errors
    /// When there is none: the line names the nearest.
    pub fn find(name: &str) -> Result<&'static Self, ReproduceError> {
        PAPERS.iter().find(|paper| paper.name == name).ok_or_else(|| {
            let known = PAPERS.iter().map(|paper| paper.name);
            ReproduceError::Paper { name: printable(name, 60), hint: nearest(name, known) }
        })
    }

    /// Names and titles of its experiments.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.experiments.iter().map(|one| (one.name, format!("{}: {}", one.figure, one.title)))
    }

    /// Runs the experiments one after another, the runs of each spread over the cores. `progress` sees each as a
    /// part.
    ///
    /// # Errors
    /// An option that is wrong, or a trace.
    pub fn run(&self, settings: &PaperSettings, progress: &dyn Progress) -> Result<Vec<Section>, ReproduceError> {
        let chosen: Vec<&Experiment> = match &settings.figure {
            None => self.experiments.iter().collect(),
            Some(name) => {
                let found = self.experiments.iter().find(|one| one.name == name);
                vec![found.ok_or_else(|| ReproduceError::Figure {
                    name: printable(name, 60),
                    paper: self.name,
                    hint: nearest(name, self.experiments.iter().map(|one| one.name)),
                })?]
            }
        };
        let real = settings.world.is_real();
        let given = settings;
        let mut settings = settings.clone();
        if real {
            settings.seconds.get_or_insert(REAL.0);
            settings.runs.get_or_insert(REAL.1);
        }
        let settings = &settings;
        let mut sections = Vec::new();
        for (index, one) in chosen.iter().enumerate() {
            progress.part(&format!("{} ({} of {})", one.figure, index + 1, chosen.len()));
            let bench = bench::Bench { figure: one.figure, settings, seconds: given.seconds, progress };
            let mut findings = (one.conduct)(&bench)?;
            let seconds = if findings.whole { given.seconds } else { settings.seconds };
            let again = PaperSettings { seconds, ..settings.clone() };
            for claim in &mut findings.claims {
                if claim.figure.is_empty() {
                    one.figure.clone_into(&mut claim.figure);
                }
                claim.world = settings.world;
                let commands = claim.cells.iter_mut().map(|cell| &mut cell.command);
                commands.chain([&mut claim.command]).for_each(|command| {
                    command.push_str(&again.repeated());
                    command.push_str(if real { " --real" } else { "" });
                });
            }
            let contrast = contrast::sentences(&findings.claims, self.rivals);
            let world = self.runs.option(settings.world);
            let command = format!("paceline reproduce {} --figure {}{world}{}", self.name, one.name, again.again());
            sections.push(Section { figure: one.figure, title: one.title, command, contrast, findings });
        }
        Ok(sections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::runner::Unwatched;

    #[test]
    fn commands_repeat_the_options() {
        let settings =
            PaperSettings { runs: Some(3), seed: Some(7), traces: vec!["my trace".into()], ..PaperSettings::default() };
        assert_eq!(settings.repeated(), " --runs 3 --seed 7");
        assert_eq!(settings.again(), " --runs 3 --seed 7 --trace \"my trace\"");
        assert_eq!(PaperSettings::default().again(), "");
    }

    #[test]
    fn unknown_names_get_the_nearest() {
        let error = Paper::find("paced-chirpin").err().unwrap().to_string();
        assert_eq!(error, "unknown paper 'paced-chirpin'; did you mean paced-chirping?");
        let paper = Paper::find("paced-chirping").unwrap();
        let settings = PaperSettings { figure: Some("fig8".to_owned()), ..PaperSettings::default() };
        let error = paper.run(&settings, &Unwatched).unwrap_err().to_string();
        assert!(error.starts_with("--figure: 'fig8' is not in paced-chirping; did you mean fig"), "{error}");
    }
}
