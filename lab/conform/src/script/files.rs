//! Scripts from files.

use std::path::{Path, PathBuf};

use paceline_cc::Spec;
use paceline_lab::input::{self, Bounds};

use super::{Place, Script, ScriptError, ScriptRun};

/// How the files of a folder of scripts end.
pub const FOLDER_SUFFIX: &str = "script";

/// A script: longer than a hand writes (our choice).
const BOUNDS: Bounds = Bounds { file: 4 << 20, line: 64 << 10 };

/// Runs the scripts of these files, and of the files `*.script` in these folders: with the controllers that they name, or with each of
/// `instead`.
///
/// # Errors
/// The first script that cannot be read, is wrong, or cannot be run to its end.
pub fn run_files(paths: &[PathBuf], instead: &[Spec]) -> Result<Vec<ScriptRun>, ScriptError> {
    let mut runs = Vec::new();
    for path in paths {
        for file in files(path)? {
            let name = file.display().to_string();
            let text = input::read_text(&file, BOUNDS).map_err(|error| unread(&name, &error))?;
            let script = Script::parse(&name, &text, input::controller)?;
            if instead.is_empty() {
                runs.push(script.run(None, None)?);
            }
            for spec in instead {
                runs.push(script.run(Some(spec), None)?);
            }
        }
    }
    Ok(runs)
}

/// The file, or those of the folder by their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, ScriptError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let name = path.display().to_string();
    let entries = path.read_dir().and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| unread(&name, &error))?;
    let paths = entries.into_iter().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|suffix| suffix == FOLDER_SUFFIX)).collect();
    files.sort();
    if files.is_empty() {
        let none = std::io::Error::other(format!("this folder has no file *.{FOLDER_SUFFIX}"));
        return Err(unread(&name, &none));
    }
    Ok(files)
}

fn unread(name: &str, error: &std::io::Error) -> ScriptError {
    Place { line: 1, column: 1 }.error(name, format!("it cannot be read ({error}); name a script that you may read"))
}
