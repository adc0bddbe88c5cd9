//! `paceline int agent`.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use paceline_int::Agent;
use paceline_int::agent::Figures;
use paceline_int::bus::{Address, Board, Body, Kind, Message, Role, Subject, flow_number};
use serde_json::{Map, Value};

use super::super::AgentArgs;
use super::metrics;
use super::nodes::{EVERY, counters, show};
use crate::commands::ending::Ends;
use crate::commands::seldom::Seldom;
use crate::complaint;

/// How long a step may wait. Our choice: the signs of life are on time.
const STEP: Duration = Duration::from_millis(100);

pub(super) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    let ending = Ends::begin()?.watched()?;
    let board = Arc::new(Mutex::new(Board::default()));
    let metrics = args.metrics.map(|address| metrics::answer(address, &board)).transpose()?;
    let mut agent = Agent::new(args.bus.open_quietly(Role::Agent)?, None)?;
    // A bus of this machine carries hardly any reports but ours: the first of a flow is received as well.
    if matches!(agent.bus().address(), Some(Address::Local(_))) {
        agent = agent.hearing_all();
    }
    if let Some(address) = agent.bus().address().filter(|_| !args.json) {
        crate::print::out(&format!(
            "reports of this machine's flows are taken from {address} until this command ends\n"
        ))?;
    }
    let (mut shown, mut unserved) = (Instant::now(), Seldom::default());
    while !ending.has_come() {
        if let Some(report) = agent.step(STEP)?
            && metrics.is_some()
        {
            let kind = Kind::Flow(flow_number(&report.tuple));
            let subject = Subject { domain: agent.bus().options().domain.clone(), kind };
            let message = Message { subject, publisher: "any".to_owned(), number: 0, body: Body::Flow(report) };
            board.lock().unwrap_or_else(PoisonError::into_inner).take(&message, Instant::now());
        }
        let Figures { flows, unserved: more, .. } = agent.figures();
        if more > 0 && unserved.is_due() {
            complaint::print(&format!(
                "{more} flows have no telemetry: {flows} do, which is all that can, or one user has three quarters of these"
            ));
        }
        if args.json && shown.elapsed() >= EVERY {
            shown = Instant::now();
            show(&counted(&agent), true)?;
        }
    }
    show(&counted(&agent), args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn counted(agent: &Agent) -> Map<String, Value> {
    let Figures { flows, controllers, taken, others, old, full, unserved } = agent.figures();
    let all = [
        ("flows", flows),
        ("controllers", controllers),
        ("taken", taken),
        ("others", others),
        ("old", old),
        ("full", full),
        ("unserved", unserved),
    ];
    counters(all.into_iter())
}
