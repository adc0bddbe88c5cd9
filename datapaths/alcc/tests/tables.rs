//! The list of figures of `docs/guide/deploy.md` is made of what the code has.
//! `UPDATE=1 cargo test -p paceline-alcc --test tables` writes it again.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use paceline_alcc::figures::{FIGURES, Figure};

const PAGE: &str = "docs/guide/deploy.md";
const MARK: &str = "<!-- figures of a connection -->\n";

/// The key of a figure, in brackets its column in the table of `paceline top` and its series for Prometheus.
fn line(figure: &Figure) -> String {
    let code = |text: &str| format!("`{text}`");
    let names: Vec<String> =
        figure.title.map(code).into_iter().chain(figure.series().map(|name| code(&name))).collect();
    let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    format!("- `{}`{names}: {}\n", figure.name, figure.what.trim_end_matches('.'))
}

#[test]
fn the_figures_of_the_guide_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(MARK).unwrap_or_else(|| panic!("{PAGE}: no line {MARK}"));
    let (shown, after) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{PAGE}: no end of {MARK}"));
    let list: String = FIGURES.iter().map(line).collect();
    if shown != list && std::env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{before}{MARK}{list}<!-- end -->{after}")).unwrap();
    } else {
        assert_eq!(shown, list, "{PAGE}: write it again by: UPDATE=1 cargo test -p paceline-alcc --test tables");
    }
}
