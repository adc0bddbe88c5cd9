//! `paceline conform`: whether controllers do what their specifications say.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use paceline_conform::capture::{self, FourTuple};
use paceline_conform::page;
use paceline_conform::qlog::{self, Choice};
use paceline_conform::script::{self, ScriptRun};
use paceline_conform::suite::{Score, judge};
use paceline_conform::trajectory::Trajectory;
use paceline_conform::{rules, said, watch};
use paceline_files::is_standard;
use paceline_lab::contestant::Contestant;
use paceline_lab::input::{self, Bounded, Bounds};
use paceline_lab::programs::ProgramSettings;
use paceline_lab::run::World;
use paceline_lab::scenario::read_programs;

use super::{check_file, check_folder, count, save};
use crate::exit::unless_failed;
use crate::progress::{Announce, Bar};

/// Judge what controllers do by the rules of their specifications: RFCs, papers, Linux (docs/guide/conformance.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Who is judged: NAME, NAME@VIA or NAME@program; all that have rules where nothing is named. With --script who takes the place of its controller.
    #[arg(value_name = "CONTESTANT")]
    contestants: Vec<String>,
    /// The controller whose rules are judged: reno, cubic, bbr, copa, dctcp or prague; without it the contestant's own.
    #[arg(long = "as", value_name = "NAME")]
    rules_of: Option<String>,
    /// In real time behind an emulated path: by every event of a controller of ours, of the kernel's own TCP by samples of TCP_INFO.
    /// Needs root or user namespaces.
    #[arg(long)]
    pub(crate) real: bool,
    /// With --real: the tables [programs.NAME] of contestants NAME@program, judged by the qlog that the sender leaves, or by its packets.
    #[arg(long, value_name = "FILE", requires = "real")]
    programs: Option<PathBuf>,
    /// Run the commands of these programs; each is printed before. Read them first.
    #[arg(long, requires = "programs")]
    run_programs: bool,
    /// Keep what programs write, and the captures, in this folder.
    #[arg(long, value_name = "DIR", requires = "run_programs")]
    keep: Option<PathBuf>,
    /// A qlog (today's schemas, version 0.3 or 0.4, draft-00 to draft-02) of another sender; needs --as. May be given again.
    #[arg(long, value_name = "FILE", requires = "rules_of")]
    qlog: Vec<PathBuf>,
    /// An event log of a flow, such as race --events writes; needs --as. May be given again.
    #[arg(long, value_name = "FILE", requires = "rules_of")]
    events: Vec<PathBuf>,
    /// A capture (pcap, pcapng) made at the sender of a TCP flow; needs --as. May be given again.
    #[arg(long, value_name = "FILE", requires = "rules_of")]
    pcap: Vec<PathBuf>,
    /// Which flow: of the captures SENDER:PORT-RECEIVER:PORT, without it the largest; of qlogs a group_id.
    #[arg(long, value_name = "FLOW", requires = "rules_of")]
    flow: Option<String>,
    /// Which trace of the qlogs, from 1, where several have a window.
    #[arg(long, value_name = "N", requires = "qlog", value_parser = count::<usize>, allow_negative_numbers = true)]
    trace: Option<usize>,
    /// A script of events and of what has to be answered to them, or a folder of *.script. May be given again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rules_of", "real", "list", "threads", "report"])]
    script: Vec<PathBuf>,
    /// Print every rule with its source, and stop.
    #[arg(long)]
    list: bool,
    /// Runs at once; 0 for one per core. Changes no figure of the simulator. With --real 0 is one.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<usize>, allow_negative_numbers = true)]
    threads: usize,
    /// One JSON object per rule; - for standard output instead of the table or the list.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The scored page with the pictures, one file that opens offline, into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.list {
        say(args, &said::rules_json_lines(), &said::rules())?;
        return Ok(ExitCode::SUCCESS);
    }
    check_file("--json", args.json.as_ref())?;
    if !args.script.is_empty() {
        let instead = args.contestants.iter().map(|text| input::controller(text)).collect::<Result<Vec<_>, _>>()?;
        let runs = script::run_files(&args.script, &instead)?;
        say(args, &script::json_lines(&runs), &script::table(&runs))?;
        return Ok(unless_failed(!runs.iter().all(ScriptRun::holds)));
    }
    check_folder("--report", args.report.as_ref())?;
    let known = rules::controllers();
    if let Some(name) = args.rules_of.as_deref().filter(|name| !known.contains(name)) {
        bail!("--as: there are no rules for '{name}'; name one of {}", known.join(", "));
    }
    let files = files(args)?;
    let contestants = contestants(args, &known, !files.is_empty())?;
    let world = if args.real { World::Real } else { World::Sim };
    let programs = ProgramSettings { run: args.run_programs, keep: args.keep.clone(), skip_missing: false };
    let mut scores = Bar::during("{msg}  {bar:40} {pos}/{len} runs, {elapsed}", Announce::OnTerminals, |bar| {
        judge(&contestants, world, args.threads, &programs, bar)
    })?;
    scores.extend(files);
    say(args, &said::json_lines(&scores), &said::table(&scores))?;
    if let Some(folder) = &args.report {
        let path = paceline_report::store(folder, page::PAGE, &page::page(&scores, &super::command_line())?)?;
        eprintln!("report: {}", path.display());
    }
    let departs = scores.iter().any(|score| !score.departures().is_empty());
    Ok(unless_failed(departs))
}

