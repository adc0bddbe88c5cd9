//! `paceline mdi`: models of controllers, for the controller `mdi`.

mod show;
mod train;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Subcommand;
use paceline_cc::Nanos;
use paceline_cc::mdi::{Model, models};
use paceline_lab::input::{self, Bounds};
use paceline_lab::mdi::against::courses;
use paceline_lab::mdi::course::{Course, MOST_TRACES};
use paceline_path::Trace;

use super::{BadValue, unreadable};
use crate::progress::{Announce, Bar};

/// Train matrices of transitions on controllers, look at them, check them (docs/guide/mdi.md).
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Watch a controller in the simulator and write what it does as a matrix, for mdi:model=FILE.
    Train(train::TrainArgs),
    /// Print what a model is like, and how near it comes to a controller.
    Show(show::ShowArgs),
    /// Check models; say nothing but what is wrong.
    Check {
        /// The models.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// One JSON object per model.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Train(args) => return train::run(args),
        Command::Show(args) => show::run(args)?,
        Command::Check { files, json } => return super::each_checked(files, *json, |file| read(file).map(drop)),
    }
    Ok(ExitCode::SUCCESS)
}

/// With a bar of runs.
fn shown<T>(work: impl FnOnce(&Bar) -> T) -> T {
    Bar::during("{bar:40} {pos}/{len} runs, {eta} left", Announce::OnTerminals, work)
}

fn text(path: &Path) -> anyhow::Result<String> {
    input::read_text(path, Bounds::MODEL).map_err(|error| unreadable(path, &error))
}

fn read(path: &Path) -> anyhow::Result<Model> {
    Model::read(&text(path)?).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// A model that comes with paceline, or a file.
fn named(name: &Path) -> anyhow::Result<Model> {
    match models::SHIPPED.iter().find(|(shipped, _)| Path::new(shipped) == name) {
        Some((_, text)) => Ok(Model::read(text)?),
        None => read(name),
    }
}

/// Synthetic traces.
#[derive(clap::Args)]
struct Synthetic {
    /// Propagation delay each way.
    #[arg(long, value_name = "TIME", default_value = "20ms", allow_hyphen_values = true)]
    delay: Nanos,
    /// How long each run takes, in virtual time.
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = seconds, allow_negative_numbers = true)]
    seconds: u64,
    /// Runs at once; 0 for one a core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::count::<usize>, allow_negative_numbers = true)]
    threads: usize,
}

impl Synthetic {
    fn length(&self) -> Nanos {
        Nanos::from_secs(self.seconds)
    }

    fn courses(&self, seed: u64, many: u32) -> Vec<Course> {
        courses(seed, many, self.delay, self.length())
    }
}

/// A trace of a file.
fn course(path: &Path, of: &Synthetic, seed: u64) -> anyhow::Result<Course> {
    let name = path.display().to_string();
    let file = input::open(path, Bounds::TRACE).map_err(|error| unreadable(path, &error))?;
    Ok(Course { trace: Arc::new(Trace::read(&name, file)?), delay: of.delay, length: of.length(), seed })
}

fn seconds(text: &str) -> Result<u64, BadValue> {
    let seconds = text.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
    seconds.ok_or_else(|| BadValue::new("a number from 1 to 3600", "seconds such as 60"))
}

fn traces(text: &str) -> Result<u32, BadValue> {
    let refused = || BadValue::new(format!("a whole number from 0 to {MOST_TRACES}"), "one such as 10");
    text.parse().ok().filter(|many| *many <= MOST_TRACES).ok_or_else(refused)
}
