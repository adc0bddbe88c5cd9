//! Claims in a terminal: one line each, figure by figure.

use std::fmt::Write;

use super::Section;
use super::grid::{Grid, alone, grids};

/// Widest line: that of a narrow terminal.
const WIDTH: usize = 80;

/// Each claim with what we get; `bold` marks figures and misses by terminal codes.
pub fn table(sections: &[Section], bold: bool) -> String {
    let (on, off) = if bold { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, "{on}{}: {}{off}", section.figure, section.title);
        // Where nothing was run, its setup says why.
        let why = section.findings.setup.iter().filter(|_| section.claims().is_empty());
        for line in section.contrast.iter().chain(why) {
            let _ = writeln!(text, "  {}", wrapped(line, 2));
        }
        for grid in grids(&section.findings) {
            write_grid(&mut text, &grid, (on, off));
        }
        let mut last = "";
        for claim in alone(&section.findings) {
            if claim.contestant != last {
                last = &claim.contestant;
                let _ = writeln!(text, "\n  {last}");
            }
            let verdict = if claim.holds() { "holds".to_owned() } else { format!("{on}fails{off}") };
            let _ = writeln!(text, "    {verdict}  {}", wrapped(&claim.claim, 11));
            let _ = writeln!(text, "           here: {}", wrapped(&claim.ours, 17));
        }
        text.push('\n');
    }
    let claims = || sections.iter().flat_map(Section::claims);
    let held = claims().filter(|claim| claim.holds()).count();
    let _ = writeln!(text, "{held} of {} claims hold.", claims().count());
    text
}

/// Figures of the worst condition: a row per contestant, a miss with an exclamation mark.
fn write_grid(text: &mut String, grid: &Grid<'_>, (on, off): (&str, &str)) {
    let _ = writeln!(text, "\n  {}", wrapped(grid.title, 2));
    let name = grid.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut head = format!("    {:name$}", "");
    for column in &grid.columns {
        let _ = write!(head, "{column:>11} ");
    }
    let _ = writeln!(text, "{}", head.trim_end());
    for row in &grid.rows {
        let _ = write!(text, "    {:name$}", row.name);
        for entry in &row.entries {
            let (mark, on, off) = match entry.holds {
                Some(false) => ("!", on, off),
                Some(true) | None => (" ", "", ""),
            };
            let figure = format!("{}{mark}", entry.figure);
            let _ = write!(text, "{:1$}{on}{figure}{off}", "", 12_usize.saturating_sub(figure.chars().count()));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    if grid.rows.iter().flat_map(|row| &row.entries).any(|entry| entry.holds == Some(false)) {
        let _ = writeln!(text, "    !: fails");
    }
}

/// Text that continues below itself, this far from the left.
fn wrapped(text: &str, indent: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = write!(lines, "{line}\n{:indent$}", "");
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
        let section =
            Section { figure: "Fig 1", title: "Four flows", command: String::new(), contrast: Vec::new(), findings };
        let text = table(&[section], false);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!((text.matches("    holds  ").count(), text.matches("    fails  ").count()), (1, 1));
        assert!(text.ends_with("1 of 2 claims hold.\n"));
    }

    #[test]
    fn what_was_not_run_says_why() {
        let findings = Findings { setup: vec!["Not run: there is no java.".to_owned()], ..Findings::default() };
        let section =
            Section { figure: "Fig 4", title: "Uploads", command: String::new(), contrast: Vec::new(), findings };
        assert!(table(&[section], false).starts_with("Fig 4: Uploads\n  Not run: there is no java.\n"));
    }
}
