//! `paceline plot`: logs, captures, qlogs and series as pictures.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use paceline_cc::Nanos;
use paceline_files::{Draft, is_standard};
use paceline_lab::input::{self, Bounds};
use paceline_lab::record::{ReadError, read_json_to_cut};
use paceline_logs::{Kind, kind, read};
use paceline_report::logs::{PlottedLog, page, sheet};

use super::save;
use crate::complaint;
use crate::progress::Bar;

/// Draw what a file has over time: throughput, delay, window, losses.
///
/// Logs of mm-link and of emulate, captures (pcap, pcapng), qlogs, and what race --series and --json wrote. What a file is, is found
/// by its content (docs/guide/plot.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files; each has a section of the page.
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// The page, which opens offline; plot.html unless --svg or --json is given.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// One picture with all files side by side.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The numbers as JSON; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Time that a point of a curve stands for, such as 500ms; without it as fits the file.
    #[arg(long, value_name = "TIME")]
    step: Option<Nanos>,
}

/// Most files side by side in a picture (our choice: narrower ones cannot be read).
const SIDE_BY_SIDE: usize = 4;
/// The page when no name is given.
const PAGE: &str = "plot.html";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.step == Some(Nanos::ZERO) {
        bail!("--step: a step is longer than 0; give one such as 500ms");
    }
    let out = args.out.clone().or((args.svg.is_none() && args.json.is_none()).then(|| PAGE.into()));
    for (option, path) in [("--out", &out), ("--svg", &args.svg), ("--json", &args.json)] {
        let Some(path) = path else { continue };
        if args.files.contains(path) {
            bail!("{option} {}: it is read; name another file", path.display());
        }
        if !is_standard(path) {
            Draft::check(path)?;
        }
    }
    let kinds = args.files.iter().map(|file| kind(file)).collect::<Result<Vec<_>, _>>()?;
    if kinds.contains(&Kind::Records) {
        if let Some(other) = kinds.iter().position(|kind| *kind != Kind::Records) {
            bail!("{}: records have a page of their own; draw it without them", args.files[other].display());
        }
        return records(args, out.as_deref());
    }
    if args.svg.is_some() && args.files.len() > SIDE_BY_SIDE {
        bail!("--svg: more than {SIDE_BY_SIDE} files side by side cannot be read; give fewer, or --out for a page");
    }
    let bar = Bar::of_files(args.files.len());
    let mut logs = Vec::new();
    for (file, kind) in args.files.iter().zip(kinds) {
        bar.file(&file.display().to_string());
        logs.push(read(file, kind, args.step)?);
    }
    bar.finish();
    if let Some(path) = &out {
        let page = page(&logs, &super::command_line())?;
        save("--out", path, |out| out.write_all(page.as_bytes()))?;
    }
    if let Some(path) = &args.svg {
        let picture = sheet(&logs).file();
        save("--svg", path, |out| out.write_all(picture.as_bytes()))?;
    }
    if let Some(path) = &args.json {
        save("--json", path, |out| {
            serde_json::to_writer(&mut *out, &logs)?;
            out.write_all(b"\n")
        })?;
    }
    show(&logs, &[&out, &args.svg, &args.json])?;
    Ok(ExitCode::SUCCESS)
}

/// The numbers of each file, and where the pictures are; nothing where something else goes to standard output.
fn show(logs: &[PlottedLog], places: &[&Option<PathBuf>]) -> anyhow::Result<()> {
    if places.iter().any(|path| path.as_deref().is_some_and(is_standard)) {
        return Ok(());
    }
    let mut text = String::new();
    for log in logs {
        let seconds = paceline_lab::numbers::short(log.seconds);
        text += &format!("{}: {}, {seconds} s\n", complaint::one_line(&log.file), log.kind);
        for note in &log.notes {
            text += &format!("  {}\n", complaint::one_line(note));
        }
        for figure in &log.figures {
            let of = if figure.of.is_empty() { String::new() } else { format!("{}: ", figure.of) };
            text += &format!("  {of}{} {}\n", figure.what, paceline_lab::numbers::short(figure.value));
        }
    }
    for path in places.iter().filter_map(|path| path.as_deref()) {
        text += &format!("{}\n", path.display());
    }
    Ok(crate::print::out(&text)?)
}

/// The page of records, as `paceline report` makes it.
fn records(args: &Args, out: Option<&Path>) -> anyhow::Result<ExitCode> {
    if args.step.is_some() {
        bail!("--step: records have nothing over time; leave it out, or give what race --series wrote");
    }
    let mut records = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        let file =
            input::open(path, Bounds::RECORDS).map_err(|source| ReadError::Read { file: name.clone(), source })?;
        let (whole, cut) = read_json_to_cut(&name, file)?;
        if cut.is_some() {
            complaint::print(&format!("{name}: its last line is cut off, and left out"));
        }
        records.extend(whole);
    }
    if let Some(path) = &args.json {
        save("--json", path, |out| paceline_lab::record::write_json(&records, out))?;
    }
    let folder = std::env::temp_dir().join(format!("paceline-plot-{}", std::process::id()));
    let made = paceline_report::write_records(&records, &folder).context("a folder for the page")?;
    let (page, picture) = (std::fs::read(made)?, std::fs::read(folder.join(paceline_report::FIGURE))?);
    std::fs::remove_dir_all(&folder)?;
    for (option, path, content) in [("--out", out, page), ("--svg", args.svg.as_deref(), picture)] {
        let Some(path) = path else { continue };
        save(option, path, |out| out.write_all(&content))?;
        if !is_standard(path) {
            crate::print::out(&format!("{}\n", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
