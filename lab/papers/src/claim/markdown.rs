//! Claims as a page of Markdown: a section for each figure or subject.

use std::fmt::Write;

use super::{Claim, ClaimBound, ClaimVerdict, Expected};
use paceline_lab::numbers::short;

/// What stands around the claims of a section.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section {
    /// What to know before them.
    pub intro: &'static str,
    /// Reasons that several notes give: in the table a letter stands for each, and below it the reason.
    pub reasons: &'static [&'static str],
}

/// A page that begins with `head`: claims of one kind are summed up in a line, and those that miss are listed; what they claim is of
/// `other`.
pub fn page(head: &str, other: &str, section: impl Fn(&str) -> Section, claims: &[Claim]) -> String {
    let mut page = String::from(head);
    let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let (held, not_run) = (count(ClaimVerdict::Holds), count(ClaimVerdict::NotRun));
    let left = match not_run {
        0 => String::new(),
        1 => " 1 was not run here.".to_owned(),
        many => format!(" {many} were not run here."),
    };
    let _ = writeln!(page, "{held} of {} claims hold.{left}", claims.len() - not_run);
    for claims in claims.chunk_by(|one, next| one.figure == next.figure) {
        let heading = &claims[0].figure;
        let section = section(heading);
        let _ = write!(page, "\n## {heading}\n\n{}{}", section.intro, summary(claims));
        let missed: Vec<&Claim> = claims.iter().filter(|claim| claim.misses()).collect();
        if !missed.is_empty() {
            let lines: String = missed.iter().map(|claim| line(claim, section.reasons)).collect();
            let _ = write!(page, "\nMissed ({other}; ours):\n\n{lines}");
            page.push_str(&reasons(&missed, section.reasons));
        }
    }
    page
}

/// A line for each kind of claims that were run: how many hold, and how far those are from what is expected.
fn summary(claims: &[Claim]) -> String {
    let mut kinds: Vec<(String, Vec<&Claim>)> = Vec::new();
    for claim in claims.iter().filter(|claim| claim.verdict != ClaimVerdict::NotRun) {
        let kind = kind(claim);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, claims)) => claims.push(claim),
            None => kinds.push((kind, vec![claim])),
        }
    }
    let line = |(kind, claims): &(String, Vec<&Claim>)| {
        let held: Vec<&Claim> = claims.iter().copied().filter(|claim| claim.holds()).collect();
        let cells: Vec<bool> = claims.iter().flat_map(|claim| &claim.cells).map(|cell| cell.holds).collect();
        let range = match cells.len() {
            0 => range(&held),
            all => format!(", {} of {all} conditions", cells.iter().filter(|holds| **holds).count()),
        };
        format!("- {kind}: {} of {}{range}\n", held.len(), claims.len())
    };
    kinds.iter().map(line).collect()
}

/// What claims of one kind have in common: how far they may be from which source's figures, or all that they say.
fn kind(claim: &Claim) -> String {
    let share = |bound: &ClaimBound| match bound.expected {
        Expected::Near { share, .. } => Some(format!("{:.0}", 100.0 * share)),
        _ => None,
    };
    let mut shares: Vec<String> = claim.bounds.iter().map_while(share).collect();
    if shares.is_empty() || shares.len() < claim.bounds.len() {
        return claim.claim.clone();
    }
    shares.dedup();
    let source = if claim.source.is_empty() { String::new() } else { format!("{}, ", claim.source) };
    format!("{source}within {} %", shares.join(", "))
}