/// What was found, for programs where it is asked for, and for people unless that is on standard output.
fn say(args: &Args, json: &str, table: &str) -> anyhow::Result<()> {
    if let Some(path) = &args.json {
        save("--json", path, |out| out.write_all(json.as_bytes()))?;
    }
    if !args.json.as_deref().is_some_and(is_standard) {
        crate::print::out(table)?;
    }
    Ok(())
}

/// Who runs, each with the controller whose rules are judged.
fn contestants(args: &Args, known: &[&str], have_files: bool) -> anyhow::Result<Vec<(Contestant, String)>> {
    let all = if args.real { &known[..known.len().min(3)] } else { known };
    let names: Vec<String> = match args.contestants.as_slice() {
        [] if have_files => Vec::new(),
        [] => args
            .rules_of
            .as_ref()
            .map_or_else(|| all.iter().map(|name| (*name).to_owned()).collect(), |name| vec![name.clone()]),
        named => named.to_vec(),
    };
    let programs = args.programs.as_ref().map(|path| read_programs("--programs", path)).transpose()?;
    let mut found = Vec::new();
    for name in names {
        let contestant = said::contestant(&name)?;
        if contestant.is_program() && programs.is_none() {
            bail!("'{name}': which commands it is says a file; give --programs, such as scenarios/programs.toml");
        }
        let contestant = contestant.bound(programs.as_ref().unwrap_or(&BTreeMap::new()))?;
        let own = said::own_rules(&contestant);
        let Some(rules_of) = args.rules_of.clone().or_else(|| Some(own.clone()).filter(|own| known.contains(&&**own)))
        else {
            bail!("'{name}': there are no rules for '{own}'; give --as with one of {}", known.join(", "));
        };
        found.push((contestant, rules_of));
    }
    Ok(found)
}

/// Bounds of what others wrote: each reader has its own below.
const LOGS: Bounds = Bounds { file: 4 << 30, line: 4 << 30 };

/// Makes a curve of a file with this name.
type FileReader<'a> = &'a dyn Fn(&str, Bounded<File>) -> anyhow::Result<Trajectory>;

fn files(args: &Args) -> anyhow::Result<Vec<Score>> {
    let Some(rules_of) = &args.rules_of else { return Ok(Vec::new()) };
    if args.flow.is_some() && args.pcap.is_empty() && args.qlog.is_empty() {
        bail!("--flow: it chooses in captures and qlogs; give --pcap or --qlog");
    }
    let tuple = args.flow.as_deref().filter(|_| !args.pcap.is_empty()).map(str::parse::<FourTuple>).transpose();
    let tuple = tuple.map_err(|problem| anyhow!("--flow: {problem}"))?;
    let choice = Choice { trace: args.trace, flow: args.flow.as_deref(), or_most: false };
    let kinds: [(&str, &[PathBuf], FileReader<'_>); 3] = [
        ("--qlog", &args.qlog, &|name, from| Ok(qlog::read_one(name, from, choice)?)),
        ("--events", &args.events, &|name, from| Ok(watch::read(name, from)?)),
        ("--pcap", &args.pcap, &|name, from| Ok(capture::read(name, from, tuple)?)),
    ];
    let score = |(option, path, read): (&str, &PathBuf, FileReader<'_>)| {
        let name = path.display().to_string();
        let from = input::open(path, LOGS)
            .map_err(|error| anyhow!("{option} {name}: cannot be read ({error}); name a file"))?;
        Ok(Score::of_one(rules_of, read(&name, from)?))
    };
    let files = kinds.into_iter().flat_map(|(option, paths, read)| paths.iter().map(move |path| (option, path, read)));
    files.map(score).collect()
}
