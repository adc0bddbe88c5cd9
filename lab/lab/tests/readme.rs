//! What the README and the pages show is true: its scenario is read, the lists of controllers and start-ups and the table
//! of datapaths are those of the registry, the lists of fields those of records.
//! `UPDATE=1 cargo test -p paceline-lab readme` writes them again.

use std::fs;
use std::path::Path;

use paceline_cc::datapath::{DATAPATHS, Datapath, WAYS};
use paceline_cc::entry::StartUpEntry;
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::start_ups::START_UPS;
use paceline_cc::{Ability, Spec};
use paceline_lab::record::fields::Field;
use paceline_lab::record::{FlowRecord, FramesRecord, LinkRecord, Record, RouterRecord};
use paceline_lab::scenario::{Options, Source};

const README: &str = include_str!("../../../README.md");

#[test]
fn its_scenario_is_valid() {
    let (_, after) = README.split_once("```toml\n").expect("a scenario is shown");
    let (scenario, _) = after.split_once("```").expect("it ends");
    let plans = Source::from_text("README.md", scenario, Options::default()).plans().expect("it is valid");
    assert_eq!(plans.len(), 5);
    assert_eq!(plans[0].scenario.flows()[0].count, 2);
    assert_ne!(plans[0].drawn, plans[1].drawn, "the range is drawn for each run");
}

/// A row of a table.
fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {} |\n", cells.join(" | "))
}

fn table(heads: impl IntoIterator<Item = String>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let heads: Vec<String> = heads.into_iter().collect();
    let rule = format!("|{}\n", "---|".repeat(heads.len()));
    [row(heads), rule].into_iter().chain(rows.into_iter().map(row)).collect()
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

/// A window controller that asks for nothing itself, with the start-up.
fn with_start_up(start_up: &StartUpEntry) -> String {
    format!("reno:start={}", start_up.name)
}

/// One line for each reason why a datapath does not carry some of these, each with its name.
fn exceptions(all: impl Iterator<Item = (String, String)>) -> String {
    let all: Vec<(String, Spec)> =
        all.map(|(name, spec)| (name, spec.parse().expect("a controller, or a start-up of one"))).collect();
    let mut lines: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for datapath in DATAPATHS {
        for (name, spec) in &all {
            let Err(misfit) = datapath.carries(spec) else { continue };
            let name = code(name);
            match lines.iter_mut().find(|(over, why, _)| (*over, *why) == (datapath.name, misfit.why)) {
                Some((_, _, names)) => names.push(name),
                None => lines.push((datapath.name, misfit.why, vec![name])),
            }
        }
    }
    lines.iter().map(|(over, why, names)| format!("- {} over `@{over}`: {why}\n", names.join(", "))).collect()
}

fn controllers() -> String {
    let list: String = CONTROLLERS.iter().map(|entry| format!("- {}: {}\n", code(entry.name), entry.source)).collect();
    let not = exceptions(CONTROLLERS.iter().map(|entry| (entry.name.to_owned(), entry.name.to_owned())));
    format!("{list}\nEach runs over every datapath, except:\n\n{not}")
}

fn start_ups() -> String {
    let name = |entry: &StartUpEntry| format!("start={}", entry.name);
    let list: String = START_UPS.iter().map(|entry| format!("- {}: {}\n", code(&name(entry)), entry.summary)).collect();
    let takers: Vec<String> =
        CONTROLLERS.iter().filter(|entry| entry.start.is_some()).map(|entry| code(entry.name)).collect();
    let not = exceptions(START_UPS.iter().map(|entry| (name(entry), with_start_up(entry))));
    format!("{list}\nThose that take one: {}. Each runs over every datapath, except:\n\n{not}", takers.join(", "))
}

fn datapaths() -> String {
    let row = |datapath: &Datapath| {
        let worlds = if datapath.simulated { "simulator, `--real`" } else { "`--real`" };
        vec![code(&format!("@{}", datapath.name)), datapath.summary.to_owned(), worlds.to_owned()]
    };
    table(["datapath", "what", "where"].map(str::to_owned), DATAPATHS.iter().map(row))
}

fn abilities() -> String {
    let line = |datapath: &Datapath| {
        let offers: Vec<&str> =
            Ability::ALL.into_iter().filter(|ability| datapath.offers(*ability)).map(Ability::name).collect();
        let offers = if offers.is_empty() { "none".to_owned() } else { offers.join(", ") };
        format!("- {}: {offers} ({})\n", code(datapath.name), datapath.lives)
    };
    DATAPATHS.iter().chain(WAYS).map(line).collect()
}

/// A list; the unit is left out where the name ends in it.
fn fields(fields: &[Field]) -> String {
    let line = |field: &Field| {
        let is_said = ["_mbps", "_ms", "_us", "_s", "_mb"].iter().any(|unit| field.name.ends_with(unit));
        let unit = if is_said || field.unit.is_empty() { String::new() } else { format!(" ({})", field.unit) };
        format!("- {}{unit}: {}\n", code(field.name), field.what)
    };
    fields.iter().map(line).collect()
}

#[test]
fn its_tables_and_those_of_the_pages_are_those_of_the_code() {
    let tables = [
        ("README.md", "controllers", controllers()),
        ("README.md", "start-ups", start_ups()),
        ("README.md", "datapaths", datapaths()),
        ("docs/design/architecture.md", "abilities", abilities()),
        ("docs/guide/records.md", "record", fields(Record::FIELDS)),
        ("docs/guide/records.md", "flow", fields(FlowRecord::FIELDS)),
        ("docs/guide/records.md", "link", fields(LinkRecord::FIELDS)),
        ("docs/guide/records.md", "router", fields(RouterRecord::FIELDS)),
        ("docs/guide/records.md", "frames", fields(FramesRecord::FIELDS)),
    ];
    let mut stale = Vec::new();
    for (page, name, table) in tables {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = fs::read_to_string(&path).unwrap();
        let mark = format!("<!-- {name} -->\n");
        let (before, rest) = text.split_once(&mark).unwrap_or_else(|| panic!("{page}: no line {mark}"));
        let (shown, after) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{page}: no end of {mark}"));
        if shown == table {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, format!("{before}{mark}{table}<!-- end -->{after}")).unwrap();
        } else {
            stale.push(format!("{page}: {name}"));
        }
    }
    let how = "UPDATE=1 cargo test -p paceline-lab readme";
    assert!(stale.is_empty(), "not as in the code: {}; write them by: {how}", stale.join(", "));
}
