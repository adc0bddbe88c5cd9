//! An evaluation for a terminal, and for programs.

use std::fmt::Write as _;

use super::{Check, ClauseRow, Evaluation};

/// The clauses and the answers for a terminal.
pub fn text(evaluation: &Evaluation) -> String {
    let mut text = String::new();
    for row in &evaluation.clauses {
        let _ = writeln!(text, "{:<6} {:<27} {}", row.clause, row.title, verdict(row));
        for check in row.checks.iter().filter(|check| check.figure.is_some() || !check.said[0].is_empty()) {
            let _ = writeln!(text, "       {}", line(check));
        }
    }
    text.push('\n');
    for one in &evaluation.answers {
        let _ = writeln!(text, "{}\n  {}", one.question, one.answer);
        if !one.unasked.is_empty() {
            let _ = writeln!(text, "  not asked: {}", one.unasked);
        }
        for failure in &one.failures {
            let _ = writeln!(text, "  failed: {failure}");
        }
    }
    text
}

/// The verdict with its reason.
pub(super) fn verdict(row: &ClauseRow) -> String {
    let why = row.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    format!("{}{why}", row.verdict.word())
}

/// A check in a line.
fn line(check: &Check) -> String {
    let at = check.at.as_ref().map_or_else(String::new, |at| format!(" at {at}"));
    let cubic = if check.said[1].is_empty() { String::new() } else { format!(", CUBIC {}", check.said[1]) };
    let bound = &check.bound;
    format!("{}{at}: {}{cubic}; {bound}: {} [{}]", check.measures, check.said[0], check.verdict.word(), check.question)
}

/// An object a line: every clause, then every question that was asked.
pub fn json(evaluation: &Evaluation) -> Vec<String> {
    let clauses = evaluation.clauses.iter().map(serde_json::to_string);
    let answers = evaluation.answers.iter().map(serde_json::to_string);
    // Numbers here are finite, and keys are texts.
    clauses.chain(answers).map(Result::unwrap_or_default).collect()
}
