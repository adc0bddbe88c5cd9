//! `paceline trace`: look at delivery traces, make them, turn them into tables and back.

use std::fmt::Write;
use std::fs::File;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Subcommand;
use paceline_cc::{Nanos, Rate};
use paceline_lab::input::{self, Bounded, Bounds};
use paceline_path::{
    Amount, Columns, Synth, Trace, TraceError, TraceInfo, from_columns, from_log, from_table, to_table,
};
use serde_json::{Value, json};

use super::{count, unreadable};
use crate::complaint;

#[cfg(target_os = "linux")]
mod record;

/// Look at delivery traces in Mahimahi's format, make them, convert them (docs/guide/paths.md).
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print what traces are like: lap, opportunities, rates, longest silence.
    Info(FilesArgs),
    /// Check traces; say nothing but what is wrong.
    Validate(FilesArgs),
    /// Make a cellular trace by the link model of Sprout.
    Synth(SynthArgs),
    /// Turn a table of rate steps (.csv) into a trace, or a trace into a table.
    Convert {
        /// What to read; a table if its name ends in .csv.
        input: PathBuf,
        /// What to write; a table if its name ends in .csv; - for a trace on standard output.
        output: PathBuf,
        /// Length of a step of a table to write.
        #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true)]
        bin: Nanos,
        /// Print what was written as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make a trace of what another tool wrote: a log of a link (Mahimahi's, Pantheon's), or a table in CSV.
    Import(ImportArgs),
    /// Record what a link between two machines delivers, in both directions, while it is kept backlogged.
    #[cfg(target_os = "linux")]
    Record(record::Args),
}

