//! `paceline evaluate`: RFC 9743's questions for a controller.

use std::path::PathBuf;
use std::process::ExitCode;

use paceline_conform::evaluate::{self, Answered, Effort};
use paceline_conform::said;
use paceline_files::is_standard;

use super::{check_file, check_folder, count, save};
use crate::exit::unless_failed;
use crate::progress::{Announce, Bar};

/// Ask RFC 9743's questions of a controller in the simulator: fairness, harm, convergence, queues, losses, many flows
/// (docs/guide/conformance.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Who: NAME or NAME@VIA, such as copa or copa:delta=0.1@udp.
    #[arg(value_name = "CONTESTANT")]
    contestant: String,
    /// One run of each setting, shorter, and up to 100 flows: for a first look.
    #[arg(long)]
    quick: bool,
    /// One question alone, such as harm.
    #[arg(long, value_name = "QUESTION")]
    only: Option<String>,
    /// Runs at once; 0 for one per core. Changes no figure.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<usize>, allow_negative_numbers = true)]
    threads: usize,
    /// One JSON object per question; - for standard output instead of the answers.
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
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let answered = Bar::during("{bar:40} {pos}/{len} runs, {elapsed}", Announce::OnTerminals, |bar| {
        evaluate::evaluate(&contestant, effort, args.only.as_deref(), args.threads, bar)
    })?;
    if let Some(path) = &args.json {
        save("--json", path, |out| out.write_all(json(&answered)?.as_bytes()))?;
    }
    if !args.json.as_deref().is_some_and(is_standard) {
        crate::print::out(&evaluate::text(&answered))?;
    }
    if let Some(folder) = &args.report {
        let about = format!(
            "Points are medians of {} runs with seeds of their own, most of {} s.",
            effort.runs, effort.seconds
        );
        let name = contestant.to_string();
        let page = evaluate::page(&name, &answered, &about, &super::command_line())?;
        let path = paceline_report::store(folder, evaluate::PAGE, &page)?;
        eprintln!("report: {}", path.display());
    }
    let failed = answered.iter().any(|one| !one.failures.is_empty());
    Ok(unless_failed(failed))
}

fn json(answered: &[Answered]) -> std::io::Result<String> {
    let mut text = String::new();
    for one in answered {
        text += &serde_json::to_string(one)?;
        text.push('\n');
    }
    Ok(text)
}
