//! The path of the options, or that of a scenario file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use paceline_cc::Nanos;
use paceline_emulator::frame::Frame;
use paceline_experiment::DumbbellWay as Towards;
use paceline_lab::input::{self, Bounds};
use paceline_lab::scenario::{Options, Plan, Source};
use paceline_path::{
    Direction, Jitter, LossModel, Path as EmulatedPath, PathError, Reorder, Schedule, Trace, TraceError, Wifi,
    build_link, share,
};

use super::Args;
use crate::commands::BadValue;

/// Seed where none is given.
const SEED: u64 = 1;

/// Both directions of the path, the one towards the program first.
pub(super) struct Ways {
    directions: [Direction; 2],
    /// Each draws its own losses.
    seeds: [u64; 2],
    base_rtt: Nanos,
    /// Where its traces come from: the scenario, else files.
    plan: Option<Plan>,
}

impl Ways {
    pub(super) fn new(args: &Args) -> anyhow::Result<Self> {
        let (directions, seed, plan) = match &args.scenario {
            Some(file) => {
                let plan = plan(args, file)?;
                let scenario = &plan.scenario;
                ([scenario.down.clone(), scenario.up.clone()], scenario.seed, Some(plan))
            }
            None => {
                let [down, up] = [Towards::Down, Towards::Up].map(|towards| direction(args, towards));
                ([down?, up?], args.seed.unwrap_or(SEED), None)
            }
        };
        let seeds = [seed.wrapping_mul(2), seed.wrapping_mul(2).wrapping_add(1)];
        let base_rtt = directions[0].base_delay() + directions[1].base_delay();
        Ok(Self { directions, seeds, base_rtt, plan })
    }

    pub(super) fn paths(&self) -> anyhow::Result<[EmulatedPath<Frame>; 2]> {
        let [down, up] = &self.directions;
        build_link([down, up], self.seeds, self.base_rtt, &|name: &str| self.load(name)).map_err(explain)
    }

    pub(super) fn schedule(&self, towards: Towards) -> anyhow::Result<Option<Schedule>> {
        let index = usize::from(towards == Towards::Up);
        self.directions[index].schedule(self.seeds[index], &|name: &str| self.load(name)).map_err(explain)
    }

    /// A trace's errors name its option.
    fn load(&self, name: &str) -> anyhow::Result<Arc<Trace>> {
        if let Some(plan) = &self.plan {
            return plan.trace(name).ok_or_else(|| anyhow!("{name}: was not loaded"));
        }
        let option = if self.directions[0].trace.as_deref() == Some(name) { "--trace" } else { "--up" };
        load(option, name)
    }
}

/// The scenario's first run; who races over its path does not matter.
fn plan(args: &Args, file: &Path) -> anyhow::Result<Plan> {
    let contestants = Some("reno@tcp".to_owned());
    let options = Options { contestants, seed: args.seed, set: args.set.clone(), ..Options::default() };
    let plan = Source::read(file, options)?.plan(1)?;
    if !plan.scenario.links.is_empty() {
        bail!("--scenario {}: it has [links], and emulate has two ends; give one with [down] and [up]", file.display());
    }
    Ok(plan)
}

fn direction(args: &Args, towards: Towards) -> anyhow::Result<Direction> {
    let is_up = towards == Towards::Up;
    let trace = if is_up { &args.up } else { &args.trace };
    let has_link = args.rate.is_some() || args.wifi.is_some();
    if args.trace.is_some() && args.up.is_some() && args.rate.is_some() {
        bail!("--rate: both directions have a trace; leave it out");
    }
    if args.queue.is_some() && args.trace.is_none() && args.up.is_none() && args.up_rate.is_none() && !has_link {
        bail!("--queue: there is no link for it to wait at; give --rate, --wifi, --trace or --up too");
    }
    if args.up_queue.is_some() && args.up.is_none() && args.up_rate.is_none() && !has_link {
        bail!("--up-queue: there is no link for it to wait at; give --up-rate, --rate, --wifi or --up too");
    }
    let rate = args.up_rate.filter(|_| is_up).or(args.rate).filter(|_| trace.is_none());
    let queue = if is_up { args.up_queue.or(args.queue) } else { args.queue };
    let loss = if is_up { args.up_loss.or(args.loss) } else { args.loss };
    Ok(Direction {
        rate,
        wifi: args.wifi.map(|phy| Wifi { competitors: args.competitors, ..Wifi::new(phy) }),
        queue: queue.filter(|_| trace.is_some() || rate.is_some() || args.wifi.is_some()),
        trace: trace.as_ref().map(|path| path.display().to_string()),
        loss: loss.map(LossModel::Rate),
        delay: if is_up { args.up_delay.unwrap_or(args.delay) } else { args.delay },
        jitter: args.jitter.map(|max| Jitter { max: Some(max), ..Jitter::default() }),
        duplicate: args.duplicate,
        reorder: args.reorder,
        ..Direction::default()
    })
}

/// `SHARE,TIME` of an option.
pub(super) fn reorder(text: &str) -> Result<Reorder, BadValue> {
    let bad = || BadValue::new("a share and a time", "them such as 1%,5ms");
    let (part, delay) = text.split_once(',').ok_or_else(bad)?;
    let share = share(part.trim()).ok_or_else(bad)?;
    Ok(Reorder { share, delay: delay.trim().parse().map_err(|_| bad())? })
}

/// The fields of a direction are options here.
fn explain(error: PathError) -> anyhow::Error {
    match error {
        PathError::Trace { reason } => anyhow!(reason),
        other => anyhow!("--{other}"),
    }
}

fn load(option: &str, name: &str) -> anyhow::Result<Arc<Trace>> {
    let unreadable =
        |error: &std::io::Error| anyhow!("{option}: {name} cannot be read ({error}); name a trace file that exists");
    let file = input::open(Path::new(name), Bounds::TRACE).map_err(|error| unreadable(&error))?;
    match Trace::read(name, file) {
        Err(TraceError::Read { source, .. }) => Err(unreadable(&source)),
        other => Ok(Arc::new(other?)),
    }
}
