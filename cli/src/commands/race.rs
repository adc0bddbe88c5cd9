//! `paceline race`: every contestant of a scenario, one row each.

mod watch;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use paceline_cc::datapath::DATAPATHS;
use paceline_files::{Draft, is_standard};
use paceline_lab::programs::ProgramSettings;
use paceline_lab::qlog::{QlogForm, Style, Variables};
use paceline_lab::race::{Race, Settings, race_watched};
use paceline_lab::record::{Record, write_csv, write_digests, write_json};
#[cfg(target_os = "linux")]
use paceline_lab::remote::{RemoteSettings, race_remote};
use paceline_lab::run::World;
use paceline_lab::scenario::{Options, Plan, Source};
use paceline_lab::series::{self, Format};
use paceline_lab::table::{WIDTH, reading, table, timekeeping};
#[cfg(target_os = "linux")]
use paceline_testbed::remote::RaceClient;
use terminal_size::{Width, terminal_size_of};

use self::watch::Watch;

use super::{count, save, span};
use crate::complaint;
use crate::exit::Exit;
use crate::progress::{Announce, Bar};
use crate::terminal;

/// Run every contestant of a scenario and print one row each.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario file (docs/guide/scenarios.md).
    #[arg(required_unless_present = "remote")]
    scenario: Option<PathBuf>,
    #[arg(long, value_name = "LIST", help = contestants_help())]
    contestants: Option<String>,
    /// Delivery trace (Mahimahi's format) of the link towards the user, instead of the scenario's link.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Delivery trace of the link towards the network, instead of the scenario's link.
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,
    /// Real sockets and the kernel's own TCP behind an emulated path, in real time, one run after the other
    /// (docs/guide/real-races.md). Needs root or user namespaces.
    #[arg(long)]
    pub(crate) real: bool,
    /// In place of a scenario, since the path is the real one: against the host where 'paceline serve --race' runs (docs/guide/remote.md).
    #[arg(long, value_name = "HOST", requires = "contestants", conflicts_with_all = [
        "scenario", "trace", "up", "real", "set", "digests", "series", "qlog", "events", "effective", "threads", "measure",
    ])]
    remote: Option<String>,
    /// With --remote: the key that both ends share, as of paceline serve; only loopback works without.
    #[arg(long, value_name = "FILE", requires = "remote")]
    key: Option<PathBuf>,
    /// With --remote: down, from the other host to this one, or up.
    #[arg(long, value_name = "WAY", default_value = "down", value_parser = ["down", "up"], requires = "remote")]
    direction: String,
    /// With --remote: seconds between two runs.
    #[arg(long, value_name = "S", default_value = "1", value_parser = span, allow_negative_numbers = true, requires = "remote")]
    pause: f64,
    /// With --remote: largest packet on the path, IP header included.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = count::<u16>, requires = "remote")]
    mtu: u16,
    /// Seed of everything random.
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Simulated seconds of a run; with --remote real ones, 10 without this.
    #[arg(long, value_name = "S", value_parser = span, allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Runs of each contestant, each with another seed; 10 unless this or the scenario says otherwise, with --real and --remote 1.
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    runs: Option<u32>,
    /// A value for a key of the scenario, such as down.delay=25ms or flows.0.count=3; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Runs at once; 0 for one per core. Changes no figure of the simulator. With --real 0 is one: runs share the host.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<usize>, allow_negative_numbers = true)]
    threads: usize,
    /// Records as JSON Lines; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Records as CSV; - for standard output.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// A digest of each record, the same wherever its scenario and seed are; - for standard output.
    #[arg(long, value_name = "FILE")]
    digests: Option<PathBuf>,
    /// Records as a Parquet file; in builds with the feature parquet.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Time series of each flow of the first run of each contestant, into FILE.csv, .jsonl or .parquet; - for CSV on standard output.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// With --series: of every run.
    #[arg(long, requires = "series")]
    series_all: bool,
    /// A qlog of each flow of the first run of each contestant, into this folder.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// With --qlog: today, or 0.3 for qvis.
    #[arg(long, value_name = "FORM", default_value = "today", requires = "qlog")]
    qlog_form: QlogForm,
    /// With --qlog: the controller's variables at most each millisecond (some), or after every event (all).
    #[arg(long, value_name = "WHICH", default_value = "some", requires = "qlog")]
    qlog_variables: Variables,
    /// A log of everything that each controller of these flows was informed of and answered, for replay, into this folder.
    #[arg(long, value_name = "DIR")]
    events: Option<PathBuf>,
    /// With --events: the controllers' own variables as well, which replay compares.
    #[arg(long, requires = "events")]
    events_variables: bool,
    /// With --real: the first 128 bytes of every packet on every link in the first run of each contestant, as pcapng, into this folder.
    #[arg(long, value_name = "DIR", requires = "real")]
    pcap: Option<PathBuf>,
    /// The report, one page that opens offline, into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// With --real: run the commands of the scenario's programs (NAME@program); each is printed before. Read them first.
    #[arg(long, requires = "real")]
    run_programs: bool,
    /// With --run-programs: keep what programs write in this folder; without it, of runs that fail alone.
    #[arg(long, value_name = "DIR", requires = "run_programs")]
    keep: Option<PathBuf>,
    /// With --run-programs: leave out contestants whose program is not installed.
    #[arg(long, requires = "run_programs")]
    skip_missing: bool,
    /// With --real: a line at this interval in seconds (throughput, queueing delay, losses), in a pipe as well.
    #[arg(short, long, value_name = "S", value_parser = span, allow_negative_numbers = true, requires = "real")]
    interval: Option<f64>,
    /// Add to each record what the run cost: cpu_s, wall_s, peak_mb.
    #[arg(long)]
    measure: bool,
    /// Print the scenario as it would run, with every default, and stop.
    #[arg(long)]
    effective: bool,
}

