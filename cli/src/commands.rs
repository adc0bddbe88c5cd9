//! One file a command.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use paceline_cc::{Bytes, Nanos};
use paceline_files::Draft;
use paceline_lab::shell::quoted;
use serde_json::json;

use crate::exit::Exit;

#[cfg(target_os = "linux")]
pub(crate) mod alcc;
pub(crate) mod completions;
pub(crate) mod conform;
pub(crate) mod controllers;
#[cfg(target_os = "linux")]
pub(crate) mod doctor;
#[cfg(target_os = "linux")]
pub(crate) mod emulate;
#[cfg(target_os = "linux")]
mod ending;
pub(crate) mod evaluate;
#[cfg(target_os = "linux")]
pub(crate) mod fetch;
#[cfg(target_os = "linux")]
pub(crate) mod icn;
#[cfg(target_os = "linux")]
pub(crate) mod int;
#[cfg(target_os = "linux")]
pub(crate) mod kernel;
#[cfg(target_os = "linux")]
mod live;
pub(crate) mod manual;
pub(crate) mod mdi;
pub(crate) mod plot;
pub(crate) mod race;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod reproduce;
#[cfg(all(target_os = "linux", feature = "ebpf"))]
mod seldom;
#[cfg(target_os = "linux")]
pub(crate) mod send;
#[cfg(target_os = "linux")]
pub(crate) mod serve;
#[cfg(target_os = "linux")]
mod serving;
#[cfg(target_os = "linux")]
pub(crate) mod shim;
pub(crate) mod sweep;
#[cfg(target_os = "linux")]
pub(crate) mod top;
pub(crate) mod trace;
#[cfg(target_os = "linux")]
mod udp;
pub(crate) mod validate;
#[cfg(target_os = "linux")]
mod verdicts;

/// A value that an option does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadValue {
    /// What was expected, with its article.
    wanted: Cow<'static, str>,
    /// What to give, with an example.
    give: &'static str,
}

impl BadValue {
    pub(crate) fn new(wanted: impl Into<Cow<'static, str>>, give: &'static str) -> Self {
        Self { wanted: wanted.into(), give }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is not {}; give {}", self.wanted, self.give)
    }
}

impl std::error::Error for BadValue {}

/// A whole number of an option.
pub(crate) fn count<T: std::str::FromStr>(text: &str) -> Result<T, BadValue> {
    text.parse().map_err(|_| BadValue::new("a whole number from 0 on, or too large", "one such as 10"))
}

/// Seconds of an option: a number of them, or a time with its unit.
pub(crate) fn span(text: &str) -> Result<f64, BadValue> {
    let time = || text.parse().map(Nanos::as_secs_f64);
    text.parse().or_else(|_| time()).map_err(|_| BadValue::new("a time", "seconds such as 60, or 500ms or 2min"))
}

/// A share of an option.
pub(crate) fn share(text: &str) -> Result<f64, BadValue> {
    paceline_path::share(text).ok_or_else(|| BadValue::new("a share", "one such as 0.01 or 1%"))
}

/// A number of bytes of an option, with or without a unit.
pub(crate) fn bytes(text: &str) -> Result<u64, BadValue> {
    let size: Result<Bytes, _> = text.parse();
    size.map(|size| size.0).map_err(|_| BadValue::new("a number of bytes", "one such as 1000000, 500kB or 10MB"))
}

/// The command as it was given.
pub(crate) fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| quoted(&argument.to_string_lossy()));
    ["paceline".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Refuses `--json`, which prints, where a file goes to standard output.
pub(crate) fn alone(json: bool, output: &Path) -> anyhow::Result<()> {
    if json && paceline_files::is_standard(output) {
        anyhow::bail!("--json: standard output is the file's; name a file in place of -");
    }
    Ok(())
}

/// Fails now if [`save`] would fail when the runs are over.
pub(crate) fn check_file(option: &'static str, path: Option<&PathBuf>) -> anyhow::Result<()> {
    path.map_or(Ok(()), |path| Draft::check(path)).context(option)
}

/// The same for what goes into a folder.
pub(crate) fn check_folder(option: &'static str, folder: Option<&PathBuf>) -> anyhow::Result<()> {
    folder.map_or(Ok(()), |folder| paceline_files::check_folder(folder)).context(option)
}

/// A file that a command is to read cannot be.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("{}: cannot be read ({error}); name a file that exists and that you may read", path.display())
}

/// Writes what an option asks for.
pub(crate) fn save(
    option: &'static str,
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    paceline_files::write(path, |draft| content(draft)).context(option)
}

/// The first line of what serves: where it listens.
#[cfg(target_os = "linux")]
pub(crate) fn listening(at: impl fmt::Display, json: bool) -> String {
    if json { format!("{}\n", json!({ "listening": at.to_string() })) } else { format!("listening at {at}\n") }
}

/// Checks files: silent until one is wrong; with `json`, an object for each of them, and exit status 2 when one is wrong.
///
/// # Errors
/// What is wrong with the first that is, without `json`.
pub(crate) fn each_checked(
    files: &[PathBuf],
    json: bool,
    check: impl Fn(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    for file in files {
        let checked = check(file);
        if !json {
            checked?;
            continue;
        }
        let problem = checked.err().map(|error| crate::complaint::of_error(&error));
        if problem.is_some() {
            status = Exit::Refused.into();
        }
        let name = file.display().to_string();
        crate::print::out(&format!("{}\n", json!({ "file": name, "valid": problem.is_none(), "problem": problem })))?;
    }
    Ok(status)
}
