//! `paceline int path`.

use std::time::Duration;

use paceline_int::SourcePlan;
use paceline_int::bus::{Board, SubjectFilter};
use serde_json::json;

use super::super::PathArgs;
use crate::complaint;

pub(super) fn run(args: &PathArgs) -> anyhow::Result<()> {
    let mut board = Board::default();
    // A bus that cannot be had is said, and reports nothing.
    if let Err(error) = listen(args, &mut board) {
        complaint::print(&format!("{error:#}"));
    }
    let survey = board.survey(args.to);
    let plan = args.to.map(|to| SourcePlan::of(to, &args.rules.options(), &args.packets)).transpose()?;
    let object = || json!({ "reported": survey, "plan": plan });
    let lines = || survey.to_string() + &plan.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(crate::print::out(&if args.json { format!("{}\n", object()) } else { lines() })?)
}

fn listen(args: &PathArgs, board: &mut Board) -> anyhow::Result<()> {
    if args.bus.address()?.is_there() {
        let bus = args.bus.open(None)?;
        let messages = bus.subscribe(&[SubjectFilter::Flows, SubjectFilter::Nodes, SubjectFilter::Health])?;
        board.listen(&messages, Duration::from_nanos(args.listen.as_nanos()));
    }
    Ok(())
}
