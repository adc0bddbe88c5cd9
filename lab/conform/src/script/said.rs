//! What became of scripts, in words and in JSON.

use std::fmt::Write as _;

use paceline_cc::units::span_text;
use paceline_cc::{Nanos, Time};
use serde_json::json;

use super::ScriptRun;

/// A line for each script, and one for each expectation that departs.
pub fn table(runs: &[ScriptRun]) -> String {
    let mut text = String::new();
    for ScriptRun { name, controller, judged } in runs {
        let holds = judged.iter().filter(|one| one.holds).count();
        let _ = writeln!(text, "{name}: {controller}: {holds} of {} expectations hold", judged.len());
        for one in judged.iter().filter(|one| !one.holds) {
            let at = span_text(one.at.since(Time::ZERO));
            let _ = writeln!(
                text,
                "{name}:{}:{}: departs at {at}: {}; the controller answers {}",
                one.line, one.column, one.expected, one.answered
            );
        }
    }
    text
}

/// An object for each expectation, a line each.
pub fn json_lines(runs: &[ScriptRun]) -> String {
    let mut text = String::new();
    for ScriptRun { name, controller, judged } in runs {
        for one in judged {
            let object = json!({
                "script": name,
                "controller": controller,
                "line": one.line,
                "column": one.column,
                "at": nanos(one.at.since(Time::ZERO)),
                "expected": one.expected,
                "answered": one.answered,
                "verdict": if one.holds { "holds" } else { "departs" },
            });
            let _ = writeln!(text, "{object}");
        }
    }
    text
}

const fn nanos(span: Nanos) -> u64 {
    span.as_nanos()
}
