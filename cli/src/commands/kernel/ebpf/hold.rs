//! `paceline kernel load` and `unload`.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use paceline_cc::foreign::printable;
use paceline_kernel::{ChangedDefault, Holder, Module};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};

use super::super::LoadArgs;
use super::slots::LeftToCubic;
use super::{Held, Named};
use crate::commands::ending::Ends;

pub(super) fn load(args: &LoadArgs) -> anyhow::Result<()> {
    let named = Named::parse(&args.of.name)?;
    let module = named.module();
    if let Some(reason) = module.never_default.filter(|_| args.default) {
        let name = module.name;
        bail!("{name} refuses to be a default: {reason}; leave --default out");
    }
    // Before anything is loaded, and before any thread starts.
    let ends = Ends::begin()?;
    let held = named.load(&args.reports)?;
    let default = if args.default { Some(ChangedDefault::set(module.name)?) } else { None };
    if args.json {
        crate::print::out(&format!("{}\n", loaded(&named, default.as_ref())))?;
        return hold(ends, &held);
    }
    let also = default.as_ref().map(|default| format!(", and the default instead of {}", default.before()));
    let what = match &named {
        Named::Module(module) => format!("{} is loaded", module.name),
        Named::Controller(spec) => format!("{} is loaded, and steered by {spec},", module.name),
    };
    crate::print::out(&format!("{what} until this command ends{}\n", also.unwrap_or_default()))?;
    hold(ends, &held)
}

/// Between two looks whether flows are left to CUBIC (our choice).
const LOOK: Duration = Duration::from_millis(100);

/// Until it is to end.
fn hold(ends: Ends, held: &Held) -> anyhow::Result<()> {
    let Some(agent) = held.agent() else {
        ends.wait()?;
        return Ok(());
    };
    let ending = ends.watched()?;
    let mut left = LeftToCubic::new(agent);
    while !ending.has_come() {
        thread::sleep(LOOK);
        left.say(agent);
    }
    Ok(())
}

/// What is loaded, for programs.
fn loaded(named: &Named, default: Option<&ChangedDefault>) -> Value {
    json!({
        "module": named.module().name,
        "controller": named.controller(),
        "default": default.is_some(),
        "default_before": default.map(ChangedDefault::before),
    })
}

/// How long an ending process may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether it has ended.
const ROUND: Duration = Duration::from_millis(20);

pub(super) fn unload(name: &str, json: bool) -> anyhow::Result<()> {
    let module = Named::parse(name)?.module();
    let name = module.name;
    if !module.is_loaded() {
        bail!("{name} is not loaded; see paceline kernel list");
    }
    let holders = module.holders();
    if holders.is_empty() {
        bail!(
            "{name} is loaded, and no process that can be seen from here holds it; run it as root, outside of containers"
        );
    }
    if let Some(other) = holders.iter().find(|holder| !holds_only(holder)) {
        bail!(
            "{name} is held by process {} ({}), which is not 'paceline kernel load'; it goes when that process ends",
            other.process,
            described(other)
        );
    }
    for holder in &holders {
        end(holder).with_context(|| format!("process {} holds {name} and cannot be ended", holder.process))?;
    }
    let ids: Vec<String> = holders.iter().map(|holder| holder.process.to_string()).collect();
    wait_until_gone(module, &ids)?;
    crate::print::out(&if json {
        let processes: Vec<_> = holders.iter().map(|holder| holder.process).collect();
        format!("{}\n", json!({ "module": name, "ended_processes": processes }))
    } else {
        format!("{name} is unloaded: process {} has ended\n", ids.join(", "))
    })?;
    Ok(())
}

/// Whether the process is there for nothing else: one that runs a command would take it along.
fn holds_only(holder: &Holder) -> bool {
    let words: Vec<&str> = holder.words.iter().skip(1).map(String::as_str).collect();
    holder.program == "paceline" && words.starts_with(&["kernel", "load"])
}

/// What it runs, as a line is long.
fn described(holder: &Holder) -> String {
    let words = if holder.words.is_empty() { holder.program.clone() } else { holder.words.join(" ") };
    printable(&words, 80)
}

fn end(holder: &Holder) -> rustix::io::Result<()> {
    let process = Pid::from_raw(holder.process.cast_signed()).ok_or(rustix::io::Errno::SRCH)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    pidfd_send_signal(&process, rustix::process::Signal::TERM)
}

fn wait_until_gone(module: &Module, ids: &[String]) -> anyhow::Result<()> {
    let start = Instant::now();
    while module.is_loaded() {
        if start.elapsed() > PATIENCE {
            bail!("{} is still loaded: process {} was asked to end, and has not", module.name, ids.join(", "));
        }
        thread::sleep(ROUND);
    }
    Ok(())
}
