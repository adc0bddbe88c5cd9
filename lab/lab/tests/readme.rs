//! What the README and the pages show is true: its scenario is read, and the tables of controllers, start-ups and datapaths
//! are those of the registry, the tables of fields those of records. `UPDATE=1 cargo test -p paceline-lab readme` writes the
//! tables again.

use std::fs;
use std::path::Path;

use paceline_cc::datapath::{DATAPATHS, Datapath, WAYS};
use paceline_cc::entry::StartUpEntry;
use paceline_cc::registry::CONTROLLERS;
use paceline_cc::start_ups::START_UPS;
use paceline_cc::{Ability, Spec};
use paceline_lab::record::fields::Field;
use paceline_lab::record::{FlowRecord, LinkRecord, Record, RouterRecord};
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

/// "yes", or why not.
fn verdict(datapath: &'static Datapath, spec: &str) -> String {
    let spec: Spec = spec.parse().expect("the name of a controller, or a start-up of one");
    datapath.carries(&spec).map_or_else(|misfit| format!("no: {}", misfit.why), |()| "yes".to_owned())
}

/// A window controller that asks for nothing itself, with the start-up.
fn with_start_up(start_up: &StartUpEntry) -> String {
    format!("reno:start={}", start_up.name)
}

fn over_each(spec: &str) -> Vec<String> {
    DATAPATHS.iter().map(|datapath| verdict(datapath, spec)).collect()
}

fn heads(first: &[&str]) -> Vec<String> {
    let datapaths = DATAPATHS.iter().map(|datapath| code(&format!("@{}", datapath.name)));
    first.iter().map(|head| (*head).to_owned()).chain(datapaths).collect()
}

fn controllers() -> String {
    let row = |name: &str, source: &str| [vec![code(name), source.to_owned()], over_each(name)].concat();
    table(heads(&["controller", "source"]), CONTROLLERS.iter().map(|entry| row(entry.name, entry.source)))
}

fn start_ups() -> String {
    let row = |entry: &StartUpEntry| {
        [vec![code(&format!("start={}", entry.name)), entry.summary.to_owned()], over_each(&with_start_up(entry))]
            .concat()
    };
    let takers: Vec<String> =
        CONTROLLERS.iter().filter(|entry| entry.start.is_some()).map(|entry| code(entry.name)).collect();
    let table = table(heads(&["start-up", "what"]), START_UPS.iter().map(row));
    format!("{table}\nThose that take one: {}.\n", takers.join(", "))
}

fn datapaths() -> String {
    let row = |datapath: &Datapath| {
        let worlds = if datapath.simulated { "simulator, `--real`" } else { "`--real`" };
        vec![code(&format!("@{}", datapath.name)), datapath.summary.to_owned(), worlds.to_owned()]
    };
    table(["datapath", "what", "where"].map(str::to_owned), DATAPATHS.iter().map(row))
}

fn abilities() -> String {
    let heads = Ability::ALL.map(|ability| ability.name().to_owned());
    let heads = ["datapath".to_owned()].into_iter().chain(heads).chain(["lives in".to_owned()]);
    let row = |datapath: &Datapath| {
        let offers = Ability::ALL.map(|ability| if datapath.offers(ability) { "yes" } else { "no" }.to_owned());
        let name = [code(datapath.name)].into_iter();
        name.chain(offers).chain([datapath.lives.to_owned()]).collect()
    };
    table(heads, DATAPATHS.iter().chain(WAYS).map(row))
}

fn fields(fields: &[Field]) -> String {
    let row = |field: &Field| vec![code(field.name), field.unit.to_owned(), field.what.to_owned()];
    table(["field", "unit", "what"].map(str::to_owned), fields.iter().map(row)).replace("|  |", "| |")
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
