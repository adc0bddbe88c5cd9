//! `paceline reproduce`: a paper's experiments again, claim by claim.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use paceline_files::is_standard;
use paceline_lab::journal::Journal;
use paceline_lab::real::{self, RealError};
use paceline_lab::run::World;
use paceline_papers::claim::{Claim, json};
use paceline_papers::reproduce::{PAPERS, Paper, PaperSettings, Runs, Section, table, write};

use super::{BadValue, check_file, check_folder, count, save, span};
use crate::exit::unless_failed;
use crate::progress::{Announce, Bar};

/// Run a paper's experiments again and compare the results with what it says (docs/guide/reproduce.md).
///
/// A paper about real sockets runs in real time where that is permitted (root, or user namespaces), else in the simulator.
///
/// Exit status 1 when a claim does not hold.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The paper; without it, lists the papers.
    name: Option<String>,
    /// One JSON object per claim; - for standard output instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder of the page; out/reproduce/NAME unless given.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// This experiment alone, as the list without NAME names it.
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Runs of each condition, instead of as many as each scenario says.
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    runs: Option<u32>,
    /// Seed of everything random, instead of that of each scenario: other seeds, other runs.
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Delivery trace (Mahimahi's format) for experiments over a cellular link, instead of the shipped ones; can be repeated.
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Seconds of a run, instead of as many as each scenario says (10 in real time).
    #[arg(long, value_name = "S", value_parser = span, allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Also run experiments about real sockets in the simulator.
    #[arg(long)]
    sim: bool,
    /// Run experiments that the simulator runs otherwise over real sockets in real time (`int`, `icn`, `start-ups`); needs root.
    #[arg(long, conflicts_with = "sim")]
    real: bool,
    /// The machine permits real time, or why it does not.
    #[arg(skip)]
    permitted: OnceCell<Result<(), RealError>>,
    /// Runs at once; 0 for one per core in the simulator, where it changes no number, and a single one in real time, where runs share
    /// the host: more than two per core show the host instead of the path.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads, allow_negative_numbers = true)]
    threads: usize,
    /// Add each run of `fidelity` to this file as it ends, one JSON object per line; runs that are in it are not run again.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.name else {
        crate::print::out(&list())?;
        return Ok(ExitCode::SUCCESS);
    };
    let paper = Paper::find(name)?;
    if args.real && paper.runs == Runs::Simulated {
        anyhow::bail!("--real: the experiments of {name} run in the simulator alone; leave it out");
    }
    if let (true, Some(Err(problem))) = (args.real, args.permitted.get()) {
        anyhow::bail!("{problem}");
    }
    if let Some(seconds) = args.seconds.filter(|seconds| seconds.is_nan() || *seconds <= 0.0) {
        anyhow::bail!("--seconds: {seconds} is not above 0; write 10 for ten seconds");
    }
    let to_standard = args.json.as_deref().is_some_and(is_standard);
    check_file("--json", args.json.as_ref())?;
    let folder = args.report.clone().unwrap_or_else(|| Path::new("out/reproduce").join(paper.name));
    check_folder("--report", Some(&folder))?;
    let settings = PaperSettings {
        figure: args.figure.clone(),
        runs: args.runs,
        seed: args.seed,
        seconds: args.seconds,
        traces: args.trace.clone(),
        world: if matches!(args.permitted.get(), Some(Ok(()))) { World::Real } else { World::Sim },
        threads: args.threads,
        journal: args.journal.as_deref().map(Journal::open).transpose()?.map(Arc::new),
    };
    let sections =
        Bar::during("{msg}  {bar:40} {pos}/{len} runs, {elapsed}", Announce::Always, |bar| paper.run(&settings, bar))?;
    let page = write(paper, &settings, &sections, &folder)?;
    let claims = || sections.iter().flat_map(Section::claims);
    if let Some(path) = &args.json {
        save("--json", path, |out| out.write_all(json(claims()).as_bytes()))?;
    }
    if !to_standard {
        let table = table(&sections, crate::terminal::colors(&std::io::stdout()));
        let world = if settings.world.is_real() { "Real sockets in real time." } else { "In the simulator." };
        crate::print::out(&format!("{}\n{world}\n\n{table}{}\n", paper.title, page.display()))?;
    }
    Ok(unless_failed(!claims().all(Claim::holds)))
}

impl Args {
    /// Asks for real time where a paper wants it, before this process has a second thread; else the simulator does.
    pub(crate) fn acquire(&self) {
        let wants = |name: &String| {
            Paper::find(name).is_ok_and(|paper| match paper.runs {
                Runs::Simulated => false,
                Runs::SimulatedFirst => self.real,
                Runs::RealFirst => !self.sim,
            })
        };
        if !self.name.as_ref().is_some_and(wants) {
            return;
        }
        let permitted = real::acquire();
        if let (Err(problem), false) = (&permitted, self.real) {
            eprintln!("{problem}; this runs in the simulator");
        }
        let _ = self.permitted.set(permitted);
    }
}

/// A number of threads.
fn threads(text: &str) -> Result<usize, BadValue> {
    let wanted = || format!("a number of threads from 0 to {MOST_THREADS}");
    count(text).ok().filter(|threads| *threads <= MOST_THREADS).ok_or_else(|| BadValue::new(wanted(), "one such as 4"))
}

/// Most runs at once: as many threads, and in real time as many network namespaces (our choice).
const MOST_THREADS: usize = 256;

/// Every paper with its experiments.
fn list() -> String {
    let mut text = String::new();
    for paper in PAPERS {
        text.push_str(&format!("{}  {}\n", paper.name, paper.title));
        for (name, title) in paper.figures() {
            text.push_str(&format!("  --figure {name:9} {title}\n"));
        }
    }
    text
}
