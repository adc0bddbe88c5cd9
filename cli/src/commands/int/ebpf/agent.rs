//! `paceline int agent`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use paceline_int::TelemetryAgent;
use paceline_int::agent::ReportFigures;
use paceline_int::bus::{Address, Board, BusMessage, BusSubject, MessageBody, MessageKind, PublisherRole, flow_number};
use serde_json::{Map, Value};

use super::super::AgentArgs;
use super::metrics;
use super::nodes::{EVERY, counters, show};
use crate::commands::ending::Ends;
use crate::commands::seldom::Seldom;
use crate::complaint;

/// How long a step may wait. Our choice: the signs of life are on time.
const STEP: Duration = Duration::from_millis(100);

pub(super) fn run(args: &AgentArgs) -> anyhow::Result<()> {
    let ending = Ends::begin()?.watched()?;
    let board = Arc::new(Mutex::new(Board::default()));
    let metrics = args.metrics.map(|address| metrics::answer(address, &board)).transpose()?;
    let mut agent = TelemetryAgent::new(args.bus.open_quietly(PublisherRole::Agent)?, None)?;
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
            let kind = MessageKind::Flow(flow_number(&report.tuple));
            let subject = BusSubject { domain: agent.bus().options().domain.clone(), kind };
            let message =
                BusMessage { subject, publisher: "any".to_owned(), number: 0, body: MessageBody::Flow(report) };
            board.lock().unwrap_or_else(PoisonError::into_inner).take(&message, Instant::now());
        }
        let ReportFigures { flows, unserved: more, .. } = agent.figures();
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
    show(&counted(&agent), args.json)
}

fn counted(agent: &TelemetryAgent) -> Map<String, Value> {
    let ReportFigures { flows, controllers, taken, others, old, full, unserved } = agent.figures();
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
