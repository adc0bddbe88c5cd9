//! `paceline evaluate`: a controller by the clauses of RFC 9743.

use std::path::PathBuf;
use std::process::ExitCode;

use paceline_conform::evaluate::{self, Effort};
use paceline_conform::said;
use paceline_files::is_standard;

use super::{check_file, check_folder, count, save};
use crate::exit::unless_failed;
use crate::progress::{Announce, Bar};

/// Hold a controller against RFC 9743, clause by clause, in the simulator: fairness, harm, queues, losses, paths that change
/// (docs/guide/conformance.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Who: NAME or NAME@VIA, such as copa or copa:delta=0.1@udp.
    #[arg(value_name = "CONTESTANT")]
    contestant: String,
    /// One run of each setting, shorter, and up to 100 flows: for a first look.
    #[arg(long)]
    quick: bool,
    /// These questions alone, by name or by section of the RFC: harm,7.9.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Print the form of what the RFC wants in words, and what is said already.
    #[arg(long, conflicts_with_all = ["quick", "only", "json", "report"])]
    statements: bool,
    /// Runs at once; 0 for one per core. Changes no figure.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<usize>, allow_negative_numbers = true)]
    threads: usize,
    /// A JSON object for each clause and each question; - for standard output instead of the answers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The page with the figures, one file that opens offline, into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let contestant = said::contestant(&args.contestant)?;
    check_file("--json", args.json.as_ref())?;
    check_folder("--report", args.report.as_ref())?;
    if args.statements {
        let entry = contestant.controller.entry();
        crate::print::out(&evaluate::form(entry.name, &entry.statements))?;
        return Ok(ExitCode::SUCCESS);
    }
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let found = Bar::during("{bar:40} {pos}/{len} runs, {elapsed}", Announce::OnTerminals, |bar| {
        evaluate::evaluate(&contestant, effort, &args.only, args.threads, bar)
    })?;
    if let Some(path) = &args.json {
        save("--json", path, |out| evaluate::json(&found).iter().try_for_each(|line| writeln!(out, "{line}")))?;
    }
    if !args.json.as_deref().is_some_and(is_standard) {
        crate::print::out(&evaluate::text(&found))?;
    }
    if let Some(folder) = &args.report {
        let page = evaluate::page(&found, &super::command_line())?;
        let path = paceline_report::store(folder, evaluate::PAGE, &page)?;
        eprintln!("report: {}", path.display());
    }
    let failed = found.answers.iter().any(|one| !one.failures.is_empty());
    Ok(unless_failed(failed))
}
