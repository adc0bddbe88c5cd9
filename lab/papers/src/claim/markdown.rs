//! Claims as a page of Markdown: a table for each section.

use std::fmt::Write;

use super::{Claim, ClaimVerdict};

/// What stands around the table of a section.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section {
    /// What to know before it.
    pub intro: &'static str,
    /// Reasons that several notes give: in the table a letter stands for each, and below it the reason.
    pub reasons: &'static [&'static str],
}

/// A page that begins with `head`; `other` heads the column of what is claimed. Claims of a section that differ in their setup alone
/// are one row.
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
        let _ = write!(page, "\n## {heading}\n\n{}", section.intro);
        let _ = write!(page, "| run | {other} | ours | holds |\n|---|---|---|---|\n{}", rows(claims, section.reasons));
        page.push_str(&reasons(claims, section.reasons));
    }
    page
}

fn rows(claims: &[Claim], reasons: &[&str]) -> String {
    let mut rows: Vec<(Vec<&str>, String)> = Vec::new();
    for claim in claims {
        let cells = cells(claim, reasons);
        match rows.iter_mut().find(|(_, known)| *known == cells) {
            Some((setups, _)) => setups.push(&claim.setup),
            None => rows.push((vec![&claim.setup], cells)),
        }
    }
    rows.iter().map(|(setups, cells)| format!("| {} | {cells}\n", setups.join("; "))).collect()
}

/// A row behind its setup.
fn cells(claim: &Claim, reasons: &[&str]) -> String {
    let holds = match claim.verdict {
        ClaimVerdict::Holds => "yes",
        ClaimVerdict::Misses => "**no**",
        ClaimVerdict::NotRun => "not run",
    };
    let lettered = |note: String, (index, reason): (usize, &&str)| note.replace(*reason, letter(index));
    let note = reasons.iter().enumerate().fold(claim.note.clone(), lettered);
    let ours = [claim.ours.as_str(), &note].into_iter().filter(|text| !text.is_empty());
    let ours = ours.collect::<Vec<_>>().join(" <br> ");
    format!("{} | {ours} | {holds} |", claim.claim)
}

/// The reasons that these claims give, behind their letters.
fn reasons(claims: &[Claim], reasons: &[&str]) -> String {
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
    use super::super::Expected;
    use super::*;

    #[test]
    fn each_section_has_its_table() {
        let claim = |section: &str, setup: &str| Claim::on(section, setup, "at most 1").expect(Expected::AtMost(1.0));
        let claims = [
            claim("A", "one flow").measured("0.5", &[0.5]),
            claim("A", "two flows").measured("2", &[2.0]).note("it is late"),
            claim("A", "three flows").measured("0.5", &[0.5]),
            claim("B", "one flow").note("1 s: no trace; 2 s: no trace"),
        ];
        let section = |section: &str| match section {
            "B" => Section { intro: "Know this.\n\n", reasons: &["no queue", "no trace"] },
            _ => Section::default(),
        };
        assert_eq!(
            page("# Title\n\n", "theory", section, &claims),
            "# Title\n\n2 of 3 claims hold. 1 was not run here.\n\
             \n## A\n\n| run | theory | ours | holds |\n|---|---|---|---|\n\
             | one flow; three flows | at most 1 | 0.5 | yes |\n\
             | two flows | at most 1 | 2 <br> it is late | **no** |\n\
             \n## B\n\nKnow this.\n\n| run | theory | ours | holds |\n|---|---|---|---|\n\
             | one flow | at most 1 | 1 s: B; 2 s: B | not run |\n\
             \n- B: no trace\n"
        );
    }
}
