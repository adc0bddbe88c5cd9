//! `paceline mdi train`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use paceline_cc::mdi::Delays;
use paceline_cc::mdi::grid::{Axis, Grid};
use paceline_cc::{Nanos, Spec};
use paceline_lab::input;
use paceline_lab::mdi::against::{Comparison, UNSEEN, compare};
use paceline_lab::mdi::course::Course;
use paceline_lab::mdi::said;
use paceline_lab::mdi::train::{DELAYS, TAIL, Training, WINDOWS, count, fitted};
use paceline_lab::mdi::{Counts, Move, counts::NOISE};
use serde_json::json;

use super::Synthetic;
use crate::commands::{BadValue, check_file, save, share};
use crate::exit::Exit;

#[derive(clap::Args)]
pub(crate) struct TrainArgs {
    /// The controller to watch, such as verus or copa:delta=0.1.
    #[arg(long, value_name = "CONTROLLER", value_parser = input::controller)]
    cc: Spec,
    /// Delivery traces to watch it over.
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Watch it over this many synthetic traces too.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::traces, allow_negative_numbers = true)]
    synthetic: u32,
    /// The synthetic traces: same seed, same traces.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::commands::count::<u64>, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    course: Synthetic,
    /// Length of an epoch: whole milliseconds.
    #[arg(long, value_name = "TIME", default_value = "5ms", allow_hyphen_values = true)]
    epoch: Nanos,
    /// What a state has of the delay: how far it is above the smallest (level), or how far it moved since the last epoch
    /// (change), as in the published models.
    #[arg(long, value_name = "WHAT", default_value = "level", value_parser = ["level", "change"])]
    state: String,
    /// Moves of the window on the grid, instead of those that were seen: MIN,MAX,STEP.
    #[arg(long, value_name = "AXIS", value_parser = axis, allow_hyphen_values = true)]
    windows: Option<Axis>,
    /// Moves of the delay on the grid, instead of those that were seen: MIN,MAX,STEP.
    #[arg(long, value_name = "AXIS", value_parser = axis, allow_hyphen_values = true)]
    delays: Option<Axis>,
    /// Most values of the window's moves, where they are not given.
    #[arg(long, value_name = "N", default_value_t = WINDOWS, value_parser = crate::commands::count::<usize>)]
    most_windows: usize,
    /// Most values of the delay's moves, where they are not given.
    #[arg(long, value_name = "N", default_value_t = DELAYS, value_parser = crate::commands::count::<usize>)]
    most_delays: usize,
    /// Share of the moves that the grid leaves out at either end, where it is not given.
    #[arg(long, value_name = "SHARE", default_value_t = TAIL, value_parser = share)]
    tail: f64,
    /// Entries of a block below this share are left out.
    #[arg(long, value_name = "SHARE", default_value_t = NOISE, value_parser = share)]
    noise: f64,
    /// Hold the model against the controller over this many synthetic traces that it did not see, of another seed; with 0 and no
    /// --unseen-trace it is written whatever it does.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = super::traces, allow_negative_numbers = true)]
    unseen: u32,
    /// Hold it against the controller over this delivery trace too. May be given again.
    #[arg(long, value_name = "TRACE")]
    unseen_trace: Vec<PathBuf>,
    /// Add the counts of an earlier training; its grid is used.
    #[arg(long, value_name = "FILE")]
    add: Option<PathBuf>,
    /// Write the counts too, for --add.
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,
    /// Where to write the model.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Without lines about where it comes from, as the published reader wants it: no epoch, state and reflexes either.
    #[arg(long)]
    plain: bool,
    /// Print what was seen as JSON.
    #[arg(long)]
    json: bool,
}

fn axis(text: &str) -> anyhow::Result<Axis> {
    let values: Option<Vec<i64>> = text.split(',').map(|word| word.trim().parse().ok()).collect();
    let Some([min, max, step]) = values.as_deref() else {
        return Err(BadValue::new("MIN,MAX,STEP", "three whole numbers such as -60,60,5").into());
    };
    Ok(Axis::new(*min, *max, *step)?)
}

