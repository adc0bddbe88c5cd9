//! `paceline kernel list`.

use std::collections::BTreeMap;

use paceline_kernel::{Holder, Kernel, MODULES, Module, holders};
use serde_json::{Value, json};

use crate::commands::live::{Column, Space, table};

/// A module, and how it stands here.
struct Row {
    module: &'static Module,
    /// Why it does not run on this kernel.
    reason: Option<String>,
    loaded: bool,
    holders: Vec<Holder>,
}

const COLUMNS: [Column; 5] = [
    Column::text("NAME", 0),
    Column::text("RUNS HERE", 0),
    Column::text("LOADED", 0),
    Column::text("CAN", 0),
    Column::text("WHAT IT IS", 0),
];

pub(super) fn run(json: bool) -> anyhow::Result<()> {
    let rows = rows(&Kernel::running(), holders());
    Ok(crate::print::out(&if json { as_json(&rows) } else { as_table(&rows) })?)
}

fn rows(kernel: &Kernel, mut holders: BTreeMap<String, Vec<Holder>>) -> Vec<Row> {
    let row = |module: &&'static Module| Row {
        module,
        reason: kernel.allows(module).err().map(|error| error.to_string()),
        loaded: module.is_loaded(),
        holders: holders.remove(module.name).unwrap_or_default(),
    };
    MODULES.iter().map(row).collect()
}

fn as_table(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        vec![
            row.module.name.to_owned(),
            if row.reason.is_none() { "yes" } else { "no" }.to_owned(),
            row.loaded_by(),
            row.module.abilities.join(", "),
            row.module.summary.to_owned(),
        ]
    };
    let heading = "TCP congestion controls that this paceline can load into the kernel";
    let mut text = table(heading, &COLUMNS, rows.iter().map(cells).collect(), Space::ANY);
    // What a kernel lacks, it often lacks for all of them.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        let Some(reason) = row.reason.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(row.module.name),
            None => reasons.push((reason, vec![row.module.name])),
        }
    }
    for (reason, names) in reasons {
        text += &format!("{}: {reason}\n", names.join(", "));
    }
    text
}

impl Row {
    fn loaded_by(&self) -> String {
        let ids: Vec<String> = self.holders.iter().map(|holder| holder.process.to_string()).collect();
        match (self.loaded, ids.len()) {
            (false, _) => "no".to_owned(),
            (true, 0) => "yes".to_owned(),
            (true, 1) => format!("by process {}", ids[0]),
            (true, _) => format!("by processes {}", ids.join(", ")),
        }
    }
}

fn as_json(rows: &[Row]) -> String {
    let object = |row: &Row| {
        let Row { module, reason, loaded, holders } = row;
        let holder = |holder: &Holder| json!({ "process": holder.process, "command": holder.words.join(" ") });
        json!({
            "name": module.name,
            "summary": module.summary,
            "abilities": module.abilities,
            "linux": module.since,
            "needs": module.needs.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "runs": reason.is_none(),
            "reason": reason,
            "loaded": loaded,
            "held_by": Value::from(holders.iter().map(holder).collect::<Vec<_>>()),
            "never_default": module.never_default,
        })
    };
    rows.iter().map(|row| format!("{}\n", object(row))).collect()
}
