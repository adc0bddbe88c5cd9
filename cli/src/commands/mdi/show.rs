//! `paceline mdi show`.

use std::fmt::Write;
use std::path::PathBuf;

use paceline_cc::Spec;
use paceline_cc::mdi::grid::Axis;
use paceline_cc::mdi::{Delays, Model};
use paceline_files::is_standard;
use paceline_lab::input;
use paceline_lab::mdi::against::{Comparison, UNSEEN, compare};
use paceline_lab::mdi::analysis::{Analysis, MIXED, answers};
use serde_json::json;

use super::Synthetic;
use crate::commands::{check_file, save};
use crate::complaint::one_line;
use crate::progress::{Announce, Bar};

#[derive(clap::Args)]
pub(super) struct ShowArgs {
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
            let bar = Bar::new("{bar:40} {pos}/{len} runs, {eta} left", Announce::OnTerminals);
            let compared = compare(&model, original, &courses, args.course.threads, &bar);
            bar.finish();
            Some((original.to_string(), compared?))
        }
        None => None,
    };
    if let Some(path) = &args.html {
        let against = comparison.as_ref().map(|(name, comparison)| (name.as_str(), comparison));
        let page = paceline_report::mdi::page(&args.model.to_string_lossy(), &model, &analysis, against)?;
        save("--html", path, |out| out.write_all(page.as_bytes()))?;
        if is_standard(path) {
            return Ok(());
        }
    }
    let text = if args.json {
        format!("{}\n", as_json(args, &model, &analysis, comparison.as_ref()))
    } else {
        as_text(args, &model, &analysis, comparison.as_ref())?
    };
    Ok(crate::print::out(&text)?)
}

fn delays(model: &Model) -> &'static str {
    if model.settings().delays == Delays::Level { "level" } else { "change" }
}

fn as_text(
    args: &ShowArgs,
    model: &Model,
    analysis: &Analysis,
    comparison: Option<&(String, Comparison)>,
) -> Result<String, std::fmt::Error> {
    let (grid, settings) = (model.grid(), model.settings());
    let axis = |axis: Axis| format!("{} to {} by {} ({})", axis.min(), axis.max(), axis.step(), axis.count());
    let mut text = format!("{}\n", one_line(&args.model.to_string_lossy()));
    for line in model.provenance() {
        writeln!(text, "  {}", one_line(line))?;
    }
    writeln!(text, "  moves of the window  {}", axis(grid.windows))?;
    writeln!(text, "  moves of the delay   {}, {}", axis(grid.delays), delays(model))?;
    writeln!(text, "  states               {}, {} empty", grid.states(), model.empty_states())?;
    writeln!(text, "  blocks               {}, {} seen", model.blocks(), model.filled())?;
    writeln!(text, "  epoch                {} ms", settings.epoch.as_millis_f64())?;
    let rtt = settings.rtt.as_millis_f64();
    writeln!(text, "  round trip           up to {rtt} ms; on a longer one epochs are as much longer")?;
    writeln!(text, "  outside the grid     below: {} packets more, above: times {}", settings.up, settings.down)?;
    writeln!(text, "  expected moves       delay {:.2}, window {:.2}", analysis.delay, analysis.window)?;
    let steps = |time: &Option<u32>| time.map_or_else(|| "never".to_owned(), |steps| steps.to_string());
    let times: Vec<String> =
        analysis.mixing.iter().zip(MIXED).map(|(time, to)| format!("{} (to {to:e})", steps(time))).collect();
    writeln!(text, "  mixing, epochs       {}", times.join(", "))?;
    writeln!(text, "  next move of the delay, and the window's mean move then")?;
    for (index, mean) in answers(model).iter().enumerate() {
        let mean = mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2}"));
        writeln!(text, "    {:>6} {mean:>8}", grid.delays.value(index))?;
    }
    if let Some((original, comparison)) = comparison {
        text.push_str(&super::compared(original, comparison)?);
    }
    Ok(text)
}

fn as_json(
    args: &ShowArgs,
    model: &Model,
    analysis: &Analysis,
    comparison: Option<&(String, Comparison)>,
) -> serde_json::Value {
    let (grid, settings) = (model.grid(), model.settings());
    let axis = |axis: Axis| json!([axis.min(), axis.max(), axis.step()]);
    let mut object = json!({
        "model": args.model.to_string_lossy(),
        "provenance": model.provenance(),
        "windows": axis(grid.windows),
        "delays": axis(grid.delays),
        "state": delays(model),
        "states": grid.states(),
        "empty_states": model.empty_states(),
        "blocks": model.blocks(),
        "filled_blocks": model.filled(),
        "epoch_ms": settings.epoch.as_millis_f64(),
        "rtt_ms": settings.rtt.as_millis_f64(),
        "up": settings.up,
        "down": settings.down,
        "expected_delay_move": analysis.delay,
        "expected_window_move": analysis.window,
        "mixing_epochs": analysis.mixing,
        "stationary": analysis.stationary,
        "window_move_by_delay_move": answers(model),
    });
    if let Some((original, comparison)) = comparison {
        object["against"] = super::compared_json(original, comparison);
    }
    object
}
