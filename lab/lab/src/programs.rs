//! Programs that are not ours in a race: whether a scenario's commands may run, what is prepared for them, and where they write.
//!
//! A scenario is data. With `[programs]` it has commands, so that a race runs them only where its user says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use paceline_experiment::ProgramPlaces;

use crate::contestant::Contestant;
use crate::flow_logs::plain;
use crate::real::{self, RealError};
use crate::record::Record;
use crate::run::World;
use crate::runner::Progress;
use crate::scenario::Plan;

use self::temporary::Temporary;

mod temporary;

/// What is permitted to programs, and what is kept of them.
#[derive(Clone, Debug, Default)]
pub struct ProgramSettings {
    /// The scenario's commands may run.
    pub run: bool,
    /// What they write is kept in this folder; without it only of runs that failed, in a temporary one.
    pub keep: Option<PathBuf>,
    /// A contestant whose program is not there is left out.
    pub skip_missing: bool,
}

/// Why programs cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramsError {
    /// It was not permitted.
    #[error(
        "{contestant}: it is commands of a file, which run only when asked: read them (race --effective shows them), and add --run-programs"
    )]
    NotPermitted {
        /// The first contestant that is a program.
        contestant: String,
    },
    /// There is no folder for what they write.
    #[error("{}: cannot be made ({source}); name a folder that you may write to, --keep DIR", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program is not there, or cannot be prepared.
    #[error(transparent)]
    Real(#[from] RealError),
}

/// The programs of a race, ready to run.
#[derive(Debug)]
pub struct Programs {
    folder: PathBuf,
    /// Where nothing is to be kept: gone with this.
    temporary: Option<Temporary>,
    versions: BTreeMap<String, String>,
}

/// Whether what this plan would run in this world may run: the first thing that is asked.
///
/// # Errors
/// [`ProgramsError::NotPermitted`].
pub fn permitted(plan: &Plan, world: World, settings: &ProgramSettings) -> Result<(), ProgramsError> {
    let mut everyone = plan.scenario.everyone();
    match everyone.find(|contestant| contestant.is_program()).filter(|_| world.is_real() && !settings.run) {
        Some(first) => Err(ProgramsError::NotPermitted { contestant: first.to_string() }),
        None => Ok(()),
    }
}

