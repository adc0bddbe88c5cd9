//! `paceline kernel run`.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use paceline_emulator::command::{PASSED_ON, unblocked};
use paceline_files::Draft;
use paceline_kernel::{Cgroup, Selection};
use paceline_linux::signals::Signals;
use rustix::process::{Pid, kill_process};
use serde_json::json;

use super::super::RunArgs;
use super::slots::LeftToCubic;
use super::{Held, Named};
use crate::commands::live::counted;
use crate::commands::save;
use crate::complaint;

/// How often signals and the command are looked after.
const ROUND: Duration = Duration::from_millis(20);

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let named = Named::parse(&args.of.name)?;
    let module = named.module();
    if let Some(path) = &args.json {
        Draft::check(path).context("--json")?;
    }
    let mut command = unblocked(&args.command)?;
    // Before anything is loaded, and before any thread starts.
    let signals = Signals::take(&PASSED_ON).context("cannot take signals")?;
    let held = named.load_or_share(&args.reports)?;
    let cgroup = Cgroup::create()?;
    let selection = Selection::start(cgroup.open()?.as_fd(), module.name)?;
    let child = cgroup.enter(|| command.spawn())?.with_context(|| shown(&args.command))?;
    let status = attend(child, &signals, &held)?;
    let others = cgroup.processes().len();
    if others > 0 {
        let still = if others == 1 {
            "a process of the command still runs".to_owned()
        } else {
            format!("{others} processes of the command still run")
        };
        complaint::print(&format!("{still}; new connections have the default"));
    }
    let refused = selection.refused();
    if refused > 0 {
        let sockets = counted(refused.try_into().unwrap_or(usize::MAX), "socket");
        complaint::print(&format!("{sockets} kept another congestion control than {}: it was not loaded", module.name));
    }
    let agent_ended = held.agent().is_some_and(|agent| !agent.is_running());
    if agent_ended {
        complaint::print("the agent ended before the command; its connections were CUBIC's from then on");
    }
    if let Some(path) = &args.json {
        let object = json!({
            "module": module.name,
            "controller": named.controller(),
            "exit_status": status,
            "processes_left": others,
            "refused_sockets": refused,
            "agent_ended": agent_ended,
        });
        save("--json", path, |out| writeln!(out, "{object}"))?;
    }
    Ok(ExitCode::from(status))
}

fn shown(command: &[OsString]) -> String {
    command.first().map_or_else(String::new, |program| program.to_string_lossy().into_owned())
}

/// Waits for the end of the command and answers its exit status, as a shell has it; passes signals on. Those of the terminal
/// reach the command anyway.
fn attend(mut child: Child, signals: &Signals, held: &Held) -> anyhow::Result<u8> {
    let command = Pid::from_child(&child);
    let mut left = held.agent().map(LeftToCubic::new);
    loop {
        if let (Some(left), Some(agent)) = (&mut left, held.agent()) {
            left.say(agent);
        }
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            let shell = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
            return Ok(u8::try_from(shell).unwrap_or(u8::MAX));
        }
        for signal in signals.sent() {
            let _ = kill_process(command, signal);
        }
        thread::sleep(ROUND);
    }
}
