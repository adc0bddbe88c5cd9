//! `paceline mdi show`.

use std::path::PathBuf;

use paceline_cc::Spec;
use paceline_files::is_standard;
use paceline_lab::input;
use paceline_lab::mdi::against::{UNSEEN, compare};
use paceline_lab::mdi::analysis::Analysis;
use paceline_lab::mdi::said;

use super::Synthetic;
use crate::commands::{check_file, save};
use crate::complaint::one_line;

#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// The model: one of verus, copa and sprout, or a file.
    model: PathBuf,
    /// Run it and this controller over unseen synthetic traces, and compare.
    #[arg(long, value_name = "CONTROLLER", value_parser = input::controller)]
    against: Option<Spec>,
    /// How many unseen traces.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = super::traces, allow_negative_numbers = true)]
    synthetic: u32,
    /// The unseen traces: same seed, same traces.
    #[arg(long, value_name = "N", default_value_t = UNSEEN, value_parser = crate::commands::count::<u64>, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    course: Synthetic,
    /// Write a page with the matrix as a picture.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ShowArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.html {
        crate::commands::alone(args.json, path)?;
    }
    check_file("--html", args.html.as_ref())?;
    let model = super::named(&args.model)?;
    let analysis = Analysis::of(&model);
    let comparison = match &args.against {
        Some(original) => {
            let courses = args.course.courses(args.seed, args.synthetic.max(1));
            let compared = super::shown(|bar| compare(&model, original, &courses, args.course.threads, bar))?;
            Some((original.to_string(), compared))
        }
        None => None,
    };
    let name = args.model.to_string_lossy();
    let against = comparison.as_ref().map(|(name, comparison)| (name.as_str(), comparison));
    if let Some(path) = &args.html {
        let page = paceline_report::mdi::page(&name, &model, &analysis, against)?;
        save("--html", path, |out| out.write_all(page.as_bytes()))?;
        if is_standard(path) {
            return Ok(());
        }
    }
    let text = if args.json {
        format!("{}\n", said::json(&name, &model, &analysis, against))
    } else {
        said::text(&one_line(&name), &model, &analysis, against).lines().map(|line| one_line(line) + "\n").collect()
    };
    Ok(crate::print::out(&text)?)
}