#[derive(clap::Args)]
pub(crate) struct FilesArgs {
    /// The traces.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One JSON object per trace.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct ImportArgs {
    /// What to read: a table if its name ends in .csv, a log if its lines are events, else a trace.
    input: PathBuf,
    /// The trace to write; - for standard output.
    output: PathBuf,
    /// Column of times in a table.
    #[arg(long, value_name = "COLUMN", default_value = "time")]
    time: String,
    /// Unit of these times: s, ms, us or ns.
    #[arg(long, value_name = "UNIT", default_value = "s", value_parser = ["s", "ms", "us", "ns"])]
    time_unit: String,
    /// Column of rates in a table; mbps where neither this nor --bytes is given.
    #[arg(long, value_name = "COLUMN", conflicts_with = "bytes")]
    rate: Option<String>,
    /// Unit of these rates: bit/s, kbit/s, Mbit/s, Gbit/s or B/s.
    #[arg(
        long, value_name = "UNIT", default_value = "Mbit/s",
        value_parser = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "B/s"]
    )]
    rate_unit: String,
    /// Column of bytes in a table, carried since the line before.
    #[arg(long, value_name = "COLUMN")]
    bytes: Option<String>,
    /// Print what was written as a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct SynthArgs {
    /// Mean rate over the lap.
    #[arg(long, value_name = "RATE", default_value = "12 Mbit/s", allow_hyphen_values = true)]
    mean: Rate,
    /// How far the rate wanders in a second: its standard deviation.
    #[arg(long, value_name = "RATE", default_value = "2.4 Mbit/s", allow_hyphen_values = true)]
    sigma: Rate,
    /// Mean length of an outage once the rate has come to zero; 0s for none.
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true)]
    outage: Nanos,
    /// Time constant of the pull of the rate to its mean.
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true)]
    relax: Nanos,
    /// Length of the lap.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = count::<u64>, allow_negative_numbers = true)]
    seconds: u64,
    /// Same seed, same trace.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count::<u64>, allow_negative_numbers = true)]
    seed: u64,
    /// Where to write it; - for standard output.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Print what was written as a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Info(args) => info(args)?,
        Command::Validate(args) => return super::each_checked(&args.files, args.json, |file| read(file).map(drop)),
        Command::Synth(args) => synth(args)?,
        Command::Import(args) => import(args)?,
        #[cfg(target_os = "linux")]
        Command::Record(args) => record::run(args)?,
        Command::Convert { input, output, bin, json } => convert(input, output, *bin, *json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn info(args: &FilesArgs) -> anyhow::Result<()> {
    let mut text = String::new();
    for file in &args.files {
        let info = TraceInfo::of(&read(file)?);
        if args.json {
            writeln!(text, "{}", as_json(file, &info))?;
            continue;
        }
        let info = info.to_string();
        if !text.is_empty() {
            text.push('\n');
        }
        writeln!(text, "{}", complaint::one_line(&file.display().to_string()))?;
        for line in info.lines() {
            writeln!(text, "  {line}")?;
        }
    }
    Ok(crate::print::out(&text)?)
}

/// A trace for programs: what [`TraceInfo`] says for people.
fn as_json(file: &Path, info: &TraceInfo) -> Value {
    let [p5, p50, p95] = info.second_rates.map(Rate::as_mbps);
    json!({
        "file": file.display().to_string(),
        "lap_s": info.lap.as_secs_f64(),
        "opportunities": info.count,
        "mean_mbps": info.mean.as_mbps(),
        "second_mbps": { "p5": p5, "p50": p50, "p95": p95 },
        "longest_silence_ms": info.longest_silence.as_millis_f64(),
    })
}

/// What was written, where that is asked for.
fn written(json: bool, file: &Path, trace: &Trace) -> anyhow::Result<()> {
    if json {
        crate::print::out(&format!("{}\n", as_json(file, &TraceInfo::of(trace))))?;
    }
    Ok(())
}

fn synth(args: &SynthArgs) -> anyhow::Result<()> {
    super::alone(args.json, &args.output)?;
    let synth = Synth {
        mean: args.mean,
        sigma: args.sigma,
        outage: args.outage,
        relax: args.relax,
        length: Nanos::from_secs(args.seconds),
        seed: args.seed,
    };
    let name = args.output.display().to_string();
    let trace = synth.trace(&name).map_err(|error| anyhow!("--{error}"))?;
    paceline_files::write(&args.output, |draft| trace.write(draft))?;
    written(args.json, &args.output, &trace)
}

fn convert(input: &Path, output: &Path, bin: Nanos, json: bool) -> anyhow::Result<()> {
    super::alone(json, output)?;
    if bin < Nanos::from_millis(1) {
        return Err(anyhow!("--bin: a step is too short; give at least 1ms"));
    }
    let trace = if is_table(input) { from_table(&input.display().to_string(), open(input)?)? } else { read(input)? };
    paceline_files::write(
        output,
        |draft| if is_table(output) { to_table(&trace, bin, draft) } else { trace.write(draft) },
    )?;
    written(json, output, &trace)
}

fn import(args: &ImportArgs) -> anyhow::Result<()> {
    super::alone(args.json, &args.output)?;
    let name = args.input.display().to_string();
    let trace = if is_table(&args.input) {
        from_columns(&name, open(&args.input)?, &columns(args))?
    } else if is_log(&args.input)? {
        from_log(&name, open(&args.input)?)?
    } else {
        read(&args.input)?
    };
    paceline_files::write(&args.output, |draft| trace.write(draft))?;
    written(args.json, &args.output, &trace)
}

fn columns(args: &ImportArgs) -> Columns {
    let unit = match args.time_unit.as_str() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        _ => 1.0,
    };
    let bits = match args.rate_unit.as_str() {
        "bit/s" => 1.0,
        "kbit/s" => 1e3,
        "Gbit/s" => 1e9,
        "B/s" => 8.0,
        _ => 1e6,
    };
    let (amount, holds) = match (&args.bytes, &args.rate) {
        (Some(bytes), _) => (bytes.clone(), Amount::Bytes),
        (None, rate) => (rate.clone().unwrap_or_else(|| "mbps".to_owned()), Amount::Rate(bits)),
    };
    Columns { time: args.time.clone(), unit, amount, holds }
}

/// Whether the first line that is not about the file is an event: more than one word.
fn is_log(path: &Path) -> anyhow::Result<bool> {
    for line in open(path)?.split(b'\n') {
        let line = line.map_err(|error| unreadable(path, &error))?;
        let line = String::from_utf8_lossy(&line);
        match line.trim() {
            "" => {}
            text if text.starts_with('#') => {}
            text => return Ok(text.split_whitespace().count() > 1),
        }
    }
    Ok(true)
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
}

fn open(path: &Path) -> anyhow::Result<Bounded<File>> {
    input::open(path, Bounds::TRACE).map_err(|error| unreadable(path, &error))
}

fn read(path: &Path) -> anyhow::Result<Trace> {
    match Trace::read(&path.display().to_string(), open(path)?) {
        // A folder opens, and fails when it is read.
        Err(TraceError::Read { source, .. }) => Err(unreadable(path, &source)),
        other => Ok(other?),
    }
}
