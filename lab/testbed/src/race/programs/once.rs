//! Commands of programs that run once a race: in the race's folder, without a network, before anything is measured.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::Duration;

use paceline_emulator::command::tree::{ProcessTree, TreeSetting, UserId};
use paceline_experiment::program::Program;
use paceline_linux::namespace::Namespace;
use rustix::process::Signal;

use super::failure::{Ending, LastLines, ProgramFailure};
use super::surroundings::{shell, user, usual};
use super::{FlowError, KILLED};

/// How long `prepare` may take, seconds, and `version` (our choice).
const PREPARE: u64 = 60;
const VERSION: u64 = 10;

/// The first line that the command `version` of a program says, on its standard output or else on its standard error; nothing where the
/// program has no such command. [`paceline_linux::namespace::acquire`] comes first.
///
/// # Errors
/// When the command fails: the program is not there.
pub fn version(program: &Program, shared: &Path) -> Result<Option<String>, FlowError> {
    let Some(command) = &program.version else { return Ok(None) };
    let (how, last, [out, err]) = run(program, command, "version", shared, None, VERSION)?;
    if how != Ending::Status(0) {
        return Err(failed(program, ProgramFailure::Version { command: command.clone(), how, last }));
    }
    let line = |text: &str| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    Ok(line(&out).or_else(|| line(&err)))
}

/// Runs the command `prepare` of a program as its user, to whom the folder belongs from then on, for flows of this many bytes where they have an end.
///
/// # Errors
/// When the command fails, or takes longer than a minute.
pub fn prepare(program: &Program, bytes: Option<u64>, shared: &Path) -> Result<(), FlowError> {
    let Some(command) = &program.prepare else { return Ok(()) };
    let (how, last, _) = run(program, command, "prepare", shared, bytes, PREPARE)?;
    if how == Ending::Status(0) {
        return Ok(());
    }
    Err(failed(program, ProgramFailure::Prepare { command: command.clone(), how, last }))
}

fn failed(program: &Program, failure: ProgramFailure) -> FlowError {
    FlowError::Program { flow: name(program), failure }
}

fn name(program: &Program) -> String {
    format!("{}@program", program.name)
}

/// Runs a command to its end: how that was, the last lines of its standard error, and both outputs.
fn run(
    program: &Program,
    command: &str,
    key: &str,
    shared: &Path,
    bytes: Option<u64>,
    seconds: u64,
) -> Result<(Ending, LastLines, [String; 2]), FlowError> {
    let system = |source: io::Error| FlowError::System { flow: name(program), source };
    let namespace = |source| FlowError::Namespace { flow: name(program), source };
    let shared = std::path::absolute(shared).map_err(system)?;
    let user = program.user.as_deref().and_then(user);
    if let Some(UserId { user, group }) = user {
        chown(&shared, Some(user), Some(group)).map_err(system)?;
    }
    let files = ["out", "err"].map(|kind| shared.join(format!("{}.{key}.{kind}", program.name)));
    let [out, err] = files.each_ref().map(File::create);
    let setting = TreeSetting {
        words: shell(command),
        environment: usual(program, &shared, &shared, bytes),
        folder: shared.clone(),
        outputs: [out.map_err(system)?, err.map_err(system)?],
        ready: None,
        user,
    };
    let apart = Namespace::create().map_err(namespace)?;
    let mut tree = ProcessTree::start(setting, &apart).map_err(namespace)?;
    let (how, last) = match tree.wait(Duration::from_secs(seconds)) {
        Some(end) => (Ending::of(end), end.last_lines.clone()),
        None => {
            tree.signal(Signal::KILL);
            let last = tree.wait(KILLED).map(|end| end.last_lines.clone());
            (Ending::Never(seconds), last.unwrap_or_default())
        }
    };
    let text = |file: &std::path::PathBuf| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
    Ok((how, LastLines(last), files.each_ref().map(text)))
}