pub(super) fn run(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    for (option, share) in [("--tail", args.tail), ("--noise", args.noise)] {
        if !(0.0..0.5).contains(&share) {
            bail!("{option}: give a share from 0 to below 0.5");
        }
    }
    crate::commands::alone(args.json, &args.out)?;
    if args.counts == Some(args.out.clone()) {
        bail!("--counts: {} is the place of --out too; name another", args.out.display());
    }
    check_file("--out", Some(&args.out))?;
    check_file("--counts", args.counts.as_ref())?;
    let millis = args.epoch.as_nanos() / 1_000_000;
    if Nanos::from_millis(millis) != args.epoch || !(1..=1000).contains(&millis) {
        bail!("--epoch: give whole milliseconds from 1ms to 1000ms");
    }
    let delays = if args.state == "change" { Delays::Change } else { Delays::Level };
    if args.plain && delays == Delays::Level {
        bail!("--plain: the published format cannot say --state level; add --state change");
    }
    let earlier = match &args.add {
        Some(path) => Some(Counts::read(&super::text(path)?).map_err(|error| anyhow!("{}: {error}", path.display()))?),
        None => None,
    };
    let unseen = unseen(args)?;
    let courses = courses(args)?;
    if courses.is_empty() && earlier.is_none() {
        bail!("there is nothing to train on; name traces, or give --synthetic 100");
    }
    let training = Training { controller: args.cc.clone(), epoch: args.epoch, delays, threads: args.course.threads };
    let seen = super::shown(|bar| training.watch(&courses, bar))?;
    let moves = |of: fn(&Move) -> f32| seen.iter().flat_map(|seen| &seen.moves).map(of);
    let grid = match &earlier {
        Some(earlier) => earlier.grid,
        None => {
            let windows =
                args.windows.map_or_else(|| fitted(moves(|at| at.window), args.tail, args.most_windows), Ok)?;
            let delays = args.delays.map_or_else(|| fitted(moves(|at| at.delay), args.tail, args.most_delays), Ok)?;
            Grid::new(windows, delays)?
        }
    };
    let mut counts = count(&seen, grid, args.epoch, delays);
    if let Some(earlier) = &earlier {
        counts.add(earlier).map_err(|error| anyhow!("--add: {error}"))?;
    }
    let lost = format!("{:.1} % of {} moves are outside the grid", 100.0 * counts.lost(), counts.moves);
    let mut provenance = vec![
        format!("paceline {}: a model of {} (docs/guide/mdi.md)", env!("CARGO_PKG_VERSION"), args.cc),
        format!("made by: {}", crate::commands::command_line()),
        trained_on(&courses),
        lost.clone(),
    ];
    if let Some(path) = &args.counts {
        let text = counts.text();
        save("--counts", path, |out| out.write_all(text.as_bytes()))?;
    }
    let comparison = if unseen.is_empty() {
        None
    } else {
        let untold = counts.model(args.noise, Vec::new());
        Some(super::shown(|bar| compare(&untold, &args.cc, &unseen, args.course.threads, bar))?)
    };
    if let Some(Comparison { pairs, throughput, delay, .. }) = &comparison {
        let many = pairs.len();
        provenance.push(format!(
            "over {many} unseen traces, in the median: {throughput:.3} of its throughput, {delay:.3} of its median delay"
        ));
    }
    let near = comparison.as_ref().map_or(Ok(()), Comparison::near);
    let model = counts.model(args.noise, provenance);
    if near.is_ok() {
        let text = model.text(args.plain);
        save("--out", &args.out, |out| out.write_all(text.as_bytes()))?;
    }
    let original = args.cc.to_string();
    if args.json {
        let axis = |axis: Axis| json!([axis.min(), axis.max(), axis.step()]);
        let settings = model.settings();
        let object = json!({
            "controller": args.cc.to_string(),
            "traces": courses.len(),
            "moves": counts.moves,
            "lost": counts.lost(),
            "transitions": counts.transitions(),
            "windows": axis(grid.windows),
            "delays": axis(grid.delays),
            "states": grid.states(),
            "empty_states": model.empty_states(),
            "blocks": model.blocks(),
            "filled_blocks": model.filled(),
            "up": settings.up,
            "down": settings.down,
            "rtt_ms": settings.rtt.as_millis_f64(),
            "unseen": comparison.as_ref().map(|comparison| said::compared_json(&original, comparison)),
            "out": near.is_ok().then(|| args.out.display().to_string()),
        });
        crate::print::out(&format!("{object}\n"))?;
    } else if !paceline_files::is_standard(&args.out) {
        let what = if near.is_ok() { args.out.display().to_string() } else { format!("a model of {original}") };
        crate::print::out(&format!(
            "{what}: {} states, {} of {} blocks seen; {lost}\n",
            grid.states(),
            model.filled(),
            model.blocks()
        ))?;
        if let Some(comparison) = &comparison {
            crate::print::out(&said::compared(&original, comparison))?;
        }
    }
    let Err(parted) = near else { return Ok(ExitCode::SUCCESS) };
    eprintln!(
        "{}: not written: over unseen traces the model of {original} has {parted}; train it on more and other traces (--synthetic 100), \
         or keep it all the same with --unseen 0",
        args.out.display()
    );
    Ok(Exit::Failed.into())
}

/// What a model says of its training set.
fn trained_on(courses: &[Course]) -> String {
    let rates = || courses.iter().map(|course| course.trace.mean_rate().as_mbps());
    let (slowest, fastest) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let Some(Course { delay, length, .. }) = courses.first() else {
        return "trained on: earlier counts alone".to_owned();
    };
    format!(
        "trained on: {} traces with means of {slowest:.1} to {fastest:.1} Mbit/s, {} s each, {} ms each way, no limit to the queue",
        courses.len(),
        length.as_secs_f64(),
        delay.as_millis_f64()
    )
}

fn courses(args: &TrainArgs) -> anyhow::Result<Vec<Course>> {
    let mut courses = args.course.courses(args.seed, args.synthetic);
    for path in &args.traces {
        courses.push(super::course(path, &args.course, courses.len() as u64 + 1)?);
    }
    Ok(courses)
}

fn unseen(args: &TrainArgs) -> anyhow::Result<Vec<Course>> {
    if let Some(seen) = args.unseen_trace.iter().find(|path| args.traces.contains(path)) {
        bail!("--unseen-trace: {} is among the traces to train on; name another", seen.display());
    }
    if args.unseen > 0 && args.seed == UNSEEN {
        bail!("--seed: {UNSEEN} is that of the unseen traces; give another, or --unseen 0");
    }
    let mut courses = args.course.courses(UNSEEN, args.unseen);
    for path in &args.unseen_trace {
        courses.push(super::course(path, &args.course, courses.len() as u64 + 1)?);
    }
    Ok(courses)
}
