//! `paceline sweep`: a scenario over a grid of values.

use std::path::PathBuf;
use std::process::ExitCode;

use super::count;

/// Run a scenario over a grid of values, and print the medians of every cell.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file of the sweep (docs/guide/sweeps.md).
    file: PathBuf,
    /// The folder of results; the file's name without .toml and with -results unless this is given. What it holds is not run again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs at once; 0 for one per core. Changes no byte of the results.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::<usize>, allow_negative_numbers = true)]
    threads: usize,
    /// Run again what failed.
    #[arg(long)]
    retry: bool,
    /// Run the I-th of N parts, such as 3/10, beside the others in the same folder: a job of an array. Without it the same command
    /// puts together what all parts left, and runs what is missing.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["report", "json"])]
    part: Option<String>,
    /// Print the medians as JSON, an object a line, instead of the table.
    #[arg(long)]
    json: bool,
    /// Write a page into this folder: heat maps over two keys of the grid, curves over one, every median, what failed.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

#[cfg(not(feature = "parquet"))]
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { file, out, threads, retry, part, json, report } = args;
    let _ = (file, out, threads, retry, part, json, report);
    anyhow::bail!(
        "sweep: this paceline was built without Parquet; build it with 'cargo build --release -p paceline-cli --features \
         parquet'"
    )
}

#[cfg(feature = "parquet")]
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    use std::io::{IsTerminal, Write};

    use paceline_lab::sweep::{self, Folder, Part, Sweep};

    use crate::complaint;
    use crate::exit::unless_failed;
    use crate::progress::{Announce, Bar};

    /// Most rows of the table, and most failures that are named (our choice: what one looks through).
    const ROWS: usize = 200;
    const FAILURES: usize = 20;

    let part = match &args.part {
        Some(text) => Some(text.parse::<Part>().map_err(|problem| anyhow::anyhow!("--part: {problem}"))?),
        None => None,
    };
    let sweep = Sweep::read(&args.file)?;
    if let Some(folder) = &args.report {
        paceline_files::check_folder(folder)?;
    }
    let path = args.out.clone().unwrap_or_else(|| {
        let stem = args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        PathBuf::from(format!("{stem}-results"))
    });
    let mut folder = Folder::open_part(&path, &sweep, part)?;
    if args.retry {
        folder.retry();
    }
    let (made, begun) = (folder.made(), std::time::Instant::now());
    Bar::during("{bar:40} {pos}/{len} runs, {eta} left", Announce::OnTerminals, |bar| {
        sweep::run(&sweep, &mut folder, args.threads, bar)
    })?;
    let (new, took) = (folder.made() - made, begun.elapsed().as_secs_f64());
    let shown = complaint::one_line(&path.display().to_string());
    let cells = folder.cells();
    if part.is_none() {
        folder.write_cells(&cells)?;
    }
    if let Some(part) = part {
        crate::print::out(&format!(
            "Part {part}: {new} runs made now in {took:.1} s; records in {shown}. When all parts have ended, the same command \
             without --part puts them together.\n"
        ))?;
    } else if args.json {
        crate::print::out(&sweep::cells_json(&sweep, &cells))?;
    } else {
        let table = sweep::cells_table(&sweep, &cells, ROWS);
        let safe: Vec<String> = table.lines().map(complaint::one_line).collect();
        let all = folder.made();
        let title = complaint::one_line(&sweep.title);
        crate::print::out(&format!(
            "{title}\n\n{}\n\nMedians. {all} runs, {new} of them made now in {took:.1} s; records in {shown}.\n",
            safe.join("\n")
        ))?;
    }
    let failures = folder.failures();
    if let Some(folder) = &args.report {
        let command = super::command_line();
        let swept =
            paceline_report::sweep::Swept { sweep: &sweep, cells: &cells, failures: &failures, command: &command };
        let page = paceline_report::sweep::write(swept, folder)?;
        if !args.json {
            crate::print::out(&format!("report: {}\n", complaint::one_line(&page.display().to_string())))?;
        }
    }
    for line in sweep::failed_lines(&failures, FAILURES) {
        complaint::print(&line);
    }
    // When standard error is closed there is nowhere to report to.
    if std::io::stderr().is_terminal() && !failures.is_empty() {
        let _ = writeln!(std::io::stderr());
    }
    Ok(unless_failed(!failures.is_empty()))
}
