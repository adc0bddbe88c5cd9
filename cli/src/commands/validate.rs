//! `paceline validate`: claims of theory and of the field beside what the simulator gives.

use std::fs::{self, File};
use std::io::{BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use indicatif::ProgressBar;
use paceline_lab::output::{self, Draft};
use paceline_lab::validate::{
    Check, NamedTrace, RealSettings, markdown, native_traces, real, real_markdown, run as validate,
};
use paceline_path::Trace;

use super::{count, number};

/// Hold what the simulator gives against theory and against native implementations (docs/validation.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder with the real traces that native implementations were measured on; those that are missing are skipped.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Run scenarios in the simulator and in the real world instead, and hold the two against each other
    /// (docs/validation-real.md). Takes hours; needs root or user namespaces.
    #[arg(long)]
    real: bool,
    /// With --real: runs of each contestant in each world.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count::<u32>, requires = "real")]
    runs: u32,
    /// With --real: seconds of a run, instead of the scenario's.
    #[arg(long, value_name = "S", value_parser = number, requires = "real")]
    seconds: Option<f64>,
    /// Write the page here instead of to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// One JSON object a claim; - for standard output instead of the page.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    /// Sees to it that this process may do what is asked for; before it has a second thread.
    pub(crate) fn acquire(&self) -> anyhow::Result<()> {
        if self.real { paceline_lab::real::acquire().map_err(anyhow::Error::msg) } else { Ok(()) }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for (option, path) in [("--out", &args.out), ("--json", &args.json)] {
        if let Some(path) = path.as_deref().filter(|path| *path != Path::new("-")) {
            Draft::check(path).context(option)?;
        }
    }
    let traces = args.traces.as_deref().map(read).transpose()?.unwrap_or_default();
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(100) } else { ProgressBar::hidden() };
    let progress = |share: f64| bar.set_position((share * 100.0) as u64);
    let (checks, page): (_, fn(&[Check]) -> String) = if args.real {
        (real(&traces, &RealSettings { runs: args.runs, seconds: args.seconds }, &progress)?, real_markdown)
    } else {
        (validate(&traces, &progress)?, markdown)
    };
    bar.finish_and_clear();
    if let Some(path) = &args.json {
        let mut text = String::new();
        for check in &checks {
            text.push_str(&serde_json::to_string(check)?);
            text.push('\n');
        }
        put(path, &text).context("--json")?;
    }
    if let Some(path) = &args.out {
        put(path, &page(&checks)).context("--out")?;
    } else if args.json.as_deref() != Some(Path::new("-")) {
        crate::print(&page(&checks))?;
    }
    Ok(if checks.iter().all(|check| check.holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return Ok(crate::print(text)?);
    }
    Ok(output::write(path, |draft| draft.write_all(text.as_bytes()))?)
}

/// The traces in `folder` that something is known of.
fn read(folder: &Path) -> anyhow::Result<Vec<NamedTrace>> {
    fs::read_dir(folder).with_context(|| format!("--traces {}: cannot be read; name a folder", folder.display()))?;
    let mut traces = Vec::new();
    for name in native_traces() {
        let path = folder.join(name);
        let Ok(file) = File::open(&path) else {
            eprintln!("paceline: {}: not there, its rows are skipped", path.display());
            continue;
        };
        let trace = Trace::read(&path.display().to_string(), BufReader::new(file))?;
        traces.push((name.to_owned(), Arc::new(trace)));
    }
    Ok(traces)
}
