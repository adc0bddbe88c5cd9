//! What is asked for and what was found, in words and in JSON: for the command and for Python.

use std::fmt::Write as _;

use paceline_cc::Spec;
use paceline_cc::entry::Home;
use paceline_lab::contestant::{Contestant, ContestantError};
use serde_json::{Value, json};

use crate::page::{expected, figure, score_text};
use crate::rule::{Rule, RuleVerdict};
use crate::rules;
use crate::suite::Score;

/// A contestant over the datapath that its specification is about, where none is named.
///
/// # Errors
/// When it is not a contestant.
pub fn contestant(text: &str) -> Result<Contestant, Box<ContestantError>> {
    if text.contains('@') {
        return text.parse().map_err(Box::new);
    }
    let over = |via: &str| format!("{text}@{via}").parse::<Contestant>().map_err(Box::new);
    let home = text.parse::<Spec>().map_or(Home::Tcp, |spec| spec.entry().home);
    let (first, then) = if home == Home::Udp { ("udp", "tcp") } else { ("tcp", "udp") };
    over(first).or_else(|error| over(then).map_err(|_| error))
}

/// Whose rules it is judged by where nothing else is said: its controller's; of a program that is not ours those of its option `cc`, or
/// of the TCP that its host is to use.
pub fn own_rules(contestant: &Contestant) -> String {
    match contestant.via.program() {
        Some(program) => program.options.get("cc").or(program.congestion.as_ref()).unwrap_or(&program.name).clone(),
        None => contestant.controller.entry().name.to_owned(),
    }
}

/// All rules of all scores, for a terminal.
pub fn table(scores: &[Score]) -> String {
    let mut text = String::new();
    for score in scores {
        let _ = writeln!(text, "{}: {} (trajectory from {})", score.name, score_text(score), score.origin);
        text.extend(score.notes().iter().map(|note| format!("  note: {note}\n")));
        for judged in &score.judged {
            let rule = judged.rule;
            let (measured, why) = match &judged.verdict {
                RuleVerdict::NotSeen(why) => ("-".to_owned(), why.as_str()),
                verdict => (verdict.seen().map_or_else(String::new, |seen| figure(seen.value)), rule.measures),
            };
            let word = judged.verdict.word();
            let _ = writeln!(text, "  {:<24} {word:<9} {measured:>8}  ({}; {why})", rule.id, expected(rule.expect));
        }
    }
    text
}

/// An object for each rule of each score.
pub fn json(scores: &[Score]) -> Vec<Value> {
    let mut lines = Vec::new();
    for score in scores {
        for judged in &score.judged {
            let (rule, verdict) = (judged.rule, &judged.verdict);
            let (by, why) = match verdict {
                RuleVerdict::Departs { by, .. } => (Some(*by), None),
                RuleVerdict::NotSeen(why) => (None, Some(why.as_str())),
                RuleVerdict::Holds(_) => (None, None),
            };
            lines.push(json!({
                "name": score.name,
                "rules_of": score.rules_of,
                "origin": score.origin,
                "rule": rule.id,
                "says": rule.says,
                "source": rule.source,
                "measures": rule.measures,
                "path": rule.rig.name(),
                "needs": rule.needs,
                "verdict": verdict.word(),
                "value": verdict.seen().map(|seen| seen.value),
                "low": rule.expect.0,
                "high": rule.expect.1,
                "off_by": by,
                "why": why,
                "notes": score.notes(),
            }));
        }
    }
    lines
}

/// The same, a line each.
pub fn json_lines(scores: &[Score]) -> String {
    json(scores).iter().map(|line| format!("{line}\n")).collect()
}

/// All rules that there are, for a terminal.
pub fn rules() -> String {
    let text = |rule: &Rule| {
        format!(
            "{}\n  {}\n  source: {}\n  measured: {}; expected {} ({})\n  path: {}\n{}",
            rule.id,
            rule.says,
            rule.source,
            rule.measures,
            expected(rule.expect),
            rule.tolerance,
            rule.rig.about(),
            if rule.needs.is_empty() { String::new() } else { format!("  needs: {}\n", rule.needs.join(", ")) },
        )
    };
    rules::all().map(text).collect()
}

/// The same for programs, a line each.
pub fn rules_json_lines() -> String {
    let line = |rule: &Rule| {
        let object = json!({
            "rule": rule.id,
            "says": rule.says,
            "source": rule.source,
            "measures": rule.measures,
            "low": rule.expect.0,
            "high": rule.expect.1,
            "path": rule.rig.name(),
            "needs": rule.needs,
        });
        format!("{object}\n")
    };
    rules::all().map(line).collect()
}
