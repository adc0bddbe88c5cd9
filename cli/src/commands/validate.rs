//! `paceline validate`: claims of theory and of the field beside what the simulator gives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use paceline_files::is_standard;
use paceline_lab::input::{self, Bounds};
use paceline_lab::journal::Journal;
use paceline_papers::claim::{Claim, json};
use paceline_papers::validate::{
    NamedTrace, RealSettings, markdown, native_traces, real, real_markdown, run as validate,
};
use paceline_path::Trace;

use super::{check_file, count, save, span};
use crate::complaint;
use crate::exit::unless_failed;
use crate::progress::{Announce, Bar};

/// Compare what the simulator gives with theory and with native implementations (docs/results/validation.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder with real delivery traces: those that native implementations were measured on, or, with --real, any.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Run scenarios in the simulator and in real time instead, and compare the two
    /// (docs/results/validation-real.md). Takes hours; needs root or user namespaces.
    #[arg(long)]
    pub(crate) real: bool,
    /// With --real: runs of each contestant, simulated and real.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count::<u32>, requires = "real")]
    runs: u32,
    /// With --real: seconds of a run, instead of the scenario's.
    #[arg(long, value_name = "S", value_parser = span, requires = "real")]
    seconds: Option<f64>,
    /// With --real: only these contestants, such as copa@udp,cubic@tcp.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "real")]
    contestants: Option<Vec<String>>,
    /// With --real: only the traces of --traces, not the shipped scenarios.
    #[arg(long, requires = "real", requires = "traces")]
    traces_only: bool,
    /// Only groups of claims with this text in their name, such as Wi-Fi.
    #[arg(long, value_name = "TEXT", conflicts_with = "real")]
    only: Option<String>,
    /// Runs at once; 0 for one per core in the simulator, where it changes no number, and a single one with --real, where runs share
    /// the host: more than two per core show the host instead of the path.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    threads: u32,
    /// With --real: add the runs of each contestant to this file as they end, one JSON object per line; what is in it is not run again.
    #[arg(long, value_name = "FILE", requires = "real")]
    journal: Option<PathBuf>,
    /// Write the page here instead of to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// One JSON object per claim; - for standard output instead of the page.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    /// Writes the page and the claims into the files that are asked for.
    fn save(&self, claims: &[Claim], page: &str) -> anyhow::Result<()> {
        let texts = [("--out", &self.out, page), ("--json", &self.json, &json(claims))];
        for (option, path, text) in texts {
            if let Some(path) = path.as_deref().filter(|path| !is_standard(path)) {
                save(option, path, |out| out.write_all(text.as_bytes()))?;
            }
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for (option, path) in [("--out", &args.out), ("--json", &args.json)] {
        check_file(option, path.as_ref())?;
    }
    let traces = args.traces.as_deref().map(read).transpose()?.unwrap_or_default();
    let threads = args.threads as usize;
    let what = if args.real { "runs" } else { "groups of claims" };
    let bar = Bar::new(&format!("{{msg}}  {{bar:40}} {{pos}}/{{len}} {what}, {{elapsed}}"), Announce::OnTerminals);
    let claims = if args.real {
        let settings = RealSettings {
            runs: args.runs,
            seconds: args.seconds,
            contestants: args.contestants.clone(),
            traces_only: args.traces_only,
            threads,
            journal: args.journal.as_deref().map(Journal::open).transpose()?,
        };
        // It takes hours: what has been found stands in the files.
        real(&traces, &settings, &bar, |claims| args.save(claims, &real_markdown(claims)))
    } else {
        for name in native_traces().into_iter().filter(|name| !traces.iter().any(|(known, _)| known == name)) {
            if let (Some(folder), None) = (&args.traces, &args.only) {
                complaint::print(&format!("{}: not there, its rows are skipped", folder.join(name).display()));
            }
        }
        validate(&traces, args.only.as_deref(), threads, &bar).map_err(anyhow::Error::from)
    };
    bar.finish();
    let claims = claims?;
    let page = if args.real { real_markdown(&claims) } else { markdown(&claims) };
    args.save(&claims, &page)?;
    let stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    if stdout(&args.json) {
        crate::print::out(&json(&claims))?;
    } else if args.out.is_none() || stdout(&args.out) {
        crate::print::out(&page)?;
    }
    Ok(unless_failed(claims.iter().any(Claim::misses)))
}

/// The delivery traces in `folder`, by name; other files are reported and left out.
fn read(folder: &Path) -> anyhow::Result<Vec<NamedTrace>> {
    let cannot = || format!("--traces {}: cannot be read; name a folder", folder.display());
    let mut traces = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| path.is_file()) else { continue };
        let file = input::open(&path, Bounds::TRACE).with_context(|| format!("--traces {}", path.display()))?;
        match Trace::read(&path.display().to_string(), file) {
            Ok(trace) => traces.push((name.to_owned(), Arc::new(trace))),
            Err(problem) => complaint::print(&format!("no trace, left out: {problem}")),
        }
    }
    traces.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(traces)
}