fn contestants_help() -> String {
    let vias: Vec<&str> = DATAPATHS.iter().map(|datapath| datapath.name).collect();
    format!(
        "Who races instead: CONTROLLER@VIA,... with VIA {}, or alcc/LOWER; such as copa:delta=0.1@udp,cubic@tcp; or NAME@program",
        vias.join(", ")
    )
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let series = args.series.as_deref().map(series_format).transpose()?;
    let wants_parquet = args.parquet.is_some().then_some("--parquet");
    let wants_parquet = wants_parquet.or((series == Some(Format::Parquet)).then_some("--series"));
    if let Some(option) = wants_parquet.filter(|_| !cfg!(feature = "parquet")) {
        bail!(
            "{option}: this paceline was built without Parquet; build it with 'cargo build --release -p paceline-cli \
             --features parquet', or give a CSV file"
        );
    }
    if args.parquet.as_deref().is_some_and(is_standard) {
        bail!("--parquet: - is for text, and Parquet is not text; name a file");
    }
    if let Some(every) = args.interval.filter(|every| !(*every >= 0.01 && *every < 1e6)) {
        bail!("--interval {every}: give seconds from 0.01 on, such as 1");
    }
    let outputs = outputs(args)?;
    let options = Options {
        contestants: args.contestants.clone(),
        trace: args.trace.clone(),
        up: args.up.clone(),
        seed: args.seed,
        seconds: args.seconds,
        runs: args.runs,
        real: args.real,
        set: args.set.clone(),
    };
    let source = args.scenario.as_ref().map(|file| Source::read(file, options)).transpose()?;
    if let Some(source) = source.as_ref().filter(|_| args.effective) {
        let plans = source.plans()?;
        let text = plans.first().map(Plan::to_toml).unwrap_or_default();
        // A trace's name may hold what a terminal obeys.
        let lines: Vec<String> = text.lines().map(complaint::one_line).collect();
        crate::print::out(&(lines.join("\n") + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    for path in &outputs {
        Draft::check(path)?;
    }
    for folder in [&args.report, &args.qlog, &args.events, &args.pcap].into_iter().flatten() {
        paceline_files::check_folder(folder)?;
    }
    let settings = Settings {
        world: if args.real { World::Real } else { World::Sim },
        threads: args.threads,
        series: args.report.is_some() || args.series.is_some(),
        series_of_all: args.series_all,
        measure: args.measure,
        qlog: args.qlog.clone(),
        qlog_style: Style { form: args.qlog_form, variables: args.qlog_variables },
        events: args.events.clone(),
        events_variables: args.events_variables,
        pcap: args.pcap.clone(),
        programs: ProgramSettings { run: args.run_programs, keep: args.keep.clone(), skip_missing: args.skip_missing },
        live: args.real.then(Arc::default),
    };
    let bar = Bar::new("{bar:40} {pos}/{len} runs, {eta} left {msg}", Announce::OnTerminals);
    let watch = settings.live.as_ref().map(|live| {
        let every = args.interval.unwrap_or(1.0);
        // Where records go to standard output, lines do not.
        let lines = args.interval.map(|_| outputs.iter().any(|path| is_standard(path)));
        Watch::begin(Arc::clone(live), Duration::from_secs_f64(every), bar.clone(), lines)
    });
    let race = match &source {
        Some(source) => race_watched(source, &settings, &bar).map_err(anyhow::Error::from),
        None => remote(args, &bar),
    };
    drop(watch);
    bar.finish();
    let race = race?;
    for note in &race.notes {
        complaint::print(note);
    }
    let records: Vec<&Record> = race.runs.iter().map(|run| &run.record).collect();
    if let Some(path) = &args.json {
        save("--json", path, |out| write_json(records.iter().copied(), out))?;
    }
    if let Some(path) = &args.csv {
        save("--csv", path, |out| write_csv(records.iter().copied(), out))?;
    }
    if let Some(path) = &args.digests {
        save("--digests", path, |out| write_digests(records.iter().copied(), out))?;
    }
    #[cfg(feature = "parquet")]
    if let Some(path) = &args.parquet {
        paceline_files::write(path, |draft| paceline_lab::record::write_parquet(records.iter().copied(), draft))?;
    }
    match (&args.series, series) {
        (Some(path), Some(format)) if format != Format::Parquet => {
            save("--series", path, |out| series::write(&race.runs, format, out))?;
        }
        #[cfg(feature = "parquet")]
        (Some(path), _) => paceline_files::write(path, |draft| series::write_parquet(&race.runs, draft))?,
        _ => {}
    }
    if let Some(folder) = &args.report
        && !race.runs.is_empty()
    {
        paceline_report::write(shown(&race, &super::command_line()), folder)?;
    }
    show(&race, outputs.iter().any(|path| is_standard(path)))?;
    for failure in &race.failures {
        let text = format!("{} failed in run {}: {}", failure.name, failure.number, failure.cause);
        text.lines().for_each(complaint::print);
    }
    Ok(if !race.failures.is_empty() {
        Exit::Failed.into()
    } else if records.iter().any(|record| record.trusted == Some(false)) {
        Exit::Untrusted.into()
    } else {
        ExitCode::SUCCESS
    })
}

/// A race between two hosts.
#[cfg(target_os = "linux")]
fn remote(args: &Args, bar: &Bar) -> anyhow::Result<Race> {
    let peer = super::udp::address(args.remote.as_deref().unwrap_or_default())?;
    let key = args.key.as_deref().map(super::udp::key).transpose()?;
    let (contestants, up, pause) = (args.contestants.clone().unwrap_or_default(), args.direction == "up", args.pause);
    let (seconds, runs, seed) = (args.seconds.unwrap_or(10.0), args.runs.unwrap_or(1), args.seed.unwrap_or(1));
    let settings = RemoteSettings { contestants, seconds, runs, seed, up, pause };
    Ok(race_remote(RaceClient::new(peer, key, args.mtu), &settings, bar)?)
}

#[cfg(not(target_os = "linux"))]
fn remote(_: &Args, _: &Bar) -> anyhow::Result<Race> {
    bail!("--remote: a race between two hosts needs Linux at both")
}

fn series_format(path: &Path) -> anyhow::Result<Format> {
    let format = Format::of(path);
    format.ok_or_else(|| anyhow!("--series {}: its name has to end in .csv, .jsonl or .parquet", path.display()))
}

/// What a report shows of a race.
fn shown<'a>(race: &'a Race, command: &'a str) -> paceline_report::Raced<'a> {
    let Race { scenario: written, effective, runs, .. } = race;
    paceline_report::Raced { title: &race.title, written, effective, command, runs }
}

/// Where records go, each place once.
fn outputs(args: &Args) -> anyhow::Result<Vec<&Path>> {
    let mut outputs: Vec<(&str, &Path)> = Vec::new();
    for (option, path) in [
        ("--json", &args.json),
        ("--csv", &args.csv),
        ("--digests", &args.digests),
        ("--parquet", &args.parquet),
        ("--series", &args.series),
    ] {
        let Some(path) = path else { continue };
        if let Some((other, _)) = outputs.iter().find(|(_, taken)| taken == path) {
            bail!("{option}: {} is the place of {other} too; name another", path.display());
        }
        outputs.push((option, path));
    }
    Ok(outputs.into_iter().map(|(_, path)| path).collect())
}

/// The table: on standard output, unless records go there; then on standard error if someone watches it.
fn show(race: &Race, taken: bool) -> anyhow::Result<()> {
    let (out, error) = (std::io::stdout(), std::io::stderr());
    let (watched, color, size) = if taken {
        (error.is_terminal(), terminal::colors(&error), terminal_size_of(&error))
    } else {
        (out.is_terminal(), terminal::colors(&out), terminal_size_of(&out))
    };
    // A terminal may not know its size.
    let width = size.map(|(Width(columns), _)| usize::from(columns));
    let table = table(&race.summaries, width.unwrap_or(WIDTH), color);
    let records = || race.runs.iter().map(|run| &run.record);
    let sentences = |text: String| width.map_or(text.clone(), |width| textwrap::fill(&text, width));
    let title = sentences(format!("{} (seed {})", complaint::one_line(&race.title), race.seed));
    let text = format!("{title}\n\n{table}\n{}", sentences(reading(records()) + &timekeeping(records())));
    if !taken {
        crate::print::out(&text)?;
    } else if watched {
        // When standard error is closed there is nowhere to report to.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Ok(())
}