impl Programs {
    /// Of these contestants over this plan: nothing where no program runs. Tells of each command, prepares the programs, and takes
    /// contestants out that are to be left out, each with a note.
    ///
    /// # Errors
    /// As [`permitted`], and when a program is not there or a command failed.
    pub fn ready(
        contestants: &mut Vec<Contestant>,
        plan: &Plan,
        world: World,
        settings: &ProgramSettings,
        progress: &dyn Progress,
    ) -> Result<(Option<Self>, Vec<String>), ProgramsError> {
        permitted(plan, world, settings)?;
        let programs = plan.scenario.programs();
        if programs.is_empty() || !world.is_real() {
            return Ok((None, Vec::new()));
        }
        let mut told: Vec<String> = Vec::new();
        for program in &programs {
            for (key, command) in program.commands() {
                let line = format!("{} {key}: {command}", program.name);
                if !told.contains(&line) {
                    progress.command(&line);
                    told.push(line);
                }
            }
        }
        let (folder, temporary) = match &settings.keep {
            Some(folder) => (made(folder)?, None),
            None => {
                let within = std::env::temp_dir();
                let temporary = Temporary::new(&within).and_then(|temporary| {
                    if programs.iter().any(|program| program.user.is_some()) {
                        temporary.open_to_users()?;
                    }
                    Ok(temporary)
                });
                let temporary = temporary.map_err(|source| ProgramsError::Folder { folder: within, source })?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let shared = made(&folder.join("shared"))?;
        let (mut versions, mut notes) = (BTreeMap::new(), Vec::new());
        let mut names = BTreeSet::new();
        for program in programs.iter().filter(|program| names.insert(&program.name)) {
            let prepared = real::prepare(program, plan.scenario.bytes_of_programs(), &shared);
            match prepared {
                Ok(version) => versions.extend(version.map(|version| (program.name.clone(), version))),
                Err(problem) => {
                    let another = |one: &&Contestant| one.via.program().is_none_or(|own| own.name != program.name);
                    let left: Vec<Contestant> = contestants.iter().filter(another).cloned().collect();
                    // One that runs beside the others cannot be left out, nor can all.
                    let beside = plan.scenario.fixed_programs().any(|fixed| fixed.name == program.name);
                    if !settings.skip_missing || beside || left.is_empty() {
                        return Err(problem.into());
                    }
                    let problem = problem.to_string();
                    notes.push(format!("{} (left out)", problem.lines().next().unwrap_or_default()));
                    *contestants = left;
                }
            }
        }
        Ok((Some(Self { folder, temporary, versions }), notes))
    }

    /// Where the programs of a run work.
    pub fn places(&self, contestant: &Contestant, run: u32) -> ProgramPlaces {
        ProgramPlaces {
            shared: self.folder.join("shared"),
            outputs: self.folder.join(format!("{}-{run}", plain(&contestant.to_string()))),
            run,
            versions: self.versions.clone(),
        }
    }

    /// Whether what they write stays.
    pub fn keeps(&self) -> bool {
        self.temporary.is_none()
    }

    /// A run came to its end: what its programs wrote is not needed any more, unless it is to be kept.
    pub fn over(&self, places: &ProgramPlaces, record: &mut Record) {
        if self.keeps() {
            return;
        }
        for (index, flow) in record.flows.iter_mut().enumerate() {
            if let Some(program) = &mut flow.program {
                program.qlog.clear();
                // What cannot be removed now goes with the whole folder.
                let _ = std::fs::remove_dir_all(places.of_flow(index));
            }
        }
    }

    /// The race is over. Where runs failed, what they wrote stays, and this says where.
    pub fn end(self, failed: bool) -> Option<String> {
        let kept = self.temporary.filter(|_| failed).map(Temporary::keep);
        kept.map(|folder| format!("what programs of the failed runs wrote is in {}", folder.display()))
    }
}

fn made(folder: &Path) -> Result<PathBuf, ProgramsError> {
    // Commands run elsewhere than here.
    let absolute = std::path::absolute(folder);
    let made = absolute.and_then(|folder| std::fs::create_dir_all(&folder).map(|()| folder));
    made.map_err(|source| ProgramsError::Folder { folder: folder.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::race::{RaceError, Settings, race};
    use crate::runner::Unwatched;
    use crate::scenario::{Options, Source};

    /// A scenario whose every command makes a file.
    fn source(file: &Path) -> Source {
        let touch = format!("\"touch {}\"", file.display());
        let text = format!(
            "name = \"a\"\nruns = 1\ncontestants = [\"cubic@tcp\", \"own@program\"]\n[down]\nrate = \"1 Mbit/s\"\n\
             [programs.own]\nversion = {touch}\nprepare = {touch}\nsender = {touch}\nreceiver = {touch}\n"
        );
        Source::from_text("a.toml", &text, Options::default())
    }

    #[test]
    fn commands_of_a_scenario_do_not_run_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made");
        let settings = Settings { world: World::Real, ..Settings::default() };
        let refused = race(&source(&file), &settings).unwrap_err();
        assert!(matches!(refused, RaceError::Programs(ProgramsError::NotPermitted { .. })), "{refused}");
        let text = refused.to_string();
        assert!(text.starts_with("own@program: ") && text.contains("add --run-programs"), "{text}");
        let simulated = race(&source(&file), &Settings::default()).unwrap_err().to_string();
        assert_eq!(simulated, "own@program: a program runs in real time only; add --real");
        // Nor without the race.
        let plan = source(&file).plan(1).unwrap();
        let own = &plan.scenario.contestants[1];
        assert!(crate::run::run(&plan, own, World::Real, &crate::run::Observers::default()).is_err());
        assert!(!file.exists());
    }

    #[test]
    fn where_no_program_runs_nothing_is_prepared() {
        struct Told(Mutex<Vec<String>>);
        impl Progress for Told {
            fn command(&self, line: &str) {
                self.0.lock().unwrap().push(line.to_owned());
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"a\"\nruns = 1\ncontestants = [\"cubic@tcp\"]\n[down]\nrate = \"1 Mbit/s\"\n";
        let plan = Source::from_text("a.toml", text, Options::default()).plan(1).unwrap();
        let settings = ProgramSettings { run: true, keep: Some(folder.path().join("kept")), skip_missing: false };
        let told = Told(Mutex::default());
        let mut contestants = plan.scenario.contestants.clone();
        let (none, notes) = Programs::ready(&mut contestants, &plan, World::Real, &settings, &told).unwrap();
        assert!(none.is_none() && notes.is_empty() && told.0.into_inner().unwrap().is_empty());
        assert!(!folder.path().join("kept").exists());
        let plan = source(&folder.path().join("made")).plan(1).unwrap();
        let nothing = Programs::ready(&mut contestants, &plan, World::Sim, &settings, &Unwatched).unwrap();
        assert!(nothing.0.is_none(), "the simulator runs no command");
    }
}
