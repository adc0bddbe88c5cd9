//! Claims in a terminal: one line each, figure by figure.

use std::fmt::Write;

use super::Section;

/// Widest line.
const WIDTH: usize = 100;

/// Each claim with what we get; `bold` marks figures and misses by terminal codes.
pub fn table(sections: &[Section], bold: bool) -> String {
    let (on, off) = if bold { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, "{on}{}: {}{off}", section.figure, section.title);
        let mut last = "";
        for claim in section.claims() {
            if claim.contestant != last {
                last = &claim.contestant;
                let _ = writeln!(text, "  {last}");
            }
            let verdict = if claim.holds { "holds".to_owned() } else { format!("{on}fails{off}") };
            let _ = writeln!(text, "    {verdict}  {}", wrapped(&claim.claim));
            let _ = writeln!(text, "           {}", wrapped(&format!("ours: {}", claim.ours)));
        }
        text.push('\n');
    }
    let claims = || sections.iter().flat_map(Section::claims);
    let held = claims().filter(|claim| claim.holds).count();
    let _ = writeln!(text, "{held} of {} claims hold.", claims().count());
    text
}

/// Text that continues below itself.
fn wrapped(text: &str) -> String {
    const INDENT: usize = 11;
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && INDENT + line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = write!(lines, "{line}\n{:INDENT$}", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Cell, Claim, Findings};

    #[test]
    fn lines_are_short_and_misses_are_seen() {
        let cell = |holds| Cell { setup: String::new(), ours: String::new(), holds, command: String::new() };
        let claim = |holds| Claim::new("word ".repeat(40), "dctcp@tcp", "").got("5 ms", vec![cell(holds)]);
        let findings = Findings { claims: vec![claim(true), claim(false)], ..Findings::default() };
        let section = Section { figure: "Fig 1", title: "Four flows", command: String::new(), findings };
        let text = table(&[section], false);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!((text.matches("    holds  ").count(), text.matches("    fails  ").count()), (1, 1));
        assert!(text.ends_with("1 of 2 claims hold.\n"));
    }
}
