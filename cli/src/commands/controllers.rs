//! `paceline controllers`: what can race, with parameters, units, defaults and sources; the start-ups and the datapaths.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use paceline_cc::Ability;
use paceline_cc::datapath::{DATAPATHS, Datapath, WAYS};
use paceline_cc::entry::{Entry, Param, StartUpEntry};
use paceline_cc::names::nearest;
use paceline_cc::registry::{controllers, find};
use paceline_cc::start_ups::START_UPS;
use paceline_conform::profile;
use paceline_lab::listing::{self, carried, composes_with, vias, vias_of_start_up};
use serde_json::Value;

use super::count;
use crate::exit::unless_failed;
use crate::progress::{Announce, Bar};

/// List the controllers, or one of them with its parameters, units, defaults and sources; or the start-ups, or the datapaths.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this controller or start-up.
    #[arg(conflicts_with_all = ["start_ups", "datapaths"])]
    name: Option<String>,
    /// The start-ups of window controllers, as start=NAME takes them.
    #[arg(long, conflicts_with = "datapaths")]
    start_ups: bool,
    /// The datapaths: what each offers, and which controllers it carries.
    #[arg(long)]
    datapaths: bool,
    /// Every controller with all that is known of it.
    #[arg(long, conflicts_with_all = ["name", "start_ups", "datapaths"])]
    all: bool,
    /// As JSON, one object per line.
    #[arg(long)]
    json: bool,
    /// Pages in Markdown instead, into this folder: each controller on six standard paths, run in the simulator now.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["start_ups", "datapaths", "json", "all"])]
    pages: Option<PathBuf>,
    /// Runs for --pages at once; 0 for one per core. Changes no figure.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<usize>, allow_negative_numbers = true)]
    threads: usize,
}

/// One paragraph of text, or one line of JSON.
enum Item {
    Controller(&'static Entry),
    StartUp(&'static StartUpEntry),
    Datapath(&'static Datapath),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.pages {
        return write_pages(args, folder);
    }
    let items: Vec<Item> = match &args.name {
        Some(name) => vec![named(name)?],
        None if args.start_ups => START_UPS.iter().map(Item::StartUp).collect(),
        None if args.datapaths => DATAPATHS.iter().chain(WAYS).map(Item::Datapath).collect(),
        None => controllers().into_iter().map(Item::Controller).collect(),
    };
    let mut text = String::new();
    let brief = !(args.json || args.all || args.start_ups || args.datapaths) && args.name.is_none();
    if brief {
        let width = controllers().iter().map(|entry| entry.name.len()).max().unwrap_or(0);
        controllers().iter().try_for_each(|entry| writeln!(text, "{:width$}  {}", entry.name, entry.summary))?;
        text.push_str("\nParameters, their units, defaults and sources: paceline controllers NAME, or --all\n");
        crate::print::out(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (index, item) in items.into_iter().enumerate() {
        if args.json {
            writeln!(text, "{}", as_json(&item))?;
        } else {
            if index > 0 {
                text.push('\n');
            }
            describe(&mut text, &item)?;
        }
    }
    crate::print::out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A page for each controller, or for the one that is named, and one that compares them.
fn write_pages(args: &Args, folder: &Path) -> anyhow::Result<ExitCode> {
    let entries = match &args.name {
        None => controllers(),
        Some(name) => vec![find(name).ok_or_else(|| {
            anyhow!("unknown controller '{name}'; {}", nearest(name, controllers().iter().map(|entry| entry.name)))
        })?],
    };
    let profiles = Bar::during("{bar:40} {pos}/{len} runs, {elapsed}", Announce::OnTerminals, |bar| {
        profile::profiles(&entries, args.threads, bar)
    })?;
    for (name, text) in profile::pages(&profiles) {
        paceline_report::store(folder, &name, &text)?;
    }
    eprintln!("pages: {}", folder.join(profile::INDEX).display());
    let failed = profiles.iter().flat_map(|profile| &profile.seen).any(Result::is_err);
    Ok(unless_failed(failed))
}

fn named(name: &str) -> anyhow::Result<Item> {
    let start_up = || START_UPS.iter().find(|entry| entry.name == name).map(Item::StartUp);
    find(name).map(Item::Controller).or_else(start_up).ok_or_else(|| {
        let all = controllers();
        let names = all.iter().map(|entry| entry.name).chain(START_UPS.iter().map(|entry| entry.name));
        match name.split_once('@') {
            Some((controller, _)) => anyhow!("'{name}' is a contestant; give its controller alone: {controller}"),
            None => anyhow!("unknown controller '{name}'; {}", nearest(name, names)),
        }
    })
}

fn describe(text: &mut String, item: &Item) -> std::fmt::Result {
    match item {
        Item::Controller(entry) => {
            writeln!(text, "{}  {}", entry.name, entry.summary)?;
            writeln!(text, "  source: {}", entry.source)?;
            needs(text, entry.needs())?;
            writeln!(text, "  runs over: {}", vias(entry).join(", "))?;
            parameters(text, entry.params())
        }
        Item::StartUp(entry) => {
            writeln!(text, "{}  {}", entry.name, entry.summary)?;
            writeln!(text, "  source: {}", entry.source)?;
            writeln!(text, "  start-up of: {}", composes_with(entry).join(", "))?;
            needs(text, entry.needs.iter().copied())?;
            writeln!(text, "  runs over: {}", vias_of_start_up(entry).join(", "))?;
            parameters(text, entry.params.iter())
        }
        Item::Datapath(datapath) => {
            writeln!(text, "{}  {}", datapath.name, datapath.summary)?;
            writeln!(text, "  lives in: {}", datapath.lives.replace('`', ""))?;
            let offers: Vec<&str> = datapath.offers.iter().map(|offer| offer.name()).collect();
            let offers = if offers.is_empty() { "nothing that not all have".to_owned() } else { offers.join(", ") };
            writeln!(text, "  offers: {offers}")?;
            writeln!(text, "  carries: {}", carried(datapath).join(", "))?;
            for lack in datapath.lacks {
                writeln!(text, "  no {}: {}", lack.ability, lack.why)?;
            }
            Ok(())
        }
    }
}

fn needs(text: &mut String, needs: impl Iterator<Item = Ability>) -> std::fmt::Result {
    let needs: Vec<&str> = needs.map(Ability::name).collect();
    if needs.is_empty() { Ok(()) } else { writeln!(text, "  needs: {}", needs.join(", ")) }
}

fn parameters(text: &mut String, params: impl Iterator<Item = &'static Param> + Clone) -> std::fmt::Result {
    let values: Vec<String> = params.clone().map(|param| format!("{}={}", param.name, param.default)).collect();
    let value_width = values.iter().map(String::len).max().unwrap_or(0);
    let unit_width = params.clone().map(|param| param.unit.len()).max().unwrap_or(0);
    for (param, value) in params.zip(&values) {
        writeln!(text, "  {value:value_width$}  {:unit_width$}  {}; {}", param.unit, param.kind, param.source)?;
    }
    Ok(())
}

fn as_json(item: &Item) -> Value {
    match item {
        Item::Controller(entry) => listing::controller(entry),
        Item::StartUp(entry) => listing::start_up(entry),
        Item::Datapath(datapath) => listing::datapath(datapath),
    }
}
