//! A program that is not ours on the rigs, judged from outside: by the qlog that its sender leaves, else, where it speaks TCP, by its
//! packets as they enter the path.

use std::fs::{self, File};
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::SystemTime;

use paceline_experiment::{ProgramOutcome, ProgramPlaces};
use paceline_lab::contestant::Contestant;
use paceline_lab::input::{self, Bounds};
use paceline_lab::programs::{ProgramSettings, Programs, permitted};
use paceline_lab::run::World;
use paceline_lab::runner::Progress;

use crate::capture::{self, FourTuple};
use crate::qlog::{self, Choice};
use crate::read::FileError;
use crate::rig::{Rig, RigError};
use crate::trajectory::Trajectory;
use crate::{rules, suite};

/// Most bytes of a qlog (our choice: an hour at 100 Mbit/s).
const LOG: Bounds = Bounds { file: 4 << 30, line: 4 << 30 };

/// Why no rule of a rig can be judged of a program by the rules of this controller, where that is so.
pub(crate) fn hidden(rig: Rig, rules_of: &str) -> Option<String> {
    let mut here = rules::of(rules_of).into_iter().filter(|rule| rule.rig == rig);
    let why = if rig.has_application() {
        "on its path an application of ours writes, and a program has its own"
    } else if here.all(|rule| !rule.needs.is_empty()) {
        "it needs the controller's own variables, which a program does not show"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// Prepares a contestant that is a program; nothing for others, and where no rule can be judged.
///
/// # Errors
/// When its commands may not run, or it is not there; before anything runs.
pub(crate) fn ready(
    contestant: &Contestant,
    rules_of: &str,
    world: World,
    settings: &ProgramSettings,
    progress: &dyn Progress,
) -> Result<Option<Programs>, RigError> {
    let mut rigs = suite::rigs(rules_of).into_iter();
    let Some(rig) = rigs.find(|rig| contestant.is_program() && hidden(*rig, rules_of).is_none()) else {
        return Ok(None);
    };
    let plan = rig.plan(contestant)?;
    permitted(&plan, world, settings)?;
    world.check(slice::from_ref(contestant), slice::from_ref(&plan))?;
    Ok(Programs::ready(&mut vec![contestant.clone()], &plan, world, settings, progress)?.0)
}

/// A program's run on one rig: where it works, and where its packets are written.
#[derive(Debug)]
pub(crate) struct Outside<'a> {
    programs: &'a Programs,
    /// Where it works.
    pub places: ProgramPlaces,
    /// Its packets.
    pub capture: PathBuf,
    begun: SystemTime,
}

impl<'a> Outside<'a> {
    /// Of this contestant, on this rig; it begins now.
    pub(crate) fn new(programs: &'a Programs, contestant: &Contestant, rig: Rig) -> Self {
        let places = programs.places(contestant, 1);
        let with = |end: &str| {
            let mut path = places.outputs.clone().into_os_string();
            path.push(end);
            PathBuf::from(path)
        };
        let (outputs, capture) = (with(&format!("-{}", rig.name())), with(&format!("-{}.pcapng", rig.name())));
        Self { programs, places: ProgramPlaces { outputs, ..places }, capture, begun: SystemTime::now() }
    }

    /// What its first flow shows.
    ///
    /// # Errors
    /// When its packets cannot be read.
    pub(crate) fn trajectory(&self, name: &str, program: &ProgramOutcome) -> Result<Trajectory, RigError> {
        let (logged, problem) = self.logged(name, program);
        if let Some(logged) = logged {
            return Ok(logged);
        }
        if let Some("tcp") = program.seen.protocol {
            let captured = captured(&self.capture, program);
            let mut trajectory = captured.map_err(|problem| RigError::Left { contestant: name.to_owned(), problem })?;
            trajectory.notes.extend(problem.map(|problem| format!("Judged by its packets: {problem}")));
            return Ok(Trajectory { name: name.to_owned(), ..trajectory });
        }
        let left = problem.map_or_else(|| "it left no qlog".to_owned(), |problem| problem.to_string());
        let protocol = program.seen.protocol.unwrap_or("none");
        Ok(Trajectory::hidden(name, format!("its packets ({protocol}) do not say what has arrived, and {left}")))
    }

    /// By the qlog of its sender that says most, and what is wrong with one that cannot be read.
    fn logged(&self, name: &str, program: &ProgramOutcome) -> (Option<Trajectory>, Option<FileError>) {
        let folder = self.places.of_flow(0).join("sender");
        // Those of a run before may be there.
        let is_new = |log: &Path| fs::metadata(log).and_then(|log| log.modified()).is_ok_and(|at| at >= self.begun);
        let (mut best, mut problem) = (None::<Trajectory>, None);
        for log in program.qlog.iter().filter(|log| log.starts_with(&folder) && is_new(log)) {
            match read(log) {
                Ok(read) if best.as_ref().is_none_or(|best| best.points.len() < read.points.len()) => best = Some(read),
                Ok(_) => {}
                Err(error) => problem = Some(error),
            }
        }
        (best.map(|best| Trajectory { name: name.to_owned(), ..best }), problem)
    }

    /// The run is over and read.
    pub(crate) fn over(&self) {
        if !self.programs.keeps() {
            // What cannot be removed now goes with the whole folder.
            let _ = fs::remove_dir_all(self.places.of_flow(0));
            let _ = fs::remove_file(&self.capture);
        }
    }
}

fn read(log: &Path) -> Result<Trajectory, FileError> {
    let file = log.display().to_string();
    let from = input::open(log, LOG).map_err(|error| FileError::new(&file, 0, format!("cannot be read ({error})")))?;
    qlog::read_one(&file, from, Choice { or_most: true, ..Choice::default() })
}

/// The connection between its hosts that sent most.
fn captured(capture: &Path, program: &ProgramOutcome) -> Result<Trajectory, FileError> {
    let file = capture.display().to_string();
    let mut first = None;
    for [from, to] in program.addresses.iter().map(|pair| pair.map(|host| SocketAddr::new(host, 0))) {
        let opened =
            File::open(capture).map_err(|error| FileError::new(&file, 0, format!("cannot be read ({error})")))?;
        match capture::read(&file, BufReader::new(opened), Some(FourTuple { from, to })) {
            Ok(trajectory) => return Ok(trajectory),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| FileError::new(&file, 0, "its hosts have no addresses; report it")))
}