/// How far figures of claims that hold are from those expected, or from where to where they go.
fn range(claims: &[&Claim]) -> String {
    let bounds = || claims.iter().flat_map(|claim| &claim.bounds);
    let apart = |bound: &ClaimBound| match (bound.expected, bound.measured) {
        (Expected::Near { value, slack, .. }, Some(measured)) => {
            let apart = (measured - value).abs();
            Some(if apart < slack { 0.0 } else { 100.0 * apart / value.abs() })
        }
        _ => None,
    };
    let most = bounds().filter_map(apart).fold(f64::NAN, f64::max);
    if most.is_finite() {
        return format!(", at most {most:.1} % apart");
    }
    let figures = || claims.iter().filter_map(|claim| claim.bounds.first()?.measured);
    let (least, most) = (figures().fold(f64::NAN, f64::min), figures().fold(f64::NAN, f64::max));
    match (short(least), short(most)) {
        _ if least.is_nan() => String::new(),
        (least, most) if least == most => format!(", {least}"),
        (least, most) => format!(", {least} to {most}"),
    }
}

/// A claim that misses: what is known of its conditions, or its figures.
fn line(claim: &Claim, reasons: &[&str]) -> String {
    let figures = if claim.cells.is_empty() || claim.note.is_empty() {
        format!("{}; ours {}", claim.claim, claim.ours)
    } else {
        String::new()
    };
    let lettered = |note: String, (index, reason): (usize, &&str)| note.replace(*reason, letter(index));
    let note = reasons.iter().enumerate().fold(claim.note.clone(), lettered);
    let text: Vec<String> = [figures, note].into_iter().filter(|text| !text.is_empty()).collect();
    format!("- **{}**: {}\n", claim.setup, text.join("; "))
}

/// The reasons that these claims give, behind their letters.
fn reasons(claims: &[&Claim], reasons: &[&str]) -> String {
    let given = |reason: &str| claims.iter().any(|claim| claim.note.contains(reason));
    let given = reasons.iter().enumerate().filter(|(_, reason)| given(reason));
    let list: String = given.map(|(index, reason)| format!("- {}: {reason}\n", letter(index))).collect();
    if list.is_empty() { list } else { format!("\n{list}") }
}

fn letter(index: usize) -> &'static str {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    LETTERS.get(index..=index).expect("a section has fewer reasons than letters")
}

#[cfg(test)]
mod tests {
    use super::super::Cell;
    use super::*;

    #[test]
    fn each_section_sums_up_what_holds_and_lists_what_misses() {
        let claim = |section: &str, setup: &str| Claim::on(section, setup, "at most 1").expect(Expected::AtMost(1.0));
        let near = |measured| {
            Claim::on("B", "a law", "10, within 5 %").by("theory").near(10.0, 0.05).measured("", &[measured])
        };
        let cell =
            |setup: &str, holds| Cell { setup: setup.to_owned(), ours: "9".to_owned(), holds, command: String::new() };
        let claims = [
            claim("A", "one flow").measured("0.5", &[0.5]),
            claim("A", "two flows").measured("2", &[2.0]).note("it is late"),
            claim("A", "three flows").measured("0.25", &[0.25]),
            near(10.5),
            near(9.9),
            Claim::on("B", "edges", "no flood")
                .got("9, 9", vec![cell("1 s", true), cell("2 s", false)])
                .note("2 s 9: no trace"),
            claim("B", "one flow").note("the trace was not given"),
        ];
        let section = |section: &str| match section {
            "B" => Section { intro: "Know this.\n\n", reasons: &["no queue", "no trace"] },
            _ => Section::default(),
        };
        assert_eq!(
            page("# Title\n\n", "theory", section, &claims),
            "# Title\n\n4 of 6 claims hold. 1 was not run here.\n\
             \n## A\n\n- at most 1: 2 of 3, 0.25 to 0.5\n\
             \nMissed (theory; ours):\n\n- **two flows**: at most 1; ours 2; it is late\n\
             \n## B\n\nKnow this.\n\n- theory, within 5 %: 2 of 2, at most 5.0 % apart\n- no flood: 0 of 1, 1 of 2 conditions\n\
             \nMissed (theory; ours):\n\n- **edges**: 2 s 9: B\n\
             \n- B: no trace\n"
        );
    }
}
