//! `paceline report`: the report again, from old records.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use paceline_lab::input::{self, Bounds};
use paceline_lab::record::{ReadError, read_json};

use crate::complaint;

/// Draw the report from records that race --json wrote.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files of records (JSON Lines).
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Folder of the report; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    paceline_files::check_folder(&args.out)?;
    let mut records = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        let file =
            input::open(path, Bounds::RECORDS).map_err(|source| ReadError::Read { file: name.clone(), source })?;
        records.extend(read_json(&name, file)?);
    }
    let all = records.len();
    let mut known = BTreeSet::new();
    records.retain(|record| known.insert(serde_json::to_string(record).unwrap_or_default()));
    if records.len() < all {
        complaint::print(&format!("{} of {all} records were given before, and count once", all - records.len()));
    }
    let page = paceline_report::write_records(&records, &args.out)?;
    crate::print::out(&format!("{}\n", page.display()))?;
    Ok(ExitCode::SUCCESS)
}
