//! The tables of `docs/guide/deploy.md` are made of what the code has. `UPDATE=1 cargo test -p paceline-alcc --test tables`
//! writes them again.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use paceline_alcc::figures::{FIGURES, Figure, Kind};
use paceline_alcc::options::{LOG, OPTIONS, Variable};
use paceline_alcc::{export, filter};

const PAGE: &str = "docs/guide/deploy.md";

fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |").replace("|  |", "| |");
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(heads.len()));
    [row(heads), rule].into_iter().chain(rows.map(row)).collect()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn figures() -> String {
    let row = |figure: &Figure| {
        let kind = match figure.kind {
            Kind::Label => "",
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        vec![
            code(figure.name),
            figure.unit.to_string(),
            figure.what.trim_end_matches('.').to_owned(),
            kind.to_owned(),
            figure.title.map(code).unwrap_or_default(),
            figure.series().map(|series| code(&series)).unwrap_or_default(),
        ]
    };
    table(&["key", "unit", "what", "kind", "in the table", "for Prometheus"], FIGURES.iter().map(row))
}

fn options() -> String {
    let row = |variable: Variable| {
        let option = format!("--{} {}", variable.option, variable.value);
        // Words that are not a value.
        let is_value = !["all", "none", "standard error"].contains(&variable.default);
        let default = if is_value { code(variable.default) } else { variable.default.to_owned() };
        vec![code(&option), code(variable.name), variable.what.trim_end_matches('.').to_owned(), default]
    };
    let of_engine = OPTIONS.iter().map(|option| option.variable);
    let all = of_engine.chain(filter::VARIABLES).chain(export::VARIABLES).chain([LOG]);
    table(&["option", "variable", "what", "default"], all.map(row))
}

#[test]
fn the_tables_of_the_guide_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let mut stale = Vec::new();
    for (name, table) in [("options", options()), ("figures of a connection", figures())] {
        let text = fs::read_to_string(&path).unwrap();
        let mark = format!("<!-- {name} -->\n");
        let (before, rest) = text.split_once(&mark).unwrap_or_else(|| panic!("{PAGE}: no line {mark}"));
        let (shown, after) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{PAGE}: no end of {mark}"));
        if shown == table {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, format!("{before}{mark}{table}<!-- end -->{after}")).unwrap();
        } else {
            stale.push(name);
        }
    }
    let how = "UPDATE=1 cargo test -p paceline-alcc --test tables";
    assert!(stale.is_empty(), "{PAGE}: not as in the code: {}; write them by: {how}", stale.join(", "));
}
