//! Claims as a page of Markdown: a table for each section.

use std::fmt::Write;

use super::{Claim, Verdict};

/// A page that begins with `head`; `other` heads the column of what is claimed, `intro` is what to know before the table of a
/// section.
pub fn page<'a>(head: &str, other: &str, intro: impl Fn(&str) -> &'a str, claims: &[Claim]) -> String {
    let mut page = String::from(head);
    let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let (held, not_run) = (count(Verdict::Holds), count(Verdict::NotRun));
    let left = match not_run {
        0 => String::new(),
        1 => " 1 was not run here.".to_owned(),
        many => format!(" {many} were not run here."),
    };
    let _ = writeln!(page, "{held} of {} claims hold.{left}", claims.len() - not_run);
    let mut section = "";
    for claim in claims {
        if claim.figure != section {
            section = &claim.figure;
            let intro = intro(section);
            let _ = write!(page, "\n## {section}\n\n{intro}| run | {other} | ours | holds |\n|---|---|---|---|\n");
        }
        let _ = writeln!(page, "{}", row(claim));
    }
    page
}

fn row(claim: &Claim) -> String {
    let holds = match claim.verdict {
        Verdict::Holds => "yes",
        Verdict::Misses => "**no**",
        Verdict::NotRun => "not run",
    };
    let ours = [claim.ours.as_str(), &claim.note].into_iter().filter(|text| !text.is_empty());
    let ours = ours.collect::<Vec<_>>().join(" <br> ");
    format!("| {} | {} | {ours} | {holds} |", claim.setup, claim.claim)
}

#[cfg(test)]
mod tests {
    use super::super::Expected;
    use super::*;

    #[test]
    fn each_section_has_its_table() {
        let claim = |section: &str| Claim::on(section, "one flow", "at most 1").expect(Expected::AtMost(1.0));
        let claims = [
            claim("A").measured("0.5", &[0.5]),
            claim("A").measured("2", &[2.0]).note("it is late"),
            claim("B").note("no trace"),
        ];
        let intro = |section: &str| if section == "B" { "Know this.\n\n" } else { "" };
        assert_eq!(
            page("# Title\n\n", "theory", intro, &claims),
            "# Title\n\n1 of 2 claims hold. 1 was not run here.\n\
             \n## A\n\n| run | theory | ours | holds |\n|---|---|---|---|\n\
             | one flow | at most 1 | 0.5 | yes |\n\
             | one flow | at most 1 | 2 <br> it is late | **no** |\n\
             \n## B\n\nKnow this.\n\n| run | theory | ours | holds |\n|---|---|---|---|\n\
             | one flow | at most 1 | no trace | not run |\n"
        );
    }
}
